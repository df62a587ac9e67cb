"""Tests of matmul on NumPy arrays, and of the memory of arrays."""

import mmap
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import batchgemm
from batchgemm import _memory

try:
    import numpy as np
    from batchgemm import _arrays
except ImportError:
    raise unittest.SkipTest("NumPy is not installed")

from arrays import BACKEND, TestCase, check, draw, most, unaligned


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

        layouts = {"rows": lambda x: x, "columns": np.asfortranarray, "read-only": frozen,
                   "padded rows": padded,
                   "strided": strided, "backwards": lambda x: x[::-1, ::-1].copy()[::-1, ::-1],
                   "unaligned": unaligned}
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
            a, b = ([draw(self.rng, s, dtype) for s in shapes]
                    for shapes in zip(*(((m, k), (k, n)) for m, n, k in self.SHAPES)))
            bias = [draw(self.rng, n, dtype) for _, n, _ in self.SHAPES]
            for activation, act in done.items():
                with self.subTest(activation, dtype=dtype.__name__):
                    for x, y, z, got in zip(a, b, bias,
                                            self.device.matmul(a, b, bias=bias, activation=activation)):
                        check(got, x, y, lambda v: act(v + z), more=2)
                    for x, y, got in zip(a, b, self.device.matmul(a, b, activation=activation)):
                        check(got, x, y, act, more=2)
        f = lambda *s: np.ones(s, np.float32)
        for words, kind, bias in (("2 arrays in bias, 1 products", ValueError, [f(2)] * 2),
                                  ("problem 0: bias is .3,., not .2,.", ValueError, [f(3)]),
                                  ("problem 0: bias is not an array of float32", TypeError, [[1, 2]])):
            with self.subTest(words), self.assertRaisesRegex(kind, words):
                self.device.matmul([f(2, 2)], [f(2, 2)], bias=bias)
        with self.assertRaisesRegex(ValueError, "activation is 'tanh'"):
            self.device.matmul([f(2, 2)], [f(2, 2)], activation="tanh")

    def test_empty(self):
        shapes = [(0, 3, 4), (2, 0, 4), (2, 3, 0), (0, 0, 0), (2, 3, 4), (1, 1, 0)]
        a, b = [draw(self.rng, (m, k)) for m, n, k in shapes], [draw(self.rng, (k, n)) for m, n, k in shapes]
        for dtype in np.float32, np.float16:
            for x, y, got in zip(a, b, self.device.matmul([x.astype(dtype) for x in a],
                                                          [y.astype(dtype) for y in b])):
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
            a = [draw(self.rng, (m, 3), dtype) for m in (2, 0, 4, 1)]
            b = [draw(self.rng, (3, n), dtype) for n in (4, 5, 4, 5)]
            out = [whole[:2, 1:5], whole[:0, :5], whole[2:6, :4], whole[8:, 1:]]
            placed = _arrays._place_results(out, _arrays._shapes(out), whole.dtype, ())
            results, offsets, lds, (address, count, _) = placed
            self.assertIs(results, out)
            self.assertEqual((list(offsets), list(lds), count, address),
                             ([0, 0, 11, 48], [6, 5, 6, 5], 53, whole[0, 1:].ctypes.data))
            self.device.matmul(a, b, out)
            for x, y, got in zip(a, b, out):
                check(got, x, y)
                got[...] = 7
            self.assertTrue((whole == 7).all())
        shapes, f = np.array([(2, 3), (3, 3)]), np.dtype(np.float32)
        for name, out, reads in (
            ("two arrays", [np.zeros(s, f) for s in shapes], ()),
            ("columns", [x.T for x in np.split(np.zeros((3, 5), f), [2], axis=1)], ()),
            ("every other row between rows", [(x := np.zeros((3, 6), f))[::2, 3:], x[:, :3]], ()),
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
        strided = lambda down, right=4, shape=(2, 3): np.lib.stride_tricks.as_strided(np.zeros(6, np.float32),
                                                                                      shape, (down, right))
        for down, right, want in ((12, 4, (False, 3)), (8, 4, None), (16, 4, (False, 4)),
                                  (4 * (2**31 - 1), 4, (False, 2**31 - 1)),
                                  (4 * 2**31, 4, None), (14, 4, None), (4, 8, (True, 2)), (4, 4, None),
                                  (-12, 4, None), (0, 4, None)):
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
                    trans, offsets, lds, (address, count, _) = _arrays._as_they_lie(parts)
                    self.assertEqual(address, x.ctypes.data)
                    self.assertEqual((trans.tolist(), list(offsets), list(lds), count),
                                     ([False, True], [0, 40], [8, 8], 96))
                    b = [draw(self.rng, (8, 3)), draw(self.rng, (7, 2))]
                    for a, y, got in zip(parts, b, self.device.matmul(parts, b)):
                        check(got, a, y)
            del mapped, parts, a, x
        same = [whole] * 3
        self.assertEqual(_arrays._as_they_lie(same)[3][:2], (whole.ctypes.data, 96))
        # half of what they span
        self.assertEqual(_arrays._as_they_lie([whole[:2], whole[6:8]])[3][:2], (whole.ctypes.data, 64))
        for name, parts in ("two arrays", [whole, whole.copy()]), ("little of one", [whole[:2], whole[7:9]]):
            with self.subTest(name):
                self.assertIsNone(_arrays._as_they_lie(parts))
                trans, offsets, lds, (address, count, _) = _arrays._as_they_lie(parts, True)
                at = min(x.ctypes.data for x in parts)
                self.assertEqual(address, at)
                self.assertEqual([at + 4 * o for o in offsets], [x.ctypes.data for x in parts])

    @unittest.skipUnless(BACKEND == "cpu", "others have memory of their own")
    def test_nothing_copied(self):
        """On the CPU large matrices are used where they are, and so are stacks."""
        large = [draw(self.rng, (m, 300)) for m in (200, 1, 170)] + [draw(self.rng, (300, 220)).T]
        b = [draw(self.rng, (300, 4)) for _ in large]
        stack = draw(self.rng, (5, 260, 40))[:, ::2, 3:]
        self.assertLess(most(lambda: self.device.matmul(large, b)), 70000)
        self.assertLess(most(lambda: self.device.matmul(stack, stack.transpose(0, 2, 1)[:, :, :2])), 70000)
        for x, y, got in zip(large, b, self.device.matmul(large, b)):
            check(got, x, y)
        turned = stack.transpose(0, 2, 1)
        for x, y, got in zip(stack, turned, self.device.matmul(stack, turned)):
            check(got, x, y)
        out = [np.full((len(x), len(x)), 7, np.float32) for x in large]
        placed = _arrays._place_results(out, _arrays._shapes(out), out[0].dtype, (), True)
        self.assertIs(placed[0], out)
        self.device.matmul(large, [x.T for x in large], out)
        for x, got in zip(large, out):
            check(got, x, x.T)

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
            ("problem 0: a is of int32", TypeError, [d(2, 2).astype("i")], [f(2, 2)], None),
            ("problem 1: a is of float16, that of problem 0 of float32", TypeError,
             [f(2, 2), f(2, 2).astype("e")], [f(2, 2)] * 2, None),
            ("a is of float32, b of float16", TypeError, [f(2, 2)], [f(2, 2).astype("e")], None),
            ("problem 1: a is .2, 3., b is .2, 3.", ValueError, [f(2, 2), f(2, 3)], [f(2, 2), f(2, 3)], None),
            ("0 matrices in out, 1 products", ValueError, [f(2, 2)], [f(2, 2)], []),
            ("problem 0: out is .2, 3.", ValueError, [f(2, 2)], [f(2, 2)], [f(2, 3)]),
            ("problem 0: out is not an array of float32", TypeError, [f(2, 2)], [f(2, 2)], [d(2, 2)]),
            ("problem 0: out is read-only", ValueError, [f(2, 2)], [f(2, 2)], [frozen]),
            ("problem 1: out overlaps out of problem 0", ValueError, [f(2, 2)] * 2, [f(2, 2)] * 2,
             [shared[:2], shared[1:]]),
            ("problem 0: out has strides .0, 4.: its elements overlap", ValueError, [f(2, 2)], [f(2, 2)],
             [strided(f(2), (2, 2), (0, 4))]),
            ("problem 0: out has strides .4, 4.: its elements overlap", ValueError, [f(2, 2)], [f(2, 2)],
             [strided(f(3), (2, 2), (4, 4))]),
            ("problem 0: out has strides .8, 2.: its elements overlap", ValueError, [f(2, 2)], [f(2, 2)],
             [strided(f(4), (2, 2), (8, 2))]),
            ("a is one array of 2 dimensions: it must be a list of matrices", ValueError, f(2, 2),
             f(2, 2), None),
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
                              (batchgemm.TimeLimitError, TimeoutError),
                              (batchgemm.ClosedError, batchgemm.Error)):
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
        left = (out[0] == 7) | (out[0] == 0) & (BACKEND == "cpu")  # which works on out itself
        self.assertTrue(left.all())

    def test_threads(self):
        failures = []

        def work(seed):
            rng = np.random.default_rng(seed)
            for _ in range(5):
                a = [draw(rng, (m, k)) for m, n, k in self.SHAPES]
                b = [draw(rng, (k, n)) for m, n, k in self.SHAPES]
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
        threads = [threading.Thread(target=lambda: found.append(batchgemm.default_device()))
                   for _ in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(len({id(d) for d in found}), 1)
        np.testing.assert_array_equal(batchgemm.matmul([np.eye(2, dtype="f")], [np.eye(2, dtype="f")])[0],
                                      np.eye(2))


class TestHost(unittest.TestCase):
    def test_addresses(self):
        """Memory that is read-only is used where it is, and kept."""
        with tempfile.TemporaryFile() as file:
            file.write(bytes(range(16)))
            file.flush()
            with mmap.mmap(file.fileno(), 16, access=mmap.ACCESS_READ) as mapped:
                view = memoryview(mapped).cast("f")
                address, count, keep = _memory.host("x", view)
                self.assertEqual((address, count), (np.frombuffer(mapped, "f").ctypes.data, 4))
                del view
                with self.assertRaises(BufferError):
                    mapped.close()
                del keep
        x = np.arange(4, dtype="f")
        x.flags.writeable = False
        self.assertEqual(_memory.host("x", x)[:2], (x.ctypes.data, 4))
        with self.assertRaises(TypeError):
            _memory.host("x", x, writable=True)


# Says when it waits for products, and whether these are under way when it is interrupted. Other devices than
# the CPU cannot give up what they have begun, so that they have less to do.
INTERRUPTED = """
import signal, sys, numpy as np, batchgemm
from batchgemm import _core

signal.signal(signal.SIGINT, signal.default_int_handler)  # jobs in the background of a shell ignore it

def wait(*args, wait=_core.wait, **more):
    print("waits", flush=True)
    wait(*args, **more)

def leave(self, *args, leave=_core.Read.__exit__):
    print("done" if self.done() else "under way", flush=True)
    leave(self, *args)

device = batchgemm.open(sys.argv[1])
b = np.eye(3, dtype=np.float32)
m, k, count = (2048, 16384, 8) if sys.argv[1] == "cpu" else (1024, 4096, 1)
a, out = np.zeros((m, k), np.float32), [np.full((m, m), 7, np.float32) for _ in range(count)]
before = _core.wait, _core.Read.__exit__
_core.wait, _core.Read.__exit__ = wait, leave
try:
    device.matmul([a] * count, [a.T] * count, out)
except KeyboardInterrupt:
    print("interrupted", flush=True)
_core.wait, _core.Read.__exit__ = before
assert all(((x == 7) | (x == 0) & (sys.argv[1] == "cpu")).all() for x in out)
assert (device.matmul([b], [b])[0] == b).all()
device.close()
"""


class TestInterrupt(unittest.TestCase):
    @unittest.skipIf(BACKEND in ("cuda", "hip"), "is done before anybody could interrupt it")
    def test_interrupt(self):
        """Ctrl-C while products are under way ends the call, and the device goes on."""
        with subprocess.Popen([sys.executable, "-W", "error", "-c", INTERRUPTED, BACKEND],
                              stdout=subprocess.PIPE, text=True) as child:
            try:
                self.assertEqual(child.stdout.readline(), "waits\n")
                # the calling thread and those of the library are the only ones, and block signals
                time.sleep(0.1)
                child.send_signal(signal.SIGINT)
                out, _ = child.communicate(timeout=100)
            finally:
                child.kill()
        self.assertEqual((out, child.returncode), ("under way\ninterrupted\n", 0))


if __name__ == "__main__":
    unittest.main()
