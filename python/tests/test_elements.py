"""Tests of types of elements with the package's objects, on the CPU backend, without other packages."""

import random
import struct
import unittest
from array import array
from unittest import mock

import batchgemm
from batchgemm import _objects, problem
from problems import Case, expected, layout


class Elements(Case):
    def test_halves(self):
        """Small integers, which types of 16 bits have."""
        problems, a, b, c = layout(random.Random(4), 8)
        for p in problems:
            p.alpha = 1
        want = expected(problems, a, b, c)
        narrow = {
            "bf16": lambda x: array("H", (word >> 16 for word in struct.unpack(f"{len(x)}I", x.tobytes()))),
            "f16": lambda x: array("H", struct.pack(f"{len(x)}e", *x)),
        }
        for of, bits in narrow.items():
            for of_c in of, "f32":
                with self.subTest(of, c=of_c):
                    types = {"type_a": of, "type_c": of_c}
                    start, result = (bits(c), bits(want)) if of_c == of else (c, want)
                    got = array(start.typecode, start)
                    signed = array("h", bits(b).tobytes())  # torch.int16
                    self.device.gemm(problems, bits(a), signed, got, **types)
                    self.assertEqual(got, result)
                    with self.device.plan(problems, **types) as plan:
                        program = self.device.prepare(plan)
                    buffers = [self.device.buffer(len(x), t) for x, t in ((a, of), (b, of), (c, of_c))]
                    for buffer, x in zip(buffers, (bits(a), bits(b), start)):
                        buffer.write(x)
                    program.run(*buffers)
                    got = array(start.typecode, bytes(start.itemsize * len(start)))
                    buffers[2].read(got)
                    self.assertEqual(got, result)
                    with self.assertRaisesRegex(TypeError, of):
                        buffers[0].write(a)
                    for x in program, *buffers:
                        x.close()
        with self.assertRaisesRegex(TypeError, "bf16"):
            self.device.gemm(problems, a, b, c, type_a="bf16")
        with self.assertRaisesRegex(batchgemm.Error, "unknown"):
            self.device.buffer(1, "i8")

    def test_scales(self):
        """Elements of 8 bits, with a scale for each row of A that is gathered and for each column of B."""
        numbers = [1, 2, 99, 0, 3, -4], [1, -2, 3, 1]
        e4m3 = {0: 0x00, 1: 0x38, 2: 0x40, -2: 0xC0, 3: 0x44, -4: 0xC8, 99: 0x7E}
        a, b = (array("B", map(e4m3.get, x)) for x in numbers)
        self.check_scales("e4m3", a, b, array("b", b.tobytes()))
        with self.assertRaisesRegex(TypeError, "e4m3"):
            self.device.gemm([], array("H", [0]), b, array("f"), type_a="e4m3")
        a, b = (array("b", x) for x in numbers)
        self.check_scales("int8", a, b, b)
        with self.assertRaisesRegex(TypeError, "int8"):
            self.device.gemm([], array("B", [0]), b, array("f"), type_a="int8")

    def check_scales(self, type, a, b, other_b):
        """With elements in memory of one format, and B in that of another."""
        rows = array("i", [2, 0]) + array("i", array("f", [100, 7, 0.5, 3, 0.25]).tobytes())
        options = {"type_a": type, "epilogue": {"gather_rows": 3, "scale_a": "row", "scale_b": "row"}}
        problems, c = [problem(2, 2, 2, rows_a=0, scale_a=2, scale_b=5)], array("f", bytes(16))
        want = [-9 * 0.5 * 3, -10 * 0.5 * 0.25, 7 * 100 * 3, 0]
        self.device.gemm(problems, memoryview(a).toreadonly(), other_b, c, rows=rows, **options)
        self.assertEqual(list(c), want)
        with self.device.prepare_ragged(batchgemm.ENDS_OF_ROWS, 1, 2, 2, 2, scale_a=2, scale_b=5,
                                        options=options) as program:
            buffers = [self.device.buffer(len(x), of) for x, of in ((a, type), (b, type), (c, "f32"),
                                                                    (rows, "f32"), ([2], "f32"))]
            for buffer, x in zip(buffers, (a, b, array("f", bytes(16)), rows, array("i", [2]))):
                buffer.write(x)
            program.run(*buffers[:3], rows=buffers[3], sizes=buffers[4])
            got, bits = array("f", bytes(16)), array(a.typecode, bytes(3))
            buffers[2].read(got)
            self.assertEqual(list(got), want)
            buffers[0].read(bits, 1)
            self.assertEqual(bits, a[1:4])
            for buffer in buffers:
                buffer.close()
        with self.assertRaisesRegex(batchgemm.InvalidError,
                                    "scales are for elements of e4m3 or int8, not f32"):
            self.device.gemm(problems, c, c, c, rows=rows, epilogue=options["epilogue"])

    def test_blocks(self):
        """Each 128 k's of a row of A have a scale, and each 128 k's of 128 columns of B."""
        m, n, k = 2, 130, 140
        a, b = array("B", bytes(m * k)), array("B", bytes(k * n))
        for at in 3, 139, k + 130:
            a[at] = 0x38  # 1
        for at in range(k * n):
            b[at] = 0x40  # 2
        # of A, two of each row; of B, two of each block of columns
        scales = [3, 5, 7, 11] + [1, 10, 100, 1000]
        rows = array("i", array("f", scales).tobytes())
        options = {"type_a": "e4m3", "type_c": "f32", "epilogue": {"scale_a": "block", "scale_b": "block"}}
        want = [2 * (3 + 5 * 10)] * 128 + [2 * (3 * 100 + 5 * 1000)] * 2 + [2 * 11 * 10] * 128 + [
            2 * 11 * 1000] * 2
        c = array("f", bytes(4 * m * n))
        self.device.gemm([problem(m, n, k, scale_b=4)], a, b, c, rows=rows, **options)
        self.assertEqual(list(c), want)
        with self.device.prepare_ragged(batchgemm.ENDS_OF_ROWS, 1, m, n, k, scale_b=4,
                                        options=options) as program:
            buffers = [self.device.buffer(len(x), of) for x, of in ((a, "e4m3"), (b, "e4m3"), (c, "f32"),
                                                                    (rows, "f32"), ([2], "f32"))]
            for buffer, x in zip(buffers, (a, b, array("f", bytes(4 * m * n)), rows, array("i", [2]))):
                buffer.write(x)
            program.run(*buffers[:3], rows=buffers[3], sizes=buffers[4])
            got = array("f", bytes(4 * m * n))
            buffers[2].read(got)
            self.assertEqual(list(got), want)
            for buffer in buffers:
                buffer.close()
        options["type_a"] = "int8"
        with self.assertRaisesRegex(batchgemm.InvalidError,
                                    "scales of blocks are for elements of e4m3, not int8"):
            self.device.gemm([problem(m, n, k, scale_b=4)], array("b", bytes(m * k)),
                             array("b", bytes(k * n)), c, rows=rows, **options)

    def test_zero_points(self):
        """Each scale of a row of A has its zero point after it, and each of a column of B the sum of
        that."""
        a, b = array("b", [1, -128, 127, 5]), array("b", [3, -7, 100, 2])
        pairs = [(0.5, -3), (2, 127)] + [(3, 3 + 100), (0.25, -7 + 2)]
        rows = array("i", [word for scale, whole in pairs
                           for word in (*array("i", array("f", [scale]).tobytes()), whole)])
        options = {"type_a": "int8", "type_c": "f32", "epilogue": {"scale_a": "row", "scale_b": "row",
                                                                 "zero_a": True}}
        want = [(4 * 3 - 125 * 100) * 0.5 * 3, (4 * -7 - 125 * 2) * 0.5 * 0.25, (0 * 3 - 122 * 100) * 2 * 3,
                (0 * -7 - 122 * 2) * 2 * 0.25]
        c = array("f", bytes(16))
        self.device.gemm([problem(2, 2, 2, scale_b=4)], a, b, c, rows=rows, **options)
        self.assertEqual(list(c), want)
        with self.device.prepare_ragged(batchgemm.ENDS_OF_ROWS, 1, 2, 2, 2, scale_b=4,
                                        options=options) as program:
            buffers = [self.device.buffer(len(x), of) for x, of in ((a, "int8"), (b, "int8"), (c, "f32"),
                                                                    (rows, "f32"), ([2], "f32"))]
            for buffer, x in zip(buffers, (a, b, array("f", bytes(16)), rows, array("i", [2]))):
                buffer.write(x)
            program.run(*buffers[:3], rows=buffers[3], sizes=buffers[4])
            got = array("f", bytes(16))
            buffers[2].read(got)
            self.assertEqual(list(got), want)
            for buffer in buffers:
                buffer.close()
        options["epilogue"]["scale_b"] = "tensor"
        with self.assertRaisesRegex(batchgemm.InvalidError, "zero points of A need sums of columns of B"):
            self.device.gemm([problem(2, 2, 2, scale_b=4)], a, b, c, rows=rows, **options)

    def test_words_of_int4(self):
        """Elements of 4 bits are moved in words of eight, at once and in pieces."""
        words, got = array("I", [0x75316420, 1, 2**32 - 1]), array("i", bytes(12))
        with self.device.buffer(24, "int4") as buffer:
            for piece in _objects.PIECE, 8:
                with mock.patch.object(_objects, "PIECE", piece):
                    buffer.write(words)
                    buffer.read(got)
                self.assertEqual(got.tobytes(), words.tobytes())
            last = array("I", [0])
            buffer.read_async(last, 16).wait(timeout=60)
            self.assertEqual(last, words[2:])
            with self.assertRaisesRegex(batchgemm.InvalidError, "offset 4 is no multiple of 8"):
                buffer.write(words[:1], 4)
            with self.assertRaisesRegex(TypeError, "int4"):
                buffer.write(array("B", bytes(12)))


if __name__ == "__main__":
    unittest.main()
