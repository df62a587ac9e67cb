// The kernels that make the items of a ragged plan (internal/encoding/ragged.go has the
// words), from sizes that are on the device: they refuse what does not fit, choose a tile
// shape for each group, order groups, longest K first, count tiles, and write items and
// tables. Each thread group does all but the writing for itself, in shared memory, because
// a second launch takes longer than that; so all that they find must be the same: sums
// are of integers, and the order is stable. Most of the time goes into waiting for memory
// and for instructions that are new, so that there is a kernel for each form.
#pragma once

#include "bounds.cuh"
#include "../dialect.h"
#include "items.cuh"

constexpr uint32_t kChunk = 32;  // entries that are ordered together
constexpr uint32_t kNoKey = 255;
constexpr uint32_t kOne = 0x3f800000;  // bits of 1

// up is n / 2^shift, rounded up.
BG_DEVICE uint32_t up(uint32_t n, uint32_t shift) { return (n + (1u << shift) - 1) >> shift; }

// depthOf is the K that is multiplied: none where alpha is 0, of either sign.
BG_DEVICE uint32_t depthOf(const Record& r) { return r.alpha << 1 == 0 ? 0 : r.k; }

// within reports whether rows x cols elements of a matrix lie in so many.
BG_DEVICE bool within(uint32_t off, uint32_t ld, uint32_t rows, uint32_t cols, uint32_t length) {
  return ld >= cols && ld <= 0x7fffffff && static_cast<uint64_t>(rows - 1) * ld + off + cols <= length;
}

// tilesOf is the number of tiles of a group, of the kernel's shape. An epilogue changes C = 1 * C too.
template <bool kDressed>
BG_DEVICE uint32_t tilesOf(const RaggedKernel& k, const Record& r) {
  if (r.m == 0 || r.n == 0 || (!kDressed && depthOf(r) == 0 && r.beta == kOne)) return 0;
  return up(r.m, k.tm) * up(r.n, k.tn);
}

BG_DEVICE uint32_t stepsOf(const RaggedKernel& k, const Record& r) { return max(up(depthOf(r), k.tk), 1u); }

// work predicts what tiles of a group take of a saturated compute unit.
template <bool kDressed>
BG_DEVICE float work(const RaggedKernel& k, const Record& r) {
  return static_cast<float>(tilesOf<kDressed>(k, r)) * (static_cast<float>(stepsOf(k, r)) * __uint_as_float(k.step) + __uint_as_float(k.worker));
}

// Deal gives tiles to workers, in turn forth and back, since the longest come first.
struct Deal {
  uint32_t first, tiles, workers;  // first: tiles of the kernel before

  // rounds are those that all workers have.
  BG_DEVICE uint32_t rounds() const { return tiles < workers ? 0 : tiles / workers; }

  // before is the number of tiles of workers before one.
  BG_DEVICE uint32_t before(uint32_t worker) const {
    const uint32_t n = rounds(), rest = tiles - n * workers;
    return first + worker * n + (n % 2 == 0 ? min(worker, rest) : worker - min(worker, workers - rest));
  }
  // place is where the item of a tile goes.
  BG_DEVICE uint32_t place(uint32_t tile) const {
    if (tiles <= workers) return tile;
    const uint32_t round = (tile - first) / workers, turn = tile - first - round * workers;
    return before(round % 2 == 0 ? turn : workers - 1 - turn) + round;
  }
};

// Verdict is what a thread group finds of all groups together.
struct Verdict {
  uint32_t refused;  // the first group that does not fit, or as many as can be
  uint32_t filled;   // tiles, as groups would choose
  uint32_t rows[2];  // of all records, the lower 16 bits of each and the others
  uint32_t second;   // rank of the first entry of the second kernel, or as many as can be
};

// Single is what a thread group knows of entries, groups and one more for rows behind the last that are filled,
// where it has a thread for each.
template <uint32_t kThreads_>
struct Single {
  static constexpr uint32_t kThreads = kThreads_, kMost = kThreads, kChunks = kThreads / kChunk;
  struct Own {
    uint32_t key, tiles;
  };

  Bounds bounds;
  Verdict found;
  uint32_t sums[2][sumWords(kThreads)];
  union {
    uint16_t counts[kRaggedKeys * kChunks];  // entries of a key and chunk, then those before
    uint32_t pairs[kThreads];                // two of them
  };
  uint32_t starts[kMost + 1];  // tiles of a rank, then those before it
  uint16_t order[kMost];       // entry of each rank
  uint8_t scratch[kThreads];   // of alike

  BG_DEVICE void clear() { pairs[threadId()] = 0; }

