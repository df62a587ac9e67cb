"""Tests of the module _eager with what a torch has for C: those of test_eager.py that read tensors once more,
by DLPack's functions, and allocation by Inductor's."""

import ctypes
import sys
import unittest

import test_eager
import test_eager_gradients
from stand_ins import Case, Tensor


class View(ctypes.Structure):
    """DLPack's DLTensor."""

    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device", ctypes.c_int32),
                ("dims", ctypes.c_int32),
                ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", ctypes.c_void_p),
                ("stride", ctypes.c_void_p), ("offset", ctypes.c_uint64)]


class Exchange(ctypes.Structure):
    """DLPack's DLPackExchangeAPI."""

    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("previous", ctypes.c_void_p),
                ("others", ctypes.c_void_p * 3),
                ("view", ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(View))),
                ("stream", ctypes.c_void_p)]


class ByView:
    """The functions are those of Python here, which read the stand-ins."""

    CODES = {"f32": (2, 32), "bf16": (4, 16), "f16": (2, 16), "i32": (0, 32), "e4m3": (10, 8), "i8": (0, 8),
             "u8": (1, 8), "f64": (2, 64), "i64": (0, 64)}

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
        if not isinstance(t.at, int) or hasattr(t, "refused"):
            return -1
        numbers = lambda values: (ctypes.c_int64 * len(values))(*values)
        t.numbers = shape, stride = numbers(t.shape), numbers(t.strides)  # which live as long as the tensor
        code, bits = self.CODES[t.dtype.split()[-1]]
        device = (1, 0) if t.index == -1 else (2, t.index) if t.index >= 0 else (17, 0)
        to[0] = View(t.at - 64, *device, len(t.shape), code, bits, getattr(t, "lanes", 1),
                     ctypes.addressof(shape), ctypes.addressof(stride), 64)
        return 0


