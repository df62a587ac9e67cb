// The GPU of warpgroup.h. Its threads are fibers, and the order of warps is drawn anew for
// each round. A warp runs until none of its lanes can go on: lanes that wait for the same
// phase all see it end, as on a GPU, where they ask in one instruction. Copies complete
// at once, as late as can be, or at any time. Shared memory is NaN before each thread group.
//
// Loads and stores of the kernels are seen as well (warpgroup_kernels.cpp): what they
// reach must exist, and in shared memory be ordered by more than luck (shadow.h).
//
// Runs jobs (job.h). The words that say how are when copies complete and a seed.
#include "machine.h"

#include <numeric>
#include <string>

namespace {

// Numbers from here on may lead to sums that the tensor cores cannot add up. Without
// these no kernel may compute any sum once more, which would hide what is wrong with it.
constexpr float kLarge = 0x1p48f;

}  // namespace

// ---- mbarriers ----

uint32_t phaseAt(SharedAddress at) {
  const uint32_t word = wordAt(at, 8);
  must(shadow.usePhase(word, running->access()), word);
  return word / 2;
}

namespace {

void endPhase(Phase& p) {
  if (p.pending != 0 || p.bytes != 0) return;
  p.pending = p.count;
  ++p.number;
  p.ended.join(p.arrived);
}

void arriveAs(uint32_t phase, const Clock& clock) {
  Phase& p = phases[phase];
  p.arrived.join(clock);
  --p.pending;
  endPhase(p);
}

bool ended(uint32_t phase, uint32_t parity) { return phases[phase].number % 2 != parity; }

// ---- copies ----

void carryOut(const Copy& c) {
  memset(memory + 4 * c.to, 0, 4 * c.words);
  memcpy(memory + 4 * c.to, c.from, c.bytes);
  for (uint32_t i = 0; i < c.words; ++i) shadow.endCopy(c.to + i);
}

}  // namespace

// startCopy notes a copy of the running thread, which may be carried out from now on.
Copy startCopy(const Copy& c) {
  for (uint32_t i = 0; i < c.words; ++i) must(shadow.startCopy(c.to + i, running->access()), c.to + i);
  return c;
}

namespace {

// land carries out the thread's first copies that wait for that.
void land(Thread& t) {
  const Arrival& first = t.arrivals.front();
  for (const Copy& c : first.copies) carryOut(c);
  if (first.bytes != 0) {
    Phase& p = phases[first.phase];
    if (p.bytes < first.bytes) fail("copies bytes that an mbarrier does not expect");
    p.arrived.join(first.clock);
    p.bytes -= first.bytes;
    if (first.map != nullptr) --first.map->copies;
    endPhase(p);
  } else {
    arriveAs(first.phase, first.clock);
  }
  t.arrivals.pop_front();
}

// landGroup carries out the thread's first committed copies.
void landGroup(Thread& t) {
  for (const Copy& c : t.groups.front()) carryOut(c);
  t.groups.pop_front();
}

// landOne lands copies of one warp, if there are any.
bool landOne() {
  const uint32_t n = threads.size(), from = draw() % n;
  for (uint32_t i = 0; i < n; ++i) {
    const uint32_t warp = (from + i) % n / kWarp;
    bool any = false;
    for (uint32_t lane = 0; lane < kWarp; ++lane) {
      Thread& t = threads[warp * kWarp + lane];
      if (t.arrivals.empty()) continue;
      land(t);
      any = true;
    }
    if (any) return true;
  }
  return false;
}

bool landSome() {
  bool any = false;
  for (Thread& t : threads) {
    if (!t.groups.empty() && draw() % 4 == 0) landGroup(t);
    if (!t.boxGroups.empty() && draw() % 4 == 0) landBoxes(t);
    if (t.arrivals.empty() || draw() % 4 != 0) continue;
    land(t);
    any = true;
  }
  return any;
}

// ---- loads and stores ----

}  // namespace

void accessShared(uint32_t byte, uint32_t bytes, bool write) {
  if (byte + bytes > sharedBytes) fail("reaches byte %u of %u of shared memory", byte, sharedBytes);
  for (uint32_t word = byte / 4; word < (byte + bytes + 3) / 4; ++word) {
    must(write ? shadow.write(word, running->access()) : shadow.read(word, running->access()), word);
    if (write) running->stores.push_back(word);
  }
}

