// Kernels of fp64 that carry out a plan with tensor cores, a warp at a time: the same items, table and
// fix-ups as gemm.cuh, but items always have a tail, in which the lower words of alpha and beta are. Slots
// of the workspace have doubles.
//
// One kernel of a tile does whatever its launch and the words of its items say, transposition included. A
// warp computes a block of the tile, with all k's in their order. Or there are several sets of warps, each
// with a share of the k's of each step, whose sums are added in the order of sets. An item waits in shared
// memory for its end, so that registers suffice.
#pragma once

#include "f64_store.cuh"
#include "tensor_f64.cuh"

struct alignas(16) TwoDoubles {
  double x, y;
};

// DoubleBlock is the block of a warp: its sums, and where it lies in the tile.
template <class T>
struct DoubleBlock {
  static constexpr int kPitchK = T::TK + T::kPad;
  double sum[T::kRows][T::kColumns][4];
  FragmentLane lane;
  uint32_t set, row, col;  // the set of the warp, and the block's first row and column
  uint32_t rows, cols;     // of the tile that exist

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

  // whole reports whether all of the block exists.
  BG_DEVICE bool whole() const {
    return row < rows && col < cols && row + T::kWarpRows < rows + 16 && col + T::kWarpColumns < cols + 8;
  }

  // multiply adds the set's products of a stage of which `left` k's exist. With a Blend all of the block and
  // of the stage exist; its copies are started in between.
  template <bool kAlongA, bool kAlongB, class Between>
  BG_DEVICE void multiply(const double* stage, uint32_t left, Between between) {
    constexpr int kAcrossA = kAlongA ? kPitchK : 1, kAfterA = kAlongA ? 1 : T::TM + T::kPad;
    constexpr int kAcrossB = kAlongB ? kPitchK : 1, kAfterB = kAlongB ? 1 : T::TN + T::kPad;
    if (row >= rows || col >= cols) return;
    const uint32_t k = kProduct * set + lane.member;
    const double* a = stage + (row + lane.group) * kAcrossA + k * kAfterA;
    const double* b = stage + T::kDoublesA + (col + lane.group) * kAcrossB + k * kAfterB;
    steps<0, kAcrossA, kAfterA, kAcrossB, kAfterB>(a, b, left, between);
  }
  template <int i, int kAcrossA, int kAfterA, int kAcrossB, int kAfterB, class Between>
  BG_DEVICE void steps(const double* a, const double* b, uint32_t left, Between& between) {
    if (T::TK > kProduct && kProduct * (i + set) >= left) return;
    if (Between::kBlends || whole()) step<true, i, kAcrossA, kAfterA, kAcrossB, kAfterB>(a, b, between);
    else step<false, i, kAcrossA, kAfterA, kAcrossB, kAfterB>(a, b, between);
    if constexpr (i + T::kSets < T::TK / kProduct) {
      steps<i + T::kSets, kAcrossA, kAfterA, kAcrossB, kAfterB>(a + kProduct * T::kSets * kAfterA,
          b + kProduct * T::kSets * kAfterB, left, between);
    }
  }

  // step adds those of kProduct k's, from the first ones of column j on, or product i of it. Elements across
  // K, and along it, are so far apart. kWhole: all of the block exists. With copies in between, a column is
  // read before those of the one before it: the compiler takes no read of shared memory past a copy.
  template <bool kWhole, int kStep, int kAcrossA, int kAfterA, int kAcrossB, int kAfterB, class Between>
  BG_DEVICE void step(const double* a, const double* b, Between& between) {
    constexpr int n = kProduct / 4;
    double x[T::kRows][2 * n], y[2][n];
#pragma unroll
    for (int i = 0; i < T::kRows; ++i) {
#pragma unroll
      for (int e = 0; e < 2 * n; ++e) x[i][e] = a[(16 * i + e % 2 * 8) * kAcrossA + e / 2 * 4 * kAfterA];
    }
#pragma unroll
    for (int e = 0; e < n; ++e) y[0][e] = b[4 * e * kAfterB];
    columns<0, kWhole, kStep, kAcrossB, kAfterB>(b, x, y, between);
  }
  template <int j, bool kWhole, int kStep, int kAcrossB, int kAfterB, class Between, int n>
  BG_DEVICE void columns(const double* b, const double (&x)[T::kRows][2 * n], double (&y)[2][n],
      Between& between) {
    constexpr int next = Between::kBlends || T::kRows == 1 ? j + 1 : j;
    if constexpr (next > 0 && next < T::kColumns) {
#pragma unroll
      for (int e = 0; e < n; ++e) y[next % 2][e] = b[8 * next * kAcrossB + 4 * e * kAfterB];
    }
    productsOf<0, j, kWhole, kStep>(x, y[j % 2], between);
    if constexpr (j + 1 < T::kColumns) columns<j + 1, kWhole, kStep, kAcrossB, kAfterB>(b, x, y, between);
  }
  template <int i, int j, bool kWhole, int kStep, class Between, int n>
  BG_DEVICE void productsOf(const double (&x)[T::kRows][2 * n], const double (&y)[n], Between& between) {
    if (kWhole || (col + 8 * j < cols && row + 16 * i < rows)) ::multiply(sum[i][j], x[i], y);
    if constexpr (Between::kBlends) {
      constexpr int products = T::kRows * T::kColumns, steps = T::TK / kProduct / T::kSets;
      between.template after<kStep / T::kSets * products + T::kRows * j + i, steps * products>();
    }
    if constexpr (i + 1 < T::kRows) productsOf<i + 1, j, kWhole, kStep>(x, y, between);
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
};

// Nothing and Blend are what a warp does between the products of a step: nothing, or its copies of another,
// evenly.
struct Nothing {
  static constexpr bool kBlends = false;
};
template <class OfA, class OfB>
struct Blend {
  static constexpr bool kBlends = true;
  typename OfA::Copies a;
  typename OfB::Copies b;

