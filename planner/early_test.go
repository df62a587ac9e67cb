package planner_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/encoding"
)

// Launches are early whose items the host makes, and whose thread groups leave no unit crowded.
func TestEarly(t *testing.T) {
	d := lookup(t, "h200") // 132 units
	maker := planner.New(d)
	square := func(n, side int) planner.Batch {
		problems := make([]planner.Problem, n)
		for i := range problems {
			problems[i] = planner.GEMM(side, side, 64)
		}
		b, err := planner.Pack(problems...)
		require.NoError(t, err)
		return b
	}
	for _, c := range []struct {
		name   string
		n      int // problems, of a tile each
		side   int
		option planner.Options
		early  bool
	}{
		{"a group a unit", 132, 64, planner.Options{Tile: "wgmma-64x64", Schedule: planner.ScheduleDataParallel}, true},
		{"units have one or two", 133, 64, planner.Options{Tile: "wgmma-64x64", Schedule: planner.ScheduleDataParallel}, false},
		{"each has two", 264, 64, planner.Options{Tile: "wgmma-64x64", Schedule: planner.ScheduleDataParallel}, true},
		{"medium tiles, one or two", 176, 32, planner.Options{Tile: "tensor-32x32", Schedule: planner.ScheduleDataParallel}, true},
		{"some have two", 177, 32, planner.Options{Tile: "tensor-32x32", Schedule: planner.ScheduleDataParallel}, false},
		{"a few have three", 296, 32, planner.Options{Tile: "medium-k4", Schedule: planner.ScheduleDataParallel}, false},
		{"more than two", 297, 32, planner.Options{Tile: "medium-k4", Schedule: planner.ScheduleDataParallel}, true},
		{"small tiles", 200, 16, planner.Options{Tile: "small-k8", Schedule: planner.ScheduleDataParallel}, true},
		{"a counter", 1000, 32, planner.Options{Tile: "tensor-32x32", Schedule: planner.ScheduleDynamic}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, err := maker.Plan(square(c.n, c.side), c.option)
			require.NoError(t, err)
			require.Len(t, p.Launches, 1)
			require.Equal(t, c.early, p.Early(&p.Launches[0]), p.Launches[0].Count)
		})
	}
	some := func(p *planner.Plan, of func(*encoding.Launch) bool) (any bool) {
		for i := range p.Launches {
			any = any || of(&p.Launches[i]) && p.Early(&p.Launches[i])
		}
		return any
	}
	all := func(*encoding.Launch) bool { return true }
	t.Run("fix-ups", func(t *testing.T) {
		b, err := planner.Pack(planner.GEMM(32, 32, 8192))
		require.NoError(t, err)
		p, err := maker.Plan(b, planner.Options{Tile: "wgmma-64x64", Schedule: planner.ScheduleSplitK})
		require.NoError(t, err)
		require.True(t, some(p, func(l *encoding.Launch) bool { return l.Fixup || l.Parts }))
	})
	t.Run("sizes on the device", func(t *testing.T) {
		p, err := maker.PlanRagged(planner.Ragged{Form: planner.EndsOfRows, Groups: 4, M: 64, N: 64, K: 64, A: planner.Matrix{LD: 64}, B: planner.Matrix{LD: 64}, C: planner.Matrix{LD: 64}, StrideB: 64 * 64}, planner.Options{})
		require.NoError(t, err)
		require.False(t, some(p, all))
	})
	t.Run("records", func(t *testing.T) {
		var p planner.Plan
		require.NoError(t, maker.Renew(&p, square(132, 64), planner.Options{}))
		require.False(t, some(&p, all))
	})
}
