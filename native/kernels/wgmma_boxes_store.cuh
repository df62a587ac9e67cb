// How consumers of wgmma_boxes.cuh store a tile of C of 16 bits: as pairs in registers, which go to memory by
// boxes (TMA) while the next tile is multiplied. Tensor cores wait for nothing but the conversion. Rows of C
// that begin anywhere, are scattered, read, or of fp32, are stored as wgmma_aligned.cuh does it.
#pragma once

#include "wgmma_aligned.cuh"
#ifdef BG_CUDA
#include "../ptx/boxes_cuda.h"
#endif

// Maps of an item: of A, of B, and of C.
constexpr uint32_t kMapsOfItem = 3, kMapOfC = 2 * kMapWords;
constexpr uint32_t kMapsWords = kItemPlaces * kMapsOfItem * kMapWords;  // of a worker's workspace

// mapOf is the map of A of an item; the others follow.
BG_DEVICE uint32_t* mapOf(uint32_t* maps, uint32_t number) {
  return maps + number % kItemPlaces * (kMapsOfItem * kMapWords);
}

// readable is the address of an operand, or, of one of no k's, which may be anywhere, one that maps take.
template <class Number>
BG_DEVICE const Number* readable(const Item& item, const Number* at, const uint32_t* maps) {
  return item.depth == 0 ? reinterpret_cast<const Number*>(maps) : at;
}

// A slab is what a warp stores at once, a box of C in shared memory: its 16 rows of 64 columns, swizzled by
// 128 bytes. There are two, so that one is written while the other is copied.
constexpr uint32_t kSlabRows = 16, kSlabCols = 64, kSlabBytes = 128 * kSlabRows, kSlabs = 2;

// boxesOfC is where the boxes of C of an item begin, or nullptr where it is stored otherwise. Copies write 16
// bytes at a time, also where C ends within them (H200).
template <class T>
BG_DEVICE uint16_t* boxesOfC(const Items<typename T::More>& items, uint32_t number, const Item& item,
    float* C) {
  if (!T::kStoresLater || item.cols() % 8 != 0) return nullptr;
  if constexpr (T::More::kIs) {
    if (items.more.has(kScatter)) return nullptr;
    const uint32_t at = itemEpilogueAt(items.words(), number % kItemPlaces).pointersAt;
    return linesOf(item, items.more.template operandC<uint16_t>(at, C));
  } else {
    return linesOf(item, reinterpret_cast<uint16_t*>(C));
  }
}

// TileStore is the tile that a warp has yet to store, its 16 rows.
template <class T, bool = T::kStoresLater>
struct TileStore {
  static constexpr uint32_t kParts = 4;  // of kSlabCols columns

  char* slabs;
  uint32_t row;                 // the warp's first of the tile
  uint32_t slab = 0;            // the first byte of the one that is next
  uint32_t parts = 0;           // that are to be stored
  const uint32_t* map;
  uint32_t words[16 * kParts];  // pairs of a part, of 8 columns 2 each: in row lane / 4, and 8 rows on

  // take has a tile of so many columns, of which pair(i) converts sums i and i + 1.
  template <int n, class Pair>
  BG_DEVICE void take(uint32_t cols, const uint32_t* map_, Pair pair) {
    forget();
    map = map_;
    parts = (cols + kSlabCols - 1) / kSlabCols;
#pragma unroll
    for (int i = 0; i < n / 2; ++i) words[i] = pair(2 * i);
  }
  // forget lets the compiler know that the words are not needed: it would keep them beside sums.
  BG_DEVICE void forget() {
#pragma unroll
    for (uint32_t i = 0; i < 16 * kParts; ++i) words[i] = 0;
  }

  BG_DEVICE void storePart(uint32_t part) {
    if (part >= parts) return;
    if (part == 0) store<0>();
    if (part == 1) store<1>();
    if (part == 2) store<2>();
    if (part == 3) store<3>();
  }
  BG_DEVICE void storeRest(uint32_t from) {
#pragma unroll 1
    for (; from < parts; ++from) storePart(from);
    parts = 0;
  }
  BG_DEVICE void awaitRead() const {
    waitBoxesRead<0>();
    warpBarrier();
  }

  template <int part>
  BG_DEVICE void store() {
    const uint32_t lane = threadId() % 32, group = lane / 4, member = lane % 4;
    waitBoxesRead<kSlabs - 1>();
    warpBarrier();
    char* const at = slabs + slab + 128 * group + 4 * member;
#pragma unroll
    for (uint32_t j = 0; j < 8; ++j) {
      char* const word = at + 16 * (j ^ group);
      *reinterpret_cast<uint32_t*>(word) = words[16 * part + 2 * j];
      *reinterpret_cast<uint32_t*>(word + 8 * 128) = words[16 * part + 2 * j + 1];
    }
    fenceStores();
    warpBarrier();
    if (elected()) {
      storeBox(map, kSlabCols * part, row, sharedAddress(slabs + slab));
      commitBoxes();
    }
    slab ^= kSlabBytes;
  }
};

// Of e4m3 nothing is left.
template <class T>
struct TileStore<T, false> {
  char* slabs;
  uint32_t row;
  BG_DEVICE void storeRest(uint32_t) const {}
  BG_DEVICE void forget() const {}
  BG_DEVICE void awaitRead() const {}
};

// finishBoxes stores the warp's sums, or leaves that to last. The code of epilogues is large, and here once.
template <class T, int n>
BG_DEVICE void finishBoxes(float (&sum)[n], const Items<typename T::More>& items, uint32_t number,
    Kept<T, T::kKeeping>& kept, TileStore<T>& last, float* C, float* workspace, uint32_t* maps) {
  const Item item = items.wait(number);
  const bool later = boxesOfC<T>(items, number, item, C) != nullptr;
  float* const out = reinterpret_cast<float*>(last.slabs);
  static_assert(kOutBytes <= T::kWarpOut, "no room for the warp's sums");
  if (!later) last.awaitRead();
  float alpha = item.depth == 0 ? 0.0f : __uint_as_float(item.alpha);
  if constexpr (!T::More::kIs) {
    if (!later) {
      storeAligned<T, false, true>(sum, out, item, last.row, C, workspace);
      return last.forget();
    }
  } else if constexpr (!T::kStoresLater) {
    finishAligned<T, false, true>(sum, out, items, number, last.row, kept, C, workspace);
  } else {
    const Epilogue& e = items.more;
    const ItemEpilogue words = itemEpilogueAt(items.words(), number % kItemPlaces);
    uint16_t* const to = linesOf(item, e.operandC<uint16_t>(words.pointersAt, C));
    if (to == nullptr) {
      finishColumns<T, false, true>(sum, out, items, number, last.row, nullptr, nullptr, C, workspace);
      return last.forget();
    }
    applyEpilogue(sum, e, item, words, RowLanes{last.row}, kept);
    if (!later) {
      storeLines<T, n>(out, item, last.row, to, [&](int i) { return sum[i]; }, ScatteredRows{e, words});
      return last.forget();
    }
    alpha = 1.0f;
  }
  if constexpr (T::kStoresLater) {
    last.template take<n>(item.cols(), mapOf(maps, number) + kMapOfC, [&](int i) {
      return T::Element::pairOfC(item.flags, alpha * sum[i], alpha * sum[i + 1]);
    });
  }
}
