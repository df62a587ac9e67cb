"""batchgemm on PyTorch tensors: grouped products as registered operators.

    from batchgemm.torch import grouped_mm

    y = grouped_mm(x, w, offs=offs, bias=bias, activation="silu")     # experts: x [rows, K], w [experts, K, N]

Works with autograd, torch.compile, CUDA graphs and autocast, on the current stream, without a wait and without a
look at offs by the host. scaled_grouped_mm is for elements of 8 bits, int4_grouped_mm for weights of 4, both without
gradients. docs/pytorch.md has what all this does and what it does not. PyTorch from 2.4 on.
"""

import ctypes
import functools
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch._C import (_are_functorch_transforms_active, _is_tracing, _is_any_autocast_enabled, _len_torch_dispatch_stack,
                      _len_torch_function_stack)
from torch._C._autograd import _profiler_enabled
from torch.utils import _device

from . import _core
from ._core import _check, _run_at, problem
from ._optional import eager
from ._programs import ALIGN, SCALED, TYPES, Matrix, call_of, check_types, matrices, meta, programs_of, sizes_of

__all__ = ["grouped_mm", "int4_grouped_mm", "matmul_list", "quantize_int4", "scaled_grouped_mm"]

_OF_TORCH = {"gelu": functools.partial(F.gelu, approximate="tanh"), "silu": F.silu}  # with gradients: these need x @ w + bias
_DERIVATIVES = {  # times the gradient of the result, of that or, of torch's, of x @ w + bias
    "relu": functools.partial(torch.ops.aten.threshold_backward.default, threshold=0), "silu": torch.ops.aten.silu_backward.default,
    "gelu": functools.partial(torch.ops.aten.gelu_backward.default, approximate="tanh")}
_PLAIN = {torch.Tensor, torch.nn.Parameter, type(None)}
_WATCHERS = (_len_torch_dispatch_stack, _is_tracing, _are_functorch_transforms_active, _profiler_enabled)  # false: none is there
_X, _W = 1, 2  # which of a product is turned: has its last two dimensions exchanged


def grouped_mm(x, w, offs=None, bias=None, activation=None, out_dtype=None):
    """Products of groups, as torch.nn.functional.grouped_mm has them. offs is int32, on the device of x: where each
    group ends.

        x [rows, K]    w [groups, K, N]    offs cuts rows     -> [rows, N]      experts
        x [groups, M, K]    w [K, columns]    offs cuts columns  -> [M, columns]
        x [M, depth]   w [depth, N]        offs cuts depth    -> [groups, M, N]  gradients of experts
        x [groups, M, K]    w [groups, K, N]    no offs            -> [groups, M, N]

    x and w are both float32, bfloat16 or float16, with any strides. out_dtype: float32, or that of x (default).
    bias [N] or [groups, N], of the type of the result, and activation ("relu", "gelu" in its tanh form, "silu") are
    applied to sums in fp32, before these are rounded (with gradients "gelu" and "silu" are torch's, of the rounded x @ w +
    bias, which is kept); bias where rows of the result have N elements, activation where offs does not cut depth. Rows,
    or columns, behind the last end are undefined in the result, and 0 in gradients."""
    if not (torch.compiler.is_dynamo_compiling() or _is_any_autocast_enabled()):
        y = eager.product(x, w, offs, bias, activation or "", out_dtype, False, 0)
        if y is not None:
            return y
    kind = "cuda" if x.is_cuda else "cpu" if x.is_cpu else None  # x.device.type takes longer
    if kind and torch.is_autocast_enabled(kind):
        to = torch.get_autocast_dtype(kind)
        x, w, bias = x.to(to), w.to(to), None if bias is None else bias.to(out_dtype or to)
    if x.dim() == 3 and w.dim() == 2:
        if bias is not None:
            raise ValueError("bias: none where offs cuts columns")
        return _product(w, x, offs, None, activation or "", out_dtype, False, _X | _W).t()
    return _product(x, w, offs, bias, activation or "", out_dtype, False)


