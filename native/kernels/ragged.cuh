// The kernels that make the items of a ragged plan (internal/encoding/ragged.go has the words), from sizes
// that are on the device. They refuse what does not fit, choose a tile shape for each group, order groups,
// longest K first, count tiles, and write items and tables. Each thread group does all but the writing for
// itself, in shared memory, because a second launch takes longer than that. So all that they find must be the
// same: sums are of integers, and the order is stable. Most of the time goes into waiting for memory and for
// instructions that are new, so that there is a kernel for each form.
//
// Kernels of plans with an epilogue (kTail) take records and write items that have a tail. Rows that are
// gathered or scattered are any of a matrix, so that items begin with the first. A gated tile has two items.
// Tables count items, but those of dynamic workers count tiles.
#pragma once

#include "items.cuh"
#include "load.cuh"
#include "ragged_order.cuh"

constexpr uint32_t kOne = 0x3f800000, kOneUpper = 0x3ff00000;  // bits of 1, and the upper ones of fp64

// depthOf is the K that is multiplied: none where alpha is 0, of either sign.
BG_DEVICE uint32_t depthOf(const Record& r) { return r.alpha << 1 == 0 ? 0 : r.k; }

// within reports whether rows x cols elements of a matrix lie in so many.
BG_DEVICE bool within(uint32_t off, uint32_t ld, uint32_t rows, uint32_t cols, uint32_t length) {
  return ld >= cols && ld <= 0x7fffffff && static_cast<uint64_t>(rows - 1) * ld + off + cols <= length;
}

// listed reports whether so many elements or words from first on lie in length.
BG_DEVICE bool listed(uint32_t first, uint32_t n, uint32_t length) {
  return static_cast<uint64_t>(first) + n <= length;
}

// Ends are where a group begins and ends.
struct Ends {
  uint32_t first, end;
};

// TileAt is a tile of a group: its row and column of tiles.
struct TileAt {
  uint32_t down, across;
};

// Sizes are what the buffer of sizes has of an entry, in each of its forms.
template <uint32_t kForm>
struct Form {
  using Sizes = Ends;
};
template <>
struct Form<kRecords> {
  using Sizes = Record;
};

// Ragged makes items from sizes of a form. Plan is Single or Many.
template <uint32_t kForm, class Plan, bool kTail>
struct Ragged {
  static constexpr uint32_t kThreads = Plan::kThreads;
  static constexpr uint32_t kGroups = kGroups64 | kGroups128 | (kHasE2M1 ? kGroups32 | kGroups16 : 0),
      kScales = kScaleA | kScaleB | kGroups | kBlocks;
  // whose records have scales, or what fp64 has in their place
  static constexpr uint32_t kRecordsScaled = kScales | (kHasDoubles ? kDoubles : 0);
  static constexpr bool kByRows = kForm == kEndsOfRows;
  using Sizes = typename Form<kForm>::Sizes;

  Plan& plan;
  const uint32_t* sizes;
  uint32_t extent;  // of the bound, how much is there; 0: all
  uint32_t flags;   // of the epilogue
  uint32_t self;    // number of the thread group
  typename Plan::Own own;
  EpilogueBounds more;  // where there is a tail

  // has reports whether the epilogue has one of the flags.
  BG_DEVICE bool has(uint32_t flag) const { return kTail && (flags & flag) != 0; }
  BG_DEVICE uint32_t products() const { return has(kGated) ? 2 : 1; }

  // bound is the most that ends may be.
  BG_DEVICE uint32_t bound() const { return extent != 0 ? extent : kByRows ? plan.bounds.m : plan.bounds.k; }

  // recordOf is where the record of an entry begins.
  BG_DEVICE const uint4* recordOf(uint32_t entry) const {
    const uint32_t words =
        !kTail ? kRecordWords : has(kRecordsScaled) ? kScaledRecordWords : kEpilogueRecordWords;
    return reinterpret_cast<const uint4*>(sizes) + words / 4 * entry;
  }

  // sizesAt are the sizes of an entry. That after the groups begins where the last one ends that is not
  // refused.
  BG_DEVICE Sizes sizesAt(uint32_t entry) const {
    if constexpr (kForm == kRecords) {
      return recordAt(recordOf(entry));
    } else {
      const bool group = entry < plan.bounds.groups;
      const uint32_t next = group ? entry : min(entry, plan.found.refused);
      return {next == 0 ? 0 : sizes[next - 1], group ? sizes[entry] : bound()};
    }
  }

