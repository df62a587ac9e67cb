package planner

import (
	"math"
	"slices"

	"github.com/batchgemm/batchgemm/planner/tile"
)

// load is the work of one launch, in K steps of one tile shape.
type load struct {
	tiles   int     // workers of the data-parallel schedule
	steps   float64 // of all tiles
	longest int     // steps of the longest tile
	// Tiles and their steps in terms of whole tiles: see Tile.HalfRows.
	whole, work float64
}

func (l *load) add(t *tile.Shape, q *Problem) {
	n, steps := count(t, q)
	l.addTiles(n, steps, wholeTiles(t, q))
}

// addTiles adds n tiles of the same number of steps, which take as long as so many whole ones.
func (l *load) addTiles(n, steps int, whole float64) {
	l.tiles += n
	l.steps += float64(n) * float64(steps)
	l.longest = max(l.longest, steps)
	l.whole += whole
	l.work += whole * float64(steps)
}

// overlap is the share of the shorter term that adds to the longer one in cost.
const overlap = 0.75

// model is what planning derives from the device and the compute mode alone.
type model struct {
	device  *Device
	compute Compute
	tiles   []tileModel // by tileID
}

// tileModel is a tile shape on the device: its rate in microseconds, and places.
type tileModel struct {
	shape         *tile.Shape
	busy, alone   float64 // one K step: on a saturated compute unit, alone on one
	worker, fixed float64 // as in Rate
	resident      int     // workgroups that the device runs at once
	fits          bool
	clusters      bool // there are kernels for them
	// Of the tile table, where chooseByCost finds them without divisions: logarithms
	// of its sizes, and whether tiles at the edges take less.
	tm, tn, tk uint8
	partly     bool
}

// work is what whole tiles of that many K steps each take of a saturated compute
// unit, in microseconds.
func (t *tileModel) work(tiles float64, steps int) float64 {
	return tiles * (float64(steps)*t.busy + t.worker)
}

// set derives the model of a device that passes Check.
func (m *model) set(d *Device, c Compute) error {
	if m.device == d && m.compute == c {
		return nil
	}
	if err := d.Check(); err != nil { // here, so that a planner's next plans do without
		return err
	}
	m.derive(d, c)
	return nil
}

func (m *model) derive(d *Device, c Compute) {
	m.device, m.compute = d, c
	m.tiles = slices.Grow(m.tiles[:0], len(d.Kernels))[:len(d.Kernels)]
	for i := range d.Kernels {
		m.tiles[i] = d.tileModel(&d.Kernels[i], c)
	}
}

// tileModel derives the part of one tile shape.
func (d *Device) tileModel(k *KernelFacts, c Compute) tileModel {
	t, r := k.Tile, d.Rate(k, c)
	busy := 2 * float64(t.TM*t.TN*t.TK) / (d.unit() * r.Efficiency)
	return tileModel{
		shape: t,
		busy:  busy, alone: max(r.Step, busy),
		worker: r.Worker, fixed: r.Fixed,
		resident: d.resident(k), fits: d.Fits(t, c),
		clusters: k.Clusters && t.Clusters,
		tm:       shift(t.TM), tn: shift(t.TN), tk: shift(t.TK), partly: t.HalfRows > 0 || t.HalfCols > 0 || t.Unit == tile.SIMD,
	}
}

// launch predicts the microseconds of a launch of whole workers, of which the longest
// has that many steps and all together have the sum.
//
// There are two terms: the longest worker alone, and the work that each compute
// unit must do. The longer counts in full and the shorter for the most part,
// because they overlap little. The model ignores memory bandwidth, caches and row
// strides, the order in which workgroups start, that equal tiles run in whole
// waves, and clock changes.
func (m *model) launch(id tileID, longest, workers, sum float64) float64 {
	t, d := &m.tiles[id], m.device
	chain := t.fixed + longest*t.alone
	if workers > float64(t.resident) {
		chain += t.fixed // of the workgroups that had to wait; later ones overlap
	}
	worker := t.worker
	if t.shape.Unit == tile.WGMMA {
		worker += t.fixed // a unit has one worker or two, which leave the start of the next uncovered
	}
	units := float64(max(d.ComputeUnits, 1))
	work := (sum*t.busy + workers*worker) / units
	if d.KernelKind == KernelsCPU {
		// Threads are busy until nothing is left: all but the last then wait for half of the
		// longest tile, on average.
		return d.LaunchMicros + math.Max(chain, work+(1-1/units)/2*chain)
	}
	return d.LaunchMicros + math.Max(chain, work) + overlap*math.Min(chain, work)
}

