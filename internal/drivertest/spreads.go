package drivertest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/reference"
	"github.com/batchgemm/batchgemm/planner"
)

// spreadCase changes random numbers: those of A's row i and of B's column i, at k.
type spreadCase struct {
	name string
	a, b func(x float32, i, k int) float32
}

// spreadCases have numbers of many magnitudes, which kernels that scale rows and columns must detect.
func spreadCases() []spreadCase {
	same := func(x float32, _, _ int) float32 { return x }
	times := func(x float32, exponent int) float32 { return float32(math.Ldexp(float64(x), exponent)) }
	rows := func(x float32, i, _ int) float32 { return times(x, 20*(i%7-3)) }
	grow := func(x float32, _, k int) float32 { return times(x, k/3-30) }
	jumps := func(x float32, i, k int) float32 { return times(x, 9*(k/32)*(i%3)) }
	shrink := func(x float32, _, k int) float32 { return times(x, 30-k/3) }
	late := func(x float32, i, k int) float32 {
		if k < 32*(i%3)+5 {
			return 0
		}
		return x
	}
	// One number is far larger than all others, and is multiplied by 0.
	alone := func(x float32, _, k int) float32 {
		if k == 5 {
			return 0x1p30
		}
		return x
	}
	without := func(x float32, _, k int) float32 {
		if k == 5 {
			return 0
		}
		return x
	}
	// The same in both directions, so that both operands lose bits.
	crossed := func(first int) func(float32, int, int) float32 {
		return func(x float32, _, k int) float32 {
			switch k {
			case first:
				return times(x, 28)
			case 1 - first:
				return times(x, -28)
			}
			return 0
		}
	}
	sparse := func(x float32, i, k int) float32 {
		if (7*i+k)%19 != 0 {
			return 0
		}
		return times(x, 4*((i+k)%11)-20)
	}
	gaps := func(x float32, i, k int) float32 {
		if i%5 == 0 {
			return 0
		}
		return times(x, 8*(k%5)-30)
	}
	return []spreadCase{
		{"rows and columns of other sizes", rows, rows},
		{"A grows along K", grow, same},
		{"B grows along K", same, grow},
		{"both grow", grow, grow},
		{"one grows as the other shrinks", grow, shrink},
		{"some rows and columns jump", jumps, jumps},
		{"zeros first", late, late},
		{"a large number of A meets 0", alone, without},
		{"a large number of B meets 0", without, alone},
		{"large numbers meet small ones", crossed(0), crossed(1)},
		{"few numbers", sparse, sparse},
		{"rows and columns of zeros", gaps, gaps},
	}
}

// testSpreads: errors stay within the bounds of float32 for all mixtures of magnitudes.
func (s *suite) testSpreads(t *testing.T) {
	for _, tile := range append(s.tensorTiles(), s.tile()) {
		var b planner.Batch
		for i, k := range []int{1, 2, 31, 70, 131} {
			for trans := range 4 {
				b = append(b, planner.Problem{M: 33 + 31*((i+trans)%4), N: 20 + 43*((i+2*trans)%4), K: k,
					TransA: trans%2 == 1, TransB: trans/2 == 1})
			}
		}
		j := s.prepare(t, b, narrow, planner.Options{Tile: tile}, nil)
		for _, c := range spreadCases() {
			t.Run(fmt.Sprintf("%s/%s", c.name, tile), func(t *testing.T) {
				o := fill(b, j.lens, func([]float32) {})
				rng := newRand(5)
				for i := range b {
					p := &b[i]
					spread(rng, o.a, p.A, p.M, p.K, p.TransA, c.a)
					spread(rng, o.b, p.B, p.N, p.K, !p.TransB, c.b)
					requireNumbers(t, o.a, p.A, p.ShapeA)
					requireNumbers(t, o.b, p.B, p.ShapeB)
				}
				_, err := reference.CheckIn(j.arithmetic(), b, o.a, o.b, o.c, j.run(t, o))
				require.NoError(t, err, j)
			})
		}
	}
}

// spread writes a matrix of `length` rows along K, or with across the transpose of one.
func spread(rng *rand.Rand, to []float32, m planner.Matrix, length, depth int, across bool,
	change func(float32, int, int) float32) {
	for i := range length {
		for k := range depth {
			at := i*m.LD + k
			if across {
				at = k*m.LD + i
			}
			to[m.Offset+at] = change(2*rng.Float32()-1, i, k)
		}
	}
}

// requireNumbers fails if an element is still as fill makes it.
func requireNumbers(t *testing.T, data []float32, m planner.Matrix, shape func() (rows, cols int)) {
	t.Helper()
	rows, cols := shape()
	eachRow(data, m, rows, cols, func(row []float32) {
		require.False(t, slices.ContainsFunc(row, func(x float32) bool { return x != x }), "is no number")
	})
}
