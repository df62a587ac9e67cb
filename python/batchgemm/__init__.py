"""batchgemm: many matrix products of different sizes at once, on whatever GPU is there.

    results = batchgemm.matmul(list_of_a, list_of_b)          # NumPy, float32 or float16; bias=, activation=
    y = batchgemm.grouped_mm(x, w, ends, bias, "silu")        # a layer of experts

Work that repeats with operands on the device: open(), then plan(), prepare() and run() of a Device.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Sequence

from ._abi import (ClosedError, DeviceLostError, Error, InvalidError, OutOfMemoryError, Problem,
                   TimeLimitError, UnavailableError)
from ._core import (ENDS_OF_DEPTH, ENDS_OF_ROWS, NAN_ROWS, RECORDS, TRANS_A, TRANS_B, ZERO_ROWS, Buffer, Plan,
                    Program, Read, pointers, problem)
from ._device import Device, default_device, open

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike

__all__ = ["ENDS_OF_DEPTH", "ENDS_OF_ROWS", "NAN_ROWS", "RECORDS", "TRANS_A", "TRANS_B", "ZERO_ROWS",
           "Buffer", "ClosedError", "Device", "DeviceLostError", "Error", "InvalidError", "OutOfMemoryError",
           "Plan", "Problem", "Program", "Read", "TimeLimitError", "UnavailableError", "default_device",
           "group_words", "grouped_mm", "matmul", "open", "pack_int4", "pointers", "problem",
           "quantize_int4", "split_group_words", "unpack_int4"]


def matmul(a: Sequence[np.ndarray], b: Sequence[np.ndarray], out: Sequence[np.ndarray] | None = None, *,
           bias: Sequence[np.ndarray] | None = None, activation: str | None = None, alpha: float = 1,
           compute: str | None = None, timeout: float | None = None,
           device: Device | None = None) -> list[np.ndarray]:
    """activation(alpha * a[i] @ b[i] + bias[i]) for all i, of any sizes, as one batch.

    a[i] is [M, K] and b[i] [K, N], each M, N, K from 0 on, all of float32 or all of float16; sums are fp32.
    Any strides: transposed views stay as they are. Matrices that are parts of one array (or a memory-mapped
    file), of which they are half or more, are used where they are; others are copied once, one after the
    other.

    Results are [M, N], views of one new array; or out, a list of arrays to receive them, which share no
    element, and are computed into directly where they are parts of one array. Batches of sizes that come
    again are not planned again (float16: they are).

    bias[i] is [N], of the same type, and added to each row; activation "relu", "gelu" (by tanh) or "silu".
    Both are done in fp32 before C is rounded.

    compute: "f32-emulated" (the default: as accurate as fp32, on tensor cores), "f32" or "tf32". timeout:
    seconds, then TimeLimitError. device: default_device() unless given. After an error, or Ctrl-C, out is as
    before."""
    return (device or default_device()).matmul(a, b, out, bias=bias, activation=activation, alpha=alpha,
                                               compute=compute, timeout=timeout)


def grouped_mm(x: np.ndarray, w: np.ndarray, ends: ArrayLike, bias: np.ndarray | None = None,
               activation: str | None = None, *, compute: str | None = None, timeout: float | None = None,
               device: Device | None = None) -> np.ndarray:
    """activation(x[ends[g-1]:ends[g]] @ w[g] + bias[g]) for all groups g, such as experts.

    x is [rows, K], w [groups, K, N], or a view of [groups, N, K] that was transposed, ends integers [groups],
    where the rows of each group end; bias [groups, N]; activation "relu", "gelu" (by tanh) or "silu". Arrays
    are float32 or all float16, and on the CPU used where they are if contiguous; bias and activation are done
    in fp32 before C is rounded.

    Returns [rows, N], 0 in rows after the last end. The device keeps the last programs, so that layers of
    shapes that come again, with up to twice as many rows, are not planned again. Ends that go down, or are
    after the last row, are an InvalidError. Calls on a device take turns. compute, timeout and device: as of
    matmul()."""
    return (device or default_device()).grouped_mm(x, w, ends, bias, activation, compute=compute,
                                                   timeout=timeout)


def pack_int4(weights: ArrayLike) -> np.ndarray:
    """Weights from 0 to 15 [..., N, K], of any type of integers, as a layer stores those of x @ weights.T: as
    the words of B of "int4", uint32 [..., K / 64, ld, 8], of which ld is N, rounded up to a multiple of 8.
    Columns from N on are of zeros. The last dimension is of 64 k's, and 0, 1, ..., 7 make the word
    0x75316420."""
    from . import _int4  # needs NumPy

    return _int4.pack_int4(weights)


def unpack_int4(words: np.ndarray, n: int) -> np.ndarray:
    """The weights of n columns of words, uint8 [..., n, K]: the inverse of pack_int4()."""
    from . import _int4

    return _int4.unpack_int4(words, n)


def group_words(scales: ArrayLike, zeros: ArrayLike = 8) -> np.ndarray:
    """The words of groups, uint32, of scales, which are rounded to 20 bits (those of bf16 and fp16 have
    fewer), and zero points from 0 to 15, of the same shape or one for all: a weight q of the group stands for
    scale * (q - zero)."""
    from . import _int4

    return _int4.group_words(scales, zeros)


def split_group_words(words: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The scales, float32, and zero points, uint8, of words: the inverse of group_words()."""
    from . import _int4

    return _int4.split_group_words(words)


def quantize_int4(weights: ArrayLike, group: int = 128) -> tuple[np.ndarray, np.ndarray]:
    """Floating weights [..., N, K] as words of pack_int4() [..., K / 64, ld, 8] and of group_words()
    [..., K / group, ld], which are 0 from N on. The group, 64 or 128, divides K. Each has the zero point 8,
    and a scale by which its largest weight is -8 or 7, whichever errs less."""
    from . import _int4

    return _int4.quantize_int4(weights, group)
