package planner

import (
	"cmp"
	"math"
	"slices"

	"github.com/batchgemm/batchgemm/internal/invalid"
	"github.com/batchgemm/batchgemm/planner/tile"
)

// elementsOf is the elements of A and B. Nobody waits for those of C.
func elementsOf(m, n, k int) float64 { return float64(m+n) * float64(k) }

// terms are what predictions take of a kind of kernels, besides its rates.
type terms struct {
	// The shares of the shorter of two terms that add to the longer one: of workers that leave, of those with
	// several tiles, or with parts of some, and of clusters.
	leave, batch, part, cluster float64
	fixup, finish               sumCost // in a launch, and without one
}

// sumCost is what sums of parts take, besides a launch if there is one.
type sumCost struct {
	micros    float64 // item, loads one after the other, store
	rate      float64 // bytes a microsecond and compute unit, written and read again
	tileSlots float64 // slots that a tile takes as long as, besides its own
}

// On CUDA those that, together with the rates of the tile table, streamItems and clusterMicros, tell best
// which of 80,000 forced plans of 650 batches are the fastest (H100; docs/results.md), and of sums in a
// launch among 26,000 plans with such launches. That of batch is what keeps plans from workers that take one
// tile after the other, of which predictions see no more than the steps. By WGSL those that do so among 8,300
// plans of 488 batches, of workers that leave and have one tile or a part of one (H100 through Vulkan), and
// that of batch is what 446 plans of the sweep take, of which none was the fastest. Others are older, and
// were not fitted to launches of one kind; what sums take without a launch where it is not measured, as on
// HIP, is taken to be as much as in one.
var (
	termsOnCUDA = terms{leave: 0.46, batch: 1.33, part: 0.53, cluster: 0.85,
		fixup: sumCost{micros: 0.61, rate: 20000, tileSlots: 1.1}, finish: sumCost{micros: 1.15, rate: 13800}}
	termsByWGSL = terms{leave: 0.84, batch: 1.50, part: 0.68, cluster: 0.75,
		fixup:  sumCost{micros: 0.84, rate: 16400, tileSlots: 4.2},
		finish: sumCost{micros: 0.84, rate: 16400, tileSlots: 4.2}}
	termsElsewhere = terms{leave: 0.75, batch: 0.75, part: 0.75, cluster: 0.75,
		fixup: sumCost{micros: 2.0, rate: 6000}, finish: sumCost{micros: 2.0, rate: 6000}}
)

// model is what planning derives from the device and the compute mode alone.
type model struct {
	device *Device
	family *family
	arithmetic
	dressed bool        // kernels are native ones with an epilogue
	only    only        // that plans are kept to
	parts   bool        // there are kernels that sum the parts of tiles
	tiles   []tileModel // by tileID
	cuts    []cut
	grain   [3]uint8 // logarithms of the units of M, N and K in which cuts see sizes

	products int // of each tile: 2 with gated units, whose steps are those of both
	cutsAt   int // as of Epilogue
}

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
	// wide: a row called wide, of operands that it is for. Steps know of odd rows, and launches of uneven
	// tiles are dynamic.
	wide     bool
	clusters bool // there are kernels for them
	cut      int  // of model.cuts

	// What the operands at hand make of it: see model.see.
	stepMicros
	memory float64 // one element of memory, on a saturated compute unit
}

// stepMicros is the microseconds of one K step: on a saturated compute unit, alone on one.
type stepMicros struct{ busy, alone float64 }

// setFor derives the model of plans with options of a batch, whose problems all are as Options.widely says,
// or not.
func (m *model) setFor(d *Device, o *Options, wide bool, b Batch) error {
	m.products, m.cutsAt, m.parts = o.Epilogue.kernel().Products(), o.Epilogue.cutsAt(), o.parts(d)
	return m.set(d, o.arithmetic(d, wide), o.dressed(d), o.only(b))
}

// set derives the model of a device that passes Check and has kernels for the compute mode.
func (m *model) set(d *Device, a arithmetic, dressed bool, keep only) error {
	if m.device == d && m.arithmetic == a && m.dressed == dressed && m.only == keep {
		return nil
	}
	if err := d.Check(); err != nil { // here, so that a planner's next plans do without
		return err
	}
	m.only = keep
	m.derive(d, a, dressed)
	if slices.ContainsFunc(m.tiles, func(t tileModel) bool { return t.fits }) {
		return nil
	}
	m.device = nil
	switch {
	case keep.kernels != nil:
		return errNotReady(d, "no tile")
	case dressed:
		return invalid.Errorf("device %s has no kernels for epilogues", d.Name)
	case a.narrow():
		return invalid.Errorf("device %s has no kernels for elements of %d bits", d.Name, a.bits)
	}
	return invalid.Errorf("device %s has no kernels for compute mode %s", d.Name, a.compute)
}

