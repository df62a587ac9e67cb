"""Devices and problems, over libbatchgemm.so by ctypes alone (_abi.py).

    with batchgemm.open() as device:
        device.gemm([problem(2, 2, 3, ...)], a, b, c)      # a, b, c: array.array("f"), NumPy, ...

Names and meaning are those of batchgemm.h. BATCHGEMM_LIBRARY says where the library is. Otherwise it is
beside this file, where the wheel has it, or where "make capi" puts it. Do not start processes by fork: with
multiprocessing use the start method "spawn".
"""

from __future__ import annotations

import ctypes
import functools
import struct
from array import array
from ctypes import byref

from ._abi import (WORD, Choices, Gate, HostOperands, InvalidError, Layer, Problem, Ragged, _call, _create,
                   _json, _options, integer, rest)
from ._memory import host, known
from ._objects import Buffer, Experts, Object, Plan, Program, Read, batch_of, wait, words_of

TRANS_A, TRANS_B, ZERO_ROWS, NAN_ROWS = 1, 2, 4, 8
ENDS_OF_ROWS, ENDS_OF_DEPTH, RECORDS = 1, 2, 3
INDEX_64, INTERLEAVED, APART = 1, 4, 8  # of layers of experts
GATED, ALL_ROWS = 1, 16  # of what is between their products


def problem(m, n, k, *, a=0, b=0, c=0, lda=None, ldb=None, ldc=None, trans_a=False, trans_b=False,
            alpha=1, beta=0,
            b2=0, ldb2=None, bias=0, rows_a=0, rows_c=0, weights=0, pointers=0, scale_a=0, scale_b=0):
    """One product of a batch: C = alpha * op(A) * op(B) + beta * C, row-major.

    Args:
        m, n, k: sizes from 0 to 2**31 - 1.
        a, b, c: the first element of each matrix in its array or buffer. Multiples of 4 are faster.
        lda, ldb, ldc: elements from one stored row to the next. Default: rows follow each other.
        trans_a, trans_b: whether A is stored as [k, m], B as [n, k].
        alpha, beta: factors in the range of float32, to which they are rounded unless type_a is "f64".
            beta = 0 never reads C.
        b2, ldb2: the second B of gated units, which is stored as B is. ldb2 is ldb unless given.
        bias: its first element. There are n of them, 2n with gated units.
        rows_a, rows_c, weights: the first of m words in rows, for each list that the epilogue names.
        pointers: the first of the 8 words in rows that batchgemm.pointers() makes.
        scale_a, scale_b: the first words in rows of the scales of A and of B.

    Shapes:
        op(A) [m, k], op(B) [k, n], C [m, n].

    Returns:
        A Problem, whose fields can be set.

    Raises:
        InvalidError: an integer is beyond 64 bits, or a factor is no number of float32. Wrong sizes are an
            error of Device.plan() and Device.gemm().
        TypeError: a size, an offset or a leading dimension is no integer.

    Example:
        >>> from batchgemm import problem
        >>> p = problem(2, 3, 4, c=6)
        >>> p.m, p.lda, p.offset_c
        (2, 4, 6)
    """
    lda = (m if trans_a else k) if lda is None else lda
    ldb = (k if trans_b else n) if ldb is None else ldb
    ldc = n if ldc is None else ldc
    flags = TRANS_A * bool(trans_a) | TRANS_B * bool(trans_b)
    return Problem.of(ctypes.sizeof(Problem), flags, m, n, k, a, lda, b, ldb, c, ldc,
                      alpha, beta, b2, ldb if ldb2 is None else ldb2, bias, rows_a, rows_c, weights, pointers,
                      scale_a, scale_b, rest(alpha), rest(beta))


def pointers(a=0, b=0, c=0, b2=0):
    """The words of one problem's addresses, for the rows of an epilogue with pointers (CUDA and HIP).

    Args:
        a, b, c, b2: addresses (torch: data_ptr(); Buffer.address()); 0 where there is none.

    Returns:
        array.array("i") of 8 words.

    Raises:
        InvalidError: an address is beyond 64 bits.
        TypeError: an address is no integer.

    Example:
        >>> import batchgemm
        >>> batchgemm.pointers(a=4096, c=8192).tolist()
        [4096, 0, 0, 0, 8192, 0, 0, 0]
    """
    return array("i", struct.pack("=4Q", *words_of(a=a, b=b, c=c, b2=b2)))


