package planner

import (
	"fmt"
	"slices"

	"github.com/batchgemm/batchgemm/internal/invalid"
	"github.com/batchgemm/batchgemm/planner/element"
)

// GateUp is the layout of the weights of gate and up of a gated layer.
type GateUp uint8

const (
	// GateUpJoined is one array for both: [Experts, 2*Intermediate, Hidden] with TransB, else [Experts,
	// Hidden, 2*Intermediate]. The Intermediate rows, or columns, of gate are before those of up.
	GateUpJoined GateUp = iota
	// GateUpInterleaved is one array of that shape in which rows, or columns, of gate and up alternate, as
	// their biases do. Without scales, and with an activation of epilogues, it needs TransB and no biases.
	GateUpInterleaved
	// GateUpApart is an array for each.
	GateUpApart
)

// Experts describes a layer of experts after its router. Each token t has choices j: the expert
// e = index[t, j], with weight w = weights[t, j]. Each choice that counts adds to y:
//
//	g = x[t]*Gate[e] + bias            u = x[t]*Up[e] + bias
//	y[t] += w * (act(g) .* u * Down[e] + bias)
//
// Without Gated, act(g) takes the place of act(g) .* u. Sums are in fp32. act(g) .* u is rounded to the type
// of elements, and so is each term of y. The terms are added in fp32 in the order of choices, and the sum is
// rounded once. If Gate makes act(g) .* u (ExpertsPlan), g and u are rounded too.
//
// TypeA of the options is the type of x, y and all weights of the layer: F32, BF16 or F16. With scales it is
// that of weights alone, and they have scales in the operand Scales (ExpertsPlan):
//
//	TypeA      ScaleA, ScaleB    scales of a matrix [N, K] of weights
//	E4M3, Int8 PerRow, PerRow    [N]
//	E4M3       PerBlock, both    [ceil(N/128), ceil(K/128)]
//	BF16, F16  "", PerGroup128   [K/128, ld], words of groups; TypeB is Int4. Or PerGroup64
//	BF16, F16  "", PerGroup32    [ceil(K/128), ld], words of MXFP4
//	BF16, F16  "", PerGroup16    [1 + K/64, ld], scales of columns and words of NVFP4
//
// Those of E4M3 and Int8 multiply quantised numbers: a run quantises x, and act(g) .* u in place of rounding
// it, by the rule of Gate. TypeC is then the type of x, y and biases. Weights of 4 bits are without TransB:
// a matrix has the layout of element.PackInt4 and PackFP4, and ld is N, rounded up to a multiple of 8.
type Experts struct {
	Choices
	Weights element.Type // of the router's weights: F32, BF16 or F16

	Hidden, Intermediate int // sizes of x[t] and of g, at least 1
	// TransB: weights are stored as in Linear of torch, [Experts, Intermediate, Hidden] for gate and up and
	// [Experts, Hidden, Intermediate] for down. Without TransB the last two extents are exchanged.
	TransB     bool
	Gated      bool
	GateUp     GateUp     // with Gated
	Activation Activation // one of Epilogue or Gate
	// Alpha and Limit are of SwiGLUClamped; 0, 0: 1.702 and 7.
	Alpha, Limit float32
	// Bias: gate and up have a bias [Experts, 2*Intermediate], or [Experts, Intermediate] without Gated. Down
	// has a bias [Experts, Hidden].
	Bias bool
}

// ExpertsPlan has the plans of a layer of experts. They run one after the other. The result of the routing is
// Sizes and Rows of both products.
//
// With scales it is the beginning of the operand Scales, of ScalesLen words of 32 bits. The words before
// ScaleGateUp are memory of the run. From there on lie the scales of gate and up of each expert, in the order
// of their rows, or columns, with GateUpApart those of all gates first. From ScaleDown on lie those of down.
type ExpertsPlan struct {
	Experts
	Route, First, Second, Combine *Plan
	Quantize                      *Plan // of x, before First; nil: x is not quantised
	// Gate is between the products. It is nil without scales, and with an activation of epilogues: then First
	// has all of it. Up is the product of up beside First, where Gate takes those of two arrays; else nil.
	Up, Gate *Plan
	Steps    []*Plan // all that there are, in the order in which they run

	ScaleGateUp, ScaleDown, ScalesLen int
}

// check names the first invalid field.
func (x *Experts) check() error {
	if err := x.Choices.check("weights", x.Weights); err != nil {
		return err
	}
	for _, f := range [...]struct {
		name  string
		value int
	}{{"hidden", x.Hidden}, {"intermediate", x.Intermediate}} {
		if f.value < 1 || f.value > MaxDim/2 {
			return invalid.Errorf("%s %d is not in [1, %d]", f.name, f.value, MaxDim/2)
		}
	}
	if x.GateUp > GateUpApart {
		return invalid.Errorf("unknown order %d of gate and up", x.GateUp)
	}
	return nil
}

