// Runs launches that a test wrote to a file, and writes what they made of C.
// Usage: runner JOBS RESULTS. Both are streams of 32-bit words of this machine's
// byte order; native/shim_test.go, which writes them, has the layout.
#include <stdio.h>
#include <stdlib.h>

#include <limits>
#include <memory>

#include "device.h"
#include "shim.h"

namespace {

FILE* in;

template <class E>
void read(E* to, size_t n) {
  if (n != 0 && fread(to, sizeof(E), n, in) != n) {
    fprintf(stderr, "runner: jobs end early\n");
    exit(2);
  }
}

uint32_t word() {
  uint32_t w;
  read(&w, 1);
  return w;
}

struct Launch {
  char kernel[32];
  uint32_t workers, pieces, threads, items, table, baseA, baseB, baseC;
};

// Array has exactly n elements, so that AddressSanitizer sees what reaches beyond.
template <class E>
std::unique_ptr<E[]> array(size_t n) {
  std::unique_ptr<E[]> a(new E[n]);
  return a;
}

// Returns whether all launches of a job ran.
bool job(FILE* out) {
  bg_shim_order(word());
  bg_shim_wave_size(word());
  const uint32_t launches = word(), words = word(), lenA = word(), lenB = word(), lenC = word(), lenW = word();
  const auto list = array<Launch>(launches);
  const auto plan = array<uint32_t>(words);
  const auto a = array<float>(lenA), b = array<float>(lenB), c = array<float>(lenC), workspace = array<float>(lenW);
  read(list.get(), launches);
  read(plan.get(), words);
  read(a.get(), lenA);
  read(b.get(), lenB);
  read(c.get(), lenC);
  for (uint32_t i = 0; i < lenW; ++i) workspace[i] = std::numeric_limits<float>::quiet_NaN();
  for (uint32_t i = 0; i < launches; ++i) {
    const Launch& l = list[i];
    const void* values[6] = {plan.get() + l.items, l.table == 0 ? nullptr : plan.get() + l.table,
                             a.get() + l.baseA,    b.get() + l.baseB,
                             c.get() + l.baseC,    workspace.get()};
    void* args[6];
    for (int j = 0; j < 6; ++j) args[j] = &values[j];
    if (bg_shim_launch(l.kernel, l.workers, l.pieces, l.threads, args) != 0) {
      fprintf(stderr, "runner: %s\n", bg_shim_error());
      return false;
    }
  }
  return fwrite(c.get(), sizeof(float), lenC, out) == lenC;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  in = fopen(argv[1], "rb");
  FILE* const out = fopen(argv[2], "wb");
  if (in == nullptr || out == nullptr) return 2;
  bool ok = true;
  for (uint32_t jobs = word(); ok && jobs > 0; --jobs) ok = job(out);
  return fclose(out) == 0 && ok ? 0 : 1;
}
