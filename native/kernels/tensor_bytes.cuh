// The same where elements have 8 bits: they become halves when they are read from shared memory, which is
// exact, and are multiplied as such. Of 32 k's a lane has those of two products of 16,
//
//	k's 16p + 4*member + j, j = 0..3
//
// of A and of B, which are 4 adjacent bytes along K, and across K of 4 rows of memory.
#pragma once

#include "tensor_bits16.cuh"

// ByteReader reads 16 rows of op(A), or 16 columns of op(B): x[p][h] the halves of product p and of row 8h +
// group, or 2*group + h where memory runs across K.
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

// Of rows that are listed each has a place of its own.
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
