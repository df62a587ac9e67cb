"""Tests of the layer of experts on tensors of the CPU: numbers, choices and gradients.
test_torch_experts_calls.py has those of calls."""

import itertools
import unittest
from unittest import mock

try:
    import torch
except ImportError as missing:
    raise unittest.SkipTest(f"no PyTorch: {missing}")

from batchgemm._programs import Programs
from layers import LIMIT, Layer, apart, bound, reference

SILU_OF_PROGRAMS = ("silu", "gelu", "relu")
EVERY = SILU_OF_PROGRAMS + ("gelu_exact", "relu2", "swiglu_oai")


def programs():
    """Notes what calls of a layer queue: each time a tuple of calls."""
    return mock.patch.object(Programs, "run_all", autospec=True, side_effect=Programs.run_all)


class Numbers(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(1)

    def check(self, layer, **options):
        y, again = (layer.call(**options) for _ in range(2))
        self.assertEqual((y.dtype, y.shape), (layer.x.dtype, layer.x.shape))
        self.assertTrue(torch.equal(y, again), "the second call")
        error, limit = (y.double() - reference(layer.double())).abs(), bound(layer)
        self.assertTrue(bool((error <= limit).all()), f"{(error / limit).max() if error.numel() else error}")

    def test_layouts_and_activations(self):
        for dtype, layout, transposed, bias, activation in itertools.product(
                (torch.float32, torch.bfloat16, torch.float16), ("halves", "interleaved", "ungated", "pair"),
                (False, True), (False, True), EVERY):
            if activation == "swiglu_oai" and layout == "ungated":
                continue
            with self.subTest(dtype=dtype, layout=layout, transposed=transposed, bias=bias, act=activation):
                self.check(Layer(dtype, layout=layout, transposed=transposed, bias=bias,
                                 activation=activation))

    def test_sizes(self):
        for name, sizes in {
            "one": dict(tokens=1, top=1, experts=1, hidden=1, inner=1), "no tokens": dict(tokens=0),
            "no choices": dict(top=0), "no experts": dict(experts=0), "no inner": dict(inner=0),
            "no hidden": dict(hidden=0), "k of 1": dict(top=1), "k of 16": dict(top=16),
            "one expert": dict(experts=1), "many": dict(experts=300, tokens=40),
            "odd": dict(hidden=17, inner=9),
        }.items():
            for bias in False, True:
                with self.subTest(name, bias=bias):
                    self.check(Layer(torch.float32, bias=bias, **sizes))
                    self.check(Layer(torch.bfloat16, bias=bias, layout="ungated", **sizes))

    def test_choices(self):
        for name, index in {
            "all to one": torch.full((9, 4), 3), "none": torch.full((9, 4), -1),
            "beyond": torch.full((9, 4), 6),
            "far": torch.tensor([2**31 + 1, -2**63, 2**63 - 1, 2**32]).expand(9, 4),
            "twice": torch.tensor([2, 2, 5, 5]).expand(9, 4), "mixed": torch.randint(-3, 9, (9, 4)),
            "last alone": torch.tensor([-1, 7, -1, 5]).expand(9, 4),
        }.items():
            with self.subTest(name):
                layer = Layer(torch.float32, tokens=9, top=4, experts=6, bias=True)
                layer.index = index
                self.check(layer)
        layer.index = torch.randint(-3, 9, (9, 4), dtype=torch.int32)
        self.check(layer)
        layer.index = torch.randint(0, 6, (4, 9)).t()
        self.check(layer)

    def test_nothing_of_what_does_not_count(self):
        """Not a number among the tokens and weights that nothing counts stays there."""
        layer = Layer(torch.float32, tokens=9, top=4, experts=6, bias=True)
        layer.index = torch.where(layer.index == 2, -1, layer.index)
        layer.index[3] = 6
        want = layer.call()
        for t in layer.gate_up, layer.down, layer.gate_up_bias, layer.down_bias:
            t[2] = torch.nan
        layer.x[3] = torch.nan
        layer.weights = torch.where((layer.index < 0) | (layer.index >= 6), torch.nan, layer.weights)
        self.assertTrue(torch.equal(layer.call(), want))
        self.assertEqual(want[3].abs().max().item(), 0)

    def test_tokens_keep_their_bits(self):
        """Tokens in another order give rows in that order."""
        for dtype in torch.float32, torch.bfloat16:
            layer, order = Layer(dtype, tokens=50), torch.randperm(50)
            want = layer.call()
            layer.x, layer.index, layer.weights = layer.x[order], layer.index[order], layer.weights[order]
            self.assertTrue(torch.equal(layer.call(), want[order]))

    def test_types_of_weights(self):
        for dtype in torch.float32, torch.bfloat16, torch.float16:
            layer = Layer(torch.bfloat16)
            layer.weights = layer.weights.to(dtype)
            self.check(layer)

    def test_strides(self):
        """Views are used where they lie, or copied, and give the same bits."""
        for lay in (lambda t: t.repeat_interleave(2, -1)[..., ::2], lambda t: t.repeat_interleave(2, 0)[::2],
                    lambda t: torch.nn.functional.pad(t, (1, 2))[..., 1 : 1 + t.shape[-1]],
                    lambda t: t.transpose(-2, -1).contiguous().transpose(-2, -1)):
            for layout, name in itertools.product(("halves", "interleaved", "pair"),
                                                  ("x", "gate_up", "up", "down", "gate_up_bias", "down_bias",
                                                   "index", "weights")):
                with self.subTest(layout=layout, name=name):
                    layer = Layer(torch.bfloat16, layout=layout, bias=True)
                    if getattr(layer, name) is not None:
                        setattr(layer, name, lay(getattr(layer, name)))
                        self.check(layer)

    def test_fused(self):
        """Four programs, queued at once, where these have the activation, however the gate lies but at even
        columns; else a program has what is between the products."""
        for layout, transposed, activation, bias, want in (
                ("halves", False, "silu", True, [4]), ("halves", True, "gelu", False, [4]),
                ("interleaved", False, "relu", False, [4]), ("pair", True, "silu", True, [4]),
                ("ungated", False, "silu", True, [4]), ("pair", False, "gelu_exact", False, [6]),
                ("interleaved", True, "silu", False, [5]), ("interleaved", True, "swiglu_oai", True, [5]),
                ("interleaved", False, "silu", True, [5])):
            layer = Layer(torch.float32, layout=layout, transposed=transposed, bias=bias,
                          activation=activation)
            with self.subTest(layout=layout, transposed=transposed, act=activation), programs() as queued:
                layer.call()
                self.assertEqual([len(call.args[1]) for call in queued.call_args_list], want)

    def test_function(self):
        for layout, transposed, bias in itertools.product(("halves", "pair", "ungated"), (False, True),
                                                          (False, True)):
            layer = Layer(torch.float32, layout=layout, transposed=transposed, bias=bias)
            layer.index[0] = -1
            gate = lambda z: torch.nn.functional.silu(z) if layout == "ungated" else \
                torch.nn.functional.silu(z.chunk(2, -1)[0]) * z.chunk(2, -1)[1]
            self.check(layer, activation=gate)


class Gradients(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(2)

    def check(self, layer, **options):
        """Against autograd in float64. limit: terms of all gradients have no more than in a layer of absolute
        values, in which an activation is 1.2 * |z|; each of some 20 roundings moves them by its unit, and z
        moves the slope of the activation."""
        leaves = layer.leaves()
        y = layer.call(**options)
        gy = torch.randn(y.shape)
        again = torch.autograd.grad(layer.call(**options), leaves, gy.to(y.dtype))
        got = torch.autograd.grad(y, leaves, gy.to(y.dtype))
        self.assertTrue(all(map(torch.equal, got, again)), "the second step")
        double = layer.double()
        of_double = double.leaves()
        exact = torch.autograd.grad(reference(double), of_double, gy.to(y.dtype).double())
        for name, g, want, limit in zip(layer.names(), got, exact, layer.limits(gy.to(y.dtype))):
            self.assertEqual((g.dtype, g.shape), (getattr(layer, name).dtype, want.shape))
            error = (g.double() - want).abs()
            self.assertFalse(apart(g, want, layer.x.dtype), f"{name}: {error.norm() / want.norm()}")
            self.assertTrue(bool((error <= limit + LIMIT).all()),
                            f"{name}: {(error / limit).nan_to_num().max() if error.numel() else error}")

    def test_layouts_and_activations(self):
        for dtype, layout, transposed, bias, activation in itertools.product(
                (torch.float32, torch.bfloat16, torch.float16), ("halves", "interleaved", "ungated", "pair"),
                (False, True), (False, True), EVERY):
            if activation == "swiglu_oai" and layout == "ungated":
                continue
            with self.subTest(dtype=dtype, layout=layout, transposed=transposed, bias=bias, act=activation):
                self.check(Layer(dtype, layout=layout, transposed=transposed, bias=bias,
                                 activation=activation))

    def test_sizes_and_choices(self):
        for name, sizes in {
            "one": dict(tokens=1, top=1, experts=1, hidden=1, inner=1), "no tokens": dict(tokens=0),
            "no choices": dict(top=0), "no inner": dict(inner=0), "k of 1": dict(top=1),
            "k of 16": dict(top=16), "odd": dict(hidden=17, inner=9), "many": dict(experts=300, tokens=40),
        }.items():
            with self.subTest(name):
                self.check(Layer(torch.float32, bias=True, **sizes))
        for name, index in {
            "all to one": torch.full((9, 4), 3), "none": torch.full((9, 4), -1),
            "mixed": torch.randint(-3, 9, (9, 4)), "twice": torch.tensor([2, 2, 5, -5]).expand(9, 4),
        }.items():
            for activation in "silu", "gelu_exact":
                with self.subTest(name, activation=activation):
                    layer = Layer(torch.float32, tokens=9, top=4, experts=6, bias=True,
                                  activation=activation)
                    layer.index = index
                    self.check(layer)

    def test_strides(self):
        """What lies otherwise than programs take it is copied: arguments, what was kept, and the gradient."""
        apart = lambda t: torch.nn.functional.pad(t.flatten(), (1, 0))[1:].view(t.shape)
        columns = lambda t: t.t().contiguous().t() if t.dim() == 2 else t.repeat_interleave(2)[::2]
        layer = Layer(torch.bfloat16, bias=True)
        leaves, gy = layer.leaves(), torch.randn(layer.x.shape).bfloat16()
        want = torch.autograd.grad(layer.call(), leaves, gy)
        for lay, of_index in itertools.product((apart, columns), (torch.int32, torch.int64)):
            index, keep = lay(layer.index.to(of_index)), lambda t: lay(t) if t.dim() < 3 else t
            self.assertFalse(index.is_contiguous() and index.data_ptr() % 16 == 0)
            with torch.autograd.graph.saved_tensors_hooks(keep, lambda t: t):
                got = torch.autograd.grad(layer.call(), leaves, lay(gy))
            self.assertTrue(all(map(torch.equal, got, want)))
            with mock.patch.object(layer, "index", index):
                self.check(layer)

    def test_new_memory(self):
        """Memory may hold anything before: here what is not a number."""
        torch.use_deterministic_algorithms(True)
        self.addCleanup(torch.use_deterministic_algorithms, False)
        self.assertTrue(torch.empty(2).isnan().all())
        for layout, activation in itertools.product(("halves", "pair"), ("silu", "gelu_exact")):
            with self.subTest(layout=layout, activation=activation):
                layer = Layer(torch.bfloat16, tokens=21, bias=True, layout=layout, activation=activation)
                layer.index[:7], layer.index[9, 1] = -1, 5
                with torch.no_grad():
                    Numbers.check(self, layer)
                self.check(layer)
                layer.index, layer.index[14:] = torch.full_like(layer.index, -1, dtype=torch.int32), 0
                self.check(layer)

    def test_function(self):
        silu = torch.nn.functional.silu
        layer = Layer(torch.float32, bias=True)
        layer.index[0] = -1
        self.check(layer, activation=lambda z: silu(z.chunk(2, -1)[0]) * z.chunk(2, -1)[1])

    def test_each_alone(self):
        """A gradient is the same bits whether others are wanted or not."""
        layer = Layer(torch.bfloat16, bias=True)
        leaves = layer.leaves()
        gy = torch.randn(layer.x.shape).to(layer.x.dtype)
        every = torch.autograd.grad(layer.call(), leaves, gy)
        for name, want in zip(layer.names(), every):
            for other in layer.names():
                getattr(layer, other).requires_grad_(other == name)
            got, = torch.autograd.grad(layer.call(), getattr(layer, name), gy)
            self.assertTrue(torch.equal(got, want), name)

    def test_programs(self):
        """A step queues its programs twice, and torch computes nothing between the products."""
        for layout, want in (("halves", [5, 4]), ("interleaved", [5, 4]), ("ungated", [5, 4]),
                             ("pair", [6, 6])):
            layer = Layer(torch.bfloat16, layout=layout)
            leaves = layer.leaves()
            with programs() as queued, self.subTest(layout):
                torch.autograd.grad(layer.call().sum(), leaves)
                self.assertEqual([len(call.args[1]) for call in queued.call_args_list], want)

    def test_what_is_kept(self):
        """What is given, x @ gate_up and the words of the routing, and nothing of T * k rows of H."""
        layer = Layer(torch.bfloat16, tokens=30, hidden=64, inner=8, bias=True)
        leaves, sizes = layer.leaves(), []
        with torch.autograd.graph.saved_tensors_hooks(lambda t: (sizes.append(t.numel()), t)[1], lambda t: t):
            y = layer.call()
        own = {t.numel() for t in [*leaves, layer.index]}
        rows = 30 * layer.index.shape[1]
        self.assertEqual([n for n in sizes if n not in own], [rows * 16, 64 + 33 * layer.index.shape[1] * 3])
        for g in torch.autograd.grad(y, leaves, torch.ones_like(y)):
            self.assertEqual(g.untyped_storage().nbytes(), g.numel() * g.itemsize, "part of what is larger")

    def test_twice(self):
        layer = Layer(torch.float32)
        layer.leaves()
        gx, = torch.autograd.grad(layer.call().square().sum(), layer.x, create_graph=True)
        with self.assertRaisesRegex(NotImplementedError, "experts has no gradients of gradients"):
            torch.autograd.grad(gx.sum(), layer.x)


if __name__ == "__main__":
    unittest.main()
