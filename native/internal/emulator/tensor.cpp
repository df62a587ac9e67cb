// Runs kernels of tensor.cuh that multiply E4M3 with scales of blocks: each thread of a group is one of the CPU, and those of a warp
// exchange what a product takes. Copies are done at once. It compares C with sums in fp64, and tells of what differs.
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
alignas(256) char sharedMemory[227 << 10];
thread_local uint32_t self;
pthread_barrier_t everyone, ofWarp[kMostWarps];
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

#include "../../gemm.cuh"
#include "../../fixup.cuh"
#include "../../epilogue.cuh"
#include "../../half.cuh"
#include "../../fragment.cuh"
void multiply(FragmentC& sum, const FragmentA& a, const FragmentB& b);
void multiplyFirst(FragmentC& sum, const FragmentA& a, const FragmentB& b);

namespace {

struct F16 {
  static float number(uint16_t bits) { return static_cast<float>(__builtin_bit_cast(_Float16, bits)); }
  static uint16_t bits(float x) { return __builtin_bit_cast(uint16_t, static_cast<_Float16>(x)); }
  static uint32_t pair(float low, float high) { return bits(low) | static_cast<uint32_t>(bits(high)) << 16; }
};

// numberOf is one of E4M3 that is no NaN.
float numberOf(uint8_t bits) {
  const int exponent = bits >> 3 & 15, rest = bits & 7;
  const float size = exponent == 0 ? ldexpf(rest, -9) : ldexpf(8 + rest, exponent - 10);
  return bits >> 7 ? -size : size;
}

// Words of lanes: of A as multiply has them, then of B.
uint32_t exchanged[kMostWarps][32][6];

struct E4M3 {
  static constexpr bool kWhole = false;
  static uint32_t halves(uint32_t bytes) { return F16::pair(numberOf(bytes & 0xff), numberOf(bytes >> 8 & 0xff)); }
  static void multiply(FragmentC& sum, const uint32_t (&a)[2][2], const uint32_t (&b)[2]) {
    auto& lanes = exchanged[self / 32];
    const uint32_t lane = self % 32, mine[6] = {a[0][0], a[1][0], a[0][1], a[1][1], b[0], b[1]};
    memcpy(lanes[lane], mine, sizeof mine);
    warpBarrier();
    for (uint32_t e = 0; e < 4; ++e) {
      const uint32_t row = lane / 4 + e / 2 * 8, column = 2 * (lane % 4) + e % 2;
      for (uint32_t k = 0; k < 16; ++k) {  // pairs of lanes' members, of the lower 8 k's and of the others
        const uint32_t member = k / 2 % 4, half = k / 8;
        const uint32_t x = lanes[row % 8 * 4 + member][2 * half + row / 8], y = lanes[column * 4 + member][4 + half];
        sum.x[e] += F16::number(static_cast<uint16_t>(x >> 16 * (k % 2))) * F16::number(static_cast<uint16_t>(y >> 16 * (k % 2)));
      }
    }
    warpBarrier();
  }
};

}  // namespace

#include "../../tensor.cuh"
#include "../../tensor_half.cuh"
#include "../../tensor_bytes.cuh"
#include "../../tensor_epilogue.cuh"

