// Kernels that carry out a plan with Hopper's warpgroup products (wgmma, sm_90a):
// the same items, table, partial tiles and fix-ups as gemm.cuh, the same arithmetic
// as tensor.cuh.
//
// A thread group is kConsumers warpgroups that multiply, each for 64 rows of the
// tile, and some that bring the operands. They run apart, across the end of an item
// too, so that a worker with several items never waits for the first load of the next.
//
//	loader      copies A and B to rings in shared memory, 16 bytes at a time.
//	splitters   split B, up to kAhead steps behind the loader, and store it as hi and lo
//	            with k as the fastest index, which is what wgmma takes. Two take turns.
//	consumers   up to kStages steps behind the splitters: read A from its ring, split
//	            it in registers, multiply, add the products of each step to fp32
//	            registers.
//
// Loader and splitter are not one, because the fence between the splitter's stores
// and the tensor cores (fenceStores) waits for all copies that the thread has started.
//
// The tensor cores are not fed in the background: a warp gets past its product
// instructions only as they are carried out. Two consumers that multiply at the same
// time slow each other down and then split at the same time; they take turns.
//
// Places of the rings are numbered by slots, one for each step and, where an operand
// runs along K (kLead), one more at the beginning of an item. Memory of such an
// operand is copied in chunks of 128 bytes as memory is aligned, because an unaligned
// row would touch one more line of the L2 cache in every step; slot q brings chunk q
// of each row, and its step needs chunks q-1 and q.
//
// Within a step, the k of element e of lane `member` (of 4) is 8*member + e. This
// order is free as long as A and B agree; with it a lane reads 8 adjacent numbers of
// a row, without bank conflicts whatever the row's alignment (see AlongK).
#pragma once

// WgmmaTile is a row of the tile table and what follows from it.
template <int TM_, int TN_, int kConsumers_, int kSplitters_, int kMinGroups_, int kStages_, int kAhead_, bool kEmulated_>
struct WgmmaTile {
  static constexpr int TM = TM_, TN = TN_, TK = 32;
  static constexpr int kConsumers = kConsumers_, kSplitters = kSplitters_;
  static_assert(TM == 64 * kConsumers && TN == 64, "a consumer multiplies 64 rows by 64 columns");
  static constexpr int kThreads = 128 * (kConsumers + kSplitters + 1);
  static constexpr int kMinGroups = kMinGroups_;  // thread groups that must fit in a multiprocessor
  static constexpr int kStages = kStages_;        // steps of B, split
  static constexpr int kAhead = kAhead_;          // steps of B as they come from memory
  static constexpr bool kEmulated = kEmulated_;
  static constexpr bool kTurns = kConsumers == 2;
  static_assert(kStages >= kSplitters && kAhead >= kSplitters, "a splitter could mistake an old phase for a new one");
  // The loader begins an item kStages + kAhead slots, of which each item has one at
  // least, before consumers are done with theirs, and publishes the next one then.
  static_assert(kStages + kAhead + 1 < kItemPlaces, "too few places for items");
  // Registers of a thread: together what the thread group was launched with, 65536 / (kMinGroups * kThreads) for each.
  BG_DEVICE static constexpr int loaderRegisters(bool transB) { return kMinGroups == 2 ? (transB ? 48 : 56) : 88; }
  BG_DEVICE static constexpr int splitterRegisters(bool transB) { return kMinGroups == 2 ? (transB ? 56 : 48) : 72; }
  static constexpr int kConsumerRegisters = kMinGroups == 2 ? 136 : kConsumers == 2 ? 176 : 208;
};

// Layout places everything in shared memory, in bytes.
template <class T, bool kTransA, bool kTransB>
struct Layout {
  template <bool b, class X, class Y>
  struct If { using Type = X; };
  template <class X, class Y>
  struct If<false, X, Y> { using Type = Y; };
  // A place of B may be loaded when the splitter has taken the slot kAhead before,
  // and then consumers are done with the slot another kStages before. Along K, a
  // chunk is read by the next slot, too.
  using A = typename If<!kTransA, AlongK<T::TM, T::kStages + T::kAhead + 1>, AcrossK<T::TM, T::kStages + T::kAhead, 4>>::Type;
  using B = typename If<kTransB, AlongK<T::TN, T::kAhead + 1>, AcrossK<T::TN, T::kAhead, 32>>::Type;
  static constexpr bool kLead = !kTransA || kTransB;

