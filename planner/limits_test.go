package planner

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// far is a problem whose operands lie beyond 2^33 elements, with rows ld apart.
func far(ld int, trans bool) Problem {
	m := Matrix{Offset: 1<<33 + 4, LD: ld}
	return Problem{M: 100, N: 90, K: 80, TransA: trans, TransB: trans, Alpha: 1, A: m, B: m, C: m}
}

// Every tile and transposition can be planned with leading dimensions up to 2^28,
// wherever the matrices lie, on devices whose only limit is that of the offsets.
// Above it there is an error, not a wrong offset.
func TestFarOperands(t *testing.T) {
	for _, name := range []string{"h200", "mi210"} {
		for _, trans := range []bool{false, true} {
			for _, ld := range []int{100, 1 << 20, 1 << 26, 1 << 28} {
				p, err := New(device(t, name), Batch{far(ld, trans)}, Options{})
				require.NoError(t, err, "%s, ld %d", name, ld)
				checkPlan(t, p)
				checkWords(t, p, p.Encode(nil))
				require.Greater(t, p.Launches[0].BaseA, math.MaxUint32)
			}
			_, err := New(device(t, name), Batch{far(MaxDim, trans)}, Options{})
			require.ErrorContains(t, err, "problem 0: lda or ldb is too large: one tile tiny-k4 reaches more than the 4294967295 elements")
		}
	}
	q := far(MaxDim, false)
	q.A.LD, q.B.LD = 100, 100
	_, err := New(device(t, "h200"), Batch{q}, Options{})
	require.ErrorContains(t, err, "problem 0: ldc 2147483647 is too large")
	q.Alpha = 0
	q.A.LD, q.B.LD, q.C.LD = MaxDim, MaxDim, 1<<28
	p, err := New(device(t, "h200"), Batch{q}, Options{})
	require.NoError(t, err, "A and B are not read")
	checkPlan(t, p)
}

// One window holds all of a short K, whatever the tile's step.
func TestShortKInOneWindow(t *testing.T) {
	q := far(1<<28, true)
	q.M, q.N, q.K = 16, 16, 16
	p, err := New(device(t, "h200"), Batch{q}, Options{Tile: "small-k8"}) // with steps of 64
	require.NoError(t, err)
	checkPlan(t, p)
	require.Len(t, p.Segments, 1)
}

// The largest K, on devices that loop as long as they like and on one that does not.
func TestLargestK(t *testing.T) {
	for _, name := range []string{"h200", "mi210", "lavapipe", "webgpu-default"} {
		p, err := New(device(t, name), mustPack(t, GEMM(1, 1, MaxDim)), Options{})
		require.NoError(t, err, name)
		checkPlan(t, p)
	}
}

// The schedules that give a worker several tiles, or parts of tiles, keep it below the
// device's loop limit, although the device has fewer places than that takes workers.
func TestManyTilesOfLoopLimit(t *testing.T) {
	d := *device(t, "lavapipe")
	d.ComputeUnits = 1
	for _, k := range []int{70, 30_000} {
		problems := slices.Repeat([]Problem{GEMM(8, 8, k)}, 2_000_000/k) // several times what a worker may do
		for _, s := range Schedules() {
			p, err := New(&d, mustPack(t, problems...), Options{Schedule: s, Tile: "tiny-k4"})
			require.NoError(t, err)
			checkTrips(t, p)
			unlimited := d
			unlimited.MaxTrips = 0
			free, err := New(&unlimited, p.Batch, p.Options)
			require.NoError(t, err)
			if s == ScheduleStreamK || s == ScheduleBatched || s == ScheduleLPT {
				require.Greater(t, len(p.Workers), len(free.Workers), "%s, K %d: the limit makes no difference", s, k)
			}
		}
	}
}

// A plan that would not fit in memory is refused before it is made.
func TestTooManyTiles(t *testing.T) {
	for _, c := range []struct {
		name  string
		trips int
		p     Problem
	}{
		{"many tiles", 0, GEMM(1<<17, 1<<16, 0)},
		{"many tiles in windows", 0, GEMM(MaxDim, 1<<13, 1)},
		{"many panels of K", 100, GEMM(1<<12, 1<<12, 1<<21)},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := *device(t, "mi210")
			d.MaxTrips = c.trips
			_, err := New(&d, mustPack(t, c.p), Options{Tile: "tiny-k4"})
			require.EqualError(t, err, "the batch has too many tiles: more than 67108864")
		})
	}
}

// A plan says nothing of the batch that its memory held before, also about problems
// that need no work.
func TestBuildForgets(t *testing.T) {
	d := device(t, "mi210")
	idle := Problem{M: 100, N: 100, Beta: 1}
	many := append([]Problem{GEMM(500, 500, 500), idle}, slices.Repeat([]Problem{GEMM(8, 8, 40)}, 1000)...)
	before, after := mustPack(t, GEMM(9, 9, 9), GEMM(9, 9, 9)), mustPack(t, many...)
	p := new(Plan)
	require.NoError(t, p.Build(d, before, Options{Tile: "large"}))
	require.NoError(t, p.Build(d, after, Options{}))
	fresh, err := New(d, after, Options{})
	require.NoError(t, err)
	require.NotEqual(t, fresh.Choice[0], fresh.Choice[2], "a plan of several shapes")
	require.Equal(t, fresh.Choice[:3], p.Choice[:3])
	require.Equal(t, fresh.TLP, p.TLP)
}