def scaled_grouped_mm(x, w, scale_x, scale_w, offs=None, bias=None, activation=None, out_dtype=torch.bfloat16, zero_x=None, sums_w=None):
    """grouped_mm() of elements of 8 bits: x and w are both float8_e4m3fn or both int8, of shapes and strides as there, and sums
    are multiplied by scales, float32, in front of bias and activation:

        y[i, j] = activation(scale_x[i] * scale_w[group, j] * (x[i] @ w[group, :, j]) + bias[group, j])

    A scale has one element for all of an operand; or [rows], or [columns], of one that offs cuts there; [groups] or
    [groups, M], and [groups] or [groups, N], of one with 3 dimensions; where offs cuts depth [groups, M] and [groups, N],
    or these flat. Or both are of blocks of 128 k's, of float8_e4m3fn where offs does not cut depth: with kb = ceil(K / 128)
    [rows, kb], or [groups, M, kb], of x, and [groups, ceil(N / 128), kb] of w, of which 128 columns share each; where offs cuts
    columns [groups, ceil(M / 128), kb] of x and [columns, kb] of w. gfx908 has no kernels for these. out_dtype: bfloat16, float16 or float32. There are no gradients, to scales and bias neither.

    zero_x are zero points of an x of int8, int32 from -128 to 127, of the shape of scale_x: x stands for x - zero_x. sums_w, int32
    [groups, N], are the sums of w's columns then, w.sum(-2, dtype=torch.int32), and [groups, N] where offs cuts depth too, of the rows of each
    group. Sums of products lose zero_x[i] * sums_w[group, j] in front of scales. Neither is there where offs cuts columns."""
    for name, scale in ("scale_x", scale_x), ("scale_w", scale_w):
        if not isinstance(scale, torch.Tensor):
            raise TypeError(f"{name} is {type(scale).__name__}: it must be a tensor")
    if x.dim() == 3 and w.dim() == 2:
        for name, t in ("bias", bias), ("zero_x", zero_x), ("sums_w", sums_w):
            if t is not None:
                raise ValueError(f"{name}: none where offs cuts columns")
        return scaled_grouped_mm(w.transpose(-2, -1), x.transpose(-2, -1), scale_w, scale_x, offs, None, activation, out_dtype).t()
    if not torch.compiler.is_dynamo_compiling():
        y = eager.scaled(x, w, offs, bias, activation or "", out_dtype, False, scale_x, scale_w, zero_x, sums_w, None)
        if y is not None:
            return y
    tensors = x, w, scale_x, scale_w, offs, bias
    return _undifferentiated(_scaled_operator, _scaled_grouped_mm, tensors, activation or "", out_dtype, more=(zero_x, sums_w))


def int4_grouped_mm(x, w, scale_w, offs=None, bias=None, activation=None, out_dtype=None, n=None):
    """grouped_mm() of weights of 4 bits, packed as quantize_int4() and batchgemm.pack_int4() do:

        x [rows, K]    w [groups, K / 64, ld, 8]    offs cuts rows     -> [rows, N]      experts
        x [groups, M, K]    w [groups, K / 64, ld, 8]    no offs            -> [groups, M, N]

    ld is a multiple of 8, and n says N where that is less (default: ld). x is bfloat16 or float16. w is int32, or the same bytes
    as uint8 [groups, K / 64, ld, 32]; scale_w [groups, K / 64, ld] or [groups, K / 128, ld] has a word of batchgemm.group_words()
    for so many weights of a column, int32 or its bits as float32: these are scale * (weight - zero). bias, activation and out_dtype
    are those of grouped_mm. There are no gradients, to bias neither."""
    if not isinstance(scale_w, torch.Tensor):
        raise TypeError(f"scale_w is {type(scale_w).__name__}: it must be a tensor")
    if not torch.compiler.is_dynamo_compiling():
        y = eager.scaled(x, w, offs, bias, activation or "", out_dtype, False, None, scale_w, None, None, n)
        if y is not None:
            return y
    return _undifferentiated(_int4_operator, _int4_grouped_mm, (x, w, scale_w, offs, bias), activation or "", out_dtype, n)


