// Kernels of fp64 that carry out a plan with tensor cores, a warp at a time: the same items, table and
// fix-ups as gemm.cuh, but items always have a tail, in which the lower words of alpha and beta are. Slots
// of the workspace have doubles.
//
// One kernel of a tile does whatever its launch and the words of its items say, transposition included. A
// warp computes a block of the tile. A stage of shared memory has rows as they come, along K or across, each
// four doubles longer: no two lanes of half a warp, with k's that differ by member and rows or columns by
// group, share a bank. Copies are of 8 bytes, or where all rows begin with lines of 16. They write zeros for
// k's that a step lacks. The k's are summed in their order.
#pragma once

#include "../epilogue/epilogue.cuh"
#include "../ptx/dmma.cuh"

constexpr int kProduct = 16;  // k's of a product

// DoubleTile is a row of the tile table, the block of a warp, stages, and thread groups whose registers must
// fit in a compute unit.
template <int kTM, int kTN, int kTK, int kWarpRows_, int kWarpColumns_, int kSets_, int kStages_,
    int kMinGroups_>
struct DoubleTile {
  static constexpr int TM = kTM, TN = kTN, TK = kTK, kStages = kStages_, kMinGroups = kMinGroups_;
  static constexpr int kEpilogueGroups = kMinGroups;
  static constexpr int kWarpRows = kWarpRows_, kWarpColumns = kWarpColumns_;
  static constexpr int kSets = kSets_, kWarpsAcross = TN / kWarpColumns;
  static constexpr int kSetWarps = TM / kWarpRows * kWarpsAcross, kThreads = 32 * kSetWarps * kSets;
  static constexpr int kRows = kWarpRows / 16, kColumns = kWarpColumns / 8;  // products of a block
  static constexpr int kPad = 4;
  static constexpr int ofOperand(int length) {
    return length * TK + kPad * (length > TK ? length : TK);
  }
  static constexpr int kDoublesA = ofOperand(TM), kStage = kDoublesA + ofOperand(TN);
  static constexpr int kPitch = TN + 8;  // of sums in shared memory
  // steps that copies are ahead: with two stages both, which takes another barrier for each step
  static constexpr int kAhead = kStages == 2 ? 2 : kStages - 1;
  static constexpr int kSums = TM * kPitch, kAllSums = kSets * kSums;  // of a set, and of all
  static constexpr int kAll = kStages * kStage > kAllSums ? kStages * kStage : kAllSums;
  static_assert(TK % (kProduct * kSets) == 0 && kThreads % TN == 0, "uneven tile");

  // sumAt is a sum, of all sets in their order.
  static BG_DEVICE double sumAt(const double* sums) {
    double sum = sums[0];
#pragma unroll
    for (int i = 1; i < kSets; ++i) sum += sums[i * kSums];
    return sum;
  }
};

// logOf is the logarithm of a power of 2.
constexpr uint32_t logOf(uint32_t n) { return n == 1 ? 0 : 1 + logOf(n / 2); }

// DoubleOperand copies the steps of A or B to shared memory. kLength is the tile's extent across K. kListed:
// rows that run along K may be where a list in shared memory says.
template <class T, int kLength, bool kListed>
struct DoubleOperand {
  static constexpr int kCount = kLength * T::TK / T::kThreads;  // doubles that a thread copies
  static constexpr uint32_t kLogThreads = logOf(T::kThreads), kLogK = logOf(T::TK), kLogLength = logOf(kLength);
  static_assert(kCount % 2 == 0 && kCount * T::kThreads == kLength * T::TK, "uneven tile");

  const double* at;      // the thread's first of the next step; of listed rows: in the first of all
  const uint32_t* list;  // or null
  SharedAddress to;
  uint32_t ld, length, row, place, logRows;  // first row that the thread copies, where in it, rows between
  bool alongK, wide;                         // wide: copies of 16 bytes

