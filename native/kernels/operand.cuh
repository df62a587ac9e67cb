// How operands of gemm.cuh come to shared memory, and what elements are there.
#pragma once

#include "../dialect.h"
#include "items.cuh"
#include "staged.cuh"

// Vector is n floats that move at once. Element is float, or what the dialect
// multiplies at once.
template <int n, class Element = float>
struct alignas(4 * n) Vector {
  Element x[4 * n / sizeof(Element)];
};

template <int n, class Element = float>
BG_DEVICE Vector<n, Element> loadVector(const float* at) {
  return *reinterpret_cast<const Vector<n, Element>*>(at);
}

template <int n, class Element = float>
BG_DEVICE void storeVector(float* at, const Vector<n, Element>& v) {
  *reinterpret_cast<Vector<n, Element>*>(at) = v;
}

// Floats are elements of fp32. Number is as wide as an element, Word what a word of 4 bytes is taken for,
// kPer how many elements it has. kScaled: products may be multiplied by scales. Elements that are narrower
// tell which C they have where that is not of fp32: withC calls `of` with its elements.
struct Floats {
  using Number = float;
  using Word = float;
  static constexpr int kPer = 1;
  static constexpr bool kScaled = false, kWhole = false;
  static BG_DEVICE float number(float x) { return x; }
  static BG_DEVICE float bits(float x) { return x; }
};

// NoEpilogue is in the place of what kernels with an epilogue have beside (epilogue.cuh).
struct NoEpilogue {
  static constexpr bool kIs = false;
  static constexpr uint32_t kWords = kItemWords;  // of an item
  BG_DEVICE Item item(const uint4* items, uint32_t number) const { return itemAt(items, number); }
  template <class Number>
  BG_DEVICE const Number* operandA(const uint4*, uint32_t, const Number* A) const { return A; }
  template <class Number>
  BG_DEVICE const Number* operandB(const uint4*, uint32_t, const Item&, const Number* B) const { return B; }
  BG_DEVICE FixupItem fixup(const uint4* items, uint32_t number) const { return fixupAt(items, number); }
  BG_DEVICE uint32_t products() const { return 1; }
};

// RowList says which rows of A stand for a thread's: by a list in shared memory, or all as they are.
template <bool kListed>
struct RowList {
  const uint32_t* list;
  BG_DEVICE uint32_t rowAt(uint32_t r) const { return list[r]; }
};
template <>
struct RowList<false> {
  BG_DEVICE RowList(const uint32_t*) {}
  BG_DEVICE uint32_t rowAt(uint32_t r) const { return r; }
};

// Operand copies the steps of A or B to shared memory. kLength is the tile's
// extent across K. kMajorK: memory runs along K (A as it is, B transposed), so
// that the step is transposed on its way. kListed, along K: rows are where a list in shared memory says.
template <class T, int kLength, bool kMajorK, class Element = Floats, bool kListed = false>
struct Operand : RowList<kListed> {
  // Adjacent threads copy kRun elements that are adjacent in memory. Along K it is
  // few, so that a warp has several rows: kPitch, a multiple of 4 for the reading
  // of vectors, would make many k's of one row meet in a bank.
  static constexpr int kRun = kMajorK ? (T::TK < 16 ? T::TK : 16) : kLength;
  static constexpr int kStride = T::kThreads / kRun;  // between the elements of a thread across the runs
  static constexpr int kPitch = kMajorK ? kLength + 4 : kLength;
  static constexpr int kFloats = T::TK * kPitch;

  // Element j of a thread: k is j / kRows * kStep further than that of element 0,
  // the row of op(A) or column of op(B) j % kRows * kStride.
  static constexpr int kCount = kLength * T::TK / T::kThreads;
  static constexpr int kRows = kMajorK ? kLength / kStride : 1;
  static constexpr int kStep = kMajorK ? kRun : kStride;
  static_assert(kRun * kStride == T::kThreads && kCount * T::kThreads == kLength * T::TK && kCount <= 32 &&
                    kCount % kRows == 0 && kRows > 0, "uneven tile");

  static constexpr bool kCanVector = !kMajorK && kCount >= 4;
  static constexpr int kVectorRun = kLength / 4, kVectorStride = T::kThreads / kVectorRun;

