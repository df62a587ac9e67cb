"""Tests of the module _eager on stand-ins for tensors and for the library. test_torch.py has those on
PyTorch's."""

import ctypes
import gc
import math
import os
import shutil
import sys
import tempfile
import threading
import time
import types
import unittest
from unittest import mock

from batchgemm import _core
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
        self.runs, self.status, self.asked, self.meanwhile = [], 0, 0, None
        self.stream, self.capturing, self.grad, self.modes = 7, False, False, 0
        self.watchers, self.device = [0, None, False, False], types.SimpleNamespace(CURRENT_DEVICE=None)
        self.waits, self.joins, self.extents = [], [], []
        self.levels, self.left = types.SimpleNamespace(_current_level=-1), []

        def run_at(program, stream, addresses):
            size, zero, *rest, extent = _core.ADDRESSES.unpack(
                ctypes.string_at(addresses, _core.ADDRESSES.size))
            self.runs.append((program, stream, rest))
            self.extents.append(extent)
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
        self.given = dict(
            run_at=ctypes.cast(self.run_at, ctypes.c_void_p).value, check=check,
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


class Table(Case):
    def test_finds_what_was_kept(self):
        self.assertIsNone(self.eager.run(*self.args))
        self.keep(self.args)
        y = self.eager.run(*self.args)
        self.assertEqual((y.shape, y.dtype), ((6, 3), "f32"))
        self.assertEqual(self.runs, [(5, 0, [0x1000, 0x2000, 0x9000, OFFS, 0, 0x4000, 0])])
        self.assertFalse(hasattr(y, "filled"))
        self.keep(self.args, program=6, value=0)  # takes its place
        self.assertEqual(self.eager.run(*self.args).filled, 0)
        self.assertEqual(self.runs[-1][0], 6)
        without = self.replaced(offs=None, bias=None)
        self.keep(without, program=8)
        self.eager.run(*without)
        self.assertEqual(self.runs[-1], (8, 0, [0x1000, 0x2000, 0x9000, 0, 0, 0, 0]))
        self.eager.clear()
        self.assertIsNone(self.eager.run(*self.args))

    def test_knows_what_differs(self):
        """Whatever a program depends on makes another kind of call, one at a time."""
        kinds = {
            "as it is": {}, "x: rows": {"x": Tensor(7, 4, at=0x1008)},
            "x: columns": {"x": Tensor(6, 5, at=0x1008)},
            "x: stride": {"x": Tensor(6, 4, stride=(8, 1), at=0x1008)},
            "x: last stride": {"x": Tensor(6, 4, stride=(4, 2), at=0x1008)},
            "x: type": {"x": Tensor(6, 4, dtype="bf16", at=0x1008)},
            "x: address": {"x": Tensor(6, 4, at=0x1004)},
            "x: dimensions": {"x": Tensor(6, 4, 1, stride=(4, 1, 0), at=0x1008)},
            "w: groups": {"w": Tensor(3, 4, 3, at=0x2004)},
            "w: first stride": {"w": Tensor(2, 4, 3, stride=(0, 3, 1), at=0x2004)},
            "w: type": {"w": Tensor(2, 4, 3, dtype="f16", at=0x2004)},
            "w: address": {"w": Tensor(2, 4, 3, at=0x2002)},
            "offs": {"offs": None}, "offs: type": {"offs": Tensor(2, dtype="f32", at=OFFS)},
            "offs: stride": {"offs": Tensor(2, stride=(2,), dtype="i32", at=OFFS)},
            "offs: address": {"offs": Tensor(2, dtype="i32", at=OFFS + 4)},
            "bias": {"bias": None}, "bias: dimensions": {"bias": Tensor(3, at=0x4004)},
            "bias: stride": {"bias": Tensor(2, 3, stride=(4, 1), at=0x4004)},
            "no activation": {"activation": ""}, "relu": {"activation": "relu"},
            "gelu": {"activation": "gelu"},
            "out": {"out": "f32"}, "other out": {"out": "bf16"}, "zero": {"fill": 0.0},
            "not a number": {"fill": math.nan},
            "GPU": {name: Tensor(*t.shape, dtype=t.dtype, at=t.at, device=0) for name,
                    t in zip(("x", "w", "offs", "bias"), self.args)},
            "other GPU": {name: Tensor(*t.shape, dtype=t.dtype, at=t.at, device=1) for name,
                          t in zip(("x", "w", "offs", "bias"), self.args)},
        }
        for name, by in kinds.items():
            self.assertIsNone(self.eager.run(*self.replaced(**by)), name)
            self.keep(self.replaced(**by), program=len(self.runs) + 1)
            self.eager.run(*self.replaced(**by))
        for i, (name, by) in enumerate(kinds.items(), 1):
            self.eager.run(*self.replaced(**by))
            self.assertEqual(self.runs[-1][0], i, name)
        # elsewhere, and as far from a multiple of 16
        self.eager.run(*self.replaced(x=Tensor(6, 4, at=0x5008)))
        self.assertEqual((self.runs[-1][0], self.runs[-1][2][0]), (1, 0x5000))

    def test_extents(self):
        """Each run has how much there is to cut: rows, depth where w has two dimensions, or nothing."""
        for by, extent in (
            ({}, 6), ({"x": Tensor(9, 4)}, 9), ({"x": Tensor(5, 7), "w": Tensor(7, 3)}, 7),
                ({"w": Tensor(2, 1, 8, 8, dtype="i32")}, 6),
            ({"offs": None}, 0), ({"x": Tensor(2, 6, 4), "offs": None}, 0),
        ):
            args = self.replaced(**by, **{"offs": Tensor(2, dtype="i32", at=OFFS, device=0)}
                                 if "offs" not in by else {})
            self.keep(args)
            self.assertIsNotNone(self.eager.run(*args))
            self.assertEqual(self.extents[-1], extent, by)

    def test_ends_on_host(self):
        """Ends that go down, or beyond what there is, are left to torch.py; those of a GPU are not looked
        at."""
        def call(*values, device=-1):
            numbers = (ctypes.c_int32 * len(values))(*values)
            args = self.replaced(offs=Tensor(len(values), dtype="i32", at=ctypes.addressof(numbers),
                                             device=device))
            self.keep(args)
            before = len(self.runs)
            y = self.eager.run(*args)
            self.assertEqual(len(self.runs) - before, y is not None)
            return y is not None

        for right in (0, 6), (3, 3), (0, 0), (6, 6), (2,), (6,), (), (0, 1, 2, 3, 4, 5, 6):
            self.assertTrue(call(*right), right)
        for wrong in ((0, 7), (3, 2), (-1, 3), (7, 6), (7,), (-1,), (0, 1, 2, 1, 4, 5, 6), (2**31 - 1, 0),
                      (-(2**31), 6), (3, -(2**31))):
            self.assertFalse(call(*wrong), wrong)
            self.assertTrue(call(*wrong, device=0), wrong)

    def test_streams(self):
        args = [Tensor(*t.shape, dtype=t.dtype, at=t.at, device=2) for t in self.args[:4]] + self.args[4:]
        self.keep(args)
        self.eager.run(*args)
        self.assertEqual(self.runs[-1][:2], (5, 9))
        self.stream = 2**63
        self.assertIsNone(self.eager.run(*args))
        self.keep(args, program=6)
        self.eager.run(*args)
        self.assertEqual(self.runs[-1][:2], (6, 2**63 + 2))
        self.capturing = True
        self.assertIsNone(self.eager.run(*args), "a graph is captured")

    def test_turned(self):
        """A view that is turned is what the tensor is that is turned within."""
        for turned, by in ((1, {"x": self.x.turned()}), (2, {"w": self.w.turned()}),
                           (3, {"x": self.x.turned(), "w": self.w.turned()})):
            self.eager.clear()
            self.assertIsNone(self.eager.product(*self.args, turned))
            self.keep(self.replaced(**by))
            self.assertIsNotNone(self.eager.product(*self.args, turned))
            self.assertIsNotNone(self.eager.product(*self.replaced(**by), 0))
            self.assertIsNone(self.eager.product(*self.args, 0))

    def test_many(self):
        """More kinds than there is room for: those kept last are found, and each finds its own program."""
        found = 0
        for n in range(1, 5001):
            args = self.replaced(x=Tensor(n, 4))
            self.keep(args, program=n)
            self.assertIsNotNone(self.eager.run(*args))
            self.assertEqual(self.runs[-1][0], n)
        for n in range(1, 5001):
            if self.eager.run(*self.replaced(x=Tensor(n, 4))) is not None:
                self.assertEqual(self.runs[-1][0], n)
                found += 1
        self.assertGreater(found, 900)
        self.assertLessEqual(found, 1024)

    def test_lets_go(self):
        """References end with what held them."""
        wait, args = lambda: None, ((6, 3),)
        self.types = tuple("".join(("of ", name)) for name in self.types)  # immortal in no version
        self.eager.setup(**{**self.given, "types": self.types})
        for t, i in (self.x, 0), (self.w, 0), (self.offs, 3), (self.bias, 0):
            t.dtype = self.types[i]
        like = {"dtype": self.types[0]}
        self.modes, self.device.CURRENT_DEVICE = 1, object()
        held = wait, args, like, *self.args[:4], *self.types, *(t.at
                                                                for t in self.args[
                                                                        :4]), self.device.CURRENT_DEVICE
        before = [sys.getrefcount(o) for o in held]
        self.eager.keep(5, args, like, None, wait, (-1, -1), *self.args)
        for _ in range(50):
            self.assertIsNotNone(self.eager.run(*self.args))
            self.assertIsNotNone(self.eager.product(*self.args, 0))
        self.eager.keep(5, args, like, math.nan, wait, (-1, -1), *self.args)
        self.eager.run(*self.args)
        self.eager.clear()
        self.assertEqual([sys.getrefcount(o) for o in held], before)

    def test_memory_does_not_grow(self):
        def work():
            for n in range(2000):
                args = self.replaced(x=Tensor(n + 1, 4, device=300))
                self.keep(args, value=n % 2 or None, wait=list)
                self.eager.run(*args)
                self.eager.product(*args, n % 4)
            self.eager.clear()
            self.runs.clear(), self.extents.clear()
            gc.collect()

        work()
        before = sys.getallocatedblocks()
        work()
        self.assertLess(sys.getallocatedblocks() - before, 500)  # of 2000 turns


class Runs(Case):
    def test_waits(self):
        self.keep(self.args, wait=lambda: self.waits.append(len(self.runs)))
        self.eager.run(*self.args)
        self.assertEqual(self.waits, [1])

        def interrupted():
            raise KeyboardInterrupt

        self.keep(self.args, wait=interrupted)
        self.assertRaises(KeyboardInterrupt, self.eager.run, *self.args)

    def test_program_closed(self):
        self.keep(self.args)
        self.status = HANDLE
        self.assertIsNone(self.eager.run(*self.args), "is left to torch.py")
        self.status = 0
        self.assertIsNotNone(self.eager.run(*self.args))

    def test_run_fails(self):
        self.keep(self.args)
        self.status = INVALID
        with self.assertRaises(Error) as caught:
            self.eager.run(*self.args)
        self.assertEqual(caught.exception.args, (INVALID,))

    def test_fill_fails(self):
        with mock.patch.object(Tensor, "fill_", side_effect=MemoryError("none left")):
            self.keep(self.args, value=0)
            self.assertRaisesRegex(MemoryError, "none left", self.eager.run, *self.args)
        self.assertEqual(self.runs, [])

    def test_memory_fails(self):
        def none():
            raise MemoryError("none left")

        self.keep(self.args)
        self.meanwhile = none
        self.assertRaisesRegex(MemoryError, "none left", self.eager.run, *self.args)
        self.assertEqual(self.runs, [])

    def test_gives_up_the_lock(self):
        sleep = ctypes.CDLL(None).sleep  # for as many seconds as the program says
        self.eager.setup(**{**self.given, "run_at": ctypes.cast(sleep, ctypes.c_void_p).value})
        self.keep(self.args, program=1)
        thread, start = threading.Thread(target=self.eager.run, args=self.args), time.monotonic()
        thread.start()
        time.sleep(0.02)
        self.assertLess(time.monotonic() - start, 0.9)
        thread.join()

    def test_table_changes_meanwhile(self):
        """What a call has found is its own while it allocates memory, but no longer its to run where the
        table was emptied."""
        self.keep(self.args)
        self.meanwhile = lambda: self.keep(self.args, program=9, shape=(1, 1))
        self.assertEqual(self.eager.run(*self.args).shape, (6, 3))
        self.assertEqual(self.runs[-1][0], 5)
        self.meanwhile = lambda: (self.eager.clear(), self.keep(self.args))
        self.assertIsNone(self.eager.run(*self.args))
        self.assertEqual(len(self.runs), 1)
        self.meanwhile = None
        self.assertEqual(self.eager.run(*self.args).shape, (6, 3))

    def test_threads(self):
        kinds = [self.replaced(x=Tensor(n, 4)) for n in range(1, 9)]
        wrong = []

        def work(turn):
            for i in range(400):
                args = kinds[(i + turn) % len(kinds)]
                y = self.eager.run(*args)
                if y is None:
                    self.keep(args, shape=args[0].shape)
                elif y.shape != args[0].shape:
                    wrong.append((y.shape, args[0].shape))
                if i % 37 == turn:
                    self.eager.clear()

        threads = [threading.Thread(target=work, args=(turn,)) for turn in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])
        self.assertGreater(len(self.runs), 100)


