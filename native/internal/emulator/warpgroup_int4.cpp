// The kernels of wgmma_int4.cuh, as warpgroup_kernels.cpp has others.
#include "warpgroup.h"

#include "../../gemm.cuh"
#include "../../fixup.cuh"
#include "../../epilogue.cuh"
#include "../../half.cuh"
#include "../../fragment.cuh"
#include "../../tensor.cuh"
#include "../../int4.cuh"
#include "../../wgmma_operand.cuh"
#include "../../wgmma_items.cuh"
#include "../../wgmma_store.cuh"
#include "../../wgmma_epilogue.cuh"
#include "../../wgmma_exchanged.cuh"
#include "../../wgmma_tile.cuh"
#include "../../wgmma.cuh"
#include "../../wgmma_int4.cuh"

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
