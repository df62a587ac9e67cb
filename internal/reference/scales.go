package reference

import (
	"math"

	"github.com/batchgemm/batchgemm/planner"
)

// float returns the number whose bits are in a word of Rows.
func (e *Epilogue) float(word int) float64 {
	return float64(math.Float32frombits(uint32(e.Rows[word])))
}

// scaleA returns the scale of row i of a problem, whose row of A is from, or -1 for a zero row.
func (e *Epilogue) scaleA(p *planner.Problem, i, from int) float64 {
	if from < 0 && e.ScaleA != planner.PerTensor {
		return 1
	}
	return e.float(e.wordA(p, i, from))
}

// wordA returns where the scale of row i is, whose row of A is from. wordB returns where that of column j of
// B is, or of B2 for the second product.
func (e *Epilogue) wordA(p *planner.Problem, i, from int) int {
	switch {
	case e.ScaleA == planner.PerTensor:
		return p.ScaleA
	case e.GatherRows > 0:
		i = from
	}
	return p.ScaleA + i*e.apart()
}

func (e *Epilogue) wordB(p *planner.Problem, j, which int) int {
	return p.ScaleB + (which*p.N+j)*e.apart()
}

// scaleB returns the scale of column j of B, or of B2 for the second product.
func (e *Epilogue) scaleB(p *planner.Problem, j, which int) float64 {
	if e.ScaleB == planner.PerTensor {
		return e.float(p.ScaleB + which)
	}
	return e.float(e.wordB(p, j, which))
}

// apart returns the distance in words between scales of rows or columns.
func (e *Epilogue) apart() int {
	if e.ZeroA {
		return 2
	}
	return 1
}

// centred returns a product less the zero point of row i, whose row of A is from, times the sum of column j.
// There are two roundings at most, of terms that may be lost entirely with alpha.
func (n number) centred(p *planner.Problem, i, from, j, which int, l *limits) number {
	if from < 0 {
		return n
	}
	e := &l.Epilogue
	by := p.Alpha.Value() * float64(e.Rows[e.wordA(p, i, from)+1]) *
		float64(e.Rows[e.wordB(p, j, which)+1])
	n.want -= by
	n.size += math.Abs(by)
	n.bound += 4*l.unit*n.size + l.tiny
	if l.flushes && subnormal(p.Alpha.Value()) {
		n.bound += math.Abs(by)
	}
	return n
}

// scaled returns a product times a scale. Each of up to three pieces that accumulate in C is multiplied
// separately, and rounded. A result that overflows before a later scale makes it small may be anything. So
// may an infinite scale times something that rounding may replace by 0. The magnitude marks these as not
// judged.
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