  BG_DEVICE DoubleOperand(const double* start, uint32_t ld_, uint32_t length_, bool alongK_,
      const double* stage, const uint32_t* rows_)
      : list(rows_), ld(ld_), length(length_), alongK(alongK_), wide((placeInLine(start) | ld % 2) == 0) {
    const uint32_t each = wide ? 1 : 0, logRun = (alongK ? kLogK : kLogLength) - each;
    logRows = kLogThreads - logRun;
    row = threadId() >> logRun;
    place = (threadId() & ((1u << logRun) - 1)) << each;
    at = (kListed && list != nullptr ? start : rowsOn(start, row, ld)) + place;
    to = sharedAddress(stage + row * pitch() + place);
  }

  BG_DEVICE uint32_t pitch() const { return (alongK ? T::TK : kLength) + T::kPad; }

  // copiesOf is how many of the thread's copies are of the first n rows.
  BG_DEVICE uint32_t copiesOf(uint32_t n) const { return n > row ? ((n - row - 1) >> logRows) + 1 : 0; }

  // copy starts the copies of the next step, of which `left` k's exist, to a stage: bytes after the first.
  // Rows and columns that do not exist stay what they are. Zeros take the place of k's that are multiplied
  // and do not.
  BG_DEVICE void copy(uint32_t left, uint32_t stage) {
    const uint32_t steps = min(left, static_cast<uint32_t>(T::TK));
    const uint32_t multiplied = (steps + kProduct - 1) / kProduct * kProduct;
    const uint32_t end = alongK ? steps : length;
    const uint32_t more = place < end ? end - place : 0;
    const bool written = place < (alongK ? multiplied : length);
    const uint32_t copies = written ? copiesOf(alongK ? length : steps) : 0;
    if (wide) copyAll<16>(stage, copies, 8 * min(more, 2u));
    else copyAll<8>(stage, copies, 8 * min(more, 1u));
    if (!alongK && written && steps < multiplied) {
#pragma unroll 1
      for (uint32_t i = copies, n = copiesOf(multiplied); i < n; ++i) {
        if (wide) copyDoubles<16>(to + stage + i * apart(), at, 0);
        else copyDoubles<8>(to + stage + i * apart(), at, 0);
      }
    }
    at = alongK ? at + T::TK : rowsOn(at, T::TK, ld);
  }

  BG_DEVICE SharedAddress apart() const { return (8 * pitch()) << logRows; }

  // copyAll starts so many copies, of so many bytes that exist.
  template <int kBytes>
  BG_DEVICE void copyAll(uint32_t stage, uint32_t copies, uint32_t bytes) const {
    constexpr uint32_t kCopies = 8 * kCount / kBytes;
    SharedAddress next = to + stage;
    const SharedAddress between = apart();
    if (kListed && list != nullptr) {
#pragma unroll 2
      for (uint32_t i = 0; i < copies; ++i, next += between) {
        copyDoubles<kBytes>(next, rowsOn(at, list[row + (i << logRows)], ld), bytes);
      }
      return;
    }
    const double* from = at;
    const uint64_t further = 8 * static_cast<uint64_t>(ld) << logRows;
#pragma unroll
    for (uint32_t i = 0; i < kCopies; ++i) copyNext<kBytes>(i, copies, next, from, bytes, between, further);
  }
};

// DoubleBlock is the block of a warp: its sums, and where it lies in the tile.
template <class T>
struct DoubleBlock {
  static constexpr int kPitchK = T::TK + T::kPad;
  double sum[T::kRows][T::kColumns][4];
  FragmentLane lane;
  uint32_t set, row, col;  // k's of a step that the warp has, and the block's first
  uint32_t rows, cols;  // of the tile that exist

  BG_DEVICE DoubleBlock() : lane(threadId() % 32) {
    const uint32_t warp = threadId() / 32 % T::kSetWarps;
    set = threadId() / 32 / T::kSetWarps;
    row = warp / T::kWarpsAcross * T::kWarpRows;
    col = warp % T::kWarpsAcross * T::kWarpColumns;
  }

