// Kernels for B of 4 bits with scales of groups (mma.sync, from compute capability 8.0 on), of matrices as
// they are and with an epilogue. What counts is how fast B comes from memory, and that few rows of A are no
// waste: B is the first operand of a product, 16 columns of it, and A the second one, 8 rows, so that C comes
// out transposed.
//
// B lies in panels of 64 k's (element.PackInt4), in which the 32 bytes of a column follow those of the one
// before, so that a tile reads long pieces of memory. A step is two panels, copied in lines of 16 bytes, as
// the rows of A are, with the words of their groups. Of a panel a lane with group = lane / 4 and member =
// lane % 4 takes k's 16*member + 0..15, which are two words of B and two lines of A, for four products of 16
// k's: which k is which matters as little there as in wgmma.cuh, as long as A and B agree.
//
// Weights become whole numbers of A's type, less their zero point, which is exact: a nibble before whose
// exponent stands that of 128, or 1024, and from which that is taken away again with the zero point. Each 64
// k's, which have a scale in common for each column, are summed from zero, and come to fp32 sums times the
// scale.
//
// Weights of e2m1 are multiplied by their scales first (e2m1.cuh), which is exact, so that all of K is one
// sum. fp16 has not all scales of MXFP4: there 32 k's are summed from zero as those of a group are.
#pragma once

#include "../ptx/e2m1.cuh"
#include "tensor.cuh"

// Weights is what B has.
enum class Weights { int4, mxfp4, nvfp4 };

BG_DEVICE Weights weightsOf(const Epilogue& more) {
  return more.has(kGroups32) ? Weights::mxfp4 : more.has(kGroups16) ? Weights::nvfp4 : Weights::int4;
}

// wordsOfGroups is where the words of the groups of an item's B begin, from its first column on. The scales
// of columns of NVFP4, which has any where K is not 0, are before them.
BG_DEVICE const uint32_t* wordsOfGroups(const Epilogue& more, const Item& item, const ItemEpilogue& words) {
  return rowsOn(more.rows + words.scaleBAt, more.has(kGroups16) && item.depth != 0 ? 1 : 0, item.ldb);
}

// scaleColumns multiplies the sums of NVFP4 that a lane has by the scales of their columns, which are
// `column` and the eighth after it.
template <class Format, int n>
BG_DEVICE void scaleColumns(float (&sum)[n], const uint32_t* scales, uint32_t column, uint32_t cols) {
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const float scale = column + 8 * r < cols ? __uint_as_float(scales[column + 8 * r]) : 0.0f;
#pragma unroll
    for (int i = 0; i < n; ++i) {
      if (i / 2 % 2 == r) sum[i] = sum[i] * E2M1<Format>::kRest * scale;
    }
  }
}

// Int4Tile is a row of the tile table and what follows from it.
template <int TM_, int TN_, int kThreads_, int kStages_, int kMinGroups_, class Element_>
struct Int4Tile {
  using Element = Element_;  // of A
  static constexpr int TM = TM_, TN = TN_, TK = 128, kStages = kStages_, kThreads = kThreads_,
      kWarpColumns = TN / (kThreads / 32);
  static constexpr int kMinGroups = kMinGroups_, kEpilogueGroups = kMinGroups;
  static constexpr int kPanelsAtOnce = 1;  // of weights of e2m1
  static constexpr int kColumns = kWarpColumns / 16, kRows = TM / 8;  // of a warp: in 16 columns, and 8 rows
  // of the sums in shared memory: no two lanes store to one bank
  static constexpr int kPitch = TN + 4;
  // A stage, in bytes: rows of A, the panels, and the words of their groups.
  static constexpr uint32_t kRowA = 2 * TK + 16, kPanels = kRowA * TM, kPanel = 32 * TN,
      kGroups = kPanels + 2 * kPanel, kStage = kGroups + 2 * 4 * TN;
  // placeOfA is where a line of 8 k's of a row of A lies, in bytes; it is kRowA from where kTurns rows before
  // have it for each row.
  static constexpr uint32_t kTurns = 1;
  static BG_DEVICE uint32_t placeOfA(uint32_t row, uint32_t line) { return kRowA * row + 16 * line; }
  static_assert(kColumns * 16 == kWarpColumns && TM % 8 == 0 && kThreads >= TN, "uneven tile");
};

