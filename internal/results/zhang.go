package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/batchgemm/batchgemm/internal/bench"
	"github.com/batchgemm/batchgemm/internal/tile"
	"github.com/batchgemm/batchgemm/planner"
)

// Methods, with bench's names, and the names of our own in tables.
const (
	loop    = "cublas-loop"
	graph   = "cublas-graph"
	grouped = "cublas-grouped"
)

var own = []struct{ method, name string }{{"batchgemm", "default"}, {"f32", "`f32`"}, {"webgpu", "WebGPU"}}

// zhangCase parses zhang-MN-K-BATCH, or rounded-MN-K-BATCH, whose sizes are multiples of 8.
func zhangCase(c *bench.Case) (mn, k, batch int) {
	_, sizes, _ := strings.Cut(c.Workload, "-")
	if _, err := fmt.Sscanf(sizes, "%d-%d-%d", &mn, &k, &batch); err != nil {
		return 0, 0, 0
	}
	return
}

// rivalTable is Figs. 4 and 5 of Zhang et al.: average speed-ups over
// the rivals, on MI210 and A800.
func rivalTable(r *bench.Report) *table {
	t := newTable("rival", "paper, MI210", "paper, A800", "default: mean", "default", "`f32`", "WebGPU")
	for _, rival := range []struct{ name, method, mi210, a800 string }{
		{"rocBLAS or cuBLAS, a loop", loop, "5.09", "7.18"},
		{"the same in a CUDA graph", graph, none, none},
		{"cuBLAS grouped", grouped, none, none},
		{"CUTLASS", "", none, "4.64"},
		{"MAGMA", "", "4.37", "3.63 (text: 3.36)"},
		{"Wang et al.", "", "1.88", none},
		{"Li et al.", "", none, "1.94"},
	} {
		cells := []string{rival.name, rival.mi210, rival.a800,
			digits(speedups(r, "batchgemm", rival.method, every).mean())}
		for _, o := range own {
			cells = append(cells, speedups(r, o.method, rival.method, every).spread())
		}
		t.row(cells...)
	}
	return t
}

// lossTable lists where a rival is faster.
func lossTable(r *bench.Report) *table {
	t := newTable("", "rival", "batches", "slower than the rival in", "least speed-up")
	for _, o := range own {
		for _, rival := range []string{loop, graph, grouped} {
			s := speedups(r, o.method, rival, every).sorted()
			if n := len(s.all); n > 0 {
				t.row(o.name, "`"+rival+"`", fmt.Sprint(n), fmt.Sprint(s.below(1)), s.named(n-1))
			}
		}
	}
	return t
}

// groupTable summarises the sweep by a part of its cases' names.
func groupTable(r *bench.Report, head string, key func(*bench.Case) string,
	cells func(*bench.Report, func(*bench.Case) bool) []string, columns ...string) *table {
	t := newTable(append([]string{head}, columns...)...)
	var seen []string
	for i := range r.Cases {
		k := key(&r.Cases[i])
		if slices.Contains(seen, k) {
			continue
		}
		seen = append(seen, k)
		t.row(append([]string{k}, cells(r, func(c *bench.Case) bool { return key(c) == k })...)...)
	}
	return t
}

func byBatch(c *bench.Case) string {
	_, _, batch := zhangCase(c)
	return fmt.Sprint(batch)
}

func byRange(c *bench.Case) string {
	mn, k, _ := zhangCase(c)
	return fmt.Sprintf("%d, %d", mn, k)
}

// speedupCells are geometric means of the default and of f32 over the rivals.
func speedupCells(r *bench.Report, keep func(*bench.Case) bool) (cells []string) {
	for _, o := range own[:2] {
		for _, rival := range []string{loop, graph, grouped} {
			cells = append(cells, digits(speedups(r, o.method, rival, keep).geomean()))
		}
	}
	return cells
}

var speedupColumns = []string{"default: loop", "graph", "grouped", "`f32`: loop", "graph", "grouped"}

func batchTable(r *bench.Report) *table {
	return groupTable(r, "batch", byBatch, speedupCells, speedupColumns...)
}

func rangeTable(r *bench.Report) *table {
	return groupTable(r, "max M, N; max K", byRange, speedupCells, speedupColumns...)
}

