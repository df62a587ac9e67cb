"""Tests of batchgemm.torch on tensors of the CPU. check_cuda.py has those that need a GPU."""

import contextlib
import unittest
import warnings
from unittest import mock

try:
    import torch
except ImportError as missing:
    raise unittest.SkipTest(f"no PyTorch: {missing}")

import torch.nn.functional as F
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

import batchgemm.torch as bt
from batchgemm import _gradients as bg, _lists as bl, _operators as bo, _programs as bp
from batchgemm._optional import Nothing
from batchgemm.torch import grouped_mm, matmul_list

UNIT = 2.0**-24  # of fp32
ROUNDED = {torch.float32: UNIT, torch.bfloat16: 2.0**-8, torch.float16: 2.0**-11}
LEAST = 2.0**-24  # half of the least fp16 number above 0
ACTIVATIONS = {None: lambda z: z, "relu": F.relu, "gelu": lambda z: F.gelu(z, approximate="tanh"),
               "silu": F.silu}
LAYOUTS = {
    "transposed": lambda t: t.transpose(-2, -1).contiguous().transpose(-2, -1),
    "long rows": lambda t: F.pad(t, (0, 3))[..., : t.shape[-1]],
    "begins late": lambda t: F.pad(t, (1, 2))[..., 1 : 1 + t.shape[-1]],
    "transposed, begins late": lambda t: F.pad(t, (0, 0, 3, 0)).transpose(-2, -1).contiguous()
    .transpose(-2, -1)[..., 3:, :],
    "every other column": lambda t: t.repeat_interleave(2, -1)[..., ::2],
    "every other row": lambda t: t.repeat_interleave(2, -2)[..., ::2, :],
    "one row for all": lambda t: t[..., :1, :].expand(t.shape),
}


def reference(x, w, offs=None, bias=None, activation=None):
    """What grouped_mm computes, group by group, with 0 after the last end; differentiable."""
    act = ACTIVATIONS[activation]
    row = (lambda g: 0) if bias is None else (lambda g: bias if bias.dim() == 1 else bias[g])
    if offs is None:
        return torch.stack([act(x[g] @ w[g] + row(g)) for g in range(len(x))])
    ends = offs.tolist()
    cuts = list(enumerate(zip([0] + ends[:-1], ends)))
    last = ends[-1]
    if x.dim() == 3:
        parts = [act(x[g] @ w[:, a:e]) for g, (a, e) in cuts]
        return torch.cat(parts + [x.new_zeros(x.shape[1], w.shape[1] - last)], 1)
    if w.dim() == 3:
        parts = [act(x[a:e] @ w[g] + row(g)) for g, (a, e) in cuts]
        return torch.cat(parts + [x.new_zeros(x.shape[0] - last, w.shape[2])])
    return torch.stack([x[:, a:e] @ w[a:e] for _, (a, e) in cuts])


def bound(x, w, offs=None, bias=None, activation=None, out=torch.float32):
    """How far a result may be off: sums in fp32 in any order, an activation of slopes up to 1.13 whose
    exponential has a rounded argument, and one rounding to the type of the result."""
    x, w, bias = x.double().abs(), w.double().abs(), None if bias is None else bias.double().abs()
    size = reference(x, w, offs, bias)
    error = 2 * (x.shape[-1] + 3) * UNIT * size
    if activation in ("gelu", "silu"):
        error = 1.2 * error + 16 * UNIT * size * (1 + 1.6 * size + 0.08 * size**3)
    return error * (1 + ROUNDED[out]) + ROUNDED[out] * size + LEAST


def ends(*values):
    return torch.tensor(values, dtype=torch.int32)


@contextlib.contextmanager
def without_eager():
    """Calls by Python alone, as where the module _eager is not there."""
    with contextlib.ExitStack() as patches:
        for module in bt, bg, bo, bp:
            patches.enter_context(mock.patch.object(module, "eager", Nothing))
        yield


def assert_fails_alike(case, wrong):
    """A call fails with the same words with the module _eager and without."""
    with case.assertRaises(Exception) as first:
        wrong()
    with without_eager(), case.assertRaises(Exception) as second:
        wrong()
    case.assertEqual((type(first.exception), str(first.exception)),
                     (type(second.exception), str(second.exception)))


