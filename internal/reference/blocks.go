package reference

import (
	"math"

	"github.com/batchgemm/batchgemm/internal/encoding"
)

const (
	largestE4M3 = 448 // the only type with such scales
	// Below it, numbers of E4M3 times a scale may have fewer bits than normal fp32.
	smallScale = 0x1p-100
)

// multiplyBlocks is multiply if each block of k has scales. It computes row i as a separate product for each
// block.
func (r *row) multiplyBlocks(i int, x, y []float32) {
	r.clear()
	if !r.Reads() {
		return
	}
	part := row{Problem: r.Problem, limits: r.limits, flushed: r.flushed, from: r.from}
	part.alloc()
	nextA, nextB := encoding.Block, encoding.Block*r.B.LD
	if r.TransA {
		nextA = encoding.Block * r.A.LD
	}
	if r.TransB {
		nextB = encoding.Block
	}
	for k := range encoding.Blocks(r.K) {
		part.K = min(r.K-k*encoding.Block, encoding.Block)
		part.multiplyAll(x, y)
		r.addBlock(i, k, &part)
		part.A.Offset += nextA
		part.B.Offset += nextB
	}
}

// addBlock adds the products of a block of k times its scales.
func (r *row) addBlock(i, k int, part *row) {
	for j := range r.sum {
		by, lost := r.blockScale(i, j/encoding.Block, k)
		size := math.Abs(by) * part.size[j]
		r.sum[j] += by * part.sum[j]
		r.cut[j] += math.Abs(by) * part.cut[j]
		r.lost[j] += math.Abs(by)*part.lost[j] + 4*r.unit*size
		if math.Abs(by) < smallScale {
			r.lost[j] += r.tiny * float64(part.K) * (1 + largestE4M3) * (1 + largestE4M3) * max(1, r.alpha)
		}
		if lost {
			r.lost[j] += size
		}
		if math.Abs(by)*largestE4M3 > math.MaxFloat32 {
			size = math.Abs(by) * largestE4M3 // then it is not judged
		}
		r.size[j] += size
	}
}

// blockScale returns the product of the scales of row i and of a block of columns for a block of k. lost: a
// device that replaces numbers below 2^-126 by 0 may lose it.
func (r *row) blockScale(i, columns, k int) (by float64, lost bool) {
	if r.GatherRows > 0 {
		i = r.from
	}
	all := encoding.Blocks(r.K)
	a, b := r.float(r.ScaleA+i*all+k), r.float(r.ScaleB+(r.which*encoding.Blocks(r.N)+columns)*all+k)
	return a * b, r.flushes && (subnormal(float32(a)) || subnormal(float32(b)) || subnormal(float32(a*b)))
}
