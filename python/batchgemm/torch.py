"""batchgemm on PyTorch tensors: grouped products as registered operators.

    from batchgemm.torch import grouped_mm

    y = grouped_mm(x, w, offs=offs, bias=bias, activation="silu")     # experts: x [rows, K], w [experts, K, N]

Works with autograd, torch.compile, CUDA graphs and autocast, on the current stream, without a wait and without a
look at offs by the host. docs/pytorch.md has what it does and what it does not. PyTorch from 2.4 on.
"""

import functools
import threading
from collections import OrderedDict
from typing import NamedTuple, Optional

import torch
import torch.nn.functional as F
from torch._C import _are_functorch_transforms_active, _get_tracing_state, _len_torch_dispatch_stack, _len_torch_function_stack
from torch._C._autograd import _profiler_enabled
from torch.utils import _device

from ._core import ENDS_OF_DEPTH, ENDS_OF_ROWS, open as _open, problem

__all__ = ["grouped_mm", "matmul_list"]

_TYPES = {torch.float32: "f32", torch.bfloat16: "bf16", torch.float16: "f16"}
_ACTIVATIONS = ("", "relu", "gelu", "silu")
_OF_TORCH = {"gelu": functools.partial(F.gelu, approximate="tanh"), "silu": F.silu}  # with gradients: these need x @ w + bias
_PLAIN = {torch.Tensor, torch.nn.Parameter, type(None)}
_MOST_GROUPS = 4096
_ALIGN = 16  # bytes, of addresses
_KEPT = 512  # programs of a device
_BATCHED = 0  # beside ENDS_OF_ROWS and ENDS_OF_DEPTH: no ends


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
    kind = "cuda" if x.is_cuda else "cpu" if x.is_cpu else None  # x.device.type takes longer
    if kind and torch.is_autocast_enabled(kind):
        to = torch.get_autocast_dtype(kind)
        x, w, bias = x.to(to), w.to(to), None if bias is None else bias.to(out_dtype or to)
    if x.dim() == 3 and w.dim() == 2:
        if bias is not None:
            raise ValueError("bias: none where offs cuts columns")
        return _product(w.t(), x.transpose(1, 2), offs, None, activation or "", out_dtype, False).t()
    return _product(x, w, offs, bias, activation or "", out_dtype, False)


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


# Shapes.


class _Meta(NamedTuple):
    """What a program depends on of a tensor."""

    shape: tuple
    stride: tuple
    dtype: torch.dtype
    device: torch.device
    at: int  # address modulo _ALIGN


class _Sizes(NamedTuple):
    form: int
    groups: int
    m: int
    n: int
    k: int
    shape: tuple  # of the result
    dtype: torch.dtype


def _meta(t, address):
    """The fields of a _Meta, which takes longer to make."""
    return t.shape, t.stride(), t.dtype, t.device, address % _ALIGN


def _check_types(x, w, out_dtype):
    if x.dtype not in _TYPES:
        raise TypeError(f"x is {x.dtype}: it must be float32, bfloat16 or float16")
    if w.dtype != x.dtype:
        raise TypeError(f"w is {w.dtype}, x is {x.dtype}")
    if out_dtype not in (None, torch.float32, x.dtype):
        raise TypeError(f"out_dtype is {out_dtype}: it must be float32, or that of x, {x.dtype}")
    return out_dtype or x.dtype