class Forward(Case):
    """A product that has gradients: what it computes and keeps."""

    def forward(self, activation, **by):
        self.ctx = types.SimpleNamespace(save_for_backward=lambda *tensors: setattr(self, "saved", tensors))
        self.args = self.replaced(activation=activation, **by)
        return self.eager.forward(self.ctx, *self.args)

    def test_forward(self):
        """Nothing is kept without an activation, the result of ReLU, and what an activation of torch's is
        computed of."""
        for activation, of in ("", ""), ("relu", "relu"), ("silu", ""):
            self.eager.clear()
            y = self.forward(activation)
            z = "slow", *self.replaced(activation=of)  # in the table there is none
            self.assertEqual(y, ("silu", z) if activation == "silu" else z)
            self.assertEqual(self.saved, (*self.args[:4], z if activation else None))
            self.assertEqual(getattr(self.ctx, "activation", ""), activation)
            self.keep(self.replaced(activation=of))
            y = self.forward(activation)
            z = y[1] if activation == "silu" else y
            self.assertEqual((z.shape, self.runs.pop()[0]), ((6, 3), 5))
            self.assertIs(self.saved[4], z if activation else None)

    def test_fails(self):
        self.keep(self.args)
        self.assertRaisesRegex(TypeError, "unhashable", self.forward, [])
        self.assertEqual(self.forward(7)[0], "slow", "which says what is wrong")
        self.assertRaises(AttributeError, self.eager.forward, None, *self.args)
        self.keep(self.replaced(activation=""))
        self.status = INVALID
        self.assertRaises(Error, self.forward, "silu")
        self.assertRaisesRegex(TypeError, "8 are taken", self.eager.forward, 1)

    def test_lets_go(self):
        self.keep(self.replaced(activation=""))
        args = self.args
        before = [sys.getrefcount(t) for t in args[:4]]
        for _ in range(20):
            y = self.forward("silu")
        self.saved, self.args = None, args
        self.assertEqual([sys.getrefcount(t) for t in args[:4]], before)
        self.assertEqual(sys.getrefcount(y[1]), 2 if sys.version_info < (3, 14) else 1)


