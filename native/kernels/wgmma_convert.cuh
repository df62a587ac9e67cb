// How operands of wgmma.cuh come from its rings to the tensor cores: a Converter moves B to where they take
// it, a FragmentReader reads A, and a Fragment is A in registers. Each is first for fp32, whose parts are
// split.
//
// Elements of 16 bits: a word is a pair of k's, and takes the place of an fp32 number in all that is said in
// wgmma.cuh. A lane's 8 words are 16 k's, a step has 64. Nothing is split: the converter moves B to where
// each pair is a word, and puts together those of rows that begin with the second half of one, or of two
// rows where memory runs across K. Products are exact, so that the tensor cores add up all steps.
//
// Elements of 8 bits: a word is four k's, a step has 128, which the tensor cores sum from zero, but for whole
// numbers (AlignedConsumer::multiplyBytes has why).
#pragma once

#include "tensor.cuh"
#include "wgmma_operand.cuh"

// Bytes of a block of 64 columns in a stage, and how many blocks have columns.
constexpr uint32_t kBlockBytes = 64 * 128;
BG_DEVICE uint32_t blocksOf(uint32_t cols) { return uniform((cols + 63) / 64); }

// fewColumns reports whether an item has 32 columns or fewer: of swapped tiles alone, since the question
// costs 128x128 1 to 2 % (H200).
template <class T>
BG_DEVICE bool fewColumns(uint32_t cols) { return T::kSwapped && uniform(cols) <= 32; }

// Converter splits a part of B, 16 columns or the k's of 2 lines, and stores it for wgmma: row n
// of 128 bytes is column n of B, in which line c, of k's c, 8+c, 16+c and 24+c, lies
// at place c ^ n%8 (the swizzle).
template <class T, class L, bool kTransB, int kPer = T::Element::kPer>
struct Converter {
  typename L::B::Reader rows[T::kBlocks];  // columns group and group + 8 of the warp's 16 of each block
  uint32_t blocks, to;
  bool few;  // columns: the warp has 8 of them, not 16

  BG_DEVICE void start(const typename T::Element::Number* b, uint32_t ldb, uint32_t cols, uint32_t warp,
      uint32_t lane) {
    few = fewColumns<T>(cols);
    const uint32_t group = lane / 4, member = lane % 4, n = (few ? 8 : 16) * warp + group;
    blocks = blocksOf(cols);
#pragma unroll
    for (uint32_t block = 0; block < T::kBlocks; ++block) rows[block].start(b, ldb, n + 64 * block, cols,
        member, L::kB);
    to = 128 * n + 16 * group + 4 * member;
  }
  // split stores a step to a stage.
  BG_DEVICE void store(char* memory, uint32_t stage, uint32_t place) {
    if (few) return storeColumns<1>(memory, stage, place, 0);
#pragma unroll
    for (uint32_t block = 0; block < T::kBlocks; ++block) {
      if (block >= blocks) break;
      storeColumns<2>(memory, stage, place, block);
    }
  }
  // storeColumns splits both of the lane's columns of a block, or the first.
  template <int kColumns>
  BG_DEVICE void storeColumns(char* memory, uint32_t stage, uint32_t place, uint32_t block) {
    typename T::Element::Word x[kColumns][8];
    rows[block].read(memory, place, x);
#pragma unroll
    for (int r = 0; r < kColumns; ++r) {
#pragma unroll
      for (uint32_t c = 0; c < 8; ++c) {
        uint32_t* at = reinterpret_cast<uint32_t*>(memory + stage + kBlockBytes * block + 1024 * r +
            (to ^ 16 * c));
        if constexpr (kPer == 1) {
          uint32_t hi, lo;
          convert<T::kEmulated>(x[r][c], hi, lo);
          at[0] = hi;
          if constexpr (T::kEmulated) at[L::kPart / 4] = lo;
        } else {
          at[0] = x[r][c];
        }
      }
    }
  }
};

template <class T, class L>
struct Converter<T, L, false, 1> {
  uint32_t from[2][4], further[2 * T::kBlocks], to[2], blocks;  // further: from the lane's first column
  bool few;