def quantize_int4(weight, group=128):
    """weight [..., N, K], of any floating type, as w [..., K / 64, ld, 8] and scale_w [..., K / group, ld] of int4_grouped_mm(), on
    the same device, with the least ld: batchgemm.quantize_int4() on the host."""
    if not weight.is_floating_point() or weight.dim() < 2:
        raise TypeError(f"weight is {weight.dtype} of {weight.dim()} dimensions: it must be floating, of two or more")
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
    """[x @ w for x, w in zip(xs, ws)] of matrices of any sizes, in one run: LoRA ranks, optimisers. Types as in
    grouped_mm, the same in all. It copies addresses to the device, and so cannot be captured in a CUDA graph."""
    xs, ws = list(xs), list(ws)
    if not xs and not ws:
        return []  # an operator must have a tensor
    if xs and torch.is_autocast_enabled(xs[0].device.type):
        to = torch.get_autocast_dtype(xs[0].device.type)
        xs, ws = [x.to(to) for x in xs], [w.to(to) for w in ws]
    return torch.ops.batchgemm.matmul_list(xs, ws, out_dtype)


# Operators.

_library = torch.library.Library("batchgemm", "DEF")
_library.define("grouped_mm(Tensor x, Tensor w, Tensor? offs, Tensor? bias, str activation, ScalarType? out_dtype, bool zero) -> Tensor")
_library.define("scaled_grouped_mm(Tensor x, Tensor w, Tensor scale_x, Tensor scale_w, Tensor? offs, Tensor? bias, str activation, ScalarType out_dtype, "
                "Tensor? zero_x=None, Tensor? sums_w=None) -> Tensor")
_library.define("int4_grouped_mm(Tensor x, Tensor w, Tensor scale_w, Tensor? offs, Tensor? bias, str activation, ScalarType? out_dtype, SymInt? n) -> Tensor")
_library.define("matmul_list(Tensor[] xs, Tensor[] ws, ScalarType? out_dtype) -> Tensor[]")


def _grouped_mm(x, w, offs, bias, activation, out_dtype, zero, *more):
    """The operators. zero: rows behind the last end are 0, without bias and activation. more, of those with scales: scale_x, which w of
    int4 has none beside, scale_w, zero_x, sums_w, and the columns of such a w."""
    y = eager.run(x, w, offs, bias, activation, out_dtype, zero, *more)
    return _run(x, w, offs, bias, activation, out_dtype, zero, *more) if y is None else y


def _scaled_grouped_mm(x, w, scale_x, scale_w, offs, bias, activation, out_dtype, zero_x=None, sums_w=None):
    return _grouped_mm(x, w, offs, bias, activation, out_dtype, False, scale_x, scale_w, zero_x, sums_w, None)


def _int4_grouped_mm(x, w, scale_w, offs, bias, activation, out_dtype, n):
    return _grouped_mm(x, w, offs, bias, activation, out_dtype, False, None, scale_w, None, None, n)


def _run(x, w, offs, bias, activation, out_dtype, zero, *more):
    """The operators, of calls that are new."""
    *scales, n = more or (None,)
    at_x, at_w = x.data_ptr(), w.data_ptr()
    at_offs, at_bias = 0 if offs is None else offs.data_ptr(), 0 if bias is None else bias.data_ptr()
    call = call_of(meta(x, at_x), meta(w, at_w), None if offs is None else meta(offs, at_offs),
                   None if bias is None else meta(bias, at_bias), activation, out_dtype, zero, *(t if t is None else meta(t, 0) for t in scales), n=n)
    if call.copy:
        copied = [t.clone(memory_format=torch.contiguous_format) if copy else t for t, copy in zip((x, w, offs, bias), call.copy)]
        return _grouped_mm(*copied, activation, out_dtype, zero, *more)
    if call.fill:
        return x.new_zeros(call.shape, dtype=call.dtype)
    y = x.new_empty(call.shape, dtype=call.dtype)
    addresses = at_x & -ALIGN, at_w & -ALIGN, y.data_ptr(), at_offs, 0, at_bias & -ALIGN
    if scales:
        rows = _rows(call.expand, *scales)
        addresses = *addresses, rows.data_ptr()
    programs_of(x.get_device()).run(call, addresses, (x, w, offs, bias, activation, out_dtype, zero, *more))
    return y if call.narrow is None else y[: call.narrow]


