"""Tests of weights of 4 bits as NumPy arrays, on the CPU."""

import unittest

import batchgemm

try:
    import numpy as np
except ImportError:
    raise unittest.SkipTest("NumPy is not installed")


def plain(weights, scales, zeros):
    """The numbers that weights [..., N, K] stand for."""
    n, k = weights.shape[-2:]
    group = k // scales.shape[-2]
    scales, zeros = (np.repeat(t[..., :n].swapaxes(-1, -2), group, -1)
                     for t in (scales, zeros.astype(np.float32)))
    return scales * (weights - zeros)


class Packing(unittest.TestCase):
    def setUp(self):
        self.rng = np.random.default_rng(1)

    def test_words(self):
        weights = np.zeros((9, 128), int)
        weights[3, 64 + 16 : 64 + 24] = range(8)
        words = batchgemm.pack_int4(weights)
        self.assertEqual((words[1, 3, 2], np.count_nonzero(words)), (0x75316420, 1))
        for shape, packed in (
            ((3, 64), (1, 8, 8)), ((8, 192), (3, 8, 8)), ((2, 9, 128), (2, 2, 16, 8)),
                ((2, 3, 8, 64), (2, 3, 1, 8, 8)),
            ((0, 3, 64), (0, 1, 8, 8)), ((2, 0, 64), (2, 1, 0, 8)), ((3, 0), (0, 8, 8)),
        ):
            weights, n = self.rng.integers(0, 16, shape), shape[-2]
            words = batchgemm.pack_int4(weights)
            self.assertEqual((words.dtype, words.shape), (np.uint32, packed))
            self.assertFalse(words[..., n:, :].any())
            # ld is more than the least
            longer = np.concatenate([words, np.ones((*packed[:-2], 8, 8), np.uint32)], -2)
            for same in words, words.view(np.int32), np.repeat(words, 2, -1)[..., ::2], longer:
                back = batchgemm.unpack_int4(same, n)
                self.assertEqual(back.dtype, np.uint8)
                np.testing.assert_array_equal(back, weights)
            np.testing.assert_array_equal(batchgemm.unpack_int4(words, n // 2), weights[..., : n // 2, :])
            for same in (weights.astype(np.uint8), np.asfortranarray(weights),
                         np.repeat(weights, 2, -1)[..., ::2]):
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
            self.assertEqual((words.shape, groups.shape), ((2, group // 32, 8, 8), (2, 2, 8)))
            self.assertFalse(words[..., 3:, :].any() or groups[..., 3:].any())
            scales, zeros = batchgemm.split_group_words(groups)
            self.assertTrue((zeros[..., :3] == 8).all())
            packed = batchgemm.unpack_int4(words, 3)
            numbers = plain(packed, scales, zeros)
            error = np.abs(numbers - weights).reshape(2, 3, 2, group) / np.abs(scales)[..., :3].swapaxes(
                1, 2)[..., None]
            at_end = packed.reshape(error.shape) % 15 == 0  # where a weight may be beyond what there is
            self.assertTrue((error <= np.where(at_end, 1, 0.5) + 1e-5).all())
            again = batchgemm.quantize_int4(numbers, group)
            np.testing.assert_array_equal(plain(batchgemm.unpack_int4(again[0], 3),
                                                *batchgemm.split_group_words(again[1])), numbers)
            for one, other in zip((words, groups),
                                  batchgemm.quantize_int4(weights.astype(np.float64), group)):
                np.testing.assert_array_equal(one, other)
        words, groups = batchgemm.quantize_int4(np.zeros((0, 128), np.float32))
        self.assertEqual((words.shape, groups.shape), ((2, 0, 8), (1, 0)))

    def test_not_finite(self):
        """What has no number in 4 bits is named, and nothing else is said of it."""
        for value, shown in (np.nan, "NaN"), (np.inf, "[+]Inf"), (-np.inf, "-Inf"):
            weights = np.ones((3, 2, 4, 128), np.float32)
            weights[2, 1, 3, 77] = value
            text = f"row 3, column 77 is {shown}, for which int4 has no number"
            with self.assertRaisesRegex(batchgemm.InvalidError, rf"^weights\[2, 1\]: {text}$"):
                batchgemm.quantize_int4(weights)
            with self.assertRaisesRegex(batchgemm.InvalidError, f"^weights: {text}$"):
                batchgemm.quantize_int4(weights[2, 1].astype(np.float64), 64)

    def test_product(self):
        """Whole numbers, which have no error, by words of arrays in buffers."""
        rng, m, n, k, ld = self.rng, 5, 7, 192, 8
        x, weights = rng.integers(-3, 4, (m, k)).astype(np.float16), rng.integers(0, 16, (n, k))
        scales, zeros = 2.0 ** rng.integers(-2, 3, (3, ld)), rng.integers(0, 16, (3, ld))
        want = x.astype(np.float32) @ plain(weights, scales.astype(np.float32), zeros).T
        given = {"a": (x, "f16"), "b": (batchgemm.pack_int4(weights), "int4"),
                 "rows": (batchgemm.group_words(scales, zeros).view(np.int32), "f32")}
        c = np.empty((m, n), np.float32)
        with batchgemm.open("cpu") as device:
            with device.plan([batchgemm.problem(m, n, k, ldb=ld)], type_a="f16", type_b="int4",
                             epilogue={"scale_b": "group-64"}) as plan:
                program = device.prepare(plan)
            buffers = {name: device.buffer(8 * data.size if of == "int4" else data.size, of) for name,
                       (data, of) in given.items()}
            buffers["c"] = device.buffer(c.size)
            for name, (data, _) in given.items():
                buffers[name].write(data.reshape(-1))
            program.run(**buffers)
            buffers["c"].read(c.reshape(-1))
            np.testing.assert_array_equal(c, want)
            for made in program, *buffers.values():
                made.close()

    def test_mistakes(self):
        pack, words, quantize = batchgemm.pack_int4, batchgemm.group_words, batchgemm.quantize_int4
        invalid = batchgemm.InvalidError
        unpack, ones = batchgemm.unpack_int4, np.ones((2, 128), np.float32)
        packed = np.zeros((2, 8, 8), np.uint32)
        for error, text, wrong in (
            (TypeError, "weights are of float64, not integers", lambda: pack(np.zeros((1, 64)))),
            (invalid, "weights are from 0 to 16: they must be from 0 to 15", lambda: pack([[0] * 63 + [16]])),
            (invalid, "weights are from -1 to 7", lambda: pack([range(-1, 7 + 1)])),
            (invalid, "K is 96: it must be a multiple of 64", lambda: pack(np.zeros((2, 96), int))),
            (invalid, r"weights are \(64,\): they must be \[..., N, K\]", lambda: pack([3] * 64)),
            (TypeError, "words are of float32", lambda: unpack(ones, 1)),
            (invalid, r"words are \(2, 8\), n is 1: they must be \[..., K / 64, ld, 8\], and ld a multiple "
             r"of 8", lambda: unpack(packed[:, 0], 1)),
            (invalid, "n is 9", lambda: unpack(packed, 9)),
            (TypeError, "n is 8.0: it must be an integer", lambda: unpack(packed, 8.0)),
            (invalid, "n is 18446744073709551624", lambda: unpack(packed, 2**64 + 8)),
            (TypeError, "group is 128.0: it must be an integer", lambda: quantize(ones, 128.0)),
            (invalid, "n is -1", lambda: unpack(packed, -1)),
            (invalid, r"words are \(2, 7, 8\)", lambda: unpack(packed[:, :7], 7)),
            (invalid, r"words are \(2, 8, 4\)", lambda: unpack(packed[..., :4], 8)),
            (TypeError, "scales are of int64, not floating", lambda: words([1, 2])),
            (invalid, "zeros are from 16 to 16", lambda: words([1.0], 16)),
            (ValueError, "broadcast", lambda: words([1.0], [1, 2])),
            (TypeError, "words are of int64", lambda: batchgemm.split_group_words([1, 2])),
            (TypeError, "weights are of int64", lambda: quantize([[1] * 128])),
            (invalid, r"weights are \(128,\): they must be \[..., N, K\]", lambda: quantize(ones[0])),
            (invalid, "group is 32: it must be 64 or 128", lambda: quantize(ones, 32)),
            (invalid, "K is 96: it must be a multiple of 64", lambda: quantize(ones[:, :96], 64)),
        ):
            with self.subTest(text), self.assertRaisesRegex(error, text):
                wrong()


if __name__ == "__main__":
    unittest.main()
