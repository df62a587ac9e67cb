// The steps of a layer of experts beside its products. A router chose topK experts for each token. route
// makes of these numbers what a ragged program takes: where the rows of each expert end, and lists of rows,
// in the order of their choices. combine sums the rows of each token.
//
// A thread group of route counts all choices for itself, in shared memory, as those do that make items
// (ragged.cuh), and then places its share of them. So one launch does it, and nobody waits. Groups take
// rounds of choices, at most one for each thread. Threads of 32 find their equals among each other, and cells
// of shared memory say how many choices of an expert each section, 32 choices, has. Where there are many
// experts, fewer sections have cells: rounds are shorter.
//
// Numbers come as parameters, because items would be one load more before the first choice is loaded.
#pragma once

#include "../dialect.h"
#include "../element/bits16.cuh"
#include "load.cuh"

constexpr uint32_t kRouteThreads = 1024, kRouteCells = 8192, kRouteExperts = 4096, kSection = 32;
constexpr uint32_t kCombineThreads = 256, kCombineAhead = 8;

// Choices are those of a run. Experts' numbers have 32 bits, or with kLong 64. A number that is none of an
// expert's does not count.
template <bool kLong>
struct Choices {
  static constexpr uint32_t kPer = kLong ? 2 : 4;  // numbers of a vector
  const void* index;
  uint32_t bound, tokens, experts, topK;  // bound: tokens at most

  // shape is encoding.Layer.Shape; extent is how many tokens there are, 0: all.
  BG_DEVICE Choices(const void* index_, uint64_t shape, uint64_t extent) : index(index_),
      bound(static_cast<uint32_t>(shape)),
      tokens(extent != 0 ? static_cast<uint32_t>(extent) : static_cast<uint32_t>(shape)),
      experts(static_cast<uint32_t>(shape >> 32) & 0xffff), topK(static_cast<uint32_t>(shape >> 48)) {}

  BG_DEVICE uint32_t count() const { return tokens * topK; }
  BG_DEVICE uint32_t vectors() const { return (count() + kPer - 1) / kPer; }
  BG_DEVICE uint4 vector(uint32_t v) const { return static_cast<const uint4*>(index)[v]; }

  // expertOf is the number in a vector, or one from `experts` on for one that does not count.
  BG_DEVICE uint32_t expertOf(const uint4& v, uint32_t at) const {
    if constexpr (kLong) return at == 0 ? checked(v.x, v.y) : checked(v.z, v.w);
    return at == 0 ? v.x : at == 1 ? v.y : at == 2 ? v.z : v.w;
  }
  BG_DEVICE uint32_t expert(uint32_t i) const {
    const uint32_t* const words = static_cast<const uint32_t*>(index);
    const size_t at = i;
    if constexpr (kLong) return checked(words[2 * at], words[2 * at + 1]);
    return words[at];
  }
  static BG_DEVICE uint32_t checked(uint32_t low, uint32_t high) { return high == 0 ? low : ~0u; }
};

// Routing is the shared memory of a thread group of route.
struct Routing {
  uint32_t starts[kRouteExperts];  // choices of an expert before the group's, then the places of their rows
  union {
    uint32_t rest[kRouteExperts];  // its other choices
    uint16_t cells[kRouteCells];   // of a round, by section and expert: its choices in this section and later
  };
  uint32_t sums[sumWords(kRouteThreads)];
  uint16_t scratch[kRouteThreads];  // of alike
};

// Router is a thread of route.
template <bool kLong, class Element>
struct Router {
  Routing& own;
  const Choices<kLong> choices;
  const typename Element::Number* weights;
  uint32_t* out;              // encoding.Layer.Routed words
  uint32_t groups, sections;  // of the launch, of a round

  // sectionsOf is how many a round has: all of a group's, if they fit.
  static BG_DEVICE uint32_t sectionsOf(const Choices<kLong>& choices, uint32_t groups) {
    const uint32_t most = min(kRouteThreads / kSection, kRouteCells / choices.experts);
    return min(most, (choices.bound * choices.topK - 1) / (groups * kSection) + 1);
  }

