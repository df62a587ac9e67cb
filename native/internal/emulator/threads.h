// What kernels need to run as threads of the CPU: each thread of a group is one, and those of a warp exchange
// what a product takes. Copies are done at once.
#pragma once
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <memory>
#include <thread>
#include <vector>

#include "host.h"

#define BG_SHARED(type, name, n) type* const name = nullptr
#define BG_SHARED_DYNAMIC(name) float4* const name = reinterpret_cast<float4*>(sharedMemory)

constexpr uint32_t kMostWarps = 8;
alignas(256) inline char sharedMemory[227 << 10];
inline thread_local uint32_t self;
inline pthread_barrier_t everyone, ofWarp[kMostWarps];
inline uint32_t threadId() { return self; }
inline uint32_t workerId() { return 0; }
inline void barrier() { pthread_barrier_wait(&everyone); }
inline void warpBarrier() { pthread_barrier_wait(&ofWarp[self / 32]); }

inline SharedAddress sharedAddress(const void* p) {
  return static_cast<uint32_t>(static_cast<const char*>(p) - sharedMemory);
}
inline void copyVector(SharedAddress to, const void* from, uint32_t bytes) {
  memset(sharedMemory + to, 0, 16);
  memcpy(sharedMemory + to, from, bytes);
}
inline void commitCopies() {}
template <int kPending>
void waitCopies() {}
// Other kernels call these, or launches with tables.
struct NextItem {
  void keep(uint32_t) {}
  uint32_t get(uint32_t, float*) const { abort(); }
};
inline void takeNext(uint32_t*, uint32_t, bool, uint32_t&) { abort(); }
uint32_t roundToTF32(float x);

// F16 is a format of halves.
struct F16 {
  static float number(uint16_t bits) { return static_cast<float>(__builtin_bit_cast(_Float16, bits)); }
  static uint16_t bits(float x) { return __builtin_bit_cast(uint16_t, static_cast<_Float16>(x)); }
  static uint32_t pair(float low, float high) { return bits(low) | static_cast<uint32_t>(bits(high)) << 16; }
};

// Words of lanes: of A as multiplyBits16 has them, then of B.
inline uint32_t swapped[kMostWarps][32][6];

// multiplyBits16 is sum += a*b of 16 k's of a format, as a warp has them.
template <class Format, class Sum>
void multiplyBits16(Sum& sum, const uint32_t (&a)[2][2], const uint32_t (&b)[2]) {
  auto& lanes = swapped[self / 32];
  const uint32_t lane = self % 32, mine[6] = {a[0][0], a[1][0], a[0][1], a[1][1], b[0], b[1]};
  memcpy(lanes[lane], mine, sizeof mine);
  warpBarrier();
  for (uint32_t e = 0; e < 4; ++e) {
    eachPair(lane, e, [&](uint32_t laneA, uint32_t wordA, uint32_t laneB, uint32_t wordB) {
      const uint32_t x = lanes[laneA][wordA], y = lanes[laneB][wordB];
      for (uint32_t k = 0; k < 2; ++k) 
        sum.x[e] += Format::number(static_cast<uint16_t>(x >> 16 * k)) *
            Format::number(static_cast<uint16_t>(y >> 16 * k));
    });
  }
  warpBarrier();
}

// differing counts the elements of an m x n C that differ from sums in fp64 of `depth` products, product(row,
// j, k), by more than fp32 may. rowAt(i) is the row of A, 0xffffffff where it is none.
template <class RowAt, class Product>
uint32_t differing(const std::vector<float>& C, uint32_t m, uint32_t n, uint32_t depth, RowAt rowAt,
    Product product) {
  uint32_t differ = 0;
  for (uint32_t i = 0; i < m; ++i) {
    const uint32_t row = rowAt(i);
    for (uint32_t j = 0; j < n; ++j) {
      double sum = 0, size = 0;
      for (uint32_t k = 0; row != 0xffffffff && k < depth; ++k) {
        const double x = product(row, j, k);
        sum += x;
        size += fabs(x);
      }
      if (!(fabs(sum - C[i * n + j]) <= 2 * (depth + 4) * 0x1p-24 * size)) ++differ;
    }
  }
  return differ;
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
