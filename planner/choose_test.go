package planner

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSeveralShapes: two kinds of problems have tile shapes of their own only if that is much faster than one
// shape for all.
func TestSeveralShapes(t *testing.T) {
	for _, c := range []struct {
		name         string
		small, large Problem
		shapes       int
	}{
		{"one is nearly as fast", Problem{M: 16, N: 32, K: 512}, Problem{M: 512, N: 512, K: 512}, 1},
		{"two are faster", Problem{M: 32, N: 32, K: 1024}, Problem{M: 256, N: 256, K: 32}, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := slices.Concat(slices.Repeat(Batch{c.small}, 64), slices.Repeat(Batch{c.large}, 64))
			plan, err := New(device(t, "h200")).Plan(t.Context(), mustPack(t, b...), Options{})
			require.NoError(t, err)
			shapes := map[string]bool{}
			for i := range plan.Launches {
				shapes[plan.Launches[i].Tile.Name] = true
			}
			require.Len(t, shapes, c.shapes)
		})
	}
}
