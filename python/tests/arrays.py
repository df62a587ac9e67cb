"""What tests of NumPy arrays share, on the device that BATCHGEMM_BACKEND names, else the CPU."""

import os
import tracemalloc
import unittest

import batchgemm

try:
    import numpy as np
except ImportError:
    raise unittest.SkipTest("NumPy is not installed")

BACKEND = os.environ.get("BATCHGEMM_BACKEND") or "cpu"
HALF_ULP = {np.dtype(np.float32): 2.0**-24, np.dtype(np.float16): 2.0**-11}


def draw(rng, shape, dtype=np.float32):
    return rng.uniform(-1, 1, shape).astype(dtype)


def check(got, a, b, done=lambda v: v, more=0.0):
    """Against float64: rounding of the result, and 2 (K+2) 2^-24 sum |a||b| of sums in fp32, in any order.
    done: what an epilogue does then, with a slope of at most 1.2, and its own error more."""
    wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
    want = done(wide_a @ wide_b)
    size = np.abs(wide_a) @ np.abs(wide_b) + more
    least = 2.0**-25 if got.dtype == np.float16 else 0  # half the smallest number
    bound = HALF_ULP[got.dtype] * np.abs(want) + 1.2 * 2 * (a.shape[1] + 2) * 2.0**-24 * size + least
    worst = np.abs(got - want) - bound
    assert got.shape == want.shape and not (
        worst > 0).any(), f"off by {worst.max(initial=0)} more than the bound"
    assert not np.isnan(got).any()


def most(call):
    """The most memory that NumPy and Python had at a time beside what they had before."""
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def unaligned(x):
    words = np.zeros(x.nbytes + 32, np.uint8)
    words = words[-words.ctypes.data % 16 + 1:][:x.nbytes]
    words[:] = np.frombuffer(x.tobytes(), np.uint8)
    return words.view(x.dtype).reshape(x.shape)


class TestCase(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.device = batchgemm.open(BACKEND)

    @classmethod
    def tearDownClass(cls):
        cls.device.close()

    def setUp(self):
        self.rng = np.random.default_rng(1)
