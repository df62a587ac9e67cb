"""batchgemm from Python: the objects of libbatchgemm.so, by ctypes alone (_abi.py).

    with batchgemm.open() as device:
        device.gemm([problem(2, 2, 3, ...)], a, b, c)      # a, b, c: array.array("f"), NumPy, ...

Names and meaning are those of batchgemm.h. The library is looked for where BATCHGEMM_LIBRARY says, else
beside this file, where the wheel has it, else where "make capi" puts it. Calls give up Python's lock while
they work, and Ctrl-C ends those that wait. Processes must not be started by fork: with multiprocessing use
the start method "spawn".
"""

from __future__ import annotations

import ctypes
import functools
import struct
import time
import warnings
import weakref
from array import array
from ctypes import byref, c_char_p, c_int32, c_void_p

from ._abi import (ADDRESSES, WORD, HostOperands, InvalidError, Operands, Problem, Ragged,
                   TimeLimitError, _call, _check, _create, _json, _library, _options, _run_at, integer)

TRANS_A, TRANS_B, ZERO_ROWS, NAN_ROWS = 1, 2, 4, 8
ENDS_OF_ROWS, ENDS_OF_DEPTH, RECORDS = 1, 2, 3

# Python acts on Ctrl-C when a call returns, so that nothing waits longer than this at a time, in seconds.
SLICE = 0.1
LONGEST = 1e9  # seconds of a time limit that count, 30 years
PANEL, GROUPS = 64, (64, 128)  # k's of weights of 4 bits that lie together, and that may share a scale
PIECE = 4 << 20  # elements that are copied between two looks at signals: some milliseconds


def problem(m, n, k, *, a=0, b=0, c=0, lda=None, ldb=None, ldc=None, trans_a=False, trans_b=False,
            alpha=1, beta=0,
            b2=0, ldb2=None, bias=0, rows_a=0, rows_c=0, weights=0, pointers=0, scale_a=0, scale_b=0):
    """C = alpha*op(A)*op(B) + beta*C. a, b, c: first element of each matrix in its
    array; leading dimensions are the row lengths unless given. b2 and what follows: for an epilogue."""
    lda = (m if trans_a else k) if lda is None else lda
    ldb = (k if trans_b else n) if ldb is None else ldb
    ldc = n if ldc is None else ldc
    flags = TRANS_A * bool(trans_a) | TRANS_B * bool(trans_b)
    return Problem.of(ctypes.sizeof(Problem), flags, m, n, k, a, lda, b, ldb, c, ldc, alpha, beta,
                      b2, ldb if ldb2 is None else ldb2, bias, rows_a, rows_c, weights, pointers,
                      scale_a, scale_b)


def pointers(a=0, b=0, c=0, b2=0):
    """The words of a problem's addresses (torch: data_ptr(); Buffer.address()), for the rows of an epilogue
    with pointers: array("i")."""
    return array("i", struct.pack("=4Q", *_words(a=a, b=b, c=c, b2=b2)))


def _words(**values):
    """Unsigned integers of 64 bits."""
    return [integer(name, value, *WORD) for name, value in values.items()]


def _wait(name, *args, timeout):
    """A call whose last argument is a time limit, and which goes on after it, in slices."""
    end = _end(timeout)
    while True:
        left = SLICE if end is None else min(SLICE, _left(end))
        try:
            return _call(name, *args, _milliseconds(left))
        except TimeLimitError:
            if end is not None and _left(end) == 0:
                raise _over(timeout) from None


def _end(timeout):
    """When a time limit, in seconds, is over; None: never."""
    if timeout is None:
        return None
    if not timeout >= 0:
        raise InvalidError(f"timeout is {timeout!r}: it must be seconds, 0 or more, or None")
    return time.monotonic() + min(timeout, LONGEST)


def _left(end):
    """Seconds until then; None: for ever."""
    return None if end is None else max(0, end - time.monotonic())


def _over(timeout):
    return TimeLimitError(f"the time limit of {timeout:g} s was reached")


def _batch(problems):
    return (Problem * len(problems))(*problems), len(problems)


# Formats of memory that elements of a type may lie in, the size of what has one, and how many elements that
# has; Python has none of bf16, e4m3 and int4.
FORMATS = {"f32": ("f", 4, 1), "bf16": ("Hh", 2, 1), "f16": ("eHh", 2, 1), "e4m3": ("Bb", 1, 1),
           "int8": ("b", 1, 1), "int4": ("Ii", 4, 8)}


class _View(ctypes.Structure):
    """Py_buffer."""

    _fields_ = [("buf", c_void_p), ("obj", c_void_p), ("len", ctypes.c_ssize_t),
                ("itemsize", ctypes.c_ssize_t),
                ("readonly", ctypes.c_int), ("ndim", ctypes.c_int), ("format", c_char_p), ("shape", c_void_p),
                ("strides", c_void_p), ("suboffsets", c_void_p), ("internal", c_void_p)]


