"""Tests of what the module _eager does of gradients, on stand-ins for tensors and for the library."""

import sys
import types
import unittest

from stand_ins import HANDLE, INVALID, OFFS, Case, Error, Tensor


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


if __name__ == "__main__":
    unittest.main()