// GroupedRows copies the rows of A of a tile, which may be any, by kThreads threads. rowAt(r) is the one that
// is row r of the tile. Rows that do not exist are not copied, since their sums are not stored.
template <class T, int kThreads>
struct GroupedRows {
  static constexpr uint32_t kLines = T::TK / 8, kApart = kThreads / kLines, kCopies = T::TM / kApart;
  // copies that a branch leaves out: one for each would take more instructions than the copies
  static constexpr uint32_t kTogether = 4;
  // copies, after which places are kRowA apart again
  static constexpr uint32_t kTurns = T::kTurns < kApart ? 1 : T::kTurns / kApart;
  const uint16_t* at;      // the thread's line of the next step, in the first row of all
  SharedAddress to[kTurns];
  uint32_t rows[kCopies];  // of A, that the thread copies
  uint32_t ld, count, line;
  int32_t length;          // of the tile's `count` rows those from the thread's first on
  bool vector;

  template <class RowAt>
  BG_DEVICE GroupedRows(uint32_t thread, const uint16_t* start, const Item& item, const RowAt& rowAt,
      SharedAddress stages)
      : ld(item.lda), count(item.rows()), line(thread % kLines), vector((item.flags & kItemVector) != 0) {
    const uint32_t row = thread / kLines;
    at = start + 8 * line;
    length = static_cast<int32_t>(count - row);
#pragma unroll
    for (uint32_t i = 0; i < kTurns; ++i) to[i] = stages +
        T::placeOfA(row + i * kApart, line) - T::kRowA * i * kApart;
#pragma unroll
    for (uint32_t i = 0; i < kCopies; ++i) rows[i] = rowAt(row + i * kApart);
  }

  // copy starts the copies of a step, of which `left` k's exist, a multiple of 8.
  BG_DEVICE void copy(uint32_t left, uint32_t stage) {
    if (vector && left >= T::TK) {
#pragma unroll
      for (uint32_t i = 0; i < kCopies; ++i) {
        if (i % kTogether == 0 && i * kApart >= count) break;
        copyExisting<false>(target(i, stage), from(i), i * kApart, length);
      }
    } else {
      const bool exists = 8 * line < left;
#pragma unroll
      for (uint32_t i = 0; i < kCopies; ++i) {
        if (static_cast<int32_t>(i * kApart) >= length) break;
        if (vector) copyLine(target(i, stage), from(i), exists ? 16 : 0);
        else gatherLine(target(i, stage), from(i), exists ? 8 : 0);
      }
    }
    at += T::TK;
  }

  // from and target are where the line of a copy lies, and its place.
  BG_DEVICE const uint16_t* from(uint32_t i) const { return rowsOn(at, rows[i], ld); }
  BG_DEVICE SharedAddress target(uint32_t i, uint32_t stage) const { return to[i % kTurns] + stage +
      T::kRowA * kApart * i; }
};

// GroupedColumns copies the columns of B and the words of their groups.
template <class T>
struct GroupedColumns {
  static constexpr uint32_t kCopies = 2 * T::TN / T::kThreads, kApart = T::kThreads / 2;
  static_assert(kCopies * T::kThreads == 2 * T::TN, "uneven panel");
  const uint32_t *at, *groups;
  SharedAddress to, toGroups;
  uint32_t panel, ldb, column, cols, shift, k;  // panel: words from one to the next

  BG_DEVICE GroupedColumns(const uint32_t* start, const uint32_t* groups_, uint32_t log, const Item& item,
      SharedAddress stages)
      : panel(8 * item.ldb), ldb(item.ldb), column(threadId() / 2), cols(item.cols()), shift(log), k(0) {
    at = start + 4 * threadId();
    groups = groups_ + threadId();
    to = stages + T::kPanels + 16 * threadId();
    toGroups = stages + T::kGroups + 4 * threadId();
  }

