// Operands of wgmma.cuh on their way through shared memory: how the loader's warps copy
// them, and where they are read. Places of a ring are numbered by slots (wgmma.cuh).
//
// The loader bounds the kernel, and its own instructions bound the loader. So it keeps
// an offset for each copy of a step (one register, one addition, and one instruction for
// the address), and tests what exists only in the first steps and the last ones of an
// item. Rows and columns that the tile lacks are not copied: readers read the last one
// that exists in their place, and nobody stores the sums. Across K, a line (16 bytes)
// that holds an element is copied whole, up to 12 bytes before the operand or after it:
// memory is allocated by larger units, and to count elements costs 128x128 1.5 to 3 %.
//
// A copy is cheapest where its 128 bytes are a line both in memory and in shared memory.
#pragma once

#include "../element/bits16.cuh"
#include "gemm.cuh"
#ifdef BG_CUDA
#include "../ptx/wgmma_cuda.h"
#endif

// placeOf is the number of elements before one, in memory.
template <class Number>
BG_DEVICE uint32_t placeOf(const Number* p) {
  return static_cast<uint32_t>(reinterpret_cast<uint64_t>(p) / sizeof(Number));
}

constexpr int kWarps = 4;  // of a warpgroup

// lineOf and chunkOf are p, or the element before it that begins a line of 16 bytes or
// a chunk of 128.
template <class Number>
BG_DEVICE const Number* lineOf(const Number* p) {
  return reinterpret_cast<const Number*>(reinterpret_cast<uint64_t>(p) & ~15ull);
}
template <class Number>
BG_DEVICE const Number* chunkOf(const Number* p) {
  return reinterpret_cast<const Number*>(reinterpret_cast<uint64_t>(p) & ~127ull);
}

// startCopy starts a copy of 16 bytes to shared memory, all of them or the first ones; zeros
// take the place of others.
template <class Number>
BG_DEVICE void startCopy(SharedAddress to, const Number* from) { copyWhole(to,
    reinterpret_cast<const float*>(from)); }
template <class Number>
BG_DEVICE void startCopy(SharedAddress to, const Number* from,
    uint32_t bytes) { copyLine(to, reinterpret_cast<const float*>(from), bytes); }

// AllRows are rows as they lie; wgmma_epilogue.cuh has others.
struct AllRows {
  BG_DEVICE uint32_t operator()(uint32_t r) const { return r; }
};

// KMajor is an operand whose memory runs along K, kLength rows of it. Row r has a
// ring of kPlaces chunks. Its element k lies at word (k + shift) of the ring, shift
// the place of the row's first element in its chunk.
//
// Lanes read words 8*member + 0..7 of 8 rows (KMajor::read). Rings begin in the same
// bank, so that banks depend on the shifts of the 8 rows modulo 8, which differ when ld
// is odd; for even ld two words at once, and for multiples of 4 four, do the same. For
// multiples of 8, the two lines (16 bytes) of a lane change places in every other row.
// Where rows begin within a word, words are put together of two.
template <class Element, int kLength, int kPlaces_>
struct KMajor {
  using Number = typename Element::Number;
  using Word = typename Element::Word;
  static constexpr int kLine = 4 * Element::kPer, kChunk = 8 * kLine;  // elements
  static constexpr int kPlaces = kPlaces_;
  static constexpr int kRing = 128 * kPlaces;  // bytes
  static constexpr int kBytes = kLength * kRing;

  // swap is 1 in rows whose lines have changed places.
  static BG_DEVICE uint32_t swap(const Number* start, uint32_t ld, uint32_t row) {
    return ld % (2 * kLine) == 0 && placeOf(start) % kLine == 0 ? row % 2 : 0;
  }

  // Loader copies the kLength/kWarps rows of a loader warp, the lane a line of every 4th.
  struct Loader {
    static constexpr int kRows = kLength / kWarps, kCopies = kRows / 4;
    const Number* origin;      // the lane's line of the tile's first chunk
    uint32_t at[kCopies];      // that of the row's chunk to come: elements from the origin
    // elements from the lane's line of chunk 0 to the row's end; none of a row that does not exist
    int32_t left[kCopies];
    SharedAddress to;          // the first row's place in the ring
    int32_t depth, before;     // before: elements of chunks that have been copied
    int32_t rows;              // that exist, from the lane's first on

