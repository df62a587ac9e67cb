package drivertest

import (
	"fmt"
	"math"

	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/internal/reference"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

// inexact is a number with a bound of its error, and the sum of the sizes of what it is a sum of.
type inexact struct{ is, err, size float64 }

// unit is half of what the last bit of a type stands for, of numbers from 1 to 2; tiny that of the smallest.
func unitOf(of element.Type) (unit, tiny float64) {
	switch of {
	case element.BF16:
		return 0x1p-8, 0x1p-133
	case element.F16:
		return 0x1p-11, 0x1p-25
	}
	return 0x1p-24, 0x1p-140
}

// rounded is a number of a type.
func (n inexact) rounded(of element.Type) inexact {
	unit, tiny := unitOf(of)
	n.err += unit*(math.Abs(n.is)+n.err) + tiny
	return n
}

// sumOf is a sum of products in fp32, and a bias. narrow: see planner.Plan.NarrowSums.
func sumOf(n int, bias float64, narrow bool, factors func(i int) (a inexact, b float64)) (sum inexact) {
	products := 0.
	sum.is = bias
	for i := range n {
		a, b := factors(i)
		sum.is += a.is * b
		sum.err += a.err * math.Abs(b)
		products += (math.Abs(a.is) + a.err) * math.Abs(b)
	}
	sum.size = products + math.Abs(bias)
	sum.err += 2 * float64(n+6) * 0x1p-24 * sum.size
	if narrow {
		sum.err += 0x1p-9 * products
	}
	return sum
}

// check compares y with float64.
func (k *gatedJob) check(y []float32) error {
	sums := make([]inexact, k.Hidden)
	for t := range k.Tokens {
		clear(sums)
		x := make([]inexact, k.Hidden)
		for i := range x {
			x[i].is = float64(k.x[t*k.Hidden+i])
		}
		k.quantize(x)
		for j := range k.TopK {
			i := t*k.TopK + j
			if e := k.index[i]; 0 <= e && e < int64(k.Experts.Experts) {
				k.add(sums, x, int(e), float64(k.weights[i]))
			}
		}
		for c, sum := range sums {
			sum.err += 2 * float64(k.TopK) * 0x1p-24 * sum.size
			want, got := sum.rounded(k.of), float64(y[t*k.Hidden+c])
			if !(math.Abs(got-want.is) <= want.err) {
				return fmt.Errorf("token %d, element %d: %g, want %g, which may err by %g", t, c, got,
					want.is, want.err)
			}
		}
	}
	return nil
}

// quantize makes of a row what it is as quantised numbers: of exact ones these, else itself with a larger
// error.
func (k *gatedJob) quantize(row []inexact) {
	of, each := k.options.TypeA, len(row)
	switch k.options.Epilogue.ScaleA {
	case "":
		return
	case planner.PerBlock:
		each = encoding.Block
	}
	for first := 0; first < len(row); first += each {
		part := row[first:min(first+each, len(row))]
		h, q, most, exact := make([]near, len(part)), make([]*near, len(part)), 0x1p-64, true
		for i, x := range part {
			h[i] = near{want: x.is}
			most, exact = max(most, math.Abs(x.is)+x.err), exact && x.err == 0
		}
		scale := quantize(q, h, of)
		for i := range part {
			switch x := &part[i]; {
			case exact:
				*x = inexact{is: q[i].want * scale.want}
			case of == element.Int8:
				x.err += most / 127 * 0.51
			default:
				x.err += max((math.Abs(x.is)+x.err)*0x1.1p-4, most/448*0x1.1p-10)
			}
		}
	}
}

// add adds what an expert makes of a token.
func (k *gatedJob) add(sums, x []inexact, e int, weight float64) {
	between := make([]inexact, k.Intermediate)
	for c := range between {
		between[c] = k.unit(x, e, c)
		if k.options.Epilogue.ScaleA == "" { // else it is quantised, unrounded
			between[c] = between[c].rounded(k.of)
		}
	}
	k.quantize(between)
	for c := range sums {
		bias := 0.
		if k.Bias {
			bias = float64(k.downBias[e*k.Hidden+c])
		}
		z := sumOf(k.Intermediate, bias, reference.NarrowSums(k.plan.Second), func(i int) (inexact, float64) {
			return between[i], k.down.at(e, c, i)
		})
		z.is, z.err = z.is*weight, z.err*math.Abs(weight)
		z.err += 0x1p-23 * math.Abs(z.is)
		z = z.rounded(k.of)
		sums[c].is += z.is
		sums[c].err += z.err
		sums[c].size += math.Abs(z.is) + z.err
	}
}

// unit is an element between the products.
func (k *gatedJob) unit(x []inexact, e, c int) inexact {
	first := func(part int) inexact {
		m, row, bias, parts := &k.gateUp, c, 0., 1
		if k.Gated {
			parts = 2
		}
		at := part*k.Intermediate + c
		switch {
		case part == 1 && k.GateUp == planner.GateUpApart:
			m = &k.up
		case k.Gated && k.GateUp == planner.GateUpInterleaved:
			row, at = 2*c+part, 2*c+part
		case k.GateUp == planner.GateUpJoined:
			row = at
		}
		if k.Bias {
			bias = float64(k.bias[e*parts*k.Intermediate+at])
		}
		return sumOf(k.Hidden, bias, reference.NarrowSums(k.plan.First), func(i int) (inexact, float64) {
			return x[i], m.at(e, row, i)
		}).rounded(k.of)
	}
	g := k.activated(first(0))
	if !k.Gated {
		return g
	}
	u := first(1)
	if k.Activation == planner.SwiGLUClamped {
		_, limit := k.clamp()
		u.is = max(-limit, min(u.is, limit)) + 1
		u.err += 0x1p-24 * (math.Abs(u.is) + u.err)
	}
	both := inexact{is: g.is * u.is, err: math.Abs(g.is)*u.err + math.Abs(u.is)*g.err + g.err*u.err}
	both.err += 0x1p-23 * (math.Abs(both.is) + both.err)
	return both
}

func (k *gatedJob) clamp() (alpha, limit float64) {
	if k.Alpha == 0 && k.Limit == 0 {
		return 1.702, 7
	}
	return float64(k.Alpha), float64(k.Limit)
}

// activated is the activation of a number. None is steeper than 1.2, but for squares, nor errs by more than
// 2^-20 of a number.
func (k *gatedJob) activated(n inexact) inexact {
	v, slope := n.is, 1.2
	switch k.Activation {
	case planner.ReLU:
		v = max(v, 0)
	case planner.ReLU2:
		v, slope = max(v, 0), 2*(math.Abs(v)+n.err)
		v *= v
	case planner.SiLU:
		v /= 1 + math.Exp(-v)
	case planner.SwiGLUClamped:
		alpha, limit := k.clamp()
		v = min(v, limit)
		v /= 1 + math.Exp(-alpha*v)
	case planner.GELUExact:
		v *= math.Erfc(-v/math.Sqrt2) / 2
	case planner.GELU:
		v *= (1 + math.Tanh(math.Sqrt(2/math.Pi)*(v+0.044715*v*v*v))) / 2
	default:
		return n
	}
	return inexact{is: v, err: slope*n.err + 0x1p-20*(math.Abs(n.is)+math.Abs(v)+n.err)}
}
