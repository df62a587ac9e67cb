"""The backward of a layer of experts, on tensors that nobody watches. All its products are the library's."""

import functools
from typing import NamedTuple

import torch

from . import _operators
from ._core import ENDS_OF_DEPTH
from ._gradients import bias_gradient
from ._layer import gate_backward, laid, logical, parts, product, rows_laid, sizes_of
from ._programs import ALIGN, TYPES, matrices
from ._routing import Step, combine, dense, lists_in, numbers, queue

# What there are gradients to, in the order of backward()'s needs.
TO = "x", "gate_up", "up", "down", "weights", "gate_up_bias", "down_bias"


def needed(x, gate_up, up, down, index, weights, gate_up_bias, down_bias, needs):
    """The tensors whose gradients backward() returns."""
    return [t for t, need in zip((x, gate_up, up, down, weights, gate_up_bias, down_bias), needs) if need]


def backward(gy, x, gate_up, up, down, index, weights, gate_up_bias, down_bias, z, words, *options, needs,
             into={}):
    """The gradients that are needed, from that of y. z and words are those of forward(). h, and x and gy by
    rows, are there only for their products. A gradient has the same bits whether others are needed or not.
    into: by name, what gradients of weights are added to. They are None in the result."""
    tensors = x, gate_up, up, down, index, weights, gate_up_bias, down_bias
    s = sizes_of(*tensors, *options)
    if s.nothing():
        names = (name for name, need in zip(TO, needs) if need)
        return [None if name in into else torch.zeros_like(t, memory_format=torch.contiguous_format)
                for name, t in zip(names, needed(*tensors, needs))]
    to, got, transposed = dict(zip(TO, needs)), {}, options[2]
    gy, index, z = rows_laid(gy.to(x.dtype)), dense(index), dense(z)
    lists = lists_in(dense(words), index, s.experts)
    gz = h = of_weights = None
    if any(need for name, need in to.items() if name != "down_bias"):
        gz, h, of_weights, got["x"] = _between(gy, gate_up, up, down, index, z, lists, s, options, to)
    if to["weights"]:
        if down_bias is not None:
            of_weights = of_weights + _of_biases(gy, down_bias, index, lists)
        got["weights"] = of_weights.view(index.shape).to(weights.dtype, copy=True)
    if to["down"] or to["down_bias"]:
        got["down"], got["down_bias"] = _of_down(gy, h, down_bias, lists, transposed, to,
                                                into.get("down"))
    if to["gate_up"] or to["up"]:
        by_row = x.index_select(0, lists.row_tokens)
        for name, part in zip(("gate_up", "up"), parts(gz, up)):
            if to[name]:
                got[name] = _of_matrix(by_row, part, lists, transposed, into.get(name))
    if to["gate_up_bias"]:
        got["gate_up_bias"] = bias_gradient(lists.ends, gate_up_bias, gz)
    return [got[name] for name, need in to.items() if need]


def _between(gy, gate_up, up, down, index, z, lists, s, options, to):
    """What the gradients are made of: that of z, h times the routing weights, gy . (h @ down) by slots, which
    is (gy @ down^T) . h, and the gradient of x. None where nothing needs it."""
    transposed = options[2]
    gh = gy.new_empty(s.rows, s.inner)  # before the routing weights
    steps = [product(gy, laid(logical(down, not transposed)), gh, lists, gather=True)] if s.inner else []
    step, gz, h, of_weights = gate_backward(z, gh, index, lists, options)
    steps.append(step)
    terms = []  # of the gradient of x
    if to["x"]:
        rows = gy.new_empty(s.rows, s.hidden)
        for w, part in zip((gate_up, up), parts(gz, up)):
            if s.inner:
                steps.append(product(part, laid(logical(w, not transposed)), rows, lists, scatter=True))
            else:
                rows.zero_()
            terms.append(gy.new_empty(gy.shape))
            steps.append(combine(rows, terms[-1], index, s.experts))
    queue(steps)
    return gz, h, of_weights, functools.reduce(torch.Tensor.add_, terms) if terms else None


def _of_biases(gy, down_bias, index, lists):
    """gy . bias by slots, and 0 where a choice does not count."""
    chosen = numbers(index, lists.experts)
    there = chosen < lists.experts
    by_expert = _operators.run(gy[None], down_bias.t()[None], None, None, "", torch.float32, None)[0]
    return torch.where(there, by_expert.gather(1, torch.where(there, chosen, 0).long()), 0).view(-1)


def _of_down(gy, h, down_bias, lists, transposed, to, into):
    """Of down and its bias."""
    by_row, of_down, of_bias = gy.index_select(0, lists.row_tokens), None, None
    if to["down_bias"]:
        weights = lists.weights.to(gy.dtype)
        row = torch.stack((weights, weights), 1).t()[:1]  # as for a bias of grouped_mm()
        of_bias = _depth(row, by_row, lists, torch.float32).squeeze(1).to(down_bias.dtype)
    if to["down"]:
        of_down = _of_matrix(h, by_row, lists, transposed, into)
    return of_down, of_bias


def _of_matrix(left, right, lists, transposed, into):
    """left^T @ right of each expert, as weights lie that turn a left into a right, or None: added to into."""
    x, w = (left.t(), right) if transposed else (right.t(), left)
    return _depth(x, w, lists) if into is None else _add(x, w, lists, into)


class _Adding(NamedTuple):
    """A Call of _programs.py that adds to fp32 what a gradient of weights is."""

    key: tuple

    def prepare(self, device):
        _, groups, m, n, k, a, b, c, type = self.key
        return device.prepare_ragged(
            ENDS_OF_DEPTH, groups, m, n, k, lda=a.ld, ldb=b.ld, ldc=c.ld, trans_a=a.trans, trans_b=b.trans,
            offset_a=a.at, offset_b=b.at, offset_c=c.at, stride_c=c.stride, beta=1,
            options={"type_a": type, "type_c": "f32"})


def _add(x, w, lists, to):
    (m, rows), n, most = x.shape, w.shape[1], lists.most * lists.top
    if rows and m and n:
        call = _Adding(("add", lists.experts, m, n, most, *map(matrices, (x, w, to)), TYPES[x.dtype]))
        at_x, at_w, at = (t.data_ptr() & -ALIGN for t in (x, w, to))
        queue([Step(call, (at_x, at_w, at, lists.words.data_ptr(), 0, 0, 0, rows), (x, w, to, lists.words))])


def _depth(x, w, lists, out_dtype=None):
    return _operators.run(x, w, lists.ends, None, "", out_dtype, 0.0)
