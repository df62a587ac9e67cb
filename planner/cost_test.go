package planner

import (
	"bytes"
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/tile"
	"github.com/batchgemm/batchgemm/planner/element"
)

// TestPredict: the prediction equals the cost of the plan for all batches.
func TestPredict(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	batches := map[string]Batch{
		"none":     {},
		"empty":    randomBatch(t, rng, 5, 0, 0),
		"tiny":     randomBatch(t, rng, 200, 0, 9),
		"mixed":    randomBatch(t, rng, 60, 0, 300),
		"long K":   mustPack(t, GEMM(64, 64, 8192), GEMM(33, 17, 4097)),
		"few rows": mustPack(t, GEMM(8, 640, 2048), GEMM(16, 640, 1024)),
		// larger than an H200's cache
		"cold": mustPack(t, slices.Repeat([]Problem{GEMM(3, 2048, 2048)}, 6)...),
	}
	measured := device(t, "h200")
	measured.Kernels[2].Rate = tile.Rate{Efficiency: 0.01, Step: 40, Fixed: 50, Worker: 60}
	for _, d := range []*Device{device(t, "mi210"), device(t, "h200-webgpu"), device(t, "lavapipe"),
		measured} {
		for name, b := range batches {
			for i := range d.Kernels {
				k := &d.Kernels[i]
				if k.Tile.NarrowOnly || k.Tile.Unit == tile.F64 {
					continue
				}
				for _, s := range append(Schedules(), "") {
					p, err := New(d).Plan(t.Context(), b, Options{Tile: k.Tile.Name, Schedule: s,
						Compute: ComputeTF32})
					require.NoError(t, err)
					what := fmt.Sprintf("%s %s %s %s", d.Name, name, k.Tile.Name, s)
					got := d.Predict(b, k, s, ComputeTF32)
					if s == ScheduleStreamK && !p.sumsEverywhere() {
						require.GreaterOrEqual(t, got, p.Cost, what)
						continue
					}
					require.InDelta(t, p.Cost, got, 1e-9*p.Cost, what)
				}
			}
		}
	}
}

// sumsEverywhere reports whether each of the plan's kernels needs its fix-up.
func (p *Plan) sumsEverywhere() bool {
	fixups := 0
	for i := range p.Launches {
		if p.Launches[i].Fixup {
			fixups++
		}
	}
	return 2*fixups == len(p.Launches)
}

// TestRate: measured rates take effect if there are any; the others stay as before.
func TestRate(t *testing.T) {
	d, slow, fast := device(t, "h200"), device(t, "h200"), device(t, "h200")
	slow.TFLOPS /= 4
	fast.TFLOPS *= 2
	tiny := shape(t, "tiny-k4")
	shipped := tiny.Rates.Native
	require.Positive(t, min(shipped.Step, shipped.Fixed, shipped.Worker))
	near := func(d *Device, fixed, worker float64) {
		t.Helper()
		got := d.Rate(d.Kernel(tiny), ComputeF32)
		require.InDelta(t, shipped.Efficiency, got.Efficiency, 1e-9)
		require.InDelta(t, shipped.Step, got.Step, 1e-9)
		require.InDelta(t, fixed*shipped.Fixed, got.Fixed, 1e-9)
		require.InDelta(t, worker*shipped.Worker, got.Worker, 1e-3)
	}
	near(d, 1, 1)
	near(slow, 4, 4)
	near(fast, 1, 0.5) // latencies stay
	medium := slow.Kernel(shape(t, "medium-k2"))
	medium.Rate = tile.Rate{Efficiency: 0.5}
	require.Equal(t, medium.Tile.Rates.Native.Rounds, slow.Rate(medium, ComputeF32).Rounds,
		"rounds are not measured")
	medium.Rate = tile.Rate{}
	measured, k := tile.Rate{Efficiency: 0.5, Step: 1, Worker: 2}, slow.Kernel(shape(t, "medium"))
	require.False(t, slow.tuned())
	*k.Measured(ComputeTF32) = measured
	require.True(t, slow.tuned())
	near(slow, 4, 4)
	require.Equal(t, measured, slow.Rate(k, ComputeF32), "a tile without tensor cores has one rate")
	wgmma := slow.Kernel(shape(t, "wgmma-64x64"))
	wgmma.Rate = measured
	measured.Stream, measured.Along = wgmma.Tile.Rates.Native.Stream, wgmma.Tile.Rates.Native.Along
	require.Equal(t, measured, slow.Rate(wgmma, ComputeF32Emulated), "streams are not measured")
	measured.Stream, measured.Along = 0, 0
	tensor := slow.Kernel(shape(t, "tensor-32x32"))
	*tensor.Measured(ComputeTF32) = measured
	require.Equal(t, measured, slow.Rate(tensor, ComputeTF32))
	require.NotEqual(t, measured, slow.Rate(tensor, ComputeF32Emulated))
}

