"""Tests of how long objects live, and how they end, on the CPU backend, without other packages."""

import gc
import unittest
import warnings
import weakref
from array import array

import batchgemm
from batchgemm import _abi, problem


class Test(unittest.TestCase):
    def setUp(self):
        self.device = batchgemm.open("cpu")
        self.addCleanup(self.device.close)

    def assertClosed(self, handle):
        with self.assertRaisesRegex(batchgemm.Error, "was closed"):
            _abi._call("bg_close", handle)

    def test_dropped(self):
        """What is dropped is closed, and says so."""
        plan = self.device.plan([problem(1, 1, 1)])
        for make in (
            lambda: self.device.buffer(1000),
            lambda: self.device.plan([problem(1, 1, 1)]),
            lambda: self.device.prepare(plan),
            lambda: batchgemm.open("cpu"),
        ):
            made = make()
            kind, handle = type(made).__name__, made.handle
            with self.subTest(kind), self.assertWarnsRegex(ResourceWarning,
                                                           f"{kind} {handle} was not closed"):
                del made
                gc.collect()
            self.assertClosed(handle)
        plan.close()

    def test_keepers(self):
        """A slice keeps its buffer, and a read the memory that it goes to."""
        slice = self.device.buffer(4).slice(0, 4)
        gc.collect()
        slice.write(array("f", [1, 2, 3, 4]))
        to = array("f", bytes(16))
        kept = weakref.ref(to)
        read = slice.read_async(to)
        del to
        gc.collect()
        read.wait(timeout=60)
        self.assertEqual(list(kept()), [1, 2, 3, 4])
        del read
        self.assertIsNone(kept())
        with self.assertWarnsRegex(ResourceWarning, f"Buffer {slice._of.handle} was not closed"):
            slice.close()
            del slice
            gc.collect()

    def test_dropped_device(self):
        """A device lives as long as its buffers; both end, also in a cycle."""
        buffer = batchgemm.open("cpu").buffer(1)
        gc.collect()
        buffer.write(array("f", [1]))
        handles = buffer.handle, buffer._device.handle
        buffer.cycle = buffer
        with self.assertWarnsRegex(ResourceWarning, "Device"):
            del buffer
            gc.collect()
        for handle in handles:
            self.assertClosed(handle)

    def test_closed_is_silent(self):
        """Nothing warns that was closed, by itself or with its device."""
        device = batchgemm.open("cpu")
        buffers = [device.buffer(1) for _ in range(2)]
        buffers[0].close()
        device.close()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            del buffers, device
            gc.collect()
        self.assertEqual(caught, [])


if __name__ == "__main__":
    unittest.main()
