// The items of a worker of wgmma.cuh, and how its consumers bring their sums to C or to a partial tile.
//
// One warp publishes items, and all the others read them from shared memory. Sums go through shared memory,
// so that a warp stores 128 adjacent bytes at a time.
#pragma once

#include "../epilogue/epilogue.cuh"
#include "../ptx/mma.cuh"
#include "store.cuh"
#include "wgmma_operand.cuh"

constexpr int kItemPlaces = 16;  // items in shared memory: see WgmmaTile
constexpr uint32_t kNoItem = 0xffffffff;  // depth that ends the work

// stepsOf is the steps of an item, of 32 words of a row each.
template <class T>
BG_DEVICE uint32_t stepsOf(const Item& item) {
  constexpr uint32_t kDepth = 32 * T::Element::kPer;
  return max((item.depth + kDepth - 1) / kDepth, 1u);
}
BG_DEVICE bool isNone(const Item& item) { return uniform(item.depth) == kNoItem; }

// Items is the ring of published items: their words, and the phases that end when they
// are published.
template <class More = NoEpilogue>
struct Items {
  static constexpr uint32_t kBytes = 4 * More::kWords;  // of an item
  char* places;
  SharedAddress ready;
  More more;

  BG_DEVICE const uint4* words() const { return reinterpret_cast<const uint4*>(places); }
  BG_DEVICE Item wait(uint32_t number) const {
    waitPhase(ready + 8 * (number % kItemPlaces), number / kItemPlaces & 1);
    return more.item(words(), number % kItemPlaces);
  }
  // operandA and operandB are where those of a published item begin.
  template <class Number>
  BG_DEVICE const Number* operandA(uint32_t number, const Number* A) const {
    return more.operandA(words(), number % kItemPlaces, A);
  }
  template <class Number>
  BG_DEVICE const Number* operandB(uint32_t number, const Item& item, const Number* B) const {
    return more.operandB(words(), number % kItemPlaces, item, B);
  }
};

// Feed publishes the worker's items in shared memory, one ahead of the loader. The lanes of one warp run it.
// Workers of a launch with a dynamic table take chunks of items from its counter
// (internal/encoding/dynamic.go).
//
// Loaders have a loop for either, kDynamic: in one loop that asks for each item the compiler spilled 20
// registers more (nvcc 12.4).
template <class More = NoEpilogue>
struct Feed {
  const uint32_t* items;
  uint32_t item, end, word, number;
  uint32_t* counter;  // dynamic: the chunk that nobody has taken
  // dynamic: in lane 0 the one that was taken, in others what the table has from kDynamicFirst on
  uint32_t chunk;
  uint32_t left;      // dynamic: items of the chunk after this one

  // start is called before the ring can be used, so that the first item is on its way early.
  BG_DEVICE void start(const uint4* items_, const uint32_t* marked, const More& more) {
    items = reinterpret_cast<const uint32_t*>(items_);
    item = workerId();
    if (isDynamic(marked)) {
      static_assert(kDynamicChunk == kDynamicFirst + 1 && kDynamicLast == kDynamicChunk + 1, "other words");
      const uint32_t* const table = dynamicTable(unmarked(marked));
      const uint32_t lane = threadId() % 32;
      counter = const_cast<uint32_t*>(table) + kDynamicNext;
      end = more.products() * table[kDynamicEnd];
      chunk = lane == 0 ? item - workers() : (lane < 3 ? more.products() :
          1) * table[kDynamicFirst - 1 + min(lane, 3u)];
      begin();
    } else {
      end = item + 1;
      if (hasTable(marked)) {
        const uint32_t* const table = unmarked(marked);
        end = table[item + 1];
        item = table[item];
      }
    }
    number = 0;
    fetch();
  }

  // begin goes to the chunk that was taken.
  BG_DEVICE void begin() {
    const uint32_t size = ofLane<2>(chunk);
    item = ofLane<1>(chunk) + size * ofLane<0>(chunk);
    left = size - 1;
  }

  // fetch reads the words of the item to come.
  BG_DEVICE void fetch() {
    const uint32_t lane = threadId() % 32;
    word = kNoItem;
    if (item < end && lane < More::kWords) word = items[More::kWords * static_cast<uint64_t>(item) + lane];
  }

