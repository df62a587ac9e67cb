package clocks

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/internal/hardware"
	"github.com/batchgemm/batchgemm/internal/tile"
	"github.com/batchgemm/batchgemm/native"
	"github.com/batchgemm/batchgemm/native/products"
	"github.com/batchgemm/batchgemm/planner"
)

// TestImages: the images have the clocks, and every fp32 kernel of the products of that name, which have no
// clocks.
func TestImages(t *testing.T) {
	for _, s := range tile.Table() {
		k := encoding.Kernel{Tile: s, TransB: true}
		if s.Unit == tile.SIMD || s.Unit == tile.F64 || s.NarrowOnly {
			continue
		}
		image := arch.Product(k)
		code, err := build(arch).Read(image)
		require.NoError(t, err)
		require.Contains(t, string(code), symbol)
		require.Contains(t, string(code), arch.KernelName(k))
		require.Contains(t, string(code), arch.KernelName(encoding.Kernel{Tile: s, Fixup: true}))
		ordinary, err := products.CUDA.Read(image)
		require.NoError(t, err)
		require.NotContains(t, string(ordinary), symbol)
		older, err := native.CUDA(9, 0, 12090)
		require.NoError(t, err)
		_, err = build(older).Read(image)
		require.ErrorIs(t, err, hardware.ErrUnavailable)
		require.ErrorContains(t, err, "are for sm_90a (compute capability 9.0, drivers from CUDA 13.0 on), "+
			"this GPU takes those for sm_80")
	}
}

// TestSince: records of several images are returned run by run, and launch by launch.
func TestSince(t *testing.T) {
	launch := func(name string, groups int) encoding.Launch {
		shape, err := tile.ByName(name)
		require.NoError(t, err)
		return encoding.Launch{Kernel: encoding.Kernel{Tile: shape}, Count: groups}
	}
	plan := &planner.Plan{Launches: []encoding.Launch{launch("wgmma-64x64", 2), launch("small", 1),
		launch("wgmma-128x64", 1)}}
	const times = 3
	before, after, n := clocks{}, clocks{}, uint64(0)
	note := func(to clocks, image string) {
		if to[image] == nil {
			to[image] = new(ring)
		}
		r := to[image]
		binary.LittleEndian.PutUint64(r[r.count()%ringSize*recordBytes:], n)
		binary.LittleEndian.PutUint32(r[ringSize*recordBytes:], r.count()+1)
	}
	for _, image := range []string{"sm_90a_plain.cubin", "sm_90a_wgmma.cubin"} {
		note(before, image)
		note(after, image)
	}
	for range times {
		for _, image := range []string{"sm_90a_wgmma.cubin", "sm_90a_wgmma.cubin", "sm_90a_plain.cubin",
			"sm_90a_wgmma.cubin"} {
			n++
			note(after, image)
		}
	}
	records, err := after.since(before, plan, times)
	require.NoError(t, err)
	require.Len(t, records, times*groupsOf(plan))
	for i, r := range records {
		require.EqualValues(t, i+1, r.start)
	}
	_, err = after.since(before, plan, times+1)
	require.ErrorContains(t, err, " ended, there were ")
}

// TestCompare: times of all multiprocessors agree within 0.1 us, whatever values their counters start with.
func TestCompare(t *testing.T) {
	for _, tc := range []struct {
		name  string
		rate  float64 // cycles per nanosecond, at first
		drift float64 // of the rate, over all runs
		tick  uint64  // of the shared clock
		runs  int
		gap   float64 // nanoseconds between runs
	}{
		{"ticks of 32 ns", 1.98, 0, 32, runs, 3000},
		{"ticks of 1 us", 1.98, 0, 1024, runs, 3000},
		{"the clock slows down", 1.98, -0.003, 1024, runs, 3000},
		{"one run of many groups", 1.7, 0, 1000, 1, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(1, 2))
			const units, groups = 132, 132
			perRun := groups
			if tc.runs == 1 {
				perRun = 200 * units
			}
			var records []record
			var truth []float64 // nanoseconds of the ends
			now := 1e15
			total := float64(tc.runs) * (10000 + tc.gap)
			for range tc.runs {
				for i := range perRun {
					unit := i % units
					end := now + 10000*rng.Float64() + 10000*float64(i/units)
					at := end - 1e15
					cycles := tc.rate * (at + tc.drift*at*at/(2*total))
					records = append(records, record{
						end:  uint64(cycles) + uint64(unit)<<50,
						unit: uint32(unit), nanoseconds: uint64(end) / tc.tick * tc.tick,
					})
					truth = append(truth, end)
				}
				now += 10000 + tc.gap + 977*rng.Float64()
			}
			c, err := compare(records)
			require.NoError(t, err)
			first := tc.runs / 2 * perRun
			lowest, highest := math.Inf(1), math.Inf(-1)
			for i, r := range records[first:][:perRun] {
				shift := c.micros(&r, r.end) - (truth[first+i]-truth[0])/1e3
				lowest, highest = min(lowest, shift), max(highest, shift)
			}
			middle := (lowest + highest) / 2 // the time of the first record is arbitrary
			require.Less(t, highest-middle, 0.1)
		})
	}
	_, err := compare([]record{{}, {}})
	require.ErrorContains(t, err, "too short")
}
