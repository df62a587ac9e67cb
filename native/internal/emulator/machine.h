// The GPU of warpgroup.h, what it is at a moment: warpgroup.cpp and products.cpp say
// what happens.
#pragma once

#include "fiber.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <deque>
#include <map>
#include <random>
#include <vector>

#include "job.h"
#include "shadow.h"
#include "warpgroup.h"

constexpr uint32_t kWarp = 32;
constexpr uint32_t kMemory = 227 << 10;  // bytes of shared memory of a thread group, at most
constexpr uint32_t kMemoryAt = 1024;     // its address: the system has what is before, on GPUs of 9.0

enum CopiesLand { kAtOnce, kLate, kAnyTime };
enum State { kReady, kAtWarp, kAtBarrier, kAtPhase, kAtRegisters, kDone };
inline const char* const kStates[] = {"can go on",            "wait for the other lanes", "wait at a barrier",
                                      "wait for an mbarrier", "wait for registers",       "are done"};

struct Copy {
  uint32_t to, words;  // of shared memory, of which those after the bytes become zero
  const void* from;
  uint32_t bytes;
};

// Arrival is an arrival at an mbarrier when copies are done, or tells it of so many bytes.
struct Arrival {
  std::vector<Copy> copies;
  uint32_t phase, bytes;
  Clock clock;
  struct Map* map = nullptr;  // that a copy of a box uses
};

// Map is a map of a matrix (boxes.cpp): numbers of so many bytes, rows of them ld apart, boxes of so many
// rows of so many bytes.
struct Map {
  const char* at;
  uint32_t depth, rows, ld, size, boxRows, rowBytes;
  bool swizzles;                   // copies of boxes, by 128 bytes
  uint32_t stored = 0;             // times
  uint32_t warp = 0, when = 0;     // who stored it last, and that warp's point after
  uint32_t copies = 0;             // under way
  // Which of those that were stored was acquired last, by whom, and when.
  uint32_t acquired = 0, thread = 0, then = 0;
};

// BoxStore is a store of a box of C that was started.
struct BoxStore {
  Map* map;
  uint32_t col, row, from;  // from: a word of shared memory
};

// Matrix is an operand in shared memory, of which so many rows of A, or columns of B, are used from the first
// on. It runs along K, or across.
struct Matrix {
  uint64_t at;
  bool across;
  uint32_t first, count;

  bool operator==(const Matrix& m) const { return at == m.at && across == m.across && first == m.first &&
      count == m.count; }
};

struct Product {
  const uint32_t* registers;  // of A; nullptr: it is in shared memory
  uint32_t a[4];              // what was there
  Matrix inShared, b;         // inShared: A
  Format format;
  uint32_t group;  // of those that are committed together
  uint32_t sums;   // which of the thread's
};

// Sums are those that products under way add to.
struct Sums {
  float* at;
  uint32_t count;
  float before[128];  // what they were
};

struct Thread {
  Place place;
  uint32_t id;
  State state;
  Clock clock;
  Clock fenced;  // at the last fence before products
  // kAtPhase: which, and its parity; kAtRegisters: how many; uniform: the number
  uint32_t waits[2];
  bool says, any;                 // warpAny
  std::vector<Copy> copies;       // without an arrival yet
  std::deque<Arrival> arrivals;   // with copies under way
  std::deque<std::vector<Copy>> groups;  // of copies that are committed
  std::vector<uint32_t> stores;   // words, since the last fence
  std::vector<Product> products;  // under way
  std::vector<Sums> sums;         // theirs
  uint32_t words[6];              // of a product of a warp: A's, then B's
  double doubles[12];             // the same of fp64
  std::vector<BoxStore> boxes;  // not committed yet
  std::deque<std::vector<BoxStore>> boxGroups;

  Access access() const { return {id, &clock, &fenced}; }
};

struct Warp {
  uint32_t arrived = 0;            // lanes at a meeting
  const char* meeting = nullptr;   // which
  uint32_t registers = 0;          // of each lane
  uint32_t laziness = 0;           // of 8 rounds, how many it rests
  bool mayMultiply = false;        // sums and operands are fenced
  bool committed = true;           // all products are
  uint32_t elected = 0;            // lane
  uint32_t group = 0;              // of products to come
  struct Used {
    Matrix matrix;
    uint32_t group;
  };
  std::vector<Used> operands;  // of products under way
};

