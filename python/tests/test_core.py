"""Tests of the package's objects on the CPU backend, without other packages: PYTHONPATH=python python3 -m
unittest discover python/tests"""

import random
import struct
import threading
import unittest
from array import array
from unittest import mock

import batchgemm
from batchgemm import _core, problem


def layout(rng, count):
    """Problems that lie one after the other, with integers as operands: results are exact."""
    problems, a, b, c = [], array("f"), array("f"), array("f")
    for _ in range(count):
        m, n, k = (rng.randrange(1, 12) for _ in range(3))
        beta = rng.choice([0, 2])
        p = problem(m, n, k, a=len(a), b=len(b), c=len(c), alpha=3, beta=beta,
                    trans_a=rng.random() < 0.5, trans_b=rng.random() < 0.5)
        problems.append(p)
        a.extend(rng.randrange(-4, 5) for _ in range(m * k))
        b.extend(rng.randrange(-4, 5) for _ in range(k * n))
        c.extend(rng.randrange(-4, 5) if beta else float("nan") for _ in range(m * n))
    return problems, a, b, c


def expected(problems, a, b, c):
    out = array("f", c)
    for p in problems:
        for i in range(p.m):
            for j in range(p.n):
                total = 0
                for k in range(p.k):
                    x = p.offset_a + (k * p.lda + i if p.flags & batchgemm.TRANS_A else i * p.lda + k)
                    y = p.offset_b + (j * p.ldb + k if p.flags & batchgemm.TRANS_B else k * p.ldb + j)
                    total += a[x] * b[y]
                at = p.offset_c + i * p.ldc + j
                out[at] = p.alpha * total + (p.beta * c[at] if p.beta else 0)
    return out


