// What a launch does before the one in front of it has ended. From 9.0 on it may begin when all thread groups
// of that one have left, or admit it (programmatic dependent launch): groups are there sooner, and wait.
//
// Nothing that the launch in front may write is loaded before that, nor is anything stored. An early launch
// (planner.Plan.Early), of which the address of the table is marked, has items that were there before: its
// groups set up shared memory and load their first item while they wait, and admit the next launch behind
// their last loads. Either alone is no gain, both take 2 % off the sweep, 3 to 6 off its batches of 8
// problems (H100). scripts/cuda.sh looks for loads in front of the wait, since the compiler may move those of
// what it takes for constant.
#pragma once

#include "../dialect.h"
#include "items.cuh"

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
BG_DEVICE void awaitEarlier() { asm volatile("griddepcontrol.wait;\n" ::: "memory"); }
// awaitEarlier(item) waits when those words of an item are there that tell what is to be loaded.
BG_DEVICE void awaitEarlier(Item& item) {
  asm volatile("griddepcontrol.wait;\n" : "+r"(item.offA), "+r"(item.offB), "+r"(item.depth), "+r"(item.lda),
      "+r"(item.ldb), "+r"(item.extent)::"memory");
}
BG_DEVICE void admitNext() { asm volatile("griddepcontrol.launch_dependents;\n"); }

// hasTable and unmarked tell a table by its address. Written otherwise, large_8x8 spills (nvcc 12.4).
BG_DEVICE bool hasTable(const uint32_t* table) { return reinterpret_cast<uint64_t>(table) > kEarlyMark; }
BG_DEVICE const uint32_t* unmarked(const uint32_t* table) {
  const char* const address = reinterpret_cast<const char*>(table);
  return reinterpret_cast<const uint32_t*>(address - (reinterpret_cast<uint64_t>(table) & kEarlyMark));
}

// Launch waits now unless the launch is early.
struct Launch {
  const uint32_t* table;
  BG_DEVICE explicit Launch(const uint32_t* table_) : table(table_) {
    if (!early()) awaitEarlier();
  }
  BG_DEVICE bool early() const { return (reinterpret_cast<uint64_t>(table) & kEarlyMark) != 0; }
  // loaded is for a group that has no more to load.
  BG_DEVICE void loaded() const {
    if (early()) admitNext();
  }
};
#else
BG_DEVICE void awaitEarlier() {}
BG_DEVICE void awaitEarlier(const Item&) {}
BG_DEVICE void admitNext() {}
BG_DEVICE bool hasTable(const uint32_t* table) { return table != nullptr; }
BG_DEVICE const uint32_t* unmarked(const uint32_t* table) { return table; }
struct Launch {
  BG_DEVICE explicit Launch(const uint32_t*) {}
  BG_DEVICE void loaded() const {}
};
#endif

// isDynamic tells a dynamic table (internal/encoding/dynamic.go) from others, dynamicTable is where its words
// are.
BG_DEVICE bool isDynamic(const uint32_t* table) {
  return reinterpret_cast<uintptr_t>(table) % 2 == kDynamicMark;
}
BG_DEVICE const uint32_t* dynamicTable(const uint32_t* unmarked) {
  return reinterpret_cast<const uint32_t*>(reinterpret_cast<const char*>(unmarked) - kDynamicMark);
}

// WorkerItems goes through the items of a worker: that of its number; those that the table has for it; or, of
// a dynamic table, that of its number and then those that the counter of the table gives
// (internal/encoding/dynamic.go). kCounts: there are such launches of the kernel.
template <class More, bool kCounts>
struct WorkerItems {
  const uint32_t* table;
  const More& more;
  uint32_t number, end;  // the item, and the one after the last that is known
  uint32_t taken = 0;    // first thread: what was counted before
  NextItem next;

  BG_DEVICE WorkerItems(const uint32_t* table_, uint32_t worker, const More& more_) : table(table_),
      more(more_), number(worker), end(worker + 1) {
    if (counts()) {
      number = worker * more.products();
      end = number + more.products();
    } else if (hasTable(table)) {
      const uint32_t* const ends = unmarked(table);
      end = ends[worker + 1];
      number = ends[worker];
    }
  }

  BG_DEVICE bool counts() const { return kCounts && isDynamic(table); }
  BG_DEVICE const uint32_t* words() const { return dynamicTable(table); }
  BG_DEVICE bool any() const { return number < end; }

  // last reports whether no item comes behind this one, as far as that is known.
  BG_DEVICE bool last() const { return !counts() && number + 1 == end; }

  // ask goes before the loads of an item, so that what is counted comes while they do, and keep goes behind
  // them, with a barrier between it and go.
  BG_DEVICE void ask() {
    if (asks()) takeNext(const_cast<uint32_t*>(words()) + kDynamicNext, words()[kDynamicLast],
        threadId() == 0, taken);
  }
  BG_DEVICE void keep() {
    if constexpr (kCounts) next.keep(taken);
  }
  BG_DEVICE bool asks() const { return counts() && number % more.products() == 0; }

  // go goes to the next item, behind the store of this one, of whose sums in shared memory each thread has
  // read what it stores. If there is one, all threads wait for each other behind it.
  BG_DEVICE void go(float* shared) {
    ++number;
    if (!counts() || any()) return;
    const uint32_t tile = words()[kDynamicFirst] + next.get(taken, shared);
    number = tile < words()[kDynamicEnd] ? tile * more.products() : kNoTile;
    end = number + more.products();
  }
  static constexpr uint32_t kNoTile = 0xffffffff;  // number, behind which comes no end
};