class Device(Object):
    """A GPU, or the CPU. Any thread may use it at any time."""

    @functools.cached_property
    def backend(self) -> str:
        """The name of its backend, as open() takes it."""
        return self.info()["backend"]

    def on_stream(self, stream):
        """Opens the same GPU again, with all work on a stream of the caller.

        Args:
            stream: of CUDA or HIP (torch: Stream.cuda_stream). It must outlive the new device.

        Returns:
            A Device, independent of this one.

        Raises:
            InvalidError: stream is none of this GPU.
            Error: the backend has no streams.
        """
        return type(self)(_create("bg_open_on_stream", self.handle, integer("stream", stream, *WORD)))

    def info(self):
        """Describes the device.

        Returns:
            A dict: backend, index, name, driver, and the facts that planning uses.

        Raises:
            ClosedError: the device was closed.
        """
        return _json("bg_device_info", self.handle)

    def warm(self, trans_a=False, trans_b=False, timeout=None, **options):
        """Makes kernels ready for plans with such options, ragged ones too, of any sizes.

        On WebGPU they are few, chosen to serve all sizes, and take seconds; elsewhere all, and take next to
        nothing. The option warmed=True keeps later plans to these kernels, so that nothing is compiled.

        Args:
            trans_a, trans_b: of the problems to come; a call for each combination.
            timeout: seconds; None waits for ever. What is ready by then stays so.
            options: as of plan().

        Raises:
            InvalidError: an option is wrong.
            TimeLimitError: timeout was over.
        """
        flags = TRANS_A * bool(trans_a) | TRANS_B * bool(trans_b)
        wait("bg_warm", self.handle, _options(options), flags, timeout=timeout)

    def plan(self, problems, **options):
        """Plans a batch.

        Args:
            problems: a list of problem().
            options: those of bg_plan_new in batchgemm.h, such as compute="f32", or
                epilogue={"bias": True, "activation": "relu"}.

        Returns:
            A Plan.

        Raises:
            InvalidError: a problem or an option is wrong; the text names it.
            OutOfMemoryError: the plan would not fit in memory.
        """
        return Plan(_create("bg_plan_new", self.handle, *batch_of(problems), _options(options)))

    def prepare(self, plan):
        """Makes a plan ready to run. The plan may be closed then.

        Args:
            plan: a Plan of a device of the same kind.

        Returns:
            A Program.

        Raises:
            InvalidError: the plan is for another kind of device.
            OutOfMemoryError: the device has no room for its workspace.
        """
        return Program(_create("bg_prepare", self.handle, plan.handle), self)

    def prepare_ragged(self, form, groups, m, n, k, *, lda=None, ldb=None, ldc=None, stride_b=None,
                       stride_c=None,
                       trans_a=False, trans_b=False, zero_rows=False, nan_rows=False, alpha=1, beta=0,
                       options=None,
                       **more):
        """Makes a program whose sizes are on the device when it runs.

        Args:
            form: ENDS_OF_ROWS (an int32 for each group: where its rows of A and C end), ENDS_OF_DEPTH (where
                its columns of A and rows of B end) or RECORDS (a bg_record for each group).
            groups: how many, from 1 to 4096.
            m, n, k: bounds. What the groups share (m of ENDS_OF_ROWS and RECORDS, k of ENDS_OF_DEPTH) is for
                all together, the others for each.
            lda, ldb, ldc: leading dimensions. Default: rows follow each other.
            stride_b, stride_c: elements from the B, or C, of a group to the next. Default: they follow each
                other.
            trans_a, trans_b: whether A is stored as [k, m], B as [n, k].
            zero_rows, nan_rows: fill the C that no group computes with 0, or NaN. Default: it stays.
            alpha, beta: factors of all groups, for ends.
            options: a dict of options as of plan(), without rule and schedule.
            more: other fields of bg_ragged in batchgemm.h, such as offset_a, mean_m and len_a.

        Returns:
            A Program, for run(..., sizes=).

        Raises:
            InvalidError: a bound or an option is wrong.
            TypeError: bg_ragged has no such field, or a number is no integer.
        """
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

    def prepare_routing(self, tokens, top_k, experts, *, index="int32", type="f32"):
        """Makes a program that routes tokens to experts: bg_prepare_routing in batchgemm.h.

        Args:
            tokens: at most, from 0 on. extent of run_at() says how many there are.
            top_k: choices of a token, from 1 to 16.
            experts: how many, from 1 to 4096. A choice that is none of their numbers does not count.
            index: "int32" or "int64", the type of the choices.
            type: "f32", "bf16" or "f16", of the weights.

        Returns:
            A Program, for run(weights, c=routed, sizes=index). With n = tokens * top_k, and first = experts
            rounded up to a multiple of 64, routed has first + 3 * n int32: the end of each expert's rows,
            and from first on n tokens of rows, n choices of rows and, as float32, n weights of rows.

        Raises:
            InvalidError: a number or a type is wrong.
        """
        choices = _choices(tokens, top_k, experts, index)
        return Program(_create("bg_prepare_routing", self.handle, byref(choices), known(type).encode()), self)

    def prepare_combine(self, tokens, top_k, experts, hidden, *, index="int32", type="f32"):
        """Makes a program that sums the rows of each token: bg_prepare_combine in batchgemm.h.

        Args:
            tokens, top_k, experts, index: as of prepare_routing().
            hidden: columns of rows and of sums.
            type: "f32", "bf16" or "f16", of rows and of sums.

        Returns:
            A Program, for run(rows, c=sums, sizes=index): rows is [tokens * top_k, hidden], sums is
            [tokens, hidden]. Rows whose choice does not count are not read.

        Raises:
            InvalidError: a number or a type is wrong.
        """
        choices = _choices(tokens, top_k, experts, index)
        return Program(_create("bg_prepare_combine", self.handle, byref(choices), integer("hidden", hidden),
                               known(type).encode()), self)

    def prepare_gate(self, tokens, top_k, experts, intermediate, *, gated=True, interleaved=False,
                     activation="silu", alpha=1.702, limit=7.0, type="f32", all_rows=False, scale=None,
                     type_c=None, scales=0):
        """Makes a program for what is between the products of a layer: bg_prepare_gate in batchgemm.h.

        Args:
            tokens, top_k, experts: as of prepare_routing().
            intermediate: columns of the result, from 0 to 2**24 - 1.
            gated: whether there is an up, with which the gate is multiplied.
            interleaved: whether gate and up take turns. Default: the gate's columns come first.
            activation: "silu", "gelu" (by tanh), "relu", "gelu_exact", "relu2", "swiglu_oai" or None.
            alpha, limit: of "swiglu_oai".
            type: "f32", "bf16" or "f16", of what is read and written.
            all_rows: whether all rows count, and no ends are read.
            scale: "row" or "block": the result is quantised, with a scale for a row or 128 columns of it.
            type_c: "e4m3" or "int8", of a quantised result.
            scales: the word of sizes at which its scales begin.

        Returns:
            A Program, for run(pre, c=h, sizes=routed), of routed that prepare_routing()'s has written: pre is
            [tokens * top_k, 2 * intermediate] (or intermediate), h is [tokens * top_k, intermediate]. Rows
            after the last end are neither read nor written.

        Raises:
            InvalidError: a number, a type or an activation is wrong.
        """
        choices = _choices(tokens, top_k, experts, "int32")
        more = dict(type_c=type_c and type_c.encode(), scale=scale and scale.encode(), scales=scales)
        return self._gate("bg_prepare_gate", choices, intermediate,
                          GATED * bool(gated) | INTERLEAVED * bool(interleaved) | ALL_ROWS * bool(all_rows),
                          activation, alpha, limit, type, **more)

    def prepare_gate_backward(self, tokens, top_k, experts, intermediate, *, gated=True, interleaved=False,
                              activation="silu", alpha=1.702, limit=7.0, index="int32", type="f32"):
        """Makes a program for the gradients of prepare_gate()'s: bg_prepare_gate_backward in batchgemm.h.

        Args:
            tokens, top_k, experts, index: as of prepare_routing().
            intermediate, gated, interleaved, activation, alpha, limit, type: as of prepare_gate().

        Returns:
            A Program, for run(pre, dh, block, sizes=routed, rows=index). dh is [tokens * top_k,
            intermediate], without the routing weights. block has float32 words, from multiples of 16 bytes
            on: the gradient of pre, weighted rows of h, both of type, and float32 gradients of the routing
            weights [tokens, top_k], which are 0 where a choice does not count.

        Raises:
            InvalidError: as of prepare_gate().
        """
        choices = _choices(tokens, top_k, experts, index)
        return self._gate("bg_prepare_gate_backward", choices, intermediate,
                          GATED * bool(gated) | INTERLEAVED * bool(interleaved), activation, alpha, limit,
                          type)

    def _gate(self, name, choices, intermediate, flags, activation, alpha, limit, type, **more):
        gate = Gate(ctypes.sizeof(Gate), flags, intermediate, (activation or "").encode(), alpha, limit,
                    **more)
        return Program(_create(name, self.handle, byref(choices), byref(gate), known(type).encode()), self)

    def prepare_experts(self, tokens, top_k, experts, hidden, intermediate, *, index="int32", weights="f32",
                        trans_b=False, interleaved=False, apart=False, gated=True, bias=False,
                        activation="silu", alpha=1.702, limit=7.0, scale_x="", scale_w="", options=None):
        """Makes a layer of experts ready: bg_prepare_experts in batchgemm.h.

        Args:
            tokens, top_k, experts, index: as of prepare_routing().
            hidden, intermediate: sizes of a token, and of what is between the products.
            weights: "f32", "bf16" or "f16", the type of the router's weights.
            trans_b: whether weights of the layer are [experts, intermediate, hidden] and [experts, hidden,
                intermediate], as torch.nn.Linear stores them.
            interleaved, apart: whether rows of gate and up take turns, or each has an array. Default: they
                are joined by halves.
            gated, bias: whether there is an up, and whether there are biases.
            activation, alpha, limit: as of prepare_gate().
            scale_x, scale_w: the scales of x and of weights: both "row" or "block", with type_a of "e4m3" or
                "int8" and type_c of x and y; or scale_w "group-64" or "group-128", with type_b of "int4", or
                "group-32" of "mxfp4", "group-16" of "nvfp4".
            options: a dict of options as of plan(): type_a, type_b, type_c, compute, tile.

        Returns:
            An Experts.

        Raises:
            InvalidError: a number, a type or an option is wrong.
        """
        flags = INDEX_64 * _is_int64(index) | TRANS_B * bool(trans_b) | INTERLEAVED * bool(interleaved)
        layer = Layer(ctypes.sizeof(Layer), flags | APART * bool(apart), tokens, top_k, experts, hidden,
                      intermediate, alpha, limit)
        epilogue = {"gated": bool(gated), "bias": bool(bias), "activation": activation or "",
                    "scale_a": scale_x, "scale_b": scale_w}
        return Experts(_create("bg_prepare_experts", self.handle, byref(layer), known(weights).encode(),
                               _options({**(options or {}), "epilogue": epilogue})), self)

    def buffer(self, count, type="f32"):
        """Allocates memory of the device. Its contents are undefined.

        Args:
            count: how many elements.
            type: "f32", "bf16", "f16", "e4m3", "int8", "int4", "mxfp4", "nvfp4" or "f64".

        Returns:
            A Buffer.

        Raises:
            InvalidError: there is no such type, or count is negative.
            OutOfMemoryError: the device has no room.
        """
        name, count = known(type).encode(), integer("count", count)
        return Buffer(_create("bg_buffer_new_of", self.handle, name, count), self, count, type)

    def wrap(self, address, count, type="f32"):
        """Makes a buffer in memory of the GPU that the caller owns, without a copy.

        Args:
            address: a multiple of 16 (torch: data_ptr()). The memory must stay until queued work is done.
            count: how many elements (torch: numel()); of 4 bits eight for each int32.
            type: as of buffer(). "f32" is also for int32 of sizes and rows.

        Returns:
            A Buffer. Closing it frees nothing.

        Raises:
            InvalidError: address is no multiple of 16, or count is less than 1.
            Error: the backend has no addresses.
        """
        name = known(type).encode()
        address, count = integer("address", address, *WORD), integer("count", count)
        return Buffer(_create("bg_buffer_wrap_of", self.handle, name, address, count), self, count, type)

    def copy(self, dst, src):
        """Queues a copy of a whole buffer, and returns.

        Args:
            dst, src: Buffers of the same length and type.

        Raises:
            InvalidError: lengths, types or devices differ.
        """
        _call("bg_copy", self.handle, dst.handle, src.handle)

    def wait(self, timeout: float | None = None) -> None:
        """Returns when all queued work is done.

        Args:
            timeout: seconds; None waits for ever.

        Raises:
            TimeLimitError: timeout was over. The work goes on.
            DeviceLostError: the device failed.
        """
        wait("bg_wait", self.handle, timeout=timeout)

    def gemm(self, problems, a, b, c, timeout=None, *, b2=None, bias=None, rows=None, **options):
        """Computes a batch on host memory, and returns when the result is in c.

        Args:
            problems: a list of problem().
            a, b, c: contiguous memory (array.array, NumPy, ...) of the types that options name. Only c must
                be writable. bf16 and f16 are 16-bit words (NumPy: float16 too; torch:
                x.view(torch.int16).numpy()), e4m3 bytes (torch: x.view(torch.uint8).numpy()), int8 signed
                bytes. b of 4 bits is 32-bit words, of pack_int4() or pack_fp4().
            timeout: seconds; None waits for ever.
            b2, bias, rows: what the epilogue asks for. rows are 32-bit words (array.array("i"), NumPy's
                int32).
            options: as of plan(), without pointers.

        Raises:
            InvalidError: a problem or an option is wrong, or an array is too short.
            TypeError: memory of another format.
            TimeLimitError: timeout was over.

        After an error, or Ctrl-C, c is as before, but on the CPU incomplete after TimeLimitError or Ctrl-C.
        The CPU computes on the memory itself. It copies nothing, unless an operand shares memory with c.
        """
        of, of_c = options.get("type_a", "f32"), options.get("type_c", "f32")
        of_b = options.get("type_b", of)
        given = {"a": host("a", a, type=of), "b": host("b", b, type=of_b),
                 "c": host("c", c, writable=True, type=of_c)}
        rest = ("b2", b2, of_b, ""), ("bias", bias, of_c, ""), ("rows", rows, "f32", "i")
        for name, data, type, more in rest:
            if data is not None:
                given[name] = host(name, data, type=type, more=more)
        self._gemm(batch_of(problems), options, given, timeout)

    def _gemm(self, batch, options, given, timeout):
        """gemm() with address, length and keeper of each operand by name."""
        operands = HostOperands(ctypes.sizeof(HostOperands))
        for name, (address, length, _keep) in given.items():
            setattr(operands, name, address)
            setattr(operands, "len_" + name, length)
        with Read(_create("bg_gemm_operands_async", self.handle, *batch, _options(options), byref(operands)),
                  None, given) as call:
            wait("bg_read_wait", call.handle, timeout=timeout)


def _choices(tokens, top_k, experts, index):
    """The choices of a router, as bg_choices."""
    return Choices(ctypes.sizeof(Choices), INDEX_64 * _is_int64(index), tokens, top_k, experts)


def _is_int64(index):
    if index not in ("int32", "int64"):
        raise InvalidError(f"index is {index!r}: it must be 'int32' or 'int64'")
    return index == "int64"
