// Tiles of f64.cuh, and how their operands come to shared memory.
//
// A stage has rows as they come, along K or across, each four doubles longer: no two lanes of half a warp,
// with k's that differ by member and rows or columns by group, share a bank. Copies are of 8 bytes, or of 16
// where all rows of an operand begin with lines of them.
//
// A thread that copies has much to do beside: rows, lines and k's of which some do not exist. In whole steps
// it does so between products, in five instructions for each copy: all warps of a multiprocessor come to the
// next step at about the same time, and tensor cores would wait for copies.
#pragma once

#include "../epilogue/epilogue.cuh"
#include "../ptx/dmma.cuh"

constexpr int kProduct = 16;  // k's of a product

// DoubleTile is a row of the tile table, the block of a warp, sets of warps, stages, thread groups whose
// registers must fit in a compute unit, and whether copies go between products.
template <int kTM, int kTN, int kTK, int kWarpRows_, int kWarpColumns_, int kSets_, int kStages_,
    int kMinGroups_, bool kBlends_>
struct DoubleTile {
  static constexpr int TM = kTM, TN = kTN, TK = kTK, kStages = kStages_, kMinGroups = kMinGroups_;
  static constexpr int kEpilogueGroups = kMinGroups;
  static constexpr int kWarpRows = kWarpRows_, kWarpColumns = kWarpColumns_;
  static constexpr int kSets = kSets_, kWarpsAcross = TN / kWarpColumns;
  static constexpr int kSetWarps = TM / kWarpRows * kWarpsAcross, kThreads = 32 * kSetWarps * kSets;
  static constexpr int kRows = kWarpRows / 16, kColumns = kWarpColumns / 8;  // products of a block
  static constexpr int kPad = 4;
  static constexpr int ofOperand(int length) {
    return length * TK + kPad * (length > TK ? length : TK);
  }
  static constexpr int kDoublesA = ofOperand(TM), kStage = kDoublesA + ofOperand(TN);
  // of sums in shared memory, which has all rows of a tile
  static constexpr int kPitch = TN + 8, kFinished = TM, kStored = 8;
  // copies of a step are started between products of another, as far as registers suffice
  static constexpr bool kBlends = kBlends_;
  // steps that copies are ahead: with two stages both, which takes another barrier for each step
  static constexpr int kAhead = kStages == 2 ? 2 : kStages - 1;
  static constexpr int kSums = TM * kPitch, kAllSums = kSets * kSums;  // of a set, and of all
  static constexpr int kAll = kStages * kStage > kAllSums ? kStages * kStage : kAllSums;
  static_assert(TK % (kProduct * kSets) == 0 && kThreads % TN == 0, "uneven tile");

  // sumAt is a sum, of all sets in their order.
  static BG_DEVICE double sumAt(const double* sums) {
    double sum = sums[0];
#pragma unroll
    for (int i = 1; i < kSets; ++i) sum += sums[i * kSums];
    return sum;
  }
};

// logOf is the logarithm of a power of 2.
constexpr uint32_t logOf(uint32_t n) { return n == 1 ? 0 : 1 + logOf(n / 2); }

// DoubleOperand copies the steps of A or B to shared memory. kLength is the tile's extent across K. kListed:
// rows that run along K may be where a list in shared memory says.
template <class T, int kLength, bool kListed>
struct DoubleOperand {
  static constexpr int kCount = kLength * T::TK / T::kThreads;  // doubles that a thread copies
  static constexpr uint32_t kLogThreads = logOf(T::kThreads), kLogK = logOf(T::TK),
      kLogLength = logOf(kLength);
  static_assert(kCount % 2 == 0 && kCount * T::kThreads == kLength * T::TK, "uneven tile");

  const double* at;      // the thread's first of the next step; of listed rows: in the first of all
  const uint32_t* list;  // or null
  SharedAddress to;
  uint32_t ld, length, row, place, logRows;  // first row that the thread copies, where in it, rows between
  bool alongK, wide;                         // wide: copies of 16 bytes

