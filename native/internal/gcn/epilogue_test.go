package gcn

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/internal/reference"
	"github.com/batchgemm/batchgemm/internal/sample"
	"github.com/batchgemm/batchgemm/internal/tile"
	"github.com/batchgemm/batchgemm/native"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

// epilogueJobs are plans of one tile, each with another epilogue and schedule.
func epilogueJobs(t *testing.T, arch native.Arch, shape *tile.Shape, of element.Type,
	transposition int) (jobs []*job) {
	t.Helper()
	transA, transB := transposition/2 == 1, transposition%2 == 1
	schedules := []planner.Schedule{planner.ScheduleDataParallel, planner.ScheduleBatched,
		planner.ScheduleSplitK, planner.ScheduleStreamK}
	all := reference.Epilogues(shape.TM + 3)
	dynamic := []int{len(all)} // again with gated units and dynamic tiles
	all = append(all, all[slices.IndexFunc(all, func(e planner.Epilogue) bool { return e.Gated })])
	if of == element.E4M3 && device(t, arch, 1).Blocks { // and with scales of blocks
		for i := range 3 {
			e := all[i]
			e.ScaleA, e.ScaleB = planner.PerBlock, planner.PerBlock
			all = append(all, e)
		}
	}
	// and with B of 4 bits
	if of.Bytes() == 2 && transposition == 0 && slices.Contains(device(t, arch, 1).Types, element.Int4) {
		for i, e := range all {
			if i == dynamic[0] {
				dynamic = append(dynamic, len(all))
			}
			e.ScaleB = []planner.Scaling{planner.PerGroup64, planner.PerGroup128}[i%2]
			all = append(all, e)
		}
	}
	for i, e := range all {
		schedule, ofC := schedules[(i+int(of)+transposition)%len(schedules)],
			[]element.Type{reference.NarrowC(of, 1-i%4/2), element.F32}[(i+transposition)%2]
		if e.Gated { // is not split
			schedule = schedules[i%2]
		}
		if slices.Contains(dynamic, i) {
			schedule = planner.ScheduleDynamic
		}
		if i%2 == 1 {
			e.Pointers = planner.Pointers{A: true, B: true, C: true, Aligned: true}
		}
		deeper := 0
		if e.ScaleA == planner.PerBlock {
			deeper = 2 * encoding.Block
		} else {
			reference.SetScales(&e, of, i)
		}
		if transA { // adjacent rows are not gathered
			e.GatherRows = 0
		}
		rng := rand.New(rand.NewPCG(uint64(i), uint64(shape.TM)))
		var b planner.Batch
		for p, k := range []int{4*shape.TK + 1, 0, 2*shape.TK + 7} {
			if perWord(t, arch, shape, of) == 4 {
				k *= 2
			}
			if p != 1 {
				k += deeper
			}
			if p == 2 && schedule == planner.ScheduleSplitK && transposition == 0 {
				k += manySteps * shape.TK
			}
			if group := e.ScaleB.Group(); group > 0 {
				k = group * []int{3, 0, 1}[p]
			}
			q := planner.Problem{M: []int{shape.TM + 3, shape.TM, 1}[p],
				N: []int{shape.TN, 5, shape.TN + 3}[p], K: k, TransA: transA, TransB: transB,
				Alpha: planner.Scale([...]float64{2, 1, -0.5}[p])}
			if !e.Gated {
				q.Beta = [...]float64{0, 1, -0.5}[(p+i)%3]
			}
			b = append(b, q)
		}
		units, unit := 1024, 1
		switch schedule {
		case planner.ScheduleBatched:
			units = 1
		case planner.ScheduleDynamic:
			units = 3
		}
		if i%2 == 1 {
			unit = 16 / of.Bytes()
		}
		o := planner.Options{Tile: shape.Name, Schedule: schedule, TypeA: of, TypeB: e.ScaleB.TypeB(of),
			TypeC: ofC, Epilogue: e}
		jobs = append(jobs, newJob(t, device(t, arch, units), b, o, unit, rng))
	}
	return jobs
}

// TestEpilogueProducts runs every kernel with an epilogue.
func TestEpilogueProducts(t *testing.T) {
	for name := range arches {
		arch, err := native.HIP(name)
		require.NoError(t, err)
		for _, shape := range shapesOf(arch) {
			if !shape.Epilogues {
				continue
			}
			t.Run(name+"/"+shape.Name, func(t *testing.T) {
				sample.Products.Skip(t, 6)
				if testing.Short() && shape.TM > 8 {
					t.Skip("takes long")
				}
				o := readProduct(t, name)
				t.Parallel()
				ran, total := runAll(t, o, arch, shape, func(of element.Type, transposition int) []*job {
					return epilogueJobs(t, arch, shape, of, transposition)
				})
				for _, k := range arch.Variants(shape) {
					if k.Epilogue != (encoding.Epilogue{}) {
						requireMostRan(t, kernelOf(t, o, arch.KernelName(k)), ran[arch.KernelName(k)])
					}
				}
				t.Log(total, "instructions")
			})
		}
	}
}

// requireMostRan requires that all barriers of a kernel ran, and two of three memory operations. Kernels
// have more, for all parts of epilogues, and no plan here has all parts.
func requireMostRan(t *testing.T, k *Kernel, ran []bool) {
	t.Helper()
	require.NotNil(t, ran, k.Name)
	operations, some := 0, 0
	for i, in := range k.code {
		if in.name == "s_barrier" && !ran[i] {
			t.Errorf("%s: no plan runs the barrier at %#x", k.Name, in.address)
		}
		if in.unit == memory {
			operations++
			if ran[i] {
				some++
			}
		}
	}
	if 3*some < 2*operations {
		t.Errorf("%s: plans run %d of %d operations on memory", k.Name, some, operations)
	}
}

// point sets the addresses of all problems to those of the buffers. Their matrices already have places.
func (j *job) point(rows *Buffer, addresses ...uint64) {
	for i := range j.plan.Batch {
		for which, address := range addresses {
			binary.LittleEndian.PutUint64(rows.Data[4*j.plan.Batch[i].Pointers+8*which:], address)
		}
	}
}
