// Kernels that carry out a plan with tensor cores (mma.sync, compute capability
// 8.0 on): the same items, table, partial tiles and fix-ups as gemm.cuh.
//
// kEmulated: every fp32 number is split into two tf32 numbers in registers, and a
// product is lo*hi + hi*lo + hi*hi (Markidis et al. 2018; Ootomo and Yokota
// 2022). The tensor core cuts the bits that do not fit after every addition, so
// that long sums drift: each 32 k's are summed there from zero and then added to
// fp32 registers. Numbers and sums too large to be split (ScaledSplit) make an
// output that is not finite; the thread group then computes the segment once more
// with plain FMA (recompute), which gives what fp32 gives.
// Without kEmulated the numbers are rounded to tf32, multiplied once, and summed
// by the tensor core, whose cut is small beside the rounding.
//
// A warp computes a block of 32x32 of the tile. The warps that cover a tile are a
// team; with several teams each has its own part of the segment's K range and its
// own stages in shared memory, and the sums of the teams are added at the end. A
// cluster of thread groups does the same once more: its groups are further teams.
//
// Steps come to shared memory by copies of 16 bytes, whatever the alignment: a
// row of the step is copied from the line (16 bytes) on that holds its first
// element, and read with that shift. The rows that a lane reads are multiples of
// 4 apart, and therefore its shift is the same for all of them. The copy of the
// last line stops at the last element; what is missing of a step is zero.
#pragma once

#include "../epilogue/epilogue.cuh"
#include "../ptx/mma.cuh"
#include "../element/bits16.cuh"

// convert gives the parts of a number: of ScaledSplit, or the number rounded.
template <bool kEmulated>
BG_DEVICE void convert(float x, uint32_t& hi, uint32_t& lo) {
  if constexpr (kEmulated) {
    const ScaledSplit s(x);
    hi = s.hi;
    lo = s.lo;
  } else {
    hi = roundToTF32(x);
  }
}

// TensorTile is a row of the tile table and what follows from it.
template <int kTM, int kTN, int kTK, int kTeams_, int kStages_, int kMinGroups_, bool kEmulated_,
    class Element_ = Floats>
struct TensorTile {
  using Element = Element_;  // of A and B
  static constexpr int TM = kTM, TN = kTN;
  static constexpr int TK = kTK * Element::kPer;  // k's of a step of one team
  static constexpr int kTeams = kTeams_, kStages = kStages_, kMinGroups = kMinGroups_;
  // with an epilogue: 4 would spill
  static constexpr int kEpilogueGroups = kMinGroups < 3 && Element::kPer != 4 ? kMinGroups : 3;
  static constexpr bool kEmulated = kEmulated_;
  static constexpr int kBlockRows = TM < 32 ? TM : 32, kBlock = 32;  // rows and columns of a warp
  static constexpr int kBlocksAcross = TN / kBlock;
  static constexpr int kTeamThreads = 32 * (TM / kBlockRows) * kBlocksAcross;
  static constexpr int kThreads = kTeams * kTeamThreads;
  // of the sums in shared memory: no two rows of a fragment share a bank
  static constexpr int kPitch = TN + 8;
  static_assert(kTeams == 1 || kTeamThreads == 32, "teams of several warps need a barrier of their own");
};

// WarpBlock is the block of a warp: its sums, and where it reads a stage.
template <class T, bool kTransA, bool kTransB, bool kListed = false, bool kNarrow = T::Element::kPer != 1>
struct WarpBlock {
  using OperandA = StagedOperand<T, T::TM, !kTransA, kListed>;
  using OperandB = StagedOperand<T, T::TN, kTransB>;
  static constexpr int kRows = T::kBlockRows / FragmentA::kRows, kColumns = T::kBlock / FragmentB::kColumns;
  static constexpr int kPromote = T::TK < 32 ? T::TK : 32;  // k's that the tensor core sums
  static_assert(T::TK % kPromote == 0, "uneven step");

  FragmentC sum[kRows][kColumns];
  const float *readA, *readB;
  uint32_t shifts[2 * kRows];  // kListed: of the lane's rows, which are any

  BG_DEVICE WarpBlock() { clear(sum); }

