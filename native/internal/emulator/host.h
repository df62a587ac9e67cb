// What device text of CUDA needs of a CPU, whoever runs it there: threads.h as threads, warpgroup.h as a GPU
// of 9.0.
#pragma once

#include <math.h>
#include <stdint.h>

#define BG_DEVICE inline
#define BG_UNROLL_STEPS

struct alignas(16) uint4 {
  uint32_t x, y, z, w;
};
struct alignas(8) uint2 {
  uint32_t x, y;
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
inline double doubleOf(uint32_t high, uint32_t low) {
  return __builtin_bit_cast(double, static_cast<uint64_t>(high) << 32 | low);
}
inline double logistic(double v, double z) { return v / (1 + exp(-z)); }

using SharedAddress = uint32_t;
constexpr bool kCopiesLines = true;  // no thin tile runs here
template <class T>
T* inGlobal(T* p) {
  return p;
}
inline uint32_t permute(uint32_t low, uint32_t high, uint32_t which) {
  const uint64_t both = low | static_cast<uint64_t>(high) << 32;
  uint32_t x = 0;
  for (uint32_t i = 0; i < 4; ++i)
    x |= static_cast<uint32_t>(both >> (8 * (which >> (4 * i) & 7)) & 0xff) << (8 * i);
  return x;
}
inline uint32_t masked(uint32_t word, uint32_t mask) { return word & mask; }
inline uint32_t chosen(uint32_t x, uint32_t y, uint32_t mask) { return (x & mask) | (y & ~mask); }
inline float exponential(float x) { return exp2f(x); }
inline float reciprocal(float x) { return 1.0f / x; }

// Nibbles makes numbers of a format of nibbles, as bits16.cuh does: beside the exponent of 128, or 1024,
// they are that much more.
template <class Format, uint32_t kExponent>
struct Nibbles {
  static constexpr uint32_t kBoth = 0x00010001;
  static constexpr int kFraction = kExponent == 0x4300 ? 7 : 10;
  static uint32_t times(uint32_t x, uint32_t y) {
    auto of = [&](int shift) { return Format::number(static_cast<uint16_t>(x >> shift)) *
        Format::number(static_cast<uint16_t>(y >> shift)); };
    return Format::pair(of(0), of(16));
  }
  static uint32_t minus(uint32_t group) { return ((0x8000 | kExponent) | (group & 15)) * kBoth; }
  static uint32_t weights(uint32_t nibbles, uint32_t less) {
    const uint32_t more = (nibbles & 15 * kBoth) | kExponent * kBoth;
    auto of = [&](int shift) { return Format::number(static_cast<uint16_t>(more >> shift)) +
        Format::number(static_cast<uint16_t>(less >> shift)); };
    return Format::pair(of(0), of(16));
  }
};

// halvesOfE4M3 is E4M3::halves, with F16.
template <class F16>
uint32_t halvesOfE4M3(uint32_t bytes) {
  auto of = [&](int shift) {
    const uint32_t size = bytes >> shift & 0x7f, exponent = size >> 3, fraction = size & 7;
    const float x = size == 0x7f ? NAN : exponent == 0 ? ldexpf(static_cast<float>(fraction), -9)
        : ldexpf(static_cast<float>(8 + fraction), static_cast<int>(exponent) - 10);
    return (bytes >> shift & 0x80) != 0 ? -x : x;
  };
  return F16::pair(of(0), of(8));
}

// eachPair calls for the 8 pairs of k's of sum e of a lane, of a product of a warp (PTX ISA, "mma.m16n8k16"):
// with the lane that has those of A and the number of its word, and the same of B, whose words are after
// four of A.
template <class Use>
void eachPair(uint32_t lane, uint32_t e, Use use) {
  const uint32_t row = lane / 4 + e / 2 * 8, column = 2 * (lane % 4) + e % 2;
  for (uint32_t half = 0; half < 2; ++half) {
    for (uint32_t member = 0; member < 4; ++member) use(row % 8 * 4 + member, 2 * half + row / 8,
        column * 4 + member, 4 + half);
  }
}

// What kernels call that do not run here.
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
