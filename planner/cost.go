package planner

import (
	"cmp"
	"math"
	"slices"

	"github.com/batchgemm/batchgemm/internal/tile"
)

// terms are the constants of predictions for a kind of kernels, besides its rates.
type terms struct {
	// longer adds a share of the shorter term to the longer one. These are the shares for workers that
	// leave, workers with several tiles, workers with partials, and clusters.
	leave, batch, part, cluster float64
	fixup, finish               sumCost // sums in a launch of their own, and without one
}

// sumCost is the cost of summing partials, besides a launch if there is one.
type sumCost struct {
	micros    float64 // item, dependent loads, store
	rate      float64 // bytes per microsecond and compute unit, written and read again
	tileSlots float64 // cost of a tile in slots, besides its own slots
}

// Sources of the numbers:
//   - CUDA: with the rates of the tile table, streamItems and clusterMicros, these numbers best predict the
//     fastest of 80,000 forced plans of 650 batches (H100; docs/results.md), and the cost of sums in a
//     launch in 26,000 plans with such launches. The batch share is high because predictions see only the
//     steps of workers that take one tile after the other.
//   - WGSL: the same for 8,300 plans of 488 batches whose workers leave and have one tile or one partial
//     (H100 through Vulkan). The batch share is from 446 plans of the sweep; none of them was the fastest.
//   - The others are older, and were not fitted to launches of one kind.
//
// Where sums without a launch were not measured, as on HIP, they are assumed to cost as much as in a launch.
var (
	termsOnCUDA = terms{leave: 0.46, batch: 1.33, part: 0.53, cluster: 0.85,
		fixup: sumCost{micros: 0.61, rate: 20000, tileSlots: 1.1}, finish: sumCost{micros: 1.15, rate: 13800}}
	termsByWGSL = terms{leave: 0.84, batch: 1.50, part: 0.68, cluster: 0.75,
		fixup:  sumCost{micros: 0.84, rate: 16400, tileSlots: 4.2},
		finish: sumCost{micros: 0.84, rate: 16400, tileSlots: 4.2}}
	termsElsewhere = terms{leave: 0.75, batch: 0.75, part: 0.75, cluster: 0.75,
		fixup: sumCost{micros: 2.0, rate: 6000}, finish: sumCost{micros: 2.0, rate: 6000}}
)

// launch predicts a launch of workers with whole tiles, in microseconds. The longest worker has `longest`
// steps, all workers together have `sum` steps and load `loads` elements. crowded is the result of
// model.crowded.
//
// Two terms bound the time: the longest worker alone, and the work of a compute unit or its wait for memory,
// whichever is longer. The longer term counts in full, and a share of the shorter one is added. The model
// ignores cache rates, row strides, the order in which workgroups start, and clock changes.
func (m *model) launch(id tileID, longest, workers, sum, loads, crowded, remains float64) float64 {
	t, d := &m.tiles[id], m.device
	chain := t.fixed + longest*t.alone
	if workers > float64(t.resident) {
		chain += t.fixed // of workgroups that had to wait; later ones overlap
	}
	worker := t.worker
	if t.shape.Unit == tile.WGMMA {
		worker += t.fixed // with one or two workers on a unit, nothing covers the start of the next
	}
	work := m.evenly(t, sum, workers, worker, loads)
	if m.family.counter {
		// Threads are busy until no tile is left. Then all but the last wait for half of the longest tile,
		// on average.
		return d.LaunchMicros + math.Max(chain, work+(1-1/m.units())/2*chain)
	}
	return d.LaunchMicros + longer(chain, max(work, crowded), remains)
}

// units returns the number of compute units, at least one.
func (m *model) units() float64 { return float64(max(m.device.ComputeUnits, 1)) }

// evenly predicts the time of a compute unit if the steps and workers of a launch saturate all units evenly.
// It is the time of the work or of the wait for memory, whichever is longer.
func (m *model) evenly(t *tileModel, steps, workers, worker, loads float64) float64 {
	return max(steps*t.busy+workers*worker, loads*t.memory) / m.units()
}

// longer returns the longer term plus a share of the shorter one.
func longer(x, y, remains float64) float64 { return max(x, y) + remains*min(x, y) }

// crowded predicts the least time of the compute unit with the most tiles. One tile more than there are
// units puts two tiles on one unit, neither shorter than that tile, and so on: equal tiles run in whole
// rounds. Edge tiles take less, on average.
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

// together predicts n tiles of that many steps on one compute unit. Of workers that stay, one or two run
// there at a time.
func (m *model) together(id tileID, n, steps float64) float64 {
	t := &m.tiles[id]
	saturated := n * steps * t.busy
	if t.shape.Unit != tile.WGMMA {
		return saturated
	}
	at := max(math.Floor(float64(t.resident)/m.units()), 1)
	return max(saturated, math.Ceil(n/at)*(steps*t.alone+t.worker))
}

// sums predicts the time to sum the partials of tiles, in microseconds. The tiles have `slots` partials
// together, and at most `parts` each.
func (m *model) sums(id tileID, tiles, slots, parts float64) float64 {
	d := m.device
	size := float64(m.sumsOf.Size(m.tiles[id].shape.TM * m.tiles[id].shape.TN))
	cost, launch := &m.family.terms.fixup, d.LaunchMicros
	if m.finishes(parts) {
		cost, launch = &m.family.terms.finish, 0
	}
	return launch + cost.micros + (slots+cost.tileSlots*tiles)*size/(cost.rate*m.units())
}

// Predict returns the predicted cost, in microseconds, of a plan that uses one tile shape for all problems,
// without making the plan. It ignores two cases: batches that need windows, and so more launches; and
// Stream-K shares that end at tiles, which leaves nothing to sum. Device and batch must have passed Check.
// The kernels must belong to the device; Fits reports whether they can run.
func (d *Device) Predict(b Batch, k *KernelFacts, s Schedule, c Compute) (micros float64) {
	o := Options{Compute: c}
	a := o.arithmeticOf(d, b)
	m := model{device: d, family: d.family(), arithmetic: a, tiles: []tileModel{d.tileModel(k, a, false)},
		trips: o.tripLimit(d), products: 1, cutsAt: 1, parts: o.parts(d)}
	row, cut := s.find(), newCut(k.Tile) // nil: the cheapest
	var loads [4]load                    // of the plan's kernels, one for each transposition
	m.see(m.operands(&o, b, 1))
	b = b.longestFirst()
	for i := range b {
		if q := &b[i]; q.writes() {
			loads[q.transposition()].add(&cut, q.sizes(), 1, 1, m.roundSize())
		}
	}
	for _, l := range loads {
		_, launch := m.predict(0, row, l)
		micros += launch
	}
	return micros
}

// longestFirst returns the batch in the order in which its problems are dealt. It returns the batch itself
// if that is its order.
func (b Batch) longestFirst() Batch {
	longer := func(x, y Problem) int { return cmp.Compare(y.depth(), x.depth()) }
	if slices.IsSortedFunc(b, longer) {
		return b
	}
	b = slices.Clone(b)
	slices.SortFunc(b, longer)
	return b
}
