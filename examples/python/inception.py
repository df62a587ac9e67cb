"""The branches of Inception modules: one batch of batchgemm beside the convolutions
of cuDNN, through PyTorch, on the same tensors.

A 1x1 convolution of an image stored by pixels (PyTorch's channels_last) is a product
of the image as it lies, pixels x channels, with the weights as they lie, filters x
channels, transposed: no im2col and no copy. The branches of a module have the same
image but their own filters; batchgemm computes them as one batch. The sizes are those
of the command's workloads inception-1 to inception-9.

    python3 inception.py > inception.json              on a GPU
    python3 inception.py --cpu inception-8             tries the program without one

Methods: batchgemm, batchgemm-f32, batchgemm-tf32 (the compute modes); cudnn (fp32, one
convolution a branch), cudnn-nchw (the same on images stored by channels),
cudnn-streams (a stream a branch), cudnn-joined (all filters as one convolution, which
needs an image common to all), cudnn-tf32 (PyTorch's default precision of
convolutions). Timed: "graph", a copy of many in a CUDA graph, and "calls", back to back
from Python. Times are medians in microseconds; errors are the largest against
float64, as parts of sum|a||b|.
"""

import argparse
import contextlib
import json
import math
import os
import statistics
import subprocess
import sys
import time

import torch
from torch.nn.functional import conv2d

import batchgemm

COPIES, SAMPLES, WARM_UP = 20, 15, 0.3  # an idle H200 needs some 0.2 s to reach its clock


def sizes(workload):
    """M, N, K of a workload's problems, as the command tells them."""
    here = os.path.dirname(os.path.abspath(__file__))
    command = os.environ.get("BATCHGEMM") or os.path.join(here, "..", "..", "bin", "batchgemm")
    text = subprocess.run([command, "plan", workload, "--device", "h200", "--json"], check=True,
                          stdout=subprocess.PIPE).stdout
    return [(p["m"], p["n"], p["k"]) for p in json.loads(text)["problems"]]


class Module:
    """An image, the filters of all branches, and room for our results."""

    def __init__(self, problems, where):
        (self.pixels, _, self.channels), side = problems[0], math.isqrt(problems[0][0])
        assert side * side == self.pixels
        assert all((m, k) == (self.pixels, self.channels) for m, _, k in problems)
        self.filters = [n for _, n, _ in problems]
        self.matrix = torch.empty(self.pixels, self.channels).uniform_(-1, 1).to(where)
        # channels_last, no copy
        self.image = self.matrix.view(1, side, side, self.channels).permute(0, 3, 1, 2)
        self.planes = self.image.contiguous()
        self.weights = torch.empty(sum(self.filters), self.channels).uniform_(-1, 1).to(where)
        self.kernels = [w.view(*w.shape, 1, 1) for w in self.weights.split(self.filters)]
        self.joined = self.weights.view(*self.weights.shape, 1, 1)
        self.y = torch.full((self.pixels * sum(self.filters),), math.nan, device=where)

    def problems(self):
        batch, first = [], 0
        for n in self.filters:
            batch.append(batchgemm.problem(self.pixels, n, self.channels, b=first * self.channels,
                                           c=first * self.pixels, trans_b=True))
            first += n
        return batch

    def ours(self):
        """Our results as pixels x filters, all branches side by side."""
        parts = self.y.split([self.pixels * n for n in self.filters])
        return torch.cat([part.view(self.pixels, -1) for part in parts], 1)

    def theirs(self, outputs):
        return torch.cat([y.permute(0, 2, 3, 1).reshape(self.pixels, -1) for y in outputs], 1)

    def error(self, y):
        a, b = self.matrix.double(), self.weights.double().t()
        return ((y.double() - a @ b).abs() / (a.abs() @ b.abs())).max().item()


class CPU:
    """Stands for a GPU where there is none: no streams, no graphs."""

    where, timed = "cpu", {"calls": lambda run: lambda: wall(run)}
    name, stream = "cpu", staticmethod(contextlib.nullcontext)

    def __init__(self):
        self.device = batchgemm.open("cpu")

    def buffers(self, module):
        buffers = [self.device.buffer(t.numel()) for t in (module.matrix, module.weights, module.y)]
        for buffer, t in zip(buffers, (module.matrix, module.weights)):
            buffer.write(t.numpy())
        return buffers

    def finish(self, module, c):
        c.read(module.y.numpy())

    def wait(self):
        pass


class GPU:
    where = "cuda"

    def __init__(self):
        self.timed = {"graph": graph,
                      "calls": lambda run: lambda: events(lambda: [run() for _ in range(COPIES)])}
        self.name = torch.cuda.get_device_name()
        self.queue = torch.cuda.Stream()
        with batchgemm.open("cuda", torch.cuda.current_device()) as device:
            self.device = device.on_stream(self.queue.cuda_stream)

    def stream(self):
        return torch.cuda.stream(self.queue)

    def buffers(self, module):
        return [self.device.wrap(t.data_ptr(), t.numel()) for t in (module.matrix, module.weights, module.y)]

    def finish(self, module, c):
        pass

    def wait(self):
        torch.cuda.synchronize()


