// The kernels of gemm.cuh with the matrix cores of CDNA, for waves of 64 lanes.
// v_mfma_f32_16x16x4_f32 multiplies in true fp32: 16x4 times 4x16, added to a
// block of 16x16. A compute unit does 256 FLOP a cycle in it, twice v_fma_f32.
#pragma once

#include "../kernels/gemm.cuh"
#include "steps_hip.cuh"

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

// MatrixProduct is the instruction of a format of 16 or 8 bits: sum + a * b, where a lane gives kWords words
// of kPer numbers.
//
// v_mfma_f32_16x16x16 of bf16 or f16 multiplies 16x16 times 16x16, and a lane gives two words of a row or
// column; gfx908's v_mfma_f32_16x16x8bf16 does half as much, with one word. v_mfma_i32_16x16x16i8, of words
// of four whole numbers, takes one too, gfx942's v_mfma_i32_16x16x32_i8 and v_mfma_f32_16x16x32_fp8_fp8 two.
// Which k's a lane has does not matter as long as A and B agree, so that the words of a lane are those of
// kBlockK words further on, and lanes read shared memory as they do in fp32.
//
// On gfx90a the instructions on 16 bits take operands and sums below the least normal number for zero
// (AMD, "MI200 matrix fused multiply-add (MFMA) behavior specifics").
template <class Format>
struct MatrixProduct;

template <>
struct MatrixProduct<BF16> {
  using Sums = Block;
  static constexpr int kPer = 2;
#ifdef __gfx908__
  static constexpr int kWords = 1;
  typedef short Factor __attribute__((vector_size(4)));
  static BG_DEVICE Block of(Factor a, Factor b, Block sum) { return __builtin_amdgcn_mfma_f32_16x16x8bf16(a,
      b, sum, 0, 0, 0); }
#else
  static constexpr int kWords = 2;
  typedef short Factor __attribute__((vector_size(8)));
  static BG_DEVICE Block of(Factor a, Factor b,
      Block sum) { return __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(a, b, sum, 0, 0, 0); }
#endif
};

template <>
struct MatrixProduct<F16> {
  using Sums = Block;
  static constexpr int kPer = 2, kWords = 2;
  typedef _Float16 Factor __attribute__((vector_size(8)));
  static BG_DEVICE Block of(Factor a, Factor b, Block sum) { return __builtin_amdgcn_mfma_f32_16x16x16f16(a,
      b, sum, 0, 0, 0); }
};

typedef int WholeBlock __attribute__((vector_size(16)));

// Sums are exact up to planner.MaxWholeK, and rounded once, to fp32, on their way to shared memory.
template <>
struct MatrixProduct<Int8> {
  using Sums = WholeBlock;
  static constexpr int kPer = 4;
#ifdef __gfx942__
  static constexpr int kWords = 2;
  using Factor = long;
  static BG_DEVICE WholeBlock of(Factor a, Factor b,
      WholeBlock sum) { return __builtin_amdgcn_mfma_i32_16x16x32_i8(a, b, sum, 0, 0, 0); }
#else
  static constexpr int kWords = 1;
  using Factor = int;
  static BG_DEVICE WholeBlock of(Factor a, Factor b,
      WholeBlock sum) { return __builtin_amdgcn_mfma_i32_16x16x16i8(a, b, sum, 0, 0, 0); }
#endif
};

#ifdef __gfx942__
// Products are quarters, exactly, and so are sums. How these are rounded AMD does not say: see
// internal/gcn/fp8.go.
template <>
struct MatrixProduct<E4M3> {
  using Sums = Block;
  static constexpr int kPer = 4, kWords = 2;
  using Factor = long;
  static BG_DEVICE Block of(Factor a, Factor b,
      Block sum) { return __builtin_amdgcn_mfma_f32_16x16x32_fp8_fp8(a, b, sum, 0, 0, 0); }
};
#endif

