// All kernels for AMD GPUs. scripts/hip.sh builds the products from here.
#include "dialect_hip.h"
#include "gemm.cuh"

#define BG_GEMM(name, suffix, Sum, transA, transB)                                                           \
  BG_KERNEL(name::kThreads, name::kMinGroups)                                                                \
  void bg_##name##_##suffix(const uint4* items, const uint32_t* table, const float* A, const float* B,       \
                            float* C, float* workspace) {                                                    \
    gemm<name, transA, transB, Sum<name>>(items, table, A, B, C, workspace);                                 \
  }

#define BG_TILE(name, ...)                                                                                   \
  using name = Tile<__VA_ARGS__>;                                                                            \
  BG_GEMM(name, nn, Accumulator, false, false)                                                               \
  BG_GEMM(name, nt, Accumulator, false, true)                                                                \
  BG_GEMM(name, tn, Accumulator, true, false)                                                                \
  BG_GEMM(name, tt, Accumulator, true, true)                                                                 \
  BG_KERNEL(kSlotSets* kPieceVectors, 1)                                                                     \
  void bg_##name##_fixup(const uint4* items, const uint32_t*, const float*, const float*, float* C,          \
                         float* workspace) {                                                                 \
    fixup<name>(items, C, workspace);                                                                        \
  }

#ifdef BG_HAS_MFMA
#include "mfma.cuh"
#define BG_MATRIX_TILE(name)                              \
  BG_GEMM(name, nn_mfma, MatrixAccumulator, false, false) \
  BG_GEMM(name, nt_mfma, MatrixAccumulator, false, true)  \
  BG_GEMM(name, tn_mfma, MatrixAccumulator, true, false)  \
  BG_GEMM(name, tt_mfma, MatrixAccumulator, true, true)
#else
#define BG_MATRIX_TILE(name)
#endif

#include "tiles_hip.inc"
