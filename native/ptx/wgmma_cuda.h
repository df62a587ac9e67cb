// What wgmma.cuh needs of CUDA besides dialect_cuda.h and mma.cuh: compute
// capability 9.0 with its own instructions (sm_90a).
#pragma once

#include "../element/bits16.cuh"

BG_DEVICE char* dynamicShared() {
  extern __shared__ __align__(1024) char dynamicMemory[];
  return dynamicMemory;
}

// uniform is x, which is the same for all lanes of the warp, as the compiler can see.
BG_DEVICE uint32_t uniform(uint32_t x) { return __shfl_sync(0xffffffff, x, 0); }
// ofLane is x of a lane.
template <int lane>
BG_DEVICE uint32_t ofLane(uint32_t x) { return __shfl_sync(0xffffffff, x, lane); }
BG_DEVICE uint32_t ofLane(uint32_t x, uint32_t lane) { return __shfl_sync(0xffffffff, x, lane); }

// warpArrivesLast is arrivesLast for a warp, without a barrier of others.
BG_DEVICE bool warpArrivesLast(uint32_t* arrived, uint32_t count) {
  __syncwarp();
  const uint32_t before = threadId() % 32 == 0 ? countAt(arrived, count) : 0;
  const bool last = ofLane<0>(before) == count - 1;
  __syncwarp();
  return last;
}

// settled is x, of which the compiler no longer knows how it was computed.
template <class X>
BG_DEVICE X settled(X x) {
  if constexpr (sizeof x == 8) asm volatile("" : "+l"(x));
  else asm volatile("" : "+r"(x));
  return x;
}

// copyWhole starts a copy of 16 bytes to shared memory, and brings the 256 around them to the L2 cache: rows
// of B that are read once come 1 to 5 % sooner so (H100: bf16 experts of 16 to 1024 tokens).
BG_DEVICE void copyWhole(SharedAddress to, const float* from) {
  asm volatile("cp.async.cg.shared.global.L2::256B [%0], [%1], 16;\n" ::"r"(to), "l"(from) : "memory");
}

// An mbarrier in shared memory: a phase ends when `count` threads have arrived.
// waitPhase waits for the end of the phase of this parity, 0 for the first.
BG_DEVICE void initPhases(SharedAddress at, uint32_t count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;\n" ::"r"(at), "r"(count) : "memory");
}
BG_DEVICE void fencePhases() { asm volatile("fence.mbarrier_init.release.cluster;\n" ::: "memory"); }
BG_DEVICE void arrive(SharedAddress at) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];\n" ::"r"(at) : "memory");
}
// arriveCopied makes the thread arrive when all copies that it has started are done.
BG_DEVICE void arriveCopied(SharedAddress at) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];\n" ::"r"(at) : "memory");
}
// expectBytes has the phase end when so many bytes have been copied beside; copyPiece starts a copy of bytes
// that are counted there, a multiple of 16, as both addresses are.
BG_DEVICE void expectBytes(SharedAddress at, uint32_t bytes) {
  asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;\n" ::"r"(at), "r"(bytes) : "memory");
}
BG_DEVICE void copyPiece(SharedAddress to, const void* from, uint32_t bytes, SharedAddress at) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];\n"
               ::"r"(to),
               "l"(__cvta_generic_to_global(from)), "r"(bytes), "r"(at)
               : "memory");
}
BG_DEVICE void waitPhase(SharedAddress at, uint32_t parity) {
  asm volatile(
      "{\n.reg .pred p;\nAGAIN:\nmbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n"
      "@p bra DONE;\nbra AGAIN;\nDONE:\n}\n" ::"r"(at),
      "r"(parity)
      : "memory");
}

// fenceStores orders stores to shared memory before reads of the tensor cores.
BG_DEVICE void fenceStores() { asm volatile("fence.proxy.async.shared::cta;\n" ::: "memory"); }

