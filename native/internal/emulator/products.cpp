// Products of warps, which begin when a kernel says so, are carried out when it waits for
// them, and may read their operands at any time between.
#include <numeric>

#include "machine.h"

namespace {

constexpr uint32_t kMostColumns = 256;  // of a product

float tf32(uint32_t bits) { return __uint_as_float(bits & ~0x1fffu); }

// cut is x in fp32, toward zero, as tensor cores cut what does not fit.
float cut(double x) {
  const float y = static_cast<float>(x);
  const bool away = fabs(static_cast<double>(y)) > fabs(x) && !isinf(y);
  return __uint_as_float(__float_as_uint(y) - away);
}

// wordOf is the word of element i across K and word or, of a matrix that runs across K, number k along it;
// both are swizzled by 128 bytes.
uint32_t wordOf(const Matrix& m, uint32_t i, uint32_t k) {
  SharedAddress at = static_cast<SharedAddress>(m.at << 4);
  at += m.across ? i / 64 * 8192 + 128 * k + i % 64 / 2 * 4 : i / 8 * 1024 + i % 8 * 128 + 4 * k;
  at ^= (at >> 7 & 7) << 4;
  return wordAt(at, 4);
}

template <class Use>
void forWords(const Matrix& m, Use use) {
  for (uint32_t i = m.first; i < m.first + m.count; i += m.across ? 2 : 1) {
    for (uint32_t k = 0; k < (m.across ? 16 : 8); ++k) use(wordOf(m, i, k), i, k);
  }
}

// perWord is how many numbers a word has, which follow each other along K.
uint32_t perWord(Format format) { return format == Format::tf32 ? 1 : format == Format::e4m3 ||
    format == Format::int8 ? 4 : 2; }

float numberOfByte(uint8_t bits) {
  const int exponent = bits >> 3 & 15, mantissa = bits & 7;
  const float size = (bits & 127) == 127 ? NAN : exponent != 0 ? ldexpf(8 + mantissa, exponent - 10) :
      ldexpf(mantissa, -9);
  return bits >> 7 != 0 ? -size : size;
}

// numbersOf are those of a word.
uint32_t numbersOf(Format format, uint32_t word, double (&x)[4]) {
  if (format == Format::tf32) return x[0] = tf32(word), 1;
  if (perWord(format) == 4) {
    for (int i = 0; i < 4; ++i) {
      const uint8_t byte = static_cast<uint8_t>(word >> 8 * i);
      x[i] = format == Format::int8 ? static_cast<int8_t>(byte) : numberOfByte(byte);
    }
    return 4;
  }
  x[0] = numberOf(format, static_cast<uint16_t>(word));
  x[1] = numberOf(format, static_cast<uint16_t>(word >> 16));
  return 2;
}

// read calls set with the numbers of a matrix, each by where it is across and along K.
template <class Set>
void read(const Matrix& m, Format format, Set set) {
  forWords(m, [&](uint32_t word, uint32_t i, uint32_t k) {
    uint32_t bits;
    double x[4];
    memcpy(&bits, memory + 4 * word, 4);
    const uint32_t per = numbersOf(format, bits, x);
    for (uint32_t h = 0; h < per; ++h) m.across ? set(i + h, k, x[h]) : set(i, k * per + h, x[h]);
  });
}

// narrowSum adds products of 8 bits as tensor cores do, measured on an H200: as multiples of 2^-13 of the
// largest power of two.
double narrowSum(double sum, const double (&a)[32], const double (&b)[32][kMostColumns], uint32_t n) {
  double terms[33] = {sum}, most = fabs(sum);
  for (uint32_t k = 0; k < 32; ++k) {
    terms[k + 1] = a[k] * b[k][n];
    most = fmax(most, fabs(terms[k + 1]));
  }
  if (most == 0 || !isfinite(most)) return std::accumulate(terms, terms + 33, 0.0);
  const double unit = ldexp(1, ilogb(most) - 13);
  return std::accumulate(terms, terms + 33, 0.0, [&](double s,
      double x) { return s + trunc(x / unit) * unit; });
}

// multiply adds a product to a warp's sums, 16 rows of up to 256 columns. Lane `4*g + m`
// has rows g and g + 8 (PTX ISA, "Register Fragments for wgmma.mma_async.m64nNk8", and of
// pairs, m64nNk16).
void multiply(const Thread* const (&lanes)[kWarp], uint32_t i, double (&sum)[16][kMostColumns]) {
  const Product& p = lanes[0]->products[i];
  const uint32_t columns = 2 * lanes[0]->sums[p.sums].count;
  double a[16][32], b[32][kMostColumns], x[4];
  const uint32_t per = perWord(p.format);
  if (p.registers == nullptr) {
    read(p.inShared, p.format, [&](uint32_t r, uint32_t k, double v) { a[r - p.inShared.first][k] = v; });
  } else {
    for (uint32_t lane = 0; lane < kWarp; ++lane) {
      for (uint32_t e = 0; e < 4; ++e) {
        numbersOf(p.format, lanes[lane]->products[i].a[e], x);
        for (uint32_t h = 0; h < per; ++h) a[lane / 4 + e % 2 * 8][(lane % 4 + e / 2 * 4) * per + h] = x[h];
      }
    }
  }
  read(p.b, p.format, [&](uint32_t n, uint32_t k, double v) { b[k][n] = v; });
  for (uint32_t r = 0; r < 16; ++r) {
    double s[kMostColumns];
    for (uint32_t n = 0; n < columns; ++n) s[n] = sum[r][n];
    if (p.format == Format::e4m3) {
      for (uint32_t n = 0; n < columns; ++n) s[n] = narrowSum(s[n], a[r], b, n);
    } else {
      for (uint32_t k = 0; k < 8 * per; ++k) {
        for (uint32_t n = 0; n < columns; ++n) s[n] += a[r][k] * b[k][n];
      }
    }
    for (uint32_t n = 0; n < columns; ++n) sum[r][n] = p.format == Format::int8 ? s[n] : cut(s[n]);
  }
}

// sumOf is the number of a register of sums, and ofSum the register; those of int8 have whole numbers of 32
// bits.
double sumOf(Format format, float bits) { return format == Format::int8 ?
    static_cast<int32_t>(__float_as_uint(bits)) : static_cast<double>(bits); }
float ofSum(Format format, double x) {
  return format == Format::int8 ? __uint_as_float(static_cast<uint32_t>(static_cast<int32_t>(x))) :
      static_cast<float>(x);
}

constexpr uint32_t kUnknown = 0x7fc0bad0;  // a sum of which products are under way
constexpr uint32_t kMostSums = 2;           // that those of a thread have

// multiplyAll ends the products of a warp, but for those of groups from one on.
void multiplyAll(uint32_t warp, uint32_t pending) {
  const Thread* lanes[kWarp];
  const uint32_t kinds = threads[warp * kWarp].sums.size();
  double sum[kMostSums][16][kMostColumns];
  auto row = [](uint32_t lane, uint32_t e) { return lane / 4 + e / 2 % 2 * 8; };
  auto column = [](uint32_t lane, uint32_t e) { return e / 4 * 8 + lane % 4 * 2 + e % 2; };
  for (uint32_t lane = 0; lane < kWarp; ++lane) {
    const Thread& t = *(lanes[lane] = &threads[warp * kWarp + lane]);
    auto same = [](const Product& x, const Product& y) { return x.b == y.b && x.inShared == y.inShared &&
        x.format == y.format && x.sums == y.sums; };
    auto alike = [](const Sums& x, const Sums& y) { return x.count == y.count; };
    const auto &mine = t.products, &first = lanes[0]->products;
    if (!std::equal(t.sums.begin(), t.sums.end(), lanes[0]->sums.begin(), lanes[0]->sums.end(), alike) ||
        !std::equal(mine.begin(), mine.end(), first.begin(), first.end(), same)) {
      fail("does not multiply by what lane %u does", lane);
    }
    for (const Product& p : t.products) {
      if (p.registers != nullptr && memcmp(p.registers, p.a,
          sizeof p.a) != 0) fail("changed registers of a product under way in lane %u", lane);
    }
    for (uint32_t s = 0; s < kinds; ++s) {
      for (uint32_t e = 0; e < t.sums[s].count; ++e) {
        if (__float_as_uint(t.sums[s].at[e]) != kUnknown)
          fail("changed sums of a product under way in lane %u", lane);
        sum[s][row(lane, e)][column(lane, e)] = sumOf(first[0].format, t.sums[s].before[e]);
      }
    }
  }
  const auto& products = lanes[0]->products;
  const Format format = products[0].format;
  uint32_t ended = 0;
  while (ended < products.size() && products[ended].group < pending) {
    multiply(lanes, ended, sum[products[ended].sums]);
    ++ended;
  }
  const bool all = ended == products.size();
  for (uint32_t lane = 0; lane < kWarp; ++lane) {
    Thread& t = threads[warp * kWarp + lane];
    for (uint32_t s = 0; s < kinds; ++s) {
      for (uint32_t e = 0; e < t.sums[s].count; ++e) (all ? t.sums[s].at : t.sums[s].before)[e] =
          ofSum(format, sum[s][row(lane, e)][column(lane, e)]);
    }
    t.products.erase(t.products.begin(), t.products.begin() + ended);
    if (all) t.sums.clear();
  }
  Warp& w = warps[warp];
  auto over = [&](const Warp::Used& used) {
    if (used.group >= pending) return false;
    forWords(used.matrix, [&](uint32_t word, uint32_t, uint32_t) { shadow.endProduct(word,
        lanes[0]->access()); });
    return true;
  };
  w.operands.erase(std::remove_if(w.operands.begin(), w.operands.end(), over), w.operands.end());
  w.mayMultiply = false;
}

}  // namespace

