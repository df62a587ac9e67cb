// What kernels of warpgroups with an epilogue do beside the others (epilogue.cuh).
#pragma once

#include "epilogue.cuh"
#include "../kernels/wgmma_store.cuh"

// GatheredRows are rows of A of an item's tile.
struct GatheredRows {
  const Epilogue& e;
  ItemEpilogue words;
  uint32_t count;
  BG_DEVICE uint32_t operator()(uint32_t r) const { return r < count ? e.rowOf(words, r) : 0; }
};
BG_DEVICE GatheredRows gatheredRows(const Items<Epilogue>& items, uint32_t number, const Item& item) {
  return {items.more, itemEpilogueAt(items.words(), number % kItemPlaces), item.rows()};
}

// fetchLists brings the biases of an item's tile, rows of C, weights and scales to the L2 cache before its
// products are summed: from memory they would come long after the sums (H200: the experts of 1 token with
// bias and SiLU 20.4, then 17.4 us). A warp of the loader does it, since one that multiplies would delay its
// warpgroup.
template <class T>
BG_DEVICE void fetchLists(const Items<Epilogue>& items, uint32_t number, const Item& item) {
  const Epilogue& e = items.more;
  const ItemEpilogue words = itemEpilogueAt(items.words(), number % kItemPlaces);
  const uint32_t lane = threadId() % 32, rows = item.rows(), cols = item.cols();
  auto bring = [&](const void* list, uint64_t first, uint32_t count, uint32_t size) {
    const uint32_t last = size * (count - 1), at = 128 * lane;
    if (at < last + 128) fetch(static_cast<const char*>(list) + size * first + min(at, last));
  };
  if (e.has(kBias)) bring(e.bias, words.biasAt, cols, T::Element::kPer == 1 ||
      (item.flags & kItemFloatC) != 0 ? 4 : 2);
  if (e.has(kScatter)) bring(e.rows, words.scatterAt, rows, 4);
  if (e.has(kWeights)) bring(e.rows, words.weightsAt, rows, 4);
  if constexpr (T::Element::kScaled) {
    const uint32_t each = scaleWords(e.flags);
    if (e.has(kRowsA) && !e.has(kGather)) bring(e.rows, words.scaleAAt, each * rows, 4);
    if (e.has(kColumnsB)) bring(e.rows, words.scaleBAt, each * cols, 4);
  }
}

// StepSums adds sums of a step as they are, and RowScales times their scales of blocks. more: of another step
// there are some.
struct StepSums {
  template <int n>
  BG_DEVICE void add(float (&sum)[n], const float (&part)[n], bool) const {
#pragma unroll
    for (int i = 0; i < n; ++i) sum[i] += part[i];
  }
};
struct RowScales {
  BlockScales<2> scales;  // of the lane's rows
  template <int n>
  BG_DEVICE void add(float (&sum)[n], const float (&part)[n], bool more) {
    float scale[2];
    scales.next(scale, more);
#pragma unroll
    for (int i = 0; i < n; ++i) sum[i] = fmaf(scale[i / 2 % 2], part[i], sum[i]);
  }
};

// withScales calls multiply with what adds sums of 128 k's to those of an item, of which the warp has 16 rows
// from one on.
template <class T, class Multiply>
BG_DEVICE void withScales(const Items<typename T::More>& items, uint32_t number, uint32_t row,
    Multiply multiply) {
  if constexpr (kHasBlocks<T, typename T::More>) {
    const Epilogue& e = items.more;
    if (e.has(kBlocks)) {
      const Item item = items.wait(number);
      const ItemEpilogue words = itemEpilogueAt(items.words(), number % kItemPlaces);
      const uint32_t first = row + threadId() % 32 / 4, last = item.rows() - 1;
      if (uniform(item.depth) != 0) {
        RowScales rows;
        rows.scales.start(e.rows, words, uniform(item.depth), 0,
            [&](int i) { return e.rowOf(words, min(first + 8 * i, last)); });
        return multiply(rows);
      }
    }
  }
  StepSums none;
  multiply(none);
}

// activate is Epilogue::activated of many, with one decision for all. both: of each lane's two rows, not of
// the first alone. One reciprocal for four numbers, by products, takes longer: SiLU of 4096 tokens 1.06 for
// 1.04 of plain products (bf16, H100).
template <int n>
BG_DEVICE void activate(const Epilogue& e, float (&v)[n], bool both) {
  auto each = [&](uint32_t kind) {
    Epilogue of = e;
    of.flags = kind;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      if (half == 1 && !both) break;
#pragma unroll
      for (int i = 2 * half; i < n; i += 4) {
        v[i] = of.activated(v[i]);
        v[i + 1] = of.activated(v[i + 1]);
      }
    }
  };
  const uint32_t kind = e.flags & kActivation;
  if (kind == kReLU) each(kReLU);
  else if (kind == kGELU) each(kGELU);
  else if (kind == kSiLU) each(kSiLU);
}

