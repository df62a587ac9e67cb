"""Tests of the module _eager with scales, on stand-ins for tensors and for the library."""

import sys
import unittest

from stand_ins import HANDLE, Case, Tensor
from test_eager_c import ByView


class Scales(Case):
    """Calls with scales, which kernels take in one array."""

    def setUp(self):
        super().setUp()
        # which begins where the other ends
        self.scale_x, self.scale_w = Tensor(6, at=0x6018), Tensor(2, 3, at=0x6000)
        self.x, self.w = Tensor(6, 4, dtype="e4m3", at=0x1008), Tensor(2, 4, 3, dtype="e4m3", at=0x2004)
        self.args = [self.x, self.w, *self.args[2:], self.scale_x, self.scale_w, None, None, None]

    def rows(self, **by):
        """The address of the scales of a call, and what was joined for it."""
        self.joins.clear()
        self.assertIsNotNone(self.eager.scaled(*self.replaced(**by)))
        self.assertEqual(self.eager.run(*self.replaced(**by)).shape, (6, 3))
        self.assertEqual(self.runs[-1], self.runs[-2])
        return self.runs[-1][2][6], self.joins[::2]

    def test_where_they_lie(self):
        """Scales in one array are not copied, whatever that is; others are, for each call. Places make no
        other kind of call."""
        self.assertIsNone(self.eager.scaled(*self.args))
        self.keep(self.args)
        for scale_x, scale_w, copied in (
            (0x6018, 0x6000, False), (0x7028, 0x7010, False), (0x601c, 0x6000, True), (0x601c, 0x6004, True),
                (0x6000, 0x6018, True),
        ):
            tensors = {"scale_x": Tensor(6, at=scale_x), "scale_w": Tensor(2, 3, at=scale_w)}
            want = (0x8000, [((-1, -1), *tensors.values(), None, None)]) if copied else (scale_w, [])
            self.assertEqual(self.rows(**tensors), want)

    def test_copied(self):
        """Scales that are expanded, have zero points beside them, or do not lie one after the other."""
        whole = {"dtype": "i32"}
        for name, expand, by in (
            ("expanded x", (-1, 2), {"scale_x": Tensor(1, at=0x6018)}),
                ("expanded w", (2, -1), {"scale_w": Tensor(1, at=0x6000), "scale_x": Tensor(6, at=0x6004)}),
            ("turned", (-1, -1), {"scale_w": Tensor(2, 3, stride=(1, 2), at=0x6000)}),
                ("every other", (-1, -1), {"scale_x": Tensor(6, stride=(2,), at=0x6018)}),
            ("zero points", (-1, -1), {"zero_x": Tensor(6, **whole), "sums_w": Tensor(2, 3, **whole)}),
        ):
            args = self.replaced(**by)
            self.keep(args, expand=expand)
            self.assertEqual(self.rows(**by), (0x8000, [(expand, *args[7:11])]), name)

    def test_of_w_alone(self):
        """Those of int4, which are in groups: any that begin at a multiple of 16."""
        for w in Tensor(2, 1, 8, 8, dtype="i32"), Tensor(2, 1, 8, 32, dtype="u8"):
            by = {"w": w, "scale_x": None, "scale_w": Tensor(2, 1, 8, dtype="i32", at=0x6010)}
            self.keep(self.replaced(**by))
            self.assertEqual(self.rows(**by), (0x6010, []))
            by["scale_w"] = Tensor(2, 1, 8, dtype="i32", at=0x6014)
            self.assertEqual(self.rows(**by)[0], 0x8000)
            # strides of what is not there
            for one in (Tensor(1, 1, 8, stride=(99, 8, 1), dtype="i32", at=0x6020),
                        Tensor(2, 0, 8, stride=(3, 5, 1), dtype="i32", at=0)):
                by["scale_w"] = one
                self.keep(self.replaced(**by))
                self.assertEqual(self.rows(**by), (one.at, []))

    def test_knows_what_differs(self):
        whole = {"dtype": "i32"}
        kinds = {
            "as it is": {}, "x: type": {"x": Tensor(6, 4, dtype="i8", at=0x1008)},
            "w: type": {"w": Tensor(2, 4, 3, dtype="u8", at=0x2004)},
            "w: dimensions": {"w": Tensor(2, 4, 3, 1, dtype="e4m3", at=0x2004)}, "out": {"out": "f16"},
            "columns": {"n": 3}, "other columns": {"n": 2},
            "no columns": {"n": 0}, "scale_x": {"scale_x": None}, "scale_x: shape": {"scale_x": Tensor(1)},
            "scale_x: dimensions": {"scale_x": Tensor(6, 1)},
            "scale_x: stride": {"scale_x": Tensor(6, stride=(2,))},
            "scale_w: shape": {"scale_w": Tensor(2)},
            "scale_w: stride": {"scale_w": Tensor(2, 3, stride=(1, 2))},
            "scale_w: type": {"scale_w": Tensor(2, 3, **whole)}, "zero_x": {"zero_x": Tensor(6, **whole)},
            "both": {"zero_x": Tensor(6, **whole), "sums_w": Tensor(2, 3, **whole)},
            "sums_w": {"sums_w": Tensor(2, 3, **whole)},
            "sums_w: stride": {"sums_w": Tensor(2, 3, stride=(1, 2), **whole)},
            "scale_x: GPU": {"scale_x": Tensor(6, device=0)},
        }
        for i, (name, by) in enumerate(kinds.items()):
            self.assertIsNone(self.eager.scaled(*self.replaced(**by)), name)
            self.keep(self.replaced(**by), program=i)
        self.assertIsNone(self.eager.run(*self.args[:7]), "without scales")
        self.keep(self.args[:7], program=99)
        for i, (name, by) in enumerate(kinds.items()):
            self.assertIsNotNone(self.eager.scaled(*self.replaced(**by)), name)
            self.assertEqual(self.runs[-1][0], i, name)
        self.eager.run(*self.args[:7])
        self.assertEqual((self.runs[-1][0], self.runs[-1][2][6]), (99, 0))
        self.eager.clear()
        self.assertIsNone(self.eager.scaled(*self.args))

    def test_left_to_python(self):
        class Own(Tensor):
            pass

        self.keep(self.args)
        for by in (
            {"scale_x": Own(6, at=0x6018)}, {"zero_x": Own(6, dtype="i32")}, {"n": 3.0}, {"n": -1},
                {"n": True}, {"n": 2**70},
            {"scale_x": Tensor(6, neg=True)}, {"scale_w": Tensor(2, 3, neg=True)},
                {"bias": Tensor(2, 3, at=0x4004, neg=True)},
            {"scale_x": Tensor(6, dtype="f64")}, {"scale_w": Tensor(2, 3, device=-2)},
                {"scale_w": Tensor(2, 3, at=RuntimeError("no storage"))},
        ):
            self.keep(self.replaced(**by))
            self.assertIsNone(self.eager.scaled(*self.replaced(**by)), by)
        for by in {"x": None}, {"w": None}, {"scale_w": 0.5}, {"zero_x": [1]}, {"sums_w": "none"}:
            self.assertIsNone(self.eager.scaled(*self.replaced(**by)), by)
        self.watchers[0] = 1
        self.assertIsNone(self.eager.scaled(*self.args))
        self.watchers[0] = 0
        self.assertEqual(self.runs, [])
        self.assertRaises(KeyboardInterrupt, self.eager.scaled,
                          *self.replaced(scale_w=Tensor(2, 3, at=KeyboardInterrupt())))

    def test_gradients(self):
        """Where some are wanted the call is left to torch.py."""
        self.keep(self.args)
        x, w = ({"dtype": "e4m3", "at": at, "requires_grad": True} for at in (0x1008, 0x2004))
        for by in ({"x": Tensor(6, 4, **x)}, {"w": Tensor(2, 4, 3, **w)},
                   {"bias": Tensor(2, 3, at=0x4004, requires_grad=True)},
                   {"scale_x": Tensor(6, at=0x6018, requires_grad=True)},
                   {"scale_w": Tensor(2, 3, at=0x6000, requires_grad=True)}):
            self.grad = True
            self.assertIsNone(self.eager.scaled(*self.replaced(**by)), by)
            self.grad = False
            self.assertEqual(self.eager.scaled(*self.replaced(**by)).shape, (6, 3), by)
        self.grad = True
        self.assertEqual(self.eager.scaled(*self.args).shape, (6, 3), "none is wanted")

    def test_joining(self):
        """What may happen meanwhile."""
        def fails():
            raise MemoryError("none left")

        apart = self.replaced(scale_x=Tensor(6, at=0x9000))
        self.keep(apart)
        self.meanwhile = self.eager.clear
        self.assertIsNone(self.eager.scaled(*apart), "the program may be another's")
        self.keep(apart)
        self.eager.setup(**{**self.given, "join": lambda *_: fails()})
        self.meanwhile = None
        self.assertRaisesRegex(MemoryError, "none left", self.eager.scaled, *apart)
        self.eager.setup(**{**self.given, "join": lambda *_: Tensor(9, at=RuntimeError("no memory"))})
        self.assertRaisesRegex(RuntimeError, "no memory", self.eager.scaled, *apart)
        self.assertEqual(self.runs, [])

    def test_lets_go(self):
        """The array lives until the run is queued, and no longer."""
        made, expand, alive = Tensor(99, at=0x8000), tuple([-1, 2]), []
        count = lambda: sys.getrefcount(made)
        apart = self.replaced(scale_x=Tensor(1, at=0x9000))
        held = made, expand, *apart[:4], *apart[7:9]
        before = [sys.getrefcount(o) for o in held]
        self.eager.setup(**{**self.given, "join": lambda *_: made})
        self.keep(apart, wait=lambda: alive.append(count()), expand=expand)
        for _ in range(20):
            self.assertIsNotNone(self.eager.scaled(*apart))
        self.status = HANDLE
        self.assertIsNone(self.eager.scaled(*apart))
        self.eager.clear()
        self.eager.setup(**self.given)
        self.assertEqual([sys.getrefcount(o) for o in held], before)
        self.assertEqual(alive, [count() + 1] * 20)


class ScalesByView(ByView, Scales):
    def test_joining(self):
        """A new array without memory is no more than left to torch.py."""
        apart = self.replaced(scale_x=Tensor(6, at=0x9000))
        self.keep(apart)
        self.eager.setup(**{**self.given, "join": lambda *_: Tensor(9, at=None)})
        self.assertIsNone(self.eager.scaled(*apart))


if __name__ == "__main__":
    unittest.main()
