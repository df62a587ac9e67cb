// Kernels of warpgroup products for aligned rows along K, of A and of B transposed: one thread starts copies
// of whole boxes (TMA), so that no warp spends its issue slots on them. Tiles are larger than those of
// wgmma_aligned.cuh, whose layout of stages and items these are. No rows are gathered.
//
// Each item has maps of its own, which end with its rows and columns: nothing else is read, and problems of
// any sizes and leading dimensions share a launch. They lie in the workspace.
//
//	feeder      a warp, publishes items and makes their maps, while the one before is copied: else a worker
//	            would ask for nothing meanwhile, which groups of few rows, that wait for B, would notice.
//	loader      a warp, starts the copies.
//	consumers   two warpgroups, multiply, each 64 rows by 256 columns, or by 128 where no more exist.
#pragma once

#include "wgmma_boxes_store.cuh"

// BoxTile is a row of the tile table and what follows from it.
template <int TM_, int TN_, int kStages_, int kShared_, class Element_, class More_ = NoEpilogue>
struct BoxTile {
  using Element = Element_;
  using More = More_;
  static constexpr int TM = TM_, TN = TN_, TK = 32 * Element::kPer, kStages = kStages_;
  static constexpr int kConsumers = 2, kMultiply = kWarps * kConsumers;
  static_assert(TM == 64 * kConsumers && TN == 256, "a consumer multiplies 64 rows by 256 columns");
  static constexpr int kThreads = 128 * (kConsumers + 1), kMinGroups = 1, kEpilogueGroups = 1;
  static constexpr uint32_t kShared = kShared_;
  static constexpr bool kEmulated = false;
  static constexpr Keeping kKeeping = kNowhere;
  static_assert(kStages + 2 < kItemPlaces, "too few places for items, and for their maps");  // see WgmmaTile
  // Of e4m3 the sums of a step have the registers that a tile to be stored would need.
  static constexpr bool kStoresLater = Element::kPer == 2 || Element::kWhole;
  static constexpr int kLoaderRegisters = 40, kConsumerRegisters = 232;
  static constexpr int kAhead = 8;  // steps before an item's last when the next is asked for

  // Bytes of shared memory. A stage has rows of 128 bytes, of A, then of B.
  static constexpr uint32_t kB = 128 * TM, kStage = kB + 128 * TN, kOut = kStages * kStage;
  static constexpr uint32_t kWarpOut = kStoresLater ? kSlabs * kSlabBytes : kOutBytes,
      kDrafts = kOut + kMultiply * kWarpOut, kItems = kDrafts + kMapsOfItem * kMapBytes;
  // Phases: an item is published, and mapped; the loader is near its end; a stage is full, and free.
  static constexpr uint32_t kReady = kItems + kItemPlaces * Items<More>::kBytes,
      kMapped = kReady + 8 * kItemPlaces, kNear = kMapped + 8 * kItemPlaces;
  static constexpr uint32_t kFull = kNear + 8, kFree = kFull + 8 * kStages, kBytes = kFree + 8 * kStages;
  static_assert(kDrafts % kMapBytes == 0 &&
      kBytes <= kShared + kItemPlaces * 4 * (More::kWords - kItemWords),
      "the tile table has too little shared memory");
};

// Rows of boxes of A, and of B. Those without an element are not copied: zeros take as long.
constexpr uint32_t kBoxRowsA = 64, kBoxRowsB = 128;

// feedBoxes is the work of the feeder. When it stores maps, copies by those that were there are done: they
// were for an item more than kStages before that which the loader is at, and items have one step at least.
template <class T, bool kDynamic>
BG_DEVICE void feedBoxes(const Items<typename T::More>& items, Feed<typename T::More>& feed,
    const typename T::Element::Number* A, const typename T::Element::Number* B, float* C, uint32_t* maps,
    SharedAddress shared) {
  using Number = typename T::Element::Number;
  const SharedAddress draftA = shared + T::kDrafts, draftB = draftA + kMapBytes, draftC = draftB + kMapBytes;
  draftMap<kBoxRowsA, Number>(draftA);
  draftMap<kBoxRowsB, Number>(draftB);
  draftMap<kSlabRows, uint16_t>(draftC);
  feed.template next<kDynamic>(items);
  for (uint32_t number = 0;; ++number) {
    const Item item = items.wait(number);
    const bool none = isNone(item);
    if (!none) {
      uint32_t* const map = mapOf(maps, number);
      const uint32_t depth = max(item.depth, 1u);
      const Number* const a = readable(item, items.operandA(number, A) + item.offA, maps);
      const Number* const b = readable(item, items.operandB(number, item, B) + item.offB, maps);
      storeMap(map, draftA, a, depth, item.rows(), item.lda);
      storeMap(map + kMapWords, draftB, b, depth, item.cols(), item.ldb);
      if (uint16_t* const c = boxesOfC<T>(items, number, item, C)) {
        storeMap(map + kMapOfC, draftC, c, item.cols(), item.rows(), item.ldc);
      }
    }
    warpBarrier();
    if (elected()) arrive(shared + T::kMapped + 8 * (number % kItemPlaces));
    if (none) break;
    if constexpr (T::More::kIs) fetchLists<T>(items, number, item);
    waitPhase(shared + T::kNear, number & 1);
    feed.template before<kDynamic>(items);
    feed.template after<kDynamic>(items);
  }
}