def _sizes(x, w, offs, bias, activation, out_dtype):
    """Checks the arguments; x, w, offs and bias have a shape, a dtype and a device."""
    out = _check_types(x, w, out_dtype)
    for name, t in ("w", w), ("offs", offs), ("bias", bias):
        if t is not None and t.device != x.device:
            raise ValueError(f"{name} is on {t.device}, x on {x.device}")
    dims = len(x.shape), len(w.shape)
    if dims not in ((2, 3), (2, 2), (3, 3)):
        raise ValueError(f"x has {dims[0]} dimensions, w has {dims[1]}: each must have 2 or 3")
    if activation not in _ACTIVATIONS:
        raise ValueError(f"activation {activation!r}: it must be one of {', '.join(_ACTIVATIONS[1:])}")
    (m, k), (depth, n) = x.shape[-2:], w.shape[-2:]
    if k != depth:
        raise ValueError(f"x has {k} columns, w has {depth} rows")
    if dims == (3, 3):
        form, groups, shape = _BATCHED, x.shape[0], (x.shape[0], m, n)
        if offs is not None:
            raise ValueError("offs: none where x and w have 3 dimensions")
        if w.shape[0] != groups:
            raise ValueError(f"x has {groups} groups, w has {w.shape[0]}")
    else:
        if offs is None:
            raise ValueError("offs is None: it says where each group ends")
        if offs.dtype != torch.int32 or len(offs.shape) != 1:
            raise TypeError(f"offs is {offs.dtype} of {len(offs.shape)} dimensions: it must be int32, of one")
        groups = offs.shape[0]
        form, shape = (ENDS_OF_ROWS, (m, n)) if dims == (2, 3) else (ENDS_OF_DEPTH, (groups, m, n))
        if dims == (2, 3) and w.shape[0] != groups:
            raise ValueError(f"offs has {groups} groups, w has {w.shape[0]}")
    if form != _BATCHED and groups > _MOST_GROUPS:
        raise ValueError(f"{groups} groups: there may be {_MOST_GROUPS}")
    if form == ENDS_OF_DEPTH and (bias is not None or activation):
        raise ValueError("bias and activation: none where offs cuts depth")
    if bias is not None:
        if tuple(bias.shape) not in ((n,), (groups, n)):
            raise ValueError(f"bias has the shape {tuple(bias.shape)}: it must be ({n},) or ({groups}, {n})")
        if bias.dtype != out:
            raise TypeError(f"bias is {bias.dtype}, the result is {out}")
    return _Sizes(form, groups, m, n, k, shape, out)


class _Matrix(NamedTuple):
    """How a matrix lies in memory: op(A) or op(B) of a problem."""

    trans: bool
    ld: int
    at: int  # element, from an aligned address on
    stride: int  # between groups


def _lie(t):
    """How the matrices of t lie, or None: a copy of it has rows one behind the other."""
    (rows, cols), (down, right) = t.shape[-2:], t.stride[-2:]
    group = t.stride[0] if len(t.shape) == 3 and t.shape[0] > 1 else 0
    at = t.at // t.dtype.itemsize
    if (right == 1 or cols <= 1) and (down >= cols or rows <= 1):
        return _Matrix(False, down if rows > 1 else max(cols, 1), at, group)
    if (down == 1 or rows <= 1) and (right >= rows or cols <= 1):
        return _Matrix(True, right if cols > 1 else max(rows, 1), at, group)
    return None


def _lies(t):
    """How the matrices of a tensor lie."""
    return _lie(_Meta(*_meta(t, t.data_ptr())))


def _bound(n):
    """n, rounded up by an eighth at most: sizes that change from step to step share a program."""
    unit = 1 << max(n.bit_length() - 4, 0)
    return (n + unit - 1) // unit * unit


# Programs.


class _Call(NamedTuple):
    """What is to be done for arguments of a kind."""

    copy: tuple = ()  # whether x, w, offs and bias must be copied; then the rest is of the copies
    shape: tuple = ()  # to allocate
    narrow: Optional[int] = None  # the rows that are the result
    dtype: Optional[torch.dtype] = None
    fill: bool = False  # the result is zeros, or nothing
    key: tuple = ()  # of the program

    def prepare(self, device):
        form, groups, m, n, k, a, b, ldc, bias_at, bias_stride, zero, *options = self.key
        options = _options(*options)
        if form != _BATCHED:
            return device.prepare_ragged(
                form, groups, m, n, k, lda=a.ld, ldb=b.ld, ldc=ldc, trans_a=a.trans, trans_b=b.trans, offset_a=a.at, offset_b=b.at,
                stride_b=b.stride, stride_c=m * ldc if form == ENDS_OF_DEPTH else 0, zero_rows=zero, bias=bias_at,
                stride_bias=bias_stride, options=options)
        batch = [problem(m, n, k, a=a.at + g * a.stride, lda=a.ld, trans_a=a.trans, b=b.at + g * b.stride, ldb=b.ld, trans_b=b.trans,
                         c=g * m * n, bias=bias_at + g * bias_stride) for g in range(groups)]
        with device.plan(batch, **options) as plan:
            return device.prepare(plan)


