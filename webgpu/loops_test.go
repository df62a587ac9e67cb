//go:build cgo && !nowebgpu && ((linux && amd64) || darwin || (windows && amd64))

package webgpu

import (
	"sort"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/sample"
	"github.com/batchgemm/batchgemm/planner"
)

// Lavapipe ends all loops of a thread after 65535 iterations without an error. Schedules that give a worker
// partials of many tiles stay below that, even if the device has too few places for the work.
func TestManyTilesLongerThanLavapipeAllows(t *testing.T) {
	sample.WebGPU.Skip(t, 1)
	d := open(t, webgpuDriver{})
	facts := d.info.Planner
	facts.ComputeUnits = 1
	problems := make([]planner.Problem, 24)
	for i := range problems {
		problems[i] = gemm(4, 5, 40_000)
	}
	k := newTask(t, problems...)
	a, b, c := upload(t, d, k.a), upload(t, d, k.b), alloc(t, d, len(k.c))
	for _, schedule := range planner.Schedules() {
		plan, err := planner.New(&facts).Plan(t.Context(), k.batch,
			planner.Options{Tile: "tiny-k4", Schedule: schedule})
		require.NoError(t, err)
		p, err := d.Prepare(t.Context(), plan)
		require.NoError(t, err)
		require.NoError(t, d.Submit(t.Context(), []driver.Run{{Program: p, A: a, B: b, C: c}}))
		t.Log(schedule)
		requireEqual(t, reference(k.batch, k.a, k.b, k.c), download(t, c, len(k.c)))
		require.NoError(t, p.Close())
	}
}

// TestLongestLoops: with the most K that one launch takes, and with more, results of each shape are right.
func TestLongestLoops(t *testing.T) {
	d := open(t, webgpuDriver{})
	facts := &d.info.Planner
	if facts.MaxTrips == 0 {
		t.Skip("the device has no limit")
	}
	for _, k := range facts.Kernels {
		t.Run(k.Tile.Name, func(t *testing.T) {
			sample.WebGPU.Skip(t, 1)
			o := planner.Options{Tile: k.Tile.Name, Schedule: planner.ScheduleDataParallel}
			more := sort.Search(1<<20, func(k int) bool {
				batch, err := planner.Pack(gemm(2, 3, k))
				require.NoError(t, err)
				plan, err := planner.New(facts).Plan(t.Context(), batch, o)
				require.NoError(t, err)
				return len(plan.Launches) > 1
			})
			for _, depth := range []int{more - 1, more} {
				k := newTask(t, gemm(2, 3, depth))
				got, plan := k.run(t, d, o)
				require.Len(t, plan.Launches, 1+depth/more)
				requireEqual(t, reference(k.batch, k.a, k.b, k.c), got)
			}
		})
	}
}
