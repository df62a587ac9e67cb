// Generated from internal/encoding: the words of items and of the items of fix-ups, with tails
// for epilogues, and what kernels that make items read.
#pragma once

#include "../dialect.h"

constexpr uint32_t kItemWords = 12, kEpilogueItemWords = 24, kFixupWords = 8, kEpilogueFixupWords = 16;
constexpr uint32_t kItemVector = 1, kItemFloatC = 2, kItemSecond = 4, kItemF16C = 16, kItemPartial = 8;
constexpr uint32_t kFinal = 0xffffffff;
constexpr uint32_t kDynamicNext = 0, kDynamicEnd = 1, kDynamicFirst = 2, kDynamicChunk = 3, kDynamicLast = 4,
    kDynamicMark = 1, kEarlyMark = 2;
BG_DEVICE uint32_t extentOf(uint32_t rows, uint32_t cols) { return rows | cols << 16; }

// The parameter of an epilogue.
constexpr uint32_t kReLU = 1, kGELU = 2, kSiLU = 3, kActivation = 3;
constexpr uint32_t kBias = 4, kGated = 8, kGather = 16, kScatter = 32, kWeights = 64;
constexpr uint32_t kPointersA = 128, kPointersB = 256, kPointersC = 512, kPointersAligned = 1024;
constexpr uint32_t kScaleA = 2048, kRowsA = 4096, kScaleB = 8192, kColumnsB = 16384;
constexpr uint32_t kGroups64 = 32768, kGroups128 = 65536, kGroups32 = 1048576, kGroups16 = 2097152;
constexpr uint32_t kInt4Panel = 64, kBlocks = 131072, kScaleBlock = 128;
// wordsOf64 reports whether a column of a B of 4 bits has a word for each 64 k's, and not 128.
BG_DEVICE bool wordsOf64(uint32_t flags) { return (flags & (kGroups64 | kGroups16)) != 0; }
BG_DEVICE uint32_t scaleBlocks(uint32_t n) { return (n + kScaleBlock - 1) / kScaleBlock; }
constexpr uint32_t kPairs = 262144, kZeros = 524288;
constexpr uint32_t kDoubles = 4194304, kTransA = 8388608, kTransB = 16777216;
BG_DEVICE uint32_t scaleWords(uint32_t flags) { return (flags & kPairs) != 0 ? 2 : 1; }
constexpr uint32_t kPointerA = 0, kPointerB = 2, kPointerC = 4, kPointerB2 = 6, kPointerWords = 8;
constexpr float kGeluLinear = 1.5957691216, kGeluCubic = 0.0713548162726,
    kSigmoidLeast = -88, kLog2E = 1.442695;

struct Item {
  uint32_t offA, offB, offC, depth, lda, ldb, ldc, extent, alpha, beta, slot, flags;
  BG_DEVICE uint32_t rows() const { return extent & 0xffff; }
  BG_DEVICE uint32_t cols() const { return extent >> 16; }
};
struct ItemEpilogue {
  uint32_t gatherAt, gatherRows, scatterAt, scatterRows, weightsAt, biasAt, pointersAt, scaleAAt, scaleBAt,
    zero, none, nothing;
};
template <bool kTail = false>
BG_DEVICE Item itemAt(const uint4* items, uint32_t number) {
  const uint4 a = items[(kTail ? 6 : 3) * number + 0], b = items[(kTail ? 6 : 3) * number + 1],
    c = items[(kTail ? 6 : 3) * number + 2];
  return {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w, c.x, c.y, c.z, c.w};
}
BG_DEVICE ItemEpilogue itemEpilogueAt(const uint4* items, uint32_t number) {
  const uint4 a = items[6 * number + 3], b = items[6 * number + 4], c = items[6 * number + 5];
  return {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w, c.x, c.y, c.z, c.w};
}
BG_DEVICE void storeItem(uint4* items, uint32_t number, const Item& x) {
  items[3 * number + 0] = {x.offA, x.offB, x.offC, x.depth};
  items[3 * number + 1] = {x.lda, x.ldb, x.ldc, x.extent};
  items[3 * number + 2] = {x.alpha, x.beta, x.slot, x.flags};
}
BG_DEVICE void storeItem(uint4* items, uint32_t number, const Item& x, const ItemEpilogue& tail) {
  items[6 * number + 0] = {x.offA, x.offB, x.offC, x.depth};
  items[6 * number + 1] = {x.lda, x.ldb, x.ldc, x.extent};
  items[6 * number + 2] = {x.alpha, x.beta, x.slot, x.flags};
  items[6 * number + 3] = {tail.gatherAt, tail.gatherRows, tail.scatterAt, tail.scatterRows};
  items[6 * number + 4] = {tail.weightsAt, tail.biasAt, tail.pointersAt, tail.scaleAAt};
  items[6 * number + 5] = {tail.scaleBAt, tail.zero, tail.none, tail.nothing};
}

