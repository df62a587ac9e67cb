"""Tests of the module _eager on streams of a GPU. check_cuda.py runs them."""

import sys
import unittest
from concurrent.futures import ThreadPoolExecutor

import torch

import batchgemm.torch as bt
from batchgemm import _programs as bp
from batchgemm._optional import Nothing
from batchgemm.torch import grouped_mm, scaled_grouped_mm
from tensors import ends, random, reference, slow_runs
from test_torch_eager_scales import one_array


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
