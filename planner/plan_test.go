package planner

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/internal/sample"
	"github.com/batchgemm/batchgemm/internal/tile"
	"github.com/batchgemm/batchgemm/planner/element"
)

// randomBatch returns n packed problems with sizes in [low, high].
func randomBatch(t testing.TB, rng *rand.Rand, n, low, high int) Batch {
	problems := make([]Problem, n)
	size := func() int { return low + rng.IntN(high-low+1) }
	for i := range problems {
		p := GEMM(size(), size(), size())
		p.TransA, p.TransB = rng.IntN(2) == 1, rng.IntN(2) == 1
		p.Alpha, p.Beta = Scale(float64(rng.IntN(3)-1)), float64(rng.IntN(3)-1)
		problems[i] = p
	}
	b, err := Pack(problems...)
	require.NoError(t, err)
	return b
}

// known lists the devices of package devices. This package cannot import it, so it writes the devices to a
// file here.
var known = sync.OnceValue(func() (all []*Device) {
	data, err := os.ReadFile("testdata/devices.json")
	if err == nil {
		err = json.Unmarshal(data, &all)
	}
	if err != nil {
		panic(err)
	}
	return all
})

// device returns one of them, for the test to change.
func device(t testing.TB, name string) *Device {
	i := slices.IndexFunc(known(), func(d *Device) bool { return d.Name == name })
	require.GreaterOrEqual(t, i, 0, name)
	return clone(known()[i])
}

func clone(d *Device) *Device {
	c := *d
	c.Kernels = slices.Clone(d.Kernels)
	return &c
}

// shape returns a row of the tile table.
func shape(t testing.TB, name string) *tile.Shape {
	s, err := tile.ByName(name)
	require.NoError(t, err)
	return s
}

