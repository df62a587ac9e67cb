package planner

import (
	"math"
	"strings"

	"github.com/batchgemm/batchgemm/internal/invalid"
	"github.com/batchgemm/batchgemm/internal/tile"
)

// Schedule selects a rule that deals segments to workers; "" lets the planner choose the one with the least
// predicted cost for each launch.
type Schedule string

const (
	ScheduleDataParallel Schedule = "data-parallel" // one tile for each worker
	ScheduleBatched      Schedule = "batched"       // several small tiles for each worker
	ScheduleSplitK       Schedule = "split-k"       // K range of a tile split into equal partials
	ScheduleStreamK      Schedule = "stream-k"      // even shares of all K steps
	ScheduleLPT          Schedule = "lpt"           // as many workers as run at once, longest tiles first
	ScheduleDynamic      Schedule = "dynamic"       // as lpt, but tiles are taken from a counter
	// data-parallel, with clusters of thread groups that share a tile
	ScheduleCluster Schedule = "cluster"
)

// schedule is all that planning knows of a way to deal the tiles of a group to workers. It knows nothing of
// kernels, and kernels know nothing of it. This separation is the load-balancing abstraction of Osama's
// dissertation.
type schedule struct {
	name Schedule
	// suits reports whether the planner considers it for a load. If options name it, a schedule deals any
	// load.
	suits func(m *model, id tileID, l load) bool
	// cost predicts the launch that computes the tiles of l, and the sums of partials, if there are any, in
	// microseconds. There is at least one tile.
	cost func(m *model, id tileID, l load) (gemm, fixup float64)
	// deal appends to p.Segments, closes workers with endWorker, and adds tiles with several segments to
	// p.Fixups. It fails if the context ends; the plan is then of no use.
	deal func(p *builder, g *group) error
	// cluster returns the number of thread groups that share each worker's tiles. It selects a variant of
	// the kernel and does not change the deal. nil: always one.
	cluster func(m *model, id tileID, l load) int
	// cuts: it may split tiles along K, but not gated ones.
	cuts bool
}

// schedules are in the order in which predict tries them; if costs are equal, the first wins. To add a
// schedule, add a row here and the functions that it names.
var schedules = [...]schedule{
	{name: ScheduleDataParallel, suits: leaving, cost: (*model).dataParallelCost, deal: dealDataParallel},
	{name: ScheduleBatched, suits: leaving, cost: (*model).batchedCost, deal: dealBatched},
	{name: ScheduleSplitK, suits: cutting, cost: (*model).splitKCost, deal: dealSplitK, cuts: true},
	{name: ScheduleStreamK, suits: sharing, cost: (*model).streamKCost, deal: dealStreamK, cuts: true},
	{name: ScheduleLPT, suits: evening, cost: (*model).lptCost, deal: dealLPT},
	{name: ScheduleDynamic, suits: staying, cost: (*model).dynamicCost, deal: dealDynamic},
	{name: ScheduleCluster, suits: clustering, cost: (*model).clusterCost, deal: dealDataParallel,
		cluster: (*model).clusterSize, cuts: true},
}

// staying: workers of a warpgroup kernel take long to start, so they stay. For other kernels the hardware
// starts the next workgroup wherever one ends, which is better.
func staying(m *model, id tileID, _ load) bool { return m.tiles[id].shape.Unit == tile.WGMMA }
func leaving(m *model, id tileID, _ load) bool { return m.tiles[id].shape.Unit != tile.WGMMA }

// evening: workers that stay get even shares. Other workers do if they begin a second round in a case where
// this is known to be faster.
func evening(m *model, id tileID, l load) bool { return staying(m, id, l) || m.secondRound(id, &l) }

// cutting rules out loads without anything to split: that is data-parallel.
func cutting(m *model, id tileID, l load) bool {
	return m.tiles[id].shape.Unit != tile.WGMMA || m.splitSteps(id, l) < l.longest
}

// sharing rules out loads whose partials have no room: that is data-parallel.
func sharing(m *model, id tileID, l load) bool { return m.streamFits(id, l) }

func clustering(m *model, id tileID, _ load) bool { return m.tiles[id].clusters }

// Schedules lists the schedules that options can force, in the order in which the planner tries them.
func Schedules() []Schedule {
	names := make([]Schedule, len(schedules))
	for i := range schedules {
		names[i] = schedules[i].name
	}
	return names
}

// find returns the row of a schedule, or nil.
func (s Schedule) find() *schedule {
	for i := range schedules {
		if schedules[i].name == s {
			return &schedules[i]
		}
	}
	return nil
}

// parseSchedule reads a name as users write it; "auto" and "" select the default.
func parseSchedule(s string) (Schedule, error) {
	if s == "" || s == "auto" {
		return "", nil
	}
	if row := Schedule(s).find(); row != nil {
		return row.name, nil
	}
	known := make([]string, len(schedules))
	for i := range schedules {
		known[i] = string(schedules[i].name)
	}
	return "", invalid.Errorf("unknown schedule %q (known: %s)", s, strings.Join(known, ", "))
}

// predict returns the schedule that deals a load, and its predicted time in microseconds. It is the schedule
// asked for, or data-parallel if that would split tiles that must stay whole. If asked is nil, it is the
// cheapest schedule that suits the load. An empty load takes no time.
func (m *model) predict(id tileID, asked *schedule, l load) (best *schedule, micros float64) {
	if l.tiles == 0 {
		return nil, 0
	}
	if asked != nil {
		if asked.cuts && m.whole(id) {
			asked = ScheduleDataParallel.find()
		}
		gemm, fixup := asked.cost(m, id, l)
		return asked, gemm + fixup
	}
	micros = math.Inf(1)
	for i := range schedules {
		s := &schedules[i]
		if !s.suits(m, id, l) || s.cuts && m.whole(id) {
			continue
		}
		if gemm, fixup := s.cost(m, id, l); gemm+fixup < micros {
			best, micros = s, gemm+fixup
		}
	}
	return best, micros
}

