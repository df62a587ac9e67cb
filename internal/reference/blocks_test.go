package reference

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/elemtype"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

var byBlocks = planner.Epilogue{ScaleA: planner.PerBlock, ScaleB: planner.PerBlock}

// onesIn returns n zeros, with 1 at some places.
func onesIn(n int, at ...int) []float32 {
	s := make([]float32, n)
	for _, i := range at {
		s[i] = 1
	}
	return s
}

// TestBlocks: only results that were computed by hand, from elements that are 1 in few places, are right.
func TestBlocks(t *testing.T) {
	// A is 2 x 130, with 1 at k 0 and 129 of both rows, and 1 at k 127 of the second. In B, 130 x 130, all
	// of row k is the number of k's block + 1.
	x := onesIn(2*130, 0, 129, 130, 130+127, 130+129)
	y := make([]float32, 130*130)
	for k := range 130 {
		for j := range 130 {
			y[k*130+j] = float32(1 + k/128)
		}
	}
	// of A from 2 on, two of each row, of B from 6 on, two of each block of columns
	rows := append([]int32{1, -1}, bitsOf(2, 3, 5, 7, 1, 10, -1, 0.5)...)
	m := planner.Matrix{LD: 130}
	for _, c := range []struct {
		name  string
		e     planner.Epilogue
		trans bool
		want  [2][2]float32 // of columns before 128 and after, for each row
	}{
		{"rows", byBlocks, false, [2][2]float32{{2*1 + 2*3*10, -2 + 2*3*0.5},
			{2*5 + 2*7*10, -2*5 + 2*7*0.5}}},
		{"B transposed", byBlocks, true, [2][2]float32{{2*1 + 2*3*10, -2 + 2*3*0.5},
			{2*5 + 2*7*10, -2*5 + 2*7*0.5}}},
		{"gathered", planner.Epilogue{ScaleA: planner.PerBlock, ScaleB: planner.PerBlock, GatherRows: 2},
			false,
			[2][2]float32{{2*5 + 2*7*10, -2*5 + 2*7*0.5}, {0, 0}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := planner.Batch{{M: 2, N: 130, K: 130, A: m, B: m, C: m, ScaleA: 2, ScaleB: 6,
				TransB: c.trans}}
			y := slices.Clone(y)
			if c.trans {
				for k := range 130 {
					for j := range 130 {
						y[j*130+k] = float32(1 + k/128)
					}
				}
			}
			var want []float32
			for _, row := range c.want {
				want = append(append(want, slices.Repeat(row[:1], 128)...), row[1], row[1])
			}
			how := Arithmetic{Epilogue: Epilogue{Epilogue: c.e, Rows: rows}}
			before := make([]float32, len(want))
			require.NoError(t, CheckExactIn(how, b, x, y, before, want))
			for _, i := range []int{0, 127, 128, 259} {
				requireNoticed(t, how, b, x, y, before, want, i)
			}
		})
	}
}

// TestBlockBounds: float32 results of random elements and scales of all magnitudes are within the bounds,
// whether scales multiply elements of A, or of both, or sums. The bounds are not loose.
func TestBlockBounds(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	const k = 300
	var largest [3]float64
	for turn := range 9000 {
		x, y, scale := make([]float32, k), make([]float32, k), make([]float32, 6)
		for _, s := range [][]float32{x, y, scale} {
			Uniform(rng, s)
		}
		for i := range k {
			x[i], y[i] = elemtype.Float(element.E4M3, elemtype.Bits(element.E4M3, 64*x[i])),
				elemtype.Float(element.E4M3, elemtype.Bits(element.E4M3, 64*y[i]))
		}
		size := rng.IntN(120) - 60
		for i := range scale {
			scale[i] = float32(math.Ldexp(float64(scale[i]), size+rng.IntN(4)))
		}
		sum := float32(0)
		for block := range 3 {
			a, b := scale[block], scale[3+block]
			by, own := a*b, float32(0)
			for i := 128 * block; i < min(k, 128*block+128); i++ {
				switch turn % 3 {
				case 0:
					sum += float32(x[i]*by) * y[i]
				case 1:
					sum += float32(x[i]*a) * float32(y[i]*b)
				default:
					own += x[i] * y[i]
				}
			}
			sum += own * by
		}
		b := planner.Batch{{M: 1, N: 1, K: k, A: planner.Matrix{LD: k}, B: planner.Matrix{LD: 1},
			C: planner.Matrix{LD: 1}, ScaleB: 3}}
		how := Arithmetic{Epilogue: Epilogue{Epilogue: byBlocks, Rows: bitsOf(scale...)}}
		found, err := CheckIn(how, b, x, y, []float32{7}, []float32{sum})
		require.NoError(t, err, scale)
		if size > -40 {
			largest[turn%3] = max(largest[turn%3], found.Worst)
		}
	}
	for _, worst := range largest {
		require.Greater(t, worst, 0.0005)
	}
}

// TestBlockExtremes: NaN stays, and results are not judged if products of scales leave the range of float32.
func TestBlockExtremes(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	m := planner.Matrix{LD: 1}
	b := planner.Batch{{M: 1, N: 1, K: 1, A: m, B: m, C: m, ScaleB: 1}}
	for _, tc := range []struct {
		name       string
		x, a, b    float32
		flushes    bool
		right, bad []float32
	}{
		{"NaN", 1, nan, 1, false, []float32{nan}, []float32{1, inf}},
		{"0", 1, 0, 5, false, []float32{0}, []float32{1, nan}},
		{"0 of scales", 0, 3, 5, false, []float32{0}, []float32{1, nan}},
		{"small", 256, 0x1p-60, 0x1p-60, false, []float32{0x1p-112}, []float32{0, 0x1p-111}},
		{"overflow of the scales", 0, 0x1p100, 0x1p100, false, []float32{inf, nan, 0}, nil},
		{"subnormal", 448, 0x1p-130, 1, true, []float32{0, 448 * 0x1p-130}, []float32{1}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			how := Arithmetic{FlushesSubnormals: tc.flushes,
				Epilogue: Epilogue{Epilogue: byBlocks, Rows: bitsOf(tc.a, tc.b)}}
			check := func(got float32) error {
				_, err := CheckIn(how, b, []float32{tc.x}, []float32{1}, []float32{7}, []float32{got})
				return err
			}
			for _, got := range tc.right {
				require.NoError(t, check(got), got)
			}
			for _, got := range tc.bad {
				require.Error(t, check(got), got)
			}
		})
	}
}