// Registers of each thread of a warpgroup, from here on.
template <int n>
BG_DEVICE void raiseRegisters() { asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;\n" ::"n"(n)); }
template <int n>
BG_DEVICE void lowerRegisters() { asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;\n" ::"n"(n)); }

BG_DEVICE void fenceProducts() { asm volatile("wgmma.fence.sync.aligned;\n" ::: "memory"); }
BG_DEVICE void commitProducts() { asm volatile("wgmma.commit_group.sync.aligned;\n" ::: "memory"); }
template <int kPending>
BG_DEVICE void waitProducts() { asm volatile("wgmma.wait_group.sync.aligned %0;\n" ::"n"(kPending) :
    "memory"); }

// matrixB describes 64 rows (columns of B) of 32 tf32 numbers along K, each row 128
// bytes, swizzled by 128 bytes (PTX ISA, "Matrix Descriptor"): groups of 8 rows are
// 1024 bytes apart. A step of 8 along K adds 32 bytes, 2 in the descriptor.
BG_DEVICE uint64_t matrixB(SharedAddress at) {
  return static_cast<uint64_t>((at & 0x3ffff) >> 4) | static_cast<uint64_t>(1) << 16 |
      static_cast<uint64_t>(1024 >> 4) << 32 |
         static_cast<uint64_t>(1) << 62;
}

// What the product instructions of n sums a lane have in common: the sums, in the text and, by a constraint,
// as operands, and of the other operands A's registers and B.
#define BG_SUMS_4 "{" "%0,%1,%2,%3" "}"
#define BG_OUT_4(c) c(d[0]), c(d[1]), c(d[2]), c(d[3])
#define BG_FROM_4 "{%4,%5,%6,%7}, %8"
#define BG_IS_4 "%9"
#define BG_SUMS_8 "{" "%0,%1,%2,%3,%4,%5,%6,%7" "}"
#define BG_OUT_8(c) c(d[0]), c(d[1]), c(d[2]), c(d[3]), c(d[4]), c(d[5]), c(d[6]), c(d[7])
#define BG_FROM_8 "{%8,%9,%10,%11}, %12"
#define BG_IS_8 "%13"
#define BG_SUMS_16 "{" "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15" "}"
#define BG_OUT_16(c) \
  c(d[0]), c(d[1]), c(d[2]), c(d[3]), c(d[4]), c(d[5]), c(d[6]), c(d[7]), c(d[8]), \
  c(d[9]), c(d[10]), c(d[11]), c(d[12]), c(d[13]), c(d[14]), c(d[15])
#define BG_FROM_16 "{%16,%17,%18,%19}, %20"
#define BG_IS_16 "%21"
#define BG_SUMS_32 "{" \
  "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26," \
  "%27,%28,%29,%30,%31" "}"
#define BG_OUT_32(c) \
  c(d[0]), c(d[1]), c(d[2]), c(d[3]), c(d[4]), c(d[5]), c(d[6]), c(d[7]), c(d[8]), \
  c(d[9]), c(d[10]), c(d[11]), c(d[12]), c(d[13]), c(d[14]), c(d[15]), c(d[16]), \
  c(d[17]), c(d[18]), c(d[19]), c(d[20]), c(d[21]), c(d[22]), c(d[23]), c(d[24]), \
  c(d[25]), c(d[26]), c(d[27]), c(d[28]), c(d[29]), c(d[30]), c(d[31])
#define BG_FROM_32 "{%32,%33,%34,%35}, %36"
#define BG_IS_32 "%37"
#define BG_SUMS_64 "{" \
  "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26," \
  "%27,%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51," \
  "%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63" "}"
#define BG_OUT_64(c) \
  c(d[0]), c(d[1]), c(d[2]), c(d[3]), c(d[4]), c(d[5]), c(d[6]), c(d[7]), c(d[8]), \
  c(d[9]), c(d[10]), c(d[11]), c(d[12]), c(d[13]), c(d[14]), c(d[15]), c(d[16]), \
  c(d[17]), c(d[18]), c(d[19]), c(d[20]), c(d[21]), c(d[22]), c(d[23]), c(d[24]), \
  c(d[25]), c(d[26]), c(d[27]), c(d[28]), c(d[29]), c(d[30]), c(d[31]), c(d[32]), \
  c(d[33]), c(d[34]), c(d[35]), c(d[36]), c(d[37]), c(d[38]), c(d[39]), c(d[40]), \
  c(d[41]), c(d[42]), c(d[43]), c(d[44]), c(d[45]), c(d[46]), c(d[47]), c(d[48]), \
  c(d[49]), c(d[50]), c(d[51]), c(d[52]), c(d[53]), c(d[54]), c(d[55]), c(d[56]), \
  c(d[57]), c(d[58]), c(d[59]), c(d[60]), c(d[61]), c(d[62]), c(d[63])
#define BG_FROM_64 "{%64,%65,%66,%67}, %68"
#define BG_IS_64 "%69"

// BG_PRODUCT is sum += a*b, or without `more` sum = a*b, of 64 rows, twice as many columns as a lane has
// sums, and k's that fill 32 bytes. types are those of sums, A and B, c the constraint of sums, and
// signs what types of float have after.
#define BG_PRODUCT(n, columns, depth, types, c, more, signs) \
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " BG_IS_##n ", 0;\n" \
               "wgmma.mma_async.sync.aligned.m64n" #columns "k" #depth types " " BG_SUMS_##n ", " \
               BG_FROM_##n ", p" signs ";\n}\n" \
               : BG_OUT_##n(c) \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "n"(more))

// product is d = a*b, or d += a*b unless kFirst, of 8 k's of tf32 numbers, or 32 of e4m3.
#define BG_FLOAT_PRODUCTS(format, depth, types) \
  template <bool kFirst> \
  BG_DEVICE void product(format float (&d)[16], const uint32_t (&a)[4], uint64_t b) { \
    BG_PRODUCT(16, 32, depth, types, "+f", kFirst ? 0 : 1, ", 1, 1"); \
  } \
  template <bool kFirst> \
  BG_DEVICE void product(format float (&d)[32], const uint32_t (&a)[4], uint64_t b) { \
    BG_PRODUCT(32, 64, depth, types, "+f", kFirst ? 0 : 1, ", 1, 1"); \
  } \
  template <bool kFirst> \
  BG_DEVICE void product(format float (&d)[64], const uint32_t (&a)[4], uint64_t b) { \
    BG_PRODUCT(64, 128, depth, types, "+f", kFirst ? 0 : 1, ", 1, 1"); \
  }
#define BG_OF_E4M3 E4M3,
BG_FLOAT_PRODUCTS(, 8, ".f32.tf32.tf32")
BG_FLOAT_PRODUCTS(BG_OF_E4M3, 32, ".f32.e4m3.e4m3")

// d += a*b of 16 k's of pairs of a format, and of 32 of int8, whose sums are int32.
#define BG_MORE_PRODUCTS(format, Sum, depth, types, c, signs) \
  BG_DEVICE void product(format, Sum (&d)[16], const uint32_t (&a)[4], uint64_t b) { \
    BG_PRODUCT(16, 32, depth, types, c, 1, signs); \
  } \
  BG_DEVICE void product(format, Sum (&d)[32], const uint32_t (&a)[4], uint64_t b) { \
    BG_PRODUCT(32, 64, depth, types, c, 1, signs); \
  } \
  BG_DEVICE void product(format, Sum (&d)[64], const uint32_t (&a)[4], uint64_t b) { \
    BG_PRODUCT(64, 128, depth, types, c, 1, signs); \
  }
BG_MORE_PRODUCTS(BF16, float, 16, ".f32.bf16.bf16", "+f", ", 1, 1, 0")
BG_MORE_PRODUCTS(F16, float, 16, ".f32.f16.f16", "+f", ", 1, 1, 0")
BG_MORE_PRODUCTS(Int8, int32_t, 32, ".s32.s8.s8", "+r", "")

// product is d = a*b, or d += a*b unless kFirst, of 16 k's of pairs of a format.
#define BG_PAIR_PRODUCT(format, n, columns, types) \
  template <bool kFirst> \
  BG_DEVICE void product(format, float (&d)[n], const uint32_t (&a)[4], uint64_t b) { \
    BG_PRODUCT(n, columns, 16, types, "+f", kFirst ? 0 : 1, ", 1, 1, 0"); \
  }
#define BG_PAIR_PRODUCTS(format, types) \
  BG_PAIR_PRODUCT(format, 4, 8, types) \
  BG_PAIR_PRODUCT(format, 8, 16, types) \
  BG_PAIR_PRODUCT(format, 16, 32, types) \
  BG_PAIR_PRODUCT(format, 32, 64, types) \
  BG_PAIR_PRODUCT(format, 64, 128, types)
BG_PAIR_PRODUCTS(BF16, ".f32.bf16.bf16")
BG_PAIR_PRODUCTS(F16, ".f32.f16.f16")

// matrixMNMajor describes 64 k's of 16 bits of rows of A or columns of B that are adjacent in memory,
// swizzled by 128 bytes: groups of 8 k's are 1024 bytes apart, each 64 rows or columns 8192. A step of 16 k's
// adds 2048 bytes.
BG_DEVICE uint64_t matrixMNMajor(SharedAddress at) {
  return static_cast<uint64_t>((at & 0x3ffff) >> 4) | static_cast<uint64_t>(8192 >> 4) << 16 |
      static_cast<uint64_t>(1024 >> 4) << 32 |
         static_cast<uint64_t>(1) << 62;
}

// productOf is d += a*b of 16 k's with both operands in shared memory, which run across K or not.
#define BG_SHARED_PRODUCT(n, columns, type) \
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, 1, 0;\n" \
               "wgmma.mma_async.sync.aligned.m64n" #columns "k16.f32." #type "." #type " " \
               BG_SUMS_##n ", " BG_TWO_##n ";\n}\n" \
               : BG_OUT_##n("+f") \
               : "l"(a), "l"(b), "n"(kMNMajorA ? 1 : 0), "n"(kMNMajorB ? 1 : 0))
