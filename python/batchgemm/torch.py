"""batchgemm on PyTorch tensors: grouped products as registered operators.

    from batchgemm.torch import grouped_mm

    y = grouped_mm(x, w, offs=offs, bias=bias, activation="silu")   # x [rows, K], w [experts, K, N]

experts() is a whole layer of experts, from the router's choices on, Experts its module, and route() its
first step.

They work with autograd, forward mode (not experts), torch.func, torch.compile, CUDA graphs and autocast. On a
GPU they queue on the current stream: the host waits for nothing, and does not look at offs.
scaled_grouped_mm is for elements of 8 bits, int4_grouped_mm for weights of 4 bits. PyTorch from 2.4 on;
docs/pytorch.md is the manual.
"""

import torch
from torch._C import _is_any_autocast_enabled

from . import _lists, _memory
from ._abi import InvalidError, _call
from ._ends import check_call
from ._experts import Experts, experts
from ._gradients import W, X, product, without_eager
from ._invariant import set_batch_invariant
from ._optional import eager
from ._programs import check_columns
from ._routing import route

__all__ = ["Experts", "experts", "grouped_mm", "int4_grouped_mm", "matmul_list", "pack_fp4", "quantize_int4",
           "route", "scaled_grouped_mm", "set_batch_invariant", "unpack_fp4"]


def grouped_mm(x, w, offs=None, bias=None, activation=None, out_dtype=None, *, fill=None, check=False):
    """Products of groups, as torch.nn.functional.grouped_mm has them, with any strides.

    Args:
        x, w: both float32, bfloat16, float16 or float64 (on CUDA, CDNA and the CPU).
        offs: int32, on the device of x: where each group ends. Ends do not go down. None where x and w have
            three dimensions.
        bias: of the type of the result, where rows of the result have N elements, or None.
        activation: "relu", "gelu" (by tanh), "silu" or None; None where offs cuts depth.
        out_dtype: float32, or the type of x (default); with float64 that.
        fill: what rows (columns) of no group, or of refused groups, become: None (undefined), 0 or NaN. Where
            offs cuts depth it is for matrices of refused groups. In gradients they are 0.
        check: whether to wait for the device and raise an error where offs is wrong, before the product.

    Shapes:
        x [rows, K], w [groups, K, N]: offs cuts rows, as of experts. Result [rows, N].
        x [groups, M, K], w [K, columns]: offs cuts columns. Result [M, columns].
        x [M, depth], w [depth, N]: offs cuts depth, as of gradients of experts. Result [groups, M, N].
        x [groups, M, K], w [groups, K, N]: no offs. Result [groups, M, N].
        offs [groups], bias [N] or [groups, N]. There are up to 4096 groups where there is offs.

    Returns:
        The result. Sums, bias and activation are in fp32, and the result is rounded once. With gradients GELU
        and SiLU are torch's, of x @ w + bias in the type of the result.

    Raises:
        TypeError, ValueError: an argument is wrong; the text names it. On the CPU, or with check, that is so
            of offs, and the text names the group. On a GPU without check, groups from the first that ends
            wrongly on are refused, and nothing outside x, w and the result is read or written.

    Example:
        >>> import torch
        >>> from batchgemm.torch import grouped_mm
        >>> x, w = torch.ones(5, 4), torch.ones(2, 4, 3)
        >>> y = grouped_mm(x, w, offs=torch.tensor([2, 5], dtype=torch.int32), activation="relu")
        >>> y.shape, y[0, 0].item()
        (torch.Size([5, 3]), 4.0)
    """
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
        if not torch.compiler.is_dynamo_compiling():
            check_columns(x, w, offs, out_dtype)
        return product(w, x, offs, None, activation or "", out_dtype, fill, X | W).t()
    return product(x, w, offs, bias, activation or "", out_dtype, fill)


