// Generated from internal/encoding: what kernels that make items read.
#pragma once

#include "../dialect.h"

constexpr uint32_t kMaxGroups = 4096, kRaggedKernels = 2, kRaggedKeys = 64, kStatusWord = 64;
constexpr uint32_t kEndsOfRows = 1, kEndsOfDepth = 2, kRecords = 3;

struct Record {
  uint32_t m, n, k, lda, ldb, ldc, offA, offB, offC, alpha, beta, zero;
};
BG_DEVICE Record recordAt(const uint4* items, uint32_t number) {
  const uint4 a = items[3 * number + 0], b = items[3 * number + 1], c = items[3 * number + 2];
  return {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w, c.x, c.y, c.z, c.w};
}
// Those of kernels with an epilogue.
BG_DEVICE Record epilogueRecordAt(const uint4* items, uint32_t number) {
  const uint4 a = items[5 * number + 0], b = items[5 * number + 1], c = items[5 * number + 2];
  return {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w, c.x, c.y, c.z, c.w};
}
struct RecordEpilogue {
  uint32_t offB2, ldb2, bias, rowsA, rowsC, weights, pointers, none;
};
BG_DEVICE RecordEpilogue recordEpilogueAt(const uint4* items, uint32_t number) {
  const uint4 a = items[5 * number + 3], b = items[5 * number + 4];
  return {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
}
constexpr uint32_t kEpilogueRecordWords = 20, kScaledRecordWords = 24;

struct RaggedKernel {
  uint32_t tm, tn, tk, shift, workers, chunk, table, step, worker;
};
struct Bounds {
  uint32_t form, groups, entries, m, n, k, transA, transB, offA, offB, offC, lda, ldb, ldc, stride, rest, alpha, beta, lenA, lenB, lenC, kernels, flags, wide, fill, bins, makers, items, starts, order, split;
  RaggedKernel tile[kRaggedKernels];
};
// EpilogueBounds come behind them.
struct EpilogueBounds {
  uint32_t gatherRows, scatterRows, rowsA, rowsC, weights, bias, strideBias, offB2, ldb2, pointers, lenB2, lenBias, lenRows, scaleA, scaleB;
};
