// The activations of gates and their derivatives. Those that epilogues have too give the same numbers as
// Epilogue::activated.
#pragma once

#include "../epilogue/epilogue.cuh"
#include "gates.cuh"

// Known is a number that the compiler knows, Told one that it does not.
template <uint32_t k>
struct Known {
  static constexpr bool kTold = false;
  static constexpr uint32_t value = k;
};
struct Told {
  static constexpr bool kTold = true;
  uint32_t value;
};

// withKnown calls use with a number below n.
template <uint32_t n, class Use>
BG_DEVICE void withKnown(uint32_t number, Use use) {
  if constexpr (n > 1) {
    if (number != n - 1) return withKnown<n - 1>(number, use);
  }
  use(Known<n - 1>{});
}

// Clamp has the numbers of kSwiGLUClamped.
struct Clamp {
  float alpha, limit;
};

// Slope is a function and its derivative at a place.
struct Slope {
  float value, slope;
};

// exactOf is that of kGELUExact: v times phi, which is half of erfc(-v/sqrt(2)).
BG_DEVICE Slope exactOf(float v) {
  const float size = v < 0.0f ? -v : v, t = reciprocal(fmaf(0.70710678f * kErfP, size, 1.0f));
  const float bell = exponential(-0.5f * kLog2E * v * v);
  const float poly = fmaf(fmaf(fmaf(fmaf(kErfA4, t, kErfA3), t, kErfA2), t, kErfA1), t, kErfA0);
  const float tail = 0.5f * poly * t * bell, phi = v < 0.0f ? tail : 1.0f - tail;
  const bool none = v <= -kErfMost, all = v >= kErfMost;
  return {none ? 0.0f : v * phi, none ? 0.0f : all ? 1.0f : fmaf(v * 0.39894228f, bell, phi)};
}

// slopeOf is an activation of gate. The derivative of v * sigmoid(z) is s + v * z' * s * (1 - s), where 1 - s
// is e^-z * s.
template <class Kind>
BG_DEVICE Slope slopeOf(Kind kind, float v, const Clamp& clamp) {
  const bool clamped = kind.value == kSwiGLUClamped, silu = kind.value == kSiLU;
  const bool beyond = clamped && v > clamp.limit;
  if (kind.value == 0) return {v, 1.0f};
  if (kind.value == kGELUExact) return exactOf(v);
  if (kind.value == kReLU) return {v < 0.0f ? 0.0f : v, v <= 0.0f ? 0.0f : 1.0f};
  if (kind.value == kReLU2) return {v < 0.0f ? 0.0f : v * v, v <= 0.0f ? 0.0f : 2.0f * v};
  if (beyond) v = clamp.limit;
  const float z = silu ? v : clamped ? clamp.alpha * v : v * fmaf(kGeluCubic * v, v, kGeluLinear);
  const float e = exponential(fmaf(-kLog2E, z, -2.0f)), quarter = reciprocal(0.25f + e);
  const float s = 0.25f * quarter, value = 0.25f * v * quarter;
  const float by = silu ? 1.0f : clamped ? clamp.alpha : fmaf(3.0f * kGeluCubic * v, v, kGeluLinear);
  const float slope = fmaf(value * by, e * quarter, s);
  const bool none = z <= kSigmoidLeast;
  return {none ? 0.0f : value, none || beyond ? 0.0f : z >= -kSigmoidLeast ? 1.0f : slope};
}

// factorOf is what multiplies it, of up.
template <class Kind>
BG_DEVICE Slope factorOf(Kind kind, float v, const Clamp& clamp) {
  if (kind.value != kSwiGLUClamped) return {v, 1.0f};
  if (v > clamp.limit) return {clamp.limit + 1.0f, 0.0f};
  if (v < -clamp.limit) return {1.0f - clamp.limit, 0.0f};
  return {v + 1.0f, 1.0f};
}
