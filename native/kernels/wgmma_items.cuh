// The items of a worker of wgmma.cuh, published by one warp and read by all the others
// from shared memory.
#pragma once

#include "../epilogue/epilogue.cuh"
#include "launch.cuh"
#include "wgmma_operand.cuh"

constexpr int kItemPlaces = 16;  // items in shared memory: see WgmmaTile
constexpr uint32_t kNoItem = 0xffffffff;  // depth that ends the work

// stepsOf is the steps of an item, of 32 words of a row each.
template <class T>
BG_DEVICE uint32_t stepsOf(const Item& item) {
  constexpr uint32_t kDepth = 32 * T::Element::kPer;
  return max((item.depth + kDepth - 1) / kDepth, 1u);
}
BG_DEVICE bool isNone(const Item& item) { return uniform(item.depth) == kNoItem; }

// Items is the ring of published items: their words, and the phases that end when they
// are published.
template <class More = NoEpilogue>
struct Items {
  static constexpr uint32_t kBytes = 4 * More::kWords;  // of an item
  char* places;
  SharedAddress ready;
  More more;

  BG_DEVICE const uint4* words() const { return reinterpret_cast<const uint4*>(places); }
  BG_DEVICE Item wait(uint32_t number) const {
    waitPhase(ready + 8 * (number % kItemPlaces), number / kItemPlaces & 1);
    return more.item(words(), number % kItemPlaces);
  }
  // operandA and operandB are where those of a published item begin.
  template <class Number>
  BG_DEVICE const Number* operandA(uint32_t number, const Number* A) const {
    return more.operandA(words(), number % kItemPlaces, A);
  }
  template <class Number>
  BG_DEVICE const Number* operandB(uint32_t number, const Item& item, const Number* B) const {
    return more.operandB(words(), number % kItemPlaces, item, B);
  }
};

// Feed publishes the worker's items in shared memory, one ahead of the loader. The lanes of one warp run it.
// Workers of a launch with a dynamic table take chunks of items from its counter
// (internal/encoding/dynamic.go).
//
// Loaders have a loop for either, kDynamic: in one loop that asks for each item the compiler spilled 20
// registers more (nvcc 12.4).
template <class More = NoEpilogue>
struct Feed {
  const uint32_t* items;
  uint32_t item, end, word, number;
  uint32_t* counter;  // dynamic: the chunk that nobody has taken
  // dynamic: in lane 0 the one that was taken, in others what the table has from kDynamicFirst on
  uint32_t chunk;
  uint32_t left;      // dynamic: items of the chunk after this one

  // start is called before the ring can be used, so that the first item is on its way early.
  BG_DEVICE void start(const uint4* items_, const uint32_t* marked, const More& more) {
    items = reinterpret_cast<const uint32_t*>(items_);
    item = workerId();
    if (isDynamic(marked)) {
      static_assert(kDynamicChunk == kDynamicFirst + 1 && kDynamicLast == kDynamicChunk + 1, "other words");
      const uint32_t* const table = dynamicTable(unmarked(marked));
      const uint32_t lane = threadId() % 32;
      counter = const_cast<uint32_t*>(table) + kDynamicNext;
      end = more.products() * table[kDynamicEnd];
      chunk = lane == 0 ? item - workers() : (lane < 3 ? more.products() :
          1) * table[kDynamicFirst - 1 + min(lane, 3u)];
      begin();
    } else {
      end = item + 1;
      if (hasTable(marked)) {
        const uint32_t* const table = unmarked(marked);
        end = table[item + 1];
        item = table[item];
      }
    }
    number = 0;
    fetch();
  }

  // begin goes to the chunk that was taken.
  BG_DEVICE void begin() {
    const uint32_t size = ofLane<2>(chunk);
    item = ofLane<1>(chunk) + size * ofLane<0>(chunk);
    left = size - 1;
  }

  // fetch reads the words of the item to come.
  BG_DEVICE void fetch() {
    const uint32_t lane = threadId() % 32;
    word = kNoItem;
    if (item < end && lane < More::kWords) word = items[More::kWords * static_cast<uint64_t>(item) + lane];
  }

  BG_DEVICE void publish(const Items<More>& ring) {
    const uint32_t lane = threadId() % 32, place = number++ % kItemPlaces;
    if (lane < More::kWords) reinterpret_cast<uint32_t*>(ring.places + ring.kBytes * place)[lane] = word;
    warpBarrier();
    if (lane == 0) arrive(ring.ready + 8 * place);
  }

  // next publishes an item and fetches the one after it, unless that is not known yet.
  template <bool kDynamic>
  BG_DEVICE void next(const Items<More>& ring) {
    publish(ring);
    if constexpr (!kDynamic) {
      ++item;
      fetch();
    }
  }

  // before goes before the loads of an item, and after goes after them. A dynamic worker asks for its next
  // chunk just before the loads of this one, so that it takes no chunk before it can compute it, and
  // publishes items after loads, since the answer takes long.
  template <bool kDynamic>
  BG_DEVICE void before(const Items<More>& ring) {
    if constexpr (!kDynamic) {
      next<false>(ring);
    } else {
      if (left + 1 == ofLane<2>(chunk)) takeNext(counter, ofLane<3>(chunk), threadId() % 32 == 0, chunk);
      if (left != 0) {
        ++item;
        fetch();
      }
    }
  }
  template <bool kDynamic>
  BG_DEVICE void after(const Items<More>& ring) {
    if constexpr (kDynamic) {
      if (left != 0) {
        --left;
      } else {
        begin();
        fetch();
      }
      publish(ring);
    }
  }
};
