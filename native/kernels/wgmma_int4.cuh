// Kernels of 9.0 for B of 4 bits with scales of groups: as int4.cuh, but a loader brings what other warps
// multiply, as in wgmma_aligned.cuh, and goes on while they store. Of a panel each tile has one piece of
// memory, which is copied as a whole.
//
// Of few rows of A (StreamTile) warps multiply as those of int4.cuh do. Of more (PanelTile) warpgroups do: B
// is the operand in registers, 64 of its columns are the rows of a product, and rows of A its columns, which
// the tensor cores take from where the loader copies them, swizzled as in wgmma_aligned.cuh. Such a product
// takes 13 cycles of 8 or 16 rows, 16 of 32, and that of a warp 6 for 8 rows (H200).
//
// The loader is two warps or more: one has B, which is a few instructions a step, the others have A. In one
// warp all was too slow, since warps that multiply leave it one cycle in seven (H200: 256 tokens' experts 104
// us, then 94).
#pragma once

#include "int4.cuh"
#include "wgmma.cuh"

// StreamTile is a row of the tile table and what follows from it.
template <int TM_, int TN_, int kMultiply_, int kLoaders_, int kMinGroups_, int kStages_, int kShared_,
    class Element_>
struct StreamTile : Int4Tile<TM_, TN_, 32 * kMultiply_, kStages_, kMinGroups_, Element_> {
  using More = Epilogue;
  // warps that multiply, and load
  static constexpr int kMultiply = kMultiply_, kLoaders = kLoaders_, kThreads = 32 * (kMultiply + kLoaders);
  static constexpr bool kEmulated = false;
  static constexpr uint32_t kShared = kShared_;
  static_assert(StreamTile::kRows == 2, "of more rows warpgroups take less time");
};

// PanelTile is the same of warpgroups.
template <int TM_, int TN_, int kMultiply_, int kLoaders_, int kMinGroups_, int kStages_, int kShared_,
    class Element_>
struct PanelTile {
  using Element = Element_;  // of A
  using More = Epilogue;
  static constexpr int TM = TM_, TN = TN_, TK = 128, kMinGroups = kMinGroups_, kEpilogueGroups = kMinGroups_,
      kStages = kStages_;
  static constexpr int kMultiply = kMultiply_, kLoaders = kLoaders_, kThreads = 32 * (kMultiply + kLoaders);
  static constexpr bool kEmulated = false;
  static constexpr int kWarpColumns = 16;
  static_assert(TN == kWarpColumns * kMultiply, "a warp has 16 rows of a product");
  static constexpr uint32_t kShared = kShared_;
  // A stage, in bytes: blocks of 64 k's of A, the panels, and the words of their groups.
  static constexpr uint32_t kBlock = 128 * TM, kPanels = 2 * kBlock, kPanel = 32 * TN,
      kGroups = kPanels + 2 * kPanel, kStage = kGroups + 2 * 4 * TN;
  static constexpr uint32_t kRowA = 128, kTurns = 8;
  static BG_DEVICE uint32_t placeOfA(uint32_t row, uint32_t line) { return line / 8 * kBlock + kRowA * row +
      16 * (line % 8 ^ row % 8); }
  static_assert(kStage % 1024 == 0, "swizzled rows begin with multiples of 1024 bytes");
};

// StreamLayout is what follows the stages in shared memory, in bytes.
template <class T>
struct StreamLayout {
  // of a warp; no two lanes store to one bank
  static constexpr uint32_t kOutRows = 16, kOutPitch = T::kWarpColumns + 4,
      kOutBytes = 4 * kOutRows * kOutPitch;
  static constexpr uint32_t kOut = T::kStages * T::kStage, kItems = kOut + T::kMultiply * kOutBytes,
      kReady = kItems + kItemPlaces * Items<Epilogue>::kBytes;
  static constexpr uint32_t kFull = kReady + 8 * kItemPlaces, kFree = kFull + 8 * T::kStages,
      kBytes = kFree + 8 * T::kStages;
  static_assert(kBytes <= T::kShared + kItemPlaces * 4 * (Epilogue::kWords - kItemWords),
      "the tile table has too little shared memory");
  static_assert(T::kStages + 2 < kItemPlaces, "too few places for items");  // see WgmmaTile
};

