// Runs jobs (job.h) with the kernels of kernels.hip. The words that say how are the
// order of threads and the lanes of a wave.
#include "job.h"
#include "shim.h"

// Returns whether all launches of a job ran.
static bool run(Job& job) {
  bg_shim_order(job.how[0]);
  bg_shim_wave_size(job.how[1]);
  for (uint32_t i = 0; i < job.launches; ++i) {
    const Launch& l = job.list[i];
    const void* values[6] = {&job.plan[l.items], l.table == 0 ? nullptr : &job.plan[l.table],
                             job.a.at.get() + l.baseA, job.b.at.get() + l.baseB,
                             job.c.at.get() + l.baseC, job.workspace.at.get()};
    void* args[6];
    for (int j = 0; j < 6; ++j) args[j] = &values[j];
    if (bg_shim_launch(l.kernel, l.workers, l.pieces, l.threads, args) != 0) {
      fprintf(stderr, "runner: %s\n", bg_shim_error());
      return false;
    }
  }
  return true;
}

int main(int argc, char** argv) { return runJobs(argc, argv, run); }
