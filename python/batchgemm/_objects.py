"""What a device has: plans, programs, buffers and reads, as objects over handles of libbatchgemm.so.

Calls give up Python's lock while they work. Ctrl-C ends those that wait.
"""

from __future__ import annotations

import ctypes
import time
import warnings
import weakref
from ctypes import byref, c_int32, c_int64, c_uint64, sizeof

from ._abi import (ADDRESSES, EXPERT_ADDRESSES, WORD, ExpertOperands, InvalidError, Operands, Problem,
                   TimeLimitError, _call, _check, _create, _json, _library, _run_at, integer)
from ._memory import FORMATS, host

# Python acts on Ctrl-C when a call returns, so nothing waits longer than this at a time, in seconds.
SLICE = 0.1
LONGEST = 1e9  # seconds of a time limit that count: 30 years
PIECE = 4 << 20  # elements that are copied between two looks at signals: some milliseconds


def wait(name, *args, timeout):
    """A call in slices. Its last argument is a time limit, and it can be made again after that."""
    end = end_of(timeout)
    while True:
        left = SLICE if end is None else min(SLICE, _left(end))
        try:
            return _call(name, *args, _milliseconds(left))
        except TimeLimitError:
            if end is not None and _left(end) == 0:
                raise _over(timeout) from None


def end_of(timeout):
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


def _milliseconds(seconds):
    return 0 if seconds is None else max(1, int(seconds * 1000))


def batch_of(problems):
    return (Problem * len(problems))(*problems), len(problems)


def words_of(**values):
    """Unsigned integers of 64 bits."""
    return [integer(name, value, *WORD) for name, value in values.items()]


class Object:
    """A handle. close() or a with statement closes it. Python closes one that is dropped, with a
    ResourceWarning, whenever it finds it. Keep what a captured CUDA graph uses, and close nothing while one
    is
    captured. A device closes its programs and buffers, and lives as long as one of them."""

    def __init__(self, handle, device=None):
        self.handle = handle
        self._device = device
        self._finalizer = weakref.finalize(self, _drop, type(self).__name__, handle)
        self._finalizer.atexit = False  # the end of the process frees everything

    def close(self) -> None:
        """Frees the object. A with statement calls this at its end.

        Raises:
            ClosedError: it was closed before.
        """
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


class Plan(Object):
    """How a device computes a batch: tile shapes, schedule and launches. Device.plan() makes it.

    Example:
        >>> import batchgemm
        >>> with batchgemm.open("cpu") as device, device.plan([batchgemm.problem(2, 3, 4)]) as plan:
        ...     len(plan.explain()["problems"])
        1
    """

    def explain(self):
        """Describes the plan.

        Returns:
            A dict: the launches, and for each problem its tile shape and why it was chosen.

        Raises:
            ClosedError: the plan was closed.
        """
        return _json("bg_plan_explain", self.handle)


class Program(Object):
    """A plan made ready on a device. Runs only launch. Device.prepare() and Device.prepare_ragged() make it.

    Example:
        >>> import batchgemm
        >>> from array import array
        >>> device = batchgemm.open("cpu")
        >>> with device.plan([batchgemm.problem(1, 1, 2)]) as plan:
        ...     program = device.prepare(plan)
        >>> a, b, c = device.buffer(2), device.buffer(2), device.buffer(1)
        >>> a.write(array("f", [1, 2])), b.write(array("f", [3, 4]))
        (None, None)
        >>> program.run(a, b, c)
        >>> got = array("f", [0])
        >>> c.read(got)
        >>> got[0]
        11.0
        >>> device.close()  # and its programs and buffers
    """

    def update(self, problems):
        """Gives the program another batch, planned with the same options, for runs from now on.

        Args:
            problems: a list of problem(), of any sizes.

        Raises:
            InvalidError: a problem is wrong, or the program is ragged. The program is as before.
        """
        _call("bg_update", self.handle, *batch_of(problems))

    def run(self, a=None, b=None, c=None, *, sizes=None, b2=None, bias=None, rows=None):
        """Queues one execution, and returns.

        Args:
            a, b, c: Buffers of the operands; None where an epilogue has them by pointers. c is neither a nor
                b.
            sizes: Buffer of the int32 sizes of a ragged program.
            b2, bias, rows: Buffers that the epilogue asks for.

        Raises:
            InvalidError: a buffer is too short, of another type or of another device.
            ClosedError: a buffer is missing or closed; the text names it.
        """
        given = {"a": a, "b": b, "c": c, "sizes": sizes, "b2": b2, "bias": bias, "rows": rows}
        handles = {name: buffer.handle for name, buffer in given.items() if buffer}
        _call("bg_run_operands", self.handle, byref(Operands(sizeof(Operands), 0, **handles)))

    def run_ragged(self, sizes, a, b, c, **more):
        """run(a, b, c, sizes=sizes): queues one execution of a ragged program.

        Args:
            sizes, a, b, c, more: as of run().

        Raises:
            InvalidError, ClosedError: as of run(). Wrong sizes are an error of status().
        """
        self.run(a, b, c, sizes=sizes, **more)

    def run_at(self, stream, a=0, b=0, c=0, sizes=0, b2=0, bias=0, rows=0, extent=0):
        """Queues one execution on memory at addresses. Nobody checks what is there.

        Args:
            stream: a stream of CUDA or HIP (torch: Stream.cuda_stream); 0 on the CPU.
            a, b, c, sizes, b2, bias, rows: addresses (torch: data_ptr()), multiples of 16, of memory that
                stays until the run is done; 0 where there is none.
            extent: how many rows (with ENDS_OF_DEPTH: how much depth) of a ragged program's bound are there;
                0 is the bound.

        Raises:
            InvalidError: extent is beyond the bound, or an address is missing or no multiple of 16.
            Error: WebGPU, which has no addresses.
        """
        addresses = _addresses(a, b, c, sizes, b2, bias, rows, extent)
        _check(_run_at(self.handle, *words_of(stream=stream), addresses))

    def status(self, timeout=None):
        """Waits for queued runs, and looks for sizes that they refused.

        Args:
            timeout: seconds; None waits for ever.

        Raises:
            InvalidError: a run since the last call refused sizes; the text names the group.
            TimeLimitError: timeout was over.
        """
        wait("bg_program_status", self.handle, timeout=timeout)


