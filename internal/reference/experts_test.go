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

// byHand is a layer of two experts for two tokens, all three of one choice, with other layouts of the same
// weights. Its first token goes to the second expert, its second to the first; a third goes to none.
func byHand() *Experts {
	return &Experts{
		Layer: planner.Experts{Choices: planner.Choices{Tokens: 3, TopK: 1, Experts: 2}, Hidden: 1,
			Intermediate: 2, TransB: true, Gated: true, Activation: planner.ReLU},
		Index: []int64{1, 0, 2}, X: []float32{2, -3, math.MaxFloat32}, Weights: []float32{-1, 0.5, 7},
		GateUp: []float32{-1, 2, 4, 5, 1, 3, -6, 7}, Down: []float32{10, 20, -1, 1},
	}
}

// TestExperts: only the results that were computed by hand are right, in each layout.
func TestExperts(t *testing.T) {
	// token 0, expert 1: gate 2 6, up -12 14, product -24 84, down 24 + 84 = 108, times -1
	// token 1, expert 0: gate 3 0, up -12 -15, product -36 0, down -360, times 0.5
	want := []float32{-108, -180, 0}
	// with biases 1 0 0 0 and 0 0 1 0, and 1 and 2:
	// token 0: up -11 14, product -22 84, down 22 + 84 + 2; token 1: gate 4 0, product -48, down -480 + 1
	biased := []float32{-108, -239.5, 0}
	for _, c := range []struct {
		name   string
		change func(*Experts)
		want   []float32
	}{
		{"joined", func(*Experts) {}, want},
		{"joined columns", func(x *Experts) { x.Layer.TransB = false }, want}, // of one row
		{"interleaved", func(x *Experts) {
			x.Layer.GateUp, x.GateUp = planner.GateUpInterleaved, []float32{-1, 4, 2, 5, 1, -6, 3, 7}
		}, want},
		{"apart", func(x *Experts) {
			x.Layer.GateUp, x.GateUp = planner.GateUpApart, []float32{-1, 2, 1, 3}
			x.Up = []float32{4, 5, -6, 7}
		}, want},
		{"biases", func(x *Experts) {
			x.Layer.Bias, x.GateUpBias = true, []float32{1, 0, 0, 0, 0, 0, 1, 0}
			x.DownBias = []float32{1, 2}
		}, biased},
		{"ungated", func(x *Experts) { // down 2*-1 + 6*1 = 4; down 3*10 + 0
			x.Layer.Gated, x.GateUp = false, []float32{-1, 2, 1, 3}
		}, []float32{-4, 15, 0}},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := byHand()
			c.change(x)
			found, err := x.Check(c.want)
			require.NoError(t, err)
			require.Zero(t, found.Worst)
			for i := range c.want {
				wrong := slices.Clone(c.want)
				wrong[i] = wrong[i]*1.0001 + 0.001
				_, err := x.Check(wrong)
				require.ErrorContains(t, err, "token ")
			}
		})
	}
}

// TestExpertsTransposed: weights without TransB lie in rows of x.
func TestExpertsTransposed(t *testing.T) {
	x := byHand()
	x.Layer.Hidden, x.Layer.TransB = 2, false
	x.Layer.Choices = planner.Choices{Tokens: 1, TopK: 2, Experts: 1}
	x.Index, x.X, x.Weights = []int64{0, -1}, []float32{1, 10}, []float32{1, 1}
	// gate 1 + 50, 2 + 60; up 3 + 70, 4 + 80
	x.GateUp, x.Down = []float32{1, 2, 3, 4, 5, 6, 7, 8}, []float32{1, 0, 0, 1}
	_, err := x.Check([]float32{51 * 73, 62 * 84})
	require.NoError(t, err)
	_, err = x.Check([]float32{62 * 84, 51 * 73})
	require.ErrorContains(t, err, "token 0, element 0: 5208, want 3723 within ")
}

// TestExpertsBounds: results in float32, rounded to a type where a layer rounds, are within the bounds, and
// these are not loose.
func TestExpertsBounds(t *testing.T) {
	const hidden, between = 24, 32
	rng := rand.New(rand.NewPCG(1, 2))
	for _, of := range []element.Type{element.F32, element.BF16, element.F16} {
		largest := 0.
		for range 100 {
			random := func(n int) []float32 {
				s := make([]float32, n)
				Uniform(rng, s)
				for i, v := range s {
					s[i] = roundTo(of, v)
				}
				return s
			}
			x := &Experts{Layer: planner.Experts{Choices: planner.Choices{Tokens: 1, TopK: 2, Experts: 2},
				Hidden: hidden, Intermediate: between, TransB: true, Gated: true, Activation: planner.SiLU},
				Type: of, Index: []int64{0, 1}, X: random(hidden), Weights: random(2),
				GateUp: random(2 * 2 * between * hidden), Down: random(2 * hidden * between)}
			found, err := x.Check(inFloat32(x))
			require.NoError(t, err)
			largest = max(largest, found.Worst)
		}
		require.Greater(t, largest, 0.002, of)
	}
}

// inFloat32 computes such a layer of one token, whose choices are all experts in turn.
func inFloat32(x *Experts) []float32 {
	n, k, of := x.Layer.Intermediate, x.Layer.Hidden, x.Type
	dot := func(a, b []float32) (sum float32) {
		for i, v := range a {
			sum += v * b[i]
		}
		return sum
	}
	round := func(v float32) float32 { return roundTo(of, v) }
	y, row := make([]float32, k), make([]float32, n)
	for e, weight := range x.Weights {
		for c := range row {
			g, u := dot(x.X, x.GateUp[(2*e*n+c)*k:]), dot(x.X, x.GateUp[((2*e+1)*n+c)*k:])
			row[c] = round(g / (1 + float32(math.Exp(float64(-g)))) * u)
		}
		for c := range y {
			y[c] += round(weight * dot(row, x.Down[(e*k+c)*n:]))
		}
	}
	for c, v := range y {
		y[c] = round(v)
	}
	return y
}

func roundTo(of element.Type, v float32) float32 {
	if of == element.F32 {
		return v
	}
	return elemtype.Float(of, elemtype.Bits(of, v))
}