  // fills reports whether an entry is C that no group computes: rows after the last one, or all of a group of
  // depth that is refused.
  BG_DEVICE bool fills(uint32_t entry) const {
    if (kByRows) return entry == plan.bounds.groups;
    return kForm == kEndsOfDepth && entry >= plan.found.refused && plan.bounds.rest != one();
  }

  // groupOf is the problem of an entry, right if its sizes fit.
  BG_DEVICE Record groupOf(const Sizes& at, uint32_t entry) const {
    if constexpr (kForm == kRecords) {
      return at;
    } else {
      const Bounds& b = plan.bounds;
      Record r = {b.m, b.n, b.k, b.lda, b.ldb, b.ldc, b.offA, b.offB, b.offC, b.alpha, b.beta, 0};
      if (kByRows) {
        r.m = at.end - at.first;
        r.offC += at.first * b.ldc;
      } else {
        r.k = at.end - at.first;
        r.offC += entry * b.stride;
      }
      if (fills(entry)) {
        r.alpha = 0;
        r.beta = b.rest;
      } else if (kByRows) {
        r.offA += at.first * (b.transA != 0 ? 1 : b.lda);
        r.offB += entry * b.stride;
      } else {
        r.offA += at.first * (b.transA != 0 ? b.lda : 1);
        r.offB += at.first * (b.transB != 0 ? 1 : b.ldb);
      }
      return r;
    }
  }

  // storedA and storedC are the rows that A, which is not transposed where any are gathered, and C have.
  BG_DEVICE uint32_t storedA(uint32_t rows) const { return has(kGather) ? more.gatherRows : rows; }
  BG_DEVICE uint32_t storedC(uint32_t rows) const { return has(kScatter) ? more.scatterRows : rows; }

  // fits reports whether the sizes of a group keep to the bounds.
  BG_DEVICE bool fits(const Sizes& at, uint32_t entry) const {
    const Bounds& b = plan.bounds;
    if constexpr (kForm == kRecords) {
      if (at.m > b.m || at.n > b.n || at.k > b.k) return false;
      if (at.m == 0 || at.n == 0) return true;
      const bool transA = b.transA != 0, transB = b.transB != 0;
      const bool inA =
          within(at.offA, at.lda, storedA(transA ? at.k : at.m), transA ? at.m : at.k, b.lenA);
      const bool inB = within(at.offB, at.ldb, transB ? at.n : at.k, transB ? at.k : at.n, b.lenB);
      return (depthOf(at) == 0 || (inA && inB)) && within(at.offC, at.ldc, storedC(at.m), at.n, b.lenC) &&
             (!kTail || tailFits(at, entry));
    } else {
      return at.first <= at.end && at.end <= bound();
    }
  }

  // tailFits is the same of the tail of a record.
  BG_DEVICE bool tailFits(const Record& r, uint32_t entry) const {
    const RecordTail at = recordTailAt(recordOf(entry));
    const bool transB = plan.bounds.transB != 0, pointers = has(kPointersA | kPointersB | kPointersC);
    if (has(kGated)) {
      if (r.beta << 1 != 0) return false;  // which of both products would C come to?
      const uint32_t rows = transB ? r.n : r.k, cols = transB ? r.k : r.n;
      if (depthOf(r) != 0 && !within(at.offB2, at.ldb2, rows, cols, more.lenB2)) return false;
    }
    return (!has(kBias) || listed(at.bias, products() * r.n, more.lenBias)) &&
           (!has(kGather) || listed(at.rowsA, r.m, more.lenRows)) &&
           (!has(kScatter) || listed(at.rowsC, r.m, more.lenRows)) &&
           (!has(kWeights) || listed(at.weights, r.m, more.lenRows)) &&
           (!pointers || listed(at.pointers, kPointerWords, more.lenRows)) &&
           (!has(kScales) || scalesFit(r, at, recordScalesAt(recordOf(entry))));
  }

