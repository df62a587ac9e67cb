// The GPU of device.h. Each of its threads is a fiber that runs until it waits, so that the order of threads
// is ours to choose, and that of thread groups too. Shared memory is NaN before each thread group. Groups run
// one after the other, but for those that have counted themselves (bg_shim_arrive): they rest until others
// are done.
//
// To ThreadSanitizer fibers are threads that barriers alone order: it reports every
// race between two barriers, whatever the order of the run. It is not for this file
// itself, whose state all fibers share.
#include "fiber.h"
#include "shim.h"

#include <string.h>

#include <algorithm>
#include <limits>
#include <mutex>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "device.h"
#include "kernels.h"

ShimThread bg_shim_self;

namespace {

enum State { kReady, kAtBarrier, kAtWave, kResting, kDone };

constexpr int kMost = 8;  // numbers of an operand that a lane gives to a matrix instruction

struct Fiber {
  ShimThread self;
  State state = kReady;
  int line = 0;        // of the barrier
  float give[2][2 * kMost];  // to the wave, in turns
  int turn = 0;
  Place place;
};

std::mutex launching;  // guards everything below
int order = 2;
unsigned waveLanes = 64;
std::mt19937 shuffler(1);

// Group is a place for thread groups, one after the other.
struct Group {
  std::vector<Fiber*> fibers;  // by thread, kept from launch to launch
  int barriers = 0;            // passed
  char* shared = nullptr;      // made by the first thread
  size_t sharedBytes = 0;
  bool last = false;           // of those that were counted
  char atShared, atBarrier[2];  // as atStart
};

constexpr int kGroups = 4;  // one that runs, others rest
Group groups[kGroups];
Group* group;  // that runs
std::vector<std::pair<uint32_t, uint32_t>> toCome;  // workers and pieces of groups, the next one last
Place scheduler;
Fiber* running;
unsigned threads;  // of a group
std::string failure;

void (*function)();
void* parameters[10];
char atStart, atEnd, atFence;  // what ThreadSanitizer orders threads by

thread_local std::string message;

void release([[maybe_unused]] void* what) {
#if BG_SHIM_SANITIZER == SANITIZER_THREAD
  __tsan_release(what);
#endif
}

void acquire([[maybe_unused]] void* what) {
#if BG_SHIM_SANITIZER == SANITIZER_THREAD
  __tsan_acquire(what);
#endif
}

void suspend(State why) {
  running->state = why;
  go(running->place, scheduler);
}

// entry is what a fiber does: the kernel, once for each group.
void entry() {
#if BG_SHIM_SANITIZER == SANITIZER_ADDRESS
  __sanitizer_finish_switch_fiber(nullptr, &scheduler.stack, &scheduler.stackBytes);
#endif
  for (;;) {
    acquire(&atStart);
    void** const p = parameters;
    // Kernels without an epilogue have the first six.
    reinterpret_cast<void (*)(void*, void*, void*, void*, void*, void*, void*, void*, void*,
        void*)>(function)(p[0], p[1], p[2], p[3], p[4], p[5], p[6], p[7], p[8], p[9]);
    release(&atEnd);
    suspend(kDone);
  }
}

void resume(Fiber& f) {
  running = &f;
  bg_shim_self = f.self;
  go(scheduler, f.place);
}

bool all(unsigned from, unsigned to, State state) {
  return std::all_of(group->fibers.data() + from, group->fibers.data() + to,
      [&](Fiber* f) { return f->state == state; });
}

void makeReady(unsigned from, unsigned to) {
  for (unsigned t = from; t < to; ++t) group->fibers[t]->state = kReady;
}

// meet lets go on whoever waits for threads that have all come.
bool meet() {
  bool progress = false;
  for (unsigned w = 0; w < threads; w += waveLanes) {
    const unsigned end = std::min(w + waveLanes, threads);
    if (!all(w, end, kAtWave)) continue;
    makeReady(w, end);
    progress = true;
  }
  if (!progress && all(0, threads, kAtBarrier)) {
    const std::vector<Fiber*>& fibers = group->fibers;
    for (unsigned t = 1; t < threads; ++t) {
      if (fibers[t]->line != fibers[0]->line) {
        failure = "threads wait at the barriers of lines " + std::to_string(fibers[0]->line) + " and " +
            std::to_string(fibers[t]->line);
      }
    }
    ++group->barriers;
    makeReady(0, threads);
    progress = true;
  }
  return progress;
}

// runGroup runs the next group at a place, and others when it rests, if places are left.
void runGroup(int at) {
  const auto [worker, piece] = toCome.back();
  toCome.pop_back();
  group = &groups[at];
  const std::vector<Fiber*>& fibers = group->fibers;
  std::vector<unsigned> turn(threads);
  std::iota(turn.begin(), turn.end(), 0);
  if (order == 1) std::reverse(turn.begin(), turn.end());
  for (unsigned t = 0; t < threads; ++t) {
    fibers[t]->self = {t, worker, piece};
    fibers[t]->state = kReady;
  }
  while (failure.empty() && !all(0, threads, kDone)) {
    if (order == 2) std::shuffle(turn.begin(), turn.end(), shuffler);
    bool rested = false;
    for (unsigned t : turn) {
      if (fibers[t]->state == kReady && failure.empty()) resume(*fibers[t]);
      if (fibers[t]->state != kResting) continue;
      fibers[t]->state = kReady;
      rested = true;
      while (at + 1 < kGroups && !toCome.empty() && failure.empty()) runGroup(at + 1);
      group = &groups[at];
    }
    if (failure.empty() && !rested && !all(0, threads, kDone) && !meet()) failure =
        "a barrier is not reached by every thread";
  }
  acquire(&atEnd);
  free(group->shared);
  group->shared = nullptr;
}

// find is the kernel of a name, or null. What kernels with _partials or _boxes do, those without it do here
// (kFinishes).
const ShimKernel* find(std::string name) {
  for (const std::string word : {"_partials", "_boxes"}) {
    if (const size_t at = name.find(word); at != std::string::npos) name.erase(at, word.size());
  }
  for (const ShimKernel* k = bg_shim_kernels; k->name != nullptr; ++k) {
    if (name == k->name) return k;
  }
  return nullptr;
}

std::string launch(const char* name, unsigned gridX, unsigned gridY, unsigned threads_, void** args) {
  std::lock_guard<std::mutex> lock(launching);
  const ShimKernel* const k = find(name);
  if (k == nullptr) return "no kernel " + std::string(name);
  if (threads_ == 0 || threads_ > 1024) return std::to_string(threads_) + " threads";
  function = k->function;
  for (int i = 0; i < 10; ++i) memcpy(&parameters[i], args[i], sizeof parameters[i]);
  threads = threads_;
  for (Group& g : groups) {
    while (g.fibers.size() < threads) {
      g.fibers.push_back(new Fiber);
      g.fibers.back()->place.prepare(entry);
    }
  }
#if BG_SHIM_SANITIZER == SANITIZER_THREAD
  scheduler.sanitizer = __tsan_get_current_fiber();
#endif
  failure.clear();
  release(&atStart);
  toCome.clear();
  for (unsigned y = gridY; y-- > 0;) {
    for (unsigned x = gridX; x-- > 0;) toCome.emplace_back(x, y);
  }
  if (order == 1) std::reverse(toCome.begin(), toCome.end());
  if (order == 2) std::shuffle(toCome.begin(), toCome.end(), shuffler);
  while (!toCome.empty() && failure.empty()) runGroup(0);
  if (failure.empty()) return "";
  for (Group& g : groups) {
    free(g.shared);
    g.shared = nullptr;
    for (Fiber* f : g.fibers) f->place.prepare(entry);  // they are anywhere in the kernel
  }
  return std::string(name) + ": " + failure;
}

}  // namespace