def _known(type):
    """A type that FORMATS has."""
    if not isinstance(type, str):
        raise TypeError(f"type is {type!r}: it must be the name of one, as text: {', '.join(FORMATS)}")
    if type not in FORMATS:
        raise InvalidError(f"unknown type {type!r} (known: {', '.join(FORMATS)})")
    return type


def _host(name, data, writable=False, type="f32", more=""):
    """Address and length of contiguous memory of a type of elements, read-only or not, and what keeps it.
    more: formats that are also good."""
    view = memoryview(data)
    formats, size, elements = FORMATS[_known(type)]
    formats += more
    fits = view.format in formats and view.itemsize == size and view.c_contiguous
    if not fits or (writable and view.readonly):
        wanted = f"contiguous memory of {type} (format {' or '.join(formats)})" + ", writable" * writable
        got = f"format {view.format}" + ", not contiguous" * (not view.c_contiguous)
        got += ", read-only" * view.readonly
        raise TypeError(f"{name}: expected {wanted}, got {got}")
    raw = _View()
    ctypes.pythonapi.PyObject_GetBuffer(ctypes.py_object(view), byref(raw), 0)  # asks for no right to write
    address = raw.buf
    ctypes.pythonapi.PyBuffer_Release(byref(raw))  # view keeps it
    return address, view.nbytes // size * elements, view


def _milliseconds(seconds):
    return 0 if seconds is None else max(1, int(seconds * 1000))


class _Object:
    """A handle. Closed by close() or with; one that is dropped is closed with a
    ResourceWarning, whenever Python finds it. Keep what a captured CUDA graph uses,
    and close nothing while one is captured. A device closes its programs and buffers,
    and lives as long as one of them."""

    def __init__(self, handle, device=None):
        self.handle = handle
        self._device = device
        self._finalizer = weakref.finalize(self, _drop, type(self).__name__, handle)
        self._finalizer.atexit = False  # the end of the process frees everything

    def close(self) -> None:
        self._finalizer.detach()
        _call("bg_close", self.handle)

    def __enter__(self):
        return self

    def __exit__(self, *_) -> None:
        self.close()


def _drop(kind, handle):
    """Closes an object that nobody closed, nor its device with itself."""
    if _library.bg_close(handle) == 0:
        warnings.warn(f"{kind} {handle} was not closed", ResourceWarning)


