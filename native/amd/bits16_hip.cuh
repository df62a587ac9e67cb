// Operands of gemm.cuh whose elements have 16 or 8 bits, on AMD GPUs. A word of shared memory then is a pair
// of k's, and takes the place of an fp32 number in all that is said there: a step has 2*TK k's. So the
// matrix cores take them (mfma.cuh); plain FMAs make fp32 numbers of the words that they load from shared
// memory (steps_hip.cuh). Elements of 8 bits are pairs of F16 there, or, where matrix cores take them, words
// of four k's.
#pragma once

#include "../element/bits16.cuh"
#include "../kernels/load.cuh"

// StagedBytes are Bytes that become pairs of F16 on their way to shared memory, of which kPer is.
template <class Format>
struct StagedBytes : Bytes<Format, BF16, F16> {
  static constexpr int kPer = 2;
};
// NativeBytes are multiplied as they are, four in a word.
template <class Format>
using NativeBytes = Bytes<Format, BF16, F16>;

// Staging says how words of shared memory are made of elements: `along` takes the elements of word i of those
// that 4 adjacent bytes make, `across` element i of the words of as many rows as a word has k's. `word` ends
// both: it makes a word of elements, which are 16 bits apart where there are two.
template <class Element>
struct Staging;
template <class Format>
struct Staging<Bits16<Format>> {
  static BG_DEVICE uint32_t along(uint32_t loaded, int) { return loaded; }
  static BG_DEVICE uint32_t across(const uint32_t (&row)[2], int i) {
    return i == 0 ? (row[0] & 0xffff) | row[1] << 16 : row[0] >> 16 | (row[1] & 0xffff0000);
  }
  static BG_DEVICE uint32_t word(uint32_t apart) { return apart; }
};
template <class Format>
struct Staging<StagedBytes<Format>> {
  static BG_DEVICE uint32_t along(uint32_t loaded,
      int i) { return (loaded >> (16 * i) & 0xff) | (loaded >> (16 * i + 8) & 0xff) << 16; }
  static BG_DEVICE uint32_t across(const uint32_t (&row)[2],
      int i) { return (row[0] >> (8 * i) & 0xff) | (row[1] >> (8 * i) & 0xff) << 16; }
  static BG_DEVICE uint32_t word(uint32_t apart) { return Format::halves(apart); }
};
template <class Format>
struct Staging<NativeBytes<Format>> {
  static BG_DEVICE uint32_t along(uint32_t loaded, int) { return loaded; }
  static BG_DEVICE uint32_t across(const uint32_t (&row)[4], int i) {
    uint32_t word = 0;
#pragma unroll
    for (int r = 0; r < 4; ++r) word |= (row[r] >> (8 * i) & 0xff) << (8 * r);
    return word;
  }
  static BG_DEVICE uint32_t word(uint32_t four) { return Format::native(four); }
};

// Loose is a number in memory, where it begins with any element: these GPUs load 4 bytes from
// any address (LLVM, AMDGPUUsage, unaligned-access-mode).
template <class Of, int kAligned>
struct Loose {
  typedef Of Number __attribute__((aligned(kAligned), may_alias));
};

// wordOf is the word of memory that p is in. A pointer made of a number would be one to any memory.
template <class Number>
BG_DEVICE const Number* wordOf(const Number* p) {
  return p - reinterpret_cast<uintptr_t>(p) / sizeof(Number) % (4 / sizeof(Number));
}

BG_DEVICE constexpr uint32_t lowBits(uint32_t n) { return n < 32 ? (1u << n) - 1 : 0xffffffff; }

// countBelow is the number of first, first + step, ... that are below end.
BG_DEVICE uint32_t countBelow(uint32_t first, uint32_t end,
    uint32_t step) { return end > first ? (end - first + step - 1) / step : 0; }

