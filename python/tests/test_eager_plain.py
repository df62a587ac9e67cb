"""Tests of which calls the module _eager leaves to Python, on stand-ins for tensors and for the library."""

import unittest

from stand_ins import Case, Parameter, Tensor, another


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
