"""A layer of experts on tensors that nobody watches: checks, programs, and forward. _layer_gradients.py has
its backward, _experts.py makes operators of both.

The arguments are always these: x, gate_up, up, down, index, weights, gate_up_bias, down_bias, and after them
activation, layout, transposed, alpha, limit. up is None where gate_up holds it or there is none."""

import functools
from typing import NamedTuple

import torch

from . import _gates
from ._core import ENDS_OF_ROWS
from ._invariant import INVARIANT
from ._programs import ALIGN, MOST_GROUPS, TYPES, Meta, check_devices, lie, matrices, meta
from ._routing import INDEX, MOST_CHOICES, Step, combine, dense, fill_lists, new_lists, queue

# Shapes.


class Sizes(NamedTuple):
    tokens: int
    top: int
    experts: int
    hidden: int
    inner: int
    width: int  # of what the first product gives

    @property
    def rows(self):
        return self.tokens * self.top

    def nothing(self):
        """Whether no program has anything to do."""
        return not (self.tokens and self.top and self.experts and self.hidden)


def sizes_of(x, gate_up, up, down, index, weights, gate_up_bias, down_bias,
             activation, layout, transposed, alpha, limit):
    """Checks the arguments."""
    if activation not in _gates.GATES:
        raise ValueError(f"activation {activation!r}: it must be a function or one of "
                         f"{', '.join(_gates.GATES)}")
    if layout not in _gates.LAYOUTS:
        raise ValueError(f"layout {layout!r}: it must be one of {', '.join(_gates.LAYOUTS)}")
    if activation == _gates.CLAMPED and layout == "ungated":
        raise ValueError(f"activation {activation!r}: none where the layout is {layout!r}")
    if x.dtype not in TYPES:
        raise TypeError(f"x is {x.dtype}: it must be float32, bfloat16 or float16")
    gate = "gate_up[0]" if up is not None else "gate_up"
    for name, t, dims in ("x", x, 2), (gate, gate_up, 3), ("gate_up[1]", up, 3), ("down", down, 3), \
            ("index", index, 2), ("gate_up_bias", gate_up_bias, 2), ("down_bias", down_bias, 2):
        if t is None:
            continue
        if len(t.shape) != dims:
            raise ValueError(f"{name} has {len(t.shape)} dimensions: it must have {dims}")
        if name != "index" and t.dtype != x.dtype:
            raise TypeError(f"{name} is {t.dtype}, x is {x.dtype}")
    others = (gate, gate_up), ("gate_up[1]", up), ("down", down), ("index", index), ("weights", weights)
    check_devices(x, *others, ("gate_up_bias", gate_up_bias), ("down_bias", down_bias))
    if index.dtype not in INDEX:
        raise TypeError(f"index is {index.dtype}: it must be int32 or int64")
    if weights.dtype not in TYPES:
        raise TypeError(f"weights are {weights.dtype}: they must be float32, bfloat16 or float16")
    (tokens, hidden), top = x.shape, index.shape[1]
    experts, width, depth = _turned(gate_up.shape, transposed)
    if experts > MOST_GROUPS:
        raise ValueError(f"{gate} has {experts} experts: there may be {MOST_GROUPS}")
    if index.shape[0] != tokens:
        raise ValueError(f"index is of {index.shape[0]} tokens, x of {tokens}")
    if top > MOST_CHOICES:
        raise ValueError(f"index has {top} choices for each token: there may be {MOST_CHOICES}")
    joined = up is None and layout != "ungated"
    if depth != hidden or joined and width % 2:
        shape = _shape(experts, "2 * I" if joined else "I", hidden, transposed)
        raise ValueError(f"{gate} has the shape {tuple(gate_up.shape)}: with this x it must be {shape}")
    inner, width = (width // 2, width) if joined else (width, width * (1 + (up is not None)))
    for name, t, shape in (
            ("gate_up[1]", up, gate_up.shape), ("weights", weights, index.shape),
            ("down", down, (experts, *((inner, hidden) if transposed else (hidden, inner)))),
            ("gate_up_bias", gate_up_bias, (experts, width)), ("down_bias", down_bias, (experts, hidden))):
        if t is not None and tuple(t.shape) != tuple(shape):
            raise ValueError(f"{name} has the shape {tuple(t.shape)}: it must be {tuple(shape)}")
    return Sizes(tokens, top, experts, hidden, inner, width)


def _turned(shape, transposed):
    experts, rows, columns = shape
    return (experts, columns, rows) if transposed else (experts, rows, columns)


def _shape(experts, rows, columns, transposed):
    return "({}, {}, {})".format(*_turned((experts, rows, columns), transposed))


# Programs.


class Product(NamedTuple):
    """A Call of _programs.py: rows of a layer times the matrix of their expert, or two of them, gated."""

    key: tuple

    def prepare(self, device):
        groups, m, n, k, a, b, b2, c, bias, tokens, first, epilogue, type = self.key
        epilogue, more = dict(epilogue), {}
        if tokens:
            epilogue["gather_rows"] = tokens
        if b2:
            epilogue["gated"] = True
            more.update(offset_b2=b2.at, ldb2=b2.ld)
        if bias:
            epilogue["bias"] = True
            more.update(bias=bias[0], stride_bias=bias[1])
        return device.prepare_ragged(
            ENDS_OF_ROWS, groups, m, n, k, lda=a.ld, ldb=b.ld, ldc=c.ld, trans_b=b.trans, offset_a=a.at,
            offset_b=b.at, offset_c=c.at, stride_b=b.stride, rows_a=first, rows_c=first + m,
            weights=first + 2 * m, options={"type_a": type, "type_c": type, "epilogue": epilogue} | INVARIANT,
            **more)


def bias_of(t):
    """Where the biases of a Meta begin, in elements, and how far those of experts are apart; None of None."""
    return t and (t.at // t.dtype.itemsize, t.stride[0])


@functools.lru_cache(maxsize=4096)
def _product_of(a, w, c, bias, experts, tokens, top, first, gather, scatter, weights):
    """The Product for tensors with these meta(). tokens: of a program."""
    a, w, c, bias = (t and Meta(*t) for t in (a, w, c, bias))
    _, k, n = w.shape
    epilogue = (("weights", True),) * weights + (("scatter_rows", tokens * top),) * scatter
    return Product((experts, tokens * top, n, k, lie(a), lie(w), None, lie(c),
                    bias_of(bias), tokens if gather else 0, first, epilogue, TYPES[a.dtype]))


def product(a, w, c, lists, bias=None, gather=False, scatter=False, weights=False):
    """The Step c = a @ w of each expert: of rows of a by tokens, to rows of c by slots, times the routing
    weights. All of them lie as programs take them."""
    operands = a, w, c, bias
    at = [0 if t is None else t.data_ptr() for t in operands]
    metas = (None if t is None else meta(t, address) for t, address in zip(operands, at))
    call = _product_of(*metas, lists.experts, lists.most, lists.top, lists.first, gather, scatter, weights)
    at_a, at_w, at_c, at_bias = (address & -ALIGN for address in at)
    words = lists.words.data_ptr()
    return Step(call, (at_a, at_w, at_c, words, 0, at_bias, words, lists.rows), operands)


class Gate(NamedTuple):
    """A Call of what is between the products, or of its derivative."""

    key: tuple

    def prepare(self, device):
        _, index, tokens, top, experts, inner, layout, activation, alpha, limit, type = self.key
        options = {"gated": layout != "ungated", "interleaved": layout == "interleaved",
                   "activation": activation, "alpha": alpha, "limit": limit, "type": type}
        if index is None:
            return device.prepare_gate(tokens, top, experts, inner, **options)
        return device.prepare_gate_backward(tokens, top, experts, inner, index=INDEX[index], **options)


def gate(z, h, lists, options):
    """The Step that gives h [rows, I] of z."""
    words = lists.words.data_ptr()
    call = Gate(("gate", None, lists.most, lists.top, lists.experts, h.shape[1], *_gates.of(options),
                 TYPES[z.dtype]))
    return Step(call, (z.data_ptr(), 0, h.data_ptr(), words, 0, 0, 0, lists.tokens), (z, h, lists.words))


def gate_backward(z, gh, index, lists, options):
    """The Step of the derivative, and where its results will be: the gradient of z and h times the routing
    weights, by rows, and the gradient of the weights, by slots. gh is the gradient of h without weights."""
    n, (rows, inner), width = lists.most * lists.top, gh.shape, z.shape[1]
    of_h, of_weights = (aligned(n * columns * z.itemsize) for columns in (width, inner))
    of_weights += of_h
    block = z.new_empty(of_weights + 4 * n, dtype=torch.uint8)
    part = lambda at, columns, dtype: block[at : at + rows * columns * dtype.itemsize].view(dtype)
    call = Gate(("gate", index.dtype, lists.most, lists.top, lists.experts, inner, *_gates.of(options),
                 TYPES[z.dtype]))
    at = z.data_ptr(), gh.data_ptr(), block.data_ptr(), lists.words.data_ptr(), 0, 0, index.data_ptr(), \
        lists.tokens
    return (Step(call, at, (z, gh, block, lists.words, index)),
            part(0, width, z.dtype).view(rows, width), part(of_h, inner, z.dtype).view(rows, inner),
            part(of_weights, 1, torch.float32))


def aligned(size):
    """Bytes, rounded up so that what follows lies as programs take it."""
    return -(-size // ALIGN) * ALIGN


def laid(t):
    """Weights as programs take them: a copy where they lie otherwise."""
    return t if matrices(t) else t.contiguous()


def rows_laid(t):
    """A matrix, or biases, with elements of a row that follow each other."""
    return t if t is None or t.stride(-1) == 1 and t.stride(0) >= t.shape[1] else t.contiguous()


# Forward.


def forward(x, gate_up, up, down, index, weights, gate_up_bias, down_bias, *options):
    """y [T, H], and what backward needs: z = x @ gate_up + its bias, [T * k, width], and the words of the
    routing."""
    s = sizes_of(x, gate_up, up, down, index, weights, gate_up_bias, down_bias, *options)
    transposed = options[2]
    z, lists = x.new_empty(s.rows, s.width), new_lists(index, s.experts)  # gathers read all of the lists
    if s.nothing():
        return torch.zeros_like(x, memory_format=torch.contiguous_format), z, lists.words
    x, index, weights = rows_laid(x), dense(index), dense(weights)
    steps = [fill_lists(lists, index, weights)]
    for w, to, bias in zip((gate_up, up), parts(z, up), parts(gate_up_bias, up)):
        if to.shape[1]:
            steps.append(product(x, laid(logical(w, transposed)), to, lists, bias=rows_laid(bias),
                                 gather=True))
    h = x.new_empty(s.rows, s.inner)
    if s.inner:
        steps.append(gate(z, h, lists, options))
    rows, y = x.new_empty(s.rows, s.hidden), x.new_empty(x.shape)
    steps.append(product(h, laid(logical(down, transposed)), rows, lists, bias=rows_laid(down_bias),
                         scatter=True, weights=True))
    queue([*steps, combine(rows, y, index, s.experts)])
    return y, z, lists.words


def logical(w, transposed):
    """[experts, K, N] of weights as layers store them."""
    return w if transposed else w.transpose(1, 2)


def parts(z, up):
    """The columns of z, or of biases, for each matrix that gives them."""
    return (z,) if up is None else (None, None) if z is None else z.chunk(2, 1)
