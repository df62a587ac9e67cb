"""Tests of grouped_mm on NumPy arrays."""

import gc
import subprocess
import sys
import unittest
import warnings
import weakref
from unittest import mock

import batchgemm

try:
    import numpy as np
    from batchgemm import _arrays
except ImportError:
    raise unittest.SkipTest("NumPy is not installed")

from arrays import BACKEND, TestCase, check, draw, most, unaligned


class TestGrouped(TestCase):
    def expect(self, y, x, w, ends, bias=None, activation=None):
        shapes = {
            None: (lambda v: v), "relu": (lambda v: np.maximum(v, 0)),
            "silu": (lambda v: v / (1 + np.exp(-v))),
            "gelu": (lambda v: 0.5 * v * (1 + np.tanh(np.sqrt(2 / np.pi) * (v + 0.044715 * v**3)))),
        }
        start = 0
        for g, end in enumerate(ends):
            row = 0 if bias is None else bias[g].astype(np.float64)
            # 1: of what an activation computes, whose terms are at most 1 beside v
            check(y[start:end], x[start:end], w[g], lambda v: shapes[activation](v + row),
                  np.abs(row) + (activation is not None))
            start = end
        self.assertTrue((y[start:] == 0).all())

    def test_layers(self):
        rows, groups, k, n = 21, 4, 13, 6
        for dtype in np.float32, np.float16:
            x, w, bias = (draw(self.rng, s, dtype) for s in ((rows, k), (groups, k, n), (groups, n)))
            turned = np.ascontiguousarray(w.transpose(0, 2, 1)).transpose(0, 2, 1)
            for name, weights, ends, more in (
                ("plain", w, [5, 5, 12, 21], {}),
                ("rows after", w, [1, 2, 3, 4], {}),
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
        for rows, groups, k, n, ends in ((1, 1, 1, 1, [1]), (0, 2, 3, 4, [0, 0]), (3, 2, 0, 4, [1, 3]),
                                         (3, 0, 2, 4, []),
                                         (3, 2, 4, 0, [1, 3]),
                                         (33, 3, 70, 5, np.array([0, 20, 33], np.int64))):
            with self.subTest(rows=rows, groups=groups, k=k, n=n):
                x, w = draw(self.rng, (rows, k)), draw(self.rng, (groups, k, n))
                self.expect(self.device.grouped_mm(x, w, ends), x, w, ends)
                with mock.patch.object(_arrays, "_run_on_host", _arrays._run_in_buffers):
                    self.expect(self.device.grouped_mm(x, w, ends), x, w, ends)

    def test_trimmed(self):
        """Buffers that are too large are not kept."""
        x, w = draw(self.rng, (4, 3)), draw(self.rng, (2, 3, 5))
        with batchgemm.open(BACKEND) as device, mock.patch.object(_arrays, "_run_on_host",
                                                                  _arrays._run_in_buffers):
            with mock.patch.object(_arrays, "MOST", 16), mock.patch.object(
                    _arrays, "_buffer", side_effect=_arrays._buffer) as made:
                device.grouped_mm(x, w, [2, 4])
            kept = {key[0]: v for key, v in device._layers.items() if isinstance(v, batchgemm.Buffer)}
            self.assertEqual({name: buffer.count for name, buffer in kept.items()}, {"a": 16, "sizes": 2})
            self.assertEqual([call.args[1:3] for call in made.call_args_list],
                             [("a", 12), ("b", 30), ("sizes", 2), ("c", 20)])
            self.assertEqual(len(device._layers), 3)

    @unittest.skipUnless(BACKEND == "cpu", "others have memory of their own")
    def test_on_host(self):
        """On the CPU nothing is copied that lies well, and nothing after results is touched."""
        for dtype in np.float32, np.float16:
            x, w = draw(self.rng, (5, 33), dtype), draw(self.rng, (7, 33, 301), dtype)
            ends = [1, 1, 2, 3, 4, 5, 5]
            wide = np.repeat(w, 2, axis=1)
            words = np.zeros(w.size + 1, dtype)[1:].reshape(w.shape)  # aligned to elements alone
            words[...] = w
            words.flags.writeable = False
            for name, weights in (
                ("dense", w), ("words", words), ("rows apart", wide[:, ::2]),
                ("groups apart", np.repeat(w, 2, axis=0)[::2]),
                ("one for all", np.broadcast_to(w[0], w.shape)),
                ("transposed", np.ascontiguousarray(w.transpose(0, 2, 1)).transpose(0, 2, 1)),
            ):
                with self.subTest(name, dtype=dtype.__name__):
                    run = lambda: self.device.grouped_mm(x, weights, ends)
                    self.assertLess(most(run), 5 * 301 * 4 + 30000)
                    self.expect(run(), x, weights, ends)
            wrong = unaligned(x)
            self.expect(self.device.grouped_mm(wrong, w, ends), wrong, w, ends)

    @unittest.skipUnless(BACKEND == "cpu", "others have memory of their own")
    def test_cut_off(self):
        """Once a call is cut off, the CPU uses none of its memory."""
        x, w = np.ones((512, 1024), np.float32), np.ones((1, 1024, 4096), np.float32)
        with batchgemm.open("cpu") as device:
            device.grouped_mm(x, w, [512])
            gone = weakref.ref(w)
            with self.assertRaisesRegex(batchgemm.TimeLimitError, "^the time limit of 1e-05 s was reached$"):
                device.grouped_mm(x, w, [512], timeout=1e-5)
            del w
            gc.collect()
            self.assertIsNone(gone())
            np.testing.assert_array_equal(device.grouped_mm(x[:2, :2], x[None, :2, :2], [2]),
                                          np.full((2, 2), 2))
        end = """
import numpy as np, batchgemm
x, w = np.ones((4096, 2048), np.float32), np.ones((1, 2048, 4096), np.float32)
device = batchgemm.open("cpu")  # which Python takes apart without closing it
try:
    device.grouped_mm(x, w, [4096], timeout=1e-3)
except TimeoutError as error:
    print(error)
"""
        ended = subprocess.run([sys.executable, "-c", end], capture_output=True, text=True, timeout=300)
        self.assertEqual((ended.stdout, ended.returncode), ("the time limit of 0.001 s was reached\n", 0),
                         ended.stderr)

    @unittest.skipUnless(BACKEND == "cpu", "others compile kernels for each")
    def test_programs(self):
        """Each has its types, sizes, epilogue and arithmetic."""
        buffers = mock.patch.object(_arrays, "_run_on_host", _arrays._run_in_buffers)
        with batchgemm.open(BACKEND) as device, mock.patch.object(_arrays, "KEPT", 24), buffers:
            x, w, bias = draw(self.rng, (3, 4)), draw(self.rng, (2, 4, 5)), draw(self.rng, (2, 5))
            turned = np.ascontiguousarray(w.transpose(0, 2, 1)).transpose(0, 2, 1)
            count = 0
            for args in ((x, w), (x, turned), (x[:2], w), (x, w[:1]), (x, w[:, :, :3]), (x[:, :3], w[:, :3]),
                         (x, w, bias), (x, w, None, "relu")):
                for dtype, compute in (np.float32, None), (np.float32, "f32"), (np.float16, None):
                    data = [v.astype(dtype, "K") if isinstance(v, np.ndarray) else v for v in args]
                    ends = [len(args[0])] * len(args[1])
                    for _ in range(2):
                        y = device.grouped_mm(data[0], data[1], ends, *data[2:], compute=compute)
                        self.expect(y, data[0], data[1], ends, *data[2:])
                    count += 1
                    self.assertEqual(sum(key[0] == "program" for key in device._layers), count)

    def test_kept(self):
        """Programs are few, and are made once for a shape."""
        buffers = mock.patch.object(_arrays, "_run_on_host", _arrays._run_in_buffers)
        with batchgemm.open(BACKEND) as device, buffers:
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
                second, third, *_ = [key for key in device._layers if key[0] == "program"]
                # again
                device.grouped_mm(draw(self.rng, (4, second[5])), draw(self.rng, (2, second[5], 4)), [2, 4])
                device.grouped_mm(draw(self.rng, (4, 99)), draw(self.rng, (2, 99, 4)), [2, 4])
                self.assertIn(second, device._layers)
                self.assertNotIn(third, device._layers)

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
            ("x is not a NumPy array of float64, float32 or float16", TypeError, (x.tolist(), w, [2, 4])),
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
            self.assertEqual([(w.category, "Device" in str(w.message)) for w in caught],
                             [(ResourceWarning, True)])
            device = batchgemm.open("cpu")
            for k in range(1, 9):
                device.grouped_mm(np.ones((2, k), "f"), np.ones((1, k, 2), "f"), [2])
            device.cycle = device
            del device, caught[:]
            gc.collect()
            self.assertEqual([(w.category, "Device" in str(w.message)) for w in caught],
                             [(ResourceWarning, True)])


if __name__ == "__main__":
    unittest.main()