    template <class RowAt = AllRows>
    BG_DEVICE void start(const Number* start, uint32_t ld, uint32_t length, uint32_t depth_, uint32_t shared,
        uint32_t warp, uint32_t lane,
                         const RowAt& rowAt = {}) {
      const uint32_t first = warp * kRows + lane / 8, line = lane % 8;
      origin = settled(chunkOf(start) + kLine * line);
      depth = static_cast<int32_t>(depth_);
      before = 0;
      rows = static_cast<int32_t>(length - first);
      to = shared + first * kRing + 16 * (line ^ swap(start, ld, first));
#pragma unroll
      for (int i = 0; i < kCopies; ++i) {
        const Number* row = rowsOn(start, rowAt(first + 4 * i), ld);
        const int32_t skipped =
            static_cast<int32_t>(kLine * line) - static_cast<int32_t>(placeOf(row) % kChunk);
        at[i] = static_cast<uint32_t>(chunkOf(row) - chunkOf(start));
        left[i] = first + 4 * i < length && depth != 0 ? depth - skipped : INT32_MIN / 2;
      }
    }

    // next starts the copies of the next chunk, to this place of the ring.
    BG_DEVICE void next(uint32_t place) {
      const SharedAddress target = to + 128 * place;
      const bool middle = before != 0 && before + kChunk <= depth;
      if (middle && rows > 4 * (kCopies - 1)) {
#pragma unroll
        for (int i = 0; i < kCopies; ++i) startCopy(target + 4 * i * kRing, origin + at[i]);
      } else if (middle) {
#pragma unroll
        for (int i = 0; i < kCopies; ++i) copyExisting<true>(target + 4 * i * kRing,
            origin + at[i], 4 * i, rows);
      } else {
#pragma unroll
        for (int i = 0; i < kCopies; ++i) {
          const bool exists = before != 0 || left[i] < depth + kLine;  // not a line before the row
          const uint32_t bytes = sizeof(Number) * static_cast<uint32_t>(max(0, min(left[i] - before, kLine)));
          startCopy(target + 4 * i * kRing, origin + at[i], exists ? bytes : 0);
        }
      }
#pragma unroll
      for (int i = 0; i < kCopies; ++i) at[i] += kChunk;
      before += kChunk;
    }
  };

  // Reader reads the lane's 8 words of two rows.
  struct Reader {
    uint32_t row[2], flip[2];  // the row's ring in shared memory, bytes; 16 where lines have changed places
    uint32_t first[2];         // the lane's first element in the step's first chunk, bytes
    uint32_t width;            // words that may be read at once; 0: each is in two, by `which`
    uint32_t which[Element::kPer];

    // start is for rows r and r + 8 of `length`.
    template <class RowAt = AllRows>
    BG_DEVICE void start(const Number* start, uint32_t ld, uint32_t r, uint32_t length, uint32_t member,
        uint32_t shared, const RowAt& rowAt = {}) {
      width = uniform(widest(start, ld));
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const uint32_t n = min(r + 8 * i, length - 1);
        row[i] = shared + n * kRing;
        flip[i] = 16 * swap(start, ld, n);
        const uint32_t place = placeOf(rowsOn(start, rowAt(n), ld));
        first[i] = 4 * (place % kChunk / Element::kPer + 8 * member);
        if constexpr (Element::kPer != 1) which[i] = 0x3210 +
            0x1111 * sizeof(Number) * (place % Element::kPer);
      }
    }

    // read reads a step of both rows or of the first, whose second chunk lies at `place`.
    template <int kRows>
    BG_DEVICE void read(const char* memory, uint32_t place, Word (&x)[kRows][8]) const {
      if (place == 0) readAny<true>(memory, kPlaces - 1, x);
      else readAny<false>(memory, place - 1, x);
    }

