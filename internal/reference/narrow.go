package reference

import (
	"math"
	"slices"

	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/internal/tile"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
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

// NarrowSums reports whether sums of a plan have fewer bits than fp32. That is so if tensor cores of compute
// capability 9.0 multiply E4M3. They add 32 products at a time, and the sum so far, as multiples of 2^-13 of
// the largest power of two among them. After 128 products, such a sum, which started from zero, is added in
// fp32. With numbers of both signs the error is 2^-16 of sum|a*b| (root mean square, K 128), with positive
// numbers 2^-11, measured on an H200.
func NarrowSums(p *planner.Plan) bool {
	return p.Options.TypeA == element.E4M3 &&
		slices.ContainsFunc(p.Launches, func(l encoding.Launch) bool {
			return l.Tile != nil && l.Tile.Unit == tile.WGMMA
		})
}

// MayNarrowSums reports whether plans of a device may have such sums of elements of a type.
func MayNarrowSums(d *planner.Device, of element.Type) bool {
	return of == element.E4M3 && slices.ContainsFunc(d.Kernels,
		func(k planner.KernelFacts) bool { return k.Tile.Unit == tile.WGMMA })
}

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
	alpha := math.Abs(p.Alpha.Value())
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
