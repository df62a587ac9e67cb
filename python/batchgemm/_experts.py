"""The operators of a layer of experts, with gradients, and the module.

experts computes, experts_kept does too and returns what experts_backward needs. A call that nobody watches
skips torch's dispatcher, as grouped products do (_gradients.py)."""

import math

import torch
from torch._C import _is_any_autocast_enabled

from . import _fused, _layer, _layer_gradients, _quantized
from ._gates import LAYOUTS
from ._gradients import lowered, product, single_level, tracks_tangents, wants_gradients, watched
from ._operators import library
from ._optional import eager
from ._programs import matrices
from ._routing import numbers, words_of

_TENSORS = ("Tensor x, Tensor gate_up, Tensor? up, Tensor down, Tensor index, Tensor weights, "
            "Tensor? gate_up_bias, Tensor? down_bias")
_OPTIONS = "str activation, str layout, bool transposed, float alpha, float limit"
_NAMES = "x", "gate_up", "gate_up[1]", "down", "index", "weights", "gate_up_bias", "down_bias"
_COUNT = len(_NAMES)
_MUST = {"x", "gate_up", "down", "index", "weights"}


def experts(x, gate_up, down, index, weights, *, activation="silu", layout="halves", transposed=False,
            gate_up_bias=None, down_bias=None, alpha=1.702, limit=7.0, main_grad=False,
            scale_gate_up=None, scale_down=None):
    """A layer of experts, from the router's choices to a row for each token:

        y[t] = sum over j of weights[t, j] * expert(index[t, j], x[t])
        expert(e, x) = (activation(x @ gate[e]) * (x @ up[e])) @ down[e], and biases

    Args:
        x: float32, bfloat16 or float16. Weights of experts and biases have its type.
        gate_up: the weights of the first product, both as a model stores them, or a pair (gate, up).
        down: the weights of the second product.
        index: int32 or int64, the experts of each token, up to 16. Choices below 0 or from E on do not count.
        weights: the routing weights, float32, bfloat16 or float16.
        activation: "silu", "gelu" (by tanh), "relu", "gelu_exact", "relu2" (relu squared), "swiglu_oai"
            (of GPT-OSS), or a function that gives [rows, I] of x @ gate_up with its bias, [rows, 2 * I] in
            the order of layout.
        layout: of gate_up and its bias. "halves": all of the gate first, then all of up. "interleaved": the
            gate at even, up at odd numbers. "ungated": one matrix, and the layer is
            activation(x @ up) @ down. A pair has "halves".
        transposed: whether weights are [E, in, out]. By default they are [E, out, in], as torch.nn.Linear
            and most models have them.
        gate_up_bias, down_bias: or None. That of a pair is joined by halves.
        alpha, limit: of "swiglu_oai", with g = min(gate, limit) and u = max(-limit, min(up, limit)):
            g * sigmoid(alpha * g) * (u + 1).
        main_grad: whether backward adds the gradients of gate_up and down in fp32 to their attributes of
            this name, which Megatron sets. These are float32, of the shapes of the weights, and their rows
            follow each other. Then grad stays None. Not where torch.compile or another tool watches.
        scale_gate_up, scale_down: scales of weights that are float8_e4m3fn, int8 or packed in 4 bits, or
            None. scale_gate_up is a pair where gate_up is. With 8 bits a call quantises x, and what is
            between the products. There are no gradients.

    Shapes:
        x [T, H], index and weights [T, k]. E is from 0 to 4096.
        gate_up [E, 2 * I, H], each of a pair and one that is ungated [E, I, H], down [E, H, I].
        transposed: gate_up [E, H, 2 * I], each of a pair and one that is ungated [E, H, I], down [E, I, H].
        gate_up_bias [E, 2 * I], ungated [E, I], down_bias [E, H].
        Scales of weights [E, N, K] (transposed [E, K, N]), float32: [E, N], or of e4m3 [E, ceil(N / 128),
        ceil(K / 128)]. Weights of 4 bits, as of int4_grouped_mm(): [E, K / 64, N, 8], with words of scales
        [E, K / 64, N] or [E, K / 128, N], and N a multiple of 8; or of MXFP4 and NVFP4 as of pack_fp4().

    Returns:
        y [T, H], of the type of x. Nothing waits for the device.

    Raises:
        TypeError, ValueError: an argument is wrong; the text names it.
        NotImplementedError: in the backward of a backward; main_grad where it cannot be; gradients with
            scales.

    Example:
        >>> import torch
        >>> from batchgemm.torch import experts
        >>> x, index, weights = torch.ones(2, 4), torch.tensor([[0, 1], [1, -1]]), torch.full((2, 2), 0.5)
        >>> y = experts(x, torch.ones(2, 6, 4), torch.ones(2, 4, 3), index, weights, activation="relu")
        >>> y.tolist()
        [[48.0, 48.0, 48.0, 48.0], [24.0, 24.0, 24.0, 24.0]]
    """
    up = None
    if isinstance(gate_up, (tuple, list)):
        if len(gate_up) != 2 or layout != "halves":
            raise ValueError(f"gate_up has {len(gate_up)} tensors, layout is {layout!r}: it must be one "
                             "tensor, or a pair with the layout 'halves'")
        gate_up, up = gate_up
    tensors = x, gate_up, up, down, index, weights, gate_up_bias, down_bias
    options = activation, layout, transposed, float(alpha), float(limit)
    if scale_gate_up is not None or scale_down is not None:
        return _scaled(tensors, scale_gate_up, scale_down, options)
    compiling, autocast = torch.compiler.is_dynamo_compiling(), _is_any_autocast_enabled()
    if not (compiling or autocast or callable(activation) or main_grad):
        y = eager.layer(tensors, options)
        if y is not None:
            return y
    for name, t in zip(_NAMES, tensors):
        if not isinstance(t, torch.Tensor) and (t is not None or name in _MUST):
            raise TypeError(f"{name} is {type(t).__name__}: it must be a tensor")
    if autocast and torch.is_autocast_enabled(x.device.type):
        to = torch.get_autocast_dtype(x.device.type)
        tensors = [t if t is None or name in ("index", "weights") else t.to(to)
                   for name, t in zip(_NAMES, tensors)]
    if main_grad and wants_gradients(gate_up, up, down):
        if callable(activation) or compiling or watched(*tensors):
            raise NotImplementedError("main_grad: there is none with a function as activation, nor where "
                                      "torch.compile or another tool watches the call")
        into = _into(gate_up=gate_up, up=up, down=down)  # of the weights, not of what autocast made of them
        return _apply(_layer.forward, into, *tensors, *options)
    if callable(activation):
        return _composed(*tensors, activation, layout, transposed)
    if compiling or watched(*tensors):
        return _operators["experts"](*tensors, *options)
    if wants_gradients(*tensors):
        return _apply(_layer.forward, {}, *tensors, *options)
    return _run(*tensors, *options)


