// Generated from planner/encoding: the words of items, and of the items of fix-ups, of kernels with
// an epilogue.
#pragma once

#include "items.cuh"

constexpr uint32_t kEpilogueItemWords = 20, kEpilogueFixupWords = 12;
constexpr uint32_t kItemSecond = 4;
constexpr uint32_t kReLU = 1, kGELU = 2, kSiLU = 3, kActivation = 3;
constexpr uint32_t kBias = 4, kGated = 8, kGather = 16, kScatter = 32, kWeights = 64;
constexpr float kGeluLinear = 1.5957691216, kGeluCubic = 0.0713548162726, kSigmoidLeast = -88;

BG_DEVICE Item epilogueItemAt(const uint4* items, uint32_t number) {
  const uint4 a = items[5 * number + 0], b = items[5 * number + 1], c = items[5 * number + 2];
  return {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w, c.x, c.y, c.z, c.w};
}
struct ItemEpilogue {
  uint32_t gatherAt, gatherRows, scatterAt, scatterRows, weightsAt, biasAt, zero0, zero1;
};
BG_DEVICE ItemEpilogue itemEpilogueAt(const uint4* items, uint32_t number) {
  const uint4 a = items[5 * number + 3], b = items[5 * number + 4];
  return {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
}
BG_DEVICE void storeEpilogueItem(uint4* items, uint32_t number, const Item& x, const ItemEpilogue& more) {
  items[5 * number + 0] = {x.offA, x.offB, x.offC, x.depth};
  items[5 * number + 1] = {x.lda, x.ldb, x.ldc, x.extent};
  items[5 * number + 2] = {x.alpha, x.beta, x.slot, x.flags};
  items[5 * number + 3] = {more.gatherAt, more.gatherRows, more.scatterAt, more.scatterRows};
  items[5 * number + 4] = {more.weightsAt, more.biasAt, more.zero0, more.zero1};
}

BG_DEVICE FixupItem epilogueFixupAt(const uint4* items, uint32_t number) {
  const uint4 a = items[3 * number + 0], b = items[3 * number + 1];
  return {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
}
struct FixupEpilogue {
  uint32_t scatterAt, scatterRows, weightsAt, biasAt;
};
BG_DEVICE FixupEpilogue fixupEpilogueAt(const uint4* items, uint32_t number) {
  const uint4 a = items[3 * number + 2];
  return {a.x, a.y, a.z, a.w};
}