  // copy starts the copies of a step, of which `left` k's exist, a multiple of 64.
  BG_DEVICE void copy(uint32_t left, uint32_t stage) {
    const bool both = left > 64;
#pragma unroll
    for (uint32_t h = 0; h < 2; ++h) {
#pragma unroll
      for (uint32_t i = 0; i < kCopies; ++i) {
        if (column + i * kApart < cols) copyLine(to + stage + h * T::kPanel + 16 * T::kThreads * i,
            rowsOn(at, h, panel) + 4 * T::kThreads * i, h == 0 || both ? 16 : 0);
      }
    }
    if (threadId() < cols) {
      copyWord(toGroups + stage, rowsOn(groups, k >> shift, ldb), 4);
      if (shift == 6) copyWord(toGroups + stage + 4 * T::TN, rowsOn(groups, both ? (k >> shift) + 1 : 0, ldb),
          both ? 4 : 0);
    }
    at = rowsOn(at, 2, panel);
    k += T::TK;
  }
};

// Grouped is the sums of a warp: of its columns, 16 at a time, by 8 rows of A.
template <class T>
struct Grouped {
  using Format = typename T::Element::Format;
  FragmentC sum[T::kColumns][T::kRows];
  const char *a, *b, *groups;
  // bytes from the words of the groups of the first panel to those of the second
  uint32_t second;
  uint32_t member;

  BG_DEVICE void start(const FragmentLane& lane, uint32_t log, uint32_t first, const char* stages) {
    member = lane.member;
    a = stages + T::kRowA * lane.group + 32 * lane.member;
    b = stages + T::kPanels + 32 * (first + lane.group) + 8 * lane.member;
    groups = stages + T::kGroups + 4 * (first + lane.group);
    second = log == 6 ? 4 * T::TN : 0;
  }

  BG_DEVICE void clear() {
#pragma unroll
    for (int i = 0; i < T::kColumns * T::kRows; ++i) sum[i / T::kRows][i % T::kRows] =
        FragmentC{{0.0f, 0.0f, 0.0f, 0.0f}};
  }

