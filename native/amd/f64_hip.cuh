// Kernels of fp64 for HIP: the same items, table and fix-ups as f64.cuh, on matrix cores, or on gfx908, whose
// matrix cores do not have fp64, by FMAs. One kernel of a tile does whatever its launch and the words of its
// items say, transposition included.
//
// Waves share the columns of a tile. Elements come to shared memory by way of registers, as in dialect_hip.h,
// with k as the slowest index however the operand lies. An item waits there for its end.
#pragma once

#include "../kernels/f64_store.cuh"

// DoubleBlock is what a lane holds of a block of 16x16: of column lane % 16 the rows lane / 16, and so on by
// 4. Of its factors a lane gives row or column lane % 16 at k = lane / 16 (AMD matrix instruction calculator,
// v_mfma_f64_16x16x4f64: "C or D[i][j] GPR [2*floor(i / 4)+1 : 2*floor(i / 4)], Lane 16 * (i % 4) + j").
typedef double DoubleBlock __attribute__((vector_size(32)));
#ifdef __gfx908__
constexpr bool kMatrixDoubles = false;
#else
constexpr bool kMatrixDoubles = true;
#endif

// DoubleTile is a row of the tile table. A step has as many k's as leave room for three groups, or more. A
// tile of many rows comes to shared memory in parts on its way to C.
template <int kTM, int kTN, int kThreads_>
struct DoubleTile {
  static constexpr int TM = kTM, TN = kTN, TK = 8, kThreads = kThreads_, kMinGroups = 2;
  static constexpr int kSide = 16, kDepth = 4, kWave = 64;  // of an instruction
  static constexpr int kRows = TM / kSide, kColumns = TN / kSide / (kThreads / kWave);  // blocks of a wave
  static constexpr int kPad = 2;  // lanes that store along K share no bank
  static constexpr int kDoublesA = TK * (TM + kPad), kStage = kDoublesA + TK * (TN + kPad);
  static constexpr int kPitch = TN, kFinished = TM < 32 ? TM : 32, kSums = kFinished * kPitch;
  static constexpr int kStored = 4;  // rows of a thread at once
  static constexpr int kAll = 2 * kStage > kSums ? 2 * kStage : kSums;
  static_assert(kColumns * kSide * (kThreads / kWave) == TN && kThreads % TN == 0, "uneven tile");

  static BG_DEVICE double sumAt(const double* sum) { return *sum; }
};

constexpr uint32_t logOf(uint32_t n) { return n == 1 ? 0 : 1 + logOf(n / 2); }

// DoubleOperand copies the steps of A or B to shared memory. kLength is the tile's extent across K. kListed:
// rows that run along K may be where a list in shared memory says.
template <class T, int kLength, bool kListed>
struct DoubleOperand {
  static constexpr uint32_t kPitch = kLength + T::kPad;
  static constexpr int kCount = kLength * T::TK / T::kThreads;
  static_assert(kCount * T::kThreads == kLength * T::TK && kLength <= T::kThreads, "uneven tile");

  const double* at;      // the thread's first element of the next step; of listed rows: in the first of all
  const double* any;     // may be read
  const uint32_t* list;  // or null
  uint32_t ld, length;
  uint32_t row, place, logApart;  // the first row in memory, the place in it, rows between loads
  uint32_t to, toNext;            // where elements go in a stage
  uint32_t exist;                 // elements of the step that do
  bool alongK;
  double value[kCount];

  BG_DEVICE DoubleOperand(const double* start, uint32_t ld_, uint32_t length_, bool alongK_,
      const uint32_t* rows) : any(start), list(rows), ld(ld_), length(length_), alongK(alongK_) {
    const uint32_t logRun = alongK ? logOf(T::TK) : logOf(kLength);
    logApart = logOf(T::kThreads) - logRun;
    row = threadId() >> logRun;
    place = threadId() & ((1u << logRun) - 1);
    at = (kListed && list != nullptr ? start : rowsOn(start, row, ld)) + place;
    to = alongK ? place * kPitch + row : row * kPitch + place;
    toNext = (alongK ? 1 : kPitch) << logApart;
  }

  // copy starts the loads of the next step, of which `left` k's exist. Those of what does not exist read
  // elsewhere, because a load under a condition would be a branch.
  BG_DEVICE void copy(uint32_t left) {
    const uint32_t rows = alongK ? length : min(left, static_cast<uint32_t>(T::TK));
    exist = place < (alongK ? left : length) && row < rows ? ((rows - row - 1) >> logApart) + 1 : 0;
    if (kListed && list != nullptr) {
#pragma unroll
      for (uint32_t j = 0; j < kCount; ++j) {
        value[j] = *(j < exist ? rowsOn(at, list[row + (j << logApart)], ld) : any);
      }
    } else {
      const uint64_t apart = static_cast<uint64_t>(ld) << logApart;
      const double* from = at;
#pragma unroll
      for (uint32_t j = 0; j < kCount; ++j, from += apart) value[j] = *(j < exist ? from : any);
    }
    at = alongK ? at + T::TK : rowsOn(at, T::TK, ld);
  }

  // land waits for them and stores them to a stage: zeros for what does not exist.
  BG_DEVICE void land(double* stage) const {
#pragma unroll
    for (uint32_t j = 0; j < kCount; ++j) stage[to + j * toNext] = j < exist ? value[j] : 0.0;
  }
};

// DoubleSums are those of a wave.
template <class T>
struct DoubleSums {
  DoubleBlock sum[T::kRows][T::kColumns];
  uint32_t line, across, col;  // lane / 16, lane % 16; the wave's first column

