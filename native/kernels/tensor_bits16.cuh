// What differs in the kernels of tensor.cuh where elements have 16 or 8 bits. A product takes 16 k's, in
// pairs, of which a lane with group = lane / 4 and member = lane % 4 holds (PTX ISA, "Matrix Fragments for
// mma.m16n8k16")
//
//	A  row group + 8h, k's 2*member + 8q and the next    h = 0..1, q = 0..1
//	B  the same k's, column group
//	C  as of tf32 (ptx/mma.cuh)
//
// Of an operand whose memory runs across K, a pair is put together of two rows. There the
// two rows of A, or the columns of two products, that a lane has are adjacent, so that a
// word has an element of both, where all rows begin with a word.
//
// Elements of 8 bits become fp16 when they are read from shared memory, which is exact, and are multiplied as
// such. Of 32 k's a lane has those of two products of 16,
//
//	k's 16p + 4*member + j, j = 0..3
//
// of A and of B, which are 4 adjacent bytes along K, and across K of 4 rows of memory.
#pragma once

#include "tensor.cuh"

// PairReader reads 16 rows of op(A), or 16 columns of op(B): x[0][h][q] as above, of row 8h + group,
// or 2*group + h where memory runs across K.
template <class Operand, bool kMajorK, bool kListed = false>
struct PairReader {
  using Number = typename Operand::Number;
  const char* at[2];  // the lane's first word; across K: that of its first and second row, or element of it
  uint32_t which;     // bytes of two words that are a pair

  BG_DEVICE void start(const FragmentLane& lane, const float* stage, uint32_t first, const Number* p,
      uint32_t ld, const uint32_t*) {
    const Number* const numbers = reinterpret_cast<const Number*>(stage);
    auto place = [&](uint32_t row) { return row * Operand::kPitch + placeInLine(rowsOn(p, row, ld)); };
    if constexpr (kMajorK) {
      const uint32_t pair = place(lane.group) + first * Operand::kPitch + 2 * lane.member;
      at[0] = reinterpret_cast<const char*>(numbers + (pair & ~1u));
      which = pair % 2 == 0 ? 0x3210 : 0x5432;
    } else {
#pragma unroll
      for (uint32_t i = 0; i < 2; ++i) at[i] = reinterpret_cast<const char*>(numbers +
          place(2 * lane.member + i) + first + 2 * lane.group);
    }
  }

  static BG_DEVICE uint32_t word(const char* p) { return *reinterpret_cast<const uint32_t*>(p); }

  // read reads the block of a number, of k's from 16s on. kPairs: all rows begin with a word.
  template <bool kPairs>
  BG_DEVICE void read(uint32_t stage, int block, uint32_t s, uint32_t (&product)[1][2][2]) const {
    auto& x = product[0];
#pragma unroll
    for (int q = 0; q < 2; ++q) {
      const uint32_t k = 16 * s + 8 * q;
      if constexpr (kMajorK) {
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          const char* const p = at[0] + stage + sizeof(Number) * ((16 * block + 8 * h) * Operand::kPitch + k);
          x[h][q] = kPairs ? word(p) : permute(word(p), word(p + 4), which);
        }
      } else {
        const uint32_t further = stage + sizeof(Number) * (k * Operand::kPitch + 16 * block);
        const char *const low = at[0] + further, *const high = at[1] + further;
        if constexpr (kPairs) {
          const uint32_t both[2] = {word(low), word(high)};
          x[0][q] = permute(both[0], both[1], 0x5410);
          x[1][q] = permute(both[0], both[1], 0x7632);
        } else {
          x[0][q] = pairAt(low, high);
          x[1][q] = pairAt(low + sizeof(Number), high + sizeof(Number));
        }
      }
    }
  }
};

