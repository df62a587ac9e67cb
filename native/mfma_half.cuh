// The kernels of mfma.cuh for elements of 16 bits: v_mfma_f32_16x16x16 of bf16 or f16, 16x16
// times 16x16, of which a lane gives two words of a row or column, and gfx908's
// v_mfma_f32_16x16x8bf16, with one word. Which k's a lane has does not matter as long as A and
// B agree, so that the words of a lane are those of kBlockK words further on, and lanes read
// shared memory as they do in fp32.
//
// On gfx90a the instructions take operands and sums below the least normal number for zero
// (AMD, "MI200 matrix fused multiply-add (MFMA) behavior specifics").
#pragma once

// MatrixProduct is the instruction of a format: sum + a * b, where a lane gives kWords words.
template <class Format>
struct MatrixProduct;

template <>
struct MatrixProduct<BF16> {
#ifdef __gfx908__
  static constexpr int kWords = 1;
  typedef short Factor __attribute__((vector_size(4)));
  static BG_DEVICE Block of(Factor a, Factor b, Block sum) { return __builtin_amdgcn_mfma_f32_16x16x8bf16(a, b, sum, 0, 0, 0); }
#else
  static constexpr int kWords = 2;
  typedef short Factor __attribute__((vector_size(8)));
  static BG_DEVICE Block of(Factor a, Factor b, Block sum) { return __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(a, b, sum, 0, 0, 0); }
#endif
};

template <>
struct MatrixProduct<F16> {
  static constexpr int kWords = 2;
  typedef _Float16 Factor __attribute__((vector_size(8)));
  static BG_DEVICE Block of(Factor a, Factor b, Block sum) { return __builtin_amdgcn_mfma_f32_16x16x16f16(a, b, sum, 0, 0, 0); }
};

// HalfMatrixAccumulator is a MatrixAccumulator whose words are pairs of k's.
template <class T, class Format>
struct HalfMatrixAccumulator : MatrixAccumulator<T, kBlockK * MatrixProduct<Format>::kWords> {
  using Product = MatrixProduct<Format>;
  static constexpr int kWords = Product::kWords, kDepth = kBlockK * kWords;
  using Base = MatrixAccumulator<T, kDepth>;

  template <int kPitchA, int kPitchB>
  BG_DEVICE void multiply(const float* a, const float* b, uint32_t left) {
    if (left >= 2 * T::TK) {
BG_UNROLL_STEPS
      for (int k = 0; k < T::TK; k += Base::kChunk) step<kPitchA, kPitchB>(a + k * kPitchA, b + k * kPitchB, [](int) { return 0xffffffff; });
    } else {  // k's behind the last one are zero in both
#pragma unroll 1
      for (uint32_t k = this->group * kDepth; 2 * k < left; k += Base::kChunk) {
        step<kPitchA, kPitchB>(a, b, [&](int i) {
          const uint32_t first = 2 * (k + this->lane / kBlock + i * kBlockK);  // of the word
          return first + 1 < left ? 0xffffffff : first < left ? 0xffffu : 0;
        });
        a += Base::kChunk * kPitchA;
        b += Base::kChunk * kPitchB;
      }
    }
  }

  // step multiplies the words of kDepth pairs, of which mask(i) has the bits that exist.
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
    for (int i = 0; i < kWords; ++i) words.x[i] = reinterpret_cast<const uint32_t*>(at)[i * kBlockK * kPitch] & mask(i);
    return __builtin_bit_cast(typename Product::Factor, words);
  }
};