    template <bool kAround, int kRows>
    BG_DEVICE void readAny(const char* memory, uint32_t place, Word (&x)[kRows][8]) const {
      if constexpr (Element::kPer != 1) {
        if (width == 0) return readWithin<kAround>(memory, place, x);
      }
      if (width == 1) readBy<1, kAround>(memory, place, x);
      else if (width == 2) readBy<2, kAround>(memory, place, x);
      else readBy<4, kAround>(memory, place, x);
    }

    // kAround: the step lies across the end of the ring.
    template <int kWidth, bool kAround, int kRows>
    BG_DEVICE void readBy(const char* memory, uint32_t place, Word (&x)[kRows][8]) const {
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
        // the compiler would keep sums for all widths in registers
        const uint32_t begin = settled(128 * place + first[i]);
#pragma unroll
        for (int e = 0; e < 8; e += kWidth) {
          uint32_t at = begin + 4 * e;
          if (kAround && at >= kRing) at -= kRing;
          if (kWidth == 4) at ^= flip[i];
          const auto v = loadVector<kWidth, Word>(reinterpret_cast<const float*>(memory + row[i] + at));
#pragma unroll
          for (int j = 0; j < kWidth; ++j) x[i][e + j] = v.x[j];
        }
      }
    }

    // readWithin is for rows of which some begin within a word.
    template <bool kAround, int kRows>
    BG_DEVICE void readWithin(const char* memory, uint32_t place, Word (&x)[kRows][8]) const {
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
        const uint32_t begin = settled(128 * place + first[i]);
        Word words[9];
#pragma unroll
        for (int e = 0; e < 9; ++e) {
          uint32_t at = begin + 4 * e;
          if (kAround && at >= kRing) at -= kRing;
          words[e] = *reinterpret_cast<const Word*>(memory + row[i] + at);
        }
#pragma unroll
        for (int e = 0; e < 8; ++e) x[i][e] = permute(words[e], words[e + 1], which[i]);
      }
    }

    // widest is how many words of a row may be read at once, 0 where these may lie in two.
    static BG_DEVICE uint32_t widest(const Number* start, uint32_t ld) {
      constexpr uint32_t kPer = Element::kPer;
      const uint32_t any = placeOf(start) | ld;
      return any % (4 * kPer) == 0 ? 4 : any % (2 * kPer) == 0 ? 2 : any % kPer == 0 ? 1 : 0;
    }
  };
};

// MNMajor is an operand whose memory runs across K: rows of kLength elements, one for each k of a step, of
// which row k is copied from the line (16 bytes) on that holds its first element, to the
// place that this element has among kUnit lines. Rows kUnit lines apart have the same place.
//
// kUnit 8 keeps lines of 128 bytes whole, and is for lanes that read a row of words each time. Others are for
// lanes of which members read rows 8 apart, or 16 or 32 of two or four elements a word: these have the same
// place too, and kSpread more bytes for each 8 rows put them in other banks. kUnit 2 keeps sectors of 32
// bytes whole: one that is cut in shared memory is brought twice (half as much again of the L2 cache's
// traffic in 64x128, and 8 % of its time, H200).
template <class Element, int kLength, int kPlaces_, int kUnit>
struct MNMajor {
  using Number = typename Element::Number;
  static constexpr int kPer = Element::kPer, kLine = 4 * kPer;  // elements
  static constexpr int kRows = 32 * kPer, kMember = 8 * kPer;   // of a step, of a lane that reads along K
  static constexpr int kPlaces = kPlaces_;
  static constexpr int kPitch = 4 * kLength / kPer + 16 * kUnit, kSpread = kUnit == 8 ? 0 : 32;
  static constexpr int kStage = kRows * kPitch + 4 * kSpread, kBytes = kPlaces * kStage;

  static BG_DEVICE uint32_t rowAt(uint32_t k) { return k * kPitch + k / kMember * kSpread; }

