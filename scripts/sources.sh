#!/bin/sh
# Prints the hashes of the text that products are made of, for sha256sum -c in native/.
# Usage: scripts/sources.sh cuda|hip
set -eu
cd "$(dirname "$0")/../native"
export LC_ALL=C
shared="dialect.h kernels/activation.cuh kernels/gate.cuh kernels/gates.cuh kernels/gemm.cuh kernels/items.cuh kernels/load.cuh
	kernels/quantize.cuh kernels/ragged*.cuh
	kernels/routing.cuh kernels/f64_store.cuh kernels/store.cuh element/* epilogue/epilogue.cuh lists/ragged.inc lists/routing.inc ../scripts/sources.sh"
case $1 in
cuda) own="kernels.cu ptx/* epilogue/wgmma*.cuh kernels/f64.cuh kernels/int4.cuh kernels/tensor*.cuh kernels/wgmma*.cuh
	lists/aligned16.inc lists/f64.inc lists/int4.inc lists/plain.inc lists/tensor*.inc lists/wgmma*.inc ../scripts/cuda.sh" ;;
hip) own="kernels.hip amd/* lists/hip.inc ../scripts/hip.sh" ;;
esac
# shellcheck disable=SC2086 # words are files
sha256sum $shared $own
