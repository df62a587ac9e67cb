// The kernels of gemm.cuh with the matrix cores of CDNA, for waves of 64 lanes.
// v_mfma_f32_16x16x4_f32 multiplies in true fp32: 16x4 times 4x16, added to a
// block of 16x16. A compute unit does 256 FLOP a cycle in it, twice v_fma_f32.
#pragma once

#include "../kernels/gemm.cuh"

// Block is what a lane holds of a block of 16x16: of column lane % 16 the rows
// from lane / 16 * 4 on. Of its factors a lane gives row or column lane % 16 at
// k = lane / 16 (AMD matrix instruction calculator).
typedef float Block __attribute__((vector_size(16)));
constexpr int kBlock = 16, kBlockK = 4, kWave = 64;

// MatrixAccumulator replaces Accumulator: a wave holds a patch of blocks, and K
// groups are sets of waves. Instructions take kDepth words along K, and have sums like Block.
template <class T, int kDepth = kBlockK, class Sums = Block>
struct MatrixAccumulator {
  static constexpr int kWaves = T::kThreads / kWave, kBlocks = T::TM * T::TN / (kBlock * kBlock);
  static constexpr int kGroups = kWaves > kBlocks ? kWaves / kBlocks : 1;
  static constexpr int kMine = kBlocks * kGroups / kWaves;  // blocks of a wave
  static constexpr int kMaxRows = kMine >= 4 ? kMine / 2 : kMine, kTileRows = T::TM / kBlock;
  static constexpr int kRows = kMaxRows < kTileRows ? kMaxRows : kTileRows, kCols = kMine / kRows;
  static constexpr int kChunk = kDepth * kGroups;  // words along K of all groups together
  static_assert(T::kThreads % kWave == 0 && T::TM % kBlock == 0 && T::TN % kBlock == 0 &&
      T::TK % kChunk == 0 &&
                    T::TM % (kRows * kBlock) == 0 && T::TN % (kCols * kBlock) == 0,
                        "no tile for matrix cores");

  Sums c[kRows][kCols];
  uint32_t group, row, col;  // K group; first row and column of the wave
  uint32_t lane;

  BG_DEVICE MatrixAccumulator() {
    constexpr int kAcross = T::TN / (kCols * kBlock), kGroupWaves = kWaves / kGroups;
    const uint32_t wave = threadId() / kWave;
    lane = threadId() % kWave;
    group = wave / kGroupWaves;
    row = wave % kGroupWaves / kAcross * (kRows * kBlock);
    col = wave % kGroupWaves % kAcross * (kCols * kBlock);
  }

  BG_DEVICE bool active(uint32_t rows, uint32_t cols) const { return row < rows && col < cols; }

  template <int kPitch>
  BG_DEVICE const float* firstA(const float* stage) const { return stage + firstK() * kPitch + row +
      lane % kBlock; }
  template <int kPitch>
  BG_DEVICE const float* firstB(const float* stage) const { return stage + firstK() * kPitch + col +
      lane % kBlock; }
  BG_DEVICE uint32_t firstK() const { return group * kDepth + lane / kBlock; }

  BG_DEVICE void clear() {
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
#pragma unroll
      for (int j = 0; j < kCols; ++j) c[i][j] = Sums{};
    }
  }

  template <int kPitchA, int kPitchB>
  BG_DEVICE void multiply(const float* a, const float* b, uint32_t left) {
    if (left >= T::TK) {
BG_UNROLL_STEPS
      for (int k = 0; k < T::TK; k += kChunk) step(a + k * kPitchA, b + k * kPitchB, true);
    } else {  // lanes beyond the last k give zeros
#pragma unroll 1
      for (uint32_t k = group * kBlockK; k < left; k += kChunk) {
        step(a, b, k + lane / kBlock < left);
        a += kChunk * kPitchA;
        b += kChunk * kPitchB;
      }
    }
  }

  BG_DEVICE void step(const float* a, const float* b, bool exists) {
    float x[kRows], y[kCols];
#pragma unroll
    for (int i = 0; i < kRows; ++i) x[i] = exists ? a[i * kBlock] : 0.0f;
#pragma unroll
    for (int j = 0; j < kCols; ++j) y[j] = exists ? b[j * kBlock] : 0.0f;
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
#pragma unroll
      for (int j = 0; j < kCols; ++j) c[i][j] = __builtin_amdgcn_mfma_f32_16x16x4f32(x[i], y[j], c[i][j], 0,
          0, 0);
    }
  }

  BG_DEVICE void store(float* shared) const {
    float* const first = shared + (group * T::TM + row + lane / kBlock * 4) * T::TN + col + lane % kBlock;
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
#pragma unroll
      for (int j = 0; j < kCols; ++j) {
#pragma unroll
        for (int r = 0; r < 4; ++r) first[(i * kBlock + r) * T::TN + j * kBlock] =
            static_cast<float>(c[i][j][r]);
      }
    }
  }
};
