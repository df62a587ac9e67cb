// The kernels of wgmma_int4.cuh, as warpgroup_kernels.cpp has others.
#include "warpgroup.h"

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
