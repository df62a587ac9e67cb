"""What tests of the package's objects share: batches of exact numbers, and a device of the CPU."""

import unittest
from array import array

import batchgemm
from batchgemm import problem


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


class Case(unittest.TestCase):
    def setUp(self):
        self.device = batchgemm.open("cpu")
        self.addCleanup(self.device.close)
