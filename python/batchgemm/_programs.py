"""The programs of batchgemm.torch: checks of arguments, how tensors lie in memory, and which programs are
kept."""

import ctypes
import functools
import math
import threading
from collections import OrderedDict
from typing import NamedTuple, Optional

import torch

from ._abi import ADDRESSES, _check, _run_all_at, _run_at
from ._core import ENDS_OF_DEPTH, ENDS_OF_ROWS, NAN_ROWS, ZERO_ROWS, problem
from ._device import open as _open
from ._invariant import INVARIANT, holders
from ._memory import GROUPS, PANEL
from ._optional import eager

TYPES = {torch.float32: "f32", torch.bfloat16: "bf16", torch.float16: "f16"}
PLAIN = TYPES | {torch.float64: "f64"}  # of products without scales
# x and w that have scales; the result is one of TYPES
SCALED = {torch.float8_e4m3fn: "e4m3", torch.int8: "int8"}
PACKED = {torch.int32: 8, torch.uint8: 2}  # w of int4: weights in an element
ACTIVATIONS = ("", "relu", "gelu", "silu")
MOST_GROUPS = 4096
BLOCK = 128  # the k's, and the columns of w, that share a scale of "block"
ALIGN = 16  # bytes, of addresses
KEPT = 512  # programs of a device
BATCHED = 0  # beside ENDS_OF_ROWS and ENDS_OF_DEPTH: no ends

# Shapes.


class Meta(NamedTuple):
    """What a program depends on of a tensor."""

    shape: tuple
    stride: tuple
    dtype: torch.dtype
    device: torch.device
    at: int  # address modulo ALIGN


class Sizes(NamedTuple):
    form: int
    groups: int
    m: int
    n: int
    k: int
    shape: tuple  # of the result
    dtype: torch.dtype
    zeros: bool = False  # of x, after its scales, and sums of the columns of w after those of w
    # of x and of w: "tensor" for a matrix, "row" for each row of x, or column of w; "block" of both; of w
    # "group-64" or "group-128"
    scales: tuple = ("", "")


def meta(t, address):
    """The fields of a Meta. A Meta itself takes longer to make."""
    return t.shape, t.stride(), t.dtype, t.device, address % ALIGN


def check_types(x, w, out_dtype):
    if x.dtype not in PLAIN:
        raise TypeError(f"x is {x.dtype}: it must be float32, bfloat16, float16 or float64")
    if w.dtype != x.dtype:
        raise TypeError(f"w is {w.dtype}, x is {x.dtype}")
    return _result_type(x, out_dtype)


def _result_type(x, out_dtype):
    if out_dtype not in (None, x.dtype) and (out_dtype != torch.float32 or x.dtype == torch.float64):
        other = "" if x.dtype == torch.float64 else "float32, or "
        raise TypeError(f"out_dtype is {out_dtype}: it must be {other}that of x, {x.dtype}")
    return out_dtype or x.dtype


def _check_scaled_types(x, w, out_dtype):
    if x.dtype not in SCALED:
        raise TypeError(f"x is {x.dtype}: it must be float8_e4m3fn or int8")
    if w.dtype != x.dtype:
        raise TypeError(f"w is {w.dtype}, x is {x.dtype}")
    if out_dtype not in TYPES:
        raise TypeError(f"out_dtype is {out_dtype}: it must be float32, bfloat16 or float16")
    return out_dtype


def _check_packed_types(x, w, out_dtype):
    if x.dtype not in (torch.bfloat16, torch.float16):
        raise TypeError(f"x is {x.dtype}: it must be bfloat16 or float16")
    if w.dtype not in PACKED:
        raise TypeError(f"w is {w.dtype}: it must be int32, of eight weights, or uint8, of two")
    if len(x.shape) not in (2, 3) or len(w.shape) != 4:
        raise ValueError(f"x has {len(x.shape)} dimensions, w has {len(w.shape)}: they must have 2 or 3, "
                         f"and 4")
    if w.shape[3] != PANEL // PACKED[w.dtype] or w.shape[2] % 8:
        raise ValueError(f"w has the shape {tuple(w.shape)}: it must be (groups, K / {PANEL}, ld, "
                         f"{PANEL // PACKED[w.dtype]}), and ld a multiple of 8")
    return _result_type(x, out_dtype)


def check_devices(x, *others):
    for name, t in others:
        if t is not None and t.device != x.device:
            raise ValueError(f"{name} is on {t.device}, x on {x.device}")


def _check_depth(k, depth):
    if k != depth:
        raise ValueError(f"x has {k} columns, w has {depth} rows")


