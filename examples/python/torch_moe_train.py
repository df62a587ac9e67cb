"""A layer of experts trained by expert parallelism: batchgemm computes, torch.distributed moves the tokens.

Each rank has its tokens and a part of the experts. A router sends each token to two experts; all-to-all takes
it, once, to each rank that has one of them, with all of its choices. There experts() skips the choices of
other ranks by their numbers, and its sums go back. The layer learns what a fixed network computes, for 200
steps, three times from the same start: with batchgemm.torch.experts, with a loop over experts, and with that
loop in float64. What rounding alone does to the loss is the difference of the last two; that of the first
must be no more than a few times as much. It also prints how long each part of a step takes.

    export PYTHONPATH=../../python         of this folder
    python3 torch_moe_train.py                                one GPU, or the CPU where there is none
    torchrun --nproc_per_node=2 torch_moe_train.py            each rank its GPU, or its part of the CPU
    torchrun --nproc_per_node=2 torch_moe_train.py --bf16     under autocast
"""

import os
import sys
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F

from batchgemm.torch import experts

TOKENS, WIDTH, HIDDEN, EXPERTS, TOP, STEPS = 256, 32, 64, 8, 2, 200
NOISE = 4  # how many times the rounding of the plain loop


def looped(x, gate_up, down, index, weights, gate_up_bias):
    """What experts() gives, one expert at a time."""
    y = torch.zeros_like(x)
    for e, (into, bias, out) in enumerate(zip(gate_up, gate_up_bias, down)):
        at, choice = (index == e).nonzero(as_tuple=True)
        gate, up = F.linear(x[at], into, bias.to(x.dtype)).chunk(2, 1)
        rows = F.linear(F.silu(gate) * up, out) * weights[at, choice, None]
        y = y.index_add(0, at, rows.to(y.dtype))
    return y


