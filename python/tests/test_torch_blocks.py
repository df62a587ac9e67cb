"""Tests of batchgemm.torch.scaled_grouped_mm with scales of blocks, and with zero points, on tensors of the
CPU."""

import unittest

try:
    import torch
except ImportError as missing:
    raise unittest.SkipTest(f"no PyTorch: {missing}")

from batchgemm import _programs as bp
from batchgemm.torch import scaled_grouped_mm
from tensors import LEAST, bound, each, ends, exact, narrow, random, reference, scales


class Blocks(unittest.TestCase):
    """Scales of 128 k's of a row of x, and of 128 k's of 128 columns of w."""

    def setUp(self):
        torch.manual_seed(9)

    def check(self, x, w, scale_x, scale_w, offs=None, bias=None, activation=None, out_dtype=torch.bfloat16,
              name=""):
        y = scaled_grouped_mm(x, w, scale_x, scale_w, offs, bias, activation, out_dtype)
        n = lambda scale, size, dim: scale.repeat_interleave(128, dim).narrow(dim, 0, size)
        big_x = x.double() * n(scale_x.double(), x.shape[-1], scale_x.dim() - 1)
        big_w = w.double() * n(n(scale_w.double(), w.shape[-1], 1), w.shape[-2], 2).transpose(1, 2)
        bias = None if bias is None else bias.double()
        want = reference(big_x, big_w, offs, bias, activation)
        limit = bound(big_x, big_w, offs, bias, activation, out_dtype) + LEAST + narrow(big_x, big_w, offs)
        if offs is not None:
            y, want, limit = (t.narrow(0, 0, offs[-1].item()) for t in (y, want, limit))
        error = (y.double() - want).abs()
        self.assertTrue(bool((error <= limit).all()),
                        f"{name}: {(error / limit).max() if error.numel() else error}")

    def test_forms_and_sizes(self):
        new, kind = random, torch.float8_e4m3fn
        for k in 0, 1, 128, 129, 300:
            for n in 1, 128, 130:
                for out in bp.TYPES:
                    offs, blocks = ends(5, 5, 19, 30), bp.blocks(k)
                    w, scale_w = new(kind, 4, k, n), scales(4, bp.blocks(n), blocks)
                    self.check(new(kind, 33, k), w, scales(33, blocks), scale_w, offs, out_dtype=out,
                               name=f"rows {k} {n} {out}")
                    self.check(new(kind, 33, k), w, scales(33, blocks), scale_w, offs,
                               torch.randn(4, n).to(out), "silu", out, f"silu {k} {n} {out}")
                    self.check(new(kind, 4, 9, k), w, scales(4, 9, blocks), scale_w, out_dtype=out,
                               name=f"batched {k} {n} {out}")

    def test_columns(self):
        x, w = random(torch.float8_e4m3fn, 4, 130, 200), random(torch.float8_e4m3fn, 200, 33)
        offs = ends(5, 5, 19, 30)
        scale_x, scale_w = scales(4, 2, 2), scales(33, 2)
        turned = scaled_grouped_mm(w.t(), x.transpose(1, 2), scale_w, scale_x, offs)
        self.assertTrue(torch.equal(scaled_grouped_mm(x, w, scale_x, scale_w, offs)[:, :30],
                                    turned.t()[:, :30]))
        self.check(w.t(), x.transpose(1, 2), scale_w, scale_x, offs)

    def test_compile(self):
        compiled = torch.compile(lambda *args: scaled_grouped_mm(*args).float() + 1, fullgraph=True,
                                 backend="aot_eager", dynamic=True)
        for rows, k in (33, 200), (40, 300):
            x, w = random(torch.float8_e4m3fn, rows, k), random(torch.float8_e4m3fn, 4, k, 130)
            offs = ends(5, 5, 19, rows)
            args = x, w, scales(rows, bp.blocks(k)), scales(4, 2, bp.blocks(k)), offs
            self.assertTrue(torch.equal(compiled(*args), scaled_grouped_mm(*args).float() + 1), (rows, k))

    def test_refuses(self):
        x, w = random(torch.float8_e4m3fn, 33, 200), random(torch.float8_e4m3fn, 4, 200, 130)
        offs = ends(5, 5, 19, 33)
        for words, error, wrong in (
            ("scale_x has the shape (33, 2)", ValueError,
             lambda: scaled_grouped_mm(x, w, scales(33, 2), scales(4, 130), offs)),
            ("scale_w has the shape (4, 2, 2)", ValueError,
             lambda: scaled_grouped_mm(x, w, scales(33), scales(4, 2, 2), offs)),
            ("scale_x has the shape (33, 2)", ValueError,
             lambda: scaled_grouped_mm(x, w, scales(33, 2), scales(4, 2, 3), offs)),
            ("scale_x is torch.float64: it must be float32", TypeError,
             lambda: scaled_grouped_mm(x, w, scales(33, 2).double(), scales(4, 2, 2), offs)),
            ("x is torch.int8: with scales of blocks it must be float8_e4m3fn", TypeError,
             lambda: scaled_grouped_mm(x.view(torch.int8), w.view(torch.int8), scales(33, 2),
                                       scales(4, 2, 2), offs)),
        ):
            with self.assertRaises(error, msg=words) as caught:
                wrong()
            self.assertIn(words, str(caught.exception))


