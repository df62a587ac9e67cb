package reference

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/planner"
)

// TestProducts: sums and magnitudes agree with the definition, added in the order of k, to the last bit.
// Sizes have and lack a remainder of four k and of two columns, and rows of A and B have gaps.
func TestProducts(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	numbers := func(n int) []float32 {
		all := make([]float32, n)
		for i := range all {
			all[i] = float32(rng.NormFloat64())
		}
		return all
	}
	for _, size := range [][3]int{{1, 1, 1}, {3, 5, 7}, {2, 4, 8}, {5, 2, 3}, {1, 6, 6}} {
		for trans := range 4 {
			m, n, k := size[0], size[1], size[2]
			p := planner.Problem{M: m, N: n, K: k, TransA: trans&1 != 0, TransB: trans&2 != 0,
				Alpha: planner.Scale(-1.5)}
			p.A, p.B = planner.Matrix{Offset: 2, LD: max(m, k) + 1}, planner.Matrix{Offset: 3,
				LD: max(n, k) + 2}
			x, y := numbers(p.A.Offset+p.A.LD*max(m, k)), numbers(p.B.Offset+p.B.LD*max(n, k))
			t.Run(fmt.Sprintf("%v/%v/%v", size, p.TransA, p.TransB), func(t *testing.T) {
				for i := range m {
					sum, sizes := make([]float64, n), make([]float64, n)
					products(&p, i, x, y, sum, sizes)
					for j := range n {
						want, wantSize := 0.0, 0.0
						for l := range k {
							a, b := p.A.Offset+i*p.A.LD+l, p.B.Offset+l*p.B.LD+j
							if p.TransA {
								a = p.A.Offset + l*p.A.LD + i
							}
							if p.TransB {
								b = p.B.Offset + j*p.B.LD + l
							}
							w := float64(x[a]) * float64(y[b])
							want += w
							wantSize += math.Abs(w)
						}
						require.Equal(t, want*-1.5, sum[j])
						require.Equal(t, wantSize*1.5, sizes[j])
					}
				}
			})
		}
	}
}
