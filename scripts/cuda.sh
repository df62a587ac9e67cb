#!/bin/sh
# Builds the products of native/ for NVIDIA GPUs, and what internal/clocks embeds:
# needs nvcc, no GPU and no Go.
# Usage: scripts/cuda.sh [DIRECTORY [DIRECTORY]]   (default native/products internal/clocks)
set -eu
cd "$(dirname "$0")/../native"
out=${1:-products}
clocks=${2:-../internal/clocks}
mkdir -p "$out" "$clocks"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

flags="-std=c++17 -O3 -Werror all-warnings"
for product in sm_80 sm_80_ragged sm_90a sm_90a_ragged; do
	case $product in *_ragged) part=-DBG_PLANS ;; *) part= ;; esac
	(nvcc $flags -arch="${product%_ragged}" -cubin --split-compile=0 -Xptxas -v $part -o "$work/$product.cubin" kernels.cu 2>"$work/$product.log" ||
		cat "$work/$product.log" >&2) &
done
nvcc $flags -arch=sm_90a -cubin --split-compile=0 -DBG_CLOCKS -o "$work/sm_90a_clocks.cubin" kernels.cu &
nvcc $flags -arch=compute_80 -ptx -DBG_PLANS -o "$work/compute_80_ragged.ptx" kernels.cu &
nvcc $flags -arch=compute_80 -ptx -o "$work/compute_80.ptx" kernels.cu
wait
products="compute_80.ptx compute_80_ragged.ptx sm_80.cubin sm_80_ragged.cubin sm_90a.cubin sm_90a_ragged.cubin"
(cd "$work" && ls $products sm_90a_clocks.cubin) >/dev/null # stops when one is missing

# Nothing is loaded before a kernel of 9.0 has waited for the launch in front of it.
cuobjdump -sass "$work/sm_90a.cubin" | awk '
	/Function :/ { name = $3; waited = 0 }
	/ACQBULK/ { waited = 1; waits++ }
	/ (LDG|LDGSTS|LD|STG|ST|ATOM|ATOMG|RED|REDG|UTMALDG|UBLKCP)[. ]/ && !waited { print name " loads before it waits:" $0; failed = 1 }
	END { exit failed || !waits }' >&2

# The text uses nothing newer than PTX 7.0, the first version that knows sm_80, so
# that drivers of CUDA 11 on load it. The pragma is a hint of newer compilers.
sed -i -e 's/^\.version .*/.version 7.0/' -e '/\.pragma "used_bytes_mask/d' "$work"/compute_80*.ptx

# What each kernel takes: product, kernel, registers, bytes of shared memory, bytes spilled.
for product in sm_80 sm_80_ragged sm_90a sm_90a_ragged; do
	awk -v product=$product '
		/Function properties for/ { name = $NF }
		/spill stores/ { spills = $5 + $9 }
		/Used .* registers/ {
			shared = 0
			for (i = 1; i < NF; i++) { if ($i == "Used") registers = $(i+1); if ($(i+1) == "bytes" && $(i+2) ~ /^smem/) shared = $i }
			printf "%s\t%s\t%d\t%d\t%d\n", product, name, registers, shared, spills
		}' "$work/$product.log"
done | LC_ALL=C sort >"$out/resources.tsv"

for f in $products; do
	gzip -9 -n -c "$work/$f" >"$out/$f.gz"
done
gzip -9 -n -c "$work/sm_90a_clocks.cubin" >"$clocks/sm_90a_clocks.cubin.gz"
{
	nvcc --version | sed -n 's/^Cuda compilation tools, /# nvcc /p'
	sha256sum dialect_cuda.h epilogue.cuh epilogue_items.cuh gemm.cuh items.cuh bounds.cuh ragged.cuh ragged_epilogue.cuh fixup.cuh fragment.cuh half.cuh half_cuda.h tensor_cuda.h tensor*.cuh wgmma_cuda.h wgmma*.cuh kernels.cu tiles.inc ../scripts/cuda.sh
	(cd "$out" && sha256sum $(printf "%s.gz " $products) resources.tsv) | sed 's|  |  products/|'
	(cd "$clocks" && sha256sum sm_90a_clocks.cubin.gz) | sed 's|  |  ../internal/clocks/|'
} >"$out/MANIFEST" # for sha256sum -c in native/
