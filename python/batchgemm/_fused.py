"""A layer of experts without gradients, by four programs: a routing, the first product with its gate, the
second, and a sum. A call like one before takes a lookup and four runs of the host."""

import functools
from typing import NamedTuple

import torch

from . import _gates
from ._layer import Product, Sizes, sizes_of
from ._programs import ALIGN, TYPES, Matrix, Meta, bound, lie, meta, programs_of
from ._routing import first_list, words_of, combining, routing

_NO_COPY = (False,) * 8


class _Plan(NamedTuple):
    """What to do for tensors of a kind. copy: which must be copied; then the rest is for the copies."""

    copy: tuple = _NO_COPY
    sizes: Sizes = None
    words: int = 0
    calls: tuple = ()
    gated: bool = False


def run(*args):
    """y [T, H], or None where programs do not take it so."""
    tensors = args[:8]
    at = [0 if t is None else t.data_ptr() for t in tensors]
    plan = _plan_of(*(None if t is None else meta(t, a) for t, a in zip(tensors, at)), *args[8:])
    if plan is None:
        return None
    if plan.copy is not _NO_COPY:
        return run(*(t.clone(memory_format=torch.contiguous_format) if copy else t
                     for t, copy in zip(tensors, plan.copy)), *args[8:])
    x, s = args[0], plan.sizes
    words = torch.empty(plan.words, dtype=torch.int32, device=x.device)
    h, rows = x.new_empty(s.rows, s.inner), x.new_empty(s.rows, s.hidden)
    y = x.new_empty(s.tokens, s.hidden)
    at_x, at_gate, at_up, at_down, at_index, at_weights, at_bias, at_down_bias = (a & -ALIGN for a in at)
    at_words, at_h, at_rows = words.data_ptr(), h.data_ptr(), rows.data_ptr()
    programs_of(x.get_device()).run_all(zip(plan.calls, (
        (at_weights, 0, at_words, at_index, 0, 0, 0, s.tokens),
        (at_x, at_gate, at_h, at_words, (at_up or at_gate) if plan.gated else 0, at_bias, at_words, s.rows),
        (at_h, at_down, at_rows, at_words, 0, at_down_bias, at_words, s.rows),
        (at_rows, 0, y.data_ptr(), at_index, 0, 0, 0, s.tokens))))
    return y


@functools.lru_cache(maxsize=1024)
def _plan_of(*args):
    """The _Plan for tensors with these meta(), or None."""
    tensors, options = [t and Meta(*t) for t in args[:8]], args[8:]
    s = sizes_of(*tensors, *options)
    x, gate_up, up, down, index, weights, gate_up_bias, down_bias = tensors
    activation, layout, transposed, *_ = options
    if s.nothing() or not s.inner or activation not in _gates.IN_PROGRAMS:
        return None
    if gate_up_bias and layout == "interleaved":
        return None  # programs take biases by halves
    a, (b, b2), d = lie(x), _matrices(gate_up, up, layout, transposed), lie(_logical(down, transposed))
    if not b or not d or b2 is None or b2 and (b.trans, b.stride) != (b2.trans, b2.stride):
        return None
    copy = (not a or a.trans, False, False, False, *(not _dense(t) for t in (index, weights)),
            *(t is not None and t.stride[1] != 1 for t in (gate_up_bias, down_bias)))
    if any(copy):
        return _Plan(copy)
    most, first, type = bound(s.tokens), first_list(s.experts), TYPES[x.dtype]
    product = lambda n, k, *rest: Product((s.experts, most * s.top, n, k, *rest, type))
    h, rows = Matrix(False, s.inner, 0, 0), Matrix(False, s.hidden, 0, 0)
    return _Plan(_NO_COPY, s, words_of(most, s.top, s.experts), (
        routing(index, weights, s.experts),
        product(s.inner, s.hidden, a, b, b2 or None, h, _bias(gate_up_bias), most, first,
                (("activation", activation),)),
        product(s.hidden, s.inner, h, d, None, rows, _bias(down_bias), 0, first,
                (("weights", True), ("scatter_rows", most * s.top))),
        combining(index, s.experts, s.hidden, x.dtype)), bool(b2))


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


def _bias(t):
    return t and (t.at // t.dtype.itemsize, t.stride[0])
