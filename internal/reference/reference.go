// Package reference checks the results of a batch against a plain float64
// computation. It shares no code with the backends that it checks.
package reference

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/batchgemm/batchgemm/internal/elemtype"
	"github.com/batchgemm/batchgemm/internal/hostmem"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

// Uniform fills s with values in [-1, 1).
func Uniform(rng *rand.Rand, s []float32) {
	for i := range s {
		s[i] = 2*rng.Float32() - 1
	}
}

// UniformOf is Uniform for elements of a type. For integers, all values of the type are equally likely.
func UniformOf(of element.Type, rng *rand.Rand, s []float32) {
	if !elemtype.Whole(of) {
		Uniform(rng, s)
		return
	}
	for i := range s {
		s[i] = elemtype.Float(of, uint16(rng.IntN(1<<(8*of.Bytes()))))
	}
}

// Place places the matrices of a problem. at returns where A, B and C (0 to 2) lie.
func Place(p *planner.Problem, at func(operand, rows, cols int) planner.Matrix) {
	rows, cols := p.ShapeA()
	p.A = at(0, rows, cols)
	rows, cols = p.ShapeB()
	p.B = at(1, rows, cols)
	p.C = at(2, p.M, p.N)
}

// Integers fills s with integers in [-limit, limit]. Sums of products of them
// are exact in float32 while they stay below 2^24.
func Integers(rng *rand.Rand, s []float32, limit int) {
	for i := range s {
		s[i] = float32(rng.IntN(2*limit+1) - limit)
	}
}

// Mismatch is an element of C that rounding does not explain.
type Mismatch struct {
	Problem  int // -1: the element belongs to no problem, but changed
	Row, Col int // of the problem's C
	Index    int // in the buffer of C
	Got      float32
	Want     float64
	Bound    float64 // largest error that rounding explains
	problem  planner.Problem
}

func (m *Mismatch) Error() string {
	if m.Problem < 0 {
		return fmt.Sprintf("C[%d] belongs to no problem and was changed from %v to %v", m.Index,
			m.Want, m.Got)
	}
	p := &m.problem
	return fmt.Sprintf("problem %d (%dx%dx%d, transA %v, transB %v, alpha %v, beta %v): C[%d,%d] at "+
		"element %d is %v, want %v within %.3g",
		m.Problem, p.M, p.N, p.K, p.TransA, p.TransB, p.Alpha.Value(), p.Beta, m.Row, m.Col, m.Index, m.Got,
		m.Want, m.Bound)
}

// Check compares after, the contents of C after a run, with the result for the
// operands x of A and y of B and the earlier contents before. It returns the largest error
// as a fraction of its bound, and a *Mismatch for the first element, in order of
// problems, that is outside its bound, or that no problem owns and that changed.
//
// The bound holds for any order of summation in float32, with or without fused
// multiply-adds, and u = 2^-24:
//
//   - A product passes its own rounding, at most K-1 additions, and at most one
//     more each for the last partial sum, alpha and beta*C: (K+2)*u of
//     |alpha|*sum|a|*|b|. Parts that accumulate in C do not change the number of additions.
//   - beta*C passes a multiplication and an addition, and one more for each
//     launch that accumulates in C: 4*u of |beta*C| for up to three launches.
//   - Twice that, for the terms of higher order and the rounding of the result.
//   - Below 2^-126, adjacent numbers differ by 2^-149 whatever their size. Each of the K products and their
//     K sums may have this error, times |alpha|, and so may the products with alpha and beta and the sums
//     in C, 8 in three launches. The total is (2K+8) * 2^-149 * max(1, |alpha|).
//   - A zero point times a column's sum is one more term, z. The term and the difference are rounded: 4*u of
//     |alpha|*(sum|a|*|b| + |z|), and 2^-149. Exact results stay exact if z and the difference are exact in
//     float32.
//   - A scale multiplies the bound so far, and adds 2*u of the product and 3 * 2^-149.
//   - Scales of blocks are multiplied, s = sa*sb, and s multiplies products, their sums or factors. These are
//     two roundings: 4*u of |s*a*b| for each product, and 2^-149 * 449^2 * max(1, |alpha|) if one of these
//     values may be below 2^-126. An element is not judged if s*448 is too large for float32.
//
// NaN and Inf must come out where the float64 result has them. An element whose
// terms are finite but add up to more than float32 holds is not judged.
func Check(b planner.Batch, x, y, before, after []float32) (worst float64, err error) {
	found, err := CheckIn(Arithmetic{}, b, x, y, before, after)
	return found.Worst, err
}

