"""batchgemm: many matrix products of different sizes at once, on whatever GPU is there.

    results = batchgemm.matmul(list_of_a, list_of_b)    # NumPy: float64, float32, float16; bias=, activation=
    y = batchgemm.grouped_mm(x, w, ends, bias, "silu")        # a layer of experts

For work that repeats with operands on the device: open(), then plan(), prepare() and run() of a Device.
batchgemm.torch has the same for PyTorch tensors. docs/python.md is the manual.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Sequence

from ._abi import (ClosedError, DeviceLostError, Error, InvalidError, OutOfMemoryError, Problem,
                   TimeLimitError, UnavailableError)
from ._core import (ENDS_OF_DEPTH, ENDS_OF_ROWS, NAN_ROWS, RECORDS, TRANS_A, TRANS_B, ZERO_ROWS, pointers,
                    problem)
from ._device import Device, default_device, default_for, open
from ._objects import Buffer, Plan, Program, Read

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike

__all__ = ["ENDS_OF_DEPTH", "ENDS_OF_ROWS", "NAN_ROWS", "RECORDS", "TRANS_A", "TRANS_B", "ZERO_ROWS",
           "Buffer", "ClosedError", "Device", "DeviceLostError", "Error", "InvalidError", "OutOfMemoryError",
           "Plan", "Problem", "Program", "Read", "TimeLimitError", "UnavailableError", "default_device",
           "group_words", "grouped_mm", "matmul", "open", "pack_checkpoint", "pack_fp4", "pack_int4",
           "pointers", "problem", "quantize_int4", "split_group_words", "unpack_checkpoint", "unpack_fp4",
           "unpack_int4"]


def matmul(a: Sequence[np.ndarray], b: Sequence[np.ndarray], out: Sequence[np.ndarray] | None = None, *,
           bias: Sequence[np.ndarray] | None = None, activation: str | None = None, alpha: float = 1,
           compute: str | None = None, timeout: float | None = None,
           device: Device | None = None) -> list[np.ndarray]:
    """Computes activation(alpha * a[i] @ b[i] + bias[i]) for all i, of any sizes, as one batch.

    Args:
        a, b: lists of matrices, all of one type, float64, float32 or float16, with any strides, or stacks of
            them. The CPU uses stacks, and matrices of 8 KiB and more on average, where they are. A GPU is
            sent views of one array, if they are at least half of what they span, without a copy. Others are
            copied once.
        out: a list of arrays for the results, which share no element, or None. Views of one array, with dense
            rows, are computed into directly; on the CPU also separate ones of float32 of 8 KiB and more.
        bias: a list of vectors of the same type, each of which is added to all rows of a result, or None.
        activation: "relu", "gelu" (by tanh), "silu" or None.
        alpha: a factor in the range of float32.
        compute: "f32-emulated" (default: as accurate as fp32, on tensor cores), "f32" or "tf32".
        timeout: seconds; None waits for ever.
        device: default_device() unless given; for float64, which RDNA and WebGPU lack, open("f64").

    Shapes:
        a[i] [M, K], b[i] [K, N], bias[i] [N], out[i] [M, N]. Each i has its own M, N and K, from 0 on.

    Returns:
        out, or a list of views of one new array, of the type of a. Sums, bias and activation are in fp32, and
        each result is rounded once; those of float64 are in fp64.

    Raises:
        InvalidError: shapes do not fit; the text names the problem.
        TypeError: something is no array of float64, float32 or float16, or types differ.
        TimeLimitError: timeout was over. After an error, or Ctrl-C, out is as before; if the CPU computes
            into it directly, it is incomplete after TimeLimitError or Ctrl-C.

    Example:
        >>> import numpy as np, batchgemm
        >>> a = [np.ones((2, 4), np.float32), np.ones((100, 30), np.float32)]
        >>> b = [np.ones((4, 3), np.float32), np.ones((30, 50), np.float32)]
        >>> c = batchgemm.matmul(a, b, alpha=0.5)
        >>> c[0].shape, c[1].shape, float(c[1][0, 0])
        ((2, 3), (100, 50), 15.0)
    """
    return (device or default_for(a)).matmul(a, b, out, bias=bias, activation=activation, alpha=alpha,
                                               compute=compute, timeout=timeout)


def grouped_mm(x: np.ndarray, w: np.ndarray, ends: ArrayLike, bias: np.ndarray | None = None,
               activation: str | None = None, *, compute: str | None = None, timeout: float | None = None,
               device: Device | None = None) -> np.ndarray:
    """Computes activation(x[ends[g-1]:ends[g]] @ w[g] + bias[g]) for all groups g, such as experts.

    Args:
        x: rows of all groups, one group after the other; float64, float32 or float16.
        w: a matrix for each group, of the type of x. It may be a transposed view of [groups, N, K]. The CPU
            uses x, w and bias where they are, with any strides between rows and between groups.
        ends: integers that do not go down: where the rows of each group end. The first group begins at row 0.
        bias: a row for each group, of the type of x, or None.
        activation: "relu", "gelu" (by tanh), "silu" or None.
        compute, timeout, device: as of matmul().

    Shapes:
        x [rows, K], w [groups, K, N], ends [groups], bias [groups, N]. There are up to 4096 groups.

    Returns:
        [rows, N], of the type of x, with 0 in rows after the last end. Sums, bias and activation are in fp32,
        and the result is rounded once; with float64 they are in fp64.

    Raises:
        InvalidError: shapes do not fit, or ends go down or beyond the rows; the text names the group.
        TypeError: something is no array of float64, float32 or float16, types differ, or ends are no
            integers.
        TimeLimitError: timeout was over.

    Example:
        >>> import numpy as np, batchgemm
        >>> x, w = np.ones((5, 4), np.float32), np.ones((2, 4, 3), np.float32)
        >>> batchgemm.grouped_mm(x, w, [2, 4])[:, 0].tolist()
        [4.0, 4.0, 4.0, 4.0, 0.0]
    """
    return (device or default_for(x[:1])).grouped_mm(x, w, ends, bias, activation, compute=compute,
                                                   timeout=timeout)


def pack_int4(weights: ArrayLike) -> np.ndarray:
    """Packs weights of 4 bits as a B of "int4".

    A word has eight weights, in an order that kernels unpack in few steps. Of the weights of k, k+1, ...,
    k+7:

        bits  31..28  27..24  23..20  19..16  15..12  11..8  7..4  3..0
        k + ?      7       5       3       1       6      4     2     0

    A column has 8 words in each panel of 64 k's: word i is of k = 8 * i, ..., 8 * i + 7 of the panel.

    Args:
        weights: integers from 0 to 15, as a layer stores those of x @ weights.T. K is a multiple of 64.

    Shapes:
        weights [..., N, K].

    Returns:
        uint32 [..., K / 64, ld, 8]: panel, column, word. ld is N rounded up to a multiple of 8. Columns from
        N on are 0.

    Raises:
        InvalidError: K is no multiple of 64, or a weight is not from 0 to 15.
        TypeError: weights are no integers.

    Example:
        >>> import numpy as np, batchgemm
        >>> words = batchgemm.pack_int4(np.arange(64).reshape(1, 64) % 8)
        >>> words.shape, hex(words[0, 0, 0])
        ((1, 8, 8), '0x75316420')
    """
    from . import _int4  # needs NumPy

    return _int4.pack_int4(weights)


def unpack_int4(words: np.ndarray, n: int) -> np.ndarray:
    """Unpacks the words of pack_int4().

    Args:
        words: uint32 or int32.
        n: how many columns, up to ld.

    Shapes:
        words [..., K / 64, ld, 8].

    Returns:
        uint8 [..., n, K], from 0 to 15.

    Raises:
        InvalidError: words have another shape, or n is not from 0 to ld.
        TypeError: words are of another type, or n is no integer.

    Example:
        >>> import numpy as np, batchgemm
        >>> weights = np.arange(64).reshape(1, 64) % 16
        >>> bool((batchgemm.unpack_int4(batchgemm.pack_int4(weights), 1) == weights).all())
        True
    """
    from . import _int4

    return _int4.unpack_int4(words, n)


def group_words(scales: ArrayLike, zeros: ArrayLike = 8) -> np.ndarray:
    """Makes the words of groups of weights. A weight q of the group stands for scale * (q - zero).

    The upper 28 bits of a word are those of the scale, an fp32 number rounded to 20 bits of precision. The
    lower 4 bits are the zero point.

    Args:
        scales: floating numbers. Those of bf16 and fp16 are not rounded.
        zeros: integers from 0 to 15.

    Shapes:
        scales of any shape; zeros of the same, or one for all. B wants [..., K / group, ld].

    Returns:
        uint32 of the shape of scales.

    Raises:
        InvalidError: a zero point is not from 0 to 15, or a scale is not finite.
        TypeError: scales are not floating, or zeros are no integers.

    Example:
        >>> import batchgemm
        >>> hex(batchgemm.group_words([0.5], 3)[0])
        '0x3f000003'
    """
    from . import _int4

    return _int4.group_words(scales, zeros)


def split_group_words(words: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Splits the words of group_words() into scales and zero points.

    Args:
        words: uint32 or int32.

    Shapes:
        words of any shape.

    Returns:
        scales, float32, and zero points, uint8, both of the shape of words.

    Raises:
        TypeError: words are of another type.

    Example:
        >>> import batchgemm
        >>> scales, zeros = batchgemm.split_group_words(batchgemm.group_words([0.5], 3))
        >>> scales.tolist(), zeros.tolist()
        ([0.5], [3])
    """
    from . import _int4

    return _int4.split_group_words(words)


