// Kernels that carry out a plan with Hopper's warpgroup products (wgmma, sm_90a):
// the same items, table, partial tiles and fix-ups as gemm.cuh, the same arithmetic
// as tensor.cuh.
//
// A thread group is kConsumers warpgroups that multiply, each for 64 rows of the
// tile, and two that bring the operands. They run apart, across the end of an item
// too, so that a worker with several items never waits for the first load of the next.
//
//	loader      copies A and B to rings in shared memory, 16 bytes at a time.
//	converter    splits B, up to kAhead steps behind the loader, and stores it as hi and lo
//	            with k as the fastest index, which is what wgmma takes.
//	consumers   up to kStages steps behind the converter: read A from its ring, split
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

#include "tensor.cuh"
#include "wgmma_tile.cuh"

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

// fewColumns reports whether an item has 32 columns or fewer: of swapped tiles alone, since the question
// costs 128x128 1 to 2 % (H200).
template <class T>
BG_DEVICE bool fewColumns(uint32_t cols) { return T::kSwapped && uniform(cols) <= 32; }

// Converter splits a part of B, 16 columns or the k's of 2 lines, and stores it for wgmma: row n
// of 128 bytes is column n of B, in which line c, of k's c, 8+c, 16+c and 24+c, lies
// at place c ^ n%8 (the swizzle).
template <class T, class L, bool kTransB, int kPer = T::Element::kPer>
struct Converter {
  typename L::B::Reader rows[T::kBlocks];  // columns group and group + 8 of the warp's 16 of each block
  uint32_t blocks, to;
  bool few;  // columns: the warp has 8 of them, not 16

  BG_DEVICE void start(const typename T::Element::Number* b, uint32_t ldb, uint32_t cols, uint32_t warp,
      uint32_t lane) {
    few = fewColumns<T>(cols);
    const uint32_t group = lane / 4, member = lane % 4, n = (few ? 8 : 16) * warp + group;
    blocks = blocksOf(cols);
#pragma unroll
    for (uint32_t block = 0; block < T::kBlocks; ++block) rows[block].start(b, ldb, n + 64 * block, cols,
        member, L::kB);
    to = 128 * n + 16 * group + 4 * member;
  }
  // split stores a step to a stage.
  BG_DEVICE void store(char* memory, uint32_t stage, uint32_t place) {
    if (few) return storeColumns<1>(memory, stage, place, 0);
#pragma unroll
    for (uint32_t block = 0; block < T::kBlocks; ++block) {
      if (block >= blocks) break;
      storeColumns<2>(memory, stage, place, block);
    }
  }
  // storeColumns splits both of the lane's columns of a block, or the first.
  template <int kColumns>
  BG_DEVICE void storeColumns(char* memory, uint32_t stage, uint32_t place, uint32_t block) {
    typename T::Element::Word x[kColumns][8];
    rows[block].read(memory, place, x);
#pragma unroll
    for (int r = 0; r < kColumns; ++r) {
#pragma unroll
      for (uint32_t c = 0; c < 8; ++c) {
        uint32_t* at = reinterpret_cast<uint32_t*>(memory + stage + kBlockBytes * block + 1024 * r +
            (to ^ 16 * c));
        if constexpr (kPer == 1) {
          uint32_t hi, lo;
          convert<T::kEmulated>(x[r][c], hi, lo);
          at[0] = hi;
          if constexpr (T::kEmulated) at[L::kPart / 4] = lo;
        } else {
          at[0] = x[r][c];
        }
      }
    }
  }
};

template <class T, class L>
struct Converter<T, L, false, 1> {
  uint32_t from[2][4], further[2 * T::kBlocks], to[2], blocks;  // further: from the lane's first column
  bool few;

