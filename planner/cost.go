package planner

import (
	"cmp"
	"math"
	"slices"

	"github.com/batchgemm/batchgemm/internal/invalid"
	"github.com/batchgemm/batchgemm/planner/encoding"
	"github.com/batchgemm/batchgemm/planner/internal/radix"
	"github.com/batchgemm/batchgemm/planner/tile"
)

// load is the work of one launch, in K steps of one tile shape.
type load struct {
	tiles   int     // workers of the data-parallel schedule
	steps   float64 // of all tiles
	longest int     // steps of the longest tile
	// Tiles and their steps in terms of whole tiles: see Tile.HalfRows.
	whole, work float64
	loads       float64 // elements of A and B, as loadsOf has them
	// Where tiles were added longest first: the steps of the first one behind a round of as many as there are compute units,
	// behind two rounds, and so on.
	behind [mostRounds]int32
	rounds int
}

// mostRounds: beyond, a tile more or less on a compute unit matters little.
const mostRounds = 6

// equal reports whether all tiles have the same number of steps.
func (l *load) equal() bool { return l.steps == float64(l.tiles)*float64(l.longest) }

// add adds the tiles of a problem, each of so many products. units are as in addTiles.
func (l *load) add(t *tile.Shape, q *Problem, products, units int) {
	n, steps := count(t, q)
	l.addTiles(n, steps*products, wholeTiles(t, q.M, q.N), units)
	l.loads += loadsOf(q.M, q.N, q.depth(), ceilDiv(q.M, t.TM), ceilDiv(q.N, t.TN))
}

// elementsOf is the elements of A and B. Nobody waits for those of C.
func elementsOf(m, n, k int) float64 { return float64(m+n) * float64(k) }

// loadsOf is those that rows and columns of so many tiles load: what was loaded before comes from the cache, in a
// quarter of the time (gradients of experts by tiles of 64 and of 128 rows, H200).
func loadsOf(m, n, k, down, across int) float64 {
	return elementsOf(m, n, k)*3/4 + float64(m*across+n*down)*float64(k)/4
}

// addTiles adds n tiles of the same number of steps, which take as long as so many whole ones. units are the size of a round,
// or 0 where tiles do not come longest first, or rounds are of no interest.
func (l *load) addTiles(n, steps int, whole float64, units int) {
	l.tiles += n
	for units > 0 && l.rounds < mostRounds && l.tiles > (l.rounds+1)*units {
		l.behind[l.rounds] = int32(steps)
		l.rounds++
	}
	l.steps += float64(n) * float64(steps)
	l.longest = max(l.longest, steps)
	l.whole += whole
	l.work += whole * float64(steps)
}

// terms are what predictions take of a kind of kernels, besides its rates.
type terms struct {
	// The shares of the shorter of two terms that add to the longer one: of workers that leave, of those with several tiles, or with
	// parts of some, and of clusters.
	leave, batch, part, cluster float64
	fixup, finish               sumCost // in a launch, and without one
}

// sumCost is what sums of parts take, besides a launch if there is one.
type sumCost struct {
	micros    float64 // item, loads one after the other, store
	rate      float64 // bytes a microsecond and compute unit, written and read again
	tileSlots float64 // slots that a tile takes as long as, besides its own
}

