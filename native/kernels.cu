// All kernels for NVIDIA GPUs. scripts/cuda.sh builds the products from here, each part of the kernels by
// itself: they are compiled at the same time, and loaded when a plan needs them. BG_PART names one, whose
// kernels lists/ has, a line each: go generate ./native writes them from native/internal/kernels/list.go.
// What follows makes a kernel of a line.
#include "kernels/f64.cuh"
#include "kernels/int4.cuh"
#include "kernels/quantize.cuh"
#include "kernels/ragged.cuh"
#include "kernels/routing.cuh"
#include "kernels/tensor_bits16.cuh"
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
#define BG_SM90
#include "kernels/f64_boxes.cuh"
#include "kernels/wgmma_aligned.cuh"
#include "kernels/wgmma_boxes.cuh"
#include "kernels/wgmma_int4.cuh"
#include "kernels/wgmma_raw.cuh"
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

#define BG_TILE(name, ...) using name = __VA_ARGS__;

#define BG_PARAMETERS                                                                       \
  const uint4 *items, const uint32_t *table, const float *A, const float *B, float *C, float *workspace
#define BG_EPILOGUE_PARAMETERS                                                              \
  BG_PARAMETERS, const void *B2, const void *bias, const uint32_t *rows, uint64_t flags

// BG_GEMM makes a kernel of a tile by a function template.
#define BG_GEMM(name, tile, function, ...)                                                          \
  BG_KERNEL(tile::kThreads, tile::kMinGroups) name(BG_PARAMETERS) {                                 \
    BG_TIMED function<tile, __VA_ARGS__>(items, table, A, B, C, workspace);                         \
  }
#define BG_FIXUP(name, tile, Element)                                                               \
  BG_KERNEL(kFixupThreads, 1)                                                                       \
  name(const uint4* items, const uint32_t* table, const float*, const float*, float* C, float* workspace) {\
    const Launch launch(table);                                                                     \
    BG_TIMED fixup<tile, Element>(items, C, workspace);                                             \
  }
// BG_RAGGED makes one that makes items.
#define BG_RAGGED(name, form, plan)                                                                 \
  BG_KERNEL(plan::kThreads, 1)                                                                      \
  name(const uint4*, const uint32_t* sizes, uint64_t extent, uint64_t both, uint32_t* other,        \
       uint32_t* words) {                                                                           \
    ragged<form, plan, false>(sizes, extent, both, other, words, 0);                                \
  }
// BG_LAYER makes one of a step of a layer of experts. Numbers are in the place of B and B2, the extent in
// that of an epilogue's flags.
#define BG_LAYER(name, threads, function, ...)                                                      \
  BG_KERNEL(threads, 1)                                                                             \
  name(const uint4*, const void* index, const void* A, uint64_t shape, void* C, float*, uint64_t number, \
       const void*, const uint32_t*, uint64_t extent) {                                             \
    awaitEarlier();                                                                                 \
    admitNext();                                                                                    \
    function<__VA_ARGS__>(index, A, shape, static_cast<uint32_t>(number), extent, C);                \
  }
// BG_GATE makes one of what is between the products of such a layer. Four groups of a multiprocessor have
// enough loads under way.
#define BG_GATE(name, function, ...)                                                                \
  BG_KERNEL(kGateThreads, 4)                                                                        \
  name(const uint4* words, uint32_t* sizes, const void* A, const void* B, void* C, float*, uint64_t shape, \
       const void*, const void* index, uint64_t how) {                                              \
    awaitEarlier();                                                                                 \
    admitNext();                                                                                    \
    function<__VA_ARGS__>({reinterpret_cast<const uint32_t*>(words), sizes, index, A, B, C, shape, how}); \
  }

// The same with an epilogue.
#ifndef BG_CLOCKS
#define BG_EPILOGUE_GEMM(name, tile, function, ...)                                                 \
  BG_KERNEL(tile::kThreads, tile::kEpilogueGroups) name(BG_EPILOGUE_PARAMETERS) {                    \
    function<tile __VA_OPT__(, ) __VA_ARGS__>(items, table, A, B, C, workspace,                     \
                                              Epilogue{B2, bias, rows, static_cast<uint32_t>(flags)}); \
  }
#define BG_EPILOGUE_FIXUP(name, tile, Element)                                                      \
  BG_KERNEL(kFixupThreads, 1)                                                                       \
  name(const uint4* items, const uint32_t* table, const float*, const float*, float* C, float* workspace, \
       const void*, const void* bias, const uint32_t* rows, uint64_t flags) {                       \
    const Launch launch(table);                                                                     \
    fixup<tile, Element, Epilogue>(items, C, workspace,                                             \
                                   Epilogue{nullptr, bias, rows, static_cast<uint32_t>(flags)});    \
  }
#define BG_EPILOGUE_RAGGED(name, form, plan)                                                        \
  BG_KERNEL(plan::kThreads, 1)                                                                      \
  name(const uint4*, const uint32_t* sizes, uint64_t extent, uint64_t both, uint32_t* other,        \
       uint32_t* words, const void*, const void*, const uint32_t*, uint64_t flags) {                \
    ragged<form, plan, true>(sizes, extent, both, other, words, static_cast<uint32_t>(flags));      \
  }
#else
#define BG_EPILOGUE_GEMM(...)
#define BG_EPILOGUE_FIXUP(...)
#define BG_EPILOGUE_RAGGED(...)
#endif

// From90 is a tile from 9.0 on, or that of before: copies of thin ones go through the L1 cache there
// (copySector), of which more shared memory leaves too little (H200, B transposed: 1.2 to 1.4 times as long).
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
template <class This, class Before>
using From90 = Before;
#else
template <class This, class Before>
using From90 = This;
#endif

using BytesE4M3 = Bytes<E4M3, BF16, F16>;
using BytesInt8 = Bytes<Int8, BF16, F16>;

#define BG_STRING(text) #text
#define BG_LIST(part) BG_STRING(lists/part.inc)
#include BG_LIST(BG_PART)
