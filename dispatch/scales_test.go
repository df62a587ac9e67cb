package dispatch

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

func numbersOf(numbers ...float32) (words []int32) {
	for _, x := range numbers {
		words = append(words, int32(math.Float32bits(x)))
	}
	return words
}

// TestScalesOnHost: gated units with rows 2 and 0 of A, and their scales, and scales of each column of B and
// of B2.
func TestScalesOnHost(t *testing.T) {
	ctx := t.Context()
	d, _ := openFake(t)
	g, _ := openFakes(t, 2)
	m := planner.Matrix{LD: 2}
	batch := planner.Batch{{M: 2, N: 2, K: 2, A: m, B: m, C: m, B2: m, ScaleA: 2, ScaleB: 5}}
	o := planner.Options{Epilogue: planner.Epilogue{Gated: true, GatherRows: 3, ScaleA: planner.PerRow,
		ScaleB: planner.PerRow}}
	type byte8 = element.Float8E4M3
	x := Slices[byte8, element.BFloat16]{A: as[byte8]([]float32{1, 2, 9, 9, 3, 4}),
		B: as[byte8]([]float32{1, 0, 0, -1}), B2: as[byte8]([]float32{2, 0, 0, 2}),
		Rows: append([]int32{2, 0}, numbersOf(2, float32(math.NaN()), 0.5, 1, 10, 3, -1)...)}
	for _, on := range []Host{d, g} {
		x.C = as[element.BFloat16]([]float32{7, 7, 7, 7})
		require.NoError(t, GEMM(ctx, on, batch, o, x))
		require.Equal(t, []float32{1.5 * 9, -20 * -4, 2 * 12, -40 * -8}, floats(x.C))

		short := x
		short.Rows = x.Rows[:8]
		err := GEMM(ctx, on, batch, o, short)
		require.EqualError(t, err, "problem 0: scales of B need words [5, 9) of a buffer of 8")
		require.ErrorIs(t, err, ErrInvalid)
		plain := Slices[float32, float32]{A: make([]float32, 6), B: make([]float32, 4),
			B2: make([]float32, 4), C: []float32{7, 7, 7, 7}, Rows: x.Rows}
		err = GEMM(ctx, on, batch, o, plain)
		require.ErrorContains(t, err, "scales are for elements of e4m3 or int8, not f32")
		require.ErrorIs(t, err, ErrInvalid)
		require.Equal(t, []float32{7, 7, 7, 7}, plain.C)
	}
}