#define BG_TWO_32 "%32, %33, p, 1, 1, %34, %35"
#define BG_TWO_64 "%64, %65, p, 1, 1, %66, %67"
#define BG_SHARED_PRODUCTS(format, type) \
  template <bool kMNMajorA, bool kMNMajorB> \
  BG_DEVICE void productOf(format, float (&d)[32], uint64_t a, uint64_t b) { \
    BG_SHARED_PRODUCT(32, 64, type); \
  } \
  template <bool kMNMajorA, bool kMNMajorB> \
  BG_DEVICE void productOf(format, float (&d)[64], uint64_t a, uint64_t b) { \
    BG_SHARED_PRODUCT(64, 128, type); \
  }
BG_SHARED_PRODUCTS(BF16, bf16)
BG_SHARED_PRODUCTS(F16, f16)

// productOf of 32 k's of bytes, both along K: d += a*b, or of e4m3 with kFirst d = a*b.
#define BG_BYTE_PRODUCT(n, columns, types, c, more, signs) \
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " BG_MORE_##n ", 0;\n" \
               "wgmma.mma_async.sync.aligned.m64n" #columns "k32" types " " \
               BG_SUMS_##n ", " BG_BYTES_##n ", p" signs ";\n}\n" \
               : BG_OUT_##n(c) \
               : "l"(a), "l"(b), "n"(more))
