"""Tests of the module _eager on stand-ins for tensors and for the library: calls it knows, and their runs.
test_torch_eager.py has those on PyTorch's."""

import ctypes
import gc
import math
import sys
import threading
import time
import unittest
from unittest import mock

from stand_ins import HANDLE, INVALID, OFFS, Case, Error, Tensor


class Table(Case):
    def test_finds_what_was_kept(self):
        self.assertIsNone(self.eager.run(*self.args))
        self.keep(self.args)
        y = self.eager.run(*self.args)
        self.assertEqual((y.shape, y.dtype), ((6, 3), "f32"))
        self.assertEqual(self.runs, [(5, 0, [0x1000, 0x2000, 0x9000, OFFS, 0, 0x4000, 0])])
        self.assertFalse(hasattr(y, "filled"))
        self.keep(self.args, program=6, value=0)  # takes its place
        self.assertEqual(self.eager.run(*self.args).filled, 0)
        self.assertEqual(self.runs[-1][0], 6)
        without = self.replaced(offs=None, bias=None)
        self.keep(without, program=8)
        self.eager.run(*without)
        self.assertEqual(self.runs[-1], (8, 0, [0x1000, 0x2000, 0x9000, 0, 0, 0, 0]))
        self.eager.clear()
        self.assertIsNone(self.eager.run(*self.args))

    def test_knows_what_differs(self):
        """Whatever a program depends on makes another kind of call, one at a time."""
        kinds = {
            "as it is": {}, "x: rows": {"x": Tensor(7, 4, at=0x1008)},
            "x: columns": {"x": Tensor(6, 5, at=0x1008)},
            "x: stride": {"x": Tensor(6, 4, stride=(8, 1), at=0x1008)},
            "x: last stride": {"x": Tensor(6, 4, stride=(4, 2), at=0x1008)},
            "x: type": {"x": Tensor(6, 4, dtype="bf16", at=0x1008)},
            "x: address": {"x": Tensor(6, 4, at=0x1004)},
            "x: dimensions": {"x": Tensor(6, 4, 1, stride=(4, 1, 0), at=0x1008)},
            "w: groups": {"w": Tensor(3, 4, 3, at=0x2004)},
            "w: first stride": {"w": Tensor(2, 4, 3, stride=(0, 3, 1), at=0x2004)},
            "w: type": {"w": Tensor(2, 4, 3, dtype="f16", at=0x2004)},
            "w: address": {"w": Tensor(2, 4, 3, at=0x2002)},
            "offs": {"offs": None}, "offs: type": {"offs": Tensor(2, dtype="f32", at=OFFS)},
            "offs: stride": {"offs": Tensor(2, stride=(2,), dtype="i32", at=OFFS)},
            "offs: address": {"offs": Tensor(2, dtype="i32", at=OFFS + 4)},
            "bias": {"bias": None}, "bias: dimensions": {"bias": Tensor(3, at=0x4004)},
            "bias: stride": {"bias": Tensor(2, 3, stride=(4, 1), at=0x4004)},
            "no activation": {"activation": ""}, "relu": {"activation": "relu"},
            "gelu": {"activation": "gelu"},
            "out": {"out": "f32"}, "other out": {"out": "bf16"}, "zero": {"fill": 0.0},
            "not a number": {"fill": math.nan},
            "GPU": {name: Tensor(*t.shape, dtype=t.dtype, at=t.at, device=0) for name,
                    t in zip(("x", "w", "offs", "bias"), self.args)},
            "other GPU": {name: Tensor(*t.shape, dtype=t.dtype, at=t.at, device=1) for name,
                          t in zip(("x", "w", "offs", "bias"), self.args)},
        }
        for name, by in kinds.items():
            self.assertIsNone(self.eager.run(*self.replaced(**by)), name)
            self.keep(self.replaced(**by), program=len(self.runs) + 1)
            self.eager.run(*self.replaced(**by))
        for i, (name, by) in enumerate(kinds.items(), 1):
            self.eager.run(*self.replaced(**by))
            self.assertEqual(self.runs[-1][0], i, name)
        # elsewhere, and as far from a multiple of 16
        self.eager.run(*self.replaced(x=Tensor(6, 4, at=0x5008)))
        self.assertEqual((self.runs[-1][0], self.runs[-1][2][0]), (1, 0x5000))

    def test_extents(self):
        """Each run has how much there is to cut: rows, depth where w has two dimensions, or nothing."""
        for by, extent in (
            ({}, 6), ({"x": Tensor(9, 4)}, 9), ({"x": Tensor(5, 7), "w": Tensor(7, 3)}, 7),
                ({"w": Tensor(2, 1, 8, 8, dtype="i32")}, 6),
            ({"offs": None}, 0), ({"x": Tensor(2, 6, 4), "offs": None}, 0),
        ):
            args = self.replaced(**by, **{"offs": Tensor(2, dtype="i32", at=OFFS, device=0)}
                                 if "offs" not in by else {})
            self.keep(args)
            self.assertIsNotNone(self.eager.run(*args))
            self.assertEqual(self.extents[-1], extent, by)

    def test_ends_on_host(self):
        """Ends that go down, or beyond what there is, are left to torch.py; those of a GPU are not looked
        at."""
        def call(*values, device=-1):
            numbers = (ctypes.c_int32 * len(values))(*values)
            args = self.replaced(offs=Tensor(len(values), dtype="i32", at=ctypes.addressof(numbers),
                                             device=device))
            self.keep(args)
            before = len(self.runs)
            y = self.eager.run(*args)
            self.assertEqual(len(self.runs) - before, y is not None)
            return y is not None

        for right in (0, 6), (3, 3), (0, 0), (6, 6), (2,), (6,), (), (0, 1, 2, 3, 4, 5, 6):
            self.assertTrue(call(*right), right)
        for wrong in ((0, 7), (3, 2), (-1, 3), (7, 6), (7,), (-1,), (0, 1, 2, 1, 4, 5, 6), (2**31 - 1, 0),
                      (-(2**31), 6), (3, -(2**31))):
            self.assertFalse(call(*wrong), wrong)
            self.assertTrue(call(*wrong, device=0), wrong)

    def test_streams(self):
        args = [Tensor(*t.shape, dtype=t.dtype, at=t.at, device=2) for t in self.args[:4]] + self.args[4:]
        self.keep(args)
        self.eager.run(*args)
        self.assertEqual(self.runs[-1][:2], (5, 9))
        self.stream = 2**63
        self.assertIsNone(self.eager.run(*args))
        self.keep(args, program=6)
        self.eager.run(*args)
        self.assertEqual(self.runs[-1][:2], (6, 2**63 + 2))
        self.capturing = True
        self.assertIsNone(self.eager.run(*args), "a graph is captured")

    def test_turned(self):
        """A view that is turned is what the tensor is that is turned within."""
        for turned, by in ((1, {"x": self.x.turned()}), (2, {"w": self.w.turned()}),
                           (3, {"x": self.x.turned(), "w": self.w.turned()})):
            self.eager.clear()
            self.assertIsNone(self.eager.product(*self.args, turned))
            self.keep(self.replaced(**by))
            self.assertIsNotNone(self.eager.product(*self.args, turned))
            self.assertIsNotNone(self.eager.product(*self.replaced(**by), 0))
            self.assertIsNone(self.eager.product(*self.args, 0))

    def test_many(self):
        """More kinds than there is room for: those kept last are found, and each finds its own program."""
        found = 0
        for n in range(1, 5001):
            args = self.replaced(x=Tensor(n, 4))
            self.keep(args, program=n)
            self.assertIsNotNone(self.eager.run(*args))
            self.assertEqual(self.runs[-1][0], n)
        for n in range(1, 5001):
            if self.eager.run(*self.replaced(x=Tensor(n, 4))) is not None:
                self.assertEqual(self.runs[-1][0], n)
                found += 1
        self.assertGreater(found, 900)
        self.assertLessEqual(found, 1024)

    def test_lets_go(self):
        """References end with what held them."""
        wait, args = lambda: None, ((6, 3),)
        self.types = tuple("".join(("of ", name)) for name in self.types)  # immortal in no version
        self.eager.setup(**{**self.given, "types": self.types})
        for t, i in (self.x, 0), (self.w, 0), (self.offs, 3), (self.bias, 0):
            t.dtype = self.types[i]
        like = {"dtype": self.types[0]}
        self.modes, self.device.CURRENT_DEVICE = 1, object()
        held = wait, args, like, *self.args[:4], *self.types, *(t.at
                                                                for t in self.args[
                                                                        :4]), self.device.CURRENT_DEVICE
        before = [sys.getrefcount(o) for o in held]
        self.eager.keep(5, args, like, None, wait, (-1, -1), *self.args)
        for _ in range(50):
            self.assertIsNotNone(self.eager.run(*self.args))
            self.assertIsNotNone(self.eager.product(*self.args, 0))
        self.eager.keep(5, args, like, math.nan, wait, (-1, -1), *self.args)
        self.eager.run(*self.args)
        self.eager.clear()
        self.assertEqual([sys.getrefcount(o) for o in held], before)

    def test_memory_does_not_grow(self):
        def work():
            for n in range(2000):
                args = self.replaced(x=Tensor(n + 1, 4, device=300))
                self.keep(args, value=n % 2 or None, wait=list)
                self.eager.run(*args)
                self.eager.product(*args, n % 4)
            self.eager.clear()
            self.runs.clear(), self.extents.clear()
            gc.collect()

        work()
        before = sys.getallocatedblocks()
        work()
        self.assertLess(sys.getallocatedblocks() - before, 500)  # of 2000 turns


