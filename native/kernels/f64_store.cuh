// How sums of fp64 come from shared memory to C or to a partial tile, and what becomes of partial tiles: what
// kernels of fp64 for CUDA (f64.cuh, f64_boxes.cuh) and for HIP (../amd/f64_hip.cuh) share. A tile says in
// kPitch how long rows of its sums in shared memory are, in kFinished how many there are at once, in kStored
// how many of them a thread stores at once, and in sumAt what a sum is.
#pragma once

#include "../epilogue/epilogue.cuh"

// activatedDouble is an element after the activation of an epilogue.
BG_DEVICE double activatedDouble(uint32_t flags, double v) {
  constexpr double kLinear = 1.5957691216057308, kCubic = 0.044715 * kLinear;  // 2*sqrt(2/pi)
  constexpr double kLeast = -708;  // exp(708) is finite, and less than its inverse is not normal
  const uint32_t kind = flags & kActivation;
  if (kind == 0) return v;
  if (kind == kReLU) return v < 0 ? 0 : v;
  const double z = kind == kSiLU ? v : v * fma(kCubic * v, v, kLinear);
  return z < kLeast ? 0 : logistic(v, z);
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

// TileThreads are the threads of a group that store a tile, each a column of it: rows that are kApart rows
// apart, from one on. place is where its sums are in a row of shared memory.
template <class T>
struct TileThreads {
  static constexpr int kApart = T::kThreads / T::TN;
  BG_DEVICE uint32_t row() const { return threadId() / T::TN; }
  BG_DEVICE uint32_t col() const { return threadId() % T::TN; }
  BG_DEVICE uint32_t place() const { return col(); }
};

// storeDoubles stores a column of sums in shared memory, from a row on: to = alpha * sum + beta * to. Reads
// come first, so that they overlap.
template <class T, class Threads, bool kReads>
BG_DEVICE void storeDoubles(const double* shared, double* to, uint32_t ld, uint32_t row, uint32_t rows,
    double alpha, double beta) {
  constexpr int kApart = Threads::kApart, kAll = T::TM / kApart;
  constexpr int kAtOnce = kAll < T::kStored ? kAll : T::kStored;
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

// finishDoubles stores the sums of an item from row `first` of its tile on, T::kFinished rows, with all that
// the item may say. Both lie in shared memory.
template <class T, class Threads = TileThreads<T>>
BG_DEVICE void finishDoubles(const Epilogue& e, const double* shared, const uint4* itself, float* C,
    float* workspace, uint32_t first = 0, Threads threads = {}) {
  const Item item = itemAt<true>(itself, 0);
  ItemEpilogue words = itemEpilogueAt(itself, 0);
  constexpr int kApart = Threads::kApart;
  const uint32_t row = threads.row(), col = threads.col();
  uint32_t rows = item.rows();
  if (col >= item.cols()) return;
  const bool partial = item.slot != kFinal, second = (item.flags & kItemSecond) != 0;
  const uint64_t slot = partial ? item.slot : workerId();
  double* kept = reinterpret_cast<double*>(workspace) + slot * (T::TM * T::TN) + col;
  double* c = e.operandC<double>(words.pointersAt, C) + item.offC + col;
  const double alpha = item.depth == 0 ? 0 : doubleOf(item.alpha, words.scaleAAt);
  const double beta = doubleOf(item.beta, words.scaleBAt);
  shared += threads.place();
  if (T::kFinished < T::TM) {  // what follows sees those rows alone
    rows = min(rows - first, static_cast<uint32_t>(T::kFinished));
    kept += first * T::TN;
    if (!e.has(kScatter)) c = rowsOn(c, first, item.ldc);
    words.gatherAt += first;
    words.scatterAt += first;
    words.weightsAt += first;
  }
  constexpr uint32_t kChanges = kActivation | kBias | kGated | kGather | kScatter | kWeights;
  if (!e.has(kChanges)) {
    if (partial) storeDoubles<T, Threads, false>(shared, kept, T::TN, row, rows, 1, 0);
    else if (beta == 0) storeDoubles<T, Threads, false>(shared, c, item.ldc, row, rows, alpha, beta);
    else storeDoubles<T, Threads, true>(shared, c, item.ldc, row, rows, alpha, beta);
    return;
  }
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
