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
	steps := t.steps(q)
	l.tiles += rows * cols
	l.steps += float64(rows*cols) * float64(steps)
	l.longest = max(l.longest, steps)
}

func (l *load) addTile(t *Tile, depth int) {
	steps := max(ceilDiv(depth, t.TK), 1)
	l.tiles++
	l.steps += float64(steps)
	l.longest = max(l.longest, steps)
}

// rate is how fast a tile shape runs.
type rate struct {
	efficiency float64 // of the peak fp32 rate, on full tiles, device saturated
	step       float64 // microseconds of one K step, alone on a compute unit
	fixed      float64 // microseconds of a worker besides its steps: item, first load, store
}

// rates holds the measured rates of the tile table, in its order.
var rates = [NumTiles]rate{
	{0.10, 0.50, 1.5},
	{0.15, 0.50, 1.5},
	{0.25, 0.50, 1.5},
	{0.30, 0.55, 1.5},
	{0.40, 0.60, 1.5},
	{0.15, 0.60, 1.5},
	{0.25, 0.70, 1.5},
	{0.45, 0.80, 1.5},
	{0.56, 0.70, 1.5},
	{0.60, 0.75, 1.5},
}

// stepMicros is the time of one K step on a saturated compute unit.
func (d *Device) stepMicros(id TileID) float64 {
	t := &tiles[id]
	flops := 2 * float64(t.TM*t.TN) * float64(t.TK)
	perUnit := max(d.TFLOPS, 1e-6) * 1e6 / float64(max(d.ComputeUnits, 1)) // per microsecond
	return flops / (perUnit * rates[id].efficiency)
}

// cost predicts the microseconds of one launch: the longer of the longest
// worker and the work that each compute unit must do, plus a part of the
// shorter one, because they overlap only partly.
//
// It ignores memory bandwidth and caches, the order in which workgroups start,
// the different lengths of the workers of one unit, and clock changes.
func (d *Device) cost(id TileID, s Schedule, l load) float64 {
	if l.tiles == 0 {
		return 0
	}
	r := &rates[id]
	step := d.stepMicros(id)
	alone := math.Max(r.step, step)
	units := float64(max(d.ComputeUnits, 1))
	longest := float64(l.longest)
	workers := float64(l.tiles)
	extra := 0.0
	switch s {
	case ScheduleSplitK:
		part := d.splitSteps(id, l)
		longest = math.Min(longest, float64(part))
		workers += l.steps / float64(part)
		extra = d.LaunchMicros + r.fixed
	case ScheduleStreamK:
		w := d.streamWorkers(id, l)
		longest = math.Ceil(l.steps / float64(w))
		workers = 2 * float64(w)
		extra = d.LaunchMicros + r.fixed
	}
	chain := r.fixed + longest*alone
	work := (l.steps*step + workers*r.fixed*step/alone) / units
	const overlap = 0.5
	return d.LaunchMicros + extra + math.Max(chain, work) + overlap*math.Min(chain, work)
}

// chooseByCost predicts every tile shape for the whole batch, under each
// schedule allowed, and the cheapest shape for each problem on its own, and
// takes the least.
func (p *Plan) chooseByCost(forced Schedule) {
	d := &p.Device
	var uniform, mixed [NumTiles]load
	var micros [NumTiles]float64
	var fits [NumTiles]bool
	for id := range tiles {
		fits[id] = d.fits(TileID(id))
		micros[id] = d.stepMicros(TileID(id))
	}
	for i := range p.Batch {
		q := &p.Batch[i]
		if !q.writes() {
			continue
		}
		best, bestID := math.Inf(1), 0
		for id := range tiles {
			if !fits[id] {
				continue
			}
			before := uniform[id].steps
			uniform[id].add(&tiles[id], q)
			if c := (uniform[id].steps - before) * micros[id]; c < best {
				best, bestID = c, id
			}
		}
		p.Choice[i] = TileID(bestID)
		mixed[bestID].add(&tiles[bestID], q)
	}
	best, bestTile, bestSchedule := 0.0, -1, ScheduleDataParallel
	for id := range tiles {
		if forced == ScheduleAuto || forced == ScheduleDataParallel {
			best += d.cost(TileID(id), ScheduleDataParallel, mixed[id])
		}
	}
	if best == 0 {
		best = math.Inf(1)
	}
	for id := range tiles {
		if !fits[id] {
			continue
		}
		for _, s := range schedules {
			if forced != ScheduleAuto && s != forced {
				continue
			}
			if c := d.cost(TileID(id), s, uniform[id]); c < best {
				best, bestTile, bestSchedule = c, id, s
			}
		}
	}
	p.Schedule = bestSchedule
	if bestTile >= 0 {
		for i := range p.Choice {
			p.Choice[i] = TileID(bestTile)
		}
	}
}
