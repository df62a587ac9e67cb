// Elements of 16 bits, whose words in memory are pairs, and of 8.
#pragma once

#include "../dialect.h"
#include "../kernels/items.cuh"
#ifdef BG_CUDA
#include "../ptx/tensor_cuda.h"
#endif

// Bits16 are elements of a format, which makes numbers of them: Floats is its like.
template <class Format_>
struct Bits16 {
  using Format = Format_;
  using Number = uint16_t;
  using Word = uint32_t;
  static constexpr int kPer = 2;
  static constexpr bool kScaled = false, kWhole = false;
  static BG_DEVICE float number(uint16_t bits) { return Format::number(bits); }
  static BG_DEVICE uint16_t bits(float x) { return Format::bits(x); }
  template <class Of>
  static BG_DEVICE void withC(uint32_t, Of of) { of(Bits16{}); }
  static BG_DEVICE uint32_t pairOfC(uint32_t, float low, float high) { return Format::pair(low, high); }
};

// Bytes are elements of a format of 8 bits, of A and B alone: C has those of Low, or of High where items say
// ItemF16C.
template <class Format_, class Low, class High>
struct Bytes {
  using Format = Format_;
  using Number = uint8_t;
  using Word = uint32_t;
  static constexpr int kPer = 4;
  // kWhole: sums of warpgroup products are int32, and A may have zero points.
  static constexpr bool kScaled = true, kWhole = Format::kWhole;
  template <class Of>
  static BG_DEVICE void withC(uint32_t flags, Of of) {
    if ((flags & kItemF16C) != 0) of(Bits16<High>{});
    else of(Bits16<Low>{});
  }
  static BG_DEVICE uint32_t pairOfC(uint32_t flags, float low, float high) {
    return (flags & kItemF16C) != 0 ? High::pair(low, high) : Low::pair(low, high);
  }
};

// gatherLine brings the first n elements of a line of 16 bytes, which lies anywhere, and zeros behind them.
// Place is SharedAddress, but AMD's kernels, which do not call it, have no storeShared.
template <class Number, class Place>
BG_DEVICE void gatherLine(Place to, const Number* from, uint32_t n) {
  constexpr uint32_t kPer = 4 / sizeof(Number), kBits = 8 * sizeof(Number);
  uint32_t x[4] = {0, 0, 0, 0};
#pragma unroll
  for (uint32_t i = 0; i < 4 * kPer; ++i) {
    if (i < n) x[i / kPer] |= static_cast<uint32_t>(from[i]) << kBits * (i % kPer);
  }
  storeShared(to, x);
}

// pairAt is the word of two halves in shared memory.
BG_DEVICE uint32_t pairAt(const char* low, const char* high) {
  return *reinterpret_cast<const uint16_t*>(low) |
      static_cast<uint32_t>(*reinterpret_cast<const uint16_t*>(high)) << 16;
}
