// The device text that CUDA and HIP share: the kernels that carry out a plan
// (internal/encoding has the layout of the words). gemm computes the segments of
// a worker; store.cuh sums the partial tiles of one tile.
//
// A thread group computes one TM x TN tile of C. For each step of TK along K its
// threads bring TK columns of op(A) and TK rows of op(B) to shared memory, with k
// as the slowest index, and multiply from there into register blocks of RM x RN.
// With K groups, sets of threads do so for their own k's. At the end the blocks
// go through shared memory once more, where K groups are summed, so that adjacent
// threads store adjacent columns of C.
//
// Loads never leave the matrices, but for up to 12 bytes before rows of B that are
// copied by lines (SideB). Rows and columns beyond the edge are not loaded; what lies in
// shared memory there feeds only outputs that are not stored. The
// last, shorter step multiplies exactly the k's that are left.
//
// Each tile class has its own kernel and launch. Measured on an H200: with blocks
// of 256 threads for all classes, of which surplus threads return at once
// (the screening of Zhang et al. 2025), 64x64 tiles of 64 threads take 25 to 40 %
// longer, 32x32 tiles of 128 threads 20 to 25 %, because the surplus holds
// registers. One kernel for a small and a large class takes between 2 % less and
// 9 % more time than two, of which the second costs 0.6 us in a graph.
#pragma once

#include "load.cuh"
#include "store.cuh"

// Tile is a row of planner's tile table and what follows from it.
template <int kTM, int kTN, int kTK, int kThreads_, int kRM, int kRN, int kStages_, int kMinGroups_>
struct Tile {
  static constexpr int TM = kTM, TN = kTN, TK = kTK, RM = kRM, RN = kRN;
  static constexpr int kThreads = kThreads_;
  // steps in shared memory: one is multiplied, the others are on their way
  static constexpr int kStages = kStages_;
  // that must fit in registers at once: thread groups of a compute unit; HIP: waves of a SIMD
  static constexpr int kMinGroups = kMinGroups_;
  static constexpr int kEpilogueGroups = kMinGroups;  // the same with an epilogue
  static constexpr int kGroups = kThreads * RM * RN / (TM * TN);  // K groups
  static constexpr int kGroupThreads = kThreads / kGroups;
  static_assert(kGroupThreads * kGroups == kThreads && TK % kGroups == 0, "uneven tile");

  // A team is the lanes of a warp that share a K group: a patch of rows x cols
  // threads. Its outputs are a contiguous block of the tile, so that a team whose
  // block lies beyond the edge can rest. It is 8 columns wide: fewer where the tile
  // has no more, more where the tile has too few rows for all lanes.
  static constexpr int kTeam = kGroupThreads < 32 ? kGroupThreads : 32;
  static constexpr int kWidth = TN / RN < 8 ? TN / RN : 8, kLeastWidth = kTeam / (TM / RM);
  static constexpr int kTeamCols = kWidth > kLeastWidth ? kWidth : kLeastWidth;
  static constexpr int kTeamRows = kTeam / kTeamCols;
  static constexpr int VA = RM < 4 ? RM : 4, VB = RN < 4 ? RN : 4;  // elements of a shared-memory load
  static constexpr bool kThin = TN >= 8 * TM;  // for few rows, which wait for B
};

// Accumulator is the register block of a thread and where it lies in the tile. It reads VB columns of B at
// once.
template <class T, int VB = T::VB>
struct Accumulator {
  static constexpr int kGroups = T::kGroups;
  static constexpr int kPacked = sizeof(Packed) / 4;

  Packed c[T::RM][T::RN / kPacked];
  uint32_t group, row, col;   // K group; first row and column of the thread
  uint32_t teamRow, teamCol;  // first row and column of its team
  bool few;                   // rows: no more than VA
  // AMD's compiler would leave the block in memory
  static constexpr bool kAsksFew = kCopiesLines && T::kThin;

