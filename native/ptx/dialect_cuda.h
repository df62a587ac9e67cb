// What gemm.cuh needs of CUDA, and the only place where the text depends on it.
#pragma once

#include <stdint.h>

#define BG_DEVICE __device__ __forceinline__
#define BG_SHARED(type, name, n) __shared__ type name[n]
#define BG_UNROLL_STEPS _Pragma("unroll")
#define BG_ONE_BY_ONE _Pragma("unroll 1")
#define BG_KERNEL(threads, groups) extern "C" __global__ void __launch_bounds__(threads, groups)

BG_DEVICE uint32_t threadId() { return threadIdx.x; }
BG_DEVICE uint32_t workerId() { return blockIdx.x; }
BG_DEVICE uint32_t workers() { return gridDim.x; }
BG_DEVICE uint32_t pieceId() { return blockIdx.y; }
BG_DEVICE void barrier() { __syncthreads(); }

// kHasDoubles and kHasE2M1: there are kernels of fp64, and of B of MXFP4 and NVFP4.
constexpr bool kHasDoubles = true, kHasE2M1 = true;

// doubleOf is the number of two words, logistic v / (1 + e^-z).
BG_DEVICE double doubleOf(uint32_t high, uint32_t low) {
  return __hiloint2double(static_cast<int>(high), static_cast<int>(low));
}
BG_DEVICE double logistic(double v, double z) { return v / (1 + exp(-z)); }

// kFinishes: see store.cuh.
constexpr bool kFinishes = false;

// kPanelRows: rows of a panel of tiles, or 0 (ragged.cuh).
constexpr uint32_t kPanelRows = 2048;

// countAt counts one of `count` that arrive, and returns how many did before. The last one sees what the
// others stored before. Counting wraps to 0, which a plan has there when it is uploaded, so that each run
// finds it; a run that was aborted leaves a context that nobody can use.
BG_DEVICE uint32_t countAt(uint32_t* arrived, uint32_t count) {
  uint32_t before;
  asm volatile("atom.acq_rel.gpu.global.inc.u32 %0, [%1], %2;\n"
               : "=r"(before)
               : "l"(__cvta_generic_to_global(arrived)), "r"(count - 1)
               : "memory");
  return before;
}

// arrivesLast counts the thread group, after a barrier, and reports whether it is the last one.
BG_DEVICE bool arrivesLast(uint32_t* arrived, uint32_t count) {
  return __syncthreads_or(threadId() == 0 && countAt(arrived, count) == count - 1);
}

// takeNext counts at *next for the thread that says so, and gives it what was there; `taken` of others stays.
// Counting wraps to 0 after last, as countAt does.
BG_DEVICE void takeNext(uint32_t* next, uint32_t last, bool takes, uint32_t& taken) {
  asm volatile("{\n.reg .pred p;\nsetp.ne.u32 p, %3, 0;\n@p atom.global.inc.u32 %0, [%1], %2;\n}\n"
               : "+r"(taken)
               : "l"(__cvta_generic_to_global(next)), "r"(last), "r"(static_cast<uint32_t>(takes)));
}

// NextItem has what the first thread of a group keeps for all, from a barrier on: in shared memory of its
// own, because a register would be spilled in more kernels (nvcc 12.4).
struct NextItem {
  uint32_t* at;
  BG_DEVICE NextItem() {
    BG_SHARED(uint32_t, word, 1);
    at = word;
  }
  BG_DEVICE void keep(uint32_t item) {
    if (threadId() == 0) *at = item;
  }
  BG_DEVICE uint32_t get(uint32_t, const float*) const { return *at; }
};

// lowerShared and addShared change a number in shared memory that other threads change too;
// all lanes of a warp call addShared.
BG_DEVICE void lowerShared(uint32_t* number, uint32_t to) { atomicMin(number, to); }
BG_DEVICE void addShared(uint32_t* number, uint32_t by) {
  by = __reduce_add_sync(0xffffffff, by);
  if (threadId() % 32 == 0) atomicAdd(number, by);
}

BG_DEVICE bool warpAny(bool x) { return __any_sync(0xffffffff, x); }

// countShared adds 1 to a number in shared memory that other threads change too.
BG_DEVICE void countShared(uint32_t* number) { atomicAdd(number, 1u); }

// sumBefore is the sum of the values of all threads before this one. sums has sumWords
// numbers, which nothing else uses.
constexpr uint32_t sumWords(uint32_t threads) { return threads / 32; }
template <uint32_t kThreads>
BG_DEVICE uint32_t sumBefore(uint32_t* sums, uint32_t value) {
  const uint32_t lane = threadId() % 32, warp = threadId() / 32;
  uint32_t sum = value;
#pragma unroll
  for (uint32_t by = 1; by < 32; by *= 2) {
    const uint32_t other = __shfl_up_sync(0xffffffff, sum, by);
    if (lane >= by) sum += other;
  }
  if (lane == 31) sums[warp] = sum;
  barrier();
  return sum - value + __reduce_add_sync(0xffffffff, lane < warp ? sums[lane] : 0);
}

