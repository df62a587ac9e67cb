// What is between the two products of a layer of experts, as one pass each: gate activates and multiplies,
// gateBackward has the gradients. Both take rows in the order of experts, as a routing lists them
// (routing.cuh); its ends say how many rows there are.
//
// A row has a team of 32 threads or more, each of which has 16 bytes of h at a time, so that memory is read
// and written by vectors. The planner chooses the team (encoding.Layer.GateTeam).
#pragma once

#include "../epilogue/epilogue.cuh"
#include "routing.cuh"

constexpr uint32_t kGateThreads = 256;

// GateParameters are those of a kernel. shape is encoding.Layer.Shape, and how has the extent in 32 bits, the
// columns of h in 26, the activation in 2, whether there is an up, whether gate and up take turns, and the
// logarithm of the team less 5 in 2.
struct GateParameters {
  const uint32_t* sizes;
  const void* index;  // gateBackward alone
  const void* pre;
  const void* dh;     // gateBackward alone
  void* out;
  uint64_t shape, how;
};

// Slope is an activation and its derivative at a place.
struct Slope {
  float value, slope;
};

// slopeOf is of Epilogue::activated, with the same value. The derivative is s + v * z' * s * (1 - s), where
// 1 - s is computed as e^-z * s: large v would multiply the error of a difference.
BG_DEVICE Slope slopeOf(uint32_t kind, float v) {
  if (kind == 0) return {v, 1.0f};
  if (kind == kReLU) return {v < 0.0f ? 0.0f : v, v <= 0.0f ? 0.0f : 1.0f};
  const bool silu = kind == kSiLU;
  const float z = silu ? v : v * fmaf(kGeluCubic * v, v, kGeluLinear);
  const float by = silu ? 1.0f : fmaf(3.0f * kGeluCubic * v, v, kGeluLinear);
  const float e = exponential(fmaf(-kLog2E, z, -2.0f)), quarter = reciprocal(0.25f + e);
  const float s = 0.25f * quarter, slope = fmaf(v * by * s, e * quarter, s);
  return {z <= kSigmoidLeast ? 0.0f : 0.25f * v * quarter,
      z <= kSigmoidLeast ? 0.0f : z >= -kSigmoidLeast ? 1.0f : slope};
}

// Gates is a thread of a kernel. Rows have kPer columns a vector.
template <class Element>
struct Gates {
  using Number = typename Element::Number;
  static constexpr uint32_t kPer = 16 / sizeof(Number);
  struct Vector {
    Number x[kPer];
    BG_DEVICE float operator[](uint32_t i) const { return Element::number(x[i]); }
    BG_DEVICE void set(uint32_t i, float v) { x[i] = Element::bits(v); }
  };

  const GateParameters& p;
  const uint32_t hidden = static_cast<uint32_t>(p.how >> 32) & 0x3ffffff;
  const uint32_t kind = static_cast<uint32_t>(p.how >> 58) & 3;
  const bool gated = (p.how >> 60 & 1) != 0, interleaved = (p.how >> 61 & 1) != 0;
  const uint32_t log = static_cast<uint32_t>(p.how >> 62) + 5;  // of the team
  const Choices<false> choices{nullptr, p.shape, p.how & 0xffffffff};

  BG_DEVICE uint32_t all() const { return choices.bound * choices.topK; }
  BG_DEVICE size_t width() const { return gated ? 2 * static_cast<size_t>(hidden) : hidden; }
  BG_DEVICE uint32_t lane() const { return threadId() & ((1u << log) - 1); }
  BG_DEVICE uint32_t row() const { return workerId() * (kGateThreads >> log) + (threadId() >> log); }
  BG_DEVICE uint32_t rows() const { return min(p.sizes[choices.experts - 1], choices.count()); }

  // load and store move n numbers, or with kWhole kPer of them.
  template <bool kWhole>
  static BG_DEVICE Vector load(const Number* from, uint32_t n) {
    Vector v = {};
    if constexpr (kWhole) {
      const uint4 bits = *reinterpret_cast<const uint4*>(from);
      __builtin_memcpy(&v, &bits, 16);
    } else {
#pragma unroll
      for (uint32_t i = 0; i < kPer; ++i) {
        if (i < n) v.x[i] = from[i];
      }
    }
    return v;
  }
  template <bool kWhole>
  static BG_DEVICE void store(Number* to, const Vector& v, uint32_t n) {
    if constexpr (kWhole) {
      uint4 bits;
      __builtin_memcpy(&bits, &v, 16);
      *reinterpret_cast<uint4*>(to) = bits;
    } else {
#pragma unroll
      for (uint32_t i = 0; i < kPer; ++i) {
        if (i < n) to[i] = v.x[i];
      }
    }
  }

  // A piece of a row of pre, or of its gradient: two vectors. turned makes of vectors as they lie where gate
  // and up take turns those of gate and up, or back.
  struct Pair {
    Vector gate, up;
  };
  static BG_DEVICE Pair apart(const Pair& turns) {
    Pair v;
#pragma unroll
    for (uint32_t i = 0; i < kPer; ++i) {
      const Vector& from = 2 * i < kPer ? turns.gate : turns.up;
      v.gate.x[i] = from.x[2 * i % kPer];
      v.up.x[i] = from.x[2 * i % kPer + 1];
    }
    return v;
  }
  static BG_DEVICE Pair inTurn(const Pair& v) {
    Pair turns;
#pragma unroll
    for (uint32_t i = 0; i < kPer; ++i) {
      Vector& to = 2 * i < kPer ? turns.gate : turns.up;
      to.x[2 * i % kPer] = v.gate.x[i];
      to.x[2 * i % kPer + 1] = v.up.x[i];
    }
    return turns;
  }

