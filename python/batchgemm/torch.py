"""batchgemm on PyTorch tensors: grouped products as registered operators.

    from batchgemm.torch import grouped_mm

    y = grouped_mm(x, w, offs=offs, bias=bias, activation="silu")   # x [rows, K], w [experts, K, N]

Works with autograd, forward mode, torch.func, torch.compile, CUDA graphs and autocast, on the current
stream, without a wait and without a look at offs by the host, but on the CPU. scaled_grouped_mm is for
elements of 8 bits, int4_grouped_mm for weights of 4. docs/pytorch.md has what all this does and what it does
not. PyTorch from 2.4 on.
"""

import torch
from torch._C import _is_any_autocast_enabled

from . import _core, _lists
from ._gradients import W, X, product, without_eager
from ._optional import eager
from ._programs import check_call

__all__ = ["grouped_mm", "int4_grouped_mm", "matmul_list", "quantize_int4", "scaled_grouped_mm"]


def grouped_mm(x, w, offs=None, bias=None, activation=None, out_dtype=None, *, fill=None, check=False):
    """Products of groups, as torch.nn.functional.grouped_mm has them. offs is int32, on the device of x:
    where each group ends.

        x [rows, K]    w [groups, K, N]    offs cuts rows     -> [rows, N]      experts
        x [groups, M, K]    w [K, columns]    offs cuts columns  -> [M, columns]
        x [M, depth]   w [depth, N]        offs cuts depth    -> [groups, M, N]  gradients of experts
        x [groups, M, K]    w [groups, K, N]    no offs            -> [groups, M, N]

    x and w are both float32, bfloat16 or float16, with any strides. out_dtype: float32, or that of x
    (default). bias [N] or [groups, N], of the type of the result, and activation ("relu", "gelu" in its tanh
    form, "silu") are applied to sums in fp32, before these are rounded (with gradients "gelu" and "silu" are
    torch's, of the rounded x @ w + bias, which is kept); bias where rows of the result have N elements,
    activation where offs does not cut depth.

    Ends must not go down, nor be beyond what there is to cut. On the CPU others are a ValueError that names
    the group. On a GPU the first group that ends wrongly is refused, with all after it: nothing outside x,
    w and the result is read or written, and check=True waits for the device and raises that error in front
    of the product.

    fill is for what belongs to no group, or to one that is refused: rows (columns) of the result, or where
    offs cuts depth its matrices. It is None, which leaves them undefined, 0 or NaN. In gradients they are
    0."""
    if check:
        check_call(x, w, offs)
    if not (torch.compiler.is_dynamo_compiling() or _is_any_autocast_enabled()):
        y = eager.product(x, w, offs, bias, activation or "", out_dtype, fill, 0)
        if y is not None:
            return y
    kind = "cuda" if x.is_cuda else "cpu" if x.is_cpu else None  # x.device.type takes longer
    if kind and torch.is_autocast_enabled(kind):
        to = torch.get_autocast_dtype(kind)
        x, w, bias = x.to(to), w.to(to), None if bias is None else bias.to(out_dtype or to)
    if x.dim() == 3 and w.dim() == 2:
        if bias is not None:
            raise ValueError("bias: none where offs cuts columns")
        return product(w, x, offs, None, activation or "", out_dtype, fill, X | W).t()
    return product(x, w, offs, bias, activation or "", out_dtype, fill)


def scaled_grouped_mm(x, w, scale_x, scale_w, offs=None, bias=None, activation=None,
                      out_dtype=torch.bfloat16, zero_x=None, sums_w=None, *, fill=None, check=False):
    """grouped_mm() of elements of 8 bits: x and w are both float8_e4m3fn or both int8, of shapes and strides
    as there, and sums are multiplied by scales, float32, before bias and activation:

        y[i, j] = activation(scale_x[i] * scale_w[group, j] * (x[i] @ w[group, :, j]) + bias[group, j])

    A scale has one element for all of an operand; or [rows], or [columns], of one that offs cuts there;
    [groups] or [groups, M], and [groups] or [groups, N], of one with 3 dimensions; where offs cuts depth
    [groups, M] and [groups, N], or these flat. Or both are of blocks of 128 k's, of float8_e4m3fn where offs
    does not cut depth: with kb = ceil(K / 128) [rows, kb], or [groups, M, kb], of x, and
    [groups, ceil(N / 128), kb] of w, of which 128 columns share each; where offs cuts columns
    [groups, ceil(M / 128), kb] of x and [columns, kb] of w. gfx908 has no kernels for these. out_dtype:
    bfloat16, float16 or float32.

    zero_x are zero points of an x of int8, int32 from -128 to 127, of the shape of scale_x: x stands for
    x - zero_x. sums_w, int32 [groups, N], are the sums of w's columns then, w.sum(-2, dtype=torch.int32), and
    [groups, N] where offs cuts depth too, of the rows of each group. Sums of products lose
    zero_x[i] * sums_w[group, j] before scales. Neither is there where offs cuts columns.

    fill and check: as of grouped_mm(). Of gradients there is that to bias; to the others, where they need
    one, backward raises NotImplementedError."""
    for name, scale in ("scale_x", scale_x), ("scale_w", scale_w):
        if not isinstance(scale, torch.Tensor):
            raise TypeError(f"{name} is {type(scale).__name__}: it must be a tensor")
    if x.dim() == 3 and w.dim() == 2:
        for name, t in ("bias", bias), ("zero_x", zero_x), ("sums_w", sums_w):
            if t is not None:
                raise ValueError(f"{name}: none where offs cuts columns")
        turned = w.transpose(-2, -1), x.transpose(-2, -1), scale_w, scale_x
        return scaled_grouped_mm(*turned, offs, None, activation, out_dtype, fill=fill, check=check).t()
    more = scale_x, scale_w, zero_x, sums_w, None
    return _scaled((x, w, offs, bias, activation or "", out_dtype, fill, *more), check)


