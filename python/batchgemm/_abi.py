"""libbatchgemm.so by ctypes: its structs, its functions, and its errors as exceptions. ctypes would silently
cut integers beyond their field and text with a character 0: here they are errors."""

from __future__ import annotations

import ctypes
import json
import operator
import os
import struct
from ctypes import (POINTER, byref, c_char_p, c_double, c_float, c_int32, c_int64, c_size_t, c_uint32,
                    c_uint64, c_void_p)

ABI_VERSION = 1
STATUS = ("ok", "invalid", "handle", "unavailable", "out of memory", "device lost", "timeout", "forked",
          "failed", "internal")


class Error(Exception):
    """A call failed. Programs tell kinds apart by class; status has the same as text, one of STATUS."""

    status = "failed"


class InvalidError(Error, ValueError):
    """An argument is wrong, or objects do not go together. The text names the argument, and the problem."""

    status = "invalid"


class ClosedError(Error):
    """An object was closed, or is of another kind."""

    status = "handle"


class UnavailableError(Error):
    """The backend cannot run here."""

    status = "unavailable"


class OutOfMemoryError(Error, MemoryError):
    """Of the device or the host. Earlier results are intact, and the device is usable."""

    status = "out of memory"


class DeviceLostError(Error):
    """The device failed. Every later call on it fails too: open it again."""

    status = "device lost"


class TimeLimitError(Error, TimeoutError):
    """The time limit was reached."""

    status = "timeout"


_KINDS = {kind.status: kind for kind in (InvalidError, ClosedError, UnavailableError, OutOfMemoryError,
                                         DeviceLostError, TimeLimitError)}


def _error(status: int, text: str) -> Error:
    name = STATUS[status] if status < len(STATUS) else str(status)
    error = _KINDS.get(name, Error)(text)
    error.status = name
    return error


def integer(name: str, value, low: int = -2**63, high: int = 2**63 - 1) -> int:
    """An integer of Python, NumPy or others. By default 64 bits must hold it."""
    try:
        whole = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} is {value!r}: it must be an integer") from None
    if not low <= whole <= high:
        raise InvalidError(f"{name} is {whole}: it must be from {low} to {high}")
    return whole


def single(name, value):
    """A number that float32 holds. NaN and infinities are such numbers."""
    try:
        struct.pack("=f", value)
    except (struct.error, OverflowError):
        raise InvalidError(f"{name} is {value!r}: it must be a number of float32") from None
    return value


def rest(value):
    """What float32 does not hold of a number. Fields for fp64 have it."""
    if value in (0, 1, -1):
        return 0.0
    try:
        left = value - c_float(value).value
    except TypeError:  # whoever takes the number says so
        return 0.0
    return left if left == left else 0.0


def _text(name: str, value: str) -> bytes:
    if not isinstance(value, str):
        raise TypeError(f"{name} is {value!r}: it must be text")
    if "\0" in value:
        raise InvalidError(f"{name} is {value!r}: it has a character 0")
    return value.encode()


def _options(options) -> bytes | None:
    """The options of a plan as JSON; integers may be NumPy's."""
    return json.dumps(options, default=operator.index).encode() if options else None


WORD = 0, 2**64 - 1  # of 64 bits, as addresses are
_CODES = {c_uint32: "I", c_int64: "q", c_uint64: "Q", c_float: "f", c_double: "d", c_void_p: "Q",
          c_char_p: "Q"}  # of struct
# What fields of integers hold.
_LIMITS = {c_uint32: (0, 2**32 - 1), c_int64: (-2**63, 2**63 - 1), c_uint64: WORD}


class _Struct(ctypes.Structure):
    """A struct of batchgemm.h. Each field refuses what it would cut."""

    def __init_subclass__(cls):
        cls._kinds = dict(cls._fields_)
        cls._packed = struct.Struct("=" + "".join(map(_CODES.get, cls._kinds.values()))).pack

    @classmethod
    def of(cls, *values):
        """What the constructor makes of the values of all fields, in a tenth of the time."""
        try:
            return cls.from_buffer_copy(cls._packed(*values))
        except (struct.error, OverflowError):
            return cls(*values)  # which names the field

    def __setattr__(self, name, value):
        kind = self._kinds.get(name)
        if kind is None:
            raise TypeError(f"{type(self).__name__} has no field {name!r}")
        if kind in _LIMITS:
            value = integer(name, value, *_LIMITS[kind])
        elif kind is c_float:
            value = single(name, value)
        super().__setattr__(name, value)


