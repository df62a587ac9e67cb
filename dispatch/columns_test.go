package dispatch

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/planner"
)

// Column-major products of all transpositions, compared with a plain computation.
func TestColumnMajor(t *testing.T) {
	d, err := Open(t.Context(), WithBackend("cpu"))
	require.NoError(t, err)
	defer d.Close()
	const m, n, k, lda, ldb, ldc = 5, 7, 3, 9, 8, 6
	at := func(trans bool, ld, row, col int) int {
		if trans {
			row, col = col, row
		}
		return col*ld + row
	}
	for trans := range 4 {
		transA, transB := trans&1 != 0, trans&2 != 0
		t.Run(fmt.Sprintf("%v %v", transA, transB), func(t *testing.T) {
			a, b, c := make([]float32, 100), make([]float32, 100), make([]float32, 100)
			for i := range a {
				a[i], b[i], c[i] = float32(i%7-3), float32(i%5-2), float32(i)
			}
			want := append([]float32(nil), c...)
			for i := range m {
				for j := range n {
					sum := float32(0)
					for l := range k {
						sum += a[at(transA, lda, i, l)] * b[at(transB, ldb, l, j)]
					}
					want[at(false, ldc, i, j)] = 2*sum - want[at(false, ldc, i, j)]
				}
			}
			p := planner.ColumnMajor(planner.Problem{
				M: m, N: n, K: k, TransA: transA, TransB: transB, Alpha: planner.Scale(2), Beta: -1,
				A: planner.Matrix{LD: lda}, B: planner.Matrix{LD: ldb}, C: planner.Matrix{LD: ldc},
			})
			require.NoError(t, gemmOf(t.Context(), d, planner.Batch{p}, planner.Options{}, b, a, c))
			require.Equal(t, want, c)
		})
	}
}
