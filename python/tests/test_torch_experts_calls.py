"""Tests of calls of the layer of experts: mistakes, torch.compile, autocast, checkpoints, what watches, and
the module."""

import unittest
from unittest import mock

try:
    import torch
except ImportError as missing:
    raise unittest.SkipTest(f"no PyTorch: {missing}")

from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

from batchgemm import _programs
from batchgemm._programs import Programs
from batchgemm.torch import Experts, experts, grouped_mm, route
from layers import Layer, bound, reference
from tensors import quiet


class Mistakes(unittest.TestCase):
    def test_mistakes(self):
        ones = torch.ones
        fine = dict(x=ones(4, 6), gate_up=ones(3, 10, 6), down=ones(3, 6, 5),
                    index=torch.zeros(4, 2, dtype=torch.int64), weights=ones(4, 2))
        index, here = lambda *shape, dtype=torch.int64: torch.zeros(shape, dtype=dtype), fine["x"].device
        for words, error, wrong in (
            ("x is list: it must be a tensor", TypeError, dict(x=[])),
            ("down is NoneType: it must be a tensor", TypeError, dict(down=None)),
            ("down_bias is int: it must be a tensor", TypeError, dict(down_bias=1)),
            ("gate_up has 3 tensors, layout is 'halves'", ValueError, dict(gate_up=[ones(3, 5, 6)] * 3)),
            ("gate_up has 2 tensors, layout is 'ungated'", ValueError,
             dict(gate_up=[ones(3, 5, 6)] * 2, layout="ungated")),
            ("activation 'tanh': it must be a function or one of relu, gelu,", ValueError,
             dict(activation="tanh")),
            ("activation None", ValueError, dict(activation=None)),
            ("layout 'rows': it must be one of halves, interleaved,", ValueError, dict(layout="rows")),
            ("activation 'swiglu_oai': none where the layout is 'ungated'", ValueError,
             dict(activation="swiglu_oai", layout="ungated", gate_up=ones(3, 5, 6))),
            ("x is torch.float64: it must be float32, bfloat16 or float16", TypeError,
             dict(x=ones(4, 6).double())),
            ("gate_up is torch.bfloat16, x is torch.float32", TypeError,
             dict(gate_up=ones(3, 10, 6).bfloat16())),
            ("gate_up[1] is torch.bfloat16, x is", TypeError,
             dict(gate_up=(ones(3, 5, 6), ones(3, 5, 6).bfloat16()))),
            ("down_bias is torch.float16, x is", TypeError, dict(down_bias=ones(3, 6).half())),
            ("x has 3 dimensions: it must have 2", ValueError, dict(x=ones(1, 4, 6))),
            ("gate_up has 2 dimensions: it must have 3", ValueError, dict(gate_up=ones(10, 6))),
            ("index has 1 dimensions: it must have 2", ValueError, dict(index=index(4))),
            ("index is torch.int16: it must be int32 or int64", TypeError,
             dict(index=index(4, 2, dtype=torch.int16))),
            ("index is of 5 tokens, x of 4", ValueError, dict(index=index(5, 2))),
            ("index has 17 choices for each token: there may be 16", ValueError, dict(index=index(4, 17))),
            ("weights are torch.float64", TypeError, dict(weights=ones(4, 2).double())),
            ("weights has the shape (4, 3): it must be (4, 2)", ValueError, dict(weights=ones(4, 3))),
            ("gate_up has the shape (3, 9, 6): with this x it must be (3, 2 * I, 6)", ValueError,
             dict(gate_up=ones(3, 9, 6))),
            ("gate_up has the shape (3, 10, 7): with this x it must be (3, 2 * I, 6)", ValueError,
             dict(gate_up=ones(3, 10, 7))),
            ("gate_up has the shape (3, 10, 6): with this x it must be (3, 6, 2 * I)", ValueError,
             dict(transposed=True)),
            ("gate_up[1] has the shape (3, 4, 6): it must be (3, 5, 6)", ValueError,
             dict(gate_up=(ones(3, 5, 6), ones(3, 4, 6)))),
            ("down has the shape (3, 5, 6): it must be (3, 6, 5)", ValueError, dict(down=ones(3, 5, 6))),
            ("down has the shape (2, 6, 5): it must be (3, 6, 5)", ValueError, dict(down=ones(2, 6, 5))),
            ("gate_up_bias has the shape (3, 5): it must be (3, 10)", ValueError,
             dict(gate_up_bias=ones(3, 5))),
            ("down_bias has the shape (3, 5): it must be (3, 6)", ValueError, dict(down_bias=ones(3, 5))),
            (f"down is on meta, x on {here}", ValueError, dict(down=ones(3, 6, 5).to("meta"))),
            (f"index is on meta, x on {here}", ValueError, dict(index=index(4, 2).to("meta"))),
            ("gate_up has 4097 experts: there may be 4096", ValueError,
             dict(gate_up=ones(1, 10, 6).expand(4097, 10, 6), down=ones(1, 6, 5).expand(4097, 6, 5))),
        ):
            for also in {}, {"activation": lambda z: z[:, :5]}:
                if also and "activation" in words:
                    continue
                with self.subTest(words, also=also), self.assertRaises(error) as caught:
                    experts(**{**fine, **also, **wrong})
                self.assertIn(words, str(caught.exception))


