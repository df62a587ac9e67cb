// What is between the two products of a layer of experts, as one pass each: gate activates and multiplies,
// gateBackward has the gradients. Both take rows in the order of experts, as a routing lists them
// (routing.cuh); its ends say how many rows there are.
//
// A row has a team of 32 threads or more, each of which has 16 bytes of h at a time, so that memory is read
// and written by vectors. The planner chooses the team (encoding.Layer.GateTeam).
#pragma once

#include "activation.cuh"
#include "routing.cuh"

constexpr uint32_t kGateThreads = 256;

// GateParameters are those of a kernel. words are those that a shader reads (encoding.LayerWords). shape is
// encoding.Layer.Shape, with no experts where all rows count, and how has the extent in 32 bits, the columns
// of h in 24, the flags of gates.cuh in 6, and the logarithm of the team less 5 in 2.
struct GateParameters {
  const uint32_t* words;
  uint32_t* sizes;    // written by quantize alone
  const void* index;  // gateBackward alone
  const void* pre;
  const void* dh;     // gateBackward alone
  void* out;
  uint64_t shape, how;
};

// How gate and up lie in a row of pre.
constexpr uint32_t kUngated = 0, kHalves = 1, kInTurn = 2;

// Gates is a thread of a kernel. It works on pieces of kPer columns, which are 16 bytes of h.
template <class Element>
struct Gates {
  using Number = typename Element::Number;
  static constexpr uint32_t kPer = 16 / sizeof(Number);
  struct Pair {
    float gate[kPer], up[kPer];
  };

  const GateParameters& p;
  const uint32_t hidden = static_cast<uint32_t>(p.how >> 32) & 0xffffff;
  const uint32_t flags = static_cast<uint32_t>(p.how >> 56), kind = flags & kGateActivation;
  const uint32_t layout = (flags & kGateGated) == 0 ? kUngated : (flags & kGateInterleaved) == 0 ? kHalves :
      kInTurn;
  const uint32_t log = static_cast<uint32_t>(p.how >> 62) + 5;  // of the team
  const Choices<false> choices{nullptr, p.shape, p.how & 0xffffffff};

  BG_DEVICE Clamp clamp() const {
    return {__uint_as_float(p.words[kLayerAlpha]), __uint_as_float(p.words[kLayerLimit])};
  }
  BG_DEVICE uint32_t all() const { return choices.bound * choices.topK; }
  BG_DEVICE size_t width() const { return layout == kUngated ? hidden : 2 * static_cast<size_t>(hidden); }
  BG_DEVICE uint32_t lane() const { return threadId() & ((1u << log) - 1); }
  BG_DEVICE uint32_t row() const { return workerId() * (kGateThreads >> log) + (threadId() >> log); }
  BG_DEVICE uint32_t rows() const {
    return choices.experts == 0 ? choices.count() : min(p.sizes[choices.experts - 1], choices.count());
  }

  // load and store move n numbers, or with kWhole kPer of them.
  template <bool kWhole>
  static BG_DEVICE void load(float (&to)[kPer], const Number* from, uint32_t n) {
    Number x[kPer] = {};
    if constexpr (kWhole) {
      const uint4 v = *reinterpret_cast<const uint4*>(from);
      __builtin_memcpy(x, &v, 16);
    } else {
#pragma unroll
      for (uint32_t i = 0; i < kPer; ++i) {
        if (i < n) x[i] = from[i];
      }
    }
#pragma unroll
    for (uint32_t i = 0; i < kPer; ++i) to[i] = Element::number(x[i]);
  }
  template <bool kWhole>
  static BG_DEVICE void store(Number* to, const float (&x)[kPer], uint32_t n) {
    if constexpr (kWhole) {
      uint32_t words[4];
#pragma unroll
      for (uint32_t i = 0; i < 4; ++i) {
        if constexpr (kPer == 4) words[i] = __builtin_bit_cast(uint32_t, x[i]);
        else words[i] = Element::pairOfC(0, x[2 * i], x[2 * i + 1]);
      }
      uint4 v;
      __builtin_memcpy(&v, words, 16);
      *reinterpret_cast<uint4*>(to) = v;
    } else {
#pragma unroll
      for (uint32_t i = 0; i < kPer; ++i) {
        if (i < n) to[i] = Element::bits(x[i]);
      }
    }
  }

