package planner

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/internal/sample"
	"github.com/batchgemm/batchgemm/internal/tile"
	"github.com/batchgemm/batchgemm/planner/element"
)

// The largest K, on devices with and without a limit of loops.
func TestLargestK(t *testing.T) {
	for _, name := range []string{"h200", "mi210", "lavapipe", "webgpu-default"} {
		p, err := New(device(t, name)).Plan(t.Context(),
			mustPack(t, GEMM(1, 1, min(MaxDim, maxElements-packAlign))), Options{})
		require.NoError(t, err, name)
		checkPlan(t, p)
	}
}

// The K of integers ends where sums of int32 do.
func TestLargestWholeK(t *testing.T) {
	of := Options{TypeA: element.Int8, TypeC: element.F32}
	for _, name := range []string{"h200", "lavapipe"} {
		p := New(device(t, name))
		plan, err := p.Plan(t.Context(), mustPack(t, GEMM(1, 1, MaxWholeK)), of)
		require.NoError(t, err, name)
		checkPlan(t, plan)
		_, err = p.Plan(t.Context(), mustPack(t, GEMM(1, 1, 1), GEMM(1, 1, MaxWholeK+1)), of)
		require.EqualError(t, err, "problem 1: K 131072 is above the limit 131071 of elements of int8")
		_, err = p.PlanRagged(Ragged{Form: EndsOfDepth, Groups: 2, M: 1, N: 1, K: MaxWholeK + 1,
			A: Matrix{LD: MaxWholeK + 1}, B: Matrix{LD: 1}, C: Matrix{LD: 1}, StrideC: 1}, of)
		require.EqualError(t, err, "ragged batch: problem 0: K 131072 is above the limit 131071 of "+
			"elements of int8")
	}
}

// Schedules that give a worker several tiles or partials keep it below the device's loop limit, even if that
// takes more workers than the device has places.
func TestManyTilesOfLoopLimit(t *testing.T) {
	d := *device(t, "lavapipe")
	d.ComputeUnits = 1
	for _, k := range []int{70, 30_000} {
		problems := slices.Repeat([]Problem{GEMM(8, 8, k)}, 2_000_000/k) // more than a worker may do
		for _, s := range Schedules() {
			p, err := New(&d).Plan(t.Context(), mustPack(t, problems...),
				Options{Schedule: s, Tile: "tiny-k4"})
			require.NoError(t, err)
			checkTrips(t, p)
			unlimited := d
			unlimited.MaxTrips = 0
			free, err := New(&unlimited).Plan(t.Context(), p.Batch, p.Options)
			require.NoError(t, err)
			if s == ScheduleStreamK || s == ScheduleBatched || s == ScheduleLPT || s == ScheduleDynamic {
				require.Greater(t, len(p.Workers), len(free.Workers),
					"%s, K %d: the limit makes no difference", s, k)
			}
		}
	}
}

var tooMany = fmt.Sprintf("the batch has too many tiles: more than %d", maxSegments)

// A plan that would not fit in memory is refused before it is made.
func TestTooManyTiles(t *testing.T) {
	type limits struct {
		name  string
		trips int
		p     Problem
	}
	cases := []limits{
		{"many tiles", 0, GEMM(1<<17, 1<<16, 0)},
		{"many tiles in windows", 0, GEMM(MaxDim, 1<<13, 1)},
		{"many panels of K", 100, GEMM(1<<12, 1<<12, 1<<21)},
	}
	if bits.UintSize == 32 {
		cases = []limits{{"many tiles", 0, GEMM(1<<27, 2, 0)},
			{"many panels of K", 100, GEMM(1<<12, 1<<12, 1<<16)}}
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			d := *device(t, "mi210")
			d.MaxTrips = c.trips
			_, err := New(&d).Plan(t.Context(), mustPack(t, c.p), Options{Tile: "tiny-k4"})
			require.EqualError(t, err, tooMany)
		})
	}
}

// Problems that share A and B may have more K steps than 32 bits count.
func TestManySteps(t *testing.T) {
	b := slices.Repeat(Batch{{M: 64, N: 64, K: 1 << 22, A: Matrix{LD: 1 << 22}, B: Matrix{LD: 64},
		C: Matrix{LD: 64}}}, 1<<14)
	require.GreaterOrEqual(t, float64(len(b))*float64(steps(shape(t, "small"), &b[0])), 0x1p32)
	for i := range b {
		b[i].C.Offset = 64 * 64 * i
	}
	for _, s := range Schedules() {
		t.Run(string(s), func(t *testing.T) {
			sample.Planner.Skip(t, 2)
			p, err := New(device(t, "h200")).Plan(t.Context(), b,
				Options{Schedule: s, Tile: "small", Compute: ComputeF32})
			require.NoError(t, err)
			checkPlan(t, p)
		})
	}
}

