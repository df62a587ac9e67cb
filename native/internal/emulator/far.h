// Puts the memory of a job where numbers of elements need more than 32 bits. Plans reach
// only up to 2^32 elements, but kernels are to compute addresses in 64 bits.
#pragma once

#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "job.h"

// What the words of items need of a dialect, which the text here has not.
#define BG_DEVICE inline
struct uint4 {
  uint32_t x, y, z, w;
};
#include "../../kernels/items.cuh"

// What Job::far says: rows, or else how many elements a slot of the workspace has.
constexpr uint32_t kNear = 0, kFarRows = 1;

constexpr uint32_t kFarLD = 0x7ffffffc;       // a leading dimension below 2^31, for copies of 16 bytes
// times the 64 elements of the smallest tile, or 16 vectors of these
constexpr uint32_t kFarSlot = 1u << 29;

// FarRows is a matrix whose rows are kFarLD elements apart. There is memory for them
// alone: what reaches between them ends the process.
class FarRows {
 public:
  FarRows(const Array<float>& from, uint32_t pitch_) : pitch(pitch_), rows((from.size + pitch - 1) / pitch) {
    at = static_cast<float*>(mmap(nullptr, bytes(), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
        -1, 0));
    if (at == MAP_FAILED) die();
    const uintptr_t page = sysconf(_SC_PAGESIZE);
    for (size_t r = 0; r < rows; ++r) {
      const uintptr_t first = reinterpret_cast<uintptr_t>(row(r)) / page * page,
          end = reinterpret_cast<uintptr_t>(row(r) + pitch);
      if (mprotect(reinterpret_cast<void*>(first), end - first, PROT_READ | PROT_WRITE) != 0) die();
      memcpy(row(r), &from[r * pitch], length(r, from.size) * sizeof(float));
    }
  }
  ~FarRows() { munmap(at, bytes()); }

  void copyTo(const Array<float>& to) const {
    for (size_t r = 0; r < rows; ++r) memcpy(&to[r * pitch], row(r), length(r, to.size) * sizeof(float));
  }

  float* at;

 private:
  float* row(size_t r) const { return at + r * kFarLD; }
  size_t bytes() const { return rows * kFarLD * sizeof(float); }
  size_t length(size_t r, size_t size) const { return size - r * pitch < pitch ? size - r * pitch : pitch; }
  static void die() {
    perror("runner: address space");
    exit(2);
  }

  size_t pitch, rows;
};

// moveSlots gives the partial tiles of a launch numbers from kFarSlot on. The workspace
// then begins so far before its memory.
inline void moveSlots(const Job& job, const Launch& l) {
  const bool fixup = strstr(l.kernel, "_fixup") != nullptr;
  const uint32_t items = l.table == 0 ? l.workers : job.plan[l.table + l.workers];
  for (uint32_t i = 0; i < items; ++i) {
    const size_t word = fixup ? kFixupWords * i + offsetof(FixupItem, slot) / 4 :
        kItemWords * i + offsetof(Item, slot) / 4;
    uint32_t& slot = job.plan[l.items + word];
    if (fixup || slot != kFinal) slot += kFarSlot;
    if (fixup || (job.plan[l.items + kItemWords * i + offsetof(Item,
        flags) / 4] & kItemPartial) == 0) continue;
    // The fix-up of a part, which others of the tile have too.
    const uint32_t at = 4 * job.plan[l.items + kItemWords * i + offsetof(Item, offC) / 4];
    uint32_t& first = job.plan[l.items + at + offsetof(FixupItem, slot) / 4];
    if (first < kFarSlot) first += kFarSlot;
  }
}
