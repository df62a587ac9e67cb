"""What is between the two products of a layer of experts, and its derivative: h of z, where z has the columns
that the first product gives, in the order in which the layer stores them."""

import functools

import torch
import torch.nn.functional as F

from ._programs import ACTIVATIONS

_aten = torch.ops.aten
_FUNCTIONS = {  # of z, to a matrix
    "silu": _aten.silu.out,
    "gelu": functools.partial(_aten.gelu.out, approximate="tanh"),
    "relu": _aten.relu.out,
    "gelu_exact": _aten.gelu.out,
    "relu2": lambda z, out: _aten.relu.out(z, out=out).square_()}
_DERIVATIVES = {  # of g, in which they take its place, and z: g times the derivative
    "silu": lambda g, z: _aten.silu_backward.grad_input(g, z, grad_input=g),
    "gelu": lambda g, z: _aten.gelu_backward.grad_input(g, z, approximate="tanh", grad_input=g),
    "relu": lambda g, z: _aten.threshold_backward.grad_input(g, z, 0, grad_input=g),
    "gelu_exact": lambda g, z: _aten.gelu_backward.grad_input(g, z, grad_input=g),
    "relu2": lambda g, z: g.mul_(F.relu(z)).mul_(2)}
CLAMPED = "swiglu_oai"
GATES = (*_FUNCTIONS, CLAMPED)
LAYOUTS = ("halves", "interleaved", "ungated")
IN_PROGRAMS = tuple(name for name in ACTIVATIONS if name)  # those that epilogues have


def halves(z, layout):
    """The columns of the gate and those of up, or all and None. Of weights and biases too."""
    if layout == "ungated":
        return z, None
    if layout == "interleaved":
        return z[..., ::2], z[..., 1::2]
    return z.chunk(2, -1)


def apply(z, activation, layout, alpha, limit):
    """h [rows, I] of z."""
    gate, up = halves(z, layout)
    if activation == CLAMPED:
        h = gate.clamp(max=limit)
        return h.mul_(torch.sigmoid(h * alpha)).mul_(up.clamp(-limit, limit).add_(1))
    h = gate.new_empty(gate.shape)
    _FUNCTIONS[activation](gate, out=h)
    return h if up is None else h.mul_(up)


def derive(gh, z, activation, layout, alpha, limit):
    """The gradient of z, as z lies, from that of h, whose memory it may take."""
    gate, up = halves(z, layout)
    if up is None:
        _DERIVATIVES[activation](gh, gate)
        return gh
    gz = torch.empty_like(z)
    to_gate, to_up = halves(gz, layout)
    if activation == CLAMPED:
        _derive_clamped(gh, gate, up, to_gate, to_up, alpha, limit)
        return gz
    _DERIVATIVES[activation](torch.mul(gh, up, out=to_gate), gate)
    _FUNCTIONS[activation](gate, out=to_up)
    to_up.mul_(gh)
    return gz


def _derive_clamped(gh, gate, up, to_gate, to_up, alpha, limit):
    clamped = gate.clamp(max=limit)
    sigmoid = torch.sigmoid(clamped * alpha)
    torch.mul(clamped, sigmoid, out=to_up)
    to_up.mul_(gh).mul_(up.abs() <= limit)
    torch.mul(clamped, 1 - sigmoid, out=to_gate)
    to_gate.mul_(alpha).add_(1).mul_(sigmoid).mul_(gate <= limit)  # the slope
    to_gate.mul_(up.clamp(-limit, limit).add_(1)).mul_(gh)
