package planner

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCosts(t *testing.T) {
	d := device(t, "mi210")
	b, err := Pack(GEMM(512, 512, 512), GEMM(512, 512, 1024), GEMM(16, 16, 16), GEMM(0, 5, 5),
		GEMM(64, 64, 0),
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
	// Between a third of the peak rate and the peak rate.
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
