"""Tests of the package's objects on the CPU backend, without other packages: PYTHONPATH=python python3 -m
unittest discover python/tests"""

import random
import threading
import unittest
from array import array

import batchgemm
from batchgemm import problem
from problems import Case, expected, layout


class Test(Case):
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
                            ("Bias has 1 elements, but the epilogue does not use it",
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

    def test_pointers(self):
        """The CPU has none; the words are those of the library."""
        words = batchgemm.pointers(a=0x1_0000_0002, b2=2**64 - 1)
        self.assertEqual(list(words), [2, 1, 0, 0, 0, 0, -1, -1])
        with self.assertRaisesRegex(batchgemm.Error, "has no kernels for pointers"):
            self.device.plan([problem(1, 1, 1, pointers=3)],
                             epilogue={"pointers": {"a": True, "aligned": True}})
        with self.device.buffer(1) as buffer, self.assertRaisesRegex(batchgemm.Error, "no addresses"):
            buffer.address()

    def test_warm(self):
        """Each transposition is warmed for itself."""
        self.device.warm(trans_b=True, timeout=60, compute="f32")
        self.device.plan([problem(2, 2, 2, trans_b=True)], compute="f32", warmed=True).close()
        for trans in {}, {"trans_a": True}:
            with self.assertRaisesRegex(batchgemm.InvalidError, "Kernels"):
                self.device.plan([problem(2, 2, 2, **trans)], compute="f32", warmed=True)
        self.device.warm(trans_a=True, timeout=60, compute="f32")
        self.device.plan([problem(2, 2, 2, trans_a=True)], compute="f32", warmed=True).close()

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
