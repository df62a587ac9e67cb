package drivertest

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/backend"
	"github.com/batchgemm/batchgemm/planner"
)

// testEpilogueRagged runs layers of experts with epilogues, and gradients of their weights, with sizes on
// the device.
func (s *suite) testEpilogueRagged(t *testing.T) {
	relu := all
	relu.Activation = planner.ReLU
	for i, c := range []struct {
		name string
		r    planner.Ragged
		e    planner.Epilogue
		more bool // only if kernels are made quickly, or elements are F32
	}{
		{name: "all", e: relu},
		{name: "all transposed", r: planner.Ragged{TransB: true}, e: relu},
		{name: "bias", e: planner.Epilogue{Bias: true, Activation: planner.ReLU},
			r: planner.Ragged{TransA: true, Beta: 1}, more: true},
		{name: "gather", e: planner.Epilogue{GatherRows: 40}, r: planner.Ragged{Beta: -0.5}, more: true},
		{name: "scatter with weights", e: planner.Epilogue{ScatterRows: 170, Weights: true},
			r: planner.Ragged{Beta: 1}},
		{name: "gated", e: planner.Epilogue{Gated: true, Activation: planner.SiLU}, more: true},
		{name: "no product", e: planner.Epilogue{Bias: true, Weights: true},
			r: planner.Ragged{Alpha: planner.Scale(0), Beta: 1}, more: true},
		{name: "depth, all", e: relu, r: planner.Ragged{Form: planner.EndsOfDepth}},
		{name: "depth, one C for all", e: planner.Epilogue{Bias: true, ScatterRows: 300, Weights: true},
			r: planner.Ragged{Form: planner.EndsOfDepth, TransA: true, Beta: 1}},
		{name: "depth, bias", e: planner.Epilogue{Bias: true, Activation: planner.ReLU},
			r: planner.Ragged{Form: planner.EndsOfDepth, TransA: true, TransB: true, Beta: 1}, more: true},
		{name: "depth, gated", e: planner.Epilogue{Gated: true, Activation: planner.SiLU},
			r: planner.Ragged{Form: planner.EndsOfDepth, TransA: true}, more: true},
		{name: "depth, gathered", e: planner.Epilogue{GatherRows: 30},
			r: planner.Ragged{Form: planner.EndsOfDepth, TransB: true, Beta: -0.5}, more: true},
	} {
		if c.more && s.slow() && s.of.Bytes() < 4 {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			s.runRaggedWithEpilogue(t, layer(c.r), s.scaled(c.e, i))
		})
	}
}

// layer returns a ragged batch of ends, up to 150, with sizes. The default form is ends of rows.
func layer(r planner.Ragged) planner.Ragged {
	r.Groups, r.M, r.N, r.K = 5, 150, 50, 40
	if r.Form == planner.EndsOfDepth {
		r.M, r.K = 45, 150
	} else {
		r.Form = planner.EndsOfRows
	}
	return r
}

// runRaggedWithEpilogue runs a layer with all kinds of sizes.
func (s *suite) runRaggedWithEpilogue(t *testing.T, r planner.Ragged, e planner.Epilogue) {
	t.Helper()
	j, d := s.prepareEpilogueRagged(t, r, e)
	rng := newRand(9)
	for i, sizes := range [][]int32{{30, 60, 90, 120, 150}, {0, 0, 0, 0, 0}, {0, 0, 150, 150, 150},
		{10, 50, 20, 60, 70}, {1, 2, 3, 4, 151},
		randomEnds(rng, 5, 150), randomEnds(rng, 5, 150), randomEnds(rng, 5, 60)} {
		require.NoError(t, j.sizes.Write(context.Background(), 0, backend.Words(sizes)))
		var refused int
		j.batch, refused = (&raggedJob{layout: layout{Ragged: j.ragged}, plan: j.plan}).batch(sizes)
		j.check(t, &d, e.Activation != planner.SiLU)
		group, err := j.program.Status(context.Background())
		require.NoError(t, err)
		require.Equal(t, refused, group, i)
	}
}

