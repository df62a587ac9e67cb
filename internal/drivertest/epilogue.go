package drivertest

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/backend"
	"github.com/batchgemm/batchgemm/internal/reference"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

// The buffers of a run with an epilogue.
const (
	bufferA = iota
	bufferB
	bufferC
	bufferB2
	bufferBias
	bufferRows
	buffersAll
)

// epilogueData is the contents of these buffers. The last has words.
type epilogueData struct {
	numbers [bufferRows][]float32
	rows    []int32
	packed  [bufferRows][]uint32 // of B and B2 with scales of groups
}

// epilogueJob is a batch with an epilogue, prepared on the device with buffers.
type epilogueJob struct {
	*suite
	batch   planner.Batch
	plan    *planner.Plan
	program driver.Program
	buffers [buffersAll]driver.Buffer // nil if the epilogue does not need it
	sizes   driver.Buffer             // of a ragged plan
	apart   []apart                   // matrices with addresses
	ragged  planner.Ragged            // placed as in epilogueData, without pointers
}

// types returns the types of the buffers' elements.
func (s *suite) types() [buffersAll]element.Type {
	return [...]element.Type{s.of, s.of, s.ofC, s.of, s.ofC, element.F32}
}

// placeEpilogue places the operands of an epilogue with gaps. Elements that must not be read are NaN, those
// that must not be written are canaries. One row of A in five, and of C, does not exist.
func (s *suite) placeEpilogue(b planner.Batch, e planner.Epilogue, rng *rand.Rand,
	values func([]float32)) (d epilogueData) {
	nan := float32(math.NaN())
	grow := func(of int, n int, with float32) {
		d.numbers[of] = append(d.numbers[of], slices.Repeat([]float32{with}, n)...)
	}
	matrix := func(of, stored, cols int, with float32) planner.Matrix {
		grow(of, 1+rng.IntN(3), with)
		step := max(s.step, 1)
		if s.lines {
			step = wideBytes.step()
			grow(of, roundUp(len(d.numbers[of]), step)-len(d.numbers[of]), with)
		}
		m := planner.Matrix{Offset: len(d.numbers[of]), LD: roundUp(cols+rng.IntN(3), step)}
		grow(of, stored*m.LD, with)
		return m
	}
	draw := func(of, at, n int) { values(d.numbers[of][at:][:n]) }
	list := func(n int, word func(i int) int32) (at int) {
		d.rows = append(d.rows, 0) // a gap that looks like a row
		at = len(d.rows)
		for i := range n {
			d.rows = append(d.rows, word(i))
		}
		return at
	}
	for i := range b {
		p := &b[i]
		if s.lines {
			p.TransA, p.TransB = false, true
		}
		rowsA, colsA := p.ShapeA()
		p.A = matrix(bufferA, max(rowsA, e.GatherRows), colsA, nan)
		for r := range rowsA {
			row := r
			if e.GatherRows > 0 {
				row = rng.IntN(e.GatherRows)
			}
			draw(bufferA, p.A.Offset+row*p.A.LD, colsA)
			if r == 0 && e.GatherRows > 0 {
				p.RowsA = list(rowsA, func(int) int32 { return none(rng, e.GatherRows) })
			}
			if e.GatherRows > 0 && rng.IntN(5) > 0 {
				d.rows[p.RowsA+r] = int32(row)
			}
		}
		rowsB, colsB := p.ShapeB()
		if e.ScaleB.Group() > 0 {
			p.B, p.B2 = d.groupMatrix(bufferB, p, rng), d.groupMatrix(bufferB2, p, rng)
			rowsB = 0
		} else {
			p.B, p.B2 = matrix(bufferB, rowsB, colsB, nan), matrix(bufferB2, rowsB, colsB, nan)
		}
		for r := range rowsB {
			draw(bufferB, p.B.Offset+r*p.B.LD, colsB)
			draw(bufferB2, p.B2.Offset+r*p.B2.LD, colsB)
		}
		grow(bufferBias, 1+rng.IntN(2), nan)
		p.Bias = len(d.numbers[bufferBias])
		grow(bufferBias, 2*p.N, 0)
		draw(bufferBias, p.Bias, 2*p.N)
		p.C = matrix(bufferC, max(p.M, e.ScatterRows), p.N, canary)
		to := rng.Perm(max(p.M, e.ScatterRows))
		p.RowsC = list(p.M, func(i int) int32 {
			if rng.IntN(5) == 0 {
				return none(rng, e.ScatterRows)
			}
			return int32(to[i])
		})
		for r := range p.M {
			row := r
			if e.ScatterRows > 0 {
				row = int(d.rows[p.RowsC+r])
			}
			if row < 0 || row >= max(p.M, e.ScatterRows) {
				continue
			}
			if c := d.numbers[bufferC][p.C.Offset+row*p.C.LD:][:p.N]; p.Beta == 0 {
				copy(c, slices.Repeat([]float32{nan}, p.N))
			} else {
				values(c)
			}
		}
		number := func(int) int32 {
			var x [1]float32
			values(x[:])
			return int32(math.Float32bits(x[0]))
		}
		p.Weights = list(p.M, number)
		p.ScaleA, p.ScaleB = list(e.ScalesA(p), number), list(e.ScalesB(p), number)
		if e.ScaleB.Group() > 0 {
			d.group(p, &e, rng)
		}
		if e.ZeroA {
			d.zeros(p.ScaleA, e.ScalesA(p), fewZeros(rng))
			d.zeros(p.ScaleB, e.ScalesB(p), fewZeros(rng))
		}
	}
	for of, t := range s.types() {
		if of < bufferRows {
			grow(of, guard, map[bool]float32{true: canary, false: nan}[of == bufferC])
			if d.packed[of] == nil {
				round(t, d.numbers[of])
			}
		}
	}
	return d
}

