// All kernels for NVIDIA GPUs. scripts/cuda.sh builds the products from here. The
// names are bg_, the tile, the transposes, then _tf32 for one product on tensor
// cores, or the type of elements of 16 bits, then _cluster, or _turn for workers that take items in turn, or _parts
// for those that sum the parts of tiles (fixup.cuh), and at last _e for kernels with an epilogue.
//
// A product is made of parts, compiled at the same time and loaded when a plan needs them: BG_PART is the number
// of one, or 0 for all. Arch.Product (native/arch.go) has their names and says which kernel is where.
#include "dialect_cuda.h"
#include "gemm.cuh"
#include "fixup.cuh"
#include "epilogue.cuh"
#include "ragged.cuh"
#include "ragged_epilogue.cuh"
#include "fragment.cuh"
#include "tensor_cuda.h"
#include "tensor.cuh"
#include "half_cuda.h"
#include "half.cuh"
#include "tensor_half.cuh"
#include "tensor_bytes.cuh"
#include "tensor_epilogue.cuh"
#include "int4.cuh"
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#include "wgmma_cuda.h"
#include "wgmma_operand.cuh"
#include "wgmma_items.cuh"
#include "wgmma_store.cuh"
#include "wgmma_epilogue.cuh"
#include "wgmma_exchanged.cuh"
#include "wgmma_tile.cuh"
#include "wgmma.cuh"
#include "wgmma_half.cuh"
#include "wgmma_wide.cuh"
#include "wgmma_bytes.cuh"
#include "wgmma_int4.cuh"
#endif

#ifndef BG_PART
#define BG_PART 0
#endif
#define BG_HAS(part) (BG_PART == 0 || BG_PART == part)
#if BG_HAS(1)
#define BG_IN_RAGGED(...) __VA_ARGS__
#else
#define BG_IN_RAGGED(...)
#endif
#if BG_HAS(2)
#define BG_IN_PLAIN(...) __VA_ARGS__
#else
#define BG_IN_PLAIN(...)
#endif
#if BG_HAS(3)
#define BG_IN_TENSOR(...) __VA_ARGS__
#else
#define BG_IN_TENSOR(...)
#endif
// Clusters came with 9.0.
#if BG_HAS(3) && (!defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900)
#define BG_IN_CLUSTER(...) __VA_ARGS__
#else
#define BG_IN_CLUSTER(...)
#endif
#if BG_HAS(7) && (!defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900)
#define BG_IN_CLUSTER_E4M3(...) __VA_ARGS__
#else
#define BG_IN_CLUSTER_E4M3(...)
#endif
#if BG_HAS(9) && (!defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900)
#define BG_IN_CLUSTER_INT8(...) __VA_ARGS__
#else
#define BG_IN_CLUSTER_INT8(...)
#endif
// The others are of warpgroup products, which only sm_90a has: in fp32, of elements of 16 bits, and wide ones.
#if BG_HAS(4) && defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define BG_IN_WGMMA(...) __VA_ARGS__
#else
#define BG_IN_WGMMA(...)
#endif
#if BG_HAS(5) && defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define BG_IN_HALVES(...) __VA_ARGS__
#else
#define BG_IN_HALVES(...)
#endif
#if BG_HAS(6) && defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define BG_IN_WIDE(...) __VA_ARGS__
#else
#define BG_IN_WIDE(...)
#endif
// Those of elements of 8 bits: by mma.sync, and by warpgroup products; of e4m3, and of int8.
#if BG_HAS(7)
#define BG_IN_E4M3(...) __VA_ARGS__
#else
#define BG_IN_E4M3(...)
#endif
#if BG_HAS(8) && defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define BG_IN_WIDE_E4M3(...) __VA_ARGS__
#else
#define BG_IN_WIDE_E4M3(...)
#endif
#if BG_HAS(9)
#define BG_IN_INT8(...) __VA_ARGS__
#else
#define BG_IN_INT8(...)
#endif
#if BG_HAS(10) && defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define BG_IN_WIDE_INT8(...) __VA_ARGS__
#else
#define BG_IN_WIDE_INT8(...)
#endif
// Those of B of 4 bits.
#if BG_HAS(11) && !defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define BG_IN_INT4(...) __VA_ARGS__
#else
#define BG_IN_INT4(...)
#endif
#if BG_HAS(11) && defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define BG_IN_WIDE_INT4(...) __VA_ARGS__
#else
#define BG_IN_WIDE_INT4(...)
#endif
// With BG_CLOCKS there are no kernels with an epilogue.
#ifdef BG_CLOCKS
#define BG_WITH_EPILOGUES(...)
#else
#define BG_WITH_EPILOGUES(...) __VA_ARGS__
#endif