// clusters predicts the microseconds of a launch in which clusters share the tiles
// of l.
func (m *model) clusters(id tileID, l load, size int) float64 {
	n := float64(size)
	longest := math.Ceil(float64(l.longest) / n)
	return clusterMicros + m.launch(id, longest, float64(l.tiles)*n, math.Max(l.steps, float64(l.tiles)*n))
}

// clusterMicros is what the thread groups of a cluster wait for each other, and
// for sums from each other's shared memory.
const clusterMicros = 1.5

// fixup predicts the microseconds of the launch that sums so many partial tiles. It
// reads each once, after the launch before it wrote them.
func (m *model) fixup(id tileID, slots float64) float64 {
	d := m.device
	bytes := slots * float64(4*m.tiles[id].shape.TM*m.tiles[id].shape.TN)
	return d.LaunchMicros + fixupMicros + bytes/(fixupRate*float64(max(d.ComputeUnits, 1)))
}

const (
	fixupMicros = 2.0    // item, loads one after the other, store
	fixupRate   = 6000.0 // bytes a microsecond and compute unit, written and read again
)

// Predict is what the model says of a plan that takes one tile shape for all
// problems: its Cost in microseconds, found without making it. Of two cases it
// knows nothing: that a batch needs windows, which take more launches; and that the
// shares of Stream-K may end at tiles, which leaves nothing to sum. Device and batch must
// have passed Check; the kernels are of the device, and whether they can run is what Fits
// says.
func (d *Device) Predict(b Batch, k *KernelFacts, s Schedule, c Compute) (micros float64) {
	m := model{device: d, compute: c, tiles: []tileModel{d.tileModel(k, c)}}
	row := s.find()   // nil: the cheapest
	var loads [4]load // of the kernels that a plan has, one for each transposition
	for i := range b {
		if q := &b[i]; q.Writes() {
			loads[q.transposition()].add(k.Tile, q)
		}
	}
	for _, l := range loads {
		micros += m.predict(0, row, l)
	}
	return micros
}

// chooseByCost predicts every tile shape for the whole batch, and the cheapest
// shape for each problem on its own, and takes the least.
func (p *builder) chooseByCost() {
	m := &p.model
	p.uniform, p.mixed = zeroed(p.uniform, len(m.tiles)), zeroed(p.mixed, len(m.tiles))
	for i := range p.Batch {
		q := &p.Batch[i]
		if !q.Writes() {
			continue
		}
		var rows, cols, steps [maxShift + 1]int // of the problem, cut by 1 << index
		for by := range rows {
			rows[by], cols[by], steps[by] = ceilShift(q.M, uint8(by)), ceilShift(q.N, uint8(by)), max(ceilShift(q.depth(), uint8(by)), 1)
		}
		best, bestID := math.Inf(1), 0
		for id := range m.tiles {
			t := &m.tiles[id]
			if !t.fits {
				continue
			}
			n, steps := rows[t.tm]*cols[t.tn], steps[t.tk]
			whole := float64(n)
			if t.partly {
				whole = wholeTiles(t.shape, q)
			}
			p.uniform[id].addTiles(n, steps, whole)
			if work := t.work(whole, steps); work < best {
				best, bestID = work, id
			}
		}
		p.choice[i] = tileID(bestID)
		p.mixed[bestID].add(m.tiles[bestID].shape, q)
	}
	p.takeCheapest()
}

// zeroed is n empty loads, in the memory of others.
func zeroed(loads []load, n int) []load {
	loads = slices.Grow(loads[:0], n)[:n]
	clear(loads)
	return loads
}

// maxShift is the logarithm of the largest size of a tile.
const maxShift = 7

// takeCheapest takes one tile shape for all problems if that is predicted to take
// less than what was chosen for each.
func (p *builder) takeCheapest() {
	m := &p.model
	best, bestTile := 0.0, -1
	for id := range m.tiles {
		if p.mixed[id].tiles > 0 {
			best += m.predict(tileID(id), p.schedule, p.mixed[id])
		}
	}
	for id := range m.tiles {
		if m.tiles[id].fits {
			if c := m.predict(tileID(id), p.schedule, p.uniform[id]); c <= best {
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
