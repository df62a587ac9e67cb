// Operands that come to shared memory by copies of 16 bytes, whatever the alignment.
#pragma once

#include "../dialect.h"

// rowsOn is p, n rows of ld elements further: one multiplication and addition.
template <class Pointer>
BG_DEVICE Pointer rowsOn(Pointer p, uint32_t n, uint32_t ld) {
  return p + static_cast<uint64_t>(n) * ld;
}

// placeInLine is the number of elements before p in its line of 16 bytes.
template <class Number>
BG_DEVICE uint32_t placeInLine(const Number* p) {
  return static_cast<uint32_t>(reinterpret_cast<uint64_t>(p) / sizeof(Number)) & (16 / sizeof(Number) - 1);
}

// bytesInLine are those that exist of a line, where so many elements do from its first on: all of them, or
// fewer, or none.
template <class Number>
BG_DEVICE uint32_t bytesInLine(int32_t elements) {
  constexpr int32_t kLine = 16 / sizeof(Number);
  return sizeof(Number) * static_cast<uint32_t>(max(0, min(elements, kLine)));
}

// StagedOperand is A or B on its way through shared memory. kLength is the tile's
// extent across K. kMajorK: memory runs along K (A as it is, B transposed).
// kListed: as of Operand, see tensor_epilogue.cuh.
template <class T, int kLength, bool kMajorK, bool kListed = false>
struct StagedOperand {
  using Element = typename T::Element;
  using Number = typename Element::Number;
  static constexpr int kLine = 16 / sizeof(Number);  // elements
  // of a step in memory
  static constexpr int kRows = kMajorK ? kLength : T::TK, kRun = kMajorK ? T::TK : kLength;
  // a line more, or two; no two lanes of a fragment share a bank
  static constexpr int kPitch = kRun + (kMajorK || kLine > 8 ? kLine : 8);
  static constexpr int kFloats = kRows * kPitch / T::Element::kPer;
  // A thread copies kSets lines of a row, besides one more when it is shifted, of rows that have the same
  // shift.
  static constexpr int kAllLines = kRun / kLine, kMost = T::kTeamThreads / kLine,
      kLines = kAllLines < kMost ? kAllLines : kMost, kSets = kAllLines / kLines;
  static constexpr int kApart = T::kTeamThreads / kLines, kPasses = kRows / kApart;
  static constexpr int kEnds = (kRows + T::kTeamThreads - 1) / T::kTeamThreads;
  static_assert(kApart % kLine == 0 && kPasses * kApart == kRows && kPasses <= 32 &&
      kSets * kLines == kAllLines && (kEnds == 1 || !kMajorK),
                "uneven tile");

  // Where element (i, k) of the operand lies in a stage, i across K.
  static constexpr int kAcross = kMajorK ? kPitch : 1, kAlong = kMajorK ? 1 : kPitch;

  const Number* at;       // the thread's first line of the next step, in its first row
  const Number* end;      // the line behind the last of a row, in row `thread`
  SharedAddress to, toEnd;
  uint32_t ld;
  int32_t left, leftEnd;  // elements of the row from the line on, or room for them: along K without its k's
  // first row; along K: a bit for each row that exists, in the order of the passes, then the ends
  uint32_t row, valid;

  BG_DEVICE StagedOperand(const Number* start, uint32_t ld_, uint32_t length, uint32_t thread,
      const Number* stage, const uint32_t* = nullptr) : ld(ld_) {
    const uint32_t line = thread % kLines;
    row = thread / kLines;
    const Number* const first = rowsOn(start, row, ld);
    const Number* const last = rowsOn(start, thread, ld);
    const uint32_t shift = placeInLine(first), shiftEnd = placeInLine(last);
    at = first - shift + kLine * line;
    end = last - shiftEnd + kRun;
    to = sharedAddress(stage + row * kPitch + kLine * line);
    toEnd = sharedAddress(stage + thread * kPitch + kRun);
    left = static_cast<int32_t>(shift - kLine * line);
    leftEnd = static_cast<int32_t>(shiftEnd) - kRun;
    valid = 0;
    if constexpr (kMajorK) {
#pragma unroll
      for (int p = 0; p < kPasses; ++p) valid |= (row + p * kApart < length ? 1u : 0u) << p;
      if (thread >= length) leftEnd = -2 * kRun;
    } else {
      left += static_cast<int32_t>(length);
      leftEnd += static_cast<int32_t>(length);
    }
  }