def quantize_int4(weights: ArrayLike, group: int = 128) -> tuple[np.ndarray, np.ndarray]:
    """Rounds weights to 4 bits, and packs them as a B of "int4" with the words of its groups.

    Each group has the zero point 8, and a scale that makes its largest weight -8 or 7, whichever errs less in
    sum of squares. Eight weights share a word; of those of k, k+1, ..., k+7:

        bits  31..28  27..24  23..20  19..16  15..12  11..8  7..4  3..0
        k + ?      7       5       3       1       6      4     2     0

    Args:
        weights: floating numbers, as a layer stores those of x @ weights.T.
        group: how many weights along K share a scale: 64 or 128. It divides K.

    Shapes:
        weights [..., N, K].

    Returns:
        The words of weights, uint32 [..., K / 64, ld, 8] as of pack_int4(), and those of groups, uint32
        [..., K / group, ld] as of group_words(). ld is N rounded up to a multiple of 8.

    Raises:
        InvalidError: group is neither 64 nor 128 or does not divide K, or a weight is NaN or infinite; the
            text names where.
        TypeError: weights are not floating.

    Example:
        >>> import numpy as np, batchgemm
        >>> words, groups = batchgemm.quantize_int4(np.linspace(-1, 1, 3 * 128).reshape(3, 128))
        >>> words.shape, groups.shape
        ((2, 8, 8), (1, 8))
    """
    from . import _int4

    return _int4.quantize_int4(weights, group)


