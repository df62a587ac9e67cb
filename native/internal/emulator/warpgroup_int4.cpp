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

#define BG_TYPES(name, Tile, ...)                  \
  using name##_bf16 = Tile<__VA_ARGS__, Halves<BF16>>; \
  using name##_f16 = Tile<__VA_ARGS__, Halves<F16>>;
#define BG_STREAM_INT4(name, ...) BG_TYPES(name, StreamTile, __VA_ARGS__)
#define BG_PANEL_INT4(name, ...) BG_TYPES(name, PanelTile, __VA_ARGS__)
#include "tiles.h"
#include "../../tiles.inc"
#undef BG_STREAM_INT4
#undef BG_PANEL_INT4

#define BG_KERNEL_OF(name, of)                                                                                                             \
  template <class T, bool kInTurn>                                                                                                         \
  void name(const uint4* items, const uint32_t* table, const float* A, const float* B, float* C, float* workspace, const void* B2, const void* bias, \
            const uint32_t* rows, uint32_t flags) {                                                                                        \
    of<T, kInTurn>(items, table, A, B, C, workspace, Epilogue{B2, bias, rows, flags});                                                     \
  }
BG_KERNEL_OF(streamOf, streamGemm)
BG_KERNEL_OF(panelOf, panelGemm)

template <class T, class Element, class More>
void fixupOf(const uint4* items, const uint32_t*, const float*, const float*, float* C, float* workspace, const void*, const void* bias, const uint32_t* rows, uint32_t flags) {
  if constexpr (More::kIs) fixup<T, Element, Epilogue>(items, C, workspace, Epilogue{nullptr, bias, rows, flags});
  else fixup<T, Element>(items, C, workspace);
}

}  // namespace

#define BG_OF(name, type, function)                                                                                    \
  {"bg_" #name "_nn_" #type "_e", function<name##_##type, false>, name##_##type::kMinGroups},                          \
  {"bg_" #name "_nn_" #type "_turn_e", function<name##_##type, true>, name##_##type::kMinGroups},                      \
  {"bg_" #name "_fixup_" #type, fixupOf<name##_##type, name##_##type::Element, NoEpilogue>, 1},                        \
  {"bg_" #name "_fixup_" #type "_e", fixupOf<name##_##type, name##_##type::Element, Epilogue>, 1},
#define BG_ALL(name, function)                                                                                         \
  BG_OF(name, bf16, function)                                                                                          \
  BG_OF(name, f16, function)                                                                                           \
  {"bg_" #name "_fixup", fixupOf<name##_bf16, Floats, NoEpilogue>, 1},                                                 \
  {"bg_" #name "_fixup_e", fixupOf<name##_bf16, Floats, Epilogue>, 1},
#define BG_STREAM_INT4(name, ...) BG_ALL(name, streamOf)
#define BG_PANEL_INT4(name, ...) BG_ALL(name, panelOf)

const WarpgroupKernel kWarpgroupKernels[] = {
#include "../../tiles.inc"
    {nullptr, nullptr, 0},
};