  // start prepares the reading of stages, for operands from `a` and `b` on.
  BG_DEVICE void start(const FragmentLane& lane, const float* stages, uint32_t row, uint32_t col,
      const float* a, uint32_t lda,
                       const float* b, uint32_t ldb, const uint32_t* list) {
    const uint32_t shiftA = kListed ? 0 : placeInLine(rowsOn(a, kTransA ? lane.member : lane.group, lda));
    if constexpr (kListed) {
#pragma unroll
      for (int i = 0; i < 2 * kRows; ++i) shifts[i] = placeInLine(rowsOn(a, list[row + lane.group + 8 * i],
          lda));
    }
    const uint32_t shiftB = placeInLine(rowsOn(b, kTransB ? lane.group : lane.member, ldb));
    readA = stages + (row + lane.group) * OperandA::kAcross + lane.member * OperandA::kAlong + shiftA;
    readB = stages + OperandA::kFloats + (col + lane.group) * OperandB::kAcross +
        lane.member * OperandB::kAlong + shiftB;
  }

  static BG_DEVICE void clear(FragmentC (&block)[kRows][kColumns]) {
#pragma unroll
    for (int i = 0; i < kRows * kColumns * FragmentC::kElements; ++i) {
      block[i / kColumns / FragmentC::kElements][i / FragmentC::kElements % kColumns]
          .x[i % FragmentC::kElements] = 0.0f;
    }
  }

  // step adds the products of 8 k's to `part`. a and b are the lane's first
  // elements; kFirst: part is not read.
  template <bool kFirst>
  BG_DEVICE void step(const float* a, const float* b, FragmentC (&part)[kRows][kColumns]) {
    FragmentA hi[kRows], lo[kRows];
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
#pragma unroll
      for (int e = 0; e < FragmentA::kElements; ++e) {
        const int across = i * FragmentA::kRows + FragmentA::row(e);
        const float* const at = kListed ? a + shifts[across / 8] : a;
        convert<T::kEmulated>(at[across * OperandA::kAcross + FragmentA::k(e) * OperandA::kAlong], hi[i].x[e],
            lo[i].x[e]);
      }
    }
#pragma unroll
    for (int j = 0; j < kColumns; ++j) {
      FragmentB bHi, bLo;
#pragma unroll
      for (int e = 0; e < FragmentB::kElements; ++e) {
        const int across = j * FragmentB::kColumns;
        convert<T::kEmulated>(b[across * OperandB::kAcross + FragmentB::k(e) * OperandB::kAlong], bHi.x[e],
            bLo.x[e]);
      }
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
        if constexpr (T::kEmulated) {
          if (kFirst) multiplyFirst(part[i][j], lo[i], bHi);
          else multiply(part[i][j], lo[i], bHi);
        } else {
          if (kFirst) multiplyFirst(part[i][j], hi[i], bHi);
          else multiply(part[i][j], hi[i], bHi);
        }
      }
      if constexpr (T::kEmulated) {
#pragma unroll
        for (int i = 0; i < kRows; ++i) multiply(part[i][j], hi[i], bLo);
#pragma unroll
        for (int i = 0; i < kRows; ++i) multiply(part[i][j], hi[i], bHi);
      }
    }
  }

  // steps adds the products of kPromote k's, of which `depth` exist, to `to`;
  // kFirst: from zero.
  template <bool kFirst>
  BG_DEVICE void steps(const float* a, const float* b, uint32_t depth, FragmentC (&to)[kRows][kColumns]) {
    if (depth >= kPromote) {
      step<kFirst>(a, b, to);
#pragma unroll
      for (int s = 8; s < kPromote; s += 8) {
        step<false>(a + s * OperandA::kAlong, b + s * OperandB::kAlong, to);
      }
    } else if (depth != 0) {
      step<kFirst>(a, b, to);
#pragma unroll 1
      for (uint32_t s = 8; s < depth; s += 8) {
        step<false>(a + s * OperandA::kAlong, b + s * OperandB::kAlong, to);
      }
    }
  }

  // multiplyStage adds the products of a stage with `depth` k's, or more than a stage has; `stage`
  // is floats after the first one.
  BG_DEVICE void multiplyStage(int stage, uint32_t depth) {
    const float *a = readA + stage, *b = readB + stage;
#pragma unroll
    for (int k = 0; k < T::TK; k += kPromote) {
      if (k != 0 && depth <= k) return;
      if constexpr (T::kEmulated) {
        FragmentC part[kRows][kColumns];
        steps<true>(a, b, depth - k, part);
#pragma unroll
        for (int i = 0; i < kRows; ++i) {
#pragma unroll
          for (int j = 0; j < kColumns; ++j) {
#pragma unroll
            for (int e = 0; e < FragmentC::kElements; ++e) sum[i][j].x[e] += part[i][j].x[e];
          }
        }
      } else {
        steps<false>(a, b, depth - k, sum);
      }
      a += kPromote * OperandA::kAlong;
      b += kPromote * OperandB::kAlong;
    }
  }

  // store writes the sums to a tile in shared memory, whose block is at `to`, and reports
  // whether all are finite.
  BG_DEVICE bool store(const FragmentLane& lane, float* to) const {
    constexpr float kScale = T::kEmulated ? kProductScale : 1.0f;
    to += lane.group * T::kPitch + 2 * lane.member;
    float zero = 0.0f;  // NaN when a sum is not finite
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
#pragma unroll
      for (int j = 0; j < kColumns; ++j) {
#pragma unroll
        for (int e = 0; e < FragmentC::kElements; e += 2) {
          const float x = sum[i][j].x[e], y = sum[i][j].x[e + 1];
          storeVector(to + (i * FragmentA::kRows + FragmentC::row(e)) * T::kPitch + j * FragmentB::kColumns,
                      Vector<2>{{kScale * x, kScale * y}});
          zero = fmaf(y, 0.0f, fmaf(x, 0.0f, zero));
        }
      }
    }
    return zero == 0.0f;
  }
};

