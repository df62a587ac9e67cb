"""Tests of batchgemm.torch on tensors of the CPU: products and their gradients. check_cuda.py has those that
need a GPU."""

import unittest
from unittest import mock

try:
    import torch
except ImportError as missing:
    raise unittest.SkipTest(f"no PyTorch: {missing}")

from batchgemm import _lists
from batchgemm import _programs as bp
from batchgemm.torch import grouped_mm, matmul_list
from tensors import ACTIVATIONS, LAYOUTS, UNIT, bound, ends, reference, slow_runs, without_eager


class Numbers(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(1)

    def check(self, x, w, offs=None, bias=None, activation=None, out_dtype=None, name=""):
        out = out_dtype or x.dtype
        y, again = (grouped_mm(x, w, offs=offs, bias=bias, activation=activation, out_dtype=out_dtype)
                    for _ in range(2))
        doubles = [None if t is None else t.double() for t in (x, w, bias)]
        want = reference(doubles[0], doubles[1], offs, doubles[2], activation)
        limit = bound(x, w, offs, bias, activation, out)
        self.assertEqual((y.dtype, y.shape), (out, want.shape), name)
        if offs is not None and x.dim() + w.dim() == 5:
            y, again, want, limit = (t.narrow(1 if x.dim() == 3 else 0, 0, offs[-1].item())
                                     for t in (y, again, want, limit))
        self.assertTrue(torch.equal(y, again), f"{name}: the second call")
        error = (y.double() - want).abs()
        self.assertTrue(bool((error <= limit).all()),
                        f"{name}: {(error / limit).max() if error.numel() else error}")

    def forms(self, dtype):
        offs = ends(5, 5, 19, 30)
        new = lambda *shape: torch.randn(*shape).to(dtype)
        return {
            "rows": (new(33, 20), new(4, 20, 12), offs),
            "columns": (new(4, 12, 20), new(20, 33), offs),
            "depth": (new(9, 33), new(33, 12), offs),
            "batched": (new(4, 9, 20), new(4, 20, 12), None),
        }

    def test_forms_and_types(self):
        for dtype in bp.TYPES:
            for form, (x, w, offs) in self.forms(dtype).items():
                for out in (None, torch.float32):
                    self.check(x, w, offs, out_dtype=out, name=f"{form} {dtype} {out}")

    def test_strides(self):
        for dtype in (torch.float32, torch.bfloat16):
            for form, (x, w, offs) in self.forms(dtype).items():
                for name, lay in LAYOUTS.items():
                    self.check(lay(x), w, offs, name=f"x {form} {name} {dtype}")
                    self.check(x, lay(w), offs, name=f"w {form} {name} {dtype}")
        x, w, offs = self.forms(torch.float32)["rows"]
        self.check(x, w[:1].expand(w.shape), offs, name="one w for all groups")
        self.check(x, w, torch.cat([ends(0), offs])[1:], name="offs begin late")
        self.check(x, w, offs.repeat_interleave(2)[::2], name="every other of offs")

    def test_sizes(self):
        for name, (rows, k, n, cuts) in {
            "one": (1, 1, 1, [1]), "no group has rows": (5, 4, 3, [0, 0]), "no rows": (0, 4, 3, [0, 0]),
                "no columns": (5, 4, 0, [2, 5]),
            "no depth": (5, 0, 3, [2, 5]), "the first": (7, 8, 9, [7, 7, 7]),
                "many": (64, 16, 8, list(range(1, 65))), "k of 1": (9, 1, 9, [4, 9]),
        }.items():
            self.check(torch.randn(rows, k), torch.randn(len(cuts), k, n), ends(*cuts), name=name)
            self.check(torch.randn(n, rows), torch.randn(rows, k), ends(*cuts), name=name + ", depth")
            self.check(torch.randn(len(cuts), n, k), torch.randn(k, rows), ends(*cuts),
                       name=name + ", columns")
            self.check(torch.randn(len(cuts), rows, k), torch.randn(len(cuts), k, n), name=name + ", batched")
        self.assertEqual(grouped_mm(torch.ones(0, 3), torch.ones(0, 3, 4), offs=ends()).shape, (0, 4))
        self.assertEqual(grouped_mm(torch.ones(0, 2, 3), torch.ones(0, 3, 4)).shape, (0, 2, 4))

    def test_bias_and_activation(self):
        for dtype in bp.TYPES:
            for form in "rows", "batched":
                x, w, offs = self.forms(dtype)[form]
                for activation in ACTIVATIONS:
                    for name, bias in {
                        "none": None, "of each": torch.randn(4, 12).to(dtype),
                            "of all": torch.randn(12).to(dtype),
                        "begins late": torch.randn(4, 15).to(dtype)[:, 1:13],
                            "turned": torch.randn(12, 4).to(dtype).t(),
                    }.items():
                        self.check(x, w, offs, bias, activation, name=f"{form} {dtype} {activation} {name}")

    def test_integers(self):
        x, w = torch.randint(-8, 9, (40, 24)).float(), torch.randint(-8, 9, (3, 24, 16)).float()
        offs = ends(7, 7, 40)
        self.assertTrue(torch.equal(grouped_mm(x, w, offs=offs), reference(x, w, offs)))

    def test_lists(self):
        sizes = [(3, 4, 5), (0, 4, 5), (2, 0, 3), (17, 9, 1), (1, 30, 8)]
        for dtype in bp.TYPES:
            for out, large in (None, 0), (torch.float32, 0), (None, 1 << 30), (torch.float32, 1 << 30):
                xs = [torch.randn(k, m).to(dtype).t() for m, k, _ in sizes]
                ws = [torch.randn(k, n).to(dtype) for _, k, n in sizes[:-1]]
                ws += [torch.randn(60, 16).to(dtype)[::2, 1::2]]  # copied
                with mock.patch.object(_lists, "LARGE", large):
                    ys = matmul_list(xs, ws, out)
                for i, (x, w, y) in enumerate(zip(xs, ws, ys)):
                    error = (y.double() - x.double() @ w.double()).abs()
                    self.assertTrue(bool((error <= bound(x[None], w[None], out=out or dtype)[0]).all()),
                                    f"{i} {dtype} {out}")
                    self.assertEqual((y.dtype, y.shape), (out or dtype, (x.shape[0], w.shape[1])))
        self.assertEqual(matmul_list([], []), [])


class Gradients(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(2)

    def check(self, x, w, offs=None, bias=None, activation=None, name=""):
        """Against autograd in float64 of the reference. Errors of z, what the activation is applied to, go
        into the gradients by its second derivative, at most 1.2; torch computes its derivative of |z|^3 in
        fp32."""
        own = [t.clone().requires_grad_() for t in (x, w, bias) if t is not None]
        doubles = [t.double().requires_grad_() for t in (x, w, bias) if t is not None]
        sides = [(*ts, None)[:3] for ts in (own, doubles)]
        want = reference(sides[1][0], sides[1][1], offs, sides[1][2], activation)
        gy = torch.randn(want.shape)
        products = [grouped_mm(sides[0][0], sides[0][1], offs=offs, bias=sides[0][2],
                               activation=activation) for _ in range(2)]
        got, again = (torch.autograd.grad(y, own, gy) for y in products)
        self.assertTrue(all(map(torch.equal, got, again)), f"{name}: the second step")
        exact = torch.autograd.grad(want, doubles, gy.double())

        size, depth = [t.detach().abs().requires_grad_() for t in doubles], max(*x.shape, *w.shape)
        sizes = reference(size[0], size[1], offs, size[2] if bias is not None else None)
        wrong = gy.double().abs() * 1.2 * 2 * (depth + 3) * UNIT
        if activation:
            z = reference(*(t if t is None else t.detach() for t in (*sides[1][:2], offs, sides[1][2]))).abs()
            wrong = wrong + gy.double().abs() * UNIT * (1.2 * 2 * (x.shape[-1] + 3) * sizes.detach() + 32 +
                                                        4 * z + z**3 / 4)
        limits = torch.autograd.grad(sizes, size, wrong)
        for which, g, h, limit in zip(("x", "w", "bias"), got, exact, limits):
            self.assertEqual((g.dtype, g.shape), (torch.float32, h.shape))
            error = (g.double() - h).abs()
            self.assertTrue(bool((error <= 2 * limit).all()), f"{name}: {which}: {(error / limit).max()}")

    def test_forms(self):
        offs = ends(5, 5, 19, 30)
        self.check(torch.randn(33, 20), torch.randn(4, 20, 12), offs, name="rows")
        self.check(torch.randn(33, 20), torch.randn(4, 20, 12), offs, torch.randn(4, 12), name="bias")
        self.check(torch.randn(33, 20), torch.randn(4, 20, 12), offs, torch.randn(12), name="bias of all")
        self.check(torch.randn(4, 12, 20), torch.randn(20, 33), offs, name="columns")
        self.check(torch.randn(9, 33), torch.randn(33, 12), offs, name="depth")
        self.check(torch.randn(4, 9, 20), torch.randn(4, 20, 12), name="batched")
        self.check(torch.randn(4, 9, 20), torch.randn(4, 20, 12), None, torch.randn(12), "silu",
                   name="batched, silu")

    def test_activations(self):
        for activation in ("relu", "gelu", "silu"):
            for bias in (None, torch.randn(4, 12)):
                self.check(torch.randn(33, 20), torch.randn(4, 20, 12), ends(5, 5, 19, 30), bias,
                           activation, activation)

    def test_nothing_again(self):
        """GELU and SiLU are those of torch, bit for bit: a step of two products takes two, four, and one for
        the bias."""
        offs = ends(5, 5, 19, 33)
        for activation in ("gelu", "silu"):
            for dtype in bp.TYPES:
                new = lambda *shape: torch.randn(*shape).to(dtype).requires_grad_()
                leaves = [new(33, 20), new(4, 20, 12), new(4, 12), new(4, 12, 20)]
                gy = torch.randn(33, 20).to(dtype)

                def layer(act, fused):
                    h = grouped_mm(leaves[0], leaves[1], offs=offs, bias=leaves[2], activation=fused)
                    return grouped_mm(act(h), leaves[3], offs=offs)

                want = layer(ACTIVATIONS[activation], None)
                grads = torch.autograd.grad(want, leaves, gy)
                with without_eager(), slow_runs() as runs:
                    got = [layer(lambda h: h, activation)]
                    got += torch.autograd.grad(got[0], leaves, gy)
                self.assertEqual(runs.call_count, 7)
                for g, h in zip(got, (want, *grads)):
                    self.assertTrue(torch.equal(g, h), f"{activation} {dtype}")

    def test_after_the_last_end(self):
        x = torch.randn(33, 8, requires_grad=True)
        gx, = torch.autograd.grad(grouped_mm(x, torch.randn(2, 8, 4), offs=ends(3, 21)), x,
                                  torch.full((33, 4), float("nan")).index_fill(0, torch.arange(21), 1))
        self.assertTrue(bool(gx[:21].isfinite().all()) and torch.equal(gx[21:], torch.zeros(12, 8)))

    def test_what_is_needed(self):
        x, w = torch.randn(6, 4), torch.randn(2, 4, 3, requires_grad=True)
        y = grouped_mm(x, w, offs=ends(2, 6))
        y.sum().backward()  # an expanded gradient
        self.assertIsNone(x.grad)
        self.assertIsNotNone(w.grad)
        for off in torch.no_grad, torch.inference_mode:
            with off():
                z = grouped_mm(x, w, offs=ends(2, 6))
                self.assertFalse(z.requires_grad)
                self.assertTrue(torch.equal(z, y))
        x.requires_grad_()
        second, = torch.autograd.grad(torch.autograd.grad(grouped_mm(x, w, offs=ends(2, 6)).square().sum(), x,
                                                          create_graph=True)[0].sum(), w)
        z = reference(x, w, ends(2, 6))
        want, = torch.autograd.grad(torch.autograd.grad(z.square().sum(), x, create_graph=True)[0].sum(), w)
        self.assertTrue(torch.allclose(second, want, rtol=1e-5, atol=1e-5))

    def test_second(self):
        """Gradients of gradients, of what nodes keep and of what they do not."""
        x, w, bias, offs = torch.randn(9, 4), torch.randn(2, 4, 3), torch.randn(2, 3), ends(2, 9)
        for activation in ACTIVATIONS:
            sides = []
            for product in grouped_mm, reference:
                leaves = [t.double().to(torch.float32 if product is grouped_mm
                                        else torch.float64).requires_grad_() for t in (x, w, bias)]
                y = product(leaves[0], leaves[1], offs=offs, bias=leaves[2], activation=activation)
                first = torch.autograd.grad(y.square().sum(), leaves, create_graph=True)
                sides.append([*first, *torch.autograd.grad(sum(g.square().sum() for g in first), leaves)])
            for g, h in zip(*sides):
                self.assertTrue(torch.allclose(g.double(), h, rtol=1e-4, atol=1e-3), activation)

    def test_lists(self):
        xs = [torch.randn(m, 4, requires_grad=True) for m in (1, 3, 6)]
        ws = [torch.randn(4, n, requires_grad=True) for n in (2, 5, 1)]
        ys = matmul_list(xs, ws)
        got = torch.autograd.grad(ys[0].sum() + ys[2].square().sum(), xs + ws)
        loss = (xs[0] @ ws[0]).sum() + (xs[2] @ ws[2]).square().sum() + 0 * (xs[1] @ ws[1]).sum()
        for g, h in zip(got, torch.autograd.grad(loss, xs + ws)):
            self.assertTrue(torch.allclose(g, h, rtol=1e-5, atol=1e-5))


if __name__ == "__main__":
    unittest.main()
