// Tiles of fewer rows than columns: a kernel of wgmma.cuh that multiplies the transpose of B by that of A,
// and stores the transpose of its sums. A consumer has 64 columns of C, and multiplies by 32 of its rows or
// by all: where problems end with a part of a tile, or have few rows, it does half of the work, which tiles
// whose consumers have 64 rows cannot.
//
// What lies along K in A or B does so in its transpose, which is in the same memory. So nothing is moved.
#pragma once

#include "wgmma_store.cuh"

// Swapped has the operands of items change places, and rows and columns with them.
struct Swapped : NoEpilogue {
  BG_DEVICE Item item(const uint4* items, uint32_t number) const {
    const Item x = itemAt(items, number);
    return {x.offB, x.offA, x.offC, x.depth, x.ldb, x.lda, x.ldc, extentOf(x.cols(), x.rows()), x.alpha,
        x.beta, x.slot, x.flags};
  }
};
template <class More>
constexpr bool kIsSwapped = false;
template <>
constexpr bool kIsSwapped<Swapped> = true;

// TileOfC is an swapped tile as it lies in C and in the workspace.
template <class T>
struct TileOfC {
  static constexpr int TM = T::TN, TN = T::TM;
};

// storeSwapped writes the warp's 16 columns of C, or of the item's partial tile, of its first 2n rows. Lanes
// store 8 adjacent columns, 32 bytes, of 4 rows.
template <class T, bool kTransA, bool kTransB, int n>
BG_DEVICE void storeSwapped(const float (&sum)[n], float* out, const Item& item, uint32_t col, const float* A,
    const float* B,
                              float* C, float* workspace) {
  constexpr int kAcross = 8, kDown = 32 / kAcross, kTimes = 32 / kDown;
  const bool final = item.slot == kFinal;
  const uint32_t lane = threadId() % 32, across = lane % kAcross, down = lane / kAcross,
      ld = final ? item.ldc : T::TM;
  const float alpha = alphaOf(item), beta = betaOf(item);
  float* const to = (final ? C + item.offC : workspace + static_cast<uint64_t>(item.slot) * (T::TM * T::TN)) +
      col + across;
  auto again = [&](uint32_t row) {
    repair<T, kTransA, kTransB>(out, item, col, row, A, B);
    warpBarrier();  // other lanes store what a lane has repaired
  };
  throughShared(sum, kScaleOf<T>, out, overflowed<T>(sum), again, [&](uint32_t row) {
#pragma unroll
    for (int first = 0; first < 16; first += kAcross) {
      if (col + first + across >= item.rows()) break;
      const float* const from = out + (first + across) * kOutPitch + down;
      float* at[kTimes];
      float old[kTimes];
#pragma unroll
      for (int i = 0; i < kTimes; ++i) {
        const uint32_t r = row + down + kDown * i;
        at[i] = r < item.cols() ? rowsOn(to + first, r, ld) : nullptr;
        old[i] = beta != 0.0f && at[i] != nullptr ? *at[i] : 0.0f;
      }
#pragma unroll
      for (int i = 0; i < kTimes; ++i) {
        float x = alpha * from[kDown * i];
        if (beta != 0.0f) x = fmaf(beta, old[i], x);
        if (at[i] != nullptr) *at[i] = x;
      }
    }
  });
}

// finishColumns is finishRows for a warp's 16 columns of C.
template <class T>
BG_DEVICE void finishColumns(const uint4* items, const Item& item, uint32_t col, float* C,
    const float* workspace) {
  if ((item.flags & kItemPartial) == 0 || col >= item.rows()) return;
  const FixupItem tile = fixupAt(fixupOf(items, item), 0);
  if (!warpArrivesLast(countersOf(items, item) + col / 16, tile.count)) return;
  constexpr int kAcross = 16 / 4, kApart = 32 / kAcross;
  const uint32_t lane = threadId() % 32, first = col + lane % kAcross * 4;
  if (first < tile.cols()) sumPartials<TileOfC<T>, kApart, 4,
      4>(tile, lane / kAcross, tile.rows(), first, C, workspace);
}
