"""What is between the two products of a layer of experts, and its derivative: h of z, where z has the columns
that the first product gives, in the order in which the layer stores them."""

import functools

import torch
import torch.nn.functional as F

from ._programs import ACTIVATIONS

_aten = torch.ops.aten
_GELU = functools.partial(F.gelu, approximate="tanh")
_FUNCTIONS = {"silu": F.silu, "gelu": _GELU, "relu": F.relu, "gelu_exact": F.gelu,
              "relu2": lambda z: F.relu(z).square()}
_DERIVATIVES = {  # times the gradient of the result, of z
    "silu": _aten.silu_backward.default,
    "gelu": functools.partial(_aten.gelu_backward.default, approximate="tanh"),
    "relu": functools.partial(_aten.threshold_backward.default, threshold=0),
    "gelu_exact": _aten.gelu_backward.default,
    "relu2": lambda g, z: F.relu(z).mul_(2).mul_(g)}
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
    """h [rows, I] of z, of new memory."""
    gate, up = halves(z, layout)
    if activation != CLAMPED:
        h = _FUNCTIONS[activation](gate)
        return h if up is None else h.mul_(up)
    h = gate.clamp(max=limit)
    h = torch.sigmoid(h * alpha).mul_(h)
    return h.mul_(up.clamp(-limit, limit).add_(1))


def derive(gh, z, activation, layout, alpha, limit):
    """The gradient of z, as z lies, from that of h."""
    gate, up = halves(z, layout)
    if up is None:
        return _DERIVATIVES[activation](gh, gate)
    gz = torch.empty_like(z)
    to_gate, to_up = halves(gz, layout)
    if activation != CLAMPED:
        torch.mul(gh, _FUNCTIONS[activation](gate), out=to_up)
        to_gate.copy_(_DERIVATIVES[activation](gh * up, gate))
        return gz
    clamped = gate.clamp(max=limit)
    sigmoid = torch.sigmoid(clamped * alpha)
    torch.mul(gh, sigmoid * clamped, out=to_up)
    to_up.mul_(up.abs() <= limit)
    slope = (1 - sigmoid).mul_(clamped).mul_(alpha).add_(1).mul_(sigmoid).mul_(gate <= limit)
    to_gate.copy_(slope.mul_(up.clamp(-limit, limit).add_(1)).mul_(gh))
    return gz
