package planner

import "math"

// load is the work of one launch, in K steps of one tile shape.
type load struct {
	tiles   int     // workers of the data-parallel schedule
	steps   float64 // of all tiles
	longest int     // steps of the longest tile
}

func (l *load) add(t *Tile, q *Problem) {
	rows, cols := t.grid(q)
	l.addTiles(rows*cols, t.steps(q))
}

// addTiles adds n tiles of the same number of steps.
func (l *load) addTiles(n, steps int) {
	l.tiles += n
	l.steps += float64(n) * float64(steps)
	l.longest = max(l.longest, steps)
}

// rate is how fast a tile shape runs on the device of the measurement.
type rate struct {
	efficiency float64 // of the peak fp32 rate, when the device is saturated
	step       float64 // microseconds of one K step, alone on a compute unit
	fixed      float64 // microseconds of a worker besides its steps: item, first load, store
	worker     float64 // microseconds of a saturated compute unit that a worker takes besides its steps
}

// rates are those of the tile table's rows, in its order: fits of model.cost to
// measured times of 72 batches of 8 to 256 problems with sizes uniform in
// [16, 128..512] and K in [16, 128..1024], on an H200 with driver 580. The root
// mean square of the relative error is 3 to 7 percent a row. Choosing by them
// costs 0.6 and 1.4 percent against the best single shape of each batch
// (geometric mean; 11 and 22 percent at most).
var (
	// WGSL kernels through Vulkan, GPU timestamps.
	wgslRates = [NumTiles]rate{
		{0.125, 0.314, 0.70, 0.022},
		{0.158, 0.220, 1.03, 0.023},
		{0.306, 0.318, 1.03, 0.122},
		{0.340, 0.425, 1.11, 0.496},
		{0.563, 0.504, 1.74, 1.111},
		{0.171, 0.170, 0.93, 0.036},
		{0.343, 0.284, 0.89, 0.215},
		{0.581, 0.285, 1.43, 0.328},
		{0.588, 0.340, 1.29, 0.385},
		{0.613, 0.482, 1.63, 0.388},
		{0.710, 0.508, 1.73, 0.791},
		{0.758, 0.780, 2.19, 0.780},
		{0.690, 0.478, 1.20, 1.400},
	}
	// CUDA kernels, nodes of a CUDA graph. HIP kernels come from the same text.
	nativeRates = [NumTiles]rate{
		{0.118, 0.256, 0.14, 0.022},
		{0.153, 0.376, 0.00, 0.039},
		{0.297, 0.430, 0.00, 0.023},
		{0.333, 0.552, 0.00, 0.083},
		{0.537, 0.659, 0.00, 0.290},
		{0.128, 0.190, 0.45, 0.014},
		{0.284, 0.414, 0.57, 0.120},
		{0.499, 0.322, 0.34, 0.133},
		{0.471, 0.329, 0.90, 0.191},
		{0.554, 0.589, 0.00, 0.149},
		{0.640, 0.594, 0.00, 0.375},
		{0.703, 0.975, 0.00, 0.343},
		{0.694, 0.533, 0.08, 0.543},
	}
)

// measuredUnit is the peak of a compute unit of that device, in FLOP a microsecond.
const measuredUnit = 67e6 / 132

// overlap is the share of the shorter term that adds to the longer one in cost.
const overlap = 0.75

// model is what planning derives from the device alone. A plan keeps it from
// one Build to the next on the same device.
type model struct {
	device Device
	tiles  [NumTiles]tileModel
}

// tileModel is a tile shape on the device: its rate in microseconds, and places.
type tileModel struct {
	busy, alone   float64 // one K step: on a saturated compute unit, alone on one
	worker, fixed float64 // as in rate
	resident      int     // workgroups that the device runs at once
	fits          bool

	shiftM, shiftN, shiftK uint8 // of the tile shape
}

// count is the number of tiles of a problem and of K steps of each.
func (t *tileModel) count(q *Problem) (tiles, steps int) {
	tiles = ceilShift(q.M, t.shiftM) * ceilShift(q.N, t.shiftN)
	return tiles, max(ceilShift(q.depth(), t.shiftK), 1)
}

// work is what that takes of a saturated compute unit, in microseconds.
func (t *tileModel) work(tiles, steps int) float64 {
	return float64(tiles) * (float64(steps)*t.busy + t.worker)
}