  // place is that of element `across` of row k of a stage, in bytes.
  static BG_DEVICE uint32_t place(const Number* start, uint32_t ld, uint32_t k, uint32_t across) {
    return rowAt(k) + sizeof(Number) * (across + placeOf(rowsOn(start, k, ld)) % (kLine * kUnit));
  }

  // Loader copies rows 8j + 2*warp + h of a step, j = 0..3, h = 0..1, or two or four times as many: kLines of
  // each, and the one after these, which a row needs that does not begin with a line.
  struct Loader {
    static constexpr int kLines = kLength / kLine, kTogether = 32 / kLines, kOwn = 2 * kPer,
        kPasses = kOwn / kTogether;
    static constexpr int kTargets = kUnit == 8 ? 4 : 1, kTargetStep = kMember * kPitch + kSpread;
    const Number* origin;            // the lane's line of the step's first row
    uint32_t at[4][kPasses], atEnd;  // its lines: elements from the origin; h = lane / kLines or the pass
    SharedAddress to;                // of the first, in place 0
    uint32_t further[kTargets][kPasses], furtherEnd;  // bytes from there to the others
    bool some[kPasses], someEnd;     // of the line's elements exist
    uint32_t step, row, rowEnd;      // elements between steps; the lane's first rows
    int32_t left;                    // rows

    BG_DEVICE void start(const Number* start, uint32_t ld, uint32_t length, uint32_t depth, uint32_t shared,
        uint32_t warp, uint32_t lane) {
      const uint32_t line = lane % kLines;
      origin = settled(lineOf(start) + kLine * line);
      step = settled(kRows * ld);
      left = static_cast<int32_t>(depth);
      row = kOwn * warp + lane / kLines;
      rowEnd = lane % (4 * kOwn) / kOwn * kMember + kOwn * warp + lane % kOwn;
      auto target = [&](uint32_t k) { return shared + rowAt(k) +
          placeOf(rowsOn(start, k, ld)) % (kLine * kUnit) / kLine * 16; };
      auto from = [&](uint32_t k) { return static_cast<uint32_t>(lineOf(rowsOn(start, k,
          ld)) - lineOf(start)); };
      auto exists = [&](uint32_t k, uint32_t n) { return kLine * n < length +
          placeOf(rowsOn(start, k, ld)) % kLine; };
      to = target(row) + 16 * line;
#pragma unroll
      for (int p = 0; p < kPasses; ++p) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          at[j][p] = from(row + p * kTogether + kMember * j);
          if (j < kTargets) further[j][p] = target(row + p * kTogether + kMember * j) - target(row);
        }
        some[p] = exists(row + p * kTogether, line);
      }
      atEnd = from(rowEnd) + kLine * (kLines - line);
      furtherEnd = target(rowEnd) + 16 * kLines - to;
      someEnd = exists(rowEnd, kLines) && lane < 4 * kOwn;
    }

    BG_DEVICE void next(uint32_t place) {
      const SharedAddress target = to + place * kStage;
      if (left >= kRows) copy<true>(target);
      else copy<false>(target);
#pragma unroll
      for (int j = 0; j < 4; ++j) {
#pragma unroll
        for (int p = 0; p < kPasses; ++p) at[j][p] += step;
      }
      atEnd += step;
      left -= kRows;
    }

    // copy starts the copies of a step. Rows that do not exist become zero.
    template <bool kWhole>
    BG_DEVICE void copy(SharedAddress target) const {
      auto start = [&](bool exists, uint32_t further, uint32_t from, uint32_t k) {
        if (!exists) return;
        if (kWhole) startCopy(target + further, origin + from);
        else startCopy(target + further, origin + from, static_cast<int32_t>(k) < left ? 16 : 0);
      };
#pragma unroll
      for (int j = 0; j < 4; ++j) {
#pragma unroll
        for (int p = 0; p < kPasses; ++p) start(some[p], further[j % kTargets][p] +
            (kTargets == 1 ? j * kTargetStep : 0), at[j][p], row + p * kTogether + kMember * j);
      }
      start(someEnd, furtherEnd, atEnd, rowEnd);
    }
  };
};
