package hostgemm

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/invalid"
	"github.com/batchgemm/batchgemm/internal/reference"
	"github.com/batchgemm/batchgemm/planner"
)

// epilogueJob is a batch with an epilogue. Elements that must not be read are NaN.
type epilogueJob struct {
	batch planner.Batch
	o     planner.Options
	x     Operands
}

// randomWithEpilogue returns n problems with sizes up to most, of small integers, or of fractions if there
// are activations.
func randomWithEpilogue(e planner.Epilogue, seed uint64, n, most int) epilogueJob {
	rng := rand.New(rand.NewPCG(seed, 1))
	placed := reference.Operands{Unit: 1, Gap: float32(math.NaN()), Canary: 777, Rand: rng,
		Values: func(s []float32) { reference.Integers(rng, s, 3) }}
	if e.Activation == planner.SiLU || e.Activation == planner.GELU {
		placed.Values = func(s []float32) { reference.Uniform(rng, s) }
	}
	var b planner.Batch
	for i := range n {
		p := planner.Problem{M: 1 + rng.IntN(most), N: 1 + rng.IntN(most), K: rng.IntN(most + 1),
			TransB: rng.IntN(2) == 0}
		p.TransA = e.GatherRows == 0 && rng.IntN(2) == 0
		if !e.Gated {
			p.Beta = [...]float64{0, 1, -2}[i%3]
		}
		if i%5 == 4 {
			p.Alpha = planner.Scale(0)
		}
		placed.Add(&p, &e)
		b = append(b, p)
	}
	return epilogueJob{b, planner.Options{Epilogue: e},
		Operands{A: placed.A, B: placed.B, C: placed.C, B2: placed.E.B2, Bias: placed.E.Biases,
			Rows: placed.E.Rows}.usedBy(e)}
}

// usedBy removes operands that an epilogue does not use.
func (x Operands) usedBy(e planner.Epilogue) Operands {
	if !e.Gated {
		x.B2 = nil
	}
	if !e.Bias {
		x.Bias = nil
	}
	if !e.UsesRows() {
		x.Rows = nil
	}
	return x
}

// run computes the job and checks C. Everything else must be unchanged.
func (j *epilogueJob) run(ctx context.Context, on computer) error {
	x := j.x
	x.C = slices.Clone(j.x.C)
	if err := on.GEMM(ctx, j.batch, j.o, x); err != nil {
		if !slices.Equal(j.x.C, x.C) {
			return fmt.Errorf("C changed in spite of: %w", err)
		}
		return err
	}
	e := &j.o.Epilogue
	how := reference.Arithmetic{Epilogue: reference.Epilogue{Epilogue: *e, B2: x.B2, Biases: x.Bias,
		Rows: x.Rows}}
	if e.Activation == "" || e.Activation == planner.ReLU {
		return reference.CheckExactIn(how, j.batch, x.A, x.B, j.x.C, x.C)
	}
	_, err := reference.CheckIn(how, j.batch, x.A, x.B, j.x.C, x.C)
	return err
}

// someEpilogues returns epilogues that together have all parts.
func someEpilogues(most int) []planner.Epilogue {
	return append(reference.Epilogues(most), planner.Epilogue{Activation: planner.ReLU},
		planner.Epilogue{Bias: true}, planner.Epilogue{Weights: true},
		planner.Epilogue{GatherRows: most}, planner.Epilogue{ScatterRows: 3 * most},
		planner.Epilogue{Activation: planner.ReLU, Bias: true, Gated: true, GatherRows: 90,
			ScatterRows: 2 * most, Weights: true})
}

// TestEpilogues: one device computes them, two share a batch with an epilogue, and both remember plans.
func TestEpilogues(t *testing.T) {
	for i, e := range someEpilogues(90) {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			host, f := openHost(t)
			small := randomWithEpilogue(e, uint64(i), 15, 30)
			for range 2 {
				require.NoError(t, small.run(t.Context(), host))
			}
			require.EqualValues(t, 1, f.Prepared.Load())
			group, fakes := openGroup(t, 2)
			large := randomWithEpilogue(e, uint64(i), 60, 90)
			for range 2 {
				require.NoError(t, large.run(t.Context(), group))
			}
			for _, f := range fakes {
				require.Positive(t, f.Prepared.Load(), "both take a share")
			}
		})
	}
}

