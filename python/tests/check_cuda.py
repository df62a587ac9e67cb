"""What needs a GPU: the tests of test_torch*.py on CUDA tensors, and those of cuda_*.py.

    PYTHONPATH=python python3 python/tests/check_cuda.py
"""

import unittest

import torch

# unittest runs the tests of all these
from cuda_eager import EagerOnStreams
from cuda_experts import ExpertsCuda
from cuda_products import Cuda, Int4Cuda, ScaledCuda
from cuda_refused import Refused
from test_torch import Gradients, Numbers
from test_torch_blocks import Blocks, ZeroPoints
from test_torch_eager import Eager, GradientsAlone, NumbersAlone, TorchAlone
from test_torch_eager_scales import (EagerScales, Int4NumbersAlone, Int4TorchAlone, ScaledNumbersAlone,
                                     ScaledTorchAlone)
from test_torch_ends import Check, CheckAlone, Fill, FillAlone
from test_torch_experts import Gradients as ExpertsGradients, Numbers as ExpertsNumbers
from test_torch_experts_calls import Mistakes, Modules, Routes, Watched
from test_torch_func import Transformations, TransformationsAlone
from test_torch_int4 import Int4Numbers, Int4Torch
from test_torch_invariant import Invariant
from test_torch_main_grad import MainGrad
from test_torch_operators import Programs, Torch
from test_torch_scaled import ScaledNumbers, ScaledTorch

if not torch.cuda.is_available():
    raise SystemExit("no GPU that PyTorch can use")
torch.set_default_device("cuda")


if __name__ == "__main__":
    unittest.main()
