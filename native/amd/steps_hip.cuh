// Scales that change along K, in the kernels of gemm.cuh for AMD GPUs: those of blocks (planner.PerBlock).
// All k's of a step are of one block, so that each row has one scale there. A thread brings that of a row to
// shared memory, behind the operands of the step, as it brings those. Plain FMAs multiply numbers of A by it,
// when they have made fp32 of them; matrix cores, whose numbers stay fp16, sum a step from zero and multiply
// the sums.
#pragma once

#include "../element/element_hip.cuh"
#include "../epilogue/epilogue.cuh"
#include "../kernels/gemm.cuh"

// AsTheyAre are the numbers of a step without such scales.
struct AsTheyAre {
  BG_DEVICE float a(float x, int) const { return x; }
  BG_DEVICE float b(float y, int) const { return y; }
};

// loadScales loads the scales of the rows or columns of a thread of an Accumulator, whose vectors of kVector
// are kApart times as far from each other.
template <int kVector, int kApart, int n>
BG_DEVICE void loadScales(float (&scale)[n], const float* first) {
#pragma unroll
  for (int i = 0; i < n; i += kVector) {
    const auto v = loadVector<kVector>(first + i * kApart);
#pragma unroll
    for (int e = 0; e < kVector; ++e) scale[i + e] = v.x[e];
  }
}

// RowScales are the scales of the rows of a thread of an Accumulator.
template <class T>
struct RowScales {
  float scale[T::RM];

  // first is that of the thread's first row.
  BG_DEVICE explicit RowScales(const float* first) { loadScales<T::VA, T::kTeamRows>(scale, first); }
  BG_DEVICE float a(float x, int i) const { return scale[i] * x; }
  BG_DEVICE float b(float y, int) const { return y; }
};

// kHasBlocksHere: not on gfx908, where kernels with a choice of both sums do not compute what they should as
// clang-19 compiles them (docs/hip.md).
#ifdef __gfx908__
constexpr bool kHasBlocksHere = false;
#else
constexpr bool kHasBlocksHere = true;
#endif

// BlockStepScales has scales kTimes as large: the products that matrix cores sum are smaller by that
// (mfma_bits16.cuh).
template <class T, class Element, int kTimes>
struct BlockStepScales {
  static constexpr uint32_t kDepth = T::TK * Element::kPer;
  static constexpr bool kAre = kHasBlocksHere && !Element::kWhole;
  static constexpr int kFloats = kAre ? T::TM : 0;
  static_assert(kScaleBlock % kDepth == 0 && T::kThreads >= T::TM && kScaleBlock % T::TN == 0,
      "a step has several scales");

  // What the item says is found again for each step: what would be kept of it would be registers too many of
  // large tiles.
  const Epilogue& more;
  const uint4* items;
  uint32_t number;
  uint32_t a, b;  // bits of the scales
  int pending;

  BG_DEVICE BlockStepScales(const Epilogue& more_, const uint4* items_, uint32_t number_) : more(more_),
      items(items_), number(number_) {}

  // are: the item has such scales. mine: the thread brings some.
  BG_DEVICE bool are() const { return kAre && more.has(kBlocks); }
  BG_DEVICE bool mine() const { return are() && threadId() < T::TM; }

  // copy starts to bring those of the step from k on of an item of so many k's. rowOf(r) is the row of A that
  // is row r of the tile.
  template <class RowOf>
  BG_DEVICE void copy(uint32_t k, uint32_t depth, RowOf rowOf, int stage) {
    pending = stage;
    if (!mine()) return;
    const ItemEpilogue at = itemEpilogueAt(items, number);
    a = more.rows[at.scaleAAt + rowOf(threadId()) * scaleBlocks(depth) + k / kScaleBlock];
    b = more.rows[at.scaleBAt + k / kScaleBlock];
  }

  BG_DEVICE void land(float* scales) {
    if (mine()) scales[pending + threadId()] = __uint_as_float(a) * __uint_as_float(b) * kTimes;
  }

  template <int kPitchA, int kPitchB, class Sum>
  BG_DEVICE void multiply(Sum& sum, const float* readA, const float* readB, uint32_t left,
      const float* scales) const {
    if constexpr (kAre) {
      if (are()) return sum.template multiplyScaled<kPitchA, kPitchB>(readA, readB, left, scales);
    }
    sum.template multiply<kPitchA, kPitchB>(readA, readB, left);
  }
};

template <class T, class Format>
struct StepScales<T, StagedBytes<Format>, Epilogue> : BlockStepScales<T, StagedBytes<Format>, 1> {
  using BlockStepScales<T, StagedBytes<Format>, 1>::BlockStepScales;
};
template <class T>
struct StepScales<T, NativeBytes<E4M3>, Epilogue> : BlockStepScales<T, NativeBytes<E4M3>,
    E4M3::kNativeParts> {
  using BlockStepScales<T, NativeBytes<E4M3>, E4M3::kNativeParts>::BlockStepScales;
};