def int4_grouped_mm(x, w, scale_w, offs=None, bias=None, activation=None, out_dtype=None, n=None, *,
                    fill=None, check=False):
    """grouped_mm() of weights of 4 bits, packed as quantize_int4() and batchgemm.pack_int4() do:

        x [rows, K]    w [groups, K / 64, ld, 8]    offs cuts rows     -> [rows, N]      experts
        x [groups, M, K]    w [groups, K / 64, ld, 8]    no offs            -> [groups, M, N]

    ld is a multiple of 8, and n says N where that is less (default: ld). x is bfloat16 or float16. w is
    int32, or the same bytes as uint8 [groups, K / 64, ld, 32]; scale_w [groups, K / 64, ld] or
    [groups, K / 128, ld] has a word of batchgemm.group_words() for so many weights of a column, int32 or its
    bits as float32: these are scale * (weight - zero). bias, activation, out_dtype, fill and check are those
    of grouped_mm.

    Gradients are to x and bias: that to x is a product with the weights in the type of x, of which there are
    groups * K * N numbers of 16 bits for as long as it runs."""
    if not isinstance(scale_w, torch.Tensor):
        raise TypeError(f"scale_w is {type(scale_w).__name__}: it must be a tensor")
    more = None, scale_w, None, None, n
    return _scaled((x, w, offs, bias, activation or "", out_dtype, fill, *more), check)


def _scaled(call, check):
    """A product with scales, of the arguments of its operator."""
    if check:
        check_call(*call[:3])
    y = None if torch.compiler.is_dynamo_compiling() else eager.scaled(*call)
    return without_eager(*call) if y is None else y


def quantize_int4(weight, group=128):
    """weight [..., N, K], of any floating type, as w [..., K / 64, ld, 8] and scale_w [..., K / group, ld]
    of int4_grouped_mm(), on the same device, with the least ld: batchgemm.quantize_int4() on the host."""
    if not weight.is_floating_point() or weight.dim() < 2:
        raise TypeError(f"weight is {weight.dtype} of {weight.dim()} dimensions: "
                        "it must be floating, of two or more")
    *many, n, k = weight.shape
    _core.check_group(k, group)
    numbers = weight.detach().to("cpu", torch.float32).contiguous()
    shapes = (n, k), _core.panels(n, k), (k // group, _core.least_ld(n))
    w, scale_w = (torch.empty((*many, *shape), dtype=torch.int32, device="cpu") for shape in shapes[1:])
    if numbers.numel():
        for matrix in zip(*(t.view(-1, *shape) for t, shape in zip((numbers, w, scale_w), shapes))):
            at, *to = (t.data_ptr() for t in matrix)
            _core._call("bg_quantize_int4", at, n, k, group, *to)
    return w.to(weight.device), scale_w.to(weight.device)


def matmul_list(xs, ws, out_dtype=None):
    """[x @ w for x, w in zip(xs, ws)] of matrices of any sizes, in one run: LoRA ranks, optimisers. Types as
    in grouped_mm, the same in all. It copies addresses to the device, and so cannot be captured in a CUDA
    graph."""
    xs, ws = list(xs), list(ws)
    if not xs and not ws:
        return []  # an operator must have a tensor
    if xs and torch.is_autocast_enabled(xs[0].device.type):
        to = torch.get_autocast_dtype(xs[0].device.type)
        xs, ws = [x.to(to) for x in xs], [w.to(to) for w in ws]
    return _lists.operator(xs, ws, out_dtype)
