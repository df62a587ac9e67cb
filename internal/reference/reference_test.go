package reference

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

// batch is two problems whose C regions have gaps; operands are 1 2 3 ...
func batch() (b planner.Batch, x, y, before, after []float32) {
	b = planner.Batch{
		{M: 2, N: 2, K: 2, A: planner.Matrix{LD: 2}, B: planner.Matrix{LD: 2},
			C: planner.Matrix{Offset: 1, LD: 3}},
		{M: 1, N: 2, K: 2, TransA: true, TransB: true, Alpha: planner.Scale(-0.5), Beta: 2,
			A: planner.Matrix{LD: 1}, B: planner.Matrix{LD: 2}, C: planner.Matrix{Offset: 7, LD: 2}},
	}
	x, y = []float32{1, 2, 3, 4}, []float32{1, 2, 3, 4}
	before = []float32{9, 0, 0, 9, 0, 0, 9, 10, 20, 9}
	after = []float32{9, 7, 10, 9, 15, 22, 9, 20 - 2.5, 40 - 5.5, 9}
	return
}

func TestCheckAcceptsTheResult(t *testing.T) {
	b, x, y, before, after := batch()
	worst, err := Check(b, x, y, before, after)
	require.NoError(t, err)
	require.Zero(t, worst)
	require.NoError(t, CheckExact(b, x, y, before, after))
}

func TestCheckFinds(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	up := func(v float32) float32 { return math.Nextafter32(v, inf) }
	for name, c := range map[string]struct {
		index       int
		value       float32
		problem     int
		row, col    int
		onlyExactly bool
	}{
		"wrong":             {index: 4, value: 16, problem: 0, row: 1, col: 0},
		"rounding":          {index: 4, value: up(15), problem: 0, row: 1, col: 0, onlyExactly: true},
		"second problem":    {index: 8, value: 40, problem: 1, row: 0, col: 1},
		"NaN":               {index: 1, value: nan, problem: 0},
		"Inf":               {index: 1, value: inf, problem: 0},
		"gap in a problem":  {index: 3, value: 0, problem: -1},
		"gap after a batch": {index: 9, value: up(9), problem: -1},
	} {
		t.Run(name, func(t *testing.T) {
			b, x, y, before, after := batch()
			after[c.index] = c.value
			worst, err := Check(b, x, y, before, after)
			exact := CheckExact(b, x, y, before, after)
			if c.onlyExactly {
				require.NoError(t, err)
				require.Positive(t, worst)
				err = exact
			}
			require.Error(t, exact)
			var m *Mismatch
			require.ErrorAs(t, err, &m)
			require.Equal(t, c.index, m.Index)
			require.Equal(t, c.problem, m.Problem)
			require.Equal(t, [2]int{c.row, c.col}, [2]int{m.Row, m.Col})
		})
	}
}

func TestMismatchError(t *testing.T) {
	b, x, y, before, after := batch()
	after[4] = 16
	require.EqualError(t, CheckExact(b, x, y, before, after),
		"problem 0 (2x2x2, transA false, transB false, alpha 1, beta 0): C[1,0] at element 4 is 16, want "+
			"15 within 0")
	after[4], after[6] = 15, 1
	require.EqualError(t, CheckExact(b, x, y, before, after),
		"C[6] belongs to no problem and was changed from 9 to 1")
}

// TestBound computes in float32, in order and in reverse. Errors come near the bound's estimate but never
// exceed it.
func TestBound(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 0))
	largest := 0.0
	for k := range 200 {
		p := planner.GEMM(1, 1, k)
		p.Alpha, p.Beta = planner.Scale(0.7), -1.3
		b, err := planner.Pack(p)
		require.NoError(t, err)
		x, y, before := make([]float32, k), make([]float32, k), make([]float32, 1)
		for _, s := range [][]float32{x, y, before} {
			Uniform(rng, s)
		}
		for range 2 {
			var sum float32
			for i := range k {
				sum += x[i] * y[i]
			}
			worst, err := Check(b, x, y, before, []float32{float32(p.Alpha.Value())*sum +
				float32(p.Beta)*before[0]})
			require.NoError(t, err)
			largest = max(largest, worst)
			slices.Reverse(x)
			slices.Reverse(y)
		}
	}
	require.Greater(t, largest, 0.02, "the bound is of the size of real errors")
}