void* bg_shim_shared(size_t bytes) {
  Group& g = *group;
  if (g.shared == nullptr) {
    g.shared = static_cast<char*>(malloc(bytes));
    g.sharedBytes = bytes;
    std::fill_n(reinterpret_cast<float*>(g.shared), bytes / sizeof(float),
        std::numeric_limits<float>::quiet_NaN());
    release(&g.atShared);
  }
  acquire(&g.atShared);
  if (bytes != g.sharedBytes) failure = "two arrays in shared memory";
  return g.shared;
}

void bg_shim_barrier(int line) {
  char* const tag = &group->atBarrier[group->barriers % 2];
  release(tag);
  running->line = line;
  suspend(kAtBarrier);
  acquire(tag);
}

void bg_shim_arrive(uint32_t* arrived, uint32_t count) {
  release(arrived);
  acquire(arrived);
  group->last = ++*arrived == count;
  if (group->last) *arrived = 0;
  else suspend(kResting);
}

bool bg_shim_last() { return group->last; }

uint32_t bg_shim_add(uint32_t* number, uint32_t by) {
  const uint32_t before = *number;
  *number += by;
  suspend(kResting);
  return before;
}

void bg_shim_release() { release(&atFence); }
void bg_shim_acquire() { acquire(&atFence); }

uint32_t bg_shim_take(uint32_t* next, uint32_t last) {
  const uint32_t taken = *next;
  *next = taken >= last ? 0 : taken + 1;
  suspend(kResting);
  return taken;
}

uint32_t bg_shim_lanes() { return waveLanes; }

// exchange gives something to the wave, and returns with which turn all its lanes have, and the first of
// them.
static Fiber* const* exchange(const void* give, size_t bytes, int& turn) {
  turn = running->turn ^= 1;
  memcpy(running->give[turn], give, bytes);
  suspend(kAtWave);
  return group->fibers.data() + running->self.thread / waveLanes * waveLanes;
}

