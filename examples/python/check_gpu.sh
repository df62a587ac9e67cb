#!/bin/sh
# Checks the C library where there are GPUs and PyTorch; needs no Go.
# Usage: examples/python/check_gpu.sh [DIRECTORY]   (where libbatchgemm.so, batchgemm.h and, if built, _eager.abi3.so are,
# default bin)
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
bin=$(cd "${1:-$root/bin}" && pwd)
export BATCHGEMM_LIBRARY="$bin/libbatchgemm.so" PYTHONDONTWRITEBYTECODE=1 PYTHONPATH="$root/python"
cd "$here"

echo "== Python on the CPU backend"
python3 -m unittest discover "$root/python/tests"
echo "== PyTorch's operators on CUDA tensors"
python3 "$root/python/tests/check_cuda.py"

if command -v cc >/dev/null; then
	echo "== a stream and memory of a C program"
	work=$(mktemp -d)
	trap 'rm -rf "$work"' EXIT
	cc -std=c99 -O1 -I"$bin" -o "$work/stream" "$root/capi/testdata/stream.c" -L"$bin" -lbatchgemm -lm -ldl -Wl,-rpath,"$bin"
	"$work/stream"
else
	echo "== no C compiler: the C program is left out"
fi

gpus=$(python3 -c 'import torch; print(torch.cuda.device_count())')
echo "== PyTorch on one of $gpus GPUs"
python3 torch_moe.py
python3 torch_moe_train.py
python3 torch_moe_train.py --bf16
if [ "$gpus" -ge 2 ]; then
	echo "== PyTorch on two GPUs, a process each"
	for example in torch_moe.py torch_moe_train.py "torch_moe_train.py --bf16"; do
		python3 -m torch.distributed.run --standalone --nproc_per_node=2 $example
	done
fi
echo "== ok"