// Stages is the ring of stages, of the loader or of a warp that multiplies. An item has a step at least, so
// that the loader is not further ahead than there are places for items.
template <class T>
struct Stages {
  using L = StreamLayout<T>;
  SharedAddress shared;
  Counter<T::kStages> stage;

  BG_DEVICE SharedAddress full() const { return shared + L::kFull + 8 * stage.at; }
  BG_DEVICE void wait() const { waitPhase(full(), stage.parity); }
  BG_DEVICE void waitFree() const { waitPhase(shared + L::kFree + 8 * stage.at, stage.parity ^ 1); }
  BG_DEVICE void release(uint32_t at) const {
    warpBarrier();  // see Consumer
    if (threadId() % 32 == 0) arrive(shared + L::kFree + 8 * at);
  }
  // pass lets the steps of an item go by.
  BG_DEVICE void pass(uint32_t depth) {
    uint32_t k = 0;
    do {
      wait();
      release(stage.at);
      stage.next();
      k += T::TK;
    } while (k < depth);
  }
};

// PanelLoader starts the copies of B of an item, and of the words of its groups, by one warp.
template <class T>
struct PanelLoader {
  const uint32_t *panel, *groups;
  uint32_t ldb, cols;
  bool by64, pieces;  // pieces: groups lie so that they can be copied as such

  BG_DEVICE PanelLoader(const Items<Epilogue>& items, uint32_t number, const Item& item, const uint32_t* B)
      : ldb(item.ldb), cols(item.cols()), by64(wordsOf64(items.more.flags)) {
    panel = items.operandB(number, item, B) + item.offB / 8;
    groups = wordsOfGroups(items.more, item, itemEpilogueAt(items.words(), number % kItemPlaces));
    pieces = placeInLine(groups) == 0 && cols % 4 == 0;
  }

  // bytes are those that copy has pieces of, in a step of which `left` k's exist.
  BG_DEVICE uint32_t bytes(uint32_t left) const { return cols * ((left > 64 ? 64 : 32) +
      (pieces ? (by64 && left > 64 ? 8 : 4) : 0)); }

  BG_DEVICE void copy(SharedAddress stage, uint32_t left, SharedAddress full) {
    const bool both = left > 64, two = by64 && both;
    if (threadId() % 32 == 0) {
      expectBytes(full, bytes(left));
      copyPiece(stage + T::kPanels, panel, 32 * cols, full);
      if (both) copyPiece(stage + T::kPanels + T::kPanel, rowsOn(panel, 8, ldb), 32 * cols, full);
      if (pieces) {
        copyPiece(stage + T::kGroups, groups, 4 * cols, full);
        if (two) copyPiece(stage + T::kGroups + 4 * T::TN, groups + ldb, 4 * cols, full);
      }
    }
    if (!pieces || (by64 && !both)) copyWords(stage, two);
    panel = rowsOn(panel, 16, ldb);
    groups = rowsOn(groups, by64 ? 2 : 1, ldb);
  }

  // copyWords copies words of groups one by one; those of a panel that does not exist are zeros.
  BG_DEVICE void copyWords(SharedAddress stage, bool two) const {
#pragma unroll 1
    for (uint32_t c = threadId() % 32; c < cols; c += 32) {
      if (!pieces) copyWord(stage + T::kGroups + 4 * c, groups + c, 4);
      if (by64 && !(pieces && two)) copyWord(stage + T::kGroups + 4 * (T::TN + c),
          groups + (two ? ldb : 0) + c, two ? 4 : 0);
    }
  }
};