// checkPlan checks that every (tile, k) of every problem is computed exactly once, and the other rules of
// all plans.
func checkPlan(t *testing.T, p *Plan) {
	t.Helper()
	check := func(ok bool, what string) {
		if !ok {
			t.Helper()
			t.Fatal(what)
		}
	}
	type tileAt struct{ problem, row, col int32 }
	depth := map[tileAt]int32{} // sum of the K ranges so far
	ranges := map[tileAt][][2]int32{}
	partial := map[int32]tileAt{} // slot -> its tile, within the slot size
	seen := map[[2]int]bool{}     // used ranges of the workspace
	finished := map[tileAt]int{}  // number of final stores to C
	worker, fixup := 0, 0
	for _, l := range p.Launches {
		tile := l.Tile
		require.Positive(t, l.Count, "empty launch")
		if p.Device.MaxWorkers > 0 {
			require.LessOrEqual(t, l.Count, p.Device.MaxWorkers)
		}
		of, ofC := p.Options.TypeA.Bytes(), p.Options.TypeC.Bytes()
		require.Zero(t, l.BaseA*of%256+l.BaseB*of%256+l.BaseC*ofC%256,
			"bases are aligned to 256 bytes, as WebGPU asks for")
		require.True(t, p.reachable(l.SpanA, max(l.SpanB, l.SpanB2), l.SpanC), "operands are bound")
		if e := p.Options.Epilogue.kernel(); l.Fixup {
			require.Equal(t, e.OfFixup(), l.Epilogue)
		} else {
			// checkItem: of which segments
			check(l.Epilogue == e || l.Epilogue == e.OfPart() && !e.Gated && !l.Split, "another epilogue")
			check(!e.Gated || l.Loop && !l.Split && l.Cluster == 0, "a gated tile is cut, or not two items")
			check(p.Workspace >= l.Count*p.Device.kept(&l.Kernel), "workers without a slot")
		}
		sum := func(first, count int) {
			require.Equal(t, fixup, first)
			for _, f := range p.Fixups[first : first+count] {
				at := tileAt{f.Problem, f.Row, f.Col}
				require.Greater(t, f.Count, int32(1))
				for s := f.Slot; s < f.Slot+f.Count; s++ {
					check(partial[s] == at, "slot of another tile")
					delete(partial, s)
				}
				finished[at]++
			}
			fixup += count
		}
		if l.Fixup {
			sum(l.First, l.Count)
			for _, f := range p.Fixups[l.First : l.First+l.Count] {
				check(int(f.Count) <= l.MostPartials, "a tile of more parts than the launch is for")
			}
			check(slices.ContainsFunc(p.Fixups,
				func(f encoding.Fixup) bool { return int(f.Count) == l.MostPartials }),
				"a launch for more parts than any tile has")
			continue
		}
		check(l.MostPartials == 0, "parts without a fix-up")
		require.Equal(t, worker, l.First)
		worker += l.Count
		check(!l.Dynamic || l.Loop && !l.Split && l.Cluster == 0 &&
			p.Device.KernelKind != encoding.KernelsCPU, "kernels that cannot take dynamic tiles")
		for w := l.First; w < l.First+l.Count; w++ {
			segments := p.Segments[p.Workers[w]:p.Workers[w+1]]
			check(len(segments) > 0, "empty worker")
			check(l.Loop || len(segments) == 1, "several segments without Loop")
			for i := range segments {
				s := &segments[i]
				q := &p.Batch[s.Problem]
				check(l.TransA == q.TransA && l.TransB == q.TransB && l.Tile == p.Tiles[s.Problem],
					"wrong kernel")
				check(!l.Vector || q.vectorTile(p.Options.vector()) &&
					(!l.Epilogue.Gated || q.B2.aligned(p.Options.vector())),
					"wide launch of a narrow problem")
				check(!l.Boxes || q.aligned(p.Options.vector()), "boxes of rows that are not aligned")
				check(int(s.K0)%tile.TK == 0, "K range not on a step")
				check(s.K1 > s.K0 || q.depth() == 0, "empty K range")
				check(int(s.Row)*tile.TM < q.M && int(s.Col)*tile.TN < q.N, "tile outside C")
				at := tileAt{s.Problem, s.Row, s.Col}
				depth[at] += s.K1 - s.K0
				ranges[at] = append(ranges[at], [2]int32{s.K0, s.K1})
				r := reach(tile, q, s, &p.Options.Epilogue)
				for j, base := range [4]int{l.BaseA, l.BaseB, l.BaseC, l.BaseB2} {
					check(r[j].first == r[j].end || r[j].first >= base &&
						r[j].end <= base+[4]int{l.SpanA, l.SpanB, l.SpanC, l.SpanB2}[j], "outside the window")
				}
				switch {
				case s.Slot != encoding.NoSlot:
					check(l.Split, "slot without Split")
					size := tile.TM * tile.TN
					use := [2]int{int(s.Slot) * size, (int(s.Slot) + 1) * size}
					check(!seen[use], "slot twice")
					seen[use] = true
					check(use[1] <= p.Workspace, "slot outside the workspace")
					partial[s.Slot] = at
				case s.Accumulate:
					check(depth[at]-(s.K1-s.K0) == s.K0, "panels out of order")
				default:
					finished[at]++
				}
			}
		}
		if l.Finishes > 0 {
			check(l.Split && p.Device.Finishes && !l.Fixup, "a launch that cannot sum parts")
			sum(l.FirstFixup, l.Finishes)
		}
	}
	require.Len(t, p.Workers, worker+1)
	require.Len(t, p.Fixups, fixup)
	require.LessOrEqual(t, p.Workspace, p.Device.spanLimit(element.F32), "the workspace is bound too")
	require.Empty(t, partial, "partial tiles that no fix-up reads")
	for i := range p.Batch {
		q := &p.Batch[i]
		if !p.Options.Epilogue.Writes(q) {
			continue
		}
		tile := p.Tiles[i]
		rows, cols := grid(tile, q)
		for row := range rows {
			for col := range cols {
				at := tileAt{int32(i), int32(row), int32(col)}
				check(depth[at] == int32(q.depth()), "K not covered exactly once")
				slices.SortFunc(ranges[at], func(x, y [2]int32) int { return cmp.Compare(x[0], y[0]) })
				end := int32(0)
				for _, r := range ranges[at] {
					check(r[0] == end, "K ranges with a gap or an overlap")
					end = r[1]
				}
				check(finished[at] == 1, "tile not finished exactly once")
				delete(finished, at)
			}
		}
	}
	require.Empty(t, finished, "tiles that no problem has")
}

