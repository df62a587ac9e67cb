// Copies and stores of boxes by maps. A map is stored by a warp, and used by threads that know of that, after
// one of them has acquired it. It may not be stored while a copy uses it.
#include "machine.h"

#include <algorithm>

namespace {

struct Draft {
  uint32_t rowBytes, boxRows, size;  // of a box
  bool swizzles;
};
std::map<uint32_t, Draft> drafts;      // by the word where they begin
std::map<const uint32_t*, Map> maps;  // by where they are in the workspace

// isMatrix reports whether these bytes are all of A or B.
bool isMatrix(const void* from, uint32_t bytes) {
  const float* const words = static_cast<const float*>(from);
  auto is = [](const float& x) { return isElement(&x); };
  return inOperands(from, bytes) && std::all_of(words, words + bytes / 4, is);
}

void accessDraft(SharedAddress draft, bool write) {
  const uint32_t word = wordAt(draft, kMapBytes);
  accessShared(4 * word + running->id % kWarp * 4, 4, write);
}

// same fails unless all lanes of the warp call with what the first one has.
struct Call {
  const void *map, *at;
  uint32_t numbers[4];

  bool operator==(const Call& o) const { return map == o.map && at == o.at &&
      memcmp(numbers, o.numbers, sizeof numbers) == 0; }
};
Call calls[kMaxWarps];
void same(const Call& call) {
  Call& first = calls[running->id / kWarp];
  if (warps[running->id / kWarp].arrived == 0) first = call;
  else if (!(first == call)) fail("makes another map than other lanes");
}

}  // namespace

// elected is true for any lane of the warp, but always the same one.
bool elected() {
  meet("elect.sync", [](uint32_t) {});
  return running->id % kWarp == warps[running->id / kWarp].elected;
}

void beginMap(SharedAddress draft, uint32_t rowBytes, uint32_t boxRows, uint32_t size, bool swizzles) {
  accessDraft(draft, true);
  if (boxRows > 256 || rowBytes > 256 * size || (swizzles && rowBytes != 128)) {
    fail("makes boxes of %u rows of %u bytes", boxRows, rowBytes);
  }
  same({nullptr, nullptr, {draft, boxRows, size, rowBytes}});
  meet("a draft of a map", [&](uint32_t warp) {
    drafts[wordAt(draft, kMapBytes)] = {rowBytes, boxRows, size, swizzles};
    synchronize(warp);
  });
}

void endMap(uint32_t* map, SharedAddress draft, const void* at, uint32_t depth, uint32_t rows, uint32_t ld) {
  accessDraft(draft, false);
  const auto known = drafts.find(wordAt(draft, kMapBytes));
  if (known == drafts.end()) fail("stores a map that it has not begun");
  const Draft d = known->second;
  if (!inWorkspace(map, kMapBytes) || reinterpret_cast<uintptr_t>(map) % kMapBytes != 0) {
    fail("stores a map elsewhere than at 128 bytes of the workspace");
  }
  if (reinterpret_cast<uintptr_t>(at) % 16 != 0 || ld * d.size % 16 != 0 || depth == 0 || rows == 0) {
    fail("makes a map of %u rows of %u numbers, %u apart, from byte %u of a line", rows, depth, ld,
        static_cast<uint32_t>(reinterpret_cast<uintptr_t>(at) % 16));
  }
  same({map, at, {draft, depth, rows, ld}});
  meet("a map", [&](uint32_t warp) {
    Map& m = maps[map];
    if (m.copies != 0) fail("stores a map that a copy uses");
    synchronize(warp);
    m = {static_cast<const char*>(at), depth, rows, ld, d.size, d.boxRows, d.rowBytes, d.swizzles,
        m.stored + 1, warp, threads[warp * kWarp].clock.at[warp]};
  });
}

void forgetMaps() {
  for (auto& map : maps) map.second.acquired = 0;
}

void acquireMap(const uint32_t* map) {
  Map& m = maps[map];
  if (m.stored == 0 || running->clock.at[m.warp] < m.when) fail("acquires a map that may not be stored yet");
  m.acquired = m.stored;
  m.thread = running->id;
  m.then = running->access().now();
}

