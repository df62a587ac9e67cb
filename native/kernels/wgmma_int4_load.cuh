// The tiles of kernels of 9.0 for B of 4 bits (wgmma_int4.cuh), the stages of their shared memory, and the
// loader that fills them.
//
// The loader is two warps or more: one has B, which is a few instructions a step, the others have A. In one
// warp all was too slow, since warps that multiply leave it one cycle in seven (H200: 256 tokens' experts 104
// us, then 94).
#pragma once

#include "int4.cuh"
#include "wgmma.cuh"

// StreamTile is a row of the tile table and what follows from it.
template <int TM_, int TN_, int kMultiply_, int kLoaders_, int kMinGroups_, int kStages_, int kShared_,
    class Element_>
struct StreamTile : Int4Tile<TM_, TN_, 32 * kMultiply_, kStages_, kMinGroups_, Element_> {
  using More = Epilogue;
  // warps that multiply, and load
  static constexpr int kMultiply = kMultiply_, kLoaders = kLoaders_, kThreads = 32 * (kMultiply + kLoaders);
  static constexpr int kFillers = kLoaders;
  static constexpr bool kMoves = false, kEmulated = false;
  static constexpr int kPanelsAtOnce = 2;  // warps are few
  static constexpr uint32_t kShared = kShared_;
  static_assert(StreamTile::kRows == 2, "of more rows warpgroups take less time");
};

// PanelTile is the same of warpgroups.
template <int TM_, int TN_, int kMultiply_, int kLoaders_, int kMinGroups_, int kStages_, int kShared_,
    class Element_>
struct PanelTile {
  using Element = Element_;  // of A
  using More = Epilogue;
  static constexpr int TM = TM_, TN = TN_, TK = 128, kMinGroups = kMinGroups_, kEpilogueGroups = kMinGroups_,
      kStages = kStages_;
  static constexpr int kMultiply = kMultiply_, kLoaders = kLoaders_, kThreads = 32 * (kMultiply + kLoaders);
  // kMoves: loaders are warpgroups, and leave registers to the others. kFillers of their warps load: A comes
  // by four, which in two took longer than all else.
  static constexpr bool kMoves = kLoaders == 8, kEmulated = false;
  static constexpr int kFillers = kMoves ? 5 : kLoaders, kLoaderRegisters = 48, kConsumerRegisters = 208;
  static constexpr int kWarpColumns = 16;
  static_assert(TN == kWarpColumns * kMultiply, "a warp has 16 rows of a product");
  static constexpr uint32_t kShared = kShared_;
  // A stage, in bytes: blocks of 64 k's of A, the panels, and the words of their groups.
  static constexpr uint32_t kBlock = 128 * TM, kPanels = 2 * kBlock, kPanel = 32 * TN,
      kGroups = kPanels + 2 * kPanel, kStage = kGroups + 2 * 4 * TN;
  static constexpr uint32_t kRowA = 128, kTurns = 8;
  static BG_DEVICE uint32_t placeOfA(uint32_t row, uint32_t line) { return line / 8 * kBlock + kRowA * row +
      16 * (line % 8 ^ row % 8); }
  static_assert(kStage % 1024 == 0, "swizzled rows begin with multiples of 1024 bytes");
};

// StreamLayout is what follows the stages in shared memory, in bytes.
template <class T>
struct StreamLayout {
  // of a warp; no two lanes store to one bank
  static constexpr uint32_t kOutRows = 16, kOutPitch = T::kWarpColumns + 4,
      kOutBytes = 4 * kOutRows * kOutPitch;
  static constexpr uint32_t kOut = T::kStages * T::kStage, kItems = kOut + T::kMultiply * kOutBytes,
      kReady = kItems + kItemPlaces * Items<Epilogue>::kBytes;
  static constexpr uint32_t kFull = kReady + 8 * kItemPlaces, kFree = kFull + 8 * T::kStages,
      kBytes = kFree + 8 * T::kStages;
  static_assert(kBytes <= T::kShared + kItemPlaces * 4 * (Epilogue::kWords - kItemWords),
      "the tile table has too little shared memory");
  static_assert(T::kStages + 2 < kItemPlaces, "too few places for items");  // see WgmmaTile
};

// Stages is the ring of stages, of the loader or of a warp that multiplies. An item has a step at least, so
// that the loader is not further ahead than there are places for items.
template <class T>
struct Stages {
  using L = StreamLayout<T>;
  SharedAddress shared;
  Counter<T::kStages> stage;