func TestEveryTileOnce(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	batches := map[string]Batch{
		"none":   {},
		"empty":  randomBatch(t, rng, 5, 0, 0),
		"tiny":   randomBatch(t, rng, 200, 0, 9),
		"mixed":  randomBatch(t, rng, 60, 0, 300),
		"long K": mustPack(t, GEMM(64, 64, 8192), GEMM(1, 1, 100000), GEMM(33, 17, 4097)),
	}
	for name, b := range batches {
		for _, dev := range []string{"h200-webgpu", "lavapipe", "webgpu-default", "mi210", "a100", "h200"} {
			for _, o := range allOptions(device(t, dev)) {
				t.Run(fmt.Sprintf("%s/%s/%s%s%s", name, dev, o.Rule, o.Schedule, o.Tile), func(t *testing.T) {
					sample.Planner.Skip(t, 2)
					p, err := New(device(t, dev)).Plan(t.Context(), b, o)
					require.NoError(t, err)
					checkPlan(t, p)
				})
			}
		}
	}
}

func allOptions(d *Device) []Options {
	var all []Options
	for _, s := range append(Schedules(), "") {
		all = append(all, Options{Schedule: s}, Options{Schedule: s, Rule: RuleZhang2025})
		for _, shape := range tile.Table() {
			if d.Fits(shape, Options{}) {
				all = append(all, Options{Schedule: s, Tile: shape.Name})
			}
		}
	}
	return all
}

func mustPack(t testing.TB, problems ...Problem) Batch {
	b, err := Pack(problems...)
	require.NoError(t, err)
	return b
}

func TestWindows(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	cases := []struct {
		name    string
		binding int // bytes
		trips   int
		batch   Batch
		panels  bool
	}{
		{"many problems", 64 << 10, 0, randomBatch(t, rng, 40, 1, 80), false},
		{"one long K", 1 << 20, 0, mustPack(t, GEMM(70, 90, 4000)), true},
		{"B larger than a binding", 256 << 10, 0, mustPack(t, GEMM(20, 300, 700), GEMM(5, 6, 7)), true},
		{"loop limit", 1 << 30, 100, mustPack(t, GEMM(10, 10, 20000), GEMM(3, 3, 3)), true},
	}
	for _, c := range cases {
		for _, tile := range []string{"", "tiny-k4", "large"} {
			t.Run(c.name+"/"+tile, func(t *testing.T) {
				d := *device(t, "webgpu-default")
				d.MaxBinding, d.MaxTrips = c.binding, c.trips
				p, err := New(&d).Plan(t.Context(), c.batch, Options{Tile: tile})
				require.NoError(t, err)
				checkPlan(t, p)
				require.Greater(t, len(p.Launches), 1)
				accumulates := false
				for _, s := range p.Segments {
					accumulates = accumulates || s.Accumulate
				}
				require.Equal(t, c.panels, accumulates)
			})
		}
	}
}