// set derives the model. It scales the measured rates by the peak of the
// device's compute units. Latencies stay, because they differ less between GPUs
// than rates do, unless the unit is too slow for them.
func (m *model) set(d *Device) {
	if m.device == *d {
		return
	}
	m.device = *d
	unit := max(d.TFLOPS, 1e-6) * 1e6 / float64(max(d.ComputeUnits, 1))
	slower := measuredUnit / unit
	rates := &nativeRates
	if d.Model == ModelWebGPU {
		rates = &wgslRates
	}
	for id := range tiles {
		t, r := &tiles[id], &rates[id]
		busy := 2 * float64(t.TM*t.TN*t.TK) / (unit * r.efficiency)
		m.tiles[id] = tileModel{
			busy: busy, alone: max(r.step, busy),
			worker: r.worker * slower, fixed: r.fixed * max(1, slower),
			resident: d.resident(TileID(id)), fits: d.fits(TileID(id)),
			shiftM: shift(t.TM), shiftN: shift(t.TN), shiftK: shift(t.TK),
		}
	}
}

// cost predicts the microseconds of the launch that computes the tiles of l under
// a schedule, and of the launch that sums partial tiles, if there is one.
//
// The first has two terms: the longest worker alone, and the work that each
// compute unit must do. The longer counts in full and the shorter for the most
// part, because they overlap little. The model ignores memory bandwidth, caches
// and row strides, the order in which workgroups start, that equal tiles run in
// whole waves, and clock changes.
func (m *model) cost(id TileID, s Schedule, l load) (gemm, fixup float64) {
	if l.tiles == 0 {
		return 0, 0
	}
	longest, workers, slots := float64(l.longest), float64(l.tiles), 0.0
	switch s {
	case ScheduleBatched:
		longest = math.Max(longest, float64(m.batchSteps(id, l)))
	case ScheduleSplitK:
		if part := m.splitSteps(id, l); part < l.longest {
			longest = float64(part)
			slots = l.steps / longest
			workers += slots
		}
	case ScheduleStreamK:
		shares := float64(m.streamWorkers(id, l))
		longest = math.Ceil(l.steps / shares)
		workers += shares
		slots = 2 * shares
	}
	t, d := &m.tiles[id], &m.device
	units := float64(max(d.ComputeUnits, 1))
	chain := t.fixed + longest*t.alone
	if workers > float64(t.resident) {
		chain += t.fixed // of the workgroups that had to wait; later ones overlap
	}
	work := (l.steps*t.busy + workers*t.worker) / units
	gemm = d.LaunchMicros + math.Max(chain, work) + overlap*math.Min(chain, work)
	if slots > 0 {
		bytes := slots * float64(4*tiles[id].TM*tiles[id].TN)
		fixup = d.LaunchMicros + fixupMicros + bytes/(fixupRate*units)
	}
	return gemm, fixup
}

// The fix-up launch reads every partial tile once, after the launch before it
// wrote them.
const (
	fixupMicros = 2.0    // item, loads one after the other, store
	fixupRate   = 6000.0 // bytes a microsecond and compute unit, written and read again
)

// cheapest returns the schedule with the least predicted cost.
func (m *model) cheapest(id TileID, l load) (best Schedule, micros float64) {
	micros = math.Inf(1)
	for _, s := range schedules {
		if gemm, fixup := m.cost(id, s, l); gemm+fixup < micros {
			best, micros = s, gemm+fixup
		}
	}
	return best, micros
}

// predict is the cost of a load under the schedule asked for, or the cheapest.
func (m *model) predict(id TileID, s Schedule, l load) float64 {
	if s == ScheduleAuto {
		_, micros := m.cheapest(id, l)
		return micros
	}
	gemm, fixup := m.cost(id, s, l)
	return gemm + fixup
}

// chooseByCost predicts every tile shape for the whole batch, and the cheapest
// shape for each problem on its own, and takes the least.
func (p *Plan) chooseByCost() {
	m := &p.scratch.model
	var uniform, mixed [NumTiles]load
	for i := range p.Batch {
		q := &p.Batch[i]
		if !q.Writes() {
			continue
		}
		best, bestID := math.Inf(1), 0
		for id := range m.tiles {
			if t := &m.tiles[id]; t.fits {
				n, steps := t.count(q)
				uniform[id].addTiles(n, steps)
				if work := t.work(n, steps); work < best {
					best, bestID = work, id
				}
			}
		}
		p.Choice[i] = TileID(bestID)
		mixed[bestID].add(&tiles[bestID], q)
	}
	best, bestTile := 0.0, -1
	for id := range tiles {
		if mixed[id].tiles > 0 {
			best += m.predict(TileID(id), p.Options.Schedule, mixed[id])
		}
	}
	for id := range tiles {
		if m.tiles[id].fits {
			if c := m.predict(TileID(id), p.Options.Schedule, uniform[id]); c <= best {
				best, bestTile = c, id
			}
		}
	}
	if bestTile >= 0 {
		for i := range p.Choice {
			p.Choice[i] = TileID(bestTile)
		}
	}
}