// The partials of all groups together fit in a binding, like operands: workers get fewer partials, or longer
// ones, until there are none.
func TestWorkspaceFitsInBinding(t *testing.T) {
	var problems []Problem
	for i := range 40 { // ten for each transposition: 40 tiles of one element
		p := GEMM(1, 1, 1<<14)
		p.TransA, p.TransB = i%4/2 == 1, i%2 == 1
		problems = append(problems, p)
	}
	b := mustPack(t, problems...)
	const operands = 4 * 40 << 14
	for _, s := range []Schedule{ScheduleSplitK, ScheduleStreamK} {
		for _, tile := range []string{"large", "tiny-k4"} {
			slots := math.MaxInt
			for _, binding := range []int{0, 1 << 28, 1 << 26, 1 << 24, 1 << 23, operands} {
				d := *device(t, "h200")
				d.MaxBinding = binding
				p, err := New(&d).Plan(t.Context(), b, Options{Tile: tile, Schedule: s})
				require.NoError(t, err)
				checkPlan(t, p)
				used := map[[2]bool]int{} // elements used by each group
				for _, x := range p.Segments {
					if q, shape := &b[x.Problem], p.Tiles[x.Problem]; x.Slot != encoding.NoSlot {
						used[[2]bool{q.TransA, q.TransB}] += shape.TM * shape.TN
					}
				}
				for _, elements := range used {
					require.LessOrEqual(t, elements, d.spanLimit(element.F32)/32,
						"as if there were 8 tile shapes")
				}
				require.LessOrEqual(t, p.Workspace, slots, "less room, more slots")
				slots = p.Workspace
			}
			require.Equal(t, tile == "large", slots == 0, "%s %s", tile, s)
		}
	}
}

// If loops must be short, Stream-K needs more workers than there is room for their partials.
func TestStreamKWithoutRoom(t *testing.T) {
	d := *device(t, "lavapipe")
	d.MaxBinding = 64 << 10
	cut := 0
	for d.MaxTrips = 100; d.MaxTrips < 40_000; d.MaxTrips += 400 {
		for _, s := range []Schedule{"", ScheduleStreamK} {
			p, err := New(&d).Plan(t.Context(), mustPack(t, GEMM(65, 97, 127)),
				Options{Tile: "tiny-k4", Schedule: s})
			require.NoError(t, err)
			checkAll(t, p)
			require.LessOrEqual(t, p.Workspace, d.spanLimit(element.F32)/maxGroups, "%d trips", d.MaxTrips)
			if s == ScheduleStreamK {
				cut += min(p.Workspace, 1)
				require.True(t, d.MaxTrips > 100 || p.Workspace == 0, "tiles stay whole")
			}
		}
	}
	require.Positive(t, cut, "plans with room cut tiles")
}

// Partials of several shapes lie side by side.
func TestSlotsOfSeveralShapes(t *testing.T) {
	b := mustPack(t, GEMM(16, 16, 1600), GEMM(64, 64, 1600), GEMM(32, 32, 1600)) // 25 partials each
	p, err := New(device(t, "h200")).Plan(t.Context(), b, Options{Rule: RuleZhang2025, Threshold: 1,
		Schedule: ScheduleSplitK})
	require.NoError(t, err)
	require.Equal(t, []*tile.Shape{shape(t, "small"), shape(t, "large"), shape(t, "medium")}, p.Tiles)
	require.Len(t, p.Fixups, 3)
	checkPlan(t, p)
	checkWorkspace(t, p)
}

// Windows start at multiples of 256 bytes, wherever matrices do. Cutting leaves room for that.
func TestUnalignedWindows(t *testing.T) {
	for _, o := range []Options{{}, {TypeA: element.BF16}, {TypeA: element.F16, TypeC: element.F16},
		{TypeA: element.E4M3}, {TypeA: element.Int8}} {
		d := *device(t, "webgpu-default")
		d.MaxBinding = 16384 * o.TypeC.Bytes() // elements of C
		for _, offset := range []int{0, 1, 63, 64, 127, 128, 255} {
			at := func(ld int) Matrix { return Matrix{offset, ld} }
			panels := Problem{M: 1, N: 1, K: 50_000, A: at(50_000), B: at(1), C: at(1)}
			if o.TypeC == element.F32 { // otherwise sums would be rounded several times
				cut := o
				cut.Tile = "small"
				p, err := New(&d).Plan(t.Context(), Batch{panels}, cut)
				require.NoError(t, err)
				checkPlan(t, p)
			} else {
				_, err := New(&d).Plan(t.Context(), Batch{panels}, o)
				require.ErrorContains(t, err,
					"problem 0: K is too large for C of f16: more than the 16256 that one launch of "+
						"webgpu-default takes")
			}
			for ldc := 1080; ldc <= 1092; ldc++ { // 16 rows span up to the limit
				rows := Problem{M: 16, N: 16, K: 16, A: at(16), B: at(16), C: at(ldc)}
				p, err := New(&d).Plan(t.Context(), Batch{rows}, o)
				require.NoError(t, err, "offset %d, ldc %d", offset, ldc)
				checkPlan(t, p)
			}
		}
	}
}

