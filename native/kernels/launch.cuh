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