// recompute writes the sums over k's `first` to `first + count` of a segment,
// computed with FMA in their order, to the first team's tile in shared memory, and
// zero to the others'.
template <class T, bool kTransA, bool kTransB, bool kListed>
BG_DEVICE void recompute(const float* A, uint32_t lda, const float* B, uint32_t ldb, uint32_t rows,
    uint32_t cols,
                         uint32_t first, uint32_t count, float* shared, const uint32_t* list) {
  A = rowsOn(A, first, kTransA ? lda : 1);
  B = rowsOn(B, first, kTransB ? 1 : ldb);
#pragma unroll 1
  for (uint32_t i = threadId(); i < T::TM * T::TN; i += T::kThreads) {
    const uint32_t row = i / T::TN, col = i % T::TN;
    float sum = 0.0f;
    if (row < rows && col < cols) {
      const float* a = kTransA ? A + row : rowsOn(A, kListed ? list[row] : row, lda);
      const float* b = kTransB ? rowsOn(B, col, ldb) : B + col;
#pragma unroll 1
      for (uint32_t k = 0; k < count; ++k) {
        sum = fmaf(*a, *b, sum);
        a += kTransA ? lda : 1;
        b += kTransB ? 1 : ldb;
      }
    }
    float* const to = shared + row * T::kPitch + col;
    *to = sum;
#pragma unroll 1
    for (int team = 1; team < T::kTeams; ++team) to[team * T::TM * T::kPitch] = 0.0f;
  }
}

// Cluster is the thread groups that share the K range of a tile. Each group makes
// its share of the rows of C: it adds up these rows of the sums of all groups,
// which they write to its `received`, one group's rows after the other's. The
// order of additions depends on nothing but the size.
template <class T>
struct Cluster {
  uint32_t size, rank;  // size is 2, 4 or 8
  float* received;

  template <int kPartials>
  struct Share {
    static constexpr int TM = T::TM / kPartials, TN = T::TN, kThreads = T::kThreads;
  };

  // send adds up the teams' tiles and writes each row to the group that stores it.
  BG_DEVICE void send(const float* shared) const {
    constexpr int kApart = T::kThreads / T::TN;
    const uint32_t share = T::TM / size, col = threadId() % T::TN;
#pragma unroll
    for (int i = 0; i < T::TM / kApart; ++i) {
      const uint32_t row = threadId() / T::TN + i * kApart;
      float sum = shared[row * T::kPitch + col];
#pragma unroll
      for (int team = 1; team < T::kTeams; ++team) sum += shared[(team * T::TM + row) * T::kPitch + col];
      storeRemote(sharedAddress(received + (rank * share + row % share) * T::TN + col), row / share, sum);
    }
  }

