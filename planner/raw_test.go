package planner

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/planner/element"
)

// Launches copy boxes of fp32 if all their rows are aligned, and no worker beyond those that run at once
// needs maps.
func TestBoxesOfFloats(t *testing.T) {
	aligned := Problem{M: 300, N: 260, K: 100}
	for _, c := range []struct {
		name  string
		edit  func(q *Problem, o *Options)
		boxes bool
	}{
		{"as they are", func(*Problem, *Options) {}, true},
		{"B transposed", func(q *Problem, _ *Options) { q.TransB = true }, true},
		{"tf32", func(_ *Problem, o *Options) { o.Compute = ComputeTF32 }, false},
		{"dynamic", func(q *Problem, o *Options) { q.M, o.Schedule = 9000, ScheduleDynamic }, true},
		{"more workers than run at once", func(q *Problem, _ *Options) { q.M = 9000 }, false},
		{"A transposed", func(q *Problem, _ *Options) { q.TransA = true }, false},
		{"rows of A that are not aligned", func(q *Problem, _ *Options) { q.K = 99 }, false},
		{"rows of B that are not aligned", func(q *Problem, _ *Options) { q.N = 258 }, false},
		{"another tile", func(_ *Problem, o *Options) { o.Tile = "wgmma-64x128" }, false},
		{"an epilogue", func(_ *Problem, o *Options) { o.Epilogue.Bias = true }, false},
		{"cut tiles", func(q *Problem, o *Options) { q.K, o.Schedule = 9000, ScheduleSplitK }, false},
		{"bf16", func(_ *Problem, o *Options) { o.TypeA = element.BF16 }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			q, o := aligned, Options{Tile: "wgmma-128x128", Schedule: ScheduleDataParallel}
			c.edit(&q, &o)
			b, err := Pack(q, q)
			require.NoError(t, err)
			p, err := New(device(t, "h200")).Plan(t.Context(), b, o)
			require.NoError(t, err)
			require.Equal(t, c.boxes, p.Launches[0].Boxes)
		})
	}
}
