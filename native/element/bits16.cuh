// Elements of 16 and of 8 bits, and their formats on GPUs of NVIDIA and AMD. A word of memory is a pair of
// elements of 16 bits, or four of 8.
#pragma once

#include "../dialect.h"
#include "../kernels/items.cuh"
#ifdef BG_CUDA
#include "../ptx/mma.cuh"

// Formats on GPUs of NVIDIA, from compute capability 8.0 on.

// BG_HALF_MULTIPLY is sum += a*b of 16 k's: of rows 0 and 8 and columns of a lane, k's 0 and 8.
#define BG_HALF_MULTIPLY(type) \
  static BG_DEVICE void multiply(FragmentC& sum, const uint32_t (&a)[2][2], const uint32_t (&b)[2]) { \
    asm("mma.sync.aligned.m16n8k16.row.col.f32." #type "." #type ".f32 "                          \
        "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"                                            \
        : "+f"(sum.x[0]), "+f"(sum.x[1]), "+f"(sum.x[2]), "+f"(sum.x[3]) \
        : "r"(a[0][0]), "r"(a[1][0]), "r"(a[0][1]), "r"(a[1][1]), "r"(b[0]), "r"(b[1])); \
  }

struct BF16 {
  static constexpr int kFraction = 7;
  BG_HALF_MULTIPLY(bf16)
  // times is the products of two pairs.
  static BG_DEVICE uint32_t times(uint32_t x, uint32_t y) {
    uint32_t r;
    asm("fma.rn.bf16x2 %0, %1, %2, %3;\n" : "=r"(r) : "r"(x), "r"(y), "r"(0x80008000));
    return r;
  }
  // weights are two nibbles, 16 bits apart, as numbers less what minus makes of a group's word: its zero
  // point, in the lower 4 bits. Beside the exponent of 128 a nibble is that much more.
  static BG_DEVICE uint32_t weights(uint32_t nibbles, uint32_t less) {
    uint32_t r;
    asm("{\n.reg .b32 more;\nlop3.b32 more, %1, 0x000f000f, 0x43004300, 0xea;\n"
        "fma.rn.bf16x2 %0, more, %2, %3;\n}\n"
        : "=r"(r)
        : "r"(nibbles), "r"(0x3f803f80), "r"(less));
    return r;
  }
  static BG_DEVICE uint32_t minus(uint32_t group) { return 0xc300c300 | (group & 15) * 0x00010001; }
  static BG_DEVICE float number(uint16_t bits) { return __uint_as_float(static_cast<uint32_t>(bits) << 16); }
  static BG_DEVICE uint16_t bits(float x) {
    uint16_t r;
    asm("cvt.rn.bf16.f32 %0, %1;\n" : "=h"(r) : "f"(x));
    return r;
  }
  static BG_DEVICE uint32_t pair(float low, float high) {
    uint32_t r;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;\n" : "=r"(r) : "f"(high), "f"(low));
    return r;
  }
};

struct F16 {
  static constexpr int kFraction = 10;
  BG_HALF_MULTIPLY(f16)
  static BG_DEVICE uint32_t times(uint32_t x, uint32_t y) {
    uint32_t r;
    asm("mul.rn.f16x2 %0, %1, %2;\n" : "=r"(r) : "r"(x), "r"(y));
    return r;
  }
  // As those of BF16, beside the exponent of 1024.
  static BG_DEVICE uint32_t weights(uint32_t nibbles, uint32_t less) {
    uint32_t r;
    asm("{\n.reg .b32 more;\nlop3.b32 more, %1, 0x000f000f, 0x64006400, 0xea;\nadd.f16x2 %0, more, %2;\n}\n" :
        "=r"(r) : "r"(nibbles), "r"(less));
    return r;
  }
  static BG_DEVICE uint32_t minus(uint32_t group) { return 0xe400e400 | (group & 15) * 0x00010001; }
  static BG_DEVICE float number(uint16_t bits) {
    float r;
    asm("cvt.f32.f16 %0, %1;\n" : "=f"(r) : "h"(bits));
    return r;
  }
  static BG_DEVICE uint16_t bits(float x) {
    uint16_t r;
    asm("cvt.rn.f16.f32 %0, %1;\n" : "=h"(r) : "f"(x));
    return r;
  }
  static BG_DEVICE uint32_t pair(float low, float high) {
    uint32_t r;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;\n" : "=r"(r) : "f"(high), "f"(low));
    return r;
  }
};

// AsF16 are numbers of 8 bits that are multiplied as F16.
struct AsF16 {
  static BG_DEVICE void multiply(FragmentC& sum, const uint32_t (&a)[2][2],
      const uint32_t (&b)[2]) { F16::multiply(sum, a, b); }
};

struct E4M3 : AsF16 {
  static constexpr bool kWhole = false;

  // halves makes F16 of the numbers of the lower two bytes.
  static BG_DEVICE uint32_t halves(uint32_t bytes) {
    uint32_t r;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;\n" : "=r"(r) : "h"(static_cast<uint16_t>(bytes)));
#else
    // The exponent is 8 too small, in subnormal numbers too.
    const uint32_t apart = (bytes & 0xff) | (bytes & 0xff00) << 8, size = apart & 0x007f007f;
    const uint32_t isNaN = (size + 0x00010001) >> 7 & 0x00010001, times256 = 0x5c005c00;
    asm("mul.f16x2 %0, %1, %2;\n" : "=r"(r) : "r"((apart & 0x00800080) << 8 | size << 7), "r"(times256));
    r |= 0x7fff * isNaN;
#endif
    return r;
  }
};

// Int8 are whole numbers: sums are exact up to 2^24.
struct Int8 : AsF16 {
  static constexpr bool kWhole = true;

  // halves is that of E4M3. Under an upper byte of 0x64, 128 more than a number is 1024 + 128 more.
  static BG_DEVICE uint32_t halves(uint32_t bytes) {
    uint32_t r;
    const uint32_t more = 0x64806480;
    asm("sub.f16x2 %0, %1, %2;\n" : "=r"(r) : "r"(__byte_perm(bytes ^ 0x8080, 0x64646464, 0x4140)),
        "r"(more));
    return r;
  }
};

#elif defined(__HIP__) || defined(BG_SHIM)
// Formats on GPUs of AMD.

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
  static BG_DEVICE uint32_t pair(float low, float high) {
    return bits(low) | static_cast<uint32_t>(bits(high)) << 16;
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
  static BG_DEVICE uint32_t pair(float low, float high) {
    return bits(low) | static_cast<uint32_t>(bits(high)) << 16;
  }
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
    // Under an upper byte of 0x64, 128 more than a number is 1024 + 128 more.
    const HalfPair more = {1152, 1152};
    return __builtin_bit_cast(uint32_t, __builtin_bit_cast(HalfPair,
        (apart ^ 0x00800080) | 0x64006400) - more);
  }
  static BG_DEVICE uint32_t native(uint32_t four) { return four; }
};
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

// gatherLine brings the first n elements of a line of 16 bytes, which lies anywhere, and zeros after them.
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
