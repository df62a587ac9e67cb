package drivertest

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/backend"
	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/planner"
)

// fewPlaces makes few workers stay, each with many tiles.
func fewPlaces(d *planner.Device) { d.ComputeUnits, d.MaxGroups = 1, 3 }

// testSchedules: C has the same bits whichever workers compute whole tiles, in whatever order. Dynamic
// workers find their counter unchanged in the next run of a queue, in the next submission, and after an
// update.
func (s *suite) testSchedules(t *testing.T) {
	for _, tile := range append(s.tensorTiles(), "small") {
		t.Run(tile, func(t *testing.T) {
			b := irregular(newRand(21), 40, 150, 60)
			for i := range b {
				b[i].Beta = 1 // so that a tile shows that is computed twice
			}
			whole := s.prepare(t, b, narrow,
				planner.Options{Tile: tile, Schedule: planner.ScheduleDataParallel}, nil)
			o := s.typed(fill(b, whole.lens, uniform(21)))
			counts := []int{1, 5, 1, 1}
			want := make([][]float32, len(counts))
			for i, n := range counts {
				want[i] = whole.runs(t, o, n)
			}
			for _, schedule := range []planner.Schedule{planner.ScheduleBatched, planner.ScheduleLPT,
				planner.ScheduleDynamic} {
				j := s.prepare(t, b, narrow, planner.Options{Tile: tile, Schedule: schedule}, fewPlaces)
				requireTurns(t, j, schedule)
				for i, n := range counts {
					if i == len(counts)-1 {
						s.updateAndBack(t, j)
					}
					require.True(t, sameBits(want[i], j.runs(t, o, n)), "%s, %d runs\n%v", schedule, n, j)
				}
			}
		})
	}
}

// requireTurns fails unless tiles are dynamic exactly under that schedule.
func requireTurns(t *testing.T, j *job, schedule planner.Schedule) {
	t.Helper()
	require.Equal(t, schedule == planner.ScheduleDynamic, j.some(j.suite.isDynamic), j)
}

// isDynamic reports whether a launch has dynamic tiles. Workers of a CPU are threads, which take one tile at
// a time with every plan.
func (s *suite) isDynamic(l encoding.Launch) bool {
	return l.Dynamic || l.Schedule == string(planner.ScheduleDynamic) &&
		s.device.Info().Planner.KernelKind == encoding.KernelsCPU
}

// runs does n runs in one submission, and returns C.
func (j *job) runs(t *testing.T, o operands, n int) []float32 {
	t.Helper()
	ctx, s := context.Background(), j.suite
	for i, words := range [][]float32{backend.ToWords(s.of, o.a), backend.ToWords(s.of, o.b),
		backend.ToWords(s.ofC, o.c)} {
		require.NoError(t, j.buffers[i].Write(ctx, 0, words))
	}
	run := driver.Run{Program: j.program, A: j.buffers[0], B: j.buffers[1], C: j.buffers[2]}
	require.NoError(t, s.device.Submit(ctx, slices.Repeat([]driver.Run{run}, n)))
	c := make([]float32, j.buffers[2].Len())
	require.NoError(t, j.buffers[2].Read(ctx, 0, c))
	return c
}

// updateAndBack runs another batch with the program in between, with a run of each plan queued.
func (s *suite) updateAndBack(t *testing.T, j *job) {
	t.Helper()
	ctx := context.Background()
	other := new(planner.Plan)
	require.NoError(t, planner.New(j.plan.Device).Replan(ctx, other, j.batch[:len(j.batch)/2],
		j.plan.Options))
	run := []driver.Run{{Program: j.program, A: j.buffers[0], B: j.buffers[1], C: j.buffers[2]}}
	for _, plan := range []*planner.Plan{other, j.plan} {
		require.NoError(t, s.device.Submit(ctx, run))
		require.NoError(t, j.program.Update(ctx, plan))
	}
}
