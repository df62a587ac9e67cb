"""Tests of the module _eager below batchgemm.torch, and those of test_torch.py once more, without it."""

import sys
import unittest
from concurrent.futures import ThreadPoolExecutor
from unittest import mock

try:
    import torch
except ImportError as missing:
    raise unittest.SkipTest(f"no PyTorch: {missing}")

import batchgemm
import batchgemm.torch as bt
import test_torch
import test_torch_operators
from batchgemm import _gradients as bg, _programs as bp
from batchgemm._optional import Nothing
from batchgemm.torch import grouped_mm
from tensors import assert_fails_alike, ends, reference, slow_runs, without_eager


@unittest.skipIf(bt.eager is Nothing, "the module _eager is not there")
class Eager(unittest.TestCase):
    """The module _eager runs what torch.py has run before, and with that does as torch.py."""

    def setUp(self):
        torch.manual_seed(5)
        bt.eager.clear()
        self.x, self.w, self.offs = torch.randn(20, 8), torch.randn(3, 8, 5), ends(3, 3, 20)

    def test_runs(self):
        """Forms, layouts and gradients of a step: torch.py queues none of the second."""
        new = lambda *shape: torch.randn(shape, requires_grad=True)
        x, gy = new(20, 8), torch.randn(20, 8)
        up, bias, down = new(3, 8, 5), new(3, 5), new(3, 8, 5)

        def step():
            h = grouped_mm(x, up, offs=self.offs, bias=bias, activation="relu")
            y = grouped_mm(h, down.transpose(1, 2), offs=self.offs)
            return [y.detach(), *torch.autograd.grad(y, (x, up, bias, down), gy)]

        def others():
            with torch.no_grad():
                return [grouped_mm(up.transpose(1, 2), gy.t(), offs=self.offs),
                        grouped_mm(x.t(), gy, offs=self.offs),
                        grouped_mm(up, up.transpose(1, 2), activation="gelu", out_dtype=torch.float32)]

        for _ in range(2):  # where many programs are kept the first ones leave nothing
            want = step() + others()
        with slow_runs() as runs:
            got = step() + others()
        self.assertEqual(runs.call_count, 0)
        with without_eager(), slow_runs() as runs:
            alone = step() + others()
        self.assertEqual(runs.call_count, 10)
        for a, b, c in zip(want, got, alone):
            self.assertTrue(torch.equal(a, b) and torch.equal(a, c))
            self.assertEqual((a.stride(), a.dtype, a.requires_grad), (b.stride(), b.dtype, b.requires_grad))

    def test_gradients_of_one_call(self):
        """Backward is one call of the module, unless somebody is to see the products, or these have
        gradients."""
        x, w, gy = self.x.requires_grad_(), self.w.requires_grad_(), torch.randn(20, 5)
        step = lambda **how: torch.autograd.grad(grouped_mm(x, w, offs=self.offs), (x, w), gy, **how)
        for _ in range(2):  # as above
            want = step()
        with mock.patch.object(bg, "product", side_effect=bg.product) as products:
            got = step()
            self.assertEqual(products.call_count, 0)
            with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):
                watched = step()
            self.assertEqual(products.call_count, 2)
            graph = step(create_graph=True)
            self.assertEqual(products.call_count, 4)
        self.assertTrue(all(g.requires_grad for g in graph))
        for grads in got, watched, graph:
            self.assertTrue(all(map(torch.equal, grads, want)))

    def test_allocates_alike(self):
        """Results are as those of torch.empty(), also of sizes of 0, whoever allocates them."""
        for rows, n in (20, 5), (20, 1), (20, 0), (1, 5):
            x, w, gy = torch.randn(rows, 8), torch.randn(3, 8, n), torch.randn(rows, n)
            offs = ends(0, 0, rows)
            for call in (lambda: grouped_mm(x, w, offs=offs)), (lambda: grouped_mm(x.t(), gy, offs=offs)):
                call()
                y = call()
                empty = torch.empty(y.shape)
                for what in "dtype", "device", "layout", "requires_grad", "is_leaf", "grad_fn", "_version":
                    self.assertEqual(getattr(y, what), getattr(empty, what))
                self.assertEqual((y.stride(), y.untyped_storage().nbytes()),
                                 (empty.stride(), empty.untyped_storage().nbytes()))
                y.resize_(30, 7).requires_grad_().sum().backward()

    @unittest.skipUnless(hasattr(torch.Tensor, "__dlpack_c_exchange_api__"), "torch has no DLPack for C")
    def test_reads_by_dlpack(self):
        want = grouped_mm(self.x, self.w, offs=self.offs)
        with mock.patch.object(torch.Tensor, "shape", property(None)):
            y = bt.eager.product(self.x, self.w, self.offs, None, "", None, None, 0)
        self.assertTrue(torch.equal(y, want))

    def test_default_device(self):
        y = grouped_mm(self.x, self.w, offs=self.offs)
        with torch.device("meta"), slow_runs() as runs:
            self.assertTrue(torch.equal(grouped_mm(self.x, self.w, offs=self.offs), y))
        self.assertEqual(runs.call_count, 0)

    def test_refuses_alike(self):
        """Mistakes next to calls that are known: the same words, whoever sees them."""
        x, w, offs = self.x, self.w, self.offs
        grouped_mm(x, w, offs=offs)
        for wrong in (
            lambda: grouped_mm(x, w, offs=offs.long()), lambda: grouped_mm(x, w, offs=offs[:2]),
                lambda: grouped_mm(x, w.double(), offs=offs),
            lambda: grouped_mm(x, w), lambda: grouped_mm(x, w, offs=offs, activation="silu "),
                lambda: grouped_mm(x, w, offs=offs, activation=7),
            lambda: grouped_mm(x, w, offs=offs, out_dtype=torch.float64),
                lambda: grouped_mm(x, w, offs=offs, bias=x),
                lambda: grouped_mm(x, w[0], offs=offs, activation="relu"),
            lambda: grouped_mm(x.to_sparse(), w, offs=offs), lambda: grouped_mm(x.tolist(), w, offs=offs),
                lambda: grouped_mm(x, None, offs=offs),
            lambda: grouped_mm(x, w, offs=offs.to("meta")), lambda: grouped_mm(x.to("meta"), w, offs=offs),
        ):
            assert_fails_alike(self, wrong)

    def test_programs_are_closed(self):
        """Programs that make room for others, again and again: nothing runs what was closed."""
        kinds = [(torch.randn(20, 8 + n), torch.randn(3, 8 + n, 5)) for n in range(6)]
        with mock.patch.object(bp, "KEPT", 3):
            for _ in range(3):
                for x, w in kinds:
                    for y in [grouped_mm(x, w, offs=self.offs) for _ in range(3)]:
                        self.assertTrue(torch.allclose(y, reference(x, w, self.offs), rtol=1e-4, atol=1e-4))

    def test_used_programs_stay(self):
        """What the module alone has used since is not the one used last."""
        grouped_mm(self.x, self.w, offs=self.offs)
        programs = bp.programs_of(self.x.get_device())
        room = len(programs.kept) - len(programs.captured) + 2
        others = [(torch.randn(20, 30 + n), torch.randn(3, 30 + n, 5)) for n in range(2 * room)]
        watch = mock.patch.object(bp.Programs, "prepare", autospec=True, side_effect=bp.Programs.prepare)
        with mock.patch.object(bp, "KEPT", room), watch as prepared:
            for x, w in others:
                grouped_mm(x, w, offs=self.offs)
                grouped_mm(self.x, self.w, offs=self.offs)
        self.assertEqual(prepared.call_count, len(others))

    def test_capture_takes_the_program(self):
        """Behind that the calls of the stream have a program of their own."""
        grouped_mm(self.x, self.w, offs=self.offs)
        programs = bp.programs_of(self.x.get_device())
        before = list(programs.kept)[-1]
        call = mock.Mock(key=before[1])
        taken = programs.find(before[0] + 1, call, True)
        try:
            with slow_runs() as runs:
                grouped_mm(self.x, self.w, offs=self.offs)
            self.assertEqual(runs.call_count, 1)
            self.assertIsNot(programs.kept[before], taken)
        finally:
            programs.captured.remove((before[0] + 1, call.key, False))
            programs.kept.pop((before[0] + 1, call.key, False)).close()

    def test_program_closed_by_others(self):
        grouped_mm(self.x, self.w, offs=self.offs)
        programs = bp.programs_of(self.x.get_device()).kept
        at = list(programs)[-1]
        programs[at].close()
        self.assertRaises(batchgemm.ClosedError, grouped_mm, self.x, self.w, offs=self.offs)
        del programs[at]
        self.assertTrue(torch.equal(grouped_mm(self.x, self.w, offs=self.offs),
                                    grouped_mm(self.x, self.w, offs=self.offs)))

    def test_threads(self):
        """Kinds that come and go, in several threads, some with gradients."""
        kinds = []
        for n in range(5):
            x, w, gy = torch.randn(20, 8 + n), torch.randn(3, 8 + n, 5), torch.randn(20, 5)
            kinds.append((x, w, gy, reference(x, w, self.offs), reference(gy, w.transpose(1, 2), self.offs)))
        near = lambda a, b: torch.allclose(a, b, rtol=1e-4, atol=1e-4)

        def work(turn):
            for i in range(60):
                x, w, gy, want, want_gx = kinds[(i + turn) % len(kinds)]
                x = x.detach().requires_grad_(i % 3 == 0)
                y = grouped_mm(x, w, offs=self.offs)
                self.assertTrue(y.requires_grad == x.requires_grad and near(y, want))
                if y.requires_grad:
                    self.assertTrue(near(torch.autograd.grad(y, x, gy)[0], want_gx))

        with mock.patch.object(bp, "KEPT", 6), ThreadPoolExecutor(4) as threads:
            list(threads.map(work, range(4)))

    def test_memory_does_not_grow(self):
        x, w = self.x.clone().requires_grad_(), self.w.clone().requires_grad_()

        def work():
            for _ in range(2000):
                torch.autograd.grad(grouped_mm(x, w, offs=self.offs, activation="relu").sum(), (x, w))

        work()
        before = sys.getallocatedblocks()
        work()
        self.assertLess(sys.getallocatedblocks() - before, 500)


class Alone:
    """The tests, by torch.py alone."""

    def setUp(self):
        super().setUp()
        patches = without_eager()
        patches.__enter__()
        self.addCleanup(patches.__exit__, None, None, None)


class NumbersAlone(Alone, test_torch.Numbers):
    pass


class GradientsAlone(Alone, test_torch.Gradients):
    pass


class TorchAlone(Alone, test_torch_operators.Torch):
    pass


if __name__ == "__main__":
    unittest.main()