class Parts:
    """How long the parts of a step take, on the device."""

    def __init__(self, device):
        self.cuda, self.marks, self.sums = device.type == "cuda", [], {}

    def mark(self, name):
        """The part of that name has ended."""
        event = torch.cuda.Event(enable_timing=True) if self.cuda else time.perf_counter()
        if self.cuda:
            event.record()
        self.marks.append((name, event))

    def add(self):
        """Adds up the parts of a step."""
        if self.cuda:
            torch.cuda.synchronize()
        for (_, begin), (name, end) in zip(self.marks, self.marks[1:]):
            took = begin.elapsed_time(end) if self.cuda else 1e3 * (end - begin)
            self.sums.setdefault(name, []).append(took)
        self.marks.clear()

    def __str__(self):
        medians = ((name, sorted(all)[len(all) // 2]) for name, all in self.sums.items())
        return ", ".join(f"{name} {median:.3f}" for name, median in medians)


class AllToAll(torch.autograd.Function):
    """Rows to other ranks: sent and received are how many for, and from, each."""

    @staticmethod
    def forward(ctx, x, sent, received):
        ctx.sent, ctx.received = sent, received
        y = x.new_empty(sum(received), x.shape[1])
        dist.all_to_all_single(y, x.contiguous(), received, sent)
        return y

    @staticmethod
    def backward(ctx, gy):
        return AllToAll.apply(gy, ctx.received, ctx.sent), None, None


class Layer(torch.nn.Module):
    def __init__(self, compute, dtype, device):
        super().__init__()
        self.compute, self.parts = compute, Parts(device)
        rank, ranks = dist.get_rank(), dist.get_world_size()
        self.mine = slice(rank * EXPERTS // ranks, (rank + 1) * EXPERTS // ranks)
        generator = torch.Generator().manual_seed(1)  # the same in all ranks

        def parameter(*shape, of=slice(None)):
            values = torch.randn(*shape, generator=generator) / shape[-1] ** 0.5
            return torch.nn.Parameter(values[of].to(device, dtype))

        self.router = parameter(EXPERTS, WIDTH)
        self.gate_up = parameter(EXPERTS, 2 * HIDDEN, WIDTH, of=self.mine)
        self.down = parameter(EXPERTS, WIDTH, HIDDEN, of=self.mine)
        self.bias = torch.nn.Parameter(torch.zeros_like(self.gate_up[..., 0]))

    def forward(self, x):
        ranks = dist.get_world_size()
        weights, index = F.linear(x, self.router).to(x.dtype).softmax(1).topk(TOP)
        rank_of = index * ranks // EXPERTS
        goes = torch.stack([(rank_of == rank).any(1) for rank in range(ranks)])
        rank, token = goes.nonzero(as_tuple=True)  # by rank
        counts = goes.sum(1)
        arriving = torch.empty_like(counts)
        dist.all_to_all_single(arriving, counts)
        sent, received = counts.tolist(), arriving.tolist()  # all-to-all wants them on the host
        self.parts.mark("routing")
        rows, theirs, chosen = (AllToAll.apply(t[token], sent, received) for t in (x, weights, index))
        self.parts.mark("dispatch")
        y = self.compute(rows, self.gate_up, self.down, chosen - self.mine.start, theirs,
                         gate_up_bias=self.bias)
        self.parts.mark("experts")
        back = AllToAll.apply(y.to(x.dtype), received, sent)
        y = torch.zeros_like(x).index_add(0, token, back)
        self.parts.mark("combine")
        return y


def train(compute, dtype, device, autocast):
    """The loss of each step, of all ranks, and how long parts took."""
    model = Layer(compute, dtype, device)
    optimiser = torch.optim.Adam(model.parameters(), lr=3e-3)
    generator = torch.Generator().manual_seed(2)
    a, b = (torch.randn(WIDTH, WIDTH, generator=generator).to(device, dtype) / WIDTH**0.5 for _ in range(2))
    generator.manual_seed(3 + dist.get_rank())
    losses = []
    for _ in range(STEPS):
        x = torch.randn(TOKENS, WIDTH, generator=generator).to(device, dtype)
        model.parts.mark("begin")
        with torch.autocast(device.type, torch.bfloat16, enabled=autocast):
            y = model(x)
        loss = F.mse_loss(y.to(dtype), torch.tanh(x @ a) @ b) / dist.get_world_size()
        optimiser.zero_grad()
        loss.backward()  # gradients of experts are of the tokens of all ranks
        dist.all_reduce(model.router.grad)
        model.parts.mark("backward")
        optimiser.step()
        model.parts.add()
        total = loss.detach()
        dist.all_reduce(total)
        losses.append(total)
    return torch.stack(losses).double().cpu(), model.parts


def main():
    local, gpus = int(os.environ.get("LOCAL_RANK", 0)), torch.cuda.device_count()
    device = torch.device("cuda", local) if gpus else torch.device("cpu")
    if gpus:
        torch.cuda.set_device(device)
    if "RANK" not in os.environ:
        os.environ.update(RANK="0", WORLD_SIZE="1", MASTER_ADDR="127.0.0.1", MASTER_PORT="29511")
    dist.init_process_group("nccl" if gpus else "gloo")
    bf16 = "--bf16" in sys.argv[1:]

    ours, parts = train(experts, torch.float32, device, bf16)
    plain, plain_parts = train(looped, torch.float32, device, bf16)
    exact, _ = train(looped, torch.float64, device, False)
    noise, off = (plain - exact).abs().max().item(), (ours - exact).abs().max().item()
    if dist.get_rank() == 0:
        for step in range(0, STEPS, 50):
            print(f"step {step:3}: batchgemm {ours[step]:.6f}, loop {plain[step]:.6f}, float64 "
                  f"{exact[step]:.6f}")
        print(f"step {STEPS - 1}: batchgemm {ours[-1]:.6f}, loop {plain[-1]:.6f}, float64 {exact[-1]:.6f}")
        print(f"largest difference from float64: batchgemm {off:.2e}, loop {noise:.2e}")
        print(f"ms of a step, medians: batchgemm {parts}; loop {plain_parts}", flush=True)
    dist.destroy_process_group()
    if not (off <= NOISE * noise and ours[-10:].mean() < ours[:10].mean() / 2):
        raise SystemExit("the loss does not follow that of the loop")


if __name__ == "__main__":
    main()
