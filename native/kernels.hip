// All kernels for AMD GPUs. scripts/hip.sh builds the products from here. lists/ has them, a line each: go
// generate ./native writes them from native/internal/kernels/list.go. What follows makes a kernel of a line.
#include "amd/steps_hip.cuh"
#include "kernels/quantize.cuh"
#include "kernels/ragged.cuh"
#include "kernels/routing.cuh"
#ifdef BG_HAS_MFMA
#include "amd/f64_hip.cuh"
#include "amd/mfma.cuh"
#endif

#define BG_TILE(name, ...) using name = __VA_ARGS__;

#define BG_PARAMETERS                                                                       \
  const uint4 *items, const uint32_t *table, const float *A, const float *B, float *C, float *workspace
#define BG_EPILOGUE_PARAMETERS                                                              \
  BG_PARAMETERS, const void *B2, const void *bias, const uint32_t *rows, uint64_t flags

// BG_GEMM makes a kernel of a tile by a function template.
#define BG_GEMM(name, tile, function, ...)                                                          \
  BG_KERNEL(tile::kThreads, tile::kMinGroups) void name(BG_PARAMETERS) {                            \
    function<tile, __VA_ARGS__>(items, table, A, B, C, workspace);                                  \
  }
#define BG_FIXUP(name, tile, Element)                                                               \
  BG_KERNEL(kFixupThreads, 1)                                                                       \
  void name(const uint4* items, const uint32_t*, const float*, const float*, float* C, float* workspace) { \
    fixup<tile, Element>(items, C, workspace);                                                      \
  }
// BG_RAGGED makes one that makes items.
#define BG_RAGGED(name, form, plan)                                                                 \
  BG_KERNEL(plan::kThreads, 1)                                                                      \
  void name(const uint4*, const uint32_t* sizes, uint64_t extent, uint64_t both, uint32_t* other,   \
            uint32_t* words) {                                                                      \
    ragged<form, plan, false>(sizes, extent, both, other, words, 0);                                \
  }
// BG_LAYER makes one of a step of a layer of experts. Numbers are in the place of B and B2, the extent in
// that of an epilogue's flags.
#define BG_LAYER(name, threads, function, ...)                                                      \
  BG_KERNEL(threads, 1)                                                                             \
  void name(const uint4*, const void* index, const void* A, uint64_t shape, void* C, float*,         \
            uint64_t number, const void*, const uint32_t*, uint64_t extent) {                        \
    function<__VA_ARGS__>(index, A, shape, static_cast<uint32_t>(number), extent, C);                \
  }
// BG_GATE makes one of what is between the products of such a layer.
#define BG_GATE(name, function, ...)                                                                \
  BG_KERNEL(kGateThreads, 1)                                                                        \
  void name(const uint4* words, uint32_t* sizes, const void* A, const void* B, void* C, float*,      \
            uint64_t shape, const void*, const void* index, uint64_t how) {                          \
    function<__VA_ARGS__>({reinterpret_cast<const uint32_t*>(words), sizes, index, A, B, C, shape, how}); \
  }

// The same with an epilogue. On gfx908, two waves of a SIMD leave too few registers for some.
#ifdef __gfx908__
#define BG_WAVES(tile) 1
#else
#define BG_WAVES(tile) tile::kMinGroups
#endif
#define BG_EPILOGUE_GEMM(name, tile, function, ...)                                                 \
  BG_KERNEL(tile::kThreads, BG_WAVES(tile)) void name(BG_EPILOGUE_PARAMETERS) {                     \
    function<tile __VA_OPT__(, ) __VA_ARGS__>(items, table, A, B, C, workspace,                     \
                                {B2, bias, rows, static_cast<uint32_t>(flags)});                    \
  }
#define BG_EPILOGUE_FIXUP(name, tile, Element)                                                      \
  BG_KERNEL(kFixupThreads, 1)                                                                       \
  void name(const uint4* items, const uint32_t*, const float*, const float*, float* C, float* workspace, \
            const void*, const void* bias, const uint32_t* rows, uint64_t flags) {                  \
    fixup<tile, Element, Epilogue>(items, C, workspace,                                    \
                                   {nullptr, bias, rows, static_cast<uint32_t>(flags)});  \
  }
#define BG_EPILOGUE_RAGGED(name, form, plan)                                                        \
  BG_KERNEL(plan::kThreads, 1)                                                                      \
  void name(const uint4*, const uint32_t* sizes, uint64_t extent, uint64_t both, uint32_t* other,   \
            uint32_t* words, const void*, const void*, const uint32_t*, uint64_t flags) {           \
    ragged<form, plan, true>(sizes, extent, both, other, words, static_cast<uint32_t>(flags));      \
  }

// BG_FINISHING_GEMM makes those that sum the parts of tiles (store.cuh), which in tests others do where
// kFinishes.
#ifdef __AMDGCN__
// Finishing is a tile as such kernels have it: finishPartial loads 8 vectors at once. 16 would take more
// registers than products do, and plans count with those of the kernel that takes most.
template <class T>
struct Finishing : T {
  static constexpr int kMinGroups = 1024 / T::kThreads;
};
#define BG_FINISHING_GEMM(name, tile, function, ...)                                                \
  BG_KERNEL(tile::kThreads, tile::kMinGroups) void name(BG_PARAMETERS) {                            \
    function<Finishing<tile>, __VA_ARGS__>(items, table, A, B, C, workspace);                       \
  }
#else
#define BG_FINISHING_GEMM(...)
#endif

#include "lists/ragged.inc"
#include "lists/routing.inc"
#include "lists/hip.inc"
