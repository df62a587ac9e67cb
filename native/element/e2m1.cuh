// Weights of e2m1 (MXFP4 and NVFP4), which become numbers of a format of 16 bits times their scales, exactly.
//
// Exponent and fraction of e2m1 in the place of a format's last exponent bits and first fraction bit are a
// number that is smaller by a power of two: 2^-126 in bf16, 2^-14 in fp16, of subnormal numbers too. The
// product with the scale makes up for it.
#pragma once

#include "../dialect.h"
#include "bits16.cuh"

// turned is a word turned to the left.
BG_DEVICE uint32_t turned(uint32_t word, uint32_t by) {
#ifdef BG_CUDA
  return __funnelshift_l(word, word, by);
#else
  return word << (by & 31) | word >> (-by & 31);
#endif
}

BG_DEVICE uint32_t byteOf(uint32_t word, uint32_t i) { return word >> 8 * i & 255; }

// numberE8M0 is a scale of MXFP4.
BG_DEVICE float numberE8M0(uint32_t byte) {
  return __uint_as_float(byte == 255 ? 0x7fc00000 : byte == 0 ? 0x00400000 : byte << 23);
}

template <class Format>
struct E2M1 {
  // kWide: the format has the exponents of fp32, and so the products with all scales of MXFP4.
  static constexpr bool kWide = Format::kFraction == 7;
  static constexpr uint32_t kPlace = Format::kFraction - 1;

  // pair is two weights of a word, which begin at bits `at` and at + 16, times what both halves of scale are.
  static BG_DEVICE uint32_t pair(uint32_t word, uint32_t at, uint32_t scale) {
    const uint32_t size = turned(word, kPlace - at), sign = turned(word, 12 - at);
    return Format::times((size & 0x00070007 << kPlace) | (sign & 0x80008000), scale);
  }

  // kOne leaves a number as it is.
  static constexpr uint32_t kOne = (kWide ? 253 << 7 : 29 << 10) * 0x00010001;

  // ofE8M0 is a scale of MXFP4 of up to 2. Of a larger one, or NaN, it is 2, and restOfE8M0 what is left.
  static BG_DEVICE uint32_t ofE8M0(uint32_t byte) { return (min(byte, 128u) + 126) * 0x00800080; }
  static BG_DEVICE uint32_t restOfE8M0(uint32_t byte) {
    return byte == 255 ? 0x7fff7fff : (max(byte, 128u) - 1) * 0x00800080;
  }

  // ofE4M3 is scale i of a word of NVFP4, less kRest, with which it would be too large a number.
  static constexpr float kRest = 128;
  static BG_DEVICE uint32_t ofE4M3(uint32_t word, uint32_t i) {
    const uint32_t halves = E4M3::halves(word >> 16 * (i / 2));
    const float x = F16::number(static_cast<uint16_t>(halves >> 16 * (i % 2))) * (kWide ? 0x1p119f : 0x1p7f);
    return Format::pair(x, x);
  }
};