  // first and second are the places of both vectors of a piece in a row, and how many numbers the second has
  // beyond the first, which has up to kPer.
  struct Places {
    size_t first, second;
    uint32_t n, m;
  };
  BG_DEVICE Places places(uint32_t row, uint32_t col) const {
    const size_t at = row * width() + col;
    const uint32_t n = min(hidden - col, kPer);
    if (!interleaved) return {at, at + hidden, n, n};
    return {at + col, at + col + kPer, min(2 * n, kPer), max(2 * n, kPer) - kPer};
  }

  template <bool kWhole>
  BG_DEVICE Pair loadPair(uint32_t row, uint32_t col) const {
    const Number* const from = static_cast<const Number*>(p.pre);
    const Places at = places(row, col);
    Pair v;
    v.gate = load<kWhole>(from + at.first, at.n);
    if (!gated) return v;
    v.up = load<kWhole>(from + at.second, at.m);
    return interleaved ? apart(v) : v;
  }
  template <bool kWhole>
  BG_DEVICE void storePair(Number* out, uint32_t row, uint32_t col, const Pair& v) const {
    const Places at = places(row, col);
    const Pair turned = interleaved ? inTurn(v) : v;
    store<kWhole>(out + at.first, turned.gate, at.n);
    if (gated) store<kWhole>(out + at.second, turned.up, at.m);
  }

  template <bool kWhole>
  BG_DEVICE void activate(uint32_t row) const {
    Number* const out = static_cast<Number*>(p.out) + static_cast<size_t>(row) * hidden;
    const Epilogue act{nullptr, nullptr, nullptr, kind};
#pragma unroll 1
    for (uint32_t col = lane() * kPer; col < hidden; col += kPer << log) {
      const Pair pre = loadPair<kWhole>(row, col);
      Vector h;
#pragma unroll
      for (uint32_t i = 0; i < kPer; ++i) {
        const float v = act.activated(pre.gate[i]);
        h.set(i, gated ? v * pre.up[i] : v);
      }
      store<kWhole>(out + col, h, min(hidden - col, kPer));
    }
  }

  BG_DEVICE void run() const {
    if (row() >= rows()) return;
    if (hidden % kPer == 0) activate<true>(row());
    else activate<false>(row());
  }

  // derive writes what a row has of the gradient of pre and of weighted rows, and returns the thread's part of
  // the gradient of the row's weight.
  template <bool kWhole>
  BG_DEVICE float derive(uint32_t row, float weight, Number* dpre, Number* weighted) const {
    float sum = 0;
#pragma unroll 1
    for (uint32_t col = lane() * kPer; col < hidden; col += kPer << log) {
      const size_t at = static_cast<size_t>(row) * hidden + col;
      const uint32_t n = min(hidden - col, kPer);
      const Vector dh = load<kWhole>(static_cast<const Number*>(p.dh) + at, n);
      const Pair pre = loadPair<kWhole>(row, col);
      Pair d;
      Vector hw;
#pragma unroll
      for (uint32_t i = 0; i < kPer; ++i) {
        const Slope of = slopeOf(kind, pre.gate[i]);
        const float up = gated ? pre.up[i] : 1.0f, h = of.value * up, g = weight * dh[i];
        if (kWhole || i < n) sum = fmaf(h, dh[i], sum);
        hw.set(i, weight * h);
        d.gate.set(i, g * up * of.slope);
        d.up.set(i, g * of.value);
      }
      store<kWhole>(weighted + at, hw, n);
      storePair<kWhole>(dpre, row, col, d);
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

  template <bool kLong>
  BG_DEVICE void runBackward(float* shared) const {
    const size_t n = all(), hw = up16(n * width() * sizeof(Number));
    char* const out = static_cast<char*>(p.out);
    float* const weights = reinterpret_cast<float*>(out + hw + up16(n * hidden * sizeof(Number)));
    const uint32_t r = row(), *const lists = p.sizes + ((choices.experts + 63) & ~63u);
    if (r < choices.count() && lane() == 0) { // a choice, not a row
      const Choices<kLong> chosen{p.index, p.shape, p.how & 0xffffffff};
      if (chosen.expert(r) >= choices.experts) weights[r] = 0;
    }
    const bool exists = r < rows();
    float sum = 0;
    if (exists) {
      const float weight = __uint_as_float(lists[2 * n + r]);
      Number* const dpre = reinterpret_cast<Number*>(out);
      Number* const weighted = reinterpret_cast<Number*>(out + hw);
      sum = hidden % kPer == 0 ? derive<true>(r, weight, dpre, weighted)
                               : derive<false>(r, weight, dpre, weighted);
    }
    sum = sumOfTeam(shared, sum);
    if (!exists || lane() != 0) return;
    const uint32_t slot = lists[n + r];
    if (slot < n) weights[slot] = sum;
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
