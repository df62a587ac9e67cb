// The items of a worker of wgmma.cuh, published by one warp and read by all the others
// from shared memory.
#pragma once

constexpr int kItemPlaces = 16;  // items in shared memory: see WgmmaTile
constexpr uint32_t kItemBytes = 4 * kItemWords;
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
struct Items {
  char* places;
  SharedAddress ready;

  BG_DEVICE Item wait(uint32_t number) const {
    waitPhase(ready + 8 * (number % kItemPlaces), number / kItemPlaces & 1);
    return itemAt(reinterpret_cast<const uint4*>(places), number % kItemPlaces);
  }
};

// Feed publishes the worker's items in shared memory, one ahead of the loader. The lanes
// of one warp run it. kInTurn: workers take items when they can do more, from a table of
// how many were taken (planner/encoding/ragged.go).
template <bool kInTurn>
struct Feed {
  const uint32_t* items;
  uint32_t item, end, word, number;
  uint32_t* counter;  // kInTurn: the item that nobody has taken
  uint32_t taken;     // in the first lane: the one that was

  // start is called before the ring can be used, so that the first item is on its way early.
  BG_DEVICE void start(const uint4* items_, const uint32_t* table) {
    items = reinterpret_cast<const uint32_t*>(items_);
    item = workerId();
    if constexpr (kInTurn) {
      counter = const_cast<uint32_t*>(table) + kTurnNext;
      end = table[kTurnEnd];
      item += table[kTurnFirst];
    } else {
      end = item + 1;
      if (table != nullptr) {
        end = table[item + 1];
        item = table[item];
      }
    }
    number = 0;
    fetch();
  }

  // fetch reads the words of the item to come.
  BG_DEVICE void fetch() {
    const uint32_t lane = threadId() % 32;
    word = kNoItem;
    if (item < end && lane < kItemWords) word = items[kItemWords * static_cast<uint64_t>(item) + lane];
  }

  BG_DEVICE void publish(const Items& ring) {
    const uint32_t lane = threadId() % 32, place = number++ % kItemPlaces;
    if (lane < kItemWords) reinterpret_cast<uint32_t*>(ring.places + kItemBytes * place)[lane] = word;
    warpBarrier();
    if (lane == 0) arrive(ring.ready + 8 * place);
  }

  // next publishes an item and fetches the one behind it, unless that is not known yet.
  BG_DEVICE void next(const Items& ring) {
    publish(ring);
    if constexpr (!kInTurn) {
      ++item;
      fetch();
    }
  }

  // ahead goes before the loads of an item, and behind goes behind them. Who takes items in
  // turn asks for the next one in front of the loads, not sooner, so that it can do it soon,
  // and publishes it behind them, since what it asks for is long on its way.
  BG_DEVICE void ahead(const Items& ring) {
    if constexpr (kInTurn) taken = takeNext(counter);
    else next(ring);
  }
  BG_DEVICE void behind(const Items& ring) {
    if constexpr (kInTurn) {
      item = ofFirstLane(taken);
      fetch();
      publish(ring);
    }
  }
};