class Device(_Object):
    """A GPU, or the CPU. Any thread may use it at any time."""

    def __init__(self, handle, device=None):
        super().__init__(handle, device)
        self._held: list = []

    def close(self) -> None:
        """Waits for queued work (the CPU abandons it), and closes what the device has with it."""
        super().close()
        self._release()

    def _hold(self, used):
        """Keeps memory that queued work uses until _release(), which comes when that is done: beyond a call
        that is cut off, and beyond the end of Python, which would free it under the threads of the
        library."""
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(used))
        self._held.append(used)

    def _release(self):
        held, self._held = self._held, []
        for used in held:
            ctypes.pythonapi.Py_DecRef(ctypes.py_object(used))

    @functools.cached_property
    def backend(self) -> str:
        """The name of its backend, as open() takes it."""
        return self.info()["backend"]

    def on_stream(self, stream):
        """The same GPU, with all work on this stream (torch: Stream.cuda_stream)."""
        return type(self)(_create("bg_open_on_stream", self.handle, integer("stream", stream, *WORD)))

    def info(self):
        return _json("bg_device_info", self.handle)

    def warm(self, trans_a=False, trans_b=False, timeout=None, **options):
        """Makes every kernel ready that plans, ragged ones too, with such options may choose. The option
        warmed=True keeps to them."""
        flags = TRANS_A * bool(trans_a) | TRANS_B * bool(trans_b)
        _wait("bg_warm", self.handle, _options(options), flags, timeout=timeout)

    def plan(self, problems, **options):
        """options: those of bg_plan_new, such as epilogue={"bias": True, "pointers": {"b": True}}."""
        return Plan(_create("bg_plan_new", self.handle, *_batch(problems), _options(options)))

    def prepare(self, plan):
        return Program(_create("bg_prepare", self.handle, plan.handle), self)

    def prepare_ragged(self, form, groups, m, n, k, *, lda=None, ldb=None, ldc=None, stride_b=None,
                       stride_c=None,
                       trans_a=False, trans_b=False, zero_rows=False, nan_rows=False, alpha=1, beta=0,
                       options=None,
                       **more):
        """A program whose sizes are on the device: form, groups and what bounds them are as
        in bg_ragged. Operands are dense unless told otherwise. options: those of plan();
        more: the other fields of bg_ragged, such as offset_a, mean_m and len_a."""
        m, n, k = (integer(*size) for size in (("m", m), ("n", n), ("k", k)))  # whose products do not wrap
        lda = (m if trans_a else k) if lda is None else lda
        ldb = (k if trans_b else n) if ldb is None else ldb
        ldc = n if ldc is None else ldc
        if stride_b is None:
            stride_b = (n if trans_b else k) * integer("ldb", ldb) if form == ENDS_OF_ROWS else 0
        if stride_c is None:
            stride_c = m * integer("ldc", ldc) if form == ENDS_OF_DEPTH else 0
        flags = TRANS_A * bool(trans_a) | TRANS_B * bool(trans_b)
        flags |= ZERO_ROWS * bool(zero_rows) | NAN_ROWS * bool(nan_rows)
        ragged = Ragged(ctypes.sizeof(Ragged), flags, form, groups, m, n, k, lda=lda, ldb=ldb, ldc=ldc,
                        stride_b=stride_b, stride_c=stride_c, alpha=alpha, beta=beta, **more)
        return Program(_create("bg_prepare_ragged", self.handle, byref(ragged), _options(options)), self)

    def buffer(self, count, type="f32"):
        """Memory for elements of "f32", "bf16", "f16", "e4m3", "int8" or "int4", which write() and read()
        move in words of eight (pack_int4(), array.array("I"), NumPy's uint32 and int32)."""
        name, count = _known(type).encode(), integer("count", count)
        return Buffer(_create("bg_buffer_new_of", self.handle, name, count), self, count, type)

    def wrap(self, address, count, type="f32"):
        """A buffer in memory of the GPU that the caller owns (torch: data_ptr(), numel()): float32 or int32,
        or with type="bf16", "f16", "e4m3" or "int8" torch.bfloat16, torch.float16, torch.float8_e4m3fn or
        torch.int8; of "int4" count is of elements, eight an int32."""
        name = _known(type).encode()
        address, count = integer("address", address, *WORD), integer("count", count)
        return Buffer(_create("bg_buffer_wrap_of", self.handle, name, address, count), self, count, type)

    def copy(self, dst, src):
        """Queues a copy of a buffer, whole, to another of the same length and type."""
        _call("bg_copy", self.handle, dst.handle, src.handle)

    def wait(self, timeout: float | None = None) -> None:
        """Returns when all queued work is done; timeout in seconds, here and elsewhere."""
        _wait("bg_wait", self.handle, timeout=timeout)

    def gemm(self, problems, a, b, c, timeout=None, *, b2=None, bias=None, rows=None, **options):
        """The batch on host memory; options as in plan(). With type_a="bf16" or "f16", a and b are memory of
        16-bit words (NumPy: float16 too; torch: x.view(torch.int16).numpy()), and so is c where type_c is one
        of these. With type_a="e4m3" they are memory of bytes (torch.float8_e4m3fn:
        x.view(torch.uint8).numpy()), with type_a="int8" of signed ones (NumPy and torch: int8). All but c may
        be read-only; nothing is copied but to the device. Where it fails, c is as before. b2, bias and rows,
        of 32-bit words (array.array("i"), NumPy's int32), are what the option epilogue asks for."""
        of, of_c = options.get("type_a", "f32"), options.get("type_c", "f32")
        given = {"a": _host("a", a, type=of), "b": _host("b", b, type=of),
                 "c": _host("c", c, writable=True, type=of_c)}
        rest = ("b2", b2, of, ""), ("bias", bias, of_c, ""), ("rows", rows, "f32", "i")
        for name, data, type, more in rest:
            if data is not None:
                given[name] = _host(name, data, type=type, more=more)
        self._gemm(_batch(problems), options, given, timeout)

    def _gemm(self, batch, options, given, timeout):
        """gemm() with address, length and keeper of each operand by name."""
        operands = HostOperands(ctypes.sizeof(HostOperands))
        for name, (address, length, _keep) in given.items():
            setattr(operands, name, address)
            setattr(operands, "len_" + name, length)
        with Read(_create("bg_gemm_operands_async", self.handle, *batch, _options(options), byref(operands)),
                  None, given) as call:
            _wait("bg_read_wait", call.handle, timeout=timeout)


class Plan(_Object):
    def explain(self):
        return _json("bg_plan_explain", self.handle)