  BG_DEVICE void clear(uint32_t rows_, uint32_t cols_) {
    rows = rows_;
    cols = cols_;
#pragma unroll
    for (int i = 0; i < T::kRows * T::kColumns * 4; ++i) {
      sum[i / 4 / T::kColumns][i / 4 % T::kColumns][i % 4] = 0;
    }
  }

  // multiply adds the set's products of a stage of which `left` k's exist.
  template <bool kAlongA, bool kAlongB>
  BG_DEVICE void multiply(const double* stage, uint32_t left) {
    constexpr int kAcrossA = kAlongA ? kPitchK : 1, kAfterA = kAlongA ? 1 : T::TM + T::kPad;
    constexpr int kAcrossB = kAlongB ? kPitchK : 1, kAfterB = kAlongB ? 1 : T::TN + T::kPad;
    if (row >= rows || col >= cols) return;
    const uint32_t k = kProduct * set + lane.member;
    const double* a = stage + (row + lane.group) * kAcrossA + k * kAfterA;
    const double* b = stage + T::kDoublesA + (col + lane.group) * kAcrossB + k * kAfterB;
    const bool whole = row + T::kWarpRows < rows + 16 && col + T::kWarpColumns < cols + 8;
#pragma unroll
    for (int i = 0; i < T::TK / kProduct; i += T::kSets) {
      if (T::TK > kProduct && kProduct * (i + set) >= left) return;
      if (whole) {
        step<true, kAcrossA, kAfterA, kAcrossB, kAfterB>(a, b);
      } else {
        step<false, kAcrossA, kAfterA, kAcrossB, kAfterB>(a, b);
      }
      a += kProduct * T::kSets * kAfterA;
      b += kProduct * T::kSets * kAfterB;
    }
  }

  // step adds those of kProduct k's. Elements across K, and along it, are so far apart. kWhole: all of the
  // block exists.
  template <bool kWhole, int kAcrossA, int kAfterA, int kAcrossB, int kAfterB>
  BG_DEVICE void step(const double* a, const double* b) {
    constexpr int n = kProduct / 4;
    double x[T::kRows][2 * n];
#pragma unroll
    for (int i = 0; i < T::kRows; ++i) {
#pragma unroll
      for (int e = 0; e < 2 * n; ++e) x[i][e] = a[(16 * i + e % 2 * 8) * kAcrossA + e / 2 * 4 * kAfterA];
    }
#pragma unroll
    for (int j = 0; j < T::kColumns; ++j) {
      double y[n];
#pragma unroll
      for (int e = 0; e < n; ++e) y[e] = b[8 * j * kAcrossB + 4 * e * kAfterB];
#pragma unroll
      for (int i = 0; i < T::kRows; ++i) {
        if (kWhole || (col + 8 * j < cols && row + 16 * i < rows)) ::multiply(sum[i][j], x[i], y);
      }
    }
  }

  // store writes the sums to a tile in shared memory.
  BG_DEVICE void store(double* shared) const {
    double* const to = shared + set * T::kSums + (row + lane.group) * T::kPitch + col + 2 * lane.member;
#pragma unroll
    for (int i = 0; i < T::kRows; ++i) {
#pragma unroll
      for (int j = 0; j < T::kColumns; ++j) {
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          *reinterpret_cast<TwoDoubles*>(to + (16 * i + 8 * h) * T::kPitch + 8 * j) =
              {sum[i][j][2 * h], sum[i][j][2 * h + 1]};
        }
      }
    }
  }
  struct alignas(16) TwoDoubles {
    double x, y;
  };
};

// activatedDouble is an element after the activation of an epilogue.
BG_DEVICE double activatedDouble(uint32_t flags, double v) {
  constexpr double kLinear = 1.5957691216057308, kCubic = 0.044715 * kLinear;  // 2*sqrt(2/pi)
  constexpr double kLeast = -708;  // exp(708) is finite, and less than its inverse is not normal
  const uint32_t kind = flags & kActivation;
  if (kind == 0) return v;
  if (kind == kReLU) return v < 0 ? 0 : v;
  const double z = kind == kSiLU ? v : v * fma(kCubic * v, v, kLinear);
  return z < kLeast ? 0 : v / (1 + exp(-z));
}

