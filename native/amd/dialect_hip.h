// What gemm.cuh needs of HIP, and the only place where the text depends on it:
// clang's builtins for AMD GPUs (LLVM, AMDGPUUsage), so that no header of ROCm is
// needed. Tests compile the same text for the CPU, with builtins of internal/emulator/device.h.
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __AMDGCN__
#define BG_DEVICE __attribute__((device, always_inline)) inline
#define BG_SHARED(type, name, n) __attribute__((shared)) type name[n]
#define BG_KERNEL(threads, waves) \
  extern "C" __attribute__((global, amdgpu_flat_work_group_size(threads, threads), \
      amdgpu_waves_per_eu(waves)))

BG_DEVICE uint32_t threadId() { return __builtin_amdgcn_workitem_id_x(); }
BG_DEVICE uint32_t workerId() { return __builtin_amdgcn_workgroup_id_x(); }
BG_DEVICE uint32_t pieceId() { return __builtin_amdgcn_workgroup_id_y(); }

// barrier orders shared memory alone; nothing else is swapped within a group.
BG_DEVICE void barrier() {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup", "local");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup", "local");
}

#if defined(__gfx908__) || defined(__gfx90a__) || defined(__gfx942__)
#define BG_HAS_MFMA  // and kernels of fp64
constexpr bool kHasDoubles = true;
#else
#define BG_HAS_FMA  // where tiles that suit matrix cores have kernels of plain FMAs
constexpr bool kHasDoubles = false;
#endif

