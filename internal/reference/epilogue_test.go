package reference

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/planner"
)

// TestEpilogue: for a problem with rows 1 2 and 3 4 in A, and columns 1 0 and 0 1, only the results that
// were computed by hand are right.
func TestEpilogue(t *testing.T) {
	f := func(x float32) int32 { return int32(math.Float32bits(x)) }
	silu := func(v float64) float32 { return float32(v / (1 + math.Exp(-v))) }
	gelu := func(v float64) float32 {
		return float32(0.5 * v * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(v+0.044715*v*v*v))))
	}
	rows := []int32{1, -1, 0, 1 << 30, f(3), f(-0.5)} // of A from 0 on, of C from 2 on, weights
	b2 := []float32{2, 0, 0, -2}
	bias := []float32{-2, -2, 10, 20}
	c := []float32{9, 9, 9, 9}
	for _, k := range []struct {
		name   string
		e      planner.Epilogue
		beta   float32
		alpha  float32
		want   []float32
		approx bool
	}{
		{"none", planner.Epilogue{}, 0, 1, []float32{1, 2, 3, 4}, false},
		{"bias", planner.Epilogue{Bias: true}, 0, 1, []float32{-1, 0, 1, 2}, false},
		{"relu after beta", planner.Epilogue{Bias: true, Activation: planner.ReLU}, -0.5, 2,
			[]float32{0, 0, 0, 1.5}, false},
		{"silu", planner.Epilogue{Activation: planner.SiLU}, 0, -1,
			[]float32{silu(-1), silu(-2), silu(-3), silu(-4)}, true},
		{"gelu", planner.Epilogue{Activation: planner.GELU}, 0, 0.5,
			[]float32{gelu(.5), gelu(1), gelu(1.5), gelu(2)}, true},
		{"far below 0", planner.Epilogue{Activation: planner.SiLU}, 0, -300, []float32{0, 0, 0, 0}, true},
		{"weights", planner.Epilogue{Weights: true}, 0, 1, []float32{3, 6, -1.5, -2}, false},
		{"gather", planner.Epilogue{GatherRows: 2, Bias: true}, 0, 1, []float32{1, 2, -2, -2}, false},
		{"scatter", planner.Epilogue{ScatterRows: 2}, 0, 1, []float32{1, 2, 9, 9}, false},
		{"gated", planner.Epilogue{Gated: true, Activation: planner.ReLU}, 0, 1, []float32{2, -8, 18, -32},
			false},
		{"gated with bias", planner.Epilogue{Gated: true, Bias: true}, 0, 1, []float32{-12, 0, 16, 24},
			false},
		{"no product", planner.Epilogue{Gated: true, Bias: true, Weights: true}, 0, 0,
			[]float32{-60, -120, 10, 20}, false},
	} {
		t.Run(k.name, func(t *testing.T) {
			m := planner.Matrix{LD: 2}
			b := planner.Batch{{M: 2, N: 2, K: 2, A: m, B: m, C: m, B2: m,
				Alpha: planner.Scale(float64(k.alpha)),
				Beta:  float64(k.beta), RowsC: 2, Weights: 4}}
			how := Arithmetic{Epilogue: Epilogue{Epilogue: k.e, B2: b2, Biases: bias, Rows: rows}}
			x, y := []float32{1, 2, 3, 4}, []float32{1, 0, 0, 1}
			_, err := CheckIn(how, b, x, y, c, k.want)
			require.NoError(t, err)
			if !k.approx {
				require.NoError(t, CheckExactIn(how, b, x, y, c, k.want))
			}
			for i := range k.want {
				requireNoticed(t, how, b, x, y, c, k.want, i)
			}
		})
	}
}

// requireNoticed requires that another value of element i is noticed.
func requireNoticed(t *testing.T, how Arithmetic, b planner.Batch, x, y, before, want []float32, i int) {
	t.Helper()
	wrong := slices.Clone(want)
	wrong[i] = wrong[i]*1.0001 + 0.01
	_, err := CheckIn(how, b, x, y, before, wrong)
	var found *Mismatch
	require.ErrorAs(t, err, &found)
	require.Equal(t, i, found.Index)
}

// TestEpilogueBounds: float32 results of random operands are within the bounds, and these are not loose.
func TestEpilogueBounds(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	const k = 40
	for _, of := range []planner.Activation{"", planner.ReLU, planner.GELU, planner.SiLU} {
		largest := 0.0
		for range 2000 {
			x, y, y2, bias := make([]float32, k), make([]float32, k), make([]float32, k), make([]float32, 2)
			for _, s := range [][]float32{x, y, y2, bias} {
				Uniform(rng, s)
			}
			var g, u float32
			for i := range k {
				g += x[i] * y[i]
				u += x[i] * y2[i]
			}
			g, u = g+bias[0], u+bias[1]
			switch of {
			case planner.ReLU:
				g = max(g, 0)
			case planner.GELU:
				g *= 1 / (1 + float32(math.Exp(float64(-g*(1.5957691216+0.0713548162726*g*g)))))
			case planner.SiLU:
				g *= 1 / (1 + float32(math.Exp(float64(-g))))
			}
			m := planner.Matrix{LD: 1}
			b := planner.Batch{{M: 1, N: 1, K: k, A: planner.Matrix{LD: k}, B: m, C: m, B2: m}}
			how := Arithmetic{Epilogue: Epilogue{Epilogue: planner.Epilogue{Activation: of, Bias: true,
				Gated: true},
				B2: y2, Biases: bias}}
			found, err := CheckIn(how, b, x, y, []float32{7}, []float32{g * u})
			require.NoError(t, err)
			largest = max(largest, found.Worst)
		}
		require.Greater(t, largest, 0.005, of)
	}
}

// TestEpilogueNotFinite: NaN stays, and infinite numbers have their limit.
func TestEpilogueNotFinite(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	m := planner.Matrix{LD: 1}
	b := planner.Batch{{M: 1, N: 1, K: 1, A: m, B: m, C: m}}
	for _, of := range []planner.Activation{planner.ReLU, planner.GELU, planner.SiLU} {
		for _, c := range [][2]float32{{nan, nan}, {inf, inf}, {-inf, 0}} {
			how := Arithmetic{Epilogue: Epilogue{Epilogue: planner.Epilogue{Activation: of}}}
			for _, got := range []float32{nan, inf, 0, 1} {
				_, err := CheckIn(how, b, []float32{c[0]}, []float32{1}, []float32{7}, []float32{got})
				same := got == c[1] || got != got && c[1] != c[1]
				require.Equal(t, same, err == nil, "%s of %g is %g: %v", of, c[0], got, err)
			}
		}
	}
}