def _rows(expand, scale_x, scale_w, zero_x, sums_w):
    """All scales in one array, those of w first, as kernels have them: no copy where they lie so."""
    at = scale_w.data_ptr()
    behind = scale_x is None or at + 4 * scale_w.numel() == scale_x.data_ptr() and scale_x.is_contiguous()
    if expand == (-1, -1) and zero_x is None and behind and at % ALIGN == 0 and scale_w.is_contiguous():
        return scale_w
    return _join(expand, scale_x, scale_w, zero_x, sums_w)


def _join(expand, scale_x, scale_w, zero_x, sums_w):
    """Copies them. With zero points each has what is behind it."""
    count_w, count_x = expand
    if zero_x is not None:
        each = scale_w.reshape(1 if scale_w.numel() == 1 else len(sums_w), -1).expand(sums_w.shape)
        pairs = [(each, sums_w), (t.reshape(-1).expand(count_x) for t in (scale_x, zero_x))]
        return torch.cat([torch.stack((scale.view(torch.int32), whole), -1).view(-1) for scale, whole in pairs])
    of_w = _flat(scale_w, count_w)
    return torch.cat([of_w] if scale_x is None else [of_w, _flat(scale_x, count_x)])


def _flat(scale, count):
    flat = scale if scale.dim() == 1 else scale.reshape(-1)
    return flat if count == -1 else flat.expand(count)


def _fake_grouped_mm(x, w, offs, bias, activation, out_dtype, zero):
    s = sizes_of(x, w, offs, bias, activation, out_dtype)
    return x.new_empty(s.shape, dtype=s.dtype)


def _fake_scaled_grouped_mm(x, w, scale_x, scale_w, offs, bias, activation, out_dtype, zero_x=None, sums_w=None):
    s = sizes_of(x, w, offs, bias, activation, out_dtype, scale_x, scale_w, zero_x, sums_w)
    return x.new_empty(s.shape, dtype=s.dtype)


def _fake_int4_grouped_mm(x, w, scale_w, offs, bias, activation, out_dtype, n):
    s = sizes_of(x, w, offs, bias, activation, out_dtype, None, scale_w, n=n)
    return x.new_empty(s.shape, dtype=s.dtype)


class _Differentiable(torch.autograd.Function):
    """The operator with gradients, run being that without. By torch.library.register_autograd a call takes 30 us more.
    GELU and SiLU are torch's, within: nodes of their own would take the engine longer."""

    @staticmethod
    def forward(ctx, x, w, offs, bias, run, how):
        activation, out_dtype, zero, of_torch = how
        y = kept = run(x, w, offs, bias, "" if of_torch else activation, out_dtype, zero)
        if of_torch:
            y = of_torch(kept)
        if activation:
            ctx.activation = activation
        else:
            kept = None
        ctx.save_for_backward(x, w, offs, bias, kept)
        return y

    @staticmethod
    def backward(ctx, gy):
        x, w, offs, bias, kept = ctx.saved_tensors
        gz = gy
        if kept is not None:
            if ctx.activation in _OF_TORCH and torch.is_grad_enabled():  # what is kept is of no graph, and here one is wanted
                z = _product(x, w, offs, bias, "", kept.dtype, False)
                gz, = torch.autograd.grad(_OF_TORCH[ctx.activation](z), z, gy, create_graph=True)
            else:
                gz = _DERIVATIVES[ctx.activation](gy, kept)
        return _gradients(x, w, offs, bias, gz, ctx.needs_input_grad)


