// Kernels of 9.0 for B of 4 bits with scales of groups: as int4.cuh, but a loader brings what other warps
// multiply, as in wgmma_aligned.cuh, and goes on while they store. Of a panel each tile has one piece of
// memory, which is copied as a whole.
//
// Of few rows of A (StreamTile) warps multiply as those of int4.cuh do. Of more (PanelTile) warpgroups do: B
// is the operand in registers, 64 of its columns are the rows of a product, and rows of A its columns, which
// the tensor cores take from where the loader copies them, swizzled as in wgmma_aligned.cuh. Such a product
// takes 13 cycles of 8 or 16 rows, 16 of 32, and that of a warp 6 for 8 rows (H200).
#pragma once

#include "wgmma_int4_load.cuh"

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

  // read makes the operands of four products of a panel, of 16 k's, of the lane's two columns r, of words
  // that convert gets four at a time, as half q of a panel's, with the number of its own.
  template <class Convert>
  BG_DEVICE void read(uint32_t (&x)[4][4], const char* panel, Convert convert) const {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
#pragma unroll
      for (int q = 0; q < 2; ++q) {
        const uint4 words = *reinterpret_cast<const uint4*>(panel + 32 * (column + 8 * r) + 16 * q);
        const uint32_t of[4] = {words.x, words.y, words.z, words.w};
#pragma unroll
        for (int i = 0; i < 4; ++i) x[2 * q + i / 2][r + 2 * (i % 2)] = convert(of, i, r, q);
      }
    }
  }

  // readScaled is read of weights of e2m1, times the scales in the words of their columns.
  template <Weights kOf>
  BG_DEVICE void readScaled(uint32_t (&x)[4][4], const char* panel, const uint32_t (&word)[2]) const {
    using Of = E2M1<Format>;
    constexpr bool kE8M0 = kOf == Weights::mxfp4;
    const uint32_t which = Of::whichOf(member), turn = settled(Of::turnOf(member));
    read(x, panel, [&](const uint32_t (&of)[4], int i, int r, int q) {
      const uint32_t both = Of::both(of[i & ~1], of[i | 1], which, turn);
      return Of::pair(both, 2 * (i % 2) + 1, !kE8M0 ? Of::ofE4M3(word[r], 2 * q + i / 2) : Of::kWide ?
          Of::ofE8M0(Of::twice(word[r], q)) : Of::kOne);
    });
    if (kE8M0 && Of::kWide && warpAny(((word[0] | word[1]) & 0x8080) != 0)) {
#pragma unroll
      for (int i = 0; i < 16; ++i) x[i / 4][i % 4] = Format::times(x[i / 4][i % 4],
          Of::restOfE8M0(Of::twice(word[i % 2], i / 8)));
    }
  }

  // groupWord is the word of a group of column r, of panel h where it has one.
  BG_DEVICE uint32_t groupWord(const char* stage, uint32_t h, int r) const {
    return *reinterpret_cast<const uint32_t*>(stage + T::kGroups + 4 * (T::TN * h + column + 8 * r));
  }

  // eachStep calls for the steps of an item, with the stage and what is left of K.
  template <class Step>
  BG_DEVICE void eachStep(Stages<T>& stages, uint32_t depth, Step step) const {
#pragma unroll 1
    for (;;) {
      stages.wait();
      fenceStores();  // copies of A were another's
      const uint32_t at = uniform(stages.stage.at) * T::kStage;
      step(at, memory + at, depth);
      stages.release(stages.stage.at);
      stages.stage.next();
      if (depth <= T::TK) break;
      depth -= T::TK;
    }
  }

  // makePanel makes the operands of panel h of a stage.
  template <Weights kOf>
  BG_DEVICE void makePanel(uint32_t (&x)[4][4], const char* stage, int h, uint32_t left) const {
    constexpr bool kE8M0 = kOf == Weights::mxfp4;
    uint32_t word[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      word[r] = kE8M0 ? groupWord(stage, 0, r) >> 16 * h : groupWord(stage, h, r);
      if (kE8M0 && h == 1 && left <= 64) word[r] = 0;  // products of a panel that does not exist are 0
    }
    readScaled<kOf>(x, stage + T::kPanels + T::kPanel * h, word);
  }

  // startPanel starts the products of a panel, kFirst from zero.
  template <bool kFirst, int n>
  BG_DEVICE void startPanel(float (&sum)[n], const uint32_t (&x)[4][4], uint64_t b) const {
    fenceProducts();
    product<kFirst>(Format{}, sum, x[0], b);
#pragma unroll
    for (int s = 1; s < 4; ++s) product<false>(Format{}, sum, x[s], b + 2 * s);
    commitProducts();
  }

  // multiplyScaled is multiply of weights of e2m1 as numbers times their scales.
  template <Weights kOf, int n>
  BG_DEVICE void multiplyScaled(float (&sum)[n], Stages<T>& stages, uint32_t depth) const {
    const uint64_t a = matrixB(stages.shared);
    eachStep(stages, depth, [&](uint32_t at, const char* stage, uint32_t left) {
      const uint64_t first = a + (at >> 4), second = a + ((at + T::kBlock) >> 4);
      uint32_t x[2][4][4];
      makePanel<kOf>(x[0], stage, 0, left);
      if constexpr (T::kMinGroups == 1) {
        startPanel<false>(sum, x[0], first);
        makePanel<kOf>(x[1], stage, 1, left);  // while tensor cores multiply
        startPanel<false>(sum, x[1], second);
        waitProducts<0>();
        settle(sum);
      } else {  // registers are few: those of the tensor cores' sums are needed for others
        float part[n];
        makePanel<kOf>(x[1], stage, 1, left);
        startPanel<true>(part, x[0], first);
        startPanel<false>(part, x[1], second);
        waitProducts<0>();
        settle(part);
#pragma unroll
        for (int i = 0; i < n; ++i) sum[i] += part[i];
      }
    });
  }

  // multiplyApart is multiply of weights of MXFP4 of which 32 k's are summed from zero.
  template <int n>
  BG_DEVICE void multiplyApart(float (&sum)[n], Stages<T>& stages, uint32_t depth) const {
    const uint64_t a = matrixB(stages.shared);
    eachStep(stages, depth, [&](uint32_t at, const char* stage, uint32_t left) {
#pragma unroll 1
      for (uint32_t h = 0; h < (left > 64 ? 2 : 1); ++h) {
        const uint32_t word[2] = {groupWord(stage, 0, 0) >> 16 * h, groupWord(stage, 0, 1) >> 16 * h};
        uint32_t x[4][4];
        readScaled<Weights::mxfp4>(x, stage + T::kPanels + T::kPanel * h, word);
        const uint64_t b = a + ((at + T::kBlock * h) >> 4);
#pragma unroll
        for (int q = 0; q < 2; ++q) {
          float part[n];
          fenceProducts();
          product<true>(Format{}, part, x[2 * q], b + 4 * q);
          product<false>(Format{}, part, x[2 * q + 1], b + 4 * q + 2);
          commitProducts();
          add(sum, part, {numberE8M0(byteOf(word[0], q)), numberE8M0(byteOf(word[1], q))});
        }
      }
    });
  }

  // add adds products, when they are there, times the scales of the lane's two columns.
  template <int n>
  BG_DEVICE void add(float (&sum)[n], float (&part)[n], const float (&scale)[2]) const {
    waitProducts<0>();
    settle(part);
#pragma unroll
    for (int i = 0; i < n; ++i) sum[i] = fmaf(scale[i / 2 % 2], part[i], sum[i]);
  }

  // multiplyOf is multiply of an item of any weights.
  template <int n>
  BG_DEVICE void multiplyOf(const Epilogue& more, float (&sum)[n], Stages<T>& stages, uint32_t depth) const {
    // what weights of e2m1 need is not kept where others are multiplied
    const PanelConsumer apart{memory, settled(column), settled(member)};
    if (more.has(kGroups32)) {
      if constexpr (!E2M1<Format>::kWide) apart.multiplyApart(sum, stages, depth);
      else apart.template multiplyScaled<Weights::mxfp4>(sum, stages, depth);
    } else if (more.has(kGroups16)) {
      apart.template multiplyScaled<Weights::nvfp4>(sum, stages, depth);
    } else if (more.has(kGroups64)) {
      multiply<true>(sum, stages, depth);
    } else {
      multiply<false>(sum, stages, depth);
    }
  }

  // multiply sums an item of 2n rows. While a panel is read tensor cores multiply the one before it; other
  // warps do so while a stage is added.
  template <bool kBy64, int n>
  BG_DEVICE void multiply(float (&sum)[n], Stages<T>& stages, uint32_t depth) const {
    // panels that are summed apart, and at once: for those of more rows there are no registers
    constexpr int kSums = kBy64 ? 2 : 1, kParts = n > 32 ? 1 : kSums;
    const uint64_t a = matrixB(stages.shared);
    eachStep(stages, depth, [&](uint32_t at, const char* stage, uint32_t) {
      float part[kParts][n], scale[kSums][2];
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
      for (int h = 0; h < 2; ++h) {
        read(x[h], stage + T::kPanels + T::kPanel * h, [&](const uint32_t (&of)[4], int i, int r, int) {
          return Format::weights(of[i] >> 4 * member, minus[h % kSums][r]);
        });
        const uint64_t b = a + ((at + T::kBlock * h) >> 4);
        if (h < kSums) startPanel<true>(part[h % kParts], x[h], b);
        else startPanel<false>(part[0], x[h], b);
        if (kParts < kSums) add(sum, part[0], scale[h]);
      }
#pragma unroll
      for (int h = 0; h < kSums && kParts == kSums; ++h) add(sum, part[h], scale[h]);
    });
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
  if (warp.rows <= T::TM / 2) {
    float sum[T::TM / 4];
    compute(sum);
  } else {
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
      initPhases(shared + L::kFull + 8 * i, 32 * T::kFillers);
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
    if constexpr (T::kMoves) lowerRegisters<T::kLoaderRegisters>();
    if (warp >= T::kMultiply + T::kFillers) return;
    const auto* const a = reinterpret_cast<const uint16_t*>(A);
    const auto* const b = reinterpret_cast<const uint32_t*>(B);
    if (isDynamic(table)) loadInt4<T, true>(ring, feed, a, b, sharedAddress(memory));
    else loadInt4<T, false>(ring, feed, a, b, sharedAddress(memory));
    launch.loaded();
  } else {
    if constexpr (T::kMoves) raiseRegisters<T::kConsumerRegisters>();
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