  // store writes the group's share to its rows of the target.
  template <class To>
  BG_DEVICE void store(const Target<To>& target) const {
    const Target<To> mine = target.part(rank * (T::TM / size), T::TM / size);
    if (size == 8) mine.template store<Share<8>, 8, T::TN>(received);
    else if (size == 4) mine.template store<Share<4>, 4, T::TN>(received);
    else mine.template store<Share<2>, 2, T::TN>(received);
  }
};

// TensorMemory is what a kernel has in dynamic shared memory, in floats: the
// stages of the teams, later their sums, and after them what a cluster sends, or a list of rows.
template <class T, bool kTransA, bool kTransB, bool kListed>
struct TensorMemory {
  using Block = WarpBlock<T, kTransA, kTransB, kListed>;
  using OperandA = typename Block::OperandA;
  using OperandB = typename Block::OperandB;
  static constexpr int kStage = OperandA::kFloats + OperandB::kFloats;
  static constexpr int kStages = T::kTeams * T::kStages * kStage, kSums = T::kTeams * T::TM * T::kPitch;
  static constexpr int kReceived = kStages > kSums ? kStages : kSums, kCluster = kReceived + T::TM * T::TN;
};

// tensorGemm is the kernel of a tile. kCluster: the groups of a cluster, of 2, 4
// or 8, carry out the same item, one worker of the plan.
template <class T, bool kTransA, bool kTransB, bool kCluster = false, class More = NoEpilogue,
    bool kPartials = false>
