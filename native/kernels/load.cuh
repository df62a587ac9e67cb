// How a worker comes to its items, and operands to shared memory.
#pragma once

#include "../dialect.h"
#include "items.cuh"

// What a launch does before the one before it has ended. From 9.0 on it may begin when all thread groups
// of that one have left, or admit it (programmatic dependent launch): groups are there sooner, and wait.
//
// Nothing that the launch before may write is loaded before that, nor is anything stored. An early launch
// (planner.Plan.Early), of which the address of the table is marked, has items that were there before: its
// groups set up shared memory and load their first item while they wait, and admit the next launch after
// their last loads. Either alone is no gain, both take 2 % off the sweep, 3 to 6 off its batches of 8
// problems (H100). scripts/cuda.sh looks for loads before the wait, since the compiler may move those of
// what it takes for constant.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
BG_DEVICE void awaitEarlier() { asm volatile("griddepcontrol.wait;\n" ::: "memory"); }
// awaitEarlier(item) waits when those words of an item are there that tell what is to be loaded.
BG_DEVICE void awaitEarlier(Item& item) {
  asm volatile("griddepcontrol.wait;\n" : "+r"(item.offA), "+r"(item.offB), "+r"(item.depth), "+r"(item.lda),
      "+r"(item.ldb), "+r"(item.extent)::"memory");
}
// The same with the word of its tail that says where addresses are.
BG_DEVICE void awaitEarlier(Item& item, ItemEpilogue& tail) {
  awaitEarlier(item);
  asm volatile("" : "+r"(tail.pointersAt));
}
BG_DEVICE void admitNext() { asm volatile("griddepcontrol.launch_dependents;\n"); }

// hasTable and unmarked tell a table by its address. Written otherwise, large_8x8 spills (nvcc 12.4).
BG_DEVICE bool hasTable(const uint32_t* table) { return reinterpret_cast<uint64_t>(table) > kEarlyMark; }
BG_DEVICE const uint32_t* unmarked(const uint32_t* table) {
  const char* const address = reinterpret_cast<const char*>(table);
  return reinterpret_cast<const uint32_t*>(address - (reinterpret_cast<uint64_t>(table) & kEarlyMark));
}

// Launch waits now unless the launch is early.
struct Launch {
  const uint32_t* table;
  BG_DEVICE explicit Launch(const uint32_t* table_) : table(table_) {
    if (!early()) awaitEarlier();
  }
  BG_DEVICE bool early() const { return (reinterpret_cast<uint64_t>(table) & kEarlyMark) != 0; }
  // loaded is for a group that has no more to load.
  BG_DEVICE void loaded() const {
    if (early()) admitNext();
  }
};
#else
BG_DEVICE void awaitEarlier() {}
BG_DEVICE void awaitEarlier(const Item&) {}
BG_DEVICE void awaitEarlier(const Item&, const ItemEpilogue&) {}
BG_DEVICE void admitNext() {}
BG_DEVICE bool hasTable(const uint32_t* table) { return table != nullptr; }
BG_DEVICE const uint32_t* unmarked(const uint32_t* table) { return table; }
struct Launch {
  BG_DEVICE explicit Launch(const uint32_t*) {}
  BG_DEVICE void loaded() const {}
};
#endif

// isDynamic tells a dynamic table (internal/encoding/dynamic.go) from others, dynamicTable is where its words
// are.
BG_DEVICE bool isDynamic(const uint32_t* table) {
  return reinterpret_cast<uintptr_t>(table) % 2 == kDynamicMark;
}
BG_DEVICE const uint32_t* dynamicTable(const uint32_t* unmarked) {
  return reinterpret_cast<const uint32_t*>(reinterpret_cast<const char*>(unmarked) - kDynamicMark);
}

// WorkerItems goes through the items of a worker: that of its number; those that the table has for it; or, of
// a dynamic table, that of its number and then those that the counter of the table gives
// (internal/encoding/dynamic.go). kCounts: there are such launches of the kernel.
template <class More, bool kCounts>
struct WorkerItems {
  const uint32_t* table;
  const More& more;
  uint32_t number, end;  // the item, and the one after the last that is known
  uint32_t taken = 0;    // first thread: what was counted before
  NextItem next;

