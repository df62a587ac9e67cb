package planner

import (
	"cmp"
	"fmt"
	"slices"
	"unsafe"

	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/internal/invalid"
	"github.com/batchgemm/batchgemm/internal/tile"
	"github.com/batchgemm/batchgemm/planner/element"
)

// CustomSchedule is a schedule of the caller's own, for Options.Custom: a function that
// sees the tiles of a launch and deals their K steps to workers. All else stays with
// the planner and the kernels, as in the load-balancing abstraction of Osama et al. ("A
// Programming Model for GPU Load Balancing", PPoPP 2023), which lets its users program
// schedules without touching what computes.
//
// The planner checks that every K step of every tile is dealt once, gives partial tiles
// their place in the workspace, and sums them in the order of K whoever computed them:
// results are wrong under no schedule.
type CustomSchedule struct {
	// Name is in the plan's launches, its explanation and errors. It is not that of one
	// of Schedules, nor "auto".
	Name string
	// Deal returns the parts of each worker, in the order in which it computes them. It
	// is called for each kernel of a plan, that is for each tile shape and transposition,
	// unless the batch needs windows (larger than the device can bind, or K beyond its
	// loop limit), which the planner deals alone. Workers start in the order given, as
	// places on the device become free; those without parts are left out. A worker with
	// more than the device's loop limit allows is cut in two between parts.
	//
	// For plans that repeat, Deal depends on its argument alone. Where plans are made
	// concurrently, it is called concurrently.
	Deal func(Work) [][]Part
}

// Work is what a schedule sees of a launch: problems of one tile shape and
// transposition. It is Deal's to keep and to change.
type Work struct {
	Shape  *tile.Shape // of all tiles
	Places int         // workgroups that the device runs at once
	Tiles  []WorkTile  // longest K first; of one problem row by row
}

// WorkTile is one tile of C.
type WorkTile struct {
	Index    int // in Work.Tiles as given, for Part.Tile: Tiles may be sorted
	Problem  int // index in the batch
	Row, Col int // in tiles: the tile starts at C[Row*TM, Col*TN]
	// Steps are the K steps of TK, at least 1. The last may be shorter. Gated units have those of both
	// products, which are dealt whole.
	Steps int
	// Micros is the predicted time of the whole tile in microseconds, of a compute unit
	// that has other tiles to overlap it with; its steps take equal shares.
	Micros float64
}

// Whole is the part that is all of the tile.
func (t WorkTile) Whole() Part { return Part{Tile: t.Index, To: t.Steps} }

// Part is the K steps [From, To) of a tile, one segment of the plan. To is more than
// From.
type Part struct {
	Tile     int // WorkTile.Index
	From, To int
}

// check fails for a schedule that cannot be asked, or that is not the only one.
func (c *CustomSchedule) check(o *Options) error {
	_, err := parseSchedule(c.Name)
	switch {
	case err == nil:
		return invalid.Errorf("custom schedule: its name %q is empty, or one of the planner's", c.Name)
	case c.Deal == nil:
		return invalid.Errorf("custom schedule %s: Deal is nil", c.Name)
	case o.Schedule != "":
		return invalid.Errorf("custom schedule %s: schedule %s is asked for too", c.Name, o.Schedule)
	}
	return nil
}

// dealCustom deals a group by the caller's schedule.
func (p *builder) dealCustom(g *group, c *CustomSchedule) error {
	d := customDeal{plan: p, group: g, name: c.Name, first: len(p.Segments)}
	tiles := int64(g.load.tiles)
	if err := p.ask(tiles*bytesOfWork, "tiles", tiles); err != nil {
		return err
	}
	work, err := d.work()
	if err != nil {
		return err
	}
	parts := c.Deal(work)
	n := 0
	for _, w := range parts {
		n += len(w)
	}
	if err := p.room(int64(n)); err != nil {
		return invalid.Errorf("schedule %s: %w", d.name, err)
	}
	worker, fixup := len(p.Workers)-1, len(p.Fixups)
	for w := range parts {
		if err := d.worker(w, parts[w]); err != nil {
			return err
		}
	}
	partial, err := d.finish()
	if err != nil {
		return err
	}
	gemm, sum := d.cost(worker, fixup, partial)
	p.launchGroup(g, Schedule(d.name), gemm, sum, worker, fixup)
	return nil
}

// bytesOfWork are those of a tile, or part, that a custom schedule sees, besides its segment.
const bytesOfWork = int64(unsafe.Sizeof(WorkTile{}) + unsafe.Sizeof(encoding.Segment{}) +
	4*unsafe.Sizeof(Part{}) + 2*unsafe.Sizeof(uintptr(0)))

// customDeal turns what a schedule has dealt into segments of a plan.
type customDeal struct {
	plan  *builder
	group *group
	name  string
	tiles []encoding.Segment // whole ones, by WorkTile.Index
	steps []int              // of each
	parts []Part             // that Segments[first:] are
	first int
}

// work is the view of the group that the schedule gets; what is checked against is
// kept apart.
func (d *customDeal) work() (Work, error) {
	p, g := d.plan, d.group
	t := &p.model.tiles[g.id]
	w := Work{Shape: g.Tile, Places: t.resident, Tiles: make([]WorkTile, 0, g.load.tiles)}
	d.tiles, d.steps = make([]encoding.Segment, 0, g.load.tiles), make([]int, 0, g.load.tiles)
	err := p.forTiles(g, func(s encoding.Segment, steps int) {
		q := &p.Batch[s.Problem]
		fraction := g.Tile.Fraction(q.M-int(s.Row)*g.Tile.TM, q.N-int(s.Col)*g.Tile.TN)
		w.Tiles = append(w.Tiles, WorkTile{
			Index: len(d.tiles), Problem: int(s.Problem), Row: int(s.Row), Col: int(s.Col),
			Steps: steps, Micros: t.work(fraction, steps),
		})
		d.tiles, d.steps = append(d.tiles, s), append(d.steps, steps)
	})
	return w, err
}