namespace {

using BytesE4M3 = Bytes<E4M3, F16, F16>;

struct Case {
  uint32_t m, n, k, more;  // more: elements of a row behind those of the matrix
  bool gather;
};

// wrong runs a tile of a case and counts elements of C that differ.
template <class T, bool kTransA, bool kTransB>
uint32_t wrong(const Case& c) {
  const uint32_t stored = c.gather ? 50 : c.m, each = (c.k + 127) / 128;
  const uint32_t lda = (kTransA ? c.m : c.k) + c.more, ldb = (kTransB ? c.k : c.n) + c.more;
  auto bytes = [](size_t size) {
    std::vector<uint8_t> all(size + 16);  // copies read lines
    for (auto& x : all) x = static_cast<uint8_t>(0x30 + rand() % 16 + rand() % 2 * 128);
    return all;
  };
  const auto A = bytes(lda * (kTransA ? c.k : stored)), B = bytes(ldb * (kTransB ? c.n : c.k));
  std::vector<uint32_t> list;
  for (uint32_t i = 0; i < c.m; ++i) list.push_back(rand() % 5 != 0 ? rand() % stored : 0xffffffff);
  const uint32_t scaleB = c.m, scaleA = scaleB + each;  // those of A end the buffer
  for (uint32_t i = 0; i < each * (1 + stored); ++i) list.push_back(__float_as_uint(static_cast<float>(rand() % 1000 - 300) / 500.0f));
  const std::unique_ptr<uint32_t[]> rows(new uint32_t[list.size()]);
  memcpy(rows.get(), list.data(), 4 * list.size());
  std::vector<float> C(c.m * c.n);
  uint4 items[kEpilogueItemWords / 4];
  storeEpilogueItem(items, 0, Item{0, 0, 0, c.k, lda, ldb, c.n, extentOf(c.m, c.n), __float_as_uint(1.0f), 0, kFinal, kItemFloatC},
                    ItemEpilogue{0, c.gather ? stored : 0, 0, 0, 0, 0, 0, scaleA, scaleB, 0, 0, 0});
  const Epilogue e{nullptr, nullptr, rows.get(), kBlocks | (c.gather ? kGather : 0)};

  pthread_barrier_init(&everyone, nullptr, T::kThreads);
  for (int i = 0; i < T::kThreads / 32; ++i) pthread_barrier_init(&ofWarp[i], nullptr, 32);
  std::vector<std::thread> threads;
  for (uint32_t i = 0; i < T::kThreads; ++i) {
    threads.emplace_back([&, i] {
      self = i;
      tensorGemm<T, kTransA, kTransB, false, Epilogue>(items, nullptr, reinterpret_cast<const float*>(A.data()), reinterpret_cast<const float*>(B.data()), C.data(), nullptr, e);
    });
  }
  for (auto& t : threads) t.join();

  auto scale = [&](uint32_t at) { return static_cast<double>(__uint_as_float(list[at])); };
  uint32_t differ = 0;
  for (uint32_t i = 0; i < c.m; ++i) {
    const uint32_t row = c.gather ? list[i] : i;
    for (uint32_t j = 0; j < c.n; ++j) {
      double sum = 0, size = 0;
      for (uint32_t k = 0; row != 0xffffffff && k < c.k; ++k) {
        const double x = numberOf(A[kTransA ? k * lda + row : row * lda + k]), y = numberOf(B[kTransB ? j * ldb + k : k * ldb + j]);
        const double product = scale(scaleA + row * each + k / 128) * scale(scaleB + k / 128) * x * y;
        sum += product;
        size += fabs(product);
      }
      if (!(fabs(sum - C[i * c.n + j]) <= 2 * (c.k + 4) * 0x1p-24 * size)) ++differ;
    }
  }
  if (differ != 0) {
    printf("tile %dx%d, transA %d, transB %d, %ux%ux%u, %u more, gather %d: %u elements differ\n", T::TM, T::TN, kTransA, kTransB, c.m, c.n, c.k, c.more, c.gather, differ);
  }
  return differ;
}

template <int TM, int TN, int TK, int kTeams, int kStages, int kMinGroups>
uint32_t wrongOf() {
  using T = TensorTile<TM, TN, TK, kTeams, kStages, kMinGroups, false, BytesE4M3>;
  static_assert(T::kThreads <= 32 * kMostWarps, "more warps than there is room for");
  const Case whole = {TM, TN, 1200, 16, false}, part = {TM - 5, TN - 3, 513, 5, true}, few = {TM - 5, TN, 100, 0, true}, odd = {1, TN - 1, 300, 3, false};
  const Case across = {TM - 5, TN, 513, 5, false};
  return wrong<T, false, true>(whole) + wrong<T, false, false>(part) + wrong<T, false, true>(few) + wrong<T, false, false>(odd) + wrong<T, true, false>(across) +
         wrong<T, true, true>(odd);
}

}  // namespace

#define BG_TILE(...)
#define BG_TILE_EPILOGUE(...)
#define BG_TENSOR(...)
#define BG_TENSOR_EPILOGUE(...)
#define BG_TENSOR_HALVES(name, ...) +wrongOf<__VA_ARGS__>()
#define BG_TENSOR_HALVES_EPILOGUE(...)
#define BG_TENSOR_CLUSTER(...)
#define BG_INT4(...)
#define BG_STREAM_INT4(...)
#define BG_PANEL_INT4(...)
#define BG_WGMMA(...)
#define BG_WGMMA_EPILOGUE(...)
#define BG_WGMMA_WIDE(...)
#define BG_WGMMA_WIDE_EPILOGUE(...)
int main() {
  const uint32_t differ = 0
#include "../../tiles.inc"
      ;
  return differ == 0 ? 0 : 1;
}
