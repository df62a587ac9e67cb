package overlap

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// Neighbours equal those of a step by step search around the circle.
func TestRanks(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 9))
	var s ranks
	for _, n := range []int{1, 2, 63, 64, 65, 4096, 4097, 300_000} {
		s.reset(n)
		in := make([]bool, n)
		search := func(at, step int) int {
			for range n {
				if at = (at + step + n) % n; in[at] {
					return at
				}
			}
			return -1
		}
		for range 2000 {
			i := rng.IntN(n)
			if in[i] = rng.IntN(3) > 0; in[i] {
				s.add(i)
			} else {
				s.remove(i)
			}
			at := rng.IntN(n)
			require.Equal(t, [2]int{search(at, 1), search(at, -1)}, [2]int{s.after(at), s.before(at)},
				"around %d of %d", at, n)
		}
	}
}
