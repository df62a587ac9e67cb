package planner

import (
	"fmt"

	"github.com/batchgemm/batchgemm/internal/invalid"
	"github.com/batchgemm/batchgemm/planner/element"
)

// GateUp is the layout of the weights of gate and up of a gated layer.
type GateUp uint8

const (
	// GateUpJoined is one array for both: [Experts, 2*Intermediate, Hidden] with TransB, else [Experts,
	// Hidden, 2*Intermediate]. The Intermediate rows, or columns, of gate are before those of up.
	GateUpJoined GateUp = iota
	// GateUpInterleaved is one array of that shape in which rows of gate and up alternate. It needs TransB,
	// and has no biases.
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
// rounded once.
type Experts struct {
	Choices
	Weights element.Type // of the router's weights: F32, BF16 or F16

	Hidden, Intermediate int // sizes of x[t] and of g, at least 1
	// TransB: weights are stored as in Linear of torch, [Experts, Intermediate, Hidden] for gate and up and
	// [Experts, Hidden, Intermediate] for down. Without TransB the last two extents are exchanged.
	TransB     bool
	Gated      bool
	GateUp     GateUp // with Gated
	Activation Activation
	// Bias: gate and up have a bias [Experts, 2*Intermediate], or [Experts, Intermediate] without Gated. Down
	// has a bias [Experts, Hidden].
	Bias bool
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
	switch {
	case x.GateUp > GateUpApart:
		return invalid.Errorf("unknown order %d of gate and up", x.GateUp)
	case x.GateUp == GateUpInterleaved && !x.TransB:
		return invalid.Errorf("gate and up take turns in columns: they can in rows alone, of weights " +
			"[Experts, 2*Intermediate, Hidden]")
	case x.GateUp == GateUpInterleaved && x.Bias:
		return invalid.Errorf("gate and up take turns: their bias cannot, it is joined by halves")
	}
	return nil
}

// products returns the number of first products.
func (x *Experts) products() int {
	if x.Gated {
		return 2
	}
	return 1
}

// first returns the ragged batch of gate and up. It gathers its rows from x.
func (x *Experts) first() (Ragged, Epilogue) {
	k, n, rows := x.Hidden, x.Intermediate, x.Tokens*x.TopK
	r := Ragged{Form: EndsOfRows, Groups: x.Experts, M: rows, N: n, K: k, TransB: x.TransB,
		A: Matrix{LD: k}, B: Matrix{LD: n}, B2: Matrix{LD: n}, C: Matrix{LD: n}, StrideB: k * n,
		StrideBias: x.products() * n, RowsA: x.Rows()}
	if x.TransB {
		r.B.LD, r.B2.LD = k, k
	}
	if x.Gated && x.GateUp != GateUpApart {
		r.StrideB *= 2
		switch {
		case x.GateUp == GateUpInterleaved:
			r.B.LD, r.B2 = 2*k, Matrix{Offset: k, LD: 2 * k}
		case x.TransB:
			r.B2.Offset = k * n
		default:
			r.B.LD, r.B2 = 2*n, Matrix{Offset: n, LD: 2 * n}
		}
	}
	return r, Epilogue{Activation: x.Activation, Bias: x.Bias, Gated: x.Gated, GatherRows: x.Tokens}
}

// second returns the ragged batch of down. It scatters its rows to their choices.
func (x *Experts) second() (Ragged, Epilogue) {
	k, n, rows := x.Intermediate, x.Hidden, x.Tokens*x.TopK
	r := Ragged{Form: EndsOfRows, Groups: x.Experts, M: rows, N: n, K: k, TransB: x.TransB,
		A: Matrix{LD: k}, B: Matrix{LD: n}, C: Matrix{LD: n}, StrideB: k * n, StrideBias: n,
		RowsC: x.Rows() + rows, Weights: x.Rows() + 2*rows}
	if x.TransB {
		r.B.LD = k
	}
	return r, Epilogue{Bias: x.Bias, ScatterRows: rows, Weights: true}
}

// PlanExperts makes the four plans of a layer of experts, in the order in which they run: the routing, the
// product of gate and up, that of down, and the combine. Without tokens there are none. The result of the
// routing is Sizes and Rows of both products. TypeA of the options is the type of x, y and the weights of the
// layer: F32, BF16 or F16. It fails if the description or the options are invalid, and like PlanRagged. Its
// errors wrap ErrInvalid.
func (p *Planner) PlanExperts(x Experts, o Options) ([]*Plan, error) {
	if err := x.check(); err != nil || x.Tokens == 0 {
		return nil, err
	}
	if !o.Epilogue.none() {
		return nil, invalid.Errorf("the layer says what its epilogues are, not the options")
	}
	o.TypeC = o.TypeA
	combine, err := p.PlanStep(Combine{Choices: x.Choices, Hidden: x.Hidden, Type: o.TypeA})
	if err != nil {
		return nil, err
	}
	route, err := p.PlanStep(Routing{Choices: x.Choices, Weights: x.Weights})
	if err != nil {
		return nil, err
	}
	var r Ragged
	r, o.Epilogue = x.first()
	first, err := p.PlanRagged(r, o)
	if err != nil {
		return nil, fmt.Errorf("first product: %w", err)
	}
	r, o.Epilogue = x.second()
	second, err := p.PlanRagged(r, o)
	if err != nil {
		return nil, fmt.Errorf("second product: %w", err)
	}
	return []*Plan{route, first, second, combine}, nil
}