  BG_DEVICE void note(Own& own, uint32_t, uint32_t key, uint32_t tiles) { own = {key, tiles}; }

  BG_DEVICE void arrange(const Own& own) {
    const uint32_t e = threadId(), entries = bounds.entries;
    const uint32_t rank = bounds.bins * bounds.kernels > 1 ? rankOf(own.key) : e;
    if (e < entries) {
      starts[rank] = own.tiles;
      order[rank] = static_cast<uint16_t>(e);
    }
    barrier();
    const uint32_t tiles = e < entries ? starts[e] : 0, before = sumBefore<kThreads>(sums[1], tiles);
    if (e < entries) starts[e] = before;
    if (e + 1 == entries) starts[entries] = before + tiles;
    barrier();
  }

  // rankOf sorts the entries by their keys.
  BG_DEVICE uint32_t rankOf(uint32_t key) {
    const uint32_t t = threadId();
    const uint32_t cell = key * kChunks + t / kChunk;
    const Alike same = alike(scratch, key);
    if (key != kNoKey && same.before + 1 == same.all) counts[cell] = static_cast<uint16_t>(same.all);
    barrier();
    const uint32_t pair = pairs[t], first = pair & 0xffff, before = sumBefore<kThreads>(sums[0], first + (pair >> 16));
    pairs[t] = before | (before + first) << 16;
    barrier();
    if (t == 0 && bounds.kernels > 1) found.second = counts[bounds.bins * kChunks];
    return key != kNoKey ? counts[cell] + same.before : 0;
  }
};

// Many is the same for any number of entries, of which chunks are sorted by themselves.
template <uint32_t kThreads_>
struct Many {
  static constexpr uint32_t kThreads = kThreads_, kMost = (kMaxGroups + 1 + kChunk - 1) / kChunk * kChunk, kChunks = kMost / kChunk;

  Bounds bounds;
  Verdict found;
  uint32_t sums[2][sumWords(kThreads)];
  uint32_t tiles[kMost];  // of each entry
  union {
    uint16_t counts[kRaggedKeys * kChunks];  // entries of a key and chunk, then those before
    uint32_t starts[kMost];                  // tiles before a rank
  };
  uint16_t order[kMost];      // entry of each rank
  uint8_t keys[kMost];        // of each entry
  uint8_t scratch[kThreads];  // of alike

  struct Own {};

  // clear forgets counts.
  BG_DEVICE void clear() {
    const uint32_t cells = bounds.bins * bounds.kernels * up(bounds.entries, 5);
#pragma unroll 1
    for (uint32_t i = threadId(); i < cells; i += kThreads) counts[i] = 0;
  }

  BG_DEVICE void note(Own&, uint32_t entry, uint32_t key, uint32_t n) {
    keys[entry] = static_cast<uint8_t>(key);
    tiles[entry] = n;
    order[entry] = static_cast<uint16_t>(entry);
  }

  // Range is a thread's share of so many things that lie one behind the other.
  struct Range {
    uint32_t first, end;
    BG_DEVICE explicit Range(uint32_t n) {
      const uint32_t share = (n + kThreads - 1) / kThreads;
      first = min(threadId() * share, n);
      end = min(first + share, n);
    }
  };

  BG_DEVICE void arrange(const Own&) {
    if (bounds.bins * bounds.kernels > 1) sort();
    count();
  }

  BG_DEVICE void sort() {
    const uint32_t t = threadId(), bins = bounds.bins, kernels = bounds.kernels, chunks = up(bounds.entries, 5), cells = bins * kernels * chunks;
    const uint32_t end = (bounds.entries + kThreads - 1) / kThreads * kThreads;  // the same for all threads
#pragma unroll 1
    for (uint32_t e = t; e < end; e += kThreads) {
      const uint32_t key = e < chunks * kChunk ? keys[e] : kNoKey;
      const Alike same = alike(scratch, key);
      if (key != kNoKey && same.before + 1 == same.all) counts[key * chunks + e / kChunk] = static_cast<uint16_t>(same.all);
    }
    barrier();
    const Range mine(cells);
    uint32_t sum = 0;
#pragma unroll 1
    for (uint32_t i = mine.first; i < mine.end; ++i) sum += counts[i];
    sum = sumBefore<kThreads>(sums[0], sum);
#pragma unroll 1
    for (uint32_t i = mine.first; i < mine.end; ++i) {
      const uint32_t n = counts[i];
      counts[i] = static_cast<uint16_t>(sum);
      sum += n;
    }
    barrier();
#pragma unroll 1
    for (uint32_t e = t; e < end; e += kThreads) {
      const uint32_t key = e < chunks * kChunk ? keys[e] : kNoKey;
      const Alike same = alike(scratch, key);
      if (key != kNoKey) order[counts[key * chunks + e / kChunk] + same.before] = static_cast<uint16_t>(e);
    }
    if (t == 0 && kernels > 1) found.second = counts[bins * chunks];
    barrier();
  }

