// The kernel of fp64 for aligned rows, of 9.0: one thread starts copies of boxes (TMA), and warps multiply
// what has come, at their own pace. So a tile may be as large as registers allow: each double is read from
// the L2 cache half as often as by tiles of f64.cuh, and the copies of a tile go on while the one before is
// stored. Items, maps and roles are those of wgmma_boxes.cuh. Tiles are whole, and no rows are gathered.
//
// A box has 16 x 16 doubles, whichever way memory runs: a row of 128 bytes for each row, along K, or for each
// k, swizzled by 128 bytes. It begins at a multiple of 16 bytes: else an H200 reports an illegal instruction.
//
// Blocks of 16 rows, and of 16 columns, are dealt to warps in turn, so that warps share what a tile has.
#pragma once

#include "f64.cuh"
#include "wgmma_boxes_store.cuh"

// DoubleBoxTile is a row of the tile table and what follows from it.
template <int TM_, int TN_, int kDown_, int kStages_, int kShared_>
struct DoubleBoxTile {
  using More = Epilogue;
  static constexpr uint32_t kDown = kDown_, kAcross = TN_ / 32;  // warps
  static constexpr int TM = TM_, TN = TN_, TK = 16, kStages = kStages_, kMultiply = kDown * kAcross;
  static constexpr int kThreads = 32 * kMultiply + 128, kMinGroups = 1, kEpilogueGroups = 1;
  static constexpr uint32_t kShared = kShared_;
  static constexpr int kPitch = 40;  // of a warp's 32 sums of a row in shared memory
  static constexpr int kFinished = 16, kStored = 8;
  static constexpr int kRows = TM / (16 * kDown), kColumns = TN / (16 * kAcross);  // blocks of a warp
  static constexpr int kLoaderRegisters = 24, kConsumerRegisters = 240;
  static constexpr uint32_t kNearEnd = 8;  // steps before an item's last when the next is asked for
  static_assert(kColumns == 2, "lanes store a column of 32 each");
  static_assert(kStages + 2 < kItemPlaces, "too few places for items, and for their maps");  // see WgmmaTile

  // Bytes of shared memory.
  static constexpr uint32_t kBox = 2048, kB = TM / 16 * kBox, kStage = kB + TN / 16 * kBox,
      kOut = kStages * kStage, kWarpOut = 16 * kPitch * 8;
  static constexpr uint32_t kDrafts = kOut + kMultiply * kWarpOut, kItems = kDrafts + kMapBytes;
  static constexpr uint32_t kReady = kItems + kItemPlaces * Items<More>::kBytes,
      kMapped = kReady + 8 * kItemPlaces, kNear = kMapped + 8 * kItemPlaces;
  static constexpr uint32_t kFull = kNear + 8, kFree = kFull + 8 * kStages, kBytes = kFree + 8 * kStages;
  static_assert(kDrafts % kMapBytes == 0 && kBytes <= kShared,
      "the tile table has too little shared memory");

  static BG_DEVICE double sumAt(const double* sums) { return sums[0]; }
};

BG_DEVICE uint32_t stepsOfDoubles(const Item& item) { return max((item.depth + 15) / 16, 1u); }
BG_DEVICE uint32_t blocksOfDoubles(uint32_t n) { return (n + 15) / 16; }

// feedDoubles is the work of the feeder: see feedBoxes, which has why maps are free.
template <class T, bool kDynamic>
BG_DEVICE void feedDoubles(const Items<Epilogue>& items, Feed<Epilogue>& feed, const double* A,
    const double* B, uint32_t* maps, SharedAddress shared) {
  const SharedAddress draft = shared + T::kDrafts;
  const bool acrossA = items.more.has(kTransA), acrossB = !items.more.has(kTransB);
  draftMap<16, double>(draft);
  feed.template next<kDynamic>(items);
  for (uint32_t number = 0;; ++number) {
    const Item item = items.wait(number);
    const bool none = isNone(item);
    if (!none) {
      uint32_t* const map = mapOf(maps, number);
      const uint32_t depth = max(item.depth, 1u), rows = item.rows(), cols = item.cols();
      const double* const a = readable(item, items.operandA(number, A) + item.offA, maps);
      const double* const b = readable(item, items.operandB(number, item, B) + item.offB, maps);
      storeMap(map, draft, a, acrossA ? rows : depth, acrossA ? depth : rows, item.lda);
      storeMap(map + kMapWords, draft, b, acrossB ? cols : depth, acrossB ? depth : cols, item.ldb);
    }
    warpBarrier();
    if (elected()) arrive(shared + T::kMapped + 8 * (number % kItemPlaces));
    if (none) break;
    waitPhase(shared + T::kNear, number & 1);
    feed.template before<kDynamic>(items);
    feed.template after<kDynamic>(items);
  }
}

// copyDoubleBoxes starts the copies of an operand's boxes of a step.
template <class T>
BG_DEVICE void copyDoubleBoxes(SharedAddress to, const uint32_t* map, bool across, uint32_t k, uint32_t boxes,
    SharedAddress full) {
#pragma unroll 1
  for (uint32_t i = 0; i < boxes; ++i) {
    copyBox(to + T::kBox * i, map, across ? 16 * i : k, across ? k : 16 * i, full);
  }
}

