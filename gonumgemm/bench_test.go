package gonumgemm

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas32"
)

// BenchmarkLists compares products of separate matrices, all of one size or of random sizes, with a loop of
// gonum.
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
		products := make([]Product, c.count)
		for i := range products {
			matrix := func(rows, cols int) blas32.General {
				return general(rng, rows, cols, new([]float32))
			}
			m, n, k := c.m+rng.IntN(c.up+1), c.n+rng.IntN(c.up+1), c.k+rng.IntN(c.up+1)
			products[i] = Product{Alpha: 1, A: matrix(m, k), B: matrix(k, n), C: matrix(m, n)}
		}
		loop := func() {
			for i := range products {
				p := &products[i]
				blas32.Gemm(blas.NoTrans, blas.NoTrans, p.Alpha, p.A, p.B, p.Beta, p.C)
			}
		}
		b.Run(fmt.Sprint(c.name, "/gonum"), func(b *testing.B) {
			for b.Loop() {
				loop()
			}
		})
		b.Run(fmt.Sprint(c.name, "/batchgemm"), func(b *testing.B) {
			d := open(b)
			b.ReportAllocs()
			for b.Loop() {
				if err := Gemm(b.Context(), d, products...); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
