"""A layer of experts without gradients, by four programs: a routing, the first product with its gate, the
second, and a sum. eager does a plain call like one before, with one call of the library."""

import functools
import struct
from typing import NamedTuple

import torch

from . import _gates
from ._layer import Product, aligned, bias_of, sizes_of
from ._optional import eager
from ._programs import ALIGN, TYPES, Matrix, Meta, bound, lie, meta, programs_of
from ._routing import Calls, calls_of, combining, first_list, routing, words_of


class _Plan(NamedTuple):
    """What to do for tensors of a kind: a copy of those in copy, or calls."""

    copy: tuple = ()
    calls: Calls = ()
    tokens: int = 0
    rows: int = 0
    joined: bool = False  # the gate and up are in one tensor
    result: tuple = ()  # its shape, type and device
    size: int = 0  # bytes of a block: the words of the routing, and from at_h and at_rows on h and rows
    at_h: int = 0
    at_rows: int = 0


_LAYER = struct.Struct("=4Q6q")  # struct layer of _eager_layer.h


def run(*args):
    """y [T, H], or None where programs do not take it so."""
    tensors, options = args[:8], args[8:]
    addresses = [0 if t is None else t.data_ptr() for t in tensors]
    plan = _plan_of(*[None if t is None else meta(t, at) for t, at in zip(tensors, addresses)], *options)
    if plan is None:
        return None
    if plan.copy:
        return run(*(t.clone(memory_format=torch.contiguous_format) if copy else t
                     for t, copy in zip(tensors, plan.copy)), *options)
    return _queue(plan, [at & -ALIGN for at in addresses], tensors, options)


def _queue(plan, lines, *call):
    """Queues the calls of a plan. lines: the addresses of the tensors, each rounded down to ALIGN. call: of
    eager.layer(), which knows it from then on."""
    _, calls, tokens, most, joined, (shape, dtype, device), size, at_h, at_rows = plan
    block = torch.empty(size, dtype=torch.uint8, device=device)  # new_empty() takes longer
    result = torch.empty(shape, dtype=dtype, device=device)
    x, gate, up, down, index, weights, bias, down_bias = lines
    words, y = block.data_ptr(), result.data_ptr()
    h, rows = words + at_h, words + at_rows
    programs = programs_of(result.get_device())

    def keep(stream, handles):
        todo = _LAYER.pack(*handles, tokens, most, joined, size, at_h, at_rows)
        eager.keep_layer(*call, stream, todo, programs.wait)

    programs.run_all(calls, (
        (weights, 0, words, index, 0, 0, 0, tokens),
        (x, gate, h, words, gate if joined else up, bias, words, most),
        (h, down, rows, words, 0, down_bias, words, most),
        (rows, 0, y, index, 0, 0, 0, tokens)), keep)
    return result


@functools.lru_cache(maxsize=1024)
def _plan_of(*args):
    """The _Plan for tensors with these meta(), or None."""
    tensors, options = [t and Meta(*t) for t in args[:8]], args[8:]
    s = sizes_of(*tensors, *options)
    x, gate_up, up, down, index, weights, gate_up_bias, down_bias = tensors
    activation, layout, transposed, *_ = options
    if s.nothing() or not s.inner or activation not in _gates.IN_EPILOGUES:
        return None
    if gate_up_bias and layout == "interleaved":
        return None  # programs take biases by halves
    a, (b, b2), d = lie(x), _matrices(gate_up, up, layout, transposed), lie(_logical(down, transposed))
    if not b or not d or b2 is None or b2 and (b.trans, b.stride) != (b2.trans, b2.stride):
        return None
    copy = (not a or a.trans, False, False, False, *(not _dense(t) for t in (index, weights)),
            *(t is not None and t.stride[1] != 1 for t in (gate_up_bias, down_bias)))
    if any(copy):
        return _Plan(copy=copy)
    most, first, type = bound(s.tokens), first_list(s.experts), TYPES[x.dtype]
    product = lambda n, k, *rest: Product((s.experts, most * s.top, n, k, *rest, type))
    h, rows = Matrix(False, s.inner, 0, 0), Matrix(False, s.hidden, 0, 0)
    calls = calls_of(
        routing(index, weights, s.experts),
        product(s.inner, s.hidden, a, b, b2 or None, h, bias_of(gate_up_bias), most, first,
                (("activation", activation),)),
        product(s.hidden, s.inner, h, d, None, rows, bias_of(down_bias), 0, first,
                (("weights", True), ("scatter_rows", most * s.top))),
        combining(index, s.experts, s.hidden, x.dtype))
    at_h = aligned(4 * words_of(s.tokens, s.top, s.experts))
    at_rows = at_h + aligned(s.rows * s.inner * x.dtype.itemsize)
    return _Plan((), calls, s.tokens, s.rows, bool(b2) and up is None, (x.shape, x.dtype, x.device),
                 at_rows + s.rows * s.hidden * x.dtype.itemsize, at_h, at_rows)


def _logical(w, transposed):
    """[experts, K, N] of weights as layers store them."""
    swap = lambda t: (t[0], t[2], t[1])
    return w if transposed else w._replace(shape=swap(w.shape), stride=swap(w.stride))


def _matrices(gate_up, up, layout, transposed):
    """How the gate and up lie, each from the beginning of its tensor: None where programs do not take it. up
    is () where there is none."""
    w = _logical(gate_up, transposed)
    if up is not None:
        return lie(w), lie(_logical(up, transposed))
    if layout == "ungated":
        return lie(w), ()
    (experts, k, n), (apart, down, right) = w.shape, w.stride
    step, begin = (2, 1) if layout == "interleaved" else (1, n // 2)
    gate = w._replace(shape=(experts, k, n // 2), stride=(apart, down, step * right))
    return lie(gate), lie(gate._replace(at=w.at + begin * right * w.dtype.itemsize))


def _dense(t):
    """Whether choices or weights [T, k] follow each other from an aligned address on."""
    (tokens, top), (down, right) = t.shape, t.stride
    return t.at == 0 and (right == 1 or top <= 1) and (down == top or tokens <= 1)
