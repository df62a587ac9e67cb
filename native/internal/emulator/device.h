// A GPU that the CPU plays, for tests of kernels.hip without one: what
// dialect_hip.h takes from the compiler on a real one. shim.cpp runs it.
#pragma once

#include <math.h>
#include <stddef.h>
#include <stdint.h>

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
// A thread of a group counts the group at *arrived, which wraps to 0; bg_shim_last reports whether it was the last.
void bg_shim_arrive(uint32_t* arrived, uint32_t count);
bool bg_shim_last();
// A thread adds to *number and is told what was there, and its group rests; bg_shim_release and bg_shim_acquire are fences.
uint32_t bg_shim_add(uint32_t* number, uint32_t by);
void bg_shim_release();
void bg_shim_acquire();
// A thread counts at *next, which wraps to 0 behind last, and its group rests.
uint32_t bg_shim_take(uint32_t* next, uint32_t last);
uint32_t bg_shim_lanes();  // of a wave
void bg_shim_wave(const uint32_t (&give)[4], uint32_t (*take)[4]);  // give: two words of A, two of B
uint32_t bg_shim_first(uint32_t x);  // what the first lane of the wave gives

inline uint32_t threadId() { return bg_shim_self.thread; }
inline uint32_t workerId() { return bg_shim_self.worker; }
inline uint32_t pieceId() { return bg_shim_self.piece; }
// Threads that wait at different lines are at different barriers.
inline void barrier(int line = __builtin_LINE()) { bg_shim_barrier(line); }

constexpr bool kFinishes = true;
inline void releaseStores() { bg_shim_release(); }
inline void acquireStores() { bg_shim_acquire(); }
inline uint32_t addAt(uint32_t* number, uint32_t by) { return bg_shim_add(number, by); }

#ifdef BG_ARRIVES_AS_CUDA
// arrivesLast is that of dialect_cuda.h: what kernels of CUDA share is tested with it too.
inline bool arrivesLast(uint32_t* arrived, uint32_t count, int line = __builtin_LINE()) {
  if (threadId() == 0) bg_shim_arrive(arrived, count);
  barrier(line);
  return bg_shim_last();
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
// B, the first has the k of the first one of the lane.
typedef float ShimBlock __attribute__((vector_size(16)));
typedef int ShimWholeBlock __attribute__((vector_size(16)));
inline float shimAdd(float x, float y, float sum) { return fmaf(x, y, sum); }
inline int shimAdd(int x, int y, int sum) { return x * y + sum; }
template <int n, class Factor, class Block, class Number>
Block shimProduct(Factor a, Factor b, Block c, Number number) {
  uint32_t give[4] = {}, lanes[64][4];
  __builtin_memcpy(give, &a, sizeof a);
  __builtin_memcpy(give + 2, &b, sizeof b);
  bg_shim_wave(give, lanes);
  const uint32_t lane = threadId() % 64, col = lane % 16;
  for (uint32_t r = 0; r < 4; ++r) {
    for (uint32_t k = 0; k < 4; ++k) {
      for (int i = 0; i < n; ++i) c[r] = shimAdd(number(lanes[k * 16 + lane / 16 * 4 + r], i), number(lanes[k * 16 + col] + 2, i), c[r]);
    }
  }
  return c;
}
inline ShimBlock __builtin_amdgcn_mfma_f32_16x16x4f32(float a, float b, ShimBlock c, int, int, int) {
  return shimProduct<1>(a, b, c, [](const uint32_t* words, int) { return __builtin_bit_cast(float, *words); });
}

inline uint16_t shimHalf(const uint32_t* words, int i) { return static_cast<uint16_t>(words[i / 2] >> (16 * (i % 2))); }
inline float shimBF16(const uint32_t* words, int i) { return __builtin_bit_cast(float, static_cast<uint32_t>(shimHalf(words, i)) << 16); }
inline float shimF16(const uint32_t* words, int i) { return __builtin_bit_cast(_Float16, shimHalf(words, i)); }
typedef short ShimShorts2 __attribute__((vector_size(4)));
typedef short ShimShorts4 __attribute__((vector_size(8)));
typedef _Float16 ShimHalves4 __attribute__((vector_size(8)));
inline ShimBlock __builtin_amdgcn_mfma_f32_16x16x8bf16(ShimShorts2 a, ShimShorts2 b, ShimBlock c, int, int, int) {
  return shimProduct<2>(a, b, c, shimBF16);
}
inline ShimBlock __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(ShimShorts4 a, ShimShorts4 b, ShimBlock c, int, int, int) {
  return shimProduct<4>(a, b, c, shimBF16);
}
inline ShimBlock __builtin_amdgcn_mfma_f32_16x16x16f16(ShimHalves4 a, ShimHalves4 b, ShimBlock c, int, int, int) {
  return shimProduct<4>(a, b, c, shimF16);
}
inline int shimInt8(const uint32_t* words, int i) { return static_cast<int8_t>(words[i / 4] >> (8 * (i % 4))); }
inline ShimWholeBlock __builtin_amdgcn_mfma_i32_16x16x16i8(int a, int b, ShimWholeBlock c, int, int, int) { return shimProduct<4>(a, b, c, shimInt8); }
inline ShimWholeBlock __builtin_amdgcn_mfma_i32_16x16x32_i8(long a, long b, ShimWholeBlock c, int, int, int) { return shimProduct<8>(a, b, c, shimInt8); }
inline float shimFnuz(const uint32_t* words, int i) {
  const uint32_t bits = words[i / 4] >> (8 * (i % 4)) & 0xff, exponent = bits >> 3 & 15, fraction = bits & 7;
  if (bits == 0x80) return NAN;
  const float size = ldexpf(static_cast<float>(exponent == 0 ? fraction : 8 + fraction), static_cast<int>(exponent == 0 ? 1 : exponent) - 11);
  return (bits & 0x80) != 0 ? -size : size;
}
inline ShimBlock __builtin_amdgcn_mfma_f32_16x16x32_fp8_fp8(long a, long b, ShimBlock c, int, int, int) { return shimProduct<8>(a, b, c, shimFnuz); }

// v_lerp_u8: of each byte the half of the sum, rounded up where c is odd.
inline uint32_t __builtin_amdgcn_lerp(uint32_t a, uint32_t b, uint32_t c) {
  uint32_t d = 0;
  for (int at = 0; at < 32; at += 8) d |= ((a >> at & 0xff) + (b >> at & 0xff) + (c >> at & 1)) >> 1 << at;
  return d;
}
