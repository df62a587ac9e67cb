// Copies to shared memory that kernels start: of lines, words, pieces, and of boxes by maps. A map is stored
// by a warp, and used by threads that know of that and have acquired it since. It may not be stored while a
// copy uses it.
#include "machine.h"

#include <algorithm>

void copyLine(SharedAddress to, const void* line, uint32_t bytes) {
  const float* const from = static_cast<const float*>(line);
  if (reinterpret_cast<uintptr_t>(from) % 16 != 0 ||
      bytes > 16) fail("copies %u bytes from an address that is no multiple of 16", bytes);
  if (bytes != 0 && !inOperands(from, bytes)) fail("copies what is not in A or B");
  if (bytes != 0 && !std::any_of(from, from + (bytes + 3) / 4,
      [](const float& x) { return isElement(&x); })) fail("copies a line without an element of A or B");
  copied(startCopy({wordAt(to, 16), 4, from, bytes}));
}

void copyDoubles(SharedAddress to, const double* from, uint32_t size, uint32_t bytes) {
  const float* const words = reinterpret_cast<const float*>(from);
  if (bytes > size || bytes % 8 != 0) fail("copies %u bytes of %u", bytes, size);
  if (bytes != 0 && reinterpret_cast<uintptr_t>(from) % size != 0) {
    fail("copies doubles from an address that is no multiple of %u", size);
  }
  if (bytes != 0 && (!inOperands(from, bytes) ||
      !std::all_of(words, words + bytes / 4, [](const float& x) { return isElement(&x); }))) {
    fail("copies what is not in A or B");
  }
  copied(startCopy({wordAt(to, size), size / 4, from, bytes}));
}

void copyWord(SharedAddress to, const void* from, uint32_t bytes) {
  if (reinterpret_cast<uintptr_t>(from) % 4 != 0 ||
      bytes > 4) fail("copies %u bytes from an address that is no multiple of 4", bytes);
  if (bytes != 0 && !inRows(from, bytes)) fail("copies a word that is not in Rows");
  copied(startCopy({wordAt(to, 4), 1, from, bytes}));
}

void expectBytes(SharedAddress at, uint32_t bytes) { phases[phaseAt(at)].bytes += bytes; }

void copyPiece(SharedAddress to, const void* from, uint32_t bytes, SharedAddress at) {
  if (reinterpret_cast<uintptr_t>(from) % 16 != 0 || bytes % 16 != 0 ||
      bytes == 0) fail("copies a piece of %u bytes, or from an address, that is no multiple of 16", bytes);
  if (!inOperands(from, bytes) && !inRows(from, bytes)) fail("copies a piece that is not in B or Rows");
  wordAt(to + bytes - 16, 16);
  copied({{startCopy({wordAt(to, 16), bytes / 4, from, bytes})}, phaseAt(at), bytes, running->clock});
}

namespace {

struct Draft {
  uint32_t boxRows, size;
};
std::map<uint32_t, Draft> drafts;      // by the word where they begin
std::map<const uint32_t*, Map> maps;  // by where they are in the workspace

constexpr uint32_t kRowBytes = 128;  // of a box

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

// elected is true for any lane of the warp.
bool elected() {
  meet("elect.sync", [](uint32_t warp) {
    const uint32_t one = draw() % kWarp;
    for (uint32_t lane = 0; lane < kWarp; ++lane) threads[warp * kWarp + lane].any = lane == one;
  });
  return running->any;
}

void beginMap(SharedAddress draft, uint32_t boxRows, uint32_t size) {
  accessDraft(draft, true);
  if (boxRows > 256) fail("makes boxes of %u rows", boxRows);
  same({nullptr, nullptr, {draft, boxRows, size, 0}});
  meet("a draft of a map", [&](uint32_t warp) {
    drafts[wordAt(draft, kMapBytes)] = {boxRows, size};
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
    m = {static_cast<const char*>(at), depth, rows, ld, d.size, d.boxRows, m.stored + 1, warp,
        threads[warp * kWarp].clock.at[warp], 0};
  });
}

void acquireMap(const uint32_t* map) {
  const Map& m = maps[map];
  if (m.stored == 0 || running->clock.at[m.warp] < m.when) fail("acquires a map that may not be stored yet");
  running->acquired[&m] = m.stored;
}

void copyBox(SharedAddress to, const uint32_t* map, uint32_t k, uint32_t row, SharedAddress full) {
  Map& m = maps[map];
  const auto acquired = running->acquired.find(&m);
  if (acquired == running->acquired.end() || acquired->second != m.stored) {
    fail("copies by a map that it has not acquired");
  }
  if (to % 1024 != 0) fail("copies a box to byte %u of 1024", to % 1024);
  const uint32_t line = 16 / m.size;
  Arrival arrival{{}, phaseAt(full), m.boxRows * kRowBytes, running->clock, &m};
  wordAt(to + m.boxRows * kRowBytes - 16, 16);
  for (uint32_t r = 0; r < m.boxRows; ++r) {
    for (uint32_t c = 0; c < kRowBytes / 16; ++c) {
      const uint64_t first = static_cast<uint64_t>(k) + c * line;
      const uint32_t numbers = row + r < m.rows && first < m.depth ?
          static_cast<uint32_t>(m.depth - first < line ? m.depth - first : line) : 0;
      const char* const from = m.at + ((static_cast<uint64_t>(row) + r) * m.ld + first) * m.size;
      if (numbers != 0 && !isMatrix(from, numbers * m.size)) fail("copies a box of what is not in A or B");
      const uint32_t place = wordAt(to + r * kRowBytes + 16 * (c ^ r % 8), 16);
      arrival.copies.push_back(startCopy({place, 4, from, numbers * m.size}));
      // products need no fence after it
      for (uint32_t word = place; word < place + 4; ++word) shadow.fence(word, running->access());
    }
  }
  ++m.copies;
  copied(std::move(arrival));
}
