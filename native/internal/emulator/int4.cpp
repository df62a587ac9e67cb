// Runs kernels of int4.cuh. It compares C with sums in fp64, and tells of what differs.
#include "threads.h"

inline void copyLine(SharedAddress to, const void* from, uint32_t bytes) { copyVector(to, from, bytes); }
template <bool kInBlocks>
void copyExisting(SharedAddress to, const void* from, int32_t place, int32_t length) {
  if (place < length) copyVector(to, from, 16);
}
inline void copyWord(SharedAddress to, const void* from, uint32_t bytes) {
  memset(sharedMemory + to, 0, 4);
  memcpy(sharedMemory + to, from, bytes);
}
inline bool warpAny(bool x) { return x; }  // what is done then can be done by each lane
struct E4M3 {
  static uint32_t halves(uint32_t bytes) { return halvesOfE4M3<F16>(bytes); }
};
inline void storeShared(SharedAddress to, const uint32_t (&x)[4]) { memcpy(sharedMemory + to, x, sizeof x); }
#include "../../ptx/mma.cuh"
void multiply(FragmentC& sum, const FragmentA& a, const FragmentB& b);
void multiplyFirst(FragmentC& sum, const FragmentA& a, const FragmentB& b);
#include "../../kernels/int4.cuh"

namespace {

struct BF16 {
  static float number(uint16_t bits) { return __uint_as_float(static_cast<uint32_t>(bits) << 16); }
  static uint16_t bits(float x) {
    const uint32_t u = __float_as_uint(x);
    return static_cast<uint16_t>((u + 0x7fff + (u >> 16 & 1)) >> 16);
  }
  static uint32_t pair(float low, float high) { return bits(low) | static_cast<uint32_t>(bits(high)) << 16; }
};

// Weights is a format that nibbles become numbers of.
template <class Format, uint32_t kExponent>
struct Weights : Format, Nibbles<Format, kExponent> {
  static constexpr bool kIsF16 = kExponent == 0x6400;
  static void multiply(FragmentC& sum, const uint32_t (&a)[2][2],
      const uint32_t (&b)[2]) { multiplyBits16<Format>(sum, a, b); }
};

struct Case {
  uint32_t m, n, k, more;  // more: elements of a row of A behind those of the matrix
  uint32_t groups;         // the flag
  bool gather;
  int first;               // of MXFP4 and NVFP4: column j has scales first + j; -1: any
};

// wordOf draws a word of groups of column j.
uint32_t wordOf(const Case& c, uint32_t j) {
  if (c.first >= 0) {
    const uint32_t scale = min(c.first + j, c.groups == kGroups32 ? 244u : 255u);  // sums are finite
    return (c.groups == kGroups16 && scale % 128 == 127 ? 0 : scale) * 0x01010101;  // no NaN
  }
  switch (c.groups) {
    case kGroups32: return 0x7a7a7a7a + (static_cast<uint32_t>(rand()) & 0x07070707);
    case kGroups16: return 0x30303030 ^ (static_cast<uint32_t>(rand()) & 0x8f8f8f8f);
  }
  return (__float_as_uint(static_cast<float>(rand() % 1000 - 300) / 500.0f) & ~15u) | rand() % 16;
}

// weightOf is the number of weight k of column j, whose groups' words are `rows`.
double weightOf(const Case& c, uint32_t weight, const uint32_t* rows, uint32_t ldb, uint32_t j, uint32_t k) {
  static const double e2m1[8] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  const double x = weight < 8 ? e2m1[weight] : -e2m1[weight - 8];
  switch (c.groups) {
    case kGroups32: {
      const uint32_t byte = rows[k / 128 * ldb + j] >> k % 128 / 32 * 8 & 255;
      return ldexp(x, static_cast<int>(byte) - 127);
    }
    case kGroups16: {
      const uint32_t byte = rows[(1 + k / 64) * ldb + j] >> k % 64 / 16 * 8 & 255;
      return x * static_cast<double>(F16::number(static_cast<uint16_t>(E4M3::halves(byte)))) *
          static_cast<double>(__uint_as_float(rows[j]));
    }
  }
  const uint32_t group = rows[k / (c.groups == kGroups64 ? 64 : 128) * ldb + j];
  return (static_cast<int>(weight) - static_cast<int>(group & 15)) *
      static_cast<double>(__uint_as_float(group & ~15u));
}

// wrong runs a tile of a case and counts elements of C that differ.
template <class T>
uint32_t wrong(const Case& c) {
  using Format = typename T::Element::Format;
  memset(sharedMemory, 0xff, sizeof sharedMemory);  // NaN
  const uint32_t stored = c.gather ? 50 : c.m, lda = c.k + c.more, ldb = (c.n + 7) / 8 * 8,
      groups = wordsOf64(c.groups) ? c.k / 64 + (c.groups == kGroups16) : (c.k + 127) / 128;
  // Of their sizes, so that nothing beside them is read. A begins with a line, or with an element.
  const std::unique_ptr<uint16_t[]> allA(new uint16_t[c.more % 8 + lda * (stored - 1) + c.k]);
  uint16_t* const A = allA.get() + c.more % 8;
  for (uint32_t i = 0; i < lda * (stored - 1) + c.k; ++i) A[i] =
      Format::bits(static_cast<float>(rand() % 255 - 127) / 64.0f);
  const std::unique_ptr<uint32_t[]> B(new uint32_t[c.k / 8 * ldb]);
  for (uint32_t i = 0; i < c.k / 8 * ldb; ++i) B[i] =
      static_cast<uint32_t>(rand()) << 16 ^ static_cast<uint32_t>(rand());
  // they begin anywhere, and end the buffer
  const uint32_t scales = c.m + 3, length = scales + (groups - 1) * ldb + c.n;
  const std::unique_ptr<uint32_t[]> rows(new uint32_t[length]);
  for (uint32_t i = 0; i < length; ++i) rows[i] = rand() % 5 != 0 ? rand() % stored : 0xffffffff;
  for (uint32_t i = scales; i < length; ++i) rows[i] = c.groups == kGroups16 && i - scales < ldb ?
      __float_as_uint(static_cast<float>(rand() % 9 - 3)) : wordOf(c, (i - scales) % ldb);
  std::vector<float> C(c.m * c.n);
  uint4 items[kEpilogueItemWords / 4];
  storeItem(items, 0, Item{0, 0, 0, c.k, lda, ldb, c.n, extentOf(c.m, c.n), __float_as_uint(1.0f), 0,
      kFinal, kItemFloatC | (c.more % 8 == 0 ? kItemVector : 0)},
                    ItemEpilogue{0, c.gather ? stored : 0, 0, 0, 0, 0, 0, 0, scales, 0, 0, 0});
  const Epilogue e{nullptr, nullptr, rows.get(), c.groups | (c.gather ? kGather : 0)};
  runGroup(T::kThreads, [&] {
    int4Gemm<T>(items, nullptr, reinterpret_cast<const float*>(A), reinterpret_cast<const float*>(B.get()),
        C.data(), nullptr, e);
  });

  constexpr uint32_t places[8] = {0, 16, 4, 20, 8, 24, 12, 28};  // element.PackInt4
  auto rowAt = [&](uint32_t i) { return c.gather ? rows[i] : i; };
  const uint32_t differ = differing(C, c.m, c.n, c.k, rowAt, [&](uint32_t row, uint32_t j, uint32_t k) {
    const uint32_t word = B[k / 64 * 8 * ldb + 8 * j + k % 64 / 8];
    return static_cast<double>(Format::number(A[row * lda + k])) *
        weightOf(c, word >> places[k % 8] & 15, &rows[scales], ldb, j, k);
  });
  if (differ != 0) printf("tile %dx%d, %ux%ux%u, %u more, groups %u, gather %d: %u elements differ\n",
      T::TM, T::TN, c.m, c.n, c.k, c.more, c.groups, c.gather, differ);
  return differ;
}

template <class T>
uint32_t wrongOf() {
  constexpr uint32_t TM = T::TM, TN = T::TN;
  static_assert(T::kThreads <= 32 * kMostWarps, "more warps than there is room for");
  const uint32_t differ = wrong<T>({TM, TN - 7, 320, 8, kGroups32, true, -1}) +
      wrong<T>({TM - 1, TN, 64, 3, kGroups16, false, -1}) + wrong<T>({1, TN, 192, 0, kGroups16, true, -1}) +
      wrong<T>({8, TN, 64, 0, kGroups32, false, 0}) + wrong<T>({8, TN - 3, 64, 0, kGroups32, false, TN}) +
      wrong<T>({8, TN, 64, 0, kGroups16, false, 0}) + wrong<T>({8, TN, 64, 0, kGroups16, false, TN});
  if constexpr (T::Element::Format::kIsF16) return differ +
      wrong<T>({TM, TN, 1024, 8, kGroups128, false, -1}) + wrong<T>({TM - 1, TN, 192, 3, kGroups64, false, -1});
  return differ + wrong<T>({TM - 3, TN - 5, 640, 16, kGroups64, true, -1}) +
      wrong<T>({1, TN - 40, 64, 0, kGroups64, false, -1}) + wrong<T>({TM, 9, 256, 1, kGroups128, true, -1});
}

#define BG_TILE(name, ...) +wrongOf<__VA_ARGS__>()
#include "tiles.h"
namespace formats {
using BF16 = Weights<::BF16, 0x4300>;
using F16 = Weights<::F16, 0x6400>;
uint32_t wrongOfAll() {
  return 0
#include "../../lists/int4.inc"
      ;
}
}  // namespace formats

}  // namespace

int main() { return formats::wrongOfAll() == 0 ? 0 : 1; }
