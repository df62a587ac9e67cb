// All kernels for AMD GPUs. scripts/hip.sh builds the products from here.
#include "dialect_hip.h"
#include "gemm.cuh"
#include "ragged.cuh"

#define BG_RAGGED_KERNEL(name, form, plan)                                                                   \
  BG_KERNEL(plan::kThreads, 1)                                                                               \
  void name(const uint4*, const uint32_t* sizes, const float*, const float*, float*, uint32_t* words) {      \
    ragged<form, plan>(sizes, words);                                                                        \
  }
BG_RAGGED_KERNELS

#define BG_GEMM(name, suffix, Sum, transA, transB)                                                           \
  BG_KERNEL(name::kThreads, name::kMinGroups)                                                                \
  void bg_##name##_##suffix(const uint4* items, const uint32_t* table, const float* A, const float* B,       \
                            float* C, float* workspace) {                                                    \
    gemm<name, transA, transB, Sum<name>>(items, table, A, B, C, workspace);                                 \
  }

#define BG_GEMMS(name, Sum, end)            \
  BG_GEMM(name, nn##end, Sum, false, false) \
  BG_GEMM(name, nt##end, Sum, false, true)  \
  BG_GEMM(name, tn##end, Sum, true, false)  \
  BG_GEMM(name, tt##end, Sum, true, true)

#define BG_FIXUP(name)                                                                                       \
  BG_KERNEL(kSlotSets* kPieceVectors, 1)                                                                     \
  void bg_##name##_fixup(const uint4* items, const uint32_t*, const float*, const float*, float* C,          \
                         float* workspace) {                                                                 \
    fixup<name>(items, C, workspace);                                                                        \
  }

#define BG_TILE(name, ...)        \
  using name = Tile<__VA_ARGS__>; \
  BG_GEMMS(name, Accumulator, )   \
  BG_FIXUP(name)

// On GPUs with matrix cores, tiles that suit those have kernels for them alone.
#ifdef BG_HAS_MFMA
#include "mfma.cuh"
#define BG_MATRIX_TILE(name, ...)          \
  using name = Tile<__VA_ARGS__>;          \
  BG_GEMMS(name, MatrixAccumulator, _mfma) \
  BG_FIXUP(name)
#else
#define BG_MATRIX_TILE(...) BG_TILE(__VA_ARGS__)
#endif

#include "tiles_hip.inc"
