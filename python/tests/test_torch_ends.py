"""Tests of ends that are wrong, and of rows that belong to no group: offs, fill and check of
batchgemm.torch."""

import math
import unittest

try:
    import torch
except ImportError as missing:
    raise unittest.SkipTest(f"no PyTorch: {missing}")

import batchgemm.torch as bt
from batchgemm._optional import Nothing
from batchgemm.torch import grouped_mm, int4_grouped_mm, scaled_grouped_mm
from tensors import ACTIVATIONS, assert_fails_alike, ends, on_cpu, random, reference, scales, slow_runs
from test_torch_eager import Alone
from test_torch_int4 import new_scales, new_words

WRONG = {  # of 100
    "offs: group 1 ends at 15, before group 0, which ends at 20": (20, 15, 15, 10, 30, 10),  # counts
    "offs: group 3 ends at 101, beyond the 100 that there are": (0, 40, 40, 101, 101, 100),
    "offs: group 5 ends at 101, beyond the 100 that there are": (20, 35, 50, 60, 90, 101),
    "offs: group 0 ends at -1, before 0": (-1, 0, 0, 0, 0, 100),
    "offs: group 5 ends at -5, before group 4, which ends at 90": (20, 35, 50, 60, 90, -5),
    "offs: group 0 ends at 2147483647, beyond the 100 that there are": (2**31 - 1, 0, 0, 0, 0, 0),
    "offs: group 1 ends at -2147483648, before group 0, which ends at 1": (1, -(2**31), 0, 0, 0, 0),
}
RIGHT = (0, 0, 40, 40, 99, 100), (0,) * 6, (100,) * 6, (1, 2, 3, 4, 5, 6)


def same(a, b):
    return torch.equal(a.isnan(), b.isnan()) and torch.equal(a.nan_to_num(), b.nan_to_num())