// loadDoubles is the work of the loader.
template <class T>
BG_DEVICE void loadDoubles(const Items<Epilogue>& items, uint32_t* maps, SharedAddress shared) {
  const bool acrossA = items.more.has(kTransA), acrossB = !items.more.has(kTransB);
  Counter<T::kStages> stage;
  for (uint32_t number = 0;; ++number) {
    waitPhase(shared + T::kMapped + 8 * (number % kItemPlaces), number / kItemPlaces & 1);
    const Item item = items.wait(number);
    if (isNone(item)) break;
    const uint32_t *const mapA = mapOf(maps, number), *const mapB = mapA + kMapWords;
    const uint32_t steps = uniform(stepsOfDoubles(item)),
        near = steps > T::kNearEnd ? steps - T::kNearEnd : 0;
    const uint32_t boxesA = blocksOfDoubles(item.rows()), boxesB = blocksOfDoubles(item.cols());
    warpBarrier();  // all lanes have read the item when one says that the loader is near its end
    const bool copies = elected();
    if (copies) acquireMap(mapA), acquireMap(mapB);
    uint32_t k = item.depth == 0 ? T::TK : 0;  // where nothing may be read, boxes of zeros after it
#pragma unroll 1
    for (uint32_t step = 0; step < steps; ++step, k += T::TK) {
      waitPhase(shared + T::kFree + 8 * stage.at, stage.parity ^ 1);
      const SharedAddress full = shared + T::kFull + 8 * stage.at, to = shared + stage.at * T::kStage;
      if (copies) {
        arriveExpecting(full, T::kBox * (boxesA + boxesB));
        copyDoubleBoxes<T>(to, mapA, acrossA, k, boxesA, full);
        copyDoubleBoxes<T>(to + T::kB, mapB, acrossB, k, boxesB, full);
        if (step == near) arrive(shared + T::kNear);
      }
      stage.next();
    }
  }
}

// DoubleLanes is where a lane reads boxes of an operand: bytes from the first, of element e of rows group and
// group + 8. Sums may take the k's of a step in any order that A and B share: in this one the lanes of half a
// warp share no bank, along K and across it.
template <bool kAlong>
struct DoubleLanes {
  uint32_t at[4], further[4];
  BG_DEVICE DoubleLanes(uint32_t first, uint32_t lane) {
    const uint32_t group = lane / 4, member = lane % 4;
#pragma unroll
    for (uint32_t e = 0; e < 4; ++e) {
      const uint32_t k = member / 2 * 8 + (member ^ e) * 2 + member % 2;
      at[e] = first + (kAlong ? 128 * group + 16 * (k / 2 ^ group) + 8 * (k % 2) :
          128 * k + 16 * (group / 2 ^ k % 8) + 8 * (group % 2));
      further[e] = kAlong ? at[e] + 1024 : at[e] ^ 64;
    }
  }
  // read reads 16 rows.
  BG_DEVICE void read(const char* block, double (&x)[8]) const {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      x[2 * e] = *reinterpret_cast<const double*>(block + at[e]);
      x[2 * e + 1] = *reinterpret_cast<const double*>(block + further[e]);
    }
  }
  BG_DEVICE void read(const char* block, double (&x)[2][4]) const {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      x[0][e] = *reinterpret_cast<const double*>(block + at[e]);
      x[1][e] = *reinterpret_cast<const double*>(block + further[e]);
    }
  }
};

// DoubleConsumer is a warp of the consumers.
template <class T>
struct DoubleConsumer {
  char* memory;
  SharedAddress shared;
  uint32_t lane, down, across;  // the warp's first blocks
  uint32_t rows, cols;          // blocks of the warp that exist
  Counter<T::kStages> stage;
  double sum[T::kRows][2 * T::kColumns][4];

  BG_DEVICE void release() {
    warpBarrier();
    if (lane == 0) arrive(shared + T::kFree + 8 * stage.at);
    stage.next();
  }
  // pass lets the steps of an item go by.
  BG_DEVICE void pass(uint32_t steps) {
    for (; steps != 0; --steps) {
      waitPhase(shared + T::kFull + 8 * stage.at, stage.parity);
      release();
    }
  }

  template <bool kAlongA, bool kAlongB>
  BG_DEVICE void multiply(uint32_t steps) {
    const DoubleLanes<kAlongA> ofA(T::kBox * down, lane);
    const DoubleLanes<kAlongB> ofB(T::kB + T::kBox * across, lane);
#pragma unroll 1
    for (; steps != 0; --steps) {
      waitPhase(shared + T::kFull + 8 * stage.at, stage.parity);
      const char* const from = memory + stage.at * T::kStage;
      double x[2][8], y[T::kColumns][2][4];
#pragma unroll
      for (uint32_t j = 0; j < T::kColumns; ++j) ofB.read(from + T::kBox * T::kAcross * j, y[j]);
      ofA.read(from, x[0]);
#pragma unroll
      for (uint32_t i = 0; i < T::kRows; ++i) {
        if (i >= rows) break;
        if (i + 1 < T::kRows) ofA.read(from + T::kBox * T::kDown * (i + 1), x[(i + 1) % 2]);
#pragma unroll
        for (uint32_t j = 0; j < T::kColumns; ++j) {
          if (j >= cols) break;
          ::multiply(sum[i][2 * j], x[i % 2], y[j][0]);
          ::multiply(sum[i][2 * j + 1], x[i % 2], y[j][1]);
        }
      }
      release();
    }
  }