// acquiredMap is a map that the thread, or one before it, has acquired since it was stored.
static Map& acquiredMap(const uint32_t* map) {
  Map& m = maps[map];
  if (m.stored == 0 || m.acquired != m.stored || !running->clock.has(m.thread, m.then)) {
    fail("uses a map that is not acquired");
  }
  return m;
}

// placesOf is what addresses of boxes are multiples of, and lineOf where a line of 16 bytes of a row lies.
static uint32_t placesOf(const Map& m) { return m.swizzles ? 1024 : 128; }
static uint32_t lineOf(const Map& m, uint32_t row, uint32_t line) {
  return row * m.rowBytes + 16 * (m.swizzles ? line ^ row % 8 : line);
}

void copyBox(SharedAddress to, const uint32_t* map, uint32_t k, uint32_t row, SharedAddress full) {
  Map& m = acquiredMap(map);
  if (to % placesOf(m) != 0) fail("copies a box to byte %u of %u", to % placesOf(m), placesOf(m));
  const uint32_t line = 16 / m.size;
  Arrival arrival{{}, phaseAt(full), m.boxRows * m.rowBytes, running->clock, &m};
  wordAt(to + m.boxRows * m.rowBytes - 16, 16);
  for (uint32_t r = 0; r < m.boxRows; ++r) {
    for (uint32_t c = 0; c < m.rowBytes / 16; ++c) {
      const uint64_t first = static_cast<uint64_t>(k) + c * line;
      const uint32_t numbers = row + r < m.rows && first < m.depth ?
          static_cast<uint32_t>(m.depth - first < line ? m.depth - first : line) : 0;
      const char* const from = m.at + ((static_cast<uint64_t>(row) + r) * m.ld + first) * m.size;
      if (numbers != 0 && !isMatrix(from, numbers * m.size)) fail("copies a box of what is not in A or B");
      const uint32_t place = wordAt(to + lineOf(m, r, c), 16);
      arrival.copies.push_back(startCopy({place, 4, from, numbers * m.size}));
      // products need no fence after it
      for (uint32_t word = place; word < place + 4; ++word) shadow.fence(word, running->access());
    }
  }
  ++m.copies;
  copied(std::move(arrival));
}

// ---- stores ----

namespace {

// eachLine calls with the words of a box in shared memory, 16 bytes at a time, and where they belong.
template <class Of>
void eachLine(const BoxStore& b, Of of) {
  const Map& m = *b.map;
  const uint32_t line = 16 / m.size;
  for (uint32_t r = 0; r < m.boxRows && b.row + r < m.rows; ++r) {
    for (uint32_t c = 0; c < m.rowBytes / 16; ++c) {
      const uint64_t first = b.col + c * line;
      if (first >= m.depth) break;
      of(b.from + lineOf(m, r, c) / 4,
          const_cast<char*>(m.at) + ((static_cast<uint64_t>(b.row) + r) * m.ld + first) * m.size);
    }
  }
}

}  // namespace

// storeBox stores lines whole, also those of which the matrix has a part, as an H200 does.
void storeBox(const uint32_t* map, uint32_t col, uint32_t row, SharedAddress from) {
  Map& m = acquiredMap(map);
  if (from % placesOf(m) != 0) fail("stores a box from byte %u of %u", from % placesOf(m), placesOf(m));
  const BoxStore box{&m, col, row, wordAt(from, 16)};
  wordAt(from + m.boxRows * m.rowBytes - 16, 16);
  eachLine(box, [](uint32_t word, char* to) {
    if (!inC(to, 16)) fail("stores a box elsewhere than to C");
    for (uint32_t i = 0; i < 4; ++i) must(shadow.startProduct(word + i, running->access()), word + i);
  });
  ++m.copies;
  running->boxes.push_back(box);
}

void landBoxes(Thread& t) {
  for (const BoxStore& b : t.boxGroups.front()) {
    eachLine(b, [&](uint32_t word, char* to) {
      memcpy(to, memory + 4 * word, 16);
      for (uint32_t i = 0; i < 4; ++i) shadow.endProduct(word + i, t.access());
    });
    --b.map->copies;
  }
  t.boxGroups.pop_front();
}

void commitBoxes() {
  running->boxGroups.push_back(std::move(running->boxes));
  running->boxes.clear();
  if (copiesLand == kAtOnce) landBoxes(*running);
}

void endBoxes(uint32_t pending) {
  while (running->boxGroups.size() > pending) landBoxes(*running);
}
