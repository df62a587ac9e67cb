"""Tests of the layer of experts on a GPU: streams, graphs, waits and large sizes. check_cuda.py runs them."""

import unittest
from unittest import mock

import torch

from batchgemm import _fused
from batchgemm._optional import Nothing, eager
from batchgemm.torch import route
from layers import Layer, apart, bound, reference


class ExpertsCuda(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(6)
        self.layer = Layer(torch.bfloat16, tokens=200, top=4, experts=16, hidden=128, inner=64, bias=True)

    def near(self, y, layer, name=""):
        with torch.no_grad():
            error, limit = (y.double() - reference(layer.double())).abs(), bound(layer)
        self.assertTrue(bool((error <= limit).all()), f"{name}: {(error / limit).max()}")

    def step(self):
        y = self.layer.call()
        return y, *torch.autograd.grad(y, self.leaves, torch.ones_like(y))

    def test_large(self):
        for dtype in torch.float32, torch.bfloat16, torch.float16:
            for sizes in (dict(tokens=4096, top=8, experts=128, hidden=512, inner=256),
                          dict(tokens=40000, top=2, experts=8, hidden=256, inner=512),
                          dict(tokens=3, top=16, experts=4096, hidden=64, inner=32)):
                for layout in "halves", "interleaved", "ungated", "pair":
                    layer = Layer(dtype, layout=layout, **sizes)
                    layer.index = torch.randint(-1, sizes["experts"] + 1, layer.index.shape)
                    y = layer.call()
                    self.near(y, layer, f"{dtype} {sizes} {layout}")
                    self.assertTrue(torch.equal(y, layer.call()))

    def test_gradients_of_many(self):
        for dtype, layout, activation, tokens in (
                (torch.bfloat16, "halves", "silu", 4096), (torch.bfloat16, "interleaved", "gelu", 4100),
                (torch.float16, "pair", "relu", 4100), (torch.bfloat16, "ungated", "silu", 4095),
                (torch.bfloat16, "pair", "gelu_exact", 4096)):
            layer = Layer(dtype, tokens=tokens, top=8, experts=32, hidden=256, inner=192, bias=True,
                          layout=layout, activation=activation)
            layer.index[::7, 3] = -1
            leaves, gy = layer.leaves(), torch.randn(tokens, 256).to(dtype)
            got, again = (torch.autograd.grad(layer.call(), leaves, gy) for _ in range(2))
            self.assertTrue(all(map(torch.equal, got, again)))
            double = layer.double()
            of_double = double.leaves()
            for name, g, want in zip(layer.names(), got,
                                     torch.autograd.grad(reference(double), of_double, gy.double())):
                with self.subTest(dtype=dtype, layout=layout, activation=activation, name=name):
                    self.assertFalse(apart(g, want, dtype))

    @unittest.skipIf(eager is Nothing or not hasattr(torch.Tensor, "__dlpack_c_exchange_api__"),
                     "_eager cannot read tensors in C")
    def test_known(self):
        """A plain call like one before skips the checks."""
        with torch.no_grad():
            want = self.layer.call()
            with mock.patch.object(_fused, "run") as slow:
                self.assertTrue(torch.equal(self.layer.call(), want))
            self.assertFalse(slow.called)

    def test_routes_of_many(self):
        for tokens, top, experts in (100_000, 8, 256), (1 << 20, 1, 4096), (5000, 16, 7):
            index = torch.randint(-1, experts + 1, (tokens, top))
            ends, at, slots = route(index, experts)
            chosen = torch.where((index < 0) | (index >= experts), experts, index).flatten()
            order = chosen.sort(stable=True).indices
            count = int((chosen < experts).sum())
            self.assertTrue(torch.equal(slots[:count].long(), order[:count]))
            self.assertTrue(torch.equal(at[:count].long(), order[:count] // top))
            self.assertTrue(torch.equal(ends.long(), chosen.bincount(minlength=experts + 1)[:-1].cumsum(0)))
            self.assertEqual(slots[count:].unique().tolist(), [-1] * (count < tokens * top))

    def test_streams(self):
        for stream in [torch.cuda.Stream() for _ in range(3)]:
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                torch.cuda._sleep(10**7)
                layer = self.layer.map(lambda t: t)
                layer.x = self.layer.x * 2  # queued before the layer, on the same stream
                y = layer.call() + 0
            stream.synchronize()
            self.near(y, layer)

    def test_waits_for_nothing(self):
        self.leaves = self.layer.leaves()
        for _ in range(2):
            self.step()
            with torch.no_grad():
                self.layer.call()
        before, torch_says = torch.cuda.Event(), torch.cuda.get_sync_debug_mode()
        torch.cuda.synchronize()
        try:
            torch.cuda.set_sync_debug_mode("error")
            torch.cuda._sleep(2 * 10**9)  # about a second
            before.record()
            self.step()
            with torch.no_grad():
                self.layer.call()
            self.assertFalse(before.query(), "the step waited for the device")
        finally:
            torch.cuda.set_sync_debug_mode(torch_says)
        torch.cuda.synchronize()

    def test_graph(self):
        self.leaves, layer = self.layer.leaves(), self.layer

        def both():
            with torch.no_grad():
                y = layer.call()
            return y, *self.step()

        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            both()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            outputs = both()
        for change in range(4):
            layer.index.copy_(torch.randint(-1, 17, layer.index.shape) if change else torch.tensor(3))
            layer.x.data.normal_()
            graph.replay()
            self.near(outputs[0], layer, change)
            self.assertTrue(all(map(torch.equal, outputs, both())), change)

    def test_compile(self):
        for mode in "default", "reduce-overhead":
            torch._dynamo.reset()
            compiled = torch.compile(lambda: self.layer.call() + 1, fullgraph=True, mode=mode)
            for _ in range(4):
                with torch.no_grad():
                    self.assertTrue(torch.equal(compiled(), self.layer.call() + 1), mode)

    @unittest.skipIf(torch.cuda.device_count() < 2, "one GPU")
    def test_other_device(self):
        layer = self.layer.map(lambda t: t.to("cuda:1"))
        layer.index = layer.index.to("cuda:1")
        self.near(layer.call(), layer)
