"""Tests of weights of 4 bits as NumPy arrays, on the CPU."""

import unittest
from unittest import mock

import batchgemm
from batchgemm import _core

try:
    import numpy as np
except ImportError:
    raise unittest.SkipTest("NumPy is not installed")


def plain(weights, scales, zeros):
    """The numbers that weights stand for."""
    group = weights.shape[-1] // scales.shape[-1]
    return np.repeat(scales, group, -1) * (weights.astype(np.float32) - np.repeat(zeros, group, -1))


class Packing(unittest.TestCase):
    def setUp(self):
        self.rng = np.random.default_rng(1)

    def test_words(self):
        self.assertEqual(batchgemm.pack_int4(range(8)).tolist(), [0x75316420])
        for shape in (8,), (3, 16), (2, 3, 64), (0, 8), (3, 0):
            weights = self.rng.integers(0, 16, shape)
            words = batchgemm.pack_int4(weights)
            self.assertEqual((words.dtype, words.shape), (np.uint32, (*shape[:-1], shape[-1] // 8)))
            for same in words, words.view(np.int32), np.repeat(words, 2, -1)[..., ::2]:
                back = batchgemm.unpack_int4(same)
                self.assertEqual(back.dtype, np.uint8)
                np.testing.assert_array_equal(back, weights)
            for same in weights.astype(np.uint8), np.asfortranarray(weights), np.repeat(weights, 2, -1)[..., ::2]:
                np.testing.assert_array_equal(batchgemm.pack_int4(same), words)

    def test_groups(self):
        for dtype in np.float16, np.float32:
            scales = self.rng.standard_normal((3, 5)).astype(np.float16).astype(dtype)
            zeros = self.rng.integers(0, 16, (3, 5))
            words = batchgemm.group_words(scales, zeros)
            self.assertEqual((words.dtype, words.shape), (np.uint32, (3, 5)))
            for same in words, words.view(np.int32), np.asfortranarray(words):
                scale, zero = batchgemm.split_group_words(same)
                self.assertEqual((scale.dtype, zero.dtype), (np.float32, np.uint8))
                np.testing.assert_array_equal(scale, scales)
                np.testing.assert_array_equal(zero, zeros)
        self.assertEqual(batchgemm.group_words(1.5).tolist(), 0x3FC00008)
        self.assertEqual(batchgemm.group_words([1 / 3]).tolist(), [0x3EAAAAB8])  # to the nearest of 20 bits

    def test_quantize(self):
        for group in 64, 128:
            weights = self.rng.standard_normal((2, 3, 2 * group), dtype=np.float32)
            words, groups = batchgemm.quantize_int4(weights, group)
            self.assertEqual((words.shape, groups.shape), ((2, 3, group // 4), (2, 3, 2)))
            scales, zeros = batchgemm.split_group_words(groups)
            self.assertTrue((zeros == 8).all())
            packed = batchgemm.unpack_int4(words)
            numbers = plain(packed, scales, zeros)
            error = np.abs(numbers - weights).reshape(2, 3, 2, group) / np.abs(scales)[..., None]
            at_end = packed.reshape(error.shape) % 15 == 0  # where a weight may be beyond what there is
            self.assertTrue((error <= np.where(at_end, 1, 0.5) + 1e-5).all())
            again = batchgemm.quantize_int4(numbers, group)
            np.testing.assert_array_equal(plain(batchgemm.unpack_int4(again[0]), *batchgemm.split_group_words(again[1])), numbers)
            with mock.patch.object(_core, "PIECE", group):  # one piece or many
                for one, other in zip((words, groups), batchgemm.quantize_int4(weights.astype(np.float64), group)):
                    np.testing.assert_array_equal(one, other)
        words, groups = batchgemm.quantize_int4(np.zeros((0, 128), np.float32))
        self.assertEqual((words.shape, groups.shape), ((0, 16), (0, 1)))

    def test_product(self):
        """Whole numbers, which have no error, by words of arrays in buffers."""
        rng, m, n, k = self.rng, 5, 7, 192
        x, weights = rng.integers(-3, 4, (m, k)).astype(np.float16), rng.integers(0, 16, (n, k))
        scales, zeros = 2.0 ** rng.integers(-2, 3, (n, 3)), rng.integers(0, 16, (n, 3))
        want = x.astype(np.float32) @ plain(weights, scales.astype(np.float32), zeros).T
        given = {"a": (x, "f16"), "b": (batchgemm.pack_int4(weights), "int4"), "rows": (batchgemm.group_words(scales, zeros).view(np.int32), "f32")}
        c = np.empty((m, n), np.float32)
        with batchgemm.open("cpu") as device:
            with device.plan([batchgemm.problem(m, n, k, trans_b=True)], type="f16", epilogue={"scale_b": "group-64"}) as plan:
                program = device.prepare(plan)
            buffers = {name: device.buffer(8 * data.size if of == "int4" else data.size, of) for name, (data, of) in given.items()}
            buffers["c"] = device.buffer(c.size)
            for name, (data, _) in given.items():
                buffers[name].write(data.reshape(-1))
            program.run(**buffers)
            buffers["c"].read(c.reshape(-1))
            np.testing.assert_array_equal(c, want)
            for made in program, *buffers.values():
                made.close()

    def test_mistakes(self):
        pack, words, quantize, invalid = batchgemm.pack_int4, batchgemm.group_words, batchgemm.quantize_int4, batchgemm.InvalidError
        ones = np.ones((2, 128), np.float32)
        for error, text, wrong in (
            (TypeError, "weights are of float64, not integers", lambda: pack(np.zeros(8))),
            (invalid, "weights are from 0 to 16: they must be from 0 to 15", lambda: pack([0] * 7 + [16])),
            (invalid, "weights are from -1 to 7", lambda: pack(range(-1, 7 + 1))),
            (invalid, r"weights are \(2, 12\): K, the last dimension, must be a multiple of 8", lambda: pack(np.zeros((2, 12), int))),
            (invalid, r"weights are \(\)", lambda: pack(3)),
            (TypeError, "words are of float32", lambda: batchgemm.unpack_int4(ones)),
            (invalid, "words are of no dimension", lambda: batchgemm.unpack_int4(np.uint32(3))),
            (TypeError, "scales are of int64, not floating", lambda: words([1, 2])),
            (invalid, "zeros are from 16 to 16", lambda: words([1.0], 16)),
            (ValueError, "broadcast", lambda: words([1.0], [1, 2])),
            (TypeError, "words are of int64", lambda: batchgemm.split_group_words([1, 2])),
            (TypeError, "weights are of int64", lambda: quantize([1] * 128)),
            (invalid, "weights are of no dimension", lambda: quantize(1.0)),
            (invalid, "group is 32: it must be 64 or 128", lambda: quantize(ones, 32)),
            (invalid, "K is 96: it must be a multiple of 64", lambda: quantize(ones[:, :96], 64)),
        ):
            with self.subTest(text), self.assertRaisesRegex(error, text):
                wrong()


if __name__ == "__main__":
    unittest.main()
