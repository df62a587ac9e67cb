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


# Which of eight elements bits 4 * i, ..., 4 * i + 3 of a checkpoint's word are, and what zero points lack.
AWQ, IN_ORDER = (0, 2, 4, 6, 1, 3, 5, 7), tuple(range(8))
CHECKPOINTS = {"awq": (AWQ, 0), "gptq": (IN_ORDER, 1), "gptq_v2": (IN_ORDER, 0)}


def pack_checkpoint(format, qweight, qzeros, scales):
    order, less = _checkpoint(format)
    qweight, qzeros, scales = _words(qweight), _words(qzeros), _floats("scales", scales)
    if qweight.ndim < 2 or qzeros.ndim < 2 or scales.ndim < 2:
        raise InvalidError(f"qweight is {qweight.shape}, qzeros are {qzeros.shape}, scales are "
                           f"{scales.shape}: they must be [..., rows, columns]")
    along = -1 if format == "awq" else -2
    weights, zeros = _elements(qweight, order, along), _elements(qzeros, order, -1) + less
    *many, k, n = weights.shape
    group = k // max(1, scales.shape[-2])
    if scales.shape != zeros.shape or scales.shape != (*many, k // max(1, group), n):
        raise InvalidError(f"{format}: qweight has {weights.shape} weights, qzeros {zeros.shape} zeros, "
                           f"scales are {scales.shape}: both must be [..., K / group, N]")
    _memory.check_group(k, group)
    return pack_int4(weights.swapaxes(-1, -2)), group_words(scales, zeros)


def unpack_checkpoint(format, words, groups):
    order, less = _checkpoint(format)
    scales, zeros = split_group_words(groups)
    weights = unpack_int4(words, _words(words).shape[-2]).swapaxes(-1, -2)
    if less > zeros.min(initial=15):
        raise InvalidError(f"{format}: a zero point is 0, which it cannot store")
    return _joined(weights, order, -1 if format == "awq" else -2), _joined(zeros - less, order, -1), scales


def _checkpoint(format):
    if format not in CHECKPOINTS:
        raise InvalidError(f"format is {format!r}: it must be one of {', '.join(map(repr, CHECKPOINTS))}")
    return CHECKPOINTS[format]


def _elements(words, order, along):
    """The eight elements of each word, along an axis."""
    words, shape = words.view(np.uint32), list(words.shape)
    shape[along] *= 8
    parts = [words >> np.uint32(4 * order.index(i)) & 15 for i in range(8)]
    return np.stack(parts, along % words.ndim + 1).astype(np.uint8).reshape(shape)


def _joined(elements, order, along):
    """Words of eight elements along an axis."""
    elements = np.moveaxis(elements, along, -1).astype(np.uint32)
    words = sum(elements[..., order[i] :: 8] << np.uint32(4 * i) for i in range(8))
    return np.ascontiguousarray(np.moveaxis(words, -1, along)).view(np.int32)


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
