// What follows from a row of the tile table for the kernels of wgmma.cuh: who has how many registers, and
// what lies where in shared memory.
#pragma once

#include "../epilogue/wgmma_epilogue.cuh"

// WgmmaTile is a row of the tile table and what follows from it.
template <int TM_, int TN_, int kConsumers_, int kMinGroups_, int kStages_, int kAhead_, int kShared_,
    bool kEmulated_, class Element_ = Floats, class More_ = NoEpilogue>
struct WgmmaTile {
  using Element = Element_;  // of A and B
  using More = More_;        // what kernels have for an epilogue
  static constexpr bool kSwapped = kIsSwapped<More>;
  static constexpr int TM = TM_, TN = TN_, TK = 32;
  static constexpr int kConsumers = kConsumers_, kMultiply = kWarps * kConsumers;  // warps that multiply
  static constexpr int kBlocks = TN / 64;  // of columns
  static_assert(TM == 64 * kConsumers && TN == 64 * kBlocks && kBlocks <= 2,
      "a consumer multiplies 64 rows by one or two blocks of 64 columns");
  static constexpr int kThreads = 128 * (kConsumers + 2);
  static constexpr int kMinGroups = kMinGroups_;  // thread groups that must fit in a multiprocessor
  static constexpr int kEpilogueGroups = kMinGroups;
  static constexpr int kStages = kStages_;        // steps of B, split
  static constexpr int kAhead = kAhead_;          // steps of B as they come from memory
  static constexpr uint32_t kShared = kShared_;   // bytes of shared memory that the kernels are launched with
  static constexpr bool kEmulated = kEmulated_;
  // When the loader begins an item, and publishes the next one, consumers have released
  // the slot kStages + kAhead before its last one, but may still store that slot's item.
  // Items have one slot at least.
  static_assert(kStages + kAhead + 2 < kItemPlaces, "too few places for items");
  // Registers of a thread: together not more than the thread group is launched with, 65536 / (kMinGroups *
  // kThreads) for each.
  BG_DEVICE static constexpr int loaderRegisters(bool transB) { return kMinGroups == 2 ? (transB ? 48 : 56) :
      kBlocks == 2 ? (Element::kPer == 4 ? 72 : 64) : 88; }
  BG_DEVICE static constexpr int converterRegisters(bool transB) { return kMinGroups == 2 ?
      (transB ? 56 : 48) : kBlocks == 2 ? (Element::kPer == 4 ? 72 : 64) : 72; }
  static constexpr int kConsumerRegisters = kMinGroups == 2 ? 136 : kBlocks == 2 ?
      (Element::kPer == 4 ? 184 : 192) : kConsumers == 2 ? 176 : 208;
};

// Layout places everything in shared memory, in bytes.
template <class T, bool kTransA, bool kTransB>
struct Layout {
  template <bool b, class X, class Y>
  struct If { using Type = X; };
  template <class X, class Y>
  struct If<false, X, Y> { using Type = Y; };
  // A place of B may be loaded when the converter has taken the slot kAhead before, and then consumers are
  // done with the slot another kStages before. Along K, a chunk is read by the next slot, too. A of 16 and 8
  // bits keeps lines only: its readers have no registers for the places of all rows.
  using E = typename T::Element;
  using A = typename If<!kTransA, KMajor<E, T::TM, T::kStages + T::kAhead + 1>,
      MNMajor<E, T::TM, T::kStages + T::kAhead, E::kPer == 1 ? 2 : 1>>::Type;
  using B = typename If<kTransB, KMajor<E, T::TN, T::kAhead + 1>, MNMajor<E, T::TN, T::kAhead,
      E::kPer == 1 ? 8 : 2>>::Type;
  static constexpr bool kLead = !kTransA || kTransB;

  // hi, then lo
  static constexpr uint32_t kPart = 4 * T::TN * T::TK, kStage = (T::kEmulated ? 2 : 1) * kPart;
  static constexpr uint32_t kA = T::kStages * kStage, kB = kA + A::kBytes, kOut = kB + B::kBytes;
  static constexpr uint32_t kItems = kOut + T::kConsumers * kWarps * kOutBytes;
  // Phases: an item is published; a slot was loaded, and taken by the converter; a step was split, and used
  // by the consumers.
  static constexpr uint32_t kReady = kItems + kItemPlaces * Items<typename T::More>::kBytes,
      kLoaded = kReady + 8 * kItemPlaces, kTaken = kLoaded + 8 * T::kAhead;
  static constexpr uint32_t kFull = kTaken + 8 * T::kAhead, kFree = kFull + 8 * T::kStages,
      kBytes = kFree + 8 * T::kStages;
};

// Bytes of a block of 64 columns in a stage, and how many blocks have columns.
constexpr uint32_t kBlockBytes = 64 * 128;
BG_DEVICE uint32_t blocksOf(uint32_t cols) { return uniform((cols + 63) / 64); }

// Counter goes round the places of a ring.
template <uint32_t n>
struct Counter {
  uint32_t at = 0, parity = 0;
  BG_DEVICE void next() {
    if (++at == n) at = 0, parity ^= 1;
  }
};

// multiplyWhole makes sums of what accumulate finds of int32.
template <int n, class Accumulate>
BG_DEVICE void multiplyWhole(float (&sum)[n], Accumulate accumulate) {
  int32_t whole[n];
  accumulate(whole);
#pragma unroll
  for (int i = 0; i < n; ++i) sum[i] = static_cast<float>(whole[i]);
}
