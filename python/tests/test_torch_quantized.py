"""Tests of the layer of experts whose weights have 8 or 4 bits, on tensors of the CPU."""

import itertools
import unittest

try:
    import torch
except ImportError as missing:
    raise unittest.SkipTest(f"no PyTorch: {missing}")

import batchgemm
from batchgemm.torch import experts, quantize_int4
from layers import _FUNCTIONS

MOST = {torch.float8_e4m3fn: 448, torch.int8: 127}
E, T, K, H, I = 5, 23, 3, 160, 64


def quantised(x, scaling, dtype):
    """x as a call quantises it, as numbers."""
    n = x.shape[1]
    width = n if scaling == "row" else 128
    padded = torch.nn.functional.pad(x.float(), (0, -n % width)).view(len(x), -1, width)
    amax, most = padded.abs().amax(-1, keepdim=True).clamp(min=2.0**-64), MOST[dtype]
    scale, q = amax * torch.tensor(1.0).div(most), padded * (most / amax)
    q = q.clamp(-most, most).to(dtype) if dtype != torch.int8 else q.round().clamp(-127, 127)
    return (q.double() * scale.double()).view(len(x), -1)[:, :n]


class Weights:
    """Weights [E, N, K] with scales, and as numbers."""

    def __init__(self, n, k, dtype, scaling):
        numbers = torch.randn(E, n, k)
        if dtype == "int4":
            self.w, self.scale = quantize_int4(numbers / 8, int(scaling))
            scale, zero = batchgemm.split_group_words(self.scale.numpy().view("uint32"))
            q = batchgemm_unpack(self.w, n, k)
            group = int(scaling)
            scale, zero = (torch.tensor(t).double().repeat_interleave(group, 1).transpose(1, 2)
                           for t in (scale, zero.astype("float32")))
            self.numbers = (q - zero) * scale
            return
        self.w = (numbers * 16).round().clamp(-127, 127).to(dtype) if dtype == torch.int8 else \
            numbers.to(dtype)
        shape = (E, n) if scaling == "row" else (E, -(-n // 128), -(-k // 128))
        self.scale = (torch.rand(shape) + 0.5) / (k**0.5 * (16 if dtype == torch.int8 else 1))
        each = self.scale[..., None] if scaling == "row" else \
            self.scale.repeat_interleave(128, 1)[:, :n].repeat_interleave(128, 2)[..., :k]
        self.numbers = self.w.double() * each.double()


def batchgemm_unpack(w, n, k):
    """The numbers [E, N, K] in words."""
    places = torch.tensor([0, 16, 4, 20, 8, 24, 12, 28], dtype=torch.int32)
    q = w[..., None].bitwise_right_shift(places).bitwise_and(15)  # [E, K / 64, N, 8, 8]
    return q.permute(0, 2, 1, 3, 4).reshape(E, n, k).double()


def reference(of, x, gate_up, down, index, weights, layout, activation, scaling, dtype, biases):
    x = x.double() if dtype == "int4" else quantised(x, scaling, dtype)
    y = torch.zeros(x.shape, dtype=torch.float64)
    for t, j in itertools.product(range(T), range(K)):
        e = int(index[t, j])
        if not 0 <= e < E:
            continue
        z = x[t] @ gate_up[e].T + (biases[0][e].double() if biases[0] is not None else 0)
        z = z.to(of).double()
        gate, up = (z, 1) if layout == "ungated" else (z[::2], z[1::2]) if layout == "interleaved" else \
            z.chunk(2)
        if activation == "swiglu_oai":
            gate, up = gate.clamp(max=1.5), up.clamp(-1.5, 1.5) + 1
            h = gate * torch.sigmoid(1.25 * gate) * up
        else:
            h = _FUNCTIONS[activation](gate) * up
        if dtype != "int4":
            h = quantised(h[None], scaling, dtype)[0]
        h = h @ down[e].T + (biases[1][e].double() if biases[1] is not None else 0)
        y[t] += float(weights[t, j]) * h
    return y


class QuantizedTest(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(1)

    def call(self, dtype, scaling, layout, activation, of=torch.bfloat16, bias=False, transposed=False):
        x = torch.randn(T, H if dtype != "int4" else 128).to(of)
        h, wide = x.shape[1], I if layout == "ungated" else 2 * I
        index, weights = torch.randint(-1, E + 1, (T, K)), torch.rand(T, K)
        first, down = Weights(wide, h, dtype, scaling), Weights(h, I, dtype, scaling)
        biases = (torch.randn(E, wide).to(of), torch.randn(E, h).to(of)) if bias else (None, None)
        turn = (lambda t: t.transpose(1, 2).contiguous()) if transposed else lambda t: t
        given, scales = turn(first.w), first.scale
        if layout == "pair":
            given, scales = [t.contiguous() for t in turn(first.w).chunk(2, 2 if transposed else 1)], \
                first.scale.chunk(2, 1)
        y = experts(x, given, turn(down.w), index, weights, scale_gate_up=scales, scale_down=down.scale,
                    activation=activation, transposed=transposed, alpha=1.25, limit=1.5,
                    layout="halves" if layout == "pair" else layout, gate_up_bias=biases[0],
                    down_bias=biases[1])
        self.assertEqual((y.shape, y.dtype), (x.shape, of))
        want = reference(of, x, first.numbers, down.numbers, index, weights,
                         layout, activation, scaling, dtype, biases)
        error = (y.double() - want).norm() / want.norm()
        # Numbers between the products that are nearly halfway may be rounded to either neighbour.
        self.assertLess(float(error), 0.02, (dtype, scaling, layout, activation))

    def test_numbers(self):
        turns = itertools.cycle((("silu", False), ("swiglu_oai", True), ("gelu_exact", True),
                                 ("relu", False)))
        for (dtype, scaling), layout, transposed in itertools.product(
                ((torch.float8_e4m3fn, "row"), (torch.float8_e4m3fn, "block"), (torch.int8, "row"),
                 ("int4", "64")), ("halves", "interleaved", "pair", "ungated"), (False, True)):
            if layout == "pair" and (dtype == "int4" or scaling == "block") or dtype == "int4" and transposed:
                continue
            activation, bias = next(turns)
            activation = "relu2" if layout == "ungated" else activation
            with self.subTest(dtype=dtype, scaling=scaling, layout=layout, transposed=transposed,
                              activation=activation, bias=bias):
                self.call(dtype, scaling, layout, activation, bias=bias, transposed=transposed)

    def test_types(self):
        self.call(torch.float8_e4m3fn, "row", "halves", "silu", of=torch.float32)
        self.call(torch.int8, "row", "halves", "gelu", of=torch.float16)
        self.call("int4", "64", "halves", "silu", of=torch.float16)

    def test_refused(self):
        x, index, weights = torch.randn(4, 8), torch.zeros(4, 1, dtype=torch.int64), torch.ones(4, 1)
        w, down = torch.zeros(2, 12, 8).to(torch.int8), torch.zeros(2, 8, 6).to(torch.int8)
        good = dict(scale_gate_up=torch.ones(2, 12), scale_down=torch.ones(2, 8))
        experts(x, w, down, index, weights, **good)
        for change, error, text in (
                (dict(scale_down=None), TypeError, "scale_down is NoneType"),
                (dict(scale_down=torch.ones(2, 9)), ValueError, "scale of down has the shape"),
                (dict(scale_gate_up=torch.ones(2, 12).double()), TypeError, "scale of gate_up is"),
                (dict(scale_gate_up=[torch.ones(2, 6)] * 2), ValueError, "scale_gate_up has 2 tensors"),
                (dict(activation="tanh"), ValueError, "activation 'tanh'")):
            with self.assertRaisesRegex(error, text):
                experts(x, w, down, index, weights, **{**good, **change})
        with self.assertRaisesRegex(TypeError, "gate_up is torch.float32"):
            experts(x, w.float(), down.float(), index, weights, **good)
        with self.assertRaisesRegex(NotImplementedError, "no gradients"):
            experts(x.requires_grad_(), w, down, index, weights, **good)

    def test_compiled(self):
        w, down = torch.ones(2, 12, 8).to(torch.int8), torch.ones(2, 8, 6).to(torch.int8)
        scales = dict(scale_gate_up=torch.ones(2, 12) / 8, scale_down=torch.ones(2, 8))
        given = torch.randn(4, 8), w, down, torch.tensor([[0], [1], [1], [-1]]), torch.ones(4, 1)
        whole = torch.compile(lambda *args: experts(*args, **scales), fullgraph=True, backend="eager")
        self.assertTrue(torch.equal(whole(*given), experts(*given, **scales)))

    def test_none(self):
        w, down = torch.zeros(2, 12, 8).to(torch.int8), torch.zeros(2, 8, 6).to(torch.int8)
        y = experts(torch.zeros(0, 8), w, down, torch.zeros(0, 2, dtype=torch.int64), torch.zeros(0, 2),
                    scale_gate_up=torch.ones(2, 12), scale_down=torch.ones(2, 8))
        self.assertEqual(y.shape, (0, 8))


if __name__ == "__main__":
    unittest.main()
