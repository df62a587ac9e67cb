// How a thread group that makes the items of a ragged plan (ragged.cuh) orders groups, longest K first,
// counts their tiles, and deals these to workers.
#pragma once

#include "items.cuh"

constexpr uint32_t kChunk = 32;  // entries that are ordered together
constexpr uint32_t kNoKey = 255;

// up is n / 2^shift, rounded up.
BG_DEVICE uint32_t up(uint32_t n, uint32_t shift) { return (n + (1u << shift) - 1) >> shift; }

// Deal gives tiles to workers, forth and back, since the longest come first.
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

// Single is what a thread group knows of entries: groups, and one more for rows after the last that are
// filled. It has a thread for each.
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
    const uint32_t pair = pairs[t], first = pair & 0xffff;
    const uint32_t before = sumBefore<kThreads>(sums[0], first + (pair >> 16));
    pairs[t] = before | (before + first) << 16;
    barrier();
    if (t == 0 && bounds.kernels > 1) found.second = counts[bounds.bins * kChunks];
    return key != kNoKey ? counts[cell] + same.before : 0;
  }
};

// Many is the same for any number of entries, of which chunks are sorted by themselves.
template <uint32_t kThreads_>
struct Many {
  static constexpr uint32_t kThreads = kThreads_, kMost = (kMaxGroups + 1 + kChunk - 1) / kChunk * kChunk;
  static constexpr uint32_t kChunks = kMost / kChunk;

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

  // Range is a thread's share of so many things that follow each other.
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
    const uint32_t t = threadId(), bins = bounds.bins, kernels = bounds.kernels;
    const uint32_t chunks = up(bounds.entries, 5), cells = bins * kernels * chunks;
    const uint32_t end = (bounds.entries + kThreads - 1) / kThreads * kThreads;  // the same for all threads
#pragma unroll 1
    for (uint32_t e = t; e < end; e += kThreads) {
      const uint32_t key = e < chunks * kChunk ? keys[e] : kNoKey;
      const Alike same = alike(scratch, key);
      if (key != kNoKey && same.before + 1 == same.all) {
        counts[key * chunks + e / kChunk] = static_cast<uint16_t>(same.all);
      }
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
