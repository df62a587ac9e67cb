"""A layer of experts whose weights have 8 or 4 bits, and scales: one operator, without gradients.

A call quantises x, by row or by blocks of 128 columns, and what is between the products. Kernels take all
scales in one array with the words of the routing, so a call copies those of weights there."""

from typing import NamedTuple

import torch

from . import _gates
from ._core import ENDS_OF_ROWS
from ._gradients import wants_gradients
from ._invariant import INVARIANT
from ._layer import bias_of, laid, logical, parts, rows_laid, sizes_of
from ._memory import GROUPS, PANEL, fp4
from ._operators import library
from ._programs import (ALIGN, PACKED, SCALED, TYPES, Matrix, Meta, blocks, bound, check_devices, lie,
                        meta)
from ._routing import Step, combining, dense, first_list, queue, routing

_TENSORS = ("Tensor x, Tensor gate_up, Tensor? up, Tensor down, Tensor index, Tensor weights, "
            "Tensor? gate_up_bias, Tensor? down_bias, Tensor scale_gate_up, Tensor? scale_up, "
            "Tensor scale_down")
# Scales of weights of e2m1, by what they are: bytes of the words of pack_fp4().
FP4 = {torch.uint8: ("group-32", "mxfp4"), torch.float8_e4m3fn: ("group-16", "nvfp4")}
TYPES4 = dict(FP4.values())  # others are "int4"
_OPTIONS = "str activation, str layout, bool transposed, float alpha, float limit"


# Shapes.


def check(x, gate_up, up, down, index, weights, gate_up_bias, down_bias, scale_gate_up, scale_up, scale_down,
          *options):
    """Checks the arguments. Returns the Sizes, and what shares a scale of weights: "row", "block" or one of
    "group-64", "group-128", "group-32" and "group-16"."""
    names = ("gate_up[0]" if up is not None else "gate_up"), "gate_up[1]", "down"
    all_weights = list(zip(names, (gate_up, up, down), (scale_gate_up, scale_up, scale_down)))
    packed = gate_up.dtype in PACKED
    if not packed and gate_up.dtype not in SCALED:
        raise TypeError(f"{names[0]} is {gate_up.dtype}: with scales it must be float8_e4m3fn, int8, or of "
                        f"4 bits int32 or uint8")
    if packed and x.dtype not in (torch.bfloat16, torch.float16):
        raise TypeError(f"x is {x.dtype}: with weights of 4 bits it must be bfloat16 or float16")
    logical_weights = []
    for name, w, scale in all_weights:
        if w is None:
            logical_weights.append(None)
            continue
        if w.dtype != gate_up.dtype:
            raise TypeError(f"{name} is {w.dtype}, {names[0]} is {gate_up.dtype}")
        if scale is None:
            raise TypeError(f"the scale of {name} is None: it must be a tensor")
        check_devices(x, ("the scale of " + name, scale))
        logical_weights.append(_as_numbers(name, w, x.dtype) if packed else
                               Meta(w.shape, w.stride(), x.dtype, w.device, 0))
    activation, layout, transposed, *clamp = options
    if gate_up.numel() == 0 and 0 not in (x.shape[-1], gate_up.shape[0]):
        raise ValueError(f"{names[0]} has no elements: with scales there must be some")
    s = sizes_of(x, *logical_weights[:2], logical_weights[2], index, weights, gate_up_bias, down_bias,
                 activation, layout, transposed or packed, *clamp)
    wide, each = s.width // (1 + (up is not None)), set()
    for (name, w, scale), n, k in zip(all_weights, (wide, wide, s.hidden), (s.hidden, s.hidden, s.inner)):
        if w is not None:
            each.add(_scaling(name, scale, s.experts, n, k, w.dtype))
    if len(each) > 1:
        raise ValueError(f"scales are {' and '.join(sorted(each))}: those of all weights must be alike")
    return s, each.pop()


def _as_numbers(name, w, dtype):
    """The Meta [experts, K, N] of packed weights."""
    each = PANEL // PACKED[w.dtype]
    if len(w.shape) != 4 or w.shape[3] != each:
        raise ValueError(f"{name} has the shape {tuple(w.shape)}: of 4 bits it must be (experts, "
                         f"K / {PANEL}, N, {each})")
    experts, panels, n, _ = w.shape
    return Meta((experts, panels * PANEL, n), (panels * PANEL * n, n, 1), dtype, w.device, 0)


