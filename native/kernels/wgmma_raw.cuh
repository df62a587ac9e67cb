// Kernels of wgmma.cuh for fp32 in aligned rows, A along K: one thread starts copies of boxes (TMA) of what
// the converter splits and consumers read. So no warp copies, steps have no chunk of before, and rows lie
// where readers know them, without a number for each. On an H200 a step has a quarter fewer instructions, and
// takes 0.90 of the time.
//
// A feeder makes the maps of items, as in wgmma_boxes.cuh. Copies write zeros where the operand ends, so that
// readers need not know its sides.
#pragma once

#include "wgmma.cuh"
#include "wgmma_boxes_store.cuh"

// Raw is a tile of wgmma.cuh whose operands come by boxes.
template <class Tile>
struct Raw : Tile {
  static_assert(Tile::kEmulated, "converters split");
  static constexpr int kNear = 8;  // steps before an item's last when the next is asked for
};

template <class Tile, bool kTransB>
struct Layout<Raw<Tile>, false, kTransB> {
  static constexpr bool kLead = false;
  // Rows of 32 k's, swizzled by 128 bytes, or of B across K rows of TN columns for each k. A place of A is
  // free when consumers are done with its step.
  struct A { static constexpr int kPlaces = Tile::kStages + Tile::kAhead, kStage = 128 * Tile::TM; };
  struct B { static constexpr int kPlaces = Tile::kAhead, kStage = 128 * Tile::TN; };
  static constexpr uint32_t kPart = 128 * Tile::TN, kStage = 2 * kPart;
  static constexpr uint32_t kA = Tile::kStages * kStage, kB = kA + A::kPlaces * A::kStage,
      kOut = kB + B::kPlaces * B::kStage;
  static constexpr uint32_t kDrafts = kOut + Tile::kMultiply * kOutBytes, kItems = kDrafts + 2 * kMapBytes;
  // Phases as in wgmma.cuh, and: an item is mapped; the loader is near its end.
  static constexpr uint32_t kReady = kItems + kItemPlaces * Items<typename Tile::More>::kBytes,
      kMapped = kReady + 8 * kItemPlaces, kNear = kMapped + 8 * kItemPlaces;
  static constexpr uint32_t kLoaded = kNear + 8, kTaken = kLoaded + 8 * Tile::kAhead;
  static constexpr uint32_t kFull = kTaken + 8 * Tile::kAhead, kFree = kFull + 8 * Tile::kStages,
      kBytes = kFree + 8 * Tile::kStages;
  static_assert(kDrafts % kMapBytes == 0 && kBytes <= Tile::kShared,
      "the tile table has too little shared memory");
};

// swizzledAt is where the lane's 8 k's of a row begin; the other four lie at this place, but for bit 4.
BG_DEVICE uint32_t swizzledAt(uint32_t row, uint32_t member) {
  return 128 * row + 16 * (2 * member ^ row % 8);
}

// readSwizzled reads the lane's k's of a row and of that 8 rows on.
BG_DEVICE void readSwizzled(const char* memory, uint32_t at, float (&x)[2][8]) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const char* const from = memory + (at ^ 16 * half);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const auto v = loadVector<4, float>(reinterpret_cast<const float*>(from + 1024 * i));
#pragma unroll
      for (int j = 0; j < 4; ++j) x[i][4 * half + j] = v.x[j];
    }
  }
}

template <class Tile, class L>
struct FragmentReader<Raw<Tile>, L, false, 1> {
  uint32_t at;
  BG_DEVICE void start(const float*, uint32_t, uint32_t row, uint32_t, uint32_t member) {
    at = L::kA + swizzledAt(row, member);
  }
  BG_DEVICE void read(const char* memory, uint32_t place, float (&x)[2][8]) const {
    readSwizzled(memory, at + place * L::A::kStage, x);
  }
};

