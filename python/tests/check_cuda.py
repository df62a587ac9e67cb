"""What needs a GPU: the tests of test_torch*.py on CUDA tensors, and streams, graphs, torch.compile, waits.

    PYTHONPATH=python python3 python/tests/check_cuda.py
"""

import math
import sys
import unittest
from concurrent.futures import ThreadPoolExecutor
from unittest import mock

import torch

import batchgemm.torch as bt
from batchgemm import _programs as bp
from batchgemm._optional import Nothing
from batchgemm.torch import grouped_mm, int4_grouped_mm, matmul_list, scaled_grouped_mm
# unittest runs the tests of all these too
from test_torch import Gradients, Numbers, Programs, Torch, bound, ends, reference, slow_runs, without_eager
from test_torch_eager import Eager, GradientsAlone, NumbersAlone, TorchAlone
from test_torch_ends import WRONG, Case, Check, CheckAlone, Fill, FillAlone, same
from test_torch_eager_scales import (EagerScales, Int4NumbersAlone, Int4TorchAlone, ScaledNumbersAlone,
                                     ScaledTorchAlone, one_array)
from test_torch_func import Transformations, TransformationsAlone
from test_torch_int4 import Int4Numbers, Int4Torch, new_scales, new_words, numbers
from test_torch_scaled import Blocks, ScaledNumbers, ScaledTorch, ZeroPoints, exact, random, scales

if not torch.cuda.is_available():
    raise SystemExit("no GPU that PyTorch can use")
torch.set_default_device("cuda")