// loadInt4 is the work of a loader: the first has the items, and B, the others have A.
template <class T, bool kDynamic>
BG_DEVICE void loadInt4(const Items<Epilogue>& items, Feed<Epilogue>& feed, const uint16_t* A,
    const uint32_t* B, SharedAddress shared) {
  const bool first = uniform(threadId() / 32) == T::kMultiply;
  Stages<T> stages{shared};
  // load calls copy with the k's that are left, the stage, and its phase.
  auto load = [&](const Item& item, bool vector, auto copy) {
    uint32_t left = uniform(item.depth);
#pragma unroll 1
    for (;;) {
      const SharedAddress full = stages.full();
      stages.waitFree();
      if (left != 0) copy(left, stages.stage.at * T::kStage, full);
      vector ? arriveCopied(full) : arrive(full);
      stages.stage.next();
      if (left <= T::TK) break;
      left -= T::TK;
    }
  };
  if (first) feed.next<kDynamic>(items);
  for (uint32_t number = 0;; ++number) {
    const Item item = items.wait(number);
    if (isNone(item)) break;
    if (first) {
      feed.before<kDynamic>(items);
      PanelLoader<T> b(items, number, item, B);
      load(item, true, [&](uint32_t left, uint32_t at, SharedAddress full) { b.copy(shared + at, left,
          full); });
      feed.after<kDynamic>(items);
      fetchLists<T>(items, number, item);  // after the copies, which are waited for first
    } else {
      GroupedRows<T, 32 * (T::kLoaders - 1)> a(threadId() - 32 * (T::kMultiply + 1),
          items.operandA(number, A) + item.offA, item, gatheredRows(items, number, item), shared);
      load(item, a.vector, [&](uint32_t left, uint32_t at, SharedAddress) { a.copy(left, at); });
    }
  }
}

// writeLines writes up to 16 rows of C, from row `first` of the tile on, of the warp's columns from `from`
// on, 8 of each row by a lane.
template <class T>
BG_DEVICE void writeLines(const float* out, const Item& item, const Epilogue& e, const ItemEpilogue& words,
    uint32_t first, uint32_t from, float* C) {
  using Element = typename T::Element;
  constexpr uint32_t kLines = T::kWarpColumns / 8;
  const uint32_t lane = threadId() % 32, col = from + 8 * (lane % kLines);
  if (col >= item.cols()) return;
  const uint32_t count = min(item.cols() - col, 8u);
#pragma unroll 1
  for (uint32_t r = lane / kLines; r < 16 && first + r < item.rows(); r += 32 / kLines) {
    const uint32_t to = ScatteredRows{e, words}(first + r);
    if (to == kNoRow) continue;
    const float4* const x = reinterpret_cast<const float4*>(out + r * StreamLayout<T>::kOutPitch +
        8 * (lane % kLines));
    const float4 low = x[0], high = x[1];
    if ((item.flags & kItemFloatC) != 0) {
      storeLine(rowsOn(e.operandC<uint32_t>(words.pointersAt, C) + item.offC, to, item.ldc) + col, count,
                {__float_as_uint(low.x), __float_as_uint(low.y), __float_as_uint(low.z),
                    __float_as_uint(low.w), __float_as_uint(high.x), __float_as_uint(high.y),
                    __float_as_uint(high.z), __float_as_uint(high.w)});
    } else {
      storeLine(rowsOn(e.operandC<uint16_t>(words.pointersAt, C) + item.offC, to, item.ldc) + col, count,
                {Element::pairOfC(item.flags, low.x, low.y), Element::pairOfC(item.flags, low.z, low.w),
                    Element::pairOfC(item.flags, high.x, high.y),
                    Element::pairOfC(item.flags, high.z, high.w)});
    }
  }
}

