// Kernels of ragged.cuh that make the items of kernels with an epilogue. Rows that are gathered or
// scattered are any of a matrix, so that items begin with the first. Of a gated tile there are two
// items, and tables count items, but dynamic tables count tiles.
#pragma once

#include "../epilogue/epilogue.cuh"
#include "../epilogue/epilogue_items.cuh"
#include "ragged.cuh"

// listed reports whether so many elements or words from first on lie in length.
BG_DEVICE bool listed(uint32_t first, uint32_t n, uint32_t length) { return static_cast<uint64_t>(first) + n <= length; }

template <uint32_t kForm>
struct RaggedEpilogue {
  static constexpr bool kIs = true, kByRows = kForm == kEndsOfRows;
  uint32_t flags;
  EpilogueBounds more;

  static constexpr uint32_t kGroups = kGroups64 | kGroups128, kScales = kScaleA | kScaleB | kGroups | kBlocks;

  BG_DEVICE bool has(uint32_t flag) const { return (flags & flag) != 0; }
  BG_DEVICE uint32_t products() const { return has(kGated) ? 2 : 1; }
  BG_DEVICE void start(const uint32_t* words) { more = *reinterpret_cast<const EpilogueBounds*>(words); }
  // records is where those begin of which the entry's has the words of records without scales: with scales each has 4 more.
  BG_DEVICE const uint4* records(const uint32_t* sizes, uint32_t entry) const {
    static_assert(kScaledRecordWords == kEpilogueRecordWords + 4, "other words");
    return reinterpret_cast<const uint4*>(sizes) + (has(kScales) ? entry : 0);
  }
  BG_DEVICE Record recordOf(const uint32_t* sizes, uint32_t entry) const { return epilogueRecordAt(records(sizes, entry), entry); }

  // Scales are the words of Rows with the first scales of a group; scalesB is how many words those of B have, without those of B2.
  struct Scales {
    uint32_t a, b;
  };
  BG_DEVICE Scales scalesOf(const uint32_t* sizes, uint32_t entry) const {
    const uint4 words = records(sizes, entry)[kEpilogueRecordWords / 4 * (entry + 1)];
    return {words.x, words.y};
  }
  BG_DEVICE uint64_t scalesB(uint32_t cols, uint32_t k, uint32_t ldb) const {
    if (has(kBlocks)) return static_cast<uint64_t>(scaleBlocks(cols)) * scaleBlocks(k);
    if (has(kGroups)) return k / group() * ldb;
    return !has(kScaleB) ? 0 : has(kColumnsB) ? cols * scaleWords(flags) : 1;
  }
  // scalesOfRow is how many words those of a row of A have, where rows have any.
  BG_DEVICE uint32_t scalesOfRow(uint32_t k) const { return has(kBlocks) ? scaleBlocks(k) : scaleWords(flags); }
  // group is the k's that share a scale; grouped reports whether a B of so many k's keeps to groups, and to lines.
  BG_DEVICE uint32_t group() const { return has(kGroups64) ? 64 : 128; }
  BG_DEVICE bool grouped(uint32_t k, uint32_t offB, uint32_t ldb) const {
    return !has(kGroups) || (k % group() == 0 && ldb % 8 == 0 && offB % 32 == 0);
  }

  // storedA and storedC are the rows of A, which is not transposed where any are gathered, and of C.
  BG_DEVICE uint32_t storedA(uint32_t rows) const { return has(kGather) ? more.gatherRows : rows; }
  BG_DEVICE uint32_t storedC(uint32_t rows) const { return has(kScatter) ? more.scatterRows : rows; }

  // fits reports whether what a record has beside keeps to the bounds.
  BG_DEVICE bool fits(const uint32_t* sizes, uint32_t entry, const Record& r, const Bounds& b) const {
    const RecordEpilogue at = recordEpilogueAt(records(sizes, entry), entry);
    const bool transB = b.transB != 0, pointers = has(kPointersA | kPointersB | kPointersC);
    if (has(kGated)) {
      if (r.beta << 1 != 0) return false;  // which of both products would C come to?
      if (depthOf(r) != 0 && !within(at.offB2, at.ldb2, transB ? r.n : r.k, transB ? r.k : r.n, more.lenB2)) return false;
    }
    return (!has(kBias) || listed(at.bias, products() * r.n, more.lenBias)) && (!has(kGather) || listed(at.rowsA, r.m, more.lenRows)) &&
           (!has(kScatter) || listed(at.rowsC, r.m, more.lenRows)) && (!has(kWeights) || listed(at.weights, r.m, more.lenRows)) &&
           (!pointers || listed(at.pointers, kPointerWords, more.lenRows)) && scalesFit(sizes, entry, r);
  }

