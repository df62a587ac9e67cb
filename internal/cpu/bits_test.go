package cpu

import (
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/planner"
)

// TestSameBits: a plan gives the same bits with any number of threads.
func TestSameBits(t *testing.T) {
	d := openDevice(t)
	batch := append(random(20, 150, 700), planner.GEMM(10, 20, 5000))
	for _, s := range []planner.Schedule{planner.ScheduleDataParallel, planner.ScheduleSplitK,
		planner.ScheduleStreamK, planner.ScheduleLPT} {
		t.Run(string(s), func(t *testing.T) {
			run := ready(t, d, planner.Options{Schedule: s}, batch...)
			c := run.C.(*buffer).data
			var want []float32
			for _, threads := range []int{1, 2, 3, 8} {
				for i := range c {
					c[i] = 7 // also between matrices
				}
				e := newEntry([]driver.Run{run}, 0, nil)
				newCrew(threads, d.crew.own.instructions, new(atomic.Bool)).run(&e, threads-1)
				e.drop()
				if want == nil {
					want = append(want, c...)
				}
				require.Equal(t, want, c, "%d threads", threads)
			}
		})
	}
}