  static constexpr uint32_t kPart = 4 * T::TN * T::TK, kStage = (T::kEmulated ? 2 : 1) * kPart;  // hi, then lo
  static constexpr uint32_t kA = T::kStages * kStage, kB = kA + A::kBytes, kOut = kB + B::kBytes;
  static constexpr uint32_t kItems = kOut + T::kConsumers * kWarps * kOutBytes;
  // Phases: an item is published; a slot was loaded, and taken by the splitter; a step was split, and used by the consumers.
  static constexpr uint32_t kReady = kItems + kItemPlaces * kItemBytes, kLoaded = kReady + 8 * kItemPlaces, kTaken = kLoaded + 8 * T::kAhead;
  static constexpr uint32_t kFull = kTaken + 8 * T::kAhead, kFree = kFull + 8 * T::kStages, kBytes = kFree + 8 * T::kStages;
};

// Counter goes round the places of a ring.
template <uint32_t n>
struct Counter {
  uint32_t at = 0, parity = 0;
  BG_DEVICE void next() {
    if (++at == n) at = 0, parity ^= 1;
  }
};

// load is the work of the loader.
template <class T, bool kTransA, bool kTransB>
BG_DEVICE void load(const Items& items, Feed& feed, const float* A, const float* B, char* memory) {
  using L = Layout<T, kTransA, kTransB>;
  const uint32_t lane = threadId() % 32, warp = uniform(threadId() / 32 % kWarps);
  const SharedAddress shared = sharedAddress(memory);
  typename L::A::Loader a;
  typename L::B::Loader b;
  a.origin = lineOf(A);
  b.origin = lineOf(B);
  Counter<L::A::kPlaces> placeA;
  Counter<L::B::kPlaces> placeB;
  Counter<T::kAhead> ahead;
  if (warp == 0) feed.next(items);
  for (uint32_t number = 0;; ++number) {
    const Item item = items.wait(number);
    if (item.none()) break;
    if (warp == 0) feed.next(items);
    a.start(A + item.offA, item.lda, item.rows(), item.depth, shared + L::kA, warp, lane);
    b.start(B + item.offB, item.ldb, item.cols(), item.depth, shared + L::kB, warp, lane);
    const uint32_t slots = uniform(item.steps()) + L::kLead;
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
  }
}

// convert gives the parts of a number.
template <class T>
BG_DEVICE void convert(float x, uint32_t& hi, uint32_t& lo) {
  if constexpr (T::kEmulated) {
    const ScaledSplit s(x);
    hi = s.hi;
    lo = s.lo;
  } else {
    hi = roundToTF32(x);
  }
}

// Splitter splits a part of B, 16 columns or the k's of 2 lines, and stores it for wgmma: row n
// of 128 bytes is column n of B, in which line c, of k's c, 8+c, 16+c and 24+c, lies
// at place c ^ n%8 (the swizzle).
template <class T, class L, bool kTransB>
struct Splitter {
  typename L::B::Reader rows;  // columns group and group + 8 of the warp's 16
  uint32_t to;

  BG_DEVICE void start(const float* b, uint32_t ldb, uint32_t cols, uint32_t warp, uint32_t lane) {
    const uint32_t group = lane / 4, member = lane % 4, n = 16 * warp + group;
    rows.start(b, ldb, n, cols, member, L::kB);
    to = 128 * n + 16 * group + 4 * member;
  }
  // split stores a step to a stage.
  BG_DEVICE void split(char* memory, uint32_t stage, uint32_t place) {
    float x[2][8];
    rows.read(memory, place, x);
#pragma unroll
    for (int r = 0; r < 2; ++r) {
#pragma unroll
      for (uint32_t c = 0; c < 8; ++c) {
        uint32_t hi, lo;
        convert<T>(x[r][c], hi, lo);
        uint32_t* at = reinterpret_cast<uint32_t*>(memory + stage + 1024 * r + (to ^ 16 * c));
        at[0] = hi;
        if constexpr (T::kEmulated) at[L::kPart / 4] = lo;
      }
    }
  }
};

template <class T, class L>
struct Splitter<T, L, false> {
  uint32_t from[2][4], further, to[2];  // further: from the lane's first column to the second

  BG_DEVICE void start(const float* b, uint32_t ldb, uint32_t cols, uint32_t warp, uint32_t lane) {
    const uint32_t first = min(lane, cols - 1);
    further = 4 * (min(lane + 32, cols - 1) - first);
#pragma unroll
    for (uint32_t h = 0; h < 2; ++h) {
#pragma unroll
      for (uint32_t j = 0; j < 4; ++j) from[h][j] = L::kB + L::B::place(b, ldb, 8 * j + 2 * warp + h, first);
      to[h] = 128 * lane + 16 * (lane % 8 ^ (2 * warp + h));
    }
  }
  BG_DEVICE void split(char* memory, uint32_t stage, uint32_t place) {
    const char* const at = memory + place * L::B::kStage;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int h = i / 2, half = i % 2;
      float x[4];
#pragma unroll
      for (int j = 0; j < 4; ++j) x[j] = *reinterpret_cast<const float*>(at + (half == 0 ? from[h][j] : from[h][j] + further));
      uint4 hi, lo;
      convert<T>(x[0], hi.x, lo.x);
      convert<T>(x[1], hi.y, lo.y);
      convert<T>(x[2], hi.z, lo.z);
      convert<T>(x[3], hi.w, lo.w);
      char* const target = memory + stage + to[h] + 4096 * half;
      *reinterpret_cast<uint4*>(target) = hi;
      if constexpr (T::kEmulated) *reinterpret_cast<uint4*>(target + L::kPart) = lo;
    }
  }
};

