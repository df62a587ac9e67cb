"""Times of the grouped product of a layer of experts, beside torch's own where it has one.

The layer is that of Qwen3-30B-A3B: 128 experts, 8 for each token, K 2048, N 1536, tokens sent at random. Times are in
microseconds, medians of 5:

    graph   a node of a CUDA graph of 20: the device alone
    eager   a call of 50 in a row, until the last is done: device or host, whichever takes longer
    host    a call of 50 while the device is busy with something else: the host alone

    PYTHONPATH=../../python python3 torch_bench.py [f32] [f16] [bf16]
"""

import statistics
import sys
import time

import torch

from batchgemm.torch import grouped_mm

EXPERTS, TOP, N, K = 128, 8, 1536, 2048
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


def times(multiply, x, w, offs):
    """The three times, or why there are none."""
    call = lambda: multiply(x, w, offs=offs)
    try:
        call()
        return "".join(f"{measure(call):10.1f}" for measure in (node, eager, host))
    except (RuntimeError, TypeError, ValueError, NotImplementedError) as refused:
        torch.cuda.synchronize()
        return f"  {str(refused).splitlines()[0][:60]}"


def main():
    torch.manual_seed(1)
    rival, name = theirs()
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}")
    print(f"{'type':5}{'tokens':>7}{'':12}{'graph':>10}{'eager':>10}{'host':>10}")
    for of in sys.argv[1:] or TYPES:
        w = torch.randn(EXPERTS, K, N, device="cuda", dtype=TYPES[of])
        for tokens in (1, 4, 16, 64, 256, 1024, 4096):
            chosen = torch.rand(tokens, EXPERTS, device="cuda").topk(TOP).indices
            offs = chosen.flatten().bincount(minlength=EXPERTS).cumsum(0).int()
            x = torch.randn(tokens * TOP, K, device="cuda", dtype=TYPES[of])
            print(f"{of:5}{tokens:7}  {'batchgemm':10}{times(grouped_mm, x, w, offs)}", flush=True)
            if rival:
                print(f"{of:5}{tokens:7}  {'torch':10}{times(rival, x, w, offs)}", flush=True)
    print(f"torch: {name}" if rival else "torch has no grouped product here")


if __name__ == "__main__":
    main()
