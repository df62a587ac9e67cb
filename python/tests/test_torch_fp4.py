"""Tests of layers of experts with weights of MXFP4 and NVFP4, as checkpoints hold them."""

import unittest

try:
    import torch

    from batchgemm.torch import experts, pack_fp4, unpack_fp4
except ImportError:
    raise unittest.SkipTest("PyTorch is not installed")

E2M1 = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])
SHARED = {"mxfp4": 32, "nvfp4": 16}


def drawn(type, experts, n, k):
    """A checkpoint's tensors, and the numbers that they stand for."""
    pairs = torch.randint(0, 256, (experts, n, k // 32, 16), dtype=torch.uint8)
    exponents = torch.randint(118, 124, (experts, n, k // SHARED[type]))
    scales, factors, scale = exponents.to(torch.uint8), 2.0 ** (exponents - 127), torch.ones(experts)
    if type == "nvfp4":
        scales, scale = (2.0 ** (exponents - 123)).to(torch.float8_e4m3fn), torch.rand(experts) / 8
        factors = scales.float() * scale[:, None, None]
    weights = E2M1[torch.stack([pairs & 15, pairs >> 4], -1).long()].reshape(experts, n, k)
    return (pairs, scales, scale), weights * factors.repeat_interleave(SHARED[type], -1)


class Layer(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(1)

    def test_layer(self):
        """GPT-OSS's: gate and up in turn, biases, and a clamped activation."""
        count, hidden, inner, tokens = 4, 192, 64, 11
        for type in SHARED:
            for dtype in torch.bfloat16, torch.float16:
                gate_up, first = drawn(type, count, 2 * inner, hidden)
                down, second = drawn(type, count, hidden, inner)
                (w, scale_w), (v, scale_v) = pack_fp4(type, *gate_up), pack_fp4(type, *down)
                x = torch.randn(tokens, hidden).to(dtype)
                index, weights = torch.randint(-1, count, (tokens, 2)), torch.rand(tokens, 2).to(dtype)
                biases = torch.randn(count, 2 * inner).to(dtype) / 4, torch.randn(count, hidden).to(dtype) / 4
                y = experts(x, w, v, index, weights, activation="swiglu_oai", layout="interleaved",
                            gate_up_bias=biases[0], down_bias=biases[1], scale_gate_up=scale_w,
                            scale_down=scale_v)
                want = torch.zeros(tokens, hidden, dtype=torch.float64)
                for t in range(tokens):
                    for j in range(2):
                        if (e := index[t, j].item()) < 0:
                            continue
                        z = (first[e].double() @ x[t].double() + biases[0][e].double()).to(dtype).double()
                        g, u = z[::2].clamp(max=7), z[1::2].clamp(-7, 7)
                        h = (g * torch.sigmoid(1.702 * g) * (u + 1)).to(dtype).double()
                        want[t] += weights[t, j].double() * (second[e].double() @ h + biases[1][e].double())
                self.assertEqual(y.dtype, dtype)
                self.assertLess((y.double() - want).abs().max(), 0.02 * want.abs().max(), f"{type} {dtype}")

    def test_types(self):
        for type in SHARED:
            (pairs, scales, scale), _ = drawn(type, 3, 9, 128)
            w, scale_w = pack_fp4(type, pairs, scales, scale)
            self.assertEqual((w.dtype, w.shape), (torch.int32, (3, 2, 16, 8)))
            self.assertEqual(scale_w.dtype, {"mxfp4": torch.uint8, "nvfp4": torch.float8_e4m3fn}[type])
            again = pack_fp4(type, pairs.flatten(-2), scales.view(torch.uint8), scale)
            self.assertTrue(torch.equal(again[0], w))
            self.assertTrue(torch.equal(again[1].view(torch.uint8), scale_w.view(torch.uint8)))
            back = unpack_fp4(type, w, scale_w, 9)
            self.assertEqual(back[1].dtype, scale_w.dtype)
            self.assertTrue(torch.equal(back[0], pairs.flatten(-2)) and torch.equal(back[2], scale))
            self.assertTrue(torch.equal(back[1].view(torch.uint8), scales.view(torch.uint8)))

    def test_refuses(self):
        (pairs, scales, _), _ = drawn("mxfp4", 2, 128, 128)
        w, scale_w = pack_fp4("mxfp4", pairs, scales)
        x, index = torch.randn(3, 128).bfloat16(), torch.zeros(3, 1, dtype=torch.int64)
        weights = torch.ones(3, 1)
        with self.assertRaisesRegex(ValueError, "the scale of gate_up has the shape .*: of mxfp4 it must be"):
            experts(x, w, w, index, weights, layout="ungated", scale_gate_up=scale_w[:, :, :4],
                    scale_down=scale_w)
        with self.assertRaisesRegex(TypeError, "scales must be a tensor of bytes"):
            pack_fp4("mxfp4", pairs, scales.float())
        with self.assertRaisesRegex(ValueError, "scale_w is"):
            unpack_fp4("nvfp4", w, scale_w, 128)
        with self.assertRaisesRegex(ValueError, "at least n"):
            unpack_fp4("mxfp4", w, scale_w, 129)


if __name__ == "__main__":
    unittest.main()