// As planner/element has the formats.
float numberOf(Format format, uint16_t bits) {
  if (format == Format::bf16) return __uint_as_float(static_cast<uint32_t>(bits) << 16);
  const int exponent = bits >> 10 & 31, mantissa = bits & 1023;
  const float size = exponent == 31 ? (mantissa != 0 ? NAN : INFINITY) : exponent != 0 ?
      ldexpf(1024 + mantissa, exponent - 25) : ldexpf(mantissa, -24);
  return bits >> 15 != 0 ? -size : size;
}
uint16_t bitsOf(Format format, float x) {
  uint32_t w = __float_as_uint(x);
  const uint16_t sign = w >> 16 & 0x8000;
  if (isnan(x)) return sign | (format == Format::bf16 ? 0x7fc0 : 0x7e00);
  if (format == Format::bf16) return (w + 0x7fff + (w >> 16 & 1)) >> 16;
  const float size = fabsf(x);
  if (size >= 65520) return sign | 0x7c00;
  if (size < 0x1p-14f) return sign | static_cast<uint16_t>(rintf(ldexpf(size, 24)));
  w &= 0x7fffffff;
  return sign | static_cast<uint16_t>((w - (112u << 23) + 0xfff + (w >> 13 & 1)) >> 13);
}

void fenceProducts() {
  meet("wgmma.fence", [](uint32_t warp) { warps[warp].mayMultiply = true; });
}

