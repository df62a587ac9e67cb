// How sums come from shared memory to C, or to a partial tile, and what becomes of partial tiles.
#pragma once

#include "load.cuh"

// storeElement writes C = alpha * sum + beta * C; beta = 0 does not read C.
template <class Element = Floats>
BG_DEVICE void storeElement(typename Element::Number* c, float alpha, float sum, float beta) {
  float value = alpha * sum;
  if (beta != 0.0f) value = fmaf(beta, Element::number(*c), value);
  *c = Element::bits(value);
}

// storeTile writes the first rows and cols of a tile that lies in shared memory
// with rows of kPitch elements, one K group after the other: to = alpha * sum
// over groups + beta * to.
//
// A thread has outputs kApart rows apart, of which it handles kAtOnce at a time,
// more if it also reads them: reads wait for memory and must overlap. They are
// not predicated, because the compiler would have one wait for the other, but
// repeat the first.
template <class T, int kGroups, bool kReads, int kPitch, class To>
BG_DEVICE void storeTile(const float* shared, typename To::Number* to, uint32_t ld, uint32_t rows,
    uint32_t cols, float alpha, float beta) {
  constexpr int kApart = T::kThreads / T::TN, kMost = kReads ? 16 : 8;
  constexpr int kAtOnce = T::TM / kApart < kMost ? T::TM / kApart : kMost;
  const uint32_t t = threadId(), row = t / T::TN, col = t % T::TN;
  if (col >= cols) return;
  const float* from = shared + t + row * (kPitch - T::TN);
  to = rowsOn(to, row, ld) + col;
#pragma unroll 1
  for (uint32_t r = row; r < rows; r += kAtOnce * kApart) {
    float value[kAtOnce], old[kAtOnce];
    if (kReads) {
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) old[i] = To::number(*rowsOn(to,
          r + i * kApart < rows ? i * kApart : 0, ld));
    }
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      value[i] = from[i * kApart * kPitch];
#pragma unroll
      for (int g = 1; g < kGroups; ++g) value[i] += from[(g * T::TM + i * kApart) * kPitch];
      value[i] *= alpha;
      if (kReads) value[i] = fmaf(beta, old[i], value[i]);
    }
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      if (r + i * kApart < rows) *rowsOn(to, i * kApart, ld) = To::bits(value[i]);
    }
    from += kAtOnce * kApart * kPitch;
    to = rowsOn(to, kAtOnce * kApart, ld);
  }
}

// Target is where the sums of a segment go: a block of C, or a partial tile.
template <class To = Floats>
struct Target {
  typename To::Number* to;
  uint32_t ld, rows, cols;
  float alpha, beta;

  static BG_DEVICE Target ofC(const Item& item, float* C) {
    const float alpha = item.depth == 0 ? 0.0f : __uint_as_float(item.alpha);
    return {reinterpret_cast<typename To::Number*>(C) + item.offC, item.ldc, item.rows(), item.cols(), alpha,
        __uint_as_float(item.beta)};
  }

  template <class T>
  static BG_DEVICE Target ofItem(const Item& item, float* C, float* workspace) {
    if (item.slot != kFinal) {
      return {workspace + static_cast<uint64_t>(item.slot) * (T::TM * T::TN),
          T::TN, T::TM, T::TN, 1.0f, 0.0f};
    }
    return ofC(item, C);
  }

  // part is `count` rows from `first` on, as far as they exist.
  BG_DEVICE Target part(uint32_t first, uint32_t count) const {
    return {rowsOn(to, first, ld), ld, rows > first ? min(rows - first, count) : 0, cols, alpha, beta};
  }

  // store adds up kGroups tiles in shared memory with rows of kPitch.
  template <class T, int kGroups, int kPitch>
  BG_DEVICE void store(const float* shared) const {
    if (beta == 0.0f) storeTile<T, kGroups, false, kPitch, To>(shared, to, ld, rows, cols, alpha, beta);
    else storeTile<T, kGroups, true, kPitch, To>(shared, to, ld, rows, cols, alpha, beta);
  }
};

// withTarget calls store with where the sums of an item go: to C of Element or of fp32, or to a
// partial tile.
template <class T, class Element, class Store>
BG_DEVICE void withTarget(const Item& item, float* C, float* workspace, Store store) {
  if constexpr (Element::kPer != 1) {
    if (item.slot == kFinal && (item.flags & kItemFloatC) == 0) {
      return Element::withC(item.flags, [&](auto to) { store(Target<decltype(to)>::ofC(item, C)); });
    }
  }
  store(Target<>::template ofItem<T>(item, C, workspace));
}