// split is the work of a splitter, which takes every kSplitters'th slot. A splitter does
// not see the phases of the others' slots, nor mistake an old phase for the one it waits
// for: it has seen the slot kSplitters before, behind which older ones are done, too.
template <class T, bool kTransA, bool kTransB>
BG_DEVICE void split(const Items& items, const float* B, char* memory, uint32_t turn) {
  using L = Layout<T, kTransA, kTransB>;
  const uint32_t lane = threadId() % 32, warp = uniform(threadId() / 32 % kWarps);
  const SharedAddress shared = sharedAddress(memory);
  Splitter<T, L, kTransB> splitter;
  Counter<T::kStages> stage;
  Counter<T::kAhead> ahead;
  Counter<L::B::kPlaces> place;
  for (uint32_t number = 0;; ++number) {
    const Item item = items.wait(number);
    if (item.none()) break;
    splitter.start(B + item.offB, item.ldb, item.cols(), warp, lane);
    const uint32_t slots = uniform(item.steps()) + L::kLead;
#pragma unroll 1
    for (uint32_t slot = 0; slot < slots; ++slot) {
      if (turn == 0) {
        waitPhase(shared + L::kFree + 8 * stage.at, stage.parity ^ 1);
        waitPhase(shared + L::kLoaded + 8 * ahead.at, ahead.parity);
        if (!L::kLead || slot != 0) {
          splitter.split(memory, stage.at * L::kStage, place.at);
          fenceStores();
        }
        warpBarrier();
        if (lane == 0) {
          arrive(shared + L::kFull + 8 * stage.at);
          arrive(shared + L::kTaken + 8 * ahead.at);
        }
      }
      turn = turn == 0 ? T::kSplitters - 1 : turn - 1;
      stage.next();
      ahead.next();
      place.next();
    }
  }
}

// FragmentReader reads a warp's 16 rows of A: rows group and group + 8, and the
// lane's 8 k's of each.
template <class T, class L, bool kTransA>
struct FragmentReader {
  typename L::A::Reader rows;

  BG_DEVICE void start(const float* a, uint32_t lda, uint32_t r, uint32_t length, uint32_t member) {
    rows.start(a, lda, r, length, member, L::kA);
  }
  BG_DEVICE void read(const char* memory, uint32_t place, float (&x)[2][8]) { rows.read(memory, place, x); }
};

template <class T, class L>
struct FragmentReader<T, L, true> {
  uint32_t from[4], further;  // rows 8*member + 0..3 of a stage; from the lane's first element of a row to the second

  BG_DEVICE void start(const float* a, uint32_t lda, uint32_t r, uint32_t length, uint32_t member) {
    const uint32_t first = min(r, length - 1);
    further = 4 * (min(r + 8, length - 1) - first);
#pragma unroll
    for (uint32_t c = 0; c < 4; ++c) from[c] = L::kA + L::A::place(a, lda, 8 * member + c, first);
  }
  BG_DEVICE void read(const char* memory, uint32_t place, float (&x)[2][8]) {
#pragma unroll
    for (int c = 0; c < 8; ++c) {
      const char* at = memory + from[c % 4] + place * L::A::kStage + c / 4 * 4 * L::A::kPitch;
      x[0][c] = *reinterpret_cast<const float*>(at);
      x[1][c] = *reinterpret_cast<const float*>(at + further);
    }
  }
};

// Fragment is A of a step, split: element e of wgmma's fragment for k's 8i.. .
template <class T>
struct Fragment {
  uint32_t hi[4][4], lo[4][4];