class Test(unittest.TestCase):
    def setUp(self):
        self.device = batchgemm.open("cpu")
        self.addCleanup(self.device.close)

    def test_info(self):
        self.assertEqual(self.device.info()["backend"], "cpu")

    def test_gemm(self):
        problems, a, b, c = layout(random.Random(1), 10)
        want = expected(problems, a, b, c)
        self.device.gemm(problems, a, b, c, timeout=60)
        self.assertEqual(c, want)

    def test_read_only(self):
        c = array("f", [0])
        self.device.gemm([problem(1, 1, 1)], memoryview(array("f", [3])).toreadonly(), array("f", [5]), c)
        self.assertEqual(c[0], 15)
        with self.assertRaises(TypeError):
            self.device.gemm([problem(1, 1, 1)], array("d", [3]), array("f", [5]), c)
        with self.assertRaises(TypeError):
            self.device.gemm([problem(1, 1, 1)], c, c, memoryview(c).toreadonly())

    def test_program(self):
        problems, a, b, c = layout(random.Random(2), 6)
        want = expected(problems, a, b, c)
        with self.device.plan(problems, schedule="batched", compute="f32") as plan:
            self.assertEqual(len(plan.explain()["problems"]), 6)
            program = self.device.prepare(plan)
        buffers = [self.device.buffer(len(x)) for x in (a, b, c)]
        with program:
            for _ in range(3):
                for buffer, x in zip(buffers, (a, b, c)):
                    buffer.write(x)
                program.run(*buffers)
                self.device.wait(timeout=60)
                got = array("f", bytes(4 * len(c)))
                buffers[2].read(got)
                self.assertEqual(got, want)
            for p in problems:
                p.alpha = -1
            program.update(problems)
            buffers[2].write(c)
            program.run(*buffers)
            buffers[2].read(got)
            self.assertEqual(got, expected(problems, a, b, c))
        for buffer in buffers:
            buffer.close()

    def test_network(self):
        """Two layers in slices of one buffer, whose result is read while work goes on."""
        self.device.warm(compute="f32")
        with self.device.plan([problem(2, 2, 2)], compute="f32", warmed=True) as plan:
            program = self.device.prepare(plan)
        weights, hidden, last = (self.device.buffer(n) for n in (256, 4, 4))
        with program, weights, hidden, last:
            first, second, x = (weights.slice(at, 4) for at in (0, 64, 128))
            for part, values in (first, [0, 1, 2, 0]), (second, [1, 1, 0, 1]), (x, [1, 2, 3, 4]):
                part.write(array("f", values))
            program.run(x, first, hidden)
            program.run(hidden, second, last)
            got = array("f", bytes(16))
            reading = last.read_async(got)
            self.device.copy(x, last)
            reading.wait(timeout=60)
            self.assertEqual(got.tolist(), [4, 5, 8, 11])
            weights.read(got, 128)
            self.assertEqual(got.tolist(), [4, 5, 8, 11])
            dropped = last.read_async(got)
            self.device.wait()
            while not dropped.done():
                pass
            dropped.close()
            with self.assertRaisesRegex(batchgemm.Error, "not a multiple of 64"):
                weights.slice(1, 4)
            for part in first, second, x:
                part.close()

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
        with self.assertRaisesRegex(batchgemm.InvalidError, "zero points of A multiply sums of columns of B"):
            self.device.gemm([problem(2, 2, 2, scale_b=4)], a, b, c, rows=rows, **options)

    def test_words_of_int4(self):
        """Elements of 4 bits are moved in words of eight, at once and in pieces."""
        words, got = array("I", [0x75316420, 1, 2**32 - 1]), array("i", bytes(12))
        with self.device.buffer(24, "int4") as buffer:
            for piece in _core.PIECE, 8:
                with mock.patch.object(_core, "PIECE", piece):
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

    def test_ragged(self):
        rng, groups, rows, n, k = random.Random(3), 4, 9, 3, 5
        a, b = (array("f", (rng.randrange(-4, 5) for _ in range(count)))
                for count in (rows * k, groups * k * n))
        before = array("f", [7] * (rows * n))
        buffers = [self.device.buffer(len(x)) for x in (a, b, before)]
        sizes = self.device.buffer(groups)
        for buffer, x in zip(buffers, (a, b, before)):
            buffer.write(x)

        def want(ends, trans_b):
            starts = [0, *ends[:-1]]
            return expected([problem(end - start, n, k, a=start * k, b=g * k * n, c=start * n,
                                     trans_b=trans_b)
                             for g, (start, end) in enumerate(zip(starts, ends))], a, b, before)

        for trans_b in False, True:
            with self.device.prepare_ragged(batchgemm.ENDS_OF_ROWS, groups, rows, n, k, trans_b=trans_b,
                                            mean_m=2, options={"compute": "f32"}) as program:
                for ends in [0, 2, 2, 9], [3, 4, 5, 6], [0] * 4:
                    sizes.write(array("i", ends))
                    buffers[2].write(before)
                    program.run_ragged(sizes, *buffers)
                    program.status(timeout=60)
                    got, words = array("f", before), array("i", ends)
                    buffers[2].read(got)
                    self.assertEqual(got, want(ends, trans_b))
                    sizes.read(words)
                    self.assertEqual(list(words), ends)
                sizes.write(array("i", [1, 2, 10, 10]))
                program.run_ragged(sizes, *buffers)
                with self.assertRaisesRegex(batchgemm.Error, "problem 2: sizes do not fit") as raised:
                    program.status()
                self.assertEqual(raised.exception.status, "invalid")
                program.status()
                with self.assertRaisesRegex(batchgemm.Error, "Sizes is nil"):
                    program.run(*buffers)
        with self.assertRaisesRegex(batchgemm.Error, "mean M -1"):
            self.device.prepare_ragged(batchgemm.RECORDS, 1, 1, 1, 1, mean_m=-1)
        with self.assertRaises(TypeError):
            sizes.write(array("q", [1]))
        for buffer in (*buffers, sizes):
            buffer.close()

    def test_epilogue(self):
        """Gated rows that are gathered, weighted and scattered."""
        a, b, b2 = array("f", [5, 2, 3, -4]), array("f", [1, -1]), array("f", [2, -1])
        rows = array("i", [1, 0, 2, 0]) + array("i", array("f", [2, 0.5]).tobytes())
        epilogue = {"activation": "relu", "gated": True, "gather_rows": 2, "scatter_rows": 3, "weights": True}
        plan = self.device.plan([problem(2, 1, 2, rows_c=2, weights=4)], epilogue=epilogue)
        with plan, self.device.prepare(plan) as program:
            buffers = [self.device.buffer(n) for n in (4, 2, 3, 2, 6)]
            for buffer, data in zip(buffers, (a, b, array("f", [7, 7, 7]), b2, rows)):
                buffer.write(data)
            program.run(*buffers[:3], b2=buffers[3], rows=buffers[4])
            got = array("f", bytes(12))
            buffers[2].read(got)
            self.assertEqual(list(got), [0.5 * 3 * 8, 7, 2 * 7 * 10])
            with self.assertRaisesRegex(batchgemm.Error, "B2"):
                program.run(*buffers[:3])
            for buffer in buffers:
                buffer.close()

    def test_epilogue_on_host(self):
        """The same on host memory, and what is wrong there."""
        a, b = array("f", [5, 2, 3, -4]), array("f", [1, -1])
        b2 = memoryview(array("f", [2, -1])).toreadonly()
        rows = array("i", [1, 0, 2, 0]) + array("i", array("f", [2, 0.5]).tobytes())
        epilogue = {"activation": "relu", "gated": True, "gather_rows": 2, "scatter_rows": 3, "weights": True}
        problems, c = [problem(2, 1, 2, rows_c=2, weights=4)], array("f", [7, 7, 7])
        self.device.gemm(problems, a, b, c, b2=b2, rows=rows, epilogue=epilogue)
        self.assertEqual(list(c), [0.5 * 3 * 8, 7, 2 * 7 * 10])
        for words, more in (("problem 0: B2 needs elements .0, 2. of a buffer of 0", {"rows": rows}),
                            ("problem 0: weights need words .4, 6. of a buffer of 5",
                             {"b2": b2, "rows": rows[:5]}),
                            ("Bias has 1 elements: the epilogue has no use for it",
                             {"b2": b2, "rows": rows, "bias": array("f", [1])})):
            with self.subTest(words), self.assertRaisesRegex(batchgemm.InvalidError, words):
                self.device.gemm(problems, a, b, c, epilogue=epilogue, **more)
        with self.assertRaises(TypeError):
            self.device.gemm(problems, a, b, c, b2=b2, rows=array("q", [1]), epilogue=epilogue)
        self.assertEqual(list(c), [0.5 * 3 * 8, 7, 2 * 7 * 10])
        halves = array("H", [0x3C00])  # 1 in f16
        self.device.gemm([problem(1, 1, 1)], halves, halves, halves, bias=array("H", [0xC000]),
                         epilogue={"bias": True}, type_a="f16", type_c="f16")
        self.assertEqual(list(halves), [0xBC00])

    def test_epilogue_records(self):
        """A record with an epilogue has where its bias is; others are of before."""
        with self.device.prepare_ragged(batchgemm.RECORDS, 1, 1, 2, 1, len_a=1, len_b=2, len_c=2, len_bias=3,
                                        options={"epilogue": {"bias": True}}) as program:
            record = array("i", [1, 2, 1, 1, 2, 2, 0, 0, 0])
            record += array("i", array("f", [1, 0]).tobytes()) + array("i", [0, 0, 0, 1, 0, 0, 0, 0, 0])
            buffers = [self.device.buffer(n) for n in (20, 1, 2, 2, 3)]
            for buffer, data in zip(buffers, (record, array("f", [3]), array("f", [1, 2]), array("f", [7, 7]),
                                              array("f", [0, 10, 20]))):
                buffer.write(data)
            sizes, a, b, c, bias = buffers
            program.run(a, b, c, sizes=sizes, bias=bias)
            got = array("f", bytes(8))
            c.read(got)
            program.status()
            self.assertEqual(list(got), [13, 26])
            record[14] = 2
            sizes.write(record)
            program.run(a, b, c, sizes=sizes, bias=bias)
            with self.assertRaisesRegex(batchgemm.Error, "problem 0: sizes do not fit"):
                program.status()
            for buffer in buffers:
                buffer.close()

    def test_pointers(self):
        """The CPU has none; the words are those of the library."""
        words = batchgemm.pointers(a=0x1_0000_0002, b2=2**64 - 1)
        self.assertEqual(list(words), [2, 1, 0, 0, 0, 0, -1, -1])
        with self.assertRaisesRegex(batchgemm.Error, "has no kernels for pointers"):
            self.device.plan([problem(1, 1, 1, pointers=3)],
                             epilogue={"pointers": {"a": True, "aligned": True}})
        with self.device.buffer(1) as buffer, self.assertRaisesRegex(batchgemm.Error, "no addresses"):
            buffer.address()

    def test_ragged_scalars(self):
        """C after the last end is 0, or NaN, and stays as it is where nobody asked for that; what is in
        front has its factors."""
        nan = float("nan")
        for more, want in (({"zero_rows": True}, [6, 0, 0]), ({"nan_rows": True}, [6, nan, nan]),
                           ({}, [6, 7, 7]), ({"alpha": 0.5, "beta": 2}, [17, 7, 7])):
            with self.device.prepare_ragged(batchgemm.ENDS_OF_ROWS, 1, 3, 1, 1, **more) as program:
                buffers = [self.device.buffer(n) for n in (1, 3, 1, 3)]
                for buffer, data in zip(buffers, (array("i", [1]), array("f", [2, 4, 5]), array("f", [3]),
                                                  array("f", [7, 7, 7]))):
                    buffer.write(data)
                program.run_ragged(*buffers)
                got = array("f", bytes(12))
                buffers[3].read(got)
                self.assertEqual(str(list(got)), str([float(c) for c in want]))
                for buffer in buffers:
                    buffer.close()

    def test_extent(self):
        """A run at addresses may have less than the bound: an end beyond that is refused, and no C is written
        there."""
        offset = lambda of: (of.buffer_info()[0] + 15 & -16) - of.buffer_info()[0]
        with self.device.prepare_ragged(batchgemm.ENDS_OF_ROWS, 1, 3, 1, 1, zero_rows=True) as program:
            for end, extent, want in ((2, 2, [6, 12, 7]), (1, 2, [6, 0, 7]), (3, 2, [0, 0, 7]),
                                      (3, 0, [6, 12, 15])):
                ends, a, b = array("i", [0] * 12), array("f", [0] * 12), array("f", [0] * 12)
                c = array("f", [7] * 12)
                for of, values in (ends, [end]), (a, [2, 4, 5]), (b, [3]):
                    at = offset(of) // 4
                    of[at : at + len(values)] = array(of.typecode, values)
                sizes, *addresses = (of.buffer_info()[0] + offset(of) for of in (ends, a, b, c))
                program.run_at(0, *addresses, sizes=sizes, extent=extent)
                self.device.wait()
                self.assertEqual(list(c[offset(c) // 4 :][:3]), want)
                if want[0] == 0:
                    self.assertRaisesRegex(batchgemm.InvalidError, "group 0|problem 0", program.status)
            with self.assertRaisesRegex(batchgemm.InvalidError, "extent is 9223372036854775808"):
                program.run_at(0, *addresses, sizes=sizes, extent=2**63)

    def test_warm(self):
        """Each transposition is warmed for itself."""
        self.device.warm(trans_b=True, timeout=60, compute="f32")
        self.device.plan([problem(2, 2, 2, trans_b=True)], compute="f32", warmed=True).close()
        for trans in {}, {"trans_a": True}:
            with self.assertRaisesRegex(batchgemm.InvalidError, "Kernels"):
                self.device.plan([problem(2, 2, 2, **trans)], compute="f32", warmed=True)
        self.device.warm(trans_a=True, timeout=60, compute="f32")
        self.device.plan([problem(2, 2, 2, trans_a=True)], compute="f32", warmed=True).close()

    def test_ragged_depth(self):
        """The gradient of weights: op(A) is transposed rows, of which each group has some."""
        x, y = array("f", [1, 2, 3, 4, 5, 6]), array("f", [1, 10, 100])
        with self.device.prepare_ragged(batchgemm.ENDS_OF_DEPTH, 2, 2, 1, 3, trans_a=True) as program:
            buffers = [self.device.buffer(n) for n in (2, 6, 3, 4)]
            for buffer, data in zip(buffers, (array("i", [1, 3]), x, y)):
                buffer.write(data)
            program.run_ragged(*buffers)
            got = array("f", [0] * 4)
            buffers[3].read(got)
            self.assertEqual(list(got), [1, 2, 30 + 500, 40 + 600])
            for buffer in buffers:
                buffer.close()

    def test_errors(self):
        x = array("f", [1])
        cases = {
            "problem 0: lda 0 < row length 2": ("invalid",
                                                lambda: self.device.gemm([problem(1, 1, 2, lda=0)], x, x, x)),
            "unknown tile": ("invalid", lambda: self.device.plan([], tile="huge")),
            "unknown backend": ("invalid", lambda: batchgemm.open("metal")),
            "closed": ("handle", lambda: closed.close()),
        }
        closed = self.device.buffer(1)
        closed.close()
        for words, (status, call) in cases.items():
            with self.subTest(words), self.assertRaisesRegex(batchgemm.Error, words) as raised:
                call()
            self.assertEqual(raised.exception.status, status)

    def test_threads(self):
        failures = []

        def work(seed):
            problems, a, b, c = layout(random.Random(seed), 5)
            want = expected(problems, a, b, c)
            for _ in range(10):
                got = array("f", c)
                self.device.gemm(problems, a, b, got)
                if got != want:
                    failures.append(seed)

        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(failures, [])


if __name__ == "__main__":
    unittest.main()
