// Kernels of warpgroup products for elements of 16 bits, or 8, that need no converter: the
// loader copies lines of 16 bytes to where the tensor cores take both operands from, whichever way memory
// runs, of 8 bits along K. That is for items whose rows begin with 16 bytes (kItemVector). Of others it puts
// each line together of elements, which takes many times as long: plans take other tiles there.
//
// The roles are those of wgmma.cuh, without the converter: a loader and kConsumers warpgroups. A stage has 64
// k's of A, then of B, of elements of 8 bits 128, in the layouts of PTX ISA, "Shared Memory Layout", swizzled
// by 128 bytes: along K, rows of 128 bytes; across K, for each 64 rows or columns, 128 bytes of each k.
#pragma once

#include "wgmma.cuh"

// AlignedTile is a row of the tile table and what follows from it.
template <int TM_, int TN_, int kConsumers_, int kMinGroups_, int kStages_, int kShared_, class Element_,
    class More_ = NoEpilogue, bool kGated_ = false>
struct AlignedTile {
  using Element = Element_;
  using More = More_;
  static constexpr int TM = TM_, TN = TN_, TK = 32 * Element::kPer, kConsumers = kConsumers_,
      kMinGroups = kMinGroups_, kEpilogueGroups = kMinGroups, kStages = kStages_;
  static_assert(TM == 64 * kConsumers && (TN == 64 || TN == 128),
      "a consumer multiplies 64 rows by one or two blocks of 64 columns");
  // warps that multiply
  static constexpr int kThreads = 128 * (kConsumers + 1), kMultiply = kWarps * kConsumers;
  static constexpr uint32_t kShared = kShared_;
  static constexpr bool kEmulated = false;
  static_assert(kStages + 2 < kItemPlaces, "too few places for items");  // see WgmmaTile
  // Of bytes a consumer has the sums of a stage beside all.
  static constexpr int kLoaderRegisters = kMinGroups == 2 && Element::kPer == 2 ? 96 : 72;
  static constexpr int kConsumerRegisters = kMinGroups == 1 ? 216 :
      248 - kLoaderRegisters + (Element::kPer == 2 ? 0 : 8);
  // Kernels for gated tiles are others, since what they keep takes registers: enough for the sums of both
  // items, and of bytes those of a stage besides, or it is the workspace.
  static constexpr bool kRoom = TN == 64 || (kMinGroups == 1 && Element::kPer == 2);
  static constexpr Keeping kKeeping = !kGated_ ? kNowhere : kRoom ? kInRegisters : kInWorkspace;

  // Bytes, as Layout has them.
  static constexpr uint32_t kB = 128 * TM, kStage = kB + 128 * TN, kOut = kStages * kStage;
  static constexpr uint32_t kItems = kOut + kConsumers * kWarps * kOutBytes,
      kReady = kItems + kItemPlaces * Items<More>::kBytes;
  static constexpr uint32_t kFull = kReady + 8 * kItemPlaces, kFree = kFull + 8 * kStages,
      kBytes = kFree + 8 * kStages;
  static_assert(kBytes <= kShared + kItemPlaces * 4 * (More::kWords - kItemWords),
      "the tile table has too little shared memory");
};

// AlignedOperand copies the steps of A or B. kLength is the tile's extent across K. kListed, along K: rows
// are any, and counted from the first of all.
template <class Number, int kLength, bool kMajorK, bool kListed = false>
struct AlignedOperand {
  // of a row in memory
  static constexpr int kLine = 16 / sizeof(Number), kDepth = 8 * kLine,
      kLines = kMajorK ? 8 : kLength / kLine;
  static constexpr int kRows = kMajorK ? kLength : kDepth, kApart = 128 / kLines, kCopies = kRows / kApart;
  static_assert(kApart % 8 == 0, "the places of a thread's lines differ");

  const Number* at;   // the thread's first line of the next step
  SharedAddress to;   // its place in the first stage
  uint32_t ld, row;   // row of the first
  int32_t length;     // elements of the row, or rows, that exist across K, from the thread's first on
  bool vector;
  uint32_t rows[kCopies];  // kListed

