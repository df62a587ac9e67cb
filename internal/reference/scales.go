package reference

import (
	"math"

	"github.com/batchgemm/batchgemm/planner"
)

// float is the number whose bits a word of Rows is.
func (e *Epilogue) float(word int) float64 {
	return float64(math.Float32frombits(uint32(e.Rows[word])))
}

// scaleA is the scale of row i of a problem, for which row from of A stands; -1: one of zeros.
func (e *Epilogue) scaleA(p *planner.Problem, i, from int) float64 {
	switch {
	case e.ScaleA == planner.PerTensor:
		return e.float(p.ScaleA)
	case from < 0:
		return 1
	case e.GatherRows > 0:
		return e.float(p.ScaleA + from)
	}
	return e.float(p.ScaleA + i)
}

// scaleB is the scale of column j of B, or as the second one of B2.
func (e *Epilogue) scaleB(p *planner.Problem, j, which int) float64 {
	if e.ScaleB == planner.PerTensor {
		return e.float(p.ScaleB + which)
	}
	return e.float(p.ScaleB + which*p.N + j)
}

// scaled is a product times a scale. Each of up to three parts that accumulate in C is multiplied for itself, and
// rounded. What overflows before a later scale makes it small may be anything, and so may what an infinite scale
// makes of what rounding may take for 0: by its size it is not judged.
func (n number) scaled(by float64, l *limits) number {
	size := math.Abs(by) * n.size
	bound := math.Abs(by)*n.bound + 2*l.unit*size + 3*l.tiny
	if l.flushes && subnormal(float32(by)) {
		bound += size
	}
	switch {
	case n.size > math.MaxFloat32 && !math.IsInf(n.size, 0):
		size = max(size, n.size)
	case math.IsInf(by, 0) && n.size > 0 && n.bound > 0 && math.Abs(n.want) <= n.bound:
		size = 2 * math.MaxFloat32
	}
	return number{by * n.want, bound, size}
}
