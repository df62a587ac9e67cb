// What kernels with an epilogue do beside those without (planner/epilogue.go says what that is):
// one kernel does whatever its launch and the words of its items say. How rows of A are found
// is the loaders' business; here is what becomes of sums.
//
// A row of A that is none is loaded as the first one, and the sums of its row are taken as 0
// before anything is done with them, partial ones too. Of a gated tile the first item stores what
// it has to the workspace, where each worker has a slot, and the second item reads it: the same
// threads have the same elements.
#pragma once

#include "../kernels/gemm.cuh"

// Epilogue is the parameters that a launch has for it.
struct Epilogue {
  static constexpr bool kIs = true;
  static constexpr uint32_t kWords = kEpilogueItemWords;
  const void* B2;
  const void* bias;  // of C's type
  const uint32_t* rows;
  uint32_t flags;

  BG_DEVICE bool has(uint32_t flag) const { return (flags & flag) != 0; }
  BG_DEVICE Item item(const uint4* items, uint32_t number) const { return itemAt<true>(items, number); }
  BG_DEVICE FixupItem fixup(const uint4* items, uint32_t number) const {
    return fixupAt<true>(items, number);
  }
  BG_DEVICE uint32_t products() const { return has(kGated) ? 2 : 1; }

  // addressed is an address of Rows where the operands of a flag have some, else where the launch's begins.
  template <class Number>
  BG_DEVICE Number* addressed(uint32_t flag, uint32_t at, Number* launched) const {
    if (has(flag)) launched = reinterpret_cast<Number*>(static_cast<uint64_t>(rows[at + 1]) << 32 | rows[at]);
    return inGlobal(launched);
  }
  template <class Number>
  BG_DEVICE const Number* operandA(const uint4* items, uint32_t number, const Number* A) const {
    return addressed(kPointersA, itemEpilogueAt(items, number).pointersAt + kPointerA, A);
  }
  template <class Number>
  BG_DEVICE const Number* operandB(const uint4* items, uint32_t number, const Item& item,
      const Number* B) const {
    const bool second = (item.flags & kItemSecond) != 0;
    return addressed(kPointersB, itemEpilogueAt(items, number).pointersAt + (second ? kPointerB2 : kPointerB),
        second ? static_cast<const Number*>(B2) : B);
  }
  // operandC takes the pointersAt of an item, or of that of a fix-up.
  template <class Number>
  BG_DEVICE Number* operandC(uint32_t pointersAt, float* C) const {
    return addressed(kPointersC, pointersAt + kPointerC, reinterpret_cast<Number*>(C));
  }

  // rowOf is the row of A, counted from where the item's A begins, that is row r of its tile.
  BG_DEVICE uint32_t rowOf(const ItemEpilogue& more, uint32_t r) const {
    if (!has(kGather)) return r;
    const uint32_t row = rows[more.gatherAt + r];
    return row < more.gatherRows ? row : 0;
  }

  // scaleOfRow is the scale of row r of a tile, with kScaleA, and scaleOfColumn of a column, with kScaleB.
  // Words is what an item has, or a fix-up. A row that is none has zeros, which stay.
  template <class Words>
  BG_DEVICE float scaleOfRow(const Words& words, uint32_t r) const {
    if (!has(kRowsA)) return __uint_as_float(rows[words.scaleAAt]);
    if (has(kGather)) {
      r = rows[words.gatherAt + r];
      if (r >= words.gatherRows) return 1.0f;
    }
    return __uint_as_float(rows[words.scaleAAt + scaleWords(flags) * r]);
  }
  template <class Words>
  BG_DEVICE float scaleOfColumn(const Words& words, uint32_t col) const {
    return __uint_as_float(rows[words.scaleBAt + (has(kColumnsB) ? scaleWords(flags) * col : 0)]);
  }

  // zeroOfRow is the zero point of row r of a tile, with kZeros, and sumOfColumn what it multiplies, the sum
  // of a column of B: each follows a scale. Sums of products lose both's product. Those of a row that is
  // none are 0, and stay.
  template <class Words>
  BG_DEVICE float zeroOfRow(const Words& words, uint32_t r) const {
    if (has(kGather)) {
      r = rows[words.gatherAt + r];
      if (r >= words.gatherRows) return 0.0f;
    }
    return static_cast<float>(static_cast<int32_t>(rows[words.scaleAAt + (has(kRowsA) ? 2 * r : 0) + 1]));
  }
  template <class Words>
  BG_DEVICE float sumOfColumn(const Words& words, uint32_t col) const {
    return static_cast<float>(static_cast<int32_t>(rows[words.scaleBAt + 2 * col + 1]));
  }

  BG_DEVICE float activated(float v) const {
    const uint32_t kind = flags & kActivation;
    if (kind == 0) return v;
    if (kind == kReLU) return v < 0.0f ? 0.0f : v;
    const float z = kind == kSiLU ? v : v * fmaf(kGeluCubic * v, v, kGeluLinear);
    // v / (1 + e^-z), a quarter of both, so that the reciprocal is never subnormal. Not within the choice,
    // which would be a branch for each element then.
    const float product = 0.25f * v * reciprocal(0.25f + exponential(fmaf(-kLog2E, z, -2.0f)));
    return z <= kSigmoidLeast ? 0.0f : product;
  }