def _check_scale_types(scale_x, scale_w):
    for name, scale in ("scale_x", scale_x), ("scale_w", scale_w):
        if scale.dtype != torch.float32:
            raise TypeError(f"{name} is {scale.dtype}: it must be float32")


def _grouping(scale, groups, k, ld):
    """Which k's share a word of scale_w, beside a w of int4."""
    if scale.dtype not in (torch.int32, torch.float32):
        raise TypeError(f"scale_w is {scale.dtype}: it must be int32, or float32 of the same bits")
    for group in GROUPS:
        if k % group == 0 and tuple(scale.shape) == (groups, k // group, ld):
            return f"group-{group}"
    raise ValueError(f"scale_w has the shape {tuple(scale.shape)}: it must be ({groups}, K / 64, {ld}) or "
                     f"({groups}, K / 128, {ld}), and K is {k}")


def _scaling(name, scale, t, form, groups, rows):
    """What a scale is for: all of t, or each of its rows (columns)."""
    whole, each = (), ((rows,),)
    if len(t.shape) == 3:
        whole, each = ((groups,),), ((groups, rows),)
    elif form == ENDS_OF_DEPTH:
        each = (groups, rows), (groups * rows,)  # the second is torch's
    shape = tuple(scale.shape)
    if math.prod(shape) == 1 or shape in whole:
        return "tensor"
    if shape in each:
        return "row"
    raise ValueError(f"{name} has the shape {shape}: it must be {' or '.join(map(str, whole + each))}, or "
                     f"have one element")


def _check_zeros(x, scale_x, zero_x, sums_w, groups, n):
    """Whether x has zero points."""
    if zero_x is None and sums_w is None:
        return False
    if zero_x is None or sums_w is None:
        raise ValueError("zero_x and sums_w: there must be both, or neither")
    if x.dtype != torch.int8:
        raise TypeError(f"x is {x.dtype}: with zero points it must be int8")
    for name, t, shape in ("zero_x", zero_x, tuple(scale_x.shape)), ("sums_w", sums_w, (groups, n)):
        if t.dtype != torch.int32:
            raise TypeError(f"{name} is {t.dtype}: it must be int32")
        if tuple(t.shape) != shape:
            raise ValueError(f"{name} has the shape {tuple(t.shape)}: it must be {shape}")
    return True


def blocks(size):
    """How many blocks so many k's or columns have."""
    return -(-size // BLOCK)


def _of_blocks(scale_x, scale_w, x, groups, n, k):
    """Whether scales are of blocks, by their shapes. Where both have one element they are for all of x and
    w."""
    of_x, of_w = (*x.shape[:-1], blocks(k)), (groups, blocks(n), blocks(k))
    shapes = tuple(scale_x.shape), tuple(scale_w.shape)
    if tuple(map(len, shapes)) != (len(of_x), len(of_w)) or shapes != (of_x, of_w):
        return False
    if math.prod(shapes[0]) == math.prod(shapes[1]) == 1:
        return False
    if x.dtype != torch.float8_e4m3fn:
        raise TypeError(f"x is {x.dtype}: with scales of blocks it must be float8_e4m3fn")
    return True


def sizes_of(x, w, offs, bias, activation, out_dtype, scale_x=None, scale_w=None, zero_x=None,
             sums_w=None, n=None):
    """Checks the arguments. The tensors have a shape, a dtype and a device. There are two scales, or none, or
    scale_w alone where w is of int4. n: the columns of such a w, if not all."""
    scaled, packed = scale_x is not None, scale_x is None and scale_w is not None
    out = (_check_scaled_types if scaled else _check_packed_types if packed else check_types)(x, w, out_dtype)
    scales = ("scale_x", scale_x), ("scale_w", scale_w), ("zero_x", zero_x), ("sums_w", sums_w)
    check_devices(x, ("w", w), ("offs", offs), ("bias", bias), *scales)
    dims = len(x.shape), 3 if packed else len(w.shape)
    if dims not in ((2, 3), (2, 2), (3, 3)):
        raise ValueError(f"x has {dims[0]} dimensions, w has {dims[1]}: each must have 2 or 3")
    if activation not in ACTIVATIONS:
        raise ValueError(f"activation {activation!r}: it must be one of {', '.join(ACTIVATIONS[1:])}")
    m, k = x.shape[-2:]
    if packed:
        depth, ld = PANEL * w.shape[1], w.shape[2]
        n = ld if n is None else n
        if not 0 <= n <= ld:
            raise ValueError(f"n is {n}: w has {ld} columns")
    else:
        depth, n = w.shape[-2:]
    _check_depth(k, depth)
    if dims == (3, 3):
        form, groups, shape = BATCHED, x.shape[0], (x.shape[0], m, n)
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
    if form != BATCHED and groups > MOST_GROUPS:
        raise ValueError(f"{groups} groups: there may be {MOST_GROUPS}")
    if form == ENDS_OF_DEPTH and (bias is not None or activation):
        raise ValueError("bias and activation: none where offs cuts depth")
    if bias is not None:
        if tuple(bias.shape) not in ((n,), (groups, n)):
            raise ValueError(f"bias has the shape {tuple(bias.shape)}: it must be ({n},) or ({groups}, {n})")
        if bias.dtype != out:
            raise TypeError(f"bias is {bias.dtype}, the result is {out}")
    sizes = Sizes(form, groups, m, n, k, shape, out)
    if packed:
        return sizes._replace(scales=("", _grouping(scale_w, groups, k, ld)))
    if not scaled:
        return sizes
    _check_scale_types(scale_x, scale_w)
    has_no_zeros = form != ENDS_OF_DEPTH and zero_x is None and sums_w is None
    if has_no_zeros and _of_blocks(scale_x, scale_w, x, groups, n, k):
        return sizes._replace(scales=("block", "block") if k else ("", ""))
    of_x = _scaling("scale_x", scale_x, x, form, groups, m)
    of_w = _scaling("scale_w", scale_w, w, form, groups, n)
    zeros = _check_zeros(x, scale_x, zero_x, sums_w, groups, n)
    return sizes._replace(zeros=zeros, scales=(of_x, "row" if zeros else of_w))


def check_columns(x, w, offs, out_dtype, scale_x=None, scale_w=None):
    """Checks x [groups, M, K] and w [K, columns] by their own names, before they are swapped."""
    scaled = scale_x is not None
    (_check_scaled_types if scaled else check_types)(x, w, out_dtype)
    check_devices(x, ("w", w), ("offs", offs), ("scale_x", scale_x), ("scale_w", scale_w))
    (groups, m, k), (depth, columns) = x.shape, w.shape
    _check_depth(k, depth)
    if offs is not None and len(offs.shape) == 1 and offs.shape[0] != groups:
        raise ValueError(f"offs has {offs.shape[0]} groups, x has {groups}")
    if scaled:
        _check_scale_types(scale_x, scale_w)
        if not _of_blocks(scale_w, scale_x, w.transpose(0, 1), groups, m, k):
            _scaling("scale_x", scale_x, x, ENDS_OF_ROWS, groups, m)
            _scaling("scale_w", scale_w, w, ENDS_OF_ROWS, groups, columns)


class Matrix(NamedTuple):
    """How a matrix lies in memory: op(A) or op(B) of a problem."""

    trans: bool
    ld: int
    at: int  # element, from an aligned address on
    stride: int  # between groups


def lie(t):
    """How the matrices of t lie, or None: then t must be copied."""
    (rows, cols), (down, right) = t.shape[-2:], t.stride[-2:]
    group = t.stride[0] if len(t.shape) == 3 and t.shape[0] > 1 else 0
    at = t.at // t.dtype.itemsize
    if (right == 1 or cols <= 1) and (down >= cols or rows <= 1):
        return Matrix(False, down if rows > 1 else max(cols, 1), at, group)
    if (down == 1 or rows <= 1) and (right >= rows or cols <= 1):
        return Matrix(True, right if cols > 1 else max(rows, 1), at, group)
    return None


def _lie_packed(w):
    """lie() of a w of int4. Its panels must follow each other, as the words of its scales do."""
    (groups, panels, ld, each), (apart, *strides) = w.shape, w.stride
    apart = apart if groups > 1 else 0
    if panels == 0 or ld == 0:
        return Matrix(False, ld, 0, 0)
    if w.at or strides[1:] != [each, 1] or (strides[0] != ld * each and panels > 1):
        return None
    if apart * w.dtype.itemsize % ALIGN:
        return None
    return Matrix(False, ld, 0, PACKED[w.dtype] * apart)


def matrices(t):
    """How the matrices of a tensor lie."""
    return lie(Meta(*meta(t, t.data_ptr())))


def bound(n):
    """n, rounded up by at most an eighth, so that sizes that change from step to step share a program."""
    unit = 1 << max(n.bit_length() - 4, 0)
    return (n + unit - 1) // unit * unit


# Programs.


class Call(NamedTuple):
    """What to do for arguments of a kind."""

    copy: tuple = ()  # whether x, w, offs and bias must be copied; then the rest is for the copies
    shape: tuple = ()  # of the result
    dtype: Optional[torch.dtype] = None
    extent: int = 0  # of what offs cuts; the bounds of the program may be larger
    value: Optional[float] = None  # what the result is filled with before the run
    expand: tuple = ()  # how many scales those of w, and of x, become; -1: as many as there are
    key: tuple = ()  # of the program; () where nothing is to be run

    def prepare(self, device):
        form, groups, m, n, k, a, b, ldc, bias_at, bias_stride, flag, *options, zeros, scales = self.key
        options = _options(*options, zeros, scales)
        words = 1 + zeros  # of a scale
        counts = {"": 0, "tensor": words, "group-64": b.ld * (k // 64), "group-128": b.ld * (k // 128)}
        own = {"row": words * m, "block": m * blocks(k)}, {"row": words * n, "block": blocks(n) * blocks(k)}
        scales_a, scales_b = ((counts | each)[of] for of, each in zip(scales, own))  # of a group
        scale_a = groups * scales_b  # after those of w, since other numbers of rows share the program
        if form != BATCHED:
            return device.prepare_ragged(
                form, groups, m, n, k, lda=a.ld, ldb=b.ld, ldc=ldc, trans_a=a.trans, trans_b=b.trans,
                offset_a=a.at, offset_b=b.at,
                stride_b=b.stride, stride_c=m * ldc if form == ENDS_OF_DEPTH else 0,
                zero_rows=flag == ZERO_ROWS,
                nan_rows=flag == NAN_ROWS, bias=bias_at, stride_bias=bias_stride, scale_a=scale_a,
                options=options | INVARIANT)
        batch = [problem(m, n, k, a=a.at + g * a.stride, lda=a.ld, trans_a=a.trans, b=b.at + g * b.stride,
                         ldb=b.ld, trans_b=b.trans,
                         c=g * m * n, bias=bias_at + g * bias_stride, scale_a=scale_a + g * scales_a,
                         scale_b=g * scales_b)
                 for g in range(groups)]
        with device.plan(batch, **options) as plan:
            return device.prepare(plan)


def _options(type, type_c, bias, activation, zeros, scales):
    options = {"type_a": type, "type_c": type_c}
    if scales[1].startswith("group-"):
        options["type_b"] = "int4"
    if bias:
        options.setdefault("epilogue", {})["bias"] = True
    if activation:
        options.setdefault("epilogue", {})["activation"] = activation
    if any(scales):
        options.setdefault("epilogue", {}).update(scale_a=scales[0], scale_b=scales[1], zero_a=zeros)
    return options


@functools.lru_cache(maxsize=4096)
def call_of(x, w, offs, bias, activation, out_dtype, flag, *scales, n=None):
    """What to do for tensors with these meta(). flag: of flag_of()."""
    x, w, offs, bias, *scales = (t and Meta(*t) for t in (x, w, offs, bias, *scales))
    s = sizes_of(x, w, offs, bias, activation, out_dtype, *scales, n=n)
    packed = w.dtype in PACKED
    a, b = lie(x), _lie_packed(w) if packed else lie(w)
    if packed and a and a.trans:
        a = None  # beside such a w it is not transposed
    bias_lies = bias is None or bias.stride[-1] == 1 or s.n <= 1
    offs_lie = offs is None or offs.at == 0 and (offs.stride[0] == 1 or s.groups <= 1)
    if not (a and b and bias_lies and offs_lie):
        return Call(copy=(not a, not b, not offs_lie, not bias_lies))
    m, k, extent = s.m, s.k, 0
    if s.form == ENDS_OF_ROWS:
        # rows of a matrix are as long as its bound
        m, extent = min(bound(m), a.ld) if a.trans else bound(m), m
    if s.form == ENDS_OF_DEPTH:
        k, extent = min([bound(k)] + [a.ld] * (not a.trans) + [b.ld] * b.trans), k
    call = Call(shape=s.shape, dtype=s.dtype, extent=extent)
    if s.groups == 0 or s.m == 0 or s.n == 0 or s.form == ENDS_OF_DEPTH and s.k == 0:
        return call._replace(value=math.nan if flag == NAN_ROWS and s.form == ENDS_OF_ROWS else 0)
    if s.form == BATCHED:
        flag = 0
    if flag and (bias or activation or any(s.scales)):  # beside these the library fills nothing
        call, flag = call._replace(value=0 if flag == ZERO_ROWS else math.nan), 0
    bias_stride = bias.stride[0] if bias and len(bias.shape) == 2 and s.groups > 1 else 0
    type = SCALED.get(x.dtype) or PLAIN[x.dtype]
    key = (s.form, s.groups, m, s.n, k, a, b, s.n, bias.at // bias.dtype.itemsize if bias else 0, bias_stride,
           flag, type, PLAIN[s.dtype], bias is not None, activation, s.zeros, s.scales)
    expand = tuple(s.groups if of == "tensor" else -1 for of in reversed(s.scales))
    return call._replace(key=key, expand=expand)


class Programs:
    """The programs of a device. A program has memory of its own that its runs use, so it belongs to one
    stream."""

    def __init__(self, index):
        self.cuda = index >= 0
        self.index = index
        self.lock = threading.Lock()
        self.kept = OrderedDict()  # (stream, key, invariant): program, the one used last at the end
        self.captured = set()  # those of graphs, which are never closed
        self.handles = {}  # (stream, Calls): those of its programs
        if self.cuda and torch.cuda.is_current_stream_capturing():
            raise _not_warm()
        if self.cuda:  # batchgemm counts GPUs of compute capability 8.0 on
            older = 0
            if not torch.version.hip:
                older = sum(torch.cuda.get_device_capability(i) < (8, 0) for i in range(index))
            self.device = _open("hip" if torch.version.hip else "cuda", index - older)
        else:
            self.device = _open("cpu")
        self.wait = None if self.cuda else self.device.wait  # after each run
        holders.append(self)

    def run(self, call, addresses, arguments=None):
        """Queues a run_at() these addresses on the current stream. On the CPU it waits for the run.
        arguments: of the operator; eager finds the program by them from then on."""
        stream, capturing = self.now()
        with self.lock:
            program = self.queue(stream, capturing, call, addresses)
            if arguments:  # within the lock: after it the program may be another stream's
                like = {"dtype": call.dtype, "device": arguments[0].device}
                eager.keep(program.handle, (call.shape,), like, call.value, self.wait, call.expand,
                           *arguments)
        if self.wait:
            self.wait()

    def run_all(self, calls, addresses, keep=None):
        """run() of Calls, each at eight addresses, one after the other: one call of the library. keep: for
        eager, a function of the stream and of the handles of the programs."""
        stream, capturing = self.now()
        with self.lock:
            handles = None if capturing else self.handles.get((stream, calls))
            if handles is None:
                programs = [self.find(stream, call, capturing) for call in calls]
                handles = (ctypes.c_uint64 * len(calls))(*[program.handle for program in programs])
                if not capturing:
                    self.handles[stream, calls] = handles
            words = b"".join([ADDRESSES.pack(ADDRESSES.size, 0, *each) for each in addresses])
            _check(_run_all_at(stream, handles, words, len(handles)))
            if keep and not capturing:
                keep(stream, handles)
        if self.wait:
            self.wait()

    def now(self):
        """The current stream, and whether a graph captures it."""
        if not self.cuda:
            return 0, False
        return torch._C._cuda_getCurrentRawStream(self.index), torch.cuda.is_current_stream_capturing()

    def queue(self, stream, capturing, call, addresses):
        """Queues a run, and returns its program. Addresses are words: Program.run_at() would look again."""
        program, missing = self.find(stream, call, capturing), (0,) * (8 - len(addresses))
        _check(_run_at(program.handle, stream, ADDRESSES.pack(ADDRESSES.size, 0, *addresses, *missing)))
        return program

    def find(self, stream, call, capturing):
        at = stream, call.key, bool(INVARIANT)
        program = self.kept.get(at)
        if program is None:
            program = self.kept[at] = self.take(call) if capturing else self.prepare(call)
        self.kept.move_to_end(at)
        if capturing:
            self.captured.add(at)
        return program

    def prepare(self, call):
        if len(self.kept) > KEPT // 2:  # soon some are closed, by when they were used last
            self.forget()  # so that find() hears again of what is used
        free = [at for at in self.kept if at not in self.captured]
        for at in free[: max(0, len(self.kept) - len(self.captured) - KEPT + 1)]:
            self.kept.pop(at).close()
        program = call.prepare(self.device)
        self.device.wait()  # for the upload, which is on a stream of the device's own
        return program

    def take(self, call):
        """The program of the warm-up, whatever its stream was. Nothing can be prepared while a graph is
        captured."""
        for at in self.kept:
            if at[1:] == (call.key, bool(INVARIANT)) and at not in self.captured:
                self.forget()
                return self.kept.pop(at)
        raise _not_warm()

    def forget(self):
        """Which programs calls have. Then they find them again."""
        eager.clear()
        self.handles.clear()


def _not_warm():
    return RuntimeError("batchgemm: the first call with tensors of these shapes cannot be captured in a CUDA "
                        "graph: make one call before the capture")


@functools.lru_cache(maxsize=None)
def programs_of(index):
    return Programs(index)