  // copy starts the copies of the next step, of which `depth` k's exist, to a
  // stage: the bytes of shared memory behind the first one.
  BG_DEVICE void copy(uint32_t thread, uint32_t depth, uint32_t stage) {
    const int32_t steps = static_cast<int32_t>(min(depth, static_cast<uint32_t>(T::TK)));
    const uint32_t sizeEnd = bytesInLine<Number>(kMajorK ? leftEnd + steps : leftEnd);
#pragma unroll
    for (int set = 0; set < kSets; ++set) {
      const uint32_t size = bytesInLine<Number>((kMajorK ? left + steps : left) - set * kLines * kLine);
#pragma unroll
      for (int p = 0; p < kPasses; ++p) {
        const bool exists = kMajorK ? valid >> p & 1 : row + p * kApart < depth;
        copyVector(to + stage + sizeof(Number) * (p * kApart * kPitch + set * kLines * kLine),
                   rowsOn(at + set * kLines * kLine, p * kApart, ld), exists ? size : 0);
      }
    }
#pragma unroll
    for (int p = 0; p < kEnds; ++p) {
      const uint32_t r = thread + p * T::kTeamThreads;
      const bool exists = kMajorK || r < depth;
      if (r >= kRows) break;
      copyVector(toEnd + stage + sizeof(Number) * p * T::kTeamThreads * kPitch,
          rowsOn(end, p * T::kTeamThreads, ld), exists ? sizeEnd : 0);
    }
    at = kMajorK ? at + T::TK : rowsOn(at, T::TK, ld);
    end = kMajorK ? end + T::TK : rowsOn(end, T::TK, ld);
  }
};

// LinedOperand is B as it is, by lines, for tiles of gemm.cuh. A line keeps its place in a sector of 32
// bytes, since the L2 cache gives a sector twice whose halves go to two of shared memory, unless copies go
// through the L1 cache. Rows that are a multiple of 4 apart begin at one place in a line, and each other one
// of them at the same place in a sector.
template <class T, class Element>
struct LinedOperand {
  using Number = typename Element::Number;
  static constexpr uint32_t kLine = 4, kSector = 2 * kLine;  // elements
  static constexpr int kPitch = T::TN + kSector, kFloats = T::TK * kPitch;
  // of a row, besides one more when it is shifted
  static constexpr uint32_t kLines = T::TN / kLine, kApart = T::kThreads / kLines, kPasses = T::TK / kApart;
  static_assert(kApart % kLine == 0 && kPasses * kApart == T::TK && T::TK % kSector == 0 &&
      T::TK <= T::kThreads && T::kGroups % kLine == 0, "uneven tile");

  // the thread's line of the next step, in its first row; the line behind the last of row `thread`
  const Number *at, *end;
  SharedAddress to, other, toEnd;  // other: of each other row
  uint32_t ld, row, size, sizeEnd;  // bytes that exist of a line

  static BG_DEVICE uint32_t placeInSector(const Number* p) {
    return static_cast<uint32_t>(reinterpret_cast<uint64_t>(p) / sizeof(Number)) % kSector;
  }

  BG_DEVICE LinedOperand(const Number* start, uint32_t ld_, uint32_t length, bool, const float* shared) :
      ld(ld_), row(threadId() / kLines) {
    const uint32_t before = kLine * (threadId() % kLines);
    // target is where the line of row r lies that is `further` elements behind its first.
    auto target = [&](uint32_t r, uint32_t further) {
      return sharedAddress(shared + r * kPitch + further) +
          16 * (placeInSector(rowsOn(start, r, ld)) / kLine);
    };
    const Number* const first = rowsOn(start, row, ld);
    const Number* const last = rowsOn(start, threadId(), ld);
    at = first - placeInLine(first) + before;
    end = last - placeInLine(last) + T::TN;
    to = target(row, before);
    other = target(row + kApart, before);
    toEnd = target(threadId(), T::TN);
    size = bytesInLine<Number>(static_cast<int32_t>(length + placeInLine(first) - before));
    sizeEnd = bytesInLine<Number>(static_cast<int32_t>(length + placeInLine(last) - T::TN));
  }

  // copy starts the copies of the next step, of which `left` k's exist.
  BG_DEVICE void copy(uint32_t left, uint32_t stage) {
#pragma unroll
    for (uint32_t p = 0; p < kPasses; ++p) {
      const bool exists = row + p * kApart < left;
      copySector((p % 2 == 0 ? to : other) + stage + sizeof(Number) * (p - p % 2) * kApart * kPitch,
          rowsOn(at, p * kApart, ld), exists ? size : 0);
    }
    if (threadId() < T::TK) copySector(toEnd + stage, end, threadId() < left ? sizeEnd : 0);
    at = rowsOn(at, T::TK, ld);
    end = rowsOn(end, T::TK, ld);
  }
  BG_DEVICE void land() {}
};