  BG_DEVICE Accumulator() {
    constexpr int kTeamsAcross = T::TN / (T::kTeamCols * T::RN);
    const uint32_t t = threadId(), lane = t % T::kTeam, team = t % T::kGroupThreads / T::kTeam;
    group = t / T::kGroupThreads;
    teamRow = team / kTeamsAcross * (T::kTeamRows * T::RM);
    teamCol = team % kTeamsAcross * (T::kTeamCols * T::RN);
    row = teamRow + lane / T::kTeamCols * T::VA;
    col = teamCol + lane % T::kTeamCols * VB;
  }

  // active reports whether the team has outputs within the first rows and cols, which it is to multiply.
  BG_DEVICE bool active(uint32_t rows, uint32_t cols) {
    few = kAsksFew && rows <= T::VA;
    return teamRow < rows && teamCol < cols;
  }

  // The first elements of A and B that the thread reads of a stage.
  template <int kPitch>
  BG_DEVICE const float* firstA(const float* stage) const { return stage + group * kPitch + row; }
  template <int kPitch>
  BG_DEVICE const float* firstB(const float* stage) const { return stage + group * kPitch + col; }

  BG_DEVICE void clear() {
#pragma unroll
    for (int i = 0; i < T::RM; ++i) {
#pragma unroll
      for (int j = 0; j < T::RN / kPacked; ++j) c[i][j] = Packed{};
    }
  }

  // multiply adds the products of a step of which `left` k's exist. Each other row of B that the thread reads
  // lies `further` words further.
  template <int kPitchA, int kPitchB>
  BG_DEVICE void multiply(const float* a, const float* b, int32_t further, uint32_t left) {
    if (left >= T::TK) {
      if (kAsksFew && few) steps<T::VA, kPitchA, kPitchB>(a, b, further);
      else steps<T::RM, kPitchA, kPitchB>(a, b, further);
    } else {
#pragma unroll 1
      for (uint32_t k = group; k < left; k += T::kGroups) {
        step<T::RM>(a, b + (k / T::kGroups % 2 == 0 ? 0 : further));
        a += T::kGroups * kPitchA;
        b += T::kGroups * kPitchB;
      }
    }
  }
  template <int kPitchA, int kPitchB>
  BG_DEVICE void multiply(const float* a, const float* b, uint32_t left) { multiply<kPitchA,
      kPitchB>(a, b, 0, left); }

  // steps and step have kRows rows of the block.
  template <int kRows, int kPitchA, int kPitchB>
  BG_DEVICE void steps(const float* a, const float* b, int32_t further) {
BG_UNROLL_STEPS
    for (int k = 0; k < T::TK; k += T::kGroups) step<kRows>(a + k * kPitchA,
        b + (k / T::kGroups % 2 == 0 ? 0 : further) + k * kPitchB);
  }
  template <int kRows>
  BG_DEVICE void step(const float* a, const float* b) {
    Vector<T::VA> x[kRows / T::VA];
    Vector<VB, Packed> y[T::RN / VB];
#pragma unroll
    for (int i = 0; i < kRows / T::VA; ++i) x[i] = loadVector<T::VA>(a + i * T::VA * T::kTeamRows);
#pragma unroll
    for (int j = 0; j < T::RN / VB; ++j) y[j] = loadVector<VB, Packed>(b + j * VB * T::kTeamCols);
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
#pragma unroll
      for (int j = 0; j < T::RN; j += kPacked) {
        c[i][j / kPacked] =
            multiplyAdd(x[i / T::VA].x[i % T::VA], y[j / VB].x[j % VB / kPacked], c[i][j / kPacked]);
      }
    }
  }

  // store writes the block to its place in the tile, which K groups do one after the other.
  BG_DEVICE void store(float* shared) const {
    float* const block = shared + (group * T::TM + row) * T::TN + col;
#pragma unroll
    for (int i = 0; i < T::RM; ++i) {
#pragma unroll
      for (int j = 0; j < T::RN; j += VB) {
        Vector<VB, Packed> v;
#pragma unroll
        for (int e = 0; e < VB / kPacked; ++e) v.x[e] = c[i][j / kPacked + e];
        const int row = i / T::VA * T::VA * T::kTeamRows + i % T::VA;
        storeVector(block + row * T::TN + j * T::kTeamCols, v);
      }
    }
  }
};