  // multiply adds the products of a step, of 8n rows, and of both its panels or the first alone. kOne: they
  // have the words of their groups in common.
  template <int n, uint32_t kPanels = 2, bool kOne = false>
  BG_DEVICE void multiply(uint32_t stage) {
    uint32_t group[T::kColumns][2], minus[T::kColumns][2];
#pragma unroll
    for (uint32_t h = 0; h < kPanels; ++h) {
      FragmentC part[T::kColumns][n];
      uint2 pair[T::kColumns][2];
#pragma unroll
      for (int i = 0; i < T::kColumns; ++i) {
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          const int column = 16 * i + 8 * r;
          pair[i][r] = *reinterpret_cast<const uint2*>(b + stage + h * T::kPanel + 32 * column);
          if (kOne && h != 0) continue;
          group[i][r] = *reinterpret_cast<const uint32_t*>(groups + stage + h * second + 4 * column);
          minus[i][r] = Format::minus(group[i][r]);
        }
#pragma unroll
        for (int j = 0; j < n; ++j) part[i][j] = FragmentC{{0.0f, 0.0f, 0.0f, 0.0f}};
      }
#pragma unroll
      for (uint32_t u = 0; u < 2; ++u) {
        uint32_t x[T::kColumns][2][2][2];  // by product
#pragma unroll
        for (int i = 0; i < T::kColumns; ++i) {
#pragma unroll
          for (int r = 0; r < 2; ++r) {
            const uint32_t word = u == 0 ? pair[i][r].x : pair[i][r].y;
#pragma unroll
            for (int p = 0; p < 4; ++p) x[i][p / 2][r][p % 2] = Format::weights(word >> 4 * p, minus[i][r]);
          }
        }
#pragma unroll
        for (int j = 0; j < n; ++j) {
          const uint4 line = *reinterpret_cast<const uint4*>(a + stage + T::kRowA * 8 * j + 128 * h + 16 * u);
          const uint32_t low[2] = {line.x, line.y}, high[2] = {line.z, line.w};
#pragma unroll
          for (int i = 0; i < T::kColumns; ++i) {
            Format::multiply(part[i][j], x[i][0], low);
            Format::multiply(part[i][j], x[i][1], high);
          }
        }
      }
#pragma unroll
      for (int i = 0; i < T::kColumns; ++i) {
#pragma unroll
        for (int j = 0; j < n; ++j) {
#pragma unroll
          for (int e = 0; e < 4; ++e) sum[i][j].x[e] = fmaf(__uint_as_float(group[i][e / 2] & ~15u),
              part[i][j].x[e], sum[i][j].x[e]);
        }
      }
    }
  }

  // multiplyScaled is multiply of weights of e2m1, which become numbers times their scales. both: there are
  // two panels. Large scales, which hardly any weights have, have instructions of their own.
  template <Weights kOf, int n>
  BG_DEVICE void multiplyScaled(uint32_t stage, bool both) {
    if constexpr (kOf == Weights::mxfp4) {
      uint32_t all = 0;
#pragma unroll
      for (int i = 0; i < 2 * T::kColumns; ++i) all |= wordOfGroup(stage, 8 * i);
      if (warpAny((all & 0x80808080) != 0)) return multiplyPanels<kOf, n, true>(stage, both);
    }
    // with both, the compiler has the second panel read while the first is multiplied
    if (T::kPanelsAtOnce == 2 && both) multiplyPanels<kOf, n, false>(stage, true);
    else multiplyPanels<kOf, n, false>(stage, both);
  }

  BG_DEVICE uint32_t wordOfGroup(uint32_t stage, int column) const {
    return *reinterpret_cast<const uint32_t*>(groups + stage + 4 * column);
  }

  // multiplyPanels is multiplyScaled, kLarge of scales above 1. A lane's k's of a panel have a scale of a
  // column in common.
  template <Weights kOf, int n, bool kLarge>
  BG_DEVICE void multiplyPanels(uint32_t stage, bool both) {
    using Of = E2M1<Format>;
    constexpr bool kE8M0 = kOf == Weights::mxfp4;
#pragma unroll T::kPanelsAtOnce
    for (uint32_t h = 0; h < 2; ++h) {
      if (h == 1 && !both) break;
      uint2 pair[T::kColumns][2];
      uint32_t byte[T::kColumns][2], scale[T::kColumns][2];
#pragma unroll
      for (int i = 0; i < T::kColumns; ++i) {
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          const int at = 16 * i + 8 * r;
          pair[i][r] = *reinterpret_cast<const uint2*>(b + stage + h * T::kPanel + 32 * at);
          const uint32_t word = wordOfGroup(stage, at + (kE8M0 ? 0 : h * T::TN));
          byte[i][r] = kE8M0 ? Of::twice(word, 2 * h + member / 2) : byteOf(word, member);
          scale[i][r] = kE8M0 ? Of::template ofE8M0<kLarge>(byte[i][r]) : Of::ofE4M3(byte[i][r], 0);
        }
      }
#pragma unroll
      for (uint32_t u = 0; u < 2; ++u) {
        uint32_t x[T::kColumns][2][2][2];
#pragma unroll
        for (int i = 0; i < T::kColumns; ++i) {
#pragma unroll
          for (int r = 0; r < 2; ++r) {
            const uint32_t word = u == 0 ? pair[i][r].x : pair[i][r].y;
#pragma unroll
            for (int p = 0; p < 4; ++p) x[i][p / 2][r][p % 2] = Of::pair(word, p, scale[i][r]);
          }
        }
        if constexpr (kLarge) {
#pragma unroll
          for (int i = 0; i < 8 * T::kColumns; ++i) {
            uint32_t& both = x[i / 8][i / 4 % 2][i / 2 % 2][i % 2];
            both = Format::times(both, Of::restOfE8M0(byte[i / 8][i / 2 % 2]));
          }
        }
#pragma unroll
        for (int j = 0; j < n; ++j) {
          const uint4 line = *reinterpret_cast<const uint4*>(a + stage + T::kRowA * 8 * j + 128 * h + 16 * u);
          const uint32_t low[2] = {line.x, line.y}, high[2] = {line.z, line.w};
#pragma unroll
          for (int i = 0; i < T::kColumns; ++i) {
            Format::multiply(sum[i][j], x[i][0], low);
            Format::multiply(sum[i][j], x[i][1], high);
          }
        }
      }
    }
  }

  // multiplyApart is multiply of weights of MXFP4: of 32 k's a lane has a word of 8, and they are summed from
  // zero.
  template <int n>
  BG_DEVICE void multiplyApart(uint32_t stage, bool both) {
    using Of = E2M1<Format>;
#pragma unroll 1
    for (uint32_t u = 0; u < (both ? 4 : 2); ++u) {
      FragmentC part[T::kColumns][n];
      float scale[T::kColumns][2];
      uint32_t x[T::kColumns][2][2][2];
#pragma unroll
      for (int i = 0; i < T::kColumns; ++i) {
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          const int at = 16 * i + 8 * r;
          const uint32_t word = *reinterpret_cast<const uint32_t*>(b - 4 * member + stage +
              u / 2 * T::kPanel + 32 * at + 16 * (u % 2));
          scale[i][r] = numberE8M0(byteOf(*reinterpret_cast<const uint32_t*>(groups + stage + 4 * at), u));
#pragma unroll
          for (int p = 0; p < 4; ++p) x[i][p / 2][r][p % 2] = Of::pair(word, p, Of::kOne);
        }
      }
#pragma unroll
      for (int j = 0; j < n; ++j) {
        const uint4 line = *reinterpret_cast<const uint4*>(a - 16 * member + stage + T::kRowA * 8 * j +
            64 * u);
        const uint32_t low[2] = {line.x, line.y}, high[2] = {line.z, line.w};
#pragma unroll
        for (int i = 0; i < T::kColumns; ++i) {
          part[i][j] = FragmentC{{0.0f, 0.0f, 0.0f, 0.0f}};
          Format::multiply(part[i][j], x[i][0], low);
          Format::multiply(part[i][j], x[i][1], high);
#pragma unroll
          for (int e = 0; e < 4; ++e) sum[i][j].x[e] = fmaf(scale[i][e / 2], part[i][j].x[e], sum[i][j].x[e]);
        }
      }
    }
  }

  // multiplyE2M1 is multiply of weights of e2m1.
  template <Weights kOf, int n>
  BG_DEVICE void multiplyE2M1(uint32_t stage, bool both) {
    if constexpr (kOf == Weights::mxfp4 && !E2M1<Format>::kWide) multiplyApart<n>(stage, both);
    else multiplyScaled<kOf, n>(stage, both);
  }

  // multiplyRows is multiply of the least of 8, 16 and so on rows that has so many.
  template <int n = 1>
  BG_DEVICE void multiplyRows(uint32_t stage, uint32_t rows, Weights of, bool both) {
    if constexpr (n < T::kRows) {
      if (rows > 8 * n) return multiplyRows<2 * n>(stage, rows, of, both);
    }
    if (of == Weights::int4) multiply<n>(stage);
    else if (of == Weights::mxfp4) multiplyE2M1<Weights::mxfp4, n>(stage, both);
    else multiplyE2M1<Weights::nvfp4, n>(stage, both);
  }

  // scale multiplies by the scales of columns of NVFP4.
  BG_DEVICE void scale(const FragmentLane& lane, const uint32_t* scales, uint32_t first, uint32_t cols) {
#pragma unroll
    for (int i = 0; i < T::kColumns * T::kRows; ++i) scaleColumns<Format>(sum[i / T::kRows][i % T::kRows].x,
        scales, first + 16 * (i / T::kRows) + lane.group, cols);
  }

  // store writes the sums to a tile in shared memory, whose columns of the warp are at `to`.
  BG_DEVICE void store(const FragmentLane& lane, float* to) const {
#pragma unroll
    for (int i = 0; i < T::kColumns; ++i) {
#pragma unroll
      for (int j = 0; j < T::kRows; ++j) {
#pragma unroll
        for (int e = 0; e < 4; ++e) to[(8 * j + 2 * lane.member + e % 2) * T::kPitch + 16 * i + 8 * (e / 2) +
            lane.group] = sum[i][j].x[e];
      }
    }
  }
};