// B along K: the warp has 16 columns of each block.
template <class Tile, class L>
struct Converter<Raw<Tile>, L, true, 1> {
  uint32_t blocks, from, to;
  BG_DEVICE void start(const float*, uint32_t, uint32_t cols, uint32_t warp, uint32_t lane) {
    const uint32_t group = lane / 4, member = lane % 4, n = 16 * warp + group;
    blocks = blocksOf(cols);
    from = L::kB + swizzledAt(n, member);
    to = 128 * n + 16 * group + 4 * member;
  }
  BG_DEVICE void store(char* memory, uint32_t stage, uint32_t place) const {
#pragma unroll
    for (uint32_t block = 0; block < Tile::kBlocks; ++block) {
      if (block >= blocks) break;
      float x[2][8];
      readSwizzled(memory, from + place * L::B::kStage + kBlockBytes * block, x);
#pragma unroll
      for (uint32_t i = 0; i < 16; ++i) {
        const uint32_t column = i / 8, c = i % 8;
        uint32_t* const at = reinterpret_cast<uint32_t*>(memory + stage + kBlockBytes * block +
            1024 * column + (to ^ 16 * c));
        uint32_t hi, lo;
        convert<true>(x[column][c], hi, lo);
        at[0] = hi;
        at[L::kPart / 4] = lo;
      }
    }
  }
};

// B across K: the warp has k's 2*warp and 2*warp + 1 of each 8, and the lane every 32nd column.
template <class Tile, class L>
struct Converter<Raw<Tile>, L, false, 1> {
  uint32_t blocks, from, to[2];
  BG_DEVICE void start(const float*, uint32_t, uint32_t cols, uint32_t warp, uint32_t lane) {
    blocks = blocksOf(cols);
    from = L::kB + kRow * (2 * warp) + 4 * lane;
#pragma unroll
    for (uint32_t h = 0; h < 2; ++h) to[h] = 128 * lane + 16 * (lane % 8 ^ (2 * warp + h));
  }
  BG_DEVICE void store(char* memory, uint32_t stage, uint32_t place) const {
    const char* const at = memory + (from + place * L::B::kStage);
#pragma unroll
    for (uint32_t block = 0; block < Tile::kBlocks; ++block) {
      if (block >= blocks) break;
      float x[4][4];
#pragma unroll
      for (uint32_t i = 0; i < 4; ++i) {
#pragma unroll
        for (uint32_t j = 0; j < 4; ++j) x[i][j] = *reinterpret_cast<const float*>(at +
            kRow * (8 * j + i % 2) + 128 * (2 * block + i / 2));
      }
#pragma unroll
      for (uint32_t i = 0; i < 4; ++i) {
        uint4 hi, lo;
        convert<true>(x[i][0], hi.x, lo.x);
        convert<true>(x[i][1], hi.y, lo.y);
        convert<true>(x[i][2], hi.z, lo.z);
        convert<true>(x[i][3], hi.w, lo.w);
        char* const target = memory + stage + to[i % 2] + kBlockBytes * block + 4096 * (i / 2);
        *reinterpret_cast<uint4*>(target) = hi;
        *reinterpret_cast<uint4*>(target + L::kPart) = lo;
      }
    }
  }
  static constexpr uint32_t kRow = 4 * Tile::TN;  // bytes
};

// feedRaw is the work of the feeder: see feedBoxes, which has why maps are free.
template <class T, bool kTransB, bool kDynamic>
BG_DEVICE void feedRaw(const Items<typename T::More>& items, Feed<typename T::More>& feed, const float* A,
    const float* B, uint32_t* maps, SharedAddress shared) {
  using L = Layout<T, false, kTransB>;
  const SharedAddress draftA = shared + L::kDrafts, draftB = draftA + kMapBytes;
  draftMap<T::TM, float>(draftA);
  if constexpr (kTransB) draftMap<T::TN, float>(draftB);
  else draftMap<T::TK, float, 4 * T::TN>(draftB);
  feed.template next<kDynamic>(items);
  for (uint32_t number = 0;; ++number) {
    const Item item = items.wait(number);
    const bool none = isNone(item);
    if (!none) {
      uint32_t *const mapA = mapOf(maps, number), *const mapB = mapA + kMapWords;
      const uint32_t depth = max(item.depth, 1u);
      const float* const a = readable(item, A + item.offA, maps);
      const float* const b = readable(item, B + item.offB, maps);
      storeMap(mapA, draftA, a, depth, item.rows(), item.lda);
      if constexpr (kTransB) storeMap(mapB, draftB, b, depth, item.cols(), item.ldb);
      else storeMap(mapB, draftB, b, item.cols(), depth, item.ldb);
    }
    warpBarrier();
    if (elected()) arrive(shared + L::kMapped + 8 * (number % kItemPlaces));
    if (none) break;
    waitPhase(shared + L::kNear, number & 1);
    feed.template before<kDynamic>(items);
    feed.template after<kDynamic>(items);
  }
}

