"""Tests of batchgemm.torch on a GPU: streams, graphs, torch.compile and waits. check_cuda.py runs them."""

import unittest

import torch

from batchgemm import _programs as bp
from batchgemm.torch import grouped_mm, int4_grouped_mm, matmul_list, scaled_grouped_mm
from tensors import bound, ends, exact, random, reference, scales
from test_torch_int4 import new_scales, new_words, numbers


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
