// What dialect_cuda.h, tensor_cuda.h and wgmma_cuda.h are on a GPU, for kernels of
// wgmma.cuh that run on a CPU. warpgroup.cpp carries it out.
#pragma once

#include <math.h>
#include <stddef.h>
#include <stdint.h>

#define BG_DEVICE inline
#define BG_SHARED(type, name, n) type* const name = reinterpret_cast<type*>(staticShared(sizeof(type) * (n)))
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

uint32_t threadId();
uint32_t workerId();
uint32_t workers();
uint32_t pieceId();
void barrier();
void warpBarrier();
uint32_t uniform(uint32_t x);
void takeNext(uint32_t* next, uint32_t last, bool takes, uint32_t& taken);
uint32_t ofLane(uint32_t x, uint32_t lane);
template <int lane>
uint32_t ofLane(uint32_t x) { return ofLane(x, lane); }
bool warpAny(bool x);

constexpr bool kFinishes = false;
bool arrivesLast(uint32_t* arrived, uint32_t count);
bool warpArrivesLast(uint32_t* arrived, uint32_t count);

using SharedAddress = uint32_t;
char* staticShared(size_t bytes);
char* dynamicShared();
SharedAddress sharedAddress(const void* p);

template <class T>
T* inGlobal(T* p) {
  return p;
}

void copyLine(SharedAddress to, const void* from, uint32_t bytes);
inline void copyWhole(SharedAddress to, const void* from) { copyLine(to, from, 16); }
template <bool kInBlocks>
void copyExisting(SharedAddress to, const void* from, int32_t place, int32_t length) {
  if (place < length) copyLine(to, from, 16);
}
void copyWord(SharedAddress to, const void* from, uint32_t bytes);
inline void commitCopies() {}
void waitForCopies();
template <int kPending>
void waitCopies() {
  static_assert(kPending == 0, "copies are one group");
  waitForCopies();
}
void storeShared(SharedAddress to, const uint32_t (&x)[4]);

void expectBytes(SharedAddress at, uint32_t bytes);
void copyPiece(SharedAddress to, const void* from, uint32_t bytes, SharedAddress at);
void initPhases(SharedAddress at, uint32_t count);
inline void fencePhases() {}
void arrive(SharedAddress at);
void arriveCopied(SharedAddress at);
void waitPhase(SharedAddress at, uint32_t parity);
void fenceStores();
inline void fetch(const void* at) { static_cast<void>(*static_cast<const volatile char*>(at)); }

void setRegisters(uint32_t n);
template <int n>
void raiseRegisters() {
  setRegisters(n);
}
template <int n>
void lowerRegisters() {
  setRegisters(n);
}

void fenceProducts();
void commitProducts();
void endProducts(uint32_t pending);
template <int kPending>
void waitProducts() {
  endProducts(kPending);
}

