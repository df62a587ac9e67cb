"""Tests of weights of MXFP4 and NVFP4 as NumPy arrays, on the CPU."""

import unittest

import batchgemm

try:
    import numpy as np
except ImportError:
    raise unittest.SkipTest("NumPy is not installed")

SHARED = {"mxfp4": 32, "nvfp4": 16}


class Packing(unittest.TestCase):
    def setUp(self):
        self.rng = np.random.default_rng(1)

    def bytes(self, *shape):
        return self.rng.integers(0, 256, shape, np.uint8)

    def test_words(self):
        for type, shared in SHARED.items():
            for many, n, k in ((), 3, 64), ((2,), 9, 192), ((2, 3), 8, 128), ((0,), 3, 64), ((2,), 0, 64), \
                    ((), 3, 0):
                pairs, scales = self.bytes(*many, n, k // 2), self.bytes(*many, n, k // shared)
                scale = self.rng.standard_normal(many).astype(np.float32)
                words, groups = batchgemm.pack_fp4(type, pairs, scales, scale)
                weights = np.stack([pairs & 15, pairs >> 4], -1).reshape(*many, n, k)
                np.testing.assert_array_equal(words, batchgemm.pack_int4(weights))
                ld, first = words.shape[-2], int(type == "nvfp4" and k > 0)
                self.assertEqual(groups.shape, (*many, -(-k // (4 * shared)) + first, ld))
                places = groups[..., first:, :n, None].view(np.uint8).swapaxes(-2, -3)
                places = places.reshape(*many, n, 4 * places.shape[-2])
                np.testing.assert_array_equal(places[..., : k // shared], scales)
                self.assertFalse(places[..., k // shared :].any() or groups[..., n:].any())
                if first:
                    np.testing.assert_array_equal(groups[..., 0, :n].view(np.float32),
                                                  np.broadcast_to(scale[..., None], (*many, n)))
                back = batchgemm.unpack_fp4(type, words, groups, n)
                np.testing.assert_array_equal(back[0], pairs)
                np.testing.assert_array_equal(back[1], scales)
                np.testing.assert_array_equal(back[2], scale if first and n else np.ones_like(scale))
                blocks = pairs.reshape(*many, n, k // 32, 16)
                again = batchgemm.pack_fp4(type, blocks.view(np.int8), scales, scale)
                np.testing.assert_array_equal(again[0], words)
                longer = (np.concatenate([words, words], -2), np.concatenate([groups, groups], -1))
                np.testing.assert_array_equal(batchgemm.unpack_fp4(type, *longer, n)[0], pairs)

    def test_refuses(self):
        pairs, scales = self.bytes(3, 32), self.bytes(3, 2)
        words, groups = batchgemm.pack_fp4("mxfp4", pairs, scales)
        for words_of, error, wrong in (
            ("type is 'int4': it must be 'mxfp4' or 'nvfp4'", batchgemm.InvalidError,
             lambda: batchgemm.pack_fp4("int4", pairs, scales)),
            ("K is 32: it must be a multiple of 64", batchgemm.InvalidError,
             lambda: batchgemm.pack_fp4("mxfp4", pairs[:, :16], scales[:, :1])),
            ("scales are (3, 2): they must be (3, 4)", batchgemm.InvalidError,
             lambda: batchgemm.pack_fp4("nvfp4", pairs, scales)),
            ("pairs are of float32, not bytes", TypeError,
             lambda: batchgemm.pack_fp4("mxfp4", pairs.astype(np.float32), scales)),
            ("groups are (1, 8): they must be (2, 8)", batchgemm.InvalidError,
             lambda: batchgemm.unpack_fp4("nvfp4", words, groups, 3)),
            ("n is 9: they must be", batchgemm.InvalidError,
             lambda: batchgemm.unpack_fp4("mxfp4", words, groups, 9)),
        ):
            with self.assertRaises(error, msg=words_of) as caught:
                wrong()
            self.assertIn(words_of, str(caught.exception))

    def test_product(self):
        """Numbers are small, so that results are exact."""
        numbers = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6], np.float32)
        m, n, k = 5, 9, 192
        for type, shared in SHARED.items():
            pairs = self.bytes(n, k // 2)
            scales = self.rng.integers(126, 129, (n, k // shared), np.uint8)
            as_numbers = 2.0 ** (scales.astype(np.float32) - 127)
            if type == "nvfp4":
                scales = np.uint8(8) * (scales - 120)
            words, groups = batchgemm.pack_fp4(type, pairs, scales, 0.25)
            w = numbers[np.stack([pairs & 15, pairs >> 4], -1).reshape(n, k)]
            w = w * np.repeat(as_numbers, shared, 1)
            want = np.float32(1 if type == "mxfp4" else 0.25)
            x = self.rng.integers(-2, 3, (m, k)).astype(np.float16)
            y = np.empty((m, n), np.float32)
            with batchgemm.open("cpu") as device:
                scale_b = {"mxfp4": "group-32", "nvfp4": "group-16"}[type]
                with device.plan([batchgemm.problem(m, n, k, ldb=words.shape[1])], type_a="f16", type_b=type,
                                 epilogue={"scale_b": scale_b}) as plan:
                    program, buffers = device.prepare(plan), {}
                for name, of, data in (("a", "f16", x), ("b", type, words), ("c", "f32", y),
                                       ("rows", "f32", groups.view(np.float32))):
                    buffers[name] = device.buffer(data.size * (8 if name == "b" else 1), of)
                    buffers[name].write(data.reshape(-1))
                program.run(**buffers)
                buffers["c"].read(y.reshape(-1))
                np.testing.assert_array_equal(y, x.astype(np.float32) @ w.T * want)
                y[:] = 0
                device.gemm([batchgemm.problem(m, n, k, ldb=words.shape[1])], x, words, y, type_a="f16",
                            type_b=type, epilogue={"scale_b": scale_b}, rows=groups.view(np.int32))
                for made in program, *buffers.values():
                    made.close()
            np.testing.assert_array_equal(y, x.astype(np.float32) @ w.T * want)


if __name__ == "__main__":
    unittest.main()