// NarrowMatrixAccumulator is a MatrixAccumulator whose words have several k's.
template <class T, class Format>
struct NarrowMatrixAccumulator : MatrixAccumulator<T, kBlockK * MatrixProduct<Format>::kWords,
    typename MatrixProduct<Format>::Sums> {
  using Product = MatrixProduct<Format>;
  static constexpr int kPer = Product::kPer, kWords = Product::kWords, kDepth = kBlockK * kWords;
  using Base = MatrixAccumulator<T, kDepth, typename Product::Sums>;
  static_assert(kPer == 2 || Base::kGroups == 1, "whole sums of K groups would be added in fp32");

  template <int kPitchA, int kPitchB>
  BG_DEVICE void multiply(const float* a, const float* b, uint32_t left) {
    if (left >= kPer * T::TK) {
BG_UNROLL_STEPS
      for (int k = 0; k < T::TK; k += Base::kChunk) step<kPitchA,
          kPitchB>(a + k * kPitchA, b + k * kPitchB, [](int) { return 0xffffffff; });
    } else {  // k's after the last one are zero in both
#pragma unroll 1
      for (uint32_t k = this->group * kDepth; kPer * k < left; k += Base::kChunk) {
        step<kPitchA, kPitchB>(a, b, [&](int i) { return maskOf(k + i * kBlockK, left); });
        a += Base::kChunk * kPitchA;
        b += Base::kChunk * kPitchB;
      }
    }
  }

  // multiplyScaled is multiply with scales of the rows of the tile, by which the sums of a step are
  // multiplied.
  template <int kPitchA, int kPitchB>
  BG_DEVICE void multiplyScaled(const float* a, const float* b, uint32_t left, const float* scales) {
    auto scaleOf = [&](int i) {
      const auto rows = loadVector<4>(scales + this->row + i * kBlock + this->lane / kBlock * 4);
      return [rows](int, int r) { return rows.x[r]; };
    };
    if (left >= kPer * T::TK) sumStep<kPitchA, kPitchB>(a, b, scaleOf, [](int) { return 0xffffffff; });
    else sumStep<kPitchA, kPitchB>(a, b, scaleOf, [&](int i) { return maskOf(i * kBlockK, left); });
  }

  // sumStep adds the sums of a step, each times its scale: scaleOf(i)(j, r) is that of element r of block i,
  // j.
  template <int kPitchA, int kPitchB, class ScaleOf, class Mask>
  BG_DEVICE void sumStep(const float* a, const float* b, ScaleOf scaleOf, Mask mask) {
    constexpr int kProducts = T::TK / kDepth;
    static_assert(Base::kGroups == 1, "sums of K groups have each a part of a step");
    typename Product::Factor x[kProducts], y[kProducts][Base::kCols];
#pragma unroll
    for (int p = 0; p < kProducts; ++p) {
#pragma unroll
      for (int j = 0; j < Base::kCols; ++j) y[p][j] = factor<kPitchB>(b + p * kDepth * kPitchB + j * kBlock,
          [&](int i) { return mask(p * kWords + i); });
    }
#pragma unroll
    for (int i = 0; i < Base::kRows; ++i) {
#pragma unroll
      for (int p = 0; p < kProducts; ++p) x[p] = factor<kPitchA>(a + p * kDepth * kPitchA + i * kBlock,
          [&](int w) { return mask(p * kWords + w); });
      const auto scale = scaleOf(i);
#pragma unroll
      for (int j = 0; j < Base::kCols; ++j) {
        Block part = {};
#pragma unroll
        for (int p = 0; p < kProducts; ++p) part = Product::of(x[p], y[p][j], part);
#pragma unroll
        for (int r = 0; r < 4; ++r) this->c[i][j][r] = fmaf(scale(j, r), part[r], this->c[i][j][r]);
      }
    }
  }

  // maskOf has the bits that exist of the lane's word that is k words after its first one.
  BG_DEVICE uint32_t maskOf(uint32_t k, uint32_t left) const {
    const uint32_t first = kPer * (k + this->lane / kBlock);
    uint32_t mask = 0;
#pragma unroll
    for (uint32_t e = 0; e < kPer; ++e) mask = first + e < left ? lowBits(32 / kPer * (e + 1)) : mask;
    return mask;
  }

  // step multiplies kDepth words, of which mask(i) has the bits that exist.
  template <int kPitchA, int kPitchB, class Mask>
  BG_DEVICE void step(const float* a, const float* b, Mask mask) {
    typename Product::Factor x[Base::kRows], y[Base::kCols];
#pragma unroll
    for (int i = 0; i < Base::kRows; ++i) x[i] = factor<kPitchA>(a + i * kBlock, mask);
#pragma unroll
    for (int j = 0; j < Base::kCols; ++j) y[j] = factor<kPitchB>(b + j * kBlock, mask);
#pragma unroll
    for (int i = 0; i < Base::kRows; ++i) {
#pragma unroll
      for (int j = 0; j < Base::kCols; ++j) this->c[i][j] = Product::of(x[i], y[j], this->c[i][j]);
    }
  }

  template <int kPitch, class Mask>
  static BG_DEVICE typename Product::Factor factor(const float* at, Mask mask) {
    Vector<kWords, uint32_t> words;
#pragma unroll
    for (int i = 0; i < kWords; ++i) words.x[i] =
        reinterpret_cast<const uint32_t*>(at)[i * kBlockK * kPitch] & mask(i);
    return __builtin_bit_cast(typename Product::Factor, words);
  }
};

