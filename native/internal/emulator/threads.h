// What kernels need to run as threads of the CPU: each thread of a group is one, and those of a warp exchange what a product
// takes. Copies are done at once.
#pragma once
#include <math.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <memory>
#include <thread>
#include <vector>

#define BG_DEVICE inline
#define BG_SHARED(type, name, n) type* const name = nullptr
#define BG_SHARED_DYNAMIC(name) float4* const name = reinterpret_cast<float4*>(sharedMemory)
#define BG_UNROLL_STEPS

struct alignas(16) uint4 {
  uint32_t x, y, z, w;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
inline uint32_t min(uint32_t a, uint32_t b) { return a < b ? a : b; }
inline uint32_t max(uint32_t a, uint32_t b) { return a > b ? a : b; }
inline int32_t min(int32_t a, int32_t b) { return a < b ? a : b; }
inline int32_t max(int32_t a, int32_t b) { return a > b ? a : b; }
inline uint32_t __float_as_uint(float x) { return __builtin_bit_cast(uint32_t, x); }
inline float __uint_as_float(uint32_t x) { return __builtin_bit_cast(float, x); }

constexpr uint32_t kMostWarps = 8;
alignas(256) inline char sharedMemory[227 << 10];
inline thread_local uint32_t self;
inline pthread_barrier_t everyone, ofWarp[kMostWarps];
inline uint32_t threadId() { return self; }
inline uint32_t workerId() { return 0; }
inline void barrier() { pthread_barrier_wait(&everyone); }
inline void warpBarrier() { pthread_barrier_wait(&ofWarp[self / 32]); }

using SharedAddress = uint32_t;
inline SharedAddress sharedAddress(const void* p) { return static_cast<uint32_t>(static_cast<const char*>(p) - sharedMemory); }
template <class T>
T* inGlobal(T* p) {
  return p;
}
template <class Number>
uint32_t placeInLine(const Number* p) {
  return reinterpret_cast<uintptr_t>(p) % 16 / sizeof(Number);
}
inline void copyVector(SharedAddress to, const void* from, uint32_t bytes) {
  memset(sharedMemory + to, 0, 16);
  memcpy(sharedMemory + to, from, bytes);
}
inline void commitCopies() {}
template <int kPending>
void waitCopies() {}
inline uint32_t permute(uint32_t low, uint32_t high, uint32_t which) {
  const uint64_t both = low | static_cast<uint64_t>(high) << 32;
  uint32_t x = 0;
  for (uint32_t i = 0; i < 4; ++i) x |= static_cast<uint32_t>(both >> (8 * (which >> (4 * i) & 7)) & 0xff) << (8 * i);
  return x;
}
inline float exponential(float x) { return exp2f(x); }
inline float reciprocal(float x) { return 1.0f / x; }

// Other kernels call these, or launches with tables.
struct NextItem {
  void keep(uint32_t) {}
  uint32_t get(uint32_t, float*) const { abort(); }
};
inline void takeNext(uint32_t*, uint32_t, bool, uint32_t&) { abort(); }
constexpr bool kFinishes = false;
bool arrivesLast(uint32_t* arrived, uint32_t count);
uint32_t pieceId();
using Packed = float;
Packed multiplyAdd(float x, Packed y, Packed sum);
template <int kFloats>
struct Copies;
template <int kBytes>
void copyIf(uint32_t bits, int j, SharedAddress to, const float* from);
bool barrierOr(bool any);
uint32_t clusterSize();
uint32_t clusterRank();
void clusterArrive();
void clusterWait();
void storeRemote(SharedAddress to, uint32_t rank, float x);
uint32_t roundToTF32(float x);

// F16 and BF16 are formats of halves.
struct F16 {
  static float number(uint16_t bits) { return static_cast<float>(__builtin_bit_cast(_Float16, bits)); }
  static uint16_t bits(float x) { return __builtin_bit_cast(uint16_t, static_cast<_Float16>(x)); }
  static uint32_t pair(float low, float high) { return bits(low) | static_cast<uint32_t>(bits(high)) << 16; }
};

// Words of lanes: of A as multiplyHalves has them, then of B.
inline uint32_t exchanged[kMostWarps][32][6];

// multiplyHalves is sum += a*b of 16 k's of a format, as a warp has them.
template <class Format, class Sum>
void multiplyHalves(Sum& sum, const uint32_t (&a)[2][2], const uint32_t (&b)[2]) {
  auto& lanes = exchanged[self / 32];
  const uint32_t lane = self % 32, mine[6] = {a[0][0], a[1][0], a[0][1], a[1][1], b[0], b[1]};
  memcpy(lanes[lane], mine, sizeof mine);
  warpBarrier();
  for (uint32_t e = 0; e < 4; ++e) {
    const uint32_t row = lane / 4 + e / 2 * 8, column = 2 * (lane % 4) + e % 2;
    for (uint32_t k = 0; k < 16; ++k) {  // pairs of lanes' members, of the lower 8 k's and of the others
      const uint32_t member = k / 2 % 4, half = k / 8;
      const uint32_t x = lanes[row % 8 * 4 + member][2 * half + row / 8], y = lanes[column * 4 + member][4 + half];
      sum.x[e] += Format::number(static_cast<uint16_t>(x >> 16 * (k % 2))) * Format::number(static_cast<uint16_t>(y >> 16 * (k % 2)));
    }
  }
  warpBarrier();
}

// runGroup runs a thread group.
template <class Kernel>
void runGroup(uint32_t count, Kernel kernel) {
  pthread_barrier_init(&everyone, nullptr, count);
  for (uint32_t i = 0; i < count / 32; ++i) pthread_barrier_init(&ofWarp[i], nullptr, 32);
  std::vector<std::thread> threads;
  for (uint32_t i = 0; i < count; ++i) {
    threads.emplace_back([&kernel, i] {
      self = i;
      kernel();
    });
  }
  for (auto& t : threads) t.join();
}
