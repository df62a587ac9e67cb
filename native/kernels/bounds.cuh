// Generated from internal/encoding: what kernels that make items read.
#pragma once

#include "../dialect.h"

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
