package gonumgemm

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/mat"
)

// TestGemmFloat64 compares with gonum. Sums of products of these numbers are exact in float64 alone.
func TestGemmFloat64(t *testing.T) {
	d := open(t)
	rng := rand.New(rand.NewPCG(7, 9))
	general := func(rows, cols int) blas64.General {
		m := blas64.General{Rows: rows, Cols: cols, Stride: cols + 2, Data: make([]float64, rows*(cols+2))}
		for i := range m.Data {
			m.Data[i] = float64(rng.IntN(1<<20) - 1<<19)
		}
		return m
	}
	var products []Product[blas64.General]
	var want [][]float64
	for i := range 12 {
		m, n, k := 1+rng.IntN(20), 1+rng.IntN(20), 1+rng.IntN(30)
		p := Product[blas64.General]{Alpha: 0.5, Beta: float64(i % 2), TransB: blas.Trans,
			A: general(m, k), B: general(n, k), C: general(m, n)}
		c := p.C
		c.Data = slices.Clone(c.Data)
		blas64.Gemm(blas.NoTrans, p.TransB, p.Alpha, p.A, p.B, p.Beta, c)
		products, want = append(products, p), append(want, c.Data)
	}
	require.NoError(t, Gemm(t.Context(), d, products...))
	for i := range products {
		require.Equal(t, want[i], products[i].C.Data, i)
	}
	a, b := mat.NewDense(1, 2, []float64{1 << 40, 1}), mat.NewDense(2, 1, []float64{1, 1})
	c, err := Multiply[float64](t.Context(), d, []mat.Matrix{a}, []mat.Matrix{b})
	require.NoError(t, err)
	require.Equal(t, float64(1<<40+1), c[0].At(0, 0))
}