// copyBoxes starts the copies of an operand's boxes of a step.
template <uint32_t kRows, uint32_t kMost>
BG_DEVICE void copyBoxes(SharedAddress to, const uint32_t* map, uint32_t k, uint32_t boxes,
    SharedAddress full) {
#pragma unroll
  for (uint32_t i = 0; i < kMost; ++i) {
    if (i < boxes) copyBox(to + 128 * kRows * i, map, k, kRows * i, full);
  }
}

// loadBoxes is the work of the loader.
template <class T>
BG_DEVICE void loadBoxes(const Items<typename T::More>& items, float* C, uint32_t* maps,
    SharedAddress shared) {
  Counter<T::kStages> stage;
  for (uint32_t number = 0;; ++number) {
    waitPhase(shared + T::kMapped + 8 * (number % kItemPlaces), number / kItemPlaces & 1);
    const Item item = items.wait(number);
    if (isNone(item)) break;
    const uint32_t* const mapA = mapOf(maps, number);
    const uint32_t* const mapB = mapA + kMapWords;
    const uint32_t steps = uniform(stepsOf<T>(item)), near = steps > T::kAhead ? steps - T::kAhead : 0;
    const uint32_t boxesA = (item.rows() + kBoxRowsA - 1) / kBoxRowsA,
        boxesB = (item.cols() + kBoxRowsB - 1) / kBoxRowsB,
        bytes = 128 * (kBoxRowsA * boxesA + kBoxRowsB * boxesB);
    warpBarrier();  // all lanes have read the item when one says that the loader is near its end
    const bool copies = elected();
    if (copies) {
      acquireMap(mapA), acquireMap(mapB);
      // for consumers too, who go on when the copies below have come
      if (boxesOfC<T>(items, number, item, C) != nullptr) acquireMap(mapA + kMapOfC);
    }
    uint32_t k = item.depth == 0 ? T::TK : 0;  // where nothing may be read, boxes of zeros after it
#pragma unroll 1
    for (uint32_t step = 0; step < steps; ++step, k += T::TK) {
      waitPhase(shared + T::kFree + 8 * stage.at, stage.parity ^ 1);
      const SharedAddress full = shared + T::kFull + 8 * stage.at, to = shared + stage.at * T::kStage;
      if (copies) {
        arriveExpecting(full, bytes);
        copyBoxes<kBoxRowsA, T::TM / kBoxRowsA>(to, mapA, k, boxesA, full);
        copyBoxes<kBoxRowsB, T::TN / kBoxRowsB>(to + T::kB, mapB, k, boxesB, full);
        if (step == near) arrive(shared + T::kNear);
      }
      stage.next();
    }
  }
}

// Four lanes have the same rows, and each loads the scales of one of four steps: loads of many rows take as
// much of shared memory's time as the products of a step leave.
constexpr uint32_t kScaleSteps = 4;

// BoxScales are the scales of blocks of an item, of the lane's two rows and of both blocks of columns, where
// there are such, else ones, as the compiler must not know: it would add, and spill. They are under way for
// four steps.
struct BoxScales {
  const uint32_t* words;    // of Rows
  uint32_t atA[2], atB[2];  // of the lane's next step
  uint32_t left;            // steps from there on that the item has
  bool some = false;
  float a[2], b[2], nextA[2], nextB[2];  // of the lane's step of these four, and of the next
  float scale[4];                        // of a step, of a block of columns and a row