  BG_DEVICE DoubleOperand(const double* start, uint32_t ld_, uint32_t length_, bool alongK_,
      const double* stage, const uint32_t* rows_)
      : list(rows_), ld(ld_), length(length_), alongK(alongK_), wide((placeInLine(start) | ld % 2) == 0) {
    const uint32_t each = wide ? 1 : 0, logRun = (alongK ? kLogK : kLogLength) - each;
    logRows = kLogThreads - logRun;
    row = threadId() >> logRun;
    place = (threadId() & ((1u << logRun) - 1)) << each;
    at = (kListed && list != nullptr ? start : rowsOn(start, row, ld)) + place;
    to = sharedAddress(stage + row * pitch() + place);
  }

  BG_DEVICE uint32_t pitch() const { return (alongK ? T::TK : kLength) + T::kPad; }

  // copiesOf is how many of the thread's copies are of the first n rows.
  BG_DEVICE uint32_t copiesOf(uint32_t n) const { return n > row ? ((n - row - 1) >> logRows) + 1 : 0; }

  // copy starts the copies of the next step, of which `left` k's exist, to a stage: bytes after the first.
  // Rows and columns that do not exist stay what they are. Zeros take the place of k's that are multiplied
  // and do not.
  BG_DEVICE void copy(uint32_t left, uint32_t stage) {
    const uint32_t steps = min(left, static_cast<uint32_t>(T::TK));
    const uint32_t multiplied = (steps + kProduct - 1) / kProduct * kProduct;
    const uint32_t end = alongK ? steps : length;
    const uint32_t more = place < end ? end - place : 0;
    const bool written = place < (alongK ? multiplied : length);
    const uint32_t copies = written ? copiesOf(alongK ? length : steps) : 0;
    if (wide) copyAll<16>(stage, copies, 8 * min(more, 2u));
    else copyAll<8>(stage, copies, 8 * min(more, 1u));
    if (!alongK && written && steps < multiplied) {
#pragma unroll 1
      for (uint32_t i = copies, n = copiesOf(multiplied); i < n; ++i) {
        if (wide) copyDoubles<16>(to + stage + i * apart(), at, 0);
        else copyDoubles<8>(to + stage + i * apart(), at, 0);
      }
    }
    at = alongK ? at + T::TK : rowsOn(at, T::TK, ld);
  }

  // Copies are those of the thread in a whole step: so many lines of 16 bytes or, where rows begin anywhere
  // and at the end of an odd one, doubles. Each call of next starts one of them.
  struct Copies {
    const double* from;
    uint64_t further;
    SharedAddress to, between;
    uint32_t lines, doubles;

    template <int i>
    BG_DEVICE void next() {
      if (2 * i < kCount) copyEither(i, lines, doubles, to, from, between, further);
      else copyNext<8>(i, doubles, to, from, 8, between, further);
    }
  };
  // whole is copy of a whole step, without the copies.
  BG_DEVICE Copies whole(uint32_t stage) {
    const uint32_t n = alongK ? copiesOf(length) : place < length ? (wide ? kCount / 2 : kCount) : 0;
    const bool lines = wide && (alongK || place + 1 < length);
    const double* const from = at;
    at = alongK ? at + T::TK : rowsOn(at, T::TK, ld);
    return {from, 8 * static_cast<uint64_t>(ld) << logRows, to + stage, apart(), lines ? n : 0,
        lines ? 0 : n};
  }

  BG_DEVICE SharedAddress apart() const { return (8 * pitch()) << logRows; }

  // copyAll starts so many copies, of so many bytes that exist.
  template <int kBytes>
  BG_DEVICE void copyAll(uint32_t stage, uint32_t copies, uint32_t bytes) const {
    constexpr uint32_t kCopies = 8 * kCount / kBytes;
    SharedAddress next = to + stage;
    const SharedAddress between = apart();
    if (kListed && list != nullptr) {
#pragma unroll 2
      for (uint32_t i = 0; i < copies; ++i, next += between) {
        copyDoubles<kBytes>(next, rowsOn(at, list[row + (i << logRows)], ld), bytes);
      }
      return;
    }
    const double* from = at;
    const uint64_t further = 8 * static_cast<uint64_t>(ld) << logRows;
#pragma unroll
    for (uint32_t i = 0; i < kCopies; ++i) copyNext<kBytes>(i, copies, next, from, bytes, between, further);
  }
};
