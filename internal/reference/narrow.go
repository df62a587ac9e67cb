package reference

import (
	"math"

	"github.com/batchgemm/batchgemm/planner"
)

// Sums of tensor cores that multiply 8-bit elements, measured on an H200. Each instruction adds narrowTerms
// numbers, which are narrowDepth products and the sum so far, as multiples of narrowCut of the largest power
// of two among them, and drops the rest. After at most narrowGroup instructions, the sum is added in
// float32.
const (
	narrowDepth = 32
	narrowTerms = narrowDepth + 1
	narrowCut   = 0x1p-13
	narrowGroup = 4
)

// cuts returns the most that is dropped from the sums of row i of alpha*op(A)*op(B), whichever instruction
// starts a group. Tiles split K at multiples of narrowDepth.
//
//go:norace
//go:nocheckptr
func cuts(p *planner.Problem, i int, x, y []float32, cut []float64) {
	stepA, stepB, nextB := 1, p.B.LD, 1
	a := p.A.Offset + i*p.A.LD
	if p.TransA {
		stepA, a = p.A.LD, p.A.Offset+i
	}
	if p.TransB {
		stepB, nextB = 1, p.B.LD
	}
	alpha := math.Abs(float64(p.Alpha.Value()))
	for j := range cut {
		b := p.B.Offset + j*nextB
		var sums [narrowGroup - 1]float64 // of the earlier instructions
		cut[j] = 0
		for from := 0; from < p.K; from += narrowDepth {
			most, before := 0.0, 0.0
			for _, s := range sums {
				before += s
				most = max(most, math.Abs(before))
			}
			sum := 0.0
			for k := from; k < min(from+narrowDepth, p.K); k++ {
				product := float64(x[a+k*stepA]) * float64(y[b+k*stepB])
				most = max(most, math.Abs(product))
				sum += product
			}
			copy(sums[1:], sums[:])
			sums[0] = sum
			cut[j] += narrowTerms * narrowCut * most
		}
		cut[j] *= alpha
	}
}