  // count finds the tiles before each rank.
  BG_DEVICE void count() {
    const uint32_t entries = bounds.entries;
    const Range mine(entries);
    uint32_t sum = 0;
BG_ONE_BY_ONE  // two of the order are a word that may begin in the middle of one
    for (uint32_t r = mine.first; r < mine.end; ++r) sum += tiles[order[r]];
    sum = sumBefore<kThreads>(sums[1], sum);
#pragma unroll 1
    for (uint32_t r = mine.first; r < mine.end; ++r) {
      starts[r] = sum;
      sum += tiles[order[r]];
    }
    if (mine.first < mine.end && mine.end == entries) starts[entries] = sum;
    barrier();
  }
};

// Ends are where a group begins and ends.
struct Ends {
  uint32_t first, end;
};

// Sizes are what the buffer of sizes has of an entry, in each of its forms.
template <uint32_t kForm>
struct Form {
  using Sizes = Ends;
};
template <>
struct Form<kRecords> {
  using Sizes = Record;
};

// NoDress is in the place of RaggedEpilogue (ragged_epilogue.cuh).
struct NoDress {
  static constexpr bool kIs = false;
  BG_DEVICE uint32_t products() const { return 1; }
  BG_DEVICE void start(const uint32_t*) {}
  BG_DEVICE Record recordOf(const uint32_t* sizes, uint32_t entry) const { return recordAt(reinterpret_cast<const uint4*>(sizes), entry); }
  BG_DEVICE uint32_t storedA(uint32_t rows) const { return rows; }
  BG_DEVICE uint32_t storedC(uint32_t rows) const { return rows; }
  BG_DEVICE bool fits(const uint32_t*, uint32_t, const Record&, const Bounds&) const { return true; }
};

// Ragged makes items from sizes of a form. Plan is Single or Many.
template <uint32_t kForm, class Plan, class More = NoDress>
struct Ragged {
  static constexpr uint32_t kThreads = Plan::kThreads;
  using Sizes = typename Form<kForm>::Sizes;

  Plan& plan;
  const uint32_t* sizes;
  uint32_t extent;  // of the bound, how much is there; 0: all
  typename Plan::Own own;
  More more;

  // bound is the most that ends may be.
  BG_DEVICE uint32_t bound() const { return extent != 0 ? extent : kForm == kEndsOfRows ? plan.bounds.m : plan.bounds.k; }

  // sizesAt are the sizes of an entry. That behind the groups begins where the last one ends that is not refused.
  BG_DEVICE Sizes sizesAt(uint32_t entry) const {
    if constexpr (kForm == kRecords) {
      return more.recordOf(sizes, entry);
    } else {
      const bool group = entry < plan.bounds.groups;
      const uint32_t next = group ? entry : min(entry, plan.found.refused);
      return {next == 0 ? 0 : sizes[next - 1], group ? sizes[entry] : bound()};
    }
  }

  // fills reports whether an entry is C that no group computes: rows behind the last one, or all of a group of depth that
  // is refused.
  BG_DEVICE bool fills(uint32_t entry) const {
    if (kForm == kEndsOfRows) return entry == plan.bounds.groups;
    return kForm == kEndsOfDepth && entry >= plan.found.refused && plan.bounds.rest != kOne;
  }

  // groupOf is the problem of an entry, right if its sizes fit.
  BG_DEVICE Record groupOf(const Sizes& at, uint32_t entry) const {
    if constexpr (kForm == kRecords) {
      return at;
    } else {
      const Bounds& b = plan.bounds;
      Record r = {b.m, b.n, b.k, b.lda, b.ldb, b.ldc, b.offA, b.offB, b.offC, b.alpha, b.beta, 0};
      if (kForm == kEndsOfRows) {
        r.m = at.end - at.first;
        r.offC += at.first * b.ldc;
      } else {
        r.k = at.end - at.first;
        r.offC += entry * b.stride;
      }
      if (fills(entry)) {
        r.alpha = 0;
        r.beta = b.rest;
      } else if (kForm == kEndsOfRows) {
        r.offA += at.first * (b.transA != 0 ? 1 : b.lda);
        r.offB += entry * b.stride;
      } else {
        r.offA += at.first * (b.transA != 0 ? b.lda : 1);
        r.offB += at.first * (b.transB != 0 ? 1 : b.ldb);
      }
      return r;
    }
  }