// loadElements loads what begins at p: one element, up to a word of them, or aligned words.
template <int kBytes, class Number>
BG_DEVICE void loadElements(uint32_t* value, const Number* p) {
  if constexpr (kBytes == sizeof(Number)) {
    *value = *p;
  } else if constexpr (kBytes == 2) {
    *value = *reinterpret_cast<const typename Loose<uint16_t, sizeof(Number)>::Number*>(p);
  } else if constexpr (kBytes == 4) {
    *value = *reinterpret_cast<const typename Loose<uint32_t, sizeof(Number)>::Number*>(p);
  } else {
    const auto v = *reinterpret_cast<const Vector<kBytes / 4, uint32_t>*>(p);
#pragma unroll
    for (int i = 0; i < kBytes / 4; ++i) value[i] = v.x[i];
  }
}

// startLoads starts n loads, of which the bits of `exists` tell the ones to make. As in Copies
// the others read elsewhere. The values are kApart apart.
template <int kBytes, int n, int kApart, class Number, class From>
BG_DEVICE void startLoads(uint32_t* value, uint32_t exists, const Number* any, From from) {
  if ((exists & lowBits(n)) == lowBits(n)) {
#pragma unroll
    for (int j = 0; j < n; ++j) loadElements<kBytes>(value + j * kApart, from(j));
  } else {
#pragma unroll
    for (int j = 0; j < n; ++j) loadElements<kBytes>(value + j * kApart, exists >> j & 1 ? from(j) : any);
  }
}

// WordsKMajor is the operand whose memory runs along K, where the k's of a word are adjacent too. Threads
// load 4 bytes: of 16 bits they have the words that they have of fp32, and so of 8 bits, or two that are
// adjacent.
template <class T, int kLength, class Element, bool kListed>
struct WordsKMajor : RowList<kListed> {
  using Number = typename Element::Number;
  using Stage = Staging<Element>;
  using Of = Operand<T, kLength, true>;
  // elements of a load, and words
  static constexpr int kPer = 4 / sizeof(Number), kWords = kPer / Element::kPer;
  static constexpr int kPitch = Of::kPitch, kFloats = Of::kFloats, kCount = Of::kCount / kWords,
      kLoads = T::TK / kWords;
  static constexpr int kRun = Of::kRun / kWords, kStride = T::kThreads / kRun, kRows = kLength / kStride,
      kStep = kRun;
  static_assert(kRows > 0 && kRows * kStride == kLength && kCount * kWords == Of::kCount &&
      kCount % kRows == 0, "uneven tile");

  const Number* at;   // this thread's first element of the next step; kListed: in the first row of all
  const Number* any;  // a word that may be read
  SharedAddress to;   // the place of the first word in the first stage
  uint32_t ld;
  uint32_t k;      // of the first load within a step, in loads
  uint32_t valid;  // a bit for each load whose row exists
  uint32_t pending;
  uint32_t value[kCount];

  BG_DEVICE WordsKMajor(const Number* start, uint32_t ld_, uint32_t length, bool, const float* shared,
      const uint32_t* rows = nullptr)
      : RowList<kListed>{rows + threadId() / kRun}, any(wordOf(start)), ld(ld_), valid(0) {
    const uint32_t row = threadId() / kRun;
    k = threadId() % kRun;
    at = kListed ? start + kPer * k : rowsOn(start, row, ld) + kPer * k;
    to = sharedAddress(shared + kWords * k * kPitch + row);
#pragma unroll
    for (int j = 0; j < kCount; ++j) valid |= (row + across(j) < length ? 1u : 0u) << j;
  }

  static BG_DEVICE uint32_t along(int j) { return j / kRows * kStep; }
  static BG_DEVICE uint32_t across(int j) { return j % kRows * kStride; }

  BG_DEVICE void copy(uint32_t left, uint32_t stage) {
    const uint32_t loads = left / kPer;  // whole ones
    auto from = [&](int j) { return rowsOn(at, this->rowAt(across(j)), ld) + kPer * along(j); };
    startLoads<4, kCount, 1>(value,
        loads < kLoads ? valid & lowBits(countBelow(k, loads, kStep) * kRows) : valid, any, from);
    if (loads < kLoads && left % kPer != 0) {  // rows end with a part of one
#pragma unroll
      for (int j = 0; j < kCount; ++j) {
        if ((valid >> j & 1) != 0 && k + along(j) == loads) value[j] = firstOf(from(j), left % kPer);
      }
    }
    at += Element::kPer * T::TK;
    pending = stage;
  }