// With BG_CLOCKS, a build for batchgemm bench alone, the first thread of each group
// notes when it began and when it left the kernel, in the order in which groups
// leave. The cycles are exact, but of the multiprocessor's own clock; globaltimer is
// the same everywhere, but may tick once a microsecond. internal/clocks reads both.
#ifdef BG_CLOCKS
struct Clock {
  uint64_t start, end, nanoseconds;  // cycles; globaltimer at the end
  uint32_t unit, group;              // multiprocessor; blockIdx.x
};
constexpr uint32_t kClocks = 1 << 16;
struct Clocks {
  Clock ring[kClocks];
  uint32_t count;  // of all groups since the image was loaded
};
extern "C" {
__device__ Clocks bg_clocks;
}

struct Stopwatch {
  const uint64_t start = clock64();
  BG_DEVICE ~Stopwatch() {
    if (threadId() != 0) return;
    Clock c = {start, static_cast<uint64_t>(clock64()), 0, 0, blockIdx.x};
    asm volatile("mov.u64 %0, %%globaltimer;\n mov.u32 %1, %%smid;\n" : "=l"(c.nanoseconds), "=r"(c.unit));
    bg_clocks.ring[atomicAdd(&bg_clocks.count, 1u) % kClocks] = c;
  }
};
#define BG_TIMED awaitEarlier(); const Stopwatch stopwatch;  // it begins when the kernel may
#else
#define BG_TIMED
#endif

#define BG_FUNCTION(name) \
  name(const uint4* items, const uint32_t* table, const float* A, const float* B, float* C, float* workspace)

#define BG_DRESSED_FUNCTION(name)                                                                                    \
  name(const uint4* items, const uint32_t* table, const float* A, const float* B, float* C, float* workspace,        \
       const void* B2, const void* bias, const uint32_t* rows, uint64_t flags)
#define BG_EPILOGUE_OF(B2) Epilogue{B2, bias, rows, static_cast<uint32_t>(flags)}

#define BG_FIXUP(tile, name, ...)                                                                                    \
  BG_KERNEL(kFixupThreads, 1)                                                                                        \
  name(const uint4* items, const uint32_t* table, const float*, const float*, float* C, float* workspace) {          \
    const Launch launch(table);                                                                                      \
    BG_TIMED fixup<tile __VA_OPT__(, ) __VA_ARGS__>(items, C, workspace);                                            \
  }

#define BG_RAGGED_KERNEL(name, form, plan)                                                                           \
  BG_KERNEL(plan::kThreads, 1)                                                                                       \
  name(const uint4*, const uint32_t* sizes, uint64_t extent, const float*, float*, uint32_t* words) {                \
    awaitEarlier();                                                                                                  \
    admitNext();                                                                                                     \
    ragged<form, plan>(sizes, extent, words);                                                                        \
  }
BG_IN_RAGGED(BG_RAGGED_KERNELS)
#define BG_RAGGED_DRESSED(name, form, plan)                                                                          \
  BG_KERNEL(plan::kThreads, 1)                                                                                       \
  name(const uint4*, const uint32_t* sizes, uint64_t extent, const float*, float*, uint32_t* words, const void*,     \
       const void*, const uint32_t*, uint64_t flags) {                                                               \
    awaitEarlier();                                                                                                  \
    admitNext();                                                                                                     \
    raggedDressed<form, plan>(sizes, extent, words, static_cast<uint32_t>(flags));                                   \
  }
