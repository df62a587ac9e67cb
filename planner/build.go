package planner

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/batchgemm/batchgemm/internal/invalid"
	"github.com/batchgemm/batchgemm/planner/element"
	"github.com/batchgemm/batchgemm/planner/encoding"
	"github.com/batchgemm/batchgemm/planner/internal/overlap"
	"github.com/batchgemm/batchgemm/planner/internal/radix"
	"github.com/batchgemm/batchgemm/planner/tile"
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

// Within has the planner ask before it takes memory: room is called with how many bytes more a plan takes, where these are
// 1 MiB and more, and its error ends planning. It returns the planner, which has made no plan yet. Encoded a plan
// takes about as much again, of which Plan.Words tells.
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

// into has a builder make a plan of a batch and options that pass their checks.
func (p *Planner) into(ctx context.Context, plan *Plan, b Batch, o Options, with func(*builder, Batch, Options) error) error {
	builder := p.take()
	defer p.give(builder)
	builder.Plan, builder.ctx = plan, ctx
	err := builder.roomForBatch(len(b))
	if err == nil {
		err = builder.check(b, o)
	}
	if err == nil {
		err = ctx.Err()
	}
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

// group is the work of one kernel: problems that share tile shape and
// transposition, longest K first.
type group struct {
	encoding.Kernel
	id       tileID
	problems []radix.Key
	load     load
	turn     int // tiles that a worker takes at a time, of those with InTurn
}

// pace is how many problems or tiles are planned between two looks at the context, 1 ms or so.
const pace = 1 << 14

// went fails when the context has ended, behind pace problems or tiles more.
func (p *builder) went(by int) error {
	if p.gone += by; p.gone < pace {
		return nil
	}
	p.gone = 0
	return p.ctx.Err()
}

// check fails as Plan does for what is wrong with a batch or options.
func (p *builder) check(b Batch, o Options) error {
	if err := b.check(p.ctx, &endless, &p.overlaps, &o.Epilogue); err != nil {
		return err
	}
	if err := o.check(p.device); err != nil {
		return err
	}
	return o.checkDepths(b)
}

// reset makes the plan one of no problems.
func (p *builder) reset(o Options) {
	p.Device, p.Options = p.device, o.filled()
	p.Batch, p.Segments, p.Fixups, p.Launches, p.Tiles = p.Batch[:0], p.Segments[:0], p.Fixups[:0], p.Launches[:0], p.Tiles[:0]
	p.Ragged, p.Records = nil, p.Records[:0]
	p.Workers = append(p.Workers[:0], 0)
	p.Workspace, p.Cost, p.TLP, p.TLPGroups = 0, 0, 0, 0
	p.ExtentB2, p.ExtentBias, p.ExtentRows = 0, 0, 0
	p.model.setEpilogue(&o.Epilogue)
}

// whole makes all of a plan.
func (p *builder) whole(b Batch, o Options) error {
	p.reset(o)
	p.Batch = append(p.Batch, b...)
	p.choice = slices.Grow(p.choice[:0], len(b))[:len(b)]
	clear(p.choice) // of problems that need no work too, which nothing else sets
	if err := p.setExtents(b.Lengths(p.Options.Epilogue)); err != nil {
		return err
	}
	if err := p.choose(); err != nil {
		return err
	}
	p.sort()
	if err := p.deal(); err != nil {
		return err
	}
	p.layout()
	p.TLPGroups, p.TLP = p.threadParallelism()
	for _, id := range p.choice {
		p.Tiles = append(p.Tiles, p.model.tiles[id].shape)
	}
	return nil
}

// setExtents fails where a launch cannot reach all of what has no windows.
func (p *builder) setExtents(x Lengths) error {
	p.ExtentA, p.ExtentB, p.ExtentC, p.ExtentB2, p.ExtentBias, p.ExtentRows = x.A, x.B, x.C, x.B2, x.Bias, x.Rows
	if limit := p.device.spanLimit(element.F32); x.Rows > limit {
		return invalid.Errorf("the rows that epilogues name need %d words, %s can bind %d", x.Rows, p.device, limit)
	}
	if limit := p.device.spanLimit(p.Options.TypeC); x.Bias > limit {
		return invalid.Errorf("the bias needs %d elements, %s can bind %d", x.Bias, p.device, limit)
	}
	return nil
}

// choose sets p.choice and p.schedule.
func (p *builder) choose() (err error) {
	p.schedule = p.Options.Schedule.find()
	if p.Options.Custom != nil {
		p.schedule = ScheduleDataParallel.find() // of a custom one, by whose cost tiles are chosen
	}
	if err = p.model.set(p.device, p.Options.arithmetic(p.device, p.Options.allWide(p.device, p.Batch)), p.Options.dressed(p.device), p.Options.only(p.Batch)); err != nil {
		return err
	}
	p.model.parts = p.Options.parts(p.device, p.model.compute)
	p.model.see(p.model.operands(&p.Options, p.Batch, 1))
	switch {
	case p.Options.Tile != "":
		return p.chooseTile(p.Options.Tile)
	case p.Options.Rule == RuleZhang2025:
		err = p.chooseZhang()
	default:
		err = p.chooseByCost()
	}
	if err != nil {
		return err
	}
	p.shrinkToBindings()
	return p.ctx.Err()
}

// chooseTile takes one shape for all problems.
func (p *builder) chooseTile(name string) error {
	id, err := p.model.named(name, p.model.compute)
	for i := range p.choice {
		p.choice[i] = id
	}
	return err
}

// named finds a shape that fits.
func (m *model) named(name string, c Compute) (tileID, error) {
	for id := range m.tiles {
		t := &m.tiles[id]
		if t.shape.Name != name {
			continue
		}
		if t.fits {
			return tileID(id), nil
		}
		if err := m.device.refuse(t.shape, c, m.dressed); err != nil {
			return 0, err
		}
		return 0, errNotReady(m.device, fmt.Sprintf("tile %v", t.shape))
	}
	shape, err := tile.ByName(name)
	if err != nil {
		return 0, err
	}
	return 0, m.device.refuse(shape, c, m.dressed)
}

// scheduleOf is the one asked for, or the cheapest for the group. The algorithm of
// Zhang et al. knows one tile a worker only.
func (p *builder) scheduleOf(g *group) *schedule {
	switch {
	case p.schedule != nil:
		return p.model.instead(g.id, p.schedule)
	case p.Options.Rule == RuleZhang2025:
		return ScheduleDataParallel.find()
	}
	s, _ := p.model.cheapest(g.id, g.load)
	return s
}

// Fits reports whether a workgroup of the tile can run on the device and may run with the
// options' types and compute mode, at least where rows are aligned. Thread counts above the device's limit are no obstacle:
// kernels then give each thread more outputs.
func (d *Device) Fits(s *tile.Shape, o Options) bool {
	return d.refuse(s, o.arithmetic(d, false), o.dressed(d)) == nil || d.refuse(s, o.arithmetic(d, true), o.dressed(d)) == nil
}

// refuse says why a tile does not fit.
func (d *Device) refuse(s *tile.Shape, c Compute, dressed bool) error {
	k := d.Kernel(s)
	switch {
	case k == nil && s.Unit.Tensor():
		return invalid.Errorf("tile %v needs tensor cores (%s), which device %s has not", s, s.Unit, d.Name)
	case k == nil:
		return invalid.Errorf("tile %v: device %s has no kernels of it", s, d.Name)
	case dressed && !k.Epilogues:
		return invalid.Errorf("tile %v: device %s has no kernels of it for epilogues", s, d.Name)
	case c == computeBytes && s.Wide():
		return invalid.Errorf("tile %v: device %s has no kernels of it for elements of 8 bits, but along K in rows that begin with 16 bytes", s, d.Name)
	case c.narrow() && d.Rate(k, c).Efficiency == 0:
		return invalid.Errorf("tile %v: device %s has no kernels of it for elements of %d bits", s, d.Name, c.bits())
	case !c.narrow() && s.HalvesOnly():
		return invalid.Errorf("tile %v: device %s has kernels of it for elements of 16 bits alone", s, d.Name)
	case s.Unit.Tensor() && c == ComputeF32:
		return invalid.Errorf("tile %v uses tensor cores, compute mode %s does not allow them", s, c)
	case k.Shared > d.GroupShared:
		return invalid.Errorf("tile %v needs %d bytes of workgroup memory, device %s has %d", s, k.Shared, d.Name, d.GroupShared)
	}
	return nil
}

// sort puts the problems that need work in launch order.
//
// A CPU takes many problems as they come, but for the longest: they lie in memory one behind
// the other, and it fetches what follows (4096 of 8 to 32: 1.5 times as fast). Work is even
// all the same.
func (p *builder) sort() {
	order := p.sorter.Reserve(len(p.Batch))[:0]
	inOrder := p.model.family.counter && len(p.Batch) >= manyProblems*p.device.ComputeUnits
	for i := range p.Batch {
		q := &p.Batch[i]
		if !p.Options.Epilogue.Writes(q) {
			continue
		}
		depth := q.depth()
		if inOrder {
			depth = depth / longDepth * longDepth
		}
		kernel := int64(p.choice[i])<<2 | q.transposition()
		order = append(order, radix.Key{By: kernel<<32 | int64(MaxDim-depth), Index: int32(i)})
	}
	p.order = p.sorter.Sort(order)
}

const (
	// manyProblems for each compute unit make the order of all but long ones matter little
	// for how even the work is.
	manyProblems = 32
	longDepth    = 2048
)

// transposition tells apart the kernels of one tile shape: 2 for A, 1 for B.
func (p *Problem) transposition() (bits int64) {
	if p.TransA {
		bits |= 2
	}
	if p.TransB {
		bits |= 1
	}
	return bits
}

// deal turns the sorted problems into launches.
func (p *builder) deal() error {
	order := p.order
	windowed := p.needsWindows()
	for first := 0; first < len(order); {
		kernel := order[first].By >> 32
		last := first + 1
		for last < len(order) && order[last].By>>32 == kernel {
			last++
		}
		g := &p.group
		*g = p.groupOf(tileID(kernel>>2), kernel&2 != 0, kernel&1 != 0, order[first:last])
		if err := p.room(int64(g.load.tiles)); err != nil {
			return err
		}
		if err := p.dealGroup(g, windowed); err != nil {
			return err
		}
		first = last
	}
	return nil
}

func (p *builder) dealGroup(g *group, windowed bool) error {
	switch c := p.Options.Custom; {
	case windowed:
		return p.dealWindows(g)
	case c != nil:
		return p.dealCustom(g, c)
	}
	return p.dealBy(p.scheduleOf(g), g)
}

func (p *builder) dealBy(s *schedule, g *group) error {
	m := &p.model
	if s.cluster != nil {
		if size := s.cluster(m, g.id, g.load); size > 1 {
			g.Cluster = uint8(size)
		}
	}
	worker, fixup := len(p.Workers)-1, len(p.Fixups)
	if err := s.deal(p, g); err != nil {
		return err
	}
	gemm, sum := s.cost(m, g.id, g.load)
	p.launchGroup(g, s.name, gemm, sum, worker, fixup)
	return nil
}

// launchGroup makes the launches of a group: of the workers from the given one on, and
// of the sums of partial tiles from the given fix-up on, if there are any that the workers do not do.
func (p *builder) launchGroup(g *group, s Schedule, gemm, sum float64, worker, fixup int) {
	tiles, parts := len(p.Fixups)-fixup, p.mostParts(fixup)
	split := tiles > 0
	if g.Parts = split && p.sumsParts(worker, parts); g.Parts {
		p.launch(g, s, gemm+sum, worker, split)
		l := &p.Launches[len(p.Launches)-1]
		l.FirstFixup, l.Finishes = fixup, tiles
		return
	}
	p.launch(g, s, gemm, worker, split)
	if split {
		k := encoding.Kernel{Tile: g.Tile, TypeC: g.TypeC, Fixup: true, Epilogue: g.Epilogue.OfFixup()}
		l := encoding.Launch{Kernel: k, Schedule: string(s), MostParts: parts, Cost: sum}
		p.cutLaunches(l, fixup, len(p.Fixups))
	}
}

// sumsParts reports whether workers sum the parts of tiles, at most so many, themselves: in one launch, which then has all parts of each.
func (p *builder) sumsParts(worker, parts int) bool {
	return p.model.finishes(float64(parts)) && len(p.Workers)-1-worker <= p.mostWorkers(&encoding.Kernel{})
}

// mostParts is the most parts of a tile, of the fix-ups from the given one on.
func (p *builder) mostParts(fixup int) int {
	most := int32(0)
	for i := range p.Fixups[fixup:] {
		most = max(most, p.Fixups[fixup+i].Count)
	}
	return int(most)
}

func (p *builder) groupOf(id tileID, transA, transB bool, problems []radix.Key) group {
	o := &p.Options
	g := group{Kernel: encoding.Kernel{Tile: p.model.tiles[id].shape, TransA: transA, TransB: transB, Type: o.Type, TypeC: o.TypeC, Wide: true,
		Epilogue: o.Epilogue.kernel()}, id: id, problems: problems}
	g.TF32 = p.model.compute == ComputeTF32 && g.Tile.Unit.Tensor()
	for i := range problems {
		q := &p.Batch[problems[i].Index]
		g.Wide = g.Wide && o.wideTile(q)
		g.load.add(g.Tile, q, p.model.products, p.model.roundSize())
	}
	return g
}

// endWorker closes the list of segments of the present worker.
func (p *builder) endWorker() { p.Workers = append(p.Workers, int32(len(p.Segments))) }

// launch makes launches of the workers from first on. A partial tile needs a
// fix-up, so that the dealer's fix-ups tell whether there is one (split).
func (p *builder) launch(g *group, s Schedule, cost float64, first int, split bool) {
	k := g.Kernel
	workers := len(p.Workers) - 1 - first
	k.Loop = len(p.Segments)-int(p.Workers[first]) > workers || k.Epilogue.Gated
	k.Split = split
	p.cutLaunches(encoding.Launch{Kernel: k, Schedule: string(s), Turn: g.turn, Cost: cost}, first, first+workers)
}

// Kept is the elements of the workspace that each worker of a kernel that multiplies has, for the first product of a gated tile.
func (d *Device) Kept(k *encoding.Kernel) int {
	if !k.Epilogue.Gated || !d.family().keeps || k.Tile.KeepsGated(k.Type.Bytes()) {
		return 0
	}
	return k.Tile.TM * k.Tile.TN
}

// mostWorkers is how many workers a launch of a kernel may have.
func (p *builder) mostWorkers(k *encoding.Kernel) int {
	most := maxSegments
	if p.Device.MaxWorkers > 0 {
		most = p.Device.MaxWorkers
	}
	if kept := p.Device.Kept(k); kept > 0 {
		most = min(most, p.Device.spanLimit(element.F32)/kept)
	}
	return most
}

// cutLaunches makes launches of the workers, or the fix-ups, [first, last). Their
// number is bounded by the device's largest grid dimension, so that grids need no
// second dimension and have no empty workgroups.
func (p *builder) cutLaunches(l encoding.Launch, first, last int) {
	limit, kept := p.mostWorkers(&l.Kernel), p.Device.Kept(&l.Kernel)
	p.Cost += l.Cost
	l.SpanA, l.SpanB, l.SpanC, l.SpanB2, l.SpanBias, l.SpanRows = p.ExtentA, p.ExtentB, p.ExtentC, p.ExtentB2, p.ExtentBias, p.ExtentRows
	for total := last - first; first < last; first += l.Count {
		l.First, l.Count = first, min(limit, last-first)
		p.Workspace = max(p.Workspace, l.Count*kept)
		part := l
		part.Cost = l.Cost * float64(l.Count) / float64(total)
		p.Launches = append(p.Launches, part)
	}
}
