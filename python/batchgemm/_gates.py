"""What is between the two products of a layer of experts: names of activations and layouts."""

from ._programs import ACTIVATIONS

IN_EPILOGUES = tuple(name for name in ACTIVATIONS if name)  # products have them too
CLAMPED = "swiglu_oai"
GATES = (*IN_EPILOGUES, "gelu_exact", "relu2", CLAMPED)
LAYOUTS = ("halves", "interleaved", "ungated")


def of(options):
    """The options of a layer that a program of its gate depends on: layout, activation, alpha and limit."""
    activation, layout, _, alpha, limit = options
    return (layout, activation, alpha, limit) if activation == CLAMPED else (layout, activation, 0.0, 0.0)