BG_WITH_EPILOGUES(BG_IN_RAGGED(BG_RAGGED_DRESSED_KERNELS))

// BG_GEMM makes the kernel of a tile by a function template.
#define BG_GEMM(tile, name, function, ...)                                                                           \
  BG_KERNEL(tile::kThreads, tile::kMinGroups)                                                                        \
  BG_FUNCTION(name) {                                                                                                \
    BG_TIMED function<tile, __VA_ARGS__>(items, table, A, B, C, workspace);                                          \
  }

// BG_DRESSED makes the same with an epilogue, BG_DRESSED_FIXUP a fix-up.
#define BG_DRESSED(tile, name, function, ...)                                                                        \
  BG_KERNEL(tile::kThreads, tile::kDressedGroups)                                                                    \
  BG_DRESSED_FUNCTION(name##_e) {                                                                                    \
    function<tile, __VA_ARGS__>(items, table, A, B, C, workspace, BG_EPILOGUE_OF(B2));                               \
  }
#define BG_DRESSED_FIXUP(tile, name, Element)                                                                        \
  BG_KERNEL(kFixupThreads, 1)                                                                                        \
  name##_e(const uint4* items, const uint32_t* table, const float*, const float*, float* C, float* workspace,        \
           const void*, const void* bias, const uint32_t* rows, uint64_t flags) {                                    \
    const Launch launch(table);                                                                                      \
    fixup<tile, Element, Epilogue>(items, C, workspace, BG_EPILOGUE_OF(nullptr));                                    \
  }