  // findRows writes the rows of A of an item's tile to a list in shared memory, which has T::TM words; the
  // caller waits for all threads.
  template <class T>
  BG_DEVICE void findRows(const uint4* items, uint32_t number, uint32_t count, uint32_t* list) const {
    const ItemEpilogue words = itemEpilogueAt(items, number);
    for (uint32_t r = threadId(); r < T::TM; r += T::kThreads) list[r] = r < count ? rowOf(words, r) : 0;
  }

  // finish is Target::store with an epilogue, for all that an item may say.
  template <class T, int kGroups, int kPitch, class Element>
  BG_DEVICE void finish(const float* shared, const uint4* items, uint32_t number, const Item& item, float* C,
      float* workspace) const;

  // finishFixup is storeElement with an epilogue: of a row and column of the tile of a fix-up.
  template <class Element>
  BG_DEVICE void finishFixup(const uint4* items, uint32_t number, const FixupItem& item, uint32_t row,
      uint32_t col, float sum, float* C) const;
};

// kHasBlocks: there may be scales of blocks.
template <class T, class More>
constexpr bool kHasBlocks = More::kIs && T::Element::kScaled && !T::Element::kWhole;

// BlockScales are scales of blocks (planner.PerBlock) of n rows of A, and of the columns of a tile, which are
// of one block. Those of a block of k's are loaded as soon as those of the block before are taken: they come
// while its products are summed.
template <int n>
struct BlockScales {
  const uint32_t* words;  // of Rows
  uint32_t a[n], b;       // bits of the scales
  uint32_t atA[n], atB;   // words of those of the next block

  // start loads those of a block of an item of so many k's. rowOf(i) is the row of A with scales i, counted
  // from the item's first scales: one that exists.
  template <class RowOf>
  BG_DEVICE void start(const uint32_t* words_, const ItemEpilogue& item, uint32_t depth, uint32_t block,
      RowOf rowOf) {
    const uint32_t each = scaleBlocks(depth);
    words = words_;
    atB = item.scaleBAt + block;
#pragma unroll
    for (int i = 0; i < n; ++i) atA[i] = item.scaleAAt + rowOf(i) * each + block;
    load();
  }

  BG_DEVICE void load() {
#pragma unroll
    for (int i = 0; i < n; ++i) a[i] = words[atA[i]++];
    b = words[atB++];
  }

  // next finds the products of the scales of a block, and loads those of the next one, where there is one.
  BG_DEVICE void next(float (&scale)[n], bool more) {
#pragma unroll
    for (int i = 0; i < n; ++i) scale[i] = __uint_as_float(a[i]) * __uint_as_float(b);
    if (more) load();
  }
};

// Column finishes elements of a column of a tile. To is the element of C, Of that of A.
template <class To, class Of>
struct Column {
  static constexpr bool kScaled = Of::kScaled, kWhole = Of::kWhole;
  using Number = typename To::Number;
  const Epilogue& e;
  Number* c;    // its element in the tile's first row of C; scattered: in the first of all rows
  float* kept;  // its element in the first row of a slot: of the partial tile, or the worker's
  uint32_t ldc, ldKept, rows;
  ItemEpilogue words;
  bool partial, second, final;  // of a gated tile; C is stored
  float alpha, beta, bias;
  bool scaled;   // there are products, and scales of rows
  float scaleB;  // kScaled
  bool centred;  // kWhole: there are products, and zero points
  float sumB;

  // Tiles of kRows x kColumns.
  template <int kRows, int kColumns>
  static BG_DEVICE Column of(const Epilogue& e, const Item& item, const ItemEpilogue& words, uint32_t col,
      float* C, float* workspace) {
    const bool partial = item.slot != kFinal, second = (item.flags & kItemSecond) != 0,
        products = kScaled && !partial && item.depth != 0;
    const bool centred = kWhole && products && e.has(kZeros);
    const uint64_t slot = partial ? item.slot : workerId();
    const float bias = e.has(kBias) && !partial
        ? To::number(static_cast<const Number*>(e.bias)[words.biasAt + col]) : 0.0f;
    return {e, e.operandC<Number>(words.pointersAt, C) + item.offC + col,
        workspace + slot * (kRows * kColumns) + col, item.ldc, kColumns, item.rows(), words,
        partial, second, !partial && (second || !e.has(kGated)),
        item.depth == 0 ? 0.0f : __uint_as_float(item.alpha), __uint_as_float(item.beta), bias,
        products && e.has(kScaleA), products && e.has(kScaleB) ? e.scaleOfColumn(words, col) : 1.0f,
        centred, centred ? e.sumOfColumn(words, col) : 0.0f};
  }

