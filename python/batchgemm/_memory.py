"""Memory of the host, as Python's buffer protocol gives it, and the shapes of weights of 4 bits."""

from __future__ import annotations

import ctypes
from ctypes import byref, c_char_p, c_int, c_ssize_t, c_void_p

from ._abi import InvalidError, integer

PANEL, GROUPS = 64, (64, 128)  # k's of weights of 4 bits that lie together, and that may share a scale

# Of each type of elements: the formats of memory that it may lie in, their size in bytes, and how many
# elements one has. Python has no format for bf16, e4m3 and 4 bits.
FORMATS = {"f32": ("f", 4, 1), "bf16": ("Hh", 2, 1), "f16": ("eHh", 2, 1), "e4m3": ("Bb", 1, 1),
           "int8": ("b", 1, 1), **dict.fromkeys(("int4", "mxfp4", "nvfp4"), ("Ii", 4, 8)), "f64": ("d", 8, 1)}


class _View(ctypes.Structure):
    """Py_buffer."""

    _fields_ = [("buf", c_void_p), ("obj", c_void_p), ("len", c_ssize_t), ("itemsize", c_ssize_t),
                ("readonly", c_int), ("ndim", c_int), ("format", c_char_p), ("shape", c_void_p),
                ("strides", c_void_p), ("suboffsets", c_void_p), ("internal", c_void_p)]


def known(type):
    """type, if FORMATS has it."""
    if not isinstance(type, str):
        raise TypeError(f"type is {type!r}: it must be the name of one, as text: {', '.join(FORMATS)}")
    if type not in FORMATS:
        raise InvalidError(f"unknown type {type!r} (known: {', '.join(FORMATS)})")
    return type


def host(name, data, writable=False, type="f32", more=""):
    """Address and length of contiguous memory of a type of elements, and what keeps it. more: formats that
    are also good."""
    view = memoryview(data)
    formats, size, elements = FORMATS[known(type)]
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


def check_panels(k):
    """Refuses a K that panels do not divide."""
    if k % PANEL:
        raise InvalidError(f"K is {k}: it must be a multiple of {PANEL}")


def check_group(k, group):
    """Refuses a group that is none, or that does not divide K."""
    if integer("group", group) not in GROUPS:
        raise InvalidError(f"group is {group!r}: it must be 64 or 128")
    if k % group:
        raise InvalidError(f"K is {k}: it must be a multiple of {group}, the group")


def least_ld(n):
    """The leading dimension that n columns are packed with."""
    return (n + 7) // 8 * 8


def panels(n, k):
    """The shape of the words of K x N weights."""
    return k // PANEL, least_ld(n), 8


def fp4(type, n, k):
    """Of K x N weights of a type of e2m1: how many weights share a scale, and the shape of the words of their
    scales."""
    shared = {"mxfp4": 32, "nvfp4": 16}.get(type)
    if shared is None:
        raise InvalidError(f"type is {type!r}: it must be 'mxfp4' or 'nvfp4'")
    check_panels(k)
    rows = -(-k // (4 * shared)) + (type == "nvfp4" and k > 0)
    return shared, (rows, least_ld(n))


def check_fp4(type, pairs, scales):
    """Of the shapes of what checkpoints hold: other dimensions, N, K, how many weights share a scale, and the
    shape of the words of scales of a matrix."""
    if len(pairs) == len(scales) + 1 and len(pairs) > 2:
        pairs = *pairs[:-2], pairs[-2] * pairs[-1]
    if len(pairs) < 2:
        raise InvalidError(f"pairs are {pairs}: they must be [..., N, K / 2]")
    *many, n, k = *pairs[:-1], 2 * pairs[-1]
    shared, groups = fp4(type, n, k)
    if tuple(scales) != (*many, n, k // shared):
        raise InvalidError(f"scales are {tuple(scales)}: they must be {(*many, n, k // shared)}")
    return many, n, k, shared, groups
