// Operands of wgmma.cuh on their way through shared memory: how the loader's warps copy
// them, and where they are read. Places of a ring are numbered by slots (wgmma.cuh).
//
// The loader bounds the kernel, and its own instructions bound the loader. So it keeps
// an offset for each copy of a step (one register, one addition, and one instruction for
// the address), and tests what exists only in the first steps and the last ones of an
// item. Rows and columns that the tile lacks are not copied: readers read the last one
// that exists in their place, and nobody stores the sums. Across K, a line (16 bytes)
// that holds an element is copied whole, up to 12 bytes before the operand or behind it:
// memory is allocated by larger units, and to count elements costs 128x128 1.5 to 3 %.
//
// A copy is cheapest where its 128 bytes are a line both in memory and in shared memory.
#pragma once

BG_DEVICE uint32_t wordOf(const float* p) { return static_cast<uint32_t>(reinterpret_cast<uint64_t>(p) >> 2); }

constexpr int kWarps = 4;  // of a warpgroup

// lineOf and chunkOf are p, or the element before it that begins a line of 16 bytes or
// a chunk of 128.
BG_DEVICE const float* lineOf(const float* p) { return reinterpret_cast<const float*>(reinterpret_cast<uint64_t>(p) & ~15ull); }
BG_DEVICE const float* chunkOf(const float* p) { return reinterpret_cast<const float*>(reinterpret_cast<uint64_t>(p) & ~127ull); }

// AlongK is an operand whose memory runs along K, kLength rows of it. Row r has a
// ring of kPlaces chunks. Its element k lies at word (k + shift) of the ring, shift
// the place of the row's first element in its chunk.
//
// Lanes read words 8*member + 0..7 of 8 rows (AlongK::read). Rings begin in the same
// bank, so that banks depend on the shifts of the 8 rows modulo 8, which differ when ld
// is odd; for even ld two words at once, and for multiples of 4 four, do the same. For
// multiples of 8, the two lines (16 bytes) of a lane change places in every other row.
template <int kLength, int kPlaces_>
struct AlongK {
  static constexpr int kPlaces = kPlaces_;
  static constexpr int kRing = 128 * kPlaces;  // bytes
  static constexpr int kBytes = kLength * kRing;

  // swap is 1 in rows whose lines have changed places.
  static BG_DEVICE uint32_t swap(const float* start, uint32_t ld, uint32_t row) {
    return ld % 8 == 0 && wordOf(start) % 4 == 0 ? row % 2 : 0;
  }

  // Loader copies the kLength/kWarps rows of a loader warp, the lane a line of every 4th.
  struct Loader {
    static constexpr int kRows = kLength / kWarps, kCopies = kRows / 4;
    const float* origin;       // the lane's line of the tile's first chunk
    uint32_t at[kCopies];      // that of the row's chunk to come: elements from the origin
    int32_t left[kCopies];     // elements from the lane's line of chunk 0 to the row's end; none of a row that does not exist
    SharedAddress to;          // the first row's place in the ring
    int32_t depth, before;     // before: elements of chunks that have been copied
    bool whole;                // all rows of the warp exist

    BG_DEVICE void start(const float* start, uint32_t ld, uint32_t length, uint32_t depth_, uint32_t shared, uint32_t warp, uint32_t lane) {
      const uint32_t first = warp * kRows + lane / 8, line = lane % 8;
      origin = settled(chunkOf(start) + 4 * line);
      depth = static_cast<int32_t>(depth_);
      before = 0;
      whole = warp * kRows + kRows <= length;
      to = shared + first * kRing + 16 * (line ^ swap(start, ld, first));
#pragma unroll
      for (int i = 0; i < kCopies; ++i) {
        const float* row = rowsOn(start, first + 4 * i, ld);
        const int32_t skipped = static_cast<int32_t>(4 * line) - static_cast<int32_t>(wordOf(row) % 32);
        at[i] = static_cast<uint32_t>(chunkOf(row) - chunkOf(start));
        left[i] = first + 4 * i < length && depth != 0 ? depth - skipped : INT32_MIN / 2;
      }
    }

