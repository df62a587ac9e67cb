package reference

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/planner"
)

// TestCheckF64: products of whole numbers in all layouts are right, and one that is 1 off is not.
func TestCheckF64(t *testing.T) {
	const m, n, k = 3, 4, 5
	for trans := range 4 {
		t.Run(fmt.Sprint(trans), func(t *testing.T) {
			p := planner.GEMM(m, n, k)
			p.TransA, p.TransB = trans&1 != 0, trans&2 != 0
			p.A.LD, p.B.LD, p.C.LD = 7, 8, n
			x := Doubles{A: make([]float64, 40), B: make([]float64, 40), C: make([]float64, m*n)}
			for i := range x.A {
				x.A[i], x.B[i] = float64(i*i%11-5), float64(i*i*i%13-6)
			}
			element := func(of []float64, row, col, ld int, trans bool) float64 {
				if trans {
					row, col = col, row
				}
				return of[row*ld+col]
			}
			after := make([]float64, m*n)
			for at := range after {
				for l := range k {
					after[at] += element(x.A, at/n, l, 7, p.TransA) * element(x.B, l, at%n, 8, p.TransB)
				}
			}
			worst, err := CheckF64(planner.Batch{p}, planner.Epilogue{}, x, after)
			require.NoError(t, err)
			require.Zero(t, worst)
			after[m*n-1]++
			_, err = CheckF64(planner.Batch{p}, planner.Epilogue{}, x, after)
			require.ErrorContains(t, err, "C[2,3]")
		})
	}
}
