"""Weights of 4 bits as NumPy arrays: what the functions of the package do."""

from __future__ import annotations

import numpy as np

from . import _memory
from ._abi import InvalidError, _call, integer

WORDS = np.dtype(np.uint32), np.dtype(np.int32)


def pack_int4(weights):
    weights = _matrices("weights", _small("weights", weights))
    *many, n, k = weights.shape
    _memory.check_panels(k)
    words = np.empty((*many, *_memory.panels(n, k)), np.uint32)
    for at in np.ndindex(*many):
        _call("bg_pack_int4", weights[at].ctypes.data, n, k, words[at].ctypes.data)
    return words


def unpack_int4(words, n):
    words, n = _words(words), integer("n", n)
    if words.ndim < 3 or words.shape[-1] != 8 or words.shape[-2] % 8 or not 0 <= n <= words.shape[-2]:
        raise InvalidError(f"words are {words.shape}, n is {n}: they must be [..., K / 64, ld, 8], and "
                           f"ld a multiple of 8, at least n")
    *many, panels, _, _ = words.shape
    weights = np.empty((*many, n, _memory.PANEL * panels), np.uint8)
    words = np.ascontiguousarray(words[..., : _memory.least_ld(n), :])
    for at in np.ndindex(*many):
        _call("bg_unpack_int4", words[at].ctypes.data, n, _memory.PANEL * panels, weights[at].ctypes.data)
    return weights


def group_words(scales, zeros):
    scales = _floats("scales", scales)
    zeros = _small("zeros", np.broadcast_to(zeros, scales.shape))
    words = np.empty(scales.shape, np.uint32)
    _call("bg_group_words", scales.ctypes.data, zeros.ctypes.data, scales.size, words.ctypes.data)
    return words


def split_group_words(words):
    words = _words(words)
    scales, zeros = np.empty(words.shape, np.float32), np.empty(words.shape, np.uint8)
    _call("bg_split_group_words", words.ctypes.data, words.size, scales.ctypes.data, zeros.ctypes.data)
    return scales, zeros