  BG_DEVICE void start(const float* b, uint32_t ldb, uint32_t cols, uint32_t warp, uint32_t lane) {
    const uint32_t first = min(lane, cols - 1);
    few = fewColumns<T>(cols);
    blocks = blocksOf(cols);
#pragma unroll
    for (uint32_t i = 0; i < 2 * T::kBlocks; ++i) further[i] = 4 * (min(lane + 32 * i, cols - 1) - first);
#pragma unroll
    for (uint32_t h = 0; h < 2; ++h) {
#pragma unroll
      for (uint32_t j = 0; j < 4; ++j) from[h][j] = L::kB + L::B::place(b, ldb, 8 * j + 2 * warp + h, first);
      to[h] = 128 * lane + 16 * (lane % 8 ^ (2 * warp + h));
    }
  }
  // split reads a block before it stores, since the compiler would not move reads ahead of stores.
  BG_DEVICE void store(char* memory, uint32_t stage, uint32_t place) {
    const char* const at = memory + place * L::B::kStage;
#pragma unroll
    for (uint32_t block = 0; block < T::kBlocks; ++block) {
      if (block >= blocks) break;
      float x[4][4];
#pragma unroll
      for (uint32_t i = 0; i < 4; ++i) {
        const uint32_t column = 2 * block + i / 2;
        if (i == 2 && few) break;
#pragma unroll
        for (int j = 0; j < 4; ++j) x[i][j] = *reinterpret_cast<const float*>(at +
            (column == 0 ? from[i % 2][j] : from[i % 2][j] + further[column]));
      }
#pragma unroll
      for (uint32_t i = 0; i < 4; ++i) {
        if (i == 2 && few) break;
        uint4 hi, lo;
        convert<T::kEmulated>(x[i][0], hi.x, lo.x);
        convert<T::kEmulated>(x[i][1], hi.y, lo.y);
        convert<T::kEmulated>(x[i][2], hi.z, lo.z);
        convert<T::kEmulated>(x[i][3], hi.w, lo.w);
        char* const target = memory + stage + to[i % 2] + kBlockBytes * block + 4096 * (i / 2);
        *reinterpret_cast<uint4*>(target) = hi;
        if constexpr (T::kEmulated) *reinterpret_cast<uint4*>(target + L::kPart) = lo;
      }
    }
  }
};

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

// FragmentReader reads a warp's 16 rows of A: rows group and group + 8, and the
// lane's 8 k's of each.
template <class T, class L, bool kTransA, int kPer = T::Element::kPer>
struct FragmentReader {
  typename L::A::Reader rows;

  template <class RowAt = AllRows>
  BG_DEVICE void start(const typename T::Element::Number* a, uint32_t lda, uint32_t r, uint32_t length,
      uint32_t member, const RowAt& rowAt = {}) {
    rows.start(a, lda, r, length, member, L::kA, rowAt);
  }
  BG_DEVICE void read(const char* memory, uint32_t place,
      typename T::Element::Word (&x)[2][8]) const { rows.read(memory, place, x); }
};

template <class T, class L>
struct FragmentReader<T, L, true, 1> {
  // rows 8*member + 0..7 of a stage; from the lane's first element of a row to the second
  uint32_t from[8], further;

  BG_DEVICE void start(const float* a, uint32_t lda, uint32_t r, uint32_t length, uint32_t member) {
    const uint32_t first = min(r, length - 1);
    further = 4 * (min(r + 8, length - 1) - first);
#pragma unroll
    for (uint32_t c = 0; c < 8; ++c) from[c] = L::kA + L::A::place(a, lda, 8 * member + c, first);
  }
  BG_DEVICE void read(const char* memory, uint32_t place, float (&x)[2][8]) const {
#pragma unroll
    for (int c = 0; c < 8; ++c) {
      const char* const at = memory + from[c] + place * L::A::kStage;
      x[0][c] = *reinterpret_cast<const float*>(at);
      x[1][c] = *reinterpret_cast<const float*>(at + further);
    }
  }
};

// Fragment is A of a step, split: element e of wgmma's fragment for k's 8i.. .
template <class T, int kPer = T::Element::kPer>
struct Fragment {
  uint32_t hi[4][4], lo[4][4];

  BG_DEVICE void split(const float (&x)[2][8]) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
      for (int e = 0; e < 4; ++e) convert<T::kEmulated>(x[e % 2][2 * i + e / 2], hi[i][e], lo[i][e]);
    }
  }

  // multiply starts sum = A * B of the step.
  template <int n>
  BG_DEVICE void multiply(float (&sum)[n], uint64_t bHi, uint64_t bLo) const {
    fenceProducts();
    if constexpr (T::kEmulated) {
      product<true>(sum, lo[0], bHi);
      product<false>(sum, hi[0], bLo);
#pragma unroll
      for (int i = 1; i < 4; ++i) {
        product<false>(sum, lo[i], bHi + 2 * i);
        product<false>(sum, hi[i], bLo + 2 * i);
      }
#pragma unroll
      for (int i = 0; i < 4; ++i) product<false>(sum, hi[i], bHi + 2 * i);
    } else {
      product<true>(sum, hi[0], bHi);
#pragma unroll
      for (int i = 1; i < 4; ++i) product<false>(sum, hi[i], bHi + 2 * i);
    }
    commitProducts();
  }
};

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