// RowLanes are lanes whose sums, as products leave them, are of two of a warp's 16 rows, lane/4 and 8 more,
// and of pairs of columns.
struct RowLanes {
  uint32_t row;  // the warp's first

  // both reports whether there is the second row.
  BG_DEVICE bool both(const Item& item) const { return row + 8 < item.rows(); }

  // eachRow makes something of the sums of the rows, by what of says for a row.
  template <int n, class Of>
  BG_DEVICE void eachRow(float (&sum)[n], Of of) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const auto become = of(row + threadId() % 32 / 4 + 8 * half);
#pragma unroll
      for (int i = 2 * half; i < n; i += 4) {
        sum[i] = become(sum[i]);
        sum[i + 1] = become(sum[i + 1]);
      }
    }
  }

  // eachColumn makes something of sums, and of what of says for a column that exists, else none.
  template <int n, class Of, class Become>
  BG_DEVICE void eachColumn(float (&sum)[n], uint32_t cols, float none, Of of, Become become) const {
    // of 128 sums the compiler would find the columns before the first item, and spill them
    const uint32_t member = n > 64 ? settled(threadId() % 4) : threadId() % 4;
    float x[n / 2];
#pragma unroll
    for (int i = 0; i < n / 2; ++i) {
      const uint32_t col = 8 * (i / 2) + 2 * member + i % 2;
      x[i] = col < cols ? of(col) : none;
    }
#pragma unroll
    for (int i = 0; i < n; ++i) sum[i] = become(sum[i], x[i / 4 * 2 + i % 2]);
  }
};

// ColumnLanes are lanes whose sums are of two columns of B, `column` and 8 more, and of pairs of rows of A.
struct ColumnLanes {
  uint32_t column;

  static BG_DEVICE bool both(const Item&) { return true; }
  template <int n, class Of>
  BG_DEVICE void eachRow(float (&sum)[n], Of of) const {
#pragma unroll
    for (int i = 0; i < n / 2; ++i) {
      const auto become = of(8 * (i / 2) + 2 * (threadId() % 4) + i % 2);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float& x = sum[i / 2 * 4 + i % 2 + 2 * half];
        x = become(x);
      }
    }
  }
  template <int n, class Of, class Become>
  BG_DEVICE void eachColumn(float (&sum)[n], uint32_t cols, float none, Of of, Become become) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const uint32_t col = column + 8 * half;
      const float x = col < cols ? of(col) : none;
#pragma unroll
      for (int i = 2 * half; i < n; i += 4) {
        sum[i] = become(sum[i], x);
        sum[i + 1] = become(sum[i + 1], x);
      }
    }
  }
};

// addBias adds those of the columns of a tile.
template <class To, class Lanes, int n>
BG_DEVICE void addBias(const Epilogue& e, const ItemEpilogue& words, uint32_t cols, const Lanes& lanes,
    float (&sum)[n]) {
  const auto* const biases = static_cast<const typename To::Number*>(e.bias) + words.biasAt;
  lanes.eachColumn(sum, cols, 0.0f, [&](uint32_t col) { return To::number(biases[col]); },
      [](float x, float bias) { return x + bias; });
}

// centreSums takes off what zero points of rows are worth, times the sums of columns.
template <int n>
BG_DEVICE void centreSums(const Epilogue& e, const Item& item, const ItemEpilogue& words,
    const RowLanes& lanes, float (&sum)[n]) {
  float zero[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const uint32_t r = lanes.row + threadId() % 32 / 4 + 8 * half;
    zero[half] = r < item.rows() ? e.zeroOfRow(words, r) : 0.0f;
  }
  const uint32_t first = 2 * (threadId() % 4);
#pragma unroll
  for (int i = 0; i < n; ++i) {
    const uint32_t col = first + i / 4 * 8 + i % 2;
    sum[i] = fmaf(-zero[i / 2 % 2], col < item.cols() ? e.sumOfColumn(words, col) : 0.0f, sum[i]);
  }
}

// scaleSums multiplies by the scales of rows and columns of a tile.
template <class Lanes, int n>
BG_DEVICE void scaleSums(const Epilogue& e, const Item& item, const ItemEpilogue& words, const Lanes& lanes,
    float (&sum)[n]) {
  if (e.has(kScaleA)) {
    lanes.eachRow(sum, [&](uint32_t r) {
      const float scale = r < item.rows() ? e.scaleOfRow(words, r) : 1.0f;
      return [=](float x) { return x * scale; };
    });
  }
  if (e.has(kScaleB)) {
    lanes.eachColumn(sum, item.cols(), 1.0f, [&](uint32_t col) { return e.scaleOfColumn(words, col); },
        [](float x, float scale) { return x * scale; });
  }
}