  // store writes the sums of block i of rows to the warp's place in shared memory.
  BG_DEVICE void store(uint32_t i, double* to) const {
    const uint32_t group = lane / 4, member = lane % 4;
    to += T::kPitch * group + 2 * member;
#pragma unroll
    for (uint32_t n = 0; n < T::kRows; ++n) {
      if (n != i) continue;
#pragma unroll
      for (uint32_t j = 0; j < 2 * T::kColumns; ++j) {
#pragma unroll
        for (uint32_t h = 0; h < 2; ++h) {
          *reinterpret_cast<TwoDoubles*>(to + T::kPitch * 8 * h + 8 * j) =
              {sum[n][j][2 * h], sum[n][j][2 * h + 1]};
        }
      }
    }
  }
};

// WarpThreads are the threads of a warp that store 16 rows of the warp's blocks, as TileThreads do a tile.
template <class T>
struct WarpThreads {
  static constexpr int kApart = 1;
  uint32_t across;
  BG_DEVICE uint32_t row() const { return 0; }
  BG_DEVICE uint32_t col() const { return 16 * (across + place() / 16 * T::kAcross) + place() % 16; }
  BG_DEVICE uint32_t place() const { return threadId() % 32; }
};

// consumeDoubles is the work of the consumers.
template <class T>
BG_DEVICE void consumeDoubles(const Items<Epilogue>& items, float* C, float* workspace, char* memory) {
  const uint32_t lane = threadId() % 32, warp = uniform(threadId() / 32);
  const Epilogue& e = items.more;
  const bool alongA = !e.has(kTransA), alongB = e.has(kTransB);
  DoubleConsumer<T> c{memory, sharedAddress(memory), lane, warp / T::kAcross, warp % T::kAcross};
  double* const out = reinterpret_cast<double*>(memory + T::kOut + warp * T::kWarpOut);
  for (uint32_t number = 0;; ++number) {
    uint32_t steps;
    {
      const Item item = items.wait(number);
      if (isNone(item)) break;
      c.rows = uniform((blocksOfDoubles(item.rows()) + T::kDown - 1 - c.down) / T::kDown);
      c.cols = uniform((blocksOfDoubles(item.cols()) + T::kAcross - 1 - c.across) / T::kAcross);
      steps = uniform(stepsOfDoubles(item));
    }
    if (c.rows == 0 || c.cols == 0) {
      c.pass(steps);
      continue;
    }
#pragma unroll
    for (int i = 0; i < T::kRows * 2 * T::kColumns * 4; ++i) {
      c.sum[i / 4 / (2 * T::kColumns)][i / 4 % (2 * T::kColumns)][i % 4] = 0;
    }
    if (alongA) {
      if (alongB) c.template multiply<true, true>(steps);
      else c.template multiply<true, false>(steps);
    } else {
      if (alongB) c.template multiply<false, true>(steps);
      else c.template multiply<false, false>(steps);
    }
#pragma unroll 1
    for (uint32_t i = 0; i < c.rows; ++i) {
      warpBarrier();
      c.store(i, out);
      warpBarrier();
      finishDoubles<T>(e, out, items.words() + number % kItemPlaces * (kEpilogueItemWords / 4), C, workspace,
          16 * (c.down + i * T::kDown), WarpThreads<T>{c.across});
    }
  }
}

template <class T>
BG_DEVICE void doubleBoxes(const uint4* __restrict__ items, const uint32_t* __restrict__ table,
    const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C,
    float* __restrict__ workspace, const Epilogue& e) {
  char* const memory = dynamicShared();
  const SharedAddress shared = sharedAddress(memory);
  const Items<Epilogue> ring{memory + T::kItems, shared + T::kReady, e};
  const uint32_t warp = uniform(threadId() / 32);  // consumers first, then the loader, then the feeder
  const Launch launch(table);
  Feed<Epilogue> feed;
  if (warp == T::kMultiply + 1) feed.start(items, table, e);
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
    consumeDoubles<T>(ring, C, workspace, memory);
  } else {
    lowerRegisters<T::kLoaderRegisters>();
    if (warp == T::kMultiply) {
      loadDoubles<T>(ring, maps, shared);
      launch.loaded();
    } else if (warp == T::kMultiply + 1) {
      const auto* const a = reinterpret_cast<const double*>(A);
      const auto* const b = reinterpret_cast<const double*>(B);
      if (isDynamic(table)) feedDoubles<T, true>(ring, feed, a, b, maps, shared);
      else feedDoubles<T, false>(ring, feed, a, b, maps, shared);
    }
  }
}
