"""Products of float64, of NumPy arrays and of memory."""

import unittest
from array import array

import batchgemm

try:
    import numpy as np
except ImportError:
    raise unittest.SkipTest("NumPy is not installed")


class Arrays(unittest.TestCase):
    def close(self, got, want):
        self.assertEqual(got.dtype, np.float64)
        np.testing.assert_allclose(got, want, rtol=1e-13, atol=1e-13)

    def test_matmul(self):
        rng = np.random.default_rng(1)
        shapes = (4, 5), (1, 30), (60, 70)
        for k in 3, 700:
            a, b = [rng.random((m, k)) for m, _ in shapes], [rng.random((n, k)).T for _, n in shapes]
            bias = [rng.random(n) for _, n in shapes]
            for got, x, y, z in zip(batchgemm.matmul(a, b, bias=bias, alpha=0.1), a, b, bias):
                self.close(got, 0.1 * (x @ y) + z)
        with self.assertRaisesRegex(TypeError, "a is of float64, b of float32"):
            batchgemm.matmul(a, [y.astype(np.float32) for y in b])

    def test_exact(self):
        """A sum that float32 does not hold."""
        a, b = [np.array([[2.0**40, 1]])], [np.ones((2, 1))]
        self.assertEqual(batchgemm.matmul(a, b)[0].item(), 2**40 + 1)

    def test_grouped(self):
        rng = np.random.default_rng(2)
        x, w, ends = rng.random((9, 6)), rng.random((3, 6, 5)), [2, 2, 7]
        got = batchgemm.grouped_mm(x, w, ends)
        self.close(got[:2], x[:2] @ w[0])
        self.close(got[2:7], x[2:7] @ w[2])
        self.assertFalse(got[7:].any())


class Memory(unittest.TestCase):
    def test_gemm(self):
        """alpha and beta have all of their bits."""
        f64, one, c = {"type_a": "f64", "type_c": "f64"}, array("d", [1]), array("d", [1])
        with batchgemm.open("f64") as device:
            device.gemm([batchgemm.problem(1, 1, 1, alpha=0.1, beta=1 / 3)], one, one, c, **f64)
            self.assertAlmostEqual(c[0], 0.1 + 1 / 3, delta=1e-16)
            with self.assertRaisesRegex(TypeError, "a: expected contiguous memory of f64"):
                device.gemm([batchgemm.problem(1, 1, 1)], array("f", [1]), one, c, **f64)
            with self.assertRaisesRegex(batchgemm.InvalidError, "elements of C cannot be f32"):
                device.gemm([batchgemm.problem(1, 1, 1)], one, one, array("f", [0]), type_a="f64")

    def test_buffers(self):
        with batchgemm.open("f64") as device, device.buffer(3, "f64") as buffer:
            buffer.write(array("d", [0.1, 0.2, 0.3]))
            got = array("d", [0, 0])
            buffer.read(got, 1)
            self.assertEqual(got.tolist(), [0.2, 0.3])


if __name__ == "__main__":
    unittest.main()
