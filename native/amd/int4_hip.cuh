// B of 4 bits with scales of groups in the kernels of gemm.cuh for AMD GPUs, where A has 16 bits; neither is
// transposed. Weights less their zero point are whole numbers, which BF16 and F16 have: they become words of
// pairs of k's, as those of bits16_hip.cuh, between the registers that they are loaded to and shared memory.
// All k's of a step are of one group, so that each column has one scale there, which lies behind its words:
// row T::TK of a stage of B. Plain FMAs multiply numbers of B by it, when they have made fp32 of them; matrix
// cores sum a step from zero and multiply the sums (mfma_bits16.cuh).
#pragma once

#include "../epilogue/epilogue.cuh"
#include "bits16_hip.cuh"

// Int4Bits16 are elements of A of 16 bits beside such a B.
template <class Format>
struct Int4Bits16 : Bits16<Format> {};

// Panels is where a B begins, and the words of its groups of 1 << log k's.
struct Panels {
  const uint32_t *words, *groups;
  uint32_t log;
  BG_DEVICE Panels operator+(uint32_t elements) const { return {words + elements / 8, groups, log}; }
};

// GroupedEpilogue is an Epilogue with scales of groups.
struct GroupedEpilogue : Epilogue {
  template <class Number>
  BG_DEVICE Panels operandB(const uint4* items, uint32_t number, const Item& item, const Number* B) const {
    return {Epilogue::operandB(items, number, item, reinterpret_cast<const uint32_t*>(B)),
        rows + itemEpilogueAt(items, number).scaleBAt, has(kGroups64) ? 6u : 7u};
  }
};

// PanelColumns is the operand B (element.Int4Panel has its layout). A thread has a part of a column in each
// step: words of 8 k's that follow each other. Columns beyond the edge are those of the last one again, and
// feed only outputs that are not stored.
template <class T, class Format>
struct PanelColumns {
  static constexpr int kPitch = T::TN, kFloats = (T::TK + 1) * kPitch;
  static constexpr uint32_t kDepth = 2 * T::TK;  // k's of a step
  static constexpr int kWords = T::TN * kDepth / 8 / T::kThreads;
  static_assert(kInt4Panel % kDepth == 0 && kWords * 8 * T::kThreads == T::TN * kDepth &&
      T::kThreads % T::TN == 0, "uneven tile");

  const uint32_t* words;   // the thread's first ones of the first panel
  const uint32_t* groups;  // the column's word of the first group
  SharedAddress to;        // the place of the first pair in the first stage
  uint32_t ld, log;
  uint32_t k;  // of the next step
  uint32_t pending;
  Vector<kWords, uint32_t> value;
  uint32_t group;

  BG_DEVICE PanelColumns(Panels start, uint32_t ld_, uint32_t length, bool, const float* shared) : ld(ld_),
      log(start.log), k(0) {
    const uint32_t column = threadId() % T::TN, part = threadId() / T::TN, from = min(column, length - 1);
    words = start.words + 8 * from + kWords * part;
    groups = start.groups + from;
    to = sharedAddress(shared + 4 * kWords * part * kPitch + column);
  }

  // K is a multiple of the group, so that all steps are whole.
  BG_DEVICE void copy(uint32_t, uint32_t stage) {
    value = *reinterpret_cast<const Vector<kWords, uint32_t>*>(rowsOn(words,
        k / kInt4Panel, 8 * ld) + k % kInt4Panel / 8);
    group = *rowsOn(groups, k >> log, ld);
    k += kDepth;
    pending = stage;
  }

  BG_DEVICE void land() {
    const uint32_t zero = group & 15;
#pragma unroll
    for (int w = 0; w < kWords; ++w) {
#pragma unroll
      for (int p = 0; p < 4; ++p) {
        *reinterpret_cast<uint32_t*>(to + pending + 4 * (4 * w + p) * kPitch) =
            Format::weights(value.x[w] >> 4 * p & 0x000f000f, zero);
      }
    }
    if (threadId() < T::TN) *reinterpret_cast<float*>(to + pending + 4 * T::TK * kPitch) =
        __uint_as_float(group & ~15u);
  }
};

template <class T, int kLength, class Format, bool kListed>
struct Operand<T, kLength, true, Int4Bits16<Format>, kListed> : WordsKMajor<T, kLength, Bits16<Format>,
    kListed> {
  using WordsKMajor<T, kLength, Bits16<Format>, kListed>::WordsKMajor;
};
template <class T, int kLength, class Format>
struct Operand<T, kLength, false, Int4Bits16<Format>, false> : PanelColumns<T, Format> {
  using PanelColumns<T, Format>::PanelColumns;
};

// ColumnScales are the scales of the columns of a thread of an Accumulator.
template <class T>
struct ColumnScales {
  float scale[T::RN];

  // first is that of the thread's first column.
  BG_DEVICE explicit ColumnScales(const float* first) { loadScales<T::VB, T::kTeamCols>(scale, first); }
  BG_DEVICE float a(float x, int) const { return x; }
  // exact: a scale has 20 bits, a weight less its zero point 4
  BG_DEVICE float b(float y, int j) const { return scale[j] * y; }
};

template <class T, class Format>
struct GroupedAccumulator : HalfAccumulator<T, Format> {
  template <int kPitchA, int kPitchB>
  BG_DEVICE void multiply(const float* a, const float* b, uint32_t) {
    this->template multiplyStep<kPitchA, kPitchB>(a, b, ColumnScales<T>(b + (T::TK - this->group) * kPitchB));
  }
};
