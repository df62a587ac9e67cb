// The formats of elements of 16 and 8 bits on AMD GPUs, and what their words are in shared memory.
#pragma once

#include "bits16.cuh"

// HalfPair is two numbers of F16 in a word.
typedef _Float16 HalfPair __attribute__((vector_size(4)));

// BF16 and F16 are formats, as planner/element has them.
struct BF16 {
  // weights are two nibbles, 16 bits apart, less a zero point of up to 15. Beside the exponent of 128 a
  // nibble is that much more.
  static BG_DEVICE uint32_t weights(uint32_t nibbles, uint32_t zero) {
    const uint32_t more = nibbles | 0x43004300, less = zero | 0x4300;
    const float low = number(static_cast<uint16_t>(more)) - number(static_cast<uint16_t>(less));
    const float high = number(static_cast<uint16_t>(more >> 16)) - number(static_cast<uint16_t>(less));
    return __builtin_bit_cast(uint32_t, low) >> 16 | (__builtin_bit_cast(uint32_t, high) & 0xffff0000);
  }
  static BG_DEVICE float number(uint16_t bits) { return __uint_as_float(static_cast<uint32_t>(bits) << 16); }
  static BG_DEVICE uint16_t bits(float x) {
    const uint32_t w = __builtin_bit_cast(uint32_t, x);
    return static_cast<uint16_t>((x != x ? w | 0x400000 : w + 0x7fff + (w >> 16 & 1)) >> 16);
  }
};
struct F16 {
  // As those of BF16, beside the exponent of 1024.
  static BG_DEVICE uint32_t weights(uint32_t nibbles, uint32_t zero) {
    const uint32_t less = 0xe400e400 | zero * 0x00010001;
    return __builtin_bit_cast(uint32_t, __builtin_bit_cast(HalfPair, nibbles | 0x64006400) +
        __builtin_bit_cast(HalfPair, less));
  }
  static BG_DEVICE float number(uint16_t bits) { return static_cast<float>(__builtin_bit_cast(_Float16,
      bits)); }
  static BG_DEVICE uint16_t bits(float x) { return __builtin_bit_cast(uint16_t, static_cast<_Float16>(x)); }
};

// E4M3 and Int8 are formats of 8 bits, all of whose numbers F16 has. halves makes F16 of two, whose bytes are
// 16 bits apart, and native what matrix cores take of four.
struct E4M3 {
  static constexpr bool kWhole = false;
  static BG_DEVICE uint32_t halves(uint32_t apart) {
    // The exponent is 8 too small, in subnormal numbers too.
    const uint32_t size = apart & 0x007f007f, isNaN = (size + 0x00010001) >> 7 & 0x00010001;
    const HalfPair small = __builtin_bit_cast(HalfPair, (apart & 0x00800080) << 8 | size << 7),
        times256 = {256, 256};
    return __builtin_bit_cast(uint32_t, small * times256) | 0x7fff * isNaN;
  }
  // Those of gfx942 take e4m3 "FNUZ", whose exponent is biased by 8, not 7 (LLVM, APFloat, Float8E4M3FNUZ;
  // AMD, HIP, "FP8 Numbers"): bits are half of what they are here, of subnormal numbers too, but for three
  // codes. 0x80, which is -0, is NaN there, and shall be 0; 0x7f and 0xff, which are NaN, are numbers there,
  // and shall be 0x80. Of each byte v_lerp_u8 gives (a + b + c % 2) / 2, with a carry of its own: of the
  // size, one more, and whether that is 128, it gives the size, and 128 in place of 127; of a byte and 127 it
  // gives bit 7 where the byte is above 128, which is the sign of all but -0. Six instructions in all.
  static constexpr int kNativeParts = 4;  // the product of two halves is a quarter
  static BG_DEVICE uint32_t native(uint32_t four) {
    const uint32_t size = four & 0x7f7f7f7f, next = size + 0x01010101;
    const uint32_t sizes = __builtin_amdgcn_lerp(size, next, next >> 7),
        signs = __builtin_amdgcn_lerp(four, 0x7f7f7f7f, 0);
    return (signs & 0x80808080) | sizes;
  }
};
struct Int8 {
  static constexpr bool kWhole = true;
  static BG_DEVICE uint32_t halves(uint32_t apart) {
    // 0x64 in front of 128 more than a number is 1024 + 128 more.
    const HalfPair more = {1152, 1152};
    return __builtin_bit_cast(uint32_t, __builtin_bit_cast(HalfPair,
        (apart ^ 0x00800080) | 0x64006400) - more);
  }
  static BG_DEVICE uint32_t native(uint32_t four) { return four; }
};

// StagedBytes are Bytes that become pairs of F16 on their way to shared memory, of which kPer is.
template <class Format>
struct StagedBytes : Bytes<Format, BF16, F16> {
  static constexpr int kPer = 2;
};
// NativeBytes are multiplied as they are, four in a word.
template <class Format>
using NativeBytes = Bytes<Format, BF16, F16>;
