// What is known of each word of an emulated GPU's shared memory: who wrote and who read
// it, and which copies and products are under way there. It finds accesses that nothing
// orders, whether or not they went wrong in this run.
#pragma once

#include <stdint.h>
#include <string.h>

#include <algorithm>
#include <vector>

constexpr uint32_t kMaxWarps = 16;

// Clock says which accesses happened before a place in a thread's program. A warp's
// time is counted by the points at which its lanes meet: of warp w, all accesses before
// point at[w] did, and of those after it the accesses of lanes[w].
struct Clock {
  uint32_t at[kMaxWarps] = {}, lanes[kMaxWarps] = {};

  void join(const Clock& other) {
    for (uint32_t w = 0; w < kMaxWarps; ++w) {
      const uint32_t mine = at[w] >= other.at[w] ? lanes[w] : 0,
          theirs = at[w] <= other.at[w] ? other.lanes[w] : 0;
      at[w] = std::max(at[w], other.at[w]);
      lanes[w] = mine | theirs;
    }
  }
  // has reports whether what a thread did at a time of its warp happened before.
  bool has(uint32_t thread, uint32_t when) const {
    const uint32_t warp = thread / 32;
    return when < at[warp] || (when == at[warp] && lanes[warp] >> thread % 32 & 1);
  }
};

// Access is what a thread brings to an access: itself and its clock.
struct Access {
  uint32_t thread;
  const Clock* clock;
  const Clock* fenced;  // what happened before shows in the tensor cores

  uint32_t warp() const { return thread / 32; }
  uint32_t lane() const { return 1u << thread % 32; }
  uint32_t now() const { return clock->at[warp()]; }
};

class Shadow {
 public:
  // reset forgets what happened, all of which was before any clock to come.
  void reset(uint32_t bytes) {
    words.assign(bytes / 4, Word());
    reads.resize(bytes / 4);
  }

  // The functions below return null, or what is wrong with an access to a word.

  const char* read(uint32_t word, const Access& by) {
    Word& w = words[word];
    if (w.copies) return "reads where a copy is under way";
    if (w.phase) return "reads an mbarrier";
    if (!wroteBefore(w, *by.clock)) return "reads what another thread writes";
    noteRead(reads[word], by.warp(), by.now(), by.lane());
    return nullptr;
  }

  const char* write(uint32_t word, const Access& by) {
    Word& w = words[word];
    if (w.phase) return "writes to an mbarrier";
    if (const char* wrong = overwrite(w, reads[word], by)) return wrong;
    w.fenced = false;
    return nullptr;
  }

  const char* startCopy(uint32_t word, const Access& by) {
    const char* const wrong = write(word, by);
    words[word].copies = true;
    return wrong;
  }
  void endCopy(uint32_t word) { words[word].copies = false; }

  const char* makePhase(uint32_t word, const Access& by) {
    const char* const wrong = write(word, by);
    words[word].phase = true;
    return wrong;
  }
  const char* usePhase(uint32_t word, const Access& by) const {
    const Word& w = words[word];
    return !w.phase || !wroteBefore(w, *by.clock) ? "uses an mbarrier that may not be made yet" : nullptr;
  }

  // fence shows what the thread has written to the tensor cores.
  void fence(uint32_t word, const Access& by) {
    if (words[word].writer == by.thread) words[word].fenced = true;
  }

  // A product, or the store of a box, reads from startProduct, until endProduct.
  const char* startProduct(uint32_t word, const Access& by) {
    Word& w = words[word];
    ++w.products;
    if (w.copies) return "multiplies or stores where a copy is under way";
    if (!wroteBefore(w, *by.clock)) return "multiplies or stores what another thread writes";
    return w.writer != kNobody && !w.fenced && !wroteBefore(w, *by.fenced) ?
        "multiplies or stores what was written without a fence" : nullptr;
  }
  void endProduct(uint32_t word, const Access& by) {
    --words[word].products;
    noteRead(reads[word], by.warp(), by.now(), ~0u);  // of the warp, and over for none of its lanes
  }

 private:
  static constexpr uint16_t kNobody = 0xffff;
  struct Word {
    uint32_t wrote = 0;         // when, in the writer's warp
    uint16_t writer = kNobody;  // thread
    uint8_t products = 0;       // under way
    bool copies = false, fenced = false, phase = false;
  };
  struct Reads {
    uint32_t at[kMaxWarps] = {}, lanes[kMaxWarps] = {};  // when each warp did so last, and which lanes then
  };
  std::vector<Word> words;
  std::vector<Reads> reads;

  static bool wroteBefore(const Word& w, const Clock& clock) {
    return w.writer == kNobody || clock.has(w.writer, w.wrote);
  }

  static void noteRead(Reads& r, uint32_t warp, uint32_t now, uint32_t lanes) {
    r.lanes[warp] = r.at[warp] == now ? r.lanes[warp] | lanes : lanes;
    r.at[warp] = now;
  }

  static const char* overwrite(Word& w, const Reads& r, const Access& by) {
    if (w.copies) return "writes where a copy is under way";
    if (w.products != 0) return "writes where a product or a store is under way";
    if (!wroteBefore(w, *by.clock)) return "writes what another thread writes";
    uint32_t unordered = 0;
    for (uint32_t i = 0; i < kMaxWarps; ++i) {
      const uint32_t late = r.at[i] > by.clock->at[i] ? ~0u : 0,
          same = r.at[i] == by.clock->at[i] ? ~by.clock->lanes[i] : 0;
      unordered |= r.lanes[i] & (late | same);
    }
    if (unordered != 0) return "writes what another thread reads";
    w.writer = static_cast<uint16_t>(by.thread);
    w.wrote = by.now();
    return nullptr;
  }
};
