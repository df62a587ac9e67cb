#!/bin/sh
# Prints the hashes of the text that products are made of, for sha256sum -c in native/.
# Usage: scripts/sources.sh cuda|hip
set -eu
cd "$(dirname "$0")/../native"
export LC_ALL=C
shared="bounds.cuh dialect.h epilogue.cuh epilogue_items.cuh fixup.cuh gemm.cuh half.cuh items.cuh launch.cuh ragged.cuh ragged_epilogue.cuh
	staged.cuh turn.cuh lists/ragged.inc ../scripts/sources.sh"
case $1 in
cuda) own="dialect_cuda.h fragment.cuh half_cuda.h int4.cuh tensor_cuda.h tensor*.cuh wgmma_cuda.h wgmma*.cuh kernels.cu ../scripts/cuda.sh
	lists/plain.inc lists/tensor.inc lists/wgmma.inc lists/halves.inc lists/*wide*.inc lists/e4m3.inc lists/int*.inc" ;;
hip) own="dialect_hip.h element_hip.cuh half_hip.cuh int4_hip.cuh mfma.cuh mfma_half.cuh steps_hip.cuh kernels.hip lists/hip.inc ../scripts/hip.sh" ;;
esac
# shellcheck disable=SC2086 # words are files
sha256sum $shared $own