def _scaling(name, scale, experts, n, k, dtype):
    shape = tuple(scale.shape)
    if dtype in PACKED and scale.dtype in FP4:
        scaling, type = FP4[scale.dtype]
        want = experts, *fp4(type, n, k)[1], 4
        if shape != want:
            raise ValueError(f"the scale of {name} has the shape {shape}: of {type} it must be {want}")
        return scaling
    if dtype in PACKED:
        if scale.dtype not in (torch.int32, torch.float32):
            raise TypeError(f"the scale of {name} is {scale.dtype}: it must be int32, or float32 of the same "
                            "bits")
        for group in GROUPS:
            if k % group == 0 and shape == (experts, k // group, n):
                return f"group-{group}"
        raise ValueError(f"the scale of {name} has the shape {shape}: it must be ({experts}, K / 64, {n}) or "
                         f"({experts}, K / 128, {n}), and K is {k}")
    if scale.dtype != torch.float32:
        raise TypeError(f"the scale of {name} is {scale.dtype}: it must be float32")
    by_block = (experts, blocks(n), blocks(k))
    if shape == (experts, n):
        return "row"
    if dtype == torch.float8_e4m3fn and shape == by_block:
        return "block"
    raise ValueError(f"the scale of {name} has the shape {shape}: it must be ({experts}, {n})" +
                     (f" or {by_block}" if dtype == torch.float8_e4m3fn else ""))


# Programs.


class Product(NamedTuple):
    """A Call of _programs.py: rows of a layer times the matrix of their expert, with scales."""

    key: tuple

    def prepare(self, device):
        _, groups, m, n, k, b, c, bias, tokens, first, scale_a, scale_b, scaling, types = self.key
        epilogue, more = {"scale_b": scaling}, {}
        if not scaling.startswith("group"):
            epilogue["scale_a"] = scaling
        if tokens:
            epilogue["gather_rows"] = tokens
        else:
            epilogue |= {"scatter_rows": m, "weights": True}
        if bias:
            epilogue["bias"] = True
            more.update(bias=bias[0], stride_bias=bias[1])
        options = dict(zip(("type_a", "type_b", "type_c"), types), epilogue=epilogue) | INVARIANT
        return device.prepare_ragged(
            ENDS_OF_ROWS, groups, m, n, k, lda=k, ldb=b.ld, ldc=c[0], trans_b=b.trans, offset_b=b.at,
            offset_c=c[1], stride_b=b.stride, rows_a=first, rows_c=first + m, weights=first + 2 * m,
            scale_a=scale_a, scale_b=scale_b, options={name: of for name, of in options.items() if of},
            **more)


class Gate(NamedTuple):
    """A Call that quantises x, or what is between the products, or only computes that."""

    key: tuple

    def prepare(self, device):
        _, tokens, top, experts, inner, (layout, activation, alpha, limit), type, all_rows, scale, type_c, \
            scales = self.key
        return device.prepare_gate(
            tokens, top, experts, inner, gated=layout != "ungated", interleaved=layout == "interleaved",
            activation=activation, alpha=alpha, limit=limit, type=type, all_rows=all_rows,
            scale=scale, type_c=type_c, scales=scales)


PLAIN = "ungated", None, 0.0, 0.0


class _Words(NamedTuple):
    """Where scales lie in the words of the routing."""

    x: int
    between: int
    weights: int
    all: int


def _words(s, top, scaling, counts):
    most = bound(s.tokens)
    of = {"row": lambda k: 1, "block": blocks}.get(scaling, lambda k: 0)
    x = first_list(s.experts) + 3 * most * top
    between = x + most * of(s.hidden)
    weights = between + most * top * of(s.inner)
    return _Words(x, between, weights, weights + sum(counts))


def run(x, gate_up, up, down, index, weights, gate_up_bias, down_bias, scale_gate_up, scale_up, scale_down,
        *options):
    """y [T, H]."""
    s, scaling = check(x, gate_up, up, down, index, weights, gate_up_bias, down_bias, scale_gate_up, scale_up,
                       scale_down, *options)
    if s.nothing():
        return torch.zeros_like(x, memory_format=torch.contiguous_format)
    transposed = options[2]
    x, index, weights = rows_laid(x).contiguous(), dense(index), dense(weights)
    scales = [t for t in (scale_gate_up, scale_up, scale_down) if t is not None]
    counts = [t.numel() * t.element_size() // 4 for t in scales]
    at = _words(s, s.top, scaling, counts)
    words = index.new_empty(at.all, dtype=torch.int32)
    places, to = [], at.weights
    for t, count in zip(scales, counts):
        words[to : to + count].view(t.dtype).view(t.shape).copy_(t)
        places.append(to)
        to += count
    layer = _Layer(s, scaling, x, words, at, gate_up.dtype)
    steps = [Step(routing(index, weights, s.experts), (weights.data_ptr(), 0, words.data_ptr(),
                                                       index.data_ptr(), 0, 0, 0, s.tokens), (words, index))]
    given = x
    if layer.narrow:
        given = layer.bytes(s.tokens, s.hidden)
        steps.append(layer.gate(x, given, PLAIN, 1, at.x))
    z = x.new_empty(s.rows, s.width)
    biases = parts(gate_up_bias, up)
    for w, to, bias, scale in zip((gate_up, up), parts(z, up), biases, places):
        steps.append(layer.product(given, w, transposed, to, rows_laid(bias), True, scale))
    h = layer.bytes(s.rows, s.inner) if layer.narrow else x.new_empty(s.rows, s.inner)
    steps.append(layer.gate(z, h, _gates.of(options), s.top, at.between))
    rows, y = x.new_empty(s.rows, s.hidden), x.new_empty(x.shape)
    steps.append(layer.product(h, down, transposed, rows, rows_laid(down_bias), False, places[-1]))
    steps.append(Step(combining(index, s.experts, s.hidden, y.dtype),
                      (rows.data_ptr(), 0, y.data_ptr(), index.data_ptr(), 0, 0, 0, s.tokens),
                      (rows, y, index)))
    queue(steps)
    return y


class _Layer(NamedTuple):
    """What the steps of a call share."""

    s: tuple
    scaling: str
    x: torch.Tensor
    words: torch.Tensor
    at: _Words
    dtype: torch.dtype  # of weights

    @property
    def narrow(self):
        return self.dtype in SCALED

    def bytes(self, *shape):
        return self.x.new_empty(shape, dtype=self.dtype)

    def gate(self, z, h, gate, top, scales):
        """The Step that makes h of z: of rows of tokens with a top of 1, else of choices."""
        more = (self.scaling, SCALED[self.dtype], scales) if self.narrow else (None, None, 0)
        call = Gate(("gate", bound(self.s.tokens), top, self.s.experts, h.shape[1], gate, TYPES[z.dtype],
                     h.shape[0] == self.s.tokens and gate is PLAIN, *more))
        at = z.data_ptr(), 0, h.data_ptr(), self.words.data_ptr(), 0, 0, 0, self.s.tokens
        return Step(call, at, (z, h, self.words))

    def product(self, a, w, transposed, c, bias, first, scale):
        """The Step c = a @ w of each expert: of rows by tokens, or to rows by slots."""
        s, most = self.s, bound(self.s.tokens)
        if self.narrow:
            w = laid(logical(w, transposed))
            b, k, n = lie(Meta(*meta(w, w.data_ptr()))), *w.shape[1:]
            types = SCALED[self.dtype], None, TYPES[self.x.dtype]
        else:
            w, (_, panels, n, _) = w.contiguous(), w.shape
            of = TYPES[self.x.dtype]
            k, types = panels * PANEL, (of, TYPES4.get(self.scaling, "int4"), of)
            b = Matrix(False, n, 0, k * n)
        addresses = [0 if t is None else t.data_ptr() for t in (a, w, c, bias)]
        where = bias_of(None if bias is None else Meta(*meta(bias, addresses[3])))
        lies = c.stride(0), addresses[2] % ALIGN // c.itemsize
        scale_a = self.at.x if first else self.at.between
        call = Product(("product", s.experts, most * s.top, n, k, b, lies, where,
                        most if first else 0, first_list(s.experts), scale_a, scale, self.scaling, types))
        words = self.words.data_ptr()
        return Step(call, (addresses[0], addresses[1] & -ALIGN, addresses[2] & -ALIGN, words, 0,
                           addresses[3] & -ALIGN, words, s.tokens * s.top), (a, w, c, bias, self.words))


# The operator.


def experts(*args):
    """y of a call of experts() with scales: the arguments of run()."""
    if wants_gradients(*(t for t in args if isinstance(t, torch.Tensor))):
        raise NotImplementedError("experts: there are no gradients where weights have scales: call it within "
                                  "torch.no_grad()")
    return run(*args) if not torch.compiler.is_dynamo_compiling() else _operator(*args)


def _fake(*args):
    check(*args)
    return args[0].new_empty(args[0].shape)


library.define(f"experts_scaled({_TENSORS}, {_OPTIONS}) -> Tensor")
for _kind in "CPU", "CUDA":
    library.impl("experts_scaled", run, _kind)
torch.library.register_fake("batchgemm::experts_scaled", _fake, lib=library)
_operator = torch.ops.batchgemm.experts_scaled.default