    // next starts the copies of the next chunk, to this place of the ring.
    BG_DEVICE void next(uint32_t place) {
      const SharedAddress target = to + 128 * place;
      if (whole && before != 0 && before + 32 <= depth) {
#pragma unroll
        for (int i = 0; i < kCopies; ++i) copyWhole(target + 4 * i * kRing, origin + at[i]);
      } else {
#pragma unroll
        for (int i = 0; i < kCopies; ++i) {
          const bool exists = before != 0 || left[i] < depth + 4;  // not a line before the row
          const uint32_t bytes = 4 * static_cast<uint32_t>(max(0, min(left[i] - before, 4)));
          copyVector(target + 4 * i * kRing, origin + at[i], exists ? bytes : 0);
        }
      }
#pragma unroll
      for (int i = 0; i < kCopies; ++i) at[i] += 32;
      before += 32;
    }
  };

  // Reader reads the lane's 8 k's of two rows.
  struct Reader {
    uint32_t row[2], flip[2];  // the row's ring in shared memory, bytes; 16 where lines have changed places
    uint32_t first[2];         // the lane's first element in the step's first chunk, bytes
    uint32_t width;

    // start is for rows r and r + 8 of `length`.
    BG_DEVICE void start(const float* start, uint32_t ld, uint32_t r, uint32_t length, uint32_t member, uint32_t shared) {
      width = uniform(widest(start, ld));
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const uint32_t n = min(r + 8 * i, length - 1);
        row[i] = shared + n * kRing;
        flip[i] = 16 * swap(start, ld, n);
        first[i] = 4 * (wordOf(rowsOn(start, n, ld)) % 32 + 8 * member);
      }
    }

    // read reads a step, whose second chunk lies at `place`.
    BG_DEVICE void read(const char* memory, uint32_t place, float (&x)[2][8]) const {
      if (place == 0) readAny<true>(memory, kPlaces - 1, x);
      else readAny<false>(memory, place - 1, x);
    }

    template <bool kAround>
    BG_DEVICE void readAny(const char* memory, uint32_t place, float (&x)[2][8]) const {
      if (width == 1) readBy<1, kAround>(memory, place, x);
      else if (width == 2) readBy<2, kAround>(memory, place, x);
      else readBy<4, kAround>(memory, place, x);
    }

    // kAround: the step lies across the end of the ring.
    template <int kWidth, bool kAround>
    BG_DEVICE void readBy(const char* memory, uint32_t place, float (&x)[2][8]) const {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const uint32_t begin = settled(128 * place + first[i]);  // the compiler would keep sums for all widths in registers
#pragma unroll
        for (int e = 0; e < 8; e += kWidth) {
          uint32_t at = begin + 4 * e;
          if (kAround && at >= kRing) at -= kRing;
          if (kWidth == 4) at ^= flip[i];
          const Vector<kWidth> v = loadVector<kWidth>(reinterpret_cast<const float*>(memory + row[i] + at));
#pragma unroll
          for (int j = 0; j < kWidth; ++j) x[i][e + j] = v.x[j];
        }
      }
    }

    // widest is how many words of a row may be read at once.
    static BG_DEVICE uint32_t widest(const float* start, uint32_t ld) {
      const uint32_t any = wordOf(start) | ld;
      return any % 4 == 0 ? 4 : any % 2 == 0 ? 2 : 1;
    }
  };
};

// AcrossK is an operand whose memory runs across K: 32 rows of kLength elements, of
// which row k is copied from the line (16 bytes) on that holds its first element, to the
// place that this element has among kUnit words. Rows 32 apart have the same place.
//
// kUnit 32 keeps lines of 128 bytes whole, and is for lanes that read a row each time.
// kUnit 4 is for lanes of which members read rows 8 apart: these have the same place
// too, and kSpread more bytes for each 8 rows put them in other banks.
template <int kLength, int kPlaces_, int kUnit>
struct AcrossK {
  static constexpr int kPlaces = kPlaces_;
  static constexpr int kPitch = 4 * (kLength + kUnit), kSpread = kUnit == 4 ? 32 : 0;
  static constexpr int kStage = 32 * kPitch + 4 * kSpread, kBytes = kPlaces * kStage;