// Arithmetic is how a device computes in float32. The zero value is IEEE arithmetic.
type Arithmetic struct {
	// Compute: with ComputeTF32, operands are rounded to 11 bits, and u is 2^-11. Numbers below 2^-126 have
	// fewer bits and count as lost, as below.
	Compute planner.Compute

	// FlushesSubnormals: operations may replace numbers below 2^-126 by 0, also their results (driver.Info).
	// Each of the results above then errs by 2^-126 instead of 2^-149. The bound also includes what can be
	// lost at once:
	//
	//	|alpha| * sum of those |a|*|b| in which a or b is below 2^-126
	//	|alpha| * sum|a|*|b|, if alpha is
	//	|beta*C|, if beta or C is
	FlushesSubnormals bool

	// NarrowSums: products may be summed in fewer bits (the function NarrowSums). The bound includes what
	// these drop.
	NarrowSums bool

	// TypeC is the type to which elements of C are rounded, once. That adds u*|result| to the bound, or half
	// of the distance between the smallest numbers. Before and after have the values of its elements.
	TypeC element.Type

	// Epilogue is what is done to C beside alpha and beta, and selects rows of A and C. Its functions
	// propagate the bound.
	Epilogue Epilogue
}

// CheckIn is Check with the bound of a device's arithmetic. It also returns how the errors are distributed.
func CheckIn(how Arithmetic, b planner.Batch, x, y, before, after []float32) (Errors, error) {
	l := limits{unit: unit32, tiny: 0x1p-149, flushes: how.FlushesSubnormals, narrow: how.NarrowSums,
		typeC: how.TypeC, Epilogue: how.Epilogue}
	if how.Compute == planner.ComputeTF32 {
		l.unit, l.flushes = 0x1p-11, true
	}
	if l.flushes {
		l.tiny = smallest
	}
	return check(b, x, y, before, after, l)
}

// CheckExact is Check with a bound of zero, for operands whose results are exact.
func CheckExact(b planner.Batch, x, y, before, after []float32) error {
	return CheckRounded(element.F32, b, x, y, before, after)
}

// CheckRounded is CheckExact for C of a type, to which exact results are rounded.
func CheckRounded(typeC element.Type, b planner.Batch, x, y, before, after []float32) error {
	return CheckExactIn(Arithmetic{TypeC: typeC}, b, x, y, before, after)
}

// CheckExactIn is CheckRounded with an epilogue whose results are exact too.
func CheckExactIn(how Arithmetic, b planner.Batch, x, y, before, after []float32) error {
	_, err := check(b, x, y, before, after, limits{typeC: how.TypeC, Epilogue: how.Epilogue})
	return err
}

// limits are the units of the error bound: relative to the terms, and for each operation.
type limits struct {
	unit, tiny float64
	double     bool // sums and epilogues are computed in fp64
	flushes    bool
	narrow     bool
	typeC      element.Type
	Epilogue
}

// rounded returns an exact result rounded to the type of C, or adds the rounding error to the bound.
func (l *limits) rounded(want, bound float64) (float64, float64) {
	switch t := l.typeC; {
	case t == element.F32, t == element.F64: // numbers of F64 are seen as float32: see CheckF64
		return want, bound
	case l.unit == 0:
		return float64(elemtype.Float(t, elemtype.Bits(t, float32(want)))), bound
	default:
		return want, bound + max(elemtype.Unit(t)*math.Abs(want), elemtype.Tiny(t)/2)
	}
}

// overflows reports whether an element may be infinite because its type has no larger numbers.
func (l *limits) overflows(got, want, bound float64) bool {
	return l.typeC != element.F32 && math.IsInf(got, 0) &&
		math.Abs(want)+bound >= elemtype.Overflow(l.typeC) &&
		got*want > 0
}

func check(b planner.Batch, x, y, before, after []float32, l limits) (Errors, error) {
	type verdict struct {
		found Errors
		wrong *Mismatch
	}
	if err := hostmem.Check(int64(len(after))); err != nil { // for checkOthers
		return Errors{Worst: math.Inf(1)}, fmt.Errorf("not checked: %w", err)
	}
	parts := split(b, &l.Epilogue.Epilogue)
	single(parts)
	verdicts := make([]verdict, len(parts))
	each(parts, func(i int) {
		verdicts[i].found, verdicts[i].wrong = checkProblem(&parts[i].Problem, x, y, before, after, l)
	})
	var all Errors
	for i, v := range verdicts {
		if v.wrong != nil {
			return Errors{Worst: math.Inf(1)}, parts[i].in(v.wrong)
		}
		all.merge(&v.found)
	}
	if m := checkOthers(b, before, after, &l.Epilogue); m != nil {
		return Errors{Worst: math.Inf(1)}, m
	}
	return all, nil
}