// Kept are sums of the first item of a gated tile, which wait for the second: lanes have the same elements of
// both. Keeping is where.
enum Keeping { kNowhere, kInWorkspace, kInRegisters };
template <class T, Keeping>
struct Kept {  // nowhere: kernels have no gated tiles
  BG_DEVICE explicit Kept(float*) {}
};
template <class T>
struct Kept<T, kInWorkspace> {
  static constexpr int kApart = 32 * T::kMultiply;
  float4* at;

  BG_DEVICE explicit Kept(float* workspace) : at(reinterpret_cast<float4*>(workspace +
      workerId() * static_cast<uint64_t>(T::TM * T::TN)) + threadId()) {}
  template <int n>
  BG_DEVICE void keep(const float (&sum)[n]) const {
#pragma unroll
    for (int i = 0; i < n; i += 4) at[i / 4 * kApart] = {sum[i], sum[i + 1], sum[i + 2], sum[i + 3]};
  }
  template <int n>
  BG_DEVICE void multiply(float (&sum)[n]) const {
#pragma unroll
    for (int i = 0; i < n; i += 4) {
      const float4 before = at[i / 4 * kApart];
      sum[i] *= before.x;
      sum[i + 1] *= before.y;
      sum[i + 2] *= before.z;
      sum[i + 3] *= before.w;
    }
  }
};
template <class T>
struct Kept<T, kInRegisters> {
  float x[T::TN / 2];

  BG_DEVICE explicit Kept(float*) {}
  template <int n>
  BG_DEVICE void keep(const float (&sum)[n]) {
#pragma unroll
    for (int i = 0; i < n; ++i) x[i] = sum[i];
  }
  template <int n>
  BG_DEVICE void multiply(float (&sum)[n]) const {
#pragma unroll
    for (int i = 0; i < n; ++i) sum[i] *= x[i];
  }
};

// applyEpilogue does to the sums of a final item that does not read C all that its epilogue says, in
// registers, and reports whether they are C's then: those of a gated tile's first item are kept for the
// second. Whatever an epilogue may have is a loop of its own, because a branch for each of 64 sums took 3 us
// a tile, and loads of biases come before anything is stored, which they could not pass (H200: 4096 tokens'
// experts 497 for 424 us, with bias and SiLU 701).
template <class T, Keeping kWhere, class Lanes, int n>
BG_DEVICE bool applyEpilogue(float (&sum)[n], const Epilogue& e, const Item& item, const ItemEpilogue& words,
    const Lanes& lanes, Kept<T, kWhere>& kept) {
  if constexpr (T::Element::kWhole) {
    if (e.has(kZeros) && item.depth != 0) centreSums(e, item, words, lanes, sum);
  }
  const float alpha = item.depth == 0 ? 0.0f : __uint_as_float(item.alpha) * kScaleOf<T>;
  // in registers there is no room for the branch
  if (kWhere == kInRegisters || alpha != 1.0f || e.has(kGather)) {
    lanes.eachRow(sum, [&](uint32_t r) {
      const bool none = e.has(kGather) && r < item.rows() && e.rows[words.gatherAt + r] >= words.gatherRows;
      return [=](float x) { return none ? 0.0f : alpha * x; };
    });
  }
  if constexpr (T::Element::kScaled) {
    if (item.depth != 0) scaleSums(e, item, words, lanes, sum);
  }
  if (e.has(kBias)) {
    auto add = [&](auto to) { addBias<decltype(to)>(e, words, item.cols(), lanes, sum); };
    if (T::Element::kPer == 1 || (item.flags & kItemFloatC) != 0) {
      add(Floats{});
    } else if constexpr (T::Element::kPer != 1) {
      T::Element::withC(item.flags, add);
    }
  }
  if constexpr (kWhere == kNowhere) {
    activate(e, sum, lanes.both(item));
  } else if ((item.flags & kItemSecond) != 0) {
    kept.multiply(sum);
  } else {
    activate(e, sum, lanes.both(item));
    if (e.has(kGated)) {
      kept.keep(sum);
      return false;
    }
  }
  if (e.has(kWeights)) {
    lanes.eachRow(sum, [&](uint32_t r) {
      const float weight = r < item.rows() ? __uint_as_float(e.rows[words.weightsAt + r]) : 0.0f;
      return [=](float x) { return weight * x; };
    });
  }
  return true;
}

