"""Experts of transformers' models by batchgemm: import this, then choose the implementation by its name.

    import batchgemm.transformers

    model = AutoModelForCausalLM.from_pretrained(name, experts_implementation="batchgemm")
    model.set_experts_implementation("batchgemm")   # or later

transformers from 5.0 on. Layers that it does not take run as with "grouped_mm", after one warning that says
why. docs/pytorch.md has what it takes.
"""

import warnings

import torch
from transformers.integrations import moe

from ._programs import MOST_GROUPS, TYPES
from ._routing import MOST_CHOICES
from .torch import experts

NAME = "batchgemm"
# Activations by the names of their classes, in torch and in transformers.
_ACTIVATIONS = {
    "SiLU": "silu", "SiLUActivation": "silu", "ReLU": "relu", "ReLUSquaredActivation": "relu2",
    "GELUTanh": "gelu", "PytorchGELUTanh": "gelu", "NewGELUActivation": "gelu",
    "GELUActivation": "gelu_exact"}
_warned = set()


def experts_forward(self, hidden_states, top_k_index, top_k_weights):
    """What a module of experts does: experts() with its weights, and its activation."""
    why = refused(self, top_k_index)
    if why:
        _warn(f"{type(self).__name__}: {why}")
        return moe.grouped_mm_experts_forward(self, hidden_states, top_k_index, top_k_weights)
    first = first_of(self)
    w, x = getattr(self, first), hidden_states.reshape(-1, hidden_states.shape[-1])
    if top_k_weights.shape != top_k_index.shape:  # for each expert, as some routers have them
        top_k_weights = top_k_weights.gather(1, top_k_index)
    bias, down_bias = (getattr(self, name + "_bias", None) if getattr(self, "has_bias", True) else None
                       for name in (first, "down_proj"))
    y = experts(x.to(w.dtype), w, self.down_proj, top_k_index, top_k_weights, gate_up_bias=bias,
                down_bias=down_bias, transposed=getattr(self, "is_transposed", False), **gate_of(self))
    return y.to(hidden_states.dtype).view_as(hidden_states)


def first_of(module):
    """The name of the weights of the first product."""
    return "gate_up_proj" if getattr(module, "has_gate", True) else "up_proj"


def gate_of(module):
    """The activation and the layout of a module, as experts() takes them. Where it does not know them, the
    module's own function."""
    activation = _ACTIVATIONS.get(type(module.act_fn).__name__) if hasattr(module, "act_fn") else None
    if not getattr(module, "has_gate", True):
        return {"activation": activation or module.act_fn, "layout": "ungated"}
    own = getattr(type(module), "_apply_gate", None)
    if getattr(own, "__qualname__", "") == "GptOssExperts._apply_gate":
        return {"activation": "swiglu_oai", "layout": "interleaved", "alpha": module.alpha,
                "limit": module.limit}
    if own is None or getattr(own, "__name__", "") == "_default_apply_gate":
        if activation:
            return {"activation": activation, "layout": "halves"}
    return {"activation": module._apply_gate, "layout": "halves"}


def refused(module, index):
    """Why experts() does not take a module, or None."""
    for name in first_of(module), "down_proj":
        w = getattr(module, name, None)
        if not isinstance(w, torch.Tensor):
            return f"it has no tensor {name}"
        if type(w) not in (torch.Tensor, torch.nn.Parameter):
            return f"{name} is a {type(w).__name__}"
        if w.dtype not in TYPES:
            return f"{name} is {w.dtype}"
        if w.dim() != 3 or w.shape[0] > MOST_GROUPS:
            return f"{name} has the shape {tuple(w.shape)}"
        if w.device.type not in ("cpu", "cuda"):
            return f"{name} is on {w.device}"
    if index.shape[-1] > MOST_CHOICES:
        return f"{index.shape[-1]} experts for each token"
    return None


def _warn(text):
    if not torch.compiler.is_dynamo_compiling() and text not in _warned:
        _warned.add(text)
        warnings.warn(f"{NAME}: {text}: these experts run as with \"grouped_mm\"", stacklevel=3)


moe.ALL_EXPERTS_FUNCTIONS.register(NAME, experts_forward)
