"""Tests of batchgemm.torch.int4_grouped_mm on tensors of the CPU."""

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
from batchgemm.torch import int4_grouped_mm, quantize_int4
from tensors import ACTIVATIONS, LAYOUTS, ROUNDED, bound, ends, quiet, reference, slow_runs

TYPES = torch.bfloat16, torch.float16
NIBBLES = 0, 4, 1, 5, 2, 6, 3, 7  # of each of eight weights


def new_words(groups, ld, k):
    """w with that many columns."""
    return torch.randint(-(2**31), 2**31, (groups, k // 64, ld, 8)).to(torch.int32)


def new_scales(groups, ld, count, powers=False):
    """scale_w of so many groups along K; the numbers of powers are whole ones, times powers of two."""
    shape = groups, count, ld
    scales = 2.0 ** torch.randint(-3, 4, shape) if powers else (torch.rand(shape) - 0.5) / 8
    return (scales.float().view(torch.int32) & -16) | torch.randint(0, 16, shape).to(torch.int32)


def numbers(w, scale_w, n=None):
    """What weights stand for, in float64, as w of grouped_mm."""
    words, groups = w.contiguous().view(torch.int32), scale_w.contiguous().view(torch.int32)
    weights = torch.stack([words >> 4 * at & 15 for at in NIBBLES], -1)  # [groups, panels, ld, 8, 8]
    weights = weights.transpose(1, 2).flatten(2).transpose(1, 2).double()
    if weights.numel():
        group = weights.shape[1] // groups.shape[1]
        scales, zeros = (t.repeat_interleave(group, 1) for t in ((groups & -16).view(torch.float32),
                                                                 groups & 15))
        weights = scales.double() * (weights - zeros)
    return weights[..., :n]


class Int4Numbers(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(11)

    def check(self, x, w, scale_w, offs=None, bias=None, activation=None, out_dtype=None, name="", n=None):
        out = out_dtype or x.dtype
        y, again = (int4_grouped_mm(x, w, scale_w, offs, bias, activation, out_dtype, n) for _ in range(2))
        doubles = x.double(), numbers(w, scale_w,
                                      n), offs, None if bias is None else bias.double(), activation
        want, limit = reference(*doubles), bound(*doubles, out)
        self.assertEqual((y.dtype, y.shape), (out, want.shape), name)
        if offs is not None:
            y, again, want, limit = (t[: offs[-1].item()] for t in (y, again, want, limit))
        self.assertTrue(torch.equal(y, again), f"{name}: the second call")
        error = (y.double() - want).abs()
        self.assertTrue(bool((error <= limit).all()),
                        f"{name}: {(error / limit).max() if error.numel() else error}")

    def forms(self, dtype, group=128, k=256):
        w, scale_w = new_words(4, 16, k), new_scales(4, 16, k // group)
        return {
            "rows": (torch.randn(33, k).to(dtype), w, scale_w, ends(5, 5, 19, 30)),
            "batched": (torch.randn(4, 9, k).to(dtype), w, scale_w, None),
        }

    def test_forms_and_types(self):
        for dtype in TYPES:
            for group in 64, 128:
                for form, (x, w, scale_w, offs) in self.forms(dtype, group).items():
                    for out in dtype, torch.float32:
                        for of_w in torch.int32, torch.uint8:
                            for of_scale in torch.int32, torch.float32:
                                self.check(x, w.view(of_w), scale_w.view(of_scale), offs, out_dtype=out,
                                           name=f"{form} {group} {dtype} {out} {of_w} {of_scale}")

    def test_strides(self):
        for form, (x, w, scale_w, offs) in self.forms(torch.bfloat16).items():
            for name, lay in LAYOUTS.items():
                self.check(lay(x), w, scale_w, offs, name=f"x {form} {name}")
                self.check(x, lay(w), scale_w, offs, name=f"w {form} {name}")
                self.check(x, lay(w.view(torch.uint8)), scale_w, offs, name=f"bytes of w {form} {name}")
                self.check(x, w, lay(scale_w), offs, name=f"scale_w {form} {name}")
            self.check(x, w[:1].expand(w.shape), scale_w, offs, name="one w for all groups")
            self.check(x, torch.cat([w, w], 1)[:, : w.shape[1]], scale_w, offs, name="groups far apart")
            self.check(x, torch.cat([w, w], 2)[:, :, :16], scale_w, offs, name="panels far apart")
            self.check(x, w.flip(0)[1:2].expand(w.shape), scale_w[1:2].expand(w.shape[0], -1, -1), offs,
                       name="one scale_w for all groups")

    def test_sizes(self):
        for name, (rows, k, n, cuts) in {
            "one": (1, 64, 1, [1]), "no group has rows": (5, 64, 3, [0, 0]), "no rows": (0, 64, 3, [0, 0]),
                "no columns": (5, 64, 0, [2, 5]),
            "no depth": (5, 0, 3, [2, 5]), "the first": (7, 192, 9, [7, 7, 7]),
                "many": (64, 64, 8, list(range(1, 65))),
        }.items():
            groups = len(cuts)
            for ld in (n + 7) // 8 * 8, (n + 7) // 8 * 8 + 16:
                w, scale_w = new_words(groups, ld, k), new_scales(groups, ld, k // 64)
                bias = torch.randn(groups, n).bfloat16()
                self.check(torch.randn(rows, k).bfloat16(), w, scale_w, ends(*cuts), bias,
                           name=f"{name} {ld}", n=n)
                self.check(torch.randn(groups, rows, k).bfloat16(), w, scale_w, name=f"{name} {ld}, batched",
                           n=n)
        self.assertEqual(int4_grouped_mm(torch.zeros(0, 64).half(), new_words(0, 8, 64), new_scales(0, 8, 1),
                                         ends()).shape, (0, 8))

    def test_bias_and_activation(self):
        for form, (x, w, scale_w, offs) in self.forms(torch.float16).items():
            for activation in ACTIVATIONS:
                for out in torch.float16, torch.float32:
                    for name, bias in {
                        "none": None, "of each": torch.randn(4, 16).to(out),
                            "of all": torch.randn(16).to(out), "turned": torch.randn(16, 4).to(out).t(),
                    }.items():
                        self.check(x, w, scale_w, offs, bias, activation, out,
                                   f"{form} {activation} {out} {name}")

    def test_exact(self):
        """Whole numbers, times powers of two, have no error."""
        x, w = torch.randint(-4, 5, (40, 256)).bfloat16(), new_words(3, 16, 256)
        scale_w, offs = new_scales(3, 16, 2, powers=True), ends(7, 7, 40)
        want = reference(x.double(), numbers(w, scale_w), offs)
        self.assertTrue(torch.equal(int4_grouped_mm(x, w, scale_w, offs, out_dtype=torch.float32).double(),
                                    want))

    def test_copies(self):
        """Nothing is copied that lies as kernels want it; the rest is, and w with it whole."""
        x, w, scale_w, offs = self.forms(torch.bfloat16)["rows"]
        whole = torch.cat([scale_w.flatten(), scale_w.flatten()])
        late = whole[1 : 1 + scale_w.numel()].view(scale_w.shape)
        for name, args, copies in (
            ("none", (x, w, scale_w), 0), ("bytes", (x, w.view(torch.uint8), scale_w.view(torch.float32)), 0),
                ("one w", (x, w[:1].expand(w.shape), scale_w), 0),
            ("scales begin late", (x, w, late), 1),
                ("scales turned", (x, w, scale_w.transpose(0, 1).contiguous().transpose(0, 1)), 1),
            ("w turned", (x, LAYOUTS["transposed"](w), scale_w), 1),
                ("w begins late", (x, LAYOUTS["begins late"](w), scale_w), 1),
            ("x turned", (LAYOUTS["transposed"](x), w, scale_w), 1),
        ):
            made, plain_cat, plain_clone = [], torch.cat, torch.Tensor.clone

            def clone(t, **how):
                made.append("clone")
                # where there is a default device, that would call this again
                with torch._C.DisableTorchFunction():
                    return plain_clone(t, **how)

            with mock.patch.object(torch, "cat", lambda ts: made.append("cat")
                                   or plain_cat(ts)), mock.patch.object(torch.Tensor, "clone", clone):
                int4_grouped_mm(*args, offs)
            self.assertEqual(len(made), copies, f"{name} {made}")
            self.check(*args, offs, name=name)


class Int4Torch(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(12)
        self.x, self.w, self.offs = torch.randn(10, 128).bfloat16(), new_words(3, 8, 128), ends(3, 3, 10)
        self.scale_w = new_scales(3, 8, 1)

    def call(self, **more):
        return int4_grouped_mm(self.x, self.w, self.scale_w, offs=self.offs, **more)

    def test_quantize(self):
        weight = torch.randn(3, 5, 256)
        for group in 64, 128:
            for dtype in torch.float32, torch.bfloat16, torch.float64:
                w, scale_w = quantize_int4(weight.to(dtype).requires_grad_(), group)
                self.assertEqual((w.dtype, w.shape, scale_w.dtype, scale_w.shape),
                                 (torch.int32, (3, 4, 8, 8), torch.int32, (3, 256 // group, 8)))
                self.assertTrue(bool((scale_w[..., :5] & 15 == 8).all()) and not scale_w[..., 5:].any()
                                and not w[..., 5:, :].any())
                step = (scale_w & -16).view(torch.float32).abs().repeat_interleave(group, 1)[
                    ..., :5].transpose(1, 2)
                error = (numbers(w, scale_w, 5).transpose(1, 2) - weight.to(dtype).double()).abs()
                self.assertTrue(bool((error <= step * 1.001).all()) and error.mean() < step.mean() / 3)
        for same in weight.transpose(0, 1).contiguous().transpose(0, 1), torch.nn.Parameter(weight):
            self.assertTrue(all(torch.equal(a, b) for a,
                                b in zip(quantize_int4(same), quantize_int4(weight))))
        self.assertTrue(all(torch.equal(a[1], b) for a,
                            b in zip(quantize_int4(weight), quantize_int4(weight[1]))))
        self.assertEqual([t.shape for t in quantize_int4(torch.empty(2, 0, 128))], [(2, 2, 0, 8), (2, 1, 0)])
        for words, error, wrong in (
            ("group is 32: it must be 64 or 128", ValueError, lambda: quantize_int4(weight, 32)),
            ("K is 96: it must be a multiple of 128", ValueError, lambda: quantize_int4(weight[..., :96])),
            ("weight is torch.int32 of 4 dimensions", TypeError, lambda: quantize_int4(self.w)),
            ("weight is torch.float32 of 1 dimensions", TypeError, lambda: quantize_int4(weight[0, 0])),
        ):
            with self.assertRaises(error, msg=words) as caught:
                wrong()
            self.assertIn(words, str(caught.exception))

    def test_opcheck(self):
        x, w, scale_w, operator = self.x, self.w, self.scale_w, torch.ops.batchgemm.int4_grouped_mm.default
        for args in (
            (x, w, self.offs, None, "", None, None, None, scale_w, None, None, None),
            (x, w.view(torch.uint8), self.offs, torch.randn(3, 5), "silu", torch.float32, 0.0, None,
             new_scales(3, 8, 2), None, None, 5),
            (x[:9].view(3, 3, 128), w, None, None, "relu", torch.bfloat16, None, None, scale_w,
             None, None, 8),
            (x.detach().requires_grad_(), w, self.offs, torch.randn(3, 8).bfloat16().requires_grad_(), "gelu",
             None, None, None, scale_w, None, None, None),
        ):
            torch.library.opcheck(operator, args)

    def test_dispatcher(self):
        seen = []

        class Mode(TorchDispatchMode):
            def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
                seen.append(str(operator))
                return operator(*args, **(kwargs or {}))

        want = self.call()
        with Mode():
            self.assertTrue(torch.equal(self.call(), want))
        self.assertIn("batchgemm.int4_grouped_mm.default", seen)
        meta = int4_grouped_mm(*(t.to("meta") for t in (self.x, self.w, self.scale_w, self.offs)))
        self.assertEqual((meta.device.type, meta.shape, meta.dtype), ("meta", (10, 8), torch.bfloat16))

    def test_compile(self):
        def layer(x, w, scale_w, offs, bias):
            h = int4_grouped_mm(x * 2, w, scale_w, offs=offs, bias=bias, activation="silu", n=bias.shape[0])
            return h.float().square().sum(1)

        compiled = torch.compile(layer, fullgraph=True, backend="aot_eager", dynamic=True)
        for dtype in TYPES:
            for rows in 10, 12, 31:
                args = (torch.randn(rows, 128).to(dtype), new_words(3, 8, 128), new_scales(3, 8, 2),
                        ends(3, 3, rows), torch.randn(5).to(dtype))
                self.assertTrue(torch.equal(compiled(*args), layer(*args)), f"{dtype} {rows}")

    def test_gradients(self):
        """To x and bias, as autograd in float64 has them of the dequantised weights; the weights are rounded
        to the type of x."""
        for dtype in TYPES:
            for n in None, 5:
                x, bias = (torch.randn(shape).to(dtype).requires_grad_()
                           for shape in ((10, 128), (3, n or 8)))
                batched, w = x.detach()[:9].view(3, 3, 128).requires_grad_(), new_words(3, 8, 128)
                scale_w = new_scales(3, 8, 2)
                for activation in ACTIVATIONS:
                    for out in dtype, torch.float32:
                        for leaf, offs in (x, self.offs), (batched, None):
                            y = int4_grouped_mm(leaf, w, scale_w, offs, bias.to(out), activation, out, n)
                            self.assertTrue(y.requires_grad)
                            gy = torch.randn(y.shape).to(out)
                            doubles = [t.detach().double().requires_grad_() for t in (leaf, bias)]
                            whole = numbers(w, scale_w, n)
                            want = torch.autograd.grad(reference(doubles[0], whole, offs, doubles[1],
                                                                 activation), doubles, gy.double())
                            for g, h, t in zip(torch.autograd.grad(y, (leaf, bias), gy), want, (leaf, bias)):
                                self.assertEqual((g.dtype, g.shape), (t.dtype, t.shape))
                                error = (g.double() - h).abs().max() / h.abs().max()
                                self.assertLess(error, 4 * ROUNDED[dtype], f"{dtype} {n} {activation} {out}")

    def test_gradients_are_exact(self):
        """Whole numbers, times powers of two, have no error."""
        w, scale_w = new_words(3, 16, 256), new_scales(3, 16, 2, powers=True)
        x = torch.randint(-4, 5, (10, 256)).bfloat16().requires_grad_()
        gy = torch.randint(-2, 3, (10, 11)).float()
        gx, = torch.autograd.grad(int4_grouped_mm(x, w, scale_w, self.offs, out_dtype=torch.float32, n=11), x,
                                  gy)
        want = reference(gy.double(), numbers(w, scale_w, 11).transpose(1, 2), self.offs)
        self.assertTrue(torch.equal(gx, want.bfloat16()))
        for form in (w.view(torch.uint8), torch.cat([w, w], 1)[:, : w.shape[1]],
                     w.transpose(1, 2).contiguous().transpose(1, 2)):
            self.assertTrue(torch.equal(torch.autograd.grad(
                int4_grouped_mm(x, form, scale_w, self.offs, out_dtype=torch.float32, n=11), x, gy)[0], gx))
        for rows, k, n, cuts in ((0, 64, 3, [0, 0]), (5, 0, 3, [2, 5]), (5, 64, 0, [2, 5]),
                                 (5, 64, 3, [0, 0]), (4, 64, 3, [])):
            x = torch.randn(rows, k).half().requires_grad_()
            y = int4_grouped_mm(x, new_words(len(cuts), 8, k), new_scales(len(cuts), 8, k // 64),
                                ends(*cuts), n=n)
            self.assertEqual(torch.autograd.grad(y.sum(), x)[0].shape, x.shape)

    def test_gradients_of_gradients(self):
        for activation in ACTIVATIONS:
            sides = []
            for double in False, True:
                leaves = [t.double() if double else t.half()
                          for t in (torch.ones(10, 128) / 8, torch.ones(3, 8) / 4)]
                leaves = [t.requires_grad_() for t in leaves]
                if double:
                    y = reference(leaves[0], numbers(self.w, self.scale_w), self.offs, leaves[1], activation)
                else:
                    y = int4_grouped_mm(leaves[0], self.w, self.scale_w, self.offs, leaves[1].float(),
                                        activation, torch.float32)
                first = torch.autograd.grad(y.square().sum(), leaves, create_graph=True)
                sides.append([*first,
                              *torch.autograd.grad(sum(g.float().square().sum() if not double
                                                       else g.square().sum() for g in first), leaves)])
            for g, h in zip(*sides):
                self.assertLess((g.double() - h).abs().max(), 0.02 * h.abs().max(), activation)

    def test_trains_in_front(self):
        """A layer of frozen weights between trained ones, as in QLoRA, also compiled."""
        w, scale_w = quantize_int4(torch.randn(3, 8, 128) / 11)
        first = torch.nn.Linear(16, 128, dtype=torch.bfloat16)
        last = torch.nn.Linear(8, 1, dtype=torch.bfloat16)
        optimizer = torch.optim.Adam([*first.parameters(), *last.parameters()], 0.02)
        rows, offs = torch.randn(30, 16).bfloat16(), ends(5, 19, 30)
        model = lambda rows: last(int4_grouped_mm(first(rows), w, scale_w, offs, activation="silu")).float()
        before, losses = first.weight.detach().clone(), []
        for step in model, torch.compile(model, fullgraph=True, backend="aot_eager"):
            for _ in range(15):
                loss = (step(rows)[:, 0] - rows[:, 0].float()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                self.assertTrue(first.weight.grad.any())
                optimizer.step()
                losses.append(loss.item())
        self.assertLess(losses[-1], 0.3 * losses[0])
        self.assertGreater((first.weight - before).abs().max(), 0.01)

    def test_no_gradient(self):
        """Those that are not there are missed in backward, whoever calls, and only where they are wanted."""
        scale_w, x = self.scale_w.view(torch.float32).requires_grad_(), self.x.requires_grad_()
        by_dispatcher = torch.ops.batchgemm.int4_grouped_mm(x, self.w, self.offs, None, "", None, None, None,
                                                            scale_w, None, None, None)
        compiled = torch.compile(int4_grouped_mm, fullgraph=True, backend="aot_eager")
        for y in int4_grouped_mm(x, self.w, scale_w, self.offs), by_dispatcher:
            self.assertEqual(torch.autograd.grad(y.sum(), x, retain_graph=True)[0].shape, x.shape)
            with self.assertRaisesRegex(NotImplementedError, "int4_grouped_mm has no gradient to scale_w"):
                y.sum().backward()
        with quiet(), self.assertRaisesRegex(Exception, "int4_grouped_mm has no gradient to scale_w"):
            compiled(x, self.w, scale_w, self.offs).sum().backward()

    def test_modes(self):
        want = self.call()
        with torch.autocast(self.x.device.type, dtype=torch.float16):  # types are said
            self.assertTrue(torch.equal(self.call(), want))
        with torch.inference_mode():
            self.assertTrue(torch.equal(self.call(), want))
        # the memory has the negative of it
        minus = torch.complex(self.x.float(), -self.x.float()).conj().imag
        self.assertTrue(torch.equal(int4_grouped_mm(minus.to(self.x.dtype), self.w, self.scale_w,
                                                    offs=self.offs), want))

    def test_programs(self):
        """Numbers of rows that are near share a program, and a second call plans nothing."""
        def key(rows):
            metas = [bp.meta(t, 0) for t in (self.x[:1].expand(rows, 128).contiguous(), self.w,
                                             ends(0, 1, rows), self.scale_w)]
            return bp.call_of(*metas[:3], None, "", None, 0, None, metas[3]).key

        self.assertEqual({key(rows) for rows in range(961, 1025)}, {key(1024)})
        self.call()
        kept = bp.programs_of(self.x.get_device()).kept
        before = len(kept)
        with slow_runs() as runs:
            self.call()
        self.assertEqual((len(kept), runs.call_count), (before, bt.eager is Nothing))

    def test_refuses(self):
        x, w, s, offs, call = self.x, self.w, self.scale_w, self.offs, int4_grouped_mm
        for words, error, wrong in (
            ("x is torch.float32: it must be bfloat16 or float16", TypeError,
             lambda: call(x.float(), w, s, offs)),
            ("w is torch.int64: it must be int32, of eight weights, or uint8, of two", TypeError,
             lambda: call(x, w.long(), s, offs)),
            ("out_dtype is torch.float16: it must be float32, or that of x", TypeError,
             lambda: call(x, w, s, offs, out_dtype=torch.float16)),
            ("scale_w is torch.float16: it must be int32, or float32", TypeError,
             lambda: call(x, w, s.half(), offs)),
            ("scale_w has the shape (3, 3, 8): it must be (3, K / 64, 8) or (3, K / 128, 8), and K is 128",
             ValueError, lambda: call(x, w, new_scales(3, 8, 3), offs)),
            ("and K is 64", ValueError, lambda: call(x[:, :64], w[:, :1], s[:, :0], offs)),
            ("scale_w has the shape (3, 1, 7)", ValueError, lambda: call(x, w, s[..., :7], offs)),
            ("scale_w is NoneType: it must be a tensor", TypeError, lambda: call(x, w, None, offs)),
            ("scale_w is on meta, x on ", ValueError, lambda: bo.run(x, w, offs, None, "", None, None, None,
                                                                     s.to("meta"), None, None, None)),
            ("x has 2 dimensions, w has 3: they must have 2 or 3, and 4", ValueError,
             lambda: call(x, w[0], s, offs)),
            ("w has the shape (3, 2, 7, 8): it must be (groups, K / 64, ld, 8), and ld a multiple of 8",
             ValueError, lambda: call(x, w[:, :, :7], s, offs)),
            ("w has the shape (3, 2, 8, 8): it must be (groups, K / 64, ld, 32)", ValueError,
             lambda: call(x, w.to(torch.uint8), s, offs)),
            ("n is 9: w has 8 columns", ValueError, lambda: call(x, w, s, offs, n=9)),
            ("n is -1", ValueError, lambda: call(x, w, s, offs, n=-1)),
            ("x has 1 dimensions, w has 4", ValueError, lambda: call(x[0], w, s, offs)),
            ("x has 120 columns, w has 128 rows", ValueError, lambda: call(x[:, :120], w, s, offs)),
            ("offs is None", ValueError, lambda: call(x, w, s)),
            ("offs is torch.int64", TypeError, lambda: call(x, w, s, offs.long())),
            ("offs has 2 groups, w has 3", ValueError, lambda: call(x, w, s, offs[:2])),
            ("x has 2 groups, w has 3", ValueError, lambda: call(x.view(2, 5, 128), w, s)),
            ("bias is torch.float32, the result is torch.bfloat16", TypeError,
             lambda: call(x, w, s, offs, torch.zeros(8))),
            ("bias has the shape (4,)", ValueError, lambda: call(x, w, s, offs, torch.zeros(4).bfloat16())),
            ("activation 'tanh'", ValueError, lambda: call(x, w, s, offs, activation="tanh")),
        ):
            with self.assertRaises(error, msg=words) as caught:
                wrong()
            self.assertIn(words, str(caught.exception))


if __name__ == "__main__":
    unittest.main()
