// Steps of gemm.cuh on AMD GPUs where elements have 16 or 8 bits, and where scales change along K: those of
// blocks (planner.PerBlock), and those of the groups of a B of 4 bits.
//
// Blocks: all k's of a step are of one block, so that each row has one scale there. A thread brings that of a
// row to shared memory, after the operands of the step, as it brings those. Plain FMAs multiply numbers of A
// by it, when they have made fp32 of them; matrix cores, whose numbers stay fp16, sum a step from zero and
// multiply the sums.
//
// Groups: A has 16 bits, and neither operand is transposed. Weights less their zero point are whole numbers,
// which BF16 and F16 have: they become words of pairs of k's, as those of bits16_hip.cuh, between the
// registers that they are loaded to and shared memory. All k's of a step are of one group, so that each
// column has one scale there, which lies after its words: row T::TK of a stage of B. Plain FMAs multiply
// numbers of B by it, when they have made fp32 of them; matrix cores sum a step from zero and multiply the
// sums (mfma.cuh).
#pragma once

#include "../epilogue/epilogue.cuh"
#include "../kernels/gemm.cuh"
#include "bits16_hip.cuh"

// AsTheyAre are the numbers of a step without such scales.
struct AsTheyAre {
  BG_DEVICE float a(float x, int) const { return x; }
  BG_DEVICE float b(float y, int) const { return y; }
};

// loadScales loads the scales of the rows or columns of a thread of an Accumulator, whose vectors of kVector
// are kApart times as far from each other.
template <int kVector, int kApart, int n>
BG_DEVICE void loadScales(float (&scale)[n], const float* first) {
#pragma unroll
  for (int i = 0; i < n; i += kVector) {
    const auto v = loadVector<kVector>(first + i * kApart);
#pragma unroll
    for (int e = 0; e < kVector; ++e) scale[i + e] = v.x[e];
  }
}

// RowScales are the scales of the rows of a thread of an Accumulator.
template <class T>
struct RowScales {
  float scale[T::RM];

  // first is that of the thread's first row.
  BG_DEVICE explicit RowScales(const float* first) { loadScales<T::VA, T::kTeamRows>(scale, first); }
  BG_DEVICE float a(float x, int i) const { return scale[i] * x; }
  BG_DEVICE float b(float y, int) const { return y; }
};

// HalfAccumulator is an Accumulator that multiplies numbers of both halves of words.
template <class T, class Format>
struct HalfAccumulator : Accumulator<T> {
  static constexpr int kPacked = Accumulator<T>::kPacked;

  template <int kPitchA, int kPitchB, class Numbers = AsTheyAre>
  BG_DEVICE void multiply(const float* a, const float* b, uint32_t left, const Numbers& are = {}) {
    if (left >= 2 * T::TK) {
      multiplyStep<kPitchA, kPitchB>(a, b, are);
    } else {
#pragma unroll 1
      for (uint32_t k = this->group; 2 * k < left; k += T::kGroups) {
        step(a, b, 2 * k + 1 < left, are);
        a += T::kGroups * kPitchA;
        b += T::kGroups * kPitchB;
      }
    }
  }

  // multiplyStep is multiply of a whole step.
  template <int kPitchA, int kPitchB, class Numbers>
  BG_DEVICE void multiplyStep(const float* a, const float* b, const Numbers& are) {
#pragma unroll 2  // words, of as many k's as BG_UNROLL_STEPS says
    for (int k = 0; k < T::TK; k += T::kGroups) step(a + k * kPitchA, b + k * kPitchB, true, are);
  }

  // multiplyScaled is multiply with scales of the rows of the tile.
  template <int kPitchA, int kPitchB>
  BG_DEVICE void multiplyScaled(const float* a, const float* b, uint32_t left, const float* scales) {
    multiply<kPitchA, kPitchB>(a, b, left, RowScales<T>(scales + this->row));
  }

  // step takes the first halves of words alone where there is no second k.
  template <class Numbers>
  BG_DEVICE void step(const float* a, const float* b, bool both, const Numbers& are) {
    float x[2][T::RM];
    Packed y[2][T::RN / kPacked];
#pragma unroll
    for (int i = 0; i < T::RM; i += T::VA) {
      const auto words = loadVector<T::VA, uint32_t>(a + i * T::kTeamRows);
#pragma unroll
      for (int e = 0; e < T::VA; ++e) {
        float low, high;
        numbers(words.x[e], low, high);
        x[0][i + e] = are.a(low, i + e);
        x[1][i + e] = are.a(high, i + e);
      }
    }
#pragma unroll
    for (int j = 0; j < T::RN; j += T::VB) {
      const auto words = loadVector<T::VB, uint32_t>(b + j * T::kTeamCols);
#pragma unroll
      for (int e = 0; e < T::VB; ++e) {
        float low, high;
        numbers(words.x[e], low, high);
        y[0][(j + e) / kPacked][e % kPacked] = are.b(low, j + e);
        y[1][(j + e) / kPacked][e % kPacked] = are.b(high, j + e);
      }
    }
    add(x[0], y[0]);
    if (both) add(x[1], y[1]);
  }

