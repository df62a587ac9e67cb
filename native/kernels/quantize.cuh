// The gate whose result has 8 bits, with a scale for each row, or each block of a row (planner.Gate). A team
// has a row. In plain quantisation a thread keeps its numbers until the largest of the row is known. What
// else has one scale for a row is computed twice, from memory that is near by then. Largest numbers are
// compared as bits, so NaN is larger than infinity.
#pragma once

#include "gate.cuh"

// ToE4M3 and ToInt8 make bytes of the products of four numbers and an inverse scale.
struct ToE4M3 {
  static constexpr float kMost = 448;
  static BG_DEVICE uint32_t four(float a, float b, float c, float d) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
    uint32_t r;
    asm("{\n.reg .b16 low, high;\ncvt.rn.satfinite.e4m3x2.f32 low, %2, %1;\n"
        "cvt.rn.satfinite.e4m3x2.f32 high, %4, %3;\nmov.b32 %0, {low, high};\n}\n"
        : "=r"(r) : "f"(a), "f"(b), "f"(c), "f"(d));
    return r;
#else
    return bits(a) | bits(b) << 8 | bits(c) << 16 | bits(d) << 24;
#endif
  }
  // Below 2^-6 numbers are multiples of 2^-9, and 8 of them are the bits of 2^-6.
  static BG_DEVICE uint32_t bits(float x) {
    const uint32_t all = __builtin_bit_cast(uint32_t, x), size = all & 0x7fffffff;
    const uint32_t rounded = min((size - (120u << 23) + 0x7ffff + (size >> 20 & 1)) >> 20, 0x7eu);
    const uint32_t small = static_cast<uint32_t>(rintf(512.0f * __uint_as_float(min(size, 121u << 23))));
    return (all >> 24 & 0x80) | (size < 121u << 23 ? small : rounded);
  }
};
struct ToInt8 {
  static constexpr float kMost = 127;
  static BG_DEVICE uint32_t four(float a, float b, float c, float d) {
    return bits(a) | bits(b) << 8 | bits(c) << 16 | bits(d) << 24;
  }
  static BG_DEVICE uint32_t bits(float x) {
    return static_cast<uint32_t>(static_cast<int32_t>(rintf(x))) & 0xff;
  }
};

template <class Element, class To>
struct Quantizer : Gates<Element> {
  using Base = Gates<Element>;
  using Base::flags, Base::hidden, Base::lane, Base::layout, Base::log, Base::p, Base::row, Base::rows;
  static constexpr uint32_t kPer = Base::kPer;

  struct Scale {
    float scale, inverse;
    bool finite;
  };
  static BG_DEVICE Scale scaleOf(uint32_t largest) {
    const float most = __uint_as_float(max(largest, kQuantizedLeast));
    if (largest >= 0x7f800000) return {__uint_as_float(0x7fc00000), 0.0f, false};
    return {most * (1.0f / To::kMost), To::kMost / most, true};
  }

  static BG_DEVICE uint32_t largestOf(const float (&h)[kPer]) {
    uint32_t x = 0;
#pragma unroll
    for (uint32_t i = 0; i < kPer; ++i) x = max(x, __builtin_bit_cast(uint32_t, h[i]) & 0x7fffffff);
    return x;
  }

  // largestOfTeam is the largest number of the threads of a team, where all threads of a group are.
  BG_DEVICE uint32_t largestOfTeam(uint32_t* scratch, uint32_t x) const {
    x = largest<32>(scratch, x);
    if (log == 5) return x;
    uint32_t* const each = scratch + kGateThreads;
    if (threadId() % 32 == 0) each[threadId() / 32] = x;
    barrier();
    const uint32_t first = threadId() >> log << log;
    for (uint32_t t = first; t < first + (1u << log); t += 32) x = max(x, each[t / 32]);
    return x;
  }

