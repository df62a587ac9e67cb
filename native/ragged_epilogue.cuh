// Kernels of ragged.cuh that make the items of kernels with an epilogue, from ends of rows. Rows that
// are gathered or scattered are any of all, so that items begin with the first. Of a gated tile there
// are two items, and tables count items, but for those of workers that take them in turn, which
// count tiles.
#pragma once

#include "epilogue_items.cuh"

struct RaggedEpilogue {
  static constexpr bool kIs = true;
  uint32_t flags;
  EpilogueBounds more;

  BG_DEVICE uint32_t products() const { return (flags & kGated) != 0 ? 2 : 1; }
  BG_DEVICE void start(const uint32_t* words) { more = *reinterpret_cast<const EpilogueBounds*>(words); }

  // store stores what becomes of an item without an epilogue, of a group, with its first row of all groups' and
  // its first column.
  BG_DEVICE void store(uint4* items, uint32_t place, Item item, const Bounds& b, uint32_t group, uint32_t row, uint32_t col) const {
    place *= products();
    if ((flags & kGather) != 0) item.offA = b.offA;
    if ((flags & kScatter) != 0) item.offC = b.offC + col;
    ItemEpilogue dress = {more.rowsA + row, more.gatherRows, more.rowsC + row, more.scatterRows, more.weights + row, more.bias + group * more.strideBias + col,
                          more.pointers + kPointerWords * group, 0};
    storeEpilogueItem(items, place, item, dress);
    if ((flags & kGated) == 0) return;
    const uint32_t offB2 = more.offB2 + group * b.strideB;
    item.offB = offB2 + col * (b.transB != 0 ? more.ldb2 : 1);
    item.ldb = more.ldb2;
    dress.biasAt += b.n;
    const bool wide = (item.flags & kItemWide) != 0 && ((offB2 | more.ldb2) & b.wide) == 0;
    item.flags = (item.flags & ~kItemWide) | (wide ? kItemWide : 0) | kItemSecond;
    storeEpilogueItem(items, place + 1, item, dress);
  }
};

template <class Plan>
BG_DEVICE void raggedDressed(const uint32_t* sizes, uint32_t* words, uint32_t flags) {
  BG_SHARED(Plan, memory, 1);
  Ragged<kEndsOfRows, Plan, RaggedEpilogue>{memory[0], sizes, {}, {flags, {}}}.run(words);
}

#define BG_RAGGED_DRESSED_KERNELS                           \
  BG_RAGGED_DRESSED(bg_ragged_rows_256_e, Single<256>)      \
  BG_RAGGED_DRESSED(bg_ragged_rows_1024_e, Single<1024>)    \
  BG_RAGGED_DRESSED(bg_ragged_rows_4097_e, Many<1024>)