class Gradients(Case):
    """Those of a product, of one call: gy @ w and x @ gy, with what is turned."""

    def setUp(self):
        super().setUp()
        self.gy = Tensor(6, 3, at=0x5008)
        for program, x, w in (8, self.gy, self.w.turned()), (9, self.x.turned(), self.gy):
            self.keep([x, w, self.offs, None, "", None, 0], program=program, shape=(program, 1))

    def backward(self, needs=(True, True, False, False, False, False), kept=None, **by):
        tensors = [by.get(name, getattr(self, name)) for name in ("x", "w", "offs", "bias", "gy")]
        self.ctx = types.SimpleNamespace(saved_tensors=(*tensors[:4], kept), needs_input_grad=needs,
                                         activation="silu")
        return self.eager.backward(self.ctx, tensors[4])

    def test_both(self):
        gx, gw, *others = self.backward()
        self.assertEqual((gx.shape, gw.shape, others), ((8, 1), (9, 1), [None] * 6))
        self.assertEqual(self.runs, [(8, 0, [0x5000, 0x2000, 0x9000, OFFS, 0, 0, 0]),
                                     (9, 0, [0x1000, 0x5000, 0x9000, OFFS, 0, 0, 0])])

    def test_some(self):
        self.assertIsNone(self.backward((True, False, False, False, False, False))[1])
        self.assertIsNone(self.backward((False, True, False, False, False, False))[0])
        self.assertEqual([program for program, *_ in self.runs], [8, 9])

    def test_bias(self):
        needs = (False, True, False, True, False, False)
        gx, gw, _, gb, *_ = self.backward(needs)
        self.assertEqual((gx, gw.shape, gb), (None, (9, 1), ("bias", self.offs, self.bias, self.gy)))

    def test_activation(self):
        """The products are of what its derivative makes of the gradient, and of what was kept."""
        kept, derived = Tensor(6, 3), Tensor(6, 3, at=0x7008)
        kept.derived = lambda gy: derived if gy is self.gy else None
        gx, gw, *_ = self.backward(kept=kept)
        self.assertEqual((gx.shape, gw.shape), ((8, 1), (9, 1)))
        self.assertEqual([at[:2] for _, _, at in self.runs], [[0x7000, 0x2000], [0x1000, 0x7000]])

        def fails(gy):
            raise Error("derivative")

        kept.derived = fails
        self.assertRaisesRegex(Error, "derivative", self.backward, kept=kept)

    def test_unknown(self):
        """Where one has not been run before, or its program is closed, torch.py computes all, of the same
        gradient."""
        self.keep([self.x.turned(), Tensor(6, 5), self.offs, None, "", None, 0], program=7)
        kept, gy = Tensor(6, 5), Tensor(6, 5)
        kept.derived = lambda _: gy
        needs = (True, True, False, True, False, False)
        left = "left", self.x, self.w, self.offs, self.bias, gy, needs
        self.assertEqual(self.backward(needs, kept), left)
        self.assertEqual(self.backward(gy=Tensor(6, 3, dtype="bf16", at=0x5008))[0], "left",
                         "it is to be of the type of x")
        self.assertEqual(self.runs, [])
        self.status = HANDLE
        self.assertEqual(self.backward()[0], "left")

    def test_left_to_python(self):
        self.grad = True  # the gradients have gradients
        self.assertIsNone(self.backward())
        self.grad = False
        self.assertIsNone(self.backward(gy=Tensor(6, 3, at=0x5008, neg=True)))
        self.watchers[0] = 1
        self.assertIsNone(self.backward())
        self.watchers[0] = 0
        self.assertEqual(self.runs, [])
        self.assertRaises(KeyboardInterrupt, self.backward, gy=Tensor(6, 3, at=KeyboardInterrupt()))
        self.assertRaises(AttributeError, self.eager.backward, None, self.gy)
        self.assertRaises(TypeError, self.backward, (True, True))

    def test_depth(self):
        """Where depth is cut the gradient to x is turned, which is left to torch.py."""
        self.x, self.w, self.gy = Tensor(4, 6), Tensor(6, 3), Tensor(2, 4, 3)
        self.keep([self.gy, self.w.turned(), self.offs, None, "", None, 0], program=4)
        self.keep([self.x.turned(), self.gy, self.offs, None, "", None, 0], program=5)
        self.assertEqual(self.backward()[0], "left")
        self.assertIsNotNone(self.backward((False, True, False, False, False, False))[1])
        self.assertEqual([program for program, *_ in self.runs], [5])

    def test_run_fails(self):
        self.status = INVALID
        self.assertRaises(Error, self.backward)

    def test_lets_go(self):
        kept = Tensor(6, 3)
        kept.derived = lambda gy: gy
        needs = [(True, True, False, bias, False, False) for bias in (False, True)]
        results = [self.backward() for _ in range(3)]
        held = self.x, self.w, self.offs, self.bias, self.gy, kept, *needs
        self.ctx = None
        before = [sys.getrefcount(o) for o in held]
        for fails in 0, INVALID, HANDLE:
            self.status = fails
            for turn in range(20):
                try:
                    results[0] = self.backward(needs[turn % 2], kept if turn % 3 else None)
                except Error:
                    pass
        results[0], self.ctx = results[1], None
        self.assertEqual([sys.getrefcount(o) for o in held], before)
        self.assertEqual(sys.getrefcount(results[2][0]), 2 if sys.version_info < (3, 14) else 1)