  BG_DEVICE bool scalesFit(const Record& r, const RecordTail& tail, const RecordScales& at) const {
    const uint64_t rows = has(kRowsA | kBlocks) ? storedA(r.m) : 1, scalesA = rows * scalesOfRow(r.k);
    const uint64_t scales = scalesB(r.n, r.k, r.ldb) + (has(kGated) ? scalesB(r.n, r.k, tail.ldb2) : 0);
    return (!has(kScaleA | kBlocks) || at.scaleA + scalesA <= more.lenRows) &&
           (!has(kScaleB | kGroups | kBlocks) || at.scaleB + scales <= more.lenRows) &&
           grouped(r.k, r.offB, r.ldb) && (!has(kGated) || grouped(0, tail.offB2, tail.ldb2));
  }

  // scalesB is how many words the scales of B have, without those of B2.
  BG_DEVICE uint64_t scalesB(uint32_t cols, uint32_t k, uint32_t ldb) const {
    if (has(kBlocks)) return static_cast<uint64_t>(scaleBlocks(cols)) * scaleBlocks(k);
    if (has(kGroups)) return wordRows(k) * ldb;  // less than B has words
    return !has(kScaleB) ? 0 : has(kColumnsB) ? cols * scaleWords(flags) : 1;
  }
  // scalesOfRow is how many words those of a row of A have, where rows have any.
  BG_DEVICE uint32_t scalesOfRow(uint32_t k) const {
    return has(kBlocks) ? scaleBlocks(k) : scaleWords(flags);
  }
  // wordRows is how many rows of words a B of so many k's has. grouped reports whether it keeps to groups,
  // and to lines. The last words of MXFP4 may be half used.
  BG_DEVICE uint32_t wordRows(uint32_t k) const {
    if constexpr (!kHasE2M1) return k / (has(kGroups64) ? 64 : 128);
    const uint32_t log = wordsOf64(flags) ? 6 : 7;
    return ((k + (1u << log) - 1) >> log) + (has(kGroups16) && k != 0 ? 1 : 0);
  }
  BG_DEVICE bool grouped(uint32_t k, uint32_t offB, uint32_t ldb) const {
    const uint32_t unit = (kHasE2M1 ? !has(kGroups128) : has(kGroups64)) ? 64 : 128;
    return !has(kGroups) || (k % unit == 0 && ldb % 8 == 0 && offB % 32 == 0);
  }

  // refuse finds the first group that does not fit, by its own sizes or, of records, because with it there
  // are more rows than the bound.
  BG_DEVICE void refuse() {
    uint32_t low = 0, high = 0;
#pragma unroll 1
    for (uint32_t g = threadId(); g < plan.bounds.groups; g += kThreads) {
      const Sizes at = sizesAt(g);
      if (!fits(at, g)) {
        lowerShared(&plan.found.refused, g);
      } else if constexpr (kForm == kRecords) {
        low += at.m & 0xffff;
        high += at.m >> 16;
      }
    }
    if (kForm == kRecords) {
      addShared(&plan.found.rows[0], low);
      addShared(&plan.found.rows[1], high);
    }
    barrier();
    if constexpr (kForm == kRecords) {
      if (plan.found.rows[0] + static_cast<uint64_t>(plan.found.rows[1]) * 65536 > plan.bounds.m) limitRows();
    }
  }

  // tilesOf is the number of tiles of a group, of the kernel's shape. An epilogue changes C = 1 * C too.
  static BG_DEVICE uint32_t tilesOf(const RaggedKernel& k, const Record& r) {
    if (r.m == 0 || r.n == 0 || (!kTail && depthOf(r) == 0 && r.beta == kOne)) return 0;
    return up(r.m, k.tm) * up(r.n, k.tn);
  }

  // one is the upper word of a beta of 1.
  BG_DEVICE uint32_t one() const { return kHasDoubles && has(kDoubles) ? kOneUpper : kOne; }

  // keeps reports whether rows of fp64 that no group computes stay as they are: no epilogue changes them.
  BG_DEVICE bool keeps(uint32_t entry) const {
    constexpr uint32_t kChanges = kActivation | kBias | kGated | kWeights | kScatter;
    return kHasDoubles && kByRows && has(kDoubles) && !has(kChanges) && fills(entry) &&
           plan.bounds.rest == one();
  }

  static BG_DEVICE uint32_t stepsOf(const RaggedKernel& k, const Record& r) {
    return max(up(depthOf(r), k.tk), 1u);
  }

  // work predicts what tiles of a group take of a saturated compute unit.
  static BG_DEVICE float work(const RaggedKernel& k, const Record& r) {
    const float tiles = static_cast<float>(tilesOf(k, r)), steps = static_cast<float>(stepsOf(k, r));
    return tiles * (steps * __uint_as_float(k.step) + __uint_as_float(k.worker));
  }

