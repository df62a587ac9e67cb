// A GPU that the CPU plays, for tests of kernels.hip without one: what
// dialect_hip.h takes from the compiler on a real one. shim.cpp runs it.
#pragma once

#include <math.h>
#include <stddef.h>
#include <stdint.h>

#define BG_DEVICE inline
// The memory has exactly the size that was asked for, so that a sanitizer sees
// an index beyond it.
#define BG_SHARED(type, name, n) type* const name = static_cast<type*>(bg_shim_shared(sizeof(type) * (n)))
#define BG_KERNEL(threads, waves) extern "C"

// What a thread knows of itself.
struct ShimThread {
  uint32_t thread, worker, piece;
};
extern ShimThread bg_shim_self;

void* bg_shim_shared(size_t bytes);
void bg_shim_barrier(int line);
void bg_shim_wave(const float (&give)[2], float (*take)[2]);

inline uint32_t threadId() { return bg_shim_self.thread; }
inline uint32_t workerId() { return bg_shim_self.worker; }
inline uint32_t pieceId() { return bg_shim_self.piece; }
// Threads that wait at different lines are at different barriers.
inline void barrier(int line = __builtin_LINE()) { bg_shim_barrier(line); }

// v_mfma_f32_16x16x4_f32 as mfma.cuh has its layout.
typedef float ShimBlock __attribute__((vector_size(16)));
inline ShimBlock __builtin_amdgcn_mfma_f32_16x16x4f32(float a, float b, ShimBlock c, int, int, int) {
  float lanes[64][2];
  bg_shim_wave({a, b}, lanes);
  const uint32_t lane = threadId() % 64, col = lane % 16;
  for (uint32_t r = 0; r < 4; ++r) {
    for (uint32_t k = 0; k < 4; ++k) c[r] = fmaf(lanes[k * 16 + lane / 16 * 4 + r][0], lanes[k * 16 + col][1], c[r]);
  }
  return c;
}