// latencyTable is Fig. 10: the time of a batch by the number of its problems.
func latencyTable(r *bench.Report) *table {
	methods := []string{"batchgemm", "f32", "webgpu", grouped, graph, loop}
	return groupTable(r, "batch", byBatch,
		func(r *bench.Report, keep func(*bench.Case) bool) (cells []string) {
			for _, m := range methods {
				s := &ratios{}
				for i := range r.Cases {
					if c := &r.Cases[i]; keep(c) {
						s.add(c.Workload, micros(c, m))
					}
				}
				cells = append(cells, digits(s.geomean()))
			}
			return cells
		}, "default", "`f32`", "WebGPU", "grouped", "graph", "loop")
}

// caseTable lists every batch of a step.
func caseTable(r *bench.Report) *table {
	t := newTable("batch", "GFLOP", "µs", "TFLOPS", "tile, schedule", "x grouped", "x graph", "x loop",
		"`f32` µs", "WebGPU µs")
	for i := range r.Cases {
		c := &r.Cases[i]
		us := micros(c, "batchgemm")
		over := func(rival string) string { return digits(micros(c, rival) / us) }
		t.row(strings.ReplaceAll(strings.TrimPrefix(c.Workload, "zhang-"), "-", ", "), digits(c.GFLOP),
			digits(us), digits(c.GFLOP/us*1e3),
			c.Chosen(), over(grouped), over(graph), over(loop), digits(micros(c, "f32")),
			digits(micros(c, "webgpu")))
	}
	return t
}

// overheadTable is Fig. 7: the share of planning in the time of a batch that is planned and run once. Either
// the host makes all of the plan, or it chooses and the device makes the items, or the device does
// everything. Planning on the device is in the time of its run.
func overheadTable(r *bench.Report) *table {
	t := newTable("max M, N, K", "batch", "plan, µs", "device, µs", "plan's part", "of an update, µs",
		"device, µs", "its part",
		"on the device, µs", "its part", "paper, MI210", "paper, A800")
	paper := map[int][2]string{8: {"6.06 %", "6.37 %"}, 1024: {"< 1 %", "< 1 %"}}
	for i := range r.Cases {
		c := &r.Cases[i]
		var mn, k, batch int // 0 for a workload of another name
		_, _ = fmt.Sscanf(c.Workload, "random:mn=%d,k=%d,batch=%d", &mn, &k, &batch)
		theirs, ok := paper[batch]
		if !ok {
			theirs = [2]string{none, none}
		}
		us, live, planning := micros(c, "batchgemm"), micros(c, "batchgemm-ragged"), micros(c, "ragged-plan")
		t.row(fmt.Sprintf("%d, %d", mn, k), fmt.Sprint(batch), digits(c.Plan), digits(us),
			percent(c.Plan/(c.Plan+us)),
			digits(c.Renew), digits(live), percent(c.Renew/(c.Renew+live)), digits(planning),
			percent(planning/live), theirs[0], theirs[1])
	}
	return t
}

// parallelismTable is Figs. 8 and 9: the rule of Zhang et al. with their measure of parallelism, Eq. 4, over
// the same rule with the older measure, Eq. 3.
func parallelismTable(older, newer *bench.Report) *table {
	t := newTable("batches", "paper, MI210", "paper, A800", "Eq. 4 over Eq. 3", "batches with other tiles")
	for _, line := range []struct {
		name, mi210, a800 string
		least, most       int
	}{{"all", "1.077", "1.085", 0, 1 << 30}, {"of 16 at most", "1.04", "1.04", 0, 16},
		{"of 32 or more", "1.10", "1.11", 32, 1 << 30}} {
		s, other := &ratios{}, 0
		for i := range newer.Cases {
			c := &newer.Cases[i]
			o := find(older, c.Workload)
			if _, _, batch := zhangCase(c); o == nil || batch < line.least || batch > line.most {
				continue
			}
			if !slices.Equal(c.Tiles, o.Tiles) {
				other++
			}
			s.add(c.Workload, micros(o, "batchgemm")/micros(c, "batchgemm"))
		}
		t.row(line.name, line.mi210, line.a800, s.spread(), fmt.Sprintf("%d of %d", other, len(s.all)))
	}
	return t
}