  BG_DEVICE void start(const float* b, uint32_t ldb, uint32_t cols, uint32_t warp, uint32_t lane) {
    const uint32_t first = min(lane, cols - 1);
    few = fewColumns<T>(cols);
    blocks = blocksOf(cols);
#pragma unroll
    for (uint32_t i = 0; i < 2 * T::kBlocks; ++i) further[i] = 4 * (min(lane + 32 * i, cols - 1) - first);
#pragma unroll
    for (uint32_t h = 0; h < 2; ++h) {
#pragma unroll
      for (uint32_t j = 0; j < 4; ++j) from[h][j] = L::kB + L::B::place(b, ldb, 8 * j + 2 * warp + h, first);
      to[h] = 128 * lane + 16 * (lane % 8 ^ (2 * warp + h));
    }
  }
  // split reads a block before it stores, since the compiler would not move reads ahead of stores.
  BG_DEVICE void store(char* memory, uint32_t stage, uint32_t place) {
    const char* const at = memory + place * L::B::kStage;
#pragma unroll
    for (uint32_t block = 0; block < T::kBlocks; ++block) {
      if (block >= blocks) break;
      float x[4][4];
#pragma unroll
      for (uint32_t i = 0; i < 4; ++i) {
        const uint32_t column = 2 * block + i / 2;
        if (i == 2 && few) break;
#pragma unroll
        for (int j = 0; j < 4; ++j) x[i][j] = *reinterpret_cast<const float*>(at +
            (column == 0 ? from[i % 2][j] : from[i % 2][j] + further[column]));
      }
#pragma unroll
      for (uint32_t i = 0; i < 4; ++i) {
        if (i == 2 && few) break;
        uint4 hi, lo;
        convert<T::kEmulated>(x[i][0], hi.x, lo.x);
        convert<T::kEmulated>(x[i][1], hi.y, lo.y);
        convert<T::kEmulated>(x[i][2], hi.z, lo.z);
        convert<T::kEmulated>(x[i][3], hi.w, lo.w);
        char* const target = memory + stage + to[i % 2] + kBlockBytes * block + 4096 * (i / 2);
        *reinterpret_cast<uint4*>(target) = hi;
        if constexpr (T::kEmulated) *reinterpret_cast<uint4*>(target + L::kPart) = lo;
      }
    }
  }
};

// FragmentReader reads a warp's 16 rows of A: rows group and group + 8, and the
// lane's 8 k's of each.
template <class T, class L, bool kTransA, int kPer = T::Element::kPer>
struct FragmentReader {
  typename L::A::Reader rows;

  template <class RowAt = AllRows>
  BG_DEVICE void start(const typename T::Element::Number* a, uint32_t lda, uint32_t r, uint32_t length,
      uint32_t member, const RowAt& rowAt = {}) {
    rows.start(a, lda, r, length, member, L::kA, rowAt);
  }
  BG_DEVICE void read(const char* memory, uint32_t place,
      typename T::Element::Word (&x)[2][8]) const { rows.read(memory, place, x); }
};

template <class T, class L>
struct FragmentReader<T, L, true, 1> {
  // rows 8*member + 0..7 of a stage; from the lane's first element of a row to the second
  uint32_t from[8], further;

  BG_DEVICE void start(const float* a, uint32_t lda, uint32_t r, uint32_t length, uint32_t member) {
    const uint32_t first = min(r, length - 1);
    further = 4 * (min(r + 8, length - 1) - first);
#pragma unroll
    for (uint32_t c = 0; c < 8; ++c) from[c] = L::kA + L::A::place(a, lda, 8 * member + c, first);
  }
  BG_DEVICE void read(const char* memory, uint32_t place, float (&x)[2][8]) const {
#pragma unroll
    for (int c = 0; c < 8; ++c) {
      const char* const at = memory + from[c] + place * L::A::kStage;
      x[0][c] = *reinterpret_cast<const float*>(at);
      x[1][c] = *reinterpret_cast<const float*>(at + further);
    }
  }
};

// Fragment is A of a step, split: element e of wgmma's fragment for k's 8i.. .
template <class T, int kPer = T::Element::kPer>
struct Fragment {
  uint32_t hi[4][4], lo[4][4];

  BG_DEVICE void split(const float (&x)[2][8]) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
      for (int e = 0; e < 4; ++e) convert<T::kEmulated>(x[e % 2][2 * i + e / 2], hi[i][e], lo[i][e]);
    }
  }

  // multiply starts sum = A * B of the step.
  template <int n>
  BG_DEVICE void multiply(float (&sum)[n], uint64_t bHi, uint64_t bLo) const {
    fenceProducts();
    if constexpr (T::kEmulated) {
      product<true>(sum, lo[0], bHi);
      product<false>(sum, hi[0], bLo);
#pragma unroll
      for (int i = 1; i < 4; ++i) {
        product<false>(sum, lo[i], bHi + 2 * i);
        product<false>(sum, hi[i], bLo + 2 * i);
      }
#pragma unroll
      for (int i = 0; i < 4; ++i) product<false>(sum, hi[i], bHi + 2 * i);
    } else {
      product<true>(sum, hi[0], bHi);
#pragma unroll
      for (int i = 1; i < 4; ++i) product<false>(sum, hi[i], bHi + 2 * i);
    }
    commitProducts();
  }
};

// Of 16 bits. Of a step whose rows are k's, line c of column n has the pairs from rows 2c, 16+2c, 32+2c and
// 48+2c on.
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

// fourAt is the word of four bytes in shared memory.
BG_DEVICE uint32_t fourAt(const char* a, const char* b, const char* c, const char* d) {
  auto at = [](const char* p) { return static_cast<uint32_t>(*reinterpret_cast<const uint8_t*>(p)); };
  return at(a) | at(b) << 8 | at(c) << 16 | at(d) << 24;
}

// Of 8 bits. Of a step whose rows are k's, line c of column n has the words from rows 4c, 32+4c, 64+4c and
// 96+4c on.
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
