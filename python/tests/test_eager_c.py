"""Tests of the module _eager with what a torch has for C: those of test_eager.py that read tensors once more,
by DLPack's functions, and allocation by Inductor's."""

import ctypes
import struct
import sys
import unittest

import test_eager
import test_eager_gradients
from stand_ins import HANDLE, INVALID, Case, Error, Tensor

LAYER = struct.Struct("=4Q6q")  # of _fused.py, which needs torch


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


class Allocating(Case):
    """The functions are those of Python here."""

    def setUp(self):
        super().setUp()
        self.asked, self.failed, self.deleted = [], 0, []

        def empty_strided(dims, shape, stride, *where):
            *where, to = where
            self.asked.append((shape[:dims], stride[:dims], *where))
            if self.meanwhile:
                self.meanwhile()
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
        self.addresses = [ctypes.cast(function, ctypes.c_void_p).value for function in self.functions]
        self.eager.setup(**{**self.given, "aoti": (*self.addresses, 60, 61, 62, 63, 70, 71)})


class Allocation(Allocating):
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


class Layers(ByView, Allocating):
    """Calls of a layer of experts."""

    OPTIONS = "silu", "halves", False, 1.0, 2.0

    def setUp(self):
        super().setUp()
        self.given["aoti"] = (*self.addresses, 60, 61, 62, 63, 70, 71)
        self.eager.setup(**self.given)
        self.tensors = self.of()

    def of(self, **other):
        t = dict(x=Tensor(6, 4, at=0x1008, dtype="bf16"), gate=Tensor(3, 10, 4, at=0x2000, dtype="bf16"),
                 up=None, down=Tensor(3, 4, 5, at=0x3004, dtype="bf16"),
                 index=Tensor(6, 2, at=0x4000, dtype="i64"), weights=Tensor(6, 2, at=0x5000), bias=None,
                 down_bias=None)
        return tuple({**t, **other}.values())

    def keep(self, tensors, options=OPTIONS, stream=0, joined=1, wait=None):
        todo = LAYER.pack(21, 22, 23, 24, 6, 12, joined, 1001, 256, 512)
        self.eager.keep_layer(tensors, options, stream, todo, wait)

    def test_runs(self):
        self.keep(self.tensors)
        y = self.eager.layer(self.tensors, self.OPTIONS)
        self.assertEqual(y.at, 0x9000)
        self.assertEqual(self.asked, [([251], [1], 60, 70, 0), ([6, 4], [4, 1], 61, 70, 0)])
        self.assertEqual(self.deleted, [0x77] * 2)
        self.assertEqual(sys.getrefcount(y), sys.getrefcount(Tensor(1)) + 1)
        words, h, rows = 0x9000, 0x9100, 0x9200
        at = lambda a, b, c, sizes, b2, bias, of_rows, extent: [a, b, c, sizes, b2, bias, of_rows, extent]
        self.assertEqual(self.all_runs, [(0, [21, 22, 23, 24], [
            at(0x5000, 0, words, 0x4000, 0, 0, 0, 6), at(0x1000, 0x2000, h, words, 0x2000, 0, words, 12),
            at(h, 0x3000, rows, words, 0, 0, words, 12), at(rows, 0, 0x9000, 0x4000, 0, 0, 0, 6)])])
        bias, down_bias = Tensor(3, 10, at=0x7008, dtype="bf16"), Tensor(3, 4, at=0x8000, dtype="bf16")
        apart = self.of(up=Tensor(3, 10, 4, at=0x6000, dtype="bf16"), bias=bias, down_bias=down_bias)
        self.keep(apart, joined=0)
        self.eager.layer(apart, self.OPTIONS)
        _, first, second, _ = self.all_runs[1][2]
        self.assertEqual((first[4], first[5], second[5]), (0x6000, 0x7000, 0x8000))

    def test_knows(self):
        """Whatever a program depends on is looked at, and the stream."""
        self.keep(self.tensors)
        known = lambda tensors, options=self.OPTIONS: self.eager.layer(tensors, options) is not None
        x = lambda *shape, dtype="bf16", at=0x1008, **more: self.of(
            x=Tensor(*shape, dtype=dtype, at=at, **more))
        self.assertTrue(known(self.tensors))
        self.assertTrue(known(x(6, 4, at=0x1ff8)))
        for other in (x(7, 4), x(6, 4, stride=(5, 1)), x(6, 4, 1), x(6, 4, at=0x1004), x(6, 4, dtype="f16"),
                      x(6, 4, device=0), x(6, 4, device=-2), self.of(up=Tensor(1)), self.of(gate=None)):
            self.assertFalse(known(other))
        self.assertFalse(known(self.tensors, (*self.OPTIONS[:-1], 3.0)))
        self.eager.clear()
        self.assertFalse(known(self.tensors))
        there = tuple(t and Tensor(*t.shape, dtype=t.dtype, at=t.at, device=1) for t in self.tensors)
        self.keep(there, stream=8)
        self.assertTrue(known(there))
        self.assertEqual(self.all_runs[-1][0], 8)
        self.stream = 9
        self.assertFalse(known(there))
        self.stream, self.capturing = 7, True
        self.assertFalse(known(there), "Python keeps the books of graphs")

    def test_plain(self):
        """Only plain calls without gradients are kept, and known."""
        self.keep(self.tensors)
        called = lambda: self.eager.layer(self.tensors, self.OPTIONS) is not None
        wants = self.of(weights=Tensor(6, 2, at=0x5000, requires_grad=True))
        self.grad = True
        self.assertTrue(called())
        self.keep(wants)
        self.assertIsNone(self.eager.layer(wants, self.OPTIONS))
        self.grad = False
        self.assertIsNotNone(self.eager.layer(wants, self.OPTIONS), "gradients are off")
        for t in 1, "x", Tensor(6, 4, neg=True), Tensor(6, 4, at=RuntimeError()), None:
            self.assertIsNone(self.eager.layer(self.of(x=t), self.OPTIONS))
        for at in range(4):
            self.watchers[at] = 1
            self.assertFalse(called())
            self.watchers[at] = 0
        self.levels._current_level = 0
        self.assertFalse(called())
        self.levels._current_level = -1
        for of in self.tensors[:7], list(self.tensors), (*self.tensors, None):
            self.assertIsNone(self.eager.layer(of, self.OPTIONS))
        self.assertTrue(called())
        for gone in "exchange", "aoti":
            self.eager.setup(**{**self.given, gone: None})
            self.assertFalse(called(), "this torch has nothing for C")
        self.assertRaises(TypeError, self.eager.layer, self.tensors)
        self.assertRaises(TypeError, self.eager.keep_layer, self.tensors, self.OPTIONS, 0, b"short", None)

    def test_fails(self):
        """What the library refuses is an error; closed programs, and too little memory, are Python's."""
        self.keep(self.tensors)
        called = lambda: self.eager.layer(self.tensors, self.OPTIONS)
        self.status = INVALID
        self.assertRaises(Error, called)
        self.status = HANDLE
        self.assertIsNone(called())
        self.status, self.failed = 0, 1
        self.assertIsNone(called())
        self.failed, self.meanwhile = 0, self.eager.clear
        self.all_runs.clear()
        self.assertIsNone(called(), "programs may be another stream's")
        self.assertEqual(self.all_runs, [])

    def test_waits(self):
        self.keep(self.tensors, wait=lambda: self.waits.append(len(self.all_runs)))
        self.assertIsNotNone(self.eager.layer(self.tensors, self.OPTIONS))
        self.assertEqual(self.waits, [1])

    def test_room(self):
        """There is room for a thousand calls, and then for new ones."""
        for limit in range(2000):
            self.keep(self.tensors, ("silu", "halves", False, 1.0, limit))
        self.assertIsNotNone(self.eager.layer(self.tensors, ("silu", "halves", False, 1.0, 1999)))
        self.assertIsNone(self.eager.layer(self.tensors, ("silu", "halves", False, 1.0, 0)))


if __name__ == "__main__":
    unittest.main()