  // Places are those of the two vectors of a piece of pre, and how many numbers each has.
  struct Places {
    size_t first, second;
    uint32_t n, m;
  };
  template <class Layout>
  BG_DEVICE Places places(Layout layout, uint32_t row, uint32_t col) const {
    const size_t at = row * width() + col;
    const uint32_t n = min(hidden - col, kPer);
    if (layout.value != kInTurn) return {at, at + hidden, n, n};
    return {at + col, at + col + kPer, min(2 * n, kPer), max(2 * n, kPer) - kPer};
  }

  // Without up it is 1.
  template <bool kWhole, class Layout>
  BG_DEVICE Pair loadPair(Layout layout, uint32_t row, uint32_t col) const {
    const Number* const from = static_cast<const Number*>(p.pre);
    const Places at = places(layout, row, col);
    Pair v, lies;
    load<kWhole>(lies.gate, from + at.first, at.n);
    if (layout.value != kUngated) load<kWhole>(lies.up, from + at.second, at.m);
#pragma unroll
    for (uint32_t i = 0; i < kPer; ++i) {
      if (layout.value == kInTurn) {
        const float(&part)[kPer] = 2 * i < kPer ? lies.gate : lies.up;
        v.gate[i] = part[2 * i % kPer];
        v.up[i] = part[2 * i % kPer + 1];
      } else {
        v.gate[i] = lies.gate[i];
        v.up[i] = layout.value == kUngated ? 1.0f : lies.up[i];
      }
    }
    return v;
  }
  template <bool kWhole, class Layout>
  BG_DEVICE void storePair(Layout layout, Number* out, uint32_t row, uint32_t col, const Pair& v) const {
    const Places at = places(layout, row, col);
    Pair lies = v;
    if (layout.value == kInTurn) {
#pragma unroll
      for (uint32_t i = 0; i < kPer; ++i) {
        float(&part)[kPer] = 2 * i < kPer ? lies.gate : lies.up;
        part[2 * i % kPer] = v.gate[i];
        part[2 * i % kPer + 1] = v.up[i];
      }
    }
    store<kWhole>(out + at.first, lies.gate, at.n);
    if (layout.value != kUngated) store<kWhole>(out + at.second, lies.up, at.m);
  }

  // known calls use with whether pieces are whole, and the activation and the layout. Of whole pieces, which
  // are to be as fast as memory, the compiler knows these.
  template <class Use>
  BG_DEVICE void known(Use use) const {
    if (hidden % kPer != 0) return use(Known<false>{}, Told{kind}, Told{layout});
    withKnown<kGateActivations>(kind, [&](auto kind) BG_INLINE {
      withKnown<3>(layout, [&](auto layout) BG_INLINE { use(Known<true>{}, kind, layout); });
    });
  }

  // activated are the numbers of a piece of h. Without up its factor is 1, and numbers beyond the row are 0.
  template <bool kWhole, class Kind, class Layout>
  BG_DEVICE void activated(float (&h)[kPer], Kind kind, Layout layout, uint32_t row, uint32_t col) const {
    const Pair pre = loadPair<kWhole>(layout, row, col);
    auto each = [&](auto kind) BG_INLINE {
      const Epilogue act{nullptr, nullptr, nullptr, kind.value};
#pragma unroll
      for (uint32_t i = 0; i < kPer; ++i) {
        const float v = kind.value <= kActivation ? act.activated(pre.gate[i])
                                                  : slopeOf(kind, pre.gate[i], clamp()).value;
        h[i] = v * factorOf(kind, pre.up[i], clamp()).value;
      }
    };
    if constexpr (Kind::kTold) withKnown<kGateActivations>(kind.value, each);
    else each(kind);
  }

  template <bool kWhole, class Kind, class Layout>
  BG_DEVICE void activate(Kind kind, Layout layout, uint32_t row) const {
    Number* const out = static_cast<Number*>(p.out) + static_cast<size_t>(row) * hidden;
#pragma unroll 1
    for (uint32_t col = lane() * kPer; col < hidden; col += kPer << log) {
      float h[kPer];
      activated<kWhole>(h, kind, layout, row, col);
      store<kWhole>(out + col, h, min(hidden - col, kPer));
    }
  }

