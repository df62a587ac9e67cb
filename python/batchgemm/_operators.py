"""The operators of batchgemm.torch: what they compute, without gradients, and the shapes and types of their
results."""

import torch

from ._ends import check_ends, flag_of
from ._optional import eager
from ._programs import ALIGN, call_of, meta, programs_of, sizes_of

library = torch.library.Library("batchgemm", "DEF")
_ARGUMENTS = ("Tensor x, Tensor w, Tensor? offs, Tensor? bias, str activation, ScalarType? out_dtype, "
              "float? fill")
_MORE = ", Tensor? scale_x, Tensor? scale_w, Tensor? zero_x, Tensor? sums_w, SymInt? n"
NAMES = {"grouped_mm": "", "scaled_grouped_mm": _MORE, "int4_grouped_mm": _MORE}


def name_of(more):
    """Which operator takes these arguments after the first seven: with w of int4 there is no scale_x."""
    return "grouped_mm" if not more else "int4_grouped_mm" if more[0] is None else "scaled_grouped_mm"


def operator_of(more):
    return _operators[name_of(more)]


def run(x, w, offs, bias, activation, out_dtype, fill, *more):
    """The operators. Those with scales have more: scale_x, scale_w, zero_x, sums_w, and n of a w of int4."""
    y = eager.run(x, w, offs, bias, activation, out_dtype, fill, *more)
    return _run(x, w, offs, bias, activation, out_dtype, fill, *more) if y is None else y


def _run(x, w, offs, bias, activation, out_dtype, fill, *more):
    """The operators, for calls that are new, or wrong."""
    *scales, n = more or (None,)
    at_x, at_w = x.data_ptr(), w.data_ptr()
    at_offs, at_bias = 0 if offs is None else offs.data_ptr(), 0 if bias is None else bias.data_ptr()
    call = call_of(meta(x, at_x), meta(w, at_w), None if offs is None else meta(offs, at_offs),
                   None if bias is None else meta(bias, at_bias), activation, out_dtype, flag_of(fill),
                   *(t if t is None else meta(t, 0) for t in scales), n=n)
    if call.copy:
        copied = [t.clone(memory_format=torch.contiguous_format) if copy else t
                  for t, copy in zip((x, w, offs, bias), call.copy)]
        return run(*copied, activation, out_dtype, fill, *more)
    if offs is not None and x.is_cpu:
        check_ends(offs, call.extent)
    if call.value is None:
        y = x.new_empty(call.shape, dtype=call.dtype)
    else:
        y = x.new_full(call.shape, call.value, dtype=call.dtype)
    if call.key:
        rows = _rows(call.expand, *scales) if scales else None
        addresses = (at_x & -ALIGN, at_w & -ALIGN, y.data_ptr(), at_offs, 0, at_bias & -ALIGN,
                     0 if rows is None else rows.data_ptr(), call.extent)
        arguments = x, w, offs, bias, activation, out_dtype, fill, *more
        programs_of(x.get_device()).run(call, addresses, arguments)
    return y


def _rows(expand, scale_x, scale_w, zero_x, sums_w):
    """All scales in one array, those of w first, as kernels take them. No copy where they lie so."""
    at = scale_w.data_ptr()
    after = scale_x is None or at + 4 * scale_w.numel() == scale_x.data_ptr() and scale_x.is_contiguous()
    if expand == (-1, -1) and zero_x is None and after and at % ALIGN == 0 and scale_w.is_contiguous():
        return scale_w
    return join(expand, scale_x, scale_w, zero_x, sums_w)


def join(expand, scale_x, scale_w, zero_x, sums_w):
    """Copies scales into one array. With zero points a word follows each scale: the zero point, or the
    sum."""
    count_w, count_x = expand
    if zero_x is not None:
        each = scale_w.reshape(1 if scale_w.numel() == 1 else len(sums_w), -1).expand(sums_w.shape)
        pairs = [(each, sums_w), (t.reshape(-1).expand(count_x) for t in (scale_x, zero_x))]
        words = lambda scale, whole: torch.stack((scale.view(torch.int32), whole), -1).view(-1)
        return torch.cat([words(*pair) for pair in pairs])
    of_w = _flat(scale_w, count_w)
    return torch.cat([of_w] if scale_x is None else [of_w, _flat(scale_x, count_x)])


def _flat(scale, count):
    flat = scale if scale.dim() == 1 else scale.reshape(-1)
    return flat if count == -1 else flat.expand(count)


def _fake(x, w, offs, bias, activation, out_dtype, fill, *more):
    *scales, n = more or (None,)
    s = sizes_of(x, w, offs, bias, activation, out_dtype, *scales, n=n)
    flag_of(fill)
    return x.new_empty(s.shape, dtype=s.dtype)


for _name, _more in NAMES.items():
    library.define(f"{_name}({_ARGUMENTS}{_more}) -> Tensor")
    for _kind in "CPU", "CUDA":
        library.impl(_name, run, _kind)
    torch.library.register_fake("batchgemm::" + _name, _fake, lib=library)
_operators = {name: getattr(torch.ops.batchgemm, name).default for name in NAMES}