def scaled_grouped_mm(x, w, scale_x, scale_w, offs=None, bias=None, activation=None,
                      out_dtype=torch.bfloat16, zero_x=None, sums_w=None, *, fill=None, check=False):
    """grouped_mm() of elements of 8 bits, whose sums are multiplied by scales before bias and activation:

        y[i, j] = activation(scale_x[i] * scale_w[group, j] * (x[i] @ w[group, :, j]) + bias[group, j])

    Args:
        x, w: both float8_e4m3fn or both int8, of shapes and strides as of grouped_mm().
        scale_x, scale_w: float32. Either has one element for all of its operand, or a shape below.
        offs, bias, activation, fill, check: as of grouped_mm().
        out_dtype: bfloat16 (default), float16 or float32.
        zero_x: zero points of an x of int8: int32 from -128 to 127, of the shape of scale_x. x stands for
            x - zero_x. None where offs cuts columns.
        sums_w: with zero_x, the sums of w's columns: w.sum(-2, dtype=torch.int32), int32 [groups, N]. Where
            offs cuts depth they are of the rows of each group.

    Shapes:
        offs cuts rows: scale_x [rows], scale_w [groups, N] or [groups].
        offs cuts columns: scale_x [groups, M] or [groups], scale_w [columns].
        offs cuts depth: scale_x [groups, M] or [groups * M], scale_w [groups, N] or [groups * N].
        no offs: scale_x [groups, M] or [groups], scale_w [groups, N] or [groups].
        blocks of 128 k's, of both and of float8_e4m3fn, with kb = ceil(K / 128):
            offs cuts rows: scale_x [rows, kb], scale_w [groups, ceil(N / 128), kb].
            offs cuts columns: scale_x [groups, ceil(M / 128), kb], scale_w [columns, kb].
            no offs: scale_x [groups, M, kb], scale_w [groups, ceil(N / 128), kb].

    Returns:
        The result, of the shape that grouped_mm() has, of out_dtype.

    Raises:
        TypeError, ValueError: an argument is wrong; the text names it. Of offs as grouped_mm().
        NotImplementedError: in backward, where x, w or a scale needs a gradient. There is one to bias alone.

    Example:
        >>> import torch
        >>> from batchgemm.torch import scaled_grouped_mm
        >>> x, w = torch.ones(5, 4, dtype=torch.int8), torch.ones(2, 4, 3, dtype=torch.int8)
        >>> offs = torch.tensor([2, 5], dtype=torch.int32)
        >>> y = scaled_grouped_mm(x, w, torch.full((5,), 0.5), torch.ones(2, 3), offs=offs)
        >>> y.dtype, y[4, 2].item()
        (torch.bfloat16, 2.0)
    """
    for name, scale in ("scale_x", scale_x), ("scale_w", scale_w):
        if not isinstance(scale, torch.Tensor):
            raise TypeError(f"{name} is {type(scale).__name__}: it must be a tensor")
    if x.dim() == 3 and w.dim() == 2:
        for name, t in ("bias", bias), ("zero_x", zero_x), ("sums_w", sums_w):
            if t is not None:
                raise ValueError(f"{name}: none where offs cuts columns")
        if not torch.compiler.is_dynamo_compiling():
            check_columns(x, w, offs, out_dtype, scale_x, scale_w)
        turned = w.transpose(-2, -1), x.transpose(-2, -1), scale_w, scale_x
        return scaled_grouped_mm(*turned, offs, None, activation, out_dtype, fill=fill, check=check).t()
    more = scale_x, scale_w, zero_x, sums_w, None
    return _scaled((x, w, offs, bias, activation or "", out_dtype, fill, *more), check)


