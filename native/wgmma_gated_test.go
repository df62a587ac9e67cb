package native

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/elemtype"
	"github.com/batchgemm/batchgemm/internal/reference"
	"github.com/batchgemm/batchgemm/internal/sample"
	"github.com/batchgemm/batchgemm/internal/tile"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

// gatedJobs are plans of gated tiles of a type. Some tiles have aligned rows of C and others, which the same
// worker computes before and after them, do not. All rows of operands are aligned, and bytes are K-major.
func gatedJobs(t *testing.T, s *tile.Shape, of element.Type) (jobs []*emulatorJob) {
	t.Helper()
	cols, rows, depths := []int{128, 64, 65, 1, 127, 63, 193}, []int{s.TM, s.TM + 3, 17, 1, s.TM - 1},
		[]int{0, 130, 64, 33, 1, 300, 129, 32}
	most := slices.Max(rows)
	for i, schedule := range []planner.Schedule{planner.ScheduleDataParallel, planner.ScheduleBatched,
		planner.ScheduleDynamic} {
		for n, e := range []planner.Epilogue{
			{Activation: planner.SiLU, Bias: true, GatherRows: 37, ScatterRows: most + 9, Weights: true},
			{Activation: planner.SiLU},
			{Activation: planner.ReLU, Bias: true, ScatterRows: most},
		} {
			rng := rand.New(rand.NewPCG(uint64(10*i+n), uint64(of)))
			e.Gated = true
			var b planner.Batch
			for c := range cols {
				b = append(b, planner.Problem{M: rows[(c+n)%len(rows)], N: cols[c],
					K: depths[(c+3*n+i)%len(depths)], TransB: of.Bytes() == 1,
					Alpha: planner.Scale([...]float64{1, -0.5, 1, 0}[rng.IntN(4)])})
			}
			b[0].K, b[0].Alpha = max(b[0].K, 64), planner.Scale(2)
			o := planner.Options{Tile: s.Name, TypeA: of, TypeC: elemtype.TypesC(of)[0], Schedule: schedule,
				Epilogue: e}
			reference.SetScales(&o.Epilogue, of, n+i)
			j := epilogueJob(t, b, o, 16/of.Bytes(), rng)
			if j.dynamic() {
				j.workers = n % 3 // 0: as in the plan
			}
			// rows from the first on start one element later, those from the second on two
			for _, from := range []int{2, 4} {
				j.moveC(t, from)
			}
			jobs = append(jobs, j)
		}
	}
	return jobs
}

// moveC moves the C of problems, from one on, by an element, and plans again.
func (j *emulatorJob) moveC(t *testing.T, from int) {
	t.Helper()
	b := j.plan.Batch
	j.c = slices.Insert(j.c, b[from].C.Offset, 1.5e30)
	for i := range b[from:] {
		b[from+i].C.Offset++
	}
	round(j.plan.Options.TypeC, j.c)
	var err error
	j.plan, err = planner.New(deviceFor(t, "h200", j.plan.Options.Schedule)).Plan(t.Context(), b,
		j.plan.Options)
	require.NoError(t, err)
}

// TestGatedEmulated runs gated tiles with both kinds of C, like TestWarpgroupEpiloguesEmulated.
func TestGatedEmulated(t *testing.T) {
	compiled(t)
	for _, s := range warpgroupTiles() {
		if !s.Epilogues || !s.NarrowOnly {
			continue
		}
		for _, of := range narrow {
			t.Run(s.Name+"/"+of.String(), func(t *testing.T) {
				sample.Kernels.Part(t, 4)
				t.Parallel()
				runWarpgroups(t, gatedJobs(t, s, of))
			})
		}
	}
}

// gatedMutants are mistakes in the code of gated tiles in wgmma_aligned.cuh, by the tile that finds them:
// aligned-64x128 keeps sums in the workspace, aligned-64x64 in registers.
var gatedMutants = map[string][]mutant{
	"aligned-64x128": {
		{"sums are kept as C begins", "kernels/wgmma_aligned.cuh", "T::kKeeping == kNowhere && to == nullptr",
			"to == nullptr"},
		{"rows that begin anywhere are taken for lines", "kernels/wgmma_aligned.cuh",
			"  if (to == nullptr) return storeFinished", "  if (false) return storeFinished"},
		{"all sums are multiplied by the first that are kept", "epilogue/wgmma_epilogue.cuh",
			"before = at[i / 4 * kApart];", "before = at[0];"},
	},
	"aligned-64x64": {
		{"all sums are multiplied by the first in a register", "epilogue/wgmma_epilogue.cuh",
			"sum[i] *= x[i];", "sum[i] *= x[0];"},
		{"all registers keep the first sum", "epilogue/wgmma_epilogue.cuh", "x[i] = sum[i];",
			"x[i] = sum[0];"},
	},
}

func TestGatedMutants(t *testing.T) {
	for name, mutants := range gatedMutants {
		t.Run(name, func(t *testing.T) {
			testWarpgroupMutants(t, "warpgroup_kernels.cpp", name, mutants,
				func(s *tile.Shape) []*emulatorJob {
					return gatedJobs(t, s, element.BF16)
				})
		})
	}
}