// DoubleColumn finishes elements of a column of a tile, or of a fix-up's.
struct DoubleColumn {
  const Epilogue& e;
  double* c;     // its element in the tile's first row of C; scattered: in the first of all rows
  double* kept;  // of a gated tile: its element in the first row of the worker's slot, whose rows are ldKept
  uint32_t ldc, ldKept, scatterAt, scatterRows, weightsAt;
  double alpha, beta, bias;
  bool second, final;  // of a gated tile; C is stored

  // store stores the sum of a row of the tile.
  BG_DEVICE void store(uint32_t row, double sum) const {
    uint32_t to = row;
    if (final && e.has(kScatter)) {
      to = e.rows[scatterAt + row];
      if (to >= scatterRows) return;
    }
    double* const at = final ? rowsOn(c, to, ldc) : rowsOn(kept, row, ldKept);
    double v = alpha * sum;
    if (final && beta != 0) v = fma(beta, *at, v);
    v += bias;
    v = second ? *rowsOn(kept, row, ldKept) * v : activatedDouble(e.flags, v);
    *at = final && e.has(kWeights) ? static_cast<double>(__uint_as_float(e.rows[weightsAt + row])) * v : v;
  }
};

// storeDoubles stores a column of sums in shared memory, from a row on: to = alpha * sum + beta * to. Reads
// come first, so that they overlap.
template <class T, bool kReads>
BG_DEVICE void storeDoubles(const double* shared, double* to, uint32_t ld, uint32_t row, uint32_t rows,
    double alpha, double beta) {
  constexpr int kApart = T::kThreads / T::TN, kAtOnce = T::TM / kApart < 8 ? T::TM / kApart : 8;
#pragma unroll 1
  for (uint32_t r = row; r < rows; r += kAtOnce * kApart) {
    double value[kAtOnce], old[kAtOnce];
    double* const at = rowsOn(to, r, ld);
    if (kReads) {
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) old[i] = *rowsOn(at, r + i * kApart < rows ? i * kApart : 0, ld);
    }
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      value[i] = alpha * T::sumAt(shared + (r + i * kApart) * T::kPitch);
      if (kReads) value[i] = fma(beta, old[i], value[i]);
    }
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      if (r + i * kApart < rows) *rowsOn(at, i * kApart, ld) = value[i];
    }
  }
}

// finishDoubles stores the sums of an item, which lie in shared memory, with all that the item may say.
// `early` are the words of its tail that came with the item; others are read when they are needed.
template <class T>
BG_DEVICE void finishDoubles(const Epilogue& e, const double* shared, const uint4* items, uint32_t number,
    const Item& item, const ItemEpilogue& early, float* C, float* workspace) {
  constexpr int kApart = T::kThreads / T::TN;
  const uint32_t row = threadId() / T::TN, col = threadId() % T::TN, rows = item.rows();
  if (col >= item.cols()) return;
  const bool partial = item.slot != kFinal, second = (item.flags & kItemSecond) != 0;
  const uint64_t slot = partial ? item.slot : workerId();
  double* const kept = reinterpret_cast<double*>(workspace) + slot * (T::TM * T::TN) + col;
  double* const c = e.operandC<double>(early.pointersAt, C) + item.offC + col;
  const double alpha = item.depth == 0 ? 0 : doubleOf(item.alpha, early.scaleAAt);
  const double beta = doubleOf(item.beta, early.scaleBAt);
  shared += col;
  constexpr uint32_t kChanges = kActivation | kBias | kGated | kGather | kScatter | kWeights;
  if (!e.has(kChanges)) {
    if (partial) storeDoubles<T, false>(shared, kept, T::TN, row, rows, 1, 0);
    else if (beta == 0) storeDoubles<T, false>(shared, c, item.ldc, row, rows, alpha, beta);
    else storeDoubles<T, true>(shared, c, item.ldc, row, rows, alpha, beta);
    return;
  }
  const ItemEpilogue words = itemEpilogueAt(items, number);
  const double bias = e.has(kBias) && !partial ? static_cast<const double*>(e.bias)[words.biasAt + col] : 0;
  const DoubleColumn column = {e, c, kept, item.ldc, T::TN, words.scatterAt, words.scatterRows,
      words.weightsAt, alpha, beta, bias, second, second || !e.has(kGated)};
#pragma unroll 1
  for (uint32_t r = row; r < rows; r += kApart) {
    double sum = T::sumAt(shared + r * T::kPitch);
    if (e.has(kGather) && e.rows[words.gatherAt + r] >= words.gatherRows) sum = 0;
    if (partial) kept[r * T::TN] = sum;
    else column.store(r, sum);
  }
}

