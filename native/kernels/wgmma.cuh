// Kernels that carry out a plan with Hopper's warpgroup products (wgmma, sm_90a):
// the same items, table, partial tiles and fix-ups as gemm.cuh, the same arithmetic
// as tensor.cuh.
//
// A thread group is kConsumers warpgroups that multiply, each for 64 rows of the
// tile, and two that bring the operands. They run apart, across the end of an item
// too, so that a worker with several items never waits for the first load of the next.
//
//	loader      copies A and B to rings in shared memory, 16 bytes at a time.
//	converter    splits B, up to kAhead steps after the loader, and stores it as hi and lo
//	            with k as the fastest index, which is what wgmma takes.
//	consumers   up to kStages steps after the converter: read A from its ring, split
//	            it in registers, multiply, add the products of each step to fp32
//	            registers.
//
// Loader and converter are not one, because the fence between the converter's stores
// and the tensor cores (fenceStores) waits for all copies that the thread has started.
//
// The tensor cores are not fed in the background: a warp gets past its product
// instructions only as they are carried out. Two consumers fill each other's gaps.
// Products read and write the sums in registers, and leave the other instructions of
// all roles about half of the issue slots (in 128x128 on an H200, tensor cores are busy
// for 54 % of the time, shared memory for 57 %, as ncu has it). So what counts in every
// role is how many instructions a step takes.
//
// Of the columns a consumer multiplies 32, 64 or 128, whichever holds those that exist.
//
// Places of the rings are numbered by slots, one for each step and, where an operand
// runs along K (kLead), one more at the beginning of an item. Memory of such an
// operand is copied in chunks of 128 bytes as memory is aligned, because an unaligned
// row would touch one more line of the L2 cache in every step; slot q brings chunk q
// of each row, and its step needs chunks q-1 and q.
//
// Within a step, the k of element e of lane `member` (of 4) is 8*member + e. This
// order is free as long as A and B agree; with it a lane reads 8 adjacent numbers of
// a row, without bank conflicts whatever the row's alignment (see KMajor).
#pragma once

#include "../epilogue/wgmma_epilogue.cuh"
#include "wgmma_convert.cuh"

// WgmmaTile is a row of the tile table and what follows from it.
template <int TM_, int TN_, int kConsumers_, int kMinGroups_, int kStages_, int kAhead_, int kShared_,
    bool kEmulated_, class Element_ = Floats, class More_ = NoEpilogue>
struct WgmmaTile {
  using Element = Element_;  // of A and B
  using More = More_;        // what kernels have for an epilogue
  static constexpr bool kSwapped = kIsSwapped<More>;
  static constexpr int TM = TM_, TN = TN_, TK = 32;
  static constexpr int kConsumers = kConsumers_, kMultiply = kWarps * kConsumers;  // warps that multiply
  static constexpr int kBlocks = TN / 64;  // of columns
  static_assert(TM == 64 * kConsumers && TN == 64 * kBlocks && kBlocks <= 2,
      "a consumer multiplies 64 rows by one or two blocks of 64 columns");
  static constexpr int kThreads = 128 * (kConsumers + 2);
  static constexpr int kMinGroups = kMinGroups_;  // thread groups that must fit in a multiprocessor
  static constexpr int kEpilogueGroups = kMinGroups;
  static constexpr int kStages = kStages_;        // steps of B, split
  static constexpr int kAhead = kAhead_;          // steps of B as they come from memory
  static constexpr uint32_t kShared = kShared_;   // bytes of shared memory that the kernels are launched with
  static constexpr bool kEmulated = kEmulated_;
  // When the loader begins an item, and publishes the next one, consumers have released
  // the slot kStages + kAhead before its last one, but may still store that slot's item.
  // Items have one slot at least.
  static_assert(kStages + kAhead + 2 < kItemPlaces, "too few places for items");
  // Registers of a thread: together not more than the thread group is launched with, 65536 / (kMinGroups *
  // kThreads) for each.
  BG_DEVICE static constexpr int loaderRegisters(bool transB) { return kMinGroups == 2 ? (transB ? 48 : 56) :
      kBlocks == 2 ? (Element::kPer == 4 ? 72 : 64) : 88; }
  BG_DEVICE static constexpr int converterRegisters(bool transB) { return kMinGroups == 2 ?
      (transB ? 56 : 48) : kBlocks == 2 ? (Element::kPer == 4 ? 72 : 64) : 72; }
  static constexpr int kConsumerRegisters = kMinGroups == 2 ? 136 : kBlocks == 2 ?
      (Element::kPer == 4 ? 184 : 192) : kConsumers == 2 ? 176 : 208;
};

