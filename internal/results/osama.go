package main

import (
	"fmt"

	"github.com/batchgemm/batchgemm/internal/bench"
	"github.com/batchgemm/batchgemm/internal/tile"
	"github.com/batchgemm/batchgemm/planner"
)

// forcedTime returns the time of a case under a schedule; auto is the planner's choice.
func forcedTime(c *bench.Case, schedule string) float64 {
	if schedule == auto && c.Regret != nil {
		return c.Regret.Planner
	}
	return best(c, func(f *bench.Forced) bool { return f.Schedule == schedule })
}

const (
	auto         = "auto"
	dataParallel = string(planner.ScheduleDataParallel)
	streamK      = string(planner.ScheduleStreamK)
)

// gains returns the speed-ups of a schedule over data-parallel, or over cuBLAS.
func gains(r *bench.Report, schedule, rival string) *ratios {
	s := &ratios{}
	for i := range r.Cases {
		c := &r.Cases[i]
		base := forcedTime(c, rival)
		if rival == graph {
			base = micros(c, graph)
		}
		if us := forcedTime(c, schedule); us > 0 {
			s.add(c.Workload, base/us)
		}
	}
	return s
}

// streamKTable compares the schedules on one tile.
func streamKTable(r *bench.Report) *table {
	t := newTable("schedule", "over data-parallel: mean", "geo. mean", "least", "most", "slower in",
		"over cuBLAS SGEMM")
	names := []string{auto}
	for _, s := range planner.Schedules() {
		names = append(names, string(s))
	}
	for _, schedule := range names {
		s := gains(r, schedule, dataParallel).sorted()
		n := len(s.all)
		if n == 0 {
			continue
		}
		t.row(schedule, digits(s.mean()), digits(s.geomean()), s.named(n-1), s.named(0),
			fmt.Sprintf("%d of %d", s.below(1), n), gains(r, schedule, graph).spread())
	}
	return t
}

// dynamicTable compares dynamic tiles with shares, and with a worker for each tile. It uses the same tile,
// in batches in which that is at most half slower than the best of all.
func dynamicTable(r *bench.Report) *table {
	t := newTable("tile", "over lpt", "over data-parallel", "fastest of the three in")
	for _, shape := range tile.Table() {
		lpt, whole, won := &ratios{}, &ratios{}, 0
		for i := range r.Cases {
			c := &r.Cases[i]
			of := func(schedule planner.Schedule) float64 {
				return best(c, func(f *bench.Forced) bool {
					return f.Tile == shape.Name && f.Schedule == string(schedule)
				})
			}
			us := of(planner.ScheduleDynamic)
			if us == 0 || us > 1.5*best(c, func(*bench.Forced) bool { return true }) {
				continue
			}
			lpt.add(c.Workload, of(planner.ScheduleLPT)/us)
			whole.add(c.Workload, of(planner.ScheduleDataParallel)/us)
			if us < of(planner.ScheduleLPT) && us < of(planner.ScheduleDataParallel) {
				won++
			}
		}
		if n := len(lpt.all); n > 0 {
			t.row(shape.Name, lpt.spread(), whole.spread(), fmt.Sprintf("%d of %d", won, n))
		}
	}
	return t
}

// streamKShapeTable has the shapes with the largest and the smallest gain from Stream-K.
func streamKShapeTable(r *bench.Report) *table {
	s := gains(r, streamK, dataParallel).sorted()
	t := newTable("M x N x K", "data-parallel, µs", "stream-k, µs", "auto, µs", "cuBLAS SGEMM, µs",
		"stream-k over data-parallel")
	const ends = 5
	for i, name := range s.cases {
		if i < ends || i >= len(s.cases)-ends {
			c := find(r, name)
			t.row(name, digits(forcedTime(c, dataParallel)), digits(forcedTime(c, streamK)),
				digits(forcedTime(c, auto)), digits(micros(c, graph)), digits(s.all[i]))
		}
	}
	return t
}

// streamKAutoTable is the planner's own choice of tile and schedule over cuBLAS.
func streamKAutoTable(r *bench.Report) *table {
	t := newTable("", "over cuBLAS SGEMM: mean", "geo. mean", "least", "most", "slower in")
	t.row("paper: Stream-K, 32,824 shapes", none, none, none, "14 and 6.7", none)
	for _, o := range own[:2] {
		s := speedups(r, o.method, graph, every).sorted()
		if n := len(s.all); n > 0 {
			t.row(o.name, digits(s.mean()), digits(s.geomean()), s.named(n-1),
				s.named(0), fmt.Sprintf("%d of %d", s.below(1), n))
		}
	}
	return t
}
