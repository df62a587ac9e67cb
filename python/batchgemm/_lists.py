"""The operator matmul_list of batchgemm.torch: products of lists of matrices, with gradients and
tangents."""

from typing import NamedTuple

import torch

from ._core import problem
from ._gradients import lowered, single_level, tracks_tangents, wants_gradients
from ._objects import batch_of
from ._operators import library
from ._programs import PLAIN, Matrix, check_types, matrices, programs_of

LARGE = 8192  # bytes of a matrix, on average, that the CPU does not copy

library.define("matmul_list(Tensor[] xs, Tensor[] ws, ScalarType? out_dtype) -> Tensor[]")


def _sizes_of(xs, ws, out_dtype):
    if len(xs) != len(ws):
        raise ValueError(f"xs has {len(xs)} matrices, ws has {len(ws)}")
    sizes = []
    for i, (x, w) in enumerate(zip(xs, ws)):
        if len(x.shape) != 2 or len(w.shape) != 2:
            dims = f"x has {len(x.shape)} dimensions, w has {len(w.shape)}"
            raise ValueError(f"product {i}: {dims}: both must have 2")
        if x.shape[1] != w.shape[0]:
            raise ValueError(f"product {i}: x has {x.shape[1]} columns, w has {w.shape[0]} rows")
        if x.dtype != xs[0].dtype or w.dtype != xs[0].dtype:
            raise TypeError(f"product {i}: x is {x.dtype}, w is {w.dtype}, the first x is {xs[0].dtype}")
        if x.device != xs[0].device or w.device != xs[0].device:
            on = f"x is on {x.device}, w on {w.device}"
            raise ValueError(f"product {i}: {on}, the first x on {xs[0].device}")
        sizes.append((x.shape[0], w.shape[1], x.shape[1]))
    return sizes, check_types(xs[0], ws[0], out_dtype)


class _List(NamedTuple):
    """A Call of matmul_list. Its key: type, type_c, how each A and B lie with their sizes, and whether they
    are by pointers."""

    key: tuple

    def prepare(self, device):
        type, type_c, lies, pointers = self.key
        batch, at = [], [0, 0, 0]
        for m, n, k, a, b in lies:
            batch.append(problem(m, n, k, a=at[0], lda=a.ld, trans_a=a.trans, b=at[1], ldb=b.ld,
                                 trans_b=b.trans, c=at[2], pointers=8 * len(batch)))
            if not pointers:
                at = [at[0] + m * k, at[1] + k * n, at[2] + m * n]
        options = {"type_a": type, "type_c": type_c}
        if pointers:
            options["epilogue"] = {"pointers": {"a": True, "b": True, "c": True}}
        with device.plan(batch, **options) as plan:
            return device.prepare(plan)


def run(xs, ws, out_dtype):
    sizes, dtype = _sizes_of(xs, ws, out_dtype)
    programs = programs_of(xs[0].get_device())
    if not programs.cuda and sum(t.nbytes for t in (*xs, *ws)) >= LARGE * (len(xs) + len(ws)):
        return _where_they_are(programs.device, xs, ws, sizes, dtype)
    if not programs.cuda:  # small ones are copied, one after the other
        dense = lambda columns: Matrix(False, max(columns, 1), 0, 0)
        lies = tuple((m, n, k, dense(k), dense(n)) for m, n, k in sizes)
        a, b = (torch.cat([t.reshape(-1) for t in ts]) for ts in (xs, ws))
        c = a.new_empty(sum(m * n for m, n, _ in sizes), dtype=dtype)
        call = _List((PLAIN[a.dtype], PLAIN[dtype], lies, False))
        programs.run(call, (a.data_ptr(), b.data_ptr(), c.data_ptr()))
        parts = c.split([m * n for m, n, _ in sizes])
        return [part.clone().view(m, n) for part, (m, n, _) in zip(parts, sizes)]
    if torch.cuda.is_current_stream_capturing():
        raise RuntimeError("batchgemm: matmul_list copies addresses to the device, "
                           "which a CUDA graph cannot capture")
    xs, ws = ([t if matrices(t) else t.contiguous() for t in ts] for ts in (xs, ws))
    ys = [x.new_empty((m, n), dtype=dtype) for x, (m, n, _) in zip(xs, sizes)]
    lies = tuple((*s, matrices(x), matrices(w)) for s, x, w in zip(sizes, xs, ws))
    words = [word for x, w, y in zip(xs, ws, ys) for word in (x.data_ptr(), w.data_ptr(), y.data_ptr(), 0)]
    rows = torch.tensor(words, dtype=torch.int64).pin_memory().to(xs[0].device, non_blocking=True)
    programs.run(_List((PLAIN[xs[0].dtype], PLAIN[dtype], lies, True)), (0, 0, 0, 0, 0, 0, rows.data_ptr()))
    return ys


