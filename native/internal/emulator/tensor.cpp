// Runs kernels of tensor.cuh that multiply E4M3 with scales of blocks. It compares C with sums in fp64, and
// tells of what differs.
#include "threads.h"

#include "../../ptx/mma.cuh"
void multiply(FragmentC& sum, const FragmentA& a, const FragmentB& b);
void multiplyFirst(FragmentC& sum, const FragmentA& a, const FragmentB& b);

namespace {

// numberOf is one of E4M3 that is no NaN.
float numberOf(uint8_t bits) {
  const int exponent = bits >> 3 & 15, rest = bits & 7;
  const float size = exponent == 0 ? ldexpf(rest, -9) : ldexpf(8 + rest, exponent - 10);
  return bits >> 7 ? -size : size;
}

struct E4M3 {
  static constexpr bool kWhole = false;
  static uint32_t halves(uint32_t bytes) { return F16::pair(numberOf(bytes & 0xff),
      numberOf(bytes >> 8 & 0xff)); }
  static void multiply(FragmentC& sum, const uint32_t (&a)[2][2],
      const uint32_t (&b)[2]) { multiplyBits16<F16>(sum, a, b); }
};

}  // namespace

#include "../../kernels/tensor_bits16.cuh"

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
  for (uint32_t i = 0; i < each * (1 +
      stored); ++i) list.push_back(__float_as_uint(static_cast<float>(rand() % 1000 - 300) / 500.0f));
  const std::unique_ptr<uint32_t[]> rows(new uint32_t[list.size()]);
  memcpy(rows.get(), list.data(), 4 * list.size());
  std::vector<float> C(c.m * c.n);
  uint4 items[kEpilogueItemWords / 4];
  storeItem(items, 0, Item{0, 0, 0, c.k, lda, ldb, c.n, extentOf(c.m, c.n), __float_as_uint(1.0f), 0,
      kFinal, kItemFloatC},
                    ItemEpilogue{0, c.gather ? stored : 0, 0, 0, 0, 0, 0, scaleA, scaleB, 0, 0, 0});
  const Epilogue e{nullptr, nullptr, rows.get(), kBlocks | (c.gather ? kGather : 0)};

  runGroup(T::kThreads, [&] {
    tensorGemm<T, kTransA, kTransB, false, Epilogue>(items, nullptr, reinterpret_cast<const float*>(A.data()),
        reinterpret_cast<const float*>(B.data()), C.data(), nullptr, e);
  });

  auto scale = [&](uint32_t at) { return static_cast<double>(__uint_as_float(list[at])); };
  auto rowAt = [&](uint32_t i) { return c.gather ? list[i] : i; };
  const uint32_t differ = differing(C, c.m, c.n, c.k, rowAt, [&](uint32_t row, uint32_t j, uint32_t k) {
    const double x = numberOf(A[kTransA ? k * lda + row : row * lda + k]),
        y = numberOf(B[kTransB ? j * ldb + k : k * ldb + j]);
    return scale(scaleA + row * each + k / 128) * scale(scaleB + k / 128) * x * y;
  });
  if (differ != 0) {
    printf("tile %dx%d, transA %d, transB %d, %ux%ux%u, %u more, gather %d: %u elements differ\n", T::TM,
        T::TN, kTransA, kTransB, c.m, c.n, c.k, c.more, c.gather, differ);
  }
  return differ;
}

template <class T>
uint32_t wrongOf() {
  static_assert(T::kThreads <= 32 * kMostWarps, "more warps than there is room for");
  constexpr uint32_t TM = T::TM, TN = T::TN;
  const Case whole = {TM, TN, 1200, 16, false}, part = {TM - 5, TN - 3, 513, 5, true},
      few = {TM - 5, TN, 100, 0, true}, odd = {1, TN - 1, 300, 3, false};
  const Case across = {TM - 5, TN, 513, 5, false};
  return wrong<T, false, true>(whole) + wrong<T, false, false>(part) + wrong<T, false, true>(few) + wrong<T,
      false, false>(odd) + wrong<T, true, false>(across) +
         wrong<T, true, true>(odd);
}

}  // namespace

#define BG_TILE(name, ...) +wrongOf<__VA_ARGS__>()
#include "tiles.h"
int main() {
  const uint32_t differ = 0
#include "../../lists/tensor_e4m3.inc"
      ;
  return differ == 0 ? 0 : 1;
}
