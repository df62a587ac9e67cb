package planner

import (
	"cmp"
	"slices"

	"github.com/batchgemm/batchgemm/internal/elemtype"
	"github.com/batchgemm/batchgemm/internal/invalid"
	"github.com/batchgemm/batchgemm/internal/tile"
	"github.com/batchgemm/batchgemm/planner/element"
)

// model is what planning derives from the device and the compute mode.
type model struct {
	device *Device
	family *family
	arithmetic
	withEpilogue bool        // kernels are native ones with an epilogue
	only         only        // restricts the tile shapes of plans
	parts        bool        // kernels can sum partials
	tiles        []tileModel // by tileID
	cuts         []cut
	grain        [3]uint8 // base-2 logarithms of the units in which cuts see M, N and K

	sumsOf   element.Type
	trips    tripLimit
	products int // of each tile: 2 with gated units, whose steps count both products
	cutsAt   int // see Epilogue.cutsAt
}

// tileModel is a tile shape on the device: its rates in microseconds, and its places.
type tileModel struct {
	shape         *tile.Shape
	even          stepMicros // if the rows of A and B are even: see Options.oddRows
	worker, fixed float64    // as in Rate
	stream, along float64    // as in tile.Rate, limited by memory; 0: no known limit
	rounds        float64    // as in tile.Rate
	words         bool       // a transposed B is loaded word by word, at most as fast as along: cachedWords
	resident      int        // workgroups that the device runs at once
	fits          bool
	few           bool // launches take the general kernel
	// aligned: the row is for aligned operands. Its steps count odd rows, and launches of uneven tiles are
	// dynamic.
	aligned  bool
	clusters bool // there are kernels for clusters
	cut      int  // index in model.cuts

	// These depend on the current operands: see model.see.
	stepMicros
	memory float64 // an element from memory, on a saturated compute unit
}

// stepMicros is the time of one K step in microseconds: on a saturated compute unit, and alone on a unit.
type stepMicros struct{ busy, alone float64 }

// setFor derives the model for the options, their arithmetic and the batch of a plan.
func (m *model) setFor(d *Device, o *Options, a arithmetic, b Batch) error {
	m.products, m.cutsAt, m.parts = o.Epilogue.kernel().Products(), o.Epilogue.cutsAt(), o.parts(d)
	m.sumsOf, m.trips = elemtype.Sums(o.TypeA), o.tripLimit(d)
	return m.set(d, a, o.withEpilogue(d), o.only(d, b))
}

// set derives the model of a device that passes Check and has kernels for the compute mode.
func (m *model) set(d *Device, a arithmetic, withEpilogue bool, keep only) error {
	if m.device == d && m.arithmetic == a && m.withEpilogue == withEpilogue && m.only == keep {
		return nil
	}
	if err := d.Check(); err != nil { // here, so that the planner's next plans need no check
		return err
	}
	m.only = keep
	m.derive(d, a, withEpilogue)
	if slices.ContainsFunc(m.tiles, func(t tileModel) bool { return t.fits }) {
		return nil
	}
	m.device = nil
	switch {
	case keep != (only{}):
		return keep.err(d, "no tile")
	case withEpilogue:
		return invalid.Errorf("device %s has no kernels with an epilogue", d.Name)
	case a.sized():
		return invalid.Errorf("device %s has no kernels for %d-bit elements", d.Name, a.bits)
	}
	return invalid.Errorf("device %s has no kernels for compute mode %s", d.Name, a.compute)
}

func (m *model) derive(d *Device, a arithmetic, withEpilogue bool) {
	m.device, m.family, m.arithmetic, m.withEpilogue = d, d.family(), a, withEpilogue
	m.tiles = slices.Grow(m.tiles[:0], len(d.Kernels))[:len(d.Kernels)]
	m.cuts, m.grain = m.cuts[:0], [3]uint8{maxShift, maxShift, maxShift}
	for i := range d.Kernels {
		m.tiles[i] = d.tileModel(&d.Kernels[i], a, withEpilogue)
		if m.tiles[i].fits {
			m.tiles[i].fits, m.tiles[i].few = m.only.allows(m.tiles[i].shape)
			m.tiles[i].cut = m.cutOf(m.tiles[i].shape)
		}
	}
}

// cutOf returns the cut of a shape, and adds it if it is new.
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

// tileModel derives the model of one tile shape.
func (d *Device) tileModel(k *KernelFacts, a arithmetic, withEpilogue bool) tileModel {
	t, r := k.Tile, d.rate(k, a)
	if t.Boxes && a.whole {
		r.Efficiency *= wholeBoxes
		r.Worker -= storedLater
	}
	busy := 2 * float64(t.TM*t.TN*t.TK) / (d.unit() * r.Efficiency)
	alone, aligned := max(r.Step, busy), t.Aligned && a.aligned
	if aligned || t.Int4Only && t.Unit == tile.WGMMA {
		alone = r.Step // if all are busy, they wait for the L2 cache
	}
	one := stepMicros{busy, alone}
	return tileModel{
		shape: t, even: one, stepMicros: one, aligned: aligned,
		worker: r.Worker, fixed: r.Fixed,
		stream: d.stream(r.Stream), along: d.stream(cmp.Or(r.Along, r.Stream)),
		words:    t.Unit == tile.FMA && r.Along > 0,
		rounds:   r.Rounds,
		resident: d.resident(k), fits: d.refuse(t, a, withEpilogue) == nil,
		clusters: k.Clusters && t.Clusters && !withEpilogue,
	}
}

