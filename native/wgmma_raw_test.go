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

// rawTiles are the tiles with kernels that copy boxes of fp32.
func rawTiles() []*tile.Shape {
	return slices.DeleteFunc(tile.Table(), func(s *tile.Shape) bool { return !s.Raw })
}

// rawJobs are plans of aligned operands, whose kernels copy boxes. Workers have one item, several, or take
// them; completion of copies and the ends of boxes vary in between.
func rawJobs(t *testing.T, s *tile.Shape, turn int) (jobs []*emulatorJob) {
	t.Helper()
	for _, c := range []struct {
		schedule planner.Schedule
		problems int
		depths   []int
		workers  int // dynamic: how many run, or 0 for those of the plan
	}{
		{planner.ScheduleDataParallel, 6, []int{100, 0, 1, 31, 32, 33, 64}, 0},
		{planner.ScheduleLPT, 10, []int{33, 1, 100, 0, 64, 31, 32, 700}, 0},
		{planner.ScheduleLPT, 30, []int{32, 1, 31}, 0}, // workers with items of one step
		{planner.ScheduleDynamic, 7, []int{33, 1, 100, 0, 64, 31}, 2},
	} {
		for i := range 4 {
			seed := uint32(len(jobs)) + 5*uint32(turn)
			rng := rand.New(rand.NewPCG(uint64(seed), 31))
			options := planner.Options{Tile: s.Name, Schedule: c.schedule}
			b := wgmmaBatch(rng, c.problems, c.depths, false, i&1 != 0)
			j := wgmmaJob(t, b, options, []int{4, 8, 32}[seed%3], [2]uint32{seed % 3, seed}, rng)
			j.workers = c.workers
			requireBoxes(t, j)
			jobs = append(jobs, j)
		}
	}
	return jobs
}

// rawExtremes are jobs with numbers that are not finite or near the ends of the range.
func rawExtremes(t *testing.T, s *tile.Shape) (jobs []*emulatorJob) {
	t.Helper()
	for i, x := range []float32{float32(math.Inf(1)), float32(math.NaN()), 0x1p120} {
		rng := rand.New(rand.NewPCG(uint64(i), 32))
		b := wgmmaBatch(rng, 3, []int{33, 100, 31}, false, i&1 != 0)
		j := wgmmaJob(t, b, planner.Options{Tile: s.Name, Schedule: planner.ScheduleLPT}, 4,
			[2]uint32{copiesAnyTime, uint32(i)}, rng)
		requireBoxes(t, j)
		j.exact = false
		for at, old := range j.a {
			if at%151 == 0 && math.Float32bits(old) != math.Float32bits(gap) {
				j.a[at] = x
			}
		}
		jobs = append(jobs, j)
	}
	return jobs
}

func requireBoxes(t *testing.T, j *emulatorJob) {
	t.Helper()
	for _, l := range j.plan.Launches {
		require.True(t, l.Boxes, j)
		require.GreaterOrEqual(t, j.plan.Workspace, l.Count*encoding.MapWords)
	}
}

// TestRawEmulated runs kernels that copy boxes of fp32 like TestWarpgroupsEmulated.
func TestRawEmulated(t *testing.T) {
	compiled(t)
	for i, s := range rawTiles() {
		for name, jobs := range map[string][]*emulatorJob{"sizes": rawJobs(t, s, i),
			"extremes": rawExtremes(t, s)} {
			t.Run(s.Name+"/"+name, func(t *testing.T) {
				sample.Kernels.Part(t, 2)
				t.Parallel()
				runWarpgroups(t, jobs)
			})
		}
	}
}

// rawMutants are mistakes in wgmma_raw.cuh.
var rawMutants = []mutant{
	{"a map is used while it is stored", "kernels/wgmma_raw.cuh",
		"    waitPhase(shared + L::kMapped + 8 * (number % kItemPlaces), number / kItemPlaces & 1);\n", ""},
	{"a map is not acquired", "kernels/wgmma_raw.cuh", "acquireMap(mapA), acquireMap(mapB);",
		"acquireMap(mapA);"},
	{"maps end later than A", "kernels/wgmma_raw.cuh", "depth, item.rows(), item.lda",
		"depth, T::TM, item.lda"},
	{"maps end later than B", "kernels/wgmma_raw.cuh", "item.cols(), depth, item.ldb",
		"T::TN, depth, item.ldb"},
	{"maps end later than K", "kernels/wgmma_raw.cuh", "max(item.depth, 1u)", "max(item.depth, 64u)"},
	{"something is read though alpha is 0", "kernels/wgmma_raw.cuh", "item.depth == 0 ? T::TK : 0", "0"},
	{"too few bytes are expected", "kernels/wgmma_raw.cuh", "L::A::kStage + L::B::kStage",
		"L::A::kStage"},
	{"a place is filled before it is free", "kernels/wgmma_raw.cuh",
		"      waitPhase(shared + L::kTaken + 8 * ahead.at, ahead.parity ^ 1);\n", ""},
	{"too few places for A", "kernels/wgmma_raw.cuh", "kPlaces = Tile::kStages + Tile::kAhead,",
		"kPlaces = Tile::kAhead,"},
	{"the loader is never near the end", "kernels/wgmma_raw.cuh", "if (step == near)",
		"if (step == near + steps)"},
	{"items are asked for too early", "kernels/wgmma_raw.cuh",
		"    waitPhase(shared + L::kNear, number & 1);\n", ""},
	{"a lane says for others that they have read the item", "kernels/wgmma_raw.cuh",
		"    warpBarrier();  // all lanes have read", "    // all lanes have read"},
	{"rows are read as if copies did not swizzle", "kernels/wgmma_raw.cuh", "(2 * member ^ row % 8)",
		"(2 * member)"},
	{"the second half of the k's is the first", "kernels/wgmma_raw.cuh", "(at ^ 16 * half)", "at"},
	{"both rows are the first", "kernels/wgmma_raw.cuh", "(from + 1024 * i)", "(from)"},
	{"all blocks have the columns of the first", "kernels/wgmma_raw.cuh", "128 * (2 * block + i / 2)",
		"128 * (i / 2)"},
	{"parts of B are not split", "kernels/wgmma_raw.cuh",
		"        *reinterpret_cast<uint4*>(target + L::kPart) = lo;\n", ""},
}

func TestRawMutants(t *testing.T) {
	testWarpgroupMutants(t, "warpgroup_kernels.cpp", "wgmma-128x128", rawMutants,
		func(s *tile.Shape) []*emulatorJob { return append(rawJobs(t, s, 0), rawExtremes(t, s)...) })
}