def quantize_int4(weights, group):
    weights = _matrices("weights", _floats("weights", weights))
    *many, n, k = weights.shape
    _memory.check_group(k, group)
    words = np.empty((*many, *_memory.panels(n, k)), np.uint32)
    groups = np.empty((*many, k // group, _memory.least_ld(n)), np.uint32)
    for at in np.ndindex(*many):
        try:
            to = words[at].ctypes.data, groups[at].ctypes.data
            _call("bg_quantize_int4", weights[at].ctypes.data, n, k, group, *to)
        except InvalidError as error:  # what is not finite, with its row and column
            raise InvalidError(f"weights{list(at) or ''}: {error}") from None
    return words, groups


def pack_fp4(type, pairs, scales, scale):
    pairs, scales = _bytes("pairs", pairs), _bytes("scales", scales)
    many, n, k, shared, rows = _memory.check_fp4(type, pairs.shape, scales.shape)
    scale = np.broadcast_to(_floats("scale", np.asarray(scale, np.float32)), many)
    pairs, scales = pairs.reshape(*many, n, k // 2), scales.reshape(*many, n, k // shared)
    words, groups = np.empty((*many, *_memory.panels(n, k)), np.uint32), np.empty((*many, *rows), np.uint32)
    for at in np.ndindex(*many):
        _call("bg_pack_fp4", type.encode(), pairs[at].ctypes.data, scales[at].ctypes.data, float(scale[at]),
              n, k, words[at].ctypes.data, groups[at].ctypes.data)
    return words, groups


def unpack_fp4(type, words, groups, n):
    words, groups, n = _words(words), _words(groups), integer("n", n)
    if words.ndim < 3 or words.shape[-1] != 8 or words.shape[-2] % 8 or not 0 <= n <= words.shape[-2]:
        raise InvalidError(f"words are {words.shape}, n is {n}: they must be [..., K / 64, ld, 8], and "
                           f"ld a multiple of 8, at least n")
    *many, panels, ld, _ = words.shape
    k, least = _memory.PANEL * panels, _memory.least_ld(n)
    shared, rows = _memory.fp4(type, ld, k)
    if groups.shape != (*many, *rows):
        raise InvalidError(f"groups are {groups.shape}: they must be {(*many, *rows)}")
    words, groups = (np.ascontiguousarray(t) for t in (words[..., :least, :], groups[..., :least]))
    pairs, scales = np.empty((*many, n, k // 2), np.uint8), np.empty((*many, n, k // shared), np.uint8)
    scale = np.empty(tuple(many), np.float32)
    for at in np.ndindex(*many):
        _call("bg_unpack_fp4", type.encode(), words[at].ctypes.data, groups[at].ctypes.data, n, k,
              pairs[at].ctypes.data, scales[at].ctypes.data, scale[(*at, None)].ctypes.data)
    return pairs, scales, scale


def pack_checkpoint(format, qweight, qzeros, scales):
    qweight, qzeros, scales = _words(qweight), _words(qzeros), _floats("scales", scales)
    if qweight.ndim < 2 or qzeros.ndim < 2 or scales.ndim < 2:
        raise InvalidError(f"qweight is {qweight.shape}, qzeros are {qzeros.shape}, scales are "
                           f"{scales.shape}: they must be [..., rows, columns]")
    *many, parts, n = scales.shape
    k = qweight.shape[-2] * (1 if format == "awq" else 8)
    group = k // max(1, parts)
    weights, zeros = _checkpoint(format, n, k, parts)
    fits = qweight.shape == (*many, *weights) and qzeros.shape == (*many, *zeros)
    if n % 8 or parts != k // max(1, group) or not fits:
        raise InvalidError(f"{format}: qweight is {qweight.shape}, qzeros are {qzeros.shape}, scales are "
                           f"{scales.shape}: with scales [..., K / group, N] the others must be "
                           f"{(*many, *weights)} and {(*many, *zeros)}")
    _memory.check_group(k, group)
    words, groups = np.empty((*many, *_memory.panels(n, k)), np.uint32), np.empty(scales.shape, np.uint32)
    for at in np.ndindex(*many):
        given = (x[at].ctypes.data for x in (qweight, qzeros, scales))
        _call("bg_pack_checkpoint", format.encode(), *given, n, k, group, words[at].ctypes.data,
              groups[at].ctypes.data)
    return words, groups


def unpack_checkpoint(format, words, groups):
    words, groups = _words(words), _words(groups)
    if words.ndim < 3 or words.shape[-1] != 8 or words.shape[-2] % 8:
        raise InvalidError(f"words are {words.shape}: they must be [..., K / 64, N, 8], and N a multiple "
                           f"of 8")
    *many, panels, n, _ = words.shape
    k, parts = _memory.PANEL * panels, groups.shape[-2] if groups.ndim > 1 else 0
    group = k // max(1, parts)
    if groups.shape != (*many, k // max(1, group), n):
        raise InvalidError(f"words are {words.shape}, groups are {groups.shape}: they must be "
                           f"[..., K / group, N]")
    _memory.check_group(k, group)
    weights, zeros = _checkpoint(format, n, k, parts)
    qweight, qzeros = np.empty((*many, *weights), np.int32), np.empty((*many, *zeros), np.int32)
    scales = np.empty(groups.shape, np.float32)
    for at in np.ndindex(*many):
        made = (x[at].ctypes.data for x in (qweight, qzeros, scales))
        _call("bg_unpack_checkpoint", format.encode(), words[at].ctypes.data, groups[at].ctypes.data, n, k,
              group, *made)
    return qweight, qzeros, scales


def _checkpoint(format, n, k, parts):
    """The shapes of qweight and qzeros of K x N weights with so many groups along K."""
    if format not in ("awq", "gptq", "gptq_v2"):
        raise InvalidError(f"format is {format!r}: it must be 'awq', 'gptq' or 'gptq_v2'")
    return (k, n // 8) if format == "awq" else (k // 8, n), (parts, n // 8)


def _bytes(name, numbers):
    numbers = np.asarray(numbers)
    if numbers.dtype.itemsize != 1:
        raise TypeError(f"{name} are of {numbers.dtype}, not bytes")
    return np.ascontiguousarray(numbers.view(np.uint8)).reshape(numbers.shape)


def _matrices(name, numbers):
    if numbers.ndim < 2:
        raise InvalidError(f"{name} are {numbers.shape}: they must be [..., N, K]")
    return numbers


def _small(name, numbers):
    """Whole numbers from 0 to 15 as bytes, one after the other."""
    numbers = np.asarray(numbers)
    if numbers.dtype.kind not in "iu":
        raise TypeError(f"{name} are of {numbers.dtype}, not integers")
    if numbers.size and not 0 <= numbers.min() <= numbers.max() <= 15:
        raise InvalidError(f"{name} are from {numbers.min()} to {numbers.max()}: they must be from 0 "
                           f"to 15")
    return np.ascontiguousarray(numbers, np.uint8).reshape(numbers.shape)


def _words(words):
    words = np.asarray(words)
    if words.dtype not in WORDS:
        raise TypeError(f"words are of {words.dtype}, not uint32 or int32")
    return np.ascontiguousarray(words).reshape(words.shape)


def _floats(name, numbers):
    numbers = np.asarray(numbers)
    if numbers.dtype.kind != "f":
        raise TypeError(f"{name} are of {numbers.dtype}, not floating")
    return np.ascontiguousarray(numbers, np.float32).reshape(numbers.shape)