BG_DEVICE float rintf(float x) { return __builtin_rintf(x); }
BG_DEVICE float fmaf(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
BG_DEVICE double fma(double x, double y, double z) { return __builtin_fma(x, y, z); }

// exponential is 2^x, and reciprocal 1/x, each with an error of one unit in the last place.
BG_DEVICE float exponential(float x) { return __builtin_amdgcn_exp2f(x); }
BG_DEVICE float reciprocal(float x) { return __builtin_amdgcn_rcpf(x); }

// kHasDoubles, kHasE2M1 and kFinishes: see dialect_cuda.h and store.cuh.
constexpr bool kHasE2M1 = false, kFinishes = false;

// What a thread stored before releaseStores is there for those of other thread groups that learn of it by
// addAt, and call acquireStores before they load it.
BG_DEVICE void releaseStores() { __builtin_amdgcn_fence(__ATOMIC_RELEASE, "agent", "global"); }
BG_DEVICE void acquireStores() { __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "agent", "global"); }
BG_DEVICE uint32_t addAt(uint32_t* number, uint32_t by) {
  return __hip_atomic_fetch_add(number, by, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}

// takeNext is that of dialect_cuda.h.
BG_DEVICE void takeNext(uint32_t* next, uint32_t last, bool takes, uint32_t& taken) {
  if (takes) taken = __builtin_amdgcn_atomic_inc32(next, last, __ATOMIC_RELAXED, "agent");
}
// firstLane is what the first thread of the wave has, waveSize how many threads a wave has.
BG_DEVICE uint32_t firstLane(uint32_t x) { return __builtin_amdgcn_readfirstlane(x); }
BG_DEVICE uint32_t waveSize() { return __AMDGCN_WAVEFRONT_SIZE__; }
#else
#include "../internal/emulator/device.h"
#define BG_HAS_MFMA
#define BG_HAS_FMA
#endif

// arrivesLast counts the waves of `count` thread groups that have stored, each by its number in the group,
// and reports whether the calling wave is the last one of its number: waves need not ask each other, and it
// sees what all groups stored. A number has 4 bits of *arrived, which are 0 again for the next run: groups
// have up to 8 waves, and tiles up to kSlotSets parts.
#ifndef BG_AS_CUDA
BG_DEVICE bool arrivesLast(uint32_t* arrived, uint32_t count) {
  constexpr uint32_t kBits = 4, kMask = (1u << kBits) - 1;
  const uint32_t shift = firstLane(threadId()) / waveSize() * kBits;
  const bool counts = threadId() % waveSize() == 0;
  releaseStores();
  barrier();  // all waves have; that of finishPartial orders shared memory alone
  uint32_t before = 0;
  if (counts) before = addAt(arrived, 1u << shift);
  if ((firstLane(before) >> shift & kMask) + 1 != count) return false;
  if (counts) addAt(arrived, 0u - (count << shift));
  acquireStores();
  return true;
}
#endif

// inGlobal is an address of global memory. The compiler does not know that of one that is told by Rows;
// instructions for any memory load 4 bytes at multiples of 4 alone. A cast that the next one undoes would be
// forgotten, but not by way of a number.
template <class T>
BG_DEVICE T* inGlobal(T* p) {
#ifdef __AMDGCN__
  return (T*)reinterpret_cast<__attribute__((address_space(1))) T*>(reinterpret_cast<uintptr_t>(p));
#else
  return p;
#endif
}

// The k's that are unrolled together. With all 16 of a step the compiler loads
// ahead so much that a 64x64 tile takes 166 registers instead of 100 (gfx90a).
#define BG_UNROLL_STEPS _Pragma("unroll 4")
// Before a loop of which no turns are done together.
#define BG_ONE_BY_ONE _Pragma("clang loop unroll(disable) vectorize(disable) interleave(disable)")

struct alignas(16) uint4 {
  uint32_t x, y, z, w;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
BG_DEVICE float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
BG_DEVICE uint32_t min(uint32_t a, uint32_t b) { return a < b ? a : b; }
BG_DEVICE uint32_t max(uint32_t a, uint32_t b) { return a > b ? a : b; }
BG_DEVICE float __uint_as_float(uint32_t bits) { return __builtin_bit_cast(float, bits); }
BG_DEVICE double doubleOf(uint32_t high, uint32_t low) {
  return __builtin_bit_cast(double, static_cast<uint64_t>(high) << 32 | low);
}

// logistic is v / (1 + e^-z), for z from -708 on. e^x is 2^n times e^r, with |r| at most half of ln 2, whose
// series errs by 2^-57 of it. What v_rcp_f64 gives has 23 bits, and each step doubles them.
BG_DEVICE double logistic(double v, double z) {
  constexpr double kLog2E = 0x1.71547652b82fep0, kLn2 = 0x1.62e42fefa39efp-1,
      kLn2Rest = 0x1.abc9e3b39803fp-56;
  constexpr double kWhole = 0x1.8p52;  // with it in the sum, the lower word is a whole number
  const double x = z < 64 ? -z : -64;  // below, 1 + e^x is 1
  const double n = fma(x, kLog2E, kWhole), whole = n - kWhole;
  const double r = fma(-whole, kLn2Rest, fma(-whole, kLn2, x));
  constexpr double kInverse[] = {1.0, 1.0, 1.0 / 2, 1.0 / 6, 1.0 / 24, 1.0 / 120, 1.0 / 720, 1.0 / 5040,
      1.0 / 40320, 1.0 / 362880, 1.0 / 3628800, 1.0 / 39916800, 1.0 / 479001600, 1.0 / 6227020800};
  double power = kInverse[13];
#pragma unroll
  for (int i = 12; i >= 0; --i) power = fma(power, r, kInverse[i]);
  const uint64_t exponent = __builtin_bit_cast(uint64_t, n) << 52;
  const double sum = 1 + __builtin_bit_cast(double, __builtin_bit_cast(uint64_t, power) + exponent);
  double inverse = __builtin_amdgcn_rcp(sum);
#pragma unroll
  for (int i = 0; i < 2; ++i) inverse = fma(fma(-sum, inverse, 1.0), inverse, inverse);
  return v * inverse;
}

// NextItem tells all threads of a group what the first one was told: by shared memory, which has room when
// the sums of an item are stored. A word of its own would leave room for fewer groups. Until then it is in a
// register.
struct NextItem {
  BG_DEVICE void keep(uint32_t) {}
  BG_DEVICE uint32_t get(uint32_t told, float* shared) const {
    uint32_t* const word = reinterpret_cast<uint32_t*>(shared);  // of the sum that this thread alone has read
    if (threadId() == 0) *word = told;
    barrier();
    return firstLane(*word);
  }
};

// lowerShared and addShared change a number in shared memory that other threads change too.
BG_DEVICE void lowerShared(uint32_t* number, uint32_t to) {
  uint32_t is = __atomic_load_n(number, __ATOMIC_RELAXED);
  while (to < is && !__atomic_compare_exchange_n(number, &is, to, true, __ATOMIC_RELAXED,
      __ATOMIC_RELAXED)) {}
}
BG_DEVICE void addShared(uint32_t* number, uint32_t by) { __atomic_fetch_add(number, by, __ATOMIC_RELAXED); }

// countShared is that of dialect_cuda.h.
BG_DEVICE void countShared(uint32_t* number) { addShared(number, 1); }

// sumBefore is the sum of the values of all threads before this one. sums has sumWords
// numbers, which nothing else uses.
constexpr uint32_t sumWords(uint32_t threads) { return threads; }
template <uint32_t kThreads>
BG_DEVICE uint32_t sumBefore(uint32_t* sums, uint32_t value) {
  const uint32_t t = threadId();
  for (uint32_t by = 1; by < kThreads; by *= 2) {
    sums[t] = value;
    barrier();
    const uint32_t other = t < by ? 0 : sums[t - by];
    barrier();
    value += other;
  }
  sums[t] = value;
  barrier();
  return t == 0 ? 0 : sums[t - 1];
}

// largest is the largest value of so many adjacent threads, where all of a group are. scratch has a word for
// each thread.
template <uint32_t kThreads>
BG_DEVICE uint32_t largest(uint32_t* scratch, uint32_t value) {
  const uint32_t t = threadId();
  barrier();
  scratch[t] = value;
  barrier();
  for (uint32_t i = t / kThreads * kThreads, end = i + kThreads; i < end; ++i) value = max(value, scratch[i]);
  return value;
}

// Alike is how many of the keys of 32 adjacent threads equal one of them: before it, and
// in all.
struct Alike {
  uint32_t before, all;
};

// alike compares a key with those of the other threads of 32, which keys has room for. Waves
// may be wider.
template <class Key>
BG_DEVICE Alike alike(Key* keys, uint32_t key) {
  const uint32_t t = threadId();
  barrier();
  keys[t] = static_cast<Key>(key);
  barrier();
  Alike found = {0, 0};
  for (uint32_t i = t / 32 * 32, end = i + 32; i < end; ++i) {
    const uint32_t same = keys[i] == key ? 1 : 0;
    found.all += same;
    found.before += i < t ? same : 0;
  }
  return found;
}

// kCopiesLines: there are copies of 16 bytes, of which some may not exist (copyVector).
#ifndef BG_AS_CUDA
constexpr bool kCopiesLines = false;
constexpr uint32_t kPanelRows = 0;  // tiles of ragged.cuh are in no panels
#endif

// SharedAddress is a place in shared memory as copies take it, in bytes.
using SharedAddress = char*;
BG_DEVICE SharedAddress sharedAddress(const float* p) {
  return reinterpret_cast<char*>(const_cast<float*>(p));
}

// Words is what a copy moves at once.
template <int kBytes>
struct alignas(kBytes) Words {
  float x[kBytes / 4];
};

// copyIf copies 4 or 16 bytes, and waits for them, if bit j of `bits` is set.
template <int kBytes>
BG_DEVICE void copyIf(uint32_t bits, int j, SharedAddress to, const float* from) {
  if (bits >> j & 1) *reinterpret_cast<Words<kBytes>*>(to) = *reinterpret_cast<const Words<kBytes>*>(from);
}

// Copies are the copies of one operand that the thread has under way. These GPUs
// have no copy from memory to shared memory that suits (that of gfx942 has no
// transposition): elements come to registers while the thread multiplies, and
// land stores them. One step at a time is under way, which takes two stages.
template <int kFloats>
struct Copies {
  float value[kFloats];
  const float* any;  // may be read

  BG_DEVICE explicit Copies(const float* any_) : any(any_) {}

  // start starts n copies, of which the bits of `exists` tell the ones to make. The
  // others read elsewhere, because a load under a condition would be a branch.
  template <int kBytes, int n, class To, class From>
  BG_DEVICE void start(uint32_t exists, To, From from) {
    constexpr uint32_t kAll = n < 32 ? (1u << n) - 1 : 0xffffffff;
    if ((exists & kAll) == kAll) {
#pragma unroll
      for (int j = 0; j < n; ++j) load<kBytes>(j, from(j));
    } else {
#pragma unroll
      for (int j = 0; j < n; ++j) load<kBytes>(j, exists >> j & 1 ? from(j) : any);
    }
  }

  template <int kBytes>
  BG_DEVICE void load(int j, const float* from) {
    const Words<kBytes> w = *reinterpret_cast<const Words<kBytes>*>(from);
#pragma unroll
    for (int i = 0; i < kBytes / 4; ++i) value[j * kBytes / 4 + i] = w.x[i];
  }

  // land waits for the copies and stores them.
  template <int kBytes, int n, class To>
  BG_DEVICE void land(To to) {
#pragma unroll
    for (int j = 0; j < n; ++j) {
      Words<kBytes> w;
#pragma unroll
      for (int i = 0; i < kBytes / 4; ++i) w.x[i] = value[j * kBytes / 4 + i];
      *reinterpret_cast<Words<kBytes>*>(to(j)) = w;
    }
  }
};

BG_DEVICE void commitCopies() {}
template <int kPending>
BG_DEVICE void waitCopies() {
  static_assert(kPending == 0, "copies land one step at a time");
}

// Packed is what multiplyAdd works on at once: v_pk_fma_f32 of gfx90a and later
// CDNA does two at the price of one; elsewhere they are two instructions.
typedef float Packed __attribute__((vector_size(8)));
BG_DEVICE Packed multiplyAdd(float x, Packed y, Packed sum) { return Packed{x, x} * y + sum; }
