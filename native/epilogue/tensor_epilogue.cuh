// What is another in the kernels of tensor.cuh where rows of A are listed (epilogue.cuh): rows begin
// anywhere, so that each has a place of its own in its first line.
#pragma once

#include "../kernels/tensor_bits16.cuh"

template <class T, int kLength>
struct StagedOperand<T, kLength, true, true> {
  using Of = StagedOperand<T, kLength, true>;
  using Element = typename Of::Element;
  using Number = typename Of::Number;
  static constexpr int kPitch = Of::kPitch, kFloats = Of::kFloats, kAcross = Of::kAcross, kAlong = Of::kAlong;
  static constexpr int kBlocks = T::kBlockRows / 16;  // that a warp reads

  const Number* at;      // the next step in the first row of all
  const uint32_t* list;
  SharedAddress to;      // of the tile's first row
  uint32_t ld, length;

  BG_DEVICE StagedOperand(const Number* start, uint32_t ld_, uint32_t length_, uint32_t, const Number* stage,
      const uint32_t* rows)
      : at(start), list(rows), to(sharedAddress(stage)), ld(ld_), length(length_) {}

  // copy copies as that of other operands does: kAllLines lines of a row, and the one behind them.
  BG_DEVICE void copy(uint32_t thread, uint32_t depth, uint32_t stage) {
    const int32_t steps = static_cast<int32_t>(min(depth, static_cast<uint32_t>(T::TK)));
#pragma unroll
    for (int p = 0; p < Of::kPasses; ++p) {
#pragma unroll
      for (int set = 0; set < Of::kSets; ++set) line(thread / Of::kLines + p * Of::kApart,
          thread % Of::kLines + set * Of::kLines, steps, stage);
    }
    if (thread < static_cast<uint32_t>(Of::kRows)) line(thread, Of::kAllLines, steps, stage);
    at += T::TK;
  }

  // line copies a line of a row.
  BG_DEVICE void line(uint32_t row, uint32_t number, int32_t steps, uint32_t stage) const {
    const Number* const first = rowsOn(at, list[row], ld);
    const uint32_t shift = placeInLine(first), skipped = Of::kLine * number;
    copyVector(to + stage + sizeof(Number) * (row * kPitch + skipped), first - shift + skipped,
               row < length ? bytesInLine<Number>(static_cast<int32_t>(shift - skipped) + steps) : 0);
  }
};

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