  BG_DEVICE void run() const {
    if (row() >= rows()) return;
    known([&](auto whole, auto kind, auto layout) BG_INLINE { activate<whole.value>(kind, layout, row()); });
  }

  // derive writes what a row has of the gradient of pre and of weighted rows, and returns the thread's part
  // of the gradient of the row's weight.
  template <bool kWhole, class Kind, class Layout>
  BG_DEVICE float derive(Kind kind, Layout layout, uint32_t row, float weight, Number* dpre,
      Number* weighted) const {
    float sum = 0;
#pragma unroll 1
    for (uint32_t col = lane() * kPer; col < hidden; col += kPer << log) {
      const size_t at = static_cast<size_t>(row) * hidden + col;
      const uint32_t n = min(hidden - col, kPer);
      float dh[kPer], hw[kPer];
      load<kWhole>(dh, static_cast<const Number*>(p.dh) + at, n);
      const Pair pre = loadPair<kWhole>(layout, row, col);
      Pair d;
#pragma unroll
      for (uint32_t i = 0; i < kPer; ++i) {
        const Slope of = slopeOf(kind, pre.gate[i], clamp()), by = factorOf(kind, pre.up[i], clamp());
        const float h = of.value * by.value, g = weight * dh[i];
        if (kWhole || i < n) sum = fmaf(h, dh[i], sum);
        hw[i] = weight * h;
        d.gate[i] = g * by.value * of.slope;
        d.up[i] = g * of.value * by.slope;
      }
      store<kWhole>(weighted + at, hw, n);
      storePair<kWhole>(layout, dpre, row, col, d);
    }
    return sum;
  }

  // sumOfTeam is the sum of a number of each thread of a team, in the first one, in a fixed order.
  BG_DEVICE float sumOfTeam(float* shared, float x) const {
    shared[threadId()] = x;
    barrier();
#pragma unroll 1
    for (uint32_t half = 1u << log >> 1; half > 0; half /= 2) {
      if (lane() < half) shared[threadId()] += shared[threadId() + half];
      barrier();
    }
    return shared[threadId()];
  }

  static BG_DEVICE size_t up16(size_t bytes) { return (bytes + 15) & ~static_cast<size_t>(15); }

  // weighted and weights are where the parts of the result begin (encoding.Layer.Block), in bytes.
  BG_DEVICE size_t weighted() const { return up16(all() * width() * sizeof(Number)); }
  BG_DEVICE size_t weights() const {
    return weighted() + up16(static_cast<size_t>(all()) * hidden * sizeof(Number));
  }

  template <bool kLong>
  BG_DEVICE void runBackward(float* shared) const {
    const size_t n = all();
    const uint32_t r = row(), *const lists = p.sizes + ((choices.experts + 63) & ~63u);
    char* const out = static_cast<char*>(p.out);
    float sum = 0;
    if (r < rows()) {
      const float weight = __uint_as_float(lists[2 * n + r]);
      known([&](auto whole, auto kind, auto layout) BG_INLINE {
        sum = derive<whole.value>(kind, layout, r, weight, reinterpret_cast<Number*>(out),
            reinterpret_cast<Number*>(out + weighted()));
      });
    }
    sum = sumOfTeam(shared, sum);
    if (r >= choices.count() || lane() != 0) return;
    float* const gradients = reinterpret_cast<float*>(out + weights());
    const Choices<kLong> chosen{p.index, p.shape, p.how & 0xffffffff};
    if (chosen.expert(r) >= choices.experts) gradients[r] = 0;  // of choice r, not of row r
    if (r >= rows()) return;
    const uint32_t slot = lists[n + r];
    if (slot < n) gradients[slot] = sum;
  }
};

template <class Element>
BG_DEVICE void gate(const GateParameters& p) {
  Gates<Element>{p}.run();
}

template <bool kLong, class Element>
BG_DEVICE void gateBackward(const GateParameters& p) {
  BG_SHARED(float, shared, kGateThreads);
  Gates<Element>{p}.template runBackward<kLong>(shared);
}
