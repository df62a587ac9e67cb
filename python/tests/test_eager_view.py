"""Those tests of test_eager.py that read tensors once more, with a torch that has DLPack's functions for C."""

import ctypes
import unittest

import test_eager
from test_eager import Tensor


class View(ctypes.Structure):
    """DLPack's DLTensor."""

    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device", ctypes.c_int32), ("dims", ctypes.c_int32),
                ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16), ("shape", ctypes.c_void_p),
                ("stride", ctypes.c_void_p), ("offset", ctypes.c_uint64)]


class Exchange(ctypes.Structure):
    """DLPack's DLPackExchangeAPI."""

    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("previous", ctypes.c_void_p), ("others", ctypes.c_void_p * 3),
                ("view", ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(View))), ("stream", ctypes.c_void_p)]


class ByView:
    """The functions are those of Python here, which read the stand-ins."""

    CODES = {"f32": (2, 32), "bf16": (4, 16), "f16": (2, 16), "i32": (0, 32), "f64": (2, 64), "i64": (0, 64)}

    def setUp(self):
        super().setUp()
        self.views = 0
        self.table = Exchange(major=1, minor=3, view=type(Exchange().view)(self.view))
        self.given["exchange"] = self.capsule(self.table)
        self.eager.setup(**self.given)

    @staticmethod
    def capsule(table):
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
        return new(ctypes.addressof(table), b"dlpack_exchange_api", None)

    def view(self, t, to):
        self.views += 1
        if not isinstance(t.at, int):
            return -1
        numbers = lambda values: (ctypes.c_int64 * len(values))(*values)
        t.numbers = shape, stride = numbers(t.shape), numbers(t.strides)  # which live as long as the tensor
        code, bits = self.CODES[t.dtype.split()[-1]]
        device = (1, 0) if t.index == -1 else (2, t.index) if t.index >= 0 else (17, 0)
        to[0] = View(t.at - 64, *device, len(t.shape), code, bits, getattr(t, "lanes", 1), ctypes.addressof(shape), ctypes.addressof(stride), 64)
        return 0


class Table(ByView, test_eager.Table):
    def tearDown(self):
        self.assertGreater(self.views, 0)

    def test_refuses(self):
        """What is not of the types, on no CPU or GPU, of more dimensions, or has no memory, is left to torch.py."""
        wide = Tensor(6, 4)
        wide.lanes = 2
        for name, x in {
            "type": Tensor(6, 4, dtype="f64"), "integers": Tensor(6, 4, dtype="i64"), "dimensions": Tensor(1, 2, 3, 4), "many": Tensor(*[1] * 99), "lanes": wide,
            "device": Tensor(6, 4, device=-2), "no memory": Tensor(6, 4, at=RuntimeError()),
        }.items():
            self.keep(self.replaced(x=x))
            self.assertIsNone(self.eager.run(*self.replaced(x=x)), name)

    def test_versions(self):
        """The functions are those of version 1, wherever it is; without them attributes say it."""
        newer = Exchange(major=2, previous=ctypes.addressof(self.table))
        for table, views in (Exchange(major=2), 0), (Exchange(major=1), 0), (None, 0), (newer, 3):
            self.eager.setup(**{**self.given, "exchange": table and self.capsule(table)})
            self.views = 0
            self.eager.run(*self.replaced(bias=None))
            self.assertEqual(self.views, views)


class Runs(ByView, test_eager.Runs):
    pass


class Gradients(ByView, test_eager.Gradients):
    def test_left_to_python(self):
        self.assertEqual(self.gradients(gy=Tensor(6, 3, at=None)), (None, None), "no memory")


if __name__ == "__main__":
    unittest.main()
