package drivertest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/backend"
	"github.com/batchgemm/batchgemm/internal/reference"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

// testDouble checks that fp64 is used throughout: numbers, alpha, beta, partials and epilogues have all of
// its bits. Other tests of F64 see its results as fp32.
func (s *suite) testDouble(t *testing.T) {
	all := planner.Epilogue{Activation: planner.SiLU, Bias: true, Gated: true, GatherRows: 60,
		ScatterRows: 80,
		Weights:     true}
	for _, c := range []struct {
		name   string
		e      planner.Epilogue
		o      planner.Options
		edit   func(*planner.Device)
		likely func(*planner.Plan) bool
	}{
		{name: "chosen"},
		{name: "whole", o: planner.Options{Schedule: planner.ScheduleDataParallel}},
		{name: "batched", o: planner.Options{Schedule: planner.ScheduleBatched}},
		{name: "split", o: planner.Options{Schedule: planner.ScheduleSplitK}, edit: manyUnits,
			likely: func(p *planner.Plan) bool { return p.Workspace > 0 }},
		{name: "shared", o: planner.Options{Schedule: planner.ScheduleStreamK}, edit: manyUnits,
			likely: func(p *planner.Plan) bool { return p.Workspace > 0 }},
		{name: "added to C", edit: leastTrips, likely: cutDepth},
		{name: "all", e: all},
		{name: "split, gelu", e: planner.Epilogue{Activation: planner.GELU, Bias: true, Weights: true},
			o: planner.Options{Schedule: planner.ScheduleSplitK}, edit: manyUnits},
		{name: "relu", e: planner.Epilogue{Activation: planner.ReLU, Bias: true, ScatterRows: 75}},
	} {
		t.Run(c.name, func(t *testing.T) {
			j := s.prepareDoubles(t, c.e, c.o, c.edit)
			require.True(t, c.likely == nil || c.likely(j.plan), "%v", j.plan.Launches)
			rng := newRand(3)
			worst := j.run(t, func() float64 { return 2*rng.Float64() - 1 })
			require.Greater(t, worst, 0.)
			if c.e.Activation == "" && c.name != "added to C" { // sums below 2^53, and halves
				whole := func() float64 { return float64(rng.IntN(1<<20) - 1<<19) }
				for i := range j.batch {
					j.batch[i].Alpha, j.batch[i].Beta = planner.Scale(-0.5), float64(i%2)
				}
				j.plan = s.planDoubles(t, j, c.e, c.o, c.edit)
				require.NoError(t, j.program.Update(t.Context(), j.plan))
				require.Zero(t, j.run(t, whole))
			}
		})
	}
}

// doubles is a job with elements of F64.
type doubles struct {
	suite   *suite
	batch   planner.Batch
	plan    *planner.Plan
	program driver.Program
	lens    planner.Lengths
	rows    []int32
}

// prepareDoubles places problems, with lists of rows, and prepares them.
func (s *suite) prepareDoubles(t *testing.T, e planner.Epilogue, o planner.Options,
	edit func(*planner.Device)) *doubles {
	j := &doubles{suite: s, batch: irregular(newRand(9), 12, 60, 90)}
	j.batch = append(j.batch, planner.GEMM(17, 9, 1900), planner.GEMM(3, 40, 0))
	rng := newRand(1)
	for i := range j.batch {
		p := &j.batch[i]
		p.Alpha, p.Beta = planner.Scale([]float64{1, 0.1, -1. / 3}[i%3]), []float64{0, 0.7, 1}[(i/3)%3]
		if e.Gated {
			p.Beta = 0
		}
		if e.GatherRows > 0 {
			p.TransA = false
		}
		j.place(rng, p, &e)
	}
	j.plan = s.planDoubles(t, j, e, o, edit)
	program, err := s.device.Prepare(t.Context(), j.plan)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, program.Close()) })
	j.program = program
	return j
}

