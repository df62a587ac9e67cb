// Runs jobs (job.h) with the kernels of kernels.hip. The words that say how are the
// order of threads and the lanes of a wave.
#include "far.h"
#include "job.h"
#include "shim.h"

#include <algorithm>
#include <vector>

// Returns whether a launch ran. Where it makes the items of a ragged plan, the job has sizes in place of a
// plan, of which the launch has those from its table on, C is the plan, and the base of A the extent. Where
// it is a step of a layer of experts, the job has the words of Sizes in place of a plan, and the launch the
// shape in the bases of B and A, the other number in that of B2, and the extent in place of an epilogue. A
// gate has its number above the extent, and the words of the step as items. If its table is not 0, Sizes is
// in C, from that word on.
static bool run(const Job& job, const Launch& l, const float* a, const float* b, float* c, float* workspace) {
  const bool ragged = strncmp(l.kernel, "bg_ragged_", 10) == 0;
  const bool gate = strncmp(l.kernel, "bg_gate_", 8) == 0;
  const bool layer = gate || strncmp(l.kernel, "bg_route_", 9) == 0 ||
      strncmp(l.kernel, "bg_combine_", 11) == 0;
  const auto number = [](uint64_t x) { return reinterpret_cast<const void*>(static_cast<uintptr_t>(x)); };
  const uint64_t shape = l.baseB | static_cast<uint64_t>(l.baseA) << 32;
  const uint64_t epilogue = l.epilogue | (gate ? static_cast<uint64_t>(l.baseB2) << 32 : 0);
  const bool sizes = ragged || layer;
  const void* const table = layer && l.table != 0 ? reinterpret_cast<const uint32_t*>(c) + l.table
      : l.table == 0 && !sizes ? nullptr : l.marked(&job.plan[0]);
  const void* values[10] = {&job.plan[l.items], table,
                            ragged ? number(l.baseA) : layer ? a : a + l.baseA,
                            ragged ? nullptr : gate ? b : layer ? number(shape) : b + l.baseB,
                            ragged ? nullptr : c + l.baseC, ragged ? c : workspace,
                            gate ? number(shape) : layer ? number(l.baseB2) : job.b2.at.get() + l.baseB2,
                            job.bias.at.get(), job.rows.at.get(), number(epilogue)};
  void* args[10];
  for (int j = 0; j < 10; ++j) args[j] = &values[j];
  if (bg_shim_launch(l.kernel, l.workers, l.pieces, l.threads, args) == 0) return true;
  fprintf(stderr, "runner: %s\n", bg_shim_error());
  return false;
}

// Returns whether the launch of a job with one item ran, with its rows far apart.
static bool runFarRows(const Job& job) {
  uint32_t* const item = &job.plan[job.list[0].items];
  const FarRows a(job.a, item[4]), b(job.b, item[5]), c(job.c, item[6]);
  item[4] = item[5] = item[6] = kFarLD;
  const bool ok = run(job, job.list[0], a.at, b.at, c.at, nullptr);
  c.copyTo(job.c);
  return ok;
}

// Returns whether all launches of a job ran.
static bool run(Job& job) {
  bg_shim_order(job.how[0]);
  bg_shim_wave_size(job.how[1]);
  if (job.far == kFarRows) return runFarRows(job);
  const std::vector<uint32_t> before(&job.plan[0], &job.plan[0] + job.words);
  // 0 unless slots are far
  float* const workspace = job.workspace.at.get() - static_cast<size_t>(kFarSlot) * job.far;
  for (uint32_t i = 0; i < job.launches; ++i) {
    if (job.far != kNear) moveSlots(job, job.list[i]);
    if (!run(job, job.list[i], job.a.at.get(), job.b.at.get(), job.c.at.get(), workspace)) return false;
  }
  // Of parts that were counted nothing is left for the next run.
  if (job.far == kNear && !std::equal(before.begin(), before.end(), &job.plan[0])) {
    fprintf(stderr, "runner: the plan is another after a run\n");
    return false;
  }
  return true;
}

int main(int argc, char** argv) { return runJobs(argc, argv, run); }