// largest is the largest value of so many adjacent threads, 16 or 32, where all of a group are. scratch is
// not used.
template <uint32_t kThreads>
BG_DEVICE uint32_t largest(const void*, uint32_t value) {
#pragma unroll
  for (uint32_t by = kThreads / 2; by > 0; by /= 2) {
    value = max(value, __shfl_xor_sync(0xffffffff, value, by));
  }
  return value;
}

// Alike is how many of the keys of 32 adjacent threads equal one of them: before it, and
// in all.
struct Alike {
  uint32_t before, all;
};

// alike compares a key with those of the other lanes of the warp. keys is not used.
BG_DEVICE Alike alike(const void*, uint32_t key) {
  const uint32_t same = __match_any_sync(0xffffffff, key), before = same & ((1u << threadId() % 32) - 1);
  return {static_cast<uint32_t>(__popc(before)), static_cast<uint32_t>(__popc(same))};
}

// SharedAddress is a place in shared memory as copies take it.
using SharedAddress = uint32_t;
BG_DEVICE SharedAddress sharedAddress(const void* p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

// copyIf starts a copy of 4 or 16 bytes if bit j of `bits` is set. The test is
// here because the compiler would otherwise keep its result as a number.
template <int kBytes>
BG_DEVICE void copyIf(uint32_t bits, int j, SharedAddress to, const float* from) {
  asm volatile(
      "{\n.reg .pred p;\n.reg .b32 r;\nand.b32 r, %0, %1;\nsetp.ne.b32 p, r, 0;\n"
      "@p cp.async.ca.shared.global [%2], [%3], %4;\n}\n" ::"r"(bits), "r"(1u << j), "r"(to), "l"(from),
          "n"(kBytes)
      : "memory");
}

// kCopiesLines: there are copies of 16 bytes, of which some may not exist (copyVector).
constexpr bool kCopiesLines = true;

// copyVector starts a copy of 16 bytes to shared memory. It reads the first
// `bytes` of them, nothing for 0, and writes zeros for the others.
//
// It goes by way of the L1 cache, which joins both halves of a sector of 32 bytes: past it, copies of rows
// that begin at odd multiples of 16 bytes take twice as long (H100), and kernels of mma.sync up to 24 %
// longer.
BG_DEVICE void copyVector(SharedAddress to, const void* from, uint32_t bytes) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 16, %2;\n" ::"r"(to), "l"(from), "r"(bytes) : "memory");
}

// copySector is the same of lines that keep their place in a sector, so that no sector is brought twice. From
// 9.0 on it goes past the L1 cache, of which much shared memory leaves little, and brings 128 bytes to the L2
// cache: thin tiles of fp32 take 0.84 to 0.99 of the time of copyVector and places as they come (H200).
// Without these 128 bytes they take up to 1.1, by way of the L1 cache with as much shared memory 1.2 to 1.3.
BG_DEVICE void copySector(SharedAddress to, const void* from, uint32_t bytes) {
#if __CUDA_ARCH__ >= 900
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;\n" ::"r"(to), "l"(from),
      "r"(bytes) : "memory");
#else
  copyVector(to, from, bytes);
#endif
}

// commitCopies closes a group of copies; waitCopies waits until at most
// `pending` groups of the calling thread are under way.
BG_DEVICE void commitCopies() { asm volatile("cp.async.commit_group;\n" ::: "memory"); }
template <int kPending>
BG_DEVICE void waitCopies() { asm volatile("cp.async.wait_group %0;\n" ::"n"(kPending) : "memory"); }

// Copies are the copies of one operand. They need nothing of the thread that
// started them.
template <int kFloats>
struct Copies {
  BG_DEVICE explicit Copies(const float*) {}

  // start starts n copies, of which the bits of `exists` tell the ones to make.
  template <int kBytes, int n, class To, class From>
  BG_DEVICE void start(uint32_t exists, To to, From from) {
#pragma unroll
    for (int j = 0; j < n; ++j) copyIf<kBytes>(exists, j, to(j), from(j));
  }

  template <int kBytes, int n, class To>
  BG_DEVICE void land(To) {}
};

// exponential is 2^x, with an error of 2 units in the last place, and reciprocal 1/x, with one; subnormal
// ones are 0.
BG_DEVICE float exponential(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
BG_DEVICE float reciprocal(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// inGlobal is an address of global memory, of which the compiler does not know where it may be loaded: loads
// of shared memory would not pass stores to it.
template <class T>
BG_DEVICE T* inGlobal(T* p) {
  __builtin_assume(__isGlobal(p));
  return p;
}

// Packed is what multiplyAdd works on at once.
using Packed = float;
BG_DEVICE Packed multiplyAdd(float x, Packed y, Packed sum) { return fmaf(x, y, sum); }
