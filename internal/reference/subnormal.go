package reference

import (
	"math"

	"github.com/batchgemm/batchgemm/planner"
)

// smallest is the smallest normal number of float32.
const smallest = 0x1p-126

func subnormal[T float32 | float64](x T) bool { return x != 0 && -smallest < x && x < smallest }

// hasSubnormals reports whether a product of the problem has a subnormal factor.
func hasSubnormals(p *planner.Problem, x, y []float32) bool {
	if p.Alpha.Value() == 0 || p.K == 0 {
		return false
	}
	if subnormal(p.Alpha.Value()) {
		return true
	}
	any := func(s []float32, m planner.Matrix, rows, cols int) bool {
		for i := range rows {
			for _, v := range s[m.Offset+i*m.LD:][:cols] {
				if subnormal(v) {
					return true
				}
			}
		}
		return false
	}
	rowsA, colsA := p.ShapeA()
	rowsB, colsB := p.ShapeB()
	return any(x, p.A, rowsA, colsA) || any(y, p.B, rowsB, colsB)
}

// flushed sets lost to what a device that replaces subnormal numbers by 0 may leave out of row i of
// alpha*op(A)*op(B). size is the sum of absolute values.
func flushed(p *planner.Problem, i int, x, y []float32, size, lost []float64) {
	if subnormal(p.Alpha.Value()) {
		copy(lost, size)
		return
	}
	for j := range lost {
		lost[j] = 0
		for k := range p.K {
			a, b := p.A.Offset+i*p.A.LD+k, p.B.Offset+k*p.B.LD+j
			if p.TransA {
				a = p.A.Offset + k*p.A.LD + i
			}
			if p.TransB {
				b = p.B.Offset + j*p.B.LD + k
			}
			if subnormal(x[a]) || subnormal(y[b]) {
				lost[j] += math.Abs(float64(x[a]) * float64(y[b]) * p.Alpha.Value())
			}
		}
	}
}