  BG_DEVICE WorkerItems(const uint32_t* table_, uint32_t worker, const More& more_) : table(table_),
      more(more_), number(worker), end(worker + 1) {
    if (counts()) {
      number = worker * more.products();
      end = number + more.products();
    } else if (hasTable(table)) {
      const uint32_t* const ends = unmarked(table);
      end = ends[worker + 1];
      number = ends[worker];
    }
  }

  BG_DEVICE bool counts() const { return kCounts && isDynamic(table); }
  BG_DEVICE const uint32_t* words() const { return dynamicTable(table); }
  BG_DEVICE bool any() const { return number < end; }

  // last reports whether no item comes after this one, as far as that is known.
  BG_DEVICE bool last() const { return !counts() && number + 1 == end; }

  // ask goes before the loads of an item, so that what is counted comes while they do, and keep goes after
  // them, with a barrier between it and go.
  BG_DEVICE void ask() {
    if (asks()) takeNext(const_cast<uint32_t*>(words()) + kDynamicNext, words()[kDynamicLast],
        threadId() == 0, taken);
  }
  BG_DEVICE void keep() {
    if constexpr (kCounts) next.keep(taken);
  }
  BG_DEVICE bool asks() const { return counts() && number % more.products() == 0; }

  // go goes to the next item, after the store of this one, of whose sums in shared memory each thread has
  // read what it stores. If there is one, all threads wait for each other after it.
  BG_DEVICE void go(float* shared) {
    ++number;
    if (!counts() || any()) return;
    const uint32_t tile = words()[kDynamicFirst] + next.get(taken, shared);
    number = tile < words()[kDynamicEnd] ? tile * more.products() : kNoTile;
    end = number + more.products();
  }
  static constexpr uint32_t kNoTile = 0xffffffff;  // number, after which comes no end
};

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
// kListed: as of Operand.
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
  const Number* end;      // the line after the last of a row, in row `thread`
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
  // stage: the bytes of shared memory after the first one.
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

// Rows of A that are listed begin anywhere, so that each has a place of its own in its first line.
template <class T, int kLength>
struct StagedOperand<T, kLength, true, true> {
  using Of = StagedOperand<T, kLength, true>;
  using Element = typename Of::Element;
  using Number = typename Of::Number;
  static constexpr int kPitch = Of::kPitch, kFloats = Of::kFloats, kAcross = Of::kAcross, kAlong = Of::kAlong;
  static constexpr int kBlocks = T::kBlockRows / 16;  // that a warp reads

  const Number* at;      // the next step in the first row of all
  const uint32_t* list;
  SharedAddress to;      // of the tile's first row
  uint32_t ld, length;

  BG_DEVICE StagedOperand(const Number* start, uint32_t ld_, uint32_t length_, uint32_t, const Number* stage,
      const uint32_t* rows)
      : at(start), list(rows), to(sharedAddress(stage)), ld(ld_), length(length_) {}

  // copy copies as that of other operands does: kAllLines lines of a row, and the one after them.
  BG_DEVICE void copy(uint32_t thread, uint32_t depth, uint32_t stage) {
    const int32_t steps = static_cast<int32_t>(min(depth, static_cast<uint32_t>(T::TK)));
#pragma unroll
    for (int p = 0; p < Of::kPasses; ++p) {
#pragma unroll
      for (int set = 0; set < Of::kSets; ++set) line(thread / Of::kLines + p * Of::kApart,
          thread % Of::kLines + set * Of::kLines, steps, stage);
    }
    if (thread < static_cast<uint32_t>(Of::kRows)) line(thread, Of::kAllLines, steps, stage);
    at += T::TK;
  }