  // choose finds keys and tiles of all entries. Where these are few in all, it chooses again, the second
  // kernel for each.
  BG_DEVICE void choose() {
    const uint32_t entries = plan.bounds.entries, bins = plan.bounds.bins, kernels = plan.bounds.kernels;
    const uint32_t end = up(entries, 5) * kChunk;
    plan.note(own, threadId(), kNoKey, 0);
    bool all = false;
    do {
      uint32_t filled = 0;
#pragma unroll 1
      for (uint32_t e = threadId(); e < end; e += kThreads) {
        uint32_t key = kNoKey, tiles = 0;
        if (e < entries) {
          key = bins - 1;
          if (e < plan.found.refused || fills(e)) {
            const Record r = groupOf(sizesAt(e), e);
            const RaggedKernel* const tile = plan.bounds.tile;
            const bool second = kernels > 1 && (all || work(tile[1], r) < work(tile[0], r));
            const RaggedKernel& k = tile[second ? 1 : 0];
            tiles = keeps(e) ? 0 : tilesOf(k, r);
            if (bins > 1) key -= min(stepsOf(k, r) >> k.shift, bins - 1);
            if (second) key += bins;
          }
        }
        plan.note(own, e, key, tiles);
        filled += tiles;
      }
      if (kernels == 1 || all) break;
      addShared(&plan.found.filled, filled);
      barrier();
      all = plan.found.filled < plan.bounds.fill;
    } while (all);
    barrier();
  }

  // limitRows refuses the first record with which there are more rows than the bound, where there is one.
  BG_DEVICE void limitRows() {
    if (threadId() == 0) {
      uint64_t rows = 0;
#pragma unroll 1
      for (uint32_t g = 0; g < plan.bounds.groups && g < plan.found.refused; ++g) {
        rows += sizesAt(g).m;
        if (rows > plan.bounds.m) plan.found.refused = g;
      }
    }
    barrier();
  }

  // dealOf is how a kernel's tiles are dealt.
  BG_DEVICE Deal dealOf(uint32_t kernel) const {
    const uint32_t entries = plan.bounds.entries, all = plan.starts[entries];
    const uint32_t workers = plan.bounds.tile[kernel].workers;
    uint32_t first = 0, tiles = all;
    if (plan.bounds.kernels > 1) {
      const uint32_t split = plan.starts[min(plan.found.second, entries)];
      first = kernel == 0 ? 0 : split;
      tiles = kernel == 0 ? split : all - split;
    }
    return {first, tiles, workers};
  }

  // rankOf is the rank of a tile's group: the last that begins there or before.
  BG_DEVICE uint32_t rankOf(uint32_t tile) const {
    uint32_t low = 0, high = plan.bounds.entries;
    while (high - low > 1) {
      const uint32_t middle = (low + high) / 2;
      if (plan.starts[middle] <= tile) low = middle;
      else high = middle;
    }
    return low;
  }

  // tileOf is where tile `number` of a group lies. Tiles go row by row, or with panels of rows column by
  // column of each panel: those that run at once then share their rows of A and few columns of B in the L2
  // cache (H200, bf16, 4 groups of 8192 rows, N 6144, K 7168, tiles of 128 x 128: 571 -> 689 TFLOPS).
  static BG_DEVICE TileAt tileOf(const RaggedKernel& k, const Record& r, uint32_t number) {
    const uint32_t across = up(r.n, k.tn);
    if constexpr (kPanelRows == 0) {
      const uint32_t down = across == 1 ? number : number / across;
      return {down, number - down * across};
    }
    const uint32_t all = up(r.m, k.tm), most = kPanelRows >> k.tm;
    uint32_t first = 0, rows = all;
    if (all > most) {
      first = number / (most * across) * most;
      rows = min(most, all - first);
    }
    number -= first * across;
    const uint32_t col = rows == 1 ? number : number / rows;
    return {first + number - col * rows, col};
  }