// Layout places everything in shared memory, in bytes.
template <class T, bool kTransA, bool kTransB>
struct Layout {
  template <bool b, class X, class Y>
  struct If { using Type = X; };
  template <class X, class Y>
  struct If<false, X, Y> { using Type = Y; };
  // A place of B may be loaded when the converter has taken the slot kAhead before, and then consumers are
  // done with the slot another kStages before. Along K, a chunk is read by the next slot, too. A of 16 and 8
  // bits keeps lines only: its readers have no registers for the places of all rows.
  using E = typename T::Element;
  using A = typename If<!kTransA, KMajor<E, T::TM, T::kStages + T::kAhead + 1>,
      MNMajor<E, T::TM, T::kStages + T::kAhead, E::kPer == 1 ? 2 : 1>>::Type;
  using B = typename If<kTransB, KMajor<E, T::TN, T::kAhead + 1>, MNMajor<E, T::TN, T::kAhead,
      E::kPer == 1 ? 8 : 2>>::Type;
  static constexpr bool kLead = !kTransA || kTransB;

  // hi, then lo
  static constexpr uint32_t kPart = 4 * T::TN * T::TK, kStage = (T::kEmulated ? 2 : 1) * kPart;
  static constexpr uint32_t kA = T::kStages * kStage, kB = kA + A::kBytes, kOut = kB + B::kBytes;
  static constexpr uint32_t kItems = kOut + T::kConsumers * kWarps * kOutBytes;
  // Phases: an item is published; a slot was loaded, and taken by the converter; a step was split, and used
  // by the consumers.
  static constexpr uint32_t kReady = kItems + kItemPlaces * Items<typename T::More>::kBytes,
      kLoaded = kReady + 8 * kItemPlaces, kTaken = kLoaded + 8 * T::kAhead;
  static constexpr uint32_t kFull = kTaken + 8 * T::kAhead, kFree = kFull + 8 * T::kStages,
      kBytes = kFree + 8 * T::kStages;
};

// Counter goes round the places of a ring.
template <uint32_t n>
struct Counter {
  uint32_t at = 0, parity = 0;
  BG_DEVICE void next() {
    if (++at == n) at = 0, parity ^= 1;
  }
};

// multiplyWhole makes sums of what accumulate finds of int32.
template <int n, class Accumulate>
BG_DEVICE void multiplyWhole(float (&sum)[n], Accumulate accumulate) {
  int32_t whole[n];
  accumulate(whole);
#pragma unroll
  for (int i = 0; i < n; ++i) sum[i] = static_cast<float>(whole[i]);
}