def wall(run):
    start = time.perf_counter()
    run()
    return 1e6 * (time.perf_counter() - start)


def events(run):
    """Microseconds of one of COPIES, which run queues on the current stream. A first
    call is not counted: the device is busy while the second is queued."""
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    run()
    start.record()
    run()
    end.record()
    end.synchronize()
    return 1e3 * start.elapsed_time(end) / COPIES


def graph(run):
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured, stream=torch.cuda.current_stream()):
        for _ in range(COPIES):
            run()  # outputs are freed, so that all copies write to the same memory, as ours do
    return lambda: events(captured.replay)


class Method:
    """A way to compute a module. run queues one execution, results returns those of one.
    tf32: whether convolutions may round their operands to 11 bits."""

    def __init__(self, run, results, tf32=False):
        self.run, self.results, self.tf32 = run, results, tf32

    def set_precision(self):
        torch.backends.cudnn.allow_tf32 = self.tf32


def ours(gpu, module, compute):
    with gpu.device.plan(module.problems(), compute=compute) as plan:
        program = gpu.device.prepare(plan)
    a, b, c = gpu.buffers(module)

    def results():
        module.y.fill_(math.nan)
        program.run(a, b, c)
        gpu.finish(module, c)
        return module.ours()

    return Method(lambda: program.run(a, b, c), results, compute == "tf32")


def theirs(module, image, kernels, tf32=False):
    def run():
        return [conv2d(image, k) for k in kernels]

    return Method(run, lambda: module.theirs(run()), tf32)


def streams(module):
    """A stream for each branch, between the current stream's work before and after."""
    side = [torch.cuda.Stream() for _ in module.kernels]

    def run():
        current, out = torch.cuda.current_stream(), []
        for stream, kernel in zip(side, module.kernels):
            stream.wait_stream(current)
            with torch.cuda.stream(stream):
                out.append(conv2d(module.image, kernel))
        for stream in side:
            current.wait_stream(stream)
        return out

    return Method(run, lambda: module.theirs(run()))


def methods(gpu, module):
    found = {
        "batchgemm": ours(gpu, module, "f32-emulated"),
        "batchgemm-f32": ours(gpu, module, "f32"),
        "batchgemm-tf32": ours(gpu, module, "tf32"),
        "cudnn": theirs(module, module.image, module.kernels),
        "cudnn-nchw": theirs(module, module.planes, module.kernels),
        "cudnn-joined": theirs(module, module.image, [module.joined]),
        "cudnn-tf32": theirs(module, module.image, module.kernels, tf32=True),
    }
    if gpu.where == "cuda":
        found["cudnn-streams"] = streams(module)
    return found


def measure(gpu, workload):
    module = Module(sizes(workload), gpu.where)
    rows, samplers = [], []
    for name, method in methods(gpu, module).items():
        method.set_precision()
        error = module.error(method.results())
        bound = 2 * (module.channels + 2) * 2.0 ** (-11 if method.tf32 else -24)
        if name.startswith("batchgemm") and not error <= bound:
            raise SystemExit(f"{workload}: {name}: error {error:.3g} of sum|a||b| is above {bound:.3g}")
        for _ in range(3):
            method.run()  # cuDNN chooses its algorithm, which a graph cannot
        gpu.wait()
        for timed, sampler in gpu.timed.items():
            rows.append({"workload": workload, "method": name, "timed": timed, "error": error})
            samplers.append((method, sampler(method.run), []))
    began = time.monotonic()
    while time.monotonic() - began < WARM_UP:
        samplers[0][1]()
    for _ in range(SAMPLES):  # in turn, so that a change of clock rates meets all
        for method, sample, times in samplers:
            method.set_precision()
            times.append(sample())
    for row, (_, _, times) in zip(rows, samplers):
        row["micros"] = statistics.median(times)
    return rows


def main():
    arguments = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    arguments.add_argument("--cpu", action="store_true", help="try the program without a GPU")
    arguments.add_argument("workloads", nargs="*", default=[f"inception-{i}" for i in range(1, 10)])
    options = arguments.parse_args()
    torch.manual_seed(1)
    torch.backends.cudnn.benchmark = True
    torch.set_grad_enabled(False)
    gpu = CPU() if options.cpu else GPU()
    with gpu.stream():
        rows = [row for workload in options.workloads for row in measure(gpu, workload)]
    gpu.wait()
    versions = {"device": gpu.name, "torch": torch.__version__, "cudnn": torch.backends.cudnn.version()}
    json.dump({**versions, "rows": rows}, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