class Case(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(31)

    def forms(self):
        """Calls of offs, and which dimension of the result has what is after the last end."""
        new = torch.randn
        x, w, t, d = new(100, 32), new(6, 32, 24), new(6, 24, 32), new(32, 100)
        halves, words, of_words = w.bfloat16(), new_words(6, 24, 64), new_scales(6, 24, 1)
        x64 = new(100, 64).bfloat16()
        x8, w8, d8 = random(torch.int8, 100, 32), random(torch.int8, 6, 32, 24), random(torch.int8, 32, 100)
        a, b = scales(100), scales(6, 24)
        zero, sums, scales_d = torch.ones(100, dtype=torch.int32), w8.sum(1, dtype=torch.int32), scales(6, 32)
        leaf = w.clone().requires_grad_()
        bias, e4m3 = new(6, 24), torch.float8_e4m3fn
        return {
            "rows": (lambda offs, **how: grouped_mm(x, w, offs=offs, **how), 0),
            "rows of 16 bits": (lambda offs, **how: grouped_mm(x.bfloat16(), halves, offs=offs, **how), 0),
            "rows, transposed": (lambda offs, **how: grouped_mm(d.t(), w, offs=offs, **how), 0),
            "rows, copied": (lambda offs, **how: grouped_mm(x.repeat_interleave(2, 1)[:, ::2], w,
                                                            offs=offs, **how), 0),
            "rows, bias and activation": (lambda offs,
                                          **how: grouped_mm(x, w, offs=offs, bias=bias,
                                                            activation="gelu", **how), 0),
            "rows, gradients": (lambda offs, **how: grouped_mm(x, leaf, offs=offs, bias=bias,
                                                               activation="silu", **how), 0),
            "columns": (lambda offs, **how: grouped_mm(t, d, offs=offs, **how), 1),
            "depth": (lambda offs, **how: grouped_mm(d, x, offs=offs, **how), None),
            "depth, transposed": (lambda offs, **how: grouped_mm(x.t(), d.t(), offs=offs, **how), None),
            "int8": (lambda offs, **how: scaled_grouped_mm(x8, w8, a, b, offs, **how), 0),
            "zero points": (lambda offs, **how: scaled_grouped_mm(x8, w8, a, b, offs, zero_x=zero,
                                                                  sums_w=sums, **how), 0),
            "e4m3 columns": (lambda offs, **how: scaled_grouped_mm(w8.to(e4m3).mT, x8.to(e4m3).t(), b, a,
                                                                   offs, **how), 1),
            "int8 depth": (lambda offs, **how: scaled_grouped_mm(d8, x8, scales_d, scales_d, offs, **how),
                           None),
            "int4": (lambda offs, **how: int4_grouped_mm(x64, words, of_words, offs, **how), 0),
            "int4 bias": (lambda offs, **how: int4_grouped_mm(x64, words, of_words, offs, bias.bfloat16(),
                                                              "relu", **how), 0),
        }


class EndsOnHost(Case):
    """On the CPU ends are looked at before each run."""

    def setUp(self):
        super().setUp()
        if not on_cpu():
            self.skipTest("a GPU refuses groups")

    def test_wrong(self):
        """The same words with the module _eager, which has run such a call before, and without."""
        for form, (call, _) in self.forms().items():
            for _ in range(2):
                call(ends(*RIGHT[0]))
            for words, cuts in WRONG.items():
                with self.subTest(form):
                    with self.assertRaises(ValueError) as caught:
                        call(ends(*cuts))
                    self.assertEqual(str(caught.exception), words)
                    assert_fails_alike(self, lambda: call(ends(*cuts)))
            for cuts in RIGHT:
                self.assertIsNotNone(call(ends(*cuts)), form)

    def test_nothing_is_queued(self):
        for form, (call, _) in self.forms().items():
            call(ends(*RIGHT[0]))
            with slow_runs() as runs:
                self.assertRaises(ValueError, call, ends(*RIGHT[0][:5], 101))
            self.assertEqual(runs.call_count, 0, form)

    def test_known_calls_look(self):
        """Calls that the module _eager runs hold other ends, and see them."""
        if bt.eager is Nothing:
            self.skipTest("the module _eager is not there")
        offs = ends(*RIGHT[0])
        for form, (call, _) in self.forms().items():
            offs.copy_(ends(*RIGHT[0]))
            call(offs)
            offs[5] = 101
            with self.assertRaisesRegex(ValueError, "group 5 ends at 101", msg=form):
                call(offs)

    def test_nothing_else(self):
        """Sizes of 0, where nothing is to be run."""
        for x, w in ((torch.ones(0, 3), torch.ones(2, 3, 4)), (torch.ones(5, 3), torch.ones(2, 3, 0)),
                     (torch.ones(3, 0), torch.ones(0, 4))):
            grouped_mm(x, w, offs=ends(0, 0))
            with self.assertRaisesRegex(ValueError, "group 1 ends at 6, beyond the"):
                grouped_mm(x, w, offs=ends(0, 6))
        self.assertEqual(grouped_mm(torch.ones(5, 3), torch.ones(0, 3, 4), offs=ends()).shape, (5, 4))

    def test_offs_of_any_strides(self):
        x, w = torch.randn(10, 4), torch.randn(3, 4, 5)
        for offs in ends(3, 99, 7, 98, 11)[::2], torch.cat([ends(0), ends(3, 7, 11)])[1:]:
            for _ in range(2):
                with self.assertRaisesRegex(ValueError, "group 2 ends at 11"):
                    grouped_mm(x, w, offs=offs)

    def test_gradients(self):
        """Ends that have changed after forward are missed in backward."""
        x, w = torch.randn(10, 4, requires_grad=True), torch.randn(3, 4, 5, requires_grad=True)
        offs = ends(3, 7, 10)
        for _ in range(2):
            torch.autograd.grad(grouped_mm(x, w, offs=offs).sum(), (x, w))
        y = grouped_mm(x, w, offs=offs)
        offs.data[2] = 11
        with self.assertRaisesRegex(ValueError, "group 2 ends at 11"):
            torch.autograd.grad(y.sum(), (x, w))

    def test_compiled(self):
        compiled = torch.compile(lambda x, w, offs: grouped_mm(x, w, offs=offs, activation="silu") + 1,
                                 fullgraph=True, backend="aot_eager")
        x, w = torch.randn(10, 4), torch.randn(3, 4, 5)
        for leaf in w, w.clone().requires_grad_():
            self.assertEqual(compiled(x, leaf, ends(3, 7, 10)).shape, (10, 5))
            with self.assertRaisesRegex(ValueError, "group 2 ends at 11, beyond the 10"):
                compiled(x, leaf, ends(3, 7, 11))

    def test_memory_after(self):
        """Nothing after x, offs and the result is touched, whatever the bounds of programs are."""
        for rows in 97, 100, 127:
            x, w = torch.randn(rows, 48), torch.randn(6, 48, 40)
            want = reference(x, w, ends(20, 35, 50, 60, 90, rows))
            for fill in None, 0, math.nan:
                for _ in range(20):
                    y = grouped_mm(x, w, offs=ends(20, 35, 50, 60, 90, rows), fill=fill)
                    self.assertRaises(ValueError, grouped_mm, x, w, offs=ends(20, 35, 50, 60, 90, rows + 1),
                                      fill=fill)
                self.assertEqual(y.untyped_storage().nbytes(), 4 * rows * 40)
                self.assertTrue(torch.allclose(y, want, rtol=1e-4, atol=1e-4))


class Fill(Case):
    def test_fill(self):
        """What is after the last end is 0 or NaN, and the rest as it is without."""
        for form, (call, dim) in self.forms().items():
            for cuts in RIGHT + ((0, 40, 40, 60, 77, 90),):
                plain = call(ends(*cuts))
                for fill in 0, 0.0, False, math.nan:
                    for _ in range(2):
                        y = call(ends(*cuts), fill=fill)
                        self.assertEqual((y.dtype, y.shape, y.stride()),
                                         (plain.dtype, plain.shape, plain.stride()))
                        if dim is None:
                            self.assertTrue(torch.equal(y, plain), form)
                            continue
                        last = cuts[-1]
                        rest = y.narrow(dim, last, 100 - last)
                        self.assertTrue(torch.equal(y.narrow(dim, 0, last), plain.narrow(dim, 0, last)),
                                        f"{form} {cuts} {fill}")
                        self.assertTrue(same(rest, torch.full_like(rest, fill)), f"{form} {cuts} {fill}")

    def test_known_calls(self):
        """The module _eager knows them apart, and fills."""
        if bt.eager is Nothing:
            self.skipTest("the module _eager is not there")
        for form, (call, dim) in self.forms().items():
            if form == "rows, copied" or dim is None:
                continue
            fills, offs = (None, 0, math.nan), ends(0, 40, 40, 60, 77, 90)
            for _ in range(2):  # where many programs are kept the first ones leave nothing
                for fill in fills:
                    call(offs, fill=fill)
            with slow_runs() as runs:
                ys = [call(offs, fill=fill).narrow(dim, 90, 10) for fill in fills]
            self.assertEqual(runs.call_count, 0, form)
            self.assertTrue(not ys[1].any() and ys[2].isnan().all(), form)

    def test_no_groups(self):
        x = torch.ones(5, 3)
        for fill, want in (None, 0), (0, 0), (math.nan, math.nan):
            self.assertTrue(same(grouped_mm(x, torch.ones(0, 3, 4), offs=ends(), fill=fill),
                                 torch.full((5, 4), want)))
            self.assertTrue(torch.equal(grouped_mm(torch.ones(3, 0), torch.ones(0, 4), offs=ends(0, 0),
                                                   fill=fill), torch.zeros(2, 3, 4)))
        self.assertTrue(torch.equal(grouped_mm(x[None], torch.ones(1, 3, 4), fill=math.nan),
                                    torch.full((1, 5, 4), 3.0)))

    def test_gradients(self):
        """Those of rows that belong to no group are 0, whatever these are filled with, and tangents are
        filled too."""
        x, w = torch.randn(10, 4, requires_grad=True), torch.randn(2, 4, 3, requires_grad=True)
        bias, offs = torch.randn(2, 3, requires_grad=True), ends(3, 7)
        for activation in ACTIVATIONS:
            want = torch.autograd.grad(grouped_mm(x, w, offs=offs, bias=bias,
                                                  activation=activation)[:7].sum(), (x, w, bias))
            for fill in 0, math.nan:
                y = grouped_mm(x, w, offs=offs, bias=bias, activation=activation, fill=fill)
                self.assertTrue(same(y[7:], torch.full((3, 3), fill)), activation)
                for g, h in zip(torch.autograd.grad(y[:7].sum(), (x, w, bias)), want):
                    self.assertTrue(torch.equal(g, h), activation)
                y, t = torch.func.jvp(lambda *a: grouped_mm(a[0], a[1], offs=offs, bias=a[2],
                                                            activation=activation, fill=fill), (x, w, bias),
                                      (x, w, bias))
                self.assertTrue(same(y[7:], torch.full((3, 3), fill))
                                and same(t[7:], torch.full((3, 3), fill)), activation)

    def test_compiled(self):
        x, w, offs = torch.randn(10, 4), torch.randn(2, 4, 3), ends(3, 7)
        for fill in 0, math.nan:
            compiled = torch.compile(lambda x: grouped_mm(x, w, offs=offs, fill=fill) + 1, fullgraph=True,
                                     backend="aot_eager")
            self.assertTrue(same(compiled(x), grouped_mm(x, w, offs=offs, fill=fill) + 1))

    def test_refuses(self):
        x, w, offs = torch.randn(10, 4), torch.randn(2, 4, 3), ends(3, 7)
        for fill in 1, math.inf, -1.5:
            with self.assertRaisesRegex(ValueError, f"fill is {float(fill)}: it must be None, 0 or NaN|fill "
                                        f"is {fill}: it"):
                grouped_mm(x, w, offs=offs, fill=fill)
            assert_fails_alike(self, lambda: grouped_mm(x, w, offs=offs, fill=fill))
            with self.assertRaisesRegex(ValueError, "it must be None, 0 or NaN"):
                grouped_mm(x.to("meta"), w.to("meta"), offs=offs.to("meta"), fill=fill)


class Check(Case):
    def test_check(self):
        """It is an error before the product, on a GPU too."""
        for form, (call, _) in self.forms().items():
            for words, cuts in WRONG.items():
                with self.assertRaises(ValueError, msg=form) as caught:
                    call(ends(*cuts), check=True)
                self.assertEqual(str(caught.exception), words)
            for cuts in RIGHT:
                self.assertTrue(torch.equal(call(ends(*cuts), check=True, fill=0), call(ends(*cuts), fill=0)),
                                form)
        x, w = torch.ones(3, 2, 4), torch.ones(3, 4, 5)
        self.assertEqual(grouped_mm(x, w, check=True).shape, (3, 2, 5))

    def test_other_mistakes(self):
        """They keep their own words."""
        x, w, offs = torch.ones(10, 4), torch.ones(3, 4, 5), ends(3, 7, 10)
        for words, call in (
            ("offs is torch.int64 of 1 dimensions", lambda: grouped_mm(x, w, offs=offs.long(), check=True)),
            ("offs is torch.int32 of 2 dimensions", lambda: grouped_mm(x, w, offs=offs[None], check=True)),
            ("offs is None", lambda: grouped_mm(x, w, check=True)),
                ("x has 1 dimensions", lambda: grouped_mm(x[0], w, offs=offs, check=True)),
        ):
            with self.assertRaisesRegex((TypeError, ValueError), words):
                call()


class EndsOnHostAlone(Alone, EndsOnHost):
    pass


class FillAlone(Alone, Fill):
    pass


class CheckAlone(Alone, Check):
    pass


if __name__ == "__main__":
    unittest.main()