  // itemOf is the head of the item of a tile of a group, from a row and a column on.
  BG_DEVICE Item itemOf(const RaggedKernel& k, const Record& r, uint32_t row, uint32_t col) const {
    const Bounds& b = plan.bounds;
    const uint32_t depth = depthOf(r);
    const uint32_t rows = min(r.m - row, 1u << k.tm), cols = min(r.n - col, 1u << k.tn);
    const bool vector = ((r.offA | r.lda | r.offB | r.ldb) & b.vector) == 0;
    return {r.offA + row * (b.transA != 0 ? 1 : r.lda), r.offB + col * (b.transB != 0 ? r.ldb : 1),
            r.offC + row * r.ldc + col, depth, r.lda, r.ldb, r.ldc, extentOf(rows, cols),
            depth == 0 ? 0 : r.alpha, r.beta, kFinal, (vector ? kItemVector : 0) | b.flags};
  }

  // tailOf is where what a group has for its tail begins, but for scales.
  BG_DEVICE RecordTail tailOf(const Sizes& at, uint32_t group) const {
    if constexpr (kForm == kRecords) {
      return recordTailAt(recordOf(group));
    } else {
      const Bounds& b = plan.bounds;
      const uint32_t row = kByRows ? at.first : group * b.m;  // of all groups
      const uint32_t toB2 = kByRows ? group * b.stride : at.first * (b.transB != 0 ? 1 : more.ldb2);
      return {more.offB2 + toB2, more.ldb2, more.bias + group * more.strideBias, more.rowsA + row,
              more.rowsC + row, more.weights + row, more.pointers + kPointerWords * group, 0};
    }
  }

  // scalesAt is the same of scales, those of A of the tile from a row on, of a group of so many k's.
  BG_DEVICE RecordScales scalesAt(const Sizes& at, uint32_t group, uint32_t k, uint32_t row) const {
    const bool eachRow = has(kRowsA | kBlocks) && !has(kGather);
    RecordScales to = {0, 0, 0, 0};
    if constexpr (kForm != kRecords) {
      const Bounds& b = plan.bounds;
      const uint64_t scales = scalesB(b.n, b.k, b.ldb) + (has(kGated) ? scalesB(b.n, b.k, more.ldb2) : 0);
      const uint32_t first = kByRows ? at.first : group * b.m;
      to.scaleA = more.scaleA + (!eachRow ? 0 : first * scalesOfRow(b.k));
      to.scaleB = more.scaleB + group * static_cast<uint32_t>(scales);
      if (kHasDoubles && has(kDoubles) && fills(group)) to = {0, 0, 0, 0};  // beta is 0 or 1
    } else if (has(kRecordsScaled)) {
      to = recordScalesAt(recordOf(group));
    }
    if (eachRow) to.scaleA += row * scalesOfRow(k);
    return to;
  }

  // storeTail stores an item with its tail, and of a gated tile a second item.
  BG_DEVICE void storeTail(uint4* items, uint32_t place, Item item, const Record& r, const Sizes& sizes,
                           uint32_t entry, uint32_t row, uint32_t col) const {
    const Bounds& b = plan.bounds;
    const RecordTail at = tailOf(sizes, entry);
    const RecordScales scales = scalesAt(sizes, entry, item.depth, row);
    place *= products();
    if (has(kGather)) item.offA = kByRows ? b.offA : r.offA;
    if (has(kScatter)) item.offC = (kByRows ? b.offC : r.offC) + col;
    const uint32_t toB = has(kBlocks)     ? col / kScaleBlock * scaleBlocks(item.depth)
                         : has(kColumnsB) ? col * scaleWords(flags)
                         : has(kGroups)   ? col
                                          : 0;
    ItemEpilogue tail = {at.rowsA + row, more.gatherRows, at.rowsC + row, more.scatterRows,
                         at.weights + row, at.bias + col, at.pointers, scales.scaleA,
                         scales.scaleB + toB, 0, 0, 0};
    const uint32_t apart = has(kGroups) ? kInt4Panel : 1;  // elements from a column of B to the next
    item.offB += col * (apart - 1);
    storeItem(items, place, item, tail);
    if (!has(kGated)) return;
    item.offB = at.offB2 + col * (b.transB != 0 ? at.ldb2 : apart);
    item.ldb = at.ldb2;
    tail.biasAt += r.n;
    tail.scaleBAt += scalesB(r.n, item.depth, r.ldb);
    const bool vector = ((r.offA | r.lda | at.offB2 | at.ldb2) & b.vector) == 0;
    item.flags = (item.flags & ~kItemVector) | (vector ? kItemVector : 0) | kItemSecond;
    storeItem(items, place + 1, item, tail);
  }

