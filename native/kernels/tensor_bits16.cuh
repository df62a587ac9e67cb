// What is another in the kernels of tensor.cuh where elements have 16 bits, or 8 (tensor_bytes.cuh): a
// product takes 16 k's, in pairs, of which a lane with group = lane / 4 and member = lane % 4 holds (PTX ISA,
// "Matrix Fragments for mma.m16n8k16")
//
//	A  row group + 8h, k's 2*member + 8q and the next    h = 0..1, q = 0..1
//	B  the same k's, column group
//	C  as of tf32 (fragment.cuh)
//
// Of an operand whose memory runs across K, a pair is put together of two rows. There the
// two rows of A, or the columns of two products, that a lane has are adjacent, so that a
// word has an element of both, where all rows begin with a word.
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
