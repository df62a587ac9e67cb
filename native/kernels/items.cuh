// Generated from internal/encoding: the words of items and of the items of fix-ups.
#pragma once

#include "../dialect.h"

constexpr uint32_t kItemWords = 12, kFixupWords = 8;
constexpr uint32_t kItemVector = 1, kItemFloatC = 2, kItemF16C = 16, kItemPartial = 8, kFinal = 0xffffffff;
constexpr uint32_t kDynamicNext = 0, kDynamicEnd = 1, kDynamicFirst = 2, kDynamicChunk = 3, kDynamicLast = 4, kDynamicMark = 1, kEarlyMark = 2;
BG_DEVICE uint32_t extentOf(uint32_t rows, uint32_t cols) { return rows | cols << 16; }

struct Item {
  uint32_t offA, offB, offC, depth, lda, ldb, ldc, extent, alpha, beta, slot, flags;
  BG_DEVICE uint32_t rows() const { return extent & 0xffff; }
  BG_DEVICE uint32_t cols() const { return extent >> 16; }
};
BG_DEVICE Item itemAt(const uint4* items, uint32_t number) {
  const uint4 a = items[3 * number + 0], b = items[3 * number + 1], c = items[3 * number + 2];
  return {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w, c.x, c.y, c.z, c.w};
}
BG_DEVICE void storeItem(uint4* items, uint32_t number, const Item& x) {
  items[3 * number + 0] = {x.offA, x.offB, x.offC, x.depth};
  items[3 * number + 1] = {x.lda, x.ldb, x.ldc, x.extent};
  items[3 * number + 2] = {x.alpha, x.beta, x.slot, x.flags};
}

struct FixupItem {
  uint32_t offC, ldc, extent, slot, alpha, beta, count, pointersAt;
  BG_DEVICE uint32_t rows() const { return extent & 0xffff; }
  BG_DEVICE uint32_t cols() const { return extent >> 16; }
};
BG_DEVICE FixupItem fixupAt(const uint4* items, uint32_t number) {
  const uint4 a = items[2 * number + 0], b = items[2 * number + 1];
  return {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
}
