"""Tests of programs whose sizes are on the device, on the CPU backend, without other packages."""

import random
import unittest
from array import array

import batchgemm
from batchgemm import problem
from problems import Case, expected


class Ragged(Case):
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

    def test_ragged_depth(self):
        """The gradient of weights: op(A) is transposed rows, and each group has some of them."""
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


if __name__ == "__main__":
    unittest.main()
