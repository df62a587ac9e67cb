"""Times of the grouped product of a layer of experts, beside torch's own where it has one.

The product is that of Qwen3-30B-A3B: 128 experts, 8 for each token, K 2048, N 1536, tokens sent at random. The layer is two
of them with SiLU between, 2048 -> 768 -> 2048, forward and backward, with gradients to the rows and both weights. Times are
in microseconds, medians of 5:

    graph   a node of a CUDA graph of 20: the device alone
    eager   a call of 50 in a row, until the last is done: device or host, whichever takes longer
    host    a call of 50 while the device is busy with something else: the host alone; it is the device's where calls wait

    PYTHONPATH=../../python python3 torch_bench.py [f32] [f16] [bf16]
"""

import statistics
import sys
import time

import torch
import torch.nn.functional as F

from batchgemm.torch import grouped_mm

EXPERTS, TOP, N, K, HIDDEN = 128, 8, 1536, 2048, 768
TOKENS = 1, 4, 16, 64, 256, 1024, 4096
TYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
NODES, CALLS, BUSY = 20, 50, 2 * 10**8  # cycles, about 0.1 s


def theirs():
    """torch's grouped product, and its name."""
    public = getattr(torch.nn.functional, "grouped_mm", None)
    return (public, "torch.nn.functional.grouped_mm") if public else (getattr(torch, "_grouped_mm", None), "torch._grouped_mm")


def medians(measure):
    return statistics.median(measure() for _ in range(5))


def node(call):
    """On a stream of its own, as torch wants it of what is captured."""
    side, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    with torch.cuda.stream(side):
        call()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        for _ in range(NODES):
            call()
    graph.replay()

    def measure():
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        graph.replay()
        end.record()
        end.synchronize()
        return 1e3 * start.elapsed_time(end) / NODES

    return medians(measure)


def eager(call):
    def measure():
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(CALLS):
            call()
        torch.cuda.synchronize()
        return 1e6 * (time.perf_counter() - start) / CALLS

    return medians(measure)


def host(call):
    def measure():
        torch.cuda.synchronize()
        torch.cuda._sleep(BUSY)
        start = time.perf_counter()
        for _ in range(CALLS):
            call()
        return 1e6 * (time.perf_counter() - start) / CALLS

    return medians(measure)


def times(call):
    """The three times, each or why there is none."""
    columns = []
    for measure in node, eager, host:
        try:
            columns.append(f"{measure(call):10.1f}")
        except (RuntimeError, TypeError, ValueError, NotImplementedError) as refused:
            columns.append(f"  {str(refused).splitlines()[0][:40]}")
            torch.cuda.synchronize()
    return "".join(columns)


def routed(tokens, width, dtype):
    """Rows of the tokens by expert, and where those of each expert end."""
    chosen = torch.rand(tokens, EXPERTS, device="cuda").topk(TOP).indices
    offs = chosen.flatten().bincount(minlength=EXPERTS).cumsum(0).int()
    return torch.randn(tokens * TOP, width, device="cuda", dtype=dtype), offs


def ours(x, up, down, offs):
    return grouped_mm(grouped_mm(x, up, offs=offs, activation="silu"), down, offs=offs)


def unfused(multiply):
    return lambda x, up, down, offs: multiply(F.silu(multiply(x, up, offs=offs)), down, offs=offs)


def step(layer, offs, gy, *leaves):
    return lambda: torch.autograd.grad(layer(*leaves, offs), leaves, gy)


def products(kind, dtype, rival):
    w = torch.randn(EXPERTS, K, N, device="cuda", dtype=dtype)
    for tokens in TOKENS:
        x, offs = routed(tokens, K, dtype)
        for name, multiply in ("batchgemm", grouped_mm), ("torch", rival):
            if multiply:
                print(f"{kind:5}{tokens:7}  {name:22}{times(lambda: multiply(x, w, offs=offs))}", flush=True)


def layers(kind, dtype, rival):
    up = torch.randn(EXPERTS, K, HIDDEN, device="cuda", dtype=dtype).div_(K**0.5).requires_grad_()
    down = torch.randn(EXPERTS, HIDDEN, K, device="cuda", dtype=dtype).div_(HIDDEN**0.5).requires_grad_()
    for tokens in TOKENS:
        x, offs = routed(tokens, K, dtype)
        gy = torch.randn_like(x)
        x.requires_grad_()
        for name, layer in ("batchgemm", ours), ("torch", rival and unfused(rival)):
            if layer:
                print(f"{kind:5}{tokens:7}  {'layer ' + name:22}{times(step(layer, offs, gy, x, up, down))}", flush=True)


def main():
    torch.manual_seed(1)
    rival, name = theirs()
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}")
    print(f"{'type':5}{'tokens':>7}{'':24}{'graph':>10}{'eager':>10}{'host':>10}")
    for kind in sys.argv[1:] or TYPES:
        products(kind, TYPES[kind], rival)
        layers(kind, TYPES[kind], rival)
    print(f"torch: {name}" if rival else "torch has no grouped product here")


if __name__ == "__main__":
    main()