// Of rows that are listed each has a place of its own.
template <class Operand>
struct PairReader<Operand, true, true> {
  using Number = typename Operand::Number;
  static constexpr int kBits16 = 2 * Operand::kBlocks;
  const char* at;                              // where the lane's first pair is in a row without a shift
  // of each 8 rows: bytes of the shift, down to a word; bytes of two words that are a pair
  uint32_t offset[kBits16], which[kBits16];

  BG_DEVICE void start(const FragmentLane& lane, const float* stage, uint32_t first, const Number* p,
      uint32_t ld, const uint32_t* list) {
    at = reinterpret_cast<const char*>(stage) + sizeof(Number) * ((first + lane.group) * Operand::kPitch +
        2 * lane.member);
#pragma unroll
    for (int i = 0; i < kBits16; ++i) {
      const uint32_t shift = placeInLine(rowsOn(p, list[first + lane.group + 8 * i], ld));
      offset[i] = sizeof(Number) * (shift & ~1u);
      which[i] = shift % 2 == 0 ? 0x3210 : 0x5432;
    }
  }

  template <bool kPairs>
  BG_DEVICE void read(uint32_t stage, int block, uint32_t s, uint32_t (&product)[1][2][2]) const {
    auto& x = product[0];
#pragma unroll
    for (int q = 0; q < 2; ++q) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int i = 2 * block + h;
        const char* const p = at + stage + offset[i] + sizeof(Number) * (8 * i * Operand::kPitch + 16 * s +
            8 * q);
        const uint32_t* const words = reinterpret_cast<const uint32_t*>(p);
        x[h][q] = kPairs ? words[0] : permute(words[0], words[1], which[i]);
      }
    }
  }
};

// Reader is the reader of an operand of elements of so many a word.
template <int kPer, class Operand, bool kMajorK, bool kListed = false>
struct Reader : PairReader<Operand, kMajorK, kListed> {};

template <class T, bool kTransA, bool kTransB, bool kListed>
struct WarpBlock<T, kTransA, kTransB, kListed, true> {
  using OperandA = StagedOperand<T, T::TM, !kTransA, kListed>;
  using OperandB = StagedOperand<T, T::TN, kTransB>;
  using Number = typename T::Element::Number;
  static constexpr int kPer = T::Element::kPer, kProducts = kPer / 2;
  static constexpr int kRows = T::kBlockRows / 16, kColumns = T::kBlock / 16, kDepth = 16 * kProducts;

  FragmentC sum[kRows][kColumns][2];
  Reader<kPer, OperandA, !kTransA, kListed> a;
  Reader<kPer, OperandB, kTransB> b;
  bool pairs;  // all rows begin with a word

  using Sums = FragmentC[kRows][kColumns][2];

  BG_DEVICE WarpBlock() { clear(sum); }