// load is the work of the loader.
template <class T, bool kTransA, bool kTransB, bool kDynamic>
BG_DEVICE void load(const Items<typename T::More>& items, Feed<typename T::More>& feed,
    const typename T::Element::Number* A, const typename T::Element::Number* B, char* memory) {
  using L = Layout<T, kTransA, kTransB>;
  const uint32_t lane = threadId() % 32, warp = uniform(threadId() / 32 % kWarps);
  const SharedAddress shared = sharedAddress(memory);
  typename L::A::Loader a;
  typename L::B::Loader b;
  Counter<L::A::kPlaces> placeA;
  Counter<L::B::kPlaces> placeB;
  Counter<T::kAhead> ahead;
  if (warp == 0) feed.template next<kDynamic>(items);
  for (uint32_t number = 0;; ++number) {
    const Item item = items.wait(number);
    if (isNone(item)) break;
    if (warp == 0) feed.template before<kDynamic>(items);
    if constexpr (T::More::kIs) {
      if (warp == 1) fetchLists<T>(items, number, item);
    }
    const auto* const startA = items.operandA(number, A) + item.offA;
    if constexpr (T::More::kIs && !kTransA) a.start(startA, item.lda, item.rows(), item.depth, shared + L::kA,
        warp, lane, gatheredRows(items, number, item));
    else a.start(startA, item.lda, item.rows(), item.depth, shared + L::kA, warp, lane);
    b.start(items.operandB(number, item, B) + item.offB, item.ldb, item.cols(), item.depth, shared + L::kB,
        warp, lane);
    const uint32_t slots = uniform(stepsOf<T>(item)) + L::kLead;
#pragma unroll 1
    for (uint32_t slot = 0; slot < slots; ++slot) {
      waitPhase(shared + L::kTaken + 8 * ahead.at, ahead.parity ^ 1);
      const bool lead = L::kLead && slot == 0;
      if (kTransB || !lead) b.next(placeB.at);
      if (!kTransA || !lead) a.next(placeA.at);
      arriveCopied(shared + L::kLoaded + 8 * ahead.at);
      placeA.next();
      placeB.next();
      ahead.next();
    }
    if (warp == 0) feed.template after<kDynamic>(items);
  }
}

// split is the work of the converter.
template <class T, bool kTransA, bool kTransB>
BG_DEVICE void convertB(const Items<typename T::More>& items, const typename T::Element::Number* B,
    char* memory) {
  using L = Layout<T, kTransA, kTransB>;
  const uint32_t lane = threadId() % 32, warp = uniform(threadId() / 32 % kWarps);
  const SharedAddress shared = sharedAddress(memory);
  Converter<T, L, kTransB> converter;
  Counter<T::kStages> stage;
  Counter<T::kAhead> ahead;
  Counter<L::B::kPlaces> place;
  for (uint32_t number = 0;; ++number) {
    const Item item = items.wait(number);
    if (isNone(item)) break;
    converter.start(items.operandB(number, item, B) + item.offB, item.ldb, item.cols(), warp, lane);
    const uint32_t slots = uniform(stepsOf<T>(item)) + L::kLead;
#pragma unroll 1
    for (uint32_t slot = 0; slot < slots; ++slot) {
      waitPhase(shared + L::kFree + 8 * stage.at, stage.parity ^ 1);
      waitPhase(shared + L::kLoaded + 8 * ahead.at, ahead.parity);
      if (!L::kLead || slot != 0) {
        converter.store(memory, stage.at * L::kStage, place.at);
        fenceStores();
      }
      warpBarrier();
      if (lane == 0) {
        arrive(shared + L::kFull + 8 * stage.at);
        arrive(shared + L::kTaken + 8 * ahead.at);
      }
      stage.next();
      ahead.next();
      place.next();
    }
  }
}

// Consumer is a warp of the consumers.
template <class T, bool kTransA, bool kTransB>
struct Consumer {
  using L = Layout<T, kTransA, kTransB>;
  // Products of halves and of whole numbers are exact, and their sums are not cut.
  static constexpr bool kPromotes = T::Element::kPer != 2 && !T::Element::kWhole;
  // kEarly: the step to come is read and split while products are under way, where there are registers for
  // it, and stages: with two or three of them the converter waits longer for the one that is used than
  // products would for a step (H200).
  static constexpr bool kEarly = T::Element::kPer == 1 && T::kStages > 3;
  char* memory;
  SharedAddress full, free;
  uint32_t lane;
  Counter<T::kStages> stage;
  Counter<L::A::kPlaces> place;
  FragmentReader<T, L, kTransA> reader;

  BG_DEVICE void release(uint32_t at) const {
    if (lane == 0) arrive(free + 8 * at);
  }
  BG_DEVICE void next() {
    stage.next();
    place.next();
  }
  // pass lets a slot go by, in which there is nothing to multiply.
  BG_DEVICE void pass() {
    waitPhase(full + 8 * stage.at, stage.parity);
    warpBarrier();  // or the stage could come round before the last lane has seen this phase
    release(stage.at);
    next();
  }
  BG_DEVICE void read(typename T::Element::Word (&x)[2][8]) const {
    waitPhase(full + 8 * stage.at, stage.parity);
    reader.read(memory, place.at, x);
  }

