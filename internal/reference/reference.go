// Package reference checks the results of a batch against a plain float64
// computation. It shares no code with the backends that it checks.
package reference

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/batchgemm/batchgemm/planner"
)

// Uniform fills s with values in [-1, 1).
func Uniform(rng *rand.Rand, s []float32) {
	for i := range s {
		s[i] = 2*rng.Float32() - 1
	}
}

// Place lays out the matrices of a problem; at says where A, B and C (0 to 2) lie.
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
	Problem  int // -1: the element belongs to no problem, and was changed
	Row, Col int // of the problem's C
	Index    int // in the buffer of C
	Got      float32
	Want     float64
	Bound    float64 // largest error that rounding explains
	problem  planner.Problem
}

func (m *Mismatch) Error() string {
	if m.Problem < 0 {
		return fmt.Sprintf("C[%d] belongs to no problem and was changed from %v to %v", m.Index, m.Want, m.Got)
	}
	p := &m.problem
	return fmt.Sprintf("problem %d (%dx%dx%d, transA %v, transB %v, alpha %v, beta %v): C[%d,%d] at element %d is %v, want %v within %.3g",
		m.Problem, p.M, p.N, p.K, p.TransA, p.TransB, p.Alpha, p.Beta, m.Row, m.Col, m.Index, m.Got, m.Want, m.Bound)
}

// Check compares after, the contents of C behind a run, with the result for the
// operands x of A and y of B and the earlier contents before. It returns the largest error
// as a fraction of its bound, and a *Mismatch for the first element, in order of
// problems, that is outside its bound, or that no problem owns and that changed.
//
// The bound holds for any order of summation in float32, with or without fused
// multiply-adds, and u = 2^-24:
//
//   - A product passes its own rounding, at most K-1 additions, and at most one
//     more each for the last partial sum, alpha and beta*C: (K+2)*u of
//     |alpha|*sum|a|*|b|. Parts that accumulate in C exchange additions.
//   - beta*C passes a multiplication and an addition, and one more for each
//     launch that accumulates in C: 4*u of |beta*C| for up to three launches.
//   - Twice that, for the terms of higher order and the rounding of the result.
//   - Operations may flush subnormal numbers (WGSL allows it): 2^-126 each.
//
// NaN and Inf must come out where the float64 result has them. An element whose
// terms are finite but add up to more than float32 holds is not judged.
func Check(b planner.Batch, x, y, before, after []float32) (worst float64, err error) {
	found, err := check(b, x, y, before, after, 1.0/(1<<24))
	return found.Worst, err
}

// CheckIn is Check with the bound of a compute mode, and says how the errors are
// distributed. In ComputeTF32 operands are rounded to 11 bits.
func CheckIn(c planner.Compute, b planner.Batch, x, y, before, after []float32) (Errors, error) {
	if c == planner.ComputeTF32 {
		return check(b, x, y, before, after, 1.0/(1<<11))
	}
	return check(b, x, y, before, after, 1.0/(1<<24))
}

// CheckExact is Check with a bound of zero, for operands whose results are exact.
func CheckExact(b planner.Batch, x, y, before, after []float32) error {
	_, err := check(b, x, y, before, after, 0)
	return err
}

func check(b planner.Batch, x, y, before, after []float32, unit float64) (Errors, error) {
	type verdict struct {
		found Errors
		wrong *Mismatch
	}
	parts := split(b)
	verdicts := make([]verdict, len(parts))
	each(parts, func(i int) {
		verdicts[i].found, verdicts[i].wrong = checkProblem(&parts[i].Problem, x, y, before, after, unit)
	})
	var all Errors
	for i, v := range verdicts {
		if v.wrong != nil {
			return Errors{Worst: math.Inf(1)}, parts[i].in(v.wrong)
		}
		all.merge(&v.found)
	}
	if m := checkOthers(b, before, after); m != nil {
		return Errors{Worst: math.Inf(1)}, m
	}
	return all, nil
}

// checkProblem compares C row by row.
func checkProblem(p *planner.Problem, x, y, before, after []float32, unit float64) (found Errors, wrong *Mismatch) {
	sum, size := make([]float64, p.N), make([]float64, p.N)
	for i := range p.M {
		products(p, i, x, y, sum, size)
		for j := range p.N {
			at := p.C.Offset + i*p.C.LD + j
			want, scaled := sum[j], 0.0
			if p.Beta != 0 {
				scaled = float64(p.Beta) * float64(before[at])
				want += scaled
			}
			bound := 2 * unit * (float64(p.K+2)*size[j] + 4*math.Abs(scaled))
			if unit > 0 {
				bound += float64(p.K+2) * 0x1p-126 * max(1, math.Abs(float64(p.Alpha)))
			}
			ratio := deviation(float64(after[at]), want, bound, size[j]+math.Abs(scaled))
			if !(ratio <= 1) {
				return found, &Mismatch{Row: i, Col: j, Index: at, Got: after[at], Want: want, Bound: bound, problem: *p}
			}
			found.add(ratio)
		}
	}
	return found, nil
}

// products sets sum to row i of alpha*op(A)*op(B), and size to the same sum of
// absolute values. The race detector would take ten times as long here as for
// the rest of a conformance run; the function shares nothing that is written.
//
//go:norace
func products(p *planner.Problem, i int, x, y []float32, sum, size []float64) {
	clear(sum)
	clear(size)
	if p.Alpha == 0 || p.K == 0 {
		return
	}
	stepK, stepJ := p.B.LD, 1
	if p.TransB {
		stepK, stepJ = 1, p.B.LD
	}
	for k := range p.K {
		at := p.A.Offset + i*p.A.LD + k
		if p.TransA {
			at = p.A.Offset + k*p.A.LD + i
		}
		v, at := float64(x[at]), p.B.Offset+k*stepK
		if stepJ == 1 { // the same without index checks: nearly all time is spent here
			size := size[:len(sum)]
			for j, b := range y[at : at+len(sum)] {
				w := v * float64(b)
				sum[j] += w
				size[j] += math.Abs(w)
			}
			continue
		}
		for j := range sum {
			w := v * float64(y[at+j*stepJ])
			sum[j] += w
			size[j] += math.Abs(w)
		}
	}
	alpha := float64(p.Alpha)
	for j := range sum {
		sum[j] *= alpha
		size[j] *= math.Abs(alpha)
	}
}

// deviation is the error of got as a fraction of bound.
func deviation(got, want, bound, size float64) float64 {
	finite := !math.IsInf(size, 0) && !math.IsNaN(size)
	switch {
	case finite && size > math.MaxFloat32: // overflow in float32 is right too
		return 0
	case got == want, math.IsNaN(got) && math.IsNaN(want):
		return 0
	case !finite, bound == 0:
		return math.Inf(1)
	}
	return math.Abs(got-want) / bound
}

// checkOthers finds an element outside all C regions that changed.
func checkOthers(b planner.Batch, before, after []float32) *Mismatch {
	owned := make([]bool, len(after))
	for i := range b {
		p := &b[i]
		for row := range p.M {
			at := p.C.Offset + row*p.C.LD
			for j := range p.N {
				owned[at+j] = true
			}
		}
	}
	for i := range after {
		if !owned[i] && math.Float32bits(before[i]) != math.Float32bits(after[i]) {
			return &Mismatch{Problem: -1, Index: i, Got: after[i], Want: float64(before[i])}
		}
	}
	return nil
}
