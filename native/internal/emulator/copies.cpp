// Copies to shared memory that kernels start: of lines, words and pieces.
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