// On CUDA those that, together with the rates of the tile table, streamItems and clusterMicros, tell best which of 80,000 forced
// plans of 650 batches are the fastest (H100; docs/results.md), and of sums in a launch among 26,000 plans with such launches. That of batch is
// what keeps plans from workers that take one tile after the other, of which predictions see no more than the steps. By WGSL those that do so
// among 8,300 plans of 488 batches, of workers that leave and have one tile or a part of one (H100 through Vulkan), and that of batch is what 446 plans of
// the sweep take, of which none was the fastest. Others are older, and were not
// fitted to launches of one kind; what sums take without a launch where it is not measured, as on HIP, is taken to be as much as in one.
var (
	termsOnCUDA = terms{leave: 0.46, batch: 1.33, part: 0.53, cluster: 0.85,
		fixup: sumCost{micros: 0.61, rate: 20000, tileSlots: 1.1}, finish: sumCost{micros: 1.15, rate: 13800}}
	termsByWGSL = terms{leave: 0.84, batch: 1.50, part: 0.68, cluster: 0.75,
		fixup: sumCost{micros: 0.84, rate: 16400, tileSlots: 4.2}, finish: sumCost{micros: 0.84, rate: 16400, tileSlots: 4.2}}
	termsElsewhere = terms{leave: 0.75, batch: 0.75, part: 0.75, cluster: 0.75,
		fixup: sumCost{micros: 2.0, rate: 6000}, finish: sumCost{micros: 2.0, rate: 6000}}
)

// model is what planning derives from the device and the compute mode alone.
type model struct {
	device  *Device
	family  *family
	compute Compute
	dressed bool        // kernels are native ones with an epilogue
	only    only        // that plans are kept to
	parts   bool        // there are kernels that sum the parts of tiles
	tiles   []tileModel // by tileID
	cuts    []cut
	grain   [3]uint8 // logarithms of the units of M, N and K in which cuts see sizes

	products int // of each tile: 2 with gated units, whose steps are those of both
	cutsAt   int // as of Epilogue
}

// setEpilogue sets what planning derives from an epilogue besides.
func (m *model) setEpilogue(e *Epilogue) { m.products, m.cutsAt = e.kernel().Products(), e.cutsAt() }

// tileModel is a tile shape on the device: its rate in microseconds, and places.
type tileModel struct {
	shape         *tile.Shape
	even          stepMicros // of rows of A and B that are even: see Options.oddRows
	worker, fixed float64    // as in Rate
	stream, along float64    // as in tile.Rate, as far as memory gives it; 0: no limit is known
	rounds        float64    // as in tile.Rate
	words         bool       // a transposed B comes word by word, as fast as along at best: see cachedWords
	resident      int        // workgroups that the device runs at once
	fits          bool
	wide          bool // a row called wide, of operands that it is for: steps know of odd rows, and launches of uneven tiles take turns
	clusters      bool // there are kernels for them
	cut           int  // of model.cuts

	// What the operands at hand make of it: see model.see.
	stepMicros
	memory float64 // one element of memory, on a saturated compute unit
}

// stepMicros is the microseconds of one K step: on a saturated compute unit, alone on one.
type stepMicros struct{ busy, alone float64 }

// work is what whole tiles of that many K steps each take of a saturated compute
// unit, in microseconds.
func (t *tileModel) work(tiles float64, steps int) float64 {
	return tiles * (float64(steps)*t.busy + t.worker)
}

// set derives the model of a device that passes Check and has kernels for the compute mode.
func (m *model) set(d *Device, c Compute, dressed bool, keep only) error {
	if m.device == d && m.compute == c && m.dressed == dressed && m.only == keep {
		return nil
	}
	if err := d.Check(); err != nil { // here, so that a planner's next plans do without
		return err
	}
	m.only = keep
	m.derive(d, c, dressed)
	if slices.ContainsFunc(m.tiles, func(t tileModel) bool { return t.fits }) {
		return nil
	}
	m.device = nil
	switch {
	case keep.kernels != nil:
		return errNotReady(d, "no tile")
	case dressed:
		return invalid.Errorf("device %s has no kernels for epilogues", d.Name)
	case c.narrow():
		return invalid.Errorf("device %s has no kernels for elements of %d bits", d.Name, c.bits())
	}
	return invalid.Errorf("device %s has no kernels for compute mode %s", d.Name, c)
}

