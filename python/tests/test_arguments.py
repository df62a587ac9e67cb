"""Tests of what arguments the package's objects refuse, before anything is done, and how they say it."""

import ctypes
import re
import unittest
from array import array
from unittest import mock

import batchgemm
from batchgemm import _abi, problem

try:
    import numpy as np
except ImportError:
    np = None

WRAPS = 2**64 + 1  # 1, where the upper bits are cut
FIELDS = ("m n k offset_a lda offset_b ldb offset_c ldc offset_b2 ldb2 bias rows_a rows_c weights pointers "
          "scale_a scale_b").split()


class Case(unittest.TestCase):
    def setUp(self):
        self.device = batchgemm.open("cpu")
        self.addCleanup(self.device.close)

    def refused(self, cases):
        """cases: what errors say, their kind, and calls."""
        for words, kind, call in cases:
            with self.subTest(words), self.assertRaisesRegex(kind, words) as raised:
                call()
            if kind is TypeError:
                self.assertNotIsInstance(raised.exception, ctypes.ArgumentError)


class Integers(Case):
    def test_problem(self):
        """Each field of a problem by its name, at once and later."""
        args = {name.replace("offset_", ""): name for name in FIELDS}
        for arg, name in args.items():
            for value in WRAPS, -2**63 - 1, 2**63:
                with self.subTest(arg, value=value), self.assertRaisesRegex(
                        batchgemm.InvalidError, f"^{name} is {value}: it must be from"):
                    problem(**{"m": 1, "n": 1, "k": 1, arg: value})
                with self.subTest(name, value=value), self.assertRaisesRegex(batchgemm.InvalidError,
                                                                             f"^{name} is {value}"):
                    setattr(problem(1, 1, 1), name, value)
            with self.subTest(arg), self.assertRaisesRegex(TypeError,
                                                           f"^{name} is 2.0: it must be an integer"):
                problem(**{"m": 1, "n": 1, "k": 1, arg: 2.0})
        for name in "alpha", "beta":
            for value in 1e300, "2":
                with self.subTest(name), self.assertRaisesRegex(batchgemm.InvalidError,
                                                                re.escape(f"{name} is {value!r}: it must be "
                                                                          f"a number of float32")):
                    problem(1, 1, 1, **{name: value})
        with self.assertRaisesRegex(TypeError, "no field 'off_a'"):
            problem(1, 1, 1).off_a = 3
        p = problem(2**63 - 1, 0, -2**63, a=3, alpha=0.5, trans_b=True, scale_b=9)
        values = [getattr(p, name) for name, _ in p._fields_]
        self.assertEqual(values, [ctypes.sizeof(p), batchgemm.TRANS_B, 2**63 - 1, 0, -2**63, 3, -2**63, 0,
                                  -2**63, 0, 0, 0.5, 0,
                                  0, -2**63] + [0] * 6 + [9] + [0] * 2)

    def test_everywhere(self):
        device = self.device
        buffer = device.buffer(4)
        self.addCleanup(buffer.close)
        x, big, bad = array("f", [1]), batchgemm.InvalidError, TypeError
        ragged = lambda *args, **more: device.prepare_ragged(*(args or (batchgemm.ENDS_OF_ROWS, 1, 1, 1, 1)),
                                                             **more)
        program = ragged()
        self.addCleanup(program.close)
        self.refused((
            ("count is 18446744073709551617", big, lambda: device.buffer(WRAPS)),
            ("count is 1.0: it must be an integer", bad, lambda: device.buffer(1.0)),
            ("count is 18446744073709551617", big, lambda: device.wrap(16, WRAPS)),
            ("address is 18446744073709551632", big, lambda: device.wrap(2**64 + 16, 1)),
            ("address is -16", big, lambda: device.wrap(-16, 1)),
            ("offset is 18446744073709551617", big, lambda: buffer.write(x, WRAPS)),
            ("offset is 18446744073709551617", big, lambda: buffer.read(x, WRAPS)),
            ("offset is 18446744073709551617", big, lambda: buffer.read_async(x, WRAPS)),
            ("offset is 0.0: it must be an integer", bad, lambda: buffer.write(x, 0.0)),
            ("offset is 18446744073709551616", big, lambda: buffer.slice(2**64, 1)),
            ("count is 18446744073709551617", big, lambda: buffer.slice(0, WRAPS)),
            ("stream is -1", big, lambda: device.on_stream(-1)),
            ("stream is 18446744073709551616", big, lambda: program.run_at(2**64)),
            ("sizes is -16: it must be from 0 to", big, lambda: program.run_at(0, sizes=-16)),
            ("b2 is 18446744073709551616", big, lambda: batchgemm.pointers(b2=2**64)),
            ("c is 1.5: it must be an integer", bad, lambda: batchgemm.pointers(c=1.5)),
            ("index is 4294967295: it must be from -2147483648", big,
             lambda: batchgemm.open("cpu", 2**32 - 1)),
            ("form is 4294967297", big, lambda: ragged(2**32 + 1, 1, 1, 1, 1)),
            ("groups is 4294967297: it must be from 0 to 4294967295", big,
             lambda: ragged(1, 2**32 + 1, 1, 1, 1)),
            ("groups is -1", big, lambda: ragged(1, -1, 1, 1, 1)),
            ("m is 18446744073709551617", big, lambda: ragged(1, 1, WRAPS, 1, 1)),
            ("n is 1.0: it must be an integer", bad, lambda: ragged(1, 1, 1, 1.0, 1)),
            ("mean_m is 18446744073709551617", big, lambda: ragged(mean_m=WRAPS)),
            ("ldb is 18446744073709551617", big, lambda: ragged(ldb=WRAPS)),
            ("beta is 1e\\+300: it must be a number of float32", big, lambda: ragged(beta=1e300)),
            ("no field 'mean_M'", bad, lambda: ragged(mean_M=5)),
            ("no field 'ofset_a'", bad, lambda: ragged(ofset_a=7)),
        ))
        got = array("f", bytes(16))
        buffer.write(array("f", [1, 2, 3, 4]))
        buffer.read(got)
        self.assertEqual(list(got), [1, 2, 3, 4])

    @unittest.skipIf(np is None, "needs NumPy")
    def test_numpy(self):
        """Integers of NumPy are as good, where products of them would wrap too."""
        one, wide = np.int8(1), np.int32(2**16)
        self.assertEqual(bytes(problem(np.uint8(3), np.int64(4), np.int16(5))), bytes(problem(3, 4, 5)))
        with self.assertRaisesRegex(TypeError, "m is .*3.0.*: it must be an integer"):
            problem(np.float32(3), 4, 5)
        device = self.device
        with self.assertRaisesRegex(batchgemm.InvalidError, "-5 rows of A to gather from"):
            device.plan([problem(one, one, one)], epilogue={"gather_rows": np.int64(-5)})
        with device.buffer(np.int64(3)) as buffer:
            buffer.write(array("f", [7]), np.int64(2))
            got = array("f", [0])
            buffer.read(got, np.uint8(2))
            self.assertEqual(got[0], 7)
        # the stride of B, which 32 bits do not hold
        with self.assertRaisesRegex(batchgemm.InvalidError, "4294967296"):
            device.prepare_ragged(batchgemm.ENDS_OF_ROWS, 1, 1, wide, wide, len_b=1, stride_b=None,
                                  offset_b=2**63 - 1)


