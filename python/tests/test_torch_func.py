"""Tests of forward mode, of the transformations of torch.func and of functional_call through batchgemm.torch,
on tensors of the CPU: what torch computes of the same in its own operators."""

import unittest

try:
    import torch
except ImportError as missing:
    raise unittest.SkipTest(f"no PyTorch: {missing}")

import torch.autograd.forward_ad as fw
from torch.func import functional_call, grad, hessian, jacfwd, jacrev, jvp, linearize, vjp, vmap
from torch.utils._pytree import tree_leaves

import batchgemm.torch as bt
from batchgemm._optional import Nothing
from batchgemm.torch import grouped_mm, int4_grouped_mm, matmul_list, scaled_grouped_mm
from tensors import ACTIVATIONS, ends, quiet, random, reference, scales
from test_torch_eager import Alone
from test_torch_int4 import new_scales, new_words, numbers


def squares(product):
    return lambda *args: sum(t.square().sum() for t in tree_leaves(product(*args)))


def twice(*args):
    return [torch.stack([t, 2 * t]) for t in args]


def after_vjp(product, *args):
    """What a transformation kept, after its end."""
    y, pull = vjp(product, *args)
    gy = torch.ones_like(y).requires_grad_()
    return torch.autograd.grad(squares(pull)(gy), gy)


def forward(product, args, tangents):
    with fw.dual_level():
        return fw.unpack_dual(product(*map(fw.make_dual, args, tangents)))[:]


def backward_of_forward(product, args, tangents):
    leaves = [t.clone().requires_grad_() for t in args]
    return torch.autograd.grad(squares(lambda: forward(product, leaves, tangents))(), leaves)


def forward_of_backward(product, args, tangents):
    with fw.dual_level():
        leaves = [fw.make_dual(t.clone().requires_grad_(), tangent) for t, tangent in zip(args, tangents)]
        gs = torch.autograd.grad(squares(product)(*leaves), leaves, create_graph=True)
        return [fw.unpack_dual(g).tangent for g in gs]


# Of a product, its arguments and their tangents.
TRANSFORMED = {
    "nothing": lambda f, a, t: f(*a),
    "jvp": lambda f, a, t: jvp(f, a, t),
    "jvp of each": lambda f, a, t: [jvp(lambda one: f(*a[:i], one, *a[i + 1 :]), (a[i],), (t[i],))
                                    for i in range(len(a))],
    "linearize": lambda f, a, t: linearize(f, *a)[1](*t),
    "grad": lambda f, a, t: grad(squares(f), tuple(range(len(a))))(*a),
    "vjp": lambda f, a, t: vjp(f, *a)[1](torch.ones_like(f(*a))),
    "vjp, differentiated later": lambda f, a, t: after_vjp(f, *a),
    "grad of grad": lambda f, a, t: grad(squares(grad(squares(f))), tuple(range(len(a))))(*a),
    "jvp of grad": lambda f, a, t: jvp(grad(squares(f), tuple(range(len(a)))), a, t),
    "grad of jvp": lambda f, a, t: grad(squares(lambda *a: jvp(f, a, t)), tuple(range(len(a))))(*a),
    "hessian": lambda f, a, t: hessian(squares(f), tuple(range(len(a))))(*a),
    "jacrev": lambda f, a, t: jacrev(f, tuple(range(len(a))))(*a),
    "jacfwd": lambda f, a, t: jacfwd(f, tuple(range(len(a))))(*a),
    "vmap": lambda f, a, t: vmap(f)(*twice(*a)),
    "vmap of x": lambda f, a, t: vmap(f, (0, *[None] * (len(a) - 1)))(*twice(a[0]), *a[1:]),
    "vmap of grad": lambda f, a, t: vmap(grad(squares(f), tuple(range(len(a)))))(*twice(*a)),
    "grad of vmap": lambda f, a, t: grad(lambda *a: squares(vmap(f))(*twice(*a)), tuple(range(len(a))))(*a),
    "grad within autograd": lambda f, a,
    t: (lambda x: torch.autograd.grad(squares(grad(squares(f)))(x, *a[1:]),
                                      x))(a[0].clone().requires_grad_()),
    "forward mode": forward,
    "backward of forward mode": backward_of_forward,
}