  // after goes after a product of so many.
  template <int product, int products>
  BG_DEVICE void after() {
    constexpr int n = OfA::kCount + OfB::kCount;
    copy<product * n / products, (product + 1) * n / products>();
  }
  template <int from, int end>
  BG_DEVICE void copy() {
    if constexpr (from < end) {
      if constexpr (from < OfA::kCount) a.template next<from>();
      else b.template next<from - OfA::kCount>();
      copy<from + 1, end>();
    }
  }
};

// doubleGemm is the kernel of a tile.
template <class T>
BG_DEVICE void doubleGemm(const uint4* __restrict__ items, const uint32_t* __restrict__ table,
    const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C,
    float* __restrict__ workspace, const Epilogue& e) {
  BG_SHARED_DYNAMIC(memory);
  double* const shared = reinterpret_cast<double*>(memory);
  constexpr uint32_t kVectors = kEpilogueItemWords / 4;
  uint4* const kept = reinterpret_cast<uint4*>(shared + T::kAll);  // the item, for its end
  uint32_t* const list = reinterpret_cast<uint32_t*>(kept + kVectors);
  const Launch launch(table);
  const bool transA = e.has(kTransA), transB = e.has(kTransB);
  DoubleBlock<T> block;

  WorkerItems<Epilogue, true> work(table, workerId(), e);
  while (work.any()) {
    const uint32_t number = work.number;
    Item item = e.item(items, number);
    ItemEpilogue words = itemEpilogueAt(items, number);
    awaitEarlier(item, words);
    if (threadId() < kVectors) kept[threadId()] = items[kVectors * number + threadId()];
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
      const void *const launchedA = A, *const launchedB = second ? e.B2 : B;
      const uint32_t pointerB = words.pointersAt + (second ? kPointerB2 : kPointerB);
      const double* const fromA = e.addressed(kPointersA, words.pointersAt + kPointerA,
          static_cast<const double*>(launchedA)) + item.offA;
      const double* const fromB =
          e.addressed(kPointersB, pointerB, static_cast<const double*>(launchedB)) + item.offB;
      using OfA = DoubleOperand<T, T::TM, true>;
      using OfB = DoubleOperand<T, T::TN, false>;
      OfA a(fromA, item.lda, rows, !transA, shared, e.has(kGather) ? list : nullptr);
      OfB b(fromB, item.ldb, cols, transB, shared + T::kDoublesA, nullptr);
      uint32_t ahead = depth;  // k's of which no copies were started
      auto copy = [&](int stage) {
        if (ahead != 0) {
          a.copy(ahead, 8 * stage);
          b.copy(ahead, 8 * stage);
          ahead -= min(ahead, static_cast<uint32_t>(T::TK));
        }
        commitCopies();
      };
      auto multiply = [&](int stage, uint32_t left, auto between) {
        if (transA) {
          if (transB) block.template multiply<false, true>(shared + stage, left, between);
          else block.template multiply<false, false>(shared + stage, left, between);
        } else {
          if (transB) block.template multiply<true, true>(shared + stage, left, between);
          else block.template multiply<true, false>(shared + stage, left, between);
        }
      };
      const bool whole = T::kBlends && block.whole() && !e.has(kGather);
      constexpr int kLastStage = (T::kStages - 1) * T::kStage;
      int in = 0, out = 0, filled = 0;
      for (uint32_t left = depth;;) {
        if (filled == T::kAhead) {
          waitCopies<T::kAhead - 1>();
          barrier();
          if (T::kAhead == T::kStages) {
            multiply(out, left, Nothing{});
            if (left <= T::TK) break;
            barrier();
          }
        }
        const bool blends = T::kBlends && filled == T::kAhead && whole && ahead >= T::TK && left > T::TK;
        if constexpr (T::kBlends) {
          if (blends) {
            multiply(out, left, Blend<OfA, OfB>{a.whole(8 * in), b.whole(8 * in)});
            ahead -= T::TK;
            commitCopies();
          }
        }
        if (!blends) copy(in);
        in = in == kLastStage ? 0 : in + T::kStage;
        if (filled < T::kAhead) {
          if (++filled == T::kAhead) work.keep();
          continue;
        }
        if (T::kAhead < T::kStages) {
          if (!blends) multiply(out, left, Nothing{});
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
    finishDoubles<T>(e, shared, kept, C, workspace);
    work.go(reinterpret_cast<float*>(shared));
    if (work.any()) barrier();
  }
}