def _addresses(a=0, b=0, c=0, sizes=0, b2=0, bias=0, rows=0, extent=0):
    """bg_addresses."""
    words = words_of(a=a, b=b, c=c, sizes=sizes, b2=b2, bias=bias, rows=rows)
    return ADDRESSES.pack(ADDRESSES.size, 0, *words, integer("extent", extent))


def run_all_at(stream, runs):
    """Queues executions of programs on memory at addresses, in order, as one call: bg_run_all_at.

    Args:
        stream: as of Program.run_at().
        runs: pairs of a Program and a dict of addresses and extent, as of Program.run_at(). All programs are
            of one device.

    Raises:
        InvalidError, Error: as of Program.run_at(). Nothing was queued, unless the driver failed.
    """
    handles = (c_uint64 * len(runs))(*(program.handle for program, _ in runs))
    addresses = b"".join(_addresses(**at) for _, at in runs)
    _call("bg_run_all_at", *words_of(stream=stream), handles, addresses, len(runs))


class Experts(Object):
    """A layer of experts made ready on a device, in one call. Device.prepare_experts() makes it."""

    def scales(self):
        """How the operand scales is laid out: bg_experts_scales in batchgemm.h.

        Returns:
            gate_up, down, words: the words of 32 bits at which the scales of gate and up, and of down, begin,
            and how many words there are. The words before are memory of the run. 0, 0, 0 without scales.
        """
        words = (c_int64 * 3)()
        at = [ctypes.cast(byref(words, 8 * i), ctypes.POINTER(c_int64)) for i in range(3)]
        _call("bg_experts_scales", self.handle, *at)
        return tuple(words)

    def run(self, x, y, index, weights, gate_up, down, *, up=None, bias_gate_up=None, bias_down=None,
            scales=None):
        """Queues one execution, and returns.

        Args:
            x, y: Buffers of the tokens and of the result, [tokens, hidden]. y may be x.
            index, weights: Buffers of the router's choices and weights, [tokens, top_k]. A choice that is
                none of the experts' numbers does not count.
            gate_up, down, up: Buffers of the layer's weights; up where gate and up are apart.
            bias_gate_up, bias_down: Buffers of biases, where the layer has them.
            scales: a Buffer of scales(), where weights have scales.

        Raises:
            InvalidError: a buffer is missing, too short, of another type or of another device.
            ClosedError: a buffer is closed; the text names it.
        """
        given = {"x": x, "y": y, "index": index, "weights": weights, "gate_up": gate_up, "down": down,
                 "up": up, "bias_gate_up": bias_gate_up, "bias_down": bias_down, "scales": scales}
        handles = {name: buffer.handle for name, buffer in given.items() if buffer}
        _call("bg_run_experts", self.handle, byref(ExpertOperands(sizeof(ExpertOperands), 0, **handles)))

    def run_at(self, stream, x, y, index, weights, gate_up, down, up=0, bias_gate_up=0, bias_down=0,
               tokens=0, scales=0):
        """Queues one execution on memory at addresses. Nobody checks what is there.

        Args:
            stream, x, y, index, weights, gate_up, down, up, bias_gate_up, bias_down, scales: as of
                Program.run_at().
            tokens: how many there are; 0 is as many as there may be.

        Raises:
            InvalidError: there are more tokens than that, or an address is missing or no multiple of 16.
            Error: WebGPU, which has no addresses.
        """
        words = words_of(stream=stream, x=x, y=y, index=index, weights=weights, gate_up=gate_up, down=down,
                         up=up, bias_gate_up=bias_gate_up, bias_down=bias_down, scales=scales)
        addresses = EXPERT_ADDRESSES.pack(EXPERT_ADDRESSES.size, 0, *words[1:-1], integer("tokens", tokens),
                                          words[-1])
        _call("bg_run_experts_at", self.handle, words[0], addresses)