// stream returns a rate, limited by memory.
func (d *Device) stream(rate float64) float64 {
	share := reachable * d.MemoryRate / float64(max(d.ComputeUnits, 1))
	if rate == 0 || share == 0 {
		return max(rate, share)
	}
	return min(rate, share)
}

// reachable is the share of the nominal memory rate that the best kernels reach on an H200.
const reachable = 0.9

// cut is a way to cut problems into tiles and steps. Tile shapes share cuts.
type cut struct {
	shape      *tile.Shape // one of the shapes with this cut
	tm, tn, tk uint8       // base-2 logarithms of its sizes
	partly     bool        // edge tiles may take less
}

func newCut(t *tile.Shape) cut {
	return cut{shape: t, tm: shift(t.TM), tn: shift(t.TN), tk: shift(t.TK),
		partly: t.Rates.HalfRows > 0 || t.Rates.HalfCols > 0 || t.Unit == tile.SIMD}
}

// same reports whether a shape has this cut.
func (c *cut) same(s *tile.Shape) bool {
	t := c.shape
	return t.TM == s.TM && t.TN == s.TN && t.TK == s.TK &&
		t.Rates.HalfRows == s.Rates.HalfRows && t.Rates.HalfCols == s.Rates.HalfCols &&
		(t.Unit == tile.SIMD) == (s.Unit == tile.SIMD)
}

// refine makes the units of grain so small that problems with equal sizes in units are cut alike.
func (c *cut) refine(grain *[3]uint8) {
	tm, tn := c.tm, c.tn
	if c.partly { // half tiles count
		tm, tn = tm-1, tn-1
	}
	if c.shape.Unit == tile.SIMD {
		tm, tn = 0, 0
	}
	grain[0], grain[1], grain[2] = min(grain[0], tm), min(grain[1], tn), min(grain[2], c.tk)
}

// operands is what predictions know of A and B of a batch besides sizes.
type operands struct {
	elements, size float64 // total number, and bytes of each
	transB         bool    // every B is transposed
	odd            float64 // share of odd rows: see Options.oddRows
}

// operands looks at the first of each `step` problems, which stand for all.
func (m *model) operands(o *Options, b Batch, step int) operands {
	all, work := operands{size: o.elementBytes(), transB: true}, 0.0
	for i := 0; i < len(b); i += step {
		q := &b[i]
		if !q.writes() {
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

// elementsOf returns the elements of A and B. No thread waits for those of C.
func elementsOf(m, n, k int) float64 { return float64(m+n) * float64(k) }

// oddRows returns the share of the rows of A and B that start at odd multiples of 16 bytes, in the middle of
// a 32-byte memory sector.
func (o *Options) oddRows(a, b Matrix) float64 {
	odd := func(m Matrix) float64 {
		switch of := o.TypeA.Bytes(); {
		case m.LD*of%32 != 0:
			return 0.5 // every other row
		case m.Offset*of%32 != 0:
			return 1
		}
		return 0
	}
	return (odd(a) + odd(b)) / 2
}

// oddLonger is the extra time of a step of aligned rows if all rows of A and B are odd, as a share of the
// step. It was fitted together with the rates; copies alone take 0.95 more (docs/results.md).
const oddLonger = 1.2

// oddBoxes is the same where boxes are copied (TMA). One product of 4096 x 4096, every other row of which is
// odd, takes 1.22 times as long in bf16, 1.09 in e4m3 and 1.15 in int8, by aligned-128x128 1.76, 1.56 and
// 1.70 (H200).
const oddBoxes = 0.3

// wholeBoxes is how fast tiles of boxes are with int8, of their rate. That is of e4m3, whose sums of a step
// are added in registers: there larger tiles gain more.
const wholeBoxes = 0.81

// storedLater is what a worker's share takes less with int8, in the unit of rates: its tiles are stored while
// the next one is multiplied, those of e4m3 are not.
const storedLater = 1

// cachedWords is the share of the wait for a transposed B that remains if the cache holds all of B. Rows of
// plain FMA copy it word by word, which also bounds them. Of 30 batches of 1 to 16 rows (H200, fp32; sizes
// up to 1024), choices with 2/3 take 1.1 percent longer than the best of ten tiles, 10 at most. With 0 they
// take 11 and 93 percent longer (docs/rows.md).
const cachedWords = 2. / 3

// see adapts predictions to operands. What the cache does not hold comes from memory: nothing if the cache
// has room for all, everything if they are twice as large.
func (m *model) see(o operands) {
	bytes, cold := o.elements*o.size, 0.0
	if cache := float64(m.device.Cache); cache > 0 {
		cold = min(max(bytes/cache-1, 0), 1)
	}
	for i := range m.tiles {
		t := &m.tiles[i]
		t.stepMicros = t.even
		if t.aligned {
			longer := oddLonger
			if t.shape.Boxes {
				longer = oddBoxes
			}
			t.busy *= 1 + longer*o.odd
			t.alone *= 1 + longer*o.odd
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