  const float* at;   // this thread's first element of the next step; kListed: in the first row of all
  SharedAddress to;  // its place in the first stage
  uint32_t ld;
  uint32_t k;      // of the first element within a step
  // a bit for each element whose row or column exists; with vector loads for each column of a vector
  uint32_t valid;
  bool vector;       // copies of 16 bytes
  Copies<kCount> copies;
  uint32_t pending;  // the stage that they fill

  BG_DEVICE Operand(const float* start, uint32_t ld_, uint32_t length, bool aligned, const float* shared,
      const uint32_t* rows = nullptr)
      : RowList<kListed>{rows + threadId() / kRun}, ld(ld_), vector(kCanVector && aligned), copies(start) {
    const uint32_t t = threadId();
    if constexpr (kMajorK) {
      const uint32_t row = t / kRun;
      k = t % kRun;
      at = kListed ? start + k : rowsOn(start, row, ld) + k;
      to = sharedAddress(shared + k * kPitch + row);
      valid = 0;
#pragma unroll
      for (int j = 0; j < kCount; ++j) valid |= (row + j % kRows * kStride < length ? 1u : 0u) << j;
    } else {
      const uint32_t run = vector ? kVectorRun : kRun, width = vector ? 4 : 1, column = t % run * width;
      k = t / run;
      at = rowsOn(start, k, ld) + column;
      to = sharedAddress(shared + k * kPitch + column);
      valid = column >= length ? 0 : vector ? lowBits(min(length - column, 4u)) : 0xffffffff;
    }
  }

  static BG_DEVICE uint32_t lowBits(uint32_t n) { return n < 32 ? (1u << n) - 1 : 0xffffffff; }

  // below is the number of k, k + step, ... that are below left.
  BG_DEVICE uint32_t below(uint32_t left, uint32_t step) const { return left > k ?
      (left - k + step - 1) / step : 0; }

  // copy starts the copies of the next step, of which `left` k's exist, to a
  // stage of shared memory.
  BG_DEVICE void copy(uint32_t left, uint32_t stage) {
    if (kCanVector && vector) {
      const uint32_t rows = min(below(left, kVectorStride), static_cast<uint32_t>(kCount / 4));
      if (valid == 15) {
        copies.template start<16, kCount / 4>(
            lowBits(rows), [&](int j) { return vectorTo(j, stage); },
                [&](int j) { return rowsOn(at, j * kVectorStride, ld); });
      } else {  // the last columns of the matrix
#pragma unroll 1
        for (uint32_t j = 0; j < rows; ++j) {
#pragma unroll
          for (int i = 0; i < 3; ++i) {
            copyIf<4>(valid, i, vectorTo(j, stage) + 4 * i, rowsOn(at, j * kVectorStride, ld) + i);
          }
        }
      }
    } else {
      const uint32_t exists = left < T::TK ? valid & lowBits(below(left, kStep) * kRows) : valid;
      copies.template start<4, kCount>(
          exists, [&](int j) { return narrowTo(j, stage); },
          [&](int j) {
            const int along = j / kRows * kStep, across = j % kRows * kStride;
            return kMajorK ? rowsOn(at, this->rowAt(across), ld) + along : rowsOn(at, along, ld);
          });
    }
    at = kMajorK ? at + T::TK : rowsOn(at, T::TK, ld);
    pending = stage;
  }

  // land ends the copies that copy started last, where the dialect has something to do for that.
  BG_DEVICE void land() {
    if (kCanVector && vector) {
      if (valid == 15) copies.template land<16, kCount / 4>([&](int j) { return vectorTo(j, pending); });
    } else {
      copies.template land<4, kCount>([&](int j) { return narrowTo(j, pending); });
    }
  }

  // The places in shared memory of a thread's copies.
  BG_DEVICE SharedAddress vectorTo(int j, uint32_t stage) const { return to + stage +
      4 * j * kVectorStride * kPitch; }
  BG_DEVICE SharedAddress narrowTo(int j, uint32_t stage) const {
    const int along = j / kRows * kStep, across = j % kRows * kStride;
    return to + stage + 4 * (along * kPitch + across);
  }
};