func (m *model) derive(d *Device, c Compute, dressed bool) {
	m.device, m.family, m.compute, m.dressed = d, d.family(), c, dressed
	m.tiles = slices.Grow(m.tiles[:0], len(d.Kernels))[:len(d.Kernels)]
	m.cuts, m.grain = m.cuts[:0], [3]uint8{maxShift, maxShift, maxShift}
	for i := range d.Kernels {
		m.tiles[i] = d.tileModel(&d.Kernels[i], c, dressed)
		m.tiles[i].fits = m.tiles[i].fits && m.only.allows(m.tiles[i].shape)
		m.tiles[i].cut = m.cutOf(m.tiles[i].shape)
	}
}

// cutOf finds the cut of a shape, or adds it.
func (m *model) cutOf(t *tile.Shape) int {
	for i := range m.cuts {
		if m.cuts[i].same(t) {
			return i
		}
	}
	c := cut{shape: t, tm: shift(t.TM), tn: shift(t.TN), tk: shift(t.TK), partly: t.HalfRows > 0 || t.HalfCols > 0 || t.Unit == tile.SIMD}
	c.refine(&m.grain)
	m.cuts = append(m.cuts, c)
	return len(m.cuts) - 1
}

// tileModel derives the part of one tile shape.
func (d *Device) tileModel(k *KernelFacts, c Compute, dressed bool) tileModel {
	t, r := k.Tile, d.Rate(k, c)
	busy := 2 * float64(t.TM*t.TN*t.TK) / (d.unit() * r.Efficiency)
	alone, wide := max(r.Step, busy), t.Wide() && c.wide()
	if wide || t.Int4Only() && t.Unit == tile.WGMMA { // which wait for the L2 cache where all are busy, and not alone
		alone = r.Step
	}
	one := stepMicros{busy, alone}
	return tileModel{
		shape: t, even: one, stepMicros: one, wide: wide,
		worker: r.Worker, fixed: r.Fixed, stream: d.stream(r.Stream), along: d.stream(cmp.Or(r.Along, r.Stream)), words: t.Unit == tile.FMA && r.Along > 0,
		rounds:   r.Rounds,
		resident: d.resident(k), fits: d.refuse(t, c, dressed) == nil,
		clusters: k.Clusters && t.Clusters && !dressed,
	}
}

// stream is the one of a rate, as far as memory gives it.
func (d *Device) stream(rate float64) float64 {
	share := reachable * d.MemoryRate / float64(max(d.ComputeUnits, 1))
	if rate == 0 || share == 0 {
		return max(rate, share)
	}
	return min(rate, share)
}

// reachable is the share of its memory's nominal rate that the best kernels get of an H200.
const reachable = 0.9

// launch predicts the microseconds of a launch of whole workers, of which the longest
// has that many steps and all together have the sum, and so many loads. crowded is as in model.crowded.
//
// There are two terms: the longest worker alone, and the work that each compute
// unit must do, or the wait for memory if that is longer. The longer counts in full, and of the shorter what remains.
// The model ignores the rates of caches, row strides, the order in which workgroups start, and clock changes.
func (m *model) launch(id tileID, longest, workers, sum, loads, crowded, remains float64) float64 {
	t, d := &m.tiles[id], m.device
	chain := t.fixed + longest*t.alone
	if workers > float64(t.resident) {
		chain += t.fixed // of the workgroups that had to wait; later ones overlap
	}
	worker := t.worker
	if t.shape.Unit == tile.WGMMA {
		worker += t.fixed // a unit has one worker or two, which leave the start of the next uncovered
	}
	work := m.evenly(t, sum, workers, worker, loads)
	if m.family.counter {
		// Threads are busy until nothing is left: all but the last then wait for half of the
		// longest tile, on average.
		return d.LaunchMicros + math.Max(chain, work+(1-1/m.units())/2*chain)
	}
	return d.LaunchMicros + longer(chain, max(work, crowded), remains)
}

// units is the device's compute units, at least one.
func (m *model) units() float64 { return float64(max(m.device.ComputeUnits, 1)) }

// roundSize is the size of a round in loads. Rates of other kernels were found without.
func (m *model) roundSize() int {
	if m.family.rounds {
		return m.device.ComputeUnits
	}
	return 0
}

