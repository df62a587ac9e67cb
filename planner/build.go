package planner

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/bits"
	"slices"

	"github.com/batchgemm/batchgemm/internal/invalid"
)

// scratch is memory that Build reuses. Only the model of the device lives on
// from plan to plan.
type scratch struct {
	model    model
	schedule *schedule // that the options ask for; nil: the cheapest
	overlaps overlaps
	order    []ordered
	tiles    []Segment // of dealLPT, as the next two: tiles, the worker of each, and loads
	owners   []int32
	heap     []workerLoad
	group    group // the one being dealt; here because dealers are called indirectly
}

// ordered is a problem in launch order: by kernel, longest K first.
type ordered struct {
	key     uint64 // kernel << 32 | MaxDim - depth
	problem int32
}

// group is the work of one kernel: problems that share tile shape and
// transposition, longest K first.
type group struct {
	Kernel
	tile     *Tile
	problems []ordered
	load     load
}

// New plans a batch for a device.
func New(d *Device, b Batch, o Options) (*Plan, error) {
	p := new(Plan)
	if err := p.Build(d, b, o); err != nil {
		return nil, invalid.Errorf("%w", err) // planning depends on its arguments alone
	}
	return p, nil
}

// Build replaces p by the plan of another batch and reuses its memory: once p
// has held a plan of that size, Build allocates nothing, unless a custom schedule
// deals. It fails with a *ProblemError when the batch does not pass Check, or when a
// problem's leading dimension is too large for the device to bind one tile; when the
// device does not pass Check; when the batch has too many tiles; and when a custom
// schedule does not deal every K step once. After an error p is not a valid plan.
func (p *Plan) Build(d *Device, b Batch, o Options) error {
	if err := b.check(context.Background(), math.MaxInt, math.MaxInt, math.MaxInt, &p.scratch.overlaps); err != nil {
		return err
	}
	p.Batch = append(p.Batch[:0], b...)
	p.Device, p.Options = *d, o
	p.Choice = slices.Grow(p.Choice[:0], len(b))[:len(b)]
	clear(p.Choice) // of problems that need no work too, which nothing else sets
	p.Segments, p.Fixups, p.Launches = p.Segments[:0], p.Fixups[:0], p.Launches[:0]
	p.Workers = append(p.Workers[:0], 0)
	p.Workspace, p.Cost = 0, 0
	p.ExtentA, p.ExtentB, p.ExtentC = b.Extent()
	if err := p.choose(); err != nil {
		return err
	}
	p.sort()
	if err := p.deal(); err != nil {
		return err
	}
	p.layout()
	p.TLP = p.threadParallelism(TLPEq4)
	return nil
}

// choose sets p.Choice, and p.Options to names that are known.
func (p *Plan) choose() (err error) {
	if p.Options.Schedule, err = ParseSchedule(string(p.Options.Schedule)); err != nil {
		return err
	}
	p.scratch.schedule = p.Options.Schedule.find()
	if c := p.Options.Custom; c != nil {
		if err = c.check(&p.Options); err != nil {
			return err
		}
		p.scratch.schedule = ScheduleDataParallel.find() // by whose cost tiles are chosen
	}
	if p.Options.Rule, err = ParseRule(string(p.Options.Rule)); err != nil {
		return err
	}
	if p.Options.Compute, err = ParseCompute(string(p.Options.Compute)); err != nil {
		return err
	}
	if err = p.scratch.model.set(&p.Device, p.Options.Compute); err != nil {
		return err
	}
	switch {
	case p.Options.Tile != "":
		return p.chooseTile(p.Options.Tile)
	case p.Options.Rule == RuleZhang2025:
		err = p.chooseZhang()
	default:
		p.chooseByCost()
	}
	p.shrinkToBindings()
	return err
}

// chooseTile takes one shape for all problems.
func (p *Plan) chooseTile(name string) error {
	id, err := TileByName(name)
	if err != nil {
		return err
	}
	if !p.scratch.model.tiles[id].fits {
		return p.Device.refuse(id, p.Options.Compute)
	}
	for i := range p.Choice {
		p.Choice[i] = id
	}
	return nil
}

// schedule is the one asked for, or the cheapest for the group. The algorithm of
// Zhang et al. knows one tile a worker only.
func (p *Plan) schedule(g *group) *schedule {
	switch {
	case p.scratch.schedule != nil:
		return p.scratch.schedule
	case p.Options.Rule == RuleZhang2025:
		return ScheduleDataParallel.find()
	}
	s, _ := p.scratch.model.cheapest(g.Tile, g.load)
	return s
}

// Fits reports whether a workgroup of the tile can run on the device and may run
// in the compute mode. Thread counts above the device's limit are no obstacle:
// kernels then give each thread more outputs.
func (d *Device) Fits(id TileID, c Compute) bool { return d.refuse(id, c) == nil }

// refuse says why a tile does not fit.
func (d *Device) refuse(id TileID, c Compute) error {
	t := &tiles[id]
	switch {
	case t.Unit == UnitMMA && !d.MMA, t.Unit == UnitWGMMA && !d.WGMMA:
		return fmt.Errorf("tile %v needs tensor cores (%s), which device %s has not", t, t.Unit, d.Name)
	case t.Unit != UnitFMA && c == ComputeF32:
		return fmt.Errorf("tile %v uses tensor cores, compute mode %s does not allow them", t, c)
	case t.shared() > d.GroupShared:
		return fmt.Errorf("tile %v needs %d bytes of workgroup memory, device %s has %d", t, t.shared(), d.Name, d.GroupShared)
	}
	return nil
}

