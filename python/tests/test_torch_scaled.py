"""Tests of batchgemm.torch.scaled_grouped_mm on tensors of the CPU. check_cuda.py has those that need a
GPU."""

import unittest
from unittest import mock

try:
    import torch
except ImportError as missing:
    raise unittest.SkipTest(f"no PyTorch: {missing}")

from torch.utils._python_dispatch import TorchDispatchMode

import batchgemm.torch as bt
from batchgemm import _operators as bo, _programs as bp
from batchgemm._optional import Nothing
from batchgemm.torch import scaled_grouped_mm
from tensors import (ACTIVATIONS, LAYOUTS, ROUNDED, ends, exact, on_cpu, quiet, random, reference, scales,
                     slow_runs)


class ScaledNumbers(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(7)

    def check(self, x, w, scale_x, scale_w, offs=None, bias=None, activation=None, out_dtype=torch.bfloat16,
              name=""):
        y, again = (scaled_grouped_mm(x, w, scale_x, scale_w, offs, bias, activation, out_dtype)
                    for _ in range(2))
        want, limit = exact(x, w, scale_x, scale_w, offs, bias, activation, out_dtype)
        self.assertEqual((y.dtype, y.shape), (out_dtype, want.shape), name)
        if offs is not None and x.dim() + w.dim() == 5:
            y, again, want, limit = (t.narrow(1 if x.dim() == 3 else 0, 0, offs[-1].item())
                                     for t in (y, again, want, limit))
        self.assertTrue(torch.equal(y, again), f"{name}: the second call")
        error = (y.double() - want).abs()
        self.assertTrue(bool((error <= limit).all()),
                        f"{name}: {(error / limit).max() if error.numel() else error}")

    def forms(self, dtype):
        """x, w, offs, and the shapes of scales, the first with one for each row and column."""
        offs, new = ends(5, 5, 19, 30), lambda *shape: random(dtype, *shape)
        return {
            "rows": (new(33, 20), new(4, 20, 12), offs, [(33,), (), (1,)], [(4, 12), (4,), (), (1, 1)]),
            "columns": (new(4, 12, 20), new(20, 33), offs, [(4, 12), (4,), ()], [(33,), (), (1,)]),
            "depth": (new(9, 33), new(33, 12), offs, [(4, 9), (36,), ()], [(4, 12), (48,), ()]),
            "batched": (new(4, 9, 20), new(4, 20, 12), None, [(4, 9), (4,), ()], [(4, 12), (4,), (1,)]),
        }

    def test_forms_scales_and_types(self):
        for dtype in bp.SCALED:
            for form, (x, w, offs, of_x, of_w) in self.forms(dtype).items():
                for shape_x in of_x:
                    for shape_w in of_w:
                        for out in bp.TYPES:
                            self.check(x, w, scales(*shape_x), scales(*shape_w), offs, out_dtype=out,
                                       name=f"{form} {dtype} {shape_x} {shape_w} {out}")

    def test_strides(self):
        for dtype in bp.SCALED:
            for form, (x, w, offs, of_x, of_w) in self.forms(dtype).items():
                scale_x, scale_w = scales(*of_x[0]), scales(*of_w[0])
                for name, lay in LAYOUTS.items():
                    turned = [lay(t.view(torch.int8)).view(dtype) for t in (x, w)]  # torch pads no e4m3
                    self.check(turned[0], w, scale_x, scale_w, offs, name=f"x {form} {name} {dtype}")
                    self.check(x, turned[1], scale_x, scale_w, offs, name=f"w {form} {name} {dtype}")
            x, w, offs, _, _ = self.forms(dtype)["rows"]
            scale_x, scale_w = scales(33), scales(4, 12)
            self.check(x, w[:1].expand(w.shape), scale_x, scale_w, offs, name="one w for all groups")
            self.check(x, w, scale_x, scale_w, torch.cat([ends(0), offs])[1:], name="offs begin late")
            for name, lay in {
                "every other": lambda t: t.repeat_interleave(2, -1)[..., ::2],
                    "begins late": lambda t: torch.cat([t[..., :1], t], -1)[..., 1:],
                "one for all": lambda t: t.flatten()[0].expand(t.shape),
                    "turned": lambda t: t.t().contiguous().t(),
            }.items():
                self.check(x, w, lay(scale_x), lay(scale_w), offs, name=f"scales {name} {dtype}")

    def test_sizes(self):
        for dtype in bp.SCALED:
            for name, (rows, k, n, cuts) in {
                "one": (1, 1, 1, [1]), "no group has rows": (5, 4, 3, [0, 0]), "no rows": (0, 4, 3, [0, 0]),
                    "no columns": (5, 4, 0, [2, 5]),
                "no depth": (5, 0, 3, [2, 5]), "the first": (7, 8, 9, [7, 7, 7]),
                    "many": (64, 16, 8, list(range(1, 65))), "k of 1": (9, 1, 9, [4, 9]),
            }.items():
                groups, new = len(cuts), lambda *shape: random(dtype, *shape)
                self.check(new(rows, k), new(groups, k, n), scales(rows), scales(groups, n), ends(*cuts),
                           torch.randn(groups, n).bfloat16(), name=name)
                self.check(new(n, rows), new(rows, k), scales(groups, n), scales(groups, k), ends(*cuts),
                           name=name + ", depth")
                self.check(new(groups, n, k), new(k, rows), scales(groups, n), scales(rows), ends(*cuts),
                           name=name + ", columns")
                self.check(new(groups, rows, k), new(groups, k, n), scales(groups, rows), scales(groups, n),
                           name=name + ", batched")
            x, w = random(dtype, 0, 3), random(dtype, 0, 3, 4)
            self.assertEqual(scaled_grouped_mm(x, w, scales(0), scales(0, 4), ends()).shape, (0, 4))
            self.assertEqual(scaled_grouped_mm(w, w.transpose(1, 2), scales(0, 3), scales()).shape, (0, 3, 3))

    def test_bias_and_activation(self):
        for dtype in bp.SCALED:
            for form in "rows", "batched":
                x, w, offs, of_x, of_w = self.forms(dtype)[form]
                for activation in ACTIVATIONS:
                    for out in bp.TYPES:
                        for name, bias in {
                            "none": None, "of each": torch.randn(4, 12).to(out),
                                "of all": torch.randn(12).to(out),
                            "begins late": torch.randn(4, 15).to(out)[:, 1:13],
                                "turned": torch.randn(12, 4).to(out).t(),
                        }.items():
                            self.check(x, w, scales(*of_x[0]), scales(*of_w[0]), offs, bias, activation, out,
                                       f"{form} {dtype} {activation} {out} {name}")

    def test_one_array(self):
        """Scales that lie as kernels want them are not copied; others are, wherever they lie."""
        x, w, offs = random(torch.float8_e4m3fn, 9, 32), random(torch.float8_e4m3fn, 3, 32, 5), ends(2, 2, 9)
        whole = scales(40)
        turned = whole[4:19].view(5, 3).t()
        for name, scale_x, scale_w, copies in (
            ("after", whole[19:28], whole[4:19].view(3, 5), 0),
                ("before", whole[4:13], whole[16:31].view(3, 5), 1),
                ("apart", whole[20:29], whole[4:19].view(3, 5), 1),
            ("not aligned", whole[20:29], whole[5:20].view(3, 5), 1), ("turned", whole[19:28], turned, 1),
                ("every other", whole[19:37:2], whole[4:19].view(3, 5), 1),
            ("of each matrix", whole[7:16], whole[4:7], 1), ("of all", whole[5:14], whole[4:5], 1),
        ):
            with mock.patch.object(torch, "cat", side_effect=torch.cat) as cat:
                y = scaled_grouped_mm(x, w, scale_x, scale_w, offs=offs)
            self.assertEqual(cat.call_count, copies, name)
            self.assertTrue(torch.equal(y, scaled_grouped_mm(x, w, scale_x.clone(), scale_w.clone(),
                                                             offs=offs)), name)
            self.check(x, w, scale_x, scale_w, offs, name=name)

    def test_integers(self):
        """Whole numbers, times powers of two, have no error: of int8 all that there are."""
        offs = ends(7, 7, 40)
        for dtype in bp.SCALED:
            most, depth = (128, 900) if dtype is torch.int8 else (9, 100)
            new = lambda *shape: torch.randint(-most, most, shape).float().to(dtype)
            x, w = new(40, depth), new(3, depth, 16)
            powers = lambda *shape: 2.0 ** torch.randint(-8, 9, shape)
            scale_x, scale_w = powers(40), powers(3, 16)
            want = reference(x.double() * scale_x[:, None], w.double() * scale_w[:, None], offs)
            self.assertTrue(torch.equal(scaled_grouped_mm(x, w, scale_x, scale_w, offs,
                                                          out_dtype=torch.float32).double(), want), dtype)

    def test_zeros(self):
        """Scales of 0, and no others, give the bias alone. Not a number stays in its row."""
        for dtype in bp.SCALED:
            x, w, offs, _, _ = self.forms(dtype)["rows"]
            scale_x, scale_w, bias = scales(33), scales(4, 12), torch.randn(4, 12)
            scale_x[:7], scale_w[2, 3:] = 0, 0
            self.check(x, w, scale_x, scale_w, offs, bias, "relu", torch.float32, f"{dtype}")
            y = scaled_grouped_mm(x, w, scale_x, scale_w, offs, bias, out_dtype=torch.float32)
            self.assertTrue(torch.equal(y[:5], bias[0].expand(5, 12))
                            and torch.equal(y[5:19, 3:], bias[2, 3:].expand(14, 9)), dtype)
        x, w, offs, _, _ = self.forms(torch.float8_e4m3fn)["rows"]
        x = torch.where(torch.arange(33)[:, None] == 8, float("nan"), x.float()).to(x.dtype)
        y = scaled_grouped_mm(x, w, scales(33), scales(4, 12), offs)[:30]
        self.assertTrue(bool(y[8].isnan().all()) and not bool(y[:8].isnan().any() or y[9:].isnan().any()))


class ScaledTorch(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(8)
        self.x, self.w = random(torch.float8_e4m3fn, 10, 8), random(torch.float8_e4m3fn, 3, 8, 5)
        self.offs = ends(3, 3, 10)
        self.scale_x, self.scale_w = scales(10), scales(3, 5)

    def call(self, **more):
        return scaled_grouped_mm(self.x, self.w, self.scale_x, self.scale_w, offs=self.offs, **more)

    def test_opcheck(self):
        if not on_cpu():
            self.skipTest("opcheck multiplies arguments, which torch cannot of e4m3")
        x, w = self.x.to(torch.int8), self.w.to(torch.int8)
        operator = torch.ops.batchgemm.scaled_grouped_mm.default
        for args in (
            (x, w, self.offs, None, "", torch.bfloat16, None, self.scale_x, self.scale_w, None, None),
            (x, w, self.offs, torch.randn(3, 5), "silu", torch.float32, 0.0, scales(), scales(3), None, None),
            (x, w, self.offs, torch.randn(3, 5).requires_grad_(), "silu", torch.float32, None, scales(),
             scales(3), None, None),
            (x, random(torch.int8, 8, 4), self.offs.clamp(max=8), None, "", torch.float16, None,
             scales(3, 10), scales(12), None, None),
            (w, w.transpose(1, 2), None, None, "relu", torch.bfloat16, None, scales(3, 8), scales(3, 8),
             None, None),
            (x, w, self.offs, None, "", torch.bfloat16, None, self.scale_x, self.scale_w,
             torch.ones(10, dtype=torch.int32), w.sum(1, dtype=torch.int32)),
        ):
            torch.library.opcheck(operator, (*args, None))

    def test_dispatcher(self):
        seen = []

        class Mode(TorchDispatchMode):
            def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
                seen.append(str(operator))
                return operator(*args, **(kwargs or {}))

        want = self.call()
        with Mode():
            self.assertTrue(torch.equal(self.call(), want))
        self.assertIn("batchgemm.scaled_grouped_mm.default", seen)
        meta = scaled_grouped_mm(*(t.to("meta") for t in (self.x, self.w, self.scale_x, self.scale_w,
                                                          self.offs)))
        self.assertEqual((meta.device.type, meta.shape, meta.dtype), ("meta", (10, 5), torch.bfloat16))

    def test_compile(self):
        def layer(x, w, scale_x, scale_w, offs, bias):
            h = scaled_grouped_mm(x, w, scale_x * 2, scale_w, offs=offs, bias=bias, activation="silu")
            return h.float().square().sum(1)

        compiled = torch.compile(layer, fullgraph=True, backend="aot_eager", dynamic=True)
        for dtype in bp.SCALED:
            for rows in 10, 12, 31:
                args = (random(dtype, rows, 8), random(dtype, 3, 8, 5), scales(rows), scales(3, 5),
                        ends(3, 3, rows), torch.randn(5).bfloat16())
                self.assertTrue(torch.equal(compiled(*args), layer(*args)), f"{dtype} {rows}")

    def test_gradient_of_bias(self):
        for dtype in bp.SCALED:
            x, w = random(dtype, 10, 8), random(dtype, 3, 8, 5)
            for activation in ACTIVATIONS:
                for out in bp.TYPES:
                    bias, gy = torch.randn(3, 5).to(out).requires_grad_(), torch.randn(10, 5).to(out)
                    y = scaled_grouped_mm(x, w, self.scale_x, self.scale_w, self.offs, bias, activation, out)
                    double = bias.detach().double().requires_grad_()
                    z = reference(x.double() * self.scale_x[:, None], w.double() * self.scale_w[:, None],
                                  self.offs, double, activation)
                    (got,) = torch.autograd.grad(y, bias, gy)
                    (want,) = torch.autograd.grad(z, double, gy.double())
                    self.assertEqual((y.dtype, got.dtype, got.shape), (out, out, bias.shape))
                    self.assertLess((got.double() - want).abs().max(), 8 * ROUNDED[out] * want.abs().max() +
                                    1e-3 * (not on_cpu()), f"{dtype} {activation} {out}")

    def test_no_gradient(self):
        """Those that are not there are missed in backward, whoever calls, and only where they are wanted."""
        bias = torch.zeros(5, dtype=torch.bfloat16, requires_grad=True)
        operands = {"x": self.x, "w": self.w, "scale_x": self.scale_x, "scale_w": self.scale_w}
        for name in operands:
            given = {**operands, name: operands[name].detach().requires_grad_()}
            x, w, a, b = given.values()
            by_dispatcher = torch.ops.batchgemm.scaled_grouped_mm(x, w, self.offs, bias, "", torch.bfloat16,
                                                                  None, a, b, None, None, None)
            for y in scaled_grouped_mm(**given, offs=self.offs, bias=bias), by_dispatcher:
                self.assertEqual(torch.autograd.grad(y.sum(), bias, retain_graph=True)[0].shape, bias.shape)
                with self.assertRaisesRegex(NotImplementedError,
                                            f"scaled_grouped_mm has no gradient to {name}"):
                    y.sum().backward()
            with torch.no_grad():
                self.assertFalse(scaled_grouped_mm(**given, offs=self.offs, bias=bias).requires_grad)
        y = scaled_grouped_mm(self.w.transpose(1, 2), self.x.t(), self.scale_w, self.scale_x.requires_grad_(),
                              self.offs)
        with self.assertRaisesRegex(NotImplementedError,
                                    r"no gradient to scale_x \(where offs cuts columns: scale_w\)"):
            y.sum().backward()
        with quiet(), self.assertRaisesRegex(Exception, "scaled_grouped_mm has no gradient to scale_x"):
            torch.compile(self.call, fullgraph=True, backend="aot_eager")().sum().backward()

    def test_modes(self):
        want = self.call()
        with torch.autocast(self.x.device.type, dtype=torch.float16):  # types are said
            self.assertTrue(torch.equal(self.call(), want))
        with torch.inference_mode():
            self.assertTrue(torch.equal(self.call(), want))
        minus = torch.complex(self.scale_x, -self.scale_x).conj().imag  # the memory has the negative of it
        self.assertTrue(minus.is_neg())
        self.assertTrue(torch.equal(scaled_grouped_mm(self.x, self.w, minus, self.scale_w, offs=self.offs),
                                    want))

    def test_programs(self):
        """Numbers of rows that are near share a program, and a second call plans nothing."""
        def key(rows):
            given = random(torch.int8, rows, 8), random(torch.int8, 2, 8, 4), ends(0, rows)
            metas = [bp.meta(t, 0) for t in (*given, scales(rows), scales(2, 4))]
            return bp.call_of(*metas[:3], None, "", torch.bfloat16, 0, *metas[3:]).key

        self.assertEqual({key(rows) for rows in range(961, 1025)}, {key(1024)})
        self.call()
        kept = bp.programs_of(self.x.get_device()).kept
        before = len(kept)
        with slow_runs() as runs:
            self.call()
        self.assertEqual((len(kept), runs.call_count), (before, bt.eager is Nothing))

    def test_refuses(self):
        x, w, a, b, offs = self.x, self.w, self.scale_x, self.scale_w, self.offs
        call = scaled_grouped_mm
        for words, error, wrong in (
            ("x is torch.bfloat16: it must be float8_e4m3fn or int8", TypeError,
             lambda: call(x.bfloat16(), w.bfloat16(), a, b, offs)),
            ("x is torch.float8_e5m2", TypeError, lambda: call(x.to(torch.float8_e5m2), w, a, b, offs)),
            ("w is torch.int8, x is torch.float8_e4m3fn", TypeError,
             lambda: call(x, w.to(torch.int8), a, b, offs)),
            ("out_dtype is torch.float64", TypeError,
             lambda: call(x, w, a, b, offs, out_dtype=torch.float64)),
            ("out_dtype is torch.float8_e4m3fn", TypeError,
             lambda: call(x, w, a, b, offs, out_dtype=x.dtype)),
            ("scale_x is torch.float64: it must be float32", TypeError,
             lambda: call(x, w, a.double(), b, offs)),
            ("scale_w is torch.bfloat16: it must be float32", TypeError,
             lambda: call(x, w, a, b.bfloat16(), offs)),
            ("scale_x has the shape (9,): it must be (10,), or have one element", ValueError,
             lambda: call(x, w, a[:9], b, offs)),
            ("scale_x has the shape (10, 1)", ValueError, lambda: call(x, w, a[:, None], b, offs)),
            ("scale_w has the shape (3, 4): it must be (3,) or (3, 5), or have one element", ValueError,
             lambda: call(x, w, a, b[:, :4], offs)),
            ("scale_w has the shape (5,)", ValueError, lambda: call(x, w, a, b[0], offs)),
            ("scale_x has the shape (8,): it must be (3, 8) or (24,)", ValueError,
             lambda: call(x.t(), x, a[:8], scales(3, 8), offs)),
            ("scale_x is on meta, x on ", ValueError,
             lambda: bo.run(x, w, offs, None, "", torch.bfloat16, None, a.to("meta"), b, None, None, None)),
            ("scale_w is on meta, x on ", ValueError,
             lambda: bo.run(x, w, offs, None, "", torch.bfloat16, None, a, b.to("meta"), None, None, None)),
            ("scale_x is NoneType: it must be a tensor", TypeError, lambda: call(x, w, None, b, offs)),
            ("scale_w is float: it must be a tensor", TypeError, lambda: call(x, w, a, 0.5, offs)),
            ("x has 7 columns, w has 8 rows", ValueError, lambda: call(x[:, :7], w, a, b, offs)),
            ("offs is None", ValueError, lambda: call(x, w, a, b)),
            ("offs is torch.int64", TypeError, lambda: call(x, w, a, b, offs.long())),
            ("offs has 2 groups, w has 3", ValueError, lambda: call(x, w, a, b, offs[:2])),
            ("bias is torch.float32, the result is torch.bfloat16", TypeError,
             lambda: call(x, w, a, b, offs, torch.zeros(5))),
            ("bias has the shape (4,)", ValueError,
             lambda: call(x, w, a, b, offs, torch.zeros(4).bfloat16())),
            ("bias: none where offs cuts columns", ValueError,
             lambda: call(w, x.t()[:5], a, b, offs, torch.zeros(10).bfloat16())),
            ("x has 7 columns, w has 8 rows", ValueError, lambda: call(w.mT[..., :7], x.t(), b, a, offs)),
            ("offs has 2 groups, x has 3", ValueError, lambda: call(w.mT, x.t(), b, a, offs[:2])),
            ("scale_x has the shape (3, 4): it must be (3,) or (3, 5), or have one element", ValueError,
             lambda: call(w.mT, x.t(), b[:, :4], a, offs)),
            ("scale_w has the shape (9,): it must be (10,), or have one element", ValueError,
             lambda: call(w.mT, x.t(), b, a[:9], offs)),
            ("scale_w is torch.float64: it must be float32", TypeError,
             lambda: call(w.mT, x.t(), b, a.double(), offs)),
            ("bias and activation: none", ValueError, lambda: call(x.t(), x, scales(3, 8), scales(3, 8), offs,
                                                                   activation="silu")),
            ("activation 'tanh'", ValueError, lambda: call(x, w, a, b, offs, activation="tanh")),
        ):
            with self.assertRaises(error, msg=words) as caught:
                wrong()
            self.assertIn(words, str(caught.exception))


if __name__ == "__main__":
    unittest.main()