// ScatteredRows are rows of C of an item's tile.
struct ScatteredRows {
  const Epilogue& e;
  const ItemEpilogue& words;
  BG_DEVICE uint32_t operator()(uint32_t r) const {
    if (!e.has(kScatter)) return r;
    const uint32_t row = e.rows[words.scatterAt + r];
    return row < words.scatterRows ? row : kNoRow;
  }
};

// storeLine writes the first `count` of 8 elements, four bytes of n words each or two.
template <class Number, int n>
BG_DEVICE void storeLine(Number* to, uint32_t count, const uint32_t (&x)[n]) {
  constexpr uint32_t kPer = 8 / n;
  if (count == 8 && placeInLine(to) == 0) {
#pragma unroll
    for (int i = 0; i < n / 4; ++i) reinterpret_cast<uint4*>(to)[i] = {x[4 * i], x[4 * i + 1], x[4 * i + 2],
        x[4 * i + 3]};
  } else {
#pragma unroll
    for (uint32_t i = 0; i < 8; ++i) {
      if (i < count) to[i] = static_cast<Number>(x[i / kPer] >> 32 / kPer * (i % kPer));
    }
  }
}

// storeFinished writes the warp's 16 rows of sums with their epilogue to C, which begin anywhere.
template <class T, int n>
BG_DEVICE void storeFinished(const float (&sum)[n], float* out, const Epilogue& e, const Item& item,
    const ItemEpilogue& words, uint32_t row, float* C) {
  auto store = [&](auto to) {
    storeColumns<decltype(to)>(sum, out, item, row,
        e.operandC<typename decltype(to)::Number>(words.pointersAt, C) + item.offC, ScatteredRows{e, words});
  };
  if constexpr (T::Element::kPer != 1) {
    if ((item.flags & kItemFloatC) == 0) return T::Element::withC(item.flags, store);
  }
  store(Floats{});
}

// finishColumns is storeSums with an epilogue, element by element from shared memory.
template <class T, bool kTransA, bool kTransB, int n>
BG_DEVICE void finishColumns(const float (&sum)[n], float* out, const Items<Epilogue>& items, uint32_t number,
    uint32_t row, const typename T::Element::Number* A,
                             const typename T::Element::Number* B, float* C, float* workspace) {
  const Item item = items.wait(number);
  const GatheredRows rows = gatheredRows(items, number, item);
  const uint32_t lane = threadId() % 32;
  auto again = [&](uint32_t col) {
    repair<T, kTransA, kTransB>(out, item, row, col, items.operandA(number, A),
        items.operandB(number, item, B), rows);
  };
  throughShared(sum, kScaleOf<T>, out, overflowed<T>(sum), again, [&](uint32_t col) {
    if (col + lane >= item.cols()) return;
    withColumn<T::TM, T::TN, typename T::Element>(items.more, item, rows.words, col + lane, C, workspace,
        [&](const auto& column) {
#pragma unroll 1
      for (uint32_t first = 0; first < 16 && row + first < item.rows(); first += 4) {
        column.template store<4, 1>(row + first, [&](int i) { return out[(first + i) * kOutPitch + lane]; });
      }
    });
  });
}

// losesBits reports whether alpha times the scale of ScaledSplit is below the least normal number.
// finishColumns has that scale first.
template <class T>
BG_DEVICE bool losesBits(float alpha) { return alpha != 0.0f && fabsf(alpha) < 0x1p-126f / kScaleOf<T>; }

// finishSums is storeSums with an epilogue: in registers where it can be. Of both items of a gated tile lanes
// have the same elements then: both are finished so, or neither.
template <class T, bool kTransA, bool kTransB, int n>
BG_DEVICE void finishSums(float (&sum)[n], float* out, const Items<Epilogue>& items, uint32_t number,
    uint32_t row, const typename T::Element::Number* A,
                          const typename T::Element::Number* B, float* C, float* workspace) {
  const Item item = items.wait(number);
  const Epilogue& e = items.more;
  if (item.slot != kFinal || __uint_as_float(item.beta) != 0.0f ||
      (T::kEmulated && (e.has(kGated) || losesBits<T>(__uint_as_float(item.alpha)) || overflowed<T>(sum)))) {
    return finishColumns<T, kTransA, kTransB>(sum, out, items, number, row, A, B, C, workspace);
  }
  const ItemEpilogue words = itemEpilogueAt(items.words(), number % kItemPlaces);
  Kept<T, kInWorkspace> kept(workspace);
  if (!applyEpilogue(sum, e, item, words, RowLanes{row}, kept)) return;
  storeFinished<T>(sum, out, e, item, words, row, C);
}