// TestMemory: if operands are larger than the cache, a batch takes at least the time in which memory
// delivers them, at the rate of each tile shape.
func TestMemory(t *testing.T) {
	experts := make(Batch, 128)
	for i := range experts {
		experts[i] = GEMM(4, 1536, 2048)
	}
	bytes := 128 * 4 * (1536 + 4) * 2048.0
	h200, unknown, slow, warm := device(t, "h200"), device(t, "h200"), device(t, "h200"), device(t, "h200")
	unknown.Cache, warm.Cache = 0, int(bytes)
	slow.MemoryRate /= 4
	for _, name := range []string{"wgmma-64x64", "wgmma-128x64", "wgmma-128x128"} {
		k := h200.Kernel(shape(t, name))
		predict := func(d *Device, b Batch) float64 { return d.Predict(b, k, "", ComputeF32Emulated) }
		require.Greater(t, predict(h200, experts), 0.99*bytes/k.Tile.Rates.Native.Stream/132, name)
		require.Less(t, predict(unknown, experts), predict(h200, experts), name)
		require.Greater(t, predict(slow, experts), bytes/slow.MemoryRate, name)
		require.Equal(t, predict(unknown, experts[:4]), predict(h200, experts[:4]),
			"the cache has room for these")
		require.Equal(t, predict(unknown, experts), predict(warm, experts), "and this one for all")
	}
}

// TestHalves: kernels of plain fp32 have rates for 16-bit elements on devices with such kernels. They are
// the fp32 rates times the device's factor.
func TestHalves(t *testing.T) {
	of16 := Options{TypeA: element.BF16}
	for name, faster := range map[string]float64{"mi100": 2, "mi210": 4, "mi300x": 8} {
		d := device(t, name)
		for i := range d.Kernels {
			k, s, want := &d.Kernels[i], d.Kernels[i].Tile, faster
			if s.TM < 16 { // not for matrix cores
				want = 1
			}
			require.Equal(t, s.Unit == tile.FMA, d.Fits(s, of16))
			if s.Unit == tile.F64 {
				continue
			}
			full, half := d.Rate(k, ComputeF32), d.rate(k, arithmetic{bits: 16})
			require.InDelta(t, want, half.Efficiency/full.Efficiency, 1e-9, "%s %s", name, s)
			half.Efficiency = full.Efficiency
			require.Equal(t, full, half)
		}
	}
	d := device(t, "h200")
	require.False(t, d.Fits(shape(t, "large"), of16))
	require.True(t, d.Fits(shape(t, "wgmma-64x64"), of16))
	d.Kernels = slices.DeleteFunc(d.Kernels, func(k KernelFacts) bool { return k.Tile.Unit.Tensor() })
	for _, size := range []int{1, 8} { // any rows, and aligned rows
		_, err := New(d).Plan(t.Context(), mustPack(t, GEMM(size, size, size)), of16)
		require.EqualError(t, err, "device h200 has no kernels for 16-bit elements")
	}
}

