"""Device, with products of NumPy arrays too; _core.Device, below it, knows of no array. NumPy is imported by
the first such product, as all else works without."""

from __future__ import annotations

import threading

from . import _core
from ._abi import _create, _text, integer


class Device(_core.Device):
    """A GPU, or the CPU. Any thread may use it at any time."""

    def __init__(self, handle, device=None):
        super().__init__(handle, device)
        self._lock = threading.Lock()
        self._layers: dict = {}  # what _arrays.grouped_mm keeps

    def matmul(self, a, b, out=None, *, bias=None, activation: str | None = None, alpha: float = 1,
               compute: str | None = None,
               timeout: float | None = None):
        """matmul() of the package, on this device."""
        from . import _arrays

        return _arrays.matmul(self, a, b, out, bias, activation, alpha, compute, timeout)

    def grouped_mm(self, x, w, ends, bias=None, activation: str | None = None, *, compute: str | None = None,
                   timeout: float | None = None):
        """grouped_mm() of the package, on this device."""
        from . import _arrays

        return _arrays.grouped_mm(self, x, w, ends, bias, activation, compute, timeout)


def open(backend: str | None = None, index: int = -1) -> Device:
    """The device of a backend ("cuda", "hip", "webgpu", "cpu"); the best one by default, or that of the
    environment variable BATCHGEMM_BACKEND. index: which of several GPUs."""
    name = _text("backend", backend) if backend else None
    return Device(_create("bg_open", name, integer("index", index, -2**31, 2**31 - 1)))


_default: Device | None = None
_default_lock = threading.Lock()


def default_device() -> Device:
    """The device of matmul() and grouped_mm(): open(), once for the process. It is not to be closed."""
    global _default
    with _default_lock:
        if _default is None:
            _default = open()
        return _default