  // firstOf is a word whose first elements alone exist.
  static BG_DEVICE uint32_t firstOf(const Number* p, uint32_t few) {
    uint32_t word = p[0];
#pragma unroll
    for (uint32_t i = 1; i < kPer - 1; ++i) {
      if (i < few) word |= static_cast<uint32_t>(p[i]) << (32 / kPer * i);
    }
    return word;
  }

  BG_DEVICE void land() {
#pragma unroll
    for (int j = 0; j < kCount; ++j) {
#pragma unroll
      for (int i = 0; i < kWords; ++i) {
        *reinterpret_cast<uint32_t*>(to + pending + 4 * ((kWords * along(j) + i) * kPitch + across(j))) =
            Stage::word(Stage::along(value[j], i));
      }
    }
  }
};

// WordsMNMajor is the one whose memory runs across K. A thread makes words of as many rows as these have k's:
// it loads the same columns of all, as many or, where those are aligned, up to 8.
template <class T, int kLength, class Element>
struct WordsMNMajor {
  using Number = typename Element::Number;
  using Stage = Staging<Element>;
  static constexpr int kPer = 4 / sizeof(Number);  // elements of a word that is loaded
  static constexpr int kDeep = Element::kPer;      // k's of a word
  static constexpr int kPitch = kLength, kFloats = T::TK * kPitch;
  static constexpr int kCount = kLength * T::TK / T::kThreads;  // words of a thread
  static constexpr int kNarrow = kDeep;  // columns of a load
  static constexpr int kVector = kCount >= 8 ? 8 : kCount >= 4 ? 4 : 2;
  static_assert(kCount % kVector == 0 && kVector >= kNarrow && kLength % kVector == 0 &&
      T::kThreads % (kLength / kNarrow) == 0, "uneven tile");

  const Number* at;
  const Number* any;
  SharedAddress to;
  uint32_t ld;
  uint32_t k;
  uint32_t columns;  // of a load that exist
  bool vector;
  uint32_t pending;
  uint32_t value[kCount];

  BG_DEVICE WordsMNMajor(const Number* start, uint32_t ld_, uint32_t length, bool aligned,
      const float* shared, const uint32_t* = nullptr)
      : any(wordOf(start)), ld(ld_), vector(kVector > kNarrow && aligned) {
    const uint32_t width = vector ? kVector : kNarrow, run = kLength / width,
        column = threadId() % run * width;
    k = threadId() / run;
    at = rowsOn(start, kDeep * k, ld) + column;
    to = sharedAddress(shared + k * kPitch + column);
    columns = length > column ? min(length - column, width) : 0;
  }

  // Loads of n columns: a thread has kUnits of them of each row, in words that are kApart apart, and each
  // fills kFills.
  template <int n>
  struct Loads {
    static constexpr int kUnits = kCount / n, kApart = T::kThreads / (kLength / n),
        kFills = n < kPer ? 1 : n / kPer;
  };

  BG_DEVICE void copy(uint32_t left, uint32_t stage) {
    if (kVector > kNarrow && vector) copyColumns<kVector>(left, stage);
    else if (kNarrow == 2 && columns == 1) start<2, 1>(left);
    else copyColumns<kNarrow>(left, stage);
    at = rowsOn(at, kDeep * T::TK, ld);
    pending = stage;
  }

  template <int n>
  BG_DEVICE void copyColumns(uint32_t left, uint32_t stage) {
    if (n == 2 || columns == n) start<n, n>(left);
    else copyFew<n>(left, stage);
  }