#ifdef __gfx942__
// QuarterMatrixAccumulator is one for E4M3, whose sums become what they are on their way to shared memory.
// Those of steps do with their scales (BlockStepScales), so that small ones are rounded as they shall be.
// Times 4 others are exact: none is larger than 240^2 times K.
template <class T>
struct QuarterMatrixAccumulator : NarrowMatrixAccumulator<T, E4M3> {
  using Base = NarrowMatrixAccumulator<T, E4M3>;
  float times;

  BG_DEVICE void clear() {
    Base::clear();
    times = E4M3::kNativeParts;
  }

  template <int kPitchA, int kPitchB>
  BG_DEVICE void multiplyScaled(const float* a, const float* b, uint32_t left, const float* scales) {
    times = 1.0f;
    Base::template multiplyScaled<kPitchA, kPitchB>(a, b, left, scales);
  }

  BG_DEVICE void store(float* shared) const {
    Base all = *this;
#pragma unroll
    for (int i = 0; i < Base::kRows; ++i) {
#pragma unroll
      for (int j = 0; j < Base::kCols; ++j) all.c[i][j] *= times;
    }
    all.store(shared);
  }
};
template <class T>
using E4M3MatrixAccumulator = QuarterMatrixAccumulator<T>;
using E4M3MatrixBytes = NativeBytes<E4M3>;
#else
template <class T>
using E4M3MatrixAccumulator = NarrowMatrixAccumulator<T, F16>;
using E4M3MatrixBytes = StagedBytes<E4M3>;
#endif

// GroupedMatrixAccumulator is one for B of 4 bits (steps_hip.cuh), whose steps are whole.
template <class T, class Format>
struct GroupedMatrixAccumulator : NarrowMatrixAccumulator<T, Format> {
  using Base = NarrowMatrixAccumulator<T, Format>;

  template <int kPitchA, int kPitchB>
  BG_DEVICE void multiply(const float* a, const float* b, uint32_t) {
    float scale[Base::kCols];
#pragma unroll
    for (int j = 0; j < Base::kCols; ++j) scale[j] = b[(T::TK - this->firstK()) * kPitchB + j * kBlock];
    this->template sumStep<kPitchA, kPitchB>(a, b, [&](int) { return [&](int j, int) { return scale[j]; }; },
        [](int) { return 0xffffffff; });
  }
};
