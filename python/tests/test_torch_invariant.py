"""Tests of set_batch_invariant on tensors of the CPU: a row keeps its bits whatever rows are beside it."""

import unittest
from unittest import mock

try:
    import torch
except ImportError as missing:
    raise unittest.SkipTest(f"no PyTorch: {missing}")

from batchgemm import _programs
from batchgemm._core import Device
from batchgemm.torch import experts, grouped_mm, set_batch_invariant
from layers import Layer

COUNTS = 1, 2, 17, 100, 300  # of tokens


class Invariant(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(8)
        set_batch_invariant(True)
        self.addCleanup(set_batch_invariant, False)

    def test_layer(self):
        for dtype in torch.float32, torch.bfloat16, torch.float16:
            layer = Layer(dtype, tokens=300, top=4, experts=8, hidden=136, inner=72, bias=True)
            gy = torch.randn(300, 136).to(dtype)
            want = self.step(layer, gy, 300)
            for count in COUNTS:
                for got, all in zip(self.step(layer, gy, count), want):
                    self.assertTrue(torch.equal(got, all[:count]), f"{dtype}, {count} tokens")

    def step(self, layer, gy, count):
        """y, and the gradients that have a row for each of the first tokens."""
        x, weights = (t[:count].clone().requires_grad_() for t in (layer.x, layer.weights))
        y = experts(x, layer.gate_up, layer.down, layer.index[:count], weights,
                    gate_up_bias=layer.gate_up_bias, down_bias=layer.down_bias)
        with torch.no_grad():
            plain = experts(x, layer.gate_up, layer.down, layer.index[:count], weights,
                            gate_up_bias=layer.gate_up_bias, down_bias=layer.down_bias)
        return y.detach(), plain, *torch.autograd.grad(y, (x, weights), gy[:count])

    def test_products(self):
        for dtype in torch.float32, torch.bfloat16:
            x, w = torch.randn(400, 136).to(dtype), torch.randn(4, 136, 72).to(dtype)
            ends = lambda *counts: torch.tensor(counts, dtype=torch.int32).cumsum(0).int()
            y = grouped_mm(x, w, offs=ends(100, 100, 100, 100))
            for count in COUNTS[:4]:
                rows = torch.cat([x[100 * g:][:count] for g in range(4)])
                got = grouped_mm(rows, w, offs=ends(*[count] * 4))
                want = torch.cat([y[100 * g:][:count] for g in range(4)])
                self.assertTrue(torch.equal(got, want), f"{dtype}, {count} rows")

    def test_every_program(self):
        """All ragged programs of a layer and its gradients, but those of sums over rows, have the option."""
        layer = Layer(torch.bfloat16, tokens=9, hidden=40)
        with mock.patch.object(Device, "prepare_ragged", autospec=True,
                               side_effect=Device.prepare_ragged) as prepare:
            self.step(layer, torch.randn(9, 40).bfloat16(), 9)
            grouped_mm(torch.randn(9, 40), torch.randn(1, 40, 7), offs=torch.tensor([9], dtype=torch.int32))
        asked = [call.kwargs["options"] for call in prepare.call_args_list]
        self.assertGreater(len(asked), 4)
        self.assertTrue(all(options["invariant"] for options in asked))

    def test_switch(self):
        """Each state has programs of its own, and goes back to those that it had."""
        x, w, offs = torch.randn(5, 8), torch.randn(1, 8, 3), torch.tensor([5], dtype=torch.int32)
        with mock.patch.object(_programs.Call, "prepare", autospec=True,
                               side_effect=_programs.Call.prepare) as prepare:
            for on, made in (True, 1), (False, 2), (True, 2), (False, 2):
                set_batch_invariant(on)
                grouped_mm(x, w, offs=offs)
                self.assertEqual(prepare.call_count, made)
        with self.assertRaisesRegex(TypeError, "on is 1: it must be a bool"):
            set_batch_invariant(1)


if __name__ == "__main__":
    unittest.main()