namespace {

template <class E>
bool within(const Array<E>& a, const void* p, uint32_t bytes) {
  const uintptr_t at = reinterpret_cast<uintptr_t>(p) - reinterpret_cast<uintptr_t>(a.at.get());
  return at < a.size * sizeof(E) && at + bytes <= a.size * sizeof(E);
}

// isConstant reports whether an address is in the program itself: what a variable begins with.
extern "C" const char __executable_start, end;
bool isConstant(const void* p) { return p >= &__executable_start && p < &end; }

void accessGlobal(const void* p, uint32_t bytes, bool write) {
  if (within(job->c, p, bytes) || within(job->workspace, p, bytes)) return;
  if (write) fail("writes elsewhere than to C and the workspace");
  if (isConstant(p)) return;
  if (within(job->plan, p, bytes) || within(job->bias, p, bytes) || within(job->rows, p, bytes)) return;
  if (!within(job->a, p, bytes) && !within(job->b, p, bytes) &&
      !within(job->b2, p, bytes)) fail("reads what is not in the job's memory");
  if (!isElement(static_cast<const float*>(p))) fail("reads A or B between matrices");
  if (!recomputes) fail("computes a sum once more though all are small");
}

// onStack: p is a variable of the thread's own.
bool onStack(const void* p) {
  return reinterpret_cast<uintptr_t>(p) - reinterpret_cast<uintptr_t>(running->place.stack) < kStack;
}

void access(const void* p, uint32_t bytes, bool write) {
  if (running == nullptr) return;
  const uintptr_t offset = reinterpret_cast<uintptr_t>(p) - reinterpret_cast<uintptr_t>(memory);
  if (offset < kMemory) accessShared(offset, bytes, write);
  else if (!onStack(p)) accessGlobal(p, bytes, write);
}

// accessAligned is for an access that a GPU carries out at multiples of its size alone.
void accessAligned(const void* p, uint32_t bytes, bool write) {
  if (running != nullptr && !onStack(p) &&
      reinterpret_cast<uintptr_t>(p) % bytes != 0) fail("needs an address that is a multiple of %u", bytes);
  access(p, bytes, write);
}

// ---- thread groups ----

void entry() {
  for (;;) {
    const Launch& l = *launch;
    kernel->function(reinterpret_cast<const uint4*>(&job->plan[l.items]),
        l.table == 0 ? nullptr : l.marked(&job->plan[0]),
                     job->a.at.get() + l.baseA, job->b.at.get() + l.baseB, job->c.at.get() + l.baseC,
                         job->workspace.at.get(),
                     job->b2.at.get() + l.baseB2, job->bias.at.get(), job->rows.at.get(), l.epilogue);
    while (!running->groups.empty() && running->groups.front().empty()) running->groups.pop_front();
    if (!running->copies.empty() || !running->groups.empty()) fail("ends with copies that nobody waits for");
    if (!running->boxes.empty() || !running->boxGroups.empty()) fail("ends while boxes are stored");
    ++finished;
    suspend(kDone);
  }
}

// takeRegisters reports whether the warp has as many as it waits for.
bool takeRegisters(const Thread& t) {
  Warp& w = warps[t.id / kWarp];
  const uint32_t more = kWarp * (t.waits[0] - w.registers);
  if (more > freeRegisters) return false;
  freeRegisters -= more;
  w.registers = t.waits[0];
  return true;
}

bool ready(const Thread& t) {
  switch (t.state) {
    case kReady: return true;
    case kAtPhase: return ended(t.waits[0], t.waits[1]);
    case kAtRegisters: return takeRegisters(t);
    default: return false;
  }
}

// runWarp runs each lane until it waits, and reports whether any could go on.
bool runWarp(uint32_t warp) {
  const uint32_t flip = draw() % 2 * (kWarp - 1);
  bool any = false;
  for (uint32_t lane = 0; lane < kWarp; ++lane) {
    Thread& t = threads[warp * kWarp + (lane ^ flip)];
    if (!ready(t)) continue;
    t.state = kReady;
    running = &t;
    go(scheduler, t.place);
    running = nullptr;
    any = true;
  }
  return any;
}

[[noreturn]] void deadlock() {
  std::string text;
  for (uint32_t w = 0; w < warps.size(); ++w) {
    for (uint32_t lane = 0; lane < kWarp; ++lane) {
      const Thread &t = threads[w * kWarp + lane], &last = threads[w * kWarp + (lane + kWarp - 1) % kWarp];
      if (lane != 0 && t.state == last.state) continue;
      text += "\nwarp " + std::to_string(w) + ": lanes from " + std::to_string(lane) + " " + kStates[t.state];
      if (t.state == kAtPhase) text += " at byte " + std::to_string(8 * t.waits[0]) + ", phases of parity " +
          std::to_string(t.waits[1]);
    }
  }
  fail("deadlock%s", text.c_str());
}

void begin() {
  const uint32_t n = launch->threads;
  while (threads.size() < n) {
    threads.emplace_back();
    threads.back().place.prepare(entry);
  }
  uint32_t began = 1;  // later than all that other groups did
  for (const Thread& t : threads) began = std::max(began, t.clock.at[t.id / kWarp] + 1);
  for (uint32_t i = 0; i < n; ++i) {
    Thread& t = threads[i];
    t.id = i;
    t.state = kReady;
    t.stores.clear();
    t.clock = Clock();
    std::fill_n(t.clock.at, kMaxWarps, began);
    t.clock.lanes[i / kWarp] = 1u << i % kWarp;
  }
  forgetMaps();
  warps.assign(n / kWarp, Warp());
  // The most that fit, in steps of 8, as kernels are compiled.
  for (Warp& w : warps) w.registers = 65536 / (kernel->minGroups * n) / 8 * 8, w.elected = draw() % kWarp;
  for (uint32_t w = 0; w < warps.size(); ++w) warps[w].laziness = w % 4 == 0 ? draw() % 8 :
      warps[w - 1].laziness;
  freeRegisters = atBarrier = finished = 0;
  sharedBytes = launch->shared;
  shadow.reset(sharedBytes);
  std::fill_n(reinterpret_cast<uint32_t*>(memory), sharedBytes / 4, 0x7fc00000);
}

void runGroup() {
  begin();
  std::vector<uint32_t> order(warps.size());
  std::iota(order.begin(), order.end(), 0);
  bool mayRest = true;
  while (finished < launch->threads) {
    bool progress = false, rested = false;
    std::shuffle(order.begin(), order.end(), draw);
    for (uint32_t w : order) {
      if (mayRest && draw() % 8 < warps[w].laziness) {
        rested = true;
        continue;
      }
      while (runWarp(w)) progress = true;
    }
    if (copiesLand == kAnyTime && landSome()) progress = true;
    if (!progress && !rested && finished < launch->threads && !landOne()) deadlock();
    mayRest = progress;
  }
  if (landOne()) fail("ends with copies under way");
}

bool run(Job& j) {
  job = &j;
  copiesLand = static_cast<CopiesLand>(j.how[0]);
  draw.seed(j.how[1]);
  auto large = [](const Array<float>& a) {
    return std::any_of(a.at.get(), a.at.get() + a.size, [](const float& x) { return isElement(&x) &&
        !(fabsf(x) < kLarge); });
  };
  recomputes = large(j.a) || large(j.b) || large(j.b2);
  const std::vector<uint32_t> before(&j.plan[0], &j.plan[0] + j.words);
  for (uint32_t i = 0; i < j.launches; ++i) {
    launch = &j.list[i];
    kernel = kWarpgroupKernels;
    while (kernel->name != nullptr && strcmp(kernel->name, launch->kernel) != 0) ++kernel;
    if (kernel->name == nullptr || launch->threads > kWarp * kMaxWarps ||
        launch->shared > kMemory) fail("no such kernel");
    std::vector<uint32_t> workers(launch->workers);
    std::iota(workers.begin(), workers.end(), 0);
    std::shuffle(workers.begin(), workers.end(), draw);
    for (uint32_t w : workers) {
      worker = w;
      for (piece = 0; piece < launch->pieces; ++piece) runGroup();
    }
  }
  if (!std::equal(before.begin(), before.end(), &j.plan[0])) fail("leaves another plan");
  return true;
}

}  // namespace

