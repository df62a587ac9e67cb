"""Tests of batchgemm.torch on tensors of float64."""

import unittest

try:
    import torch
except ImportError as missing:
    raise unittest.SkipTest(f"no PyTorch: {missing}")

from batchgemm.torch import grouped_mm, matmul_list


def numbers(*shape):
    return torch.rand(*shape, dtype=torch.float64, requires_grad=True)


class Doubles(unittest.TestCase):
    def close(self, got, want):
        self.assertEqual(got.dtype, torch.float64)
        torch.testing.assert_close(got, want, rtol=1e-13, atol=1e-13)

    def test_gradients(self):
        offs = torch.tensor([4, 9], dtype=torch.int32)
        for activation, of in ("", torch.nn.Identity()), ("gelu", torch.nn.GELU(approximate="tanh")):
            x, w, bias = numbers(9, 6), numbers(2, 6, 5), numbers(2, 5)
            y = grouped_mm(x, w, offs=offs, bias=bias, activation=activation)
            want = torch.cat([of(x[:4] @ w[0] + bias[0]), of(x[4:] @ w[1] + bias[1])])
            self.close(y, want)
            gy = torch.rand_like(y)
            for got, expected in zip(torch.autograd.grad(y, (x, w, bias), gy),
                                     torch.autograd.grad(want, (x, w, bias), gy)):
                self.close(got, expected)

    def test_gradcheck(self):
        offs = torch.tensor([2, 5], dtype=torch.int32)
        self.assertTrue(torch.autograd.gradcheck(lambda x, w: grouped_mm(x, w, offs=offs),
                                                 (numbers(5, 3), numbers(2, 3, 4))))

    def test_list(self):
        xs, ws = [numbers(3, 4), numbers(7, 2)], [numbers(4, 5), numbers(2, 1)]
        for y, x, w in zip(matmul_list(xs, ws), xs, ws):
            self.close(y, x @ w)

    def test_out_dtype(self):
        offs = torch.tensor([2], dtype=torch.int32)
        with self.assertRaisesRegex(TypeError, "float32: it must be that of x, torch.float64"):
            grouped_mm(numbers(2, 3), numbers(1, 3, 4), offs=offs, out_dtype=torch.float32)


if __name__ == "__main__":
    unittest.main()