  BG_DEVICE void publish(const Items<More>& ring) {
    const uint32_t lane = threadId() % 32, place = number++ % kItemPlaces;
    if (lane < More::kWords) reinterpret_cast<uint32_t*>(ring.places + ring.kBytes * place)[lane] = word;
    warpBarrier();
    if (lane == 0) arrive(ring.ready + 8 * place);
  }

  // next publishes an item and fetches the one after it, unless that is not known yet.
  template <bool kDynamic>
  BG_DEVICE void next(const Items<More>& ring) {
    publish(ring);
    if constexpr (!kDynamic) {
      ++item;
      fetch();
    }
  }

  // before goes before the loads of an item, and after goes after them. A dynamic worker asks for its next
  // chunk just before the loads of this one, so that it takes no chunk before it can compute it, and
  // publishes items after loads, since the answer takes long.
  template <bool kDynamic>
  BG_DEVICE void before(const Items<More>& ring) {
    if constexpr (!kDynamic) {
      next<false>(ring);
    } else {
      if (left + 1 == ofLane<2>(chunk)) takeNext(counter, ofLane<3>(chunk), threadId() % 32 == 0, chunk);
      if (left != 0) {
        ++item;
        fetch();
      }
    }
  }
  template <bool kDynamic>
  BG_DEVICE void after(const Items<More>& ring) {
    if constexpr (kDynamic) {
      if (left != 0) {
        --left;
      } else {
        begin();
        fetch();
      }
      publish(ring);
    }
  }
};

// 16 x 32 sums of a warp in shared memory: words between rows, so that the
// rows of a fragment are in different banks, and bytes.
constexpr uint32_t kOutPitch = 40, kOutBytes = 16 * 4 * kOutPitch;

// Rows is where a warp's 16 rows of sums go: C or a partial tile.
template <class To>
struct Rows {
  typename To::Number* to;  // the lane's first element
  uint32_t ld, rows, cols;
  float alpha, beta;

  // store writes 32 columns from col on, which lie in shared memory. Reads of C come
  // first and are not predicated, so that they overlap; they repeat the last row.
  template <bool kReads>
  BG_DEVICE void store(const float* from, uint32_t col) const {
    constexpr int kAtOnce = 8;
    typename To::Number* at = to + col;
#pragma unroll
    for (int first = 0; first < 16; first += kAtOnce) {
      if (static_cast<uint32_t>(first) >= rows) break;
      float old[kAtOnce];
      if (kReads) {
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i) old[i] = To::number(*rowsOn(at,
            min(static_cast<uint32_t>(i), rows - 1 - first), ld));
      }
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        float x = alpha * from[(first + i) * kOutPitch];
        if (kReads) x = fmaf(beta, old[i], x);
        if (static_cast<uint32_t>(first + i) < rows) *at = To::bits(x);
        at += ld;
      }
    }
  }
};

// recompute is a sum by FMA, which gives what fp32 gives: of row `from` of A and column col of the tile.
// Lanes take k's round-robin.
template <bool kTransA, bool kTransB, class Number>
BG_DEVICE float recompute(const Item& item, uint32_t from, uint32_t col, const Number* A, const Number* B) {
  const uint32_t lane = threadId() % 32;
  float x = 0.0f;
#pragma unroll 4
  for (uint32_t k = lane; k < item.depth; k += 32) {
    const float a = kTransA ? rowsOn(A + item.offA, k, item.lda)[from] :
        rowsOn(A + item.offA, from, item.lda)[k];
    const float b = kTransB ? rowsOn(B + item.offB, col, item.ldb)[k] :
        rowsOn(B + item.offB, k, item.ldb)[col];
    x = fmaf(a, b, x);
  }
  float all = 0.0f;
#pragma unroll 1
  for (uint32_t i = 0; i < min(item.depth, 32u); ++i) all += __uint_as_float(ofLane(__float_as_uint(x), i));
  return all;
}