// Of descriptors the address alone, in units of 16 bytes as there.
inline uint64_t matrixB(SharedAddress at) { return at >> 4; }
inline uint64_t matrixAcross(SharedAddress at) { return at >> 4; }
// What a word of operands has: a tf32 number, two of 16 bits, or four of 8.
enum class Format { tf32, bf16, f16, e4m3, int8 };
void startProduct(float* d, uint32_t n, const uint32_t (&a)[4], uint64_t b, bool first, Format format = Format::tf32);
void startSharedProduct(float* d, uint32_t n, uint64_t a, bool acrossA, uint64_t b, bool acrossB, Format format, bool first = false);
void multiplyFragments(float (&sum)[4], const uint32_t (&words)[6], Format format);
float numberOf(Format format, uint16_t bits);
uint16_t bitsOf(Format format, float x);
template <Format kFormat>
struct Half {
  static float number(uint16_t bits) { return numberOf(kFormat, bits); }
  static uint16_t bits(float x) { return bitsOf(kFormat, x); }
  static uint32_t pair(float low, float high) { return bits(low) | static_cast<uint32_t>(bits(high)) << 16; }
  template <class Sum>
  static void multiply(Sum& sum, const uint32_t (&a)[2][2], const uint32_t (&b)[2]) {
    multiplyFragments(sum.x, {a[0][0], a[1][0], a[0][1], a[1][1], b[0], b[1]}, kFormat);
  }
  // Nibbles beside the exponent of 128, or 1024, are that much more.
  static constexpr uint32_t kMore = kFormat == Format::bf16 ? 0x43004300 : 0x64006400;
  static uint32_t minus(uint32_t group) { return (kMore | 0x80008000) | (group & 15) * 0x00010001; }
  static uint32_t weights(uint32_t nibbles, uint32_t less) {
    const uint32_t more = (nibbles & 0x000f000f) | kMore;
    return pair(number(more & 0xffff) + number(less & 0xffff), number(more >> 16) + number(less >> 16));
  }
};
template <bool kFirst, Format kFormat, int n>
void product(Half<kFormat>, float (&d)[n], const uint32_t (&a)[4], uint64_t b) {
  startProduct(d, n, a, b, kFirst, kFormat);
}
template <Format kFormat, int n>
void product(Half<kFormat>, float (&d)[n], const uint32_t (&a)[4], uint64_t b) {
  startProduct(d, n, a, b, false, kFormat);
}
template <bool kAcrossA, bool kAcrossB, Format kFormat, int n>
void productOf(Half<kFormat>, float (&d)[n], uint64_t a, uint64_t b) {
  startSharedProduct(d, n, a, kAcrossA, b, kAcrossB, kFormat);
}
using BF16 = Half<Format::bf16>;
using F16 = Half<Format::f16>;
struct E4M3 {
  static constexpr bool kWhole = false;
};
template <bool kFirst, int n>
void product(E4M3, float (&d)[n], const uint32_t (&a)[4], uint64_t b) {
  startProduct(d, n, a, b, kFirst, Format::e4m3);
}
template <bool kFirst, int n>
void productOf(E4M3, float (&d)[n], uint64_t a, uint64_t b) {
  startSharedProduct(d, n, a, false, b, false, Format::e4m3, kFirst);
}
// Whole numbers, whose sums are int32, in the place of float.
struct Int8 {
  static constexpr bool kWhole = true;
};
template <int n>
void product(Int8, int32_t (&d)[n], const uint32_t (&a)[4], uint64_t b) {
  startProduct(reinterpret_cast<float*>(d), n, a, b, false, Format::int8);
}
template <bool kAcrossA, bool kAcrossB, int n>
void productOf(Int8, int32_t (&d)[n], uint64_t a, uint64_t b) {
  startSharedProduct(reinterpret_cast<float*>(d), n, a, false, b, false, Format::int8);
}
inline uint32_t permute(uint32_t low, uint32_t high, uint32_t which) {
  const uint64_t both = low | static_cast<uint64_t>(high) << 32;
  uint32_t x = 0;
  for (uint32_t i = 0; i < 4; ++i) x |= static_cast<uint32_t>(both >> (8 * (which >> (4 * i) & 7)) & 0xff) << (8 * i);
  return x;
}
template <bool kFirst, int n>
void product(float (&d)[n], const uint32_t (&a)[4], uint64_t b) {
  startProduct(d, n, a, b, kFirst);
}

// What compilers must not know of, which changes no number.
template <class X>
X settled(X x) {
  return x;
}
template <class Sum, int n>
void settle(Sum (&)[n]) {}

inline float exponential(float x) { return exp2f(x); }
inline float reciprocal(float x) { return 1.0f / x; }

// roundToTF32 rounds to nearest, ties to even, and keeps infinity and NaN.
inline uint32_t roundToTF32(float x) {
  const uint32_t u = __float_as_uint(x);
  return (u & 0x7f800000) == 0x7f800000 ? u : (u + 0xfff + (u >> 13 & 1)) & ~0x1fffu;
}

// What the kernels of gemm.cuh and tensor.cuh need beyond that. Of these files the
// fix-up is used and how numbers are split.
struct NextItem {
  void keep(uint32_t item);
  uint32_t get(uint32_t told, float* shared) const;
};
using Packed = float;
Packed multiplyAdd(float x, Packed y, Packed sum);
template <int kFloats>
struct Copies;
template <int kBytes>
void copyIf(uint32_t bits, int j, SharedAddress to, const float* from);
#define BG_SHARED_DYNAMIC(name) float4* const name = nullptr
bool barrierOr(bool any);
template <class Number>
uint32_t placeInLine(const Number* p) {
  return reinterpret_cast<uintptr_t>(p) % 16 / sizeof(Number);
}
uint32_t clusterSize();
uint32_t clusterRank();
void clusterArrive();
void clusterWait();
void storeRemote(SharedAddress to, uint32_t rank, float x);

// The kernels of warpgroup_kernels.cpp.
struct WarpgroupKernel {
  const char* name;
  void (*function)(const uint4* items, const uint32_t* table, const float* A, const float* B, float* C, float* workspace,
                   const void* B2, const void* bias, const uint32_t* rows, uint32_t flags);
  uint32_t minGroups;  // thread groups whose registers fit in a multiprocessor at once
};
extern const WarpgroupKernel kWarpgroupKernels[];  // ends with a null name
