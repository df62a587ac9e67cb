"""What tests of batchgemm.torch share: references in float64, bounds, layouts, and calls without _eager."""

import contextlib
import unittest
import warnings
from unittest import mock

try:
    import torch
except ImportError as missing:
    raise unittest.SkipTest(f"no PyTorch: {missing}")

import torch.nn.functional as F

import batchgemm.torch as bt
from batchgemm import _gradients as bg, _operators as bo, _programs as bp
from batchgemm._optional import Nothing

UNIT = 2.0**-24  # of fp32
ROUNDED = {torch.float32: UNIT, torch.bfloat16: 2.0**-8, torch.float16: 2.0**-11}
LEAST = 2.0**-24  # half of the least fp16 number above 0
ACTIVATIONS = {None: lambda z: z, "relu": F.relu, "gelu": lambda z: F.gelu(z, approximate="tanh"),
               "silu": F.silu}
LAYOUTS = {
    "transposed": lambda t: t.transpose(-2, -1).contiguous().transpose(-2, -1),
    "long rows": lambda t: F.pad(t, (0, 3))[..., : t.shape[-1]],
    "begins late": lambda t: F.pad(t, (1, 2))[..., 1 : 1 + t.shape[-1]],
    "transposed, begins late": lambda t: F.pad(t, (0, 0, 3, 0)).transpose(-2, -1).contiguous()
    .transpose(-2, -1)[..., 3:, :],
    "every other column": lambda t: t.repeat_interleave(2, -1)[..., ::2],
    "every other row": lambda t: t.repeat_interleave(2, -2)[..., ::2, :],
    "one row for all": lambda t: t[..., :1, :].expand(t.shape),
}
# Tensor cores add 32 products of e4m3 and what they have as multiples of 2^-13 of the largest of them, and
# 128 so from zero.
NARROW = 4 * 33 * 2.0**-13


def reference(x, w, offs=None, bias=None, activation=None):
    """What grouped_mm computes, group by group, with 0 after the last end; differentiable."""
    act = ACTIVATIONS[activation]
    row = (lambda g: 0) if bias is None else (lambda g: bias if bias.dim() == 1 else bias[g])
    if offs is None:
        return torch.stack([act(x[g] @ w[g] + row(g)) for g in range(len(x))])
    ends = offs.tolist()
    cuts = list(enumerate(zip([0] + ends[:-1], ends)))
    last = ends[-1]
    if x.dim() == 3:
        parts = [act(x[g] @ w[:, a:e]) for g, (a, e) in cuts]
        return torch.cat(parts + [x.new_zeros(x.shape[1], w.shape[1] - last)], 1)
    if w.dim() == 3:
        parts = [act(x[a:e] @ w[g] + row(g)) for g, (a, e) in cuts]
        return torch.cat(parts + [x.new_zeros(x.shape[0] - last, w.shape[2])])
    return torch.stack([x[:, a:e] @ w[a:e] for _, (a, e) in cuts])


def bound(x, w, offs=None, bias=None, activation=None, out=torch.float32):
    """How far a result may be off: sums in fp32 in any order, an activation of slopes up to 1.13 whose
    exponential has a rounded argument, and one rounding to the type of the result."""
    x, w, bias = x.double().abs(), w.double().abs(), None if bias is None else bias.double().abs()
    size = reference(x, w, offs, bias)
    error = 2 * (x.shape[-1] + 3) * UNIT * size
    if activation in ("gelu", "silu"):
        error = 1.2 * error + 16 * UNIT * size * (1 + 1.6 * size + 0.08 * size**3)
    return error * (1 + ROUNDED[out]) + ROUNDED[out] * size + LEAST


def ends(*values):
    return torch.tensor(values, dtype=torch.int32)


@contextlib.contextmanager
def without_eager():
    """Calls by Python alone, as where the module _eager is not there."""
    with contextlib.ExitStack() as patches:
        for module in bt, bg, bo, bp:
            patches.enter_context(mock.patch.object(module, "eager", Nothing))
        yield


def assert_fails_alike(case, wrong):
    """A call fails with the same words with the module _eager and without."""
    with case.assertRaises(Exception) as first:
        wrong()
    with without_eager(), case.assertRaises(Exception) as second:
        wrong()
    case.assertEqual((type(first.exception), str(first.exception)),
                     (type(second.exception), str(second.exception)))


@contextlib.contextmanager
def quiet():
    """Without warnings, such as torch.compile has beside errors."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def slow_runs():
    """Counts the runs that Python queues."""
    return mock.patch.object(bp.Programs, "run", autospec=True, side_effect=bp.Programs.run)


def on_cpu():
    return torch.empty(0).is_cpu


def random(dtype, *shape):
    return torch.randint(-128, 128, shape).to(dtype) if dtype is torch.int8 else torch.randn(shape).to(dtype)


def scales(*shape):
    return (torch.rand(shape) + 0.5) / 64


def each(scale, *shape):
    """A scale for each row, or column, in float64."""
    if scale.numel() == 1:
        return scale.double().reshape(()).expand(shape)
    if len(shape) == 2 and scale.shape == shape[:1]:
        return scale.double()[:, None].expand(shape)
    return scale.double().reshape(shape)


def exact(x, w, scale_x, scale_w, offs=None, bias=None, activation=None, out=torch.float32):
    """What scaled_grouped_mm computes, in float64, and how far a result may be off. Two factors more are
    within the bound."""
    x, w, bias = x.double(), w.double(), None if bias is None else bias.double()
    groups, m, n = len(x) if offs is None else len(offs), x.shape[-2], w.shape[-1]
    after = 1
    if x.dim() == w.dim() == 2:
        after = each(scale_x, groups, m)[:, :, None] * each(scale_w, groups, n)[:, None, :]
    else:
        x = x * each(scale_x, *x.shape[:-1])[..., None]
        w = w * each(scale_w, *w.shape[:-2], n)[..., None, :]
    want = reference(x, w, offs, bias, activation) * after
    limit = bound(x, w, offs, bias, activation, out) * after + LEAST
    return want, limit + narrow(x, w, offs) * after


def narrow(x, w, offs):
    """What tensor cores lose of sums."""
    return 0 if on_cpu() else 1.2 * NARROW * reference(x.abs(), w.abs(), offs)