// repair computes once more those of 32 columns' sums in shared memory, from column col on, that are not
// finite: of the warp's rows of the tile, the first of which is `row`. rowAt says which of A they are.
template <class T, bool kTransA, bool kTransB, class RowAt = AllRows>
BG_DEVICE void repair(float* out, const Item& item, uint32_t row, uint32_t col,
    const typename T::Element::Number* A,
                      const typename T::Element::Number* B, const RowAt& rowAt = {}) {
  if constexpr (T::kEmulated) {
    const uint32_t lane = threadId() % 32, end = min(item.cols(), col + 32);
#pragma unroll 1
    for (uint32_t r = 0; r < 16 && row + r < item.rows(); ++r) {
      const bool wrong = col + lane < end && !(out[r * kOutPitch + lane] * 0.0f == 0.0f);
      if (!warpAny(wrong)) continue;
#pragma unroll 1
      for (uint32_t c = col; c < end; ++c) {
        if (ofLane(wrong, c - col) == 0) continue;
        const float x = recompute<kTransA, kTransB>(item, kTransA ? row + r : rowAt(row + r), c, A, B);
        if (lane == c - col) out[r * kOutPitch + lane] = x;
      }
    }
  }
}

// alphaOf and betaOf are those of an item: a partial tile has its sums as they are.
BG_DEVICE float alphaOf(const Item& item) { return item.slot != kFinal ? 1.0f : item.depth == 0 ? 0.0f :
    __uint_as_float(item.alpha); }
BG_DEVICE float betaOf(const Item& item) { return item.slot == kFinal ? __uint_as_float(item.beta) : 0.0f; }

// rowsOf is where the warp's rows go: `to` is C's element (row, 0) of the tile, or that of the partial tile.
template <class To>
BG_DEVICE Rows<To> rowsOf(const Item& item, uint32_t row, typename To::Number* to, uint32_t ld) {
  Rows<To> rows;
  rows.ld = ld;
  rows.to = rowsOn(to, row, ld) + threadId() % 32;
  rows.rows = item.rows() > row ? min(item.rows() - row, 16u) : 0;
  rows.alpha = alphaOf(item);
  rows.beta = betaOf(item);
  return rows;
}

// kScaleOf is what the sums of a tile are multiplied by: the scale of ScaledSplit.
template <class T>
constexpr float kScaleOf = T::kEmulated ? kProductScale : 1.0f;

// overflowed reports whether ScaledSplit left one of the warp's sums not finite, so that it is computed
// once more.
template <class T, int n>
BG_DEVICE bool overflowed(const float (&sum)[n]) {
  if constexpr (!T::kEmulated) return false;
  float zero[4] = {0.0f, 0.0f, 0.0f, 0.0f};  // NaN when a sum is not finite; four, so that additions overlap
#pragma unroll
  for (int i = 0; i < n; ++i) zero[i % 4] = fmaf(sum[i], 0.0f, zero[i % 4]);
  return warpAny(!(zero[0] + zero[1] + zero[2] + zero[3] == 0.0f));
}

// throughShared brings the warp's 16 rows of first 2n columns, times scale, to shared memory, 32 columns at a
// time, and calls store with the first of them, of which a lane reads one column. Where it is, again repairs
// them before.
template <int n, class Again, class Store>
BG_DEVICE void throughShared(const float (&sum)[n], float scale, float* out, bool isAgain, Again again,
    Store store) {
  const uint32_t lane = threadId() % 32, group = lane / 4, member = lane % 4;
#pragma unroll
  for (int first = 0; first < n; first += 16) {  // of the sums for 32 columns
    const uint32_t col = 2 * first;
    warpBarrier();
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const float* x = sum + first + 4 * j;
      storeVector(out + group * kOutPitch + 8 * j + 2 * member, Vector<2>{{scale * x[0], scale * x[1]}});
      storeVector(out + (group + 8) * kOutPitch + 8 * j + 2 * member,
          Vector<2>{{scale * x[2], scale * x[3]}});
    }
    warpBarrier();
    if (isAgain) again(col);
    store(col);
  }
}