  // fits reports whether the sizes of a group keep to the bounds.
  BG_DEVICE bool fits(const Sizes& at, uint32_t entry) const {
    const Bounds& b = plan.bounds;
    if constexpr (kForm == kRecords) {
      if (at.m > b.m || at.n > b.n || at.k > b.k) return false;
      if (at.m == 0 || at.n == 0) return true;
      const bool transA = b.transA != 0, transB = b.transB != 0;
      const bool inA = within(at.offA, at.lda, more.storedA(transA ? at.k : at.m), transA ? at.m : at.k, b.lenA);
      const bool inB = within(at.offB, at.ldb, transB ? at.n : at.k, transB ? at.k : at.n, b.lenB);
      return (depthOf(at) == 0 || (inA && inB)) && within(at.offC, at.ldc, more.storedC(at.m), at.n, b.lenC) && more.fits(sizes, entry, at, b);
    } else {
      return at.first <= at.end && at.end <= bound();
    }
  }

  // refuse finds the first group that does not fit, by its own sizes or, of records, because there are more rows than
  // the bound with it.
  BG_DEVICE void refuse() {
    uint32_t low = 0, high = 0;
#pragma unroll 1
    for (uint32_t g = threadId(); g < plan.bounds.groups; g += kThreads) {
      const Sizes at = sizesAt(g);
      if (!fits(at, g)) {
        lowerShared(&plan.found.refused, g);
      } else if constexpr (kForm == kRecords) {
        low += at.m & 0xffff;
        high += at.m >> 16;
      }
    }
    if (kForm == kRecords) {
      addShared(&plan.found.rows[0], low);
      addShared(&plan.found.rows[1], high);
    }
    barrier();
    if constexpr (kForm == kRecords) {
      if (plan.found.rows[0] + static_cast<uint64_t>(plan.found.rows[1]) * 65536 > plan.bounds.m) limitRows();
    }
  }

  // choose finds keys and tiles of all entries. Where these are few in all, it chooses again, the second kernel for each.
  BG_DEVICE void choose() {
    const uint32_t entries = plan.bounds.entries, bins = plan.bounds.bins, kernels = plan.bounds.kernels;
    const uint32_t end = up(entries, 5) * kChunk;
    plan.note(own, threadId(), kNoKey, 0);
    bool all = false;
    do {
      uint32_t filled = 0;
#pragma unroll 1
      for (uint32_t e = threadId(); e < end; e += kThreads) {
        uint32_t key = kNoKey, tiles = 0;
        if (e < entries) {
          key = bins - 1;
          if (e < plan.found.refused || fills(e)) {
            const Record r = groupOf(sizesAt(e), e);
            const bool second = kernels > 1 && (all || work<More::kIs>(plan.bounds.tile[1], r) < work<More::kIs>(plan.bounds.tile[0], r));
            const RaggedKernel& k = plan.bounds.tile[second ? 1 : 0];
            tiles = tilesOf<More::kIs>(k, r);
            if (bins > 1) key -= min(stepsOf(k, r) >> k.shift, bins - 1);
            if (second) key += bins;
          }
        }
        plan.note(own, e, key, tiles);
        filled += tiles;
      }
      if (kernels == 1 || all) break;
      addShared(&plan.found.filled, filled);
      barrier();
      all = plan.found.filled < plan.bounds.fill;
    } while (all);
    barrier();
  }

  // limitRows refuses the first record with which there are more rows than the bound, where
  // there is one.
  BG_DEVICE void limitRows() {
    if (threadId() == 0) {
      uint64_t rows = 0;
#pragma unroll 1
      for (uint32_t g = 0; g < plan.bounds.groups && g < plan.found.refused; ++g) {
        rows += sizesAt(g).m;
        if (rows > plan.bounds.m) plan.found.refused = g;
      }
    }
    barrier();
  }

  // dealOf is how a kernel's tiles are dealt.
  BG_DEVICE Deal dealOf(uint32_t kernel) const {
    const uint32_t entries = plan.bounds.entries, workers = plan.bounds.tile[kernel].workers, all = plan.starts[entries];
    uint32_t first = 0, tiles = all;
    if (plan.bounds.kernels > 1) {
      const uint32_t split = plan.starts[min(plan.found.second, entries)];
      first = kernel == 0 ? 0 : split;
      tiles = kernel == 0 ? split : all - split;
    }
    return {first, tiles, workers};
  }

  // rankOf is the rank of a tile's group: the last that begins there or before.
  BG_DEVICE uint32_t rankOf(uint32_t tile) const {
    uint32_t low = 0, high = plan.bounds.entries;
    while (high - low > 1) {
      const uint32_t middle = (low + high) / 2;
      if (plan.starts[middle] <= tile) low = middle;
      else high = middle;
    }
    return low;
  }