// whole reports whether tiles of the shape must not be split along K.
func (m *model) whole(id tileID) bool { return !cuttable(m.tiles[id].shape, m.cutsAt) }

func (m *model) dataParallelCost(id tileID, l load) (gemm, fixup float64) {
	longest := float64(l.longest)
	if m.tiles[id].shape.Unit == tile.SIMD { // few of its tiles are whole if problems are small
		longest *= min(1.5*l.whole/float64(l.tiles), 1)
	}
	return m.launch(id, longest, l.whole, l.work, l.loads, m.crowded(id, &l), m.family.terms.leave), 0
}

func (m *model) batchedCost(id tileID, l load) (gemm, fixup float64) {
	longest := max(int64(l.longest), m.batchSteps(id, l))
	return m.launch(id, float64(longest), l.whole, l.work, l.loads, 0, m.family.terms.batch), 0
}

func (m *model) splitKCost(id tileID, l load) (gemm, fixup float64) {
	return m.splitCost(id, l, m.splitSteps(id, l))
}

// splitCost predicts partials of that many steps.
func (m *model) splitCost(id tileID, l load, part int) (gemm, fixup float64) {
	if part >= l.longest {
		return m.dataParallelCost(id, l)
	}
	slots, each := l.steps/float64(part), float64(ceilDiv(l.longest, part))
	if l.equal() {
		slots = float64(l.tiles) * each
	}
	fixup = m.sums(id, min(float64(l.tiles), slots/2), slots, each)
	if t := &m.tiles[id]; t.shape.Unit == tile.WGMMA {
		work := m.evenly(t, l.work, l.whole+slots, t.worker, l.loads)
		most := m.together(id, math.Ceil(slots/m.units()), float64(part))
		return m.device.LaunchMicros + t.fixed + max(most, work), fixup
	}
	return m.launch(id, float64(part), l.whole+slots, l.work, l.loads, 0, m.family.terms.part), fixup
}

func (m *model) streamKCost(id tileID, l load) (gemm, fixup float64) {
	if !m.streamFits(id, l) {
		return m.dataParallelCost(id, l)
	}
	shares, tiles := float64(m.streamWorkers(id, l)), float64(l.tiles)
	steps := math.Ceil(l.steps / shares)
	cut := min(tiles, shares)
	fixup = m.sums(id, cut, shares+cut, math.Ceil(float64(l.longest)/steps)+1)
	if t := &m.tiles[id]; t.shape.Unit == tile.WGMMA {
		// Shares are even in steps, so the longest share has whole tiles.
		work := m.evenly(t, l.steps, tiles+shares, t.worker, l.loads)
		longest := steps*t.alone + streamItems*t.worker
		return stayingMargin * (m.device.LaunchMicros + t.fixed + max(longest, work)), fixup
	}
	return streamMargin * m.launch(id, steps, l.whole+shares, l.work, l.loads, 0, m.family.terms.part), fixup
}

// streamItems is the number of items of a share whose start and end nothing covers, if workers stay. Most
// shares have partials of two tiles.
const streamItems = 1.12

// streamMargin is the factor by which Stream-K of workers that leave must beat another schedule: for tensor
// core kernels its prediction is off by a fifth (H100). stayingMargin is that of workers that stay: 64
// experts by Zipf's law took 93 us by Stream-K (predicted 82) and 84 us by LPT (predicted 85, H200).
const streamMargin, stayingMargin = 1.06, 1.04

// lptCost predicts workers that stay and have even shares: the longest tile alone, or each unit's share of
// the work. For other workers, the cost in a second round was measured relative to data-parallel.
func (m *model) lptCost(id tileID, l load) (gemm, fixup float64) {
	t := &m.tiles[id]
	if m.secondRound(id, &l) {
		gemm, _ = m.dataParallelCost(id, l)
		return t.rounds * gemm, 0
	}
	return m.stay(id, float64(l.longest)*t.alone+t.worker, l.whole, l), 0
}

// secondRound reports whether uneven tiles fill more than one round but not three, with a kernel that LPT
// then makes faster. With data-parallel, tiles of the second round begin where long or short tiles end, and
// so end at different times. With LPT, shares of two short tiles or of one long tile end together.
func (m *model) secondRound(id tileID, l *load) bool {
	t := &m.tiles[id]
	return t.rounds > 0 && l.tiles > t.resident && l.tiles <= 2*t.resident && !l.equal()
}

// stay predicts a launch of workers that stay, with that many items. One worker takes at least `longest`
// microseconds.
func (m *model) stay(id tileID, longest, items float64, l load) float64 {
	t := &m.tiles[id]
	work := max(m.evenly(t, l.work, items, t.worker, l.loads), m.crowded(id, &l))
	return m.device.LaunchMicros + t.fixed + longer(longest, work, stayRemains)
}

// stayRemains is the share of the shorter term that stay adds to the longer one. Plans are equally good from
// 0 to 0.1 (H100). If all wait for memory, it is better to have less left at the end.
const stayRemains = 0.05

func (m *model) clusterCost(id tileID, l load) (gemm, fixup float64) {
	if size := m.clusterSize(id, l); size > 1 {
		return m.clusters(id, l, size), 0
	}
	return m.dataParallelCost(id, l)
}
