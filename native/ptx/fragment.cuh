// Which element of a matrix each lane of a warp holds for the tensor cores'
// product of tf32 matrices, D = A*B + C with A 16x8, B 8x8, C and D 16x8 (mma.sync
// m16n8k8; PTX ISA, "Matrix Fragments for mma.m16n8k8"), and how an fp32 number is
// split into two tf32 numbers.
//
// With group = lane / 4 and member = lane % 4 a lane holds
//
//	A  x[e]  row group + 8*(e%2), k member + 4*(e/2)       e = 0..3
//	B  x[e]  k member + 4*e, column group                  e = 0..1
//	C  x[e]  row group + 8*(e/2), column 2*member + e%2    e = 0..3
//
// All rows, columns and k of a lane's elements differ by constants, so that a
// fragment is read from memory with one address and constant offsets.
#pragma once

#include "../dialect.h"

struct FragmentLane {
  uint32_t group, member;
  BG_DEVICE explicit FragmentLane(uint32_t lane) : group(lane / 4), member(lane % 4) {}
};

struct FragmentA {
  static constexpr int kRows = 16, kDepth = 8, kElements = 4;
  static BG_DEVICE constexpr int row(int e) { return e % 2 * 8; }  // beyond the lane's group
  static BG_DEVICE constexpr int k(int e) { return e / 2 * 4; }    // beyond the lane's member
  uint32_t x[kElements];                                 // bits of tf32 numbers
};

struct FragmentB {
  static constexpr int kColumns = 8, kDepth = 8, kElements = 2;
  // beyond the lane's member; the column is the lane's group
  static BG_DEVICE constexpr int k(int e) { return 4 * e; }
  uint32_t x[kElements];
};

struct FragmentC {
  static constexpr int kElements = 4;
  static BG_DEVICE constexpr int row(int e) { return e / 2 * 8; }  // beyond the lane's group
  static BG_DEVICE constexpr int column(int e) { return e % 2; }   // beyond twice the lane's member
  float x[kElements];
};

// ScaledSplit is kSplitScale * x = hi + lo, exactly, while that does not overflow:
// hi is the number rounded to the 11 significant bits of tf32, and lo is the rest.
// The tensor cores take the first 11 bits of both, so that hi*hi + lo*hi + hi*lo
// is the product of two numbers to 2^-21 of its size, at worst, and kProductScale
// undoes the scale.
//
// Tensor cores compute with numbers below 2^-126, but tf32 has them spaced by
// 2^-136 where fp32 has 2^-149, and the low part of a number below 2^-113 would
// lose bits. Times 2^13 every fp32 number is a multiple of 2^-136. This moves the
// difficulty to numbers from 2^115 on, whose parts are infinite or NaN, and sums
// from 2^102 on, and these show in the outputs: nothing is to be watched in the
// inner loop. Infinity and NaN have a NaN as lo; what the addition makes of the
// bits of hi then does not matter.
constexpr float kSplitScale = 8192.0f, kProductScale = 1.0f / (8192.0f * 8192.0f);

// nearestTF32 is the tf32 number nearest to a finite one.
BG_DEVICE uint32_t nearestTF32(float x) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  uint32_t r;
  asm("cvt.rn.tf32.f32 %0, %1;\n" : "=r"(r) : "f"(x));  // one instruction there, and four before
  return r;
#else
  return (__float_as_uint(x) + 0x1000u) & ~0x1fffu;
#endif
}

struct ScaledSplit {
  uint32_t hi, lo;
  BG_DEVICE explicit ScaledSplit(float x) {
    const float scaled = kSplitScale * x;
    hi = nearestTF32(scaled);
    lo = __float_as_uint(scaled - __uint_as_float(hi));
  }
};