class Program(_Object):
    def update(self, problems):
        """Another batch for the runs queued from now on, planned with the same options."""
        _call("bg_update", self.handle, *_batch(problems))

    def run(self, a=None, b=None, c=None, *, sizes=None, b2=None, bias=None, rows=None):
        """Queues one execution; sizes: of a ragged program; b2, bias and rows: of an epilogue, which may have
        a, b and c by pointers."""
        given = {"a": a, "b": b, "c": c, "sizes": sizes, "b2": b2, "bias": bias, "rows": rows}
        handles = {name: buffer.handle for name, buffer in given.items() if buffer}
        _call("bg_run_operands", self.handle, byref(Operands(ctypes.sizeof(Operands), 0, **handles)))

    def run_ragged(self, sizes, a, b, c, **more):
        """Queues one execution of a ragged program, with sizes of a buffer."""
        self.run(a, b, c, sizes=sizes, **more)

    def run_at(self, stream, a=0, b=0, c=0, sizes=0, b2=0, bias=0, rows=0, extent=0):
        """Queues one execution on memory at addresses (torch: data_ptr()), on a stream; bg_run_at says what
        of that nobody checks, and what extent is."""
        words = _words(stream=stream, a=a, b=b, c=c, sizes=sizes, b2=b2, bias=bias, rows=rows)
        addresses = ADDRESSES.pack(ADDRESSES.size, 0, *words[1:], integer("extent", extent))
        _check(_run_at(self.handle, words[0], addresses))

    def status(self, timeout=None):
        """Waits, and raises an Error that names the group where a run since the last call refused sizes."""
        _wait("bg_program_status", self.handle, timeout=timeout)


class Buffer(_Object):
    """Memory of a device for count elements of a type."""

    def __init__(self, handle, device, count, type="f32"):
        super().__init__(handle, device)
        self.count, self.type = count, type

    def address(self):
        """Where it begins in the GPU's memory, until it is closed, for pointers(): CUDA and HIP."""
        return _create("bg_buffer_address", self.handle)

    def write(self, data, offset=0, timeout=None):
        """Copies elements of the buffer's type, or the int32 of sizes: array.array("i"), NumPy's int32."""
        self._move("bg_buffer_write", offset, self._host(data), timeout)

    def read(self, data, offset=0, timeout=None):
        """Copies elements to data, after the runs queued before."""
        self._move("bg_buffer_read", offset, self._host(data, writable=True), timeout)

    def _move(self, name, offset, host, timeout):
        """Copies in pieces. Where one has to wait for runs, which may take long, the wait is apart, in
        slices: a copy that is cut off is to be made again."""
        offset, (address, count, _keep) = integer("offset", offset), host
        (_, size, elements), end = FORMATS[self.type], _end(timeout)
        for at in range(0, count or 1, PIECE):
            piece = (self.handle, offset + at, (address or 0) + at // elements * size, min(PIECE, count - at))
            try:
                _call(name, *piece, _milliseconds(SLICE if end is None else min(SLICE, _left(end))))
            except TimeLimitError:
                try:
                    self._device.wait(_left(end))
                    _call(name, *piece, _milliseconds(_left(end)))
                except TimeLimitError:
                    raise _over(timeout) from None

    def read_async(self, data, offset=0):
        """Queues a read after the runs before it, and returns it as a Read. data is the read's until
        then."""
        address, count, keep = self._host(data, writable=True)
        offset = integer("offset", offset)
        return Read(_create("bg_buffer_read_async", self.handle, offset, address, count), self._device, keep)

    def slice(self, offset, count):
        """Elements from offset on, a multiple of 256 bytes, as a buffer in the same memory, until this one is
        closed."""
        offset, count = integer("offset", offset), integer("count", count)
        slice = Buffer(_create("bg_buffer_slice", self.handle, offset, count), self._device, count, self.type)
        slice._of = self  # Python drops this one after it
        return slice

    def _host(self, data, writable=False):
        return _host("data", data, writable, self.type, "i" if self.type == "f32" else "")


class Read(_Object):
    """A read, or a product on host memory, under way. close() ends it; keep is what it works on until
    then."""

    def __init__(self, handle, device, keep):
        super().__init__(handle, device)
        self._keep = keep

    def done(self):
        """Whether wait() would not wait."""
        done = c_int32()
        _call("bg_read_done", self.handle, byref(done))
        return done.value != 0

    def wait(self, timeout=None):
        """Returns when the data is there, and closes the read then."""
        _wait("bg_read_wait", self.handle, timeout=timeout)
        self.close()


def check_panels(k):
    """For weights of 4 bits, which lie in panels of so many along K."""
    if k % PANEL:
        raise InvalidError(f"K is {k}: it must be a multiple of {PANEL}")


def check_group(k, group):
    """For weights of 4 bits, of which so many along K share a scale."""
    if integer("group", group) not in GROUPS:
        raise InvalidError(f"group is {group!r}: it must be 64 or 128")
    if k % group:
        raise InvalidError(f"K is {k}: it must be a multiple of {group}, the group")


def least_ld(n):
    """The leading dimension that n columns of weights of 4 bits are packed with."""
    return (n + 7) // 8 * 8


def panels(n, k):
    """The shape of the words of K x N weights of 4 bits."""
    return k // PANEL, least_ld(n), 8
