package reference

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/planner"
)

func bitsOf(numbers ...float32) (words []int32) {
	for _, x := range numbers {
		words = append(words, int32(math.Float32bits(x)))
	}
	return words
}

// TestScales: for rows 1 2 and 3 4 in A, columns 1 0 and 0 1 of B, and 2 0 and 0 -2 of B2, only the results
// that were computed by hand are right.
func TestScales(t *testing.T) {
	row, tensor := planner.PerRow, planner.PerTensor
	// of A; scales of A from 2 on, of B from 4 on
	rows := append([]int32{1, -1}, bitsOf(5, -0.5, 2, 3, 7, 11)...)
	b2, bias, c := []float32{2, 0, 0, -2}, []float32{-2, -2, 10, 20}, []float32{9, 9, 9, 9}
	for _, k := range []struct {
		name        string
		e           planner.Epilogue
		alpha, beta float32
		want        []float32
	}{
		{"of A", planner.Epilogue{ScaleA: row}, 1, 0, []float32{5, 10, -1.5, -2}},
		{"of B", planner.Epilogue{ScaleB: row}, 1, 0, []float32{2, 6, 6, 12}},
		{"of both, in front of beta and bias", planner.Epilogue{ScaleA: row, ScaleB: row, Bias: true}, 2, 1,
			[]float32{27, 67, 1, -5}},
		{"of tensors", planner.Epilogue{ScaleA: tensor, ScaleB: tensor}, 1, 0, []float32{10, 20, 30, 40}},
		{"of a row of A that is gathered", planner.Epilogue{ScaleA: row, ScaleB: row, GatherRows: 2,
			Bias: true}, 1, 0, []float32{-5, -8, -2, -2}},
		{"of A, gathered", planner.Epilogue{ScaleA: tensor, GatherRows: 2}, 1, 0, []float32{15, 20, 0, 0}},
		{"of a gate", planner.Epilogue{ScaleB: row, Gated: true}, 1, 0, []float32{28, -264, 252, -1056}},
		{"of the tensors of a gate", planner.Epilogue{ScaleB: tensor, Gated: true}, 1, 0,
			[]float32{12, -48, 108, -192}},
		{"no product", planner.Epilogue{ScaleA: row, ScaleB: row, Bias: true}, 0, 1, []float32{7, 7, 7, 7}},
	} {
		t.Run(k.name, func(t *testing.T) {
			m := planner.Matrix{LD: 2}
			b := planner.Batch{{M: 2, N: 2, K: 2, A: m, B: m, C: m, B2: m,
				Alpha: planner.Scale(float64(k.alpha)),
				Beta:  float64(k.beta), ScaleA: 2, ScaleB: 4}}
			how := Arithmetic{Epilogue: Epilogue{Epilogue: k.e, B2: b2, Biases: bias, Rows: rows}}
			x, y := []float32{1, 2, 3, 4}, []float32{1, 0, 0, 1}
			require.NoError(t, CheckExactIn(how, b, x, y, c, k.want))
			_, err := CheckIn(how, b, x, y, c, k.want)
			require.NoError(t, err)
			for i := range k.want {
				requireNoticed(t, how, b, x, y, c, k.want, i)
			}
		})
	}
}

// TestScaleBounds: float32 results of random operands and scales of all magnitudes are within the bounds,
// and these are not loose.
func TestScaleBounds(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	const k = 40
	largest := 0.0
	for range 20000 {
		x, y, scale := make([]float32, k), make([]float32, k), make([]float32, 2)
		for _, s := range [][]float32{x, y, scale} {
			Uniform(rng, s)
		}
		for i := range scale {
			scale[i] = float32(math.Ldexp(float64(scale[i]), rng.IntN(250)-125))
		}
		var sum float32
		for i := range k {
			sum += x[i] * y[i]
		}
		m := planner.Matrix{LD: 1}
		b := planner.Batch{{M: 1, N: 1, K: k, A: planner.Matrix{LD: k}, B: m, C: m, Beta: 1, ScaleB: 1}}
		how := Arithmetic{Epilogue: Epilogue{Epilogue: planner.Epilogue{ScaleA: planner.PerTensor,
			ScaleB: planner.PerRow}, Rows: bitsOf(scale...)}}
		found, err := CheckIn(how, b, x, y, []float32{7}, []float32{sum*scale[0]*scale[1] + 7})
		require.NoError(t, err, scale)
		largest = max(largest, found.Worst)
	}
	require.Greater(t, largest, 0.02)
}

// TestScaleExtremes: numbers that are not finite follow IEEE. What overflows or is lost on the way is not
// judged.
func TestScaleExtremes(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	m := planner.Matrix{LD: 1}
	b := planner.Batch{{M: 1, N: 1, K: 1, A: m, B: m, C: m, ScaleB: 1}}
	for _, tc := range []struct {
		name       string
		x, a, b    float32
		right, bad []float32
	}{
		{"NaN", 1, nan, 1, []float32{nan}, []float32{1, inf}},
		{"infinite", 1, inf, -1, []float32{-inf}, []float32{inf, nan, 1}},
		{"infinite of 0", 0, inf, 1, []float32{nan}, []float32{0, inf}},
		{"0 of infinite", 1, 0, inf, []float32{nan}, []float32{0, inf}},
		{"0", 1, 0, 5, []float32{0}, []float32{1, nan}},
		{"subnormal", 1, 0x1p-130, 1, []float32{0x1p-130}, []float32{0, 0x1p-129}},
		{"subnormal, and large", 1, 0x1p-130, 0x1p120, []float32{0x1p-10}, []float32{0, 0x1p-9}},
		{"overflow before the second", 4, 0x1p127, 0x1p-127, []float32{inf, 4}, nil},
		{"lost before the second", 0x1p-10, 0x1p-149, inf, []float32{nan, inf}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			how := Arithmetic{Epilogue: Epilogue{Epilogue: planner.Epilogue{ScaleA: planner.PerTensor,
				ScaleB: planner.PerTensor}, Rows: bitsOf(tc.a, tc.b)}}
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

// TestScalesFlushed: a device that replaces subnormal numbers by 0 may do so with such scales.
func TestScalesFlushed(t *testing.T) {
	m := planner.Matrix{LD: 1}
	b := planner.Batch{{M: 1, N: 1, K: 1, A: m, B: m, C: m, ScaleB: 1}}
	how := Arithmetic{FlushesSubnormals: true,
		Epilogue: Epilogue{Epilogue: planner.Epilogue{ScaleA: planner.PerTensor, ScaleB: planner.PerTensor},
			Rows: bitsOf(0x1p-130, 0x1p120)}}
	for got, right := range map[float32]bool{0x1p-10: true, 0: true, 0x1p-3: false} {
		_, err := CheckIn(how, b, []float32{1}, []float32{1}, []float32{7}, []float32{got})
		require.Equal(t, right, err == nil, "%g: %v", got, err)
	}
}