class Transformations(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(21)
        silence = quiet()  # vmap takes one product after the other and says so, and linearize has others
        silence.__enter__()
        self.addCleanup(silence.__exit__, None, None, None)

    def check(self, name, transformed, ours, theirs, args, tangents):
        got, want = (tree_leaves(transformed(f, args, tangents)) for f in (ours, theirs))
        self.assertEqual([t.shape for t in got], [t.shape for t in want], name)
        for g, h in zip(got, want):
            self.assertTrue(torch.allclose(g.double(), h.double(), rtol=1e-3, atol=1e-3),
                            f"{name}: {(g - h).abs().max()}")

    def random(self, *shapes):
        return tuple(torch.randn(shape) for shape in shapes)

    def test_experts(self):
        shapes, offs = ((9, 4), (3, 4, 5), (3, 5)), ends(3, 3, 9)
        args, tangents = self.random(*shapes), self.random(*shapes)
        for activation in ACTIVATIONS:
            ours = lambda x, w, bias: grouped_mm(x, w, offs=offs, bias=bias, activation=activation)
            theirs = lambda x, w, bias: torch.cat([ACTIVATIONS[activation](x[a:e] @ w[g] + bias[g]) for g,
                                                   (a, e) in enumerate(((0, 3), (3, 3), (3, 9)))])
            for name, transformed in TRANSFORMED.items():
                self.check(f"{name}, {activation}", transformed, ours, theirs, args, tangents)
        self.check("forward of backward", forward_of_backward,
                   *(lambda x, w, bias, f=f: f(x, w, bias) for f in (
            lambda x, w, bias: grouped_mm(x, w, offs=offs, bias=bias), lambda x, w,
                       bias: reference(x, w, offs, bias))), args, tangents)

    def test_forms(self):
        offs = ends(3, 3, 9)
        for form, shapes, cut in (
            ("columns", ((3, 5, 4), (4, 9)), offs), ("depth", ((4, 9), (9, 5)), offs),
                ("batched", ((3, 2, 4), (3, 4, 5)), None),
            ("batched, bias", ((3, 2, 4), (3, 4, 5), (5,)), None),
                ("bias of all", ((9, 4), (3, 4, 5), (5,)), offs),
        ):
            known = cut if cut is None else Ends(cut.tolist())
            ours = lambda x, w, bias=None: grouped_mm(x, w, offs=cut, bias=bias)
            theirs = lambda x, w, bias=None: reference(x, w, known, bias)
            args, tangents = self.random(*shapes), self.random(*shapes)
            for name, transformed in TRANSFORMED.items():
                self.check(f"{name}, {form}", transformed, ours, theirs, args, tangents)

    def test_lists(self):
        """All but vmap, for which torch has nothing that takes lists: it says so."""
        shapes = (2, 4), (3, 4), (4, 5), (4, 1)
        args, tangents = self.random(*shapes), self.random(*shapes)
        ours = lambda a, b, c, d: torch.cat([t.flatten() for t in matmul_list([a, b], [c, d])])
        theirs = lambda a, b, c, d: torch.cat([(a @ c).flatten(), (b @ d).flatten()])
        for name, transformed in TRANSFORMED.items():
            if "vmap" in name or name.startswith("jac") or name == "hessian":
                with self.assertRaisesRegex(RuntimeError,
                                            "Batching rule not implemented for batchgemm::matmul_list"):
                    transformed(ours, args, tangents)
            else:
                self.check(name, transformed, ours, theirs, args, tangents)

    def test_int4(self):
        """Of x and bias, also after one another."""
        w, scale_w, offs = new_words(3, 8, 64), new_scales(3, 8, 1), ends(3, 3, 9)
        whole = numbers(w, scale_w).float()
        args, tangents = self.random((9, 64), (3, 8)), self.random((9, 64), (3, 8))
        half = lambda *ts: tuple(t.half().float() for t in ts)
        args, tangents = half(*args), half(*tangents)
        for activation in None, "silu":
            def ours(x, bias):
                return int4_grouped_mm(x.half(), w, scale_w, offs, bias, activation, torch.float32)

            theirs = lambda x, bias: reference(x.half().float(), whole, Ends([3, 3, 9]), bias, activation)
            for name in ("nothing", "jvp", "jvp of each", "forward mode"):
                self.check(f"{name}, {activation}", TRANSFORMED[name], ours, theirs, args, tangents)
            for name in "grad", "vjp", "vmap":
                got, want = (tree_leaves(TRANSFORMED[name](f, args, tangents)) for f in (ours, theirs))
                for g, h in zip(got, want):  # products of 16 bits, and the weights too
                    self.assertTrue(bool(((g - h).abs() <= 4e-3 * h.abs().max()).all()),
                                    f"{name}, {activation}")

    def test_scaled(self):
        """Of bias alone; what has no derivative says so."""
        x, w, a, b = random(torch.int8, 9, 8), random(torch.int8, 3, 8, 5), scales(9), scales(3, 5)
        offs = ends(3, 3, 9)
        call = lambda a, b, bias, **more: scaled_grouped_mm(x, w, a, b, offs, bias, out_dtype=torch.float32,
                                                            **more)
        bias = torch.randn(3, 5)
        plain = lambda bias: reference(x.float() * a[:, None], w.float() * b[:, None], Ends([3, 3, 9]),
                                       bias, "silu")
        zero = {"zero_x": torch.ones(9, dtype=torch.int32), "sums_w": w.sum(1, dtype=torch.int32)}
        with_zero = lambda bias: reference((x.float() - 1) * a[:, None], w.float() * b[:, None],
                                           Ends([3, 3, 9]), bias, "silu")
        for theirs, more in (plain, {}), (with_zero, zero):
            for name in TRANSFORMED:
                self.check(name, TRANSFORMED[name], lambda bias: call(a, b, bias, activation="silu", **more),
                           theirs, (bias,), (bias + 1,))
        for name, f, at in (("scale_x", lambda a: call(a, b, bias), a),
                            ("scale_w", lambda b: call(a, b, bias), b)):
            for of, transformed in (("tangent of", "jvp"), ("gradient to", "grad"),
                                    ("tangent of", "forward mode")):
                with self.assertRaisesRegex(NotImplementedError, f"scaled_grouped_mm has no {of} {name}"):
                    TRANSFORMED[transformed](f, (at,), (at,))
        with self.assertRaisesRegex(NotImplementedError, "int4_grouped_mm has no gradient to scale_w"):
            grad(lambda s: int4_grouped_mm(torch.ones(9, 64).half(), new_words(3, 8, 64), s, offs).sum())(
                new_scales(3, 8, 1).view(torch.float32))

    def test_graph_from_before(self):
        """Nodes of the eager way see that gradients have tangents."""
        x, w, offs, gy, tangent = *self.random((9, 4), (3, 4, 5)), ends(3, 3, 9), *self.random((9, 5), (9, 5))
        leaves = [t.requires_grad_() for t in (x, w)]
        y = grouped_mm(*leaves, offs=offs)
        with fw.dual_level():
            got = [fw.unpack_dual(g).tangent
                   for g in torch.autograd.grad(y, leaves, fw.make_dual(gy, tangent))]
        for g, h in zip(got, torch.autograd.grad(grouped_mm(*leaves, offs=offs), leaves, tangent)):
            self.assertTrue(torch.allclose(g, h, rtol=1e-5, atol=1e-5))

    def test_functional_call(self):
        class Experts(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.w = torch.nn.Parameter(torch.zeros(3, 4, 5))
                self.bias = torch.nn.Parameter(torch.zeros(3, 5))

            def forward(self, x):
                return grouped_mm(x, self.w, offs=ends(3, 3, 9), bias=self.bias, activation="gelu")

        layer, (x, w, bias) = Experts(), self.random((9, 4), (3, 4, 5), (3, 5))
        of = lambda w, bias: functional_call(layer, {"w": w, "bias": bias}, (x,))
        theirs = lambda w, bias: reference(x, w, Ends([3, 3, 9]), bias, "gelu")
        for name in "nothing", "grad", "jvp", "vmap", "vmap of grad", "forward mode":
            self.check(name, TRANSFORMED[name], of, theirs, (w, bias), (w, bias))
        leaves = w.requires_grad_(), bias.requires_grad_()
        for g, h in zip(*(torch.autograd.grad(squares(f)(*leaves), leaves) for f in (of, theirs))):
            self.assertTrue(torch.allclose(g, h, rtol=1e-3, atol=1e-3))
        self.assertFalse(layer.w.any() or layer.bias.any())

    def test_dead_wrappers(self):
        """Tensors that were kept from within a transformation."""
        kept, (x, w), offs = [], self.random((9, 4), (3, 4, 5)), ends(3, 3, 9)
        grad(lambda x: kept.append(x) or x.sum())(x)
        self.assertTrue(torch.equal(grouped_mm(kept[0], w, offs=offs), grouped_mm(x, w, offs=offs)))

    def test_compiled(self):
        x, w, offs = *self.random((9, 4), (3, 4, 5)), ends(3, 3, 9)
        step = lambda x, w: grad(squares(lambda x, w: grouped_mm(x, w, offs=offs, activation="silu")),
                                 (0, 1))(x, w)
        for g, h in zip(torch.compile(step, backend="aot_eager")(x, w), step(x, w)):
            self.assertTrue(torch.allclose(g, h, rtol=1e-4, atol=1e-4))

    def test_known_calls(self):
        """Those that the module _eager has run before see levels, and are its own again after them."""
        (x, w), offs = self.random((9, 4), (3, 4, 5)), ends(3, 3, 9)
        args = x, w, offs, None, "", None, None, 0
        if bt.eager is Nothing:
            self.skipTest("the module _eager is not there")
        grouped_mm(x, w, offs=offs)
        self.assertIsNotNone(bt.eager.product(*args))
        with fw.dual_level():
            self.assertIsNone(bt.eager.product(*args))
        self.assertIsNotNone(bt.eager.product(*args))


class Ends(list):
    """Ends that no transformation sees, for reference()."""

    def tolist(self):
        return self


class TransformationsAlone(Alone, Transformations):
    pass


if __name__ == "__main__":
    unittest.main()