  // store finishes n rows, kApart apart, whose sums are sum(0) and so on. Reads come first, so that
  // they overlap.
  template <int n, int kApart, class Sum>
  BG_DEVICE void store(uint32_t first, Sum sum) const {
    const bool reads = final && beta != 0.0f;
    float value[n], old[n], weight[n], scale[n], zero[n];
    uint32_t to[n];
    bool stored[n];
#pragma unroll
    for (int i = 0; i < n; ++i) {
      const uint32_t r = first + i * kApart;
      stored[i] = r < rows;
      to[i] = r;
      weight[i] = scale[i] = 1.0f;
      zero[i] = 0.0f;
      value[i] = sum(i);
      if (!stored[i]) continue;
      if (e.has(kGather) && e.rows[words.gatherAt + r] >= words.gatherRows) value[i] = 0.0f;
      if (kScaled && scaled) scale[i] = e.scaleOfRow(words, r);
      if (kWhole && centred) zero[i] = e.zeroOfRow(words, r);
      if (final && e.has(kWeights)) weight[i] = __uint_as_float(e.rows[words.weightsAt + r]);
      if (final && e.has(kScatter)) {
        to[i] = e.rows[words.scatterAt + r];
        stored[i] = to[i] < words.scatterRows;
      }
    }
#pragma unroll
    for (int i = 0; i < n; ++i) {
      old[i] = 0.0f;
      if (second && stored[i]) old[i] = *rowsOn(kept, first + i * kApart, ldKept);
      if (reads && stored[i]) old[i] = To::number(*rowsOn(c, to[i], ldc));
    }
#pragma unroll
    for (int i = 0; i < n; ++i) {
      if (!stored[i]) continue;
      const float v = finished(value[i], scale[i], zero[i], old[i], reads);
      if (final) *rowsOn(c, to[i], ldc) = To::bits(e.has(kWeights) ? weight[i] * v : v);
      else *rowsOn(kept, to[i], ldKept) = v;
    }
  }

  // finished is what a sum becomes, but for the weight. old is C, or the first of two products, scaleA and
  // zeroA are of the row.
  BG_DEVICE float finished(float sum, float scaleA, float zeroA, float old, bool reads) const {
    if (partial) return sum;
    if (kWhole) sum = fmaf(-zeroA, sumB, sum);
    float v = alpha * sum;
    if (kScaled) v = v * scaleA * scaleB;
    if (reads) v = fmaf(beta, old, v);
    v += bias;
    return second ? old * v : e.activated(v);
  }
};

// withColumn calls store with a column of an item's tile, where the thread has one: col is below its columns.
template <int kRows, int kColumns, class Element, class Store>
BG_DEVICE void withColumn(const Epilogue& e, const Item& item, const ItemEpilogue& words, uint32_t col,
    float* C, float* workspace, Store store) {
  auto finish = [&](auto to) {
    store(Column<decltype(to), Element>::template of<kRows, kColumns>(e, item, words, col, C, workspace));
  };
  if constexpr (Element::kPer != 1) {
    if ((item.flags & kItemFloatC) == 0) return Element::withC(item.flags, finish);
  }
  finish(Floats{});
}

template <class T, int kGroups, int kPitch, class Element>
BG_DEVICE void Epilogue::finish(const float* shared, const uint4* items, uint32_t number, const Item& item,
    float* C, float* workspace) const {
  constexpr int kApart = T::kThreads / T::TN, kAtOnce = T::TM / kApart < 4 ? T::TM / kApart : 4;
  const uint32_t row = threadId() / T::TN, col = threadId() % T::TN;
  if (col >= item.cols()) return;
  withColumn<T::TM, T::TN, Element>(*this, item, itemEpilogueAt(items, number), col, C, workspace,
      [&](const auto& column) {
#pragma unroll 1
    for (uint32_t r = row; r < item.rows(); r += kAtOnce * kApart) {
      column.template store<kAtOnce, kApart>(r, [&](int i) {
        const float* const from = shared + (r + i * kApart) * kPitch + col;
        float sum = from[0];
#pragma unroll
        for (int g = 1; g < kGroups; ++g) sum += from[g * T::TM * kPitch];
        return sum;
      });
    }
  });
}

template <class Element>
BG_DEVICE void Epilogue::finishFixup(const uint4* items, uint32_t number, const FixupItem& item, uint32_t row,
    uint32_t col, float sum, float* C) const {
  const FixupEpilogue words = fixupEpilogueAt(items, number);
  using Number = typename Element::Number;
  uint32_t to = row;
  if (has(kScatter)) {
    to = rows[words.scatterAt + row];
    if (to >= words.scatterRows) return;
  }
  Number* const c = rowsOn(operandC<Number>(item.pointersAt, C) + item.offC + col, to, item.ldc);
  if (has(kZeros)) sum = fmaf(-zeroOfRow(words, row), sumOfColumn(words, col), sum);
  float v = __uint_as_float(item.alpha) * sum;
  if (has(kScaleA)) v *= scaleOfRow(words, row);
  if (has(kScaleB)) v *= scaleOfColumn(words, col);
  const float beta = __uint_as_float(item.beta);
  if (beta != 0.0f) v = fmaf(beta, Element::number(*c), v);
  if (has(kBias)) v += Element::number(static_cast<const Number*>(bias)[words.biasAt + col]);
  v = activated(v);
  *c = Element::bits(has(kWeights) ? __uint_as_float(rows[words.weightsAt + row]) * v : v);
}