def _options(type, type_c, bias, activation):
    options = {"type": type, "type_c": type_c}
    if bias:
        options.setdefault("epilogue", {})["bias"] = True
    if activation:
        options.setdefault("epilogue", {})["activation"] = activation
    return options


@functools.lru_cache(maxsize=4096)
def _call(x, w, offs, bias, activation, out_dtype, zero):
    """What is to be done for tensors of these _meta()."""
    x, w, offs, bias = (t and _Meta(*t) for t in (x, w, offs, bias))
    s = _sizes(x, w, offs, bias, activation, out_dtype)
    a, b = _lie(x), _lie(w)
    bias_lies = bias is None or bias.stride[-1] == 1 or s.n <= 1
    offs_lie = offs is None or offs.at == 0 and (offs.stride[0] == 1 or s.groups <= 1)
    if not (a and b and bias_lies and offs_lie):
        return _Call(copy=(not a, not b, not offs_lie, not bias_lies))
    if s.groups == 0 or s.m == 0 or s.n == 0 or s.form == ENDS_OF_DEPTH and s.k == 0:
        return _Call(shape=s.shape, dtype=s.dtype, fill=True)
    m, k, shape, narrow = s.m, s.k, s.shape, None
    if s.form == ENDS_OF_ROWS:
        m = min(_bound(m), a.ld) if a.trans else _bound(m)  # rows of matrices are as long as their bounds
        if zero and m != s.m:  # rows up to the bound are set to 0
            shape, narrow = (m, s.n), s.m
    if s.form == ENDS_OF_DEPTH:
        k = min([_bound(k)] + [a.ld] * (not a.trans) + [b.ld] * b.trans)
    bias_stride = bias.stride[0] if bias and len(bias.shape) == 2 and s.groups > 1 else 0
    key = (s.form, s.groups, m, s.n, k, a, b, s.n, bias.at // bias.dtype.itemsize if bias else 0, bias_stride,
           zero and s.form == ENDS_OF_ROWS, _TYPES[x.dtype], _TYPES[s.dtype], bias is not None, activation)
    return _Call(shape=shape, narrow=narrow, dtype=s.dtype, key=key)


class _Programs:
    """The programs of a device. A program has memory of its own that its runs use, and so belongs to one stream."""

    def __init__(self, index):
        self.cuda = index >= 0
        self.index = index
        self.lock = threading.Lock()
        self.kept = OrderedDict()  # (stream, key): program, the one used last at the end
        self.captured = set()  # those of graphs, which are never closed
        if self.cuda and torch.cuda.is_current_stream_capturing():
            raise _not_warm()
        if self.cuda:  # batchgemm counts GPUs of compute capability 8.0 on
            older = 0 if torch.version.hip else sum(torch.cuda.get_device_capability(i) < (8, 0) for i in range(index))
            self.device = _open("hip" if torch.version.hip else "cuda", index - older)
        else:
            self.device = _open("cpu")

    def run(self, call, *addresses):
        """Queues a run_at() these addresses on the current stream. On the CPU it is done then."""
        if not self.cuda:
            with self.lock:
                self.find(0, call, False).run_at(0, *addresses)
            self.device.wait()
            return
        stream = torch._C._cuda_getCurrentRawStream(self.index)
        capturing = torch.cuda.is_current_stream_capturing()
        with self.lock:
            self.find(stream, call, capturing).run_at(stream, *addresses)

    def find(self, stream, call, capturing):
        at = stream, call.key
        program = self.kept.get(at)
        if program is None:
            program = self.kept[at] = self.take(call) if capturing else self.prepare(call)
        self.kept.move_to_end(at)
        if capturing:
            self.captured.add(at)
        return program

    def prepare(self, call):
        for at in [at for at in self.kept if at not in self.captured][: max(0, len(self.kept) - len(self.captured) - _KEPT + 1)]:
            self.kept.pop(at).close()
        program = call.prepare(self.device)
        self.device.wait()  # for the upload, which is on a stream of the device's own
        return program

    def take(self, call):
        """The program of the warm-up, on whatever stream that was. Nothing can be prepared while a graph is captured."""
        for at in self.kept:
            if at[1] == call.key and at not in self.captured:
                return self.kept.pop(at)
        raise _not_warm()