template <class T>
BG_DEVICE void int4Gemm(const uint4* __restrict__ items, const uint32_t* __restrict__ table,
    const float* __restrict__ A, const float* __restrict__ B,
                        float* __restrict__ C, float* __restrict__ workspace, const Epilogue& more) {
  BG_SHARED_DYNAMIC(memory);
  char* const stages = reinterpret_cast<char*>(memory);
  float* const shared = reinterpret_cast<float*>(memory);
  constexpr uint32_t kSums = 4 * T::TM * T::kPitch, kStages = T::kStages * T::kStage;
  uint32_t* const list = reinterpret_cast<uint32_t*>(stages + (kSums > kStages ? kSums : kStages));
  const FragmentLane lane(threadId() % 32);
  const uint32_t first = threadId() / 32 * T::kWarpColumns;

  const Launch launch(table);
  WorkerItems<Epilogue, true> work(table, workerId(), more);
  while (work.any()) {
    const uint32_t number = work.number;
    Item item = more.item(items, number);
    awaitEarlier(item);
    work.ask();
    const uint32_t rows = item.rows();
    more.template findRows<T>(items, number, item.depth == 0 ? 0 : rows, list);
    barrier();
    Grouped<T> grouped;
    grouped.clear();
    if (item.depth == 0) {
      work.keep();
    } else {
      GroupedRows<T, T::kThreads> a(threadId(), more.operandA(items, number,
          reinterpret_cast<const uint16_t*>(A)) + item.offA, item, [&](uint32_t r) { return list[r]; },
          sharedAddress(stages));
      const uint32_t log = wordsOf64(more.flags) ? 6 : 7;
      GroupedColumns<T> b(more.operandB(items, number, item, reinterpret_cast<const uint32_t*>(B)) +
          item.offB / 8, wordsOfGroups(more, item, itemEpilogueAt(items, number)), log, item,
          sharedAddress(stages));
      uint32_t left = item.depth, ahead = left;
      auto copy = [&](uint32_t stage) {
        if (ahead != 0) {
          a.copy(ahead, stage);
          b.copy(ahead, stage);
          ahead -= min(ahead, static_cast<uint32_t>(T::TK));
        }
        commitCopies();
      };
#pragma unroll
      for (uint32_t s = 0; s < T::kStages - 1; ++s) copy(s * T::kStage);
      work.keep();
      grouped.start(lane, log, first, stages);
      constexpr uint32_t kLast = (T::kStages - 1) * T::kStage;
      uint32_t in = kLast, out = 0;
#pragma unroll 1
      for (;;) {
        waitCopies<T::kStages - 2>();
        barrier();
        copy(in);
        if (first < item.cols()) grouped.multiplyRows(out, rows, weightsOf(more), left > 64);
        if (left <= T::TK) break;
        left -= T::TK;
        in = in == kLast ? 0 : in + T::kStage;
        out = out == kLast ? 0 : out + T::kStage;
      }
      if (more.has(kGroups16)) grouped.scale(lane, more.rows + itemEpilogueAt(items, number).scaleBAt, first,
          item.cols());
    }
    if (work.last()) launch.loaded();
    barrier();
    grouped.store(lane, shared + first);
    barrier();
    more.template finish<T, 1, T::kPitch, typename T::Element>(shared, items, number, item, C, workspace);
    work.go(shared);
    if (work.any()) barrier();
  }
}