  // count counts the choices of each expert, those before the first one of the group apart. A few loads are
  // under way at once.
  BG_DEVICE void count(uint32_t first) {
    constexpr uint32_t kAhead = 4, kPer = Choices<kLong>::kPer;
    const uint32_t n = choices.count(), vectors = choices.vectors();
#pragma unroll 1
    for (uint32_t begin = threadId(); begin < vectors; begin += kAhead * kRouteThreads) {
      uint4 v[kAhead];
#pragma unroll
      for (uint32_t j = 0; j < kAhead; ++j) {
        const uint32_t at = begin + j * kRouteThreads;
        v[j] = choices.vector(at < vectors ? at : begin);
      }
#pragma unroll
      for (uint32_t j = 0; j < kAhead; ++j) {
#pragma unroll
        for (uint32_t c = 0; c < kPer; ++c) {
          const uint32_t at = begin + j * kRouteThreads, i = at * kPer + c, e = choices.expertOf(v[j], c);
          if (at >= vectors || i >= n || e >= choices.experts) continue;
          countShared(i < first ? &own.starts[e] : &own.rest[e]);
        }
      }
    }
  }

  // place turns counts into the places of rows, which one group writes as ends.
  BG_DEVICE void place(bool writes) {
    const uint32_t experts = choices.experts, share = (experts + kRouteThreads - 1) / kRouteThreads;
    const uint32_t from = min(threadId() * share, experts), to = min(from + share, experts);
    uint32_t sum = 0;
#pragma unroll 1
    for (uint32_t e = from; e < to; ++e) sum += own.starts[e] + own.rest[e];
    sum = sumBefore<kRouteThreads>(own.sums, sum);
#pragma unroll 1
    for (uint32_t e = from; e < to; ++e) {
      const uint32_t before = own.starts[e];
      own.starts[e] = sum + before;
      sum += before + own.rest[e];
      if (writes) out[e] = sum;
    }
    barrier();
  }

  // clear makes all cells 0.
  BG_DEVICE void clear() {
    const uint32_t words = (sections * choices.experts + 1) / 2;
#pragma unroll 1
    for (uint32_t i = threadId(); i < words; i += kRouteThreads) own.rest[i] = 0;
    barrier();
  }

  // advance makes of the cells of an expert how many choices of the round are in this section and later, and
  // goes to the places of the next round.
  BG_DEVICE void advance() {
    const uint32_t experts = choices.experts, n = sections * experts;
#pragma unroll 1
    for (uint32_t e = threadId(); e < experts; e += kRouteThreads) {
      uint32_t left = 0;
#pragma unroll 8
      for (uint32_t at = e; at < n; at += experts) left += own.cells[at];
      own.starts[e] += left;
#pragma unroll 8
      for (uint32_t at = e; at < n; at += experts) {
        const uint32_t here = own.cells[at];
        own.cells[at] = static_cast<uint16_t>(left);
        left -= here;
      }
    }
    barrier();
  }

  // Own is the choice of a thread in a round.
  struct Own {
    uint32_t expert;
    float weight;
  };

  // load takes the choice of a round that begins with this one.
  BG_DEVICE Own load(uint32_t first) const {
    const uint32_t i = first + threadId();
    if (threadId() >= sections * kSection || i >= choices.count()) return {~0u, 0};
    return {choices.expert(i), Element::number(weights[i])};
  }

  // round places the choices of a round.
  BG_DEVICE void round(uint32_t first, const Own& mine) {
    const uint32_t t = threadId(), i = first + t, e = mine.expert;
    const bool counts = e < choices.experts;
    const Alike same = alike(own.scratch, counts ? e : 0xffff);
    const uint32_t cell = counts ? t / kSection * choices.experts + e : 0;
    if (counts && same.before + 1 == same.all) own.cells[cell] = static_cast<uint16_t>(same.all);
    barrier();
    advance();
    if (counts) {
      const uint32_t all = choices.bound * choices.topK;
      uint32_t* const row = out + up64(choices.experts) + (own.starts[e] - own.cells[cell] + same.before);
      row[0] = i / choices.topK;
      row[all] = i;
      row[2 * static_cast<size_t>(all)] = __builtin_bit_cast(uint32_t, mine.weight);
    }
  }

  static BG_DEVICE uint32_t up64(uint32_t n) { return (n + 63) & ~63u; }

  // run does the share of a group.
  BG_DEVICE void run() {
    const uint32_t per = sections * kSection, rounds = (choices.count() + per - 1) / per;
    const uint32_t share = (rounds + groups - 1) / groups, first = min(workerId() * share, rounds);
    const uint32_t end = min(first + share, rounds);
    if (first == end && workerId() != 0) return;
    Own mine = load(first * per);  // which takes as long as it takes to count
#pragma unroll 1
    for (uint32_t e = threadId(); e < choices.experts; e += kRouteThreads) own.starts[e] = own.rest[e] = 0;
    barrier();
    count(first * per);
    barrier();
    place(workerId() == 0);
#pragma unroll 1
    for (uint32_t r = first; r < end; ++r) {
      clear();
      round(r * per, mine);
      if (r + 1 < end) mine = load((r + 1) * per);
      barrier();
    }
  }
};