// storeRows writes the warp's 16 rows of first 2n columns so that lanes store adjacent columns.
template <class T, bool kTransA, bool kTransB, int n, class To>
BG_DEVICE void storeRows(const float (&sum)[n], float* out, const Item& item, uint32_t row,
    const typename T::Element::Number* A,
                         const typename T::Element::Number* B, const Rows<To>& rows) {
  const uint32_t lane = threadId() % 32;
  auto again = [&](uint32_t col) { repair<T, kTransA, kTransB>(out, item, row, col, A, B); };
  throughShared(sum, kScaleOf<T>, out, overflowed<T>(sum), again, [&](uint32_t col) {
    if (col + lane < item.cols()) {
      if (rows.beta == 0.0f) rows.template store<false>(out + lane, col);
      else rows.template store<true>(out + lane, col);
    }
  });
}

// storeSums writes them to C, or to the partial tile of the item.
template <class T, bool kTransA, bool kTransB, int n>
BG_DEVICE void storeSums(const float (&sum)[n], float* out, const Item& item, uint32_t row,
    const typename T::Element::Number* A,
                         const typename T::Element::Number* B, float* C, float* workspace) {
  const bool final = item.slot == kFinal;
  if constexpr (T::Element::kPer != 1) {
    if (final && (item.flags & kItemFloatC) == 0) {
      return T::Element::withC(item.flags, [&](auto to) {
        auto* const c = reinterpret_cast<typename decltype(to)::Number*>(C) + item.offC;
        storeRows<T, kTransA, kTransB>(sum, out, item, row, A, B,
            rowsOf<decltype(to)>(item, row, c, item.ldc));
      });
    }
  }
  float* const to = final ? C + item.offC : workspace + static_cast<uint64_t>(item.slot) * (T::TM * T::TN);
  storeRows<T, kTransA, kTransB>(sum, out, item, row, A, B,
      rowsOf<Floats>(item, row, to, final ? item.ldc : T::TN));
}

// finishRows is finishPartial for a warp's 16 rows of a part. The same warp of other groups has these rows of
// the other parts, so that each warp counts for itself and none waits for another.
template <class T>
BG_DEVICE void finishRows(const uint4* items, const Item& item, uint32_t row, float* C,
    const float* workspace) {
  if ((item.flags & kItemPartial) == 0 || row >= item.rows()) return;
  const FixupItem tile = fixupAt(fixupOf(items, item), 0);
  if (!warpArrivesLast(countersOf(items, item) + row / 16, tile.count)) return;
  constexpr int kAcross = T::TN / 4, kApart = 32 / kAcross;
  const uint32_t lane = threadId() % 32, col = lane % kAcross * 4;
  if (col < tile.cols()) sumPartials<T, kApart, 4, 4>(tile, row + lane / kAcross, min(tile.rows(), row + 16),
      col, C, workspace);
}

constexpr uint32_t kNoRow = 0xffffffff;

// storeColumns is storeLines for rows of C that begin anywhere, or are of fp32: lanes store adjacent columns.
// The number of a row of C stands after its sums in shared memory.
template <class To, int n, class RowAt>
BG_DEVICE void storeColumns(const float (&sum)[n], float* out, const Item& item, uint32_t row,
    typename To::Number* to, RowAt rowAt) {
  const uint32_t lane = threadId() % 32;
  constexpr uint32_t kRowAt = 32;
  constexpr int kAtOnce = 8;
  static_assert(kRowAt < kOutPitch, "no room for a row's number");
  warpBarrier();
  if (lane < 16) out[lane * kOutPitch + kRowAt] = __uint_as_float(row + lane < item.rows() ?
      rowAt(row + lane) : kNoRow);
  throughShared(sum, 1.0f, out, false, [](uint32_t) {}, [&](uint32_t col) {
    if (col + lane >= item.cols()) return;
#pragma unroll
    for (int first = 0; first < 16; first += kAtOnce) {
      if (row + first >= item.rows()) break;
      uint32_t rows[kAtOnce];
      float value[kAtOnce];
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        rows[i] = __float_as_uint(out[(first + i) * kOutPitch + kRowAt]);
        value[i] = out[(first + i) * kOutPitch + lane];
      }
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        if (rows[i] != kNoRow) rowsOn(to, rows[i], item.ldc)[col + lane] = To::bits(value[i]);
      }
    }
  });
}

