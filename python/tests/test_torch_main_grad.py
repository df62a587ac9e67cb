"""Tests of main_grad, which backward of a layer of experts adds to, on tensors of the CPU."""

import unittest

try:
    import torch
except ImportError as missing:
    raise unittest.SkipTest(f"no PyTorch: {missing}")

from layers import LIMIT, Layer, reference

WEIGHTS = "gate_up", "up", "down"


class MainGrad(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(9)

    def weights(self, layer):
        return [getattr(layer, name) for name in WEIGHTS if getattr(layer, name) is not None]

    def check(self, layer):
        """What two steps add, against twice the gradient in float64, and the other gradients as ever."""
        leaves = layer.leaves()
        gy = torch.randn(layer.x.shape).to(layer.x.dtype)
        want = dict(zip(layer.names(), torch.autograd.grad(layer.call(), leaves, gy)))
        begin = {}
        for w in self.weights(layer):
            w.main_grad = torch.randn(w.shape)
            begin[w] = w.main_grad.clone()
        for _ in range(2):
            for t in leaves:
                t.grad = None
            layer.call(main_grad=True).backward(gy)
        double = layer.double()
        of_double = double.leaves()
        exact = dict(zip(layer.names(), torch.autograd.grad(reference(double), of_double, gy.double())))
        limits = dict(zip(layer.names(), layer.limits(gy)))
        for name in layer.names():
            t = getattr(layer, name)
            if name not in WEIGHTS:
                self.assertTrue(torch.equal(t.grad, want[name]), name)
                continue
            self.assertIsNone(t.grad)
            error = (t.main_grad.double() - begin[t].double() - 2 * exact[name]).abs()
            limit = 2 * limits[name] + LIMIT + 2.0**-22 * (1 + begin[t].abs())
            self.assertTrue(bool((error <= limit).all()), name)

    def test_layouts(self):
        for dtype in torch.float32, torch.bfloat16, torch.float16:
            for layout in "halves", "interleaved", "ungated", "pair":
                for transposed in False, True:
                    with self.subTest(dtype=dtype, layout=layout, transposed=transposed):
                        layer = Layer(dtype, layout=layout, transposed=transposed,
                                      bias=layout != "interleaved")
                        layer.index[0] = -1
                        self.check(layer)

    def test_sizes(self):
        for sizes in dict(tokens=0), dict(top=0), dict(inner=0), dict(tokens=300, experts=40), dict(inner=9):
            with self.subTest(**sizes):
                self.check(Layer(torch.float32, **sizes))

    def test_activation_of_torch(self):
        self.check(Layer(torch.bfloat16, activation="gelu_exact"))

    def test_some(self):
        """What needs no gradient needs no main_grad, and a call without gradients none at all."""
        layer = Layer(torch.float32)
        layer.leaves()
        layer.gate_up.requires_grad_(False)
        layer.down.main_grad = torch.zeros(layer.down.shape)
        layer.call(main_grad=True).sum().backward()
        self.assertTrue(bool(layer.down.main_grad.any()))
        with torch.no_grad():
            self.assertTrue(torch.equal(layer.call(main_grad=True), layer.call()))

    def test_autocast(self):
        layer = Layer(torch.float32)
        layer.leaves()
        for w in self.weights(layer):
            w.main_grad = torch.zeros(w.shape)
        with torch.autocast(layer.x.device.type, torch.bfloat16):
            y = layer.call(main_grad=True)
        y.sum().backward()
        self.assertIsNone(layer.down.grad)
        self.assertTrue(all(bool(w.main_grad.any()) for w in self.weights(layer)))

    def test_refused(self):
        layer = Layer(torch.float32)
        layer.leaves()
        layer.down.main_grad = torch.zeros(layer.down.shape)
        for to, words in (
                (None, "gate_up has no tensor main_grad"),
                (torch.zeros(layer.gate_up.shape).double(), "gate_up.main_grad is torch.float64"),
                (torch.zeros(2), "gate_up.main_grad is torch.float32, (2,)"),
                (torch.zeros(layer.gate_up.shape).mT.contiguous().mT, "gate_up.main_grad has the strides")):
            layer.gate_up.main_grad = to
            with self.assertRaises(ValueError) as caught:
                layer.call(main_grad=True)
            self.assertIn(words, str(caught.exception))
        layer.gate_up.main_grad = torch.zeros(layer.gate_up.shape)
        with self.assertRaisesRegex(NotImplementedError, "main_grad"):
            layer.call(main_grad=True, activation=torch.relu)
        with self.assertRaisesRegex(NotImplementedError, "gradients of gradients"):
            torch.autograd.grad(layer.call(main_grad=True).sum(), layer.x, create_graph=True)


if __name__ == "__main__":
    unittest.main()
