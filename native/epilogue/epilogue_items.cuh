// Generated from internal/encoding: the words of items, and of the items of fix-ups, of kernels with
// an epilogue.
#pragma once

#include "../kernels/items.cuh"

constexpr uint32_t kEpilogueItemWords = 24, kEpilogueFixupWords = 16;
constexpr uint32_t kItemSecond = 4;
constexpr uint32_t kReLU = 1, kGELU = 2, kSiLU = 3, kActivation = 3;
constexpr uint32_t kBias = 4, kGated = 8, kGather = 16, kScatter = 32, kWeights = 64;
constexpr uint32_t kPointersA = 128, kPointersB = 256, kPointersC = 512, kPointersAligned = 1024;
constexpr uint32_t kScaleA = 2048, kRowsA = 4096, kScaleB = 8192, kColumnsB = 16384;
constexpr uint32_t kGroups64 = 32768, kGroups128 = 65536, kInt4Panel = 64;
constexpr uint32_t kBlocks = 131072, kScaleBlock = 128;
BG_DEVICE uint32_t scaleBlocks(uint32_t n) { return (n + kScaleBlock - 1) / kScaleBlock; }
constexpr uint32_t kPairs = 262144, kZeros = 524288;
BG_DEVICE uint32_t scaleWords(uint32_t flags) { return (flags & kPairs) != 0 ? 2 : 1; }
constexpr uint32_t kPointerA = 0, kPointerB = 2, kPointerC = 4, kPointerB2 = 6, kPointerWords = 8;
constexpr float kGeluLinear = 1.5957691216, kGeluCubic = 0.0713548162726, kSigmoidLeast = -88, kLog2E = 1.442695;

BG_DEVICE Item epilogueItemAt(const uint4* items, uint32_t number) {
  const uint4 a = items[6 * number + 0], b = items[6 * number + 1], c = items[6 * number + 2];
  return {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w, c.x, c.y, c.z, c.w};
}
struct ItemEpilogue {
  uint32_t gatherAt, gatherRows, scatterAt, scatterRows, weightsAt, biasAt, pointersAt, scaleAAt, scaleBAt, zero, none, nothing;
};
BG_DEVICE ItemEpilogue itemEpilogueAt(const uint4* items, uint32_t number) {
  const uint4 a = items[6 * number + 3], b = items[6 * number + 4], c = items[6 * number + 5];
  return {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w, c.x, c.y, c.z, c.w};
}
BG_DEVICE void storeEpilogueItem(uint4* items, uint32_t number, const Item& x, const ItemEpilogue& more) {
  items[6 * number + 0] = {x.offA, x.offB, x.offC, x.depth};
  items[6 * number + 1] = {x.lda, x.ldb, x.ldc, x.extent};
  items[6 * number + 2] = {x.alpha, x.beta, x.slot, x.flags};
  items[6 * number + 3] = {more.gatherAt, more.gatherRows, more.scatterAt, more.scatterRows};
  items[6 * number + 4] = {more.weightsAt, more.biasAt, more.pointersAt, more.scaleAAt};
  items[6 * number + 5] = {more.scaleBAt, more.zero, more.none, more.nothing};
}

BG_DEVICE FixupItem epilogueFixupAt(const uint4* items, uint32_t number) {
  const uint4 a = items[4 * number + 0], b = items[4 * number + 1];
  return {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
}
struct FixupEpilogue {
  uint32_t scatterAt, scatterRows, weightsAt, biasAt, gatherAt, gatherRows, scaleAAt, scaleBAt;
};
BG_DEVICE FixupEpilogue fixupEpilogueAt(const uint4* items, uint32_t number) {
  const uint4 a = items[4 * number + 2], b = items[4 * number + 3];
  return {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
}
