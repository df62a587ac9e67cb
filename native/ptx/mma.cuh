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

// What kernels of tensor cores need of CUDA besides dialect_cuda.h: compute capability 8.0, and 9.0 for
// clusters.
#ifdef BG_CUDA
#define BG_SHARED_DYNAMIC(name) extern __shared__ float4 name[]

// copyLine is copyVector past the L1 cache, for kernels whose shared memory leaves it little room: those of
// warpgroups take up to 39 % longer by way of it (H100).
BG_DEVICE void copyLine(SharedAddress to, const void* from, uint32_t bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(to), "l"(from), "r"(bytes) : "memory");
}

// copyExisting starts a copy of 16 bytes past the L1 cache where `place` is less than length, without a
// branch, which takes three instructions more for each copy. kInBlocks, from 9.0 on: as copyWhole does. Of
// rows that begin with less than 256 bytes vector kernels would bring what nobody reads (H100: bf16 of sizes
// rounded to 8 1 to 3 % later).
template <bool kInBlocks>
BG_DEVICE void copyExisting(SharedAddress to, const void* from, int32_t place, int32_t length) {
  if constexpr (kInBlocks) {
    asm volatile("{\n.reg .pred p;\nsetp.lt.s32 p, %2, %3;\n"
                 "@p cp.async.cg.shared.global.L2::256B [%0], [%1], 16;\n}\n"
                 ::"r"(to), "l"(from), "r"(place), "r"(length) : "memory");
  } else {
    asm volatile("{\n.reg .pred p;\nsetp.lt.s32 p, %2, %3;\n@p cp.async.cg.shared.global [%0], [%1], 16;\n}\n"
                 ::"r"(to), "l"(from), "r"(place), "r"(length) : "memory");
  }
}

// copyWord starts a copy of a word, or with 0 bytes writes zeros.
BG_DEVICE void copyWord(SharedAddress to, const void* from, uint32_t bytes) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;\n" ::"r"(to), "l"(from), "r"(bytes) : "memory");
}

// storeShared writes a line of 16 bytes.
BG_DEVICE void storeShared(SharedAddress to, const uint32_t (&x)[4]) {
  asm volatile("st.shared.v4.b32 [%0], {%1,%2,%3,%4};\n" ::"r"(to), "r"(x[0]), "r"(x[1]), "r"(x[2]),
      "r"(x[3]) : "memory");
}

BG_DEVICE void warpBarrier() { __syncwarp(); }

// barrierOr is barrier, and tells all threads whether any of them says so.
BG_DEVICE bool barrierOr(bool any) { return __syncthreads_or(any); }

// multiply is sum += a*b; multiplyFirst is sum = a*b.
BG_DEVICE void multiply(FragmentC& sum, const FragmentA& a, const FragmentB& b) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
      "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
      : "+f"(sum.x[0]), "+f"(sum.x[1]), "+f"(sum.x[2]), "+f"(sum.x[3])
      : "r"(a.x[0]), "r"(a.x[1]), "r"(a.x[2]), "r"(a.x[3]), "r"(b.x[0]), "r"(b.x[1]));
}
BG_DEVICE void multiplyFirst(FragmentC& sum, const FragmentA& a, const FragmentB& b) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
      "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%10,%10,%10};\n"
      : "=f"(sum.x[0]), "=f"(sum.x[1]), "=f"(sum.x[2]), "=f"(sum.x[3])
      : "r"(a.x[0]), "r"(a.x[1]), "r"(a.x[2]), "r"(a.x[3]), "r"(b.x[0]), "r"(b.x[1]), "f"(0.0f));
}

// roundToTF32 rounds to nearest and keeps NaN. Ties go to even from 9.0 on, where
// that is one instruction, and away from zero before.
BG_DEVICE uint32_t roundToTF32(float x) {
  uint32_t r;
#if __CUDA_ARCH__ >= 900
  asm("cvt.rn.tf32.f32 %0, %1;\n" : "=r"(r) : "f"(x));
#else
  asm("cvt.rna.tf32.f32 %0, %1;\n" : "=r"(r) : "f"(x));
#endif
  return r;
}

// A cluster is adjacent thread groups that run at the same time and can write to
// each other's shared memory (9.0 on).
BG_DEVICE uint32_t clusterSize() {
  uint32_t n;
  asm("mov.u32 %0, %%cluster_nctaid.x;\n" : "=r"(n));
  return n;
}
BG_DEVICE uint32_t clusterRank() {
  uint32_t n;
  asm("mov.u32 %0, %%cluster_ctaid.x;\n" : "=r"(n));
  return n;
}

// clusterArrive and clusterWait are the halves of a barrier of all threads of the
// cluster, which makes writes to the memory of others visible.
BG_DEVICE void clusterArrive() { asm volatile("barrier.cluster.arrive.release;\n" ::: "memory"); }
BG_DEVICE void clusterWait() { asm volatile("barrier.cluster.wait.acquire;\n" ::: "memory"); }

// storeRemote writes to the place `to` of the group `rank` of the cluster.
BG_DEVICE void storeRemote(SharedAddress to, uint32_t rank, float x) {
  asm volatile(
      "{\n.reg .b32 a;\nmapa.shared::cluster.u32 a, %0, %1;\nst.shared::cluster.f32 [a], %2;\n}\n" ::"r"(to),
          "r"(rank), "f"(x)
      : "memory");
}

// permute takes 4 of the bytes of two words.
BG_DEVICE uint32_t permute(uint32_t low, uint32_t high, uint32_t which) { return __byte_perm(low, high,
    which); }

// masked is word & mask, and chosen has the bits of mask of x, and the others of y. Both stay instructions:
// compilers would mask each of several shifted words.
BG_DEVICE uint32_t masked(uint32_t word, uint32_t mask) {
  uint32_t r;
  asm("and.b32 %0, %1, %2;\n" : "=r"(r) : "r"(word), "r"(mask));
  return r;
}
BG_DEVICE uint32_t chosen(uint32_t x, uint32_t y, uint32_t mask) {
  uint32_t r;
  asm("lop3.b32 %0, %1, %2, %3, 0xe4;\n" : "=r"(r) : "r"(x), "r"(y), "r"(mask));
  return r;
}
#endif
