package drivertest

import (
	"context"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/planner"
)

// testEpilogueRagged runs layers of experts with epilogues, whose sizes are on the device.
func (s *suite) testEpilogueRagged(t *testing.T) {
	relu := all
	relu.Activation = planner.ReLU
	for _, c := range []struct {
		name string
		r    planner.Ragged
		e    planner.Epilogue
		more bool // only where kernels are made soon, or elements are of F32
	}{
		{name: "all", e: relu},
		{name: "all transposed", r: planner.Ragged{TransB: true}, e: relu},
		{name: "bias", e: planner.Epilogue{Bias: true, Activation: planner.ReLU}, r: planner.Ragged{TransA: true, Beta: 1}, more: true},
		{name: "gather", e: planner.Epilogue{GatherRows: 40}, r: planner.Ragged{Beta: -0.5}, more: true},
		{name: "scatter with weights", e: planner.Epilogue{ScatterRows: 170, Weights: true}, r: planner.Ragged{Beta: 1}},
		{name: "gated", e: planner.Epilogue{Gated: true, Activation: planner.SiLU}, more: true},
		{name: "no product", e: planner.Epilogue{Bias: true, Weights: true}, r: planner.Ragged{Alpha: planner.Scale(0), Beta: 1}, more: true},
	} {
		if c.more && s.slow() && s.of.Bytes() == 2 {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			c.r.Form, c.r.Groups, c.r.M, c.r.N, c.r.K = planner.EndsOfRows, 5, 150, 50, 40
			s.testDressedRagged(t, c.r, c.e)
		})
	}
}

// testDressedRagged runs a layer with all kinds of sizes.
func (s *suite) testDressedRagged(t *testing.T, r planner.Ragged, e planner.Epilogue) {
	t.Helper()
	j, d := s.prepareDressedRagged(t, r, e)
	rng := newRand(9)
	for i, sizes := range [][]int32{{30, 60, 90, 120, 150}, {0, 0, 0, 0, 0}, {0, 0, 150, 150, 150}, {10, 50, 20, 60, 70}, {1, 2, 3, 4, 151},
		randomEnds(rng, 5, 150), randomEnds(rng, 5, 150), randomEnds(rng, 5, 60)} {
		require.NoError(t, j.sizes.Write(context.Background(), 0, driver.Words(sizes)))
		var refused int
		j.batch, refused = (&raggedJob{layout: layout{Ragged: j.ragged}, plan: j.plan}).batch(sizes)
		j.check(t, &d, e.Activation != planner.SiLU)
		group, err := j.program.Status(context.Background())
		require.NoError(t, err)
		require.Equal(t, refused, group, i)
	}
}

// prepareDressedRagged places a layer of experts with all that an epilogue may have, with numbers
// everywhere: who reads or stores other elements than told gets other results.
func (s *suite) prepareDressedRagged(t *testing.T, r planner.Ragged, e planner.Epilogue) (*dressedJob, dressed) {
	t.Helper()
	rng := newRand(uint64(len(fmt.Sprint(e))))
	var d dressed
	step := max(s.step, 1)
	draw := func(of, n int) (at int) {
		at = step * (1 + rng.IntN(3))
		d.numbers[of] = make([]float32, at+n+guard)
		few(rng)(d.numbers[of])
		return at
	}
	whole := planner.Problem{M: max(r.M, e.GatherRows), N: r.N, K: r.K, TransA: r.TransA, TransB: r.TransB}
	rowsA, colsA := whole.ShapeA()
	rowsB, colsB := whole.ShapeB()
	r.A.LD, r.B.LD, r.B2.LD, r.C.LD = roundUp(colsA+1, step), roundUp(colsB+2, step), roundUp(colsB+3, step), roundUp(r.N+3, step)
	r.StrideB, r.StrideBias = roundUp(rowsB*r.B2.LD+5, step), 2*r.N+1
	r.A.Offset, r.B.Offset, r.B2.Offset = draw(bufferA, rowsA*r.A.LD), draw(bufferB, r.Groups*r.StrideB), draw(bufferB2, r.Groups*r.StrideB)
	r.C.Offset, r.Bias = draw(bufferC, max(r.M, e.ScatterRows)*r.C.LD), draw(bufferBias, r.Groups*r.StrideBias)
	r.RowsA, r.RowsC, r.Weights = 3, 4+r.M, 5+2*r.M
	d.rows = make([]int32, 5+3*r.M)
	to := rng.Perm(max(r.M, e.ScatterRows))
	for i := range r.M {
		d.rows[r.RowsA+i], d.rows[r.RowsC+i] = int32(rng.IntN(max(e.GatherRows, 1))), int32(to[i])
		d.rows[r.Weights+i] = int32(math.Float32bits(float32(rng.IntN(7) - 3)))
		if rng.IntN(6) == 0 {
			d.rows[r.RowsA+i] = none(rng, e.GatherRows)
		}
		if rng.IntN(6) == 0 {
			d.rows[r.RowsC+i] = none(rng, e.ScatterRows)
		}
	}
	j := &dressedJob{suite: s, ragged: r}
	r = j.moveGroups(t, &d, e)
	facts := s.device.Info().Planner
	o := planner.Options{Type: s.of, TypeC: s.ofC, Epilogue: e}
	if s.slow() {
		o.Tile = s.insteadWith(&facts, "small", e)
	}
	var err error
	j.plan, err = planner.New(&facts).PlanRagged(r, o)
	require.NoError(t, err)
	j.program, err = s.device.Prepare(context.Background(), j.plan)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, j.program.Close()) })
	j.allocate(t, &d)
	j.sizes = s.alloc(t, r.SizesLen())
	return j, d
}