// TestWords: WGSL's workers take longer to store 16-bit C, also with measured rates. Other tiles then win
// for K up to a few hundred.
func TestWords(t *testing.T) {
	d := device(t, "h200-webgpu")
	large, batch := d.Kernel(shape(t, "large-8x8")),
		mustPack(t, slices.Repeat([]Problem{GEMM(256, 256, 200)}, 256)...)
	for _, rate := range []tile.Rate{{}, {Efficiency: 0.5, Step: 1, Fixed: 1, Worker: 1}} {
		large.Rate = rate
		for o, more := range map[Options]float64{{}: 0, {TypeA: element.BF16}: 0,
			{TypeA: element.BF16, TypeC: element.BF16}: large.Tile.Rates.Words} {
			require.InDelta(t, more, d.rate(large, o.arithmetic(d, false)).Worker-d.Rate(large,
				ComputeF32).Worker, 1e-9)
		}
	}
	large.Rate = tile.Rate{}
	for of, want := range map[element.Type]string{element.F32: "large-8x8", element.BF16: "large-8x4"} {
		plan, err := New(d).Plan(t.Context(), batch, Options{TypeA: of, TypeC: of})
		require.NoError(t, err)
		require.Equal(t, want, plan.Launches[0].Tile.Name, of)
	}
}

// TestDirectRate: B that goes to registers gains as the tile table says, also with measured rates.
func TestDirectRate(t *testing.T) {
	d := device(t, "h200-webgpu")
	thin, other := d.Kernel(shape(t, "thin-8x64")), d.Kernel(shape(t, "large-8x8"))
	times := thin.Tile.Rates.Direct
	require.Greater(t, times, 1.0)
	for _, measured := range []tile.Rate{{}, {Efficiency: 0.5, Step: 1, Fixed: 1, Worker: 1}} {
		thin.Rate, other.Rate = measured, measured
		for _, o := range []Options{{Compute: ComputeF32}, {TypeA: element.BF16, TypeC: element.BF16}} {
			plain, direct := o.arithmetic(d, false), o.arithmetic(d, true)
			want := d.rate(thin, plain)
			want.Efficiency *= times
			want.Step /= times
			require.Equal(t, want, d.rate(thin, direct))
			require.Equal(t, d.rate(other, plain), d.rate(other, direct),
				"of which C of 16 bits takes a worker longer")
		}
	}
}

// TestAlignedHalves: kernels for aligned rows are chosen if all rows are aligned. If those of one problem,
// or of its B2, are not, others are chosen.
func TestAlignedHalves(t *testing.T) {
	p := New(device(t, "h200"))
	chosen := func(o Options, problems ...Problem) string {
		plan, err := p.Plan(t.Context(), mustPack(t, problems...), o)
		require.NoError(t, err)
		return plan.Launches[0].Tile.Name
	}
	of16, wide := Options{TypeA: element.BF16, TypeC: element.BF16}, make([]Problem, 64)
	for i := range wide {
		wide[i] = GEMM(512, 512, 512)
	}
	require.Equal(t, "aligned-128x128", chosen(of16, wide...))
	require.NotContains(t, chosen(of16, append(wide, GEMM(511, 511, 511))...), "aligned")
	gated := of16
	gated.Epilogue = Epilogue{Activation: SiLU, Gated: true}
	for i := range wide {
		wide[i].B2 = Matrix{LD: 512}
	}
	require.Contains(t, chosen(gated, wide...), "aligned")
	wide[63].B2.Offset = 4
	require.NotContains(t, chosen(gated, wide...), "aligned")
}

func TestMaxEfficiency(t *testing.T) {
	for _, d := range known() {
		for i := range d.Kernels {
			k := &d.Kernels[i]
			for _, c := range []Compute{ComputeF32Emulated, ComputeF32, ComputeTF32} {
				require.Less(t, d.Rate(k, c).Efficiency, k.Tile.MaxEfficiency(c == ComputeTF32,
					d.PeakGuessed), "%s %s", d.Name, k.Tile)
			}
		}
	}
	require.Equal(t, 1.2, shape(t, "small").MaxEfficiency(true, false))
}