def _backward(ctx, gy):
    """What a node calls, in the place of torch's, which looks for more than backward."""
    return eager.backward(ctx, gy) or _Differentiable.backward(ctx, gy)


class _Eager(_Differentiable):
    """The same in C, of an activation, out_dtype and zero in the place of run and how."""

    forward = staticmethod(eager.forward)


_Differentiable._backward_cls.apply = _Eager._backward_cls.apply = _backward


def _gradients(x, w, offs, bias, gz, needs):
    """What backward returns, of the gradient of x @ w + bias: for as many arguments as _Eager has."""
    needs_x, needs_w, _, needs_bias, *_ = needs
    gz = gz if gz.dtype is x.dtype else gz.to(x.dtype)
    gx = gw = None
    if needs_x:
        if x.dim() == w.dim() == 2:  # depth was cut: its rows, or columns, are now
            gx = _product(w, gz, offs, None, "", None, True, _W).t()
        else:
            gx = _product(gz, w, offs, None, "", None, True, _W)
    if needs_w:
        gw = _product(x, gz, offs, None, "", None, True, _X)
    return gx, gw, None, _bias_gradient(offs, bias, gz) if needs_bias else None, None, None, None


def _bias_gradient(offs, bias, gz):
    ones = gz.new_ones((*gz.shape[:-1], 2)).transpose(-2, -1)[..., :1, :]  # its leading dimension is 2 for all rows
    gb = _product(ones, gz, offs, None, "", torch.float32, True).squeeze(1)
    return (gb if bias.dim() == 2 else gb.sum(0)).to(bias.dtype)


def _above(run, apply):
    """The operator with gradients where there must be some. run is that without, apply that of _Differentiable."""

    def product(x, w, offs, bias, activation, out_dtype, zero):
        if torch.is_grad_enabled() and (x.requires_grad or w.requires_grad or bias is not None and bias.requires_grad):
            of_torch = None if x.dim() == w.dim() == 2 else _OF_TORCH.get(activation)  # run refuses the former
            return apply(x, w, offs, bias, run, (activation, out_dtype, zero, of_torch))
        return run(x, w, offs, bias, activation, out_dtype, zero)

    return product


def _below_autograd(*args):
    with torch._C._AutoDispatchBelowAutograd():
        return _operator(*args)


_dispatched = _above(_below_autograd, _Differentiable.apply)
_direct = _above(_grouped_mm, super(torch.autograd.Function, _Differentiable).apply)  # without the wrapper of torch.func


def _product(x, w, offs, bias, activation, out_dtype, zero, turned=0):
    """The operator. The dispatcher takes 10 us, and is left out where nobody would see that."""
    compiling = torch.compiler.is_dynamo_compiling()
    y = None if compiling else eager.product(x, w, offs, bias, activation, out_dtype, zero, turned)
    if y is not None:
        return y
    x, w = x.transpose(-2, -1) if turned & _X else x, w.transpose(-2, -1) if turned & _W else w
    product = _operator if compiling or _watched(x, w, offs, bias) else _direct
    return product(x, w, offs, bias, activation, out_dtype, zero)


def _undifferentiated(operator, direct, tensors, *others, more=()):
    """An operator that has no gradients, as _product() is that which has. more: tensors behind the others."""
    seen = torch.compiler.is_dynamo_compiling() or _watched(*tensors, *more)
    return (operator if seen else direct)(*tensors, *others, *more)


def _watched(x, *others):
    """Whether these are not just tensors of a CPU or CUDA, or a mode, trace, transformation or profiler is to see what is done."""
    return (
        not (type(x) in _PLAIN and all(type(t) in _PLAIN for t in others))
        or not (x.is_cuda or x.is_cpu) or x.is_neg() or any(t is not None and t.is_neg() for t in others)  # memory has the negative
        or _len_torch_function_stack() > (_device.CURRENT_DEVICE is not None)  # a default device is a mode too
        or any(watcher() for watcher in _WATCHERS))