// TestBoundTerms: the bound is the formula of Check, term by term.
func TestBoundTerms(t *testing.T) {
	const u, tiny = 0x1p-24, 0x1p-149
	for _, c := range []struct {
		name             string
		k                int
		alpha, beta, old float32
		want             float64
	}{
		{"products", 3, 1, 0, 7, 2 * u * 5 * 18},
		{"alpha", 3, -2, 0, 7, 2 * u * 5 * 36},
		{"C", 0, 1, 0.5, -6, 2 * u * 4 * 3},
		{"all", 1, 2, -3, 5, 2 * u * (3*12 + 4*15)},
		{"tiny", 4, 0x1p-130, 0, 0, 2*u*6*24*0x1p-130 + 16*tiny},
		{"tiny, of a large alpha", 1, 0x1p10, 0, 0, 2*u*3*6*0x1p10 + 10*tiny*0x1p10},
	} {
		t.Run(c.name, func(t *testing.T) {
			b, err := planner.Pack(planner.Problem{M: 1, N: 1, K: c.k, Alpha: planner.Scale(float64(c.alpha)),
				Beta: float64(c.beta)})
			require.NoError(t, err)
			x, y := slices.Repeat([]float32{2}, c.k), slices.Repeat([]float32{-3}, c.k)
			_, err = Check(b, x, y, []float32{c.old}, []float32{1e9})
			var m *Mismatch
			require.ErrorAs(t, err, &m)
			require.InEpsilon(t, c.want, m.Bound, 1e-12)
		})
	}
}

func TestNonFinite(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	for name, c := range map[string]struct {
		x, y        []float32
		right       []float32
		wrong       []float32
		beta, start float32
	}{
		"Inf": {x: []float32{inf, 1}, y: []float32{2, 1}, right: []float32{inf},
			wrong: []float32{-inf, nan, 1e38}},
		"Inf minus Inf": {x: []float32{inf, inf}, y: []float32{2, -1}, right: []float32{nan},
			wrong: []float32{inf, 0}},
		"zero times Inf": {x: []float32{inf, 1}, y: []float32{0, 1}, right: []float32{nan},
			wrong: []float32{inf, 1}},
		"NaN": {x: []float32{nan, 1}, y: []float32{0, 1}, right: []float32{nan},
			wrong: []float32{inf, 1}},
		"beta 0": {x: []float32{1, 1}, y: []float32{1, 1}, start: nan, right: []float32{2},
			wrong: []float32{nan}},
		"NaN in C": {x: []float32{1, 1}, y: []float32{1, 1}, beta: 1, start: nan, right: []float32{nan},
			wrong: []float32{2}},
		"overflow": {x: []float32{3e38, -3e38}, y: []float32{2, 2}, right: []float32{0, nan}},
	} {
		t.Run(name, func(t *testing.T) {
			p := planner.GEMM(1, 1, 2)
			p.Beta = float64(c.beta)
			b, err := planner.Pack(p)
			require.NoError(t, err)
			before := []float32{c.start}
			for _, v := range c.right {
				_, err = Check(b, c.x, c.y, before, []float32{v})
				require.NoError(t, err)
			}
			for _, v := range c.wrong {
				_, err = Check(b, c.x, c.y, before, []float32{v})
				require.Error(t, err, v)
			}
		})
	}
}

func TestFill(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 0))
	s := make([]float32, 1000)
	Integers(rng, s, 3)
	require.EqualValues(t, -3, slices.Min(s))
	require.EqualValues(t, 3, slices.Max(s))
	for _, v := range s {
		require.Equal(t, v, float32(int(v)))
	}
	Uniform(rng, s)
	require.InDelta(t, -1, slices.Min(s), 0.01)
	require.InDelta(t, 1, slices.Max(s), 0.01)
	UniformOf(element.BF16, rng, s)
	require.InDelta(t, -1, slices.Min(s), 0.01)
	s = make([]float32, 10_000)
	UniformOf(element.Int8, rng, s)
	slices.Sort(s)
	require.Len(t, slices.Compact(s), 256, "all numbers that there are")
}

// TestErrors: each element is counted once, in the range of its error.
func TestErrors(t *testing.T) {
	for _, tc := range []struct {
		fraction float64
		bin      int
	}{{1, 0}, {0.75, 0}, {0.5, 1}, {0.3, 1}, {0x1p-10, 10}, {0x1.8p-10, 9}, {0x1p-23, 23}, {0x1p-24, 24},
		{0x1p-60, 24}, {0, 24}} {
		var e, sum Errors
		e.add(tc.fraction)
		require.Equal(t, int64(1), e.Counts[tc.bin], tc.fraction)
		sum.add(0.6)
		sum.merge(&e)
		e.Counts[0]++
		require.Equal(t, Errors{max(0.6, tc.fraction), e.Counts}, sum)
	}
	b, x, y, before, after := batch()
	found, err := CheckIn(Arithmetic{Compute: planner.ComputeF32}, b, x, y, before, after)
	require.NoError(t, err)
	total := int64(0)
	for _, n := range found.Counts {
		total += n
	}
	require.Equal(t, int64(b[0].M*b[0].N+b[1].M*b[1].N), total)
}
