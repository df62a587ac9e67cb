package dispatch

import (
	"context"
	"errors"
	"fmt"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/backend"
	"github.com/batchgemm/batchgemm/internal/elemtype"
	"github.com/batchgemm/batchgemm/internal/invalid"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

// Experts is a layer of experts, prepared on one device: routing, two ragged programs and a sum, and steps
// between them (planner.ExpertsPlan). It owns the buffers between them: with n = Tokens*TopK about 12*n
// bytes, and n*(Intermediate + Hidden) elements. Gate as a step adds n*Intermediate, and as many if it has
// gate and up. A quantised x adds Tokens*Hidden bytes.
type Experts struct {
	device *Device
	plan   *planner.ExpertsPlan // nil: there are no tokens
	of     planner.Experts
	steps  []step
	own    [operandX]*Buffer
}

// ExpertOperands are the buffers of a run. Their elements have the layer's type, except those of Index and
// Weights. planner.Experts gives the shapes; buffers may be longer.
type ExpertOperands struct {
	X, Y *Buffer // [Tokens, Hidden]; Y may be X
	// Index and Weights are the experts of each token and the router's weights: [Tokens, TopK]. Index is a
	// buffer of F32 with one word for each number, or two if they are int64. A missing token has -1.
	Index, Weights *Buffer
	GateUp, Down   *Buffer // the layer's weights; without Gated, GateUp is B of the first product
	Up             *Buffer // with GateUpApart; then GateUp has only gate
	// With Bias.
	GateUpBias, DownBias *Buffer
	// Scales is a buffer of F32 with scales of weights: see planner.ExpertsPlan, and Experts.Scales. Runs
	// write to it.
	Scales *Buffer
}

// PrepareExperts prepares a layer of experts (planner.Experts). The options have the types of its elements,
// and scales of weights. They cannot force a schedule or a rule. If the description or the options are
// invalid, the error wraps ErrInvalid. It also fails like Prepare and NewBuffer.
func (d *Device) PrepareExperts(ctx context.Context, of planner.Experts, o planner.Options) (*Experts,
	error) {
	x := &Experts{device: d, of: of}
	var err error
	if x.plan, err = d.planner.PlanExperts(of, o); err != nil {
		return nil, fmt.Errorf("experts: %w", err)
	}
	if x.plan == nil {
		return x, nil
	}
	x.steps = stepsOf(x.plan)
	var sizes [operandX]int
	var types [operandX]element.Type
	for i := range x.steps {
		s := &x.steps[i]
		if s.program, err = d.Prepare(ctx, s.plan); err != nil {
			return nil, errors.Join(fmt.Errorf("experts: %w", err), x.Close())
		}
		if made := s.operands.C; made < operandX {
			sizes[made], types[made] = max(sizes[made], s.plan.ExtentC), s.plan.Options.TypeC
		}
	}
	if x.plan.ScalesLen > 0 {
		sizes[operandWords] = 0
	}
	for i, n := range sizes {
		if n == 0 {
			continue
		}
		if x.own[i], err = d.NewBuffer(types[i], n); err != nil {
			return nil, errors.Join(fmt.Errorf("experts: %w", err), x.Close())
		}
	}
	return x, nil
}

// operand is a number of an operand of a run, or of what the layer has between its steps.
type operand int

const (
	_ operand = iota // none
	// The layer's own: the result of the routing, which is in Scales if the layer has any; x with 8 bits; the
	// results of the first product, the gate and the second product.
	operandWords
	operandBytes
	operandFirst
	operandBetween
	operandResults
	// Those of a run, in the order of arguments.
	operandX
	operandY
	operandIndex
	operandWeights
	operandGateUp
	operandDown
	operandUp
	operandGateUpBias
	operandDownBias
	operandScales
	operands
)

// given is how many operands a run has.
const given = operands - operandX

// step has a program of the layer, its plan, and what it works on.
type step struct {
	program  *Program
	plan     *planner.Plan
	operands operandsOf[operand]
}

type operandsOf[T any] struct{ A, B, C, Sizes, B2, Bias, Rows T }

// stepsOf returns the steps of a layer, in order.
func stepsOf(p *planner.ExpertsPlan) []step {
	type on = operandsOf[operand]
	up, x, first, between := operandGateUp, operandX, operandFirst, operandFirst
	if p.Gated && p.GateUp == planner.GateUpApart {
		up = operandUp
	}
	steps := []step{{plan: p.Route, operands: on{A: operandWeights, C: operandWords, Sizes: operandIndex}}}
	if p.Quantize != nil {
		x = operandBytes
		steps = append(steps, step{plan: p.Quantize, operands: on{A: operandX, C: x, Sizes: operandWords}})
	}
	product := on{A: x, B: operandGateUp, C: first, Sizes: operandWords, B2: up, Bias: operandGateUpBias,
		Rows: operandWords}
	steps = append(steps, step{plan: p.First, operands: product})
	if p.Up != nil {
		product.B = up
		steps = append(steps, step{plan: p.Up, operands: product})
	}
	if p.Gate != nil {
		between = operandBetween
		steps = append(steps, step{plan: p.Gate, operands: on{A: first, C: between, Sizes: operandWords}})
	}
	return append(steps,
		step{plan: p.Second, operands: on{A: between, B: operandDown, C: operandResults, Sizes: operandWords,
			Bias: operandDownBias, Rows: operandWords}},
		step{plan: p.Combine, operands: on{A: operandResults, C: operandY, Sizes: operandIndex}})
}

// Scales returns the words of the operand Scales at which the scales of gate and up, and of down, begin, and
// how many words it has. They are 0 without scales, and without tokens.
func (x *Experts) Scales() (gateUp, down, words int) {
	if x.plan == nil {
		return 0, 0, 0
	}
	return x.plan.ScaleGateUp, x.plan.ScaleDown, x.plan.ScalesLen
}

// Close frees the programs and buffers of the layer.
func (x *Experts) Close() error {
	var all []error
	for i := range x.steps {
		if p := x.steps[i].program; p != nil {
			all = append(all, p.Close())
		}
	}
	for _, b := range x.own {
		if b != nil {
			all = append(all, b.Close())
		}
	}
	return errors.Join(all...)
}

// arguments returns the requirements for the operands of a run.
func (x *Experts) arguments() [given]argument {
	p := x.plan
	of, ofW, ofB := p.Combine.Options.TypeA, p.First.Options.TypeB, p.First.Options.TypeC
	weights, up, bias := p.First.ExtentB, p.First.ExtentB2, p.First.ExtentBias
	apart := p.Gated && p.GateUp == planner.GateUpApart
	switch {
	case p.Up != nil:
		up, bias = p.Up.ExtentB, p.Up.ExtentBias
	case !apart:
		weights = max(weights, up)
	}
	return [...]argument{
		{"X", true, p.Tokens * p.Hidden, of, false},
		{"Y", true, p.Combine.ExtentC, of, false},
		{"Index", true, p.Route.ExtentSizes, element.F32, false},
		{"Weights", true, p.Route.ExtentA, x.of.Weights, false},
		{"GateUp", true, weights, ofW, false},
		{"Down", true, p.Second.ExtentB, ofW, false},
		{"Up", apart, up, ofW, false},
		{"GateUpBias", x.of.Bias, bias, ofB, false},
		{"DownBias", x.of.Bias, p.Second.ExtentBias, ofB, false},
		{"Scales", p.ScalesLen > 0, p.ScalesLen, element.F32, false},
	}
}

// eachStep calls use with each step and its operands, from all operands.
func eachStep[B any](x *Experts, all *[operands]B, use func(step *step, o operandsOf[B])) {
	if x.plan.ScalesLen > 0 {
		all[operandWords] = all[operandScales]
	}
	for i := range x.steps {
		s := &x.steps[i]
		o := &s.operands
		to := operandsOf[B]{A: all[o.A], B: all[o.B], C: all[o.C], Sizes: all[o.Sizes]}
		if e := &s.plan.Options.Epilogue; s.plan.Layer == nil {
			to.Rows = all[o.Rows]
			if e.Gated {
				to.B2 = all[o.B2]
			}
			if e.Bias {
				to.Bias = all[o.Bias]
			}
		}
		use(s, to)
	}
}

// Run queues one execution as one submission, and returns without waiting, like Device.Run. Runs of one layer
// share its memory, so they run one after the other.
func (x *Experts) Run(ctx context.Context, o ExpertOperands) error {
	if x.plan == nil {
		return ctx.Err()
	}
	all := [operands]*Buffer{operandX: o.X, o.Y, o.Index, o.Weights, o.GateUp, o.Down, o.Up, o.GateUpBias,
		o.DownBias, o.Scales}
	copy(all[:], x.own[:])
	for i, arg := range x.arguments() {
		switch b := all[int(operandX)+i]; {
		case b == nil && arg.used:
			return invalid.Errorf("%s is nil", arg.name)
		case b != nil && !arg.used:
			return invalid.Errorf("%s is not nil: the layer has no use for it", arg.name)
		case b == nil:
		case b.life != x.device.life:
			return invalid.Errorf("%s: belongs to another device", arg.name)
		case b.of != arg.of:
			return invalid.Errorf("%s has elements of %s, the layer is for %s", arg.name, b.of, arg.of)
		case b.n < arg.need:
			return invalid.Errorf("%s has %d elements, the layer needs %d", arg.name, b.n, arg.need)
		}
	}
	if o.Y.object == o.Index.object {
		return invalid.Errorf("Y and Index are of one buffer")
	}
	var runs [maxSteps]Run
	n := 0
	eachStep(x, &all, func(s *step, o operandsOf[*Buffer]) {
		runs[n] = s.program.With(Operands(o))
		n++
	})
	return x.device.Run(ctx, runs[:n]...)
}

// maxSteps is the most that a layer has.
const maxSteps = 7

// ExpertAddresses are the operands of ExpertOperands in memory of the caller; see RunOn.
type ExpertAddresses struct {
	X, Y, Index, Weights uintptr
	GateUp, Down, Up     uintptr
	GateUpBias, DownBias uintptr
	Scales               uintptr
	// Tokens is the number of tokens of this run, in X, Y, Index and Weights; 0: the largest number.
	Tokens int
}

// RunAt queues one execution on memory and a stream of the caller. The rules of Device.RunAt hold. Runs
// share the memory of the layer, so the caller must order runs on different streams.
func (x *Experts) RunAt(ctx context.Context, stream uintptr, at ExpertAddresses) error {
	d := x.device
	s, err := d.newSubmission()
	if err != nil {
		return err
	}
	defer d.end(s)
	borrower, ok := d.driver.(backend.Borrower)
	switch {
	case !ok:
		return fmt.Errorf("backend %s does not work in memory of its callers", d.info.Backend)
	case at.Tokens < 0 || at.Tokens > x.of.Tokens:
		return invalid.Errorf("%d tokens are not in [0, %d]", at.Tokens, x.of.Tokens)
	case x.plan == nil:
		return ctx.Err()
	}
	var all [operands]driver.Buffer
	for i, arg := range x.arguments() {
		address := [given]uintptr{at.X, at.Y, at.Index, at.Weights, at.GateUp, at.Down, at.Up, at.GateUpBias,
			at.DownBias, at.Scales}[i]
		switch {
		case !arg.used && address != 0:
			return invalid.Errorf("%s is not 0: the layer has no use for it", arg.name)
		case arg.used && address == 0:
			return invalid.Errorf("%s is 0", arg.name)
		case address%backend.BorrowAlign != 0:
			return invalid.Errorf("%s %#x is not a multiple of %d", arg.name, address, backend.BorrowAlign)
		case arg.used:
			all[int(operandX)+i] = borrower.At(address, elemtype.Words(arg.of, arg.need))
		}
	}
	if err := s.addExperts(x, &all, at.Tokens); err != nil {
		return err
	}
	return s.submitOn(ctx, d, stream)
}

// addExperts holds all objects of the layer and adds its runs.
func (s *submission) addExperts(x *Experts, all *[operands]driver.Buffer, tokens int) error {
	for i, b := range x.own {
		if b == nil {
			continue
		}
		if err := s.hold(b.object); err != nil {
			return err
		}
		all[i] = b.driver
	}
	for i := range x.steps {
		if err := s.hold(x.steps[i].program.object); err != nil {
			return err
		}
	}
	eachStep(x, all, func(of *step, o operandsOf[driver.Buffer]) {
		run := driverRun(of.program, &[...]driver.Buffer{o.A, o.B, o.C, o.Sizes, o.B2, o.Bias, o.Rows})
		if of.plan.Layer != nil {
			run.Extent = tokens
		}
		s.runs = append(s.runs, run)
	})
	return nil
}

// hold uses an object until the submission ends.
func (s *submission) hold(o *object) error {
	if err := o.use(); err != nil {
		return err
	}
	s.held = append(s.held, o)
	return nil
}
