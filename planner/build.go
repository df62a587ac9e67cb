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

// Planner makes plans for one device. It keeps what it derives from the device, and
// memory, from one plan to the next. It is safe for concurrent use; calls at the same time
// have memory of their own.
type Planner struct {
	device *Device
	room   func(bytes int64) error // see Within
	idle   atomic.Pointer[builder] // of the last call; nil while one uses it
}

// New returns a planner for a device, of which it keeps a copy. Plan says what is wrong
// with a device that does not pass Check.
func New(d *Device) *Planner {
	own := *d
	own.Kernels = slices.Clone(d.Kernels)
	return &Planner{device: &own}
}

// Within has the planner ask before it takes memory: room is called with how many bytes more a plan takes,
// where these are 1 MiB and more, and its error ends planning. It returns the planner, which has made no plan
// yet. Encoded a plan takes about as much again, of which Plan.Words tells.
func (p *Planner) Within(room func(bytes int64) error) *Planner {
	p.room = room
	return p
}

// Device is the planner's copy of its device.
func (p *Planner) Device() *Device { return p.device }

// Plan plans a batch. It fails with a *ProblemError when the batch does not pass Check, or
// when a problem's leading dimension is too large for the device to bind one tile; when
// the device or the options do not pass Check, or ask for a tile that the device has not;
// when the batch has too many tiles; and when a custom schedule does not deal every K step
// once. All these wrap ErrInvalid. It ends with ctx's error within milliseconds after ctx does, unless
// a custom schedule takes longer.
func (p *Planner) Plan(ctx context.Context, b Batch, o Options) (*Plan, error) {
	plan := new(Plan)
	if err := p.Replan(ctx, plan, b, o); err != nil {
		return nil, err
	}
	return plan, nil
}

// Replan replaces a plan by the plan of another batch and reuses its memory: once
// planner and plan have seen a batch of that size, nothing is allocated, unless a custom
// schedule deals. It fails as Plan does; the plan is that of no problems then.
func (p *Planner) Replan(ctx context.Context, plan *Plan, b Batch, o Options) error {
	return p.into(ctx, plan, b, o, (*builder).whole)
}

// planning makes a plan of a batch and options that pass their checks.
type planning func(*builder, Batch, Options) error

// into has a builder make a plan, which is that of no problems if that fails.
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

// take returns a builder that nobody uses.
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

// builder makes one plan after the other.
type builder struct {
	*Plan  // the one being made
	ctx    context.Context
	gone   int                     // see went
	budget func(bytes int64) error // see Planner.Within
	device *Device
	model  model

	schedule *schedule // that the options ask for; nil: the cheapest
	choice   []tileID  // per problem
	classes  classes   // of chooseByCost, as the next
	pieces   []pieces  // by cut, of one class
	uniform  []load    // by cut, of one tile for all problems
	mixed    []load    // by tileID, of the best tile for each
	overlaps overlap.Finder
	sorter   radix.Sorter
	order    []radix.Key // problems in launch order: by kernel, longest K first
	owners   []int32     // of dealLPT: the worker of each tile
	dealing  dealing
	group    group // the one being dealt; here because dealers are called indirectly
}

// tileID is an index into Device.Kernels.
type tileID uint8

// pace is how many problems or tiles are planned between two looks at the context, 1 ms or so.
const pace = 1 << 14

// went fails when the context has ended, after pace problems or tiles more.
func (p *builder) went(by int) error {
	if p.gone += by; p.gone < pace {
		return nil
	}
	p.gone = 0
	return p.ctx.Err()
}

// reset makes the plan one of no problems.
func (p *builder) reset(o Options) {
	p.Device, p.Options = p.device, o.filled()
	p.Ragged, p.Records = nil, p.Records[:0]
	p.Batch, p.Tiles, p.Launches = p.Batch[:0], p.Tiles[:0], p.Launches[:0]
	p.Segments, p.Workers, p.Fixups = p.Segments[:0], append(p.Workers[:0], 0), p.Fixups[:0]
	p.Workspace, p.Cost, p.TLP, p.TLPGroups = 0, 0, 0, 0
	p.ExtentB2, p.ExtentBias, p.ExtentRows = 0, 0, 0
}

// whole makes all of a plan: it chooses a tile shape for each problem, deals the tiles to workers, and lays
// out what kernels read.
func (p *builder) whole(b Batch, o Options) error {
	p.reset(o)
	p.Batch = append(p.Batch, b...)
	if err := p.setExtents(b.Lengths(p.Options.Epilogue)); err != nil {
		return err
	}
	m := &p.model
	if err := m.setFor(p.device, &p.Options, p.Options.allFast(p.device, b), b); err != nil {
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

// setExtents fails where a launch cannot reach all of what has no windows.
func (p *builder) setExtents(x Lengths) error {
	p.ExtentA, p.ExtentB, p.ExtentC = x.A, x.B, x.C
	p.ExtentB2, p.ExtentBias, p.ExtentRows = x.B2, x.Bias, x.Rows
	if limit := p.device.spanLimit(element.F32); x.Rows > limit {
		return invalid.Errorf("the rows that epilogues name need %d words, %s can bind %d",
			x.Rows, p.device, limit)
	}
	if limit := p.device.spanLimit(p.Options.TypeC); x.Bias > limit {
		return invalid.Errorf("the bias needs %d elements, %s can bind %d", x.Bias, p.device, limit)
	}
	return nil
}
