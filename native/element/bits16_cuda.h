// What bits16.cuh and tensor_bits16.cuh need of CUDA: formats of 16 bits, from compute capability 8.0 on.
#pragma once

#include "../ptx/dialect_cuda.h"
#include "../ptx/fragment.cuh"

// BG_HALF_MULTIPLY is sum += a*b of 16 k's: of rows 0 and 8 and columns of a lane, k's 0 and 8.
#define BG_HALF_MULTIPLY(type) \
  static BG_DEVICE void multiply(FragmentC& sum, const uint32_t (&a)[2][2], const uint32_t (&b)[2]) { \
    asm("mma.sync.aligned.m16n8k16.row.col.f32." #type "." #type ".f32 "                          \
        "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"                                            \
        : "+f"(sum.x[0]), "+f"(sum.x[1]), "+f"(sum.x[2]), "+f"(sum.x[3]) \
        : "r"(a[0][0]), "r"(a[1][0]), "r"(a[0][1]), "r"(a[1][1]), "r"(b[0]), "r"(b[1])); \
  }

struct BF16 {
  BG_HALF_MULTIPLY(bf16)
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
  BG_HALF_MULTIPLY(f16)
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

  // halves is that of E4M3: 0x64 in front of 128 more than a number is 1024 + 128 more.
  static BG_DEVICE uint32_t halves(uint32_t bytes) {
    uint32_t r;
    const uint32_t more = 0x64806480;
    asm("sub.f16x2 %0, %1, %2;\n" : "=r"(r) : "r"(__byte_perm(bytes ^ 0x8080, 0x64646464, 0x4140)),
        "r"(more));
    return r;
  }
};

// permute takes 4 of the bytes of two words.
BG_DEVICE uint32_t permute(uint32_t low, uint32_t high, uint32_t which) { return __byte_perm(low, high,
    which); }