class Problem(_Struct):
    """One product of a batch: bg_problem of batchgemm.h. problem() makes it, and describes its fields.

    Example:
        >>> from batchgemm import problem
        >>> p = problem(2, 3, 4)
        >>> p.alpha = 0.5
        >>> p.n, p.alpha
        (3, 0.5)
    """

    _fields_ = (
        [("struct_size", c_uint32), ("flags", c_uint32)]
        + [(name, c_int64) for name in "m n k offset_a lda offset_b ldb offset_c ldc".split()]
        + [("alpha", c_float), ("beta", c_float)]
        + [(name, c_int64) for name in
           "offset_b2 ldb2 bias rows_a rows_c weights pointers scale_a scale_b".split()]
        + [("alpha64", c_double), ("beta64", c_double)]
    )


class Ragged(_Struct):
    """bg_ragged; Device.prepare_ragged() makes them."""

    _fields_ = (
        [(name, c_uint32) for name in "struct_size flags form groups".split()]
        + [(name, c_int64) for name in
           "m n k mean_m mean_n mean_k offset_a lda offset_b ldb offset_c ldc".split()]
        + [(name, c_int64) for name in "stride_b stride_c len_a len_b len_c".split()]
        + [("alpha", c_float), ("beta", c_float)]
        + [(name, c_int64) for name in
           "offset_b2 ldb2 bias stride_bias rows_a rows_c weights pointers".split()]
        + [(name, c_int64) for name in "len_b2 len_bias len_rows scale_a scale_b".split()]
        + [("alpha64", c_double), ("beta64", c_double)]
    )


class Choices(_Struct):
    """bg_choices; Device.prepare_routing() and prepare_combine() make them."""

    _fields_ = [("struct_size", c_uint32), ("flags", c_uint32)] + [
        (name, c_int64) for name in "tokens top_k experts".split()]


class Gate(_Struct):
    """bg_gate; Device.prepare_gate() and prepare_gate_backward() make them."""

    _fields_ = [("struct_size", c_uint32), ("flags", c_uint32), ("intermediate", c_int64),
                ("activation", c_char_p), ("alpha", c_float), ("limit", c_float), ("type_c", c_char_p),
                ("scale", c_char_p), ("scales", c_int64)]


class Layer(_Struct):
    """bg_experts; Device.prepare_experts() makes them."""

    _fields_ = [("struct_size", c_uint32), ("flags", c_uint32)] + [
        (name, c_int64) for name in "tokens top_k experts hidden intermediate".split()] + [
        ("alpha", c_float), ("limit", c_float)]


class ExpertOperands(_Struct):
    """bg_expert_operands; Experts.run() makes them."""

    _fields_ = [("struct_size", c_uint32), ("zero", c_uint32)] + [
        (name, c_uint64) for name in
        "x y index weights gate_up down up bias_gate_up bias_down scales".split()]


class HostOperands(_Struct):
    """bg_host_operands; Device.gemm() makes them."""

    _fields_ = [("struct_size", c_uint32), ("zero", c_uint32)] + [
        field for name in "a b c b2 bias rows".split()
        for field in ((name, c_void_p), ("len_" + name, c_int64))]


class Operands(_Struct):
    """bg_operands; Program.run() makes them."""

    _fields_ = [("struct_size", c_uint32), ("zero", c_uint32)] + [
        (name, c_uint64) for name in "a b c sizes b2 bias rows".split()]


# bg_addresses, bg_expert_addresses; packing takes less time than a ctypes.Structure
ADDRESSES, EXPERT_ADDRESSES = struct.Struct("=2I7Qq"), struct.Struct("=2I9QqQ")


