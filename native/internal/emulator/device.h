// A GPU that the CPU plays, for tests of kernels.hip without one: what
// dialect_hip.h takes from the compiler on a real one. shim.cpp runs it.
#pragma once

#define BG_SHIM

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define BG_DEVICE inline
// The memory has exactly the size that was asked for, so that a sanitizer sees
// an index beyond it.
#define BG_SHARED(type, name, n) type* const name = static_cast<type*>(bg_shim_shared(sizeof(type) * (n)))
#define BG_KERNEL(threads, waves) extern "C"

// What a thread knows of itself.
struct ShimThread {
  uint32_t thread, worker, piece;
};
extern ShimThread bg_shim_self;

void* bg_shim_shared(size_t bytes);
void bg_shim_barrier(int line);
// A thread of a group counts the group at *arrived, which wraps to 0; bg_shim_last reports whether it was the
// last.
void bg_shim_arrive(uint32_t* arrived, uint32_t count);
bool bg_shim_last();
// A thread adds to *number and is told what was there, and its group rests; bg_shim_release and
// bg_shim_acquire are fences.
uint32_t bg_shim_add(uint32_t* number, uint32_t by);
void bg_shim_release();
void bg_shim_acquire();
// A thread counts at *next, which wraps to 0 after last, and its group rests.
uint32_t bg_shim_take(uint32_t* next, uint32_t last);
uint32_t bg_shim_lanes();  // of a wave
// A matrix instruction: a lane gives two words of A and two of B, of which so many bytes are numbers, and has
// four numbers of C.
enum ShimNumber { kShimF32, kShimBF16, kShimF16, kShimInt8, kShimFnuz };
void bg_shim_product(ShimNumber kind, int bytes, const uint32_t (&give)[4], void* c);
void bg_shim_double_product(double a, double b, double (&c)[4]);  // the same of fp64, with a number of each
uint32_t bg_shim_first(uint32_t x);  // what the first lane of the wave gives

inline uint32_t threadId() { return bg_shim_self.thread; }
inline uint32_t workerId() { return bg_shim_self.worker; }
inline uint32_t pieceId() { return bg_shim_self.piece; }
// Threads that wait at different lines are at different barriers.
inline void barrier(int line = __builtin_LINE()) { bg_shim_barrier(line); }

constexpr bool kHasDoubles = true, kHasE2M1 = true, kFinishes = true;
inline void releaseStores() { bg_shim_release(); }
inline void acquireStores() { bg_shim_acquire(); }
inline uint32_t addAt(uint32_t* number, uint32_t by) { return bg_shim_add(number, by); }

#ifdef BG_AS_CUDA
// arrivesLast is that of dialect_cuda.h: what kernels of CUDA share is tested with it too.
inline bool arrivesLast(uint32_t* arrived, uint32_t count, int line = __builtin_LINE()) {
  if (threadId() == 0) bg_shim_arrive(arrived, count);
  barrier(line);
  return bg_shim_last();
}

// What thin tiles need of CUDA: numbers with a sign, and what dialect_cuda.h has. Copies are done at once.
inline int32_t min(int32_t a, int32_t b) { return a < b ? a : b; }
inline int32_t max(int32_t a, int32_t b) { return a > b ? a : b; }
constexpr bool kCopiesLines = true;
constexpr uint32_t kPanelRows = 2048;
inline void copySector(char* to, const void* from, uint32_t bytes) {
  memset(to, 0, 16);
  memcpy(to, from, bytes);
}
#endif

// takeNext is that of dialect_cuda.h.
inline void takeNext(uint32_t* next, uint32_t last, bool takes, uint32_t& taken) {
  if (takes) taken = bg_shim_take(next, last);
}
inline uint32_t firstLane(uint32_t x) { return bg_shim_first(x); }
inline uint32_t waveSize() { return bg_shim_lanes(); }

inline float exponential(float x) { return exp2f(x); }
inline float reciprocal(float x) { return 1.0f / x; }

// Matrix instructions as mfma.cuh has their layout. Of n numbers that a lane gives of A, and of
// B, the first has the k of the first one of the lane. shim.cpp computes them, which is compiled for speed.
typedef float ShimBlock __attribute__((vector_size(16)));
typedef int ShimWholeBlock __attribute__((vector_size(16)));
template <class Factor, class Block>
Block shimProduct(ShimNumber kind, Factor a, Factor b, Block c) {
  uint32_t give[4] = {};
  __builtin_memcpy(give, &a, sizeof a);
  __builtin_memcpy(give + 2, &b, sizeof b);
  bg_shim_product(kind, sizeof a, give, &c);
  return c;
}
typedef short ShimShorts2 __attribute__((vector_size(4)));
typedef short ShimShorts4 __attribute__((vector_size(8)));
typedef _Float16 ShimHalves4 __attribute__((vector_size(8)));
#define BG_SHIM_PRODUCT(name, Factor, Block, kind) \
  inline Block name(Factor a, Factor b, Block c, int, int, int) { return shimProduct(kind, a, b, c); }
BG_SHIM_PRODUCT(__builtin_amdgcn_mfma_f32_16x16x4f32, float, ShimBlock, kShimF32)
BG_SHIM_PRODUCT(__builtin_amdgcn_mfma_f32_16x16x8bf16, ShimShorts2, ShimBlock, kShimBF16)
BG_SHIM_PRODUCT(__builtin_amdgcn_mfma_f32_16x16x16bf16_1k, ShimShorts4, ShimBlock, kShimBF16)
BG_SHIM_PRODUCT(__builtin_amdgcn_mfma_f32_16x16x16f16, ShimHalves4, ShimBlock, kShimF16)
BG_SHIM_PRODUCT(__builtin_amdgcn_mfma_i32_16x16x16i8, int, ShimWholeBlock, kShimInt8)
BG_SHIM_PRODUCT(__builtin_amdgcn_mfma_i32_16x16x32_i8, long, ShimWholeBlock, kShimInt8)
BG_SHIM_PRODUCT(__builtin_amdgcn_mfma_f32_16x16x32_fp8_fp8, long, ShimBlock, kShimFnuz)

typedef double ShimDoubles __attribute__((vector_size(32)));
#pragma clang diagnostic ignored "-Wpsabi"  // all callers are compiled together
inline ShimDoubles __builtin_amdgcn_mfma_f64_16x16x4f64(double a, double b, ShimDoubles c, int, int, int) {
  double sums[4] = {c[0], c[1], c[2], c[3]};
  bg_shim_double_product(a, b, sums);
  return ShimDoubles{sums[0], sums[1], sums[2], sums[3]};
}

// v_rcp_f64 errs by 2^29 units in the last place at most (AMD, "Sea Islands ISA").
inline double __builtin_amdgcn_rcp(double x) {
  return __builtin_bit_cast(double, __builtin_bit_cast(uint64_t, 1 / x) & ~((1ull << 29) - 1));
}

// v_lerp_u8: of each byte the half of the sum, rounded up where c is odd.
inline uint32_t __builtin_amdgcn_lerp(uint32_t a, uint32_t b, uint32_t c) {
  uint32_t d = 0;
  for (int at = 0; at < 32; at += 8) d |= ((a >> at & 0xff) + (b >> at & 0xff) + (c >> at & 1)) >> 1 << at;
  return d;
}
