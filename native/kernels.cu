// All kernels for NVIDIA GPUs. scripts/cuda.sh builds the products from here.
#include "dialect_cuda.h"
#include "gemm.cuh"

#define BG_GEMM(name, suffix, transA, transB)                                                                    \
  BG_KERNEL(name::kThreads, name::kMinGroups)                                                                    \
  bg_##name##_##suffix(const uint4* items, const uint32_t* table, const float* A, const float* B, float* C,      \
                       float* workspace) {                                                                       \
    gemm<name, transA, transB>(items, table, A, B, C, workspace);                                                \
  }

#define BG_TILE(name, ...)                                                                                       \
  using name = Tile<__VA_ARGS__>;                                                                                \
  BG_GEMM(name, nn, false, false)                                                                                \
  BG_GEMM(name, nt, false, true)                                                                                 \
  BG_GEMM(name, tn, true, false)                                                                                 \
  BG_GEMM(name, tt, true, true)                                                                                  \
  BG_KERNEL(kSlotSets* kPieceVectors, 1)                                                                         \
  bg_##name##_fixup(const uint4* items, const uint32_t*, const float*, const float*, float* C, float* workspace) { \
    fixup<name>(items, C, workspace);                                                                            \
  }

#include "tiles.inc"