// evenly is what a compute unit does of the steps and workers of a launch when all are saturated, or waits for memory if that is longer.
func (m *model) evenly(t *tileModel, steps, workers, worker, loads float64) float64 {
	return max(steps*t.busy+workers*worker, loads*t.memory) / m.units()
}

// longer is the longer of two terms, and what remains of the other.
func longer(x, y, remains float64) float64 { return max(x, y) + remains*min(x, y) }

// crowded predicts what the compute unit with most tiles takes at least. One tile more than there are units means two on one of
// them, of which none is shorter than that tile, and so on: equal tiles run in whole rounds. Those at edges take less, on average.
func (m *model) crowded(id tileID, l *load) float64 {
	if l.rounds == 0 { // there may be no tile
		return 0
	}
	most := 0.0
	for i := range l.rounds {
		most = max(most, m.together(id, float64(i+2), float64(l.behind[i])))
	}
	return most * l.whole / float64(l.tiles)
}

// together predicts n tiles of so many steps on one compute unit. Of workers that stay there is one at a time, or two.
func (m *model) together(id tileID, n, steps float64) float64 {
	t := &m.tiles[id]
	saturated := n * steps * t.busy
	if t.shape.Unit != tile.WGMMA {
		return saturated
	}
	at := max(math.Floor(float64(t.resident)/m.units()), 1)
	return max(saturated, math.Ceil(n/at)*(steps*t.alone+t.worker))
}

// clusters predicts the microseconds of a launch in which clusters share the tiles
// of l.
func (m *model) clusters(id tileID, l load, size int) float64 {
	n := float64(size)
	longest := math.Ceil(float64(l.longest) / n)
	return clusterMicros + m.launch(id, longest, float64(l.tiles)*n, math.Max(l.steps, float64(l.tiles)*n), l.loads, 0, m.family.terms.cluster)
}

// clusterMicros is what the thread groups of a cluster wait for each other, and
// for sums from each other's shared memory.
const clusterMicros = 0.90

// finishes reports whether whoever stores the last part of a tile sums them, if they are at most so many, and not a launch
// behind it: wherever it can, which was as fast or up to 5 us faster in 54 of 55 batches (H200).
func (m *model) finishes(parts float64) bool { return m.parts && parts <= encoding.MaxParts }

// sums predicts the microseconds that it takes to sum the parts of so many tiles, which have so many slots, at most `parts`
// each.
func (m *model) sums(id tileID, tiles, slots, parts float64) float64 {
	d := m.device
	size := float64(4 * m.tiles[id].shape.TM * m.tiles[id].shape.TN)
	cost, launch := &m.family.terms.fixup, d.LaunchMicros
	if m.finishes(parts) {
		cost, launch = &m.family.terms.finish, 0
	}
	return launch + cost.micros + (slots+cost.tileSlots*tiles)*size/(cost.rate*m.units())
}

// Predict is what the model says of a plan that takes one tile shape for all
// problems: its Cost in microseconds, found without making it. Of two cases it
// knows nothing: that a batch needs windows, which take more launches; and that the
// shares of Stream-K may end at tiles, which leaves nothing to sum. Device and batch must
// have passed Check; the kernels are of the device, and whether they can run is what Fits
// says.
func (d *Device) Predict(b Batch, k *KernelFacts, s Schedule, c Compute) (micros float64) {
	o := Options{Compute: c}
	c = o.arithmetic(d, o.allWide(d, b))
	m := model{device: d, family: d.family(), compute: c, tiles: []tileModel{d.tileModel(k, c, false)}, products: 1, cutsAt: 1, parts: o.parts(d, c)}
	row := s.find()   // nil: the cheapest
	var loads [4]load // of the kernels that a plan has, one for each transposition
	m.see(m.operands(&o, b, 1))
	b = b.longestFirst()
	for i := range b {
		if q := &b[i]; q.Writes() {
			loads[q.transposition()].add(k.Tile, q, 1, m.roundSize())
		}
	}
	for _, l := range loads {
		micros += m.predict(0, row, l)
	}
	return micros
}