  static BG_DEVICE void clear(Sums& to) {
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
#pragma unroll
      for (int j = 0; j < 2 * kColumns; ++j) to[i][j / 2][j % 2] = FragmentC{{0.0f, 0.0f, 0.0f, 0.0f}};
    }
  }

  BG_DEVICE void start(const FragmentLane& lane, const float* stages, uint32_t row, uint32_t col,
      const Number* startA, uint32_t lda,
                       const Number* startB, uint32_t ldb, const uint32_t* list) {
    a.start(lane, stages, row, startA, lda, list);
    b.start(lane, stages + OperandA::kFloats, col, startB, ldb, nullptr);
    pairs = (placeInLine(startA) | lda | placeInLine(startB) | ldb) % kPer == 0;
  }

  BG_DEVICE void multiplyStage(int stage, uint32_t depth) { multiplyTo(sum, stage, depth); }
  BG_DEVICE void multiplyTo(Sums& to, int stage, uint32_t depth) {
    if (pairs) steps<true>(to, 4 * stage, depth);
    else steps<false>(to, 4 * stage, depth);
  }

  // multiplyBlock is multiplyStage with scales of blocks: a stage is a block of k's.
  BG_DEVICE void multiplyBlock(int stage, uint32_t depth, BlockScales<2 * kRows>& scales) {
    Sums part;
    clear(part);
    multiplyTo(part, stage, depth);
    float scale[2 * kRows];
    scales.next(scale, depth > T::TK);
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
#pragma unroll
      for (int j = 0; j < 2 * kColumns; ++j) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          float& x = sum[i][j / 2][j % 2].x[e];
          x = fmaf(scale[2 * i + e / 2], part[i][j / 2][j % 2].x[e], x);
        }
      }
    }
  }

  // rowAt is the row of the block with a lane's sums of number r, of 2 * kRows.
  static BG_DEVICE uint32_t rowAt(const FragmentLane& lane,
      int r) { return 16 * (r / 2) + (kTransA ? 2 * lane.group + r % 2 : lane.group + 8 * (r % 2)); }

  template <bool kPairs>
  BG_DEVICE void steps(Sums& to, uint32_t stage, uint32_t depth) {
    if (depth >= T::TK) {
#pragma unroll
      for (uint32_t s = 0; s < T::TK / kDepth; ++s) step<kPairs>(to, stage, s);
    } else {
#pragma unroll 1
      for (uint32_t s = 0; kDepth * s < depth; ++s) step<kPairs>(to, stage, s);
    }
  }

  template <bool kPairs>
  BG_DEVICE void step(Sums& to, uint32_t stage, uint32_t s) {
    uint32_t x[kRows][kProducts][2][2];
#pragma unroll
    for (int i = 0; i < kRows; ++i) a.template read<kPairs>(stage, i, s, x[i]);
#pragma unroll
    for (int j = 0; j < kColumns; ++j) {
      uint32_t y[kProducts][2][2];
      b.template read<kPairs>(stage, j, s, y);
#pragma unroll
      for (int p = 0; p < kProducts; ++p) {
#pragma unroll
        for (int h = 0; h < 2; ++h) {
#pragma unroll
          for (int i = 0; i < kRows; ++i) T::Element::Format::multiply(to[i][j][h], x[i][p], y[p][h]);
        }
      }
    }
  }

  // store is as of fp32, but that no sum is computed once more.
  BG_DEVICE bool store(const FragmentLane& lane, float* to) const {
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const uint32_t row = rowAt(lane, 2 * i + r);
#pragma unroll
        for (int j = 0; j < kColumns; ++j) {
          float* const at = to + row * T::kPitch + 16 * j;
          const float *const x = sum[i][j][0].x + 2 * r, *const y = sum[i][j][1].x + 2 * r;
          if constexpr (kTransB) {
            storeVector(at + 2 * lane.member, Vector<2>{{x[0], x[1]}});
            storeVector(at + 8 + 2 * lane.member, Vector<2>{{y[0], y[1]}});
          } else {
            storeVector(at + 4 * lane.member, Vector<4>{{x[0], y[0], x[1], y[1]}});
          }
        }
      }
    }
    return true;
  }
};

// ByteReader reads 16 rows of op(A), or 16 columns of op(B): x[p][h] the pairs of fp16 of product p and of
// row 8h + group, or 2*group + h where memory runs across K.
template <class Operand, bool kMajorK, class Format, bool kListed = false>
struct ByteReader {
  using Number = typename Operand::Number;
  static constexpr int kPlaces = kMajorK ? 2 : 4;
  // the lane's first words of rows 0 and 8, whose shifts differ; across K: its elements of 4 rows
  const char* at[kPlaces];
  uint32_t which[2];        // bytes of two words that are one

  BG_DEVICE void start(const FragmentLane& lane, const float* stage, uint32_t first, const Number* p,
      uint32_t ld, const uint32_t*) {
    const char* const bytes = reinterpret_cast<const char*>(stage);
    auto place = [&](uint32_t row) { return row * Operand::kPitch + placeInLine(rowsOn(p, row, ld)); };
    if constexpr (kMajorK) {
#pragma unroll
      for (uint32_t h = 0; h < 2; ++h) {
        const uint32_t word = place(lane.group + 8 * h) + first * Operand::kPitch + 4 * lane.member;
        at[h] = bytes + (word & ~3u);
        which[h] = 0x3210 + 0x1111 * (word & 3);
      }
    } else {
#pragma unroll
      for (uint32_t j = 0; j < 4; ++j) at[j] = bytes + place(4 * lane.member + j) + first + 2 * lane.group;
    }
  }