  template <bool kWhole>
  BG_DEVICE void put(uint32_t row, uint32_t col, const float (&h)[kPer], const Scale& by) const {
    uint8_t* const to = static_cast<uint8_t*>(p.out) + static_cast<size_t>(row) * hidden + col;
    uint32_t words[kPer / 4];
#pragma unroll
    for (uint32_t i = 0; i < kPer; i += 4) {
      const uint32_t four = To::four(h[i] * by.inverse, h[i + 1] * by.inverse, h[i + 2] * by.inverse,
          h[i + 3] * by.inverse);
      words[i / 4] = by.finite ? four : 0;
    }
    if constexpr (kWhole && kPer == 4) {
      *reinterpret_cast<uint32_t*>(to) = words[0];
    } else if constexpr (kWhole) {
      *reinterpret_cast<uint64_t*>(to) = words[0] | static_cast<uint64_t>(words[1]) << 32;
    } else {
#pragma unroll
      for (uint32_t i = 0; i < kPer; ++i) {
        if (i < hidden - col) to[i] = static_cast<uint8_t>(words[i / 4] >> 8 * (i % 4));
      }
    }
  }

  BG_DEVICE uint32_t* scales() const { return p.sizes + p.words[kLayerScales]; }

  template <bool kWhole, class Kind, class Layout>
  BG_DEVICE void byRow(uint32_t* scratch, Kind kind, Layout layout) const {
    const uint32_t r = row(), step = kPer << log, first = lane() * kPer, end = r < rows() ? hidden : 0;
    constexpr int kKept = kWhole && !Kind::kTold ? 4 : 0;
    float kept[kKept + 1][kPer];
    uint32_t most = 0;
#pragma unroll
    for (int i = 0; i < kKept; ++i) {
      if (first + i * step >= end) continue;
      this->template activated<kWhole>(kept[i], kind, layout, r, first + i * step);
      most = max(most, largestOf(kept[i]));
    }
    auto others = [&](auto use) {
#pragma unroll 1
      for (uint32_t col = first + kKept * step; col < end; col += step) {
        float h[kPer];
        this->template activated<kWhole>(h, kind, layout, r, col);
        use(col, h);
      }
    };
    others([&](uint32_t, const float(&h)[kPer]) { most = max(most, largestOf(h)); });
    const Scale by = scaleOf(largestOfTeam(scratch, most));
    if (r < rows() && lane() == 0) scales()[r] = __builtin_bit_cast(uint32_t, by.scale);
#pragma unroll
    for (int i = 0; i < kKept; ++i) {
      if (first + i * step < end) put<kWhole>(r, first + i * step, kept[i], by);
    }
    others([&](uint32_t col, const float(&h)[kPer]) { put<kWhole>(r, col, h, by); });
  }

  template <bool kWhole, class Kind, class Layout>
  BG_DEVICE void byBlock(uint32_t* scratch, Kind kind, Layout layout) const {
    const uint32_t r = row(), blocks = scaleBlocks(hidden), end = r < rows() ? hidden : 0;
#pragma unroll 1
    for (uint32_t base = 0; base < hidden; base += kPer << log) {  // of all threads
      const uint32_t col = base + lane() * kPer;
      float h[kPer];
      uint32_t most = 0;
      if (col < end) {
        this->template activated<kWhole>(h, kind, layout, r, col);
        most = largestOf(h);
      }
      const Scale by = scaleOf(largest<kScaleBlock / kPer>(scratch, most));
      if (col >= end) continue;
      if (col % kScaleBlock == 0) {
        scales()[static_cast<size_t>(r) * blocks + col / kScaleBlock] =
            __builtin_bit_cast(uint32_t, by.scale);
      }
      put<kWhole>(r, col, h, by);
    }
  }

  template <bool kWhole, class Kind, class Layout>
  BG_DEVICE void quantize(uint32_t* scratch, Kind kind, Layout layout) const {
    if ((flags & kGateBlocks) != 0) byBlock<kWhole>(scratch, kind, layout);
    else byRow<kWhole>(scratch, kind, layout);
  }

  // Of plain quantisation, which is to be as fast as memory, the compiler knows all.
  BG_DEVICE void run(uint32_t* scratch) const {
    if (hidden % kPer != 0) quantize<false>(scratch, Told{this->kind}, Told{layout});
    else if (layout == kUngated && this->kind == 0) quantize<true>(scratch, Known<0>{}, Known<kUngated>{});
    else quantize<true>(scratch, Told{this->kind}, Told{layout});
  }
};

template <class Element, class To>
BG_DEVICE void quantize(const GateParameters& p) {
  BG_SHARED(uint32_t, scratch, kGateThreads + kGateThreads / 32);
  Quantizer<Element, To>{{p}}.run(scratch);
}