// winnerTable lists the fastest of the forced plans of each batch of the sweep, a line for each range of
// sizes.
func winnerTable(r *bench.Report) *table {
	head, ranges, won := []string{"max M, N; max K"}, []string{}, map[string]string{}
	add := func(to *[]string, s string) {
		if !slices.Contains(*to, s) {
			*to = append(*to, s)
		}
	}
	for i := range r.Cases {
		if c := &r.Cases[i]; c.Regret != nil {
			add(&head, byBatch(c))
			add(&ranges, byRange(c))
			won[byRange(c)+byBatch(c)] = c.Regret.Tile + ", " + c.Regret.Schedule
		}
	}
	t := newTable(head...)
	for _, name := range ranges {
		cells := []string{name}
		for _, batch := range head[1:] {
			cells = append(cells, cmp.Or(won[name+batch], none))
		}
		t.row(cells...)
	}
	return t
}

// ruleTable compares the rule of Zhang et al. with the default one.
func ruleTable(sweep, theirs *bench.Report) *table {
	s := &ratios{}
	for i := range theirs.Cases {
		if c := find(sweep, theirs.Cases[i].Workload); c != nil {
			s.add(c.Workload, micros(&theirs.Cases[i], "batchgemm")/micros(c, "f32"))
		}
	}
	t := newTable("batches", "rule zhang2025, Eq. 4, over least predicted time")
	t.row("all", s.spread())
	return t
}

// best returns the least time of the forced plans that keep selects, or 0.
func best(c *bench.Case, keep func(*bench.Forced) bool) (least float64) {
	if c.Regret == nil {
		return 0
	}
	for i := range c.Regret.Forced {
		if f := &c.Regret.Forced[i]; keep(f) && (least == 0 || f.Micros < least) {
			least = f.Micros
		}
	}
	return least
}

// slower returns how many times as long the best of some forced plans takes as the best of all.
func slower(r *bench.Report, keep func(*bench.Forced) bool) *ratios {
	s := &ratios{}
	for i := range r.Cases {
		c := &r.Cases[i]
		if all := best(c, func(*bench.Forced) bool { return true }); all > 0 {
			s.add(c.Workload, best(c, keep)/all)
		}
	}
	return s
}

// threadTable is Fig. 3 and Tables 2 and 3: tiles computed by different numbers of threads, with each tile
// for a whole batch.
func threadTable(r *bench.Report) *table {
	t := newTable("tile", "threads", "outputs a thread", "Table 3", "slower than the best tile of the batch")
	row := func(name, threads, outputs, theirs string, keep func(*tile.Shape) bool) {
		s := slower(r, func(f *bench.Forced) bool {
			shape, err := tile.ByName(f.Tile)
			return err == nil && keep(shape)
		})
		if len(s.all) > 0 {
			t.row(name, threads, outputs, theirs, s.spread())
		}
	}
	tiles := tile.Of(tile.FMA)
	slices.SortStableFunc(tiles, func(a, b *tile.Shape) int { return a.TM*a.TN - b.TM*b.TN })
	for _, shape := range tiles {
		theirs := ""
		if shape.Zhang {
			theirs = "yes"
		}
		row(fmt.Sprintf("%s, %dx%d", shape.Name, shape.TM, shape.TN), fmt.Sprint(shape.Threads),
			fmt.Sprintf("%d (%d K groups)", shape.RM*shape.RN, shape.Groups()), theirs,
			func(x *tile.Shape) bool { return x.Name == shape.Name })
	}
	row("best of Table 3", "128, 256", "2–16", "yes", func(x *tile.Shape) bool { return x.Zhang })
	for _, threads := range []int{64, 128, 256} {
		row("best of all with", fmt.Sprint(threads), "", "", func(x *tile.Shape) bool {
			return x.Threads == threads
		})
	}
	row("best of Table 3 with", "128", "2–8", "yes", func(x *tile.Shape) bool {
		return x.Zhang && x.Threads == 128
	})
	row("best of Table 3 with", "256", "8–16", "yes", func(x *tile.Shape) bool {
		return x.Zhang && x.Threads == 256
	})
	return t
}

// scheduleTable compares the schedules, each with its best tile, in a report with every plan forced.
func scheduleTable(r *bench.Report) *table {
	t := newTable("schedule", "slower than the best")
	for _, schedule := range planner.Schedules() {
		if s := slower(r, func(f *bench.Forced) bool {
			return f.Schedule == string(schedule)
		}); len(s.all) > 0 {
			t.row(string(schedule), s.spread())
		}
	}
	return t
}
