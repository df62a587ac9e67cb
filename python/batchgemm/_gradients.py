"""Which way a grouped product takes: through eager, straight to the operator, or through torch's dispatcher.
And its gradients and tangents.

If a mode, a trace or the like watches a call, it goes through the dispatcher. There _autograd() is the kernel
of autograd, of forward mode and of the transformations of torch.func, and each calls it with tensors of its
level.
Other calls skip the dispatcher: they go to _Differentiable where gradients are wanted, or to the operator."""

import ctypes
import functools

import torch
import torch.nn.functional as F
from torch._C import (_are_functorch_transforms_active, _is_tracing, _len_torch_dispatch_stack,
                      _len_torch_function_stack)
from torch._C._autograd import _profiler_enabled
from torch._C._functorch import is_functorch_wrapped_tensor
from torch._functorch.utils import enable_single_level_autograd_function as single_level
from torch.autograd import forward_ad
from torch.utils import _device

from ._abi import _check, _run_all_at, _run_at
from ._memory import PANEL
from ._operators import NAMES, join, library, name_of, operator_of, run
from ._optional import eager
from ._programs import SCALED, TYPES

_ACTIVATIONS = {"relu": torch.relu, "gelu": functools.partial(F.gelu, approximate="tanh"), "silu": F.silu}
_OF_TORCH = {name: _ACTIVATIONS[name] for name in ("gelu", "silu")}  # with gradients: they need x @ w + bias
_DERIVATIVES = {  # times the gradient of the result, of that or, of torch's, of x @ w + bias
    "relu": functools.partial(torch.ops.aten.threshold_backward.default, threshold=0),
    "silu": torch.ops.aten.silu_backward.default,
    "gelu": functools.partial(torch.ops.aten.gelu_backward.default, approximate="tanh")}
_PLAIN = {torch.Tensor, torch.nn.Parameter}
_WATCHERS = (  # false: none is there
    _len_torch_dispatch_stack, _is_tracing, _are_functorch_transforms_active, _profiler_enabled)
X, W = 1, 2  # bits of turned: its last two dimensions are swapped

# Ways.


def product(x, w, offs, bias, activation, out_dtype, fill, turned=0):
    """grouped_mm() of these. turned says which are to be transposed first."""
    if not torch.compiler.is_dynamo_compiling():
        y = eager.product(x, w, offs, bias, activation, out_dtype, fill, turned)
        if y is not None:
            return y
    x, w = x.transpose(-2, -1) if turned & X else x, w.transpose(-2, -1) if turned & W else w
    return without_eager(x, w, offs, bias, activation, out_dtype, fill)


def without_eager(x, w, offs, bias, activation, out_dtype, fill, *more):
    """A grouped product that eager does not take. more: as in run(). The dispatcher takes 10 us, so calls
    that nobody watches skip it."""
    tensors = x, w, offs, bias, *more[:-1]
    if torch.compiler.is_dynamo_compiling() or watched(*tensors):
        way = operator_of(more)
    elif not wants_gradients(*tensors):
        way = run
    elif more:
        way = operator_of(more)
    else:
        return _apply(x, w, offs, bias, activation, out_dtype, fill, run)
    return way(x, w, offs, bias, activation, out_dtype, fill, *more)


def watched(x, *others):
    """Whether forward mode, a mode, a trace, a transformation or a profiler watches the call, or some of
    these are no plain tensors of a CPU or CUDA: also if the memory holds the negative of one, or one belongs
    to a transformation, which may have ended."""
    if not (x.is_cuda or x.is_cpu):
        return True
    for t in x, *others:  # not any(): a generator takes longer
        if t is not None and (type(t) not in _PLAIN or t.is_neg() or is_functorch_wrapped_tensor(t)):
            return True
    if _len_torch_function_stack() > (_device.CURRENT_DEVICE is not None):  # which is a mode too
        return True
    if forward_ad._current_level >= 0:
        return True
    for watcher in _WATCHERS:
        if watcher():
            return True
    return False


def wants_gradients(*tensors):
    return torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in tensors)


def tracks_tangents():
    """Whether tensors may have tangents of forward mode."""
    return forward_ad._current_level >= 0 and torch._C._is_fwd_grad_enabled()


# Gradients.


def _gradients(x, w, offs, bias, gz, needs):
    """What backward returns for gz, the gradient of x @ w + bias: for as many arguments as there can be."""
    needs_x, needs_w, _, needs_bias, *_ = needs
    gz = gz if gz.dtype is x.dtype else gz.to(x.dtype)
    gx = gw = None
    if needs_x:
        if x.dim() == w.dim() == 2:  # depth was cut; here rows, or columns, are
            gx = product(w, gz, offs, None, "", None, 0.0, W).t()
        else:
            gx = product(gz, w, offs, None, "", None, 0.0, W)
    if needs_w:
        gw = product(x, gz, offs, None, "", None, 0.0, X)
    return gx, gw, None, bias_gradient(offs, bias, gz) if needs_bias else None, *[None] * 8