// Phase is an mbarrier.
struct Phase {
  uint32_t count = 0, pending = 0, number = 0;  // number: of phases that ended
  uint32_t bytes = 0;                           // that are expected
  Clock arrived, ended;                         // of all arrivals; of those of phases that ended
};

inline Job* job;
inline const Launch* launch;
inline uint32_t worker, piece;
inline CopiesLand copiesLand;
inline bool recomputes;  // there are large numbers
inline std::mt19937 draw;

alignas(1024) inline char memory[kMemory];
inline uint32_t sharedBytes, freeRegisters, atBarrier, finished;
inline Shadow shadow;
inline std::vector<Phase> phases(kMemory / 8);
inline std::deque<Thread> threads;
inline std::vector<Warp> warps;
inline Place scheduler;
inline Thread* running = nullptr;
inline const WarpgroupKernel* kernel;

[[noreturn]] inline void fail(const char* format, ...) __attribute__((format(printf, 1, 2)));
inline void fail(const char* format, ...) {
  fprintf(stderr, "%s, worker %u: ", launch->kernel, worker);
  if (running != nullptr) fprintf(stderr, "thread %u (warp %u) ", running->id, running->id / kWarp);
  va_list list;
  va_start(list, format);
  vfprintf(stderr, format, list);
  va_end(list);
  fputc('\n', stderr);
  _Exit(1);
}

inline void suspend(State state) {
  running->state = state;
  go(running->place, scheduler);
}

// passPoint begins a new time of the warp, before which all in the clock happened.
inline void passPoint(uint32_t warp, Clock clock) {
  ++clock.at[warp];
  for (uint32_t lane = 0; lane < kWarp; ++lane) {
    clock.lanes[warp] = 1u << lane;
    threads[warp * kWarp + lane].clock = clock;
  }
}

// synchronize orders what lanes of the warp did before what they will do.
inline void synchronize(uint32_t warp) {
  Clock all;
  for (uint32_t lane = 0; lane < kWarp; ++lane) all.join(threads[warp * kWarp + lane].clock);
  passPoint(warp, all);
}

// meet waits for all lanes of the warp. The last one calls act.
template <class Act>
inline void meet(const char* meeting, Act act) {
  const uint32_t warp = running->id / kWarp;
  Warp& w = warps[warp];
  if (w.arrived != 0 && w.meeting != meeting) fail("is at %s while other lanes are at %s", meeting,
      w.meeting);
  w.meeting = meeting;
  if (++w.arrived < kWarp) return suspend(kAtWarp);
  w.arrived = 0;
  act(warp);
  for (uint32_t lane = 0; lane < kWarp; ++lane) threads[warp * kWarp + lane].state = kReady;
}

// wordAt is the number of the word at an address, from where `bytes` are to be used.
inline uint32_t wordAt(SharedAddress at, uint32_t bytes) {
  if (at < kMemoryAt || at - kMemoryAt + bytes > sharedBytes) {
    fail("reaches byte %d of %u of shared memory", static_cast<int>(at - kMemoryAt), sharedBytes);
  }
  if (at % bytes != 0) fail("is at byte %u of shared memory, no multiple of %u", at - kMemoryAt, bytes);
  return (at - kMemoryAt) / 4;
}

// What lies between the matrices of A and B (wgmma_test.go). A copy may read a line of 16 bytes when it has
// an element, and then the words after the last one too.
constexpr uint32_t kGap = 0x7fc0dead;
inline bool isElement(const float* p) {
  uint32_t word;
  memcpy(&word, p, 4);
  return word != kGap;
}

// What warpgroup.cpp knows of memory, and does to copies of the running thread.
uint32_t phaseAt(SharedAddress at);
void accessShared(uint32_t byte, uint32_t bytes, bool write);
bool inOperands(const void* from, uint32_t bytes);
bool inC(const void* p, uint32_t bytes);
bool inRows(const void* from, uint32_t bytes);
bool inWorkspace(const void* p, uint32_t bytes);
Copy startCopy(const Copy& c);  // it may be carried out from now on
void copied(const Copy& c);      // an arrival will wait for it
void copied(Arrival arrival);
void landBoxes(Thread& t);  // stores the thread's first group of boxes
void forgetMaps();          // what the threads of a group have acquired

inline void must(const char* wrong, uint32_t word) {
  if (wrong != nullptr) fail("%s, at byte %u of shared memory", wrong, 4 * word);
}