  // multiply sums `left` steps of the first 2n columns.
  template <int n, class Scales>
  BG_DEVICE void multiply(float (&sum)[n], uint32_t left, Scales& scales) {
    if constexpr (T::Element::kWhole) multiplyWhole(sum, [&](auto& whole) { accumulate(whole, left,
        scales); });
    else accumulate(sum, left, scales);
  }

  template <class Sum, int n, class Scales>
  BG_DEVICE void accumulate(Sum (&sum)[n], uint32_t left, Scales& scales) {
    const uint64_t bHi = matrixB(sharedAddress(memory)), bLo = matrixB(sharedAddress(memory) + L::kPart);
    typename T::Element::Word x[2][8];
    float part[n];  // of a step, unless the tensor cores add up all
    Fragment<T> f;
#pragma unroll
    for (int i = 0; i < n; ++i) sum[i] = 0;
    read(x);
    f.split(x);
    auto step = [&](const Fragment<T>& now, Fragment<T>& then) {
      const uint32_t used = stage.at;
      const uint64_t at = static_cast<uint64_t>(uniform(used) * (L::kStage >> 4));
      if constexpr (T::Element::kPer == 1) now.multiply(part, bHi + at, bLo + at);
      else if constexpr (kPromotes) now.multiply(part, bHi + at);
      else now.multiply(sum, bHi + at);
      next();
      if constexpr (kEarly) {
        if (left > 1) read(x);
        then.split(x);
      }
      waitProducts<0>();
      if constexpr (kPromotes) settle(part);
      else settle(sum);
      release(used);
      if (!kEarly && left > 1) read(x);
      if constexpr (kPromotes) scales.add(sum, part, left > 1);
      if constexpr (!kEarly) then.split(x);
    };
    if constexpr (kEarly) {
      Fragment<T> g;
#pragma unroll 1
      while (true) {
        step(f, g);
        if (--left == 0) break;
        step(g, f);
        if (--left == 0) break;
      }
    } else {
      // The step to come is split at the end of the loop, since the compiler would otherwise
      // place some of it between products. No product is under way there: it would wait for
      // each one.
#pragma unroll 1
      do step(f, f);
      while (--left != 0);
    }
  }
};

// consume is the work of the consumers. launched are the items of the launch.
template <class T, bool kTransA, bool kTransB, bool kPartials>
BG_DEVICE void consume(const uint4* launched, const Items<typename T::More>& items,
    const typename T::Element::Number* A, const typename T::Element::Number* B, float* C, float* workspace,
    char* memory) {
  using L = Layout<T, kTransA, kTransB>;
  // the warp's first row of the tile
  const uint32_t lane = threadId() % 32, warp = uniform(threadId() / 32), row = 16 * warp;
  const SharedAddress shared = sharedAddress(memory);
  float* const out = reinterpret_cast<float*>(memory + L::kOut + warp * kOutBytes);
  Consumer<T, kTransA, kTransB> c{memory, shared + L::kFull, shared + L::kFree, lane};

  for (uint32_t number = 0;; ++number) {
    uint32_t left, rows, cols;
    {
      const Item item = items.wait(number);
      if (isNone(item)) break;
      rows = uniform(item.rows());
      cols = uniform(item.cols());
      const auto* const startA = items.operandA(number, A) + item.offA;
      if constexpr (T::More::kIs && !kTransA) c.reader.start(startA, item.lda, row + lane / 4, rows, lane % 4,
          gatheredRows(items, number, item));
      else c.reader.start(startA, item.lda, row + lane / 4, rows, lane % 4);
      left = uniform(stepsOf<T>(item));
    }
    if (L::kLead) c.pass();
    auto compute = [&](auto& sum) {
      withScales<T>(items, number, row, [&](auto& scales) { c.multiply(sum, left, scales); });
      if (row >= rows) return;  // the warp has no rows to store
      if constexpr (T::More::kIs) finishSums<T, kTransA, kTransB>(sum, out, items, number, row, A, B, C,
          workspace);
      else if constexpr (T::kSwapped) storeSwapped<T, kTransA,
          kTransB>(sum, out, items.wait(number), row, A, B, C, workspace);
      else storeSums<T, kTransA, kTransB>(sum, out, items.wait(number), row, A, B, C, workspace);
    };
    if (row / 64 * 64 >= rows) {
      for (; left != 0; --left) c.pass();
    } else if (cols <= 32) {
      float sum[16];
      compute(sum);
    } else if (T::kBlocks == 1 || cols <= 64) {
      float sum[32];
      compute(sum);
    } else {
      float sum[64];
      compute(sum);
    }
    if constexpr (kPartials && T::kSwapped) finishColumns<T>(launched, items.wait(number), row, C, workspace);
    else if constexpr (kPartials) finishRows<T>(launched, items.wait(number), row, C, workspace);
  }
}

