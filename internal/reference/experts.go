package reference

import (
	"fmt"
	"math"

	"github.com/batchgemm/batchgemm/internal/elemtype"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

// Experts is a layer of experts and its operands, which lie as planner.Experts says. They have numbers that
// their types have.
type Experts struct {
	Layer planner.Experts
	Type  element.Type // of the operands, but Index
	Index []int64      // [Tokens, TopK]

	X, Weights           []float32 // [Tokens, Hidden]; the router's weights, [Tokens, TopK]
	GateUp, Up, Down     []float32 // Up only with GateUpApart
	GateUpBias, DownBias []float32 // only with Bias

	FlushesSubnormals bool // as in Arithmetic
}

// Check computes the layer in float64 and compares y, [Tokens, Hidden], with it. It returns how the errors
// are distributed, and an error for the first element outside its bound.
//
// The bounds are those of CheckIn, for each product and its epilogue. The second product also passes on the
// bounds of what is between the products. The bound grows where the layer rounds to Type, and with the
// additions of a token's terms.
func (x *Experts) Check(y []float32) (found Errors, err error) {
	of, sums := &x.Layer, make([]number, x.Layer.Hidden)
	l := &limits{unit: unit32, tiny: 0x1p-149}
	if x.FlushesSubnormals {
		l.tiny = smallest
	}
	for t := range of.Tokens {
		clear(sums)
		for i := t * of.TopK; i < (t+1)*of.TopK; i++ {
			if e := x.Index[i]; 0 <= e && e < int64(of.Experts) {
				x.add(sums, x.X[t*of.Hidden:][:of.Hidden], int(e), float64(x.Weights[i]), l)
			}
		}
		for c, sum := range sums {
			sum.bound += 2 * unit32 * float64(of.TopK) * sum.size
			sum, got := x.rounded(sum, l), y[t*of.Hidden+c]
			ratio := deviation(float64(got), sum.want, sum.bound, sum.size)
			if !(ratio <= 1) {
				return Errors{Worst: math.Inf(1)}, fmt.Errorf(
					"token %d, element %d: %v, want %v within %.3g", t, c, got, sum.want, sum.bound)
			}
			found.add(ratio)
		}
	}
	return found, nil
}

// add adds what expert e makes of a token, times the router's weight.
func (x *Experts) add(sums []number, token []float32, e int, weight float64, l *limits) {
	exact := make([]number, len(token))
	for i, v := range token {
		exact[i].want = float64(v)
	}
	for c, term := range x.second(x.between(exact, e, l), e, l) {
		term = x.rounded(term.times(number{want: weight, size: math.Abs(weight)}, l), l)
		sums[c].want += term.want
		sums[c].bound += term.bound
		sums[c].size += math.Abs(term.want) + term.bound
	}
}

// between returns what expert e has between its products.
func (x *Experts) between(token []number, e int, l *limits) []number {
	of := &x.Layer
	gate, up := x.product(token, x.GateUp, x.gateUp(e, 0), of.Intermediate, l), []number(nil)
	if of.Gated {
		weights := x.GateUp
		if of.GateUp == planner.GateUpApart {
			weights = x.Up
		}
		up = x.product(token, weights, x.gateUp(e, 1), of.Intermediate, l)
	}
	if of.Bias {
		bias := x.GateUpBias[e*(len(gate)+len(up)):]
		addBias(gate, bias, l)
		addBias(up, bias[len(gate):], l)
	}
	for c, n := range gate {
		n = n.activated(of.Activation, l)
		if of.Gated {
			n = n.times(up[c], l)
		}
		gate[c] = x.rounded(n, l)
	}
	return gate
}

// second returns the second product of expert e.
func (x *Experts) second(between []number, e int, l *limits) []number {
	of := &x.Layer
	at := planner.Matrix{Offset: e * of.Intermediate * of.Hidden, LD: of.Hidden}
	if of.TransB {
		at.LD = of.Intermediate
	}
	terms := x.product(between, x.Down, at, of.Hidden, l)
	if of.Bias {
		addBias(terms, x.DownBias[e*of.Hidden:], l)
	}
	return terms
}

// gateUp returns where expert e has its weights of gate, part 0, or of up, part 1.
func (x *Experts) gateUp(e, part int) planner.Matrix {
	of, n, k := &x.Layer, x.Layer.Intermediate, x.Layer.Hidden
	switch apart := !of.Gated || of.GateUp == planner.GateUpApart; {
	case apart && of.TransB:
		return planner.Matrix{Offset: e * n * k, LD: k}
	case apart:
		return planner.Matrix{Offset: e * n * k, LD: n}
	case of.GateUp == planner.GateUpInterleaved:
		return planner.Matrix{Offset: 2*e*n*k + part*k, LD: 2 * k}
	case of.TransB:
		return planner.Matrix{Offset: (2*e + part) * n * k, LD: k}
	}
	return planner.Matrix{Offset: 2*e*n*k + part*n, LD: 2 * n}
}

// product multiplies a row, whose numbers may err, with n columns of weights.
func (x *Experts) product(row []number, weights []float32, at planner.Matrix, n int, l *limits) []number {
	want, bounds := make([]float64, len(row)), make([]float64, len(row))
	for i, v := range row {
		want[i], bounds[i] = v.want, v.bound
	}
	add := addAcross
	if x.Layer.TransB {
		add = addAlong
	}
	sum, size, passed := make([]float64, n), make([]float64, n), make([]float64, n)
	add(make([]float64, n), passed, bounds, weights[at.Offset:], at.LD)
	add(sum, size, want, weights[at.Offset:], at.LD)
	products, k := make([]number, n), float64(len(row))
	for c := range products {
		all := size[c] + passed[c]
		products[c] = number{sum[c], passed[c] + 2*l.unit*(k+2)*all + l.tiny*(2*k+8), all}
	}
	return products
}

func addBias(sums []number, bias []float32, l *limits) {
	for c := range sums {
		sums[c] = sums[c].plus(float64(bias[c]), l)
	}
}

// rounded adds the error of rounding to Type. The bounds of sums and products have that of fp32.
func (x *Experts) rounded(n number, l *limits) number {
	if x.Type != element.F32 {
		n.bound += max(elemtype.Unit(x.Type)*(math.Abs(n.want)+n.bound), elemtype.Tiny(x.Type)/2, l.tiny)
	}
	return n
}
