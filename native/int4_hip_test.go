package native

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/elemtype"
	"github.com/batchgemm/batchgemm/internal/reference"
	"github.com/batchgemm/batchgemm/internal/tile"
	"github.com/batchgemm/batchgemm/planner"
)

// groupJobs are plans of a tile of HIP with 4-bit B, in groups of 64 and of 128, with every epilogue, for
// each type of A. Tiles are not split, because no step is a whole group.
func groupJobs(t *testing.T, shape *tile.Shape) (jobs []*emulatorJob) {
	t.Helper()
	rows, cols := []int{shape.TM + 3, shape.TM - 1, 1}, []int{shape.TN + 5, 3}
	schedules := []planner.Schedule{planner.ScheduleDataParallel, planner.ScheduleBatched,
		planner.ScheduleDynamic}
	for i, e := range append(reference.Epilogues(slices.Max(rows)), planner.Epilogue{}) {
		for turn, by := range []planner.Scaling{planner.PerGroup64, planner.PerGroup128} {
			for j, of := range types16 {
				rng := rand.New(rand.NewPCG(uint64(200+i), uint64(2*turn+j)))
				var b planner.Batch
				for _, m := range rows {
					for _, n := range cols {
						b = append(b, planner.Problem{M: m, N: n, K: by.Group() * []int{3, 0, 1, 2}[len(b)%4],
							Alpha: planner.Scale([...]float64{1, -0.5, 0}[rng.IntN(3)])})
					}
				}
				b[0].Alpha = planner.Scale(2)
				e.ScaleB = by
				o := planner.Options{TypeA: of, TypeB: by.TypeB(of), Schedule: schedules[(i+turn)%3],
					Epilogue: e}
				o.TypeC = elemtype.TypesC(of)[(i+j)%len(elemtype.TypesC(of))]
				jobs = append(jobs, newFMAJob(t, b, shape, o, (i+j)%2 == 0, false, rng))
			}
		}
	}
	return jobs
}

// TestInt4Emulated runs kernels of HIP for 4-bit B.
func TestInt4Emulated(t *testing.T) {
	for _, s := range []sanitizer{plain, address, thread} {
		t.Run(s.name, func(t *testing.T) {
			testTiles(t, s, func(t *testing.T, tile *tile.Shape) []*emulatorJob {
				if !tile.Epilogues {
					return nil
				}
				return withKernels(groupJobs(t, tile), 0, 2)
			})
		})
	}
}

// int4Mutants are mistakes in code only for these kernels.
var int4Mutants = []inSanitizer{
	{mutant{"bf16 has no zero point", "element/bits16.cuh", "less = zero | 0x4300", "less = 0x4300"},
		plain},
	{mutant{"both bf16 of a word are the same", "element/bits16.cuh",
		"number(static_cast<uint16_t>(more >> 16))", "number(static_cast<uint16_t>(more))"}, plain},
	{mutant{"bf16 of a word change places", "element/bits16.cuh",
		"__builtin_bit_cast(uint32_t, low) >> 16 | (__builtin_bit_cast(uint32_t, high) & 0xffff0000)",
		"__builtin_bit_cast(uint32_t, high) >> 16 | (__builtin_bit_cast(uint32_t, low) & 0xffff0000)"},
		plain},
	{mutant{"the first of two fp16 has a zero point alone", "element/bits16.cuh", "zero * 0x00010001",
		"zero"}, plain},
	{mutant{"a zero point has 3 bits", "amd/steps_hip.cuh", "zero = group & 15", "zero = group & 7"}, plain},
	{mutant{"pairs of a word in another order", "amd/steps_hip.cuh", "value.x[w] >> 4 * p &",
		"value.x[w] >> 4 * (3 - p) &"}, plain},
	{mutant{"words of a thread are the same", "amd/steps_hip.cuh", "value.x[w] >>", "value.x[0] >>"}, plain},
	{mutant{"parts of a column are the same", "amd/steps_hip.cuh", "+ kWords * part;", ";"}, plain},
	{mutant{"columns beyond the edge are read", "amd/steps_hip.cuh", "from = min(column, length - 1)",
		"from = column"}, address},
	{mutant{"each half of a panel is the first", "amd/steps_hip.cuh", "8 * ld) + k % kInt4Panel / 8)",
		"8 * ld))"}, plain},
	{mutant{"columns have the scales of the first", "amd/steps_hip.cuh", "groups = start.groups + from",
		"groups = start.groups"}, plain},
	{mutant{"all groups are the first", "amd/steps_hip.cuh", "rowsOn(groups, k >> log, ld)",
		"rowsOn(groups, 0, ld)"}, plain},
	{mutant{"groups of 64 are taken for 128", "amd/steps_hip.cuh", "has(kGroups64) ? 6u : 7u", "7u"}, plain},
	{mutant{"panels are as long as groups' words", "amd/steps_hip.cuh", "k / kInt4Panel, 8 * ld)",
		"k / kInt4Panel, ld)"}, plain},
	{mutant{"pairs land in the first stage", "amd/steps_hip.cuh", "to + pending + 4 * (4 * w + p)",
		"to + 4 * (4 * w + p)"}, thread},
	{mutant{"scales land in the first stage", "amd/steps_hip.cuh", "to + pending + 4 * T::TK",
		"to + 4 * T::TK"}, thread},
	{mutant{"columns of a thread have one scale", "amd/steps_hip.cuh", "return scale[j] * y;",
		"return scale[0] * y;"}, plain},
	{mutant{"K groups read other scales", "amd/steps_hip.cuh", "(T::TK - this->group) * kPitchB",
		"T::TK * kPitchB"}, plain},
	{mutant{"blocks of a wave have one scale", "amd/mfma.cuh", "kPitchB + j * kBlock];", "kPitchB];"},
		plain},
	{mutant{"lanes read scales of other rows", "amd/mfma.cuh", "b[(T::TK - this->firstK())",
		"b[(T::TK - this->group)"}, plain},
	{mutant{"the second product has the words of B", "amd/steps_hip.cuh",
		"Epilogue::operandB(items, number, item, reinterpret_cast<const uint32_t*>(B))",
		"reinterpret_cast<const uint32_t*>(B)"}, plain},
}

func TestInt4Mutants(t *testing.T) {
	var shapes []*tile.Shape
	var jobs []*emulatorJob
	// with K groups; with several words for each thread and blocks for each wave
	for _, name := range []string{"tiny-k4", "medium-k2"} {
		shape, err := tile.ByName(name)
		require.NoError(t, err)
		shapes = append(shapes, shape)
		jobs = append(jobs, withKernels(groupJobs(t, shape), 2)...)
	}
	testMutantsOf(t, shapes, jobs, int4Mutants)
}
