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

from functools import partial

import timing
import torch
import torch.nn.functional as F

from batchgemm.torch import experts

EXPERTS, TOP, HIDDEN, INNER = 128, 8, 2048, 768
TOKENS = 1, 4, 16, 64, 256, 1024, 4096, 16384
STEPS = 1024, 4096, 16384
NODES, CALLS = 10, 20
BUSY = 5 * 10**7  # cycles of the device: about 27 ms
EAGER = partial(timing.eager, calls=CALLS)
MEASURES = {"graph": partial(timing.node, nodes=NODES), "eager": EAGER,
            "host": partial(timing.host, calls=CALLS, busy=BUSY)}


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


def memory(call):
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    call()
    return (torch.cuda.max_memory_allocated() - before) / 1e6


def show(tokens, what, times):
    ours, other = times.values()
    cells = "".join(f"{t:12.1f}" if isinstance(t, float) else f"{t[:20]:>24}" for t in (ours, other))
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
            for what, measure in MEASURES.items():
                show(tokens, what, timing.by_turns(measure, calls))
    for tokens in STEPS:
        x, gate_up, down, index, weights = layer(tokens)
        leaves, gy = [t.requires_grad_() for t in (x, gate_up, down, weights)], torch.randn_like(x)
        step = lambda run: lambda: torch.autograd.grad(run(x, gate_up, down, index, weights), leaves, gy)
        calls = {"batchgemm": step(experts), "torch": step(theirs)}
        show(tokens, "step", timing.by_turns(EAGER, calls))
        show(tokens, "step, memory", {name: memory(call) for name, call in calls.items()})


if __name__ == "__main__":
    main()