// finishLines is writeLines of sums that are not finished, element by element.
template <class T>
BG_DEVICE void finishLines(const float* out, const Item& item, const Epilogue& e, const ItemEpilogue& words,
    uint32_t first, uint32_t from, float* C, float* workspace) {
  constexpr uint32_t kColumns = T::kWarpColumns, kApart = 32 / kColumns;
  const uint32_t column = threadId() % kColumns;
  if (from + column >= item.cols()) return;
  withColumn<T::TM, T::TN, typename T::Element>(e, item, words, from + column, C, workspace,
      [&](const auto& c) {
#pragma unroll 1
    for (uint32_t r = threadId() % 32 / kColumns; r < 16 && first + r < item.rows(); r += 4 * kApart) {
      c.template store<4, kApart>(first + r, [&](int i) { return out[(r +
          kApart * i) * StreamLayout<T>::kOutPitch + column]; });
    }
  });
}

// Warp is a warp that multiplies, and its item.
template <class T>
struct Warp {
  const Items<Epilogue>& items;
  char* memory;
  float *C, *workspace;
  uint32_t from;  // its first column of a tile
  Stages<T> stages;
  uint32_t number, depth, rows;

  BG_DEVICE float* out() const { return reinterpret_cast<float*>(memory + StreamLayout<T>::kOut +
      threadId() / 32 * StreamLayout<T>::kOutBytes); }
};

// storeSums finishes an item of up to 2n rows, 16 of them at a time. sum has those of a lane in 16 columns,
// of 8 rows four: in registers, unless C is read, or the item is a part of a tile.
template <class T, int kPartials, int n>
BG_DEVICE void storeSums(const Warp<T>& warp, float (&sum)[kPartials][n]) {
  using L = StreamLayout<T>;
  const Items<Epilogue>& items = warp.items;
  const uint32_t number = warp.number, from = warp.from;
  float* const out = warp.out();
  const Item item = items.wait(number);
  const ItemEpilogue words = itemEpilogueAt(items.words(), number % kItemPlaces);
  const FragmentLane at(threadId() % 32);
  const bool apart = item.slot != kFinal || __uint_as_float(item.beta) != 0.0f;
  if (items.more.has(kGroups16) && item.depth != 0) {
#pragma unroll
    for (int i = 0; i < kPartials; ++i) scaleColumns<typename T::Element::Format>(sum[i],
        items.more.rows + words.scaleBAt, from + 16 * i + at.group, item.cols());
  }
  if (!apart) {
    Kept<T, kInWorkspace> kept(warp.workspace);
    bool final = true;
#pragma unroll
    for (int i = 0; i < kPartials; ++i) {
      final = applyEpilogue(sum[i], items.more, item, words, ColumnLanes{from + 16 * i + at.group}, kept);
      kept.at += n / 4 * kept.kApart;
    }
    if (!final) return;
  }
#pragma unroll
  for (int first = 0; first < 2 * n; first += L::kOutRows) {
    if (first >= item.rows()) break;
    warpBarrier();
#pragma unroll
    for (int i = 0; i < kPartials; ++i) {
#pragma unroll
      for (int e = 0; e < 8 && first / 2 + e < n; ++e) {
        out[(8 * (e / 4) + 2 * at.member + e % 2) * L::kOutPitch + 16 * i + 8 * (e / 2 % 2) + at.group] =
            sum[i][first / 2 + e];
      }
    }
    warpBarrier();
    if (apart) finishLines<T>(out, item, items.more, words, first, from, warp.C, warp.workspace);
    else writeLines<T>(out, item, items.more, words, first, from, warp.C);
  }
}

