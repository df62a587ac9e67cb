"""The backward of a layer of experts, on tensors that nobody watches. All its products are the library's."""

import torch

from . import _gates, _operators
from ._gradients import bias_gradient
from ._layer import gate, laid, logical, parts, product, rows_laid, sizes_of
from ._routing import combine, lists_of, numbers

# What there are gradients to, in the order of backward()'s needs.
TO = "x", "gate_up", "up", "down", "weights", "gate_up_bias", "down_bias"


def needed(x, gate_up, up, down, index, weights, gate_up_bias, down_bias, needs):
    """The tensors whose gradients backward() returns."""
    return [t for t, need in zip((x, gate_up, up, down, weights, gate_up_bias, down_bias), needs) if need]


def backward(gy, x, gate_up, up, down, index, weights, gate_up_bias, down_bias, z, *options, needs):
    """The gradients that are needed, from that of y. z is that of forward(). h, and x and gy by rows, are
    there only for their products."""
    tensors = x, gate_up, up, down, index, weights, gate_up_bias, down_bias
    s = sizes_of(*tensors, *options)
    if s.nothing():
        return [torch.zeros_like(t, memory_format=torch.contiguous_format) for t in needed(*tensors, needs)]
    to, got, transposed = dict(zip(TO, needs)), {}, options[2]
    gy, lists = rows_laid(gy.to(x.dtype)), lists_of(index, weights, s.experts)
    h = _gates.apply(z, *gate(options)) if to["weights"] or to["down"] else None
    inner = to["x"] or to["gate_up"] or to["up"] or to["gate_up_bias"]
    if inner or to["weights"]:
        gh = x.new_empty(s.rows, s.inner)  # before the weights
        if s.inner:
            product(gy, laid(logical(down, not transposed)), gh, lists, gather=True)
    if to["weights"]:
        got["weights"] = _of_weights(gy, h, gh, index, down_bias, lists).to(weights.dtype)
    if to["down"] or to["down_bias"]:
        got["down"], got["down_bias"] = _of_down(gy, h, down_bias, lists, transposed, to)
    del h
    if inner:
        gz = _gates.derive(gh.mul_(lists.weights[:, None]), z, *gate(options))
        del gh
    if to["x"]:
        got["x"] = _of_x(gz, gate_up, up, index, lists, transposed)
    if to["gate_up"] or to["up"]:
        by_row = x.index_select(0, lists.row_tokens())
        got["gate_up"], got["up"] = (*(_of_matrix(by_row, part, lists, transposed) if to[name] else None
                                       for name, part in zip(("gate_up", "up"), parts(gz, up))), None)[:2]
    if to["gate_up_bias"]:
        got["gate_up_bias"] = bias_gradient(lists.ends, gate_up_bias, gz)
    return [got[name] for name, need in to.items() if need]


def _of_weights(gy, h, gh, index, down_bias, lists):
    """Of the routing weights, [T, k] in fp32: what each row of the layer's results has of gy. The results are
    not needed for that, as gy . (h @ down) is (gy @ down^T) . h."""
    each = lists.to_slots((h * gh).sum(1, dtype=torch.float32)).view(index.shape)
    if down_bias is None:
        return each
    chosen = numbers(index, lists.experts)
    there = chosen < lists.experts
    by_expert = _operators.run(gy[None], down_bias.t()[None], None, None, "", torch.float32, None)[0]
    return each + torch.where(there, by_expert.gather(1, torch.where(there, chosen, 0).long()), 0)


def _of_down(gy, h, down_bias, lists, transposed, to):
    """Of down and its bias."""
    by_row, of_down, of_bias = gy.index_select(0, lists.row_tokens()), None, None
    if to["down_bias"]:
        weights = lists.weights.to(gy.dtype)
        row = torch.stack((weights, weights), 1).t()[:1]  # as for a bias of grouped_mm()
        of_bias = _depth(row, by_row, lists, torch.float32).squeeze(1).to(down_bias.dtype)
    if to["down"]:
        of_down = _of_matrix(h.mul_(lists.weights[:, None]), by_row, lists, transposed)
    return of_down, of_bias


def _of_matrix(left, right, lists, transposed):
    """left^T @ right of each expert, as weights lie that turn a left into a right."""
    return _depth(left.t(), right, lists) if transposed else _depth(right.t(), left, lists)


def _depth(x, w, lists, out_dtype=None):
    return _operators.run(x, w, lists.ends, None, "", out_dtype, 0.0)


def _of_x(gz, gate_up, up, index, lists, transposed):
    result = None
    for w, part in zip((gate_up, up), parts(gz, up)):
        rows = gz.new_empty(lists.rows, w.shape[1 if transposed else 2])
        if part.shape[1] == 0:
            rows.zero_()
        else:
            product(part, laid(logical(w, not transposed)), rows, lists, scatter=True)
        of_w = combine(rows, index, lists.experts)
        result = of_w if result is None else result.add_(of_w)
    return result
