"""Tests of calls with scales that the module _eager runs, and those of test_torch_scaled.py and
test_torch_int4.py once more, without it."""

import contextlib
import math
import sys
import unittest
from unittest import mock

try:
    import torch
except ImportError as missing:
    raise unittest.SkipTest(f"no PyTorch: {missing}")

from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

import batchgemm.torch as bt
import test_torch_blocks
import test_torch_int4
import test_torch_scaled
from batchgemm import _operators as bo, _programs as bp
from batchgemm._optional import Nothing
from batchgemm.torch import int4_grouped_mm, scaled_grouped_mm
from tensors import assert_fails_alike, ends, random, scales, slow_runs, without_eager
from test_torch_eager import Alone
from test_torch_int4 import new_scales, new_words

E4M3 = torch.float8_e4m3fn


def one_array(shape_x, shape_w):
    """Scales as kernels have them."""
    count = math.prod(shape_w)
    whole = scales(count + math.prod(shape_x))
    return whole[count:].view(shape_x), whole[:count].view(shape_w)


@contextlib.contextmanager
def seen():
    """What the module makes of calls."""
    results, scaled = [], bt.eager.scaled

    def noted(*args):
        results.append(scaled(*args))
        return results[-1]

    with mock.patch.object(bt.eager, "scaled", noted):
        yield results


def joins():
    """Counts the copies of scales."""
    return mock.patch.object(torch, "cat", side_effect=torch.cat)