// StepScales are scales that change along K, of which there are none here: AMD's kernels have some
// (steps_hip.cuh). Numbers of a stage come after those of the operands.
template <class T, class Element, class More>
struct StepScales {
  static constexpr int kFloats = 0;
  BG_DEVICE StepScales(const More&, const uint4*, uint32_t) {}
  template <class RowOf>
  BG_DEVICE void copy(uint32_t, uint32_t, RowOf, int) {}
  BG_DEVICE void land(float*) {}
  template <int kPitchA, int kPitchB, class Sum>
  BG_DEVICE void multiply(Sum& sum, const float* readA, const float* readB, uint32_t left,
      const float*) const {
    sum.template multiply<kPitchA, kPitchB>(readA, readB, left);
  }
};

// SideB is how a kernel brings B to shared memory and who reads it there, `shift` words further.
template <class T, bool kTransB, class Element, class SumOf, bool kLined = kCopiesLines && T::kThin &&
    !kTransB && Element::kPer == 1>
struct SideB {
  using Of = Operand<T, T::TN, kTransB, Element>;
  using Sum = SumOf;
  template <class Start>
  static BG_DEVICE uint32_t shift(const Start&, uint32_t, const Sum&) { return 0; }
};
// LinedSum reads columns one by one, which are a team's width apart: vectors of them would begin anywhere in
// a line.
template <class T>
struct LinedSum : Accumulator<T, sizeof(Packed) / 4> {
  using Base = Accumulator<T, sizeof(Packed) / 4>;
  int32_t further;  // words, of each other row of a K group

  template <int kPitchA, int kPitchB>
  BG_DEVICE void multiply(const float* a, const float* b, uint32_t left) { Base::template multiply<kPitchA,
      kPitchB>(a, b, further, left); }
};
// By lines: thin tiles take 0.93 to 0.95 of the time where rows of B begin anywhere, down to 0.85 where K
// differs much (H100).
template <class T, class Element, class SumOf>
struct SideB<T, false, Element, SumOf, true> {
  using Of = LinedOperand<T, Element>;
  using Sum = LinedSum<T>;
  static BG_DEVICE uint32_t shift(const float* start, uint32_t ld, Sum& sum) {
    const uint32_t first = Of::placeInSector(rowsOn(start, sum.group, ld)),
        next = Of::placeInSector(rowsOn(start, sum.group + T::kGroups, ld));
    sum.further = static_cast<int32_t>(next - first);
    return first;
  }
};

// gemm is the kernel of a tile. Sum keeps its outputs in registers and multiplies. A step has
// T::TK words of Element along K. kPartials: it sums the parts of tiles.
template <class T, bool kTransA, bool kTransB, class SumOf = Accumulator<T>, class Element = Floats,
    class More = NoEpilogue, bool kPartials = false>
