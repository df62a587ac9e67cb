// Weights of e2m1 (MXFP4 and NVFP4), which become numbers of a format of 16 bits times their scales, exactly.
//
// Exponent and fraction of e2m1 in the place of a format's last exponent bits and first fraction bit are a
// number that is smaller by a power of two: 2^-126 in bf16, 2^-14 in fp16, of subnormal numbers too. The
// product with the scale makes up for it.
#pragma once

#include "../dialect.h"
#include "../element/bits16.cuh"

BG_DEVICE uint32_t byteOf(uint32_t word, uint32_t i) { return word >> 8 * i & 255; }

// numberE8M0 is a scale of MXFP4.
BG_DEVICE float numberE8M0(uint32_t byte) {
  return __uint_as_float(byte == 255 ? 0x7fc00000 : byte == 0 ? 0x00400000 : byte << 23);
}

template <class Format>
struct E2M1 {
  // kWide: the format has the exponents of fp32, and so the products with all scales of MXFP4.
  static constexpr bool kWide = Format::kFraction == 7;
  static constexpr uint32_t kPlace = Format::kFraction - 1, kSize = 0x00070007 << kPlace;

  // pair is weights p and p + 4 of a word, of 4 bits from 4p and 4p + 16 on, times what both halves of scale
  // are. Each step of integers takes two cycles, so signs of more weights are masked at once where they come
  // to bits of the size, from which others are taken.
  static BG_DEVICE uint32_t pair(uint32_t word, uint32_t p, uint32_t scale) {
    const uint32_t signs = masked(word, kWide ? 0x08080808 << p % 2 * 4 : 0x00080008 << 4 * p);
    const uint32_t size = 4 * p < kPlace ? word << (kPlace - 4 * p) : word >> (4 * p - kPlace);
    return Format::times(chosen(size, signs << (12 - 4 * p), kSize), scale);
  }

  // both are weights `member` and member + 4 of two words, in the places of weights 1 and 3 of one. which and
  // turn are those of the member.
  static BG_DEVICE uint32_t both(uint32_t first, uint32_t second, uint32_t which, uint32_t turn) {
    return permute(first, second, which) * turn;
  }
  static BG_DEVICE uint32_t whichOf(uint32_t member) { return 0x6240 + member / 2 * 0x1111; }
  static BG_DEVICE uint32_t turnOf(uint32_t member) { return member % 2 == 0 ? 16 : 1; }

  // kOne leaves a number as it is.
  static constexpr uint32_t kOne = (kWide ? 253 << 7 : 29 << 10) * 0x00010001;

  // twice is a byte of a word in each half.
  static BG_DEVICE uint32_t twice(uint32_t word, uint32_t i) { return permute(word, 0, 0x4040 + i * 0x0101); }
  // ofE8M0 is a scale of MXFP4, which is in both halves: of up to 1, or with kLarge any. Of one above 2, or
  // NaN, it is 2, and restOfE8M0 what is left.
  template <bool kLarge = true>
  static BG_DEVICE uint32_t ofE8M0(uint32_t both) {
    return (kLarge ? min(both, 0x00800080u) : both) * 128 + 126 * 0x00800080;
  }
  static BG_DEVICE uint32_t restOfE8M0(uint32_t both) {
    return both == 0x00ff00ff ? 0x7fff7fff : (max(both, 0x00800080u) - 0x00010001) * 128;
  }

  // ofE4M3 is scale i of a word of NVFP4, less kRest, with which it would be too large a number.
  static constexpr float kRest = 128;
  static BG_DEVICE uint32_t ofE4M3(uint32_t word, uint32_t i) {
    const uint32_t halves = E4M3::halves(word >> 16 * (i / 2));
    const float x = F16::number(static_cast<uint16_t>(halves >> 16 * (i % 2))) * (kWide ? 0x1p119f : 0x1p7f);
    return Format::pair(x, x);
  }
};