// BG_ACROSS makes kernels by one of these for B as it is, BG_ALONG for B transposed, BG_LINES for A as it is and B transposed,
// which both lie along K, and BG_EACH for all transpositions.
#define BG_ACROSS(make, tile, name, suffix, function, ...)                                                           \
  make(tile, bg_##name##_nn##suffix, function, false, false __VA_OPT__(, ) __VA_ARGS__)                              \
  make(tile, bg_##name##_tn##suffix, function, true, false __VA_OPT__(, ) __VA_ARGS__)
#define BG_ALONG(make, tile, name, suffix, function, ...)                                                            \
  make(tile, bg_##name##_nt##suffix, function, false, true __VA_OPT__(, ) __VA_ARGS__)                               \
  make(tile, bg_##name##_tt##suffix, function, true, true __VA_OPT__(, ) __VA_ARGS__)
#define BG_LINES(make, tile, name, suffix, function, ...)                                                            \
  make(tile, bg_##name##_nt##suffix, function, false, true __VA_OPT__(, ) __VA_ARGS__)
#define BG_EACH(make, tile, name, suffix, function, ...)                                                             \
  BG_ACROSS(make, tile, name, suffix, function __VA_OPT__(, ) __VA_ARGS__)                                           \
  BG_ALONG(make, tile, name, suffix, function __VA_OPT__(, ) __VA_ARGS__)

// BG_TILE makes the kernels of a tile of plain fp32.
#define BG_TILE(name, ...)                                                                                           \
  BG_IN_PLAIN(using name = Tile<__VA_ARGS__>;                                                                        \
  using name##_along = name;                                                                                         \
  BG_FMAS(name))
#define BG_FMAS(name)                                                                                                \
  BG_ACROSS(BG_GEMM, name, name, , gemm)                                                                             \
  BG_ALONG(BG_GEMM, name##_along, name, , gemm)                                                                      \
  BG_ACROSS(BG_GEMM, name, name, _parts, gemm, Accumulator<name>, Floats, NoEpilogue, true)                          \
  BG_ALONG(BG_GEMM, name##_along, name, _parts, gemm, Accumulator<name##_along>, Floats, NoEpilogue, true)           \
  BG_FIXUP(name, bg_##name##_fixup)

// BG_THIN makes those of a thin tile. The last three are for B transposed, and for all before 9.0: copies go through the L1 cache
// there (copySector), of which more shared memory leaves too little (H200, B transposed: 1.2 to 1.4 times as long).
#define BG_THIN(name, TM, TN, TK, threads, RM, RN, stages, groups, alongTK, alongStages, alongGroups)                \
  BG_IN_PLAIN(using name##_across = Tile<TM, TN, TK, threads, RM, RN, stages, groups>;                               \
  using name##_along = Tile<TM, TN, alongTK, threads, RM, RN, alongStages, alongGroups>;                             \
  using name = BG_FROM_9_0(name##_across, name##_along);                                                             \
  BG_FMAS(name))
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
#define BG_FROM_9_0(this, before) before
#else
#define BG_FROM_9_0(this, before) this
#endif

// BG_TENSOR makes those of a tile of tensor cores.
#define BG_TENSOR(name, ...)                                                                                         \
  BG_IN_TENSOR(using name = TensorTile<__VA_ARGS__, true>;                                                           \
  using name##_tf32 = TensorTile<__VA_ARGS__, false>;                                                                \
  BG_EACH(BG_GEMM, name, name, , tensorGemm, false)                                                                  \
  BG_EACH(BG_GEMM, name, name, _parts, tensorGemm, false, NoEpilogue, true)                                          \
  BG_EACH(BG_GEMM, name##_tf32, name, _tf32, tensorGemm, false))

using BytesE4M3 = Bytes<E4M3, BF16, F16>;
using BytesInt8 = Bytes<Int8, BF16, F16>;

// BG_TENSOR_HALVES makes those for elements of 16 and 8 bits, and the fix-ups of all, since C may
// be of fp32 in any case.
#define BG_TENSOR_HALVES(name, ...)                                                                                  \
  BG_IN_E4M3(using name##_e4m3 = TensorTile<__VA_ARGS__, false, BytesE4M3>;                                          \
  BG_EACH(BG_GEMM, name##_e4m3, name, _e4m3, tensorGemm, false))                                                     \
  BG_IN_INT8(using name##_int8 = TensorTile<__VA_ARGS__, false, BytesInt8>;                                          \
  BG_EACH(BG_GEMM, name##_int8, name, _int8, tensorGemm, false))                                                     \
  BG_IN_TENSOR(BG_TENSOR_TYPE(name, bf16, BF16, __VA_ARGS__)                                                         \
  BG_TENSOR_TYPE(name, f16, F16, __VA_ARGS__)                                                                        \
  BG_FIXUP(name##_bf16, bg_##name##_fixup))
#define BG_TENSOR_TYPE(name, type, format, ...)                                                                      \
  using name##_##type = TensorTile<__VA_ARGS__, false, Halves<format>>;                                              \
  BG_EACH(BG_GEMM, name##_##type, name, _##type, tensorGemm, false)                                                  \
  BG_FIXUP(name##_##type, bg_##name##_fixup_##type, Halves<format>)

// BG_TENSOR_CLUSTER makes its kernels for clusters.
#define BG_TENSOR_CLUSTER(name)                                                                                      \
  BG_IN_CLUSTER_E4M3(BG_EACH(BG_GEMM, name##_e4m3, name, _e4m3_cluster, tensorGemm, true))                           \
  BG_IN_CLUSTER_INT8(BG_EACH(BG_GEMM, name##_int8, name, _int8_cluster, tensorGemm, true))                           \
  BG_IN_CLUSTER(BG_EACH(BG_GEMM, name, name, _cluster, tensorGemm, true)                                             \
  BG_EACH(BG_GEMM, name##_tf32, name, _tf32_cluster, tensorGemm, true)                                               \
  BG_EACH(BG_GEMM, name##_bf16, name, _bf16_cluster, tensorGemm, true)                                               \
  BG_EACH(BG_GEMM, name##_f16, name, _f16_cluster, tensorGemm, true))

// BG_WGMMA makes those of a tile of warpgroup products.
#define BG_WGMMA_TURNS(each, make, tile, name, suffix, function)                                                     \
  each(make, tile, name, suffix, function, false)                                                                    \
  each(make, tile, name, suffix##_turn, function, true)
#define BG_WGMMA_MODE(tile, name, suffix, function) BG_WGMMA_TURNS(BG_EACH, BG_GEMM, tile, name, suffix, function)
#define BG_WGMMA_FLOATS(name, function, ofC)                                                                         \
  BG_WGMMA_MODE(name, name, , function)                                                                              \
  BG_EACH(BG_GEMM, name, name, _parts, function, false, true)                                                        \
  BG_WGMMA_MODE(name##_tf32, name, _tf32, function)                                                                  \
  BG_FIXUP(ofC, bg_##name##_fixup)
#define BG_WGMMA(name, ...)                                                                                          \
  BG_IN_WGMMA(using name = WgmmaTile<__VA_ARGS__, true>;                                                             \
  using name##_tf32 = WgmmaTile<__VA_ARGS__, false>;                                                                 \
  BG_WGMMA_FLOATS(name, wgmmaGemm, name))                                                                            \
  BG_IN_HALVES(BG_WGMMA_TYPE(name, bf16, BF16, __VA_ARGS__)                                                          \
  BG_WGMMA_TYPE(name, f16, F16, __VA_ARGS__))                                                                        \
  BG_IN_WIDE_E4M3(using name##_e4m3 = WgmmaTile<__VA_ARGS__, false, BytesE4M3>;                                      \
  BG_WGMMA_MODE(name##_e4m3, name, _e4m3, wgmmaGemm))                                                                \
  BG_IN_WIDE_INT8(using name##_int8 = WgmmaTile<__VA_ARGS__, false, BytesInt8>;                                      \
  BG_WGMMA_MODE(name##_int8, name, _int8, wgmmaGemm))
#define BG_WGMMA_TYPE(name, type, format, ...)                                                                       \
  using name##_##type = WgmmaTile<__VA_ARGS__, false, Halves<format>>;                                               \
  BG_WGMMA_MODE(name##_##type, name, _##type, wgmmaGemm)                                                             \
  BG_FIXUP(name##_##type, bg_##name##_fixup_##type, Halves<format>)

// BG_WGMMA_EXCHANGED makes those of a tile that is computed as its transpose.
#define BG_WGMMA_EXCHANGED(name, TM, TN, ...)                                                                        \
  BG_IN_WGMMA(using name = WgmmaTile<TN, TM, __VA_ARGS__, true, Floats, Exchanged>;                                  \
  using name##_tf32 = WgmmaTile<TN, TM, __VA_ARGS__, false, Floats, Exchanged>;                                      \
  BG_WGMMA_FLOATS(name, wgmmaExchanged, TileOfC<name>))

// BG_WGMMA_WIDE makes those of a tile of elements of 16 and 8 bits whose rows begin with 16 bytes. Of 8 bits they lie along K.
#define BG_WGMMA_WIDE(name, ...)                                                                                     \
  BG_IN_WIDE_E4M3(using name##_e4m3 = WideTile<__VA_ARGS__, BytesE4M3>;                                              \
  BG_WGMMA_TURNS(BG_LINES, BG_GEMM, name##_e4m3, name, _e4m3, wgmmaWide))                                            \
  BG_IN_WIDE_INT8(using name##_int8 = WideTile<__VA_ARGS__, BytesInt8>;                                              \
  BG_WGMMA_TURNS(BG_LINES, BG_GEMM, name##_int8, name, _int8, wgmmaWide))                                            \
  BG_IN_WIDE(BG_WGMMA_WIDE_TYPE(name, bf16, BF16, __VA_ARGS__)                                                       \
  BG_WGMMA_WIDE_TYPE(name, f16, F16, __VA_ARGS__)                                                                    \
  BG_FIXUP(name##_bf16, bg_##name##_fixup))
#define BG_WGMMA_WIDE_TYPE(name, type, format, ...)                                                                  \
  using name##_##type = WideTile<__VA_ARGS__, Halves<format>>;                                                       \
  BG_WGMMA_MODE(name##_##type, name, _##type, wgmmaWide)                                                             \
  BG_FIXUP(name##_##type, bg_##name##_fixup_##type, Halves<format>)

// BG_INT4 makes those of a tile for B of 4 bits.
#define BG_INT4(name, ...)                                                                                           \
  BG_WITH_EPILOGUES(BG_IN_INT4(BG_INT4_TYPE(name, bf16, BF16, __VA_ARGS__)                                           \
  BG_INT4_TYPE(name, f16, F16, __VA_ARGS__)                                                                          \
  BG_INT4_FIXUPS(name)))
#define BG_INT4_TYPE(name, type, format, ...)                                                                        \
  using name##_##type = Int4Tile<__VA_ARGS__, Halves<format>>;                                                       \
  BG_KERNEL(name##_##type::kThreads, name##_##type::kMinGroups)                                                      \
  BG_DRESSED_FUNCTION(bg_##name##_nn_##type##_e) {                                                                   \
    int4Gemm<name##_##type>(items, table, A, B, C, workspace, BG_EPILOGUE_OF(B2));                                   \
  }
#define BG_INT4_FIXUPS(name)                                                                                         \
  BG_FIXUP(name##_bf16, bg_##name##_fixup)                                                                           \
  BG_FIXUP(name##_bf16, bg_##name##_fixup_bf16, Halves<BF16>)                                                        \
  BG_FIXUP(name##_bf16, bg_##name##_fixup_f16, Halves<F16>)                                                          \
  BG_DRESSED_FIXUP(name##_bf16, bg_##name##_fixup, Floats)                                                           \
  BG_HALVES_FIXUPS_EPILOGUE(name, name##_bf16)

// BG_STREAM_INT4 makes those of 9.0 of few rows, BG_PANEL_INT4 those of warpgroup products.
#define BG_STREAM_INT4(name, ...) BG_WITH_EPILOGUES(BG_IN_WIDE_INT4(BG_INT4_TURNS(name, streamGemm, StreamTile, __VA_ARGS__)))
#define BG_PANEL_INT4(name, ...) BG_WITH_EPILOGUES(BG_IN_WIDE_INT4(BG_INT4_TURNS(name, panelGemm, PanelTile, __VA_ARGS__)))
#define BG_INT4_TURNS(name, function, Tile, ...)                                                                     \
  BG_INT4_TURN(name##_bf16, name, bf16, function, Tile<__VA_ARGS__, Halves<BF16>>)                                   \
  BG_INT4_TURN(name##_f16, name, f16, function, Tile<__VA_ARGS__, Halves<F16>>)                                      \
  BG_INT4_FIXUPS(name)
#define BG_INT4_TURN(tile, name, type, function, ...)                                                                \
  using tile = __VA_ARGS__;                                                                                          \
  BG_DRESSED(tile, bg_##name##_nn_##type, function, false)                                                           \
  BG_DRESSED(tile, bg_##name##_nn_##type##_turn, function, true)

// Kernels with an epilogue, of tiles that are declared. A fix-up is in the part of its C's type.
#define BG_HALVES_FIXUPS_EPILOGUE(name, tile)                                                                        \
  BG_DRESSED_FIXUP(tile, bg_##name##_fixup_bf16, Halves<BF16>)                                                       \
  BG_DRESSED_FIXUP(tile, bg_##name##_fixup_f16, Halves<F16>)
#define BG_TILE_EPILOGUE(name)                                                                                       \
  BG_WITH_EPILOGUES(BG_IN_PLAIN(BG_ACROSS(BG_DRESSED, name, name, , gemm, Accumulator<name>, Floats, Epilogue)       \
  BG_ALONG(BG_DRESSED, name##_along, name, , gemm, Accumulator<name##_along>, Floats, Epilogue)                      \
  BG_DRESSED_FIXUP(name, bg_##name##_fixup, Floats)))
#define BG_TENSOR_EPILOGUE(name) BG_WITH_EPILOGUES(BG_IN_TENSOR(BG_EACH(BG_DRESSED, name, name, , tensorGemm, false, Epilogue)))
#define BG_TENSOR_HALVES_EPILOGUE(name)                                                                              \
  BG_WITH_EPILOGUES(BG_IN_E4M3(BG_EACH(BG_DRESSED, name##_e4m3, name, _e4m3, tensorGemm, false, Epilogue))           \
  BG_IN_INT8(BG_EACH(BG_DRESSED, name##_int8, name, _int8, tensorGemm, false, Epilogue))                             \
  BG_IN_TENSOR(BG_EACH(BG_DRESSED, name##_bf16, name, _bf16, tensorGemm, false, Epilogue)                            \
  BG_EACH(BG_DRESSED, name##_f16, name, _f16, tensorGemm, false, Epilogue)                                           \
  BG_DRESSED_FIXUP(name##_bf16, bg_##name##_fixup, Floats)                                                           \
  BG_HALVES_FIXUPS_EPILOGUE(name, name##_bf16)))
#define BG_WGMMA_DRESSED(tile, name, suffix, function) BG_WGMMA_TURNS(BG_EACH, BG_DRESSED, tile, name, suffix, function)
#define BG_WGMMA_EPILOGUE(name, ...)                                                                                 \
  BG_WITH_EPILOGUES(BG_IN_WGMMA(using name##_e = WgmmaTile<__VA_ARGS__, true, Floats, Epilogue>;                     \
  BG_WGMMA_DRESSED(name##_e, name, , wgmmaGemm)                                                                      \
  BG_DRESSED_FIXUP(name##_e, bg_##name##_fixup, Floats))                                                             \
  BG_IN_HALVES(using name##_bf16_e = WgmmaTile<__VA_ARGS__, false, Halves<BF16>, Epilogue>;                          \
  using name##_f16_e = WgmmaTile<__VA_ARGS__, false, Halves<F16>, Epilogue>;                                         \
  BG_WGMMA_DRESSED(name##_bf16_e, name, _bf16, wgmmaGemm)                                                            \
  BG_WGMMA_DRESSED(name##_f16_e, name, _f16, wgmmaGemm)                                                              \
  BG_HALVES_FIXUPS_EPILOGUE(name, name##_bf16_e))                                                                    \
  BG_IN_WIDE_E4M3(using name##_e4m3_e = WgmmaTile<__VA_ARGS__, false, BytesE4M3, Epilogue>;                          \
  BG_WGMMA_DRESSED(name##_e4m3_e, name, _e4m3, wgmmaGemm))                                                           \
  BG_IN_WIDE_INT8(using name##_int8_e = WgmmaTile<__VA_ARGS__, false, BytesInt8, Epilogue>;                          \
  BG_WGMMA_DRESSED(name##_int8_e, name, _int8, wgmmaGemm)))
#define BG_WGMMA_WIDE_EPILOGUE(name, ...)                                                                            \
  BG_WITH_EPILOGUES(BG_IN_WIDE_E4M3(BG_WIDE_DRESSED(BG_LINES, name, e4m3, BytesE4M3, __VA_ARGS__))                   \
  BG_IN_WIDE_INT8(BG_WIDE_DRESSED(BG_LINES, name, int8, BytesInt8, __VA_ARGS__))                                     \
  BG_IN_WIDE(BG_WIDE_DRESSED(BG_EACH, name, bf16, Halves<BF16>, __VA_ARGS__)                                         \
  BG_WIDE_DRESSED(BG_EACH, name, f16, Halves<F16>, __VA_ARGS__)                                                      \
  BG_DRESSED_FIXUP(name##_bf16_e, bg_##name##_fixup, Floats)                                                         \
  BG_HALVES_FIXUPS_EPILOGUE(name, name##_bf16_e)))
#define BG_WIDE_DRESSED(each, name, type, Element, ...)                                                              \
  using name##_##type##_e = WideTile<__VA_ARGS__, Element, Epilogue>;                                                \
  using name##_##type##_gated = WideTile<__VA_ARGS__, Element, Epilogue, true>;                                      \
  BG_WGMMA_TURNS(each, BG_DRESSED, name##_##type##_e, name, _##type, wgmmaWide)                                      \
  each(BG_DRESSED, name##_##type##_gated, name, _##type##_gated, wgmmaWide, false)                                   \
  each(BG_DRESSED, name##_##type##_gated, name, _##type##_turn_gated, wgmmaWide, true)

#include "tiles.inc"