def _where_they_are(device, xs, ws, sizes, dtype):
    """Products on the CPU without copies."""
    xs, ws = ([t if matrices(t) else t.contiguous() for t in ts] for ts in (xs, ws))
    ys = [x.new_empty((m, n), dtype=dtype) for x, (m, n, _) in zip(xs, sizes)]
    (a, on_a), (b, on_b), (c, on_c) = map(_span, (xs, ws, ys))
    batch = []
    for i, (m, n, k) in enumerate(sizes):
        x, w = matrices(xs[i]), matrices(ws[i])
        batch.append(problem(m, n, k, a=a[i], lda=x.ld, trans_a=x.trans, b=b[i], ldb=w.ld, trans_b=w.trans,
                             c=c[i]))
    options = {"type_a": PLAIN[xs[0].dtype], "type_c": PLAIN[dtype]}
    device._gemm(batch_of(batch), options, {"a": on_a, "b": on_b, "c": on_c}, None)
    return ys


def _span(ts):
    """The first element of each tensor in the memory from the first one to the end of the last, and address,
    length and keeper of that."""
    size, at = ts[0].element_size(), [t.data_ptr() for t in ts]
    low = min((first for first, t in zip(at, ts) if t.numel()), default=0)
    offsets, end = [0] * len(ts), 0
    for i, t in enumerate(ts):
        if t.numel():
            offsets[i] = (at[i] - low) // size
            end = max(end, offsets[i] + 1 + sum((n - 1) * step for n, step in zip(t.shape, t.stride())))
    return offsets, (low, end, ts)


def _fake(xs, ws, out_dtype):
    sizes, dtype = _sizes_of(xs, ws, out_dtype)
    return [x.new_empty((m, n), dtype=dtype) for x, (m, n, _) in zip(xs, sizes)]


class _Products(torch.autograd.Function):
    """Products with gradients and tangents. It takes xs and ws in one list, as Function takes no others."""

    @staticmethod
    def forward(ctx, out_dtype, count, *tensors):
        ctx.out_dtype = out_dtype
        ctx.save_for_backward(*tensors)
        ctx.save_for_forward(*tensors)
        ctx.set_materialize_grads(False)
        with lowered():
            return tuple(operator(tensors[:count], tensors[count:], out_dtype))

    @staticmethod
    def backward(ctx, *gys):
        xs, ws = _halves(ctx.saved_tensors)
        gys = [x.new_zeros(x.shape[0], w.shape[1]) if gy is None else gy.to(x.dtype)
               for gy, x, w in zip(gys, xs, ws)]
        needs_xs, needs_ws = map(any, _halves(ctx.needs_input_grad[2:]))
        gxs = operator(gys, [w.t() for w in ws], None) if needs_xs else [None] * len(xs)
        gws = operator([x.t() for x in xs], gys, None) if needs_ws else [None] * len(ws)
        return None, None, *gxs, *gws

    @staticmethod
    def jvp(ctx, _, __, *tangents):
        xs, ws = _halves(ctx.saved_tensors)
        of_xs, of_ws = map(enumerate, _halves(tangents))
        products = [(i, t, ws[i]) for i, t in of_xs if t is not None]
        products += [(i, xs[i], t) for i, t in of_ws if t is not None]
        numbers, left, right = zip(*products)
        sums = {}
        for i, y in zip(numbers, operator(left, right, ctx.out_dtype)):
            sums[i] = sums[i] + y if i in sums else y
        zeros = lambda x, w: x.new_zeros(x.shape[0], w.shape[1], dtype=ctx.out_dtype or x.dtype)
        return tuple(sums[i] if i in sums else zeros(x, w) for i, (x, w) in enumerate(zip(xs, ws)))


def _halves(of_both):
    """The part for xs, and the part for ws."""
    count = len(of_both) // 2
    return of_both[:count], of_both[count:]


_apply = super(torch.autograd.Function, _Products).apply


def _autograd(xs, ws, out_dtype):
    if len(xs) != len(ws) or not (tracks_tangents() or wants_gradients(*xs, *ws)):
        with torch._C._AutoDispatchBelowAutograd():
            return operator(xs, ws, out_dtype)
    with single_level():
        return list(_apply(out_dtype, len(xs), *xs, *ws))


for _kind in "CPU", "CUDA":
    library.impl("matmul_list", run, _kind)
library.impl("matmul_list", _autograd, "Autograd")
torch.library.register_fake("batchgemm::matmul_list", _fake, lib=library)
operator = torch.ops.batchgemm.matmul_list.default