template <class T, bool kTransA, bool kTransB, bool kPartials = false>
BG_DEVICE void wgmmaGemm(const uint4* __restrict__ items, const uint32_t* __restrict__ table,
    const float* __restrict__ A,
                         const float* __restrict__ B, float* __restrict__ C, float* __restrict__ workspace,
                             const typename T::More& more = {}) {
  using L = Layout<T, kTransA, kTransB>;
  static_assert(L::kBytes <= T::kShared + kItemPlaces * 4 * (T::More::kWords - kItemWords),
      "the tile table has too little shared memory");
  char* const memory = dynamicShared();
  const SharedAddress shared = sharedAddress(memory);
  const auto* const a = reinterpret_cast<const typename T::Element::Number*>(A);
  const auto* const b = reinterpret_cast<const typename T::Element::Number*>(B);
  const Items<typename T::More> ring{memory + L::kItems, shared + L::kReady, more};
  const uint32_t role = uniform(threadId() / 128);  // consumers first, then the converter and the loader
  const Launch launch(table);
  Feed<typename T::More> feed;
  if (uniform(threadId() / 32) == (T::kConsumers + 1) * kWarps) feed.start(items, table, more);
  if (threadId() == 0) {
    for (int i = 0; i < kItemPlaces; ++i) initPhases(shared + L::kReady + 8 * i, 1);
    for (int i = 0; i < T::kAhead; ++i) {
      initPhases(shared + L::kLoaded + 8 * i, 32 * kWarps);
      initPhases(shared + L::kTaken + 8 * i, kWarps);
    }
    for (int i = 0; i < T::kStages; ++i) {
      initPhases(shared + L::kFull + 8 * i, kWarps);
      initPhases(shared + L::kFree + 8 * i, kWarps * T::kConsumers);
    }
    fencePhases();
  }
  barrier();
  awaitEarlier();
  if (role < T::kConsumers) {
    raiseRegisters<T::kConsumerRegisters>();
    consume<T, kTransA, kTransB, kPartials>(items, ring, a, b, C, workspace, memory);
  } else if (role == T::kConsumers) {
    lowerRegisters<T::converterRegisters(kTransB)>();
    convertB<T, kTransA, kTransB>(ring, b, memory);
  } else {
    lowerRegisters<T::loaderRegisters(kTransB)>();
    if (isDynamic(table)) load<T, kTransA, kTransB, true>(ring, feed, a, b, memory);
    else load<T, kTransA, kTransB, false>(ring, feed, a, b, memory);
    launch.loaded();
  }
}

// wgmmaSwapped is wgmmaGemm of a tile whose operands change places: an operand as it is, is the transpose of
// its transpose.
template <class T, bool kTransA, bool kTransB, bool kPartials = false>
BG_DEVICE void wgmmaSwapped(const uint4* __restrict__ items, const uint32_t* __restrict__ table,
    const float* __restrict__ A,
                              const float* __restrict__ B, float* __restrict__ C,
                                  float* __restrict__ workspace, const Swapped& more = {}) {
  wgmmaGemm<T, !kTransB, !kTransA, kPartials>(items, table, B, A, C, workspace, more);
}
