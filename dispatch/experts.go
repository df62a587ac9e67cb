package dispatch

import (
	"context"
	"errors"
	"fmt"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/backend"
	"github.com/batchgemm/batchgemm/internal/invalid"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

// Experts is a layer of experts, prepared on one device: routing, two ragged programs and a sum. It owns the
// buffers between them: n*(Intermediate + Hidden) elements and about 12*n bytes, with n = Tokens*TopK.
type Experts struct {
	device *Device
	of     planner.Experts

	plans                    []*planner.Plan // in order, as the programs; none: there are no tokens
	programs                 [4]*Program
	routed, between, results *Buffer
}

// The steps of a layer, as indices.
const (
	layerRoute = iota
	layerFirst
	layerSecond
	layerCombine
)

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
}

// PrepareExperts prepares a layer of experts (planner.Experts). TypeA of the options is the type of its
// elements: F32, BF16 or F16. The options cannot force a schedule or a rule. If the description or the
// options are invalid, the error wraps ErrInvalid. It also fails like Prepare and NewBuffer.
func (d *Device) PrepareExperts(ctx context.Context, of planner.Experts, o planner.Options) (*Experts,
	error) {
	x := &Experts{device: d, of: of}
	var err error
	if x.plans, err = d.planner.PlanExperts(of, o); err != nil {
		return nil, fmt.Errorf("experts: %w", err)
	}
	if len(x.plans) == 0 {
		return x, nil
	}
	for i, plan := range x.plans {
		if x.programs[i], err = d.Prepare(ctx, plan); err != nil {
			return nil, errors.Join(fmt.Errorf("experts: %w", err), x.Close())
		}
	}
	for _, b := range [...]struct {
		buffer **Buffer
		of     element.Type
		n      int
	}{
		{&x.routed, element.F32, x.plans[layerRoute].ExtentC},
		{&x.between, o.TypeA, x.plans[layerFirst].ExtentC},
		{&x.results, o.TypeA, x.plans[layerSecond].ExtentC},
	} {
		if *b.buffer, err = d.NewBuffer(b.of, b.n); err != nil {
			return nil, errors.Join(fmt.Errorf("experts: %w", err), x.Close())
		}
	}
	return x, nil
}

// Close frees the programs and buffers of the layer.
func (x *Experts) Close() error {
	var all []error
	for _, p := range x.programs {
		if p != nil {
			all = append(all, p.Close())
		}
	}
	for _, b := range [...]*Buffer{x.routed, x.between, x.results} {
		if b != nil {
			all = append(all, b.Close())
		}
	}
	return errors.Join(all...)
}

// arguments returns the requirements for the operands of a run.
func (x *Experts) arguments() [9]argument {
	p := x.plans
	of, apart := p[layerFirst].Options.TypeA, x.of.Gated && x.of.GateUp == planner.GateUpApart
	weights := p[layerFirst].ExtentB
	if !apart {
		weights = max(weights, p[layerFirst].ExtentB2)
	}
	return [...]argument{
		{"X", true, p[layerFirst].ExtentA, of, false},
		{"Y", true, p[layerCombine].ExtentC, of, false},
		{"Index", true, p[layerRoute].ExtentSizes, element.F32, false},
		{"Weights", true, p[layerRoute].ExtentA, x.of.Weights, false},
		{"GateUp", true, weights, of, false},
		{"Down", true, p[layerSecond].ExtentB, of, false},
		{"Up", apart, p[layerFirst].ExtentB2, of, false},
		{"GateUpBias", x.of.Bias, p[layerFirst].ExtentBias, of, false},
		{"DownBias", x.of.Bias, p[layerSecond].ExtentBias, of, false},
	}
}

// operandsOf returns the operands of the four runs, from given, in the order of arguments, and the layer's
// own buffers.
func operandsOf[B comparable](x *Experts, given [9]B, routed, between, results B) [4]operandsOfRun[B] {
	var none B
	up := given[6]
	if x.of.Gated && up == none {
		up = given[4]
	}
	return [...]operandsOfRun[B]{
		{A: given[3], C: routed, Sizes: given[2]},
		{A: given[0], B: given[4], C: between, Sizes: routed, B2: up, Bias: given[7], Rows: routed},
		{A: between, B: given[5], C: results, Sizes: routed, Bias: given[8], Rows: routed},
		{A: results, C: given[1], Sizes: given[2]},
	}
}

type operandsOfRun[B any] struct{ A, B, C, Sizes, B2, Bias, Rows B }

// Run queues one execution as one submission, and returns without waiting, like Device.Run. Runs of one layer
// share its memory, so they run one after the other.
func (x *Experts) Run(ctx context.Context, o ExpertOperands) error {
	if len(x.plans) == 0 {
		return ctx.Err()
	}
	given := [...]*Buffer{o.X, o.Y, o.Index, o.Weights, o.GateUp, o.Down, o.Up, o.GateUpBias, o.DownBias}
	for i, arg := range x.arguments() {
		switch b := given[i]; {
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
	all := operandsOf(x, given, x.routed, x.between, x.results)
	var runs [len(all)]Run
	for i, p := range x.programs {
		runs[i] = p.With(Operands(all[i]))
	}
	return x.device.Run(ctx, runs[:]...)
}

// ExpertAddresses are the operands of ExpertOperands in memory of the caller; see Addresses.
type ExpertAddresses struct {
	X, Y, Index, Weights uintptr
	GateUp, Down, Up     uintptr
	GateUpBias, DownBias uintptr
	// Tokens is the number of tokens of this run, in X, Y, Index and Weights; 0: the largest number.
	Tokens int
}

// RunAt queues one execution on memory and a stream of the caller. The rules of Program.RunAt hold. Runs
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
	case len(x.plans) == 0:
		return ctx.Err()
	}
	var given [9]driver.Buffer
	for i, arg := range x.arguments() {
		address := [...]uintptr{at.X, at.Y, at.Index, at.Weights, at.GateUp, at.Down, at.Up, at.GateUpBias,
			at.DownBias}[i]
		switch {
		case !arg.used && address != 0:
			return invalid.Errorf("%s is not 0: the layer has no use for it", arg.name)
		case arg.used && address == 0:
			return invalid.Errorf("%s is 0", arg.name)
		case address%backend.BorrowAlign != 0:
			return invalid.Errorf("%s %#x is not a multiple of %d", arg.name, address, backend.BorrowAlign)
		case arg.used:
			given[i] = borrower.At(address, wordsOf(arg.of, arg.need))
		}
	}
	if err := s.addExperts(x, &given, at.Tokens); err != nil {
		return err
	}
	return s.submitOn(ctx, d, stream)
}

// addExperts holds all objects of the layer and adds its runs.
func (s *submission) addExperts(x *Experts, given *[9]driver.Buffer, tokens int) error {
	for _, o := range [...]*object{x.routed.object, x.between.object, x.results.object,
		x.programs[layerRoute].object, x.programs[layerFirst].object, x.programs[layerSecond].object,
		x.programs[layerCombine].object} {
		if err := o.use(); err != nil {
			return err
		}
		s.held = append(s.held, o)
	}
	all := operandsOf(x, *given, x.routed.driver, x.between.driver, x.results.driver)
	for i, p := range x.programs {
		o := &all[i]
		run := driverRun(p, &[...]driver.Buffer{o.A, o.B, o.C, o.Sizes, o.B2, o.Bias, o.Rows})
		if p.plan.Layer != nil {
			run.Extent = tokens
		}
		s.runs = append(s.runs, run)
	}
	return nil
}
