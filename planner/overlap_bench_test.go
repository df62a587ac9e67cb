package planner

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// layouts are legal batches of n problems whose C regions lie as the name says. mixed:
// leading dimensions that have nothing in common.
var layouts = []struct {
	name  string
	mixed bool
	of    func(n int) Batch
}{
	{"packed", false, func(n int) (b Batch) {
		for i := range n {
			b = append(b, placed(i*64, 8, 8, 8))
		}
		return b
	}},
	{"packed, shuffled", false, func(n int) (b Batch) {
		for _, i := range rand.New(rand.NewPCG(1, 1)).Perm(n) {
			b = append(b, placed(i*64, 8, 8, 8))
		}
		return b
	}},
	{"blocks of a matrix", false, func(n int) (b Batch) {
		const across = 16
		for i := range n {
			b = append(b, placed(i/across*32*across*32+i%across*32, 32, 32, across*32))
		}
		return b
	}},
	{"columns of a matrix, shuffled", false, func(n int) (b Batch) {
		for _, i := range rand.New(rand.NewPCG(1, 1)).Perm(n) {
			b = append(b, placed(i, 32, 1, n))
		}
		return b
	}},
	{"staircase of columns", false, func(n int) (b Batch) {
		for i, at := range rand.New(rand.NewPCG(1, 1)).Perm(n) {
			b = append(b, placed(i*n+at, n, 1, n))
		}
		return b
	}},
	{"columns and one of every other row", false, func(n int) (b Batch) {
		for i := range n - 1 {
			b = append(b, placed(i, 32, 1, 4*n))
		}
		return append(b, placed(2*n, 16, 1, 8*n))
	}},
	{"columns and one of another stride", true, func(n int) (b Batch) {
		for i := range n - 1 {
			b = append(b, placed(i, 32, 1, 4*n))
		}
		return append(b, placed(2*n, 16, 1, 4*n+1))
	}},
	{"multiples of a stride", false, func(n int) (b Batch) {
		for i := range n {
			b = append(b, placed(i, 32, 1, n*(1+i%7)))
		}
		return b
	}},
	{"multiples of a stride, two in the same columns", false, func(n int) (b Batch) {
		for i := range n - 2 {
			b = append(b, placed(i, 32, 1, n*(1+i%7)))
		}
		return append(b, placed(n-2, 16, 1, 2*n), placed(2*n-2, 16, 1, 2*n))
	}},
	{"a stride of its own each", true, func(n int) (b Batch) {
		for i := range n {
			b = append(b, placed(i, 2, 1, n+i))
		}
		return b
	}},
	{"two strides by halves", true, func(n int) (b Batch) {
		for i := range n / 2 {
			b = append(b, placed(i, 32, 1, 4*n), placed(n+i, 32, 1, 4*n+1))
		}
		return b
	}},
	{"two strides by halves, many rows", true, func(n int) (b Batch) {
		for i := range n / 2 {
			b = append(b, placed(i, n, 1, 4*n), placed(n+i, n, 1, 4*n+1))
		}
		return b
	}},
}

// placed is a problem of which C alone matters.
func placed(offset, m, n, ld int) Problem {
	return Problem{M: m, N: n, B: Matrix{LD: n}, C: Matrix{offset, ld}}
}

func BenchmarkCheck(b *testing.B) {
	for _, l := range layouts {
		for _, n := range []int{16, 1000, 16000, 400_000} {
			b.Run(fmt.Sprintf("%s/%d", l.name, n), func(b *testing.B) {
				batch := l.of(n)
				b.ReportAllocs()
				for b.Loop() {
					if err := batch.Check(0, 0, math.MaxInt); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/problem")
			})
		}
	}
}