// TestLongWorkFirst: a launch that ends with long work leaves units idle.
func TestLongWorkFirst(t *testing.T) {
	b := randomBatch(t, rand.New(rand.NewPCG(8, 8)), 60, 1, 400)
	for _, s := range Schedules() {
		t.Run(string(s), func(t *testing.T) {
			d := *device(t, "h200-webgpu")
			d.MaxGroups = 1
			p, err := New(&d).Plan(t.Context(), b, Options{Schedule: s, Tile: "large"})
			require.NoError(t, err)
			tile := shape(t, "large")
			steps := func(w int) (n int) {
				for _, s := range p.Segments[p.Workers[w]:p.Workers[w+1]] {
					n += max(ceilDiv(int(s.K1-s.K0), tile.TK), 1)
				}
				return n
			}
			// Partials and shares are equal up to one step; batches end when full.
			slack := map[Schedule]int{ScheduleSplitK: 1, ScheduleStreamK: 1, ScheduleBatched: 400 / tile.TK,
				ScheduleLPT: 400 / tile.TK}[s]
			for _, l := range p.Launches {
				if l.Dynamic { // all workers take these in this order
					segments := p.Segments[p.Workers[l.First]:p.Workers[l.First+l.Count]]
					require.True(t, slices.IsSortedFunc(segments,
						func(x, y encoding.Segment) int { return cmp.Compare(y.K1, x.K1) }))
					continue
				}
				for w := l.First + 1; w < l.First+l.Count && !l.Fixup; w++ {
					require.LessOrEqual(t, steps(w), steps(w-1)+slack)
				}
			}
		})
	}
}

func TestManyWorkersAreCut(t *testing.T) {
	d := device(t, "webgpu-default")
	p, err := New(d).Plan(t.Context(), mustPack(t, GEMM(4160, 4160, 1)),
		Options{Tile: "small", Schedule: ScheduleDataParallel})
	require.NoError(t, err)
	checkPlan(t, p)
	require.Len(t, p.Launches, 2)
	require.Equal(t, 65535, p.Launches[0].Count)
}

func BenchmarkBuild(b *testing.B) {
	d := device(b, "h200-webgpu")
	for _, n := range []int{8, 256, 1024} {
		for _, s := range append(Schedules(), "") {
			name := string(s)
			if s == "" {
				name = "auto"
			}
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
				batch := randomBatch(b, rand.New(rand.NewPCG(1, 1)), n, 16, 512)
				maker, p := New(d), new(Plan)
				require.NoError(b, maker.Replan(b.Context(), p, batch, Options{Schedule: s}))
				b.ReportAllocs()
				for b.Loop() {
					if err := maker.Replan(b.Context(), p, batch, Options{Schedule: s}); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/problem")
			})
		}
	}
}

// BenchmarkLive plans and encodes a batch into used memory. It shows the cost of each step if sizes change,
// with items made on the device and on the host.
func BenchmarkLive(b *testing.B) {
	for _, how := range []struct {
		name string
		plan func(*Planner, context.Context, *Plan, Batch, Options) error
	}{{"renew", (*Planner).Renew}, {"replan", (*Planner).Replan}} {
		for _, c := range []struct{ n, least, most int }{{8, 16, 512}, {256, 16, 128}, {1024, 16, 512},
			{4096, 8, 32}} {
			b.Run(fmt.Sprintf("%s/%d of %d..%d", how.name, c.n, c.least, c.most), func(b *testing.B) {
				batch := randomBatch(b, rand.New(rand.NewPCG(1, 1)), c.n, c.least, c.most)
				for i := range batch { // like layers of networks
					batch[i].TransA, batch[i].TransB = false, false
				}
				batch, err := Pack(batch...)
				require.NoError(b, err)
				maker, p := New(device(b, "h200")), new(Plan)
				var words []uint32
				require.NoError(b, how.plan(maker, b.Context(), p, batch, Options{}))
				b.ReportAllocs()
				for b.Loop() {
					if err := how.plan(maker, b.Context(), p, batch, Options{}); err != nil {
						b.Fatal(err)
					}
					words = p.Encode(words)
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(c.n), "ns/problem")
			})
		}
	}
}

func BenchmarkEncode(b *testing.B) {
	for _, n := range []int{8, 256, 1024} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			p, err := New(device(b, "h200")).Plan(b.Context(), randomBatch(b, rand.New(rand.NewPCG(1, 1)), n,
				16, 512), Options{})
			require.NoError(b, err)
			words := p.Encode(nil)
			b.ReportAllocs()
			for b.Loop() {
				words = p.Encode(words)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(p.Segments)),
				"ns/item")
		})
	}
}