def _scaled(tensors, scale_gate_up, scale_down, options):
    """The layer of weights with scales."""
    scale_up = None
    if isinstance(scale_gate_up, (tuple, list)):
        if len(scale_gate_up) != 2 or tensors[2] is None:
            raise ValueError(f"scale_gate_up has {len(scale_gate_up)} tensors: it must be one, or a pair "
                             "where gate_up is")
        scale_gate_up, scale_up = scale_gate_up
    for name, t in zip((*_NAMES, "scale_gate_up", "scale_gate_up[1]", "scale_down"),
                       (*tensors, scale_gate_up, scale_up, scale_down)):
        must = name in _MUST or name.startswith("scale") and (name != "scale_gate_up[1]" or
                                                              tensors[2] is not None)
        if not isinstance(t, torch.Tensor) and (t is not None or must):
            raise TypeError(f"{name} is {type(t).__name__}: it must be a tensor")
    return _quantized.experts(*tensors, scale_gate_up, scale_up, scale_down, *options)


def _into(**weights):
    """What gradients are added to, by the names of weights."""
    into = {}
    for name, w in weights.items():
        if w is None or not w.requires_grad:
            continue
        to = getattr(w, "main_grad", None)
        if not isinstance(to, torch.Tensor):
            raise ValueError(f"{name} has no tensor main_grad")
        if to.dtype != torch.float32 or to.shape != w.shape or to.device != w.device:
            raise ValueError(f"{name}.main_grad is {to.dtype}, {tuple(to.shape)} on {to.device}: it must be "
                             f"float32, {tuple(w.shape)} on {w.device}")
        lies = matrices(to)
        if to.numel() and (lies is None or lies.trans or to.stride(0) < to.stride(1) * to.shape[1]):
            raise ValueError(f"{name}.main_grad has the strides {to.stride()}: its rows must follow each "
                             "other")
        into[name] = to
    return into