// start notes a product for the running thread.
static void start(float* d, uint32_t n, bool first, Product p) {
  Thread& t = *running;
  Warp& w = warps[t.id / kWarp];
  if (!w.mayMultiply) fail("multiplies without a fence");
  w.committed = false;
  p.sums = 0;
  while (p.sums < t.sums.size() && t.sums[p.sums].at != d) ++p.sums;
  if (p.sums == t.sums.size()) {
    if (p.sums == kMostSums) fail("multiplies for other sums too");
    t.sums.push_back({d, n, {}});
    for (uint32_t i = 0; i < n; ++i) t.sums.back().before[i] = first ? 0.0f : d[i];
    for (uint32_t i = 0; i < n; ++i) d[i] = __uint_as_float(kUnknown);
  } else if (t.sums[p.sums].count != n || first) {
    fail("begins sums of products under way anew");
  }
  p.group = w.group;
  t.products.push_back(p);
  for (const Matrix* m : {&p.inShared, &p.b}) {
    auto same = [&](const Warp::Used& used) { return used.matrix == *m && used.group == w.group; };
    if (m->count == 0 || std::any_of(w.operands.begin(), w.operands.end(), same)) continue;
    w.operands.push_back({*m, w.group});
    forWords(*m, [&](uint32_t word, uint32_t, uint32_t) { must(shadow.startProduct(word, t.access()),
        word); });
  }
}

