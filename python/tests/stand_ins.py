"""What tests of the module _eager share: stand-ins for tensors, for torch and for the library."""

import ctypes
import os
import shutil
import tempfile
import types
import unittest

from batchgemm import _abi
from batchgemm._optional import Nothing, eager

if eager is Nothing:
    raise unittest.SkipTest("the module _eager is not there")
HANDLE, INVALID = 2, 1  # of bg_status
ZEROS = (ctypes.c_int32 * 4096)()  # ends that are read
OFFS = ctypes.addressof(ZEROS) + 15 & -16


def another():
    """The module once more, with a table of its own: that of torch.py stays as it is."""
    from importlib import machinery, util

    with tempfile.TemporaryDirectory() as folder:
        path = shutil.copy(eager.__file__, os.path.join(folder, "_eager.so"))
        spec = util.spec_from_file_location("_eager", path,
                                            loader=machinery.ExtensionFileLoader("_eager", path))
        module = util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return module


class Tensor:
    """What the module reads of a tensor."""

    def __init__(self, *shape, stride=None, dtype="f32", at=0x1000, device=-1, neg=False, requires_grad=False,
                 lies=True):
        dense = [1]
        for n in reversed(shape[1:]):
            dense.insert(0, dense[0] * n)
        self.shape, self.ndim, self.dtype, self.requires_grad = shape, len(shape), dtype, requires_grad
        self.strides, self.at, self.neg, self.index = stride or tuple(dense), at, neg, device
        self.is_cuda, self.is_cpu = device >= 0, device == -1

    def stride(self):
        return self.strides

    def data_ptr(self):
        if isinstance(self.at, BaseException):
            raise self.at
        return self.at

    def get_device(self):
        return self.index

    def is_neg(self):
        return self.neg

    def turned(self):
        """A view with the last two dimensions swapped."""
        swap = lambda t: (*t[:-2], t[-1], t[-2])
        return Tensor(*swap(self.shape), stride=swap(self.strides), dtype=self.dtype, at=self.at,
                      device=self.index)

    def fill_(self, value):
        self.filled = value


class Parameter(Tensor):
    pass


class Error(Exception):
    pass


class Case(unittest.TestCase):
    """A world with a library, and a torch, that note what they are asked."""

    def setUp(self):
        self.eager, self.types = another(), ("f32", "bf16", "f16", "i32", "e4m3", "i8", "u8")
        self.runs, self.all_runs, self.status, self.asked, self.meanwhile = [], [], 0, 0, None
        self.stream, self.capturing, self.grad, self.modes = 7, False, False, 0
        self.watchers, self.device = [0, None, False, False], types.SimpleNamespace(CURRENT_DEVICE=None)
        self.waits, self.joins, self.extents = [], [], []
        self.levels, self.left = types.SimpleNamespace(_current_level=-1), []

        def run_at(program, stream, addresses):
            size, zero, *rest, extent = _abi.ADDRESSES.unpack(
                ctypes.string_at(addresses, _abi.ADDRESSES.size))
            self.runs.append((program, stream, rest))
            self.extents.append(extent)
            return self.status

        def run_all_at(stream, programs, addresses, count):
            runs = _abi.ADDRESSES.iter_unpack(ctypes.string_at(addresses, count * _abi.ADDRESSES.size))
            self.all_runs.append((stream, programs[:count], [rest for _, _, *rest in runs]))
            return self.status

        def empty(*args, **kwargs):
            if self.meanwhile:
                self.meanwhile()
            return Tensor(*args[0], dtype=kwargs["dtype"], at=0x9000)

        def join(*of):
            self.joins.append(of)
            if self.meanwhile:
                self.meanwhile()
            return Tensor(99, at=0x8000)

        def check(status):
            raise Error(status)

        self.run_at = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_uint64, ctypes.c_size_t,
                                       ctypes.c_void_p)(run_at)
        self.run_all_at = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_size_t, ctypes.POINTER(ctypes.c_uint64),
                                           ctypes.c_void_p, ctypes.c_size_t)(run_all_at)
        self.given = dict(
            run_at=ctypes.cast(self.run_at, ctypes.c_void_p).value,
            run_all_at=ctypes.cast(self.run_all_at, ctypes.c_void_p).value, check=check,
            apply=lambda *args: ("gradients", *args), run=lambda *args: ("slow", *args), join=join,
            of_torch={"silu": lambda z: ("silu", z)},
            derivatives={"silu": lambda gy, kept: kept.derived(gy)}, gradients=lambda *args: ("left", *args),
            bias_gradient=lambda *args: ("bias", *args), exchange=None, aoti=None,
            empty=empty, Tensor=Tensor, Parameter=Parameter, types=self.types,
            watchers=(*(lambda i=i: self.watchers[i] for i in range(4)), list),
            function_modes=lambda: self.modes, default_device=self.device, forward_mode=self.levels,
            wrapped=lambda t: t in self.left,
            grad_enabled=lambda: self.grad,
            current_stream=lambda index: self.stream + index, capturing=lambda: self.capturing)
        self.eager.setup(**self.given)
        self.x, self.w = Tensor(6, 4, at=0x1008), Tensor(2, 4, 3, at=0x2004)
        self.offs = Tensor(2, dtype="i32", at=OFFS)
        self.bias = Tensor(2, 3, at=0x4004)
        self.args = [self.x, self.w, self.offs, self.bias, "silu", None, None]

    def keep(self, args, program=5, shape=(6, 3), value=None, wait=None, expand=(-1, -1)):
        self.eager.keep(program, (shape,), {"dtype": "f32"}, value, wait, expand, *args)

    def replaced(self, **by):
        names = ["x", "w", "offs", "bias", "activation", "out", "fill", "scale_x", "scale_w", "zero_x",
                 "sums_w", "n"]
        return [by.get(name, arg) for name, arg in zip(names, self.args)]
