// All kernels for AMD GPUs. scripts/hip.sh builds the products from here.
#include "dialect_hip.h"
#include "gemm.cuh"
#include "fixup.cuh"
#include "epilogue.cuh"
#include "ragged.cuh"
#include "ragged_epilogue.cuh"
#include "half_hip.cuh"
#include "int4_hip.cuh"

#define BG_RAGGED_KERNEL(name, form, plan)                                                                   \
  BG_KERNEL(plan::kThreads, 1)                                                                               \
  void name(const uint4*, const uint32_t* sizes, uint64_t extent, const float*, float*, uint32_t* words) {   \
    ragged<form, plan>(sizes, extent, words);                                                                \
  }
BG_RAGGED_KERNELS

#define BG_RAGGED_DRESSED(name, form, plan)                                                                  \
  BG_KERNEL(plan::kThreads, 1)                                                                               \
  void name(const uint4*, const uint32_t* sizes, uint64_t extent, const float*, float*, uint32_t* words,     \
            const void*, const void*, const uint32_t*, uint64_t flags) {                                     \
    raggedDressed<form, plan>(sizes, extent, words, static_cast<uint32_t>(flags));                           \
  }
BG_RAGGED_DRESSED_KERNELS

#define BG_MULTIPLY(name, suffix, ...)                                                                       \
  BG_KERNEL(name::kThreads, name::kMinGroups)                                                                \
  void bg_##name##_##suffix(const uint4* items, const uint32_t* table, const float* A, const float* B,       \
                            float* C, float* workspace) {                                                    \
    gemm<__VA_ARGS__>(items, table, A, B, C, workspace);                                                     \
  }
#define BG_GEMM(name, suffix, ...) BG_MULTIPLY(name, suffix, name, __VA_ARGS__)

// BG_DRESSED makes the same with an epilogue. On gfx908, two waves of a SIMD leave too few registers for some.
#ifdef __gfx908__
#define BG_WAVES(name) 1
#else
#define BG_WAVES(name) name::kMinGroups
#endif
#define BG_DRESSED_BY(More, name, suffix, transA, transB, ...)                                               \
  BG_KERNEL(name::kThreads, BG_WAVES(name))                                                                  \
  void bg_##name##_##suffix##_e(const uint4* items, const uint32_t* table, const float* A, const float* B,   \
                                float* C, float* workspace, const void* B2, const void* bias,                \
                                const uint32_t* rows, uint64_t flags) {                                      \
    gemm<name, transA, transB, __VA_ARGS__, More>(items, table, A, B, C, workspace,                          \
                                                  {B2, bias, rows, static_cast<uint32_t>(flags)});           \
  }
#define BG_DRESSED(...) BG_DRESSED_BY(Epilogue, __VA_ARGS__)
#define BG_GROUPED(...) BG_DRESSED_BY(GroupedEpilogue, __VA_ARGS__)