class Runs(Case):
    def test_waits(self):
        self.keep(self.args, wait=lambda: self.waits.append(len(self.runs)))
        self.eager.run(*self.args)
        self.assertEqual(self.waits, [1])

        def interrupted():
            raise KeyboardInterrupt

        self.keep(self.args, wait=interrupted)
        self.assertRaises(KeyboardInterrupt, self.eager.run, *self.args)

    def test_program_closed(self):
        self.keep(self.args)
        self.status = HANDLE
        self.assertIsNone(self.eager.run(*self.args), "is left to torch.py")
        self.status = 0
        self.assertIsNotNone(self.eager.run(*self.args))

    def test_run_fails(self):
        self.keep(self.args)
        self.status = INVALID
        with self.assertRaises(Error) as caught:
            self.eager.run(*self.args)
        self.assertEqual(caught.exception.args, (INVALID,))

    def test_fill_fails(self):
        with mock.patch.object(Tensor, "fill_", side_effect=MemoryError("none left")):
            self.keep(self.args, value=0)
            self.assertRaisesRegex(MemoryError, "none left", self.eager.run, *self.args)
        self.assertEqual(self.runs, [])

    def test_memory_fails(self):
        def none():
            raise MemoryError("none left")

        self.keep(self.args)
        self.meanwhile = none
        self.assertRaisesRegex(MemoryError, "none left", self.eager.run, *self.args)
        self.assertEqual(self.runs, [])

    def test_gives_up_the_lock(self):
        sleep = ctypes.CDLL(None).sleep  # for as many seconds as the program says
        self.eager.setup(**{**self.given, "run_at": ctypes.cast(sleep, ctypes.c_void_p).value})
        self.keep(self.args, program=1)
        thread, start = threading.Thread(target=self.eager.run, args=self.args), time.monotonic()
        thread.start()
        time.sleep(0.02)
        self.assertLess(time.monotonic() - start, 0.9)
        thread.join()

    def test_table_changes_meanwhile(self):
        """What a call has found is its own while it allocates memory, but no longer its to run where the
        table was emptied."""
        self.keep(self.args)
        self.meanwhile = lambda: self.keep(self.args, program=9, shape=(1, 1))
        self.assertEqual(self.eager.run(*self.args).shape, (6, 3))
        self.assertEqual(self.runs[-1][0], 5)
        self.meanwhile = lambda: (self.eager.clear(), self.keep(self.args))
        self.assertIsNone(self.eager.run(*self.args))
        self.assertEqual(len(self.runs), 1)
        self.meanwhile = None
        self.assertEqual(self.eager.run(*self.args).shape, (6, 3))

    def test_threads(self):
        kinds = [self.replaced(x=Tensor(n, 4)) for n in range(1, 9)]
        wrong = []

        def work(turn):
            for i in range(400):
                args = kinds[(i + turn) % len(kinds)]
                y = self.eager.run(*args)
                if y is None:
                    self.keep(args, shape=args[0].shape)
                elif y.shape != args[0].shape:
                    wrong.append((y.shape, args[0].shape))
                if i % 37 == turn:
                    self.eager.clear()

        threads = [threading.Thread(target=work, args=(turn,)) for turn in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])
        self.assertGreater(len(self.runs), 100)


if __name__ == "__main__":
    unittest.main()
