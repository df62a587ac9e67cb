"""How torch_bench.py, torch_experts.py and torch_groups.py measure calls on a GPU, in microseconds."""

import statistics
import time

import torch

TIMES = 9


def node(call, nodes):
    """How to measure it as a node of a CUDA graph of so many, on a stream of its own, as torch wants it of
    what is captured."""
    side, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    with torch.cuda.stream(side):
        call()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        for _ in range(nodes):
            call()
    graph.replay()

    def measure():
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        graph.replay()
        end.record()
        end.synchronize()
        return 1e3 * start.elapsed_time(end) / nodes

    return measure


def eager(call, calls):
    """A call of so many in a row, until the last is done."""

    def measure():
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(calls):
            call()
        torch.cuda.synchronize()
        return 1e6 * (time.perf_counter() - start) / calls

    return measure


def host(call, calls, busy):
    """A call of so many while the device is busy for so many cycles."""

    def measure():
        torch.cuda.synchronize()
        torch.cuda._sleep(busy)
        start = time.perf_counter()
        for _ in range(calls):
            call()
        return 1e6 * (time.perf_counter() - start) / calls

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
        return str(refused).splitlines()[0][:40]


def by_turns(measure, calls):
    """The median of each call, by name, all measured by turns, or why there is none."""
    ready = {name: prepared(measure, call) for name, call in calls.items()}
    times = {name: [] for name, once in ready.items() if callable(once)}
    for _ in range(TIMES):
        for name in times:
            times[name].append(ready[name]())
    return {name: statistics.median(times[name]) if name in times else ready[name] for name in calls}
