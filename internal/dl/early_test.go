//go:build cgo && linux && (amd64 || arm64)

package dl

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/devices"
	"github.com/batchgemm/batchgemm/planner/element"
)

// A launch uses PDL if the host makes its items, and its thread groups crowd no unit on which others wait.
func TestEarly(t *testing.T) {
	d, err := devices.Lookup("h200") // 132 units
	require.NoError(t, err)
	maker := planner.New(d)
	square := func(n, side, k int) planner.Batch {
		problems := make([]planner.Problem, n)
		for i := range problems {
			problems[i] = planner.GEMM(side, side, k)
		}
		b, err := planner.Pack(problems...)
		require.NoError(t, err)
		return b
	}
	for _, c := range []struct {
		name     string
		n        int // problems with one tile each
		side     int
		tile     string
		schedule planner.Schedule
		k        int
		early    bool
	}{
		{"a group a unit", 132, 64, "wgmma-64x64", planner.ScheduleDataParallel, 4096, true},
		{"one or two", 133, 64, "wgmma-64x64", planner.ScheduleDataParallel, 4096, false},
		{"no room", 264, 64, "wgmma-64x64", planner.ScheduleDataParallel, 4096, true},
		{"short", 133, 64, "wgmma-64x64", planner.ScheduleDataParallel, 64, true},
		{"almost full", 527, 32, "medium-k4", planner.ScheduleDataParallel, 4096, false},
		{"full", 528, 32, "medium-k4", planner.ScheduleDataParallel, 4096, true},
		{"small tiles", 200, 16, "small-medium", planner.ScheduleDataParallel, 4096, true},
		{"clusters of four", 40, 32, "tensor-32x32", planner.ScheduleCluster, 4096, false},
		{"a counter", 1000, 32, "tensor-32x32", planner.ScheduleDynamic, 64, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, err := maker.Plan(t.Context(), square(c.n, c.side, c.k),
				planner.Options{Tile: c.tile, Schedule: c.schedule})
			require.NoError(t, err)
			require.Len(t, p.Launches, 1)
			require.Equal(t, c.early, early(p, &p.Launches[0]), p.Launches[0].Count)
		})
	}
	all := func(p *planner.Plan) (launches []bool) {
		for i := range p.Launches {
			launches = append(launches, early(p, &p.Launches[i]))
		}
		return launches
	}
	t.Run("fix-ups", func(t *testing.T) { // there may be fewer or more of them than of groups that multiply
		b := square(140, 64, 64)
		for i := range b {
			b[i].K = 8192 - 64*(i%2) // equal ones would stay whole
		}
		b, err := planner.Pack(b...)
		require.NoError(t, err)
		p, err := maker.Plan(t.Context(), b, planner.Options{TypeA: element.BF16, TypeC: element.F32,
			Tile: "aligned-64x64", Schedule: planner.ScheduleSplitK})
		require.NoError(t, err)
		require.True(t, p.Launches[1].Fixup)
		require.Equal(t, 140, p.Launches[1].Count)
		require.Equal(t, []bool{true, true}, all(p))
	})
	t.Run("sizes on the device", func(t *testing.T) {
		p, err := maker.PlanRagged(planner.Ragged{Form: planner.EndsOfRows, Groups: 4, M: 64, N: 64, K: 64,
			A: planner.Matrix{LD: 64}, B: planner.Matrix{LD: 64}, C: planner.Matrix{LD: 64},
			StrideB: 64 * 64}, planner.Options{})
		require.NoError(t, err)
		require.NotContains(t, all(p), true)
	})
	t.Run("records", func(t *testing.T) {
		var p planner.Plan
		require.NoError(t, maker.Renew(t.Context(), &p, square(132, 64, 64), planner.Options{}))
		require.NotContains(t, all(&p), true)
	})
}