  // line copies a line of a row.
  BG_DEVICE void line(uint32_t row, uint32_t number, int32_t steps, uint32_t stage) const {
    const Number* const first = rowsOn(at, list[row], ld);
    const uint32_t shift = placeInLine(first), skipped = Of::kLine * number;
    copyVector(to + stage + sizeof(Number) * (row * kPitch + skipped), first - shift + skipped,
               row < length ? bytesInLine<Number>(static_cast<int32_t>(shift - skipped) + steps) : 0);
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

  // the thread's line of the next step, in its first row; the line after the last of row `thread`
  const Number *at, *end;
  SharedAddress to, other, toEnd;  // other: of each other row
  uint32_t ld, row, size, sizeEnd;  // bytes that exist of a line

  static BG_DEVICE uint32_t placeInSector(const Number* p) {
    return static_cast<uint32_t>(reinterpret_cast<uint64_t>(p) / sizeof(Number)) % kSector;
  }

  BG_DEVICE LinedOperand(const Number* start, uint32_t ld_, uint32_t length, bool, const float* shared) :
      ld(ld_), row(threadId() / kLines) {
    const uint32_t before = kLine * (threadId() % kLines);
    // target is where the line of row r lies that is `further` elements after its first.
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

// Vector is n floats that move at once. Element is float, or what the dialect
// multiplies at once.
template <int n, class Element = float>
struct alignas(4 * n) Vector {
  Element x[4 * n / sizeof(Element)];
};

template <int n, class Element = float>
BG_DEVICE Vector<n, Element> loadVector(const float* at) {
  return *reinterpret_cast<const Vector<n, Element>*>(at);
}

template <int n, class Element = float>
BG_DEVICE void storeVector(float* at, const Vector<n, Element>& v) {
  *reinterpret_cast<Vector<n, Element>*>(at) = v;
}

// Floats are elements of fp32. Number is as wide as an element, Word what a word of 4 bytes is taken for,
// kPer how many elements it has. kScaled: products may be multiplied by scales. Elements that are narrower
// tell which C they have where that is not of fp32: withC calls `of` with its elements.
struct Floats {
  using Number = float;
  using Word = float;
  static constexpr int kPer = 1;
  static constexpr bool kScaled = false, kWhole = false;
  static BG_DEVICE float number(float x) { return x; }
  static BG_DEVICE float bits(float x) { return x; }
};

// NoEpilogue is in the place of what kernels with an epilogue have beside (epilogue.cuh).
struct NoEpilogue {
  static constexpr bool kIs = false;
  static constexpr uint32_t kWords = kItemWords;  // of an item
  BG_DEVICE Item item(const uint4* items, uint32_t number) const { return itemAt(items, number); }
  template <class Number>
  BG_DEVICE const Number* operandA(const uint4*, uint32_t, const Number* A) const { return A; }
  template <class Number>
  BG_DEVICE const Number* operandB(const uint4*, uint32_t, const Item&, const Number* B) const { return B; }
  BG_DEVICE FixupItem fixup(const uint4* items, uint32_t number) const { return fixupAt(items, number); }
  BG_DEVICE uint32_t products() const { return 1; }
};

// RowList says which rows of A stand for a thread's: by a list in shared memory, or all as they are.
template <bool kListed>
struct RowList {
  const uint32_t* list;
  BG_DEVICE uint32_t rowAt(uint32_t r) const { return list[r]; }
};
template <>
struct RowList<false> {
  BG_DEVICE RowList(const uint32_t*) {}
  BG_DEVICE uint32_t rowAt(uint32_t r) const { return r; }
};

// Operand copies the steps of A or B to shared memory. kLength is the tile's
// extent across K. kMajorK: memory runs along K (A as it is, B transposed), so
// that the step is transposed on its way. kListed, along K: rows are where a list in shared memory says.
template <class T, int kLength, bool kMajorK, class Element = Floats, bool kListed = false>
struct Operand : RowList<kListed> {
  // Adjacent threads copy kRun elements that are adjacent in memory. Along K it is
  // few, so that a warp has several rows: kPitch, a multiple of 4 for the reading
  // of vectors, would make many k's of one row meet in a bank.
  static constexpr int kRun = kMajorK ? (T::TK < 16 ? T::TK : 16) : kLength;
  static constexpr int kStride = T::kThreads / kRun;  // between the elements of a thread across the runs
  static constexpr int kPitch = kMajorK ? kLength + 4 : kLength;
  static constexpr int kFloats = T::TK * kPitch;

  // Element j of a thread: k is j / kRows * kStep further than that of element 0,
  // the row of op(A) or column of op(B) j % kRows * kStride.
  static constexpr int kCount = kLength * T::TK / T::kThreads;
  static constexpr int kRows = kMajorK ? kLength / kStride : 1;
  static constexpr int kStep = kMajorK ? kRun : kStride;
  static_assert(kRun * kStride == T::kThreads && kCount * T::kThreads == kLength * T::TK && kCount <= 32 &&
                    kCount % kRows == 0 && kRows > 0, "uneven tile");

  static constexpr bool kCanVector = !kMajorK && kCount >= 4;
  static constexpr int kVectorRun = kLength / 4, kVectorStride = T::kThreads / kVectorRun;

  const float* at;   // this thread's first element of the next step; kListed: in the first row of all
  SharedAddress to;  // its place in the first stage
  uint32_t ld;
  uint32_t k;      // of the first element within a step
  // a bit for each element whose row or column exists; with vector loads for each column of a vector
  uint32_t valid;
  bool vector;       // copies of 16 bytes
  Copies<kCount> copies;
  uint32_t pending;  // the stage that they fill

  BG_DEVICE Operand(const float* start, uint32_t ld_, uint32_t length, bool aligned, const float* shared,
      const uint32_t* rows = nullptr)
      : RowList<kListed>{rows + threadId() / kRun}, ld(ld_), vector(kCanVector && aligned), copies(start) {
    const uint32_t t = threadId();
    if constexpr (kMajorK) {
      const uint32_t row = t / kRun;
      k = t % kRun;
      at = kListed ? start + k : rowsOn(start, row, ld) + k;
      to = sharedAddress(shared + k * kPitch + row);
      valid = 0;
#pragma unroll
      for (int j = 0; j < kCount; ++j) valid |= (row + j % kRows * kStride < length ? 1u : 0u) << j;
    } else {
      const uint32_t run = vector ? kVectorRun : kRun, width = vector ? 4 : 1, column = t % run * width;
      k = t / run;
      at = rowsOn(start, k, ld) + column;
      to = sharedAddress(shared + k * kPitch + column);
      valid = column >= length ? 0 : vector ? lowBits(min(length - column, 4u)) : 0xffffffff;
    }
  }

  static BG_DEVICE uint32_t lowBits(uint32_t n) { return n < 32 ? (1u << n) - 1 : 0xffffffff; }

  // below is the number of k, k + step, ... that are below left.
  BG_DEVICE uint32_t below(uint32_t left, uint32_t step) const { return left > k ?
      (left - k + step - 1) / step : 0; }

  // copy starts the copies of the next step, of which `left` k's exist, to a
  // stage of shared memory.
  BG_DEVICE void copy(uint32_t left, uint32_t stage) {
    if (kCanVector && vector) {
      const uint32_t rows = min(below(left, kVectorStride), static_cast<uint32_t>(kCount / 4));
      if (valid == 15) {
        copies.template start<16, kCount / 4>(
            lowBits(rows), [&](int j) { return vectorTo(j, stage); },
                [&](int j) { return rowsOn(at, j * kVectorStride, ld); });
      } else {  // the last columns of the matrix
#pragma unroll 1
        for (uint32_t j = 0; j < rows; ++j) {
#pragma unroll
          for (int i = 0; i < 3; ++i) {
            copyIf<4>(valid, i, vectorTo(j, stage) + 4 * i, rowsOn(at, j * kVectorStride, ld) + i);
          }
        }
      }
    } else {
      const uint32_t exists = left < T::TK ? valid & lowBits(below(left, kStep) * kRows) : valid;
      copies.template start<4, kCount>(
          exists, [&](int j) { return narrowTo(j, stage); },
          [&](int j) {
            const int along = j / kRows * kStep, across = j % kRows * kStride;
            return kMajorK ? rowsOn(at, this->rowAt(across), ld) + along : rowsOn(at, along, ld);
          });
    }
    at = kMajorK ? at + T::TK : rowsOn(at, T::TK, ld);
    pending = stage;
  }

  // land ends the copies that copy started last, where the dialect has something to do for that.
  BG_DEVICE void land() {
    if (kCanVector && vector) {
      if (valid == 15) copies.template land<16, kCount / 4>([&](int j) { return vectorTo(j, pending); });
    } else {
      copies.template land<4, kCount>([&](int j) { return narrowTo(j, pending); });
    }
  }

  // The places in shared memory of a thread's copies.
  BG_DEVICE SharedAddress vectorTo(int j, uint32_t stage) const { return to + stage +
      4 * j * kVectorStride * kPitch; }
  BG_DEVICE SharedAddress narrowTo(int j, uint32_t stage) const {
    const int along = j / kRows * kStep, across = j % kRows * kStride;
    return to + stage + 4 * (along * kPitch + across);
  }
};