// TestListsChange: the same batch with other lists is not planned again.
func TestListsChange(t *testing.T) {
	host, f := openHost(t)
	m := planner.Matrix{LD: 2}
	batch := planner.Batch{{M: 2, N: 2, K: 2, A: m, B: m, C: m, Beta: 1, RowsC: 2, Weights: 4}}
	o := planner.Options{Epilogue: planner.Epilogue{GatherRows: 3, ScatterRows: 4, Weights: true}}
	half, two := int32(math.Float32bits(0.5)), int32(math.Float32bits(2))
	a, b := []float32{1, 2, 3, 4, 5, 6}, []float32{1, 0, 0, 1}
	for _, c := range []struct {
		rows []int32
		want []float32
	}{
		{[]int32{2, 0, 1, 3, two, half}, []float32{9, 9, 28, 30, 9, 9, 5, 5.5}},
		{[]int32{0, 1, 3, 1, half, two}, []float32{9, 9, 24, 26, 9, 9, 5, 5.5}},
		{[]int32{-1, 1, 3, 0, half, two}, []float32{24, 26, 9, 9, 9, 9, 4.5, 4.5}},
		{[]int32{0, 3, 4, 0, half, two}, []float32{18, 18, 9, 9, 9, 9, 9, 9}},
		{[]int32{math.MinInt32, 3, -1, math.MaxInt32, half, two}, []float32{9, 9, 9, 9, 9, 9, 9, 9}},
	} {
		got := slices.Repeat([]float32{9}, 8)
		require.NoError(t, host.GEMM(t.Context(), batch, o, Operands{A: a, B: b, C: got, Rows: c.rows}))
		require.Equal(t, c.want, got, "%v", c.rows)
	}
	require.EqualValues(t, 1, f.Prepared.Load())
}

// TestPackEpilogue: only gathered rows are copied, shared data once, and lists not at all.
func TestPackEpilogue(t *testing.T) {
	e := planner.Epilogue{Bias: true, Gated: true, GatherRows: 1000, ScatterRows: 500, Weights: true}
	problem := func(rowsA, rowsC, weights int) planner.Problem {
		return planner.Problem{M: 3, N: 2, K: 4, A: operand(10, 9), B: operand(100, 5), C: operand(7, 3),
			B2: operand(300, 5), Bias: 40, RowsA: rowsA, RowsC: rowsC, Weights: weights}
	}
	batch := planner.Batch{problem(0, 50, 200), problem(0, 60, 100), problem(70, 80, 300)}
	p, err := pack(t.Context(), batch, &e, everything(batch))
	require.NoError(t, err)
	require.Equal(t, [operands]int{24, 8, 24, 8, 4, 12}, p.sizes, "the first two have the same rows of A")
	require.Equal(t, [operands]int{2, 1, 0, 1, 1, 3}, func() (n [operands]int) {
		for i := range p.uploads {
			n[i] = len(p.uploads[i])
		}
		return n
	}())
	require.Equal(t, planner.Problem{M: 3, N: 2, K: 4, A: operand(12, 4), B: operand(0, 2), C: operand(16, 2),
		B2: operand(0, 2), Weights: 8}, p.batch[2])
	require.Equal(t, 24+24+8+8+4+9, p.moved())
	require.Equal(t, 3*4+4*2+3*2+4*2+4+3, elements(&batch[0], &e))
	require.NoError(t, p.batch.Check(t.Context(), onDevice(e),
		planner.Lengths{A: 24, B: 8, C: 24, B2: 8, Bias: 4, Rows: 12}))
	none := planner.Problem{M: 3, N: 2, C: operand(0, 2), A: operand(0, 9), B: operand(0, 5), Beta: 1}
	require.Zero(t, elements(&none, &planner.Epilogue{ScatterRows: 4}), "C = 1*C, wherever it is")
	require.Equal(t, 2+2*3*2, elements(&none, &planner.Epilogue{Bias: true}))
}

// TestEpilogueParts: a large batch is cut into parts, whose rows go to one C.
func TestEpilogueParts(t *testing.T) {
	const n, problems, rows = 512, 6, 512
	e := planner.Epilogue{Bias: true, GatherRows: rows, ScatterRows: rows * problems, Weights: true,
		Activation: planner.ReLU}
	rng := rand.New(rand.NewPCG(9, 9))
	j := epilogueJob{o: planner.Options{Epilogue: e}}
	to := rng.Perm(rows * problems)
	for g := range problems { // experts that share X and Y
		j.batch = append(j.batch, planner.Problem{M: rows, N: n, K: n, A: operand(0, n), B: operand(g*n*n, n),
			C: operand(0, n), Bias: g * n,
			RowsA: 3 * g * rows, RowsC: (3*g + 1) * rows, Weights: (3*g + 2) * rows})
		for range rows {
			j.x.Rows = append(j.x.Rows, int32(rng.IntN(rows+2)-1))
		}
		for i := range rows {
			j.x.Rows = append(j.x.Rows, int32(to[g*rows+i]))
		}
		for range rows {
			j.x.Rows = append(j.x.Rows, int32(math.Float32bits(float32(rng.IntN(3)))))
		}
	}
	for operand, n := range map[*[]float32]int{&j.x.A: rows * n, &j.x.B: problems * n * n,
		&j.x.C: rows * problems * n, &j.x.Bias: problems * n} {
		*operand = make([]float32, n)
		reference.Integers(rng, *operand, 2)
	}
	parts, err := cut(t.Context(), j.batch, &e, everything(j.batch))
	require.NoError(t, err)
	require.Greater(t, len(parts), 2)
	host, f := openHost(t)
	require.NoError(t, j.run(t.Context(), host))
	require.EqualValues(t, len(parts), f.Prepared.Load())
}

