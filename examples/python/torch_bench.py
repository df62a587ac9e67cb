"""Times of the grouped product of a layer of experts, beside torch's own where it has one.

The product is that of Qwen3-30B-A3B: 128 experts, 8 for each token, K 2048, N 1536, tokens sent at random.
The layer is two of them with SiLU between, 2048 -> 768 -> 2048, forward and backward, with gradients to the
rows and both weights. Times are in microseconds, medians of 9, of both libraries in turn:

    graph   a node of a CUDA graph of 20: the device alone
    eager   a call of 50 in a row, until the last is done: device or host, whichever takes longer
    host    a call of 50 while the device is busy with something else: the host alone; the device's where
            calls wait

Of e4m3, which has a scale for each row and each column and a result in bf16, there is the product alone.
torch has two there: its sums are in fp32 with "fast accum" off.

    PYTHONPATH=../../python python3 torch_bench.py [f32] [f16] [bf16] [e4m3]
"""

import sys
from functools import partial

import timing
import torch
import torch.nn.functional as F

from batchgemm.torch import grouped_mm, scaled_grouped_mm

EXPERTS, TOP, N, K, HIDDEN = 128, 8, 1536, 2048, 768
TOKENS = 1, 4, 16, 64, 256, 1024, 4096
TYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
NODES, CALLS, BUSY = 20, 50, 2 * 10**8  # cycles, about 0.1 s
MEASURES = (partial(timing.node, nodes=NODES), partial(timing.eager, calls=CALLS),
            partial(timing.host, calls=CALLS, busy=BUSY))


def theirs():
    """torch's grouped product, and its name."""
    public = getattr(torch.nn.functional, "grouped_mm", None)
    if public:
        return public, "torch.nn.functional.grouped_mm"
    return getattr(torch, "_grouped_mm", None), "torch._grouped_mm"


def show(head, calls):
    """A line for each of the calls, by name, with the three times, each or why there is none."""
    lines = {name: f"{head}  {name:22}" for name in calls}
    for measure in MEASURES:
        for name, t in timing.by_turns(measure, calls).items():
            lines[name] += f"{t:10.1f}" if isinstance(t, float) else "  " + t
    print(*lines.values(), sep="\n", flush=True)


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
        call = lambda multiply: lambda: multiply(x, w, offs=offs)
        show(f"{kind:5}{tokens:7}",
             {"batchgemm": call(grouped_mm), **({"torch": call(rival)} if rival else {})})


def scaled_products():
    """w lies as torch wants it."""
    w = torch.randn(EXPERTS, N, K, device="cuda",
                    dtype=torch.bfloat16).to(torch.float8_e4m3fn).transpose(1, 2)
    scale_w, rival = torch.rand(EXPERTS, N, device="cuda"), getattr(torch, "_scaled_grouped_mm", None)
    for tokens in TOKENS:
        x, offs = routed(tokens, K, torch.bfloat16)
        args = x.to(torch.float8_e4m3fn), w, torch.rand(len(x), device="cuda"), scale_w
        calls = {"batchgemm": lambda: scaled_grouped_mm(*args, offs=offs)}
        if rival:
            calls["torch"] = lambda: rival(*args, offs=offs, out_dtype=torch.bfloat16)
            calls["torch, fast accum"] = lambda: rival(*args, offs=offs, out_dtype=torch.bfloat16,
                                                       use_fast_accum=True)
        show(f"e4m3 {tokens:7}", calls)
    print("torch: torch._scaled_grouped_mm" if rival else "torch has no grouped product of e4m3 here")


def layers(kind, dtype, rival):
    up = torch.randn(EXPERTS, K, HIDDEN, device="cuda", dtype=dtype).div_(K**0.5).requires_grad_()
    down = torch.randn(EXPERTS, HIDDEN, K, device="cuda", dtype=dtype).div_(HIDDEN**0.5).requires_grad_()
    for tokens in TOKENS:
        x, offs = routed(tokens, K, dtype)
        gy = torch.randn_like(x)
        x.requires_grad_()
        call = lambda layer: step(layer, offs, gy, x, up, down)
        show(f"{kind:5}{tokens:7}",
             {"layer batchgemm": call(ours), **({"layer torch": call(unfused(rival))} if rival else {})})


def main():
    torch.manual_seed(1)
    rival, name = theirs()
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}")
    print(f"{'type':5}{'tokens':>7}{'':24}{'graph':>10}{'eager':>10}{'host':>10}")
    for kind in sys.argv[1:] or (*TYPES, "e4m3"):
        if kind == "e4m3":
            scaled_products()
            continue
        products(kind, TYPES[kind], rival)
        layers(kind, TYPES[kind], rival)
    print(f"torch: {name}" if rival else "torch has no grouped product here")


if __name__ == "__main__":
    main()
