"""Device, with products of NumPy arrays too; _core.Device, below it, knows of no array. NumPy is imported by
the first such product, as all else works without."""

from __future__ import annotations

import threading

from . import _core
from ._abi import _create, _text, integer


class Device(_core.Device):
    """A GPU, or the CPU. open() makes it. Any thread may use it at any time.

    Example:
        >>> import batchgemm
        >>> from array import array
        >>> c = array("f", [0])
        >>> with batchgemm.open("cpu") as device:
        ...     device.gemm([batchgemm.problem(1, 1, 2)], array("f", [1, 2]), array("f", [3, 4]), c)
        >>> c[0]
        11.0
    """

    def __init__(self, handle, device=None):
        super().__init__(handle, device)
        self._lock = threading.Lock()
        self._layers: dict = {}  # what _arrays.grouped_mm keeps

    def matmul(self, a, b, out=None, *, bias=None, activation: str | None = None, alpha: float = 1,
               compute: str | None = None,
               timeout: float | None = None):
        """batchgemm.matmul() on this device."""
        from . import _arrays

        return _arrays.matmul(self, a, b, out, bias, activation, alpha, compute, timeout)

    def grouped_mm(self, x, w, ends, bias=None, activation: str | None = None, *, compute: str | None = None,
                   timeout: float | None = None):
        """batchgemm.grouped_mm() on this device. Calls on one device wait for each other."""
        from . import _arrays

        return _arrays.grouped_mm(self, x, w, ends, bias, activation, compute, timeout)


def open(backend: str | None = None, index: int = -1) -> Device:
    """Opens a device.

    Args:
        backend: "cuda", "hip", "webgpu" or "cpu". None: what the environment variable BATCHGEMM_BACKEND
            names, or the first that has a GPU, or the CPU. "f64": the same, of those that multiply elements
            of this type, or of another one that is named so.
        index: which of several GPUs, in the order of the driver; -1: the best.

    Returns:
        A Device. Close it, or use it in a with statement.

    Raises:
        InvalidError: there is no such backend, or no device of that index; the text lists those that there
            are.
        UnavailableError: the backend cannot run here.
        TypeError: backend is no text, or index is no integer.

    Example:
        >>> import batchgemm
        >>> with batchgemm.open("cpu") as device:
        ...     device.backend
        'cpu'
    """
    name = _text("backend", backend) if backend else None
    return Device(_create("bg_open", name, integer("index", index, -2**31, 2**31 - 1)))


_default: Device | None = None
_double: Device | None = None  # the same for float64, if it is another one
_default_lock = threading.Lock()


def default_device() -> Device:
    """The device of matmul() and grouped_mm(): that of open(), opened once for the process.

    Returns:
        A Device, which stays open: do not close it.

    Raises:
        UnavailableError, InvalidError: as of open().

    Example:
        >>> import batchgemm
        >>> batchgemm.default_device() is batchgemm.default_device()
        True
    """
    global _default
    with _default_lock:
        if _default is None:
            _default = open()
        return _default


def default_for(arrays):
    """default_device(), or for arrays of float64 that of open("f64"), if the former lacks them."""
    global _double
    device = default_device()
    first = next(iter(arrays), None)
    double = str(getattr(first, "dtype", None)) == "float64"
    if not double or device.backend == "cpu" or "f64" in device.info()["planner"]["types"]:
        return device
    with _default_lock:
        if _double is None:
            _double = open("f64")
        return _double