template <bool kLong, class Element>
BG_DEVICE void route(const void* index, const void* weights, uint64_t shape, uint32_t groups, uint64_t extent,
    void* out) {
  BG_SHARED(Routing, memory, 1);
  using Routes = Router<kLong, Element>;
  const Choices<kLong> choices(index, shape, extent);
  Routes{memory[0], choices, static_cast<const typename Element::Number*>(weights),
      static_cast<uint32_t*>(out), groups, Routes::sectionsOf(choices, groups)}.run();
}

// combine sums the rows of a token whose choices count, in their order, in fp32, and rounds once. A thread
// has 16 bytes of a sum, which rows of a multiple of 16 bytes allow to load at once.
template <bool kLong, class Element>
struct Combiner {
  using Number = typename Element::Number;
  static constexpr uint32_t kPer = 16 / sizeof(Number);
  const Choices<kLong> choices;
  const Number* rows;
  Number* out;
  uint32_t hidden;

  // add adds up to kPer numbers of a row, n of them.
  template <bool kWhole>
  BG_DEVICE void add(float (&sum)[kPer], uint32_t first, uint32_t col, uint32_t n) const {
#pragma unroll 1
    for (uint32_t begin = 0; begin < choices.topK; begin += kCombineAhead) {
      Number x[kCombineAhead][kPer];
      bool counts[kCombineAhead];
#pragma unroll
      for (uint32_t j = 0; j < kCombineAhead; ++j) {
        counts[j] = begin + j < choices.topK && choices.expert(first + begin + j) < choices.experts;
        const Number* const row = rows + static_cast<size_t>(first + begin + j) * hidden + col;
        if (counts[j]) load<kWhole>(x[j], row, n);
      }
#pragma unroll
      for (uint32_t j = 0; j < kCombineAhead; ++j) {
        if (!counts[j]) continue;
#pragma unroll
        for (uint32_t c = 0; c < kPer; ++c) {
          if (kWhole || c < n) sum[c] += Element::number(x[j][c]);
        }
      }
    }
  }

  template <bool kWhole>
  static BG_DEVICE void load(Number (&to)[kPer], const Number* from, uint32_t n) {
    if constexpr (kWhole) {
      const uint4 v = *reinterpret_cast<const uint4*>(from);
      __builtin_memcpy(to, &v, 16);
    } else {
#pragma unroll
      for (uint32_t c = 0; c < kPer; ++c) {
        if (c < n) to[c] = from[c];
      }
    }
  }

  BG_DEVICE void run() const {
    const uint32_t across = (hidden + kPer - 1) / kPer;
    const uint64_t id = static_cast<uint64_t>(workerId()) * kCombineThreads + threadId();
    const uint32_t token = static_cast<uint32_t>(id / across);
    if (token >= choices.tokens) return;
    const uint32_t col = static_cast<uint32_t>(id - static_cast<uint64_t>(token) * across) * kPer;
    const uint32_t n = min(hidden - col, kPer);
    float sum[kPer] = {};
    Number* const to = out + static_cast<size_t>(token) * hidden + col;
    if (hidden % kPer == 0) {
      add<true>(sum, token * choices.topK, col, n);
      Number x[kPer];
#pragma unroll
      for (uint32_t c = 0; c < kPer; ++c) x[c] = Element::bits(sum[c]);
      uint4 v;
      __builtin_memcpy(&v, x, 16);
      *reinterpret_cast<uint4*>(to) = v;
    } else {
      add<false>(sum, token * choices.topK, col, n);
#pragma unroll
      for (uint32_t c = 0; c < kPer; ++c) {
        if (c < n) to[c] = Element::bits(sum[c]);
      }
    }
  }
};

template <bool kLong, class Element>
BG_DEVICE void combine(const void* index, const void* rows, uint64_t shape, uint32_t hidden, uint64_t extent,
    void* out) {
  Combiner<kLong, Element>{{index, shape, extent}, static_cast<const typename Element::Number*>(rows),
      static_cast<typename Element::Number*>(out), hidden}.run();
}