  BG_DEVICE SharedAddress full() const { return shared + L::kFull + 8 * stage.at; }
  BG_DEVICE void wait() const { waitPhase(full(), stage.parity); }
  BG_DEVICE void waitFree() const { waitPhase(shared + L::kFree + 8 * stage.at, stage.parity ^ 1); }
  BG_DEVICE void release(uint32_t at) const {
    warpBarrier();  // see Consumer
    if (threadId() % 32 == 0) arrive(shared + L::kFree + 8 * at);
  }
  // pass lets the steps of an item go by.
  BG_DEVICE void pass(uint32_t depth) {
    uint32_t k = 0;
    do {
      wait();
      release(stage.at);
      stage.next();
      k += T::TK;
    } while (k < depth);
  }
};

// PanelLoader starts the copies of B of an item, and of the words of its groups, by one warp.
template <class T>
struct PanelLoader {
  const uint32_t *panel, *groups;
  uint32_t ldb, cols;
  bool by64, pieces;  // pieces: groups lie so that they can be copied as such

  BG_DEVICE PanelLoader(const Items<Epilogue>& items, uint32_t number, const Item& item, const uint32_t* B)
      : ldb(item.ldb), cols(item.cols()), by64(wordsOf64(items.more.flags)) {
    panel = items.operandB(number, item, B) + item.offB / 8;
    groups = wordsOfGroups(items.more, item, itemEpilogueAt(items.words(), number % kItemPlaces));
    pieces = placeInLine(groups) == 0 && cols % 4 == 0;
  }

  // bytes are those that copy has pieces of, in a step of which `left` k's exist.
  BG_DEVICE uint32_t bytes(uint32_t left) const { return cols * ((left > 64 ? 64 : 32) +
      (pieces ? (by64 && left > 64 ? 8 : 4) : 0)); }

  BG_DEVICE void copy(SharedAddress stage, uint32_t left, SharedAddress full) {
    const bool both = left > 64, two = by64 && both;
    if (threadId() % 32 == 0) {
      expectBytes(full, bytes(left));
      copyPiece(stage + T::kPanels, panel, 32 * cols, full);
      if (both) copyPiece(stage + T::kPanels + T::kPanel, rowsOn(panel, 8, ldb), 32 * cols, full);
      if (pieces) {
        copyPiece(stage + T::kGroups, groups, 4 * cols, full);
        if (two) copyPiece(stage + T::kGroups + 4 * T::TN, groups + ldb, 4 * cols, full);
      }
    }
    if (!pieces || (by64 && !both)) copyWords(stage, two);
    panel = rowsOn(panel, 16, ldb);
    groups = rowsOn(groups, by64 ? 2 : 1, ldb);
  }

  // copyWords copies words of groups one by one; those of a panel that does not exist are zeros.
  BG_DEVICE void copyWords(SharedAddress stage, bool two) const {
#pragma unroll 1
    for (uint32_t c = threadId() % 32; c < cols; c += 32) {
      if (!pieces) copyWord(stage + T::kGroups + 4 * c, groups + c, 4);
      if (by64 && !(pieces && two)) copyWord(stage + T::kGroups + 4 * (T::TN + c),
          groups + (two ? ldb : 0) + c, two ? 4 : 0);
    }
  }
};

// loadInt4 is the work of a loader: the first has the items, and B, the others have A.
template <class T, bool kDynamic>
BG_DEVICE void loadInt4(const Items<Epilogue>& items, Feed<Epilogue>& feed, const uint16_t* A,
    const uint32_t* B, SharedAddress shared) {
  const bool first = uniform(threadId() / 32) == T::kMultiply;
  Stages<T> stages{shared};
  // load calls copy with the k's that are left, the stage, and its phase.
  auto load = [&](const Item& item, bool vector, auto copy) {
    uint32_t left = uniform(item.depth);
#pragma unroll 1
    for (;;) {
      const SharedAddress full = stages.full();
      stages.waitFree();
      if (left != 0) copy(left, stages.stage.at * T::kStage, full);
      vector ? arriveCopied(full) : arrive(full);
      stages.stage.next();
      if (left <= T::TK) break;
      left -= T::TK;
    }
  };
  if (first) feed.next<kDynamic>(items);
  for (uint32_t number = 0;; ++number) {
    const Item item = items.wait(number);
    if (isNone(item)) break;
    if (first) {
      feed.before<kDynamic>(items);
      PanelLoader<T> b(items, number, item, B);
      load(item, true, [&](uint32_t left, uint32_t at, SharedAddress full) { b.copy(shared + at, left,
          full); });
      feed.after<kDynamic>(items);
      fetchLists<T>(items, number, item);  // after the copies, which are waited for first
    } else {
      GroupedRows<T, 32 * (T::kFillers - 1)> a(threadId() - 32 * (T::kMultiply + 1),
          items.operandA(number, A) + item.offA, item, gatheredRows(items, number, item), shared);
      load(item, a.vector, [&](uint32_t left, uint32_t at, SharedAddress) { a.copy(left, at); });
    }
  }
}