// experts is a layer that is being planned.
type experts struct {
	*ExpertsPlan
	options Options
	of      element.Type // of x and y
	// apart: Gate is a step that makes h of the rounded results of products, whose gate and up, if they are
	// in one array, are one matrix.
	apart bool
	// Words of Scales with those of x and of the operand of the second product.
	scaleX, scaleH int
}

func newExperts(x Experts, o Options) (*experts, error) {
	e, scales := &experts{ExpertsPlan: &ExpertsPlan{Experts: x}, options: o, of: o.TypeA}, &o.Epilogue
	switch {
	case *scales != Epilogue{ScaleA: scales.ScaleA, ScaleB: scales.ScaleB}:
		return nil, invalid.Errorf("the layer says what its epilogues are, not the options: only scales " +
			"are theirs")
	case scales.ScaleA != "" && (scales.ScaleA != scales.ScaleB || scales.ScaleA == PerTensor),
		scales.ScaleA == "" && scales.ScaleB != "" && scales.group() == 0:
		return nil, invalid.Errorf("scales %q of x and %q of weights: a layer has both by row or by block, "+
			"or those of weights alone, by groups", scales.ScaleA, scales.ScaleB)
	case scales.group() > 0 && x.TransB:
		return nil, invalid.Errorf("TransB is set, but weights of %s are not transposed", o.TypeB)
	}
	if e.options.Epilogue = (Epilogue{}); scales.ScaleA != "" {
		e.of = o.TypeC
	}
	e.options.TypeC = e.of
	e.apart = checkActivation(x.Activation) != nil || scales.ScaleB != ""
	switch turns := x.GateUp == GateUpInterleaved; {
	case turns && !e.apart && !x.TransB:
		return nil, invalid.Errorf("gate and up are interleaved in columns: only rows can be, of weights " +
			"[Experts, 2*Intermediate, Hidden]")
	case turns && !e.apart && x.Bias:
		return nil, invalid.Errorf("gate and up are interleaved, but their biases are joined, gate first")
	}
	e.place(scales)
	return e, nil
}

// place finds where scales lie.
func (e *experts) place(s *Epilogue) {
	if s.ScaleB == "" {
		return
	}
	of := func(m, k int) int { // scales of A
		x := Epilogue{ScaleA: s.ScaleA, GatherRows: m}
		return x.ScalesA(&Problem{M: m, K: k})
	}
	e.scaleX = e.Choices.layer(0, 0).Routed()
	e.scaleH = e.scaleX + of(e.Tokens, e.Hidden)
	e.ScaleGateUp = e.scaleH + of(e.Tokens*e.TopK, e.Intermediate)
	e.options.Epilogue = Epilogue{ScaleA: s.ScaleA, ScaleB: s.ScaleB}
	first, epilogue := e.first()
	p := first.problem()
	e.ScaleDown = e.ScaleGateUp + e.Experts.Experts*e.products()*epilogue.scalesOf(&p, p.B.LD)
	second, _ := e.second()
	p = second.problem()
	e.ScalesLen = e.ScaleDown + e.Experts.Experts*s.scalesOf(&p, p.B.LD)
}

// products returns the number of products of gate and up, if Gate is a step of its own.
func (e *experts) products() int {
	if e.Gated && e.GateUp == GateUpApart {
		return 2
	}
	return 1
}

// ld is the leading dimension of n columns of weights that are not transposed.
func (e *experts) ld(n int) int {
	if e.options.Epilogue.group() > 0 {
		return element.Int4LD(n)
	}
	return n
}

// first returns the ragged batch of gate and up. It gathers its rows from x. If Gate is a step of its own, it
// is that of all columns, or, with an array for each, of gate.
func (e *experts) first() (Ragged, Epilogue) {
	k, n, rows, ldc := e.Hidden, e.Intermediate, e.Tokens*e.TopK, e.Intermediate
	fused := e.Gated && !e.apart
	if e.Gated && e.apart {
		if ldc = 2 * n; e.GateUp != GateUpApart {
			n *= 2
		}
	}
	r := Ragged{Form: EndsOfRows, Groups: e.Experts.Experts, M: rows, N: n, K: k, TransB: e.TransB,
		A: Matrix{LD: k}, B: Matrix{LD: e.ld(n)}, B2: Matrix{LD: e.ld(n)}, C: Matrix{LD: ldc},
		StrideB: k * e.ld(n), StrideBias: ldc, RowsA: e.Rows(), ScaleA: e.scaleX, ScaleB: e.ScaleGateUp}
	if e.TransB {
		r.B.LD, r.B2.LD, r.StrideB = k, k, k*n
	}
	if fused {
		r.StrideBias = 2 * n
	}
	if fused && e.GateUp != GateUpApart {
		r.StrideB *= 2
		switch {
		case e.GateUp == GateUpInterleaved:
			r.B.LD, r.B2 = 2*k, Matrix{Offset: k, LD: 2 * k}
		case e.TransB:
			r.B2.Offset = k * n
		default:
			r.B.LD, r.B2 = 2*n, Matrix{Offset: n, LD: 2 * n}
		}
	}
	epilogue := e.options.Epilogue
	epilogue.Bias, epilogue.Gated, epilogue.GatherRows = e.Bias, fused, e.Tokens
	if !e.apart {
		epilogue.Activation = e.Activation
	}
	return r, epilogue
}