def _not_warm():
    return RuntimeError("batchgemm: the first call with tensors of these shapes cannot be captured in a CUDA graph; "
                        "call once before, as torch wants it of all that is captured")


@functools.lru_cache(maxsize=None)
def _programs(index):
    return _Programs(index)


# Operators.

_library = torch.library.Library("batchgemm", "DEF")
_library.define("grouped_mm(Tensor x, Tensor w, Tensor? offs, Tensor? bias, str activation, ScalarType? out_dtype, bool zero) -> Tensor")
_library.define("matmul_list(Tensor[] xs, Tensor[] ws, ScalarType? out_dtype) -> Tensor[]")


def _grouped_mm(x, w, offs, bias, activation, out_dtype, zero):
    """The operator. zero: rows behind the last end are 0, without bias and activation."""
    at_x, at_w = x.data_ptr(), w.data_ptr()
    at_offs, at_bias = 0 if offs is None else offs.data_ptr(), 0 if bias is None else bias.data_ptr()
    call = _call(_meta(x, at_x), _meta(w, at_w), None if offs is None else _meta(offs, at_offs),
                 None if bias is None else _meta(bias, at_bias), activation, out_dtype, zero)
    if call.copy:
        copied = [t.clone(memory_format=torch.contiguous_format) if copy else t for t, copy in zip((x, w, offs, bias), call.copy)]
        return _grouped_mm(*copied, activation, out_dtype, zero)
    if call.fill:
        return x.new_zeros(call.shape, dtype=call.dtype)
    y = x.new_empty(call.shape, dtype=call.dtype)
    _programs(x.get_device()).run(call, at_x & -_ALIGN, at_w & -_ALIGN, y.data_ptr(), at_offs, 0, at_bias & -_ALIGN)
    return y if call.narrow is None else y[: call.narrow]


def _fake_grouped_mm(x, w, offs, bias, activation, out_dtype, zero):
    s = _sizes(x, w, offs, bias, activation, out_dtype)
    return x.new_empty(s.shape, dtype=s.dtype)


class _Differentiable(torch.autograd.Function):
    """The operator with gradients, run being that without. By torch.library.register_autograd a call takes 30 us more."""

    @staticmethod
    def forward(ctx, x, w, offs, bias, activation, out_dtype, zero, run):
        y = run(x, w, offs, bias, activation, out_dtype, zero)
        ctx.save_for_backward(x, w, offs, bias, y if activation else None)
        return y

    @staticmethod
    def backward(ctx, gy):
        return _backward(ctx, gy)


def _above(run, apply):
    """The operator with gradients where there must be some: run is that without, apply that of _Differentiable."""

    def product(x, w, offs, bias, activation, out_dtype, zero):
        if not (torch.is_grad_enabled() and (x.requires_grad or w.requires_grad or bias is not None and bias.requires_grad)):
            return run(x, w, offs, bias, activation, out_dtype, zero)
        if activation in _OF_TORCH and not x.dim() == w.dim() == 2:  # which is refused below
            return _OF_TORCH[activation](product(x, w, offs, bias, "", out_dtype, zero))
        return apply(x, w, offs, bias, activation, out_dtype, zero, run)

    return product


def _below_autograd(*args):
    with torch._C._AutoDispatchBelowAutograd():
        return _operator(*args)


_dispatched = _above(_below_autograd, _Differentiable.apply)
_direct = _above(_grouped_mm, super(torch.autograd.Function, _Differentiable).apply)  # without the wrapper of torch.func


def _product(x, w, offs, bias, activation, out_dtype, zero):
    """The operator. The dispatcher takes 10 us, and is left out where nobody would see that."""
    product = _operator if torch.compiler.is_compiling() or _watched(x, w, offs, bias) else _direct
    return product(x, w, offs, bias, activation, out_dtype, zero)