# Lists.


def _sizes_of_list(xs, ws, out_dtype):
    if len(xs) != len(ws):
        raise ValueError(f"xs has {len(xs)} matrices, ws has {len(ws)}")
    sizes = []
    for i, (x, w) in enumerate(zip(xs, ws)):
        if len(x.shape) != 2 or len(w.shape) != 2:
            raise ValueError(f"product {i}: x has {len(x.shape)} dimensions, w has {len(w.shape)}: both must have 2")
        if x.shape[1] != w.shape[0]:
            raise ValueError(f"product {i}: x has {x.shape[1]} columns, w has {w.shape[0]} rows")
        if x.dtype != xs[0].dtype or w.dtype != xs[0].dtype:
            raise TypeError(f"product {i}: x is {x.dtype}, w is {w.dtype}, the first x is {xs[0].dtype}")
        if x.device != xs[0].device or w.device != xs[0].device:
            raise ValueError(f"product {i}: x is on {x.device}, w on {w.device}, the first x on {xs[0].device}")
        sizes.append((x.shape[0], w.shape[1], x.shape[1]))
    return sizes, check_types(xs[0], ws[0], out_dtype)


class _List(NamedTuple):
    """A Call of matmul_list, of a key (type, type_c, how A and B lie, sizes, whether they are by pointers)."""

    key: tuple

    def prepare(self, device):
        type, type_c, lies, pointers = self.key
        batch, at = [], [0, 0, 0]
        for m, n, k, a, b in lies:
            batch.append(problem(m, n, k, a=at[0], lda=a.ld, trans_a=a.trans, b=at[1], ldb=b.ld, trans_b=b.trans, c=at[2],
                                 pointers=8 * len(batch)))
            if not pointers:
                at = [at[0] + m * k, at[1] + k * n, at[2] + m * n]
        options = {"type": type, "type_c": type_c}
        if pointers:
            options["epilogue"] = {"pointers": {"a": True, "b": True, "c": True}}
        with device.plan(batch, **options) as plan:
            return device.prepare(plan)


def _matmul_list(xs, ws, out_dtype):
    sizes, dtype = _sizes_of_list(xs, ws, out_dtype)
    programs = programs_of(xs[0].get_device())
    if not programs.cuda:  # the CPU has no pointers: all are copied, one behind the other
        lies = tuple((m, n, k, Matrix(False, max(k, 1), 0, 0), Matrix(False, max(n, 1), 0, 0)) for m, n, k in sizes)
        a, b = (torch.cat([t.reshape(-1) for t in ts]) for ts in (xs, ws))
        c = a.new_empty(sum(m * n for m, n, _ in sizes), dtype=dtype)
        programs.run(_List((TYPES[a.dtype], TYPES[dtype], lies, False)), (a.data_ptr(), b.data_ptr(), c.data_ptr()))
        parts = c.split([m * n for m, n, _ in sizes])
        return [part.clone().view(m, n) for part, (m, n, _) in zip(parts, sizes)]
    if torch.cuda.is_current_stream_capturing():
        raise RuntimeError("batchgemm: matmul_list copies addresses to the device, which a CUDA graph cannot capture")
    xs, ws = ([t if matrices(t) else t.contiguous() for t in ts] for ts in (xs, ws))
    ys = [x.new_empty((m, n), dtype=dtype) for x, (m, n, _) in zip(xs, sizes)]
    lies = tuple((*s, matrices(x), matrices(w)) for s, x, w in zip(sizes, xs, ws))
    words = [word for x, w, y in zip(xs, ws, ys) for word in (x.data_ptr(), w.data_ptr(), y.data_ptr(), 0)]
    rows = torch.tensor(words, dtype=torch.int64).pin_memory().to(xs[0].device, non_blocking=True)
    programs.run(_List((TYPES[xs[0].dtype], TYPES[dtype], lies, True)), (0, 0, 0, 0, 0, 0, rows.data_ptr()))
    return ys