  BG_DEVICE void split(const float (&x)[2][8]) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
      for (int e = 0; e < 4; ++e) convert<T>(x[e % 2][2 * i + e / 2], hi[i][e], lo[i][e]);
    }
  }

  // multiply starts sum = A * B of the step.
  BG_DEVICE void multiply(float (&sum)[32], uint64_t bHi, uint64_t bLo) const {
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

// takeTurn does something when it is the consumer's turn.
template <bool kTurns, class Do>
BG_DEVICE void takeTurn(uint32_t consumer, Do something) {
  if constexpr (kTurns) waitTurn(consumer);
  something();
  if constexpr (kTurns) passTurn(1 - consumer);
}

// consume is the work of the consumers.
template <class T, bool kTransA, bool kTransB>
BG_DEVICE void consume(const Items& items, const float* A, const float* B, float* C, float* workspace, char* memory) {
  using L = Layout<T, kTransA, kTransB>;
  const uint32_t lane = threadId() % 32, warp = uniform(threadId() / 32), consumer = warp / kWarps;
  const SharedAddress shared = sharedAddress(memory), full = shared + L::kFull, free = shared + L::kFree;
  float* const out = reinterpret_cast<float*>(memory + L::kOut + warp * kOutBytes);
  const uint32_t row = 16 * warp;  // of the tile, the warp's first
  const uint64_t bHi = matrixB(shared), bLo = matrixB(shared + L::kPart);
  if (T::kTurns && consumer == 1) passTurn(0);

  Counter<T::kStages> stage;
  Counter<L::A::kPlaces> place;
  auto wait = [&] { waitPhase(full + 8 * stage.at, stage.parity); };
  auto release = [&](uint32_t at) {
    if (lane == 0) arrive(free + 8 * at);
  };
  for (uint32_t number = 0;; ++number) {
    FragmentReader<T, L, kTransA> reader;
    uint32_t left, rows;
    {
      const Item item = items.wait(number);
      if (item.none()) break;
      rows = uniform(item.rows());
      reader.start(A + item.offA, item.lda, row + lane / 4, rows, lane % 4);
      left = uniform(item.steps());
    }
    auto pass = [&] {
      wait();
      release(stage.at);
      stage.next();
      place.next();
    };
    if (L::kLead) pass();
    if (64 * consumer >= rows) {
      for (; left != 0; --left) {
        pass();
        takeTurn<T::kTurns>(consumer, [] {});
      }
      continue;
    }

    float sum[32], part[32], x[2][8];
#pragma unroll
    for (int i = 0; i < 32; ++i) sum[i] = 0.0f;
    Fragment<T> f;
    auto read = [&] {
      wait();
      reader.read(memory, place.at, x);
    };
    read();
    f.split(x);
    // The step to come is split at the end of the loop, since the compiler would otherwise
    // place some of it between products. No product is under way there: it would wait for
    // each one.
#pragma unroll 1
    do {
      const uint32_t used = stage.at;
      const uint64_t at = static_cast<uint64_t>(uniform(used) * (L::kStage >> 4));
      takeTurn<T::kTurns>(consumer, [&] { f.multiply(part, bHi + at, bLo + at); });
      stage.next();
      place.next();
      if (left > 1) read();
      waitProducts<0>();
      settle(part);
      release(used);
      f.split(x);
#pragma unroll
      for (int i = 0; i < 32; ++i) sum[i] += part[i];
    } while (--left != 0);

    bool exact = false;
    if constexpr (T::kEmulated) {
      float zero[4] = {0.0f, 0.0f, 0.0f, 0.0f};  // NaN when a sum is not finite; four, so that additions overlap
#pragma unroll
      for (int i = 0; i < 32; ++i) zero[i % 4] = fmaf(sum[i], 0.0f, zero[i % 4]);
      exact = warpAny(!(zero[0] + zero[1] + zero[2] + zero[3] == 0.0f));
    }
    storeRows<T, kTransA, kTransB>(sum, out, items.wait(number), row, exact, A, B, C, workspace);
  }
}

template <class T, bool kTransA, bool kTransB>
BG_DEVICE void wgmmaGemm(const uint4* __restrict__ items, const uint32_t* __restrict__ table, const float* __restrict__ A,
                         const float* __restrict__ B, float* __restrict__ C, float* __restrict__ workspace) {
  using L = Layout<T, kTransA, kTransB>;
  char* const memory = dynamicShared();
  const SharedAddress shared = sharedAddress(memory);
  const Items ring{memory + L::kItems, shared + L::kReady};
  const uint32_t role = uniform(threadId() / 128);  // consumers first, then splitters, then the loader
  Feed feed;
  if (uniform(threadId() / 32) == (T::kConsumers + T::kSplitters) * kWarps) feed.start(items, table);
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
  if (role < T::kConsumers) {
    raiseRegisters<T::kConsumerRegisters>();
    consume<T, kTransA, kTransB>(ring, A, B, C, workspace, memory);
  } else if (role < T::kConsumers + T::kSplitters) {
    lowerRegisters<T::splitterRegisters(kTransB)>();
    split<T, kTransA, kTransB>(ring, B, memory, role - T::kConsumers);
  } else {
    lowerRegisters<T::loaderRegisters(kTransB)>();
    load<T, kTransA, kTransB>(ring, feed, A, B, memory);
  }
}