// up returns that of up, where first has gate alone.
func (e *experts) up() (Ragged, Epilogue) {
	r, epilogue := e.first()
	p := r.problem()
	r.C.Offset, r.Bias = e.Intermediate, e.Intermediate
	r.ScaleB += e.Experts.Experts * epilogue.scalesOf(&p, p.B.LD)
	return r, epilogue
}

// second returns the ragged batch of down. It scatters its rows to their choices.
func (e *experts) second() (Ragged, Epilogue) {
	k, n, rows := e.Intermediate, e.Hidden, e.Tokens*e.TopK
	r := Ragged{Form: EndsOfRows, Groups: e.Experts.Experts, M: rows, N: n, K: k, TransB: e.TransB,
		A: Matrix{LD: k}, B: Matrix{LD: e.ld(n)}, C: Matrix{LD: n}, StrideB: k * e.ld(n), StrideBias: n,
		RowsC: e.Rows() + rows, Weights: e.Rows() + 2*rows, ScaleA: e.scaleH, ScaleB: e.ScaleDown}
	if e.TransB {
		r.B.LD, r.StrideB = k, k*n
	}
	epilogue := e.options.Epilogue
	epilogue.Bias, epilogue.ScatterRows, epilogue.Weights = e.Bias, rows, true
	return r, epilogue
}

// gate returns the step between the products, which quantises where weights and x have scales.
func (e *experts) gate() Gate {
	g := Gate{Choices: e.Choices, Intermediate: e.Intermediate, Type: e.of, Activation: e.Activation,
		Gated: e.Gated, Interleaved: e.Gated && e.GateUp == GateUpInterleaved, Alpha: e.Alpha, Limit: e.Limit}
	if g.Scale = e.options.Epilogue.ScaleA; g.Scale != "" {
		g.TypeC, g.Scales = e.options.TypeA, e.scaleH
	}
	return g
}

// quantize returns the step that quantises x.
func (e *experts) quantize() Gate {
	return Gate{Choices: Choices{Tokens: e.Tokens, TopK: 1, Experts: e.Experts.Experts},
		Intermediate: e.Hidden, Type: e.of, All: true, Scale: e.options.Epilogue.ScaleA,
		TypeC: e.options.TypeA, Scales: e.scaleX}
}

// PlanExperts makes the plans of a layer of experts. Without tokens it returns nil. The options have the
// types, and scales of weights; what else an epilogue has is the layer's. It fails if the description or the
// options are invalid, and like PlanRagged. Its errors wrap ErrInvalid.
func (p *Planner) PlanExperts(x Experts, o Options) (*ExpertsPlan, error) {
	if err := x.check(); err != nil || x.Tokens == 0 {
		return nil, err
	}
	e, err := newExperts(x, o)
	if err != nil {
		return nil, err
	}
	e.Combine, err = p.PlanStep(Combine{Choices: x.Choices, Hidden: x.Hidden, Type: e.of})
	if err != nil {
		return nil, err
	}
	if e.Route, err = p.PlanStep(Routing{Choices: x.Choices, Weights: x.Weights}); err != nil {
		return nil, err
	}
	if e.options.Epilogue.ScaleA != "" {
		if e.Quantize, err = p.PlanStep(e.quantize()); err != nil {
			return nil, err
		}
	}
	if e.apart {
		if e.Gate, err = p.PlanStep(e.gate()); err != nil {
			return nil, err
		}
	}
	if e.First, err = p.planRagged("first", e.options, e.first); err != nil {
		return nil, err
	}
	if e.apart && e.products() > 1 {
		if e.Up, err = p.planRagged("second half of the first", e.options, e.up); err != nil {
			return nil, err
		}
	}
	if e.Second, err = p.planRagged("second", e.options, e.second); err != nil {
		return nil, err
	}
	all := []*Plan{e.Route, e.Quantize, e.First, e.Up, e.Gate, e.Second, e.Combine}
	e.Steps = slices.DeleteFunc(all, func(x *Plan) bool { return x == nil })
	return e.ExpertsPlan, nil
}

func (p *Planner) planRagged(name string, o Options, of func() (Ragged, Epilogue)) (*Plan, error) {
	var r Ragged
	r, o.Epilogue = of()
	plan, err := p.PlanRagged(r, o)
	if err != nil {
		return nil, fmt.Errorf("%s product: %w", name, err)
	}
	return plan, nil
}