// longestFirst is the batch in the order in which its problems are dealt; itself where they lie so.
func (b Batch) longestFirst() Batch {
	longer := func(x, y Problem) int { return cmp.Compare(y.depth(), x.depth()) }
	if slices.IsSortedFunc(b, longer) {
		return b
	}
	b = slices.Clone(b)
	slices.SortFunc(b, longer)
	return b
}

// chooseByCost predicts every tile shape for the whole batch, and the cheapest
// shape for each problem on its own, and takes the least. Problems of a class are
// predicted as one, and shapes that cut alike share what there is to cut.
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

// chooseForClass adds a class to the loads of chooseByCost and sets its best shape.
func (p *builder) chooseForClass(c *class) {
	m := &p.model
	rows, cols, depth := int(c.m)<<m.grain[0], int(c.n)<<m.grain[1], int(c.k)<<m.grain[2]
	times, pieces, units := int(c.count), p.pieces, m.roundSize()
	for i := range m.cuts {
		t, e := &m.cuts[i], &pieces[i]
		down, across := ceilShift(rows, t.tm), ceilShift(cols, t.tn)
		e.tiles, e.steps = down*across, max(ceilShift(depth, t.tk), 1)*m.products
		e.loads = loadsOf(rows, cols, depth, down, across)
		if e.whole = float64(e.tiles); t.partly {
			e.whole = wholeTiles(t.shape, rows, cols)
		}
		p.uniform[i].addTiles(e.tiles*times, e.steps, e.whole*float64(times), units)
		p.uniform[i].loads += e.loads * float64(times)
	}
	// Bits of times, which are in order as times are, with the tile in the last: minima
	// without branches, which would be guesses.
	best := uint64(math.MaxUint64) &^ (mostKernels - 1)
	for id := range m.tiles {
		if t := &m.tiles[id]; t.fits {
			e := &pieces[t.cut]
			best = min(best, math.Float64bits(max(t.work(e.whole, e.steps), e.loads*t.memory))&^(mostKernels-1)|uint64(id))
		}
	}
	c.best = tileID(best % mostKernels)
	e := &pieces[m.tiles[c.best].cut]
	p.mixed[c.best].addTiles(e.tiles*times, e.steps, e.whole*float64(times), units)
	p.mixed[c.best].loads += e.loads * float64(times)
}

// pieces is what a problem is cut into.
type pieces struct {
	tiles, steps int
	whole        float64 // tiles in terms of whole ones
	loads        float64 // as in load
}

// zeroed is n empty loads, in the memory of others.
func zeroed(loads []load, n int) []load {
	loads = slices.Grow(loads[:0], n)[:n]
	clear(loads)
	return loads
}

// maxShift is the logarithm of the largest size of a tile.
const maxShift = 7

// severalMargin is by how much several tile shapes must be better than one: predictions know nothing of what a launch waits for the one
// in front. Without it they took 1.16 to 1.9 times as long as the best shape alone in 8 of 9 batches (H100).
const severalMargin = 1.25

// takeCheapest takes one tile shape for all problems if that is predicted to take
// less than what was chosen for each.
func (p *builder) takeCheapest() {
	m := &p.model
	best, bestTile, shapes := 0.0, -1, 0
	for id := range m.tiles {
		if p.mixed[id].tiles > 0 {
			best += m.predict(tileID(id), p.schedule, p.mixed[id])
			shapes++
		}
	}
	if shapes > 1 {
		best *= severalMargin
	}
	for id := range m.tiles {
		if m.tiles[id].fits {
			if c := m.predict(tileID(id), p.schedule, p.uniform[m.tiles[id].cut]); c <= best {
				best, bestTile = c, id
			}
		}
	}
	if bestTile >= 0 {
		for i := range p.choice {
			p.choice[i] = tileID(bestTile)
		}
	}
}
