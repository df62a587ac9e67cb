// The kernels of f64.cuh, as warpgroup_kernels.cpp has others.
#include "warpgroup.h"

template <int kBytes>
void copyDoubles(SharedAddress to, const double* from, uint32_t bytes) {
  copyDoubles(to, from, kBytes, bytes);
}
inline double doubleOf(uint32_t high, uint32_t low) {
  return __builtin_bit_cast(double, static_cast<uint64_t>(high) << 32 | low);
}

#include "../../kernels/f64.cuh"

namespace {

#include "lists.h"
#include "../../lists/f64.inc"

}  // namespace

#define BG_NAMES
#include "lists.h"
const WarpgroupKernel kWarpgroupKernels[] = {
#include "../../lists/f64.inc"
    {nullptr, nullptr, 0},
};