func (s *suite) planDoubles(t *testing.T, j *doubles, e planner.Epilogue, o planner.Options,
	edit func(*planner.Device)) *planner.Plan {
	facts := s.device.Info().Planner
	if edit != nil {
		edit(&facts)
	}
	o.TypeA, o.TypeC, o.Epilogue = element.F64, element.F64, e
	plan, err := planner.New(&facts).Plan(t.Context(), j.batch, o)
	require.NoError(t, err)
	return plan
}

// place places a problem after the others, with gaps.
func (j *doubles) place(rng *rand.Rand, p *planner.Problem, e *planner.Epilogue) {
	put := func(end *int, rows, cols int) planner.Matrix {
		m := planner.Matrix{Offset: *end + 3, LD: cols + 1 + rng.IntN(4)}
		*end = m.Offset + rows*m.LD
		return m
	}
	rowsA, colsA := p.ShapeA()
	rowsB, colsB := p.ShapeB()
	p.A = put(&j.lens.A, max(rowsA, e.GatherRows), colsA)
	p.B, p.B2 = put(&j.lens.B, rowsB, colsB), put(&j.lens.B2, rowsB, colsB)
	p.C = put(&j.lens.C, max(p.M, e.ScatterRows), p.N)
	p.Bias, j.lens.Bias = j.lens.Bias, j.lens.Bias+2*p.N
	p.RowsA, p.RowsC, p.Weights = len(j.rows), len(j.rows)+p.M, len(j.rows)+2*p.M
	to := rng.Perm(max(e.ScatterRows, p.M))
	list := make([]int32, 3*p.M)
	for i := range p.M {
		list[i], list[p.M+i] = int32(rng.IntN(e.GatherRows+2)-1), int32(to[i])
		list[2*p.M+i] = int32(math.Float32bits(rng.Float32() - 0.5))
	}
	j.rows = append(j.rows, list...)
}

// run computes numbers and returns the largest error, as a fraction of its bound. Numbers of C that must not
// be read are NaN.
func (j *doubles) run(t *testing.T, value func() float64) (worst float64) {
	t.Helper()
	fill := func(n int) []float64 {
		numbers := make([]float64, n+1)
		for i := range numbers {
			numbers[i] = value()
		}
		return numbers
	}
	x := reference.Doubles{A: fill(j.lens.A), B: fill(j.lens.B), C: fill(j.lens.C), B2: fill(j.lens.B2),
		Bias: fill(j.lens.Bias), Rows: append(j.rows, 0)}
	e := &j.plan.Options.Epilogue
	for i := range j.batch {
		p := &j.batch[i]
		for row := 0; row < max(p.M, e.ScatterRows) && p.Beta == 0 && e.ScatterRows == 0; row++ {
			for col := range p.N {
				x.C[p.C.Offset+row*p.C.LD+col] = math.NaN()
			}
		}
	}
	var buffers [6]driver.Buffer
	for i, words := range [...][]float32{backend.DoubleWords(x.A), backend.DoubleWords(x.B),
		backend.DoubleWords(x.C), backend.DoubleWords(x.B2), backend.DoubleWords(x.Bias),
		backend.Words(x.Rows)} {
		buffers[i] = j.suite.alloc(t, len(words))
		require.NoError(t, buffers[i].Write(t.Context(), 0, words))
	}
	run := driver.Run{Program: j.program, A: buffers[0], B: buffers[1], C: buffers[2]}
	if e.Gated {
		run.B2 = buffers[3]
	}
	if e.Bias {
		run.Bias = buffers[4]
	}
	if e.UsesRows() {
		run.Rows = buffers[5]
	}
	require.NoError(t, j.suite.submit(run))
	words := make([]float32, 2*len(x.C))
	require.NoError(t, buffers[2].Read(t.Context(), 0, words))
	after := make([]float64, len(x.C))
	for i := range after {
		after[i] = math.Float64frombits(uint64(math.Float32bits(words[2*i])) |
			uint64(math.Float32bits(words[2*i+1]))<<32)
	}
	worst, err := reference.CheckF64(j.batch, *e, x, after)
	require.NoError(t, err, fmt.Sprint(j.plan.Launches))
	return worst
}