def _load():
    here = os.path.dirname(os.path.abspath(__file__))
    installed = os.path.join(here, "libbatchgemm.so")
    built = os.path.join(here, "..", "..", "bin", "libbatchgemm.so")
    path = os.environ.get("BATCHGEMM_LIBRARY") or (installed if os.path.exists(installed) else built)
    library = ctypes.CDLL(path)
    library.bg_abi_version.restype = c_uint32
    if library.bg_abi_version() != ABI_VERSION:
        raise ImportError(f"{path}: binary interface {library.bg_abi_version()}, this module is for "
                          f"{ABI_VERSION}")
    library.bg_last_error.restype = c_char_p
    handle, out = c_uint64, POINTER(c_uint64)
    text, batch = (c_char_p, c_size_t, POINTER(c_size_t)), (POINTER(Problem), c_int64)
    for name, types in {
        "bg_open": (c_char_p, c_int32, out),
        "bg_open_on_stream": (handle, c_size_t, out),
        "bg_device_info": (handle, *text),
        "bg_plan_new": (handle, *batch, c_char_p, out),
        "bg_plan_explain": (handle, *text),
        "bg_prepare": (handle, handle, out),
        "bg_update": (handle, *batch),
        "bg_prepare_ragged": (handle, POINTER(Ragged), c_char_p, out),
        "bg_prepare_routing": (handle, POINTER(Choices), c_char_p, out),
        "bg_prepare_combine": (handle, POINTER(Choices), c_int64, c_char_p, out),
        "bg_prepare_gate": (handle, POINTER(Choices), POINTER(Gate), c_char_p, out),
        "bg_prepare_gate_backward": (handle, POINTER(Choices), POINTER(Gate), c_char_p, out),
        "bg_prepare_experts": (handle, POINTER(Layer), c_char_p, c_char_p, out),
        "bg_experts_scales": (handle, POINTER(c_int64), POINTER(c_int64), POINTER(c_int64)),
        "bg_run_experts": (handle, POINTER(ExpertOperands)),
        "bg_run_experts_at": (handle, c_size_t, c_char_p),
        "bg_buffer_new": (handle, c_int64, out),
        "bg_buffer_new_of": (handle, c_char_p, c_int64, out),
        "bg_buffer_wrap_of": (handle, c_char_p, c_size_t, c_int64, out),
        "bg_buffer_address": (handle, out),
        "bg_buffer_write": (handle, c_int64, c_void_p, c_int64, c_int64),
        "bg_buffer_read": (handle, c_int64, c_void_p, c_int64, c_int64),
        "bg_buffer_slice": (handle, c_int64, c_int64, out),
        "bg_copy": (handle, handle, handle),
        "bg_buffer_read_async": (handle, c_int64, c_void_p, c_int64, out),
        "bg_read_done": (handle, POINTER(c_int32)),
        "bg_read_wait": (handle, c_int64),
        "bg_warm": (handle, c_char_p, c_uint32, c_int64),
        "bg_run_operands": (handle, POINTER(Operands)),
        "bg_run_at": (handle, c_size_t, c_char_p),
        "bg_run_all_at": (c_size_t, POINTER(c_uint64), c_char_p, c_size_t),
        "bg_program_status": (handle, c_int64),
        "bg_wait": (handle, c_int64),
        "bg_gemm_operands_async": (handle, *batch, c_char_p, POINTER(HostOperands), out),
        "bg_pack_int4": (c_void_p, c_int64, c_int64, c_void_p),
        "bg_unpack_int4": (c_void_p, c_int64, c_int64, c_void_p),
        "bg_group_words": (c_void_p, c_void_p, c_int64, c_void_p),
        "bg_split_group_words": (c_void_p, c_int64, c_void_p, c_void_p),
        "bg_quantize_int4": (c_void_p, c_int64, c_int64, c_int32, c_void_p, c_void_p),
        "bg_pack_fp4": (c_char_p, c_void_p, c_void_p, c_float, c_int64, c_int64, c_void_p, c_void_p),
        "bg_unpack_fp4": (c_char_p, c_void_p, c_void_p, c_int64, c_int64, c_void_p, c_void_p, c_void_p),
        "bg_pack_checkpoint": (c_char_p, c_void_p, c_void_p, c_void_p, c_int64, c_int64, c_int32, c_void_p,
                               c_void_p),
        "bg_unpack_checkpoint": (c_char_p, c_void_p, c_void_p, c_int64, c_int64, c_int32, c_void_p, c_void_p,
                                 c_void_p),
        "bg_close": (handle,),
    }.items():
        function = getattr(library, name)
        function.argtypes, function.restype = types, c_int32
    return library


_library = _load()
_run_at, _run_all_at = _library.bg_run_at, _library.bg_run_all_at  # which torch.py calls often


def _call(name, *args):
    _check(getattr(_library, name)(*args))


def _check(status):
    if status:
        raise _error(status, _library.bg_last_error().decode())


def _create(name, *args):
    handle = c_uint64()
    _call(name, *args, byref(handle))
    return handle.value


def _json(name, handle):
    needed = c_size_t()
    _call(name, handle, None, 0, byref(needed))
    text = ctypes.create_string_buffer(needed.value)
    _call(name, handle, text, needed, None)
    return json.loads(text.value)
