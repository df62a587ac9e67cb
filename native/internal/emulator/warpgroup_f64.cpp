// The kernels of f64.cuh, as warpgroup_kernels.cpp has others.
#include "warpgroup.h"

template <int kBytes>
void copyDoubles(SharedAddress to, const double* from, uint32_t bytes) {
  copyDoubles(to, from, kBytes, bytes);
}
template <int kBytes>
void copyNext(uint32_t i, uint32_t copies, SharedAddress& to, const double*& from, uint32_t bytes,
    SharedAddress between, uint64_t further) {
  if (i < copies) copyDoubles<kBytes>(to, from, bytes);
  to += between;
  from += further / sizeof *from;
}
inline void copyEither(uint32_t i, uint32_t lines, uint32_t doubles, SharedAddress& to, const double*& from,
    SharedAddress between, uint64_t further) {
  if (i < lines) copyDoubles<16>(to, from, 16);
  if (i < doubles) copyDoubles<8>(to, from, 8);
  to += between;
  from += further / sizeof *from;
}
#include "../../kernels/f64_boxes.cuh"

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
