package planner

import (
	"context"
	"slices"
	"sync/atomic"

	"github.com/batchgemm/batchgemm/internal/invalid"
	"github.com/batchgemm/batchgemm/planner/element"
	"github.com/batchgemm/batchgemm/planner/internal/overlap"
	"github.com/batchgemm/batchgemm/planner/internal/radix"
)

// Planner makes plans for one device. It keeps memory, and what it derives from the device, between plans.
// It is safe for concurrent use: concurrent calls use separate memory.
type Planner struct {
	device *Device
	room   func(bytes int64) error // see Within
	idle   atomic.Pointer[builder] // builder of the last call; nil while a call uses it
}

// New returns a planner for a copy of the device. Plan reports what is wrong with a device that does not
// pass Check.
func New(d *Device) *Planner {
	own := *d
	own.Kernels = slices.Clone(d.Kernels)
	return &Planner{device: &own}
}

// Within makes the planner ask before it takes 1 MiB of memory or more: it calls room with the number of
// bytes, and an error of room ends planning. Call Within before the first plan. It returns the planner. The
// encoded plan needs about as much memory again; Plan.Words has its length.
func (p *Planner) Within(room func(bytes int64) error) *Planner {
	p.room = room
	return p
}

// Plan plans a batch. These mistakes are errors that wrap ErrInvalid:
//   - The batch does not pass Check, or the device cannot bind one tile of a problem with a large leading
//     dimension (*ProblemError).
//   - The device or the options do not pass Check, or the device has no such tile.
//   - The batch has too many tiles.
//   - A custom schedule does not deal every K step once.
//
// When ctx ends, Plan returns its error within milliseconds, unless a custom schedule takes longer.
func (p *Planner) Plan(ctx context.Context, b Batch, o Options) (*Plan, error) {
	plan := new(Plan)
	if err := p.Replan(ctx, plan, b, o); err != nil {
		return nil, err
	}
	return plan, nil
}

// Replan replaces a plan by the plan of another batch and reuses its memory. Once planner and plan have seen
// a batch of that size, it allocates nothing, unless a custom schedule deals. It fails as Plan does; the
// plan then has no problems.
func (p *Planner) Replan(ctx context.Context, plan *Plan, b Batch, o Options) error {
	return p.into(ctx, plan, b, o, (*builder).whole)
}

// planning makes a plan of a batch and options that passed their checks.
type planning func(*builder, Batch, Options) error

// into makes a plan with an idle builder. If that fails, the plan has no problems.
func (p *Planner) into(ctx context.Context, plan *Plan, b Batch, o Options, with planning) error {
	builder := p.take()
	defer p.give(builder)
	builder.Plan, builder.ctx = plan, ctx
	err := builder.check(b, o)
	if err == nil {
		err = with(builder, b, o)
	}
	if err != nil {
		*plan = Plan{}
	}
	return err
}

// take returns a builder that no other call uses.
func (p *Planner) take() *builder {
	if b := p.idle.Swap(nil); b != nil {
		return b
	}
	return &builder{device: p.device, budget: p.room}
}

func (p *Planner) give(b *builder) {
	b.Plan, b.ctx = nil, nil
	p.idle.Store(b)
}

// builder makes plans, one at a time.
type builder struct {
	*Plan  // the plan in progress
	ctx    context.Context
	gone   int                     // see went
	budget func(bytes int64) error // see Planner.Within
	device *Device
	model  model

	schedule *schedule // that the options ask for; nil: the cheapest
	choice   []tileID  // per problem
	classes  classes   // for chooseByCost, as are the next four fields
	pieces   []pieces  // by cut, for one class
	uniform  []load    // by cut, if one tile shape serves all problems
	mixed    []load    // by tileID, if each problem has its best shape
	overlaps overlap.Finder
	sorter   radix.Sorter
	order    []radix.Key // problems in launch order: by kernel, longest K first
	owners   []int32     // for dealLPT: the worker of each tile
	dealing  dealing
	group    group // the group to deal; a field, because dealers are called indirectly
}

// tileID is an index into Device.Kernels.
type tileID uint8

// pace is the number of problems or tiles between two looks at the context, which takes about 1 ms.
const pace = 1 << 14

// went counts problems or tiles, and fails if the context has ended. It looks once per pace.
func (p *builder) went(by int) error {
	if p.gone += by; p.gone < pace {
		return nil
	}
	p.gone = 0
	return p.ctx.Err()
}

// reset empties the plan.
func (p *builder) reset(o Options) {
	p.Device, p.Options = p.device, o.filled()
	p.Ragged, p.Layer, p.Records = nil, nil, p.Records[:0]
	p.Batch, p.Tiles, p.Launches = p.Batch[:0], p.Tiles[:0], p.Launches[:0]
	p.Segments, p.Workers, p.Fixups = p.Segments[:0], append(p.Workers[:0], 0), p.Fixups[:0]
	p.Workspace, p.Cost, p.TLP, p.TLPGroups = 0, 0, 0, 0
	p.ExtentB2, p.ExtentBias, p.ExtentRows, p.ExtentSizes = 0, 0, 0, 0
}

// whole makes a plan: it chooses a tile shape for each problem, deals the tiles to workers, and places the
// sections that kernels read.
func (p *builder) whole(b Batch, o Options) error {
	p.reset(o)
	p.Batch = append(p.Batch, b...)
	if err := p.setExtents(b.Lengths(p.Options.Epilogue)); err != nil {
		return err
	}
	m := &p.model
	if err := m.setFor(p.device, &p.Options, p.Options.arithmeticOf(p.device, b), b); err != nil {
		return err
	}
	m.see(m.operands(&p.Options, b, 1))
	if err := p.choose(); err != nil {
		return err
	}
	if err := p.deal(); err != nil {
		return err
	}
	p.layout()
	return nil
}

// setExtents fails if a launch cannot reach all of an operand that has no windows.
func (p *builder) setExtents(x Lengths) error {
	p.ExtentA, p.ExtentB, p.ExtentC = x.A, x.B, x.C
	p.ExtentB2, p.ExtentBias, p.ExtentRows = x.B2, x.Bias, x.Rows
	if limit := p.device.spanLimit(element.F32); x.Rows > limit {
		return invalid.Errorf("the buffer Rows needs %d words, %s can bind %d",
			x.Rows, p.device, limit)
	}
	if limit := p.device.spanLimit(p.Options.TypeC); x.Bias > limit {
		return invalid.Errorf("the bias needs %d elements, %s can bind %d", x.Bias, p.device, limit)
	}
	return nil
}
