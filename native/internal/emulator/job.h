// Jobs that a test wrote to a file: launches, with the memory they work on. The file is a
// stream of 32-bit words of this machine's byte order; native/emulator_test.go, which
// writes it, has the layout.
#pragma once

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <limits>
#include <memory>
#include <new>

struct Launch {
  char kernel[40];
  uint32_t workers, pieces, threads, shared, items, table, mark, baseA, baseB, baseC, baseB2, epilogue;
  // The address of the table in a plan, where kernels are given it.
  const uint32_t* marked(const uint32_t* plan) const {
    return reinterpret_cast<const uint32_t*>(reinterpret_cast<const char*>(plan + table) + mark);
  }
};

// Array has exactly `size` elements, so that what reaches beyond can be seen, and begins
// as GPU memory does.
template <class E>
struct Array {
  static constexpr std::align_val_t kAlign{256};
  struct Free {
    void operator()(E* p) const { operator delete[](p, kAlign); }
  };
  size_t size;
  std::unique_ptr<E[], Free> at;

  explicit Array(size_t n) : size(n), at(static_cast<E*>(operator new[](n * sizeof(E), kAlign))) {}
  E& operator[](size_t i) const { return at[i]; }
};

template <class E>
Array<E> readArray(FILE* in, size_t n) {
  Array<E> a(n);
  if (n != 0 && fread(a.at.get(), sizeof(E), n, in) != n) {
    fprintf(stderr, "runner: jobs end early\n");
    exit(2);
  }
  return a;
}

inline uint32_t readWord(FILE* in) { return readArray<uint32_t>(in, 1)[0]; }

struct Job {
  uint32_t how[2];  // to run it: for the runner alone
  uint32_t far;     // where memory lies: see far.h
  uint32_t launches, words, lenA, lenB, lenC, lenW, lenB2, lenBias, lenRows;
  Array<Launch> list;
  Array<uint32_t> plan;
  Array<float> a, b, c, b2, bias;
  Array<uint32_t> rows;
  Array<float> workspace;

  explicit Job(FILE* in)
      : how{readWord(in), readWord(in)}, far(readWord(in)), launches(readWord(in)), words(readWord(in)),
          lenA(readWord(in)),
        lenB(readWord(in)), lenC(readWord(in)), lenW(readWord(in)),
        lenB2(readWord(in)), lenBias(readWord(in)), lenRows(readWord(in)),
            list(readArray<Launch>(in, launches)), plan(readArray<uint32_t>(in, words)),
        a(readArray<float>(in, lenA)), b(readArray<float>(in, lenB)), c(readArray<float>(in, lenC)),
        b2(readArray<float>(in, lenB2)), bias(readArray<float>(in, lenBias)),
            rows(readArray<uint32_t>(in, lenRows)), workspace(lenW) {
    for (uint32_t i = 0; i < lenW; ++i) workspace[i] = std::numeric_limits<float>::quiet_NaN();
  }
};

// runJobs is the main function of a runner: its arguments are the files of the jobs and
// of the results, which are what the jobs made of C.
inline int runJobs(int argc, char** argv, bool (*run)(Job&)) {
  if (argc != 3) return 2;
  FILE* const in = fopen(argv[1], "rb");
  FILE* const out = fopen(argv[2], "wb");
  if (in == nullptr || out == nullptr) return 2;
  bool ok = true;
  for (uint32_t jobs = readWord(in); ok && jobs > 0; --jobs) {
    Job job(in);
    ok = run(job) && fwrite(job.c.at.get(), sizeof(float), job.lenC, out) == job.lenC;
  }
  return fclose(out) == 0 && ok ? 0 : 1;
}