  static BG_DEVICE void numbers(uint32_t word, float& low, float& high) {
    low = Format::number(static_cast<uint16_t>(word));
    high = Format::number(static_cast<uint16_t>(word >> 16));
  }

  BG_DEVICE void add(const float (&x)[T::RM], const Packed (&y)[T::RN / kPacked]) {
#pragma unroll
    for (int i = 0; i < T::RM; ++i) {
#pragma unroll
      for (int j = 0; j < T::RN / kPacked; ++j) this->c[i][j] = multiplyAdd(x[i], y[j], this->c[i][j]);
    }
  }
};

// kHasBlocksHere: not on gfx908, where kernels with a choice of both sums do not compute what they should as
// clang-19 compiles them (docs/hip.md).
#ifdef __gfx908__
constexpr bool kHasBlocksHere = false;
#else
constexpr bool kHasBlocksHere = true;
#endif

// BlockStepScales has scales kTimes as large: the products that matrix cores sum are smaller by that
// (mfma.cuh).
template <class T, class Element, int kTimes>
struct BlockStepScales {
  static constexpr uint32_t kDepth = T::TK * Element::kPer;
  static constexpr bool kAre = kHasBlocksHere && !Element::kWhole;
  static constexpr int kFloats = kAre ? T::TM : 0;
  static_assert(kScaleBlock % kDepth == 0 && T::kThreads >= T::TM && kScaleBlock % T::TN == 0,
      "a step has several scales");

  // What the item says is found again for each step: what would be kept of it would be registers too many of
  // large tiles.
  const Epilogue& more;
  const uint4* items;
  uint32_t number;
  uint32_t a, b;  // bits of the scales
  int pending;

  BG_DEVICE BlockStepScales(const Epilogue& more_, const uint4* items_, uint32_t number_) : more(more_),
      items(items_), number(number_) {}

  // are: the item has such scales. mine: the thread brings some.
  BG_DEVICE bool are() const { return kAre && more.has(kBlocks); }
  BG_DEVICE bool mine() const { return are() && threadId() < T::TM; }

  // copy starts to bring those of the step from k on of an item of so many k's. rowOf(r) is the row of A that
  // is row r of the tile.
  template <class RowOf>
  BG_DEVICE void copy(uint32_t k, uint32_t depth, RowOf rowOf, int stage) {
    pending = stage;
    if (!mine()) return;
    const ItemEpilogue at = itemEpilogueAt(items, number);
    a = more.rows[at.scaleAAt + rowOf(threadId()) * scaleBlocks(depth) + k / kScaleBlock];
    b = more.rows[at.scaleBAt + k / kScaleBlock];
  }

  BG_DEVICE void land(float* scales) {
    if (mine()) scales[pending + threadId()] = __uint_as_float(a) * __uint_as_float(b) * kTimes;
  }

  template <int kPitchA, int kPitchB, class Sum>
  BG_DEVICE void multiply(Sum& sum, const float* readA, const float* readB, uint32_t left,
      const float* scales) const {
    if constexpr (kAre) {
      if (are()) return sum.template multiplyScaled<kPitchA, kPitchB>(readA, readB, left, scales);
    }
    sum.template multiply<kPitchA, kPitchB>(readA, readB, left);
  }
};

template <class T, class Format>
struct StepScales<T, StagedBytes<Format>, Epilogue> : BlockStepScales<T, StagedBytes<Format>, 1> {
  using BlockStepScales<T, StagedBytes<Format>, 1>::BlockStepScales;
};
template <class T>
struct StepScales<T, NativeBytes<E4M3>, Epilogue> : BlockStepScales<T, NativeBytes<E4M3>,
    E4M3::kNativeParts> {
  using BlockStepScales<T, NativeBytes<E4M3>, E4M3::kNativeParts>::BlockStepScales;
};

// Int4Bits16 are elements of A of 16 bits beside a B of 4 bits.
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