// multiplyItem sums an item of up to 8n rows.
template <int n, class T>
BG_DEVICE void multiplyItem(Grouped<T>& grouped, Stages<T>& stages, uint32_t depth, const Epilogue& more) {
  auto step = [&](auto multiply) {
    stages.wait();
    multiply(stages.stage.at * T::kStage);
    stages.release(stages.stage.at);
    stages.stage.next();
  };
  // eachStep calls with the stage, and whether it has two panels.
  auto eachStep = [&](auto multiply) {
#pragma unroll 1
    for (;;) {
      step([&](uint32_t at) { multiply(at, depth > 64); });
      if (depth <= T::TK) break;
      depth -= T::TK;
    }
  };
  if (more.has(kGroups32)) {
    eachStep([&](uint32_t at, bool both) { grouped.template multiplyE2M1<Weights::mxfp4, n>(at, both); });
  } else if (more.has(kGroups16)) {
    eachStep([&](uint32_t at, bool both) { grouped.template multiplyE2M1<Weights::nvfp4, n>(at, both); });
  } else if (more.has(kGroups64)) {
#pragma unroll 1
    for (; depth >= T::TK; depth -= T::TK) step([&](uint32_t at) { grouped.template multiply<n>(at); });
    if (depth != 0) step([&](uint32_t at) { grouped.template multiply<n, 1>(at); });
  } else {
#pragma unroll 1
    for (; depth != 0; depth -= T::TK) step([&](uint32_t at) { grouped.template multiply<n, 2, true>(at); });
  }
}

// PanelConsumer is a warp of a warpgroup that multiplies.
template <class T>
struct PanelConsumer {
  using Format = typename T::Element::Format;
  const char* memory;
  uint32_t column, member;  // the lane's first column