BG_DEVICE void gemm(const uint4* __restrict__ items, const uint32_t* __restrict__ table,
    const float* __restrict__ A,
                    const float* __restrict__ B, float* __restrict__ C, float* __restrict__ workspace,
                        const More& more = {}) {
  constexpr bool kListed = More::kIs && !kTransA;  // rows of A may be anywhere
  using OperandA = Operand<T, T::TM, !kTransA, Element, kListed>;
  using Side = SideB<T, kTransB, Element, SumOf>;
  using OperandB = typename Side::Of;
  using Sum = typename Side::Sum;
  using Scales = StepScales<T, Element, More>;
  using Number = typename Element::Number;
  constexpr uint32_t kDepth = T::TK * Element::kPer;  // k's of a step
  constexpr int kOperandFloats = OperandA::kFloats + OperandB::kFloats,
      kStageFloats = kOperandFloats + Scales::kFloats;
  constexpr int kSumFloats = Sum::kGroups * T::TM * T::TN;
  constexpr int kFloats = T::kStages * kStageFloats > kSumFloats ? T::kStages * kStageFloats : kSumFloats;
  BG_SHARED(float4, memory, (kFloats + (kListed ? T::TM : 0)) / 4);
  float* const shared = reinterpret_cast<float*>(memory);
  uint32_t* const list = reinterpret_cast<uint32_t*>(shared + kFloats);

  const Launch launch(table);
  Sum sum;
  const float* const readA = sum.template firstA<OperandA::kPitch>(shared);
  const float* const readB = sum.template firstB<OperandB::kPitch>(shared + OperandA::kFloats);

  WorkerItems<More, !kPartials> work(table, workerId(), more);
  while (work.any()) {
    const uint32_t number = work.number;
    Item item = more.item(items, number);
    awaitEarlier(item);
    work.ask();
    const uint32_t depth = item.depth, rows = item.rows(), cols = item.cols();
    const bool active = sum.active(rows, cols);

    sum.clear();
    if constexpr (kListed) {
      if (depth != 0) more.template findRows<T>(items, number, rows, list);
      barrier();
    }
    if (depth == 0) work.keep();
    if (depth != 0) {
      OperandA a(more.operandA(items, number, reinterpret_cast<const Number*>(A)) + item.offA, item.lda, rows,
          item.flags & kItemVector, shared, list);
      const auto startB = more.operandB(items, number, item, reinterpret_cast<const Number*>(B)) + item.offB;
      OperandB b(startB, item.ldb, cols, item.flags & kItemVector, shared + OperandA::kFloats);
      const float* const fromB = readB + Side::shift(startB, item.ldb, sum);
      Scales scales(more, items, number);
      auto multiply = [&](uint32_t left, int stage) {
        if (!active) return;
        scales.template multiply<OperandA::kPitch, OperandB::kPitch>(sum, readA + stage, fromB + stage, left,
            shared + kOperandFloats + stage);
      };
      uint32_t ahead = depth;  // k's of which no copies were started
      auto copy = [&](int stage) {
        if (ahead != 0) {
          a.copy(ahead, 4 * stage);
          b.copy(ahead, 4 * stage);
          scales.copy(depth - ahead, depth, [&](uint32_t r) { return kListed ? list[r] :
              min(r, rows - 1); }, stage);
          ahead -= min(ahead, kDepth);
        }
        commitCopies();
      };
#pragma unroll
      for (int s = 0; s < T::kStages - 1; ++s) copy(s * kStageFloats);
      work.keep();
      constexpr int kLastStage = (T::kStages - 1) * kStageFloats;
      int in = kLastStage, out = 0;
      for (uint32_t left = depth;;) {
        waitCopies<T::kStages - 2>();
        a.land();
        b.land();
        scales.land(shared + kOperandFloats);
        barrier();
        copy(in);
        multiply(left, out);
        if (left <= kDepth) break;
        left -= kDepth;
        in = in == kLastStage ? 0 : in + kStageFloats;
        out = out == kLastStage ? 0 : out + kStageFloats;
      }
    }

    if (work.last()) launch.loaded();
    barrier();
    sum.store(shared);
    barrier();

    if constexpr (More::kIs) {
      more.template finish<T, Sum::kGroups, T::TN, Element>(shared, items, number, item, C, workspace);
    } else {
      withTarget<T, Element>(item, C, workspace, [&](const auto& target) { target.template store<T,
          Sum::kGroups, T::TN>(shared); });
    }
    if constexpr ((kPartials || kFinishes) && Element::kPer == 1 && !More::kIs) finishPartial<T>(items, item,
        C, workspace);
    work.go(shared);
    if (work.any()) barrier();
  }
}
