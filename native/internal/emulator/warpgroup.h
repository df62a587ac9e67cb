// What dialect_cuda.h, mma.cuh and wgmma_cuda.h are on a GPU, for kernels of
// wgmma.cuh that run on a CPU. warpgroup.cpp carries it out.
#pragma once

#include <stddef.h>

#include "host.h"

#define BG_SHARED(type, name, n) type* const name = reinterpret_cast<type*>(staticShared(sizeof(type) * (n)))

uint32_t threadId();
uint32_t workerId();
uint32_t workers();
void barrier();
void warpBarrier();
uint32_t uniform(uint32_t x);
void takeNext(uint32_t* next, uint32_t last, bool takes, uint32_t& taken);
uint32_t ofLane(uint32_t x, uint32_t lane);
uint32_t ofFour(uint32_t x, uint32_t member);
template <int lane>
uint32_t ofLane(uint32_t x) { return ofLane(x, lane); }
bool warpAny(bool x);

bool warpArrivesLast(uint32_t* arrived, uint32_t count);

char* staticShared(size_t bytes);
char* dynamicShared();
SharedAddress sharedAddress(const void* p);

void copyLine(SharedAddress to, const void* from, uint32_t bytes);
inline void copyWhole(SharedAddress to, const void* from) { copyLine(to, from, 16); }
template <bool kInBlocks>
void copyExisting(SharedAddress to, const void* from, int32_t place, int32_t length) {
  if (place < length) copyLine(to, from, 16);
}
// copyDoubles copies `size` bytes, 8 or 16, and after the first `bytes` zeros.
void copyDoubles(SharedAddress to, const double* from, uint32_t size, uint32_t bytes);
void copyWord(SharedAddress to, const void* from, uint32_t bytes);
void commitCopies();
void endCopies(uint32_t pending);
template <int kPending>
void waitCopies() {
  endCopies(kPending);
}
void storeShared(SharedAddress to, const uint32_t (&x)[4]);

void expectBytes(SharedAddress at, uint32_t bytes);
void copyPiece(SharedAddress to, const void* from, uint32_t bytes, SharedAddress at);
// Maps of matrices, and copies and stores of boxes (boxes.cpp).
constexpr uint32_t kMapWords = 32, kMapBytes = 4 * kMapWords;
bool elected();
inline uint32_t ofEachLane(uint32_t x) { return x; }
void beginMap(SharedAddress draft, uint32_t rowBytes, uint32_t boxRows, uint32_t size, bool swizzles);
template <uint32_t kBoxRows, class Number, uint32_t kBytes = 128>
void draftMap(SharedAddress draft) {
  beginMap(draft, kBytes, kBoxRows, sizeof(Number), kBytes == 128);
}
void endMap(uint32_t* map, SharedAddress draft, const void* at, uint32_t depth, uint32_t rows, uint32_t ld);
template <class Number>
void storeMap(uint32_t* map, SharedAddress draft, const Number* at, uint32_t depth, uint32_t rows,
    uint32_t ld) {
  endMap(map, draft, at, depth, rows, ld);
}
void acquireMap(const uint32_t* map);
void copyBox(SharedAddress to, const uint32_t* map, uint32_t k, uint32_t row, SharedAddress full);
void storeBox(const uint32_t* map, uint32_t col, uint32_t row, SharedAddress from);
void commitBoxes();
void endBoxes(uint32_t pending);
template <int kPending>
void waitBoxesRead() {
  endBoxes(kPending);
}

void initPhases(SharedAddress at, uint32_t count);
inline void fencePhases() {}
void arrive(SharedAddress at);
inline void arriveExpecting(SharedAddress at, uint32_t bytes) {
  expectBytes(at, bytes);
  arrive(at);
}
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
inline uint64_t matrixAt(uint32_t low) { return low; }
inline uint64_t matrixMNMajor(SharedAddress at) { return at >> 4; }
// What a word of operands has: a tf32 number, two of 16 bits, or four of 8.
enum class Format { tf32, bf16, f16, e4m3, int8 };
void startProduct(float* d, uint32_t n, const uint32_t (&a)[4], uint64_t b, bool first,
    Format format = Format::tf32);
void startSharedProduct(float* d, uint32_t n, uint64_t a, bool majorMNA, uint64_t b, bool majorMNB,
    Format format, bool first = false);
void multiply(double (&c)[4], const double (&a)[8], const double (&b)[4]);  // as dmma.cuh has elements
void multiplyFragments(float (&sum)[4], const uint32_t (&words)[6], Format format);
float numberOf(Format format, uint16_t bits);
uint16_t bitsOf(Format format, float x);
template <Format kFormat>
struct Half : Nibbles<Half<kFormat>, kFormat == Format::bf16 ? 0x4300 : 0x6400> {
  static float number(uint16_t bits) { return numberOf(kFormat, bits); }
  static uint16_t bits(float x) { return bitsOf(kFormat, x); }
  static uint32_t pair(float low, float high) { return bits(low) | static_cast<uint32_t>(bits(high)) << 16; }
  template <class Sum>
  static void multiply(Sum& sum, const uint32_t (&a)[2][2], const uint32_t (&b)[2]) {
    multiplyFragments(sum.x, {a[0][0], a[1][0], a[0][1], a[1][1], b[0], b[1]}, kFormat);
  }
};
template <bool kFirst = false, Format kFormat, int n>
void product(Half<kFormat>, float (&d)[n], const uint32_t (&a)[4], uint64_t b) {
  startProduct(d, n, a, b, kFirst, kFormat);
}
template <bool kMNMajorA, bool kMNMajorB, Format kFormat, int n>
void productOf(Half<kFormat>, float (&d)[n], uint64_t a, uint64_t b) {
  startSharedProduct(d, n, a, kMNMajorA, b, kMNMajorB, kFormat);
}
using BF16 = Half<Format::bf16>;
using F16 = Half<Format::f16>;
struct E4M3 {
  static constexpr bool kWhole = false;
  static uint32_t halves(uint32_t bytes) { return halvesOfE4M3<F16>(bytes); }
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
template <bool kMNMajorA, bool kMNMajorB, int n>
void productOf(Int8, int32_t (&d)[n], uint64_t a, uint64_t b) {
  startSharedProduct(reinterpret_cast<float*>(d), n, a, false, b, false, Format::int8);
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
#define BG_SHARED_DYNAMIC(name) float4* const name = reinterpret_cast<float4*>(dynamicShared())

// The kernels of warpgroup_kernels.cpp, or of warpgroup_int4.cpp.
struct WarpgroupKernel {
  const char* name;
  void (*function)(const uint4* items, const uint32_t* table, const float* A, const float* B, float* C,
      float* workspace,
                   const void* B2, const void* bias, const uint32_t* rows, uint32_t flags);
  uint32_t minGroups;  // thread groups whose registers fit in a multiprocessor at once
};
extern const WarpgroupKernel kWarpgroupKernels[];  // ends with a null name