// none returns an index of no row, for that many rows.
func none(rng *rand.Rand, rows int) int32 {
	return [...]int32{-1, int32(rows), math.MinInt32, math.MaxInt32}[rng.IntN(4)]
}

// words returns the contents of a buffer.
func (d *epilogueData) words(s *suite, of int) []float32 {
	switch {
	case of == bufferRows:
		return backend.Words(d.rows)
	case d.packed[of] != nil:
		return backend.Words(d.packed[of])
	}
	return backend.ToWords(s.types()[of], d.numbers[of])
}

// prepareEpilogue plans and prepares a batch that placeEpilogue has placed.
func (s *suite) prepareEpilogue(t *testing.T, b planner.Batch, d *epilogueData, o planner.Options,
	edit func(*planner.Device)) *epilogueJob {
	t.Helper()
	j := &epilogueJob{suite: s, batch: b, plan: s.planEpilogue(t, b, o, edit)}
	var err error
	j.program, err = s.device.Prepare(context.Background(), j.plan)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, j.program.Close()) })
	j.allocate(t, d)
	return j
}

func (s *suite) planEpilogue(t *testing.T, b planner.Batch, o planner.Options,
	edit func(*planner.Device)) *planner.Plan {
	t.Helper()
	o.TypeA, o.TypeB, o.TypeC = s.of, o.Epilogue.ScaleB.TypeB(s.of), s.ofC
	facts := s.device.Info().Planner
	if edit != nil {
		edit(&facts)
	}
	if o.Tile == "" && s.slow() {
		o.Tile = "small"
	}
	if o.Tile != "" {
		o.Tile = s.insteadWith(&facts, o.Tile, o.Epilogue)
	}
	plan, err := planner.New(&facts).Plan(t.Context(), b, o)
	require.NoError(t, err)
	return plan
}

// allocate makes buffers for operands.
func (j *epilogueJob) allocate(t *testing.T, d *epilogueData) {
	e := &j.plan.Options.Epilogue
	by := e.Pointers
	used := [...]bool{!by.A, !by.B, !by.C, e.Gated && !by.B, e.Bias, e.UsesRows()}
	for of := range j.buffers {
		if j.buffers[of] = nil; used[of] {
			j.buffers[of] = j.alloc(t, max(len(d.words(j.suite, of)), 1))
		}
	}
}

// run computes operands and returns the new C. It fails if another buffer changed.
func (j *epilogueJob) run(d *epilogueData) ([]float32, error) {
	ctx := context.Background()
	for of, b := range j.buffers {
		if words := d.words(j.suite, of); b != nil && len(words) > 0 {
			if err := b.Write(ctx, 0, words); err != nil {
				return nil, err
			}
		}
	}
	for i := range j.apart {
		if err := j.apart[i].write(ctx, j.suite, d); err != nil {
			return nil, err
		}
	}
	on := &j.buffers
	run := driver.Run{Program: j.program, A: on[bufferA], B: on[bufferB], C: on[bufferC],
		B2: on[bufferB2], Bias: on[bufferBias], Rows: on[bufferRows], Sizes: j.sizes}
	if err := j.device.Submit(ctx, []driver.Run{run}); err != nil {
		return nil, err
	}
	var c []float32
	for of, b := range j.buffers {
		words := d.words(j.suite, of)
		if b == nil || len(words) == 0 {
			continue
		}
		now := make([]float32, len(words))
		if err := b.Read(ctx, 0, now); err != nil {
			return nil, err
		}
		if of == bufferC {
			c = backend.FromWords(j.ofC, now, len(d.numbers[of]))
		} else if !sameBits(words, now) {
			return nil, fmt.Errorf("buffer %d was changed by a run", of)
		}
	}
	if j.plan.Options.Epilogue.Pointers.C {
		c = slices.Clone(d.numbers[bufferC])
	}
	for i := range j.apart {
		if err := j.apart[i].read(ctx, j.suite, d, c); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// check runs the job on operands and verifies the results, exactly if asked to.
func (j *epilogueJob) check(t *testing.T, d *epilogueData, exact bool) {
	t.Helper()
	c, err := j.run(d)
	require.NoError(t, err)
	n := &d.numbers
	how := reference.Arithmetic{Compute: j.plan.Options.Compute,
		FlushesSubnormals: j.device.Info().FlushesSubnormals, NarrowSums: reference.NarrowSums(j.plan),
		TypeC: j.ofC, Epilogue: reference.Epilogue{Epilogue: j.plan.Options.Epilogue, B2: n[bufferB2],
			Biases: n[bufferBias], Rows: d.rows}}
	if exact {
		err = reference.CheckExactIn(how, j.batch, n[bufferA], n[bufferB], n[bufferC], c)
	} else {
		_, err = reference.CheckIn(how, j.batch, n[bufferA], n[bufferB], n[bufferC], c)
	}
	require.NoError(t, err, "%s", j.plan.Launches)
}