class Plain(Case):
    """What product() leaves to torch.py."""

    def setUp(self):
        super().setUp()
        self.keep(self.args)

    def product(self, turned=0, **by):
        return self.eager.product(*self.replaced(**by), turned)

    def test_plain(self):
        self.assertEqual(self.product().shape, (6, 3))
        self.assertEqual(self.product(w=Parameter(2, 4, 3, at=0x2004)).shape, (6, 3))

    def test_types(self):
        class Own(Tensor):
            pass

        for by in ({"x": Own(6, 4, at=0x1008)}, {"w": Own(2, 4, 3)}, {"offs": Own(2, dtype="i32")},
                   {"bias": Own(2, 3)}, {"x": None}, {"w": 1}):
            self.assertIsNone(self.product(**by))

    def test_watched(self):
        for i, there in enumerate((1, "a trace", True, True)):
            self.watchers[i] = there
            self.assertIsNone(self.product())
            self.watchers[i] = 0
        self.modes = 1
        self.assertIsNone(self.product())
        self.device.CURRENT_DEVICE = "cpu"  # which is the mode
        self.assertIsNotNone(self.product())
        self.modes = 2
        self.assertIsNone(self.product())
        self.modes = 1
        del self.device.CURRENT_DEVICE  # of another version of torch
        self.assertIsNone(self.product())

    def test_forward_mode(self):
        self.levels._current_level = 0
        self.assertIsNone(self.product())
        self.levels._current_level = -1
        self.assertIsNotNone(self.product())
        del self.levels._current_level  # of another version of torch
        self.assertIsNone(self.product())

    def test_negative(self):
        for by in ({"x": Tensor(6, 4, at=0x1008, neg=True)}, {"w": Tensor(2, 4, 3, at=0x2004, neg=True)},
                   {"bias": Tensor(2, 3, at=0x4004, neg=True)}):
            self.assertIsNone(self.product(**by))

    def test_gradients(self):
        wants = {"x": Tensor(6, 4, at=0x1008, requires_grad=True)}
        self.assertEqual(self.product(**wants).shape, (6, 3), "no gradients are computed")
        self.grad = True
        self.assertEqual(self.product().shape, (6, 3), "none is wanted")
        for by in (wants, {"w": Parameter(2, 4, 3, requires_grad=True)},
                   {"bias": Tensor(2, 3, requires_grad=True)}):
            self.assertEqual(self.product(**by), ("gradients", *self.replaced(**by)))
        self.assertIsNone(self.product(turned=1, **wants))
        self.assertIsNone(self.product(x=Tensor(2, 3, 4, requires_grad=True), w=Tensor(4, 6)),
                          "ends cut columns")
        self.assertIsNone(self.product(x=Tensor(6, 4, device=-2, requires_grad=True)), "neither CPU nor GPU")

    def test_left_by_transformations(self):
        """Tensors without memory, which the product with gradients meets, are torch.py's to unwrap."""
        def fails(error):
            def apply(*_):
                raise error("no storage")
            self.eager.setup(**{**self.given, "apply": apply})

        self.grad, x = True, Tensor(6, 4, at=0x1008, requires_grad=True)
        for there, error in (True, RuntimeError), (True, ValueError), (False, RuntimeError):
            fails(error)
            self.left = [x] if there else []
            if there and error is RuntimeError:
                self.assertIsNone(self.product(x=x))
            else:
                self.assertRaisesRegex(error, "no storage", self.product, x=x)

    def test_strange(self):
        """What cannot be read is not kept, and left to torch.py, which says what is wrong; Ctrl-C is not
        lost."""
        for name, by in {
            "device": {"x": Tensor(6, 4, device=-2)}, "type": {"x": Tensor(6, 4, dtype="f64")},
            "dimensions": {"x": Tensor(1, 2, 3, 4, 5)}, "many": {"x": Tensor(*[1] * 99)},
                "symbol": {"x": Tensor(True, 4)}, "overflow": {"x": Tensor(2**70, 4)},
            "strides": {"x": Tensor(6, 4, stride=(4,))},
                "no memory": {"x": Tensor(6, 4, at=RuntimeError("no storage"))},
            "activation": {"activation": "tanh"}, "activation's end": {"activation": "silu\0"},
                "no text": {"activation": 3}, "fill": {"fill": 1.0}, "other fill": {"fill": "0"},
            "surrogate": {"activation": "\udc00"}, "out": {"out": "f64"},
        }.items():
            self.keep(self.replaced(**by))
            self.assertIsNone(self.product(**by), name)
        self.assertRaises(KeyboardInterrupt, self.product, x=Tensor(6, 4, at=KeyboardInterrupt()))
        del self.x.shape
        self.assertIsNone(self.product())

    def test_arguments(self):
        for wrong in (self.eager.product, self.eager.scaled, self.eager.run, self.eager.keep):
            self.assertRaisesRegex(TypeError, "2 arguments", wrong, 1, 2)
        self.assertRaises(TypeError, self.eager.product, *self.args, "turned")
        self.assertRaisesRegex(TypeError, "2 are taken", self.eager.backward, 1)
        self.assertRaises(TypeError, self.eager.keep, 5, [(6, 3)], {}, None, None, (-1, -1), *self.args)
        self.assertRaises(TypeError, self.eager.keep, 5, ((6, 3),), {}, None, None, None, *self.args)
        self.assertRaisesRegex(TypeError, "8 arguments, 12 are taken", self.eager.run, *self.args, None)
        fresh = another()
        self.assertRaisesRegex(TypeError, "setup", fresh.run, *self.args)
        for name in self.given:
            self.assertRaisesRegex(TypeError, f"{name} is missing", fresh.setup,
                                   **{k: v for k, v in self.given.items() if k != name})


if __name__ == "__main__":
    unittest.main()