  template <class RowAt = AllRows>
  BG_DEVICE void start(const Number* start, uint32_t ld_, uint32_t length_, bool wide_, SharedAddress stage,
      const RowAt& rowAt = {}) {
    const uint32_t t = threadId() % 128, line = t % kLines;
    row = t / kLines;
    ld = ld_;
    vector = wide_;
    at = rowsOn(start, kListed ? 0 : row, ld) + kLine * line;
    if constexpr (kListed) {
#pragma unroll
      for (int i = 0; i < kCopies; ++i) rows[i] = rowAt(row + i * kApart);
    }
    // else the compiler computes it in each step
    to = settled(stage + (kMajorK ? 0 : line / 8 * (kDepth * 128)) + 128 * row + 16 * (line % 8 ^ row % 8));
    length = static_cast<int32_t>(length_ - (kMajorK ? row : kLine * line));
  }

  // copy starts the copies of a step whose k's all exist. kInBlocks: rows begin with 256 bytes. What the tile
  // lacks across K is not copied, since its sums are not stored, and a line that it has a part of is copied
  // whole.
  template <bool kInBlocks>
  BG_DEVICE void copy(uint32_t stage) {
#pragma unroll
    for (int i = 0; i < kCopies; ++i) copyExisting<kInBlocks>(target(i, stage),
        from(i), kMajorK ? i * kApart : 0, length);
    next();
  }

  // copyPart is copy of a step that ends the item, or of elements one by one. `left` k's exist.
  BG_DEVICE void copyPart(int32_t left, uint32_t stage) {
    const int32_t line = static_cast<int32_t>(threadId() % 128 % kLines) * kLine;
    const uint32_t whole = bytesInLine<Number>(kMajorK ? left - line : length);
    auto size = [&](int i) { return kMajorK || static_cast<int32_t>(row + i * kApart) < left ? whole : 0; };
    if (vector) {
#pragma unroll
      for (int i = 0; i < kCopies; ++i) {
        if ((kMajorK ? i * kApart : 0) >= length) break;
        copyLine(target(i, stage), from(i), size(i));
      }
    } else {
#pragma unroll(kListed ? kCopies : 1)
      for (int i = 0; i < kCopies; ++i) {
        if ((kMajorK ? i * kApart : 0) >= length) break;
        gatherLine(target(i, stage), from(i), size(i) / sizeof(Number));
      }
    }
    next();
  }

  BG_DEVICE void next() { at = kMajorK ? at + kDepth : rowsOn(at, kDepth, ld); }

  // from and target are where the line of a copy lies, and its place.
  BG_DEVICE const Number* from(int i) const { return rowsOn(at, kListed ? rows[i] : i * kApart, ld); }
  BG_DEVICE SharedAddress target(int i, uint32_t stage) const { return to + stage + 128 * i * kApart; }

};

// fillStages calls copy with the next stages, in bytes from the first, when they are free, and arrived with
// their phases.
template <class T, class Copy, class Arrived>
BG_DEVICE void fillStages(SharedAddress shared, Counter<T::kStages>& stage, uint32_t steps, Copy copy,
    Arrived arrived) {
#pragma unroll 1
  for (; steps != 0; --steps) {
    waitPhase(shared + T::kFree + 8 * stage.at, stage.parity ^ 1);
    copy(stage.at * T::kStage);
    arrived(shared + T::kFull + 8 * stage.at);
    stage.next();
  }
}

// loadAligned is the work of the loader.
template <class T, bool kTransA, bool kTransB, bool kDynamic>
BG_DEVICE void loadAligned(const Items<typename T::More>& items, Feed<typename T::More>& feed,
    const typename T::Element::Number* A, const typename T::Element::Number* B, SharedAddress shared) {
  static_assert(T::Element::kPer == 2 || (!kTransA && kTransB), "tensor cores take bytes along K alone");
  using Number = typename T::Element::Number;
  const uint32_t warp = uniform(threadId() / 32 % kWarps);
  Counter<T::kStages> stage;
  if (warp == 0) feed.template next<kDynamic>(items);
  for (uint32_t number = 0;; ++number) {
    const Item item = items.wait(number);
    if (isNone(item)) break;
    if (warp == 0) feed.template before<kDynamic>(items);
    if constexpr (T::More::kIs) {
      if (warp == 1) fetchLists<T>(items, number, item);
    }
    const bool vector = item.flags & kItemVector;
    constexpr bool kListed = T::More::kIs && !kTransA;
    AlignedOperand<Number, T::TM, !kTransA, kListed> a;
    AlignedOperand<Number, T::TN, kTransB> b;
    const Number* const startA = items.operandA(number, A) + item.offA;
    if constexpr (kListed) a.start(startA, item.lda, item.rows(), vector, shared,
        gatheredRows(items, number, item));
    else a.start(startA, item.lda, item.rows(), vector, shared);
    const Number* const startB = items.operandB(number, item, B) + item.offB;
    b.start(startB, item.ldb, item.cols(), vector, shared + T::kB);
    uint32_t steps = uniform(stepsOf<T>(item));
    int32_t left = static_cast<int32_t>(item.depth);
    const uint32_t whole = vector ? item.depth / T::TK : 0;
    auto fill = [&](auto copy) { fillStages<T>(shared, stage, whole, copy, arriveCopied); };
    const bool inBlocks =
        (placeOf(startA) | item.lda | placeOf(startB) | item.ldb) % (256 / sizeof(Number)) == 0;
    if (inBlocks) {
      fill([&](uint32_t at) { a.template copy<true>(at), b.template copy<true>(at); });
    } else {
      fill([&](uint32_t at) { a.template copy<false>(at), b.template copy<false>(at); });
    }
    steps -= whole;
    left -= static_cast<int32_t>(whole * T::TK);
    auto copyParts = [&](uint32_t at) {
      a.copyPart(left, at);
      b.copyPart(left, at);
      left -= T::TK;
    };
    fillStages<T>(shared, stage, steps, copyParts,
        [&](SharedAddress full) { vector ? arriveCopied(full) : arrive(full); });
    if (warp == 0) feed.template after<kDynamic>(items);
  }
}