// What becomes of the partial tiles of a tile that is cut along K: they are summed, always in the same order,
// and C = alpha * sum + beta * C. fixup is the kernel of a launch of its own for that. Of kernels whose names
// end with _partials whoever stores the last one of a tile sums all of them (finishPartial): a launch less.
// kFinishes: all kernels are such.
// A group of fixup has kFixupThreads threads in sets, between which the slots are shared: a power of two, and
// as many as there are slots, at most kSlotSets, so that few slots do not keep threads for more. Each vector
// of 4 elements has one thread of every set, and a tile as many groups as its vectors need; a launch has
// enough for the most slots of a tile (Pieces in native.go). Each thread has kSlotLoads loads under way, so
// that a sum of 100 slots waits for 2 loads one after the other and not for 100. The order of additions
// depends on nothing but the number of slots, and is theirs of up to kSlotSets.
constexpr uint32_t kFixupThreads = 128, kSlotSets = 8, kSlotLoads = 8;

// slotSets is the logarithm of the sets for so many slots of kVectors vectors: a tile that has fewer vectors
// than a group has threads has more.
template <uint32_t kVectors>
BG_DEVICE uint32_t slotSets(uint32_t count) {
  static_assert(kVectors * kSlotSets >= kFixupThreads, "a tile too small");
  uint32_t log = 0;
  while ((1u << log) < kSlotSets && ((1u << log) < count || (kVectors << log) < kFixupThreads)) ++log;
  return log;
}

template <class T, class Element = Floats, class More = NoEpilogue>
BG_DEVICE void fixup(const uint4* __restrict__ items, float* __restrict__ C,
    const float* __restrict__ workspace, const More& more = {}) {
  constexpr uint32_t kVectors = T::TM * T::TN / 4;  // of a slot
  BG_SHARED(float4, sums, kFixupThreads);

  const FixupItem item = more.fixup(items, workerId());
  const uint32_t log = slotSets<kVectors>(item.count), sets = 1u << log, across = kFixupThreads >> log;
  if (pieceId() * across >= kVectors) return;  // the launch has groups for more slots
  awaitEarlier();
  const uint32_t t = threadId(), set = (t << log) / kFixupThreads, vector = pieceId() * across + t % across;
  const uint32_t row = vector / (T::TN / 4), col = vector % (T::TN / 4) * 4, rows = item.rows(),
      cols = item.cols();
  const uint32_t count = row < rows && col < cols ? item.count : 0;  // nobody has stored what does not exist
  const float4* part = reinterpret_cast<const float4*>(workspace) +
      static_cast<size_t>(item.slot + set) * kVectors + vector;

  const float4 none = make_float4(0.0f, 0.0f, 0.0f, 0.0f);  // adds nothing: sums are never -0
  float4 sum = none;
  auto add = [&](const float4& v) { sum = make_float4(sum.x + v.x, sum.y + v.y, sum.z + v.z, sum.w + v.w); };
  for (uint32_t slot = set; slot < count; slot += kSlotLoads * sets) {
    float4 v[kSlotLoads];
#pragma unroll
    for (uint32_t i = 0; i < kSlotLoads; ++i, part += sets * kVectors) v[i] = slot + i * sets < count ?
        *part : none;
#pragma unroll
    for (uint32_t i = 0; i < kSlotLoads; ++i) add(v[i]);
  }
  sums[t] = sum;
  barrier();
  if (set != 0) return;
#pragma unroll
  for (uint32_t s = 1; s < kSlotSets; ++s) add(s < sets ? sums[t + s * across] : none);

  const float alpha = __uint_as_float(item.alpha), beta = __uint_as_float(item.beta);
  auto* const c = rowsOn(reinterpret_cast<typename Element::Number*>(C) + item.offC, row, item.ldc) + col;
  const float values[4] = {sum.x, sum.y, sum.z, sum.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if (row < rows && col + i < cols) {
      if constexpr (More::kIs) more.template finishFixup<Element>(items, workerId(), item, row, col + i,
          values[i], C);
      else storeElement<Element>(c + i, alpha, values[i], beta);
    }
  }
}