// doubleGemm is the kernel of a tile.
template <class T>
BG_DEVICE void doubleGemm(const uint4* __restrict__ items, const uint32_t* __restrict__ table,
    const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C,
    float* __restrict__ workspace, const Epilogue& e) {
  BG_SHARED_DYNAMIC(memory);
  double* const shared = reinterpret_cast<double*>(memory);
  uint32_t* const list = reinterpret_cast<uint32_t*>(shared + T::kAll);
  const Launch launch(table);
  const bool transA = e.has(kTransA), transB = e.has(kTransB);
  DoubleBlock<T> block;

  WorkerItems<Epilogue, true> work(table, workerId(), e);
  while (work.any()) {
    const uint32_t number = work.number;
    Item item = e.item(items, number);
    ItemEpilogue words = itemEpilogueAt(items, number);
    awaitEarlier(item, words);
    work.ask();
    const uint32_t depth = item.depth, rows = item.rows(), cols = item.cols();
    block.clear(rows, cols);
    if (e.has(kGather)) {
      if (depth != 0) e.findRows<T>(items, number, rows, list);
      barrier();
    }
    if (depth == 0) work.keep();
    if (depth != 0) {
      const bool second = (item.flags & kItemSecond) != 0;
      const void* const launchedB = second ? e.B2 : B;
      const double* const fromA = e.addressed(kPointersA, words.pointersAt + kPointerA,
          reinterpret_cast<const double*>(A)) + item.offA;
      const double* const fromB = e.addressed(kPointersB, words.pointersAt + (second ? kPointerB2 : kPointerB),
          static_cast<const double*>(launchedB)) + item.offB;
      DoubleOperand<T, T::TM, true> a(fromA, item.lda, rows, !transA, shared,
          e.has(kGather) ? list : nullptr);
      DoubleOperand<T, T::TN, false> b(fromB, item.ldb, cols, transB, shared + T::kDoublesA, nullptr);
      uint32_t ahead = depth;  // k's of which no copies were started
      auto copy = [&](int stage) {
        if (ahead != 0) {
          a.copy(ahead, 8 * stage);
          b.copy(ahead, 8 * stage);
          ahead -= min(ahead, static_cast<uint32_t>(T::TK));
        }
        commitCopies();
      };
      auto multiply = [&](int stage, uint32_t left) {
        if (transA) {
          if (transB) block.template multiply<false, true>(shared + stage, left);
          else block.template multiply<false, false>(shared + stage, left);
        } else {
          if (transB) block.template multiply<true, true>(shared + stage, left);
          else block.template multiply<true, false>(shared + stage, left);
        }
      };
      constexpr int kLastStage = (T::kStages - 1) * T::kStage;
      int in = 0, out = 0, filled = 0;
      for (uint32_t left = depth;;) {
        if (filled == T::kAhead) {
          waitCopies<T::kAhead - 1>();
          barrier();
          if (T::kAhead == T::kStages) {
            multiply(out, left);
            if (left <= T::TK) break;
            barrier();
          }
        }
        copy(in);
        in = in == kLastStage ? 0 : in + T::kStage;
        if (filled < T::kAhead) {
          if (++filled == T::kAhead) work.keep();
          continue;
        }
        if (T::kAhead < T::kStages) {
          multiply(out, left);
          if (left <= T::TK) break;
        }
        left -= T::TK;
        out = out == kLastStage ? 0 : out + T::kStage;
      }
    }

    if (work.last()) launch.loaded();
    barrier();
    block.store(shared);
    barrier();
    finishDoubles<T>(e, shared, items, number, item, words, C, workspace);
    work.go(reinterpret_cast<float*>(shared));
    if (work.any()) barrier();
  }
}