// checkProblem compares C row by row.
func checkProblem(p *planner.Problem, x, y, before, after []float32, l limits) (found Errors,
	wrong *Mismatch) {
	gate := row{Problem: *p, limits: &l}
	gate.begin(x, y)
	up := row{Problem: *p, limits: &l, which: 1}
	if l.Gated {
		up.B = p.B2
		up.begin(x, l.B2)
	}
	for i := range p.M {
		to := l.rowC(p, i)
		if to < 0 {
			continue
		}
		from := l.rowA(p, i)
		gate.multiply(i, from, x, y)
		if l.Gated {
			up.multiply(i, from, x, l.B2)
		}
		for j := range p.N {
			at := p.C.Offset + to*p.C.LD + j
			result := gate.element(i, j, before[at])
			if l.Epilogue.Epilogue != (planner.Epilogue{}) {
				var second number
				if l.Gated {
					second = up.element(i, j, 0)
				}
				result = l.finish(p, i, j, result, second, &l)
			}
			want, bound := l.rounded(result.want, result.bound)
			ratio := deviation(float64(after[at]), want, bound, result.size)
			if l.overflows(float64(after[at]), want, bound) {
				ratio = 0
			}
			if !(ratio <= 1) {
				return found, &Mismatch{Row: i, Col: j, Index: at, Got: after[at], Want: want,
					Bound: bound, problem: *p}
			}
			found.add(ratio)
		}
	}
	return found, nil
}

// row is a row of a product, with the parts of its bounds.
type row struct {
	planner.Problem
	*limits
	sum, size, lost []float64
	cut             []float64 // for narrow sums
	alpha           float64   // its magnitude
	flushed         bool      // a factor may be replaced by 0
	which           int       // index of the product: 1 is the second
	from            int       // row of A; -1: a zero row
}

func (r *row) begin(x, y []float32) {
	r.alloc()
	all := r.Problem
	if r.GatherRows > 0 {
		all.M = r.GatherRows
	}
	r.flushed = r.flushes && hasSubnormals(&all, x, y)
	if r.K > 0 { // without a product it has no effect
		r.alpha = math.Abs(r.Alpha.Value())
	}
}

// multiply computes row i of alpha*op(A)*op(B), from a row of A, or -1 for a zero row.
func (r *row) multiply(i, from int, x, y []float32) {
	switch r.from = from; {
	case from < 0:
		r.clear()
	case r.limits.ScaleA == planner.PerBlock:
		r.multiplyBlocks(i, x, y)
	default:
		r.multiplyAll(x, y)
	}
}

// multiplyAll computes the products of all k, and the parts of their bounds.
func (r *row) multiplyAll(x, y []float32) {
	products(&r.Problem, r.from, x, y, r.sum, r.size)
	if r.narrow && r.Reads() {
		cuts(&r.Problem, r.from, x, y, r.cut)
	}
	if r.flushed {
		flushed(&r.Problem, r.from, x, y, r.size, r.lost)
	}
}

func (r *row) alloc() {
	r.sum, r.size, r.lost, r.cut = make([]float64, r.N), make([]float64, r.N), make([]float64, r.N),
		make([]float64, r.N)
}

func (r *row) clear() {
	clear(r.sum)
	clear(r.size)
	clear(r.lost)
	clear(r.cut)
}

// element returns an element of row i, scaled, with beta*C.
func (r *row) element(i, j int, old float32) number {
	n := number{r.sum[j], 2*r.unit*float64(r.K+2)*r.size[j] + r.tiny*float64(2*r.K+8)*max(1, r.alpha) +
		r.lost[j] + r.cut[j], r.size[j]}
	if e := &r.limits.Epilogue; r.Reads() { // otherwise scales have no effect
		if e.ZeroA {
			n = n.centred(&r.Problem, i, r.from, j, r.which, r.limits)
		}
		if e.ScaleA.OfSums() {
			n = n.scaled(e.scaleA(&r.Problem, i, r.from), r.limits)
		}
		if e.ScaleB.OfSums() {
			n = n.scaled(e.scaleB(&r.Problem, j, r.which), r.limits)
		}
	}
	if r.Beta == 0 {
		return n
	}
	scaled := r.Beta * float64(old)
	n.bound += 8 * r.unit * math.Abs(scaled)
	if r.flushes && (subnormal(r.Beta) || subnormal(old)) {
		n.bound += math.Abs(scaled)
	}
	return number{n.want + scaled, n.bound, n.size + math.Abs(scaled)}
}