  // read makes the operands of four products of a panel, of 16 k's, of the lane's two columns.
  BG_DEVICE void read(uint32_t (&x)[4][4], const char* panel, const uint32_t (&minus)[2]) const {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
#pragma unroll
      for (int q = 0; q < 2; ++q) {
        const uint4 words = *reinterpret_cast<const uint4*>(panel + 32 * (column + 8 * r) + 16 * q);
        const uint32_t of[4] = {words.x, words.y, words.z, words.w};
#pragma unroll
        for (int i = 0; i < 4; ++i) x[2 * q + i / 2][r + 2 * (i % 2)] =
            Format::weights(of[i] >> 4 * member, minus[r]);
      }
    }
  }

  // readScaled makes those of weights of e2m1, times the scales in the words of their columns.
  template <Weights kOf>
  BG_DEVICE void readScaled(uint32_t (&x)[4][4], const char* panel, const uint32_t (&word)[2]) const {
    using Of = E2M1<Format>;
    constexpr bool kE8M0 = kOf == Weights::mxfp4;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
#pragma unroll
      for (int q = 0; q < 2; ++q) {
        const uint4 words = *reinterpret_cast<const uint4*>(panel + 32 * (column + 8 * r) + 16 * q);
        const uint32_t of[4] = {words.x, words.y, words.z, words.w};
#pragma unroll
        for (int i = 0; i < 4; ++i) x[2 * q + i / 2][r + 2 * (i % 2)] = Of::pair(of[i], 4 * member,
            !kE8M0 ? Of::ofE4M3(word[r], 2 * q + i / 2) : Of::kWide ? Of::ofE8M0(byteOf(word[r], q)) : Of::kOne);
      }
    }
    if (kE8M0 && Of::kWide && warpAny(((word[0] | word[1]) & 0x8080) != 0)) {
#pragma unroll
      for (int i = 0; i < 16; ++i) x[i / 4][i % 4] = Format::times(x[i / 4][i % 4],
          Of::restOfE8M0(byteOf(word[i % 2], i / 8)));
    }
  }

  // groupWord is the word of a group of column r, of panel h where it has one.
  BG_DEVICE uint32_t groupWord(const char* stage, uint32_t h, int r) const {
    return *reinterpret_cast<const uint32_t*>(stage + T::kGroups + 4 * (T::TN * h + column + 8 * r));
  }

  // multiplyScaled is multiply of weights of e2m1 as numbers times their scales.
  template <Weights kOf, int n>
  BG_DEVICE void multiplyScaled(float (&sum)[n], Stages<T>& stages, uint32_t depth) const {
    constexpr bool kE8M0 = kOf == Weights::mxfp4;
    const uint64_t a = matrixB(stages.shared);
#pragma unroll 1
    for (;;) {
      stages.wait();
      fenceStores();
      const uint32_t at = uniform(stages.stage.at);
      const char* const stage = memory + at * T::kStage;
      uint32_t x[2][4][4];
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        uint32_t word[2];
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          word[r] = kE8M0 ? groupWord(stage, 0, r) >> 16 * h : groupWord(stage, h, r);
          if (h == 1 && depth <= 64) word[r] = 0;  // products with what lies there are 0
        }
        readScaled<kOf>(x[h], stage + T::kPanels + T::kPanel * h, word);
      }
      const uint64_t b = a + (at * T::kStage >> 4);
      fenceProducts();
      // Where registers are few, those of the tensor cores' sums are needed for others.
      if constexpr (T::kMinGroups == 1) {
        addStep<false>(sum, x, b);
      } else {
        float part[n];
        addStep<true>(part, x, b);
#pragma unroll
        for (int i = 0; i < n; ++i) sum[i] += part[i];
      }
      stages.release(at);
      stages.stage.next();
      if (depth <= T::TK) break;
      depth -= T::TK;
    }
  }

  // addStep adds the products of a step, kFirst to nothing.
  template <bool kFirst, int n>
  BG_DEVICE void addStep(float (&sum)[n], const uint32_t (&x)[2][4][4], uint64_t b) const {
    product<kFirst>(Format{}, sum, x[0][0], b);
#pragma unroll
    for (int s = 1; s < 8; ++s) product<false>(Format{}, sum, x[s / 4][s % 4],
        b + s / 4 * (T::kBlock >> 4) + 2 * (s % 4));
    commitProducts();
    waitProducts<0>();
    settle(sum);
  }

  // multiplyApart is multiply of weights of MXFP4 of which 32 k's are summed from zero.
  template <int n>
  BG_DEVICE void multiplyApart(float (&sum)[n], Stages<T>& stages, uint32_t depth) const {
    const uint64_t a = matrixB(stages.shared);
#pragma unroll 1
    for (;;) {
      stages.wait();
      fenceStores();
      const uint32_t at = uniform(stages.stage.at);
      const char* const stage = memory + at * T::kStage;
#pragma unroll 1
      for (uint32_t h = 0; h < (depth > 64 ? 2 : 1); ++h) {
        const uint32_t word[2] = {groupWord(stage, 0, 0) >> 16 * h, groupWord(stage, 0, 1) >> 16 * h};
        uint32_t x[4][4];
        readScaled<Weights::mxfp4>(x, stage + T::kPanels + T::kPanel * h, word);
        fenceProducts();
        addApart(sum, x, word, a + ((at * T::kStage + T::kBlock * h) >> 4));
      }
      stages.release(at);
      stages.stage.next();
      if (depth <= T::TK) break;
      depth -= T::TK;
    }
  }

  // addApart adds the products of a panel, of each 32 k's times their scales.
  template <int n>
  BG_DEVICE void addApart(float (&sum)[n], const uint32_t (&x)[4][4], const uint32_t (&word)[2],
      uint64_t b) const {
    float part[2][n];
#pragma unroll
    for (int q = 0; q < 2; ++q) {
      product<true>(Format{}, part[q], x[2 * q], b + 4 * q);
      product<false>(Format{}, part[q], x[2 * q + 1], b + 4 * q + 2);
    }
    commitProducts();
    waitProducts<0>();
#pragma unroll
    for (int q = 0; q < 2; ++q) {
      settle(part[q]);
      const float scale[2] = {numberE8M0(byteOf(word[0], q)), numberE8M0(byteOf(word[1], q))};
#pragma unroll
      for (int i = 0; i < n; ++i) sum[i] = fmaf(scale[i / 2 % 2], part[q][i], sum[i]);
    }
  }

  // multiplyOf is multiply of an item of any weights.
  template <int n>
  BG_DEVICE void multiplyOf(const Epilogue& more, float (&sum)[n], Stages<T>& stages, uint32_t depth) const {
    // what weights of e2m1 need is not kept where others are multiplied
    const PanelConsumer apart{memory, settled(column), settled(member)};
    if (more.has(kGroups32)) {
      if constexpr (E2M1<Format>::kWide) apart.template multiplyScaled<Weights::mxfp4>(sum, stages, depth);
      else apart.multiplyApart(sum, stages, depth);
    } else if (more.has(kGroups16)) {
      apart.template multiplyScaled<Weights::nvfp4>(sum, stages, depth);
    } else if (more.has(kGroups64)) {
      multiply<true>(sum, stages, depth);
    } else {
      multiply<false>(sum, stages, depth);
    }
  }

  // multiply sums an item of 2n rows. Nothing is under way while a stage is added: other warps multiply then.
  template <bool kBy64, int n>
  BG_DEVICE void multiply(float (&sum)[n], Stages<T>& stages, uint32_t depth) const {
    constexpr int kSums = kBy64 ? 2 : 1;  // panels that are summed apart
    const uint64_t a = matrixB(stages.shared);
#pragma unroll 1
    for (;;) {
      stages.wait();
      fenceStores();  // copies of A were another's
      const uint32_t at = uniform(stages.stage.at);
      const char* const stage = memory + at * T::kStage;
      float part[kSums][n], scale[kSums][2];
      uint32_t x[2][4][4], minus[kSums][2];
#pragma unroll
      for (int h = 0; h < kSums; ++h) {
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          const uint32_t group = groupWord(stage, h, r);
          minus[h][r] = Format::minus(group);
          scale[h][r] = __uint_as_float(group & ~15u);
        }
      }
#pragma unroll
      for (int h = 0; h < 2; ++h) read(x[h], stage + T::kPanels + T::kPanel * h, minus[h % kSums]);
      fenceProducts();
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const uint64_t b = a + ((at * T::kStage + T::kBlock * h) >> 4);
        if (h < kSums) product<true>(Format{}, part[h], x[h][0], b);
        else product<false>(Format{}, part[0], x[h][0], b);
#pragma unroll
        for (int s = 1; s < 4; ++s) product<false>(Format{}, part[h % kSums], x[h][s], b + 2 * s);
      }
      commitProducts();
      waitProducts<0>();
