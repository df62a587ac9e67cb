package planner

import (
	"fmt"
	"math"
	"slices"

	"github.com/batchgemm/batchgemm/internal/tile"
	"github.com/batchgemm/batchgemm/planner/internal/radix"
)

// choose sets p.choice, p.schedule and the plan's tiles.
func (p *builder) choose() (err error) {
	o := &p.Options
	p.schedule = o.Schedule.find()
	if o.Custom != nil || p.schedule == nil && o.Rule == RuleZhang2025 {
		// Tiles of a custom schedule are chosen by the cost of data-parallel, and so are those of the
		// algorithm of Zhang et al., which knows no other schedule.
		p.schedule = ScheduleDataParallel.find()
	}
	p.choice = slices.Grow(p.choice[:0], len(p.Batch))[:len(p.Batch)]
	clear(p.choice) // nothing else sets the choice of problems without work
	switch {
	case o.Tile != "":
		err = p.chooseTile(o.Tile)
	case o.Rule == RuleZhang2025:
		err = p.chooseZhang()
	default:
		err = p.chooseByCost()
	}
	if err != nil {
		return err
	}
	if o.Tile == "" && p.needsWindows() {
		p.shrinkToBindings()
	}
	p.TLPGroups, p.TLP = p.threadParallelism()
	for _, id := range p.choice {
		p.Tiles = append(p.Tiles, p.model.tiles[id].shape)
	}
	return p.ctx.Err()
}

// chooseTile takes one shape, by name, for all problems.
func (p *builder) chooseTile(name string) error {
	id, err := p.model.named(name)
	for i := range p.choice {
		p.choice[i] = id
	}
	return err
}

// named returns a shape by name, if it fits.
func (m *model) named(name string) (tileID, error) {
	for id := range m.tiles {
		t := &m.tiles[id]
		if t.shape.Name != name {
			continue
		}
		if t.fits {
			return tileID(id), nil
		}
		if err := m.device.refuse(t.shape, m.arithmetic, m.withEpilogue); err != nil {
			return 0, err
		}
		return 0, m.only.err(m.device, fmt.Sprintf("tile %v", t.shape))
	}
	shape, err := tile.ByName(name)
	if err != nil {
		return 0, err
	}
	return 0, m.device.refuse(shape, m.arithmetic, m.withEpilogue)
}

// chooseByCost predicts the batch with each tile shape, and with the cheapest shape of each problem, and
// takes the least. Problems of a class are predicted once. Shapes that cut alike share the pieces.
func (p *builder) chooseByCost() error {
	m, c := &p.model, &p.classes
	c.sort(p.Batch, &p.Options.Epilogue, m.grain)
	p.uniform, p.mixed = zeroed(p.uniform, len(m.cuts)), zeroed(p.mixed, len(m.tiles))
	p.pieces = slices.Grow(p.pieces[:0], len(m.cuts))[:len(m.cuts)]
	order := p.sorter.Reserve(len(c.all))[:0]
	for i := range c.all {
		order = append(order, radix.Key{By: int64(math.MaxInt32 - c.all[i].k), Index: int32(i)})
	}
	for _, o := range p.sorter.Sort(order) { // longest first, for rounds
		if err := p.went(1); err != nil {
			return err
		}
		p.chooseForClass(&c.all[o.Index])
	}
	for i, at := range c.of {
		if at >= 0 {
			p.choice[i] = c.all[at].best
		}
	}
	p.takeCheapest()
	return nil
}

