"""Tests of batchgemm.transformers with a stand-in for what it uses of transformers: an interface, and modules
with the attributes that its decorator gives them. check_transformers.py has transformers' own models."""

import importlib
import sys
import types
import unittest
import warnings
from unittest import mock

try:
    import torch
except ImportError as missing:
    raise unittest.SkipTest(f"no PyTorch: {missing}")

import torch.nn.functional as F

from batchgemm import _experts
from layers import Layer


def _default_apply_gate(self, gate_up):
    gate, up = gate_up.chunk(2, -1)
    return self.act_fn(gate) * up


class Module(torch.nn.Module):
    """A module of experts as transformers' decorator leaves it, and its own loop."""

    has_gate, has_bias, is_transposed, act_fn = True, False, False, torch.nn.SiLU()
    _apply_gate = _default_apply_gate

    def __init__(self, layer):
        super().__init__()
        names = {"gate_up": "gate_up_proj" if self.has_gate else "up_proj", "down": "down_proj"}
        for name, own in names.items():
            setattr(self, own, torch.nn.Parameter(getattr(layer, name)))
            if self.has_bias:
                setattr(self, own + "_bias", torch.nn.Parameter(getattr(layer, name + "_bias")))

    def loop(self, x, index, weights):
        first = "gate_up_proj" if self.has_gate else "up_proj"
        y = torch.zeros_like(x)
        turn = lambda t: t if self.is_transposed else t.t()
        bias = lambda name, e: getattr(self, name + "_bias")[e] if self.has_bias else 0
        for e in range(len(self.down_proj)):
            z = x @ turn(getattr(self, first)[e]) + bias(first, e)
            h = self._apply_gate(z) if self.has_gate else self.act_fn(z)
            share = (weights * (index == e)).sum(1, keepdim=True)
            y = y + share * (h @ turn(self.down_proj[e]) + bias("down_proj", e))
        return y


class GptOssExperts(Module):
    has_bias, is_transposed, alpha, limit = True, True, 1.5, 0.5

    def _apply_gate(self, gate_up):
        gate, up = gate_up[..., ::2], gate_up[..., 1::2]
        gate, up = gate.clamp(max=self.limit), up.clamp(-self.limit, self.limit)
        return (up + 1) * gate * torch.sigmoid(gate * self.alpha)


class Own(Module):
    def _apply_gate(self, gate_up):
        gate, up = gate_up.chunk(2, -1)
        return torch.tanh(gate) * up


class Ungated(Module):
    has_gate = False
    act_fn = type("ReLUSquaredActivation", (torch.nn.Module,), {"forward": lambda _, z: F.relu(z).square()})()


class UngatedOwn(Module):
    has_gate, act_fn = False, torch.nn.Tanh()


class Gelu(Module):
    act_fn = type("GELUActivation", (torch.nn.Module,), {"forward": lambda _, z: F.gelu(z)})()


class Transformers(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(1)
        self.functions = {}
        self.grouped = mock.Mock(return_value="theirs")
        moe = types.ModuleType("transformers.integrations.moe")
        moe.ALL_EXPERTS_FUNCTIONS = mock.Mock(register=self.functions.__setitem__)
        moe.grouped_mm_experts_forward = self.grouped
        integrations = types.ModuleType("transformers.integrations")
        integrations.moe = moe
        patch = mock.patch.dict(sys.modules, {"transformers": types.ModuleType("transformers"),
                                              "transformers.integrations": integrations,
                                              "transformers.integrations.moe": moe})
        patch.start()
        self.addCleanup(patch.stop)
        sys.modules.pop("batchgemm.transformers", None)
        self.ours = importlib.import_module("batchgemm.transformers")
        self.addCleanup(sys.modules.pop, "batchgemm.transformers", None)

    def run_both(self, of, **options):
        layer = Layer(torch.float32, bias=of.has_bias, transposed=of.is_transposed,
                      layout="halves" if of.has_gate else "ungated", **options)
        module, leaves, grads = of(layer), [], []
        for forward in module.loop, lambda *args: self.functions["batchgemm"](module, *args):
            x, weights = (t.clone().requires_grad_() for t in (layer.x, layer.weights))
            y = forward(x, layer.index, weights)
            leaves.append(y)
            grads.append(torch.autograd.grad(y.square().sum(), [x, weights, *module.parameters()]))
            with torch.no_grad():
                torch.testing.assert_close(forward(x, layer.index, weights), leaves[0], atol=1e-4, rtol=1e-4)
        for want, got in zip(*grads):
            torch.testing.assert_close(got, want, atol=1e-4, rtol=1e-4)

    def test_modules(self):
        for of, composed in ((Module, 0), (GptOssExperts, 0), (Own, 2), (Ungated, 0), (UngatedOwn, 2),
                             (Gelu, 0)):
            with mock.patch.object(_experts, "_composed", side_effect=_experts._composed) as calls, \
                    warnings.catch_warnings():
                warnings.simplefilter("error")
                self.run_both(of)
            self.assertEqual(calls.call_count, composed, of)
        self.grouped.assert_not_called()

    def test_weights_of_all_experts(self):
        """Routers may give a weight for each expert."""
        layer = Layer(torch.float32)
        module, every = Module(layer), torch.rand(21, 5)
        got = self.functions["batchgemm"](module, layer.x, layer.index, every)
        want = module.loop(layer.x, layer.index, every.gather(1, layer.index))
        torch.testing.assert_close(got, want, atol=1e-4, rtol=1e-4)

    def test_type_of_hidden_states(self):
        layer = Layer(torch.bfloat16)
        y = self.functions["batchgemm"](Module(layer), layer.x.float()[None], layer.index, layer.weights)
        self.assertEqual((y.dtype, y.shape), (torch.float32, (1, 21, 24)))

    def test_falls_back(self):
        layer = Layer(torch.float32)
        wrong = Module(layer)
        wrong.down_proj = torch.nn.Parameter(wrong.down_proj.double())
        none = Module(layer)
        del none.gate_up_proj
        for module, why in (wrong, "down_proj is torch.float64"), (none, "it has no tensor gate_up_proj"):
            said = f"Module: {why}: these experts run as with \"grouped_mm\""
            with self.assertWarnsRegex(UserWarning, said):
                y = self.functions["batchgemm"](module, layer.x, layer.index, layer.weights)
            self.assertEqual(y, "theirs")
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                self.functions["batchgemm"](module, layer.x, layer.index, layer.weights)
        with self.assertWarnsRegex(UserWarning, "17 experts for each token"):
            self.functions["batchgemm"](Module(layer), layer.x, torch.zeros(21, 17, dtype=int), None)


if __name__ == "__main__":
    unittest.main()