// Tiles of fewer rows than columns: a kernel of wgmma.cuh that multiplies the transpose of B by that of A,
// and stores the transpose of its sums. A consumer has 64 columns of C, and multiplies by 32 of its rows or
// by all: where problems end with a part of a tile, or have few rows, it does half of the work, which tiles
// whose consumers have 64 rows cannot.
//
// What lies along K in A or B does so in its transpose, which is in the same memory. So nothing is moved.

// Swapped has the operands of items change places, and rows and columns with them.
struct Swapped : NoEpilogue {
  BG_DEVICE Item item(const uint4* items, uint32_t number) const {
    const Item x = itemAt(items, number);
    return {x.offB, x.offA, x.offC, x.depth, x.ldb, x.lda, x.ldc, extentOf(x.cols(), x.rows()), x.alpha,
        x.beta, x.slot, x.flags};
  }
};
template <class More>
constexpr bool kIsSwapped = false;
template <>
constexpr bool kIsSwapped<Swapped> = true;

// TileOfC is an swapped tile as it lies in C and in the workspace.
template <class T>
struct TileOfC {
  static constexpr int TM = T::TN, TN = T::TM;
};

// storeSwapped writes the warp's 16 columns of C, or of the item's partial tile, of its first 2n rows. Lanes
// store 8 adjacent columns, 32 bytes, of 4 rows.
template <class T, bool kTransA, bool kTransB, int n>
BG_DEVICE void storeSwapped(const float (&sum)[n], float* out, const Item& item, uint32_t col, const float* A,
    const float* B,
                              float* C, float* workspace) {
  constexpr int kAcross = 8, kDown = 32 / kAcross, kTimes = 32 / kDown;
  const bool final = item.slot == kFinal;
  const uint32_t lane = threadId() % 32, across = lane % kAcross, down = lane / kAcross,
      ld = final ? item.ldc : T::TM;
  const float alpha = alphaOf(item), beta = betaOf(item);
  float* const to = (final ? C + item.offC : workspace + static_cast<uint64_t>(item.slot) * (T::TM * T::TN)) +
      col + across;
  auto again = [&](uint32_t row) {
    repair<T, kTransA, kTransB>(out, item, col, row, A, B);
    warpBarrier();  // other lanes store what a lane has repaired
  };
  throughShared(sum, kScaleOf<T>, out, overflowed<T>(sum), again, [&](uint32_t row) {
#pragma unroll
    for (int first = 0; first < 16; first += kAcross) {
      if (col + first + across >= item.rows()) break;
      const float* const from = out + (first + across) * kOutPitch + down;
      float* at[kTimes];
      float old[kTimes];
#pragma unroll
      for (int i = 0; i < kTimes; ++i) {
        const uint32_t r = row + down + kDown * i;
        at[i] = r < item.cols() ? rowsOn(to + first, r, ld) : nullptr;
        old[i] = beta != 0.0f && at[i] != nullptr ? *at[i] : 0.0f;
      }
#pragma unroll
      for (int i = 0; i < kTimes; ++i) {
        float x = alpha * from[kDown * i];
        if (beta != 0.0f) x = fmaf(beta, old[i], x);
        if (at[i] != nullptr) *at[i] = x;
      }
    }
  });
}

// finishColumns is finishRows for a warp's 16 columns of C.
template <class T>
BG_DEVICE void finishColumns(const uint4* items, const Item& item, uint32_t col, float* C,
    const float* workspace) {
  if ((item.flags & kItemPartial) == 0 || col >= item.rows()) return;
  const FixupItem tile = fixupAt(fixupOf(items, item), 0);
  if (!warpArrivesLast(countersOf(items, item) + col / 16, tile.count)) return;
  constexpr int kAcross = 16 / 4, kApart = 32 / kAcross;
  const uint32_t lane = threadId() % 32, first = col + lane % kAcross * 4;
  if (first < tile.cols()) sumPartials<TileOfC<T>, kApart, 4,
      4>(tile, lane / kAcross, tile.rows(), first, C, workspace);
}
