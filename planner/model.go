package planner

import (
	"cmp"
	"slices"

	"github.com/batchgemm/batchgemm/internal/invalid"
	"github.com/batchgemm/batchgemm/internal/tile"
)

// model is what planning derives from the device and the compute mode alone.
type model struct {
	device *Device
	family *family
	arithmetic
	withEpilogue bool        // kernels are native ones with an epilogue
	only         only        // that plans are kept to
	parts        bool        // there are kernels that sum the parts of tiles
	tiles        []tileModel // by tileID
	cuts         []cut
	grain        [3]uint8 // logarithms of the units of M, N and K in which cuts see sizes

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
	// aligned: an aligned row, of operands that it is for. Steps know of odd rows, and launches of uneven
	// tiles are dynamic.
	aligned  bool
	clusters bool // there are kernels for them
	cut      int  // of model.cuts

	// What the operands at hand make of it: see model.see.
	stepMicros
	memory float64 // one element of memory, on a saturated compute unit
}

// stepMicros is the microseconds of one K step: on a saturated compute unit, alone on one.
type stepMicros struct{ busy, alone float64 }

// setFor derives the model of plans with options of a batch, whose problems all are as Options.fast says,
// or not.
func (m *model) setFor(d *Device, o *Options, fast bool, b Batch) error {
	m.products, m.cutsAt, m.parts = o.Epilogue.kernel().Products(), o.Epilogue.cutsAt(), o.parts(d)
	return m.set(d, o.arithmetic(d, fast), o.withEpilogue(d), o.only(b))
}

// set derives the model of a device that passes Check and has kernels for the compute mode.
func (m *model) set(d *Device, a arithmetic, withEpilogue bool, keep only) error {
	if m.device == d && m.arithmetic == a && m.withEpilogue == withEpilogue && m.only == keep {
		return nil
	}
	if err := d.Check(); err != nil { // here, so that a planner's next plans do without
		return err
	}
	m.only = keep
	m.derive(d, a, withEpilogue)
	if slices.ContainsFunc(m.tiles, func(t tileModel) bool { return t.fits }) {
		return nil
	}
	m.device = nil
	switch {
	case keep.kernels != nil:
		return errNotReady(d, "no tile")
	case withEpilogue:
		return invalid.Errorf("device %s has no kernels for epilogues", d.Name)
	case a.narrow():
		return invalid.Errorf("device %s has no kernels for elements of %d bits", d.Name, a.bits)
	}
	return invalid.Errorf("device %s has no kernels for compute mode %s", d.Name, a.compute)
}

func (m *model) derive(d *Device, a arithmetic, withEpilogue bool) {
	m.device, m.family, m.arithmetic, m.withEpilogue = d, d.family(), a, withEpilogue
	m.tiles = slices.Grow(m.tiles[:0], len(d.Kernels))[:len(d.Kernels)]
	m.cuts, m.grain = m.cuts[:0], [3]uint8{maxShift, maxShift, maxShift}
	for i := range d.Kernels {
		m.tiles[i] = d.tileModel(&d.Kernels[i], a, withEpilogue)
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
func (d *Device) tileModel(k *KernelFacts, a arithmetic, withEpilogue bool) tileModel {
	t, r := k.Tile, d.rate(k, a)
	busy := 2 * float64(t.TM*t.TN*t.TK) / (d.unit() * r.Efficiency)
	alone, aligned := max(r.Step, busy), t.Aligned && a.aligned
	if aligned || t.Int4Only && t.Unit == tile.WGMMA {
		alone = r.Step // where all are busy, they wait for the L2 cache
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

// elementsOf is the elements of A and B. Nobody waits for those of C.
func elementsOf(m, n, k int) float64 { return float64(m+n) * float64(k) }

// oddRows is the share of the rows of A and B that begin at odd multiples of 16 bytes, and so within one of
// the memory's sectors of 32.
func (o *Options) oddRows(a, b Matrix) float64 {
	odd := func(m Matrix) float64 {
		switch of := o.TypeA.Bytes(); {
		case m.LD*of%32 != 0:
			return 0.5 // every other one
		case m.Offset*of%32 != 0:
			return 1
		}
		return 0
	}
	return (odd(a) + odd(b)) / 2
}

// oddLonger is what steps of aligned rows take more, as a part of what they take, whose rows of A and
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
		if t.aligned {
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
