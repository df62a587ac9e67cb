// What is another in the kernels of wgmma.cuh where elements have 16 bits. A word then is a
// pair of k's, and takes the place of an fp32 number in all that is said there: a lane's
// 8 words are 16 k's, a step has 64. Nothing is split: the converter moves B to where each
// pair is a word, and puts together those of rows that begin with the second half of one, or
// of two rows where memory runs across K. Products are exact, so that the tensor cores add up
// all steps.
#pragma once

#include "wgmma.cuh"

// Of a step whose rows are k's, line c of column n has the pairs from rows 2c, 16+2c, 32+2c and 48+2c on.
template <class T, class L>
struct Converter<T, L, false, 2> {
  uint32_t from[2][2], further[2 * T::kBlocks], to[2], blocks;  // further: from the lane's first column

  BG_DEVICE void start(const uint16_t* b, uint32_t ldb, uint32_t cols, uint32_t warp, uint32_t lane) {
    const uint32_t first = min(lane, cols - 1);
    blocks = blocksOf(cols);
#pragma unroll
    for (uint32_t i = 0; i < 2 * T::kBlocks; ++i) further[i] = 2 * (min(lane + 32 * i, cols - 1) - first);
#pragma unroll
    for (uint32_t h = 0; h < 2; ++h) {
#pragma unroll
      for (uint32_t q = 0; q < 2; ++q) from[h][q] = L::kB +
          L::B::place(b, ldb, 2 * (2 * warp + h) + q, first);
      to[h] = 128 * lane + 16 * (lane % 8 ^ (2 * warp + h));
    }
  }
  // split reads a block before it stores, since the compiler would not move reads ahead of stores.
  BG_DEVICE void store(char* memory, uint32_t stage, uint32_t place) {
    const char* const at = memory + place * L::B::kStage;
#pragma unroll
    for (uint32_t block = 0; block < T::kBlocks; ++block) {
      if (block >= blocks) break;
      uint32_t x[4][4];
#pragma unroll
      for (uint32_t i = 0; i < 4; ++i) {
        const uint32_t column = 2 * block + i / 2, more = column == 0 ? 0 : further[column];
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          const char* const row = at + j * (L::B::kMember * L::B::kPitch + L::B::kSpread) + more;
          x[i][j] = pairAt(row + from[i % 2][0], row + from[i % 2][1]);
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
struct FragmentReader<T, L, true, 2> {
  // rows 16*member + 0..7 of a stage; from the lane's first element of a row to the second
  uint32_t from[8], further;

  BG_DEVICE void start(const uint16_t* a, uint32_t lda, uint32_t r, uint32_t length, uint32_t member) {
    const uint32_t first = min(r, length - 1);
    further = 2 * (min(r + 8, length - 1) - first);
#pragma unroll
    for (uint32_t c = 0; c < 8; ++c) from[c] = L::kA + L::A::place(a, lda, 16 * member + c, first);
  }
  BG_DEVICE void read(const char* memory, uint32_t place, uint32_t (&x)[2][8]) const {
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      const char* const at = memory + place * L::A::kStage + e / 4 * 8 * L::A::kPitch;
      const char *const low = at + from[2 * e % 8], *const high = at + from[2 * e % 8 + 1];
      x[0][e] = pairAt(low, high);
      x[1][e] = pairAt(low + further, high + further);
    }
  }
};

// Fragment is A of a step: element e of wgmma's fragment for pairs 8i.. .
template <class T>
struct Fragment<T, 2> {
  uint32_t pairs[4][4];

  BG_DEVICE void split(const uint32_t (&x)[2][8]) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
      for (int e = 0; e < 4; ++e) pairs[i][e] = x[e % 2][2 * i + e / 2];
    }
  }

  // multiply starts sum += A * B of the step.
  template <int n>
  BG_DEVICE void multiply(float (&sum)[n], uint64_t b) const {
    fenceProducts();
#pragma unroll
    for (int i = 0; i < 4; ++i) product(typename T::Element::Format{}, sum, pairs[i], b + 2 * i);
    commitProducts();
  }
};
