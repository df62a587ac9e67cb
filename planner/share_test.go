package planner

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCosts(t *testing.T) {
	d := device(t, "mi210")
	b, err := Pack(GEMM(512, 512, 512), GEMM(512, 512, 1024), GEMM(16, 16, 16), GEMM(0, 5, 5), GEMM(64, 64, 0),
		Problem{M: 64, N: 64, Beta: 1})
	require.NoError(t, err)
	costs := New(d).Costs(b, []float64{7})
	require.Len(t, costs, len(b))
	require.Greater(t, costs[1], 1.5*costs[0], "cost grows with K")
	require.Greater(t, costs[0], 1000*costs[2])
	require.Positive(t, costs[2])
	require.Zero(t, costs[3], "nothing to write")
	require.Positive(t, costs[4], "C is cleared")
	require.Zero(t, costs[5], "C stays as is")
	// No faster than the peak, and no slower than a third of it.
	peak := 2 * 512 * 512 * 512 / (d.TFLOPS * 1e6)
	require.Greater(t, costs[0], peak)
	require.Less(t, costs[0], 3*peak)
}

// The sum over a large batch agrees with the prediction for the whole plan.
func TestCostsAddUp(t *testing.T) {
	d := device(t, "h200")
	rng := rand.New(rand.NewPCG(1, 0))
	var problems []Problem
	for range 2048 {
		problems = append(problems, GEMM(16+rng.IntN(497), 16+rng.IntN(497), 16+rng.IntN(497)))
	}
	b, err := Pack(problems...)
	require.NoError(t, err)
	plan, err := New(d).Plan(t.Context(), b, Options{})
	require.NoError(t, err)
	var sum float64
	for _, c := range New(d).Costs(b, nil) {
		sum += c
	}
	require.InEpsilon(t, plan.Cost, sum, 0.2)
}

func TestShare(t *testing.T) {
	for _, c := range []struct {
		name  string
		costs [][]float64
		want  [][]int
	}{
		{"no devices", nil, [][]int{}},
		{"no problems", [][]float64{{}, {}}, [][]int{nil, nil}},
		{"one device", [][]float64{{1, 2, 3}}, [][]int{{0, 1, 2}}},
		{"longest first", [][]float64{{3, 3, 2, 2, 2}, {3, 3, 2, 2, 2}}, [][]int{{0, 2, 4}, {1, 3}}},
		{"one long problem", [][]float64{{1, 9, 1, 1}, {1, 9, 1, 1}}, [][]int{{1}, {0, 2, 3}}},
		{"devices that suit other problems", [][]float64{{4, 1, 1, 1}, {9, 1, 1, 1}}, [][]int{{0}, {1, 2, 3}}},
		{"loads are those of the device", [][]float64{{5, 5, 5, 5}, {2, 2, 4, 4}}, [][]int{{2}, {0, 1, 3}}},
		{"unequal devices", [][]float64{{1, 1, 1, 1}, {3, 3, 3, 3}}, [][]int{{0, 1, 2}, {3}}},
	} {
		t.Run(c.name, func(t *testing.T) { require.Equal(t, c.want, Share(c.costs)) })
	}
}

// Every problem goes to one device, and none is left with more than the mean
// and one problem, as the rule promises on equal devices.
func TestShareIsBalanced(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 0))
	for range 200 {
		n, devices := rng.IntN(300), 1+rng.IntN(8)
		costs := make([]float64, n)
		var sum float64
		for i := range costs {
			costs[i] = rng.ExpFloat64()
			sum += costs[i]
		}
		shares := Share(slices.Repeat([][]float64{costs}, devices))
		seen := make([]bool, n)
		for _, share := range shares {
			require.True(t, slices.IsSorted(share))
			var load, least float64
			for _, i := range share {
				require.False(t, seen[i])
				seen[i] = true
				load += costs[i]
				if least == 0 || costs[i] < least {
					least = costs[i]
				}
			}
			require.LessOrEqual(t, load-least, sum/float64(devices)+1e-9)
		}
		require.NotContains(t, seen, false)
	}
}
