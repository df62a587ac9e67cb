// What kernels of warpgroups with an epilogue do beside the others (epilogue.cuh).
#pragma once

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

// finishSums is storeSums with an epilogue. Of both items of a gated tile lanes have the same elements.
template <class T, bool kTransA, bool kTransB, int n>
BG_DEVICE void finishSums(const float (&sum)[n], float* out, const Items<Epilogue>& items, uint32_t number, uint32_t row, const typename T::Element::Number* A,
                          const typename T::Element::Number* B, float* C, float* workspace) {
  const Item item = items.wait(number);
  const GatheredRows rows = gatheredRows(items, number, item);
  const uint32_t lane = threadId() % 32;
  auto again = [&](uint32_t col) {
    if constexpr (T::kEmulated) {
      const uint32_t count = item.rows() > row ? min(item.rows() - row, 16u) : 0;
      recompute<kTransA, kTransB>(out + lane, item, row, count, col, items.operandA(number, A), items.operandB(number, item, B), rows);
    }
  };
  throughShared<T>(sum, out, again, [&](uint32_t col) {
    if (col + lane >= item.cols()) return;
    withColumn<T::TM, T::TN, typename T::Element>(items.more, item, rows.words, col + lane, C, workspace, [&](const auto& column) {
#pragma unroll 1
      for (uint32_t first = 0; first < 16 && row + first < item.rows(); first += 4) {
        column.template store<4, 1>(row + first, [&](int i) { return out[(first + i) * kOutPitch + lane]; });
      }
    });
  });
}

// activate is Epilogue::activated of many, with one decision for all.
template <int n>
BG_DEVICE void activate(const Epilogue& e, float (&v)[n]) {
  auto each = [&](uint32_t kind) {
    Epilogue of = e;
    of.flags = kind;
#pragma unroll
    for (int i = 0; i < n; ++i) v[i] = of.activated(v[i]);
  };
  const uint32_t kind = e.flags & kActivation;
  if (kind == kReLU) each(kReLU);
  else if (kind == kGELU) each(kGELU);
  else if (kind == kSiLU) each(kSiLU);
}