// TestMeasured: predictions are guesses unless rates come from the device or from compute units like those
// of the H200.
func TestMeasured(t *testing.T) {
	for _, d := range known() {
		like := slices.Contains([]string{"h200", "h100", "h200-webgpu"}, d.Name)
		require.Equal(t, like, d.Measured(), d.Name)
		p, err := New(d).Plan(t.Context(), mustPack(t, GEMM(20, 30, 40)), Options{})
		require.NoError(t, err)
		require.Equal(t, !like, p.Explain().Guess, d.Name)
		var text bytes.Buffer
		require.NoError(t, p.WriteText(&text))
		require.Equal(t, !like, strings.Contains(text.String(),
			" us (a guess, as no rates were measured), occupancy"), d.Name)
		tuned := clone(d)
		tuned.Kernels[3].Rate = tile.Rate{Efficiency: 0.1}
		require.True(t, tuned.Measured(), d.Name)
	}
}

// TestRounds: one tile more than there are compute units takes another round. That is a whole one for equal
// tiles, and at least two of the shortest for others.
func TestRounds(t *testing.T) {
	d := device(t, "h200")
	k := d.Kernel(shape(t, "wgmma-128x128"))
	predict := func(depths ...int) float64 {
		var b Batch
		for _, depth := range depths {
			b = append(b, GEMM(128, 128, depth))
		}
		return d.Predict(mustPack(t, b...), k, ScheduleLPT, ComputeF32Emulated)
	}
	leave := func(n int) float64 {
		return d.Predict(mustPack(t, slices.Repeat(Batch{GEMM(64, 64, 256)}, n)...),
			d.Kernel(shape(t, "large-8x8")), ScheduleDataParallel, ComputeF32)
	}
	require.Greater(t, leave(d.ComputeUnits+1), 1.05*leave(d.ComputeUnits),
		"two of which workers leave share a unit")
	equal := func(n int) float64 { return predict(slices.Repeat([]int{128}, n)...) }
	one := equal(d.ComputeUnits)
	require.InEpsilon(t, 2, equal(d.ComputeUnits+1)/one, 0.15) // a launch starts once
	require.InEpsilon(t, 2, equal(2*d.ComputeUnits)/one, 0.15)
	require.InEpsilon(t, 3, equal(2*d.ComputeUnits+1)/one, 0.2)
	long := slices.Repeat([]int{128}, d.ComputeUnits-2)
	require.Less(t, predict(append(long, 32, 32, 32)...)/one, 1.4, "two short ones share a unit")
	require.Equal(t, predict(append(long, 32, 32, 32)...), predict(append([]int{32, 32, 32}, long...)...),
		"in any order")
}

// TestSplitFills: equal tiles have no more partials than places. Other tiles exceed that at most by the
// remainder.
func TestSplitFills(t *testing.T) {
	uneven := make(Batch, 10)
	for i := range uneven {
		uneven[i] = GEMM(256, 256, 200*(i+1))
	}
	for _, c := range []struct {
		name  string
		batch Batch
		o     Options
		least int    // workers
		on    string // "": h200
	}{
		{"uneven, of other kernels", uneven, Options{Tile: "large-8x4", Compute: ComputeF32}, 400, ""},
		{"uneven, of few places", uneven, Options{Tile: "large-8x8-k2", Compute: ComputeF32}, 400, ""},
		{"uneven, by WGSL", uneven, Options{Tile: "large-8x4"}, 400, "h200-webgpu"},
		{"equal", slices.Repeat(Batch{GEMM(64, 64, 8128)}, 4),
			Options{Tile: "wgmma-64x64-deep", TypeA: element.BF16, TypeC: element.BF16}, 120, ""},
		{"equal, of small tiles", slices.Repeat(Batch{GEMM(32, 32, 8128)}, 100), Options{Tile: "medium-k4"},
			500, ""},
		{"most of the places", slices.Repeat(Batch{GEMM(128, 128, 2048)}, 100),
			Options{Tile: "wgmma-128x128"}, 100, ""},
		{"uneven", Batch{GEMM(128, 128, 4000), GEMM(128, 128, 3000), GEMM(128, 128, 1000)},
			Options{Tile: "wgmma-128x64", TypeA: element.BF16, TypeC: element.BF16}, 100, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := device(t, cmp.Or(c.on, "h200"))
			c.o.Schedule = ScheduleSplitK
			p, err := New(d).Plan(t.Context(), mustPack(t, c.batch...), c.o)
			require.NoError(t, err)
			l := &p.Launches[0]
			require.LessOrEqual(t, l.Count,
				d.Resident(l.Tile.Threads, d.Kernel(l.Tile).Resources).Groups*d.ComputeUnits)
			require.GreaterOrEqual(t, l.Count, c.least)
		})
	}
}