BG_DEVICE void tensorGemm(const uint4* __restrict__ items, const uint32_t* __restrict__ table,
    const float* __restrict__ A,
                          const float* __restrict__ B, float* __restrict__ C, float* __restrict__ workspace,
                              const More& more = {}) {
  constexpr bool kListed = More::kIs && !kTransA;
  static_assert(!(More::kIs && kCluster), "clusters have no epilogue");
  using Memory = TensorMemory<T, kTransA, kTransB, kListed>;
  using OperandA = typename Memory::OperandA;
  using OperandB = typename Memory::OperandB;
  constexpr int kStageFloats = Memory::kStage;
  using Number = typename T::Element::Number;
  constexpr int kUnit = 8 * T::Element::kPer;  // k's of a product
  BG_SHARED_DYNAMIC(memory);
  float* const shared = reinterpret_cast<float*>(memory);
  const Launch launch(table);

  const uint32_t team = threadId() / T::kTeamThreads, thread = threadId() % T::kTeamThreads;
  const FragmentLane lane(thread % 32);
  const uint32_t blockRow = thread / 32 / T::kBlocksAcross * T::kBlockRows,
      blockCol = thread / 32 % T::kBlocksAcross * T::kBlock;
  float* const stages = shared + team * T::kStages * kStageFloats;

  uint32_t* const list = reinterpret_cast<uint32_t*>(shared + Memory::kReceived);
  Cluster<T> cluster{1, 0, shared + Memory::kReceived};
  if constexpr (kCluster) {
    cluster.size = clusterSize();
    cluster.rank = clusterRank();
    clusterArrive();  // the others may write to `received`
  }

  WorkerItems<More, !kCluster && !kPartials> work(table, workerId() / cluster.size, more);
  while (work.any()) {
    const uint32_t number = work.number;
    Item item = more.item(items, number);
    awaitEarlier(item);
    work.ask();
    const uint32_t depth = item.depth, rows = item.rows(), cols = item.cols();
    if constexpr (kListed) {
      if (depth != 0) more.template findRows<T>(items, number, rows, list);
      barrier();
    }

    // The K range is cut into multiples of a product's for the teams of all groups, or of what shares scales;
    // the last are shorter or empty.
    auto shareOf = [&](uint32_t unit) { return (depth +
        unit * T::kTeams * cluster.size - 1) / (unit * T::kTeams * cluster.size) * unit; };
    uint32_t share = shareOf(kUnit);
    if constexpr (kHasBlocks<T, More>) {
      if (more.has(kBlocks)) share = shareOf(kScaleBlock);
    }
    const uint32_t from = min((cluster.rank * T::kTeams + team) * share, depth);
    uint32_t left = min(depth - from, share);

    typename Memory::Block block;
    if (left == 0) work.keep();
    if (left != 0) {
      const Number* const startA = rowsOn(more.operandA(items, number, reinterpret_cast<const Number*>(A)) +
          item.offA, from, kTransA ? item.lda : 1);
      const Number* const startB = rowsOn(more.operandB(items, number, item,
          reinterpret_cast<const Number*>(B)) + item.offB, from, kTransB ? 1 : item.ldb);
      OperandA a(startA, item.lda, rows, thread, reinterpret_cast<const Number*>(stages), list);
      OperandB b(startB, item.ldb, cols, thread, reinterpret_cast<const Number*>(stages + OperandA::kFloats));
      block.start(lane, stages, blockRow, blockCol, startA, item.lda, startB, item.ldb, list);
      const bool active = blockRow < rows && blockCol < cols;

      uint32_t ahead = left;  // k's of which no copies were started
      auto copy = [&](int stage) {
        if (ahead != 0) {
          a.copy(thread, ahead, 4 * stage);
          b.copy(thread, ahead, 4 * stage);
          ahead -= min(ahead, static_cast<uint32_t>(T::TK));
        }
        commitCopies();
      };
#pragma unroll
      for (int s = 0; s < T::kStages - 1; ++s) copy(s * kStageFloats);
      work.keep();
      auto steps = [&](auto multiply) {
        constexpr int kLastStage = (T::kStages - 1) * kStageFloats;
        int in = kLastStage, out = 0;
        for (;;) {
          waitCopies<T::kStages - 2>();
          if constexpr (T::kTeams == 1) barrier();
          else warpBarrier();
          copy(in);
          if (active) multiply(out);
          if (left <= T::TK) break;
          left -= T::TK;
          in = in == kLastStage ? 0 : in + kStageFloats;
          out = out == kLastStage ? 0 : out + kStageFloats;
        }
      };
      auto plain = [&](int stage) { block.multiplyStage(stage, left); };
      if constexpr (kHasBlocks<T, More>) {
        static_assert(T::TK == kScaleBlock, "a stage has other k's than those that share scales");
        if (more.has(kBlocks)) {
          BlockScales<2 * Memory::Block::kRows> scales;
          scales.start(more.rows, itemEpilogueAt(items, number), depth, from / kScaleBlock, [&](int i) {
            const uint32_t row = blockRow + Memory::Block::rowAt(lane, i);
            return kListed ? list[row] : min(row, rows - 1);
          });
          steps([&](int stage) { block.multiplyBlock(stage, left, scales); });
        } else {
          steps(plain);
        }
      } else {
        steps(plain);
      }
    }

    if (work.last()) launch.loaded();
    barrier();
    const bool finite = block.store(lane, shared + (team * T::TM + blockRow) * T::kPitch + blockCol);
    if constexpr (T::Element::kPer == 1) {
      if (barrierOr(!finite)) {
        const uint32_t first = min(cluster.rank * T::kTeams * share, depth),
            count = min(depth - first, T::kTeams * share);
        recompute<T, kTransA, kTransB, kListed>(more.operandA(items, number, A) + item.offA, item.lda,
            more.operandB(items, number, item, B) + item.offB, item.ldb,
                                                rows, cols, first, count, shared, list);
        barrier();
      }
    } else {
      barrier();
    }
    if constexpr (kCluster) {
      clusterWait();
      cluster.send(shared);
      clusterArrive();
      clusterWait();
      withTarget<T, typename T::Element>(item, C, workspace,
          [&](const auto& target) { cluster.store(target); });
    } else if constexpr (More::kIs) {
      more.template finish<T, T::kTeams, T::kPitch, typename T::Element>(shared, items, number, item, C,
          workspace);
    } else {
      withTarget<T, typename T::Element>(item, C, workspace,
          [&](const auto& target) { target.template store<T, T::kTeams, T::kPitch>(shared); });
      if constexpr (kPartials) finishPartial<T>(items, item, C, workspace);
    }
    work.go(shared);
    if constexpr (kCluster) {
      if (work.any()) clusterArrive();
    } else {
      if (work.any()) barrier();
    }
  }
}
