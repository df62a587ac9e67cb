"""Tests of the operators of batchgemm.torch on tensors of the CPU: what torch does with them, what they
refuse, and the programs that are kept."""

import unittest

try:
    import torch
except ImportError as missing:
    raise unittest.SkipTest(f"no PyTorch: {missing}")

from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from batchgemm import _gradients as bg, _lists as bl, _operators as bo, _programs as bp
from batchgemm.torch import grouped_mm, matmul_list
from tensors import ends


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
        self.assertFalse(bg.watched(x, w, offs, None))
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
            ("x is torch.int64", TypeError, lambda: grouped_mm(x.long(), w.long(), offs=offs)),
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
            ("x has 7 columns, w has 8 rows", ValueError,
             lambda: grouped_mm(w.mT[..., :7], x.t(), offs=offs)),
            ("offs has 2 groups, x has 3", ValueError, lambda: grouped_mm(w.mT, x.t(), offs=offs[:2])),
            ("w is torch.bfloat16, x is torch.float32", TypeError,
             lambda: grouped_mm(w.mT, x.t().bfloat16(), offs=offs)),
            ("w is on meta, x on ", ValueError, lambda: grouped_mm(w.mT, x.t().to("meta"), offs=offs)),
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