func (m *model) derive(d *Device, a arithmetic, dressed bool) {
	m.device, m.family, m.arithmetic, m.dressed = d, d.family(), a, dressed
	m.tiles = slices.Grow(m.tiles[:0], len(d.Kernels))[:len(d.Kernels)]
	m.cuts, m.grain = m.cuts[:0], [3]uint8{maxShift, maxShift, maxShift}
	for i := range d.Kernels {
		m.tiles[i] = d.tileModel(&d.Kernels[i], a, dressed)
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
	c := newCut(t)
	c.refine(&m.grain)
	m.cuts = append(m.cuts, c)
	return len(m.cuts) - 1
}

// tileModel derives the part of one tile shape.
func (d *Device) tileModel(k *KernelFacts, a arithmetic, dressed bool) tileModel {
	t, r := k.Tile, d.rate(k, a)
	busy := 2 * float64(t.TM*t.TN*t.TK) / (d.unit() * r.Efficiency)
	alone, wide := max(r.Step, busy), t.AlignedOnly && a.aligned
	if wide || t.Int4Only && t.Unit == tile.WGMMA { // these wait for the L2 cache where all are busy, and not alone
		alone = r.Step
	}
	one := stepMicros{busy, alone}
	return tileModel{
		shape: t, even: one, stepMicros: one, wide: wide,
		worker: r.Worker, fixed: r.Fixed,
		stream: d.stream(r.Stream), along: d.stream(cmp.Or(r.Along, r.Stream)), words: t.Unit == tile.FMA && r.Along > 0,
		rounds:   r.Rounds,
		resident: d.resident(k), fits: d.refuse(t, a, dressed) == nil,
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

// launch predicts the microseconds of a launch of whole workers, of which the longest has that many steps and
// all together have the sum, and so many loads. crowded is as in model.crowded.
//
// There are two terms: the longest worker alone, and the work that each compute unit must do, or the wait for
// memory if that is longer. The longer counts in full, and of the shorter what remains. The model ignores the
// rates of caches, row strides, the order in which workgroups start, and clock changes.
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

// evenly is what a compute unit does of the steps and workers of a launch when all are saturated, or waits
// for memory if that is longer.
func (m *model) evenly(t *tileModel, steps, workers, worker, loads float64) float64 {
	return max(steps*t.busy+workers*worker, loads*t.memory) / m.units()
}

// longer is the longer of two terms, and what remains of the other.
func longer(x, y, remains float64) float64 { return max(x, y) + remains*min(x, y) }

// crowded predicts what the compute unit with most tiles takes at least. One tile more than there are units
// means two on one of them, of which none is shorter than that tile, and so on: equal tiles run in whole
// rounds. Those at edges take less, on average.
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

// together predicts n tiles of so many steps on one compute unit. Of workers that stay there is one at a
// time, or two.
func (m *model) together(id tileID, n, steps float64) float64 {
	t := &m.tiles[id]
	saturated := n * steps * t.busy
	if t.shape.Unit != tile.WGMMA {
		return saturated
	}
	at := max(math.Floor(float64(t.resident)/m.units()), 1)
	return max(saturated, math.Ceil(n/at)*(steps*t.alone+t.worker))
}

// sums predicts the microseconds that it takes to sum the parts of so many tiles, which have so many slots,
// at most `parts` each.
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
	a := o.arithmetic(d, o.allWide(d, b))
	m := model{device: d, family: d.family(), arithmetic: a, tiles: []tileModel{d.tileModel(k, a, false)},
		products: 1, cutsAt: 1, parts: o.parts(d)}
	row, cut := s.find(), newCut(k.Tile) // nil: the cheapest
	var loads [4]load                    // of the kernels that a plan has, one for each transposition
	m.see(m.operands(&o, b, 1))
	b = b.longestFirst()
	for i := range b {
		if q := &b[i]; q.Writes() {
			pieces := cut.pieces(q.M, q.N, q.depth(), 1)
			loads[q.transposition()].add(&pieces, 1, m.roundSize())
		}
	}
	for _, l := range loads {
		_, launch := m.predict(0, row, l)
		micros += launch
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

// cut is a way to cut problems into tiles and steps, which tile shapes share.
type cut struct {
	shape      *tile.Shape // one of them
	tm, tn, tk uint8       // logarithms of its sizes
	partly     bool        // tiles at the edges may take less
}

func newCut(t *tile.Shape) cut {
	return cut{shape: t, tm: shift(t.TM), tn: shift(t.TN), tk: shift(t.TK),
		partly: t.Rates.HalfRows > 0 || t.Rates.HalfCols > 0 || t.Unit == tile.SIMD}
}

// same reports whether a shape cuts problems so.
func (c *cut) same(s *tile.Shape) bool {
	t := c.shape
	return t.TM == s.TM && t.TN == s.TN && t.TK == s.TK &&
		t.Rates.HalfRows == s.Rates.HalfRows && t.Rates.HalfCols == s.Rates.HalfCols &&
		(t.Unit == tile.SIMD) == (s.Unit == tile.SIMD)
}

// refine makes the units of grain so small that problems of the same sizes in units are
// cut alike.
func (c *cut) refine(grain *[3]uint8) {
	tm, tn := c.tm, c.tn
	if c.partly { // for which halves of a tile count
		tm, tn = tm-1, tn-1
	}
	if c.shape.Unit == tile.SIMD {
		tm, tn = 0, 0
	}
	grain[0], grain[1], grain[2] = min(grain[0], tm), min(grain[1], tn), min(grain[2], c.tk)
}

// operands are what predictions know of A and B of a batch besides sizes.
type operands struct {
	elements, size float64 // all together, and the bytes of one
	transB         bool    // B is transposed everywhere
	odd            float64 // the share of odd rows: see Options.oddRows
}

// operands are those of the first of each `step` problems, which stand for all.
func (m *model) operands(o *Options, b Batch, step int) operands {
	all, work := operands{size: o.elementBytes(), transB: true}, 0.0
	for i := 0; i < len(b); i += step {
		q := &b[i]
		if !q.Writes() {
			continue
		}
		all.elements += elementsOf(q.M, q.N, q.depth())
		all.transB = all.transB && q.TransB
		if m.aligned {
			n := float64(q.M) * float64(q.N) * float64(q.depth())
			all.odd += n * o.oddRows(q.A, q.B)
			work += n
		}
	}
	all.elements *= float64(step)
	all.odd /= max(work, 1)
	return all
}

// oddRows is the share of the rows of A and B that begin at odd multiples of 16 bytes, and so within one of
// the memory's sectors of 32.
func (o *Options) oddRows(a, b Matrix) float64 {
	odd := func(m Matrix) float64 {
		switch of := o.Type.Bytes(); {
		case m.LD*of%32 != 0:
			return 0.5 // every other one
		case m.Offset*of%32 != 0:
			return 1
		}
		return 0
	}
	return (odd(a) + odd(b)) / 2
}

// oddLonger is what steps of the rows called wide take more, as a part of what they take, whose rows of A and
// B are all odd. It is of the fit that their rates are of; copies alone take 0.95 more (docs/results.md).
const oddLonger = 1.2

// cachedWords is how much of the wait for a transposed B is left to rows of plain FMA where the cache has all
// of it, since copying words one by one bounds them too: of 30 batches of 1 to 16 rows (H200, fp32; sizes up
// to 1024) choices then take 1.1 percent longer than the best of ten tiles, 10 at most, with none of it 11
// and 93 (docs/rows.md).
const cachedWords = 2. / 3

// see makes predictions those of operands. As much of them as the cache does not have comes from memory: none
// where it has room for all, all where they are twice as large.
func (m *model) see(o operands) {
	bytes, cold := o.elements*o.size, 0.0
	if cache := float64(m.device.Cache); cache > 0 {
		cold = min(max(bytes/cache-1, 0), 1)
	}
	for i := range m.tiles {
		t := &m.tiles[i]
		t.stepMicros = t.even
		if t.wide {
			t.busy *= 1 + oddLonger*o.odd
			t.alone *= 1 + oddLonger*o.odd
		}
		rate, waits := t.stream, cold
		if o.transB {
			rate = t.along
			if t.words {
				waits = max(cold, cachedWords)
			}
		}
		if t.memory = 0; rate > 0 {
			t.memory = waits * o.size / rate
		}
	}
}