// sumPartials does what fixup does of up to kSlotSets parts, for 4 adjacent columns of a tile and, from row
// `row` on, each kApart-th row: their sums are in the order of the slots, as there, so that bits are the
// same. kVectors rows of kSlots slots are under way at once.
template <class T, int kApart, int kVectors, int kSlots>
BG_DEVICE void sumPartials(const FixupItem& item, uint32_t row, uint32_t rows, uint32_t col, float* C,
    const float* workspace) {
  constexpr uint32_t kSlot = T::TM * T::TN / 4, kPitch = T::TN / 4;  // vectors
  static_assert(kVectors * kApart <= T::TM && T::TM % (kVectors * kApart) == 0, "rows beyond the slot");
  const float alpha = __uint_as_float(item.alpha), beta = __uint_as_float(item.beta);
#pragma unroll 1
  for (; row < rows; row += kVectors * kApart) {
    const float4* from = reinterpret_cast<const float4*>(workspace) +
        static_cast<uint64_t>(item.slot) * kSlot + row * kPitch + col / 4;
    float sum[kVectors][4];
#pragma unroll
    for (int i = 0; i < kVectors; ++i) sum[i][0] = sum[i][1] = sum[i][2] = sum[i][3] = 0.0f;
#pragma unroll 1
    for (uint32_t slot = 0; slot < item.count; slot += kSlots, from += kSlots * kSlot) {
      float4 part[kSlots][kVectors];
#pragma unroll
      for (int s = 0; s < kSlots; ++s) {
#pragma unroll
        for (int i = 0; i < kVectors; ++i) {
          part[s][i] = slot + s < item.count ? from[s * kSlot + i * kApart * kPitch] :
              make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        }
      }
#pragma unroll
      for (int s = 0; s < kSlots; ++s) {
#pragma unroll
        for (int i = 0; i < kVectors; ++i) {
          sum[i][0] += part[s][i].x;
          sum[i][1] += part[s][i].y;
          sum[i][2] += part[s][i].z;
          sum[i][3] += part[s][i].w;
        }
      }
    }
    float* const c = rowsOn(C + item.offC, row, item.ldc) + col;
    auto has = [&](int i, int j) { return row + i * kApart < rows && col + j < item.cols(); };
    float old[kVectors][4];
#pragma unroll
    for (int n = 0; n < 4 * kVectors; ++n) old[n / 4][n % 4] = beta != 0.0f && has(n / 4, n % 4) ?
        rowsOn(c, n / 4 * kApart, item.ldc)[n % 4] : 0.0f;
#pragma unroll
    for (int n = 0; n < 4 * kVectors; ++n) {
      float value = alpha * sum[n / 4][n % 4];
      if (beta != 0.0f) value = fmaf(beta, old[n / 4][n % 4], value);
      if (has(n / 4, n % 4)) rowsOn(c, n / 4 * kApart, item.ldc)[n % 4] = value;
    }
  }
}

// The fix-up of a part's tile, and the words that count its parts.
BG_DEVICE const uint4* fixupOf(const uint4* items, const Item& item) { return items + item.offC; }
BG_DEVICE uint32_t* countersOf(const uint4* items, const Item& item) {
  return const_cast<uint32_t*>(reinterpret_cast<const uint32_t*>(items)) + item.ldc;
}

// finishPartial counts the thread groups that have stored their parts of a tile of fp32. The last one sums
// all parts, its own too, whoever it is. Nobody waits for another one, so that any order of groups will do.
template <class T>
BG_DEVICE void finishPartial(const uint4* items, const Item& item, float* C, const float* workspace) {
  if ((item.flags & kItemPartial) == 0) return;
  const FixupItem tile = fixupAt(fixupOf(items, item), 0);
  barrier();  // all threads have stored
  if (!arrivesLast(countersOf(items, item), tile.count)) return;
  // vectors of a row, rows at once
  constexpr int kAcross = T::TN / 4, kGroup = T::kThreads / kAcross, kApart = kGroup < T::TM ? kGroup : T::TM;
  // as registers allow
  constexpr int kUnderWay = T::kThreads * T::kMinGroups > 512 ? 8 : 16, kMost = kUnderWay / 4,
      kRows = T::TM / kApart;
  constexpr int kVectors = kRows < kMost ? kRows : kMost;
  const uint32_t row = threadId() / kAcross, col = threadId() % kAcross * 4;
  if (col < tile.cols()) sumPartials<T, kApart, kVectors,
      kUnderWay / kVectors>(tile, row, tile.rows(), col, C, workspace);
}
