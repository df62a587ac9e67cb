// Which items a thread group computes.
#pragma once

#include "../dialect.h"
#include "items.cuh"
#include "launch.cuh"

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