  BG_DEVICE bool scalesFit(const uint32_t* sizes, uint32_t entry, const Record& r) const {
    if (!has(kScales)) return true;
    const Scales at = scalesOf(sizes, entry);
    const RecordEpilogue words = recordEpilogueAt(records(sizes, entry), entry);
    const uint64_t rows = has(kRowsA | kBlocks) ? storedA(r.m) : 1, scalesA = rows * scalesOfRow(r.k);
    const uint64_t scales = scalesB(r.n, r.k, r.ldb) + (has(kGated) ? scalesB(r.n, r.k, words.ldb2) : 0);
    return (!has(kScaleA | kBlocks) || at.a + scalesA <= more.lenRows) && (!has(kScaleB | kGroups | kBlocks) || at.b + scales <= more.lenRows) &&
           grouped(r.k, r.offB, r.ldb) && (!has(kGated) || grouped(0, words.offB2, words.ldb2));
  }

  // of is where what a group has beside begins, but for scales.
  template <class Sizes>
  BG_DEVICE RecordEpilogue of(const uint32_t* sizes, const Sizes& at, uint32_t group, const Bounds& b) const {
    if constexpr (kForm == kRecords) {
      return recordEpilogueAt(records(sizes, group), group);
    } else {
      const uint32_t row = kByRows ? at.first : group * b.m;  // of all groups
      const uint32_t toB2 = kByRows ? group * b.stride : at.first * (b.transB != 0 ? 1 : more.ldb2);
      return {more.offB2 + toB2, more.ldb2, more.bias + group * more.strideBias, more.rowsA + row, more.rowsC + row, more.weights + row,
              more.pointers + kPointerWords * group, 0};
    }
  }

  // scalesAt is the same of scales, those of A of the tile from a row on, of a group of so many k's.
  template <class Sizes>
  BG_DEVICE Scales scalesAt(const uint32_t* sizes, const Sizes& at, uint32_t group, const Bounds& b, uint32_t k, uint32_t row) const {
    const bool eachRow = has(kRowsA | kBlocks) && !has(kGather);
    Scales to = {0, 0};
    if constexpr (kForm != kRecords) {
      const uint64_t scales = scalesB(b.n, b.k, b.ldb) + (has(kGated) ? scalesB(b.n, b.k, more.ldb2) : 0);
      to = {more.scaleA + (!eachRow ? 0 : (kByRows ? at.first : group * b.m) * scalesOfRow(b.k)), more.scaleB + group * static_cast<uint32_t>(scales)};
    } else if (has(kScales)) {
      to = scalesOf(sizes, group);
    }
    return {to.a + (eachRow ? row * scalesOfRow(k) : 0), to.b};
  }

  // store stores what becomes of an item without an epilogue, of a group, from a row and a column on.
  template <class Sizes>
  BG_DEVICE void store(uint4* items, uint32_t place, Item item, const Bounds& b, const Record& r, const uint32_t* sizes, const Sizes& group, uint32_t entry,
                       uint32_t row, uint32_t col) const {
    const RecordEpilogue at = of(sizes, group, entry, b);
    const Scales scales = scalesAt(sizes, group, entry, b, item.depth, row);
    place *= products();
    if (has(kGather)) item.offA = kByRows ? b.offA : r.offA;
    if (has(kScatter)) item.offC = (kByRows ? b.offC : r.offC) + col;
    const uint32_t toB = has(kBlocks) ? col / kScaleBlock * scaleBlocks(item.depth) : has(kColumnsB) ? col * scaleWords(flags) : has(kGroups) ? col : 0;
    ItemEpilogue dress = {at.rowsA + row, more.gatherRows, at.rowsC + row, more.scatterRows, at.weights + row, at.bias + col, at.pointers, scales.a, scales.b + toB, 0, 0, 0};
    const uint32_t apart = has(kGroups) ? kInt4Panel : 1;  // elements from a column to the next, of B that is not transposed
    item.offB += col * (apart - 1);
    storeEpilogueItem(items, place, item, dress);
    if (!has(kGated)) return;
    item.offB = at.offB2 + col * (b.transB != 0 ? at.ldb2 : apart);
    item.ldb = at.ldb2;
    dress.biasAt += r.n;
    dress.scaleBAt += scalesB(r.n, item.depth, r.ldb);
    const bool wide = ((r.offA | r.lda | at.offB2 | at.ldb2) & b.wide) == 0;
    item.flags = (item.flags & ~kItemVector) | (wide ? kItemVector : 0) | kItemSecond;
    storeEpilogueItem(items, place + 1, item, dress);
  }
};

template <uint32_t kForm, class Plan>
BG_DEVICE void raggedDressed(const uint32_t* sizes, uint64_t extent, uint32_t* words, uint32_t flags) {
  BG_SHARED(Plan, memory, 1);
  Ragged<kForm, Plan, RaggedEpilogue<kForm>>{memory[0], sizes, static_cast<uint32_t>(extent), {}, {flags, {}}}.run(words);
}