// chooseForClass adds a class to the loads of chooseByCost and sets the best shape of the class.
func (p *builder) chooseForClass(c *class) {
	m := &p.model
	of := Sizes{int(c.m) << m.grain[0], int(c.n) << m.grain[1], int(c.k) << m.grain[2]}
	times, pieces, units := int(c.count), p.pieces, m.roundSize()
	for i := range m.cuts {
		pieces[i] = p.uniform[i].add(&m.cuts[i], of, m.products, times, units)
	}
	// A key has the bits of a time, which sort as times do, with the tile in the last bits. This finds
	// minima without branches, which would be mispredicted.
	best := uint64(math.MaxUint64) &^ (mostKernels - 1)
	for id := range m.tiles {
		if t := &m.tiles[id]; t.fits {
			e := &pieces[t.cut]
			micros := max(t.work(e.whole, e.steps), e.loads*t.memory)
			best = min(best, math.Float64bits(micros)&^(mostKernels-1)|uint64(id))
		}
	}
	c.best = tileID(best % mostKernels)
	e, mixed := &pieces[m.tiles[c.best].cut], &p.mixed[c.best]
	mixed.addTiles(e.tiles*times, e.steps, e.whole*float64(times), units)
	mixed.loads += e.loads * float64(times)
}

// zeroed returns n empty loads and reuses the memory of loads.
func zeroed(loads []load, n int) []load {
	loads = slices.Grow(loads[:0], n)[:n]
	clear(loads)
	return loads
}

// severalMargin is the factor by which several tile shapes must beat one. Predictions do not know how long a
// launch waits for the one before it. Without the margin, several shapes took 1.16 to 1.9 times as long as
// the best single shape in 8 of 9 batches (H100).
const severalMargin = 1.25

// takeCheapest takes one tile shape for all problems if its prediction is lower than that of the shapes
// chosen for each.
func (p *builder) takeCheapest() {
	m := &p.model
	best, bestTile, shapes := 0.0, -1, 0
	for id := range m.tiles {
		if p.mixed[id].tiles > 0 {
			_, micros := m.predict(tileID(id), p.schedule, p.mixed[id])
			best += micros
			shapes++
		}
	}
	if shapes > 1 {
		best *= severalMargin
	}
	for id := range m.tiles {
		if m.tiles[id].fits {
			if _, micros := m.predict(tileID(id), p.schedule, p.uniform[m.tiles[id].cut]); micros <= best {
				best, bestTile = micros, id
			}
		}
	}
	if bestTile >= 0 {
		for i := range p.choice {
			p.choice[i] = tileID(bestTile)
		}
	}
}

// class is a set of problems that every tile shape of a model cuts into equally many tiles and K steps.
// Their sizes, in units of the model's grain and rounded up, are equal.
type class struct {
	m, n, k int32 // in these units
	count   int32
	best    tileID
}

// classes sorts problems into classes. Each place of a table holds one class. A displaced class is added
// again when it comes again, which only costs time.
type classes struct {
	all    []class
	of     []int32            // by problem; -1: no work
	recent [1 << places]int32 // 1 + index
}

const places = 8

func (c *classes) sort(b Batch, e *Epilogue, grain [3]uint8) {
	c.all = c.all[:0]
	c.of = slices.Grow(c.of[:0], len(b))[:len(b)]
	clear(c.recent[:])
	for i := range b {
		q := &b[i]
		if !e.Writes(q) {
			c.of[i] = -1
			continue
		}
		m, n, k := ceilShift(q.M, grain[0]), ceilShift(q.N, grain[1]), ceilShift(q.depth(), grain[2])
		at := c.find(int32(m), int32(n), int32(k))
		c.all[at].count++
		c.of[i] = at
	}
}

// find returns the class of these sizes. It looks in two places, and adds the class if neither has it.
func (c *classes) find(m, n, k int32) int32 {
	place := spread(m, n, k)
	for range 2 {
		at := c.recent[place] - 1
		if at < 0 {
			break
		}
		if s := &c.all[at]; s.m == m && s.n == n && s.k == k {
			return at
		}
		place ^= 1
	}
	c.all = append(c.all, class{m: m, n: n, k: k})
	c.recent[place] = int32(len(c.all))
	return int32(len(c.all)) - 1
}

// spread is a multiplicative hash (Knuth) of sizes, with large odd numbers.
func spread(m, n, k int32) uint32 {
	return (uint32(m)*2654435761 + uint32(n)*2246822519 + uint32(k)*3266489917) >> (32 - places)
}
