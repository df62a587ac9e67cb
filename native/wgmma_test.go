package native

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/internal/sample"
	"github.com/batchgemm/batchgemm/internal/tile"
	"github.com/batchgemm/batchgemm/planner"
)

// When copies complete in internal/emulator/warpgroup.cpp.
const (
	copiesAtOnce = iota
	copiesLate
	copiesAnyTime
)

// Sizes at which masks of 16, 32, 64 and 128 rows or columns change.
var wgmmaSides = []int{64, 1, 129, 32, 200, 65, 33, 128, 31, 63, 127}

// wgmmaBatch returns problems of one transposition. Other seeds pair sides and depths differently.
func wgmmaBatch(rng *rand.Rand, problems int, depths []int, transA, transB bool) planner.Batch {
	b := make(planner.Batch, problems)
	m, n, k := rng.IntN(len(wgmmaSides)), rng.IntN(len(wgmmaSides)), rng.IntN(len(depths))
	for i := range b {
		b[i] = planner.Problem{
			M: wgmmaSides[(m+i)%len(wgmmaSides)], N: wgmmaSides[(n+2*i)%len(wgmmaSides)],
			K:      depths[(k+i)%len(depths)],
			TransA: transA, TransB: transB,
			Alpha: planner.Scale([...]float64{1, -0.5, 1, -0.5, 0}[rng.IntN(5)]),
			Beta:  [...]float64{0, 1, -0.5}[rng.IntN(3)],
		}
	}
	b[0].Alpha, b[0].K = planner.Scale(2), slices.Max(depths) // have a product
	return b
}

// wgmmaJob plans a batch for a tile. Operands end with a line of 16 bytes, because copies read whole lines.
func wgmmaJob(t *testing.T, b planner.Batch, options planner.Options, unit int, how [2]uint32,
	rng *rand.Rand) *emulatorJob {
	t.Helper()
	j := newJob(t, deviceFor(t, "h200", options.Schedule), b, options, unit, rng)
	j.how = how
	j.a = append(j.a, slices.Repeat([]float32{gap}, -len(j.a)&3)...)
	j.b = append(j.b, slices.Repeat([]float32{gap}, -len(j.b)&3)...)
	return j
}

// wgmmaJobs are plans of a tile with all schedules and modes of arithmetic, one for each transposition. The
// completion of copies and the alignment of matrices vary in between.
func wgmmaJobs(t *testing.T, tile *tile.Shape, turn int) (jobs []*emulatorJob) {
	t.Helper()
	for _, c := range []struct {
		schedule planner.Schedule
		problems int
		depths   []int
	}{
		{planner.ScheduleDataParallel, 6, []int{100, 0, 1, 31, 32, 33, 64}},
		{planner.ScheduleLPT, 10, []int{33, 1, 100, 0, 64, 31, 32, 200}},
		{planner.ScheduleLPT, 8, []int{32, 1, 31}}, // workers with items of one step
		{planner.ScheduleSplitK, 2, []int{4*tile.TK + 1, 5 * tile.TK, 8*tile.TK - 1}},
		// so that partials have at least 4 steps
		{planner.ScheduleStreamK, 3, []int{24*tile.TK - 1, 1, 20 * tile.TK}},
	} {
		for i := range 8 {
			seed := uint32(len(jobs)) + 7*uint32(turn) // 7: other variants for other tiles
			rng := rand.New(rand.NewPCG(uint64(seed), 0))
			b := wgmmaBatch(rng, c.problems, c.depths, i&1 != 0, i&2 != 0)
			options := planner.Options{Tile: tile.Name, Schedule: c.schedule,
				Compute: planner.ComputeF32Emulated}
			if i&4 != 0 {
				options.Compute = planner.ComputeTF32
			}
			unit := []int{1, 4, 2, 8, 32}[seed%5]
			j := wgmmaJob(t, b, options, unit, [2]uint32{seed % 3, seed}, rng)
			some := func(is func(encoding.Launch) bool) bool {
				return slices.ContainsFunc(j.plan.Launches, is)
			}
			split := c.schedule == planner.ScheduleSplitK || c.schedule == planner.ScheduleStreamK
			require.Equal(t, split, some(func(l encoding.Launch) bool { return l.Fixup || l.Partials }), j)
			require.True(t, c.schedule != planner.ScheduleLPT ||
				some(func(l encoding.Launch) bool { return l.Loop }), j)
			jobs = append(jobs, j)
		}
	}
	return jobs
}

