// Elements of 16 bits. Their words in memory are pairs.
#pragma once

// Halves are elements of a format, which makes numbers of them: Floats is its like.
template <class Format_>
struct Halves {
  using Format = Format_;
  using Number = uint16_t;
  using Word = uint32_t;
  static constexpr int kPer = 2;
  static BG_DEVICE float number(uint16_t bits) { return Format::number(bits); }
  static BG_DEVICE uint16_t bits(float x) { return Format::bits(x); }
};

// pairAt is the word of two halves in shared memory.
BG_DEVICE uint32_t pairAt(const char* low, const char* high) {
  return *reinterpret_cast<const uint16_t*>(low) | static_cast<uint32_t>(*reinterpret_cast<const uint16_t*>(high)) << 16;
}
