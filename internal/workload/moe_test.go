package workload

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/planner"
)

// TestRouteGolden: counts do not change, so that results can be compared over time.
func TestRouteGolden(t *testing.T) {
	for _, tc := range []struct {
		layer moe
		want  []int
	}{
		{moe{experts: 16, top: 2, tokens: 64, skew: 1, seed: 7}, []int{8, 6, 12, 0, 17, 10, 8, 5, 3, 20, 1,
			12, 3, 3, 1, 19}},
		{moe{experts: 16, top: 2, tokens: 64, skew: 0, seed: 7}, []int{6, 6, 5, 11, 9, 7, 8, 9, 9, 8, 9, 7,
			10, 10, 7, 7}},
		{moe{experts: 5, top: 3, tokens: 10, skew: 10, seed: 1}, []int{0, 10, 10, 0, 10}},
	} {
		require.Equal(t, tc.want, tc.layer.route(), tc.layer)
	}
}

// TestRoute: no token has an expert twice, and none is lost.
func TestRoute(t *testing.T) {
	for _, tc := range []moe{
		{experts: 1, top: 1, tokens: 3},
		{experts: 7, top: 7, tokens: 50, skew: maxSkew},
		{experts: 64, top: 63, tokens: 50, skew: 3},
		{experts: 1000, top: 1, tokens: 500},
		{experts: 129, top: 8, tokens: 1024, skew: 0.3},
	} {
		for tc.seed = range 5 {
			counts, sum := tc.route(), 0
			for _, n := range counts {
				require.LessOrEqual(t, n, tc.tokens)
				sum += n
			}
			require.Len(t, counts, tc.experts)
			require.Equal(t, tc.tokens*tc.top, sum)
		}
	}
}

// TestChoices: they are those of the layer of this name, and no token has an expert twice.
func TestChoices(t *testing.T) {
	l := moe{experts: 16, top: 2, tokens: 64, skew: 1, seed: 7}
	counts := make([]int, l.experts)
	for chosen := range slices.Chunk(Choices(l.experts, l.top, l.tokens, l.skew, l.seed), l.top) {
		require.NotEqual(t, chosen[0], chosen[1])
		for _, e := range chosen {
			counts[e]++
		}
	}
	require.Equal(t, l.route(), counts)
}

// TestRoutePopularity: tokens are distributed by popularity, and evenly without skew.
func TestRoutePopularity(t *testing.T) {
	for _, skew := range []float64{0, 1} {
		l := moe{experts: 32, top: 1, tokens: 1 << 18, skew: skew, seed: 3}
		weights := l.popularity(rand.New(rand.NewPCG(l.seed, 0)))
		require.Equal(t, uint64(1<<40), slices.Max(weights))
		if skew == 0 {
			require.Equal(t, uint64(1<<40), slices.Min(weights))
		}
		var sum float64
		for _, w := range weights {
			sum += float64(w)
		}
		for e, n := range l.route() {
			want := float64(l.tokens) * float64(weights[e]) / sum
			require.InDelta(t, want, n, 5*math.Sqrt(want), "skew %v, expert %d", skew, e)
		}
	}
}

// TestMoEKeepsIdleExperts: they are problems without rows, with their own weights.
func TestMoEKeepsIdleExperts(t *testing.T) {
	const name = "moe:experts=16,top=2,tokens=64,n=3,k=4,skew=1,seed=7"
	w, err := Load(name, nil)
	require.NoError(t, err)
	layer := moe{experts: 16, top: 2, tokens: 64, skew: 1, seed: 7}
	for e, rows := range layer.route() {
		p := w.Batch[e]
		require.Equal(t, [3]int{rows, 3, 4}, [3]int{p.M, p.N, p.K})
		require.Equal(t, planner.Matrix{Offset: 12 * e, LD: 3}, p.B)
	}
	require.Zero(t, w.Batch[3].M)
}

// TestMoEDefaultTop: fewer experts than the default of a token are valid.
func TestMoEDefaultTop(t *testing.T) {
	for experts, rows := range map[int]int{1: 5, 8: 40, 20: 40} {
		w, err := Load(fmt.Sprintf("moe:experts=%d,tokens=5,n=1,k=1", experts), nil)
		require.NoError(t, err)
		sum := 0
		for _, p := range w.Batch {
			sum += p.M
		}
		require.Equal(t, rows, sum)
	}
}

// TestMoETooLarge: the error says what does not fit.
func TestMoETooLarge(t *testing.T) {
	_, err := Load("moe:experts=1048576,top=1,tokens=1,n=2147483647,k=2147483647", nil)
	require.NotErrorIs(t, err, ErrUnknown)
	require.ErrorContains(t, err, "does not fit: its last offset overflows")
}
