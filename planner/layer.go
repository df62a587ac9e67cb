package planner

import (
	"github.com/batchgemm/batchgemm/internal/elemtype"
	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/internal/invalid"
	"github.com/batchgemm/batchgemm/planner/element"
)

// Step describes a step of a layer of experts besides its products: a Routing, a Combine, a Gate or a
// GateBackward. Each has no product of its own, and runs as a program of its own.
type Step interface {
	plan(*Planner) (*Plan, error)
}

// PlanStep makes the plan of a step. It fails if the description is invalid, if an operand is larger than the
// device can bind, and for gates if the device has no kernels for them. The error wraps ErrInvalid and names
// the first invalid field.
func (p *Planner) PlanStep(s Step) (*Plan, error) {
	if s == nil {
		return nil, invalid.Errorf("the step is nil")
	}
	return s.plan(p)
}

// maxChoices keeps the words of a routing's result in an int of 32 bits.
const maxChoices = MaxDim / 4

// Choices describes the choices of a router: for each token TopK of Experts experts, as an array index
// [Tokens, TopK] of int32 or int64. Tokens is the largest number of tokens of a run, and may be 0. A choice
// that is negative, or not below Experts, does not count. Use such numbers for experts of other devices and
// for dropped tokens.
type Choices struct {
	Tokens, TopK, Experts int  // Experts from 1 to 4096, TopK from 1 to 16
	Index64               bool // index is of int64
}

// Routing describes a program that turns a router's choices into the operands of ragged programs with
// EndsOfRows. The operands of a run are:
//
//	Sizes  index
//	A      weights [Tokens, TopK], of type Weights: F32, BF16 or F16
//	C      words of 32 bits. The ends of each expert's rows begin at word 0. Three lists of
//	       Tokens*TopK words each begin at word Rows. They have for each row its token t (RowsA of a
//	       ragged program), its choice t*TopK + j (RowsC), and its weight as bits of fp32 (Weights).
//
// Each choice that counts is a row. The rows of an expert are in the order of their choices. A run does not
// write the words of a list after the last end, nor the words between the ends and word Rows.
type Routing struct {
	Choices
	Weights element.Type
}

// Combine describes a program that sums the rows of each token. The operands of a run are:
//
//	Sizes  index
//	A      rows [Tokens*TopK, Hidden]; row t*TopK + j belongs to choice j of token t
//	C      sums [Tokens, Hidden]
//
// Rows are added to 0 in fp32, in the order of choices, and the sum is rounded once. Rows of choices that do
// not count are not read. Type is the type of A and C: F32, BF16 or F16.
type Combine struct {
	Choices
	Hidden int
	Type   element.Type
}

// Rows is the word of a routing's result where its lists begin: Experts, rounded up to a multiple of 64.
func (c *Choices) Rows() int { return c.layer(0, 0).First() }

func (c *Choices) layer(stage encoding.LayerStage, hidden int) *encoding.Layer {
	return &encoding.Layer{Stage: stage, Tokens: c.Tokens, TopK: c.TopK, Experts: c.Experts, Hidden: hidden}
}

// indexLen returns the number of 32-bit words of index.
func (c *Choices) indexLen() int {
	if c.Index64 {
		return 2 * c.Tokens * c.TopK
	}
	return c.Tokens * c.TopK
}

// check names the first invalid number, or says that what cannot be of that type.
func (c *Choices) check(what string, of element.Type) error {
	switch {
	case of != element.F32 && of != element.BF16 && of != element.F16:
		return invalid.Errorf("%s cannot be of %s (but %s)", what, of,
			elemtype.List([]element.Type{element.F32, element.BF16, element.F16}, " or "))
	case c.Experts < 1 || c.Experts > encoding.MaxExperts:
		return invalid.Errorf("%d experts are not in [1, %d]", c.Experts, encoding.MaxExperts)
	case c.TopK < 1 || c.TopK > encoding.MaxTopK:
		return invalid.Errorf("%d choices of a token are not in [1, %d]", c.TopK, encoding.MaxTopK)
	case c.Tokens < 0 || c.Tokens > maxChoices/c.TopK:
		return invalid.Errorf("%d tokens, with %d choices each, are not in [0, %d]", c.Tokens, c.TopK,
			maxChoices/c.TopK)
	}
	return nil
}