// TestSplitWhole: uneven warpgroup tiles that fill all places are not split.
func TestSplitWhole(t *testing.T) {
	b := append(slices.Repeat(Batch{GEMM(128, 128, 4096)}, 200), slices.Repeat(Batch{GEMM(128, 128, 512)},
		200)...)
	p, err := New(device(t, "h200")).Plan(t.Context(), mustPack(t, b...),
		Options{Tile: "wgmma-128x128", Schedule: ScheduleSplitK})
	require.NoError(t, err)
	require.Len(t, p.Segments, 400)
}

// TestAlong: with B transposed, thin tiles wait longer for B, in memory or in the cache. An H100 takes 614
// us for the experts of 16 tokens by thin-8x64, and 449 by tensor-32x32. An H200 takes 431 us for these 100
// products by tensor-32x32, and 357 by wgmma-64x128. It takes 34 us for 38 random ones of up to 16 rows by
// thin-8x128, whose B of 52 MB mostly stays in the cache, and 22 by wgmma-64x128. For the 37 it takes 9.1 us
// by thin-8x128, and 7.9 by thin-8x64.
func TestAlong(t *testing.T) {
	for _, c := range []struct {
		name             string
		count            int
		problem          Problem
		asIs, transposed string
	}{
		{"memory", 100, GEMM(2, 1536, 2048), "thin-8x128", "wgmma-64x128"},
		{"cache", 50, GEMM(6, 500, 500), "thin-8x128", "wgmma-64x128"},
		{"short", 37, GEMM(5, 516, 214), "thin-8x128", "thin-8x64"},
		// tiny-k4 would win if it did not wait
		{"many", 64, GEMM(6, 400, 400), "thin-8x128", "thin-8x64"},
	} {
		for transB, want := range map[bool]string{false: c.asIs, true: c.transposed} {
			c.problem.TransB = transB
			p, err := New(device(t, "h200")).Plan(t.Context(),
				mustPack(t, slices.Repeat(Batch{c.problem}, c.count)...), Options{})
			require.NoError(t, err)
			require.Equal(t, want, p.Launches[0].Tile.Name, "%s, B transposed: %v", c.name, transB)
		}
	}
	d := device(t, "h200")
	k := d.Kernel(shape(t, "wgmma-128x128"))
	fp32, halves := d.tileModel(k, arithmetic{compute: ComputeF32Emulated}, false),
		d.tileModel(k, arithmetic{bits: 16}, false)
	require.Less(t, fp32.along, fp32.stream)
	require.Equal(t, halves.stream, halves.along, "what was measured in fp32 says nothing of halves")
}

// TestClustersFit: there are no more clusters of four than run at once, and as many pairs as there is room
// for.
func TestClustersFit(t *testing.T) {
	for tiles, size := range map[int]uint8{62: 4, 63: 2, 66: 2, 132: 2, 133: 1} {
		p, err := New(device(t, "h200")).Plan(t.Context(),
			mustPack(t, slices.Repeat(Batch{GEMM(32, 32, 2048)}, tiles)...),
			Options{Tile: "tensor-32x32", Schedule: ScheduleCluster})
		require.NoError(t, err)
		require.Equal(t, size, max(p.Launches[0].Kernel.Cluster, 1), tiles)
	}
}

