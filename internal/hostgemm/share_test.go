package hostgemm

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestShares(t *testing.T) {
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
		{"devices that suit other problems", [][]float64{{4, 1, 1, 1}, {9, 1, 1, 1}},
			[][]int{{0}, {1, 2, 3}}},
		{"loads are those of the device", [][]float64{{5, 5, 5, 5}, {2, 2, 4, 4}}, [][]int{{2}, {0, 1, 3}}},
		{"unequal devices", [][]float64{{1, 1, 1, 1}, {3, 3, 3, 3}}, [][]int{{0, 1, 2}, {3}}},
	} {
		t.Run(c.name, func(t *testing.T) { require.Equal(t, c.want, shares(c.costs)) })
	}
}

// Every problem goes to one device. No device has more than the mean and one problem, as the rule guarantees
// on equal devices.
func TestSharesAreBalanced(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 0))
	for range 200 {
		n, devices := rng.IntN(300), 1+rng.IntN(8)
		costs := make([]float64, n)
		var sum float64
		for i := range costs {
			costs[i] = rng.ExpFloat64()
			sum += costs[i]
		}
		all := shares(slices.Repeat([][]float64{costs}, devices))
		seen := make([]bool, n)
		for _, share := range all {
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