class Buffer(Object):
    """Memory of a device, of count elements of a type. Device.buffer() and Device.wrap() make it.

    Example:
        >>> import batchgemm
        >>> from array import array
        >>> with batchgemm.open("cpu") as device, device.buffer(3) as buffer:
        ...     buffer.write(array("f", [1, 2, 3]))
        ...     got = array("f", [0, 0])
        ...     buffer.read(got, offset=1)
        ...     got.tolist()
        [2.0, 3.0]
    """

    def __init__(self, handle, device, count, type="f32"):
        super().__init__(handle, device)
        self.count, self.type = count, type

    def address(self):
        """Where the buffer begins in the memory of a CUDA or HIP device, for pointers().

        Returns:
            An int, good until the buffer is closed.

        Raises:
            Error: the backend has no addresses.
        """
        return _create("bg_buffer_address", self.handle)

    def write(self, data, offset=0, timeout=None):
        """Copies elements from the host, after the runs queued before.

        Args:
            data: contiguous memory of the buffer's type. A buffer of "f32" takes int32 too, for sizes and
                rows (array.array("i")). "int4" is moved as words of eight elements.
            offset: the first element that is written.
            timeout: seconds; None waits for ever.

        Raises:
            TypeError: data is memory of another format.
            InvalidError: it goes beyond the end of the buffer.
            TimeLimitError: timeout was over. The part that was to be written is undefined.
        """
        self._move("bg_buffer_write", offset, self._host(data), timeout)

    def read(self, data, offset=0, timeout=None):
        """Copies elements to the host, after the runs queued before.

        Args:
            data: writable memory, as of write().
            offset: the first element that is read.
            timeout: seconds; None waits for ever.

        Raises:
            TypeError, InvalidError: as of write().
            TimeLimitError: timeout was over. What data has is undefined.
        """
        self._move("bg_buffer_read", offset, self._host(data, writable=True), timeout)

    def _move(self, name, offset, host, timeout):
        """Copies in pieces. Where one has to wait for runs, which may take long, the wait is apart, in
        slices: a copy that is cut off is to be made again."""
        offset, (address, count, _keep) = integer("offset", offset), host
        (_, size, elements), end = FORMATS[self.type], end_of(timeout)
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
        """Queues a read after the runs before it, and returns.

        Args:
            data: writable memory, as of read(). It is the read's until that is done.
            offset: the first element that is read.

        Returns:
            A Read.

        Raises:
            TypeError, InvalidError: as of read().
        """
        address, count, keep = self._host(data, writable=True)
        offset = integer("offset", offset)
        return Read(_create("bg_buffer_read_async", self.handle, offset, address, count), self._device, keep)

    def slice(self, offset, count):
        """A part of the buffer, in the same memory.

        Args:
            offset: the first element. It is a multiple of 256 bytes.
            count: how many elements.

        Returns:
            A Buffer, good until this one is closed.

        Raises:
            InvalidError: offset is no multiple of 256 bytes, or the part goes beyond the end.
        """
        offset, count = integer("offset", offset), integer("count", count)
        slice = Buffer(_create("bg_buffer_slice", self.handle, offset, count), self._device, count, self.type)
        slice._of = self  # Python drops this one after it
        return slice

    def _host(self, data, writable=False):
        return host("data", data, writable, self.type, "i" if self.type == "f32" else "")


class Read(Object):
    """A read that is under way, or a product on host memory. close() ends it. Buffer.read_async() makes it.

    Example:
        >>> import batchgemm
        >>> from array import array
        >>> with batchgemm.open("cpu") as device, device.buffer(1) as buffer:
        ...     buffer.write(array("f", [7]))
        ...     got = array("f", [0])
        ...     reading = buffer.read_async(got)
        ...     reading.wait(timeout=60)
        ...     got[0]
        7.0
    """

    def __init__(self, handle, device, keep):
        super().__init__(handle, device)
        self._keep = keep

    def done(self):
        """Tells whether wait() would return at once.

        Returns:
            A bool.

        Raises:
            ClosedError: the read was closed, as wait() does.
        """
        done = c_int32()
        _call("bg_read_done", self.handle, byref(done))
        return done.value != 0

    def wait(self, timeout=None):
        """Returns when the data is there, and closes the read.

        Args:
            timeout: seconds; None waits for ever.

        Raises:
            TimeLimitError: timeout was over. The read goes on.
            Error: what the read failed of.
        """
        wait("bg_read_wait", self.handle, timeout=timeout)
        self.close()
