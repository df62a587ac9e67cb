package planner_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/workload"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

// TestSweepSchedules: no batch of the sweep is of the schedules that were never the fastest of one, several tiles a worker and even shares
// of workers that leave (docs/results.md). Terms that are fitted to others alone make them look so.
func TestSweepSchedules(t *testing.T) {
	for name, modes := range map[string][]planner.Options{
		"h200":        {{}, {Compute: planner.ComputeF32}, {Compute: planner.ComputeTF32}, {Type: element.BF16, TypeC: element.BF16}},
		"h200-webgpu": {{}, {Type: element.BF16, TypeC: element.BF16}},
	} {
		p := planner.New(lookup(t, name))
		for _, o := range modes {
			for _, c := range workload.Zhang() {
				b, err := planner.Pack(c.Problems...)
				require.NoError(t, err)
				plan, err := p.Plan(b, o)
				require.NoError(t, err)
				require.NotEqual(t, string(planner.ScheduleBatched), plan.Explain().Schedule, "%s %s %+v", name, c.Name, o)
				if name == "h200-webgpu" {
					require.NotEqual(t, string(planner.ScheduleStreamK), plan.Explain().Schedule, "%s %+v", c.Name, o)
				}
			}
		}
	}
}