// AlignedConsumer is a warp of the consumers.
template <class T, bool kTransA, bool kTransB>
struct AlignedConsumer {
  SharedAddress shared;
  uint32_t lane, warp;
  Counter<T::kStages> stage;

  BG_DEVICE void wait() const { waitPhase(shared + T::kFull + 8 * stage.at, stage.parity); }
  BG_DEVICE void release(uint32_t at) const {
    if (lane == 0) arrive(shared + T::kFree + 8 * at);
  }
  // pass lets a step go by.
  BG_DEVICE void pass() {
    wait();
    warpBarrier();  // see Consumer
    release(stage.at);
    stage.next();
  }

  // multiply sums steps of the first 2n columns.
  template <int n, class Scales>
  BG_DEVICE void multiply(float (&sum)[n], uint32_t steps, Scales& scales) {
    if constexpr (T::Element::kWhole) multiplyWhole(sum, [&](auto& whole) { accumulate<false,
        false>(whole, steps); });
    else if constexpr (T::Element::kPer == 4) multiplyBytes(sum, steps, scales);
    else accumulate<kTransA, !kTransB>(sum, steps);
  }
  template <int n, class Scales>
  BG_DEVICE void multiplyBytes(float (&sum)[n], uint32_t steps, Scales& scales);

  // accumulate has all sums made by the tensor cores. The products of a step are carried out while those of
  // the next are asked for.
  template <bool kMNMajorA, bool kMNMajorB, class Sum, int n>
  BG_DEVICE void accumulate(Sum (&sum)[n], uint32_t steps) {
    // of 16 k's, or 32 bytes, in units of 16 bytes
    constexpr uint64_t kStepA = kMNMajorA ? 128 : 2, kStepB = kMNMajorB ? 128 : 2;
    const SharedAddress mine = shared + warp / kWarps * (64 * 128);
    const uint64_t a = kMNMajorA ? matrixMNMajor(mine) : matrixB(mine),
        b = kMNMajorB ? matrixMNMajor(shared + T::kB) : matrixB(shared + T::kB);
#pragma unroll
    for (int i = 0; i < n; ++i) sum[i] = 0;
    uint32_t before = 0;
#pragma unroll 1
    for (uint32_t step = 0; step < steps; ++step) {
      wait();
      fenceStores();  // the copies were others'
      const uint64_t at = static_cast<uint64_t>(uniform(stage.at) * (T::kStage >> 4));
      fenceProducts();
#pragma unroll
      for (int s = 0; s < 4; ++s) {
        productOf<kMNMajorA, kMNMajorB>(typename T::Element::Format{}, sum, a + at + s * kStepA,
            b + at + s * kStepB);
      }
      commitProducts();
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
  }
};

// linesOf is where the lines of C of an item begin, or nullptr where they are not written as such: C is
// of fp32, or read, or begins anywhere.
BG_DEVICE uint16_t* linesOf(const Item& item, uint16_t* C) {
  uint16_t* const to = C + item.offC;
  const bool lines = item.slot == kFinal && (item.flags & kItemFloatC) == 0 &&
      __uint_as_float(item.beta) == 0.0f && placeInLine(to) == 0 && item.ldc % 8 == 0;
  return lines ? to : nullptr;
}

// storeLines writes the warp's 16 rows of first 2n columns by lines. value(i) is what becomes of sum i, and
// rowAt(r) the row of C for row r of the tile, kNoRow where it is not stored.
template <class T, int n, class Value, class RowAt>
BG_DEVICE void storeLines(float* out, const Item& item, uint32_t row, uint16_t* to, Value value,
    RowAt rowAt) {
  using Element = typename T::Element;
  // of a part, in bytes; rows of a fragment are in different banks
  constexpr uint32_t kColumns = 64, kPitch = 2 * kColumns + 16;
  static_assert(16 * kPitch <= kOutBytes, "no room for the sums of 64 columns");
  const uint32_t lane = threadId() % 32, group = lane / 4, member = lane % 4, line = lane % 8;
  char* const at = reinterpret_cast<char*>(out);
  uint32_t rows[4];
#pragma unroll
  for (uint32_t i = 0; i < 4; ++i) {
    const uint32_t r = row + lane / 8 + 4 * i;
    rows[i] = r < item.rows() ? rowAt(r) : kNoRow;
  }
#pragma unroll
  for (int first = 0; first < n; first += kColumns / 2) {
    warpBarrier();
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      const int x = first + 4 * j;
      char* const word = at + group * kPitch + 16 * j + 4 * member;
      *reinterpret_cast<uint32_t*>(word) = Element::pairOfC(item.flags, value(x), value(x + 1));
      *reinterpret_cast<uint32_t*>(word + 8 * kPitch) = Element::pairOfC(item.flags, value(x + 2),
          value(x + 3));
    }
    warpBarrier();
    const uint32_t col = 2 * first + 8 * line;
#pragma unroll
    for (uint32_t i = 0; i < 4; ++i) {
      if (rows[i] == kNoRow) continue;
      const uint4 x = *reinterpret_cast<const uint4*>(at + (lane / 8 + 4 * i) * kPitch + 16 * line);
      uint16_t* const c = rowsOn(to, rows[i], item.ldc) + col;
      if (col + 8 <= item.cols()) {
        *reinterpret_cast<uint4*>(c) = x;
      } else {
        const uint32_t words[4] = {x.x, x.y, x.z, x.w};
#pragma unroll
        for (uint32_t e = 0; e < 7; ++e) {
          if (col + e < item.cols()) c[e] = static_cast<uint16_t>(words[e / 2] >> 16 * (e % 2));
        }
      }
    }
  }
}