class Cuda(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(4)
        self.x, self.w = torch.randn(600, 64), torch.randn(8, 64, 96)
        self.offs = ends(0, 100, 100, 250, 251, 400, 590, 600)

    def near(self, y, x, w, offs, name=""):
        error = (y.double() - reference(x.double(), w.double(), offs)).abs()
        self.assertTrue(bool((error <= bound(x, w, offs, out=y.dtype)).all()), f"{name}: {error.max()}")

    def test_large(self):
        for dtype in bp.TYPES:
            x, w = torch.randn(2048, 512).to(dtype), torch.randn(16, 512, 768).to(dtype)
            offs = ends(*sorted(torch.randint(0, 2048, (15,)).tolist()), 2048)
            self.near(grouped_mm(x, w, offs=offs), x, w, offs, dtype)
            gy = torch.randn(2048, 640).to(dtype)
            self.near(grouped_mm(x.t(), gy, offs=offs), x.t(), gy, offs, f"{dtype} depth")
            ys = matmul_list([x[:i].contiguous() for i in range(1, 200)], [w[i % 16] for i in range(1, 200)])
            for i, y in enumerate(ys, 1):
                self.near(y, x[:i], w[i % 16][None], ends(i), f"{dtype} list {i}")

    def test_streams(self):
        for stream in [torch.cuda.Stream() for _ in range(3)]:
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                torch.cuda._sleep(10**7)
                x = self.x * 2  # queued before the products, on the same stream
                y = grouped_mm(x, self.w, offs=self.offs) + 0
            stream.synchronize()
            self.near(y, 2 * self.x, self.w, self.offs)

    def test_waits_for_nothing(self):
        x, w = (t.clone().requires_grad_() for t in (self.x, self.w))

        def step():
            grouped_mm(x, w, offs=self.offs, activation="silu").square().sum().backward()

        step()
        step()
        before, torch_says = torch.cuda.Event(), torch.cuda.get_sync_debug_mode()
        torch.cuda.synchronize()
        try:
            torch.cuda.set_sync_debug_mode("error")
            torch.cuda._sleep(2 * 10**9)  # about a second
            before.record()
            step()
            self.assertFalse(before.query(), "the step waited for the device")
        finally:
            torch.cuda.set_sync_debug_mode(torch_says)
        torch.cuda.synchronize()

    def test_graph(self):
        x, w, offs = self.x.clone().requires_grad_(), self.w.clone().requires_grad_(), self.offs.clone()

        def step():
            y = grouped_mm(x, w, offs=offs)
            return y, *torch.autograd.grad(y.sum(), (x, w))

        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            step()
        torch.cuda.current_stream().wait_stream(side)
        graphs = []
        for _ in range(2):
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                outputs = step()
            graphs.append((graph, outputs))
        step()  # the warm-up's programs are the graphs' now
        for cuts in ([0] * 7 + [600], [75 * i for i in range(1, 9)], [600] * 8):
            offs.copy_(ends(*cuts))
            x.data.normal_()
            for graph, (y, gx, gw) in graphs:
                graph.replay()
                self.near(y, x.detach(), w.detach(), offs, cuts)
                self.near(gw, x.detach().t(), torch.ones(600, 96), offs, cuts)
                self.near(gx, torch.ones(600, 96), w.detach().transpose(1, 2), offs, cuts)

    def test_graph_without_warm_up(self):
        with self.assertRaisesRegex(RuntimeError, "cannot be captured"):
            with torch.cuda.graph(torch.cuda.CUDAGraph()):
                grouped_mm(torch.ones(7, 24), torch.ones(8, 24, 40), offs=self.offs)
        self.near(grouped_mm(self.x, self.w, offs=self.offs), self.x, self.w, self.offs)

    def test_compile(self):
        for mode in ("default", "reduce-overhead"):
            compiled = torch.compile(lambda x, w, offs: grouped_mm(x * 2, w, offs=offs) + 1,
                                     fullgraph=True, mode=mode)
            for _ in range(4):
                y = compiled(self.x, self.w, self.offs)
                self.assertTrue(torch.allclose(y, grouped_mm(self.x * 2, self.w, offs=self.offs) + 1,
                                               rtol=1e-5, atol=1e-4), mode)

    @unittest.skipIf(torch.cuda.device_count() < 2, "one GPU")
    def test_other_device(self):
        x, w, offs = (t.to("cuda:1") for t in (self.x, self.w, self.offs))
        self.near(grouped_mm(x, w, offs=offs), x, w, offs)

    @unittest.skipUnless(hasattr(torch, "_grouped_mm"), "torch has no grouped product")
    def test_beside_torch(self):
        """Where torch has it: both within the bound of each other's exact result. Torch's kernel asserts that
        ends are multiples of 16 bytes where they cut columns or depth, which ends all work of the process on
        the GPU."""
        x, w, offs = self.x.bfloat16(), self.w.bfloat16(), ends(0, 96, 96, 248, 256, 400, 592, 600)
        for name, a, b in (("rows", x, w), ("depth", x.t(), torch.randn(600, 96).bfloat16()),
                           ("columns", w.transpose(1, 2), x.t())):
            with self.subTest(name):
                want, got = torch._grouped_mm(a, b, offs=offs), grouped_mm(a, b, offs=offs)
                self.assertEqual((got.shape, got.dtype), (want.shape, want.dtype))
                self.assertTrue(bool(((got.double() - want.double()).abs() <= 2 *
                                      bound(a, b, offs, out=torch.bfloat16)).all()))


class Refused(unittest.TestCase):
    """Groups whose ends are wrong, of which the bounds of programs have room for some."""

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


class ScaledCuda(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(9)
        self.x, self.w = random(torch.float8_e4m3fn, 600, 64), random(torch.float8_e4m3fn, 8, 64, 96)
        self.offs = ends(0, 100, 100, 250, 251, 400, 590, 600)
        self.scale_x, self.scale_w = scales(600), scales(8, 96)

    def call(self):
        return scaled_grouped_mm(self.x, self.w, self.scale_x, self.scale_w, offs=self.offs,
                                 activation="silu")

    def near(self, y, *args, activation="silu", name=""):
        x, w, scale_x, scale_w, offs = args or (self.x, self.w, self.scale_x, self.scale_w, self.offs)
        want, limit = exact(x, w, scale_x, scale_w, offs, None, activation, y.dtype)
        error = (y.double() - want).abs()
        self.assertTrue(bool((error <= limit).all()), f"{name}: {error.max()}")

    def test_large(self):
        x = random(torch.float8_e4m3fn, 2048, 512)
        w = random(torch.float8_e4m3fn, 16, 768, 512).transpose(1, 2)
        offs = ends(*sorted(torch.randint(0, 2048, (15,)).tolist()), 2048)
        for of_x, of_w in ((2048,), (16, 768)), ((), (16,)), ((2048,), ()):
            scale_x, scale_w = scales(*of_x), scales(*of_w)
            self.near(scaled_grouped_mm(x, w, scale_x, scale_w, offs=offs), x, w, scale_x, scale_w, offs,
                      activation=None, name=f"{of_x} {of_w}")

    def test_waits_for_nothing(self):
        self.call()
        self.call()
        before, torch_says = torch.cuda.Event(), torch.cuda.get_sync_debug_mode()
        torch.cuda.synchronize()
        try:
            torch.cuda.set_sync_debug_mode("error")
            torch.cuda._sleep(2 * 10**9)  # about a second
            before.record()
            y = self.call()
            self.assertFalse(before.query(), "the call waited for the device")
        finally:
            torch.cuda.set_sync_debug_mode(torch_says)
        self.near(y)

    def test_streams(self):
        for stream in [torch.cuda.Stream() for _ in range(3)]:
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                torch.cuda._sleep(10**7)
                self.scale_x = self.scale_x * 2  # queued before the products, on the same stream
                y = self.call()
            stream.synchronize()
            self.near(y)

    def test_graph(self):
        """A replay has the scales and ends of then."""
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            self.call()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y = self.call()
        for cuts in ([0] * 7 + [600], [75 * i for i in range(1, 9)], [600] * 8):
            self.offs.copy_(ends(*cuts))
            self.x.copy_(random(self.x.dtype, 600, 64))
            self.scale_x.mul_(1.25)
            self.scale_w.mul_(0.75)
            graph.replay()
            self.near(y, name=cuts)

    def test_compile(self):
        for mode in ("default", "reduce-overhead"):
            compiled = torch.compile(self.call, fullgraph=True, mode=mode)
            for _ in range(4):
                self.near(compiled(), name=mode)

    def test_beside_torch(self):
        """Where torch has it, with its layouts: a scale for each row, and for each column, and w
        transposed."""
        theirs = getattr(torch, "_scaled_grouped_mm", None)
        if theirs is None or torch.version.hip or torch.cuda.get_device_capability() != (9, 0):
            self.skipTest("torch has no grouped product of e4m3 here")
        w = self.w.transpose(1, 2).contiguous().transpose(1, 2)
        args = self.x, w, self.scale_x, self.scale_w
        want = theirs(*args, offs=self.offs, out_dtype=torch.bfloat16)
        got = scaled_grouped_mm(*args, offs=self.offs)
        self.assertEqual((got.shape, got.dtype), (want.shape, want.dtype))
        for y in want, got:
            self.near(y, *args, self.offs, activation=None)


class Int4Cuda(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(13)
        self.x, self.w = torch.randn(600, 256).bfloat16(), new_words(8, 96, 256)
        self.scale_w = new_scales(8, 96, 2)
        self.offs = ends(0, 100, 100, 250, 251, 400, 590, 600)

    def call(self):
        return int4_grouped_mm(self.x, self.w, self.scale_w, offs=self.offs, activation="silu")

    def near(self, y, name=""):
        args = self.x.double(), numbers(self.w, self.scale_w), self.offs, None, "silu"
        error = (y.double() - reference(*args)).abs()
        self.assertTrue(bool((error <= bound(*args, y.dtype)).all()), f"{name}: {error.max()}")

    def test_graph(self):
        """A replay has the weights, scales and ends of then."""
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            self.call()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y = self.call()
        for cuts in ([0] * 7 + [600], [75 * i for i in range(1, 9)], [600] * 8):
            self.offs.copy_(ends(*cuts))
            self.w.copy_(new_words(8, 96, 256))
            self.scale_w.copy_(new_scales(8, 96, 2))
            graph.replay()
            self.near(y, cuts)

    def test_compile(self):
        for mode in ("default", "reduce-overhead"):
            compiled = torch.compile(self.call, fullgraph=True, mode=mode)
            for _ in range(4):
                self.near(compiled(), mode)

    def test_gradient_of_many_experts(self):
        """Of frozen weights, by their numbers, which are no longer there after it."""
        w, scale_w = new_words(128, 256, 2048), new_scales(128, 256, 16)
        x = torch.randn(512, 2048).bfloat16().requires_grad_()
        offs = ends(*sorted(torch.randint(0, 513, (127,)).tolist()), 512)
        gy = torch.randn(512, 256).bfloat16()
        for _ in range(3):
            gx, = torch.autograd.grad(int4_grouped_mm(x, w, scale_w, offs), x, gy)
        before = torch.cuda.memory_allocated()
        gx, = torch.autograd.grad(int4_grouped_mm(x, w, scale_w, offs), x, gy)
        self.assertEqual(torch.cuda.memory_allocated(), before)
        want = reference(gy.double(), numbers(w, scale_w).bfloat16().double().transpose(1, 2), offs)
        self.assertLess((gx.double() - want).abs().max(), 2.0**-7 * want.abs().max())


@unittest.skipIf(bt.eager is Nothing, "the module _eager is not there")
class EagerOnStreams(unittest.TestCase):
    """The module _eager without a default device, which is a mode: calls as most programs make them."""

    def setUp(self):
        torch.manual_seed(6)
        self.x, self.w = torch.randn(600, 64), torch.randn(8, 64, 96)
        self.offs = ends(0, 100, 100, 250, 251, 400, 590, 600)
        self.want = reference(self.x, self.w, self.offs)
        torch.set_default_device(None)
        self.addCleanup(torch.set_default_device, "cuda")

    def call(self, x=None):
        return grouped_mm(self.x if x is None else x, self.w, offs=self.offs)

    def near(self, y, times=1):
        torch.cuda.current_stream().synchronize()
        return torch.allclose(y, times * self.want, rtol=1e-4, atol=1e-3 * times)

    def test_streams_take_turns(self):
        """Each has its own program, whichever called last."""
        streams = [torch.cuda.current_stream(), torch.cuda.Stream(), torch.cuda.Stream()]
        for stream in streams:
            with torch.cuda.stream(stream):
                self.call()
        torch.cuda.synchronize()
        before = len(bp.programs_of(0).kept)
        with slow_runs() as runs:
            for i in range(30):
                with torch.cuda.stream(streams[i % 3]):
                    torch.cuda._sleep(10**6)
                    x = self.x * (i + 1)  # queued before the product, on the same stream
                    self.assertTrue(self.near(self.call(x), i + 1), i)
        self.assertEqual((runs.call_count, len(bp.programs_of(0).kept)), (0, before))

    def test_scales(self):
        """Those in one array and those that are copied for each call, which is queued after what makes them,
        on the stream of the call."""
        x, w = random(torch.float8_e4m3fn, 600, 64).cuda(), random(torch.float8_e4m3fn, 8, 64, 96).cuda()
        (a, b), offs = (t.cuda() for t in one_array((600,), (8, 96))), self.offs
        whole = torch.cat([b.flatten(), a])
        call = lambda a, b: scaled_grouped_mm(x, w, a, b, offs=offs, out_dtype=torch.float32)
        streams = [torch.cuda.Stream() for _ in range(3)]
        torch.cuda.synchronize()
        for stream in streams:
            with torch.cuda.stream(stream):
                want = call(a, b)
        torch.cuda.synchronize()
        with slow_runs() as runs:
            for i in range(30):
                with torch.cuda.stream(streams[i % 3]):
                    torch.cuda._sleep(10**6)
                    scaled = whole * 2**(i % 4)
                    apart = call(a * 2**(i % 4), b)
                    together = call(scaled[768:], scaled[:768].view(8, 96))
                    streams[i % 3].synchronize()
                    self.assertTrue(torch.equal(apart, want * 2**(i % 4))
                                    and torch.equal(together, want * 4**(i % 4)), i)
        self.assertEqual(runs.call_count, 0)

    def test_graph_between_calls(self):
        """A graph of the stream of the calls has their program too; that of another takes one, and then
        nothing is known."""
        x, side, other = self.x.clone(), torch.cuda.Stream(), torch.cuda.Stream()
        torch.cuda.synchronize()
        for stream, slow in (side, 0), (other, 1):
            with torch.cuda.stream(side):
                for _ in range(3):
                    self.call(x)
                graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(graph, stream=stream):
                    y = self.call(x)
                with slow_runs() as runs:
                    for i in range(1, 6):
                        x.copy_(self.x * i)
                        graph.replay()
                        self.assertTrue(self.near(y, i) and self.near(self.call(x), i), i)
                self.assertEqual(runs.call_count, slow)
            self.assertTrue(self.near(self.call()))  # on its own stream, whose program the second graph takes

    def test_threads(self):
        def work(turn):
            with torch.cuda.stream(torch.cuda.Stream()):
                for i in range(100):
                    x = (self.x * (turn + i)).requires_grad_(i % 4 == 0)
                    y = self.call(x)
                    self.assertTrue(self.near(y.detach(), turn + i) and y.requires_grad == x.requires_grad)
                    if y.requires_grad:
                        gx, = torch.autograd.grad(y, x, y.detach())
                        self.assertEqual(gx.shape, x.shape)

        torch.cuda.synchronize()
        with ThreadPoolExecutor(4) as threads:
            list(threads.map(work, range(1, 5)))

    def test_memory_does_not_grow(self):
        def work():
            for _ in range(5000):
                self.call()
            torch.cuda.synchronize()

        work()
        blocks, bytes = sys.getallocatedblocks(), torch.cuda.memory_allocated()
        work()
        work()
        self.assertEqual(torch.cuda.memory_allocated(), bytes)
        self.assertLess(sys.getallocatedblocks() - blocks, 500)


if __name__ == "__main__":
    unittest.main()
