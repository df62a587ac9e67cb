"""A layer of experts on PyTorch tensors, without a copy and without a wait.

Each of many tokens goes to one expert: expert e computes Y[first:last] =
X[first:last] @ W[e], and the number of its tokens differs from e to e. The tensors
are PyTorch's, the work goes to PyTorch's current stream, and the results are
compared with torch.matmul in float64.

    export PYTHONPATH=../../python         of this folder
    python3 torch_moe.py                                one GPU
    torchrun --nproc_per_node=2 torch_moe.py            each rank its GPU and half of the experts
"""

import os

import torch
import torch.distributed as dist

import batchgemm

TOKENS, WIDTH, HIDDEN, EXPERTS, STEPS = 4096, 512, 768, 16, 3


def route(generator, experts):
    """Tokens of each expert, some far more popular than others; the last gets none."""
    draws = torch.rand(TOKENS, generator=generator) ** 3 * (experts - 1)
    return torch.bincount(draws.long(), minlength=experts).tolist()


def problems(loads, mine):
    """The products of the experts in mine; the tokens of all lie side by side."""
    batch, first = [], 0
    for e, load in enumerate(loads):
        if e in mine:
            batch.append(batchgemm.problem(load, HIDDEN, WIDTH, a=first * WIDTH, b=e * WIDTH * HIDDEN,
                                           c=first * HIDDEN))
        first += load
    return batch


def wrap(device, tensor):
    assert tensor.is_contiguous() and tensor.dtype == torch.float32
    return device.wrap(tensor.data_ptr(), tensor.numel())


def run(device, program, x, w, y):
    """Queues the products after what PyTorch has queued. Wrapping copies nothing, and the
    buffers may be closed before the work is done."""
    with wrap(device, x) as a, wrap(device, w) as b, wrap(device, y) as c:
        program.run(a, b, c)


def worst(loads, x, w, y):
    """The largest error as a fraction of its bound in fp32, 2(K+2) 2^-24 sum|a||b|."""
    x, w, ratios, first = x.double(), w.double(), [], 0
    for e, load in enumerate(loads):
        rows = slice(first, first + load)
        if load:
            bound = 2 * (WIDTH + 2) * 2.0**-24 * torch.matmul(x[rows].abs(), w[e].abs())
            error = (y[rows].double() - torch.matmul(x[rows], w[e])).abs()
            ratios.append((error / bound).max())
        first += load
    return torch.stack(ratios).max().item()  # NaN if there is one


def check(name, ratio):
    print(f"{name}: largest error {ratio:.3f} of its bound", flush=True)
    if not ratio <= 1:
        raise SystemExit(f"{name}: wrong result")


def captured(device, program, stream, loads, x, w):
    """The run as a part of a CUDA graph of PyTorch."""
    y, scaled = torch.full((TOKENS, HIDDEN), float("nan"), device="cuda"), torch.empty_like(x)
    graph = torch.cuda.CUDAGraph()
    with wrap(device, scaled) as a, wrap(device, w) as b, wrap(device, y) as c:
        program.run(a, b, c)  # once before: what is loaded late is loaded now
        with torch.cuda.graph(graph, stream=stream):
            torch.mul(x, 2, out=scaled)
            program.run(a, b, c)
    for _ in range(STEPS):
        x.uniform_(-1, 1)
        y.fill_(float("nan"))
        graph.replay()
        check("CUDA graph", worst(loads, 2 * x, w, y))


def main():
    rank, ranks = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    local = int(os.environ.get("LOCAL_RANK", 0))
    torch.cuda.set_device(local)
    if ranks > 1:
        dist.init_process_group("nccl", device_id=torch.device("cuda", local))
    mine = range(rank * EXPERTS // ranks, (rank + 1) * EXPERTS // ranks)
    generator = torch.Generator().manual_seed(1)  # the same in all ranks
    loads = route(generator, EXPERTS)
    w = torch.empty(EXPERTS, WIDTH, HIDDEN).uniform_(-1, 1, generator=generator).cuda()

    opened = batchgemm.open("cuda", local)
    for stream in torch.cuda.default_stream(), torch.cuda.Stream():
        with torch.cuda.stream(stream), opened.on_stream(torch.cuda.current_stream().cuda_stream) as device:
            with device.plan(problems(loads, mine)) as plan:
                program = device.prepare(plan)
            for step in range(STEPS):
                host = torch.empty(TOKENS, WIDTH).uniform_(-1, 1, generator=generator).pin_memory()
                x = host.to("cuda", non_blocking=True) / 2  # queued before the products
                y = torch.zeros(TOKENS, HIDDEN, device="cuda")
                run(device, program, x, w, y)
                if ranks > 1:
                    dist.all_reduce(y)  # after them: the other ranks' experts
                check(f"rank {rank}, stream {stream.cuda_stream:#x}, step {step}", worst(loads, x, w, y))
            if ranks == 1 and stream.cuda_stream:  # the default stream cannot be captured
                captured(device, program, stream, loads, x, w)
    opened.close()
    if ranks > 1:
        dist.destroy_process_group()
    print(f"rank {rank}: ok", flush=True)


if __name__ == "__main__":
    main()