@unittest.skipIf(bt.eager is Nothing, "the module _eager is not there")
class EagerScales(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(14)
        bt.eager.clear()
        self.offs = ends(3, 3, 20)
        self.x, self.w = random(E4M3, 20, 8), random(E4M3, 3, 8, 6)
        self.scale_x, self.scale_w = scales(20), scales(3, 6)
        self.x4, self.w4, self.s4 = torch.randn(20, 128).bfloat16(), new_words(3, 8, 128), new_scales(3, 8, 1)

    def call(self, **by):
        args = {"x": self.x, "w": self.w, "scale_x": self.scale_x, "scale_w": self.scale_w,
                "offs": self.offs, **by}
        return scaled_grouped_mm(**args)

    def call4(self, **by):
        args = {"x": self.x4, "w": self.w4, "scale_w": self.s4, "offs": self.offs, **by}
        return int4_grouped_mm(**args)

    def check(self, name, call):
        """The second call of a kind is run by the module, and all have the bits of torch.py's."""
        bt.eager.clear()
        first = call()
        with slow_runs() as runs:
            again = call()
        self.assertEqual(runs.call_count, 0, name)
        with without_eager(), slow_runs() as runs:
            alone = call()
        self.assertEqual(runs.call_count, 1, name)
        for y in first, again:
            self.assertTrue(torch.equal(y, alone), name)
            self.assertEqual((y.stride(), y.dtype, y.device, y.requires_grad),
                             (alone.stride(), alone.dtype, alone.device, False), name)

    def forms(self, kind):
        """x, w, offs, and shapes of scales."""
        new = lambda *shape: random(kind, *shape)
        of = {
            "rows": (new(20, 8), new(3, 8, 6), self.offs, [(20,), ()], [(3, 6), (3,), (1, 1)]),
            "columns": (new(3, 6, 8), new(8, 20), self.offs, [(3, 6), (3,), ()], [(20,), (1,)]),
            "depth": (new(7, 20), new(20, 6), self.offs, [(3, 7), (21,), ()], [(3, 6), (18,), (1,)]),
            "batched": (new(3, 7, 8), new(3, 8, 6), None, [(3, 7), (3,), ()], [(3, 6), (3,), ()]),
        }
        if kind is E4M3:
            of["rows, blocks"] = new(20, 130), new(3, 130, 140), self.offs, [(20, 2)], [(3, 2, 2)]
            of["columns, blocks"] = new(3, 140, 130), new(130, 20), self.offs, [(3, 2, 2)], [(20, 2)]
            of["batched, blocks"] = new(3, 7, 130), new(3, 130, 140), None, [(3, 7, 2)], [(3, 2, 2)]
        return of

    def test_forms(self):
        for kind in bp.SCALED:
            for form, (x, w, offs, of_x, of_w) in self.forms(kind).items():
                for shape_x in of_x:
                    for shape_w in of_w:
                        a, b = scales(*shape_x), scales(*shape_w)
                        for out in bp.TYPES:
                            self.check(f"{form} {kind} {shape_x} {shape_w} {out}",
                                       lambda: scaled_grouped_mm(x, w, a, b, offs, out_dtype=out))

    def test_one_array(self):
        """Scales that lie so are not copied. Where offs cuts columns x and w change places, and scales with
        them."""
        for kind in bp.SCALED:
            for form, (x, w, offs, of_x, of_w) in self.forms(kind).items():
                turned = form.startswith("columns")
                a, b = reversed(one_array(of_w[0], of_x[0])) if turned else one_array(of_x[0], of_w[0])
                call = lambda: scaled_grouped_mm(x, w, a, b, offs)
                with joins() as copies:
                    self.check(f"{form} {kind}", call)
                self.assertEqual(copies.call_count, 0, form)
                a = a.clone()  # of the same kind
                want = call()
                with joins() as copies, slow_runs() as runs:
                    self.assertTrue(torch.equal(call(), want), form)
                self.assertEqual((copies.call_count, runs.call_count), (1, 0), form)

    def test_bias_and_activation(self):
        for kind in bp.SCALED:
            for form in "rows", "columns", "batched":
                x, w, offs, of_x, of_w = self.forms(kind)[form]
                a, b = scales(*of_x[0]), scales(*of_w[0])
                for activation in (None, "", "relu", "gelu", "silu"):
                    for out in bp.TYPES:
                        biases = (None, torch.randn(6).to(out), torch.randn(3, 6).to(out),
                                  torch.randn(6, 3).to(out).t())
                        for bias in biases[:1] if form == "columns" else biases:
                            stride = None if bias is None else bias.stride()
                            name = f"{form} {kind} {activation} {out} {stride}"
                            self.check(name,
                                       lambda: scaled_grouped_mm(x, w, a, b, offs, bias, activation, out))

    def test_zero_points(self):
        for form, (x, w, offs, of_x, of_w) in self.forms(torch.int8).items():
            if form == "columns":
                continue
            sums = torch.randint(-99, 99, (3, 6), dtype=torch.int32)
            for shape_x in of_x:
                for shape_w in of_w:
                    a, b = scales(*shape_x), scales(*shape_w)
                    zero = torch.randint(-128, 128, shape_x, dtype=torch.int32)
                    self.check(f"{form} {shape_x} {shape_w}",
                               lambda: scaled_grouped_mm(x, w, a, b, offs, zero_x=zero, sums_w=sums))
        x, w, a, b = random(torch.int8, 20, 8), random(torch.int8, 3, 8, 6), *one_array((20,), (3, 6))
        zero = torch.ones(20, dtype=torch.int32)
        call = lambda: scaled_grouped_mm(x, w, a, b, self.offs, zero_x=zero, sums_w=sums)
        self.check("scales in one array", call)
        before = call()
        zero += 99
        with slow_runs() as runs:
            after = call()
        self.assertEqual(runs.call_count, 0)
        with without_eager():
            self.assertTrue(torch.equal(after, call()) and not torch.equal(after, before))

    def test_int4(self):
        for dtype in torch.bfloat16, torch.float16:
            for group in 64, 128:
                for ld, n in (8, None), (8, 8), (16, 11), (16, 1):
                    w, s, columns = new_words(3, ld, 256), new_scales(3, ld, 256 // group), n or ld
                    for of_w, of_scale in (torch.int32, torch.int32), (torch.uint8, torch.float32):
                        for x, offs in ((torch.randn(20, 256).to(dtype), self.offs),
                                        (torch.randn(3, 7, 256).to(dtype), None)):
                            for out in None, torch.float32:
                                bias = torch.randn(3, columns).to(out or dtype) if ld == 16 else None
                                activation = "silu" if bias is not None else None
                                args = x, w.view(of_w), s.view(of_scale), offs, bias, activation, out, n
                                with joins() as copies:
                                    self.check(f"{dtype} {group} {ld} {n} {of_w} {offs} {out}",
                                               lambda: int4_grouped_mm(*args))
                                self.assertEqual(copies.call_count, 0)
        late = torch.cat([self.s4.flatten()[:1], self.s4.flatten()])[1:].view(self.s4.shape)
        self.check("scales begin late", lambda: self.call4(scale_w=late))
        self.check("scales turned",
                   lambda: self.call4(scale_w=self.s4.transpose(0, 1).contiguous().transpose(0, 1)))
        self.check("one w", lambda: self.call4(w=self.w4[:1].expand(self.w4.shape)))

    def test_columns_of_int4(self):
        """n says what is computed, whatever ran before."""
        self.w4, self.s4 = new_words(3, 16, 128), new_scales(3, 16, 1)
        for _ in range(2):
            for n in None, 16, 9, 10:
                self.assertEqual(self.call4(n=n).shape, (20, n or 16))

    def test_copies_of_operands(self):
        """What must be copied is left to torch.py, for each call; the copies are known."""
        turned = self.w4.transpose(1, 2).contiguous().transpose(1, 2)
        every = self.x.view(torch.int8).repeat_interleave(2, -1).view(E4M3)[:, ::2]
        for call, copied in (lambda w: self.call4(w=w), turned), (lambda x: self.call(x=x), every):
            want = call(copied)
            with slow_runs() as runs, mock.patch.object(bo, "_run", side_effect=bo._run) as run:
                self.assertTrue(torch.equal(call(copied), want))
            self.assertEqual((runs.call_count, run.call_count), (0, 1))

    def test_scales_change(self):
        """Their numbers and places are those of the call."""
        for kind in bp.SCALED:
            x, w = random(kind, 20, 8), random(kind, 3, 8, 6)
            a, b = one_array((20,), (3, 6))
            call = lambda: scaled_grouped_mm(x, w, a, b, self.offs, out_dtype=torch.float32)
            want = call()
            with slow_runs() as runs:
                a *= 2
                self.assertTrue(torch.equal(call(), 2 * want))
                a = a / 2
                self.assertTrue(torch.equal(call(), want))
                b = b.clone() * 4
                self.assertTrue(torch.equal(call(), 4 * want))
                whole = torch.cat([b.flatten(), a])
                a, b = whole[18:], whole[:18].view(3, 6)
                self.assertTrue(torch.equal(call(), 4 * want))
            self.assertEqual(runs.call_count, 0)
        want = self.call4(out_dtype=torch.float32)
        with slow_runs() as runs:
            self.s4 = (((self.s4 & -16).view(torch.float32) * 2).view(torch.int32) | (self.s4 & 15))
            self.assertTrue(torch.equal(self.call4(out_dtype=torch.float32), 2 * want))
        self.assertEqual(runs.call_count, 0)

    def test_refuses_alike(self):
        """Mistakes next to calls that are known: the same words, whoever sees them."""
        whole = torch.zeros(20, dtype=torch.int32)
        self.call(), self.call4()
        for wrong in (
            lambda: self.call(scale_x=None), lambda: self.call(scale_w=0.5),
                lambda: self.call(scale_x=self.scale_x.double()),
            lambda: self.call(scale_x=self.scale_x[:9]), lambda: self.call(scale_w=self.scale_w[:, :4]),
            lambda: self.call(scale_w=self.scale_w.to("meta")),
                lambda: self.call(scale_w=self.scale_w.view(torch.int32)),
            lambda: self.call(x=self.x.view(torch.int8)),
                lambda: self.call(x=self.x.float(), w=self.w.float()),
            lambda: self.call(x=self.x.view(torch.uint8)),
                lambda: self.call(x=self.x.view(torch.float8_e5m2)), lambda: self.call(x=None),
            lambda: self.call(x=self.x.float().tolist()), lambda: self.call(zero_x=whole),
                lambda: self.call(zero_x=[1]),
            lambda: self.call(zero_x=whole, sums_w=whole), lambda: self.call(out_dtype=None),
                lambda: self.call(out_dtype=E4M3),
            lambda: self.call(out_dtype=torch.int32), lambda: self.call(activation="tanh"),
                lambda: self.call(activation=7),
            lambda: self.call(offs=None), lambda: self.call(offs=self.offs.long()),
                lambda: self.call(bias=torch.zeros(6)),
            lambda: self.call(bias=torch.zeros(5).bfloat16()),
                lambda: self.call(w=self.w[0], activation="relu"),
            lambda: self.call(x=self.w, w=self.x.t(), bias=torch.zeros(6).bfloat16()),
            lambda: scaled_grouped_mm(self.x4, self.w4, None, self.s4, self.offs),
            lambda: scaled_grouped_mm(self.x4, self.w4, self.s4, self.s4, self.offs), lambda: self.call4(n=9),
                lambda: self.call4(n=-1),
            lambda: self.call4(n=2**70), lambda: self.call4(n="8"), lambda: self.call4(n=7.5),
                lambda: self.call4(scale_w=None),
            lambda: self.call4(scale_w=self.s4.half()), lambda: self.call4(scale_w=self.s4[..., :7]),
                lambda: self.call4(w=self.w4[0]),
            lambda: self.call4(w=self.w4[None]), lambda: self.call4(w=self.w4.long()),
                lambda: self.call4(w=self.w4.view(torch.int8)),
            lambda: self.call4(x=self.x4.float()), lambda: self.call4(x=self.x4[:, :64]),
                lambda: self.call4(offs=None),
            lambda: self.call4(out_dtype=torch.float16), lambda: self.call4(x=self.x4.to_sparse()),
        ):
            assert_fails_alike(self, wrong)

    def test_gradients(self):
        """Calls that are known have them where somebody wants some."""
        leaves = {name: t.detach().clone().requires_grad_() for name,
                  t in {"x": self.x, "w": self.w, "scale_x": self.scale_x,
                  "scale_w": self.scale_w, "bias": torch.zeros(6).bfloat16(), "x4": self.x4,
                        "bias4": torch.zeros(8).bfloat16()}.items()}
        self.call(), self.call4(), self.call(bias=leaves["bias"].detach()), self.call4(
            bias=leaves["bias4"].detach())
        for name, leaf in leaves.items():
            call = self.call4 if "4" in name else self.call
            y = call(**{name.rstrip("4"): leaf})
            self.assertTrue(y.requires_grad, name)
            with torch.no_grad(), slow_runs() as runs:
                y = call(**{name.rstrip("4"): leaf})
            self.assertEqual((y.requires_grad, runs.call_count), (False, 0), name)

    def test_watched(self):
        """Who is to see a call sees the operator."""
        operators, want = [], (self.call(), self.call4())

        class Dispatched(TorchDispatchMode):
            def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
                operators.append(operator._schema.name)
                return operator(*args, **(kwargs or {}))

        class Called(TorchFunctionMode):
            def __torch_function__(self, function, types, args=(), kwargs=None):
                operators.append(str(function))
                return function(*args, **(kwargs or {}))

        for mode in Dispatched, Called:
            operators.clear()
            with mode(), seen() as results:
                got = self.call(), self.call4()
            self.assertEqual(results, [None, None])
            self.assertTrue(all(map(torch.equal, got, want)))
            self.assertTrue(all(any(name in operator for operator in operators)
                                for name in ("scaled_grouped_mm", "int4_grouped_mm")), operators)
        with torch.profiler.profile(
                activities=[torch.profiler.ProfilerActivity.CPU]) as profile, seen() as results:
            got = self.call(), self.call4()
        self.assertEqual(results, [None, None])
        self.assertTrue(all(map(torch.equal, got, want)))
        self.assertLessEqual({"batchgemm::scaled_grouped_mm", "batchgemm::int4_grouped_mm"},
                             {event.key for event in profile.key_averages()})
        traced = torch.jit.trace(lambda scale_x: self.call(scale_x=scale_x), (self.scale_x,))
        self.assertIn("batchgemm::scaled_grouped_mm", str(traced.graph))

    def test_plain_tensors_alone(self):
        class Own(torch.Tensor):
            pass

        want, want4 = self.call(), self.call4()
        minus = torch.complex(self.scale_x, -self.scale_x).conj().imag  # the memory has the negative of it
        with seen() as results:
            self.assertTrue(torch.equal(self.call(scale_x=minus), want))
            for name in "x", "scale_x", "scale_w":
                y = self.call(**{name: getattr(self, name).as_subclass(Own)})
                self.assertTrue(torch.equal(y.as_subclass(torch.Tensor), want), name)
            self.assertTrue(torch.equal(self.call4(scale_w=self.s4.as_subclass(Own)).as_subclass(
                torch.Tensor), want4))
        self.assertEqual(results, [None] * 5)
        on_meta = {name: getattr(self, name).to("meta") for name in ("x", "w", "scale_x", "scale_w", "offs")}
        self.assertEqual(self.call(**on_meta).device.type, "meta")

    def test_modes_of_torch(self):
        """What has no part in these calls: autocast, whether gradients are computed, a default device."""
        want, want4 = self.call(), self.call4()
        kind = self.x.device.type
        for mode in (torch.autocast(kind, dtype=torch.float16), torch.no_grad(), torch.enable_grad(),
                     torch.device(kind), contextlib.nullcontext()):
            with mode, slow_runs() as runs:
                y, y4 = self.call(), self.call4()
            self.assertEqual(runs.call_count, 0, mode)
            self.assertTrue(torch.equal(y, want) and torch.equal(y4, want4), mode)
            self.assertFalse(y.requires_grad or y4.requires_grad)
        with torch.inference_mode():
            self.assertTrue(torch.equal(self.call(), want))

    def test_operators(self):
        """By the dispatcher, as where a graph of torch.compile runs, and by that."""
        with slow_runs() as runs:
            for _ in range(3):
                torch.ops.batchgemm.scaled_grouped_mm(self.x, self.w, self.offs, None, "", torch.bfloat16,
                                                      None, self.scale_x, self.scale_w, None, None, None)
                torch.ops.batchgemm.int4_grouped_mm(self.x4, self.w4, self.offs, None, "", None, None, None,
                                                    self.s4, None, None, None)
        self.assertLessEqual(runs.call_count, 3)  # the second of the first three may have emptied the table
        graphs = []

        def backend(graph, _):
            graphs.append(str(graph.graph))
            return graph.forward

        compiled = torch.compile(lambda: (self.call(), self.call4()), backend=backend, fullgraph=True)
        self.assertTrue(all(map(torch.equal, compiled(), (self.call(), self.call4()))))
        self.assertTrue("scaled_grouped_mm" in graphs[0] and "int4_grouped_mm" in graphs[0])

    def test_clear(self):
        for call in self.call, self.call4:
            call()
            bt.eager.clear()
            with slow_runs() as runs:
                call()
                call()
            self.assertEqual(runs.call_count, 1)

    def test_programs_are_closed(self):
        """Programs that make room for others, again and again: nothing runs what was closed."""
        kinds = []
        for n in range(6):
            a, b = scales(20), scales(3, 6 + n)
            w = random(E4M3, 3, 8, 6 + n)
            with without_eager():
                kinds.append((w, a, b, scaled_grouped_mm(self.x, w, a, b, self.offs)))
        with mock.patch.object(bp, "KEPT", 3):
            for _ in range(3):
                for w, a, b, want in kinds:
                    for _ in range(3):
                        self.assertTrue(torch.equal(scaled_grouped_mm(self.x, w, a, b, self.offs), want))

    def test_memory_does_not_grow(self):
        a, b = one_array((20,), (3, 6))

        def work():
            for _ in range(1000):
                self.call()
                self.call(scale_x=a, scale_w=b)
                self.call4()

        work()
        before = sys.getallocatedblocks()
        work()
        self.assertLess(sys.getallocatedblocks() - before, 500)


class ScaledNumbersAlone(Alone, test_torch_scaled.ScaledNumbers):
    pass


class BlocksAlone(Alone, test_torch_blocks.Blocks):
    pass


class ZeroPointsAlone(Alone, test_torch_blocks.ZeroPoints):
    pass


class ScaledTorchAlone(Alone, test_torch_scaled.ScaledTorch):
    pass


class Int4NumbersAlone(Alone, test_torch_int4.Int4Numbers):
    pass


class Int4TorchAlone(Alone, test_torch_int4.Int4Torch):
    pass


if __name__ == "__main__":
    unittest.main()
