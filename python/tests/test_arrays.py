"""Tests of matmul and grouped_mm on NumPy arrays, on the device that BATCHGEMM_BACKEND names, else the CPU."""

import gc
import mmap
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import tracemalloc
import unittest
import warnings
import weakref
from unittest import mock

import batchgemm
from batchgemm import _core

try:
    import numpy as np
    from batchgemm import _arrays
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
    assert got.shape == want.shape and not (worst > 0).any(), f"off by {worst.max(initial=0)} more than the bound"
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


class TestMatmul(TestCase):
    SHAPES = [(3, 4, 5), (1, 1, 1), (17, 9, 33), (1, 8, 40), (20, 1, 7), (5, 6, 1)]  # M, N, K

    def test_layouts(self):
        def strided(x):
            wide = np.full((x.shape[0] + 1, 3 * x.shape[1]), np.nan, x.dtype)
            wide[:-1, ::3] = x
            return wide[:-1, ::3]

        def padded(x):
            wide = np.full((x.shape[0], x.shape[1] + 3), np.nan, x.dtype)
            wide[:, 1:-2] = x
            return wide[:, 1:-2]

        def frozen(x):
            x.flags.writeable = False
            return x

        layouts = {"rows": lambda x: x, "columns": np.asfortranarray, "read-only": frozen, "padded rows": padded,
                   "strided": strided, "backwards": lambda x: x[::-1, ::-1].copy()[::-1, ::-1], "unaligned": unaligned}
        for dtype in np.float32, np.float16:
            for name, layout in layouts.items():
                with self.subTest(name, dtype=dtype.__name__):
                    a = [layout(draw(self.rng, (m, k), dtype)) for m, n, k in self.SHAPES]
                    b = [layout(draw(self.rng, (k, n), dtype)) for m, n, k in self.SHAPES]
                    for x, y, got in zip(a, b, self.device.matmul(a, b)):
                        self.assertEqual(got.dtype, dtype)
                        check(got, x, y)

    def test_integers(self):
        """Exact, with a factor."""
        for dtype in np.float32, np.float16:
            a = [self.rng.integers(-3, 4, (m, k)).astype(dtype) for m, n, k in self.SHAPES]
            b = [self.rng.integers(-3, 4, (k, n)).astype(dtype) for m, n, k in self.SHAPES]
            for x, y, got in zip(a, b, self.device.matmul(a, b, alpha=-2)):
                np.testing.assert_array_equal(got, -2 * (x.astype(np.float64) @ y))

    def test_epilogue(self):
        done = {None: lambda v: v, "relu": lambda v: np.maximum(v, 0), "silu": lambda v: v / (1 + np.exp(-v)),
                "gelu": lambda v: 0.5 * v * (1 + np.tanh(np.sqrt(2 / np.pi) * (v + 0.044715 * v**3)))}
        for dtype in np.float32, np.float16:
            a, b = ([draw(self.rng, s, dtype) for s in shapes] for shapes in zip(*(((m, k), (k, n)) for m, n, k in self.SHAPES)))
            bias = [draw(self.rng, n, dtype) for _, n, _ in self.SHAPES]
            for activation, act in done.items():
                with self.subTest(activation, dtype=dtype.__name__):
                    for x, y, z, got in zip(a, b, bias, self.device.matmul(a, b, bias=bias, activation=activation)):
                        check(got, x, y, lambda v: act(v + z), more=2)
                    for x, y, got in zip(a, b, self.device.matmul(a, b, activation=activation)):
                        check(got, x, y, act, more=2)
        f = lambda *s: np.ones(s, np.float32)
        for words, kind, bias in (("2 arrays in bias, 1 products", ValueError, [f(2)] * 2), ("problem 0: bias is .3,., not .2,.", ValueError, [f(3)]),
                                  ("problem 0: bias is not an array of float32", TypeError, [[1, 2]])):
            with self.subTest(words), self.assertRaisesRegex(kind, words):
                self.device.matmul([f(2, 2)], [f(2, 2)], bias=bias)
        with self.assertRaisesRegex(ValueError, "activation is 'tanh'"):
            self.device.matmul([f(2, 2)], [f(2, 2)], activation="tanh")

    def test_empty(self):
        shapes = [(0, 3, 4), (2, 0, 4), (2, 3, 0), (0, 0, 0), (2, 3, 4), (1, 1, 0)]
        a, b = [draw(self.rng, (m, k)) for m, n, k in shapes], [draw(self.rng, (k, n)) for m, n, k in shapes]
        for dtype in np.float32, np.float16:
            for x, y, got in zip(a, b, self.device.matmul([x.astype(dtype) for x in a], [y.astype(dtype) for y in b])):
                check(got, x.astype(dtype), y.astype(dtype))
        self.assertEqual(self.device.matmul([], []), [])
        self.assertEqual(self.device.matmul(a[:1], b[:1])[0].shape, (0, 3))

    def test_out(self):
        a, b = [draw(self.rng, (2, 3)) for _ in range(3)], [draw(self.rng, (3, 4)) for _ in range(3)]
        whole = np.full((6, 5), 7, np.float32)
        out = [whole[0:4:2, :4], whole[1:4:2, :4], np.zeros((4, 2), np.float32).T]
        self.assertIs(self.device.matmul(a, b, out)[1], out[1])
        for x, y, got in zip(a, b, out):
            check(got, x, y)
        self.assertTrue((whole[4:] == 7).all() and (whole[:, 4] == 7).all())
        square = [draw(self.rng, (3, 3))]
        before = square[0].copy()
        self.device.matmul(square, square, square)
        check(square[0], before, before)

    def test_out_in_place(self):
        """Results are computed where they go, if they lie so, and apart from what is read."""
        for dtype in np.float32, np.float16:
            whole = np.full((9, 6), 7, dtype)
            a, b = [draw(self.rng, (m, 3), dtype) for m in (2, 0, 4, 1)], [draw(self.rng, (3, n), dtype) for n in (4, 5, 4, 5)]
            out = [whole[:2, 1:5], whole[:0, :5], whole[2:6, :4], whole[8:, 1:]]
            results, offsets, lds, (address, count, _) = _arrays._place_results(out, [x.shape for x in out], whole.dtype, ())
            self.assertIs(results, out)
            self.assertEqual((list(offsets), list(lds), count, address), ([0, 0, 11, 48], [6, 5, 6, 5], 53, whole[0, 1:].ctypes.data))
            self.device.matmul(a, b, out)
            for x, y, got in zip(a, b, out):
                check(got, x, y)
                got[...] = 7
            self.assertTrue((whole == 7).all())
        shapes, f = [(2, 3), (3, 3)], np.dtype(np.float32)
        for name, out, reads in (
            ("two arrays", [np.zeros(s, f) for s in shapes], ()),
            ("columns", [x.T for x in np.split(np.zeros((3, 5), f), [2], axis=1)], ()),
            ("far apart", [(x := np.zeros((99, 3), f))[:2], x[96:]], ()),
            ("read too", [(x := np.zeros((5, 3), f))[:2], x[2:]], [(x.ctypes.data + 56, 1, x)]),
            ("read before", [x[:2], x[2:]], [(x.ctypes.data - 8, 3, x)]),
        ):
            with self.subTest(name):
                self.assertIsNot(_arrays._place_results(out, shapes, f, reads)[0], out)
        apart = [(x.ctypes.data + 60, 5, x), (x.ctypes.data - 8, 2, x)]
        self.assertIsNot(out, whole)
        out = [x[:2], x[2:]]
        self.assertIs(_arrays._place_results(out, shapes, f, apart)[0], out)
        square = draw(self.rng, (40, 20, 20))
        before = square.copy()
        self.device.matmul(square, square, square)  # one stack for all
        for x, got in zip(before, square):
            check(got, x, x)

    def test_memory(self):
        """C is there once on the side of NumPy, also with out."""
        a, b = draw(self.rng, (3, 300, 4)), draw(self.rng, (3, 4, 500))
        size = 4 * 3 * 300 * 500
        self.assertLess(most(lambda: self.device.matmul(a, b)), 1.1 * size)
        out = np.empty((3, 300, 500), np.float32)
        self.assertLess(most(lambda: self.device.matmul(a, b, out)), 0.1 * size)
        check(out[2], a[2], b[2])

    def test_layout(self):
        """What kernels take as it lies: rows no closer than they are long, nor 2^31 apart."""
        strided = lambda down, right=4, shape=(2, 3): np.lib.stride_tricks.as_strided(np.zeros(6, np.float32), shape, (down, right))
        for down, right, want in ((12, 4, (False, 3)), (8, 4, None), (16, 4, (False, 4)), (4 * (2**31 - 1), 4, (False, 2**31 - 1)),
                                  (4 * 2**31, 4, None), (14, 4, None), (4, 8, (True, 2)), (4, 4, None), (-12, 4, None), (0, 4, None)):
            with self.subTest(down=down, right=right):
                self.assertEqual(_arrays._layout(strided(down, right)), want)
        self.assertEqual(_arrays._layout(strided(0, 4, (1, 3))), (False, 3))
        self.assertEqual(_arrays._layout(strided(8, 400, (3, 1))), (False, 2))
        self.assertEqual(_arrays._layout(strided(400, 8, (1, 3))), (True, 2))

    def test_in_place(self):
        """What is not copied, and what is."""
        whole = draw(self.rng, (12, 8))
        whole.flags.writeable = False
        with tempfile.NamedTemporaryFile() as file:
            whole.tofile(file.name)
            mapped = np.memmap(file.name, np.float32, "r", shape=whole.shape)
            for name, x in ("read-only", whole), ("memory-mapped", mapped):
                with self.subTest(name):
                    parts = [x[:5], x[5:12].T]
                    trans, offsets, lds, (address, count, _) = _arrays._place(parts)
                    self.assertEqual(address, x.ctypes.data)
                    self.assertEqual((trans.tolist(), list(offsets), list(lds), count), ([False, True], [0, 40], [8, 8], 96))
                    b = [draw(self.rng, (8, 3)), draw(self.rng, (7, 2))]
                    for a, y, got in zip(parts, b, self.device.matmul(parts, b)):
                        check(got, a, y)
            del mapped, parts, a, x
        same = [whole] * 3
        self.assertEqual(_arrays._place(same)[3][:2], (whole.ctypes.data, 96))
        for name, parts in ("two arrays", [whole, whole.copy()]), ("little of one", [whole[:1], whole[11:]]):
            with self.subTest(name):
                low, high = whole.ctypes.data, whole.ctypes.data + whole.nbytes
                self.assertFalse(low <= _arrays._place(parts)[3][0] < high)

    def test_mistakes(self):
        f, d = (lambda *s: np.zeros(s, np.float32)), (lambda *s: np.zeros(s))
        strided = np.lib.stride_tricks.as_strided
        frozen = f(2, 2)
        frozen.flags.writeable = False
        shared = f(3, 2)
        for words, kind, a, b, out in (
            ("2 matrices in a, 1 in b", ValueError, [f(2, 2)] * 2, [f(2, 2)], None),
            ("problem 1: a is a list", TypeError, [f(2, 2), [[1]]], [f(2, 2)] * 2, None),
            ("problem 1: b has 1 dimensions", ValueError, [f(2, 2)] * 2, [f(2, 2), f(2)], None),
            ("problem 0: a is of float64", TypeError, [d(2, 2)], [f(2, 2)], None),
            ("problem 1: a is of float16, that of problem 0 of float32", TypeError, [f(2, 2), f(2, 2).astype("e")], [f(2, 2)] * 2, None),
            ("a is of float32, b of float16", TypeError, [f(2, 2)], [f(2, 2).astype("e")], None),
            ("problem 1: a is .2, 3., b is .2, 3.", ValueError, [f(2, 2), f(2, 3)], [f(2, 2), f(2, 3)], None),
            ("0 matrices in out, 1 products", ValueError, [f(2, 2)], [f(2, 2)], []),
            ("problem 0: out is .2, 3.", ValueError, [f(2, 2)], [f(2, 2)], [f(2, 3)]),
            ("problem 0: out is not an array of float32", TypeError, [f(2, 2)], [f(2, 2)], [d(2, 2)]),
            ("problem 0: out is read-only", ValueError, [f(2, 2)], [f(2, 2)], [frozen]),
            ("problem 1: out overlaps out of problem 0", ValueError, [f(2, 2)] * 2, [f(2, 2)] * 2, [shared[:2], shared[1:]]),
            ("problem 0: out has strides .0, 4.: its elements overlap", ValueError, [f(2, 2)], [f(2, 2)], [strided(f(2), (2, 2), (0, 4))]),
            ("problem 0: out has strides .4, 4.: its elements overlap", ValueError, [f(2, 2)], [f(2, 2)], [strided(f(3), (2, 2), (4, 4))]),
            ("problem 0: out has strides .8, 2.: its elements overlap", ValueError, [f(2, 2)], [f(2, 2)], [strided(f(4), (2, 2), (8, 2))]),
            ("a is one array of 2 dimensions: it must be a list of matrices", ValueError, f(2, 2), f(2, 2), None),
            ("b is one array of 4 dimensions", ValueError, f(2, 2, 2), f(2, 2, 2, 2), None),
            ("out is one array of 2 dimensions", ValueError, [f(2, 2)], [f(2, 2)], f(2, 2)),
        ):
            with self.subTest(words), self.assertRaisesRegex(kind, words):
                self.device.matmul(a, b, out)
        with self.assertRaisesRegex(batchgemm.InvalidError, "compute"):
            self.device.matmul([f(2, 2)], [f(2, 2)], compute="f8")
        with self.assertRaisesRegex(batchgemm.InvalidError, "alpha is 1e.39: it must be a number of float32"):
            self.device.matmul([f(2, 2)], [f(2, 2)], alpha=1e39)
        row = strided(f(2), (1, 2), (0, 4))  # of one row the step to the next does not matter
        self.assertIs(self.device.matmul([f(1, 2)], [f(2, 2)], [row])[0], row)

    def test_kinds(self):
        for kind, builtin in ((batchgemm.InvalidError, ValueError), (batchgemm.OutOfMemoryError, MemoryError),
                              (batchgemm.TimeLimitError, TimeoutError), (batchgemm.ClosedError, batchgemm.Error)):
            self.assertTrue(issubclass(kind, builtin) and issubclass(kind, batchgemm.Error))
        device = batchgemm.open(BACKEND)
        device.close()
        with self.assertRaises(batchgemm.ClosedError) as raised:
            device.matmul([np.ones((1, 1), "f")], [np.ones((1, 1), "f")])
        self.assertEqual(raised.exception.status, "handle")
        large = np.zeros((2048, 2048), np.float32)
        out = [np.full((2048, 2048), 7, np.float32)]
        with self.assertRaises(TimeoutError):
            self.device.matmul([large], [large], out, timeout=0.001)
        self.assertTrue((out[0] == 7).all())

    def test_threads(self):
        failures = []

        def work(seed):
            rng = np.random.default_rng(seed)
            for _ in range(5):
                a, b = [draw(rng, (m, k)) for m, n, k in self.SHAPES], [draw(rng, (k, n)) for m, n, k in self.SHAPES]
                x, w = draw(rng, (9, 5)), draw(rng, (2, 5, 4))
                try:
                    for p, q, got in zip(a, b, batchgemm.matmul(a, b, device=self.device)):
                        check(got, p, q)
                    y = batchgemm.grouped_mm(x, w, [4, 9], device=self.device)
                    check(y[:4], x[:4], w[0])
                    check(y[4:], x[4:], w[1])
                except BaseException as error:
                    failures.append(error)

        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(failures, [])

    def test_default_device(self):
        found = []
        threads = [threading.Thread(target=lambda: found.append(batchgemm.default_device())) for _ in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(len({id(d) for d in found}), 1)
        np.testing.assert_array_equal(batchgemm.matmul([np.eye(2, dtype="f")], [np.eye(2, dtype="f")])[0], np.eye(2))


class TestGrouped(TestCase):
    def expect(self, y, x, w, ends, bias=None, activation=None):
        shapes = {
            None: (lambda v: v), "relu": (lambda v: np.maximum(v, 0)), "silu": (lambda v: v / (1 + np.exp(-v))),
            "gelu": (lambda v: 0.5 * v * (1 + np.tanh(np.sqrt(2 / np.pi) * (v + 0.044715 * v**3)))),
        }
        start = 0
        for g, end in enumerate(ends):
            row = 0 if bias is None else bias[g].astype(np.float64)
            # 1: of what an activation computes, whose terms are at most 1 beside v
            check(y[start:end], x[start:end], w[g], lambda v: shapes[activation](v + row), np.abs(row) + (activation is not None))
            start = end
        self.assertTrue((y[start:] == 0).all())

    def test_layers(self):
        rows, groups, k, n = 21, 4, 13, 6
        for dtype in np.float32, np.float16:
            x, w, bias = (draw(self.rng, s, dtype) for s in ((rows, k), (groups, k, n), (groups, n)))
            turned = np.ascontiguousarray(w.transpose(0, 2, 1)).transpose(0, 2, 1)
            for name, weights, ends, more in (
                ("plain", w, [5, 5, 12, 21], {}),
                ("rows behind", w, [1, 2, 3, 4], {}),
                ("nothing", w, [0, 0, 0, 0], {}),
                ("transposed", turned, [5, 5, 12, 20], {}),
                ("strided", np.repeat(w, 2, axis=2)[:, :, ::2], [5, 5, 12, 20], {}),
                ("bias", w, [5, 5, 12, 20], {"bias": bias}),
                ("unaligned", unaligned(w), np.array([5, 5, 12, 20])[::1], {"bias": unaligned(bias)}),
                ("relu", turned, [5, 6, 12, 21], {"activation": "relu"}),
                ("bias and silu", w, [5, 6, 12, 21], {"bias": bias, "activation": "silu"}),
                ("bias and gelu", w, [0, 6, 12, 21], {"bias": bias, "activation": "gelu"}),
            ):
                with self.subTest(name, dtype=dtype.__name__):
                    for run in _arrays._run_on_host, _arrays._run_in_buffers:
                        if run is _arrays._run_on_host and BACKEND != "cpu":
                            continue
                        with mock.patch.object(_arrays, "_run_on_host", run):
                            y = self.device.grouped_mm(x, weights, ends, **more)
                        self.assertEqual((y.dtype, y.shape), (dtype, (rows, n)))
                        self.expect(y, x, weights, ends, **more)

    def test_sizes(self):
        for rows, groups, k, n, ends in ((1, 1, 1, 1, [1]), (0, 2, 3, 4, [0, 0]), (3, 2, 0, 4, [1, 3]), (3, 0, 2, 4, []),
                                         (3, 2, 4, 0, [1, 3]), (33, 3, 70, 5, np.array([0, 20, 33], np.int64))):
            with self.subTest(rows=rows, groups=groups, k=k, n=n):
                x, w = draw(self.rng, (rows, k)), draw(self.rng, (groups, k, n))
                self.expect(self.device.grouped_mm(x, w, ends), x, w, ends)

    @unittest.skipUnless(BACKEND == "cpu", "others have memory of their own")
    def test_on_host(self):
        """On the CPU nothing is copied that lies well, and nothing behind results is touched."""
        for dtype in np.float32, np.float16:
            x, w = draw(self.rng, (5, 33), dtype), draw(self.rng, (7, 33, 301), dtype)
            ends = [1, 1, 2, 3, 4, 5, 5]
            with mock.patch.object(_arrays, "_empty", side_effect=_arrays._empty) as made:
                self.assertLess(most(lambda: self.device.grouped_mm(x, w, ends)), 5 * 301 * 4 + 30000)
                self.assertEqual(made.call_count, 1)
                wrong = unaligned(x)
                self.expect(self.device.grouped_mm(wrong, w, ends), wrong, w, ends)
                self.assertEqual(made.call_count, 3)
            memory = np.full(5 * 301 + 99, 7, dtype)
            with mock.patch.object(_arrays, "_empty", lambda shape, dtype: memory[:5 * 301].reshape(5, 301)):
                self.expect(self.device.grouped_mm(x, w, ends), x, w, ends)
            self.assertTrue((memory[5 * 301:] == 7).all())

    @unittest.skipUnless(BACKEND == "cpu", "others have memory of their own")
    def test_cut_off(self):
        """What the CPU works on stays while it does, and no longer."""
        x, w = np.ones((512, 1024), np.float32), np.ones((1, 1024, 4096), np.float32)
        with batchgemm.open("cpu") as device:
            device.grouped_mm(x, w, [512])
            gone = weakref.ref(w)
            with self.assertRaisesRegex(batchgemm.TimeLimitError, "^the time limit of 1e-05 s was reached$"):
                device.grouped_mm(x, w, [512], timeout=1e-5)
            del w
            gc.collect()
            self.assertIsNotNone(gone())
            np.testing.assert_array_equal(device.grouped_mm(x[:2, :2], x[None, :2, :2], [2]), np.full((2, 2), 2))
            self.assertIsNone(gone())
        end = """
import numpy as np, batchgemm
x, w = np.ones((4096, 2048), np.float32), np.ones((1, 2048, 4096), np.float32)
try:
    batchgemm.open("cpu").grouped_mm(x, w, [4096], timeout=1e-3)
except TimeoutError as error:
    print(error)
"""
        ended = subprocess.run([sys.executable, "-c", end], capture_output=True, text=True, timeout=300)
        self.assertEqual((ended.stdout, ended.returncode), ("the time limit of 0.001 s was reached\n", 0), ended.stderr)

    def test_programs(self):
        """Each has its types, sizes, epilogue and arithmetic."""
        with batchgemm.open(BACKEND) as device:
            x, w, bias = draw(self.rng, (3, 4)), draw(self.rng, (2, 4, 5)), draw(self.rng, (2, 5))
            turned = np.ascontiguousarray(w.transpose(0, 2, 1)).transpose(0, 2, 1)
            made = set()
            for args in (x, w), (x, turned), (x[:2], w), (x[:1], w[:1]), (x, w[:, :, :3]), (x[:, :3], w[:, :3]), (x, w, bias), (x, w, None, "relu"):
                rest = args[2:]
                for dtype in np.float32, np.float16:
                    data = [None if v is None or isinstance(v, str) else v.astype(dtype, "K") for v in args]
                    ends = [len(args[0])] * len(args[1])
                    for compute in (None, "f32") if dtype == np.float32 else (None,):
                        y = device.grouped_mm(data[0], data[1], ends, *data[2:3], *rest[1:], compute=compute)
                        self.expect(y, data[0], data[1], ends, *data[2:3], *rest[1:])
                        made.add(len(device._layers))
            programs = [p for key, p in device._layers.items() if key[0] == "program"]
            self.assertEqual(len(programs), _arrays.KEPT)
            self.assertEqual(len({p.handle for p in programs}), _arrays.KEPT)

    def test_kept(self):
        """Programs are few, and are made once for a shape."""
        with batchgemm.open(BACKEND) as device:
            w = draw(self.rng, (2, 3, 4))
            for rows in 5, 6, 8, 7:
                device.grouped_mm(draw(self.rng, (rows, 3)), w, [2, 5])
            programs = [p for key, p in device._layers.items() if key[0] == "program"]
            self.assertEqual(len(programs), 1)
            if BACKEND == "cpu":
                for k in range(1, 2 * _arrays.KEPT):
                    device.grouped_mm(draw(self.rng, (4, k)), draw(self.rng, (2, k, 4)), [2, 4])
                self.assertEqual(sum(key[0] == "program" for key in device._layers), _arrays.KEPT)
                with self.assertRaises(batchgemm.ClosedError):
                    programs[0].close()

    def test_mistakes(self):
        x, w = np.zeros((4, 3), np.float32), np.zeros((2, 3, 5), np.float32)
        for words, kind, args in (
            ("problem 1: ends at row 1, begins at 2", ValueError, (x, w, [2, 1])),
            ("problem 1: ends at row 5, begins at 2, of 4 rows", ValueError, (x, w, [2, 5])),
            ("problem 0: ends at row -1", ValueError, (x, w, [-1, 4])),
            ("ends are .3,., for 2 groups", ValueError, (x, w, [1, 2, 3])),
            ("ends are of float64", TypeError, (x, w, [1.0, 2.0])),
            ("w is of float16, x of float32", TypeError, (x, w.astype("e"), [2, 4])),
            ("w has 2 dimensions, not 3", ValueError, (x, w[0], [4])),
            ("the columns of x", ValueError, (x, w[:, :2], [2, 4])),
            ("bias is .2, 4., not .2, 5.", ValueError, (x, w, [2, 4], w[:, 0, :4])),
            ("activation is 'tanh'", ValueError, (x, w, [2, 4], None, "tanh")),
            ("x is not a NumPy array of float32 or float16", TypeError, (x.tolist(), w, [2, 4])),
        ):
            with self.subTest(words), self.assertRaisesRegex(kind, words):
                self.device.grouped_mm(*args)

    def test_dropped(self):
        """What a device keeps does not keep it, and nothing else is said to be open."""
        device = batchgemm.open("cpu")
        device.grouped_mm(np.ones((2, 2), "f"), np.ones((1, 2, 2), "f"), [2])
        device.matmul([np.ones((2, 2), "f")], [np.ones((2, 2), "f")])
        gc.disable()
        self.addCleanup(gc.enable)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            del device
        self.assertEqual([(w.category, "Device" in str(w.message)) for w in caught], [(ResourceWarning, True)])


class TestHost(unittest.TestCase):
    def test_addresses(self):
        """Memory that is read-only is used where it is, and kept."""
        with tempfile.TemporaryFile() as file:
            file.write(bytes(range(16)))
            file.flush()
            with mmap.mmap(file.fileno(), 16, access=mmap.ACCESS_READ) as mapped:
                view = memoryview(mapped).cast("f")
                address, count, keep = _core._host("x", view)
                self.assertEqual((address, count), (np.frombuffer(mapped, "f").ctypes.data, 4))
                del view
                with self.assertRaises(BufferError):
                    mapped.close()
                del keep
        x = np.arange(4, dtype="f")
        x.flags.writeable = False
        self.assertEqual(_core._host("x", x)[:2], (x.ctypes.data, 4))
        with self.assertRaises(TypeError):
            _core._host("x", x, writable=True)


# Says when it waits for products, and whether these are under way when it is interrupted. Other devices than the CPU
# cannot give up what they have begun, so that they have less to do.
INTERRUPTED = """
import signal, sys, numpy as np, batchgemm
from batchgemm import _core

signal.signal(signal.SIGINT, signal.default_int_handler)  # jobs in the background of a shell ignore it

def wait(*args, wait=_core._wait, **more):
    print("waits", flush=True)
    wait(*args, **more)

def leave(self, *args, leave=_core.Read.__exit__):
    print("done" if self.done() else "under way", flush=True)
    leave(self, *args)

device = batchgemm.open(sys.argv[1])
b = np.eye(3, dtype=np.float32)
m, k, count = (2048, 16384, 8) if sys.argv[1] == "cpu" else (1024, 4096, 1)
a, out = np.zeros((m, k), np.float32), [np.full((m, m), 7, np.float32) for _ in range(count)]
before = _core._wait, _core.Read.__exit__
_core._wait, _core.Read.__exit__ = wait, leave
try:
    device.matmul([a] * count, [a.T] * count, out)
except KeyboardInterrupt:
    print("interrupted", flush=True)
_core._wait, _core.Read.__exit__ = before
assert all((x == 7).all() for x in out)
assert (device.matmul([b], [b])[0] == b).all()
device.close()
"""


class TestInterrupt(unittest.TestCase):
    @unittest.skipIf(BACKEND in ("cuda", "hip"), "is done before anybody could interrupt it")
    def test_interrupt(self):
        """Ctrl-C while products are under way ends the call, and the device goes on."""
        with subprocess.Popen([sys.executable, "-W", "error", "-c", INTERRUPTED, BACKEND], stdout=subprocess.PIPE, text=True) as child:
            try:
                self.assertEqual(child.stdout.readline(), "waits\n")
                time.sleep(0.1)  # the calling thread and those of the library are the only ones, and block signals
                child.send_signal(signal.SIGINT)
                out, _ = child.communicate(timeout=100)
            finally:
                child.kill()
        self.assertEqual((out, child.returncode), ("under way\ninterrupted\n", 0))


if __name__ == "__main__":
    unittest.main()
