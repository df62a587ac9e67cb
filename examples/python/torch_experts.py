"""Times of a whole layer of experts, beside one that is written as transformers writes it, with torch's
grouped product.

The layer is Qwen3-30B-A3B's: 128 experts, 8 for each token, hidden 2048, intermediate 768, gated SiLU, bf16,
weights as transformers stores them, tokens sent at random. Times are in microseconds, medians of 9, of both
by turns:

    graph   a node of a CUDA graph of 10: the device alone
    eager   a call of 20 in a row, until the last is done: device or host, whichever takes longer
    host    a call of 20 while the device is busy with something else: the host alone

These are calls under torch.no_grad(), as of inference. A step is forward and backward, eager, with gradients
to the tokens, both weights and the routing weights; memory is the most that it allocates beside what it is
given, in MB.

    PYTHONPATH=../../python python3 torch_experts.py
"""

import statistics
import time

import torch
import torch.nn.functional as F

from batchgemm.torch import experts

EXPERTS, TOP, HIDDEN, INNER = 128, 8, 2048, 768
TOKENS = 1, 4, 16, 64, 256, 1024, 4096, 16384
STEPS = 1024, 4096, 16384
NODES, CALLS, TIMES = 10, 20, 9
BUSY = 5 * 10**7  # cycles of the device: about 27 ms


def theirs(x, gate_up, down, index, weights):
    """The layer by torch: sort, gather, two grouped products, SiLU, weights, sum."""
    multiply = getattr(F, "grouped_mm", None) or torch._grouped_mm
    chosen = index.reshape(-1)
    order = chosen.argsort()
    counts = torch.histc(chosen[order].int(), bins=EXPERTS, min=0, max=EXPERTS - 1)
    offs = counts.cumsum(0, dtype=torch.int32)
    gate, up = multiply(x[order // TOP], gate_up.transpose(1, 2), offs=offs).chunk(2, -1)
    rows = multiply(F.silu(gate) * up, down.transpose(1, 2), offs=offs)
    rows = (rows * weights.reshape(-1)[order][:, None])[order.argsort()]
    return rows.view(-1, TOP, HIDDEN).sum(1).to(x.dtype)


def node(call):
    """How to measure it on a stream of its own, as torch wants it of what is captured."""
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

    return measure


def eager(call):
    def measure():
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(CALLS):
            call()
        torch.cuda.synchronize()
        return 1e6 * (time.perf_counter() - start) / CALLS

    return measure


def host(call):
    def measure():
        torch.cuda.synchronize()
        torch.cuda._sleep(BUSY)
        start = time.perf_counter()
        for _ in range(CALLS):
            call()
        return 1e6 * (time.perf_counter() - start) / CALLS

    return measure


def prepared(measure, call):
    """measure(call), run once, or why that cannot be."""
    try:
        call()
        once = measure(call)
        once()
        return once
    except (RuntimeError, TypeError, ValueError, NotImplementedError, AttributeError) as refused:
        torch.cuda.synchronize()
        return str(refused).splitlines()[0][:20]


def by_turns(measure, calls):
    """The median of each call, by name, or why there is none."""
    ready = {name: prepared(measure, call) for name, call in calls.items()}
    times = {name: [] for name, once in ready.items() if callable(once)}
    for _ in range(TIMES):
        for name in times:
            times[name].append(ready[name]())
    return {name: statistics.median(times[name]) if name in times else ready[name] for name in calls}


def memory(call):
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    call()
    return (torch.cuda.max_memory_allocated() - before) / 1e6


def show(tokens, what, times):
    ours, other = times.values()
    cells = "".join(f"{t:12.1f}" if isinstance(t, float) else f"{t:>24}" for t in (ours, other))
    both = isinstance(ours, float) and isinstance(other, float)
    print(f"{tokens:7} {what:16}{cells}{other / ours:8.2f}" if both else f"{tokens:7} {what:16}{cells}",
          flush=True)


def layer(tokens):
    """Tokens, weights of experts and a router's choices."""
    new = lambda *shape: torch.randn(shape, device="cuda", dtype=torch.bfloat16)
    x, gate_up = new(tokens, HIDDEN), new(EXPERTS, 2 * INNER, HIDDEN).div_(HIDDEN**0.5)
    down = new(EXPERTS, HIDDEN, INNER).div_(INNER**0.5)
    scores, index = torch.rand(tokens, EXPERTS, device="cuda").topk(TOP)
    return x, gate_up, down, index, scores / scores.sum(1, keepdim=True)


def main():
    torch.manual_seed(1)
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}")
    print(f"{'tokens':>7} {'':16}{'batchgemm':>12}{'torch':>12}{'ratio':>8}")
    for tokens in TOKENS:
        given = layer(tokens)
        calls = {"batchgemm": lambda: experts(*given), "torch": lambda: theirs(*given)}
        with torch.no_grad():
            for what, measure in ("graph", node), ("eager", eager), ("host", host):
                show(tokens, what, by_turns(measure, calls))
    for tokens in STEPS:
        x, gate_up, down, index, weights = layer(tokens)
        leaves, gy = [t.requires_grad_() for t in (x, gate_up, down, weights)], torch.randn_like(x)
        step = lambda run: lambda: torch.autograd.grad(run(x, gate_up, down, index, weights), leaves, gy)
        calls = {"batchgemm": step(experts), "torch": step(theirs)}
        show(tokens, "step", by_turns(eager, calls))
        show(tokens, "step, memory", {name: memory(call) for name, call in calls.items()})


if __name__ == "__main__":
    main()