// loadRaw is the work of the loader.
template <class T, bool kTransB>
BG_DEVICE void loadRaw(const Items<typename T::More>& items, uint32_t* maps, SharedAddress shared) {
  using L = Layout<T, false, kTransB>;
  Counter<L::A::kPlaces> placeA;
  Counter<T::kAhead> ahead;
  for (uint32_t number = 0;; ++number) {
    waitPhase(shared + L::kMapped + 8 * (number % kItemPlaces), number / kItemPlaces & 1);
    const Item item = items.wait(number);
    if (isNone(item)) break;
    const uint32_t *const mapA = mapOf(maps, number), *const mapB = mapA + kMapWords;
    const uint32_t steps = uniform(stepsOf<T>(item)), near = steps > T::kNear ? steps - T::kNear : 0;
    warpBarrier();  // all lanes have read the item when one says that the loader is near its end
    const bool copies = elected();
    if (copies) acquireMap(mapA), acquireMap(mapB);
    uint32_t k = item.depth == 0 ? T::TK : 0;  // where nothing may be read, boxes of zeros after it
#pragma unroll 1
    for (uint32_t step = 0; step < steps; ++step, k += T::TK) {
      waitPhase(shared + L::kTaken + 8 * ahead.at, ahead.parity ^ 1);
      if (copies) {
        const SharedAddress loaded = shared + L::kLoaded + 8 * ahead.at,
            toB = shared + L::kB + ahead.at * L::B::kStage;
        arriveExpecting(loaded, L::A::kStage + L::B::kStage);
        copyBox(shared + L::kA + placeA.at * L::A::kStage, mapA, k, 0, loaded);
        if constexpr (kTransB) copyBox(toB, mapB, k, 0, loaded);
        else copyBox(toB, mapB, 0, k, loaded);
        if (step == near) arrive(shared + L::kNear);
      }
      placeA.next();
      ahead.next();
    }
  }
}

template <class T, bool kTransA, bool kTransB>
BG_DEVICE void wgmmaRaw(const uint4* __restrict__ items, const uint32_t* __restrict__ table,
    const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C,
    float* __restrict__ workspace, const typename T::More& more = {}) {
  using L = Layout<T, kTransA, kTransB>;
  char* const memory = dynamicShared();
  const SharedAddress shared = sharedAddress(memory);
  const Items<typename T::More> ring{memory + L::kItems, shared + L::kReady, more};
  // consumers first, then the converter, the loader and the feeder
  const uint32_t warp = uniform(threadId() / 32), role = warp / kWarps;
  constexpr uint32_t kLoader = T::kMultiply + kWarps;
  const Launch launch(table);
  Feed<typename T::More> feed;
  if (warp == kLoader + 1) feed.start(items, table, more);
  if (threadId() == 0) {
    for (int i = 0; i < 2 * kItemPlaces + 1; ++i) initPhases(shared + L::kReady + 8 * i, 1);
    for (int i = 0; i < T::kAhead; ++i) {
      initPhases(shared + L::kLoaded + 8 * i, 1);
      initPhases(shared + L::kTaken + 8 * i, kWarps);
    }
    for (int i = 0; i < T::kStages; ++i) {
      initPhases(shared + L::kFull + 8 * i, kWarps);
      initPhases(shared + L::kFree + 8 * i, T::kMultiply);
    }
    fencePhases();
  }
  barrier();
  awaitEarlier();
  if (role < T::kConsumers) {
    raiseRegisters<T::kConsumerRegisters>();
    consume<T, kTransA, kTransB, false>(items, ring, A, B, C, workspace, memory);
  } else if (role == T::kConsumers) {
    lowerRegisters<T::converterRegisters(kTransB)>();
    convertB<T, kTransA, kTransB>(ring, B, memory);
  } else {
    lowerRegisters<T::loaderRegisters(kTransB)>();
    uint32_t* const maps = reinterpret_cast<uint32_t*>(workspace) + workerId() * kMapsWords;
    if (warp == kLoader) {
      loadRaw<T, kTransB>(ring, maps, shared);
      launch.loaded();
    } else if (warp == kLoader + 1) {
      if (isDynamic(table)) feedRaw<T, kTransB, true>(ring, feed, A, B, maps, shared);
      else feedRaw<T, kTransB, false>(ring, feed, A, B, maps, shared);
    }
  }
}