#define BG_BYTES_32 "%32, %33"
#define BG_MORE_32 "%34"
#define BG_BYTES_64 "%64, %65"
#define BG_MORE_64 "%66"
template <bool kFirst>
BG_DEVICE void productOf(E4M3, float (&d)[32], uint64_t a,
    uint64_t b) { BG_BYTE_PRODUCT(32, 64, ".f32.e4m3.e4m3", "+f", kFirst ? 0 : 1, ", 1, 1"); }
template <bool kFirst>
BG_DEVICE void productOf(E4M3, float (&d)[64], uint64_t a,
    uint64_t b) { BG_BYTE_PRODUCT(64, 128, ".f32.e4m3.e4m3", "+f", kFirst ? 0 : 1, ", 1, 1"); }
template <bool kMNMajorA, bool kMNMajorB>
BG_DEVICE void productOf(Int8, int32_t (&d)[32], uint64_t a,
    uint64_t b) { BG_BYTE_PRODUCT(32, 64, ".s32.s8.s8", "+r", 1, ""); }
template <bool kMNMajorA, bool kMNMajorB>
BG_DEVICE void productOf(Int8, int32_t (&d)[64], uint64_t a,
    uint64_t b) { BG_BYTE_PRODUCT(64, 128, ".s32.s8.s8", "+r", 1, ""); }

// fetch brings what is there to the L2 cache.
BG_DEVICE void fetch(const void* at) {
  asm volatile("prefetch.global.L2 [%0];\n" ::"l"(__cvta_generic_to_global(at)));
}

// settle keeps the compiler from reading sums before the wait above it.
template <int n>
BG_DEVICE void settle(float (&d)[n]) {
#pragma unroll
  for (int i = 0; i < n; ++i) asm volatile("" : "+f"(d[i])::"memory");
}
template <int n>
BG_DEVICE void settle(int32_t (&d)[n]) {
#pragma unroll
  for (int i = 0; i < n; ++i) asm volatile("" : "+r"(d[i])::"memory");
}