class Watched(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(3)

    def steps(self, layer):
        """A result, and gradients of all leaves."""
        leaves = layer.leaves()
        y = layer.call()
        return [y.detach(), *torch.autograd.grad(y, leaves, torch.ones_like(y))]

    def test_compile(self):
        for backend in "aot_eager", "inductor":
            for layer in (Layer(torch.float32, bias=True), Layer(torch.float32, layout="pair"),
                          Layer(torch.float32, layout="interleaved", activation="swiglu_oai", bias=True)):
                want = self.steps(layer)
                torch._dynamo.reset()
                call = torch.compile(layer.call, fullgraph=True, backend=backend)
                for tokens in 21, 21, 13:
                    y = call()
                    got = [y.detach(), *torch.autograd.grad(y, layer.leaves(), torch.ones_like(y))]
                    self.assertTrue(all(map(torch.equal, got, want)))
                with torch.no_grad():
                    self.assertTrue(torch.equal(call(), layer.call()))

    def test_compile_of_many_sizes(self):
        torch._dynamo.reset()
        layer = Layer(torch.float32)
        call = torch.compile(experts, fullgraph=True, dynamic=True, backend="aot_eager")
        for tokens in 21, 13, 40:
            x, index = torch.randn(tokens, 24), torch.randint(0, 5, (tokens, 3))
            given = x, layer.gate_up, layer.down, index, torch.rand(tokens, 3)
            self.assertTrue(torch.equal(call(*given), experts(*given)))
            grads = [torch.autograd.grad(of(x.requires_grad_(), *given[1:]).sum(), x)[0]
                     for of in (call, experts)]
            self.assertTrue(torch.equal(*grads))

    def test_compile_with_function(self):
        torch._dynamo.reset()
        layer = Layer(torch.float32)
        silu = torch.nn.functional.silu
        gate = lambda z: silu(z.chunk(2, -1)[0]) * z.chunk(2, -1)[1]
        call = torch.compile(lambda: layer.call(activation=gate), fullgraph=True, backend="aot_eager")
        torch.testing.assert_close(call(), layer.call(activation=gate))

    def test_autocast(self):
        layer = Layer(torch.float32, bias=True)
        with torch.autocast(layer.x.device.type, dtype=torch.bfloat16):
            got = self.steps(layer)
        low = layer.map(lambda t: t.bfloat16() if t.dim() == 3 or t.shape[0] != 21 or t.shape[1] == 24 else t)
        want = self.steps(low)
        for g, w in zip(got, want):
            self.assertTrue(torch.equal(g.to(w.dtype), w))
        self.assertEqual(got[0].dtype, torch.bfloat16)
        self.assertEqual({g.dtype for g in got[1:]}, {torch.float32})

    def test_checkpoint(self):
        for reentrant in False, True:
            layer = Layer(torch.float32, bias=True)
            want, leaves = self.steps(layer), layer.leaves()
            y = checkpoint(lambda _: layer.call(), layer.x, use_reentrant=reentrant)
            y.backward(torch.ones_like(y))
            self.assertTrue(all(torch.equal(t.grad, w) for t, w in zip(leaves, want[1:])))

    def test_watched(self):
        """Through the dispatcher there are the same bits."""
        class Seen(TorchDispatchMode):
            def __torch_dispatch__(self, func, types, args=(), kwargs=None):
                names.append(str(func))
                return func(*args, **kwargs or {})

        layer, names = Layer(torch.bfloat16, bias=True, layout="pair"), []
        want = self.steps(layer)
        with Seen():
            got = self.steps(layer)
        self.assertTrue(all(map(torch.equal, got, want)))
        self.assertEqual([n for n in names if "batchgemm" in n],
                         ["batchgemm.experts_kept.default", "batchgemm.experts_backward.default"])
        with Seen(), torch.no_grad():
            layer.call()
        self.assertEqual(names[-1], "batchgemm.experts.default")

    def test_profiler(self):
        layer = Layer(torch.float32)
        want = self.steps(layer)
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
            got = self.steps(layer)
        self.assertTrue(all(map(torch.equal, got, want)))
        self.assertIn("batchgemm::experts", {event.key for event in profile.key_averages()})

    def test_func(self):
        layer = Layer(torch.float32)
        def loss(x, gate_up, weights):
            return experts(x, gate_up, layer.down, layer.index, weights).square().sum()
        given = layer.x, layer.gate_up, layer.weights
        want = torch.autograd.grad(loss(*(t.requires_grad_() for t in given)), given)
        got = torch.func.grad(loss, argnums=(0, 1, 2))(*(t.detach() for t in given))
        self.assertTrue(all(map(torch.equal, got, want)))
        with self.assertRaisesRegex(NotImplementedError, "no gradients of gradients"):
            torch.func.grad(lambda x: torch.func.grad(loss)(x, *given[1:]).sum())(layer.x.detach())
        with quiet():
            xs = torch.stack((layer.x.detach(), layer.x.detach() + 1))
            rest = layer.gate_up.detach(), layer.down, layer.index, layer.weights.detach()
            one = lambda x: experts(x, *rest)
            self.assertTrue(torch.equal(torch.vmap(one)(xs), torch.stack([one(x) for x in xs])))

    def test_programs_that_make_room(self):
        """A call looks for its programs once, until some of a device's programs are closed; nothing runs what
        was closed."""
        layers = [Layer(torch.float32, tokens=tokens) for tokens in (3, 4, 5, 6, 7)]
        want = [layer.call() for layer in layers]
        finds = mock.patch.object(Programs, "find", autospec=True, side_effect=Programs.find)
        with mock.patch.object(_programs, "KEPT", 9), finds as found:
            for tokens in range(8, 11):
                Layer(torch.float32, tokens=tokens).call()
                for layer, y in zip(layers, want):
                    self.assertTrue(torch.equal(layer.call(), y))
                    found.reset_mock()
                    self.assertTrue(torch.equal(layer.call(), y))
                    self.assertFalse(found.called)

    def test_forward_mode(self):
        layer = Layer(torch.float32)
        with torch.autograd.forward_ad.dual_level(), self.assertRaisesRegex(Exception, "jvp|forward"):
            layer.x = torch.autograd.forward_ad.make_dual(layer.x, layer.x)
            layer.call()

    def test_operators(self):
        """torch's own check of schemas, shapes and gradients of operators."""
        for layer in Layer(torch.float32, bias=True), Layer(torch.float32, layout="pair"):
            options = layer.activation, "halves", False, 1.7, 7.0
            tensors = (layer.x, layer.gate_up, layer.up, layer.down, layer.index, layer.weights,
                       layer.gate_up_bias, layer.down_bias)
            torch.library.opcheck(torch.ops.batchgemm.experts.default, (*tensors, *options))
            layer.leaves()
            torch.library.opcheck(torch.ops.batchgemm.experts.default, (*tensors, *options))

    def test_fake(self):
        with FakeTensorMode():
            layer = Layer(torch.bfloat16)
            self.assertEqual(layer.call().shape, layer.x.shape)


class Routes(unittest.TestCase):
    def test_route(self):
        torch.manual_seed(5)
        for tokens, top, experts_ in (50, 3, 7), (1, 1, 1), (0, 2, 3), (4, 0, 3), (3, 2, 0), (300, 16, 100):
            for dtype in torch.int32, torch.int64:
                index = torch.randint(-2, experts_ + 2, (tokens, top), dtype=dtype)
                got = route(index, experts_)
                chosen = enumerate(index.flatten().tolist())
                rows = sorted((e, slot) for slot, e in chosen if 0 <= e < experts_)
                slots = [slot for _, slot in rows] + [-1] * (index.numel() - len(rows))
                want = ([sum(e <= last for e, _ in rows) for last in range(experts_)],
                        [slot // top if slot >= 0 else -1 for slot in slots], slots)
                self.assertEqual(tuple(t.tolist() for t in got), want)
                self.assertEqual({t.dtype for t in got}, {torch.int32})

    def test_mistakes(self):
        for words, error, index, count in (
                ("index is torch.float32", TypeError, torch.ones(2, 2), 3),
                ("index has the shape (2,)", ValueError, torch.ones(2, dtype=int), 3),
                ("index has the shape (2, 17)", ValueError, torch.ones(2, 17, dtype=int), 3),
                ("4097 experts: there may be 4096", ValueError, torch.ones(2, 2, dtype=int), 4097)):
            with self.assertRaises(error) as caught:
                route(index, count)
            self.assertIn(words, str(caught.exception))

    def test_in_a_layer(self):
        """With grouped_mm it is a product of experts, also compiled."""
        x, w, index = torch.randn(20, 8), torch.randn(4, 8, 6), torch.randint(-1, 5, (20, 3))

        def product():
            ends, tokens, slots = route(index, 4)
            return grouped_mm(x[tokens], w, offs=ends, fill=0), slots

        rows, slots = product()
        for row, slot in zip(rows, slots.tolist()):
            expert = index.flatten()[slot]
            want = x[slot // 3] @ w[expert] if slot >= 0 else torch.zeros(6)
            torch.testing.assert_close(row, want)
        for dynamic in False, True:
            torch._dynamo.reset()
            compiled = torch.compile(product, fullgraph=True, backend="aot_eager", dynamic=dynamic)()
            self.assertTrue(all(map(torch.equal, compiled, (rows, slots))))
        torch.library.opcheck(torch.ops.batchgemm.route.default, (index, 4))


class Modules(unittest.TestCase):
    def test_module(self):
        torch.manual_seed(4)
        for options, names in (
                ({}, ["gate_up_proj", "down_proj"]),
                ({"bias": True}, ["gate_up_proj", "gate_up_proj_bias", "down_proj", "down_proj_bias"]),
                ({"layout": "ungated", "bias": True, "activation": "relu2"},
                 ["up_proj", "up_proj_bias", "down_proj", "down_proj_bias"]),
                ({"layout": "interleaved", "transposed": True, "activation": "swiglu_oai", "alpha": 2.0},
                 ["gate_up_proj", "down_proj"])):
            module = Experts(5, 24, 16, **options)
            self.assertEqual(list(module.state_dict()), names)
            layer = Layer(torch.float32, layout=options.get("layout", "halves"), bias="bias" in options,
                          transposed="transposed" in options)
            first = names[0]
            shapes = {first: layer.gate_up, first + "_bias": layer.gate_up_bias, "down_proj": layer.down,
                      "down_proj_bias": layer.down_bias}
            self.assertEqual({n: t.shape for n, t in module.state_dict().items()},
                             {n: shapes[n].shape for n in names})
            y = module(layer.x, layer.index, layer.weights)
            kept = {n: v for n, v in options.items() if n != "bias"}
            want = experts(layer.x, getattr(module, first), module.down_proj, layer.index, layer.weights,
                           gate_up_bias=getattr(module, first + "_bias"), down_bias=module.down_proj_bias,
                           **kept)
            self.assertTrue(torch.equal(y, want))
            y.sum().backward()
            self.assertTrue(all(p.grad is not None for p in module.parameters()))
        with self.assertRaisesRegex(ValueError, "layout 'none'"):
            Experts(1, 1, 1, layout="none")
        low = Experts(2, 3, 4, device="meta", dtype=torch.bfloat16)
        self.assertEqual((low.down_proj.dtype, low.down_proj.device.type), (torch.bfloat16, "meta"))


if __name__ == "__main__":
    unittest.main()
