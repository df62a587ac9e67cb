"""Tests of weights of 4 bits of AWQ's and GPTQ's checkpoints as NumPy arrays."""

import unittest

import batchgemm

try:
    import numpy as np
except ImportError:
    raise unittest.SkipTest("NumPy is not installed")

FORMATS = "awq", "gptq", "gptq_v2"
AWQ = 0, 2, 4, 6, 1, 3, 5, 7  # AutoAWQ's order_map


def stored(format, weights, zeros):
    """qweight and qzeros, word by word, as AutoAWQ and AutoGPTQ store [K, N] weights and [K / group, N] zero
    points."""
    order = AWQ if format == "awq" else range(8)
    word = lambda row, c: sum(int(row[c + order[i]]) << 4 * i for i in range(8))
    by_column = lambda x: [[word(row, c) for c in range(0, len(row), 8)] for row in x]
    qweight = by_column(weights) if format == "awq" else list(zip(*by_column(zip(*weights))))
    words = lambda x: np.array(x, np.uint32).view(np.int32)
    return words(qweight), words(by_column(zeros - (format == "gptq")))


class Checkpoints(unittest.TestCase):
    def test_formats(self):
        rng = np.random.default_rng(1)
        for format in FORMATS:
            for k, n, group in (64, 8, 64), (128, 24, 128), (384, 16, 64):
                weights = rng.integers(0, 16, (k, n), np.uint8)
                zeros = rng.integers(1, 16, (k // group, n), np.uint8)
                scales = rng.standard_normal((k // group, n)).astype(np.float16)
                given = *stored(format, weights, zeros), scales
                with self.subTest(format=format, k=k, n=n, group=group):
                    words, groups = batchgemm.pack_checkpoint(format, *given)
                    np.testing.assert_array_equal(words, batchgemm.pack_int4(weights.T))
                    np.testing.assert_array_equal(groups, batchgemm.group_words(scales, zeros))
                    many = [np.stack([x, x]) for x in given]
                    for of in given, many:
                        back = batchgemm.unpack_checkpoint(format, *batchgemm.pack_checkpoint(format, *of))
                        for x, y in zip(back, of):
                            np.testing.assert_array_equal(x, y)

    def test_refuses(self):
        qweight, scales = np.zeros((16, 8), np.int32), np.ones((1, 8), np.float32)
        high = np.full((1, 1), -1, np.int32)  # 15, stored less 1
        for wrong, error, given in (
                ("'int4'", batchgemm.InvalidError, ("int4", qweight, high, scales)),
                ("16", batchgemm.InvalidError, ("gptq", qweight, high, scales)),
                ("scales are", batchgemm.InvalidError, ("gptq_v2", qweight, high, scales[:, :7])),
                ("scales are", batchgemm.InvalidError, ("gptq_v2", qweight, high[:0], scales)),
                ("rows, columns", batchgemm.InvalidError, ("awq", qweight[0], high, scales)),
                ("int64", TypeError, ("awq", qweight.astype(np.int64), high, scales)),
                ("not floating", TypeError, ("gptq", qweight, high, qweight[:1]))):
            with self.subTest(wrong=wrong), self.assertRaisesRegex(error, wrong):
                batchgemm.pack_checkpoint(*given)
        words, groups = batchgemm.pack_checkpoint("gptq_v2", qweight, np.zeros((1, 1), np.int32), scales)
        with self.assertRaisesRegex(batchgemm.InvalidError, "column 0 is 0, which"):
            batchgemm.unpack_checkpoint("gptq", words, groups)


if __name__ == "__main__":
    unittest.main()