// TestOneShape: experts whose rows follow Zipf's law take one shape, even if two are predicted to take a
// little less. An H100 takes 100 us by wgmma-128x128, and 112 by several shapes. An H200 takes 84 us by
// wgmma-64x128, and 93 by Stream-K of it.
func TestOneShape(t *testing.T) {
	var b Batch
	for i := range 64 {
		b = append(b, GEMM(max(863/(i+1), 1), 512, 1024))
	}
	p, err := New(device(t, "h200")).Plan(t.Context(), mustPack(t, b...), Options{})
	require.NoError(t, err)
	require.Len(t, p.Launches, 1)
	require.Equal(t, "wgmma-64x128", p.Launches[0].Tile.Name)
	require.EqualValues(t, ScheduleLPT, p.Launches[0].Schedule)
}

// TestChoiceInAnyOrder: rounds count tiles longest first, whatever the order of the problems.
func TestChoiceInAnyOrder(t *testing.T) {
	rng, d := rand.New(rand.NewPCG(5, 4)), device(t, "h200")
	for range 40 {
		b := make(Batch, 1+rng.IntN(40))
		for i := range b {
			b[i] = GEMM(16+rng.IntN(500), 16+rng.IntN(500), 16+rng.IntN(1000))
		}
		plan := func(make func(*Planner, *Plan, Batch) error) (first *tile.Shape, cost float64) {
			var p Plan
			require.NoError(t, make(New(d), &p, mustPack(t, b...)))
			return p.Launches[len(p.Launches)-1].Tile, p.Cost
		}
		for _, make := range []func(*Planner, *Plan, Batch) error{
			func(maker *Planner, p *Plan, b Batch) error {
				return maker.Replan(t.Context(), p, b,
					Options{})
			},
			func(maker *Planner, p *Plan, b Batch) error { return maker.Renew(t.Context(), p, b, Options{}) },
		} {
			shape, cost := plan(make)
			slices.SortFunc(b, func(x, y Problem) int { return x.K - y.K })
			again, costAgain := plan(make)
			require.Equal(t, shape, again)
			require.InDelta(t, cost, costAgain, 1e-9*cost)
		}
	}
}

// TestFewParts: if a launch would sum many partials, eight that the last worker sums are better if they take
// little longer.
func TestFewParts(t *testing.T) {
	for n, parts := range map[int]int{2: 16, 14: 8} { // 14 tiles leave room for nine each
		p, err := New(device(t, "h200")).Plan(t.Context(),
			mustPack(t, slices.Repeat(Batch{GEMM(128, 64, 2048)}, n)...),
			Options{Tile: "wgmma-128x64", Schedule: ScheduleSplitK})
		require.NoError(t, err)
		require.Len(t, p.Segments, n*parts)
	}
}

// TestTerms: sums of partials cost what was measured for a kind of kernels, in a launch of their own and
// without one. If facts say that kernels finish but none was measured, the cost is finite.
func TestTerms(t *testing.T) {
	const tiles, slots, size = 100, 400, 4 * 64 * 64
	for _, c := range []struct {
		device        string
		launch, alone float64 // without LaunchMicros
	}{
		{"h200", 0.61 + (slots+1.1*tiles)*size/(20000*132.), 1.15 + slots*size/(13800*132.)},
		{"h200-webgpu", 0.84 + (slots+4.2*tiles)*size/(16400*132.),
			0.84 + (slots+4.2*tiles)*size/(16400*132.)},
		{"mi210", 2 + slots*size/(6000*104.), 2 + slots*size/(6000*104.)},
	} {
		var m model
		d := device(t, c.device)
		require.NoError(t, m.set(d, arithmetic{compute: ComputeF32}, false, only{}))
		id, err := m.named("large-8x8")
		require.NoError(t, err)
		require.InDelta(t, d.LaunchMicros+c.launch, m.sums(id, tiles, slots, 4), 1e-9, c.device)
		m.parts = true
		require.InDelta(t, c.alone, m.sums(id, tiles, slots, 4), 1e-9, c.device)
	}
}