// storeAligned writes the warp's sums to C by lines, or as storeSums does.
template <class T, bool kTransA, bool kTransB, int n>
BG_DEVICE void storeAligned(const float (&sum)[n], float* out, const Item& item, uint32_t row, float* C,
    float* workspace) {
  uint16_t* const to = linesOf(item, reinterpret_cast<uint16_t*>(C));
  if (to == nullptr) return storeSums<T, kTransA, kTransB>(sum, out, item, row, nullptr, nullptr, C,
      workspace);
  const float alpha = item.depth == 0 ? 0.0f : __uint_as_float(item.alpha);
  storeLines<T, n>(out, item, row, to, [&](int i) { return alpha * sum[i]; }, [](uint32_t r) { return r; });
}

// finishAligned is storeAligned with an epilogue. Sums of gated tiles are kept as lanes have them wherever C
// begins, since warps that are an item apart would take each other's places.
template <class T, bool kTransA, bool kTransB, int n>
BG_DEVICE void finishAligned(float (&sum)[n], float* out, const Items<Epilogue>& items, uint32_t number,
    uint32_t row, Kept<T, T::kKeeping>& kept, float* C, float* workspace) {
  const Item item = items.wait(number);
  const Epilogue& e = items.more;
  const ItemEpilogue words = itemEpilogueAt(items.words(), number % kItemPlaces);
  uint16_t* const to = linesOf(item, e.operandC<uint16_t>(words.pointersAt, C));
  if (T::kKeeping == kNowhere && to == nullptr) return finishColumns<T, kTransA,
      kTransB>(sum, out, items, number, row, nullptr, nullptr, C, workspace);
  if (!applyEpilogue(sum, e, item, words, RowLanes{row}, kept)) return;
  if (to == nullptr) return storeFinished<T>(sum, out, e, item, words, row, C);
  storeLines<T, n>(out, item, row, to, [&](int i) { return sum[i]; }, ScatteredRows{e, words});
}

