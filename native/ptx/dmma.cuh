// What kernels of fp64 need of CUDA besides mma.cuh: products of a warp on tensor cores, and copies of
// doubles.
//
// A product is D = A*B + C with A 16x16, B 16x8, C and D 16x8 (mma.sync m16n8k16; PTX ISA, "Matrix Fragments
// for mma.m16n8k16 with floating point type .f64"). With FragmentLane a lane holds
//
//	A  a[e]  row group + 8*(e%2), k member + 4*(e/2)       e = 0..7
//	B  b[e]  k member + 4*e, column group                  e = 0..3
//	C  c[e]  row group + 8*(e/2), column 2*member + e%2    e = 0..3
#pragma once

#include "mma.cuh"

#ifdef BG_CUDA
// copyDoubles starts a copy of 8 or 16 bytes to shared memory. It reads the first `bytes` of them, nothing
// for 0, and writes zeros for the others.
template <int kBytes>
BG_DEVICE void copyDoubles(SharedAddress to, const double* from, uint32_t bytes) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], %3, %2;\n" ::"r"(to), "l"(from), "r"(bytes),
      "n"(kBytes) : "memory");
}

// copyNext does so if copy i is one of so many, and goes to the next one. Steps are bytes. It is one text so
// that the compiler adds them, and does not multiply for each.
template <int kBytes>
BG_DEVICE void copyNext(uint32_t i, uint32_t copies, SharedAddress& to, const double*& from, uint32_t bytes,
    SharedAddress between, uint64_t further) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.gt.u32 p, %3, %4;\n"
      "@p cp.async.ca.shared.global [%0], [%1], %5, %2;\n"
      "add.u32 %0, %0, %6;\nadd.u64 %1, %1, %7;\n}\n"
      : "+r"(to), "+l"(from) : "r"(bytes), "r"(copies), "r"(i), "n"(kBytes), "r"(between), "l"(further)
      : "memory");
}

// copyEither is copyNext of 16 bytes, or of 8: so many there are of each, and of a kind none.
BG_DEVICE void copyEither(uint32_t i, uint32_t lines, uint32_t doubles, SharedAddress& to,
    const double*& from, SharedAddress between, uint64_t further) {
  asm volatile(
      "{\n.reg .pred p, q;\nsetp.gt.u32 p, %2, %4;\nsetp.gt.u32 q, %3, %4;\n"
      "@p cp.async.ca.shared.global [%0], [%1], 16;\n@q cp.async.ca.shared.global [%0], [%1], 8;\n"
      "add.u32 %0, %0, %5;\nadd.u64 %1, %1, %6;\n}\n"
      : "+r"(to), "+l"(from) : "r"(lines), "r"(doubles), "r"(i), "r"(between), "l"(further) : "memory");
}

// multiply is c += a*b. Before 9.0 there is m8n8k4 alone.
BG_DEVICE void multiply(double (&c)[4], const double (&a)[8], const double (&b)[4]) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm("mma.sync.aligned.m16n8k16.row.col.f64.f64.f64.f64 "
      "{%0,%1,%2,%3}, {%4,%5,%6,%7,%8,%9,%10,%11}, {%12,%13,%14,%15}, {%0,%1,%2,%3};\n"
      : "+d"(c[0]), "+d"(c[1]), "+d"(c[2]), "+d"(c[3])
      : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(a[4]), "d"(a[5]), "d"(a[6]), "d"(a[7]), "d"(b[0]),
      "d"(b[1]), "d"(b[2]), "d"(b[3]));
#else
#pragma unroll
  for (int e = 0; e < 8; ++e) {
    asm("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0,%1}, {%2}, {%3}, {%0,%1};\n"
        : "+d"(c[e % 2 * 2]), "+d"(c[e % 2 * 2 + 1]) : "d"(a[e]), "d"(b[e / 2]));
  }
#endif
}
#endif