#pragma unroll
      for (int h = 0; h < kSums; ++h) settle(part[h]);
      stages.release(at);
      stages.stage.next();
#pragma unroll
      for (int h = 0; h < kSums; ++h) {
#pragma unroll
        for (int i = 0; i < n; ++i) sum[i] = fmaf(scale[h][i / 2 % 2], part[h][i], sum[i]);
      }
      if (depth <= T::TK) break;
      depth -= T::TK;
    }
  }
};

// sumStream and sumPanels sum an item and store it.
template <class T>
BG_DEVICE void sumStream(Warp<T>& warp) {
  Grouped<T> grouped;
  grouped.clear();
  grouped.start(FragmentLane(threadId() % 32), wordsOf64(warp.items.more.flags) ? 6 : 7, warp.from,
      warp.memory);
  if (warp.depth == 0) warp.stages.pass(0);
  else if (warp.rows <= 8) multiplyItem<1>(grouped, warp.stages, warp.depth, warp.items.more);
  else multiplyItem<T::kRows>(grouped, warp.stages, warp.depth, warp.items.more);
  storeSums(warp, reinterpret_cast<float(&)[T::kColumns][4 * T::kRows]>(grouped.sum));
}
template <class T>
BG_DEVICE void sumPanels(Warp<T>& warp) {
  const PanelConsumer<T> consumer{warp.memory, warp.from + threadId() % 32 / 4, threadId() % 4};
  auto compute = [&](auto& sum) {
#pragma unroll
    for (auto& x : sum) x = 0.0f;
    if (warp.depth == 0) warp.stages.pass(0);
    else consumer.multiplyOf(warp.items.more, sum, warp.stages, warp.depth);
    storeSums(warp, reinterpret_cast<float(&)[1][sizeof(sum) / 4]>(sum));
  };
  if (warp.rows <= 8) {
    float sum[4];
    compute(sum);
  } else if (warp.rows <= 16) {
    float sum[8];
    compute(sum);
  } else if (T::TM == 32 || warp.rows <= 32) {
    float sum[16];
    compute(sum);
  } else if constexpr (T::TM > 32) {
    float sum[T::TM / 2];
    compute(sum);
  }
}