def _watched(x, w, offs, bias):
    """Whether these are not just tensors of a CPU or CUDA, or a mode, trace, transformation or profiler is to see what is done."""
    return (
        not (type(x) in _PLAIN and type(w) in _PLAIN and type(offs) in _PLAIN and type(bias) in _PLAIN)
        or not (x.is_cuda or x.is_cpu) or x.is_neg() or w.is_neg() or bias is not None and bias.is_neg()  # memory has the negative
        or _len_torch_dispatch_stack()
        or _len_torch_function_stack() > (_device.CURRENT_DEVICE is not None)  # a default device is a mode too
        or _get_tracing_state() or _are_functorch_transforms_active() or _profiler_enabled())


def _backward(ctx, gy):
    x, w, offs, bias, y = ctx.saved_tensors

    def product(a, b, out=None):
        return _product(a, b, offs, None, "", out, True)

    gz = (gy if y is None else torch.ops.aten.threshold_backward(gy, y, 0)).to(x.dtype)
    needs_x, needs_w, _, needs_bias, *_ = ctx.needs_input_grad
    gx = gw = gb = None
    if x.dim() == w.dim() == 2:  # depth was cut: its rows, or columns, are now
        gx = product(w, gz.transpose(1, 2)).t() if needs_x else None
        gw = product(x.t(), gz) if needs_w else None
    else:
        gx = product(gz, w.transpose(1, 2)) if needs_x else None
        gw = product(x.transpose(-2, -1), gz) if needs_w else None
    if needs_bias:
        ones = gz.new_ones((*gz.shape[:-1], 2)).transpose(-2, -1)[..., :1, :]  # its leading dimension is 2 for all rows
        gb = product(ones, gz, torch.float32).squeeze(1)
        gb = (gb if bias.dim() == 2 else gb.sum(0)).to(bias.dtype)
    return gx, gw, None, gb, None, None, None, None


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
    return sizes, _check_types(xs[0], ws[0], out_dtype)


class _List(NamedTuple):
    """A _Call of matmul_list, of a key (type, type_c, how A and B lie, sizes, whether they are by pointers)."""

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
    programs = _programs(xs[0].get_device())
    if not programs.cuda:  # the CPU has no pointers: all are copied, one behind the other
        lies = tuple((m, n, k, _Matrix(False, max(k, 1), 0, 0), _Matrix(False, max(n, 1), 0, 0)) for m, n, k in sizes)
        a, b = (torch.cat([t.reshape(-1) for t in ts]) for ts in (xs, ws))
        c = a.new_empty(sum(m * n for m, n, _ in sizes), dtype=dtype)
        programs.run(_List((_TYPES[a.dtype], _TYPES[dtype], lies, False)), a.data_ptr(), b.data_ptr(), c.data_ptr())
        parts = c.split([m * n for m, n, _ in sizes])
        return [part.clone().view(m, n) for part, (m, n, _) in zip(parts, sizes)]
    if torch.cuda.is_current_stream_capturing():
        raise RuntimeError("batchgemm: matmul_list copies addresses to the device, which a CUDA graph cannot capture")
    xs, ws = ([t if _lies(t) else t.contiguous() for t in ts] for ts in (xs, ws))
    ys = [x.new_empty((m, n), dtype=dtype) for x, (m, n, _) in zip(xs, sizes)]
    lies = tuple((*s, _lies(x), _lies(w)) for s, x, w in zip(sizes, xs, ws))
    words = [word for x, w, y in zip(xs, ws, ys) for word in (x.data_ptr(), w.data_ptr(), y.data_ptr(), 0)]
    rows = torch.tensor(words, dtype=torch.int64).pin_memory().to(xs[0].device, non_blocking=True)
    programs.run(_List((_TYPES[xs[0].dtype], _TYPES[dtype], lies, True)), 0, 0, 0, 0, 0, 0, rows.data_ptr())
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


for _name, _run, _fake in ("grouped_mm", _grouped_mm, _fake_grouped_mm), ("matmul_list", _matmul_list, _fake_matmul_list):
    for _kind in "CPU", "CUDA":
        _library.impl(_name, _run, _kind)
    torch.library.register_fake("batchgemm::" + _name, _fake, lib=_library)
_library.impl("grouped_mm", _dispatched, "Autograd")
torch.library.register_autograd("batchgemm::matmul_list", _backward_list, setup_context=_save_list, lib=_library)
_operator = torch.ops.batchgemm.grouped_mm.default