  static BG_DEVICE uint32_t rowAt(uint32_t k) { return k * kPitch + k / 8 * kSpread; }

  // place is that of element `across` of row k of a stage, in bytes.
  static BG_DEVICE uint32_t place(const float* start, uint32_t ld, uint32_t k, uint32_t across) {
    return rowAt(k) + 4 * (across + wordOf(rowsOn(start, k, ld)) % kUnit);
  }

  // Loader copies rows 8j + 2*warp + h of a step, j = 0..3, h = 0..1: kLines of each,
  // and the one behind these, which a row needs that does not begin with a line.
  struct Loader {
    static constexpr int kLines = kLength / 4, kTogether = 32 / kLines, kPasses = 2 / kTogether;
    static constexpr int kTargets = kUnit == 4 ? 1 : 4, kTargetStep = 8 * kPitch + kSpread;
    const float* origin;             // the lane's line of the step's first row
    uint32_t at[4][kPasses], atEnd;  // its lines: elements from the origin; h = lane / kLines or the pass
    SharedAddress to;                // of the first, in place 0
    uint32_t further[kTargets][kPasses], furtherEnd;  // bytes from there to the others
    bool some[kPasses], someEnd;     // of the line's elements exist
    uint32_t step, row, rowEnd;      // elements between steps; the lane's first rows
    int32_t left;                    // rows

    BG_DEVICE void start(const float* start, uint32_t ld, uint32_t length, uint32_t depth, uint32_t shared, uint32_t warp, uint32_t lane) {
      const uint32_t line = lane % kLines;
      origin = settled(lineOf(start) + 4 * line);
      step = settled(32 * ld);
      left = static_cast<int32_t>(depth);
      row = 2 * warp + lane / kLines;
      rowEnd = lane % 8 / 2 * 8 + 2 * warp + lane % 2;
      auto target = [&](uint32_t k) { return shared + rowAt(k) + wordOf(rowsOn(start, k, ld)) % kUnit / 4 * 16; };
      auto from = [&](uint32_t k) { return static_cast<uint32_t>(lineOf(rowsOn(start, k, ld)) - lineOf(start)); };
      auto exists = [&](uint32_t k, uint32_t n) { return 4 * n < length + wordOf(rowsOn(start, k, ld)) % 4; };
      to = target(row) + 16 * line;
#pragma unroll
      for (int p = 0; p < kPasses; ++p) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          at[j][p] = from(row + p + 8 * j);
          if (j < kTargets) further[j][p] = target(row + p + 8 * j) - target(row);
        }
        some[p] = exists(row + p, line);
      }
      atEnd = from(rowEnd) + 4 * (kLines - line);
      furtherEnd = target(rowEnd) + 16 * kLines - to;
      someEnd = exists(rowEnd, kLines) && lane < 8;
    }

    BG_DEVICE void next(uint32_t place) {
      const SharedAddress target = to + place * kStage;
      if (left >= 32) copy<true>(target);
      else copy<false>(target);
#pragma unroll
      for (int j = 0; j < 4; ++j) {
#pragma unroll
        for (int p = 0; p < kPasses; ++p) at[j][p] += step;
      }
      atEnd += step;
      left -= 32;
    }

    // copy starts the copies of a step. Rows that do not exist become zero.
    template <bool kWhole>
    BG_DEVICE void copy(SharedAddress target) const {
      auto start = [&](bool exists, uint32_t further, uint32_t from, uint32_t k) {
        if (!exists) return;
        if (kWhole) copyWhole(target + further, origin + from);
        else copyVector(target + further, origin + from, static_cast<int32_t>(k) < left ? 16 : 0);
      };
#pragma unroll
      for (int j = 0; j < 4; ++j) {
#pragma unroll
        for (int p = 0; p < kPasses; ++p) start(some[p], further[j % kTargets][p] + (kTargets == 1 ? j * kTargetStep : 0), at[j][p], row + p + 8 * j);
      }
      start(someEnd, furtherEnd, atEnd, rowEnd);
    }
  };
};