// A binding holds twice as many 16-bit elements.
func TestWindowsOfTypes(t *testing.T) {
	d := *device(t, "webgpu-default")
	d.MaxBinding = 64 << 10
	for _, c := range []struct {
		name    string
		of, ofC element.Type
		a, c    int  // elements
		one     bool // launch
	}{
		{name: "f32", a: 16384, c: 16384, one: true},
		{name: "f32, longer A", a: 16385, c: 16384},
		{name: "f32, longer C", a: 16384, c: 16385},
		{name: "bf16", of: element.BF16, a: 32768, c: 16384, one: true},
		{name: "bf16, longer A", of: element.BF16, a: 32769, c: 16384},
		{name: "bf16, longer C of f32", of: element.BF16, a: 32768, c: 16385},
		{name: "C of bf16", of: element.BF16, ofC: element.BF16, a: 32768, c: 32768, one: true},
		{name: "longer C of bf16", of: element.BF16, ofC: element.BF16, a: 32768, c: 32769},
	} {
		t.Run(c.name, func(t *testing.T) {
			near := Matrix{LD: 1}
			b := Batch{
				{M: 1, N: 1, K: 1, A: near, B: near, C: near},
				{M: 1, N: 1, K: 1, A: Matrix{c.a - 1, 1}, B: near, C: Matrix{c.c - 1, 1}},
			}
			p, err := New(&d).Plan(t.Context(), b, Options{TypeA: c.of, TypeC: c.ofC})
			require.NoError(t, err)
			checkPlan(t, p)
			require.Equal(t, c.one, len(p.Launches) == 1)
		})
	}
}

// If rows are too long for the chosen tile, the problem takes a tile whose kernels the device has for its
// types.
func TestLongRowsHaveKernels(t *testing.T) {
	d := clone(device(t, "h100"))
	d.MaxBinding = 64 << 10
	o := Options{TypeA: element.E4M3}
	for _, n := range []int{1500, 2112} {
		p, err := New(d).Plan(t.Context(), mustPack(t, GEMM(5, n, 100)), o)
		if n == 2112 {
			require.ErrorContains(t, err,
				"one tile tensor-16x32 reaches more than the 65536 elements that h100 can bind")
			continue
		}
		require.NoError(t, err)
		checkAll(t, p)
		for _, s := range p.Tiles {
			require.True(t, d.Fits(s, o), s)
		}
	}
}

// All segments count, not only those of the last kernel.
func TestRoom(t *testing.T) {
	p := builder{Plan: &Plan{Segments: make([]encoding.Segment, 1000)}}
	require.NoError(t, p.room(1000))
	require.LessOrEqual(t, 2000, cap(p.Segments))
	require.Len(t, p.Segments, 1000)
	require.EqualError(t, p.room(maxSegments-999), tooMany)
	require.EqualError(t, p.room(math.MaxInt64), tooMany)
}

// A plan does not depend on the batch that its memory held before, even for problems without work.
func TestReplanForgets(t *testing.T) {
	d := device(t, "mi210")
	idle := Problem{M: 100, N: 100, Beta: 1}
	many := append([]Problem{GEMM(1500, 1500, 1500), idle}, slices.Repeat([]Problem{GEMM(8, 8, 8)}, 20000)...)
	before, after := mustPack(t, GEMM(9, 9, 9), GEMM(9, 9, 9)), mustPack(t, many...)
	maker, p := New(d), new(Plan)
	require.NoError(t, maker.Replan(t.Context(), p, before, Options{Tile: "large"}))
	require.NoError(t, maker.Replan(t.Context(), p, after, Options{}))
	fresh, err := New(d).Plan(t.Context(), after, Options{})
	require.NoError(t, err)
	require.NotEqual(t, fresh.Tiles[0], fresh.Tiles[2], "a plan of several shapes")
	require.Equal(t, fresh.Tiles[:3], p.Tiles[:3])
	require.Equal(t, fresh.TLP, p.TLP)
}