struct FixupItem {
  uint32_t offC, ldc, extent, slot, alpha, beta, count, pointersAt;
  BG_DEVICE uint32_t rows() const { return extent & 0xffff; }
  BG_DEVICE uint32_t cols() const { return extent >> 16; }
};
struct FixupEpilogue {
  uint32_t scatterAt, scatterRows, weightsAt, biasAt, gatherAt, gatherRows, scaleAAt, scaleBAt;
};
template <bool kTail = false>
BG_DEVICE FixupItem fixupAt(const uint4* items, uint32_t number) {
  const uint4 a = items[(kTail ? 4 : 2) * number + 0], b = items[(kTail ? 4 : 2) * number + 1];
  return {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
}
BG_DEVICE FixupEpilogue fixupEpilogueAt(const uint4* items, uint32_t number) {
  const uint4 a = items[4 * number + 2], b = items[4 * number + 3];
  return {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
}

// What kernels that make items read: records, and what is known of groups.
constexpr uint32_t kMaxGroups = 4096, kRaggedKernels = 2, kRaggedKeys = 64, kStatusWord = 64;
constexpr uint32_t kEndsOfRows = 1, kEndsOfDepth = 2, kRecords = 3;
constexpr uint32_t kRecordWords = 12, kEpilogueRecordWords = 20, kScaledRecordWords = 24;

struct Record {
  uint32_t m, n, k, lda, ldb, ldc, offA, offB, offC, alpha, beta, zero;
};
// RecordTail follows in records for kernels with an epilogue, and then scales, where it has any.
struct RecordTail {
  uint32_t offB2, ldb2, bias, rowsA, rowsC, weights, pointers, none;
};
struct RecordScales {
  uint32_t scaleA, scaleB, scaleZero, scaleNone;
};
BG_DEVICE Record recordAt(const uint4* record) {
  const uint4 a = record[0], b = record[1], c = record[2];
  return {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w, c.x, c.y, c.z, c.w};
}
BG_DEVICE RecordTail recordTailAt(const uint4* record) {
  const uint4 a = record[3], b = record[4];
  return {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
}
BG_DEVICE RecordScales recordScalesAt(const uint4* record) {
  const uint4 a = record[5];
  return {a.x, a.y, a.z, a.w};
}

struct RaggedKernel {
  uint32_t tm, tn, tk, shift, workers, chunk, table, step, worker;
};
struct Bounds {
  uint32_t form, groups, entries, m, n, k, transA, transB, offA, offB, offC, lda, ldb, ldc, stride, rest,
    alpha, beta, lenA, lenB, lenC, kernels, flags, vector, fill, bins, makers, items, starts, order, split;
  RaggedKernel tile[kRaggedKernels];
};
// EpilogueBounds follow for kernels with an epilogue.
struct EpilogueBounds {
  uint32_t gatherRows, scatterRows, rowsA, rowsC, weights, bias, strideBias, offB2, ldb2, pointers, lenB2,
    lenBias, lenRows, scaleA, scaleB;
};
