package planner_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/workload"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

// TestSweepSchedules: no batch of the sweep gets a schedule that was never the fastest: several tiles for
// each worker, or even shares of workers that leave (docs/results.md). Terms fitted only to other schedules
// make them look good.
func TestSweepSchedules(t *testing.T) {
	for _, c := range []struct {
		device string
		never  []planner.Schedule
		modes  []planner.Options
	}{
		{"h200", []planner.Schedule{planner.ScheduleBatched},
			[]planner.Options{{}, {Compute: planner.ComputeF32}, {Compute: planner.ComputeTF32},
				{TypeA: element.BF16, TypeC: element.BF16}}},
		{"h200-webgpu", []planner.Schedule{planner.ScheduleBatched, planner.ScheduleStreamK},
			[]planner.Options{{}, {TypeA: element.BF16, TypeC: element.BF16}}},
	} {
		p := planner.New(lookup(t, c.device))
		for _, o := range c.modes {
			for _, w := range workload.Zhang() {
				b, err := planner.Pack(w.Problems...)
				require.NoError(t, err)
				plan, err := p.Plan(t.Context(), b, o)
				require.NoError(t, err)
				require.NotContains(t, c.never, planner.Schedule(plan.Explain().Schedule), "%s %s %+v",
					c.device, w.Name, o)
			}
		}
	}
}