  // read reads the block of a number, of k's from 32s on. kWords: all rows begin with a word.
  template <bool kWords>
  BG_DEVICE void read(uint32_t stage, int block, uint32_t s, uint32_t (&x)[2][2][2]) const {
#pragma unroll
    for (int p = 0; p < 2; ++p) {
      const uint32_t k = 32 * s + 16 * p;
      if constexpr (kMajorK) {
#pragma unroll
        for (int h = 0; h < 2; ++h) readKMajor<kWords>(at[h] + stage + 16 * block * Operand::kPitch + k,
            which[h], x[p][h]);
      } else {
        uint32_t both[4];  // of two rows or columns
#pragma unroll
        for (int j = 0; j < 4; ++j) both[j] = bothAt<kWords>(at[j] + stage + k * Operand::kPitch +
            16 * block);
#pragma unroll
        for (int q = 0; q < 2; ++q) {
          const uint32_t pairs = permute(both[2 * q], both[2 * q + 1], 0x5140);
          x[p][0][q] = Format::halves(pairs);
          x[p][1][q] = Format::halves(pairs >> 16);
        }
      }
    }
  }

  template <bool kWords>
  static BG_DEVICE void readKMajor(const char* from, uint32_t which, uint32_t (&x)[2]) {
    uint32_t word = *reinterpret_cast<const uint32_t*>(from);
    if (!kWords) word = permute(word, *reinterpret_cast<const uint32_t*>(from + 4), which);
    x[0] = Format::halves(word);
    x[1] = Format::halves(word >> 16);
  }

  template <bool kWords>
  static BG_DEVICE uint32_t bothAt(const char* from) {
    if (kWords) return *reinterpret_cast<const uint16_t*>(from);
    return static_cast<uint8_t>(from[0]) | static_cast<uint32_t>(static_cast<uint8_t>(from[1])) << 8;
  }
};

// The same of rows that are listed.
template <class Operand, class Format>
struct ByteReader<Operand, true, Format, true> {
  using Number = typename Operand::Number;
  static constexpr int kBits16 = 2 * Operand::kBlocks;
  const char* at;                            // where the lane's first word is in a row without a shift
  // of each 8 rows: bytes of the shift, down to a word; bytes of two words that are one
  uint32_t offset[kBits16], which[kBits16];

  BG_DEVICE void start(const FragmentLane& lane, const float* stage, uint32_t first, const Number* p,
      uint32_t ld, const uint32_t* list) {
    at = reinterpret_cast<const char*>(stage) + (first + lane.group) * Operand::kPitch + 4 * lane.member;
#pragma unroll
    for (int i = 0; i < kBits16; ++i) {
      const uint32_t shift = placeInLine(rowsOn(p, list[first + lane.group + 8 * i], ld));
      offset[i] = shift & ~3u;
      which[i] = 0x3210 + 0x1111 * (shift & 3);
    }
  }

  template <bool kWords>
  BG_DEVICE void read(uint32_t stage, int block, uint32_t s, uint32_t (&x)[2][2][2]) const {
#pragma unroll
    for (int p = 0; p < 2; ++p) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int i = 2 * block + h;
        ByteReader<Operand, true, Format>::template readKMajor<kWords>(at + stage + offset[i] +
            (16 * block + 8 * h) * Operand::kPitch + 32 * s + 16 * p, which[i], x[p][h]);
      }
    }
  }
};

template <class Operand, bool kMajorK, bool kListed>
struct Reader<4, Operand, kMajorK, kListed> : ByteReader<Operand, kMajorK, typename Operand::Element::Format,
    kListed> {};