  BG_DEVICE DoubleSums() {
    const uint32_t lane = threadId() % T::kWave;
    line = lane / T::kSide;
    across = lane % T::kSide;
    col = threadId() / T::kWave * (T::kColumns * T::kSide);
  }

  BG_DEVICE void clear() {
#pragma unroll
    for (int i = 0; i < T::kRows * T::kColumns; ++i) sum[i / T::kColumns][i % T::kColumns] = DoubleBlock{};
  }

  // multiply adds the products of a stage.
  BG_DEVICE void multiply(const double* stage) {
    constexpr uint32_t kPitchA = T::TM + T::kPad, kPitchB = T::TN + T::kPad;
    const double* const a = stage + (kMatrixDoubles ? line * kPitchA + across : line);
    const double* const b = stage + T::kDoublesA + (kMatrixDoubles ? line * kPitchB : 0) + col + across;
#pragma unroll 2
    for (int k = 0; k < T::TK; k += kMatrixDoubles ? T::kDepth : 1) step(a + k * kPitchA, b + k * kPitchB);
  }

  // step adds the products of an instruction, or of one k, of which a lane then gives all rows that it has.
  BG_DEVICE void step(const double* a, const double* b) {
    constexpr int kGives = kMatrixDoubles ? 1 : 4;
    double x[T::kRows][kGives], y[T::kColumns];
#pragma unroll
    for (int i = 0; i < T::kRows * kGives; ++i) {
      x[i / kGives][i % kGives] = a[i / kGives * T::kSide + i % kGives * 4];
    }
#pragma unroll
    for (int j = 0; j < T::kColumns; ++j) y[j] = b[j * T::kSide];
#pragma unroll
    for (int i = 0; i < T::kRows; ++i) {
#pragma unroll
      for (int j = 0; j < T::kColumns; ++j) {
#ifdef __gfx908__
#pragma unroll
        for (int r = 0; r < 4; ++r) sum[i][j][r] = fma(x[i][r], y[j], sum[i][j][r]);
#else
        sum[i][j] = __builtin_amdgcn_mfma_f64_16x16x4f64(x[i][0], y[j], sum[i][j], 0, 0, 0);
#endif
      }
    }
  }

  // store writes the sums from row `first` of the tile on, as many as are finished at once.
  BG_DEVICE void store(double* shared, uint32_t first) const {
    double* const to = shared + line * T::kPitch + col + across;
#pragma unroll
    for (int i = 0; i < T::kRows; ++i) {
      const uint32_t part = i * T::kSide / T::kFinished * T::kFinished;
      if (T::kFinished < T::TM && part != first) continue;
#pragma unroll
      for (int j = 0; j < T::kColumns; ++j) {
#pragma unroll
        for (int r = 0; r < 4; ++r) {
          to[(i * T::kSide % T::kFinished + 4 * r) * T::kPitch + j * T::kSide] = sum[i][j][r];
        }
      }
    }
  }
};

// doubleGemm is the kernel of a tile.
template <class T>
BG_DEVICE void doubleGemm(const uint4* __restrict__ items, const uint32_t* __restrict__ table,
    const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C,
    float* __restrict__ workspace, const Epilogue& e) {
  constexpr uint32_t kVectors = kEpilogueItemWords / 4;
  BG_SHARED(uint4, memory, T::kAll / 2 + kVectors + T::TM / 4);
  double* const shared = reinterpret_cast<double*>(memory);
  uint4* const kept = memory + T::kAll / 2;  // the item, for its end
  uint32_t* const list = reinterpret_cast<uint32_t*>(kept + kVectors);
  DoubleSums<T> sums;

  WorkerItems<Epilogue, true> work(table, workerId(), e);
  while (work.any()) {
    const uint32_t number = work.number;
    const Item item = e.item(items, number);
    if (threadId() < kVectors) kept[threadId()] = items[kVectors * number + threadId()];
    work.ask();
    const uint32_t depth = item.depth, rows = item.rows(), cols = item.cols();
    sums.clear();
    if (e.has(kGather)) {
      if (depth != 0) e.findRows<T>(items, number, rows, list);
      barrier();
    }
    if (depth != 0) {
      const double* const fromA = e.operandA(items, number, static_cast<const double*>(
          static_cast<const void*>(A))) + item.offA;
      const double* const fromB = e.operandB(items, number, item, static_cast<const double*>(
          static_cast<const void*>(B))) + item.offB;
      DoubleOperand<T, T::TM, true> a(fromA, item.lda, rows, !e.has(kTransA),
          e.has(kGather) ? list : nullptr);
      DoubleOperand<T, T::TN, false> b(fromB, item.ldb, cols, e.has(kTransB), nullptr);
      a.copy(depth);
      b.copy(depth);
      double* stage = shared;
      for (uint32_t left = depth;;) {
        a.land(stage);
        b.land(stage + T::kDoublesA);
        barrier();
        if (left > T::TK) {
          a.copy(left - T::TK);
          b.copy(left - T::TK);
        }
        if (sums.col < cols) sums.multiply(stage);
        if (left <= T::TK) break;
        left -= T::TK;
        stage = stage == shared ? shared + T::kStage : shared;
      }
    }

#pragma unroll 1
    for (uint32_t first = 0; first < rows; first += T::kFinished) {
      barrier();
      sums.store(shared, first);
      barrier();
      finishDoubles<T>(e, shared, kept, C, workspace, first);
    }
    work.go(reinterpret_cast<float*>(shared));
    if (work.any()) barrier();
  }
}
