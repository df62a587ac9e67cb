"""Tests on a GPU of what becomes of groups with wrong ends. check_cuda.py runs them."""

import math
import unittest
from unittest import mock

import torch

from batchgemm import _programs as bp
from batchgemm.torch import grouped_mm
from tensors import bound, ends, reference, without_eager
from test_torch_ends import WRONG, Case, same


class Refused(unittest.TestCase):
    """Groups with wrong ends. The bounds of programs have room for some of them."""

    FILLS = None, 0, math.nan

    def setUp(self):
        torch.manual_seed(15)

    def within(self, *shape, dtype=torch.float32):
        """A tensor with NaN before it and after."""
        count = math.prod(shape)
        whole = torch.full((count + 2 * 4096,), math.nan, dtype=dtype)
        return whole[4096 : 4096 + count].copy_(torch.randn(count)).view(shape), whole

    def run_within(self, call):
        """The result of a call, and whether memory around it is as before."""
        made = []

        def new(like, shape, value=0, dtype=None):
            count = math.prod(shape)
            made.append(torch.full((count + 2 * 4096,), 7.0, dtype=dtype))
            return made[-1][4096 : 4096 + count].view(shape).fill_(value)

        with without_eager(), mock.patch.object(torch.Tensor, "new_empty",
                                                new), mock.patch.object(torch.Tensor, "new_full", new):
            y = call()
        whole = made[-1].float()
        return y, bool((whole[:4096] == 7).all() and (whole[-4096:] == 7).all())

    def right(self, cuts, extent):
        """How many groups are before the first that is refused, and where these end."""
        last = 0
        for group, end in enumerate(cuts):
            if not last <= end <= extent:
                return group, last
            last = end
        return len(cuts), last

    def cuts(self, extent):
        ends_of = [[*(10 * g for g in range(1, 6)), extent + more] for more in (0, 1, 3, 7, 50, 10**6)]
        return [*ends_of, [extent + 1] * 6, [0, 0, extent + 2, 5, extent, extent], *WRONG.values()]

    def test_nothing_outside(self):
        for dtype in bp.TYPES:
            for extent in 97, 100, 113:
                (x, _), (d, _) = self.within(extent, 64, dtype=dtype), self.within(72, extent, dtype=dtype)
                (gy, _), w = self.within(extent, 40, dtype=dtype), torch.randn(6, 64, 40).to(dtype)
                bias, t = torch.randn(6, 40).to(dtype), w.transpose(1, 2)
                for cuts in self.cuts(extent):
                    groups, last = self.right(cuts, extent)
                    offs = ends(*cuts)
                    for fill in self.FILLS:
                        for form, call, a, b, of in (
                            ("rows", lambda: grouped_mm(x, w, offs=offs, fill=fill), x, w, None),
                                ("bias", lambda: grouped_mm(x, w, offs=offs, bias=bias, activation="relu",
                                                            fill=fill), x, w, bias),
                            ("turned", lambda: grouped_mm(d.t(), torch.cat([w, w], 1)[:, :72], offs=offs,
                                                          fill=fill), d.t(), torch.cat([w, w], 1)[:, :72],
                             None),
                            ("columns", lambda: grouped_mm(t, x.t(), offs=offs, fill=fill).t(), x, w, None),
                            ("depth", lambda: grouped_mm(d, gy, offs=offs, fill=fill), d, gy, None),
                        ):
                            y, whole = self.run_within(call)
                            name = f"{form} {dtype} {extent} {cuts} {fill}"
                            self.assertTrue(whole, name)
                            if form == "depth":
                                got, rest = y[:groups], y[groups:]
                                a, b, good = a.double(), b.double(), ends(*cuts[:groups])
                            else:
                                got, rest = y[:last], y[last:]
                                a, b, good = a[:last].double(), b[:groups].double(), ends(*cuts[:groups])
                            if groups:
                                act = "relu" if of is not None else None
                                more = good, None if of is None else of[:groups].double(), act
                                self.assertTrue(
                                    bool(((got.double() - reference(a, b, *more)).abs() <= bound(
                                        a, b, *more, out=dtype)).all()), name)
                            if fill is not None:
                                self.assertTrue(same(rest, torch.full_like(rest, fill)), name)

    def test_gradients(self):
        """Rows of refused groups are 0 in them, and so is the gradient to their weights."""
        x, w = torch.randn(100, 64, requires_grad=True), torch.randn(6, 64, 40, requires_grad=True)
        bias = torch.randn(6, 40, requires_grad=True)
        for cuts in self.cuts(100):
            groups, last = self.right(cuts, 100)
            for _ in range(3):
                y = grouped_mm(x, w, offs=ends(*cuts), bias=bias, activation="silu", fill=0)
                gx, gw, gb = torch.autograd.grad(y.sum(), (x, w, bias))
            self.assertFalse(bool(y[last:].any() or gx[last:].any() or gw[groups:].any()
                                  or gb[groups:].any()), cuts)
            self.assertTrue(bool(gx.isfinite().all() and gw.isfinite().all() and gb.isfinite().all()), cuts)

    def test_scales(self):
        for form, (call, dim) in Case.forms(self).items():
            call(ends(*range(6)))
            for words, cuts in WRONG.items():
                _, last = self.right(cuts, 100)
                for fill in 0, math.nan:
                    for _ in range(3):
                        y = call(ends(*cuts), fill=fill)
                    rest = y[self.right(cuts, 100)[0] :] if dim is None else y.narrow(dim, last, 100 - last)
                    self.assertTrue(same(rest, torch.full_like(rest, fill)), f"{form} {cuts} {fill}")
                with self.assertRaises(ValueError) as caught:
                    call(ends(*cuts), check=True)
                self.assertEqual(str(caught.exception), words)

    def test_graph(self):
        """Replays refuse what the ends of then are, and check cannot be captured."""
        x, w, offs = torch.randn(97, 64), torch.randn(6, 64, 40), ends(10, 20, 30, 40, 50, 97)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            grouped_mm(x, w, offs=offs, fill=math.nan)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y = grouped_mm(x, w, offs=offs, fill=math.nan)
            with self.assertRaisesRegex(RuntimeError,
                                        "check waits for the device, which a CUDA graph cannot capture"):
                grouped_mm(x, w, offs=offs, check=True)
        for cuts in self.cuts(97):
            groups, last = self.right(cuts, 97)
            offs.copy_(ends(*cuts))
            graph.replay()
            self.assertTrue(bool(y[last:].isnan().all() and y[:last].isfinite().all()), cuts)