bool inOperands(const void* from, uint32_t bytes) {
  return within(job->a, from, bytes) || within(job->b, from, bytes) || within(job->b2, from, bytes);
}
bool inC(const void* p, uint32_t bytes) { return within(job->c, p, bytes); }
bool inRows(const void* from, uint32_t bytes) { return within(job->rows, from, bytes); }
bool inWorkspace(const void* p, uint32_t bytes) { return within(job->workspace, p, bytes); }

void copied(const Copy& c) {
  if (copiesLand == kAtOnce) carryOut(c);
  else running->copies.push_back(c);
}
void copied(Arrival arrival) {
  running->arrivals.push_back(std::move(arrival));
  if (copiesLand == kAtOnce) land(*running);
}

void commitCopies() {
  running->groups.push_back(std::move(running->copies));
  running->copies.clear();
}
void endCopies(uint32_t pending) {
  while (running->groups.size() > pending) landGroup(*running);
}

// The item that the first thread of a group keeps for all.
static uint32_t keptItem;
void NextItem::keep(uint32_t item) {
  if (running->id == 0) keptItem = item;
}
uint32_t NextItem::get(uint32_t, float*) const { return keptItem; }

uint32_t threadId() { return running->id; }
uint32_t workerId() { return worker; }
uint32_t workers() { return launch->workers; }
uint32_t pieceId() { return piece; }