class Table(ByView, test_eager.Table):
    def tearDown(self):
        self.assertGreater(self.views, 0)

    def test_refuses(self):
        """What is not of the types, on no CPU or GPU, of more dimensions, or has no memory, is left to
        torch.py."""
        wide = Tensor(6, 4)
        wide.lanes = 2
        for name, x in {
            "type": Tensor(6, 4, dtype="f64"), "integers": Tensor(6, 4, dtype="i64"),
                "dimensions": Tensor(1, 2, 3, 4, 5), "many": Tensor(*[1] * 99), "lanes": wide,
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

    def test_no_view(self):
        """Where there is none, as older torch has none of e4m3, attributes say what it is; Ctrl-C is not
        lost."""
        viewed, refused = (Tensor(6, 4, dtype="e4m3", at=0x1008) for _ in range(2))
        refused.refused = True
        for first, second in (viewed, refused), (refused, viewed):
            self.eager.clear()
            self.keep(self.replaced(x=first))
            self.assertIsNotNone(self.eager.run(*self.replaced(x=second)))

        class Raises(Tensor):
            def __bool__(self):
                raise self.error

        # which may raise
        table = Exchange(major=1, view=ctypes.cast(ctypes.pythonapi.PyObject_Not, type(self.table.view)))
        x, y = (Raises(6, 4, dtype="e4m3", at=0x1008) for _ in range(2))
        self.eager.setup(**{**self.given, "exchange": self.capsule(table), "empty": lambda *_, **__: y})
        x.error = y.error = ValueError
        args = x, x, None, None, "", None, None
        self.keep(args)
        self.assertRaises(ValueError, self.eager.run, *args)  # of the result, which must have a view
        x.error = KeyboardInterrupt
        self.assertRaises(KeyboardInterrupt, self.eager.run, *args)


class Runs(ByView, test_eager.Runs):
    pass


class Gradients(ByView, test_eager_gradients.Gradients):
    def test_left_to_python(self):
        self.assertEqual(self.backward(gy=Tensor(6, 3, at=None))[0], "left", "no memory")


class Kinds(ByView, Case):
    def test_kind(self):
        """Whatever a program depends on is in the bytes, and addresses are of whole lines."""
        x, index = Tensor(6, 4, at=0x1008, dtype="bf16"), Tensor(6, 2, dtype="i64", at=0x2000)
        same, addresses = self.eager.kind((x, None, index))
        self.assertEqual((addresses, len(same) % 3), ((0x1000, 0, 0x2000), 0))
        again = Tensor(6, 4, at=0x3018, dtype="bf16"), None, index
        self.assertEqual(self.eager.kind(again), (same, (0x3010, 0, 0x2000)))
        others = {self.eager.kind(of)[0] for of in (
            (x, index, None), (x, None, None), (x, None, index, None),
            *((y, None, index) for y in (
                Tensor(7, 4, at=0x1008, dtype="bf16"), Tensor(6, 4, stride=(5, 1), at=0x1008, dtype="bf16"),
                Tensor(6, 4, 1, at=0x1008, dtype="bf16"), Tensor(6, 4, at=0x1004, dtype="bf16"),
                Tensor(6, 4, at=0x1008, dtype="f16"), Tensor(6, 4, at=0x1008, dtype="i8"),
                Tensor(6, 4, at=0x1008, dtype="bf16", device=0),
                Tensor(6, 4, at=0x1008, dtype="bf16", device=1))))} | {same}
        self.assertEqual(len(others), 12)

    def test_no_kind(self):
        x, of_gradient = Tensor(6, 4), Tensor(6, 4, requires_grad=True)
        kind = lambda t: self.eager.kind((self.x, t))
        self.assertIsNotNone(kind(of_gradient), "gradients are off")
        for t in (1, "x", Tensor(1, 2, 3, 4, 5), Tensor(6, 4, neg=True), Tensor(6, 4, at=RuntimeError())):
            self.assertIsNone(kind(t))
        self.assertIsNone(self.eager.kind((None, x)))
        self.assertIsNone(self.eager.kind(()))
        self.assertIsNone(self.eager.kind([x]))
        self.assertIsNone(self.eager.kind((x,) * 9))
        self.assertIsNotNone(self.eager.kind((x,) * 8))
        self.assertIsNotNone(kind(Tensor(6, 4, neg=True, dtype="bf16")), "no part of complex numbers")
        self.grad = True
        self.assertIsNotNone(kind(x))
        self.assertIsNone(kind(of_gradient))
        for at in range(4):
            self.watchers[at] = 1
            self.assertIsNone(kind(x))
            self.watchers[at] = 0
        self.levels._current_level = 0
        self.assertIsNone(kind(x))
        self.levels._current_level = -1
        self.eager.setup(**{**self.given, "exchange": None})
        self.assertIsNone(kind(x), "there is no DLPack for C")
        self.assertRaises(TypeError, self.eager.kind, x, x)


class Allocation(Case):
    """The functions are those of Python here."""

    def setUp(self):
        super().setUp()
        self.asked, self.failed, self.deleted = [], 0, []

        def empty_strided(dims, shape, stride, *where):
            *where, to = where
            self.asked.append((shape[:dims], stride[:dims], *where))
            to[0] = 0x77
            return self.failed

        def delete(tensor):
            self.deleted.append(tensor)
            return 0

        number, numbers = ctypes.c_int32, ctypes.POINTER(ctypes.c_int64)
        self.functions = (
            ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int64, numbers, numbers, number, number, number,
                             ctypes.POINTER(ctypes.c_void_p))(empty_strided),
            ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(delete),
            ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p)(lambda tensor: Tensor(tensor, at=0x9000)))
        addresses = [ctypes.cast(function, ctypes.c_void_p).value for function in self.functions]
        self.eager.setup(**{**self.given, "aoti": (*addresses, 60, 61, 62, 63, 70, 71)})

    def allocated(self, *shape, dtype="f32", device=-1):
        args = [Tensor(*t.shape, dtype=t.dtype, at=t.at, device=device)
                for t in self.args[:4]] + self.args[4:]
        self.eager.keep(5, (shape,), {"dtype": dtype}, None, None, (-1, -1), *args)
        return self.eager.run(*args)

    def test_allocates(self):
        for got, want in (
            (self.allocated(6, 3), ([6, 3], [3, 1], 60, 70, 0)),
                (self.allocated(2, 6, 3, dtype="bf16"), ([2, 6, 3], [18, 3, 1], 61, 70, 0)),
            (self.allocated(4, 5, dtype="f16", device=3), ([4, 5], [5, 1], 62, 71, 3)),
                (self.allocated(4, 0, device=0), ([4, 0], [1, 1], 60, 71, 0)),
        ):
            self.assertEqual((got.shape, self.asked.pop(0)), ((0x77,), want))
        self.assertEqual(self.deleted, [0x77] * 4)
        self.assertEqual([addresses[2] for _, _, addresses in self.runs], [0x9000] * 4)

    def test_fails(self):
        """Then torch is asked once more, which says why."""
        self.failed = 1
        self.assertEqual(self.allocated(6, 3).shape, (6, 3))
        self.assertEqual((len(self.asked), self.deleted), (1, []))

    def test_strange(self):
        """Of such results nothing is kept."""
        for shape, dtype in ((1, 2, 3, 4, 5), "f32"), ((6, 3), "f64"), ((6, 3), "e4m3"):
            self.assertIsNone(self.allocated(*shape, dtype=dtype))

    def test_lets_go(self):
        y = self.allocated(6, 3)
        self.assertEqual(sys.getrefcount(y), sys.getrefcount(Tensor(1)) + 1)


if __name__ == "__main__":
    unittest.main()