  BG_DEVICE void run(uint32_t* words) {
    const uint32_t t = threadId();
    uint32_t* const bounds = reinterpret_cast<uint32_t*>(&plan.bounds);
    for (uint32_t i = t; i < sizeof(Bounds) / 4; i += kThreads) bounds[i] = words[i];
    if (t == 0) plan.found = {Plan::kMost, 0, {0, 0}, Plan::kMost};
    if (kTail) more = *reinterpret_cast<const EpilogueBounds*>(words + sizeof(Bounds) / 4);
    barrier();
    plan.clear();
    awaitEarlier();  // all before came from the host
    admitNext();
    refuse();
    choose();
    if (self == 0 && t == 0 && plan.found.refused < plan.bounds.groups && words[kStatusWord] == 0) {
      words[kStatusWord] = plan.found.refused + 1;
    }
    plan.arrange(own);
    write(words);
  }

  // storeDynamic makes a dynamic table.
  static BG_DEVICE void storeDynamic(uint32_t* table, uint32_t first, uint32_t tiles, uint32_t workers,
                                   uint32_t chunk) {
    static_assert(kDynamicNext == 0 && kDynamicEnd == 1 && kDynamicFirst == 2);
    static_assert(kDynamicChunk == 3 && kDynamicLast == 4);
    *reinterpret_cast<uint4*>(table) = {0, first + tiles, first + workers * chunk, chunk};
    table[kDynamicLast] = 0xffffffff;  // each run makes the table anew
  }

  // write writes tables and items. 32 adjacent threads have adjacent tiles, and thread groups as many as each
  // other.
  BG_DEVICE void write(uint32_t* words) const {
    const uint32_t t = threadId(), makers = plan.bounds.makers;
    const uint32_t thread = (t / 32 * makers + self) * 32 + t % 32;  // of all groups
    for (uint32_t kernel = 0; kernel < plan.bounds.kernels; ++kernel) {
      const Deal deal = dealOf(kernel);
      uint32_t* const table = words + plan.bounds.tile[kernel].table;
      if (plan.bounds.tile[kernel].chunk != 0) {
        const uint32_t chunk = plan.bounds.tile[kernel].chunk;
        if (thread == 0) storeDynamic(table, deal.first, deal.tiles, deal.workers, chunk);
        continue;
      }
#pragma unroll 1
      for (uint32_t w = thread; w <= deal.workers; w += makers * kThreads) {
        table[w] = products() * deal.before(w);
      }
    }
#pragma unroll 1
    for (uint32_t tile = thread; tile < plan.starts[plan.bounds.entries]; tile += makers * kThreads) {
      const uint32_t rank = rankOf(tile), kernel = rank < plan.found.second ? 0 : 1, entry = plan.order[rank];
      const RaggedKernel& k = plan.bounds.tile[kernel];
      const Sizes at = sizesAt(entry);
      const Record r = groupOf(at, entry);
      const TileAt in = tileOf(k, r, tile - plan.starts[rank]);
      const uint32_t row = in.down << k.tm, col = in.across << k.tn;
      const Item item = itemOf(k, r, row, col);
      const uint32_t place = plan.bounds.tile[kernel].chunk != 0 ? tile : dealOf(kernel).place(tile);
      uint4* const items = reinterpret_cast<uint4*>(words + plan.bounds.items);
      if constexpr (kTail) storeTail(items, place, item, r, at, entry, row, col);
      else storeItem(items, place, item);
    }
  }
};

// ragged is such a kernel. flags are those of the epilogue. It may make the items of two plans with the same
// sizes: then the lower half of both is how many thread groups are the first plan's, and the upper half, and
// other, are the flags and the words of the second.
template <uint32_t kForm, class Plan, bool kTail>
BG_DEVICE void ragged(const uint32_t* sizes, uint64_t extent, uint64_t both, uint32_t* other, uint32_t* words,
                      uint32_t flags) {
  BG_SHARED(Plan, memory, 1);
  const uint32_t groups = static_cast<uint32_t>(both);
  const bool second = groups != 0 && workerId() >= groups;
  Ragged<kForm, Plan, kTail>{memory[0], sizes, static_cast<uint32_t>(extent),
      second ? static_cast<uint32_t>(both >> 32) : flags, second ? workerId() - groups : workerId(), {}, {}}
      .run(second ? other : words);
}