class Others(Case):
    def test_time_limits(self):
        x, nan, bad = array("f", [1]), float("nan"), batchgemm.InvalidError
        device = self.device
        with device.buffer(1) as buffer, device.prepare_ragged(1, 1, 1, 1, 1) as program:
            for call in (device.wait, program.status, lambda t: buffer.write(x, timeout=t),
                         lambda t: buffer.read(x, timeout=t),
                         lambda t: device.warm(timeout=t),
                         lambda t: device.gemm([problem(1, 1, 1)], x, x, x, timeout=t)):
                for limit in nan, -1, -0.5, float("-inf"):
                    with self.assertRaisesRegex(bad, f"timeout is {limit!r}: it must be seconds, 0 or more, "
                                                f"or None"):
                        call(limit)
                for limit in float("inf"), 1e300, 10**400, None, 5:
                    call(limit)
            with self.assertRaises(TypeError):
                device.wait("5")
        self.assertEqual(list(x), [1])

    def test_late(self):
        """What Python says is the caller's limit, not that of the slice which was the last."""
        large = array("f", bytes(4 << 20))
        side = 1024
        with self.assertRaisesRegex(batchgemm.TimeLimitError, "^the time limit of 0.0001 s was reached$"):
            self.device.gemm([problem(side, side, side)], large, large, array("f", bytes(4 << 20)),
                             timeout=0.0001)
        with self.device.plan([problem(side, side, side)] * 1) as plan:
            program = self.device.prepare(plan)
        with program, self.device.buffer(1 << 20) as a, self.device.buffer(1 << 20) as c:
            for _ in range(60):
                program.run(a, a, c)
            with self.assertRaisesRegex(batchgemm.TimeLimitError, "^the time limit of 0.002 s was reached$"):
                c.read(large, timeout=0.002)
            with self.assertRaisesRegex(batchgemm.TimeLimitError, "^the time limit of 0.12 s was reached$"):
                c.read(large, timeout=0.12)

    def test_text(self):
        self.refused((
            ("backend is 'cpu.x00x': it has a character 0", batchgemm.InvalidError,
             lambda: batchgemm.open("cpu\0x")),
            ("backend is b'cpu': it must be text", TypeError, lambda: batchgemm.open(b"cpu")),
            ("unknown type 'f32.x00'", batchgemm.InvalidError, lambda: self.device.buffer(1, "f32\0")),
            ("unknown type 'fp8' .known: f32, bf16", batchgemm.InvalidError,
             lambda: self.device.gemm([], b"", b"", b"", type_a="fp8")),
            ("type is <class 'float'>: it must be the name of one, as text: f32, bf16", TypeError,
             lambda: self.device.buffer(48, float)),
        ))

    def test_memory(self):
        """What memory is, where it should be another."""
        x = array("f", [1, 2, 3, 4])
        with self.device.buffer(4) as buffer:
            self.refused((
                ("^data: expected contiguous memory of f32 .format f or i., got format d$", TypeError,
                 lambda: buffer.write(array("d", [1]))),
                ("got format f, not contiguous$", TypeError, lambda: buffer.write(memoryview(x)[::2])),
                ("of f32 .format f or i., writable, got format f, read-only$", TypeError,
                 lambda: buffer.read(memoryview(x).toreadonly())),
                ("^b: expected contiguous memory of f32 .format f., got format b$", TypeError,
                 lambda: self.device.gemm([problem(1, 1, 1)], x, array("b", [1]), x)),
            ))

    def test_options(self):
        """Names of options are exact."""
        plan = lambda **options: self.device.plan([problem(1, 1, 1)], **options)
        self.refused((
            ("options: unknown field \"Compute\"", batchgemm.InvalidError, lambda: plan(Compute="f32")),
            ("options: unknown field \"epilogue.Bias\"", batchgemm.InvalidError,
             lambda: plan(epilogue={"Bias": True})),
            ("options: unknown field \"epilogue.pointers.d\"", batchgemm.InvalidError,
             lambda: plan(epilogue={"pointers": {"d": True}})),
        ))

    def test_missing_operand(self):
        with self.device.plan([problem(1, 1, 1)]) as plan:
            program = self.device.prepare(plan)
        with program, self.device.buffer(1) as a, self.device.buffer(1) as b:
            with self.assertRaisesRegex(batchgemm.ClosedError, "^c is missing: its handle is 0$"):
                program.run(a, b)
            b.close()
            with self.assertRaisesRegex(batchgemm.ClosedError,
                                        "^b: buffer: handle [0-9]+ is unknown, or was closed$"):
                program.run(a, b, a)
            b._finalizer.detach()
            b.close = lambda: None


class Library(unittest.TestCase):
    def test_other_interface(self):
        with mock.patch.object(ctypes, "CDLL") as load:
            load.return_value.bg_abi_version.return_value = 2
            with self.assertRaisesRegex(ImportError, "binary interface 2, this module is for 1"):
                _abi._load()

    def test_packed(self):
        """Packing and the constructor make the same, whatever the fields are."""
        for kind in _abi.Problem, _abi.Ragged, _abi.Operands:
            values = range(1, len(kind._fields_) + 1)
            self.assertEqual(bytes(kind.of(*values)), bytes(kind(*values)))
            self.assertEqual([getattr(kind.of(*values), name) for name, _ in kind._fields_], list(values))


if __name__ == "__main__":
    unittest.main()