// DoubleFixup is the tile of a fix-up.
template <int kTM, int kTN>
struct DoubleFixup {
  static constexpr int TM = kTM, TN = kTN, kThreads = kFixupThreads, kMinGroups = 1, kEpilogueGroups = 1;
};

// doubleFixup is fixup (store.cuh) for slots of doubles: the same threads sum the same elements in the same
// order.
template <class T>
BG_DEVICE void doubleFixup(const uint4* __restrict__ items, const uint32_t* __restrict__ table, const float*,
    const float*, float* __restrict__ C, const float* __restrict__ workspace, const Epilogue& e) {
  constexpr uint32_t kVectors = T::TM * T::TN / 4;  // of 4 doubles, of a slot
  struct Four {
    double x[4];
    BG_DEVICE void add(const Four& o) {
#pragma unroll
      for (int i = 0; i < 4; ++i) x[i] += o.x[i];
    }
  };
  BG_SHARED(Four, sums, kFixupThreads);

  const Launch launch(table);
  const FixupItem item = e.fixup(items, workerId());
  const uint32_t log = slotSets<kVectors>(item.count), sets = 1u << log, across = kFixupThreads >> log;
  if (pieceId() * across >= kVectors) return;  // the launch has groups for more slots
  awaitEarlier();
  const uint32_t t = threadId(), set = (t << log) / kFixupThreads, vector = pieceId() * across + t % across;
  const uint32_t row = vector / (T::TN / 4), col = vector % (T::TN / 4) * 4;
  const uint32_t count = row < item.rows() && col < item.cols() ? item.count : 0;  // nobody stored others
  const Four* part = reinterpret_cast<const Four*>(workspace) +
      static_cast<uint64_t>(item.slot + set) * kVectors + vector;
  Four sum = {};
  for (uint32_t slot = set; slot < count; slot += kSlotLoads / 2 * sets) {
    Four v[kSlotLoads / 2] = {};
#pragma unroll
    for (uint32_t i = 0; i < kSlotLoads / 2; ++i, part += sets * kVectors) {
      if (slot + i * sets < count) v[i] = *part;
    }
#pragma unroll
    for (uint32_t i = 0; i < kSlotLoads / 2; ++i) sum.add(v[i]);
  }
  sums[t] = sum;
  barrier();
  if (set != 0) return;
#pragma unroll 1
  for (uint32_t s = 1; s < sets; ++s) sum.add(sums[t + s * across]);

  sums[t] = sum;
  const FixupEpilogue words = fixupEpilogueAt(items, workerId());
#pragma unroll 1
  for (uint32_t i = 0; i < 4; ++i) {
    if (row >= item.rows() || col + i >= item.cols()) return;
    const double bias = e.has(kBias) ? static_cast<const double*>(e.bias)[words.biasAt + col + i] : 0;
    const DoubleColumn column = {e, e.operandC<double>(item.pointersAt, C) + item.offC + col + i, nullptr,
        item.ldc, 0, words.scatterAt, words.scatterRows, words.weightsAt,
        doubleOf(item.alpha, words.scaleAAt), doubleOf(item.beta, words.scaleBAt), bias, false, true};
    column.store(row, sums[t].x[i]);
  }
}
