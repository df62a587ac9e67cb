package native

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/elemtype"
	"github.com/batchgemm/batchgemm/internal/sample"
	"github.com/batchgemm/batchgemm/internal/tile"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

// halfJob is wgmmaJob for 16-bit or 8-bit elements, to which it rounds operands.
func halfJob(t *testing.T, b planner.Batch, o planner.Options, unit int, how [2]uint32,
	rng *rand.Rand) *emulatorJob {
	t.Helper()
	j := wgmmaJob(t, b, o, unit, how, rng)
	for _, data := range []*[]float32{&j.a, &j.b} {
		*data = append(*data, slices.Repeat([]float32{gap}, -len(*data)&(16/o.TypeA.Bytes()-1))...)
		round(o.TypeA, *data)
	}
	round(o.TypeC, j.c)
	return j
}

// alongK reports whether kernels of a tile take elements of a type only K-major and aligned.
func alongK(s *tile.Shape, of element.Type) bool { return s.Aligned && of.Bytes() == 1 || s.Boxes }

// halfJobs are plans of a tile for a type of elements, with C of all its types: whole tiles, workers with
// several tiles, dynamic tiles, and split tiles.
func halfJobs(t *testing.T, tile *tile.Shape, of element.Type) (jobs []*emulatorJob) {
	t.Helper()
	for n, c := range []struct {
		schedule planner.Schedule
		problems int
		depths   []int
		dynamic  bool
	}{
		{planner.ScheduleDataParallel, 6, []int{100, 0, 1, 63, 64, 65, 128}, false},
		{planner.ScheduleLPT, 10, []int{65, 1, 200, 0, 128, 31, 64}, false},
		{planner.ScheduleDynamic, 7, []int{33, 1, 130, 0, 64}, true},
		{planner.ScheduleSplitK, 2, []int{8*tile.TK + 1, 9 * tile.TK, 10*tile.TK - 1}, false},
	} {
		for trans := range 4 {
			for _, ofC := range elemtype.TypesC(of) {
				seed := uint32(len(jobs)) + uint32(of)
				rng := rand.New(rand.NewPCG(uint64(seed), 3))
				transA, transB, unit := trans&1 != 0, trans&2 != 0, []int{1, 8, 2, 16, 4, 64}[(int(seed)+n)%6]
				if alongK(tile, of) {
					transA, transB, unit = false, true, max(unit, 16)
				}
				b := wgmmaBatch(rng, c.problems, c.depths, transA, transB)
				o := planner.Options{TypeA: of, TypeC: ofC, Tile: tile.Name, Schedule: c.schedule}
				j := halfJob(t, b, o, unit, [2]uint32{seed % 3, seed}, rng)
				if require.Equal(t, c.dynamic, j.dynamic(), j); c.dynamic {
					j.workers = trans // 0: as in the plan
				}
				jobs = append(jobs, j)
			}
		}
	}
	return jobs
}

// TestWarpgroupHalvesEmulated is TestWarpgroupsEmulated for 16-bit and 8-bit elements.
func TestWarpgroupHalvesEmulated(t *testing.T) {
	compiled(t)
	for i, tile := range warpgroupTiles() {
		for _, of := range narrow {
			if tile.Swapped || of == element.F16 && i > 0 && tile.Name != "aligned-64x64" {
				continue // only for fp32; or another format in the same places
			}
			t.Run(tile.Name+"/"+of.String(), func(t *testing.T) {
				sample.Kernels.Part(t, 4)
				t.Parallel()
				runWarpgroups(t, halfJobs(t, tile, of))
			})
		}
	}
}
