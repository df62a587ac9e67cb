// The kernels of wgmma.cuh, and the fix-ups of their tiles, as functions of the CPU. This
// file is compiled with -fsanitize=thread, so that warpgroup.cpp is called for each load
// and store.
#include "warpgroup.h"

#include "../../kernels/gemm.cuh"
#include "../../kernels/fixup.cuh"
#include "../../epilogue/epilogue.cuh"
#include "../../element/half.cuh"
#include "../../ptx/fragment.cuh"
#include "../../kernels/tensor.cuh"
#include "../../kernels/wgmma_operand.cuh"
#include "../../kernels/wgmma_items.cuh"
#include "../../kernels/wgmma_store.cuh"
#include "../../epilogue/wgmma_epilogue.cuh"
#include "../../kernels/wgmma_exchanged.cuh"
#include "../../kernels/wgmma_tile.cuh"
#include "../../kernels/wgmma.cuh"
#include "../../kernels/wgmma_half.cuh"
#include "../../kernels/wgmma_wide.cuh"
#include "../../kernels/wgmma_bytes.cuh"

namespace {

using BytesE4M3 = Bytes<E4M3, BF16, F16>;
using BytesInt8 = Bytes<Int8, BF16, F16>;

#include "lists.h"
#include "../../lists/wgmma.inc"
#include "../../lists/halves.inc"
#include "../../lists/wide.inc"
#include "../../lists/wide_e4m3.inc"
#include "../../lists/wide_int8.inc"

}  // namespace

#define BG_NAMES
#include "lists.h"
const WarpgroupKernel kWarpgroupKernels[] = {
#include "../../lists/wgmma.inc"
#include "../../lists/halves.inc"
#include "../../lists/wide.inc"
#include "../../lists/wide_e4m3.inc"
#include "../../lists/wide_int8.inc"
    {nullptr, nullptr, 0},
};