// prepareEpilogueRagged places a layer of experts with all that an epilogue may have. All elements are
// numbers, so reading or storing wrong elements changes results. With ends of depth, all groups share one C
// if it has room for the rows of all.
func (s *suite) prepareEpilogueRagged(t *testing.T, r planner.Ragged, e planner.Epilogue) (*epilogueJob,
	epilogueData) {
	t.Helper()
	rng := newRand(uint64(len(fmt.Sprint(e))))
	var d epilogueData
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
	r.A.LD, r.B.LD, r.B2.LD, r.C.LD = roundUp(colsA+1, step), roundUp(colsB+2, step), roundUp(colsB+3, step),
		roundUp(r.N+3, step)
	r.StrideBias = 2*r.N + 1
	lenB, lenC, lists := rowsB*r.B2.LD, max(r.M, e.ScatterRows)*r.C.LD, r.M
	if r.Form == planner.EndsOfRows {
		r.StrideB = roundUp(lenB+5, step)
		lenB = r.Groups * r.StrideB
	} else if lists *= r.Groups; e.ScatterRows < lists {
		r.StrideC = roundUp(lenC+5, step)
		lenC = r.Groups * r.StrideC
	}
	r.A.Offset = draw(bufferA, rowsA*r.A.LD)
	if e.ScaleB.Group() > 0 {
		d.withGroups(&r, rng)
	} else {
		r.B.Offset, r.B2.Offset = draw(bufferB, lenB), draw(bufferB2, lenB)
	}
	r.C.Offset, r.Bias = draw(bufferC, lenC), draw(bufferBias, r.Groups*r.StrideBias)
	d.list(&r, e, rng, lists)
	if e.ScaleB.Group() > 0 {
		d.groupsOf(&r, &e, rng)
	}
	j := &epilogueJob{suite: s, ragged: r}
	j.prepare(t, j.moveGroups(t, &d, e), e)
	j.allocate(t, &d)
	return j, d
}

// list draws the lists of a layer with that many rows. No two rows of a C are stored to the same one.
func (d *epilogueData) list(r *planner.Ragged, e planner.Epilogue, rng *rand.Rand, rows int) {
	r.RowsA, r.RowsC, r.Weights = 3, 4+rows, 5+2*rows
	scalesA := e.ScalesA(&planner.Problem{M: r.M, K: r.K})
	if e.ScaleA == planner.PerRow && e.GatherRows == 0 {
		scalesA = e.ScalesA(&planner.Problem{M: rows})
	}
	r.ScaleA = 6 + 3*rows
	r.ScaleB = r.ScaleA + scalesA + 1
	d.rows = make([]int32, r.ScaleB+r.Groups*e.ScalesB(&planner.Problem{N: r.N, K: r.K, B: r.B, B2: r.B2}))
	for at := r.ScaleA; at < len(d.rows); at++ {
		d.rows[at] = int32(math.Float32bits(float32(rng.IntN(5) - 2)))
	}
	if e.ZeroA {
		d.zeros(r.ScaleA, scalesA, fewZeros(rng))
		d.zeros(r.ScaleB, len(d.rows)-r.ScaleB, fewZeros(rng))
	}
	var to []int
	for i := range rows {
		at := i
		if r.StrideC > 0 { // each has its own C
			at = i % r.M
		}
		if at == 0 {
			to = rng.Perm(max(r.M, e.ScatterRows))
		}
		d.rows[r.RowsA+i], d.rows[r.RowsC+i] = int32(rng.IntN(max(e.GatherRows, 1))), int32(to[at])
		d.rows[r.Weights+i] = int32(math.Float32bits(float32(rng.IntN(7) - 3)))
		if rng.IntN(6) == 0 {
			d.rows[r.RowsA+i] = none(rng, e.GatherRows)
		}
		if rng.IntN(6) == 0 {
			d.rows[r.RowsC+i] = none(rng, e.ScatterRows)
		}
	}
}

// prepare plans and prepares a ragged batch with an epilogue, and makes a buffer of sizes.
func (j *epilogueJob) prepare(t *testing.T, r planner.Ragged, e planner.Epilogue) {
	t.Helper()
	facts := j.device.Info().Planner
	o := planner.Options{TypeA: j.of, TypeB: e.ScaleB.TypeB(j.of), TypeC: j.ofC, Epilogue: e, Tile: j.forced}
	if j.slow() {
		o.Tile = j.insteadWith(&facts, "small", e)
	}
	var err error
	j.plan, err = planner.New(&facts).PlanRagged(r, o)
	require.NoError(t, err)
	j.program, err = j.device.Prepare(context.Background(), j.plan)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, j.program.Close()) })
	j.sizes = j.alloc(t, j.plan.ExtentSizes)
}