def _composed(x, gate_up, up, down, index, weights, gate_up_bias, down_bias, activation, layout, transposed):
    """The layer with a function between its products. It gathers rows of x, and keeps them for gradients."""
    s = _layer.sizes_of(x, gate_up, up, down, index, weights, gate_up_bias, down_bias,
                        "silu", layout, transposed, 0.0, 0.0)
    chosen = numbers(index, s.experts)
    ordered, slots = chosen.reshape(-1).sort(stable=True)
    each = torch.arange(s.experts, dtype=torch.int32, device=x.device)
    ends = torch.searchsorted(ordered, each, right=True, out_int32=True)
    by_row = x[slots // max(s.top, 1)]
    z = [product(by_row, _layer.logical(w, transposed), ends, bias, "", None, 0.0)
         for w, bias in zip((gate_up, up), _layer.parts(gate_up_bias, up)) if w is not None]
    h = activation(z[0] if up is None else torch.cat(z, 1))
    rows = product(h, _layer.logical(down, transposed), ends, down_bias, "", None, 0.0)
    by_slot = rows[slots.argsort()].view(s.tokens, s.top, s.hidden)
    weights = torch.where(chosen < s.experts, weights, 0).to(x.dtype)
    return (by_slot * weights[..., None]).sum(1)


# Operators.


def _run(*args):
    y = _fused.run(*args)
    return _layer.forward(*args)[0] if y is None else y


def _backward(gy, *args):
    return _layer_gradients.backward(gy, *args[:-1], needs=args[-1])


def _fake(*args):
    x = args[0]
    _layer.sizes_of(*args)
    return x.new_empty(x.shape)


def _fake_kept(*args):
    x, s = args[0], _layer.sizes_of(*args)
    words = x.new_empty(words_of(s.tokens, s.top, s.experts), dtype=torch.int32)
    return x.new_empty(x.shape), x.new_empty(s.rows, s.width), words


def _fake_backward(gy, *args):
    return [t.new_empty(t.shape) for t in _layer_gradients.needed(*args[:_COUNT], args[-1])]


class _Experts(torch.autograd.Function):
    """The layer with gradients. It keeps what it is given, x @ gate_up and the words of the routing. into: as
    of _layer_gradients.backward()."""

    @staticmethod
    def forward(ctx, kept, into, *args):
        y, *others = kept(*args)
        ctx.into = into
        ctx.save_for_backward(*args[:_COUNT], *others)
        ctx.options = args[_COUNT:]
        ctx.set_materialize_grads(False)
        return y

    @staticmethod
    def backward(ctx, gy):
        needs = ctx.needs_input_grad[2 : _COUNT + 2]
        if gy is None:
            return (None,) * len(ctx.needs_input_grad)
        wanted = [need for at, need in enumerate(needs) if at != 4]  # there is none to index
        args = gy, *ctx.saved_tensors, *ctx.options
        if not ctx.into:
            got = iter(_operators["experts_backward"](*args, wanted))
        elif torch.is_grad_enabled():
            raise NotImplementedError("experts has no gradients of gradients")
        else:
            got = iter(_layer_gradients.backward(*args, needs=wanted, into=ctx.into))
        return None, None, *(next(got) if need else None for need in needs), *[None] * len(ctx.options)


class _Refused(torch.autograd.Function):
    """An operator whose results have no gradients."""

    @staticmethod
    def forward(ctx, operator, *args):
        with lowered():
            return tuple(operator(*args))

    @staticmethod
    def backward(ctx, *_):
        raise NotImplementedError("experts has no gradients of gradients")


# Function's own take no tensors of torch.func's; single_level() allows these.
_apply, _apply_refused = (super(torch.autograd.Function, of).apply for of in (_Experts, _Refused))


def _autograd(name, apply):
    """The kernel of autograd for an operator."""

    def kernel(*args):
        if not (tracks_tangents() or wants_gradients(*(t for t in args if isinstance(t, torch.Tensor)))):
            with torch._C._AutoDispatchBelowAutograd():
                return _operators[name](*args)
        with single_level():
            return apply(*args)

    return kernel


def _kept_below(*args):
    with lowered():
        return _operators["experts_kept"](*args)


for _name, _arguments, _result, _kernel, _fake_of, _with_gradients in (
        ("experts", f"{_TENSORS}, {_OPTIONS}", "Tensor", _run, _fake,
         lambda *args: _apply(_kept_below, {}, *args)),
        ("experts_kept", f"{_TENSORS}, {_OPTIONS}", "(Tensor, Tensor, Tensor)", _layer.forward, _fake_kept,
         lambda *args: _apply_refused(_operators["experts_kept"], *args)),
        ("experts_backward", f"Tensor gy, {_TENSORS}, Tensor z, Tensor words, {_OPTIONS}, bool[] needs",
         "Tensor[]", _backward, _fake_backward,
         lambda *args: list(_apply_refused(_operators["experts_backward"], *args)))):
    library.define(f"{_name}({_arguments}) -> {_result}")
    for _kind in "CPU", "CUDA":
        library.impl(_name, _kernel, _kind)
    library.impl(_name, _autograd(_name, _with_gradients), "Autograd")
    torch.library.register_fake("batchgemm::" + _name, _fake_of, lib=library)
_operators = {name: getattr(torch.ops.batchgemm, name).default
              for name in ("experts", "experts_kept", "experts_backward")}


class Experts(torch.nn.Module):
    """experts() with its weights.

    They have the names that they have in transformers' models: gate_up_proj (up_proj where the layout is
    "ungated"), down_proj, and with bias gate_up_proj_bias (up_proj_bias) and down_proj_bias.

    Args:
        num_experts, hidden_size, intermediate_size: E, H and I of experts().
        activation, layout, transposed, alpha, limit, main_grad: as of experts().
        bias: whether there are biases.
        device, dtype: of the parameters, which are uniform in +-1 / sqrt(in), as of torch.nn.Linear.

    Example:
        >>> import torch
        >>> from batchgemm.torch import Experts
        >>> layer = Experts(8, 64, 128)
        >>> y = layer(torch.randn(10, 64), torch.randint(0, 8, (10, 2)), torch.full((10, 2), 0.5))
        >>> y.shape, list(layer.state_dict())
        (torch.Size([10, 64]), ['gate_up_proj', 'down_proj'])
    """

    def __init__(self, num_experts, hidden_size, intermediate_size, *, activation="silu", layout="halves",
                 transposed=False, bias=False, alpha=1.702, limit=7.0, main_grad=False, device=None,
                 dtype=None):
        super().__init__()
        if layout not in LAYOUTS:
            raise ValueError(f"layout {layout!r}: it must be one of {', '.join(LAYOUTS)}")
        self.options = {"activation": activation, "layout": layout, "transposed": transposed, "alpha": alpha,
                        "limit": limit, "main_grad": main_grad}
        self.first = "up_proj" if layout == "ungated" else "gate_up_proj"
        width = intermediate_size * (1 if layout == "ungated" else 2)
        new = lambda *shape: torch.nn.Parameter(torch.empty(shape, device=device, dtype=dtype))
        for name, wide, deep in (self.first, width, hidden_size), ("down_proj", hidden_size,
                                                                    intermediate_size):
            size = (deep, wide) if transposed else (wide, deep)
            self.register_parameter(name, new(num_experts, *size))
            self.register_parameter(name + "_bias", new(num_experts, wide) if bias else None)
        self.reset_parameters()

    def reset_parameters(self):
        """Fills the parameters with new random numbers.

        Raises:
            RuntimeError: torch refuses, as for parameters without memory.
        """
        for name in self.first, "down_proj":
            w = getattr(self, name)
            limit = 1 / math.sqrt(max(w.shape[1 if self.options["transposed"] else 2], 1))
            for t in w, getattr(self, name + "_bias"):
                if t is not None:
                    torch.nn.init.uniform_(t, -limit, limit)

    def forward(self, x, index, weights):
        """The layer.

        Args:
            x, index, weights: as of experts().

        Returns:
            y [T, H].

        Raises:
            TypeError, ValueError, NotImplementedError: as of experts().
        """
        bias = getattr(self, self.first + "_bias")
        return experts(x, getattr(self, self.first), self.down_proj, index, weights, gate_up_bias=bias,
                       down_bias=self.down_proj_bias, **self.options)
