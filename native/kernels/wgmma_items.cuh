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

// Feed publishes the worker's items in shared memory, one ahead of the loader. The lanes of one warp run it. Workers of a launch
// whose table is marked as dynamic take tiles from its counter (internal/encoding/turn.go).
template <class More = NoEpilogue>
struct Feed {
  const uint32_t* table;  // with its marks
  const uint32_t* items;
  uint32_t item, end, word;
  uint32_t turns;  // dynamic: in lane 0 the turn that was taken, in others what the table has from kTurnFirst on
  uint32_t left;   // dynamic: items of the turn after this one

  BG_DEVICE bool dynamic() const { return isDynamic(table); }
  BG_DEVICE const uint32_t* words() const { return dynamicTable(unmarked(table)); }

  // start is called before the ring can be used, so that the first item is on its way early.
  BG_DEVICE void start(const uint4* items_, const uint32_t* table_, const More& more) {
    table = table_;
    items = reinterpret_cast<const uint32_t*>(items_);
    item = workerId();
    if (dynamic()) {
      static_assert(kTurnItems == kTurnFirst + 1 && kTurnLast == kTurnItems + 1, "other words");
      const uint32_t lane = threadId() % 32;
      end = more.products() * words()[kTurnEnd];
      turns = lane == 0 ? item - workers() : (lane < 3 ? more.products() : 1) * words()[kTurnFirst - 1 + min(lane, 3u)];
      begin();
    } else {
      end = item + 1;
      if (hasTable(table)) {
        const uint32_t* const ends = unmarked(table);
        end = ends[item + 1];
        item = ends[item];
      }
    }
    fetch();
  }

  // begin goes to the turn that was taken.
  BG_DEVICE void begin() {
    const uint32_t size = ofLane<2>(turns);
    item = ofLane<1>(turns) + size * ofLane<0>(turns);
    left = size - 1;
  }

  // fetch reads the words of the item to come.
  BG_DEVICE void fetch() {
    const uint32_t lane = threadId() % 32;
    word = kNoItem;
    if (item < end && lane < More::kWords) word = items[More::kWords * static_cast<uint64_t>(item) + lane];
  }

  BG_DEVICE void publish(const Items<More>& ring, uint32_t number) {
    const uint32_t lane = threadId() % 32, place = number % kItemPlaces;
    if (lane < More::kWords) reinterpret_cast<uint32_t*>(ring.places + ring.kBytes * place)[lane] = word;
    warpBarrier();
    if (lane == 0) arrive(ring.ready + 8 * place);
  }

  // first publishes the first item, and fetches the second unless a counter has it.
  BG_DEVICE void first(const Items<More>& ring) {
    publish(ring, 0);
    if (!dynamic()) advance();
  }
  BG_DEVICE void advance() {
    ++item;
    fetch();
  }

  // ahead goes before the loads of an item, by its number, and behind goes after them. A dynamic worker asks for its next turn
  // just before the loads of this item, so that it takes no tile before it can compute it, and publishes items
  // after them, since the answer takes long.
  BG_DEVICE void ahead(const Items<More>& ring, uint32_t number) {
    if (!dynamic()) {
      publish(ring, number + 1);
      advance();
      return;
    }
    if (left + 1 == ofLane<2>(turns)) takeNext(const_cast<uint32_t*>(words()) + kTurnNext, ofLane<3>(turns), threadId() % 32 == 0, turns);
    if (left != 0) advance();
  }
  BG_DEVICE void behind(const Items<More>& ring, uint32_t number) {
    if (!dynamic()) return;
    if (left != 0) {
      --left;
    } else {
      begin();
      fetch();
    }
    publish(ring, number + 1);
  }
};