  // start has the rows of a unit one after the other. Of n columns it loads kExist.
  template <int n, int kExist>
  BG_DEVICE void start(uint32_t left) {
    constexpr int kUnits = Loads<n>::kUnits, kApart = Loads<n>::kApart;
    uint32_t rows = kDeep * kUnits;
    if (left < kDeep * T::TK) {
      rows = 0;
#pragma unroll
      for (int r = 0; r < kDeep; ++r) rows += countBelow(k, (left + r) / kDeep, kApart);
    }
    startLoads<kExist * sizeof(Number), kDeep * kUnits, Loads<n>::kFills>(value,
        columns == 0 ? 0 : lowBits(rows), any,
                                                                          [&](int j) { return rowsOn(at,
                                                                              j / kDeep * (kDeep * kApart) +
                                                                              j % kDeep, ld); });
  }

  // copyFew copies the last columns of the matrix, and waits for them.
  template <int n>
  BG_DEVICE void copyFew(uint32_t left, uint32_t stage) {
    constexpr int kApart = Loads<n>::kApart;
    const uint32_t words = min(countBelow(k, (left + kDeep - 1) / kDeep, kApart),
        static_cast<uint32_t>(Loads<n>::kUnits));
#pragma unroll 1
    for (uint32_t u = 0; u < words; ++u) {
      const Number* row[kDeep] = {rowsOn(at, u * (kDeep * kApart), ld)};
#pragma unroll
      // which counts for nothing
      for (int r = 1; r < kDeep; ++r) row[r] = kDeep * (k + u * kApart) + r < left ? row[r - 1] + ld : row[0];
#pragma unroll
      for (int i = 0; i < n - 1; ++i) {
        if (static_cast<uint32_t>(i) < columns) {
          uint32_t apart = row[0][i];
#pragma unroll
          for (int r = 1; r < kDeep; ++r) apart |= static_cast<uint32_t>(row[r][i]) << (32 / kDeep * r);
          *word(stage, u * kApart, i) = Stage::word(apart);
        }
      }
    }
  }

  BG_DEVICE void land() {
    if (kVector > kNarrow && vector) landColumns<kVector>();
    else landColumns<kNarrow>();
  }

  template <int n>
  BG_DEVICE void landColumns() {
    constexpr int kAtOnce = n < 4 ? n : 4, kFills = Loads<n>::kFills;  // words of a store
    if (n > 2 && columns != n) return;
#pragma unroll
    for (int u = 0; u < Loads<n>::kUnits; ++u) {
#pragma unroll
      for (int first = 0; first < n; first += kAtOnce) {
        Vector<kAtOnce, uint32_t> words;
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i) {
          const int column = first + i;
          uint32_t row[kDeep];
#pragma unroll
          for (int r = 0; r < kDeep; ++r) row[r] = value[(kDeep * u + r) * kFills + column / kPer];
          words.x[i] = Stage::word(Stage::across(row, column % kPer));
        }
        *reinterpret_cast<Vector<kAtOnce, uint32_t>*>(word(pending, u * Loads<n>::kApart, first)) = words;
      }
    }
  }

  // word is the place of a word of this thread.
  BG_DEVICE uint32_t* word(uint32_t stage, uint32_t along, uint32_t column) const {
    return reinterpret_cast<uint32_t*>(to + stage + 4 * (along * kPitch + column));
  }
};

// Words is Bits16, StagedBytes or NativeBytes: what Staging has a way for.
template <class T, int kLength, template <class...> class Words, class... Format, bool kListed>
struct Operand<T, kLength, true, Words<Format...>, kListed> : WordsKMajor<T, kLength, Words<Format...>,
    kListed> {
  using WordsKMajor<T, kLength, Words<Format...>, kListed>::WordsKMajor;
};
template <class T, int kLength, template <class...> class Words, class... Format>
struct Operand<T, kLength, false, Words<Format...>, false> : WordsMNMajor<T, kLength, Words<Format...>> {
  using WordsMNMajor<T, kLength, Words<Format...>>::WordsMNMajor;
};