// BG_EACH makes kernels by one of these for all transpositions.
#define BG_EACH(make, name, end, ...)            \
  make(name, nn##end, false, false, __VA_ARGS__) \
  make(name, nt##end, false, true, __VA_ARGS__)  \
  make(name, tn##end, true, false, __VA_ARGS__)  \
  make(name, tt##end, true, true, __VA_ARGS__)

#define BG_FIXUP(name, end, Element)                                                                         \
  BG_KERNEL(kFixupThreads, 1)                                                                                \
  void bg_##name##_fixup##end(const uint4* items, const uint32_t*, const float*, const float*, float* C,     \
                              float* workspace) {                                                            \
    fixup<name, Element>(items, C, workspace);                                                               \
  }
#define BG_DRESSED_FIXUP(name, end, Element)                                                                 \
  BG_KERNEL(kFixupThreads, 1)                                                                                \
  void bg_##name##_fixup##end##_e(const uint4* items, const uint32_t*, const float*, const float*, float* C, \
                                  float* workspace, const void*, const void* bias, const uint32_t* rows,     \
                                  uint64_t flags) {                                                          \
    fixup<name, Element, Epilogue>(items, C, workspace, {nullptr, bias, rows, static_cast<uint32_t>(flags)});\
  }
#define BG_FIXUPS(make, name)      \
  make(name, , Floats)             \
  make(name, _bf16, Halves<BF16>)  \
  make(name, _f16, Halves<F16>)

// BG_FMAS makes kernels of plain FMAs of a tile, BG_MATRICES those for matrix cores.
#define BG_HALVES(make, name, Sum, end)                               \
  BG_EACH(make, name, _bf16##end, Sum<name, BF16>, Halves<BF16>)      \
  BG_EACH(make, name, _f16##end, Sum<name, F16>, Halves<F16>)
#define BG_FMAS(make, name)                         \
  BG_EACH(make, name, , Accumulator<name>, Floats)  \
  BG_HALVES(make, name, HalfAccumulator, )
#define BG_MATRICES(make, name)                                 \
  BG_EACH(make, name, _mfma, MatrixAccumulator<name>, Floats)   \
  BG_HALVES(make, name, NarrowMatrixAccumulator, _mfma)

// BG_FMA_BYTES and BG_MATRIX_BYTES make those for elements of 8 bits. Products of these have scales, so that tiles
// without epilogues have none.
#define BG_FMA_BYTES(make, name)                                                    \
  BG_EACH(make, name, _e4m3, HalfAccumulator<name, F16>, StagedBytes<E4M3>)         \
  BG_EACH(make, name, _int8, HalfAccumulator<name, F16>, StagedBytes<Int8>)
#ifdef __gfx942__
#define BG_MATRIX_E4M3(make, name) BG_EACH(make, name, _e4m3_mfma, QuarterMatrixAccumulator<name>, NativeBytes<E4M3>)
#else
#define BG_MATRIX_E4M3(make, name) BG_EACH(make, name, _e4m3_mfma, NarrowMatrixAccumulator<name, F16>, StagedBytes<E4M3>)
#endif
#define BG_MATRIX_BYTES(make, name) \
  BG_MATRIX_E4M3(make, name)        \
  BG_EACH(make, name, _int8_mfma, NarrowMatrixAccumulator<name, Int8>, NativeBytes<Int8>)

// BG_INT4 makes those for B of 4 bits, of matrices as they are and with scales of groups, which are part of an epilogue.
#define BG_INT4(name, Sum, end)                                                           \
  BG_GROUPED(name, nn_bf16_int4##end, false, false, Sum<name, BF16>, Int4Halves<BF16>)    \
  BG_GROUPED(name, nn_f16_int4##end, false, false, Sum<name, F16>, Int4Halves<F16>)

// BG_PARTS makes those that sum the parts of tiles (fixup.cuh), which the others do where kFinishes.
#ifdef __AMDGCN__
// Finishing is a tile as such kernels have it: finishPart loads 8 vectors at once. 16 would take more registers than products do,
// and plans count with those of the kernel that takes most.
template <class T>
struct Finishing : T {
  static constexpr int kMinGroups = 1024 / T::kThreads;
};
#define BG_FINISHING(name, suffix, ...) BG_MULTIPLY(name, suffix, Finishing<name>, __VA_ARGS__, Floats, NoEpilogue, true)
#define BG_PARTS(name, end, Sum) BG_EACH(BG_FINISHING, name, _parts##end, Sum<name>)
#else
#define BG_PARTS(name, end, Sum)
#endif

#define BG_TILE(name, ...)           \
  using name = Tile<__VA_ARGS__>;    \
  BG_FMAS(BG_GEMM, name)             \
  BG_PARTS(name, , Accumulator)      \
  BG_FIXUPS(BG_FIXUP, name)
#define BG_TILE_EPILOGUE(name)        \
  BG_FMAS(BG_DRESSED, name)           \
  BG_FMA_BYTES(BG_GEMM, name)         \
  BG_FMA_BYTES(BG_DRESSED, name)      \
  BG_INT4(name, GroupedAccumulator, ) \
  BG_FIXUPS(BG_DRESSED_FIXUP, name)

// On GPUs with matrix cores, tiles that suit those have kernels for them alone.
#ifdef BG_HAS_MFMA
#include "mfma.cuh"
#include "mfma_half.cuh"
#define BG_MATRIX_TILE(name, ...)           \
  using name = Tile<__VA_ARGS__>;           \
  BG_MATRICES(BG_GEMM, name)                \
  BG_PARTS(name, _mfma, MatrixAccumulator)  \
  BG_FIXUPS(BG_FIXUP, name)
#define BG_MATRIX_TILE_EPILOGUE(name)            \
  BG_MATRICES(BG_DRESSED, name)                  \
  BG_MATRIX_BYTES(BG_GEMM, name)                 \
  BG_MATRIX_BYTES(BG_DRESSED, name)              \
  BG_INT4(name, GroupedMatrixAccumulator, _mfma) \
  BG_FIXUPS(BG_DRESSED_FIXUP, name)
#else
#define BG_MATRIX_TILE(...) BG_TILE(__VA_ARGS__)
#define BG_MATRIX_TILE_EPILOGUE(name) BG_TILE_EPILOGUE(name)
#endif

#include "tiles_hip.inc"