// numberOf is number i of those that words have. Those of Int8 are exact in fp32, and so are their products.
static float numberOf(ShimNumber kind, const uint32_t* words, int i) {
  const auto half = static_cast<uint16_t>(words[i / 2] >> (16 * (i % 2)));
  const auto byte = static_cast<uint8_t>(words[i / 4] >> (8 * (i % 4)));
  switch (kind) {
    case kShimF32: return __builtin_bit_cast(float, words[i]);
    case kShimBF16: return __builtin_bit_cast(float, static_cast<uint32_t>(half) << 16);
    case kShimF16: return __builtin_bit_cast(_Float16, half);
    case kShimInt8: return static_cast<int8_t>(byte);
    case kShimFnuz: break;
  }
  if (byte == 0x80) return NAN;
  const int exponent = byte >> 3 & 15, fraction = byte & 7;
  const float size = ldexpf(static_cast<float>(exponent == 0 ? fraction : 8 + fraction),
      std::max(exponent, 1) - 11);
  return (byte & 0x80) != 0 ? -size : size;
}

static float multiplyAdd(float x, float y, float sum) { return fmaf(x, y, sum); }
static int32_t multiplyAdd(float x, float y, int32_t sum) { return sum + static_cast<int32_t>(x * y); }

// product adds to the lane's part of C, whose number r is of a row and whose column is the lane's.
template <class Sum>
static void product(Fiber* const* lanes, unsigned lane, int turn, int n, void* c) {
  Sum sums[4];
  memcpy(sums, c, sizeof sums);
  for (int k = 0; k < 4; ++k) {
    Fiber* const* const rows = lanes + k * 16 + lane / 16 * 4;
    const float* const b = lanes[k * 16 + lane % 16]->give[turn] + kMost;
    for (int i = 0; i < n; ++i) {
      for (int r = 0; r < 4; ++r) sums[r] = multiplyAdd(rows[r]->give[turn][i], b[i], sums[r]);
    }
  }
  memcpy(c, sums, sizeof sums);
}

static void requireWholeWaves() {
  if (waveLanes == 64 && threads % 64 == 0) return;
  failure = "a matrix instruction in a wave of less than 64 lanes";
  suspend(kDone);
}

// Number r of C is of row 4 * r + lane / 16 (f64_hip.cuh).
void bg_shim_double_product(double a, double b, double (&c)[4]) {
  requireWholeWaves();
  const double numbers[] = {a, b};
  int turn;
  Fiber* const* const lanes = exchange(numbers, sizeof numbers, turn);
  const unsigned lane = running->self.thread % 64;
  auto given = [&](unsigned by, unsigned which) {
    double x;
    memcpy(&x, lanes[by]->give[turn] + 2 * which, sizeof x);
    return x;
  };
  for (unsigned k = 0; k < 4; ++k) {
    for (unsigned r = 0; r < 4; ++r) {
      c[r] = fma(given(16 * k + 4 * r + lane / 16, 0), given(16 * k + lane % 16, 1), c[r]);
    }
  }
}

void bg_shim_product(ShimNumber kind, int bytes, const uint32_t (&give)[4], void* c) {
  requireWholeWaves();
  constexpr int kBytes[] = {4, 2, 2, 1, 1};
  const int n = bytes / kBytes[kind];
  float numbers[2 * kMost];
  for (int i = 0; i < n; ++i) {
    numbers[i] = numberOf(kind, give, i);
    numbers[kMost + i] = numberOf(kind, give + 2, i);
  }
  int turn;
  Fiber* const* const lanes = exchange(numbers, sizeof numbers, turn);
  const unsigned lane = running->self.thread % 64;
  if (kind == kShimInt8) product<int32_t>(lanes, lane, turn, n, c);
  else product<float>(lanes, lane, turn, n, c);
}

uint32_t bg_shim_first(uint32_t x) {
  int turn;
  return __builtin_bit_cast(uint32_t, exchange(&x, sizeof x, turn)[0]->give[turn][0]);
}

int bg_shim_launch(const char* kernel, unsigned grid_x, unsigned grid_y, unsigned threads, void** args) {
  message = launch(kernel, grid_x, grid_y, threads, args);
  return message.empty() ? 0 : 1;
}

const char* bg_shim_error(void) { return message.c_str(); }

void bg_shim_order(int order_) {
  std::lock_guard<std::mutex> lock(launching);
  order = order_;
}

void bg_shim_wave_size(unsigned lanes) {
  std::lock_guard<std::mutex> lock(launching);
  waveLanes = lanes;
}

int bg_shim_has(const char* kernel) {
  return find(kernel) != nullptr ? 1 : 0;
}