// wgmmaDynamic are jobs with dynamic tiles, with the plan's number of workers, and with few and too many
// workers.
func wgmmaDynamic(t *testing.T, tile *tile.Shape) (jobs []*emulatorJob) {
	t.Helper()
	for i := range 8 {
		rng := rand.New(rand.NewPCG(uint64(i), 2))
		b := wgmmaBatch(rng, 7, []int{33, 1, 100, 0, 64, 31}, i&1 != 0, i&2 != 0)
		options := planner.Options{Tile: tile.Name, Schedule: planner.ScheduleDynamic}
		if i&4 != 0 {
			options.Compute = planner.ComputeTF32
		}
		j := wgmmaJob(t, b, options, 1, [2]uint32{uint32(i) % 3, uint32(i)}, rng)
		require.True(t, j.dynamic(), j)
		j.workers = []int{3, 0, 2, 50, 0, 1, 0, 3}[i]
		jobs = append(jobs, j)
	}
	return jobs
}

// wgmmaExtremes are jobs with numbers that are not finite or near the ends of the range.
func wgmmaExtremes(t *testing.T, tile *tile.Shape) (jobs []*emulatorJob) {
	t.Helper()
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	for i, c := range []struct {
		scaleA, scaleB float32
		among          float32 // every 151st number; every other number is zero
	}{
		{1, 1, inf}, {1, 1, -inf}, {1, 1, nan},
		{0x1p-116, 0x1p20, 0}, {0x1p20, 0x1p-116, 0}, {0x1p116, 0x1p-20, 0}, {0x1p-20, 0x1p116, 0},
		{0x1p60, 0x1p58, 0},
	} {
		rng := rand.New(rand.NewPCG(uint64(i), 1))
		b := wgmmaBatch(rng, 3, []int{33, 100, 31}, i&1 != 0, i&2 != 0)
		for p := range b {
			b[p].Beta = 0 // C would hide small sums
		}
		j := wgmmaJob(t, b, planner.Options{Tile: tile.Name, Schedule: planner.ScheduleLPT}, 1,
			[2]uint32{copiesAnyTime, uint32(i)}, rng)
		j.exact = false
		spoil := func(data []float32, scale float32) {
			for i, x := range data {
				if math.Float32bits(x) == math.Float32bits(gap) {
					continue
				}
				switch data[i] = scale * x; i % 151 { // a prime, to reach all columns
				case 0:
					if c.among != 0 {
						data[i] = c.among
					}
				case 75:
					data[i] = 0 // 0*Inf is NaN
				}
			}
		}
		spoil(j.a, c.scaleA)
		spoil(j.b, c.scaleB)
		jobs = append(jobs, j)
	}
	return jobs
}

// TestWarpgroupsEmulated runs the kernels of warpgroups with the sizes at which masks change. It finds what
// a GPU may hide: copies that complete late, unordered accesses to shared memory, and reads outside of
// operands.
func TestWarpgroupsEmulated(t *testing.T) {
	compiled(t)
	for i, tile := range splitTiles() {
		for name, jobs := range map[string][]*emulatorJob{"sizes": wgmmaJobs(t, tile, 15+i),
			"extremes": wgmmaExtremes(t, tile), "dynamic": wgmmaDynamic(t, tile)} {
			t.Run(tile.Name+"/"+name, func(t *testing.T) {
				sample.Kernels.Part(t, 4)
				t.Parallel()
				runWarpgroups(t, jobs)
			})
		}
	}
}

// TestWarpgroupPartsInOrder: sums have the same bits, whichever thread group adds up partials. Each warp
// counts its own rows, or columns.
func TestWarpgroupPartsInOrder(t *testing.T) {
	compiled(t)
	for _, name := range []string{"wgmma-64x64", "wgmma-64x128"} {
		t.Run(name, func(t *testing.T) {
			s, err := tile.ByName(name)
			require.NoError(t, err)
			var jobs []*emulatorJob
			for seed := range uint32(3) {
				rng := rand.New(rand.NewPCG(12, 0))
				var b planner.Batch
				for _, parts := range []int{3, 8} {
					b = append(b, planner.Problem{M: s.TM - 14, N: s.TN - 4, K: 4 * 32 * parts,
						Alpha: planner.Scale(0.3), Beta: 0.7})
				}
				j := wgmmaJob(t, b, planner.Options{Tile: name, Schedule: planner.ScheduleSplitK}, 1,
					[2]uint32{copiesAnyTime, seed}, rng)
				require.Equal(t, 2, j.plan.Launches[0].Finishes)
				j.setFractions(rng)
				jobs = append(jobs, j)
			}
			require.NoError(t, warpgroups(t).sameBits(t.TempDir(), jobs), name)
		})
	}
}

// splitTiles are the tiles of wgmma.cuh. Those of wgmma_aligned.cuh have no fp32.
func splitTiles() []*tile.Shape {
	return slices.DeleteFunc(tile.Of(tile.WGMMA), func(s *tile.Shape) bool { return s.NarrowOnly })
}

// warpgroupTiles are those of warpgroup_kernels.cpp for any problems: all except those for 4-bit B, and of
// boxes.
func warpgroupTiles() []*tile.Shape {
	return slices.DeleteFunc(tile.Of(tile.WGMMA), func(s *tile.Shape) bool { return s.Int4Only || s.Boxes })
}
