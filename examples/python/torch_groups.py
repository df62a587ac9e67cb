"""Products of groups of many rows, beside torch's and, where it is installed, DeepGEMM's: TFLOPS.

C is bf16, B is stored N x K, and numbers are normal. All are nodes of CUDA graphs, medians of 9, measured by
turns. DeepGEMM has two kinds: groups of multiples of 128 rows, and others, which it masks.

    PYTHONPATH=../../python python3 torch_groups.py
"""

from functools import partial

import timing
import torch

from batchgemm.torch import grouped_mm, scaled_grouped_mm

try:
    import deep_gemm
except ImportError:
    deep_gemm = None

SHAPES = ((4, 8192, 6144, 7168), (4, 8192, 7168, 3072), (4, 8192, 4096, 4096), (4, 8192, 4096, 2048),
          (8, 4096, 4096, 4096), (4, 8191, 4096, 4096), (6, 1024, 6144, 7168), (32, 192, 4096, 4096),
          (32, 20, 7168, 3072))  # groups, rows of each, N, K
BLOCK = 128


def deep(a, b, rows, scales=None):
    """DeepGEMM's product of groups of so many rows; scales are those of blocks of b."""
    (groups, n, k), padded = b.shape, -(-rows // BLOCK) * BLOCK
    c = torch.empty(groups, padded, n, device="cuda", dtype=torch.bfloat16)
    of = "bf16" if scales is None else "fp8"
    if rows == padded:
        run = getattr(deep_gemm, f"m_grouped_{of}_gemm_nt_contiguous")
        more = (torch.arange(groups, device="cuda", dtype=torch.int32).repeat_interleave(rows),)
        c = c.view(-1, n)
    else:
        run = getattr(deep_gemm, f"m_grouped_{of}_gemm_nt_masked")
        more = torch.full((groups,), rows, device="cuda", dtype=torch.int32), rows
        a = torch.randn(groups, padded, k, device="cuda").to(a.dtype)
    if scales is None:
        return lambda: run(a, b, c, *more)
    # laid as the kernel takes them: else each call does that
    of_a = deep_gemm.get_mn_major_tma_aligned_tensor(torch.rand(*a.shape[:-1], k // BLOCK, device="cuda"))
    return lambda: run((a, of_a), (b, scales), c, *more)


def kinds(groups, rows, n, k):
    """The calls of a shape, by name, of each kind."""
    scales = partial(torch.rand, device="cuda")
    offs = torch.arange(1, groups + 1, device="cuda", dtype=torch.int32) * rows
    a = torch.randn(groups * rows, k, device="cuda", dtype=torch.bfloat16)
    b = torch.randn(groups, n, k, device="cuda", dtype=torch.bfloat16)
    w = b.transpose(1, 2)
    halves = {"batchgemm": lambda: grouped_mm(a, w, offs=offs),
              "torch": lambda: torch._grouped_mm(a, w, offs=offs)}
    a8, b8 = a.to(torch.float8_e4m3fn), b.to(torch.float8_e4m3fn)
    w8 = b8.transpose(1, 2)
    of_a, of_b = scales(groups * rows, k // BLOCK), scales(groups, n // BLOCK, k // BLOCK)
    blocks = {"batchgemm": lambda: scaled_grouped_mm(a8, w8, of_a, of_b, offs=offs)}
    row, col = scales(groups * rows), scales(groups, n)
    by_row = {"batchgemm": lambda: scaled_grouped_mm(a8, w8, row, col, offs=offs),
              "torch": lambda: torch._scaled_grouped_mm(a8, w8, row, col, offs=offs, out_dtype=torch.bfloat16,
                                                        use_fast_accum=True)}
    if deep_gemm:
        halves["DeepGEMM"] = deep(a, b, rows)
        blocks["DeepGEMM"] = deep(a8, b8, rows, of_b)
    return {"bf16": halves, "e4m3, scales of blocks": blocks, "e4m3, scales of rows": by_row}


def main():
    torch.manual_seed(0)
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}")
    for shape in SHAPES:
        groups, rows, n, k = shape
        flops = 2 * groups * rows * n * k
        measure = partial(timing.node, nodes=1 if flops > 3e11 else 8)
        for kind, calls in kinds(*shape).items():
            times = timing.by_turns(measure, calls)
            cells = (t if isinstance(t, str) else round(flops / t / 1e6) for t in times.values())
            print(f"{groups} x {rows}, {n}, {k}  {kind}:",
                  ", ".join(f"{name} {cell}" for name, cell in zip(times, cells)), flush=True)


if __name__ == "__main__":
    main()