def _fake_matmul_list(xs, ws, out_dtype):
    sizes, dtype = _sizes_of_list(xs, ws, out_dtype)
    return [x.new_empty((m, n), dtype=dtype) for x, (m, n, _) in zip(xs, sizes)]


def _save_list(ctx, inputs, output):
    xs, ws, _ = inputs
    ctx.count = len(xs)
    ctx.save_for_backward(*xs, *ws)


def _backward_list(ctx, gys):
    xs, ws = ctx.saved_tensors[: ctx.count], ctx.saved_tensors[ctx.count :]
    gys = [x.new_zeros(x.shape[0], w.shape[1]) if gy is None else gy.to(x.dtype) for gy, x, w in zip(gys, xs, ws)]
    mm = torch.ops.batchgemm.matmul_list
    return mm(gys, [w.t() for w in ws], None), mm([x.t() for x in xs], gys, None), None


for _name, _compute, _fake in (
    ("grouped_mm", _grouped_mm, _fake_grouped_mm), ("scaled_grouped_mm", _scaled_grouped_mm, _fake_scaled_grouped_mm),
    ("int4_grouped_mm", _int4_grouped_mm, _fake_int4_grouped_mm), ("matmul_list", _matmul_list, _fake_matmul_list),
):
    for _kind in "CPU", "CUDA":
        _library.impl(_name, _compute, _kind)
    torch.library.register_fake("batchgemm::" + _name, _fake, lib=_library)


def _aoti():
    """What torch has for modules of Inductor, by which eager allocates tensors: addresses of functions, and torch's numbers
    of types and devices. None where this torch has something else."""
    library = ctypes.PyDLL(torch._C.__file__)  # and what it needs
    functions = "aoti_torch_empty_strided", "aoti_torch_delete_tensor_object", "_Z16THPVariable_WrapRKN2at10TensorBaseE"
    numbers = "dtype_float32", "dtype_bfloat16", "dtype_float16", "dtype_int32", "device_type_cpu", "device_type_cuda"
    try:
        return (*(ctypes.cast(library[name], ctypes.c_void_p).value for name in functions), *(library["aoti_torch_" + name]() for name in numbers))
    except AttributeError:
        return None


_library.impl("grouped_mm", _dispatched, "Autograd")
for _name in "scaled_grouped_mm", "int4_grouped_mm":
    _library.impl(_name, torch.library.fallthrough_kernel, "Autograd")  # no gradients, and no warning of that
torch.library.register_autograd("batchgemm::matmul_list", _backward_list, setup_context=_save_list, lib=_library)
_operator, _scaled_operator, _int4_operator = (getattr(torch.ops.batchgemm, _name + "grouped_mm").default for _name in ("", "scaled_", "int4_"))
eager.setup(
    run_at=ctypes.cast(_run_at, ctypes.c_void_p).value, check=_check, apply=super(torch.autograd.Function, _Eager).apply,
    run=_grouped_mm, join=_join, of_torch=_OF_TORCH, derivatives=_DERIVATIVES, gradients=_gradients, bias_gradient=_bias_gradient, empty=torch.empty,
    Tensor=torch.Tensor, Parameter=torch.nn.Parameter, types=(*TYPES, torch.int32, *SCALED, torch.uint8), watchers=_WATCHERS,
    function_modes=_len_torch_function_stack, default_device=_device, grad_enabled=torch.is_grad_enabled,
    exchange=getattr(torch.Tensor, "__dlpack_c_exchange_api__", None), aoti=_aoti(),
    current_stream=getattr(torch._C, "_cuda_getCurrentRawStream", None), capturing=getattr(torch._C, "_cuda_isCurrentStreamCapturing", None))
