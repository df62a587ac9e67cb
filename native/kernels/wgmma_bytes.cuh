// What is another in the kernels of wgmma.cuh and wgmma_aligned.cuh where elements have 8 bits. In wgmma.cuh
// a word is four k's, and takes the place of an fp32 number as pairs of halves do (wgmma_bits16.cuh): a step
// has 128. In wgmma_aligned.cuh the tensor cores take operands from where the loader copies them, which they
// can along K alone: plans take other tiles elsewhere.
//
// Tensor cores of 9.0 sum products of 8 bits, and what they are added to, as multiples of 2^-13 of the
// largest power of two among them, and cut the rest (measured on an H200: beside 2^11, 2.25 stays, beside
// 2^12 it becomes 2, beside 2^15 nothing). So each stage, of 128 k's, is summed from zero there, and then
// added to fp32 registers. Whole numbers they sum in int32, exactly.
#pragma once

#include "wgmma_aligned.cuh"

// multiplyBytes sums steps of the first 2n columns. Nothing is under way while a stage is added: another
// consumer multiplies then.
template <class T, bool kTransA, bool kTransB>
template <int n, class Scales>
BG_DEVICE void AlignedConsumer<T, kTransA, kTransB>::multiplyBytes(float (&sum)[n], uint32_t steps,
    Scales& scales) {
  const uint64_t a = matrixB(shared + warp / kWarps * (64 * 128)), b = matrixB(shared + T::kB);
  typename T::Element::Format format;
#pragma unroll
  for (int i = 0; i < n; ++i) sum[i] = 0.0f;
#pragma unroll 1
  for (uint32_t step = 0; step < steps; ++step) {
    float part[n];
    wait();
    fenceStores();
    const uint64_t at = static_cast<uint64_t>(uniform(stage.at) * (T::kStage >> 4));
    fenceProducts();
    productOf<true>(format, part, a + at, b + at);
#pragma unroll
    for (int s = 1; s < 4; ++s) productOf<false>(format, part, a + at + 2 * s, b + at + 2 * s);
    commitProducts();
    waitProducts<0>();
    settle(part);
    release(stage.at);
    stage.next();
    scales.add(sum, part, step + 1 < steps);
  }
}

// fourAt is the word of four bytes in shared memory.
BG_DEVICE uint32_t fourAt(const char* a, const char* b, const char* c, const char* d) {
  auto at = [](const char* p) { return static_cast<uint32_t>(*reinterpret_cast<const uint8_t*>(p)); };
  return at(a) | at(b) << 8 | at(c) << 16 | at(d) << 24;
}

// Of a step whose rows are k's, line c of column n has the words from rows 4c, 32+4c, 64+4c and 96+4c on.
template <class T, class L>
struct Converter<T, L, false, 4> {
  uint32_t from[2][4], further[2 * T::kBlocks], to[2], blocks;  // further: from the lane's first column

  BG_DEVICE void start(const uint8_t* b, uint32_t ldb, uint32_t cols, uint32_t warp, uint32_t lane) {
    const uint32_t first = min(lane, cols - 1);
    blocks = blocksOf(cols);
#pragma unroll
    for (uint32_t i = 0; i < 2 * T::kBlocks; ++i) further[i] = min(lane + 32 * i, cols - 1) - first;
#pragma unroll
    for (uint32_t h = 0; h < 2; ++h) {
#pragma unroll
      for (uint32_t q = 0; q < 4; ++q) from[h][q] = L::kB +
          L::B::place(b, ldb, 4 * (2 * warp + h) + q, first);
      to[h] = 128 * lane + 16 * (lane % 8 ^ (2 * warp + h));
    }
  }
  BG_DEVICE void store(char* memory, uint32_t stage, uint32_t place) {
    const char* const at = memory + place * L::B::kStage;
#pragma unroll
    for (uint32_t block = 0; block < T::kBlocks; ++block) {
      if (block >= blocks) break;
      uint32_t x[4][4];
#pragma unroll
      for (uint32_t i = 0; i < 4; ++i) {
        const uint32_t column = 2 * block + i / 2, more = column == 0 ? 0 : further[column];
        const uint32_t(&rows)[4] = from[i % 2];
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          const char* const row = at + j * (L::B::kMember * L::B::kPitch + L::B::kSpread) + more;
          x[i][j] = fourAt(row + rows[0], row + rows[1], row + rows[2], row + rows[3]);
        }
      }
#pragma unroll
      for (uint32_t i = 0; i < 4; ++i) {
        char* const target = memory + stage + to[i % 2] + kBlockBytes * block + 4096 * (i / 2);
        *reinterpret_cast<uint4*>(target) = {x[i][0], x[i][1], x[i][2], x[i][3]};
      }
    }
  }
};

template <class T, class L>
struct FragmentReader<T, L, true, 4> {
  // rows 32*member + 0..15 of a stage; from the lane's first element of a row to the second
  uint32_t from[16], further;

  BG_DEVICE void start(const uint8_t* a, uint32_t lda, uint32_t r, uint32_t length, uint32_t member) {
    const uint32_t first = min(r, length - 1);
    further = min(r + 8, length - 1) - first;
#pragma unroll
    for (uint32_t c = 0; c < 16; ++c) from[c] = L::kA + L::A::place(a, lda, 32 * member + c, first);
  }
  BG_DEVICE void read(const char* memory, uint32_t place, uint32_t (&x)[2][8]) const {
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      const char* const at = memory + place * L::A::kStage + e / 4 * 16 * L::A::kPitch;
      const uint32_t* const rows = from + 4 * e % 16;
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const char* const row = at + r * further;
        x[r][e] = fourAt(row + rows[0], row + rows[1], row + rows[2], row + rows[3]);
      }
    }
  }
};

// Fragment is A of a step, which the tensor cores sum from zero, but for whole numbers.
template <class T>
struct Fragment<T, 4> {
  uint32_t fours[4][4];

  BG_DEVICE void split(const uint32_t (&x)[2][8]) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
      for (int e = 0; e < 4; ++e) fours[i][e] = x[e % 2][2 * i + e / 2];
    }
  }

  // multiply starts sum = A * B of the step, of whole numbers sum += A * B.
  template <class Sum, int n>
  BG_DEVICE void multiply(Sum (&sum)[n], uint64_t b) const {
    const typename T::Element::Format format;
    fenceProducts();
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if constexpr (T::Element::kWhole) product(format, sum, fours[i], b + 2 * i);
      else if (i == 0) product<true>(format, sum, fours[0], b);
      else product<false>(format, sum, fours[i], b + 2 * i);
    }
    commitProducts();
  }
};
