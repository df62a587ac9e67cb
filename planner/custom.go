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

// CustomSchedule is a caller's own schedule, for Options.Custom. Its function sees the tiles of a launch and
// deals their K steps to workers. Planner and kernels do the rest, as in the load-balancing abstraction of
// Osama et al. ("A Programming Model for GPU Load Balancing", PPoPP 2023), whose users program schedules
// without touching the computation.
//
// The planner checks that every K step of every tile is dealt once. It places partials in the workspace, and
// sums them in the order of K, whichever worker computed them. No schedule can make results wrong.
type CustomSchedule struct {
	// Name appears in the plan's launches, its explanation and errors. It must differ from "auto" and from
	// all names of Schedules.
	Name string
	// Deal returns the parts of each worker, in the order in which the worker computes them. The planner
	// calls it once for each kernel of a plan, that is for each tile shape and transposition. It does not
	// call it if the batch needs windows: operands that the device cannot bind whole, or K beyond its loop
	// limit. The planner deals these itself.
	//
	// Workers start in the returned order, as places on the device become free. Workers without parts are
	// left out. A worker that exceeds the device's loop limit is cut in two between parts.
	//
	// For reproducible plans, Deal must depend on its argument alone. Concurrent planning calls it
	// concurrently.
	Deal func(Work) [][]Part
}

// Work is the input of Deal: the tiles of one shape and transposition. Deal may keep and change it.
type Work struct {
	Shape  *tile.Shape // of all tiles
	Places int         // workgroups that the device runs at once
	Tiles  []WorkTile  // longest K first; row by row within a problem
}

// WorkTile is one tile of C.
type WorkTile struct {
	Index    int // index in Work.Tiles as given, for Part.Tile: Deal may sort Tiles
	Problem  int // index in the batch
	Row, Col int // in tiles: the tile starts at C[Row*TM, Col*TN]
	// Steps is the number of K steps of TK elements, at least 1. The last step may be shorter. A gated tile
	// counts the steps of both products, and must be dealt whole.
	Steps int
	// Micros is the predicted time of the whole tile, in microseconds, on a compute unit with other tiles to
	// overlap it with. Its steps take equal shares.
	Micros float64
}

// Part is a range of K steps [From, To) of a tile, one segment of the plan. To is greater than From.
type Part struct {
	Tile     int // WorkTile.Index
	From, To int
}

// check fails for a schedule without a function or a valid name, or beside another schedule.
func (c *CustomSchedule) check(o *Options) error {
	_, err := parseSchedule(c.Name)
	switch {
	case err == nil:
		return invalid.Errorf("custom schedule: the name %q is empty, or is one of the planner's", c.Name)
	case c.Deal == nil:
		return invalid.Errorf("custom schedule %s: Deal is nil", c.Name)
	case o.Schedule != "":
		return invalid.Errorf("custom schedule %s: the options also have schedule %s", c.Name, o.Schedule)
	}
	return nil
}

// dealCustom deals a group with the caller's schedule.
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

// bytesOfWork is the memory of a tile or part that a custom schedule sees, besides its segment.
const bytesOfWork = int64(unsafe.Sizeof(WorkTile{}) + unsafe.Sizeof(encoding.Segment{}) +
	4*unsafe.Sizeof(Part{}) + 2*unsafe.Sizeof(uintptr(0)))

// customDeal turns the result of Deal into segments of a plan.
type customDeal struct {
	plan  *builder
	group *group
	name  string
	tiles []encoding.Segment // whole tiles, by WorkTile.Index
	steps []int              // of each
	parts []Part             // of Segments[first:]
	first int
}

// work returns the input of Deal. The checks use a copy of their own.
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

// worker appends the parts of one worker and closes it. It also closes it earlier if its loops would exceed
// the device's limit.
func (d *customDeal) worker(index int, parts []Part) error {
	p, shape := d.plan, d.group.Tile
	turns := 0
	for _, part := range parts {
		if part.Tile < 0 || part.Tile >= len(d.tiles) {
			return invalid.Errorf("schedule %s: worker %d has a part of tile %d of %d", d.name,
				index, part.Tile, len(d.tiles))
		}
		if steps := d.steps[part.Tile]; part.From < 0 || part.From >= part.To || part.To > steps {
			return d.wrong(part.Tile, "worker %d has K steps [%d, %d) of %d", index, part.From,
				part.To, steps)
		}
		if p.model.whole(d.group.id) && part.To-part.From < d.steps[part.Tile] {
			return d.wrong(part.Tile, "worker %d has K steps [%d, %d) alone, but gated tiles are "+
				"not split, nor tiles with scales of blocks or of groups beyond a step", index, part.From,
				part.To)
		}
		s := d.tiles[part.Tile]
		s.K0, s.K1 = int32(part.From*shape.TK), int32(min(part.To*shape.TK, int(s.K1)))
		more := p.model.trips.segment(shape, int(s.K1-s.K0))
		if limit := p.model.trips.most; limit > 0 && turns > 0 && turns+more > limit {
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

// finish checks that the parts of each tile follow each other from the first K step to the last, and assigns
// the slots of split tiles in that order. It returns the number of partials.
func (d *customDeal) finish() (partial int, err error) {
	p, size := d.plan, d.group.SlotWords()
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

// covers fails unless the parts, in order, cover the tile's K steps once.
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

// wrong returns an error that names the schedule, the problem and the tile.
func (d *customDeal) wrong(tile int, format string, args ...any) error {
	s := &d.tiles[tile]
	return invalid.Errorf("schedule %s: problem %d, tile (%d, %d): %s", d.name, s.Problem, s.Row, s.Col,
		fmt.Sprintf(format, args...))
}

// cost predicts the time of the dealt workers and fix-ups, from the given ones on, with that many partials.
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
