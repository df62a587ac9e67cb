// The kernels of wgmma.cuh, and the fix-ups of their tiles, as functions of the CPU. This
// file is compiled with -fsanitize=thread, so that warpgroup.cpp is called for each load
// and store.
#include "warpgroup.h"

#include "../../gemm.cuh"
#include "../../half.cuh"
#include "../../fragment.cuh"
#include "../../tensor.cuh"
#include "../../wgmma_operand.cuh"
#include "../../wgmma_items.cuh"
#include "../../wgmma_store.cuh"
#include "../../wgmma.cuh"
#include "../../wgmma_half.cuh"

namespace {

#define BG_TILE(...)
#define BG_TENSOR(...)
#define BG_TENSOR_HALVES(...)
#define BG_WGMMA_WIDE(...)
#define BG_TENSOR_CLUSTER(...)
#define BG_WGMMA(name, ...)                            \
  using name = WgmmaTile<__VA_ARGS__, true>;           \
  using name##_tf32 = WgmmaTile<__VA_ARGS__, false>;   \
  using name##_bf16 = WgmmaTile<__VA_ARGS__, false, Halves<BF16>>; \
  using name##_f16 = WgmmaTile<__VA_ARGS__, false, Halves<F16>>;
#include "../../tiles.inc"
#undef BG_WGMMA

template <class T, class Element = Floats>
void fixupOf(const uint4* items, const uint32_t*, const float*, const float*, float* C, float* workspace) {
  fixup<T, Element>(items, C, workspace);
}

}  // namespace

#define BG_MODE(name, mode, suffix, inTurn)                                                            \
  {"bg_" #name "_nn" #mode #suffix, wgmmaGemm<name##mode, false, false, inTurn>, name::kMinGroups},    \
  {"bg_" #name "_nt" #mode #suffix, wgmmaGemm<name##mode, false, true, inTurn>, name::kMinGroups},     \
  {"bg_" #name "_tn" #mode #suffix, wgmmaGemm<name##mode, true, false, inTurn>, name::kMinGroups},     \
  {"bg_" #name "_tt" #mode #suffix, wgmmaGemm<name##mode, true, true, inTurn>, name::kMinGroups},
#define BG_WGMMA(name, ...)            \
  BG_MODE(name, , , false)             \
  BG_MODE(name, _tf32, , false)        \
  BG_MODE(name, , _turn, true)         \
  BG_MODE(name, _tf32, _turn, true)    \
  {"bg_" #name "_fixup", fixupOf<name>, 1},                     \
  BG_MODE(name, _bf16, , false)                                 \
  BG_MODE(name, _f16, , false)                                  \
  BG_MODE(name, _bf16, _turn, true)                             \
  BG_MODE(name, _f16, _turn, true)                              \
  {"bg_" #name "_fixup_bf16", fixupOf<name, Halves<BF16>>, 1},  \
  {"bg_" #name "_fixup_f16", fixupOf<name, Halves<F16>>, 1},

const WarpgroupKernel kWarpgroupKernels[] = {
#include "../../tiles.inc"
    {nullptr, nullptr, 0},
};
