package reference

import (
	"fmt"
	"math"

	"github.com/batchgemm/batchgemm/planner"
)

// Doubles are the operands of a batch of element.F64: A, B, C before the run, and those of its epilogue.
type Doubles struct {
	A, B, C, B2, Bias []float64
	Rows              []int32
}

// CheckF64 compares after, the contents of C after a run, with sums in twice the precision: sums and products
// of fp64 are kept with their rounding errors. The bound is that of Check with u = 2^-53, where numbers below
// 2^-1022 are 2^-1074 apart. Epilogues are computed in fp64. It returns the largest error as a fraction of
// its bound.
func CheckF64(b planner.Batch, e planner.Epilogue, x Doubles, after []float64) (worst float64, err error) {
	l := limits{unit: 0x1p-53, tiny: 0x1p-1074, double: true,
		Epilogue: Epilogue{Epilogue: e, Rows: x.Rows, biases64: x.Bias}}
	parts := split(b, &e)
	ratios, errs := make([]float64, len(parts)), make([]error, len(parts))
	each(parts, func(i int) { ratios[i], errs[i] = parts[i].checkF64(&x, after, &l) })
	for i, ratio := range ratios {
		if errs[i] != nil {
			return math.Inf(1), errs[i]
		}
		worst = max(worst, ratio)
	}
	for i, is := range owned(b, len(after), &l.Epilogue) {
		if !is && math.Float64bits(after[i]) != math.Float64bits(x.C[i]) {
			return math.Inf(1), fmt.Errorf("element %d of C belongs to no problem and was changed from %v "+
				"to %v", i, x.C[i], after[i])
		}
	}
	return worst, nil
}

// checkF64 checks a part. It returns the largest error.
func (p *part) checkF64(x *Doubles, after []float64, l *limits) (worst float64, err error) {
	sums, gates := make([]doubleSum, p.N), make([]doubleSum, p.N)
	for i := range p.M {
		to, from := l.rowC(&p.Problem, i), l.rowA(&p.Problem, i)
		if to < 0 {
			continue
		}
		p.rowF64(from, x.A, x.B, p.Problem.B, sums)
		if l.Gated {
			p.rowF64(from, x.A, x.B2, p.B2, gates)
		}
		for j := range p.N {
			at := p.C.Offset + to*p.C.LD + j
			first := p.elementF64(sums[j], x.C[at], p.Beta)
			var second number
			if l.Gated {
				second = p.elementF64(gates[j], 0, 0)
			}
			want := l.finish(&p.Problem, i, j, first, second, l)
			ratio := deviation(after[at], want.want, want.bound, 0)
			if !(ratio <= 1) {
				return ratio,
					fmt.Errorf("problem %d, %dx%dx%d: C[%d,%d] at element %d is %v, want %v within %.3g",
						p.index, p.whole.M, p.N, p.K, p.first+i, j, at, after[at], want.want, want.bound)
			}
			worst = max(worst, ratio)
		}
	}
	return worst, nil
}

// doubleSum is a sum of products, and that of their sizes.
type doubleSum struct {
	twofold
	size float64
}

func (s *doubleSum) add(a, b float64) {
	s.twofold = s.plus(product2(a, b))
	s.size += math.Abs(a * b)
}

// rowF64 sums the products of a row of op(A), or none, and all columns of op(B), which lies at m. It goes
// through B as it is stored.
func (p *part) rowF64(row int, a, b []float64, m planner.Matrix, sums []doubleSum) {
	clear(sums)
	if row < 0 || p.K == 0 || !p.Reads() {
		return
	}
	a = a[p.A.Offset:]
	at, step := row*p.A.LD, 1
	if p.TransA {
		at, step = row, p.A.LD
	}
	if p.TransB {
		for j := range sums {
			column := b[m.Offset+j*m.LD:]
			for k := range p.K {
				sums[j].add(a[at+k*step], column[k])
			}
		}
		return
	}
	for k := range p.K {
		of := b[m.Offset+k*m.LD:][:len(sums)]
		for j := range sums {
			sums[j].add(a[at+k*step], of[j])
		}
	}
}

// elementF64 returns an element of alpha*op(A)*op(B) + beta*C from its sum.
func (p *part) elementF64(sum doubleSum, old, beta float64) number {
	alpha := 0.0
	if p.Reads() {
		alpha = p.Alpha.Value()
	}
	high, size := product2(alpha, sum.high), sum.size*math.Abs(alpha)
	high.low += alpha * sum.low
	const unit, tiny = 0x1p-53, 0x1p-1074
	bound := 2*unit*float64(p.K+2)*size + tiny*float64(2*p.K+8)*max(1, math.Abs(alpha))
	if beta != 0 {
		high = high.plus(product2(beta, old))
		size += math.Abs(beta * old)
		bound += 8 * unit * math.Abs(beta*old)
	}
	return number{high.value(), bound, size}
}

// twofold is a number with its rounding error.
type twofold struct{ high, low float64 }

// value is the number in fp64. Infinities and NaN have no errors.
func (x twofold) value() float64 {
	if math.IsInf(x.high, 0) || math.IsNaN(x.high) {
		return x.high
	}
	return x.high + x.low
}

// product2 is a*b (Dekker; Ogita, Rump and Oishi 2005).
func product2(a, b float64) twofold {
	p := a * b
	return twofold{p, math.FMA(a, b, -p)}
}

// plus adds without an error in the higher parts (Knuth).
func (x twofold) plus(y twofold) twofold {
	sum := x.high + y.high
	other := sum - x.high
	return twofold{sum, x.low + y.low + (x.high - (sum - other)) + (y.high - other)}
}
