package planner

import (
	"cmp"
	"math"
	"slices"

	"github.com/batchgemm/batchgemm/internal/tile"
)

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
		most = max(most, m.together(id, float64(i+2), float64(l.later[i])))
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
	a := o.arithmetic(d, o.allFast(d, b))
	m := model{device: d, family: d.family(), arithmetic: a, tiles: []tileModel{d.tileModel(k, a, false)},
		products: 1, cutsAt: 1, parts: o.parts(d)}
	row, cut := s.find(), newCut(k.Tile) // nil: the cheapest
	var loads [4]load                    // of the kernels that a plan has, one for each transposition
	m.see(m.operands(&o, b, 1))
	b = b.longestFirst()
	for i := range b {
		if q := &b[i]; q.Writes() {
			loads[q.transposition()].add(&cut, q.sizes(), 1, 1, m.roundSize())
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
