"""A layer of experts trained by expert parallelism: batchgemm multiplies, torch.distributed moves the tokens.

Each rank has its tokens and a part of the experts. A gate sends each token to two experts; all-to-all takes
it to their rank and brings the result back. The layer learns what a fixed network computes, for 200 steps,
three times from the same start: with batchgemm.torch.grouped_mm, with a loop of torch.matmul, and with that
loop in float64. What rounding alone does to the loss is the difference of the last two; that of the first
must be no more than a few times as much.

    export PYTHONPATH=../../python         of this folder
    python3 torch_moe_train.py                                one GPU, or the CPU where there is none
    torchrun --nproc_per_node=2 torch_moe_train.py            each rank its GPU, or its part of the CPU
    torchrun --nproc_per_node=2 torch_moe_train.py --bf16     under autocast
"""

import os
import sys

import torch
import torch.distributed as dist
import torch.nn.functional as F

from batchgemm.torch import grouped_mm

TOKENS, WIDTH, HIDDEN, EXPERTS, TOP, STEPS = 256, 32, 64, 8, 2, 200
NOISE = 4  # how many times the rounding of the plain loop


def grouped(x, offs, up, bias, down):
    """The experts: offs says where the rows of each end. Nothing waits for the device."""
    return grouped_mm(grouped_mm(x, up, offs=offs, bias=bias, activation="gelu"), down, offs=offs)


def looped(x, offs, up, bias, down):
    """The same, one expert at a time."""
    ends = offs.tolist()
    return torch.cat([F.gelu(x[a:b] @ up[e] + bias[e].to(x.dtype), approximate="tanh") @ down[e]
                      for e, (a, b) in enumerate(zip([0] + ends[:-1], ends))])


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


class Experts(torch.nn.Module):
    def __init__(self, multiply, dtype, device):
        super().__init__()
        self.multiply = multiply
        rank, ranks = dist.get_rank(), dist.get_world_size()
        mine = slice(rank * EXPERTS // ranks, (rank + 1) * EXPERTS // ranks)
        generator = torch.Generator().manual_seed(1)  # the same in all ranks

        def parameter(*shape, of=slice(None)):
            values = torch.randn(*shape, generator=generator) / shape[-2] ** 0.5
            return torch.nn.Parameter(values[of].to(device, dtype))

        self.gate = parameter(WIDTH, EXPERTS)
        self.up = parameter(EXPERTS, WIDTH, HIDDEN, of=mine)
        self.down = parameter(EXPERTS, HIDDEN, WIDTH, of=mine)
        self.bias = torch.nn.Parameter(torch.zeros_like(self.up[:, 0]))

    def forward(self, x):
        ranks = dist.get_world_size()
        weights, chosen = (x @ self.gate).to(x.dtype).softmax(1).topk(TOP)
        order = chosen.flatten().argsort(stable=True)  # by expert, and so by rank
        counts = chosen.flatten().bincount(minlength=EXPERTS)
        arriving = torch.empty_like(counts)  # from each rank, for each expert of mine
        dist.all_to_all_single(arriving, counts)
        arriving = arriving.view(ranks, -1)
        # all-to-all wants them on the host
        sent, received = counts.view(ranks, -1).sum(1).tolist(), arriving.sum(1).tolist()

        rows = AllToAll.apply(x[order // TOP], sent, received)
        experts = torch.arange(EXPERTS // ranks, device=x.device).repeat(ranks).repeat_interleave(
            arriving.flatten())
        by_expert = experts.argsort(stable=True)
        offs = arriving.sum(0).cumsum(0).int()
        y = self.multiply(rows[by_expert], offs, self.up, self.bias, self.down).to(x.dtype)
        back = AllToAll.apply(y[by_expert.argsort()], received, sent)
        return torch.zeros_like(x).index_add(0, order // TOP, back * weights.flatten()[order, None])


def train(multiply, dtype, device, autocast):
    """The loss of each step, of all ranks."""
    model = Experts(multiply, dtype, device)
    optimiser = torch.optim.Adam(model.parameters(), lr=3e-3)
    generator = torch.Generator().manual_seed(2)
    a, b = (torch.randn(WIDTH, WIDTH, generator=generator).to(device, dtype) / WIDTH**0.5 for _ in range(2))
    generator.manual_seed(3 + dist.get_rank())
    losses = []
    for _ in range(STEPS):
        x = torch.randn(TOKENS, WIDTH, generator=generator).to(device, dtype)
        with torch.autocast(device.type, torch.bfloat16, enabled=autocast):
            y = model(x)
        loss = F.mse_loss(y.to(dtype), torch.tanh(x @ a) @ b) / dist.get_world_size()
        optimiser.zero_grad()
        loss.backward()  # gradients of experts are of the tokens of all ranks
        dist.all_reduce(model.gate.grad)
        optimiser.step()
        total = loss.detach()
        dist.all_reduce(total)
        losses.append(total)
    return torch.stack(losses).double().cpu()


def main():
    local, gpus = int(os.environ.get("LOCAL_RANK", 0)), torch.cuda.device_count()
    device = torch.device("cuda", local) if gpus else torch.device("cpu")
    if gpus:
        torch.cuda.set_device(device)
    if "RANK" not in os.environ:
        os.environ.update(RANK="0", WORLD_SIZE="1", MASTER_ADDR="127.0.0.1", MASTER_PORT="29511")
    dist.init_process_group("nccl" if gpus else "gloo")
    bf16 = "--bf16" in sys.argv[1:]

    ours = train(grouped, torch.float32, device, bf16)
    plain = train(looped, torch.float32, device, bf16)
    exact = train(looped, torch.float64, device, False)
    noise, off = (plain - exact).abs().max().item(), (ours - exact).abs().max().item()
    if dist.get_rank() == 0:
        for step in range(0, STEPS, 50):
            print(f"step {step:3}: batchgemm {ours[step]:.6f}, loop {plain[step]:.6f}, float64 "
                  f"{exact[step]:.6f}")
        print(f"step {STEPS - 1}: batchgemm {ours[-1]:.6f}, loop {plain[-1]:.6f}, float64 {exact[-1]:.6f}")
        print(f"largest difference from float64: batchgemm {off:.2e}, loop {noise:.2e}", flush=True)
    dist.destroy_process_group()
    if not (off <= NOISE * noise and ours[-10:].mean() < ours[:10].mean() / 2):
        raise SystemExit("the loss does not follow that of the loop")


if __name__ == "__main__":
    main()