// TestEpilogueRefuses: the error names what is wrong, and C is unchanged.
func TestEpilogueRefuses(t *testing.T) {
	host, f := openHost(t)
	group, _ := openGroup(t, 2)
	for want, c := range map[string]struct {
		e    planner.Epilogue
		edit func(*epilogueJob)
	}{
		"operands on the host cannot have addresses: use Plan, Prepare and Run": {
			e: planner.Epilogue{Pointers: planner.Pointers{B: true}}},
		"unknown activation \"tanh\" (known: relu, gelu, silu)": {
			e: planner.Epilogue{Activation: "tanh"}},
		"-1 rows of A to gather from are not in [0, 2147483647]": {
			e: planner.Epilogue{GatherRows: -1}},
		"-2 rows of C to scatter to are not in [0, 2147483647]": {
			e: planner.Epilogue{ScatterRows: -2}},
		"Bias has 2 elements, but the epilogue does not use it": {edit: func(j *epilogueJob) {
			j.x.Bias = make([]float32, 2)
		}},
		"B2 has 2 elements, but the epilogue does not use it": {edit: func(j *epilogueJob) {
			j.x.B2 = make([]float32, 2)
		}},
		"Rows has 2 elements, but the epilogue does not use it": {edit: func(j *epilogueJob) {
			j.x.Rows = make([]int32, 2)
		}},
		"problem 0: bias needs elements [0, 2) of a buffer of 1": {
			e: planner.Epilogue{Bias: true}, edit: func(j *epilogueJob) { j.x.Bias = make([]float32, 1) }},
		"problem 0: B2 needs elements [0, 4) of a buffer of 0": {
			e: planner.Epilogue{Gated: true}},
		"problem 0: beta 1 is not 0, but gated units do not read C": {e: planner.Epilogue{
			Gated: true}, edit: func(j *epilogueJob) { j.batch[0].Beta, j.x.B2 = 1, make([]float32, 4) }},
		"problem 0: rows of A need words [0, 2) of a buffer of 1": {
			e: planner.Epilogue{GatherRows: 2}, edit: func(j *epilogueJob) { j.x.Rows = make([]int32, 1) }},
		"problem 0: A needs elements [0, 6) of a buffer of 4": {
			e: planner.Epilogue{GatherRows: 3}, edit: func(j *epilogueJob) { j.x.Rows = make([]int32, 2) }},
		"problem 0: C needs elements [0, 6) of a buffer of 4": {
			e: planner.Epilogue{ScatterRows: 3}, edit: func(j *epilogueJob) { j.x.Rows = make([]int32, 2) }},
		"problem 0: transA is set, but GatherRows needs an A that is not transposed": {
			e:    planner.Epilogue{GatherRows: 2},
			edit: func(j *epilogueJob) { j.batch[0].TransA, j.x.Rows = true, make([]int32, 2) }},
	} {
		for _, on := range []computer{host, group} {
			four := []float32{1, 2, 3, 4}
			j := epilogueJob{batch: small(t), o: planner.Options{Epilogue: c.e},
				x: Operands{A: four, B: four, C: slices.Clone(four)}}
			j.batch[0].B2.LD = 2
			if c.edit != nil {
				c.edit(&j)
			}
			err := j.run(t.Context(), on)
			require.EqualError(t, err, want)
			require.ErrorIs(t, err, invalid.Err)
		}
	}
	require.Zero(t, f.Prepared.Load())
	short := randomWithEpilogue(planner.Epilogue{Bias: true}, 1, 5, 20)
	require.NoError(t, short.run(t.Context(), host))
	short.x.Bias = short.x.Bias[:len(short.x.Bias)-30]
	require.ErrorContains(t, short.run(t.Context(), host), "bias needs elements",
		"a batch that is remembered")
}