// consumeAligned is the work of the consumers.
template <class T, bool kTransA, bool kTransB>
BG_DEVICE void consumeAligned(const Items<typename T::More>& items, float* C, float* workspace,
    char* memory) {
  const uint32_t lane = threadId() % 32, warp = uniform(threadId() / 32), row = 16 * warp;
  float* const out = reinterpret_cast<float*>(memory + T::kOut + warp * kOutBytes);
  AlignedConsumer<T, kTransA, kTransB> c{sharedAddress(memory), lane, warp};
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
      withScales<T>(items, number, row, [&](auto& scales) { c.multiply(sum, steps, scales); });
      if (row >= rows) return;  // the warp has no rows to store
      if constexpr (T::More::kIs) finishAligned<T, kTransA,
          kTransB>(sum, out, items, number, row, kept, C, workspace);
      else storeAligned<T, kTransA, kTransB>(sum, out, items.wait(number), row, C, workspace);
    };
    if (row / 64 * 64 >= rows) {
      for (; steps != 0; --steps) c.pass();
    } else if (T::TN == 64 || cols <= 64) {
      float sum[32];
      compute(sum);
    } else {
      float sum[64];
      compute(sum);
    }
  }
}

template <class T, bool kTransA, bool kTransB>
BG_DEVICE void wgmmaAligned(const uint4* __restrict__ items, const uint32_t* __restrict__ table,
    const float* __restrict__ A,
                         const float* __restrict__ B, float* __restrict__ C, float* __restrict__ workspace,
                             const typename T::More& more = {}) {
  using Number = typename T::Element::Number;
  char* const memory = dynamicShared();
  const SharedAddress shared = sharedAddress(memory);
  const Items<typename T::More> ring{memory + T::kItems, shared + T::kReady, more};
  const uint32_t role = uniform(threadId() / 128);  // consumers first, then the loader
  const Launch launch(table);
  Feed<typename T::More> feed;
  if (uniform(threadId() / 32) == T::kConsumers * kWarps) feed.start(items, table, more);
  if (threadId() == 0) {
    for (int i = 0; i < kItemPlaces; ++i) initPhases(shared + T::kReady + 8 * i, 1);
    for (int i = 0; i < T::kStages; ++i) {
      initPhases(shared + T::kFull + 8 * i, 128);
      initPhases(shared + T::kFree + 8 * i, kWarps * T::kConsumers);
    }
    fencePhases();
  }
  barrier();
  awaitEarlier();
  if (role < T::kConsumers) {
    raiseRegisters<T::kConsumerRegisters>();
    consumeAligned<T, kTransA, kTransB>(ring, C, workspace, memory);
  } else {
    lowerRegisters<T::kLoaderRegisters>();
    const auto* const a = reinterpret_cast<const Number*>(A);
    const auto* const b = reinterpret_cast<const Number*>(B);
    if (isDynamic(table)) loadAligned<T, kTransA, kTransB, true>(ring, feed, a, b, shared);
    else loadAligned<T, kTransA, kTransB, false>(ring, feed, a, b, shared);
    launch.loaded();
  }
}

// multiplyBytes sums steps of the first 2n columns. Tensor cores of 9.0 sum products of 8 bits, and what
// they are added to, as multiples of 2^-13 of the largest power of two among them, and cut the rest
// (measured on an H200: beside 2^11, 2.25 stays, beside 2^12 it becomes 2, beside 2^15 nothing). So each
// stage, of 128 k's, is summed from zero there, and then added to fp32 registers. Whole numbers they sum in
// int32, exactly. Nothing is under way while a stage is added: another consumer multiplies then.
template <class T, bool kTransA, bool kTransB>
template <int n, class Scales>
BG_DEVICE void AlignedConsumer<T, kTransA, kTransB>::multiplyBytes(float (&sum)[n], uint32_t steps,
    Scales& scales) {
  const uint64_t a = matrixB(shared + warp / kWarps * (64 * 128)), b = matrixB(shared + T::kB);
  typename T::Element::Format format;
#pragma unroll
  for (int i = 0; i < n; ++i) sum[i] = 0.0f;
#pragma unroll 1
  for (uint32_t step = 0; step < steps; ++step) {
    float part[n];
    wait();
    fenceStores();
    const uint64_t at = static_cast<uint64_t>(uniform(stage.at) * (T::kStage >> 4));
    fenceProducts();
    productOf<true>(format, part, a + at, b + at);
#pragma unroll
    for (int s = 1; s < 4; ++s) productOf<false>(format, part, a + at + 2 * s, b + at + 2 * s);
    commitProducts();
    waitProducts<0>();
    settle(part);
    release(stage.at);
    stage.next();
    scales.add(sum, part, step + 1 < steps);
  }
}