def pack_fp4(type: str, pairs: ArrayLike, scales: ArrayLike,
             scale: ArrayLike = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Packs weights of e2m1 as a B of "mxfp4" or "nvfp4", from what checkpoints hold.

    These are *_blocks and *_scales of GPT-OSS; weight, weight_scale and weight_scale_2 of ModelOpt; and
    weight_packed, weight_scale and 1 / weight_global_scale of compressed-tensors. The order of eight weights
    in a word is that of pack_int4():

        bits  31..28  27..24  23..20  19..16  15..12  11..8  7..4  3..0
        k + ?      7       5       3       1       6      4     2     0

    Args:
        type: "mxfp4" or "nvfp4".
        pairs: bytes of two weights, the lower 4 bits first. K is a multiple of 64.
        scales: bytes: of "mxfp4" e8m0, 2 ** (byte - 127), of "nvfp4" e4m3.
        scale: of "nvfp4", a number for each matrix, or for all. All scales are multiplied by it.

    Shapes:
        pairs [..., N, K / 2], or [..., N, K / 32, 16]; scales [..., N, K / 32], of "nvfp4" [..., N, K / 16].

    Returns:
        The words of weights, uint32 [..., K / 64, ld, 8], and those of scales, uint32 [..., rows, ld]. ld is
        N rounded up to a multiple of 8, and rows K / 128, rounded up, or of "nvfp4" 1 + K / 64.

    Raises:
        InvalidError: type is another, shapes do not fit, or K is no multiple of 64.
        TypeError: pairs or scales are no bytes.

    Example:
        >>> import numpy as np, batchgemm
        >>> blocks, scales = np.zeros((3, 4, 16), np.uint8), np.full((3, 4), 127, np.uint8)
        >>> words, groups = batchgemm.pack_fp4("mxfp4", blocks, scales)
        >>> words.shape, groups.shape, hex(groups[0, 0])
        ((2, 8, 8), (1, 8), '0x7f7f7f7f')
    """
    from . import _int4

    return _int4.pack_fp4(type, pairs, scales, scale)


def unpack_fp4(type: str, words: np.ndarray, groups: np.ndarray,
               n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Unpacks the words of pack_fp4().

    Args:
        type: "mxfp4" or "nvfp4".
        words, groups: uint32, or the same bits as int32.
        n: N, the number of columns.

    Shapes:
        words [..., K / 64, ld, 8], groups [..., rows, ld].

    Returns:
        pairs, uint8 [..., N, K / 2], scales, uint8 [..., N, K / 32] or of "nvfp4" [..., N, K / 16], and
        scale, float32 [...]; of "mxfp4" it is 1.

    Raises:
        InvalidError: type is another, or shapes do not fit.
        TypeError: words or groups are of another type.

    Example:
        >>> import numpy as np, batchgemm
        >>> pairs, scales = np.arange(32, dtype=np.uint8).reshape(1, 32), np.full((1, 4), 56, np.uint8)
        >>> packed = batchgemm.pack_fp4("nvfp4", pairs, scales, 0.5)
        >>> back = batchgemm.unpack_fp4("nvfp4", *packed, 1)
        >>> bool((back[0] == pairs).all()), back[2].item()
        (True, 0.5)
    """
    from . import _int4

    return _int4.unpack_fp4(type, words, groups, n)


def pack_checkpoint(format: str, qweight: ArrayLike, qzeros: ArrayLike,
                    scales: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Packs weights of 4 bits of AWQ's or GPTQ's checkpoints as a B of "int4".

    Args:
        format: "awq"; "gptq", whose zero points are stored less 1; or "gptq_v2", which stores them as they
            are. Of GPTQ, groups follow each other along K (g_idx[k] is k // group).
        qweight, qzeros: int32 or uint32 words of eight weights, or zero points.
        scales: floating numbers.

    Shapes:
        qweight [..., K / 8, N] of GPTQ, [..., K, N / 8] of AWQ; qzeros [..., K / group, N / 8]; scales
        [..., K / group, N]. group is 64 or 128. N is a multiple of 8.

    Returns:
        The words of weights, uint32 [..., K / 64, N, 8], as of pack_int4(), and those of groups, uint32
        [..., K / group, N], as of group_words().

    Raises:
        InvalidError: format is another, shapes do not fit, group is another, or a zero point is above 15.
        TypeError: words are no integers of 32 bits, or scales are not floating.

    Example:
        >>> import numpy as np, batchgemm
        >>> qweight, qzeros = np.full((16, 8), 0x76543210, np.int32), np.full((1, 1), 0x77777777, np.int32)
        >>> words, groups = batchgemm.pack_checkpoint("gptq", qweight, qzeros, np.ones((1, 8), np.float16))
        >>> words.shape, hex(words[0, 0, 0]), hex(groups[0, 0])
        ((2, 8, 8), '0x75316420', '0x3f800008')
    """
    from . import _int4

    return _int4.pack_checkpoint(format, qweight, qzeros, scales)


def unpack_checkpoint(format: str, words: np.ndarray,
                      groups: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Unpacks the words of pack_checkpoint().

    Args:
        format: as of pack_checkpoint().
        words, groups: uint32, or the same bits as int32.

    Shapes:
        words [..., K / 64, N, 8], groups [..., K / group, N].

    Returns:
        qweight and qzeros, int32, and scales, float32, of the shapes that pack_checkpoint() takes.

    Raises:
        InvalidError: format is another, shapes do not fit, or a zero point is 0 with "gptq".
        TypeError: words or groups are of another type.

    Example:
        >>> import numpy as np, batchgemm
        >>> given = np.arange(128, dtype=np.int32)[:, None], np.zeros((2, 1), np.int32), np.ones((2, 8))
        >>> back = batchgemm.unpack_checkpoint("awq", *batchgemm.pack_checkpoint("awq", *given))
        >>> all((x == y).all() for x, y in zip(back, given))
        True
    """
    from . import _int4

    return _int4.unpack_checkpoint(format, words, groups)