def bias_gradient(offs, bias, gz):
    ones = gz.new_ones((*gz.shape[:-1], 2)).transpose(-2, -1)[..., :1, :]  # of the leading dimension 2
    sums = torch.float64 if gz.dtype == torch.float64 else torch.float32
    gb = product(ones, gz, offs, None, "", sums, 0.0).squeeze(1)
    return (gb if bias.dim() == 2 else gb.sum(0)).to(bias.dtype)


class _Differentiable(torch.autograd.Function):
    """grouped_mm with gradients, and with its activation in the same node; run is the product without
    gradients. GELU and SiLU are torch's. Nodes of their own would take the engine longer."""

    @staticmethod
    def forward(ctx, x, w, offs, bias, activation, out_dtype, fill, run):
        of_torch = None if x.dim() == w.dim() == 2 else _OF_TORCH.get(activation)  # run refuses the former
        y = kept = run(x, w, offs, bias, "" if of_torch else activation, out_dtype, fill)
        if of_torch:
            y = of_torch(kept)
        if activation:
            ctx.activation = activation
        else:
            kept = None
        ctx.save_for_backward(x, w, offs, bias, kept)
        return y

    @staticmethod
    def backward(ctx, gy):
        x, w, offs, bias, kept = ctx.saved_tensors
        gz = gy
        if kept is not None:
            if ctx.activation in _OF_TORCH and torch.is_grad_enabled():  # a graph is wanted: kept is of none
                z = product(x, w, offs, bias, "", kept.dtype, None)
                gz, = torch.autograd.grad(_OF_TORCH[ctx.activation](z), z, gy, create_graph=True)
            else:
                gz = _DERIVATIVES[ctx.activation](gy, kept)
        return _gradients(x, w, offs, bias, gz, ctx.needs_input_grad)


def _backward(ctx, gy):
    """What a node calls instead of torch's function, which looks for more than backward."""
    return eager.backward(ctx, gy) or _Differentiable.backward(ctx, gy)


class _Eager(_Differentiable):
    """The same in C, for run()."""

    forward = staticmethod(eager.forward)


_Differentiable._backward_cls.apply = _Eager._backward_cls.apply = _backward

# What the dispatcher calls.


class lowered:
    """Inside, operators are those of the level below: one of torch.func's, or none. It may differentiate them
    too."""

    def __enter__(self):
        self.within = (torch._C._AutoDispatchBelowAutograd(), torch.enable_grad(),
                       forward_ad._set_fwd_grad_enabled(True))
        for guard in self.within:
            guard.__enter__()

    def __exit__(self, *_):
        for guard in reversed(self.within):
            guard.__exit__(None, None, None)


class _Product(torch.autograd.Function):
    """An operator without an activation, with gradients and tangents. These are products too. With scales,
    what has no derivative went through _Refused before."""

    @staticmethod
    def forward(ctx, x, w, offs, bias, activation, out_dtype, fill, *more):
        *scales, ctx.n = more or (None,)
        ctx.out_dtype, ctx.fill = out_dtype, fill
        ctx.save_for_backward(x, w, offs, bias, *scales)
        ctx.save_for_forward(x, w, offs, bias, *scales)
        ctx.set_materialize_grads(False)
        with lowered():
            return operator_of(more)(x, w, offs, bias, activation, out_dtype, fill, *more)

    @staticmethod
    def backward(ctx, gz):
        x, w, offs, bias, *scales = ctx.saved_tensors
        needs_x, _, _, needs_bias, *_ = needs = ctx.needs_input_grad
        if gz is None:
            return (None,) * 12
        if not scales:
            return _gradients(x, w, offs, bias, gz, needs)
        gx, (scale_x, scale_w, *_) = None, scales
        if needs_x and scale_x is None:
            numbers = _numbers(w, scale_w, ctx.n, x.dtype)
            gx = product(gz.to(x.dtype), numbers, offs, None, "", None, 0.0, W)
        return gx, None, None, bias_gradient(offs, bias, gz) if needs_bias else None, *[None] * 8

    @staticmethod
    def jvp(ctx, tx, tw, _, tb, *others):
        x, w, offs, _, *scales = ctx.saved_tensors
        more = (*scales, ctx.n) if scales else ()
        operator, dtype, parts = operator_of(more), ctx.out_dtype, []
        if tx is not None:
            parts.append(operator(tx, w, offs, None, "", dtype, ctx.fill, *more))
        if tw is not None:
            parts.append(operator(x, tw, offs, None, "", dtype, ctx.fill))
        if tb is not None:  # of each row that of its group
            groups = len(x) if offs is None else len(offs)
            ones, each = tb.new_ones((*x.shape[:-1], 1)), tb.expand(groups, -1)[:, None, :]
            parts.append(product(ones, each, offs, None, "", None, ctx.fill))
        return functools.reduce(torch.add, parts)