// sort puts the problems that need work in launch order.
func (p *Plan) sort() {
	order := p.scratch.order[:0]
	for i := range p.Batch {
		q := &p.Batch[i]
		if !q.Writes() {
			continue
		}
		kernel := uint64(p.Choice[i])<<2 | q.transposition()
		order = append(order, ordered{key: kernel<<32 | uint64(MaxDim-q.depth()), problem: int32(i)})
	}
	slices.SortFunc(order, func(x, y ordered) int {
		if c := cmp.Compare(x.key, y.key); c != 0 {
			return c
		}
		return cmp.Compare(x.problem, y.problem)
	})
	p.scratch.order = order
}

// transposition tells apart the kernels of one tile shape: 2 for A, 1 for B.
func (p *Problem) transposition() (bits uint64) {
	if p.TransA {
		bits |= 2
	}
	if p.TransB {
		bits |= 1
	}
	return bits
}

// deal turns the sorted problems into launches.
func (p *Plan) deal() error {
	order := p.scratch.order
	windowed := p.needsWindows()
	for first := 0; first < len(order); {
		kernel := order[first].key >> 32
		last := first + 1
		for last < len(order) && order[last].key>>32 == kernel {
			last++
		}
		g := &p.scratch.group
		*g = p.group(TileID(kernel>>2), kernel&2 != 0, kernel&1 != 0, order[first:last])
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

// maxSegments bounds a plan whose problems are so large that its arrays would not
// fit in memory: 64 Mi segments take 2 GB, and 3 GB encoded. They are 1 TB of C in
// tiles of 64 x 64. On 32-bit targets it is 4 Mi.
const maxSegments = 1 << (18 + bits.UintSize/8)

// room fails when the plan cannot take n more segments.
func (p *Plan) room(n int64) error {
	if n > int64(maxSegments-len(p.Segments)) {
		return fmt.Errorf("the batch has too many tiles: more than %d", maxSegments)
	}
	return nil
}

func (p *Plan) dealGroup(g *group, windowed bool) error {
	switch c := p.Options.Custom; {
	case windowed:
		return p.dealWindows(g)
	case c != nil:
		return p.dealCustom(g, c)
	}
	p.dealBy(p.schedule(g), g)
	return nil
}

func (p *Plan) dealBy(s *schedule, g *group) {
	m := &p.scratch.model
	if s.cluster != nil {
		if size := s.cluster(m, g.Tile, g.load); size > 1 {
			g.Cluster = uint8(size)
		}
	}
	worker, fixup := len(p.Workers)-1, len(p.Fixups)
	s.deal(p, g)
	gemm, sum := s.cost(m, g.Tile, g.load)
	p.launchGroup(g, s.name, gemm, sum, worker, fixup)
}

// launchGroup makes the launches of a group: of the workers from the given one on, and
// of the sums of partial tiles from the given fix-up on, if there are any.
func (p *Plan) launchGroup(g *group, s Schedule, gemm, sum float64, worker, fixup int) {
	split := len(p.Fixups) > fixup
	p.launch(g, s, gemm, worker, split)
	if split {
		l := Launch{Kernel: Kernel{Tile: g.Tile, Fixup: true}, Schedule: s, Cost: sum}
		p.cutLaunches(l, fixup, len(p.Fixups))
	}
}

func (p *Plan) group(id TileID, transA, transB bool, problems []ordered) group {
	g := group{Kernel: Kernel{Tile: id, TransA: transA, TransB: transB, Wide: true}, tile: &tiles[id], problems: problems}
	g.TF32 = p.Options.Compute == ComputeTF32 && g.tile.Unit != UnitFMA
	for i := range problems {
		q := &p.Batch[problems[i].problem]
		g.Wide = g.Wide && q.wideTile()
		g.load.add(g.tile, q)
	}
	return g
}

// endWorker closes the list of segments of the present worker.
func (p *Plan) endWorker() { p.Workers = append(p.Workers, int32(len(p.Segments))) }

// launch makes launches of the workers from first on. A partial tile needs a
// fix-up, so that the dealer's fix-ups tell whether there is one (split).
func (p *Plan) launch(g *group, s Schedule, cost float64, first int, split bool) {
	k := g.Kernel
	workers := len(p.Workers) - 1 - first
	k.Loop = len(p.Segments)-int(p.Workers[first]) > workers
	k.Split = split
	p.cutLaunches(Launch{Kernel: k, Schedule: s, Cost: cost}, first, first+workers)
}

// cutLaunches makes launches of the workers, or the fix-ups, [first, last). Their
// number is bounded by the device's largest grid dimension, so that grids need no
// second dimension and have no empty workgroups.
func (p *Plan) cutLaunches(l Launch, first, last int) {
	limit := p.Device.MaxWorkers
	if limit <= 0 {
		limit = last - first
	}
	p.Cost += l.Cost
	l.SpanA, l.SpanB, l.SpanC = p.ExtentA, p.ExtentB, p.ExtentC
	for total := last - first; first < last; first += l.Count {
		l.First, l.Count = first, min(limit, last-first)
		part := l
		part.Cost = l.Cost * float64(l.Count) / float64(total)
		p.Launches = append(p.Launches, part)
	}
}