void startProduct(float* d, uint32_t n, const uint32_t (&a)[4], uint64_t b, bool first, Format format) {
  start(d, n, first, {a, {a[0], a[1], a[2], a[3]}, {}, {b, false, 0, 2 * n}, format, 0});
}

void startSharedProduct(float* d, uint32_t n, uint64_t a, bool majorMNA, uint64_t b, bool majorMNB,
    Format format, bool first) {
  start(d, n, first, {nullptr, {}, {a, majorMNA, running->id / kWarp % 4 * 16, 16}, {b, majorMNB, 0, 2 * n},
      format, 0});
}

void commitProducts() {
  meet("wgmma.commit_group", [](uint32_t warp) {
    warps[warp].committed = true;
    ++warps[warp].group;
  });
}

void endProducts(uint32_t pending) {
  if (!warps[running->id / kWarp].committed) fail("waits for products that are not committed");
  meet("wgmma.wait_group", [&](uint32_t warp) {
    multiplyAll(warp, warps[warp].group - pending);
    synchronize(warp);
  });
}

void multiplyFragments(float (&sum)[4], const uint32_t (&words)[6], Format format) {
  auto all = [](uint32_t) {};  // lanes meet, which orders none of their loads and stores
  memcpy(running->words, words, sizeof words);
  meet("mma.sync", all);
  const uint32_t first = running->id / kWarp * kWarp;
  for (uint32_t e = 0; e < 4; ++e) {
    double s = sum[e], a[4], b[4];
    eachPair(running->id % kWarp, e, [&](uint32_t laneA, uint32_t wordA, uint32_t laneB, uint32_t wordB) {
      numbersOf(format, threads[first + laneA].words[wordA], a);
      numbersOf(format, threads[first + laneB].words[wordB], b);
      s += a[0] * b[0] + a[1] * b[1];
    });
    sum[e] = cut(s);
  }
  meet("mma.sync", all);
}

void multiply(double (&c)[4], const double (&a)[8], const double (&b)[4]) {
  auto all = [](uint32_t) {};
  memcpy(running->doubles, a, sizeof a);
  memcpy(running->doubles + 8, b, sizeof b);
  meet("mma.sync of fp64", all);
  const uint32_t first = running->id / kWarp * kWarp, lane = running->id % kWarp;
  for (uint32_t e = 0; e < 4; ++e) {
    const uint32_t row = lane / 4 + e / 2 * 8, column = 2 * (lane % 4) + e % 2;
    for (uint32_t k = 0; k < 16; ++k) {
      c[e] = fma(threads[first + row % 8 * 4 + k % 4].doubles[k / 4 * 2 + row / 8],
          threads[first + column * 4 + k % 4].doubles[8 + k / 4], c[e]);
    }
  }
  meet("mma.sync of fp64", all);
}