void barrier() {
  if (++atBarrier < launch->threads) return suspend(kAtBarrier);
  atBarrier = 0;
  Clock all;
  for (uint32_t i = 0; i < launch->threads; ++i) all.join(threads[i].clock);
  for (uint32_t w = 0; w < warps.size(); ++w) ++all.at[w], all.lanes[w] = 0;
  for (uint32_t w = 0; w < warps.size(); ++w) passPoint(w, all);
  for (uint32_t i = 0; i < launch->threads; ++i) threads[i].state = kReady;
}

void warpBarrier() { meet("a warp's barrier", synchronize); }

uint32_t uniform(uint32_t x) {
  running->waits[0] = x;
  meet("uniform", [&](uint32_t warp) {
    for (uint32_t lane = 0; lane < kWarp; ++lane) {
      const uint32_t other = threads[warp * kWarp + lane].waits[0];
      if (other != x) fail("has the number %u where lane %u has %u", x, lane, other);
    }
  });
  return x;
}

void takeNext(uint32_t* next, uint32_t last, bool takes, uint32_t& taken) {
  if (!takes) return;
  if (reinterpret_cast<uintptr_t>(next) % 4 != 0 || !within(job->plan, next,
      4)) fail("counts what is not in the plan");
  taken = *next;
  *next = taken >= last ? 0 : taken + 1;
}

uint32_t ofLane(uint32_t x, uint32_t lane) {
  running->waits[0] = x;
  meet("ofLane", [&](uint32_t warp) {
    const uint32_t its = threads[warp * kWarp + lane].waits[0];
    for (uint32_t other = 0; other < kWarp; ++other) threads[warp * kWarp + other].waits[0] = its;
  });
  return running->waits[0];
}

uint32_t ofFour(uint32_t x, uint32_t member) {
  running->waits[0] = x;
  meet("ofFour", [&](uint32_t warp) {
    for (uint32_t first = warp * kWarp; first < (warp + 1) * kWarp; first += 4) {
      const uint32_t its = threads[first + member].waits[0];
      for (uint32_t other = 0; other < 4; ++other) threads[first + other].waits[0] = its;
    }
  });
  return running->waits[0];
}

bool arrivesLast(uint32_t*, uint32_t) { fail("is not one of a thread group that counts itself"); }

