package gonumgemm

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas32"
)

// BenchmarkLists compares products of separate matrices, all of one size or of random sizes, with a loop of
// gonum, by turns: the least time of each counts.
func BenchmarkLists(b *testing.B) {
	for _, c := range []struct {
		name        string
		count       int
		m, n, k, up int
	}{
		{"1000 of 5x7x9", 1000, 5, 7, 9, 0},
		{"4096 of 8 to 32", 4096, 8, 8, 8, 24},
		{"1000 of 16", 1000, 16, 16, 16, 0},
		{"64 of 64", 64, 64, 64, 64, 0},
		{"one of 1024", 1, 1024, 1024, 1024, 0},
	} {
		rng := rand.New(rand.NewPCG(1, 2))
		products := make([]Product[blas32.General], c.count)
		for i := range products {
			matrix := func(rows, cols int) blas32.General {
				return general(rng, rows, cols, new([]float32))
			}
			m, n, k := c.m+rng.IntN(c.up+1), c.n+rng.IntN(c.up+1), c.k+rng.IntN(c.up+1)
			products[i] = Product[blas32.General]{Alpha: 1, A: matrix(m, k), B: matrix(k, n), C: matrix(m, n)}
		}
		b.Run(c.name, func(b *testing.B) {
			d := open(b)
			b.ReportAllocs()
			least := [2]time.Duration{math.MaxInt64, math.MaxInt64}
			for b.Loop() {
				start := time.Now()
				for i := range products {
					p := &products[i]
					blas32.Gemm(blas.NoTrans, blas.NoTrans, float32(p.Alpha), p.A, p.B, float32(p.Beta), p.C)
				}
				between := time.Now()
				if err := Gemm(b.Context(), d, products...); err != nil {
					b.Fatal(err)
				}
				least[0] = min(least[0], between.Sub(start))
				least[1] = min(least[1], time.Since(between))
			}
			b.ReportMetric(float64(least[1].Microseconds()), "us")
			b.ReportMetric(float64(least[0])/float64(least[1]), "x-gonum")
		})
	}
}