def int4_grouped_mm(x, w, scale_w, offs=None, bias=None, activation=None, out_dtype=None, n=None, *,
                    fill=None, check=False):
    """grouped_mm() of weights of 4 bits, packed as quantize_int4() and batchgemm.pack_int4() do.

    Eight weights share a word of 32 bits, along K. Of those of k, k+1, ..., k+7:

        bits  31..28  27..24  23..20  19..16  15..12  11..8  7..4  3..0
        k + ?      7       5       3       1       6      4     2     0

    Args:
        x: bfloat16 or float16.
        w: words of weights, int32, or the same bytes as uint8 [groups, K / 64, ld, 32].
        scale_w: words of batchgemm.group_words(), int32 or the same bits as float32: a weight q stands for
            scale * (q - zero). The second dimension says how many weights share one, 64 or 128.
        offs, bias, activation, out_dtype, fill, check: as of grouped_mm().
        n: N, where that is less than ld.

    Shapes:
        x [rows, K], w [groups, K / 64, ld, 8]: offs cuts rows, as of experts. Result [rows, N].
        x [groups, M, K], w [groups, K / 64, ld, 8]: no offs. Result [groups, M, N].
        scale_w [groups, K / 64, ld] or [groups, K / 128, ld]. ld is a multiple of 8.

    Returns:
        The result, as of grouped_mm(). Gradients are to x and bias. The one to x holds all weights as numbers
        of the type of x, groups * K * N of 16 bits, for as long as it is computed.

    Raises:
        TypeError, ValueError: an argument is wrong; the text names it. Of offs as grouped_mm().
        NotImplementedError: in backward, where scale_w needs a gradient.

    Example:
        >>> import torch
        >>> from batchgemm.torch import int4_grouped_mm, quantize_int4
        >>> w, scale_w = quantize_int4(torch.ones(2, 8, 128))    # [experts, N, K]
        >>> x, offs = torch.ones(5, 128, dtype=torch.bfloat16), torch.tensor([2, 5], dtype=torch.int32)
        >>> y = int4_grouped_mm(x, w, scale_w, offs=offs)
        >>> y.shape, y[0, 0].item()
        (torch.Size([5, 8]), 128.0)
    """
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
    """batchgemm.quantize_int4() of a tensor: w and scale_w of int4_grouped_mm(). It computes on the host.

    Args:
        weight: of any floating type, on any device.
        group: how many weights along K share a scale: 64 or 128. It divides K.

    Shapes:
        weight [..., N, K], as torch.nn.Linear stores it.

    Returns:
        w, int32 [..., K / 64, ld, 8], and scale_w, int32 [..., K / group, ld], on the device of weight. ld is
        N rounded up to a multiple of 8.

    Raises:
        TypeError: weight is not floating, or has fewer than two dimensions.
        InvalidError: group is neither 64 nor 128 or does not divide K, or a weight is NaN or infinite.

    Example:
        >>> import torch
        >>> from batchgemm.torch import quantize_int4
        >>> w, scale_w = quantize_int4(torch.ones(2, 8, 128), group=64)
        >>> w.shape, scale_w.shape
        (torch.Size([2, 2, 8, 8]), torch.Size([2, 2, 8]))
    """
    if not weight.is_floating_point() or weight.dim() < 2:
        raise TypeError(f"weight is {weight.dtype} of {weight.dim()} dimensions: "
                        "it must be floating, of two or more")
    *many, n, k = weight.shape
    _memory.check_group(k, group)
    numbers = weight.detach().to("cpu", torch.float32).contiguous()
    shapes = (n, k), _memory.panels(n, k), (k // group, _memory.least_ld(n))
    w, scale_w = (torch.empty((*many, *shape), dtype=torch.int32, device="cpu") for shape in shapes[1:])
    if numbers.numel():
        for matrix in zip(*(t.view(-1, *shape) for t, shape in zip((numbers, w, scale_w), shapes))):
            at, *to = (t.data_ptr() for t in matrix)
            _call("bg_quantize_int4", at, n, k, group, *to)
    return w.to(weight.device), scale_w.to(weight.device)


def pack_fp4(type, pairs, scales, scale=1.0):
    """batchgemm.pack_fp4() of tensors: weights and their scales for experts(). It computes on the host.

    Args:
        type: "mxfp4" or "nvfp4".
        pairs: uint8, two weights of e2m1 in each, the lower 4 bits first: *_blocks of GPT-OSS.
        scales: of "mxfp4" uint8 or float8_e8m0fnu, of "nvfp4" float8_e4m3fn, or uint8 of the same bits.
        scale: of "nvfp4", a number or a float32 tensor with one for each matrix. All scales are multiplied by
            it.

    Shapes:
        pairs [..., N, K / 2] or [..., N, K / 32, 16], scales [..., N, K / 32], of "nvfp4" [..., N, K / 16].

    Returns:
        w, int32 [..., K / 64, ld, 8], and its scales, of "mxfp4" uint8 [..., ceil(K / 128), ld, 4], of
        "nvfp4" float8_e4m3fn [..., 1 + K / 64, ld, 4], whose first row is the bits of scale as float32,
        on the device of pairs. ld is N rounded up to a multiple of 8.

    Raises:
        TypeError: pairs or scales are of other types.
        InvalidError: type is another, shapes do not fit, or K is no multiple of 64.

    Example:
        >>> import torch
        >>> from batchgemm.torch import pack_fp4
        >>> blocks = torch.zeros(2, 8, 4, 16, dtype=torch.uint8)
        >>> scales = torch.zeros(2, 8, 4, dtype=torch.uint8)
        >>> w, scale_w = pack_fp4("mxfp4", blocks, scales)
        >>> w.shape, scale_w.shape
        (torch.Size([2, 2, 8, 8]), torch.Size([2, 1, 8, 4]))
    """
    for name, t in ("pairs", pairs), ("scales", scales):
        if not isinstance(t, torch.Tensor) or t.element_size() != 1:
            raise TypeError(f"{name} must be a tensor of bytes, not {getattr(t, 'dtype', t.__class__)}")
    many, n, k, shared, groups = _memory.check_fp4(type, tuple(pairs.shape), tuple(scales.shape))
    scale = torch.as_tensor(scale, dtype=torch.float32, device="cpu").expand(many).reshape(-1)
    shapes = (n, k // 2), (n, k // shared), _memory.panels(n, k), groups
    bytes = [t.detach().to("cpu").contiguous().view(torch.uint8) for t in (pairs, scales)]
    w, scale_w = (torch.empty((*many, *shape), dtype=torch.int32, device="cpu") for shape in shapes[2:])
    if w.numel():
        for one, *matrix in zip(scale.tolist(), *(t.view(-1, *shape)
                                                  for t, shape in zip((*bytes, w, scale_w), shapes))):
            at = [t.data_ptr() for t in matrix]
            _call("bg_pack_fp4", type.encode(), *at[:2], one, n, k, *at[2:])
    scale_w = scale_w[..., None].view(torch.uint8 if type == "mxfp4" else torch.float8_e4m3fn)
    return w.to(pairs.device), scale_w.to(pairs.device)


def unpack_fp4(type, w, scale_w, n):
    """Unpacks what pack_fp4() made. It computes on the host.

    Args:
        type: "mxfp4" or "nvfp4".
        w, scale_w: weights and their scales, as of pack_fp4().
        n: N, the number of columns.

    Shapes:
        w [..., K / 64, ld, 8], scale_w [..., rows, ld, 4].

    Returns:
        pairs, uint8 [..., N, K / 2], scales, uint8 or float8_e4m3fn [..., N, K / 32] or of "nvfp4"
        [..., N, K / 16], and scale, float32 [...], on the device of w; of "mxfp4" scale is 1.

    Raises:
        TypeError: w or scale_w is of another type.
        InvalidError: type is another, or shapes do not fit.

    Example:
        >>> import torch
        >>> from batchgemm.torch import pack_fp4, unpack_fp4
        >>> pairs, scales = torch.arange(32, dtype=torch.uint8)[None], torch.full((1, 2), 120).byte()
        >>> back = unpack_fp4("mxfp4", *pack_fp4("mxfp4", pairs, scales), 1)
        >>> torch.equal(back[0], pairs), torch.equal(back[1], scales)
        (True, True)
    """
    if w.dtype != torch.int32 or scale_w.element_size() != 1:
        raise TypeError(f"w is {w.dtype}, scale_w is {scale_w.dtype}: they must be of int32, and of bytes")
    if w.dim() < 3 or w.shape[-1] != 8 or w.shape[-2] % 8 or not 0 <= n <= w.shape[-2]:
        raise InvalidError(f"w is {tuple(w.shape)}, n is {n}: it must be [..., K / 64, ld, 8], and ld a "
                           f"multiple of 8, at least n")
    many, k, least = tuple(w.shape[:-3]), _memory.PANEL * w.shape[-3], _memory.least_ld(n)
    shared, rows = _memory.fp4(type, w.shape[-2], k)
    if tuple(scale_w.shape) != (*many, *rows, 4):
        raise InvalidError(f"scale_w is {tuple(scale_w.shape)}: it must be {(*many, *rows, 4)}")
    given = [t.detach().to("cpu")[..., :least, :].contiguous() for t in (w, scale_w)]
    pairs, scales = (torch.empty((*many, n, k // by), dtype=torch.uint8, device="cpu") for by in (2, shared))
    scale = torch.ones(many, dtype=torch.float32, device="cpu")
    shapes = (*given[0].shape[-3:],), (*given[1].shape[-3:],), (n, k // 2), (n, k // shared), (1,)
    if w.numel() and n:
        for matrix in zip(*(t.view(-1, *shape) for t, shape in zip((*given, pairs, scales, scale), shapes))):
            words, groups, *to = (t.data_ptr() for t in matrix)
            _call("bg_unpack_fp4", type.encode(), words, groups, n, k, *to)
    return tuple(t.to(w.device) for t in (pairs, scales.view(scale_w.dtype), scale))


def matmul_list(xs, ws, out_dtype=None):
    """[x @ w for x, w in zip(xs, ws)] in one run, of matrices of any sizes: LoRA ranks, optimisers.

    It copies addresses to the device, so a CUDA graph cannot capture it.

    Args:
        xs, ws: lists of matrices, all float32, bfloat16, float16 or float64 (CUDA, CPU), on one
            device.
        out_dtype: float32, or the type of xs (default); with float64 that.

    Shapes:
        xs[i] [M, K], ws[i] [K, N]. Each i has its own M, N and K.

    Returns:
        A list of tensors [M, N].

    Raises:
        TypeError, ValueError: shapes, types or devices do not fit; the text names the product.
        RuntimeError: a CUDA graph is being captured.

    Example:
        >>> import torch
        >>> from batchgemm.torch import matmul_list
        >>> ys = matmul_list([torch.ones(2, 3), torch.ones(1, 5)], [torch.ones(3, 4), torch.ones(5, 2)])
        >>> [tuple(y.shape) for y in ys], ys[1][0, 0].item()
        ([(2, 4), (1, 2)], 5.0)
    """
    xs, ws = list(xs), list(ws)
    if not xs and not ws:
        return []  # an operator must have a tensor
    if xs and torch.is_autocast_enabled(xs[0].device.type):
        to = torch.get_autocast_dtype(xs[0].device.type)
        xs, ws = [x.to(to) for x in xs], [w.to(to) for w in ws]
    return _lists.operator(xs, ws, out_dtype)