@contextlib.contextmanager
def quiet():
    """Without warnings, such as torch.compile has beside errors."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def slow_runs():
    """Counts the runs that Python queues."""
    return mock.patch.object(bp.Programs, "run", autospec=True, side_effect=bp.Programs.run)


def behind(t, last, dim):
    """t without what lies after the last end."""
    return t.narrow(dim, 0, last)


class Numbers(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(1)

    def check(self, x, w, offs=None, bias=None, activation=None, out_dtype=None, name=""):
        out = out_dtype or x.dtype
        y, again = (grouped_mm(x, w, offs=offs, bias=bias, activation=activation, out_dtype=out_dtype)
                    for _ in range(2))
        doubles = [None if t is None else t.double() for t in (x, w, bias)]
        want = reference(doubles[0], doubles[1], offs, doubles[2], activation)
        limit = bound(x, w, offs, bias, activation, out)
        self.assertEqual((y.dtype, y.shape), (out, want.shape), name)
        if offs is not None and x.dim() + w.dim() == 5:
            y, again, want, limit = (behind(t, offs[-1].item(), 1 if x.dim() == 3 else 0)
                                     for t in (y, again, want, limit))
        self.assertTrue(torch.equal(y, again), f"{name}: the second call")
        error = (y.double() - want).abs()
        self.assertTrue(bool((error <= limit).all()),
                        f"{name}: {(error / limit).max() if error.numel() else error}")

    def forms(self, dtype):
        offs = ends(5, 5, 19, 30)
        new = lambda *shape: torch.randn(*shape).to(dtype)
        return {
            "rows": (new(33, 20), new(4, 20, 12), offs),
            "columns": (new(4, 12, 20), new(20, 33), offs),
            "depth": (new(9, 33), new(33, 12), offs),
            "batched": (new(4, 9, 20), new(4, 20, 12), None),
        }

    def test_forms_and_types(self):
        for dtype in bp.TYPES:
            for form, (x, w, offs) in self.forms(dtype).items():
                for out in (None, torch.float32):
                    self.check(x, w, offs, out_dtype=out, name=f"{form} {dtype} {out}")

    def test_strides(self):
        for dtype in (torch.float32, torch.bfloat16):
            for form, (x, w, offs) in self.forms(dtype).items():
                for name, lay in LAYOUTS.items():
                    self.check(lay(x), w, offs, name=f"x {form} {name} {dtype}")
                    self.check(x, lay(w), offs, name=f"w {form} {name} {dtype}")
        x, w, offs = self.forms(torch.float32)["rows"]
        self.check(x, w[:1].expand(w.shape), offs, name="one w for all groups")
        self.check(x, w, torch.cat([ends(0), offs])[1:], name="offs begin late")
        self.check(x, w, offs.repeat_interleave(2)[::2], name="every other of offs")

    def test_sizes(self):
        for name, (rows, k, n, cuts) in {
            "one": (1, 1, 1, [1]), "no group has rows": (5, 4, 3, [0, 0]), "no rows": (0, 4, 3, [0, 0]),
                "no columns": (5, 4, 0, [2, 5]),
            "no depth": (5, 0, 3, [2, 5]), "the first": (7, 8, 9, [7, 7, 7]),
                "many": (64, 16, 8, list(range(1, 65))), "k of 1": (9, 1, 9, [4, 9]),
        }.items():
            self.check(torch.randn(rows, k), torch.randn(len(cuts), k, n), ends(*cuts), name=name)
            self.check(torch.randn(n, rows), torch.randn(rows, k), ends(*cuts), name=name + ", depth")
            self.check(torch.randn(len(cuts), n, k), torch.randn(k, rows), ends(*cuts),
                       name=name + ", columns")
            self.check(torch.randn(len(cuts), rows, k), torch.randn(len(cuts), k, n), name=name + ", batched")
        self.assertEqual(grouped_mm(torch.ones(0, 3), torch.ones(0, 3, 4), offs=ends()).shape, (0, 4))
        self.assertEqual(grouped_mm(torch.ones(0, 2, 3), torch.ones(0, 3, 4)).shape, (0, 2, 4))

    def test_bias_and_activation(self):
        for dtype in bp.TYPES:
            for form in "rows", "batched":
                x, w, offs = self.forms(dtype)[form]
                for activation in ACTIVATIONS:
                    for name, bias in {
                        "none": None, "of each": torch.randn(4, 12).to(dtype),
                            "of all": torch.randn(12).to(dtype),
                        "begins late": torch.randn(4, 15).to(dtype)[:, 1:13],
                            "turned": torch.randn(12, 4).to(dtype).t(),
                    }.items():
                        self.check(x, w, offs, bias, activation, name=f"{form} {dtype} {activation} {name}")

    def test_integers(self):
        x, w = torch.randint(-8, 9, (40, 24)).float(), torch.randint(-8, 9, (3, 24, 16)).float()
        offs = ends(7, 7, 40)
        self.assertTrue(torch.equal(grouped_mm(x, w, offs=offs), reference(x, w, offs)))

    def test_lists(self):
        sizes = [(3, 4, 5), (0, 4, 5), (2, 0, 3), (17, 9, 1), (1, 30, 8)]
        for dtype in bp.TYPES:
            for out in (None, torch.float32):
                xs = [torch.randn(k, m).to(dtype).t() for m, k, _ in sizes]
                ws = [torch.randn(k, n).to(dtype) for _, k, n in sizes]
                for i, (x, w, y) in enumerate(zip(xs, ws, matmul_list(xs, ws, out))):
                    error = (y.double() - x.double() @ w.double()).abs()
                    self.assertTrue(bool((error <= bound(x[None], w[None], out=out or dtype)[0]).all()),
                                    f"{i} {dtype} {out}")
                    self.assertEqual((y.dtype, y.shape), (out or dtype, (x.shape[0], w.shape[1])))
        self.assertEqual(matmul_list([], []), [])


class Gradients(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(2)

    def check(self, x, w, offs=None, bias=None, activation=None, name=""):
        """Against autograd in float64 of the reference. Errors of z, what the activation is applied to, go
        into the gradients by its second derivative, at most 1.2; torch computes its derivative of |z|^3 in
        fp32."""
        own = [t.clone().requires_grad_() for t in (x, w, bias) if t is not None]
        doubles = [t.double().requires_grad_() for t in (x, w, bias) if t is not None]
        sides = [(*ts, None)[:3] for ts in (own, doubles)]
        want = reference(sides[1][0], sides[1][1], offs, sides[1][2], activation)
        gy = torch.randn(want.shape)
        products = [grouped_mm(sides[0][0], sides[0][1], offs=offs, bias=sides[0][2],
                               activation=activation) for _ in range(2)]
        got, again = (torch.autograd.grad(y, own, gy) for y in products)
        self.assertTrue(all(map(torch.equal, got, again)), f"{name}: the second step")
        exact = torch.autograd.grad(want, doubles, gy.double())

        size, depth = [t.detach().abs().requires_grad_() for t in doubles], max(*x.shape, *w.shape)
        sizes = reference(size[0], size[1], offs, size[2] if bias is not None else None)
        wrong = gy.double().abs() * 1.2 * 2 * (depth + 3) * UNIT
        if activation:
            z = reference(*(t if t is None else t.detach() for t in (*sides[1][:2], offs, sides[1][2]))).abs()
            wrong = wrong + gy.double().abs() * UNIT * (1.2 * 2 * (x.shape[-1] + 3) * sizes.detach() + 32 +
                                                        4 * z + z**3 / 4)
        limits = torch.autograd.grad(sizes, size, wrong)
        for which, g, h, limit in zip(("x", "w", "bias"), got, exact, limits):
            self.assertEqual((g.dtype, g.shape), (torch.float32, h.shape))
            error = (g.double() - h).abs()
            self.assertTrue(bool((error <= 2 * limit).all()), f"{name}: {which}: {(error / limit).max()}")

    def test_forms(self):
        offs = ends(5, 5, 19, 30)
        self.check(torch.randn(33, 20), torch.randn(4, 20, 12), offs, name="rows")
        self.check(torch.randn(33, 20), torch.randn(4, 20, 12), offs, torch.randn(4, 12), name="bias")
        self.check(torch.randn(33, 20), torch.randn(4, 20, 12), offs, torch.randn(12), name="bias of all")
        self.check(torch.randn(4, 12, 20), torch.randn(20, 33), offs, name="columns")
        self.check(torch.randn(9, 33), torch.randn(33, 12), offs, name="depth")
        self.check(torch.randn(4, 9, 20), torch.randn(4, 20, 12), name="batched")
        self.check(torch.randn(4, 9, 20), torch.randn(4, 20, 12), None, torch.randn(12), "silu",
                   name="batched, silu")

    def test_activations(self):
        for activation in ("relu", "gelu", "silu"):
            for bias in (None, torch.randn(4, 12)):
                self.check(torch.randn(33, 20), torch.randn(4, 20, 12), ends(5, 5, 19, 30), bias,
                           activation, activation)

    def test_nothing_again(self):
        """GELU and SiLU are those of torch, bit for bit: a step of two products takes two, four, and one for
        the bias."""
        offs = ends(5, 5, 19, 33)
        for activation in ("gelu", "silu"):
            for dtype in bp.TYPES:
                new = lambda *shape: torch.randn(*shape).to(dtype).requires_grad_()
                leaves = [new(33, 20), new(4, 20, 12), new(4, 12), new(4, 12, 20)]
                gy = torch.randn(33, 20).to(dtype)

                def layer(act, fused):
                    h = grouped_mm(leaves[0], leaves[1], offs=offs, bias=leaves[2], activation=fused)
                    return grouped_mm(act(h), leaves[3], offs=offs)

                want = layer(ACTIVATIONS[activation], None)
                grads = torch.autograd.grad(want, leaves, gy)
                with without_eager(), slow_runs() as runs:
                    got = [layer(lambda h: h, activation)]
                    got += torch.autograd.grad(got[0], leaves, gy)
                self.assertEqual(runs.call_count, 7)
                for g, h in zip(got, (want, *grads)):
                    self.assertTrue(torch.equal(g, h), f"{activation} {dtype}")

    def test_behind_the_last_end(self):
        x = torch.randn(33, 8, requires_grad=True)
        gx, = torch.autograd.grad(grouped_mm(x, torch.randn(2, 8, 4), offs=ends(3, 21)), x,
                                  torch.full((33, 4), float("nan")).index_fill(0, torch.arange(21), 1))
        self.assertTrue(bool(gx[:21].isfinite().all()) and torch.equal(gx[21:], torch.zeros(12, 8)))

    def test_what_is_needed(self):
        x, w = torch.randn(6, 4), torch.randn(2, 4, 3, requires_grad=True)
        y = grouped_mm(x, w, offs=ends(2, 6))
        y.sum().backward()  # an expanded gradient
        self.assertIsNone(x.grad)
        self.assertIsNotNone(w.grad)
        for off in torch.no_grad, torch.inference_mode:
            with off():
                z = grouped_mm(x, w, offs=ends(2, 6))
                self.assertFalse(z.requires_grad)
                self.assertTrue(torch.equal(z, y))
        x.requires_grad_()
        second, = torch.autograd.grad(torch.autograd.grad(grouped_mm(x, w, offs=ends(2, 6)).square().sum(), x,
                                                          create_graph=True)[0].sum(), w)
        z = reference(x, w, ends(2, 6))
        want, = torch.autograd.grad(torch.autograd.grad(z.square().sum(), x, create_graph=True)[0].sum(), w)
        self.assertTrue(torch.allclose(second, want, rtol=1e-5, atol=1e-5))

    def test_second(self):
        """Gradients of gradients, of what nodes keep and of what they do not."""
        x, w, bias, offs = torch.randn(9, 4), torch.randn(2, 4, 3), torch.randn(2, 3), ends(2, 9)
        for activation in ACTIVATIONS:
            sides = []
            for product in grouped_mm, reference:
                leaves = [t.double().to(torch.float32 if product is grouped_mm
                                        else torch.float64).requires_grad_() for t in (x, w, bias)]
                y = product(leaves[0], leaves[1], offs=offs, bias=leaves[2], activation=activation)
                first = torch.autograd.grad(y.square().sum(), leaves, create_graph=True)
                sides.append([*first, *torch.autograd.grad(sum(g.square().sum() for g in first), leaves)])
            for g, h in zip(*sides):
                self.assertTrue(torch.allclose(g.double(), h, rtol=1e-4, atol=1e-3), activation)

    def test_lists(self):
        xs = [torch.randn(m, 4, requires_grad=True) for m in (1, 3, 6)]
        ws = [torch.randn(4, n, requires_grad=True) for n in (2, 5, 1)]
        ys = matmul_list(xs, ws)
        got = torch.autograd.grad(ys[0].sum() + ys[2].square().sum(), xs + ws)
        loss = (xs[0] @ ws[0]).sum() + (xs[2] @ ws[2]).square().sum() + 0 * (xs[1] @ ws[1]).sum()
        for g, h in zip(got, torch.autograd.grad(loss, xs + ws)):
            self.assertTrue(torch.allclose(g, h, rtol=1e-5, atol=1e-5))


class Torch(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(3)
        self.x, self.w, self.bias = torch.randn(10, 8), torch.randn(3, 8, 5), torch.randn(3, 5)
        for t in (self.x, self.w, self.bias):
            t.requires_grad_()
        self.offs = ends(3, 3, 10)

    def test_opcheck(self):
        operator = torch.ops.batchgemm.grouped_mm.default
        for args in (
            (self.x, self.w, self.offs, None, "", None, None),
            (self.x, self.w, self.offs, self.bias, "silu", None, None),
            (self.x, torch.randn(10, 8)[:8], self.offs.clamp(max=8), None, "", None, None),
            (torch.randn(2, 3, 4, requires_grad=True), torch.randn(2, 4, 5), None, None, "relu", None, None),
        ):
            torch.library.opcheck(operator, args)
        torch.library.opcheck(torch.ops.batchgemm.matmul_list.default,
                              ([self.x, self.x[:2]], [self.w[0], self.w[1]], None))

    def test_dispatcher(self):
        """Whatever looks at operators of torch sees this one."""
        seen = []

        class Mode(TorchDispatchMode):
            def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
                seen.append(str(operator))
                return operator(*args, **(kwargs or {}))

        class Functions(TorchFunctionMode):
            def __torch_function__(self, function, types, args=(), kwargs=None):
                seen.append(str(function))
                return function(*args, **(kwargs or {}))

        class Own(torch.Tensor):
            @classmethod
            def __torch_function__(cls, function, types, args=(), kwargs=None):
                seen.append(str(function))
                return super().__torch_function__(function, types, args, kwargs or {})

        x, w, offs = self.x.detach(), self.w.detach(), self.offs

        def call(x=x):
            return grouped_mm(x, w, offs=offs)

        def profiled():
            with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
                call()
            seen.extend(event.name.replace("::", ".") for event in profile.events())

        def within(mode):
            with mode():
                call()

        call()  # such calls are known then
        self.assertFalse(bg._watched(x, w, offs, None))
        for name, run in {
            "dispatch mode": lambda: within(Mode), "function mode": lambda: within(Functions),
            "subclass": lambda: call(x.as_subclass(Own)), "profiler": profiled,
            "trace": lambda: seen.append(str(torch.jit.trace(call, x, check_trace=False).graph).replace(
                "::", ".")),
        }.items():
            seen.clear()
            run()
            self.assertTrue(any("batchgemm.grouped_mm" in word for word in seen), f"{name}: {seen}")
        self.assertTrue(torch.equal(torch.func.vmap(call)(x[None])[0], call()))
        meta = grouped_mm(x.to("meta"), w.to("meta"), offs=offs.to("meta"))
        self.assertEqual((meta.device.type, meta.shape), ("meta", (10, 5)))
        plus = torch.complex(x[:, :1], x[:, 1:2])
        # the memory has the negative of it, and is taken as it lies, like that of plus.imag
        minus = plus.conj().imag
        self.assertTrue(minus.is_neg() and bp.matrices(minus))
        grouped_mm(plus.imag, w[:, :1], offs=offs)
        self.assertTrue(torch.equal(grouped_mm(minus, w[:, :1], offs=offs),
                                    grouped_mm(-x[:, 1:2], w[:, :1], offs=offs)))

    def test_compile(self):
        def layer(x, w, bias, offs):
            return grouped_mm(x * 2, w, offs=offs, bias=bias, activation="gelu").square().sum()

        compiled = torch.compile(layer, fullgraph=True, backend="aot_eager", dynamic=True)
        for rows in 10, 12, 31:
            args = [t.detach().clone().requires_grad_() for t in (torch.randn(rows, 8), self.w, self.bias)]
            offs = ends(3, 3, rows)
            got, want = compiled(*args, offs), layer(*args, offs)
            self.assertTrue(torch.allclose(got, want))
            for g, h in zip(torch.autograd.grad(got, args), torch.autograd.grad(want, args)):
                self.assertTrue(torch.allclose(g, h, rtol=1e-5, atol=1e-5))

    def test_autocast(self):
        grouped_mm(self.x.detach(), self.w.detach(), offs=self.offs, bias=self.bias.detach())
        with torch.autocast(self.x.device.type, dtype=torch.bfloat16):
            y = grouped_mm(self.x, self.w, offs=self.offs, bias=self.bias)
            z = grouped_mm(self.x, self.w, offs=self.offs, out_dtype=torch.float32)
            lists = matmul_list([self.x], [self.w[0]])
        self.assertEqual((y.dtype, z.dtype, lists[0].dtype), (torch.bfloat16, torch.float32, torch.bfloat16))
        half = [t.detach().bfloat16() for t in (self.x, self.w, self.bias)]
        self.assertTrue(torch.equal(y, grouped_mm(half[0], half[1], offs=self.offs, bias=half[2])))
        y.sum().backward()
        self.assertEqual({t.grad.dtype for t in (self.x, self.w, self.bias)}, {torch.float32})

    def test_modes(self):
        """Calls that are known see which mode they are in."""
        x, w, offs = self.x.detach(), self.w.detach(), self.offs
        want = grouped_mm(x, w, offs=offs)
        with torch.device("meta"):  # of new tensors, where nothing else is said
            y = grouped_mm(x, w, offs=offs)
        with torch.inference_mode():
            z = grouped_mm(self.x, self.w, offs=offs)
        with torch.no_grad():
            g = grouped_mm(self.x, self.w, offs=offs)
        self.assertEqual([t.is_inference() for t in (want, y, z, g)], [False, False, True, False])
        self.assertTrue(all(torch.equal(t, want) and not t.requires_grad for t in (y, z, g)))
        x.requires_grad_()
        self.assertTrue(grouped_mm(x, w, offs=offs).requires_grad)
        self.assertTrue(grouped_mm(x, torch.nn.Parameter(w, requires_grad=False), offs=offs).requires_grad)
        w.resize_(3, 8, 4)  # the same tensor, of another shape
        self.assertEqual(grouped_mm(x.detach(), w, offs=offs).shape, (10, 4))

    def test_refuses(self):
        x, w, offs = self.x.detach(), self.w.detach(), self.offs
        for words, error, call in (
            ("x is torch.float64", TypeError, lambda: grouped_mm(x.double(), w.double(), offs=offs)),
            ("w is torch.bfloat16, x is torch.float32", TypeError,
             lambda: grouped_mm(x, w.bfloat16(), offs=offs)),
            ("out_dtype is torch.bfloat16", TypeError,
             lambda: grouped_mm(x, w, offs=offs, out_dtype=torch.bfloat16)),
            ("x has 1 dimensions", ValueError, lambda: grouped_mm(x[0], w, offs=offs)),
            ("x has 7 columns, w has 8 rows", ValueError, lambda: grouped_mm(x[:, :7], w, offs=offs)),
            ("offs is None", ValueError, lambda: grouped_mm(x, w)),
            ("offs is torch.int64", TypeError, lambda: grouped_mm(x, w, offs=offs.long())),
            ("offs has 2 groups, w has 3", ValueError, lambda: grouped_mm(x, w, offs=offs[:2])),
            ("offs: none", ValueError, lambda: grouped_mm(w.transpose(1, 2), w, offs=offs)),
            ("x has 2 groups, w has 3", ValueError, lambda: grouped_mm(w[:2].transpose(1, 2), w)),
            ("4097 groups", ValueError, lambda: grouped_mm(x, x[:8].t()[:, :8].new_zeros(4097, 8, 1),
                                                           offs=offs.new_zeros(4097))),
            ("bias has the shape (4,)", ValueError, lambda: grouped_mm(x, w, offs=offs, bias=torch.zeros(4))),
            ("bias is torch.float16", TypeError,
             lambda: grouped_mm(x, w, offs=offs, bias=torch.zeros(5).half())),
            ("bias: none where offs cuts columns", ValueError,
             lambda: grouped_mm(w, x.t()[:5], offs=offs, bias=torch.zeros(10))),
            ("bias and activation: none", ValueError,
             lambda: grouped_mm(x.t(), x, offs=offs, activation="silu")),
            ("activation 'tanh'", ValueError, lambda: grouped_mm(x, w, offs=offs, activation="tanh")),
            ("offs is on meta, x on ", ValueError, lambda: bo.run(x, w, offs.to("meta"), None, "",
                                                                  None, None)),
            ("xs has 2 matrices, ws has 1", ValueError, lambda: matmul_list([x, x], [w[0]])),
            ("product 1: x has 8 columns, w has 5 rows", ValueError,
             lambda: matmul_list([x, x], [w[0], w[0].t()])),
            ("product 0: x has 2 dimensions, w has 3", ValueError, lambda: matmul_list([x], [w])),
            ("product 0: x is on cpu, w on meta", ValueError,
             lambda: bl.run([x.cpu()], [w[0].to("meta")], None)),
            ("product 1: x is torch.float16", TypeError,
             lambda: matmul_list([x, x.half()], [w[0], w[0].half()])),
        ):
            with self.assertRaises(error, msg=words) as caught:
                call()
            self.assertIn(words, str(caught.exception))


class Programs(unittest.TestCase):
    def call(self, rows, n=4):
        x, w = torch.zeros(rows, 8), torch.zeros(2, 8, n)
        return bp.call_of(*(bp.meta(t, t.data_ptr()) for t in (x, w, ends(0, rows))), None, "", None, 0)

    def test_rows_share(self):
        for n in list(range(1, 300)) + [4095, 4096, 4097, 10**6]:
            self.assertLessEqual(n, bp.bound(n))
            self.assertLessEqual(bp.bound(n), n + n // 8)
            self.assertEqual(bp.bound(bp.bound(n)), bp.bound(n))
        self.assertEqual({self.call(rows).key for rows in range(961, 1025)}, {self.call(1024).key})

    def test_streams_and_graphs(self):
        programs, call = bp.Programs(-1), self.call(4)
        with self.assertRaisesRegex(RuntimeError,
                                    "first call with tensors of these shapes cannot be captured"):
            programs.find(2, call, True)
        one = programs.find(1, call, False)
        self.assertIs(programs.find(1, call, False), one)
        self.assertIs(programs.find(2, call, True), one, "a capture takes the program of the warm-up")
        self.assertIs(programs.find(2, call, True), one)
        other = programs.find(1, call, False)
        self.assertIsNot(other, one, "which belongs to graphs then")
        for n in range(1, bp.KEPT + 3):
            programs.find(1, self.call(4, n), False)
        self.assertEqual(len(programs.kept), bp.KEPT + 1)
        self.assertIs(programs.find(2, call, False), one, "is never closed")
        self.assertIsNot(programs.find(1, self.call(4, 1), False), other)
        for program in programs.kept.values():
            program.close()
        programs.device.close()


if __name__ == "__main__":
    unittest.main()
