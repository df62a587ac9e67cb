"""A layer of experts, and its steps, on the CPU."""

import struct
import unittest
from array import array

import batchgemm

TOKENS, TOP_K, EXPERTS, HIDDEN, INNER = 4, 2, 3, 2, 1
INDEX = [2, 0, -1, 2, 0, 3, -(2**63), 2**32]
WEIGHTS = [0.25, 0.5, 1, 2, 3, 4, 5, 6]
X = [1, 0, 1, 1, 2, 1, 5, 5]
GATE_UP = [1, 1, 2, 2, 2, 2, 2, 2, 3, 3, 2, 2]
DOWN = [1, 10, 1, 10, 1, 10]


def want():
    """y by loops: expert e multiplies the sum of both elements, once by e + 1 and once by 2."""
    y = []
    for t in range(TOKENS):
        z = 0
        for j in range(TOP_K):
            e = INDEX[t * TOP_K + j]
            if 0 <= e < EXPERTS:
                s = sum(X[t * HIDDEN:][:HIDDEN])
                z += WEIGHTS[t * TOP_K + j] * (e + 1) * s * 2 * s
        y += [z, 10 * z]
    return y


class Experts(unittest.TestCase):
    def setUp(self):
        self.device = batchgemm.open("cpu")
        self.addCleanup(self.device.close)

    def kept(self, made):
        self.addCleanup(made.close)
        return made

    def upload(self, numbers):
        buffer = self.kept(self.device.buffer(len(numbers)))
        buffer.write(array("f", numbers))
        return buffer

    def read(self, buffer):
        got = array("f", [0] * buffer.count)
        buffer.read(got)
        return got

    def index(self):
        return self.upload(struct.unpack("16f", struct.pack("8q", *INDEX)))

    def layer(self, **more):
        return self.kept(self.device.prepare_experts(TOKENS, TOP_K, EXPERTS, HIDDEN, INNER, index="int64",
                                                     trans_b=True, activation=None, **more))

    def test_layer(self):
        y = self.kept(self.device.buffer(TOKENS * HIDDEN))
        self.layer().run(self.upload(X), y, self.index(), self.upload(WEIGHTS), self.upload(GATE_UP),
                         self.upload(DOWN))
        self.assertEqual(list(self.read(y)), want())

    def test_steps(self):
        n, first, index = TOKENS * TOP_K, 64, self.index()
        routing = self.kept(self.device.prepare_routing(TOKENS, TOP_K, EXPERTS, index="int64"))
        routed = self.kept(self.device.buffer(first + 3 * n))
        routing.run(self.upload(WEIGHTS), c=routed, sizes=index)
        words = struct.unpack(f"{routed.count}i", self.read(routed).tobytes())
        self.assertEqual(words[:EXPERTS], (2, 2, 4))
        self.assertEqual(words[first:first + 4], (0, 2, 0, 1))
        self.assertEqual(words[first + n:first + n + 4], (1, 4, 0, 3))
        combine = self.kept(self.device.prepare_combine(TOKENS, TOP_K, EXPERTS, 1, index="int64"))
        sums = self.kept(self.device.buffer(TOKENS))
        combine.run(self.upload(range(n)), c=sums, sizes=index)
        self.assertEqual(list(self.read(sums)), [1, 3, 4, 0])

    def test_mistakes(self):
        with self.assertRaisesRegex(batchgemm.InvalidError, "index is 'int16'"):
            self.device.prepare_routing(1, 1, 1, index="int16")
        with self.assertRaisesRegex(batchgemm.InvalidError, "17 choices"):
            self.device.prepare_combine(1, 17, 1, 1)
        with self.assertRaisesRegex(batchgemm.InvalidError, "are interleaved, and that are apart"):
            self.layer(interleaved=True, apart=True)
        layer, x = self.layer(), self.upload(X)
        with self.assertRaisesRegex(batchgemm.InvalidError, "Down is nil"):
            layer.run(x, x, self.index(), x, self.upload(GATE_UP), None)
        with self.assertRaisesRegex(batchgemm.InvalidError, "5 tokens are not in"):
            layer.run_at(0, 16, 16, 16, 16, 16, 16, tokens=5)


if __name__ == "__main__":
    unittest.main()
