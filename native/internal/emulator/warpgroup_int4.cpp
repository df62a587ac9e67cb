// The kernels of wgmma_int4.cuh, as warpgroup_kernels.cpp has others.
#include "warpgroup.h"

#include "../../kernels/gemm.cuh"
#include "../../kernels/fixup.cuh"
#include "../../epilogue/epilogue.cuh"
#include "../../element/bits16.cuh"
#include "../../ptx/fragment.cuh"
#include "../../kernels/tensor.cuh"
#include "../../kernels/int4.cuh"
#include "../../kernels/wgmma_operand.cuh"
#include "../../kernels/wgmma_items.cuh"
#include "../../kernels/wgmma_store.cuh"
#include "../../epilogue/wgmma_epilogue.cuh"
#include "../../kernels/wgmma_tile.cuh"
#include "../../kernels/wgmma.cuh"
#include "../../kernels/wgmma_int4.cuh"

namespace {

#include "lists.h"
#include "../../lists/int4.inc"

}  // namespace

#define BG_NAMES
#include "lists.h"
const WarpgroupKernel kWarpgroupKernels[] = {
#include "../../lists/int4.inc"
    {nullptr, nullptr, 0},
};