// products sets sum to row i of alpha*op(A)*op(B), and size to the same sum of
// absolute values. The race detector would take ten times as long here as for
// the rest of a conformance run, and checks of pointers in math.Abs half of it; the function shares nothing
// that is written.
//
//go:norace
//go:nocheckptr
func products(p *planner.Problem, i int, x, y []float32, sum, size []float64) {
	clear(sum)
	clear(size)
	if !p.Reads() {
		return
	}
	atA, nextA := p.A.Offset+i*p.A.LD, 1
	if p.TransA {
		atA, nextA = p.A.Offset+i, p.A.LD
	}
	line := make([]float64, p.K)
	for k := range line {
		line[k] = float64(x[atA+k*nextA])
	}
	y = y[p.B.Offset:]
	if p.TransB {
		addAlong(sum, size, line, y, p.B.LD)
	} else {
		addAcross(sum, size, line, y, p.B.LD)
	}
	alpha := p.Alpha.Value()
	for j := range sum {
		sum[j] *= alpha
		size[j] *= math.Abs(alpha)
	}
}

// addAcross adds the products of a row of A with rows of B, four k at a time, in order, without index
// checks.
//
//go:norace
//go:nocheckptr
func addAcross(sum, size, line []float64, lines []float32, ld int) {
	n, k := len(sum), 0
	size = size[:n]
	for ; k+4 <= len(line); k += 4 {
		four := lines[k*ld:]
		b0, b1, b2, b3 := four[:n], four[ld:][:n], four[2*ld:][:n], four[3*ld:][:n]
		v0, v1, v2, v3 := line[k], line[k+1], line[k+2], line[k+3]
		for j, s := range sum {
			w0, w1, w2, w3 := v0*float64(b0[j]), v1*float64(b1[j]), v2*float64(b2[j]), v3*float64(b3[j])
			sum[j] = s + w0 + w1 + w2 + w3
			size[j] = size[j] + math.Abs(w0) + math.Abs(w1) + math.Abs(w2) + math.Abs(w3)
		}
	}
	for ; k < len(line); k++ {
		v, b := line[k], lines[k*ld:][:n]
		for j := range sum {
			w := v * float64(b[j])
			sum[j] += w
			size[j] += math.Abs(w)
		}
	}
}

// addAlong does the same for K-major columns of B, two at a time, in the same order of k.
//
//go:norace
//go:nocheckptr
func addAlong(sum, size, line []float64, columns []float32, ld int) {
	j, depth := 0, len(line)
	for ; j+2 <= len(sum); j += 2 {
		b0, b1 := columns[j*ld:][:depth], columns[(j+1)*ld:][:depth]
		s0, s1, z0, z1 := sum[j], sum[j+1], size[j], size[j+1]
		for k, v := range line {
			w0, w1 := v*float64(b0[k]), v*float64(b1[k])
			s0, s1 = s0+w0, s1+w1
			z0, z1 = z0+math.Abs(w0), z1+math.Abs(w1)
		}
		sum[j], sum[j+1], size[j], size[j+1] = s0, s1, z0, z1
	}
	for ; j < len(sum); j++ {
		for k, v := range line {
			w := v * float64(columns[j*ld+k])
			sum[j] += w
			size[j] += math.Abs(w)
		}
	}
}

// deviation returns the error of got as a fraction of bound.
func deviation(got, want, bound, size float64) float64 {
	finite := !math.IsInf(size, 0) && !math.IsNaN(size)
	switch {
	case finite && size > math.MaxFloat32: // overflow in float32 is also right
		return 0
	case got == want, math.IsNaN(got) && math.IsNaN(want):
		return 0
	case !finite, bound == 0:
		return math.Inf(1)
	}
	return math.Abs(got-want) / bound
}

// checkOthers finds an element outside all C regions that changed.
func checkOthers(b planner.Batch, before, after []float32, e *Epilogue) *Mismatch {
	for i, is := range owned(b, len(after), e) {
		if !is && math.Float32bits(before[i]) != math.Float32bits(after[i]) {
			return &Mismatch{Problem: -1, Index: i, Got: after[i], Want: float64(before[i])}
		}
	}
	return nil
}

// owned returns which elements of C problems may write.
func owned(b planner.Batch, n int, e *Epilogue) []bool {
	owned := make([]bool, n)
	for i := range b {
		p := &b[i]
		for row := 0; row < p.M && p.N > 0; row++ {
			to := e.rowC(p, row)
			if to < 0 {
				continue
			}
			at := p.C.Offset + to*p.C.LD
			for j := range p.N {
				owned[at+j] = true
			}
		}
	}
	return owned
}
