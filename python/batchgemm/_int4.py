"""Weights of 4 bits as NumPy arrays: what the functions of the package do."""

from __future__ import annotations

import numpy as np

from . import _core

WORDS = np.dtype(np.uint32), np.dtype(np.int32)


def pack_int4(weights):
    weights = _small("weights", weights)
    if weights.ndim == 0 or weights.shape[-1] % 8:
        raise _core.InvalidError(f"weights are {weights.shape}: K, the last dimension, must be a multiple of 8")
    words = np.empty((*weights.shape[:-1], weights.shape[-1] // 8), np.uint32)
    _core._call("bg_pack_int4", weights.ctypes.data, weights.size, words.ctypes.data)
    return words


def unpack_int4(words):
    words = _words(words)
    if words.ndim == 0:
        raise _core.InvalidError("words are of no dimension: the last one must be along K")
    weights = np.empty((*words.shape[:-1], words.shape[-1] * 8), np.uint8)
    _core._call("bg_unpack_int4", words.ctypes.data, weights.size, weights.ctypes.data)
    return weights


def group_words(scales, zeros):
    scales = _floats("scales", scales)
    zeros = _small("zeros", np.broadcast_to(zeros, scales.shape))
    words = np.empty(scales.shape, np.uint32)
    _core._call("bg_group_words", scales.ctypes.data, zeros.ctypes.data, scales.size, words.ctypes.data)
    return words


def split_group_words(words):
    words = _words(words)
    scales, zeros = np.empty(words.shape, np.float32), np.empty(words.shape, np.uint8)
    _core._call("bg_split_group_words", words.ctypes.data, words.size, scales.ctypes.data, zeros.ctypes.data)
    return scales, zeros


def quantize_int4(weights, group):
    weights = _floats("weights", weights)
    if weights.ndim == 0:
        raise _core.InvalidError("weights are of no dimension: the last one must be along K")
    *rows, k = weights.shape
    _core.check_group(k, group)
    words, groups = np.empty((*rows, k // 8), np.uint32), np.empty((*rows, k // group), np.uint32)
    _core.quantize_int4(weights.ctypes.data, weights.size, group, words.ctypes.data, groups.ctypes.data)
    return words, groups


def _small(name, numbers):
    """Whole numbers from 0 to 15 as bytes, one behind the other."""
    numbers = np.asarray(numbers)
    if numbers.dtype.kind not in "iu":
        raise TypeError(f"{name} are of {numbers.dtype}, not integers")
    if numbers.size and not 0 <= numbers.min() <= numbers.max() <= 15:
        raise _core.InvalidError(f"{name} are from {numbers.min()} to {numbers.max()}: they must be from 0 to 15")
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