  template <class T>
  BG_DEVICE void start(const Items<typename T::More>& items, uint32_t number, uint32_t row, uint32_t steps) {
    const float one = __uint_as_float(ofEachLane(__float_as_uint(1.0f)));
#pragma unroll
    for (int i = 0; i < 4; ++i) scale[i] = one;
    if constexpr (kHasBlocks<T, typename T::More>) {
      const Item item = items.wait(number);
      some = uniform(items.more.has(kBlocks) && item.depth != 0) != 0;
      if (!some) return;
      const ItemEpilogue of = itemEpilogueAt(items.words(), number % kItemPlaces);
      const uint32_t each = scaleBlocks(item.depth), lane = threadId() % 32, first = row + lane / 4;
      words = items.more.rows;
      left = steps - min(steps, lane % kScaleSteps);
#pragma unroll
      for (uint32_t i = 0; i < 2; ++i) {
        atA[i] = of.scaleAAt + min(first + 8 * i, item.rows() - 1) * each + lane % kScaleSteps;
        atB[i] = of.scaleBAt + (i * kScaleBlock < item.cols() ? i * each : 0) + lane % kScaleSteps;
        nextA[i] = nextB[i] = 0;
      }
      ask();
    }
  }
  BG_DEVICE void ask() {
    if (left == 0) return;
    left -= min(left, kScaleSteps);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      nextA[i] = __uint_as_float(words[atA[i]]);
      nextB[i] = __uint_as_float(words[atB[i]]);
      atA[i] += kScaleSteps, atB[i] += kScaleSteps;
    }
  }
  // take begins four steps, and next is for each of them.
  BG_DEVICE void take() {
    if (!some) return;
#pragma unroll
    for (int i = 0; i < 2; ++i) a[i] = nextA[i], b[i] = nextB[i];
    ask();
  }
  BG_DEVICE void next(uint32_t step) {
    if (!some) return;
    auto of = [&](float x) { return __uint_as_float(ofFour(__float_as_uint(x), step)); };
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const float ofColumns = of(b[i]);
#pragma unroll
      for (int j = 0; j < 2; ++j) scale[2 * i + j] = of(a[j]) * ofColumns;
    }
    settle(scale);
  }
  template <int n>
  BG_DEVICE void add(float (&sum)[n], const float (&part)[n], int block) const {
#pragma unroll
    for (int i = 0; i < n; ++i) sum[i] = fmaf(scale[2 * block + i / 2 % 2], part[i], sum[i]);
  }
};

// BoxConsumer is a warp of the consumers.
template <class T>
struct BoxConsumer {
  SharedAddress shared;
  uint32_t lane, warpgroup;
  Counter<T::kStages> stage;

  BG_DEVICE void wait() const { waitPhase(shared + T::kFull + 8 * stage.at, stage.parity); }
  BG_DEVICE void release(uint32_t at) const {
    if (lane == 0) arrive(shared + T::kFree + 8 * at);
  }
  // ofA and ofB are the low words of what describes the stage's rows of the warpgroup, and columns.
  BG_DEVICE uint32_t ofA() const { return lowOf(warpgroup * (64 * 128)); }
  BG_DEVICE uint32_t ofB() const { return lowOf(T::kB); }
  BG_DEVICE uint32_t lowOf(uint32_t at) const {
    return static_cast<uint32_t>(matrixB(shared + at)) + stage.at * (T::kStage >> 4);
  }
  // pass lets the steps of an item go by.
  BG_DEVICE void pass(uint32_t steps) {
    for (; steps != 0; --steps) {
      wait();
      warpBarrier();  // see Consumer
      release(stage.at);
      stage.next();
    }
  }

  // multiply sums steps of the first 2n columns, and stores the tile before meanwhile.
  template <int n>
  BG_DEVICE void multiply(float (&sum)[n], const Items<typename T::More>& items, uint32_t number,
      uint32_t steps, TileStore<T>& last) {
    if constexpr (T::Element::kWhole) {
      multiplyWhole(sum, [&](auto& whole) { accumulate(whole, steps, last); });
    } else if constexpr (T::Element::kPer == 4) {
      BoxScales scales;
      scales.start<T>(items, number, last.row, steps);
      multiplyBytes(sum, steps, scales);
    } else {
      accumulate(sum, steps, last);
    }
  }

  // accumulate has all sums made by the tensor cores. The products of a step are carried out while those of
  // the next are asked for.
  template <class Sum, int n>
  BG_DEVICE void accumulate(Sum (&sum)[n], uint32_t steps, TileStore<T>& last) {
#pragma unroll
    for (int i = 0; i < n; ++i) sum[i] = 0;
    uint32_t before = 0;
#pragma unroll 1
    for (uint32_t step = 0; step < steps; ++step) {
      wait();
      const uint32_t a = ofA(), b = ofB();
      fenceProducts();
#pragma unroll
      for (int s = 0; s < 4; ++s) {
        productOf<false, false>(typename T::Element::Format{}, sum, matrixAt(a + 2 * s), matrixAt(b + 2 * s));
      }
      commitProducts();
      last.storePart(step);
      if (step != 0) {
        waitProducts<1>();
        release(before);
      }
      before = stage.at;
      stage.next();
    }
    waitProducts<0>();
    settle(sum);
    release(before);
    last.storeRest(steps);
  }