class _Refused(torch.autograd.Function):
    """A tensor for which an operator has no derivative."""

    @staticmethod
    def forward(ctx, t, operator, name):
        ctx.operator, ctx.name = operator, name
        ctx.set_materialize_grads(False)
        with lowered():
            return t.view_as(t)

    @staticmethod
    def backward(ctx, _):
        raise NotImplementedError(f"{ctx.operator} has no gradient to {ctx.name}")

    @staticmethod
    def jvp(ctx, *_):
        raise NotImplementedError(f"{ctx.operator} has no tangent of {ctx.name}")


def _numbers(w, scale_w, n, dtype):
    """The numbers that weights of int4 stand for, [groups, K, N]: products of each group of k's with ones."""
    (groups, panels, ld, each), counts = w.shape, scale_w.shape[1]
    n = ld if n is None else n
    if counts == 0:
        return torch.empty(groups, 0, n, dtype=dtype, device=w.device)
    k, many = PANEL * panels // counts, groups * counts
    w, scale_w = w.reshape(many, panels // counts, ld, each), scale_w.reshape(many, 1, ld)
    ones = torch.eye(k, dtype=dtype, device=w.device).expand(many, k, k)
    call = ones, w, None, None, "", None, None, None, scale_w, None, None, n
    y = None if torch.compiler.is_dynamo_compiling() else eager.scaled(*call)
    return (without_eager(*call) if y is None else y).view(groups, PANEL * panels, n)


def _below_autograd(*args):
    with torch._C._AutoDispatchBelowAutograd():
        return operator_of(args[7:])(*args)


# Function's own take no tensors of torch.func's; single_level() allows these.
_apply, _apply_eager, _apply_product, _apply_refused = (
    super(torch.autograd.Function, of).apply for of in (_Differentiable, _Eager, _Product, _Refused))


def _autograd(x, w, offs, bias, activation, out_dtype, fill, *more):
    tangents = tracks_tangents()
    if not (tangents or wants_gradients(x, w, bias, *more[:2])):
        return _below_autograd(x, w, offs, bias, activation, out_dtype, fill, *more)
    if not (more or tangents or _are_functorch_transforms_active()):
        return _apply(x, w, offs, bias, activation, out_dtype, fill, _below_autograd)
    act = None if x.dim() == w.dim() == 2 else _ACTIVATIONS.get(activation)  # the operator refuses others
    with single_level():
        if more:
            x, w, more = _refuse(x, w, *more)
        z = _apply_product(x, w, offs, bias, "" if act else activation, out_dtype, fill, *more)
    return act(z) if act else z


def _refuse(x, w, scale_x, scale_w, *others):
    """x, w and what follows the other arguments. Those for which the operator has no derivative go through
    _Refused. An operator with scales has one for x beside a w of int4, and for no other."""
    operator = name_of((scale_x,))
    turned = operator == "scaled_grouped_mm" and x.dim() == 2 < w.dim()  # they may be swapped
    names = [f"{name} (where offs cuts columns: {other})" if turned else name
             for name, other in (("x", "w"), ("w", "x"), ("scale_x", "scale_w"), ("scale_w", "scale_x"))]
    x, w, scale_x, scale_w = (
        t if t is None or not t.is_floating_point() or t is x and scale_x is None
        else _apply_refused(t, operator, name)
        for t, name in zip((x, w, scale_x, scale_w), names))
    return x, w, (scale_x, scale_w, *others)


for _name in NAMES:
    library.impl(_name, _autograd, "Autograd")

# What eager uses.


def _aoti():
    """What eager allocates tensors by: torch's functions for modules of Inductor, by address, and torch's
    numbers of types and devices. None where this torch has others."""
    library = ctypes.PyDLL(torch._C.__file__)  # and what it needs
    functions = ("aoti_torch_empty_strided", "aoti_torch_delete_tensor_object",
                 "_Z16THPVariable_WrapRKN2at10TensorBaseE")
    numbers = ("dtype_float32", "dtype_bfloat16", "dtype_float16", "dtype_int32", "device_type_cpu",
               "device_type_cuda")
    try:
        return (*(ctypes.cast(library[name], ctypes.c_void_p).value for name in functions),
                *(library["aoti_torch_" + name]() for name in numbers))
    except AttributeError:
        return None


eager.setup(
    run_at=ctypes.cast(_run_at, ctypes.c_void_p).value,
    run_all_at=ctypes.cast(_run_all_at, ctypes.c_void_p).value, check=_check, apply=_apply_eager,
    run=run, join=join, of_torch=_OF_TORCH, derivatives=_DERIVATIVES, gradients=_gradients,
    bias_gradient=bias_gradient,
    empty=torch.empty, Tensor=torch.Tensor, Parameter=torch.nn.Parameter,
    types=(*TYPES, torch.int32, *SCALED, torch.uint8), watchers=_WATCHERS,
    function_modes=_len_torch_function_stack, default_device=_device, forward_mode=forward_ad,
    wrapped=is_functorch_wrapped_tensor, grad_enabled=torch.is_grad_enabled,
    exchange=getattr(torch.Tensor, "__dlpack_c_exchange_api__", None), aoti=_aoti(),
    current_stream=getattr(torch._C, "_cuda_getCurrentRawStream", None),
    capturing=getattr(torch._C, "_cuda_isCurrentStreamCapturing", None))