  // itemOf is the item of a tile of a group, from a row and a column on.
  BG_DEVICE Item itemOf(const RaggedKernel& k, const Record& r, uint32_t row, uint32_t col) const {
    const Bounds& b = plan.bounds;
    const uint32_t depth = depthOf(r);
    const uint32_t rows = min(r.m - row, 1u << k.tm), cols = min(r.n - col, 1u << k.tn);
    const bool wide = ((r.offA | r.lda | r.offB | r.ldb) & b.wide) == 0;
    return {r.offA + row * (b.transA != 0 ? 1 : r.lda), r.offB + col * (b.transB != 0 ? r.ldb : 1), r.offC + row * r.ldc + col, depth,
            r.lda, r.ldb, r.ldc, extentOf(rows, cols), depth == 0 ? 0 : r.alpha, r.beta, kFinal, (wide ? kItemVector : 0) | b.flags};
  }

  BG_DEVICE void run(uint32_t* words) {
    const uint32_t t = threadId();
    for (uint32_t i = t; i < sizeof(Bounds) / 4; i += kThreads) reinterpret_cast<uint32_t*>(&plan.bounds)[i] = words[i];
    if (t == 0) plan.found = {Plan::kMost, 0, {0, 0}, Plan::kMost};
    more.start(words + sizeof(Bounds) / 4);
    barrier();
    plan.clear();
    refuse();
    choose();
    if (workerId() == 0 && t == 0 && plan.found.refused < plan.bounds.groups && words[kStatusWord] == 0) words[kStatusWord] = plan.found.refused + 1;
    plan.arrange(own);
    write(words);
  }

  // storeDynamic makes a dynamic table.
  static BG_DEVICE void storeDynamic(uint32_t* table, uint32_t first, uint32_t tiles, uint32_t workers, uint32_t chunk) {
    static_assert(kDynamicNext == 0 && kDynamicEnd == 1 && kDynamicFirst == 2 && kDynamicChunk == 3 && kDynamicLast == 4, "other words");
    *reinterpret_cast<uint4*>(table) = {0, first + tiles, first + workers * chunk, chunk};
    table[kDynamicLast] = 0xffffffff;  // each run makes the table anew
  }

  // write writes tables and items. 32 adjacent threads have adjacent tiles, and thread groups
  // as many as each other.
  BG_DEVICE void write(uint32_t* words) const {
    const uint32_t t = threadId(), makers = plan.bounds.makers, self = (t / 32 * makers + workerId()) * 32 + t % 32;
    for (uint32_t kernel = 0; kernel < plan.bounds.kernels; ++kernel) {
      const Deal deal = dealOf(kernel);
      uint32_t* const table = words + plan.bounds.tile[kernel].table;
      if (plan.bounds.tile[kernel].chunk != 0) {
        if (self == 0) storeDynamic(table, deal.first, deal.tiles, deal.workers, plan.bounds.tile[kernel].chunk);
        continue;
      }
#pragma unroll 1
      for (uint32_t w = self; w <= deal.workers; w += makers * kThreads) table[w] = more.products() * deal.before(w);
    }
#pragma unroll 1
    for (uint32_t tile = self; tile < plan.starts[plan.bounds.entries]; tile += makers * kThreads) {
      const uint32_t rank = rankOf(tile), kernel = rank < plan.found.second ? 0 : 1, entry = plan.order[rank];
      const RaggedKernel& k = plan.bounds.tile[kernel];
      const Sizes at = sizesAt(entry);
      const Record r = groupOf(at, entry);
      const uint32_t number = tile - plan.starts[rank], across = up(r.n, k.tn), down = across == 1 ? number : number / across;
      const uint32_t row = down << k.tm, col = (number - down * across) << k.tn;
      const Item item = itemOf(k, r, row, col);
      const uint32_t place = plan.bounds.tile[kernel].chunk != 0 ? tile : dealOf(kernel).place(tile);
      uint4* const items = reinterpret_cast<uint4*>(words + plan.bounds.items);
      if constexpr (More::kIs) more.store(items, place, item, plan.bounds, r, sizes, at, entry, row, col);
      else storeItem(items, place, item);
    }
  }
};

template <uint32_t kForm, class Plan>
BG_DEVICE void ragged(const uint32_t* sizes, uint64_t extent, uint32_t* words) {
  BG_SHARED(Plan, memory, 1);
  Ragged<kForm, Plan>{memory[0], sizes, static_cast<uint32_t>(extent), {}, {}}.run(words);
}