  // multiplyBytes is AlignedConsumer's, by halves of 128 columns: there are no registers for more beside all
  // sums. While one warpgroup adds, the other multiplies.
  template <int n>
  BG_DEVICE void multiplyBytes(float (&sum)[n], uint32_t steps, BoxScales& scales) {
    constexpr int kHalf = 64, kHalves = n / kHalf;
    const typename T::Element::Format format;
#pragma unroll
    for (int i = 0; i < n; ++i) sum[i] = 0;
#pragma unroll 1
    for (uint32_t left = steps; left != 0;) {
      const uint32_t count = min(left, kScaleSteps);
      left -= count;
      scales.take();
#pragma unroll 1
      for (uint32_t step = 0; step < count; ++step) {
        wait();
        const uint32_t a = ofA();
#pragma unroll
        for (int half = 0; half < kHalves; ++half) {
          const uint32_t b = ofB() + half * (2 * kHalf * 128 >> 4);
          float part[kHalf];
          fenceProducts();
          productOf<true>(format, part, matrixAt(a), matrixAt(b));
#pragma unroll
          for (int s = 1; s < 4; ++s) productOf<false>(format, part, matrixAt(a + 2 * s),
              matrixAt(b + 2 * s));
          commitProducts();
          if (half == 0) scales.next(step);
          waitProducts<0>();
          settle(part);
          if (half + 1 == kHalves) release(stage.at);
          scales.add(reinterpret_cast<float (&)[kHalf]>(sum[half * kHalf]), part, half);
        }
        stage.next();
      }
    }
  }
};

// consumeBoxes is the work of the consumers.
template <class T>
BG_DEVICE void consumeBoxes(const Items<typename T::More>& items, float* C, float* workspace, uint32_t* maps,
    char* memory) {
  const uint32_t lane = threadId() % 32, warp = uniform(threadId() / 32), row = 16 * warp;
  BoxConsumer<T> c{sharedAddress(memory), lane, warp / kWarps};
  TileStore<T> last{memory + T::kOut + warp * T::kWarpOut, row};
  Kept<T, T::kKeeping> kept(workspace);
  for (uint32_t number = 0;; ++number) {
    uint32_t steps, rows, cols;
    {
      const Item item = items.wait(number);
      if (isNone(item)) break;
      rows = uniform(item.rows());
      cols = uniform(item.cols());
      steps = uniform(stepsOf<T>(item));
    }
    auto compute = [&](auto& sum) {
      c.multiply(sum, items, number, steps, last);
      if (row < rows) finishBoxes<T>(sum, items, number, kept, last, C, workspace, maps);
      else last.forget();
    };
    if (row / 64 * 64 >= rows) {
      last.storeRest(0);
      last.forget();
      c.pass(steps);
    } else if (cols <= 128) {
      float sum[64];
      compute(sum);
    } else {
      float sum[128];
      compute(sum);
    }
  }
  last.storeRest(0);
  last.awaitRead();
}

template <class T, bool kTransA, bool kTransB>
BG_DEVICE void wgmmaBoxes(const uint4* __restrict__ items, const uint32_t* __restrict__ table,
    const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C,
    float* __restrict__ workspace, const typename T::More& more = {}) {
  static_assert(!kTransA && kTransB, "boxes run along K");
  char* const memory = dynamicShared();
  const SharedAddress shared = sharedAddress(memory);
  const Items<typename T::More> ring{memory + T::kItems, shared + T::kReady, more};
  const uint32_t warp = uniform(threadId() / 32);  // consumers first, then the loader, then the feeder
  const Launch launch(table);
  Feed<typename T::More> feed;
  if (warp == T::kMultiply + 1) feed.start(items, table, more);
  if (threadId() == 0) {
    for (int i = 0; i < 2 * kItemPlaces + 1; ++i) initPhases(shared + T::kReady + 8 * i, 1);
    for (int i = 0; i < T::kStages; ++i) {
      initPhases(shared + T::kFull + 8 * i, 1);
      initPhases(shared + T::kFree + 8 * i, T::kMultiply);
    }
    fencePhases();
  }
  barrier();
  awaitEarlier();
  uint32_t* const maps = reinterpret_cast<uint32_t*>(workspace) + workerId() * kMapsWords;
  if (warp < T::kMultiply) {
    raiseRegisters<T::kConsumerRegisters>();
    consumeBoxes<T>(ring, C, workspace, maps, memory);
  } else {
    lowerRegisters<T::kLoaderRegisters>();
    if (warp == T::kMultiply) {
      loadBoxes<T>(ring, C, maps, shared);
      launch.loaded();
    } else if (warp == T::kMultiply + 1) {
      const auto* const a = reinterpret_cast<const typename T::Element::Number*>(A);
      const auto* const b = reinterpret_cast<const typename T::Element::Number*>(B);
      if (isDynamic(table)) feedBoxes<T, true>(ring, feed, a, b, C, maps, shared);
      else feedBoxes<T, false>(ring, feed, a, b, C, maps, shared);
    }
  }
}