bool warpArrivesLast(uint32_t* arrived, uint32_t count) {
  if (reinterpret_cast<uintptr_t>(arrived) % 4 != 0 || !within(job->plan, arrived,
      4)) fail("counts what is not in the plan");
  meet("warpArrivesLast", [&](uint32_t warp) {
    *arrived = *arrived + 1 == count ? 0 : *arrived + 1;
    for (uint32_t lane = 0; lane < kWarp; ++lane) threads[warp * kWarp + lane].any = *arrived == 0;
    synchronize(warp);
  });
  return running->any;
}

bool warpAny(bool x) {
  running->says = x;
  meet("warpAny", [&](uint32_t warp) {
    bool any = false;
    for (uint32_t lane = 0; lane < kWarp; ++lane) any |= threads[warp * kWarp + lane].says;
    for (uint32_t lane = 0; lane < kWarp; ++lane) threads[warp * kWarp + lane].any = any;
  });
  return running->any;
}

char* staticShared(size_t bytes) {
  if (sharedBytes == 0) {
    sharedBytes = bytes;
    shadow.reset(bytes);
  }
  if (sharedBytes != bytes) fail("has two arrays in shared memory");
  return memory;
}
char* dynamicShared() { return memory; }
SharedAddress sharedAddress(const void* p) {
  return static_cast<SharedAddress>(static_cast<const char*>(p) - memory) + kMemoryAt;
}

void storeShared(SharedAddress to, const uint32_t (&x)[4]) {
  const uint32_t word = wordAt(to, 16);
  accessShared(4 * word, 16, true);
  memcpy(memory + 4 * word, x, 16);
}

void initPhases(SharedAddress at, uint32_t count) {
  const uint32_t word = wordAt(at, 8);
  for (uint32_t i = 0; i < 2; ++i) must(shadow.makePhase(word + i, running->access()), word);
  phases[word / 2] = {count, count, 0, 0, Clock(), Clock()};
}

void arrive(SharedAddress at) { arriveAs(phaseAt(at), running->clock); }

void arriveCopied(SharedAddress at) {
  running->arrivals.push_back({std::move(running->copies), phaseAt(at), 0, running->clock});
  running->copies.clear();
  if (copiesLand == kAtOnce) land(*running);
}

void waitPhase(SharedAddress at, uint32_t parity) {
  const uint32_t phase = phaseAt(at);
  running->waits[0] = phase;
  running->waits[1] = parity;
  if (!ended(phase, parity)) suspend(kAtPhase);
  running->clock.join(phases[phase].ended);
}

void fenceStores() {
  for (uint32_t word : running->stores) shadow.fence(word, running->access());
  running->stores.clear();
  running->fenced = running->clock;
}

void setRegisters(uint32_t n) {
  if (n % 8 != 0 || n < 24 || n > 256) fail("asks for %u registers", n);
  running->waits[0] = n;
  meet("setmaxnreg", [&](uint32_t warp) {
    const uint32_t had = warps[warp].registers;
    if (n > had) return;
    freeRegisters += kWarp * (had - n);
    warps[warp].registers = n;
  });
  if (!takeRegisters(*running)) suspend(kAtRegisters);
}

// What -fsanitize=thread makes of loads and stores (LLVM, tsan_interface.h).
extern "C" {
#define BG_ACCESS(n)                                              \
  void __tsan_read##n(void* p) { accessAligned(p, n, false); }    \
  void __tsan_write##n(void* p) { accessAligned(p, n, true); }    \
  void __tsan_unaligned_read##n(void* p) { access(p, n, false); } \
  void __tsan_unaligned_write##n(void* p) { access(p, n, true); }
BG_ACCESS(1)
BG_ACCESS(2)
BG_ACCESS(4)
BG_ACCESS(8)
BG_ACCESS(16)
void __tsan_read_range(void* p, unsigned long n) { access(p, n, false); }
void __tsan_write_range(void* p, unsigned long n) { access(p, n, true); }
void* __tsan_memset(void* to, int value, unsigned long n) {
  access(to, n, true);
  return memset(to, value, n);
}
void* __tsan_memcpy(void* to, const void* from, unsigned long n) {
  const auto look = n == 16 ? accessAligned : access;  // a vector, or a structure
  look(from, n, false);
  look(to, n, true);
  return memcpy(to, from, n);
}
void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
}

int main(int argc, char** argv) { return runJobs(argc, argv, run); }
