package cpu

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

// A crew that has finished a run does not hold its operands, which may then be freed.
func TestCrewForgetsOperands(t *testing.T) {
	d := openDevice(t)
	for _, of := range []element.Type{element.F32, element.BF16} {
		e := planner.Epilogue{Gated: true, Bias: true, Weights: true}
		o := planner.Options{TypeA: of, TypeC: of, Epilogue: e}
		p := planner.Problem{M: 9, N: 8, K: 16, A: planner.Matrix{LD: 16}, B: planner.Matrix{LD: 8},
			B2: planner.Matrix{LD: 8}, C: planner.Matrix{LD: 8}}
		plan, err := planner.New(&d.info.Planner).Plan(t.Context(), planner.Batch{p}, o)
		require.NoError(t, err)
		run := driver.Run{}
		run.Program, err = d.Prepare(t.Context(), plan)
		require.NoError(t, err)
		for _, to := range []*driver.Buffer{&run.A, &run.B, &run.C, &run.B2, &run.Bias, &run.Rows} {
			*to, err = d.Alloc(200)
			require.NoError(t, err)
		}
		require.NoError(t, d.Submit(t.Context(), []driver.Run{run}))
		require.NoError(t, d.Wait(t.Context()))
		j := &d.crew.job
		require.Nil(t, j.launch)
		require.Nil(t, j.words)
		for i, held := range [][]float32{j.a, j.b, j.c, j.b2, j.bias, j.workspace} {
			require.Nil(t, held, i)
		}
		for i, held := range []narrow{j.bitsA, j.bitsB, j.bitsC, j.bitsB2, j.bitsBias} {
			require.Equal(t, narrow{}, held, i)
		}
		require.Nil(t, j.rows)
	}
}

// TestGrain: large workers are taken one by one at the end, tiny ones in groups that leave some for all.
func TestGrain(t *testing.T) {
	for _, tc := range []struct{ workers, members, work, want int }{
		{1, 1, 0, 1}, {40, 2, 40 << 20, 1}, {64000, 2, 64000 << 14, 500}, {200, 2, 200 << 12, 12},
		{1000, 2, 1000 << 12, 16}, {4096, 2, 4096 << 13, 32}, {1000, 2, 0, 62}, {500, 1, 500 << 9, 62},
	} {
		require.Equal(t, tc.want, grain(tc.workers, tc.members, tc.work), "%+v", tc)
	}
}