class ZeroPoints(unittest.TestCase):
    """Zero points of x, after its scales, with sums of the columns of w after those of w."""

    def setUp(self):
        torch.manual_seed(10)

    def check(self, x, w, scale_x, scale_w, zero_x, sums_w, offs=None, bias=None, activation=None,
              out_dtype=torch.bfloat16, name=""):
        y = scaled_grouped_mm(x, w, scale_x, scale_w, offs, bias, activation, out_dtype, zero_x, sums_w)
        whole = x.double() - (each(zero_x, *x.shape[:-1])[..., None] if x.dim() + w.dim() > 4 else 0)
        want, limit = exact(whole, w, scale_x, scale_w, offs, bias, activation, out_dtype)
        if x.dim() == w.dim() == 2:  # zero points are of each group
            after = each(scale_x, len(offs), len(x))[:, :,
                                                     None] * each(scale_w, len(offs), w.shape[1])[:, None, :]
            term = each(zero_x, len(offs), len(x))[:, :, None] * sums_w.double()[:, None, :] * after
            want, limit = want - term, limit * 2 + 2.0**-8 * term.abs()
        else:
            limit = limit * 4  # sums and zero points are rounded apart
        if offs is not None and x.dim() + w.dim() == 5:
            y, want, limit = (t.narrow(0, 0, offs[-1].item()) for t in (y, want, limit))
        error = (y.double() - want).abs()
        self.assertTrue(bool((error <= limit).all()),
                        f"{name}: {(error / limit).max() if error.numel() else error}")

    def test_forms(self):
        offs, new = ends(5, 5, 19, 30), lambda *shape: random(torch.int8, *shape)
        zeros = lambda *shape: torch.randint(-128, 128, shape, dtype=torch.int32)
        for form, x, w, ends_of, of_x, of_w in (
            ("rows", new(33, 20), new(4, 20, 12), offs, [(33,), (), (1,)], [(4, 12), (4,), (), (1, 1)]),
            ("batched", new(4, 9, 20), new(4, 20, 12), None, [(4, 9), (4,), ()], [(4, 12), (4,), (1,)]),
            ("depth", new(9, 33), new(33, 12), offs, [(4, 9), (36,), ()], [(4, 12), (48,), ()]),
        ):
            sums = w.sum(-2, dtype=torch.int32)
            if form == "depth":
                sums = torch.stack([part.sum(0, dtype=torch.int32)
                                    for part in w[:30].tensor_split(offs.tolist()[:-1])])
            for shape_x in of_x:
                for shape_w in of_w:
                    for out in bp.TYPES:
                        bias = torch.randn(12).to(out) if form != "depth" else None
                        activation = "silu" if bias is not None else None
                        args = x, w, scales(*shape_x), scales(*shape_w), zeros(*shape_x), sums, ends_of
                        self.check(*args, bias, activation, out, f"{form} {shape_x} {shape_w} {out}")

    def test_integers(self):
        x, w = random(torch.int8, 6, 5), random(torch.int8, 2, 5, 3)
        zero, one = torch.tensor([-128, 127, 0, 1, -1, 5], dtype=torch.int32), torch.ones(())
        y = scaled_grouped_mm(x, w, torch.ones(6), one, ends(2, 6), out_dtype=torch.float32, zero_x=zero,
                              sums_w=w.sum(1, dtype=torch.int32))
        parts = (x.int() - zero[:, None]).split([2, 4])
        self.assertTrue(torch.equal(y, torch.cat([part.float() @ of.float() for part, of in zip(parts, w)])))

    def test_compile(self):
        compiled = torch.compile(lambda *args: scaled_grouped_mm(*args[:5], zero_x=args[5],
                                                                 sums_w=args[6]).float() + 1,
                                 fullgraph=True, backend="aot_eager", dynamic=True)
        w = random(torch.int8, 4, 20, 12)
        for rows in 33, 40:
            args = (random(torch.int8, rows, 20), w, scales(rows), scales(4, 12), ends(5, 5, 19, rows),
                    torch.randint(-128, 128, (rows,), dtype=torch.int32), w.sum(1, dtype=torch.int32))
            want = scaled_grouped_mm(*args[:5], zero_x=args[5], sums_w=args[6]).float() + 1
            self.assertTrue(torch.equal(compiled(*args), want), rows)

    def test_refuses(self):
        x, w, a, b = random(torch.int8, 10, 8), random(torch.int8, 3, 8, 5), scales(10), scales(3, 5)
        offs = ends(3, 3, 10)
        z, s = torch.zeros(10, dtype=torch.int32), w.sum(1, dtype=torch.int32)
        call = lambda x=x, w=w, a=a, **more: scaled_grouped_mm(x, w, a, b, offs, **more)
        for words, error, wrong in (
            ("zero_x and sums_w: there must be both, or neither", ValueError, lambda: call(zero_x=z)),
            ("zero_x and sums_w: there must be both, or neither", ValueError, lambda: call(sums_w=s)),
            ("x is torch.float8_e4m3fn: with zero points it must be int8", TypeError,
             lambda: call(x.view(torch.float8_e4m3fn), w.view(torch.float8_e4m3fn), zero_x=z, sums_w=s)),
            ("zero_x is torch.int64: it must be int32", TypeError, lambda: call(zero_x=z.long(), sums_w=s)),
            ("zero_x has the shape (1,): it must be (10,)", ValueError, lambda: call(zero_x=z[:1], sums_w=s)),
            ("sums_w is torch.float32: it must be int32", TypeError,
             lambda: call(zero_x=z, sums_w=s.float())),
            ("sums_w has the shape (5,): it must be (3, 5)", ValueError, lambda: call(zero_x=z, sums_w=s[0])),
            ("zero_x: none where offs cuts columns", ValueError,
             lambda: scaled_grouped_mm(w.transpose(1, 2), x.t(), b, a, offs, zero_x=z, sums_w=s)),
        ):
            with self.assertRaises(error, msg=words) as caught:
                wrong()
            self.assertIn(words, str(caught.exception))


if __name__ == "__main__":
    unittest.main()
