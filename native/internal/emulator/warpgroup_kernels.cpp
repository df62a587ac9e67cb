// The kernels of wgmma.cuh, and the fix-ups of their tiles, as functions of the CPU. This
// file is compiled with -fsanitize=thread, so that warpgroup.cpp is called for each load
// and store.
#include "warpgroup.h"

#include "../../kernels/wgmma_aligned.cuh"
#include "../../kernels/wgmma_boxes.cuh"
#include "../../kernels/wgmma_raw.cuh"

namespace {

using BytesE4M3 = Bytes<E4M3, BF16, F16>;
using BytesInt8 = Bytes<Int8, BF16, F16>;

#include "lists.h"
#include "../../lists/wgmma.inc"
#include "../../lists/wgmma16.inc"
#include "../../lists/aligned16.inc"
#include "../../lists/wgmma_boxes.inc"
#include "../../lists/wgmma_e4m3.inc"
#include "../../lists/wgmma_int8.inc"

}  // namespace

#define BG_NAMES
#include "lists.h"
const WarpgroupKernel kWarpgroupKernels[] = {
#include "../../lists/wgmma.inc"
#include "../../lists/wgmma16.inc"
#include "../../lists/aligned16.inc"
#include "../../lists/wgmma_boxes.inc"
#include "../../lists/wgmma_e4m3.inc"
#include "../../lists/wgmma_int8.inc"
    {nullptr, nullptr, 0},
};