func (r Routing) plan(p *Planner) (*Plan, error) {
	if err := r.check("weights", r.Weights); err != nil {
		return nil, err
	}
	layer := r.layer(encoding.LayerRoute, 0)
	plan := &Plan{Device: p.device, Options: Options{TypeA: r.Weights}, Layer: layer,
		ExtentA: layer.Choices(), ExtentC: layer.Routed(), ExtentSizes: r.indexLen()}
	return plan, plan.step(r.Index64, p.device.family().routers(layer))
}

func (c Combine) plan(p *Planner) (*Plan, error) {
	if c.Hidden < 0 || c.Hidden > MaxDim {
		return nil, invalid.Errorf("%d columns of rows are not in [0, %d]", c.Hidden, MaxDim)
	}
	if err := c.check("rows", c.Type); err != nil {
		return nil, err
	}
	layer := c.layer(encoding.LayerCombine, c.Hidden)
	rows, ok := addMul(0, layer.Choices(), c.Hidden)
	if !ok {
		return nil, invalid.Errorf("%d rows of %d columns are too many elements", layer.Choices(), c.Hidden)
	}
	plan := &Plan{Device: p.device, Options: Options{TypeA: c.Type, TypeC: c.Type}, Layer: layer,
		ExtentA: rows, ExtentC: c.Tokens * c.Hidden, ExtentSizes: c.indexLen()}
	return plan, plan.step(c.Index64, p.device.family().combiners(layer, c.Type))
}

// step makes the only launch of a plan, of so many thread groups; 0: it has none.
func (p *Plan) step(index64 bool, groups int) error {
	d := p.Device
	types := p.Options
	if types.TypeC.Bytes() == 1 { // of a gate, which no product has
		types.TypeC = types.TypeA
	}
	if err := types.checkTypes(d); err != nil {
		return err
	}
	p.Options = p.Options.filled()
	o := &p.Options
	for _, x := range [...]struct {
		name string
		size int
		of   element.Type
	}{{"index", max(p.ExtentSizes, p.ExtentRows), element.F32}, {"A", p.ExtentA, o.TypeA},
		{"B", p.ExtentB, o.TypeB}, {"C", p.ExtentC, o.TypeC}} {
		if limit := d.spanLimit(x.of); x.size > limit {
			return invalid.Errorf("%s needs %d elements, %s can bind %d", x.name, x.size, d, limit)
		}
	}
	if groups == 0 {
		return nil
	}
	if d.MaxTrips > 0 && p.Layer.Choices() > d.MaxTrips*leastRouters {
		return invalid.Errorf("%d choices take more loop iterations than the %d that %s allows",
			p.Layer.Choices(), d.MaxTrips, d)
	}
	p.Words = encoding.RaggedHead
	p.Launches = []encoding.Launch{{Kernel: encoding.Kernel{Layer: p.Layer.Stage, Index64: index64,
		TypeA: o.TypeA, TypeC: o.TypeC}, Count: groups, SpanA: p.ExtentA, SpanB: p.ExtentB, SpanC: p.ExtentC,
		SpanRows: p.ExtentRows}}
	return nil
}

// The thread groups of native kernels (native/kernels/routing.cuh): each of a routing counts all choices, so
// that more than raggedMakers would take longer than they save. What a group places in one round, at first 8
// sections of 32 choices, is fewer where there are many experts.
func nativeRouters(l *encoding.Layer) int {
	const section, sections, cells = 32, 8, 8192
	round := section * min(sections, cells/l.Experts)
	return min(max(ceilDiv(l.Choices(), round), 1), raggedMakers)
}

func nativeCombiners(l *encoding.Layer, of element.Type) int {
	const threads, bytes = 256, 16
	return ceilDiv(l.Tokens*ceilDiv(l.Hidden, bytes/of.Bytes()), threads)
}

// Those of shaders (wgsl/layer.go): one for each 8 experts, whose threads go through all choices twice, and
// at most as many as every device allows.
func wgslRouters(l *encoding.Layer) int { return ceilDiv(l.Experts, encoding.LayerShare) }

func wgslCombiners(l *encoding.Layer, of element.Type) int {
	const threads, most = 64, 1<<16 - 1
	return min(ceilDiv(ceilDiv(l.Tokens*l.Hidden, of.PerWord()), threads), most)
}

// leastRouters is the fewest threads of such a group, halved, since they go through choices twice.
const leastRouters = 16

// Those of the CPU: one routes, sums are shared in pieces.
func cpuRouters(*encoding.Layer) int { return 1 }

func cpuCombiners(l *encoding.Layer, _ element.Type) int {
	return min(l.Tokens, ceilDiv(l.Choices()*l.Hidden, encoding.LayerPiece))
}