// consumeInt4 is the work of a warp that multiplies, by sum. A warp whose `group` columns do not exist lets
// steps go by.
template <class T, class Sum>
BG_DEVICE void consumeInt4(Warp<T> warp, uint32_t group, Sum sum) {
  for (warp.number = 0;; ++warp.number) {
    uint32_t cols;
    {
      const Item item = warp.items.wait(warp.number);
      if (isNone(item)) break;
      warp.depth = uniform(item.depth);
      warp.rows = uniform(item.rows());
      cols = uniform(item.cols());
    }
    if (warp.from / group * group >= cols) warp.stages.pass(warp.depth);
    else sum(warp);
  }
}

// ringOf prepares the ring of items, and the phases of stages.
template <class T>
BG_DEVICE Items<Epilogue> ringOf(char* memory, const Epilogue& more) {
  using L = StreamLayout<T>;
  const SharedAddress shared = sharedAddress(memory);
  if (threadId() == 0) {
    for (int i = 0; i < kItemPlaces; ++i) initPhases(shared + L::kReady + 8 * i, 1);
    for (int i = 0; i < T::kStages; ++i) {
      initPhases(shared + L::kFull + 8 * i, 32 * T::kLoaders);
      initPhases(shared + L::kFree + 8 * i, T::kMultiply);
    }
    fencePhases();
  }
  return {memory + L::kItems, shared + L::kReady, more};
}

// int4Stream is the work of a kernel, whose warps multiply by sum.
template <class T, class Sum>
BG_DEVICE void int4Stream(const uint4* items, const uint32_t* table, const float* A, const float* B, float* C,
    float* workspace, const Epilogue& more, uint32_t group,
                          Sum sum) {
  char* const memory = dynamicShared();
  const uint32_t warp = uniform(threadId() / 32);
  const Launch launch(table);
  Feed<Epilogue> feed;
  if (warp == T::kMultiply) feed.start(items, table, more);
  const Items<Epilogue> ring = ringOf<T>(memory, more);
  barrier();
  awaitEarlier();
  if (warp >= T::kMultiply) {
    const auto* const a = reinterpret_cast<const uint16_t*>(A);
    const auto* const b = reinterpret_cast<const uint32_t*>(B);
    if (isDynamic(table)) loadInt4<T, true>(ring, feed, a, b, sharedAddress(memory));
    else loadInt4<T, false>(ring, feed, a, b, sharedAddress(memory));
    launch.loaded();
  } else {
    consumeInt4(Warp<T>{ring, memory, C, workspace, warp * T::kWarpColumns, {sharedAddress(memory)}}, group,
        sum);
  }
}
template <class T>
BG_DEVICE void streamGemm(const uint4* __restrict__ items, const uint32_t* __restrict__ table,
    const float* __restrict__ A, const float* __restrict__ B,
                          float* __restrict__ C, float* __restrict__ workspace, const Epilogue& more) {
  int4Stream<T>(items, table, A, B, C, workspace, more, T::kWarpColumns, sumStream<T>);
}
template <class T>
BG_DEVICE void panelGemm(const uint4* __restrict__ items, const uint32_t* __restrict__ table,
    const float* __restrict__ A, const float* __restrict__ B,
                         float* __restrict__ C, float* __restrict__ workspace, const Epilogue& more) {
  int4Stream<T>(items, table, A, B, C, workspace, more, 64, sumPanels<T>);
}