// worker appends the parts of one worker, and closes it, before that too where its
// loops would turn more often than the device allows.
func (d *customDeal) worker(index int, parts []Part) error {
	p, shape := d.plan, d.group.Tile
	turns := 0
	for _, part := range parts {
		if part.Tile < 0 || part.Tile >= len(d.tiles) {
			return invalid.Errorf("schedule %s: worker %d has a part of tile %d, where there are %d", d.name,
				index, part.Tile, len(d.tiles))
		}
		if steps := d.steps[part.Tile]; part.From < 0 || part.From >= part.To || part.To > steps {
			return d.wrong(part.Tile, "worker %d has K steps [%d, %d), where there are %d", index, part.From,
				part.To, steps)
		}
		if p.model.whole(d.group.id) && part.To-part.From < d.steps[part.Tile] {
			return d.wrong(part.Tile, "worker %d has K steps [%d, %d) alone, and tiles of gated units are "+
				"not cut, nor those with scales of blocks or of groups beyond a step", index, part.From,
				part.To)
		}
		s := d.tiles[part.Tile]
		s.K0, s.K1 = int32(part.From*shape.TK), int32(min(part.To*shape.TK, int(s.K1)))
		more := trips(shape, int(s.K1-s.K0)) * p.model.products
		if limit := p.Device.MaxTrips; limit > 0 && turns > 0 && turns+more > limit {
			p.endWorker()
			turns = 0
		}
		turns += more
		p.Segments = append(p.Segments, s)
		d.parts = append(d.parts, part)
	}
	if len(parts) > 0 {
		p.endWorker()
	}
	return nil
}

// trips are the turns of all loops of a thread for a segment of that K, at most: of
// the segment loop, of the K loop, and over a last, partial step.
func trips(t *tile.Shape, depth int) int {
	turns := 1 + depth/t.TK
	if rest := depth % t.TK; rest > 0 {
		turns += 1 + rest
	}
	return turns
}

// finish checks that the parts of each tile follow each other from its first K step to
// the last, and gives those of split tiles their slots, in that order. It returns the
// number of partial tiles.
func (d *customDeal) finish() (partial int, err error) {
	p, size := d.plan, d.group.Tile.TM*d.group.Tile.TN
	order := make([]int, len(d.parts)) // of the parts, by tile and K
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int {
		x, y := &d.parts[i], &d.parts[j]
		return cmp.Or(cmp.Compare(x.Tile, y.Tile), cmp.Compare(x.From, y.From))
	})
	slots := p.slots(d.group)
	for tile := range d.tiles {
		n := 0
		for n < len(order) && d.parts[order[n]].Tile == tile {
			n++
		}
		if err := d.covers(tile, order[:n]); err != nil {
			return 0, err
		}
		if n > 1 {
			if limit := p.Device.spanLimit(element.F32) / size; int(slots.next)+n > limit {
				return 0, d.wrong(tile, "its %d parts are too many: %s can bind %d partial tiles", n,
					p.Device.Name, limit)
			}
			s := &d.tiles[tile]
			p.Fixups = append(p.Fixups, encoding.Fixup{Problem: s.Problem, Row: s.Row, Col: s.Col,
				Slot: slots.next, Count: int32(n)})
			for _, i := range order[:n] {
				p.Segments[d.first+i].Slot = slots.take()
			}
			partial += n
		}
		order = order[n:]
	}
	p.Workspace = max(p.Workspace, slots.end())
	return partial, nil
}

// covers fails unless the parts, in order, cover a tile's K steps once.
func (d *customDeal) covers(tile int, order []int) error {
	next := 0
	for _, i := range order {
		switch part := &d.parts[i]; {
		case part.From > next:
			return d.wrong(tile, "no worker has K steps [%d, %d)", next, part.From)
		case part.From < next:
			return d.wrong(tile, "K steps [%d, %d) are dealt twice", part.From, min(next, part.To))
		default:
			next = part.To
		}
	}
	if steps := d.steps[tile]; next < steps {
		return d.wrong(tile, "no worker has K steps [%d, %d)", next, steps)
	}
	return nil
}

// wrong names the schedule, the problem and the tile of an error.
func (d *customDeal) wrong(tile int, format string, args ...any) error {
	s := &d.tiles[tile]
	return invalid.Errorf("schedule %s: problem %d, tile (%d, %d): %s", d.name, s.Problem, s.Row, s.Col,
		fmt.Sprintf(format, args...))
}

// cost predicts what was dealt: workers and fix-ups from the given ones on, and partial tiles.
func (d *customDeal) cost(worker, firstFixup, partial int) (gemm, fixup float64) {
	p, g := d.plan, d.group
	longest, at := 0, 0
	for w := worker; w < len(p.Workers)-1; w++ {
		steps := 0
		for ; d.first+at < int(p.Workers[w+1]); at++ {
			steps += d.parts[at].To - d.parts[at].From
		}
		longest = max(longest, steps)
	}
	m := &p.model
	gemm = m.launch(g.id, float64(longest), g.load.whole+float64(len(d.parts)-len(d.tiles)), g.load.work,
		g.load.loads, 0, m.family.terms.leave)
	if partial > 0 {
		fixup = m.sums(g.id, float64(len(p.Fixups)-firstFixup), float64(partial),
			float64(p.mostPartials(firstFixup)))
	}
	return gemm, fixup
}
