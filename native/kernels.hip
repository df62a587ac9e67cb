// All kernels for AMD GPUs. scripts/hip.sh builds the products from here.
#include "dialect_hip.h"
#include "gemm.cuh"
#include "ragged.cuh"
#include "half_hip.cuh"

#define BG_RAGGED_KERNEL(name, form, plan)                                                                   \
  BG_KERNEL(plan::kThreads, 1)                                                                               \
  void name(const uint4*, const uint32_t* sizes, const float*, const float*, float*, uint32_t* words) {      \
    ragged<form, plan>(sizes, words);                                                                        \
  }
BG_RAGGED_KERNELS

#define BG_GEMM(name, suffix, transA, transB, ...)                                                           \
  BG_KERNEL(name::kThreads, name::kMinGroups)                                                                \
  void bg_##name##_##suffix(const uint4* items, const uint32_t* table, const float* A, const float* B,       \
                            float* C, float* workspace) {                                                    \
    gemm<name, transA, transB, __VA_ARGS__>(items, table, A, B, C, workspace);                               \
  }

#define BG_GEMMS(name, end, ...)                    \
  BG_GEMM(name, nn##end, false, false, __VA_ARGS__) \
  BG_GEMM(name, nt##end, false, true, __VA_ARGS__)  \
  BG_GEMM(name, tn##end, true, false, __VA_ARGS__)  \
  BG_GEMM(name, tt##end, true, true, __VA_ARGS__)

#define BG_FIXUP(name, end, Element)                                                                         \
  BG_KERNEL(kSlotSets* kPieceVectors, 1)                                                                     \
  void bg_##name##_fixup##end(const uint4* items, const uint32_t*, const float*, const float*, float* C,     \
                              float* workspace) {                                                            \
    fixup<name, Element>(items, C, workspace);                                                               \
  }
#define BG_FIXUPS(name)               \
  BG_FIXUP(name, , Floats)            \
  BG_FIXUP(name, _bf16, Halves<BF16>) \
  BG_FIXUP(name, _f16, Halves<F16>)

#define BG_HALVES(name, Sum, end)                           \
  BG_GEMMS(name, _bf16##end, Sum<name, BF16>, Halves<BF16>) \
  BG_GEMMS(name, _f16##end, Sum<name, F16>, Halves<F16>)

#define BG_TILE(name, ...)            \
  using name = Tile<__VA_ARGS__>;     \
  BG_GEMMS(name, , Accumulator<name>) \
  BG_HALVES(name, HalfAccumulator, )  \
  BG_FIXUPS(name)

// On GPUs with matrix cores, tiles that suit those have kernels for them alone.
#ifdef BG_HAS_MFMA
#include "mfma.cuh"
#include "mfma_half.cuh"
#define BG_MATRIX_TILE(name, ...)                \
  using name = Tile<__VA_ARGS__>;                \
  BG_GEMMS(name, _mfma, MatrixAccumulator<name>) \
  BG_HALVES(name, HalfMatrixAccumulator, _mfma)  \
  BG_FIXUPS(name)
#else
#define BG_MATRIX_TILE(...) BG_TILE(__VA_ARGS__)
#endif

#include "tiles_hip.inc"
