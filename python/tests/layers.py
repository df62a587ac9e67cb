"""Layers of experts with random numbers, what they give in float64, and how far results may be off."""

import torch
import torch.nn.functional as F

from batchgemm.torch import experts
from tensors import LEAST, ROUNDED, UNIT

LIMIT = 2.0**-40
ALPHA, CLAMPED = 1.3, "swiglu_oai"
_FUNCTIONS = {"silu": F.silu, "gelu": lambda z: F.gelu(z, approximate="tanh"), "relu": F.relu,
              "gelu_exact": F.gelu, "relu2": lambda z: F.relu(z).square()}
_ROUNDINGS = 20


class Layer:
    """The arguments of a call."""

    def __init__(self, dtype, tokens=21, top=3, experts=5, hidden=24, inner=16, *, layout="halves",
                 transposed=False, bias=False, activation="silu"):
        self.layout, self.transposed, self.activation = layout, transposed, activation
        self.clamp = 0.75 if dtype == torch.float32 else 7.0  # of others roundings change what is clamped
        new = lambda *shape: torch.randn(shape).to(dtype)

        def matrix(wide, deep):
            t = new(experts, wide, deep) / max(deep, 1)**0.5
            return (t.transpose(1, 2).contiguous() if transposed else t).to(dtype)

        self.x, self.up = new(tokens, hidden), None
        self.gate_up = matrix(inner * (2 if layout in ("halves", "interleaved") else 1), hidden)
        if layout == "pair":
            self.up = matrix(inner, hidden)
        self.down = matrix(hidden, inner)
        self.index = torch.randint(0, max(experts, 1), (tokens, top))
        self.weights = torch.rand(tokens, top) + 0.1
        width = inner * (1 if layout == "ungated" else 2)
        self.gate_up_bias = new(experts, width) if bias else None
        self.down_bias = new(experts, hidden) if bias else None

    def call(self, **options):
        gate_up = self.gate_up if self.up is None else (self.gate_up, self.up)
        options = {"activation": self.activation, "transposed": self.transposed, "alpha": ALPHA,
                   "limit": self.clamp,
                   "layout": "halves" if self.layout == "pair" else self.layout, **options}
        return experts(self.x, gate_up, self.down, self.index, self.weights, gate_up_bias=self.gate_up_bias,
                       down_bias=self.down_bias, **options)

    def names(self):
        return [name for name in ("x", "gate_up", "up", "down", "weights", "gate_up_bias", "down_bias")
                if getattr(self, name) is not None]

    def leaves(self):
        return [getattr(self, name).requires_grad_() for name in self.names()]

    def map(self, change):
        other = object.__new__(Layer)
        other.__dict__.update(self.__dict__)
        for name in self.names():
            setattr(other, name, change(getattr(self, name).detach()))
        return other

    def double(self):
        return self.map(torch.Tensor.double)

    def parts(self):
        """The matrices [experts, K, N] of the gate and up, and their biases; None where there are none."""
        turn = lambda t: t if self.transposed else t.transpose(1, 2)
        both = [turn(self.gate_up), self.gate_up_bias]
        if self.layout == "pair":
            half = (None, None) if self.gate_up_bias is None else self.gate_up_bias.chunk(2, -1)
            return (turn(self.gate_up), half[0]), (turn(self.up), half[1]), turn(self.down)
        cuts = {"halves": lambda t: t.chunk(2, -1), "interleaved": lambda t: (t[..., ::2], t[..., 1::2]),
                "ungated": lambda t: (t, None)}[self.layout]
        gate, up = zip(*((None, None) if t is None else cuts(t) for t in both))
        return gate, up, turn(self.down)

    def limits(self, gy):
        """How far gradients may be off."""
        size = self.map(lambda t: t.double().abs())
        leaves = size.leaves()
        grads = torch.autograd.grad(reference(size, sizes=True), leaves, gy.double().abs())
        depth = self.x.shape[1] + self.down.shape[1] + len(self.x)
        return [1.2 * (_ROUNDINGS * ROUNDED[self.x.dtype] + 4 * depth * UNIT) * g for g in grads]


def reference(layer, sizes=False):
    """The layer, expert by expert, differentiable. sizes: of absolute values, where an activation gives at
    most what it is given, and its slope moves by as much."""
    y = layer.x.new_zeros(layer.x.shape) + 0 * sum(getattr(layer, name).sum() for name in layer.names())
    for share, gate, up, down in _experts(layer):
        g, u = _through(layer.x, gate), None if up is None else _through(layer.x, up)
        if sizes:
            h = _most(g, layer.activation) * (1 if u is None else u + (layer.activation == CLAMPED))
        else:
            h = _between(g, u, layer)
        y = y + share * _through(h, down)
    return y


def _experts(layer):
    """Of each expert: what it counts for each token, and its matrices with biases."""
    (gate, gate_bias), (up, up_bias), down = layer.parts()
    for e in range(len(layer.gate_up)):
        of = lambda t: None if t is None else t[e]
        yield ((layer.weights * (layer.index == e)).sum(1, keepdim=True), (gate[e], of(gate_bias)),
               None if up is None else (up[e], of(up_bias)), (down[e], of(layer.down_bias)))


def _through(x, matrix):
    w, bias = matrix
    return x @ w + (0 if bias is None else bias)


def _between(g, u, layer):
    if layer.activation == CLAMPED:
        g, u = g.clamp(max=layer.clamp), u.clamp(-layer.clamp, layer.clamp)
        return g * torch.sigmoid(ALPHA * g) * (u + 1)
    return _FUNCTIONS[layer.activation](g) * (1 if u is None else u)


def _most(g, activation):
    """More than an activation gives, of slopes more than its own, and than z times its second derivative."""
    return 2 * g.square() if activation == "relu2" else 2 * g + g.square()


def bound(layer):
    """How far y may be off: sums in fp32 in any order, z, h and rows rounded, and on the way from z to h some
    roundings more; an activation has slopes up to 1.2 (of relu2: 2 * z)."""
    layer, unit = layer.double(), ROUNDED[layer.x.dtype]
    sums = lambda depth: 2 * (depth + 4) * UNIT
    absolute = lambda matrix: tuple(None if t is None else t.abs() for t in matrix)
    error = torch.zeros_like(layer.x)
    for share, gate, up, down in _experts(layer):
        size = lambda matrix: _through(layer.x.abs(), absolute(matrix))
        wrong = lambda z, matrix: unit * z.abs() + sums(layer.x.shape[1]) * size(matrix)
        g = _through(layer.x, gate)
        u = torch.ones_like(g) if up is None else _through(layer.x, up)
        slope = 2 * g.abs() + 1 if layer.activation == "relu2" else 1.2
        times = u.abs() + (layer.activation == CLAMPED)
        h = _between(g, None if up is None else u, layer).abs()
        most = h / times.clamp(min=1e-300)  # of what the activation gives
        wrong_h = slope * wrong(g, gate) * times + 6 * unit * h
        if up is not None:
            wrong_h = wrong_h + (most + slope * wrong(g, gate)) * wrong(u, up)
        rows = _through(h, absolute(down))
        error = error + share * (wrong_h @ down[0].abs() + (sums(h.shape[1]) + 2 * unit) * rows)
    return error + unit * reference(layer).abs() + 16 * LEAST


def apart(got, want, dtype):
    """Whether a gradient is further from the exact one than 8 roundings, all elements together."""
    return (got.double() - want).norm() > 8 * ROUNDED[dtype] * want.norm() + LIMIT
