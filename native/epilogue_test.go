package native

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/drivertest"
	"github.com/batchgemm/batchgemm/internal/elemtype"
	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/internal/reference"
	"github.com/batchgemm/batchgemm/internal/sample"
	"github.com/batchgemm/batchgemm/internal/tile"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

// epilogueJobs are plans of one tile with different schedules, transpositions and epilogues. All pairs of
// these occur, except that gathering has one schedule that splits and one that does not. Aligned and other
// matrices alternate with the types. make makes a plan.
func epilogueJobs(t *testing.T, s *tile.Shape, rows, cols []int, of element.Type,
	make func(b planner.Batch, o planner.Options, wide bool,
		rng *rand.Rand) *emulatorJob) (jobs []*emulatorJob) {
	t.Helper()
	for i, schedule := range []planner.Schedule{planner.ScheduleDataParallel, planner.ScheduleBatched,
		planner.ScheduleSplitK, planner.ScheduleStreamK, planner.ScheduleDynamic} {
		for n, e := range reference.Epilogues(slices.Max(rows)) {
			transposition := (i + []int{0, 2, 1, 3, 2}[n]) % 4
			rng := rand.New(rand.NewPCG(uint64(10*i+n), uint64(transposition)))
			if transposition/2 == 1 {
				e.GatherRows = 0 // only if A is not transposed
			}
			depths := []int{16*s.TK - 1, 0, 3, s.TK, 4*s.TK + 1, 33}
			var b planner.Batch
			for _, m := range rows {
				for _, n := range cols {
					p := planner.Problem{M: m, N: n, K: depths[len(b)%len(depths)],
						TransA: transposition/2 == 1, TransB: transposition%2 == 1,
						Alpha: planner.Scale([...]float64{1, -0.5, 0}[rng.IntN(3)])}
					if !e.Gated {
						p.Beta = [...]float64{0, 1, -0.5}[rng.IntN(3)]
					}
					b = append(b, p)
				}
			}
			b[0].Alpha = planner.Scale(2)
			o := planner.Options{TypeA: of, Schedule: schedule, Epilogue: e}
			o.TypeC = elemtype.TypesC(of)[n%len(elemtype.TypesC(of))]
			reference.SetScales(&o.Epilogue, of, n)
			j := make(b, o, (i+n+transposition+int(of))%2 == 0, rng)
			if !e.Gated && (i == 2 || i == 3) {
				require.True(t, slices.ContainsFunc(j.plan.Launches,
					func(l encoding.Launch) bool { return l.Fixup }), j)
			}
			require.Equal(t, schedule == planner.ScheduleDynamic, j.dynamic(), j)
			jobs = append(jobs, j)
		}
	}
	return jobs
}

// fmaEpilogues are those of a tile of HIP for some types, if it has kernels with an epilogue.
func fmaEpilogues(t *testing.T, s *tile.Shape, rows, cols []int,
	types ...element.Type) (jobs []*emulatorJob) {
	t.Helper()
	if !s.Epilogues {
		return nil
	}
	place := func(b planner.Batch, o planner.Options, wide bool, rng *rand.Rand) *emulatorJob {
		return newFMAJob(t, b, s, o, wide, false, rng)
	}
	for _, of := range types {
		jobs = append(jobs, epilogueJobs(t, s, rows, cols, of, place)...)
	}
	return append(jobs, notFinite(place))
}

// TestEpiloguesEmulated runs kernels of HIP with an epilogue like TestKernelsEmulated, TestKernelsInBounds
// and TestKernelsWithoutRaces.
func TestEpiloguesEmulated(t *testing.T) {
	for _, s := range []sanitizer{plain, address, thread} {
		t.Run(s.name, func(t *testing.T) {
			testTiles(t, s, func(t *testing.T, tile *tile.Shape) []*emulatorJob {
				rows, cols := []int{tile.TM + 3, 1, tile.TM}, []int{tile.TN + 5}
				if s.name == plain.name {
					return withKernels(fmaEpilogues(t, tile, rows, append(cols, tile.TN),
						append([]element.Type{element.F32}, narrow...)...), 0, 2)
				}
				return withKernels(fmaEpilogues(t, tile, rows[:1], cols, someTypes...), 2)
			})
		})
	}
}

// epilogueJob plans a batch with an epilogue for warpgroups, whose copies read whole lines.
func epilogueJob(t *testing.T, b planner.Batch, o planner.Options, unit int, rng *rand.Rand) *emulatorJob {
	t.Helper()
	j := newJob(t, deviceFor(t, "h200", o.Schedule), b, o, unit, rng)
	j.endLines()
	for _, operand := range [][]float32{j.a, j.b, j.e.B2} {
		round(o.TypeA, operand)
	}
	round(o.TypeC, j.c)
	round(o.TypeC, j.e.Biases)
	j.how = [2]uint32{rng.Uint32N(3), rng.Uint32()}
	return j
}

// endLines makes operands end with a line of 16 bytes.
func (j *emulatorJob) endLines() {
	for _, operand := range []*[]float32{&j.a, &j.b, &j.e.B2} {
		*operand = append(*operand, slices.Repeat([]float32{gap},
			-len(*operand)&(16/j.plan.Options.TypeA.Bytes()-1))...)
	}
}

// wgmmaEpilogues are those of a tile of warpgroups.
func wgmmaEpilogues(t *testing.T, s *tile.Shape) (jobs []*emulatorJob) {
	t.Helper()
	for _, of := range append([]element.Type{element.F32}, narrow...) {
		if of == element.F32 && s.NarrowOnly {
			continue
		}
		rows, cols := []int{s.TM + 3, 1, s.TM - 1}, []int{s.TN + 5, 31}
		place := func(b planner.Batch, o planner.Options, wide bool, rng *rand.Rand) *emulatorJob {
			unit := 1
			if wide {
				unit = []int{2, 4, 8, 32}[rng.IntN(4)]
			}
			if alongK(s, o.TypeA) {
				unit = max(unit, 16)
				for i := range b {
					b[i].TransA, b[i].TransB = false, true
				}
			}
			o.Tile = s.Name
			return epilogueJob(t, b, o, unit, rng)
		}
		all := epilogueJobs(t, s, rows, cols, of, place)
		switch of {
		case element.F32:
			all = append(all, smallAlphas(place), notFinite(place))
		case element.E4M3:
			all = append(all, blockJobs([]int{s.TM + 3, s.TM - 1, 1}, cols, place)...)
		}
		for i, j := range all {
			if j.dynamic() {
				j.workers = i % 3 // 0: as in the plan
			}
		}
		jobs = append(jobs, all...)
	}
	return jobs
}

// smallAlphas has large sums, with alphas that lose some or all bits if the scale of split numbers is
// applied first.
func smallAlphas(place func(b planner.Batch, o planner.Options, wide bool,
	rng *rand.Rand) *emulatorJob) *emulatorJob {
	b := drivertest.SmallAlphas()
	j := place(b, planner.Options{Epilogue: planner.Epilogue{Activation: planner.ReLU}}, false,
		rand.New(rand.NewPCG(1, 2)))
	values := drivertest.LargeIntegers(rand.New(rand.NewPCG(3, 4)))
	for i := range b {
		p := &b[i]
		for r := range p.M {
			values(j.a[p.A.Offset+r*p.A.LD:][:p.K])
		}
		for r := range p.K {
			values(j.b[p.B.Offset+r*p.B.LD:][:p.N])
		}
	}
	j.exact = true
	return j
}

// notFinite has sums that are NaN or infinite, which ReLU preserves, except those below 0.
func notFinite(place func(b planner.Batch, o planner.Options, wide bool,
	rng *rand.Rand) *emulatorJob) *emulatorJob {
	j := place(planner.Batch{{M: 20, N: 30, K: 5}},
		planner.Options{Epilogue: planner.Epilogue{Activation: planner.ReLU}}, false,
		rand.New(rand.NewPCG(5, 6)))
	p := &j.plan.Batch[0]
	for i, x := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		j.a[p.A.Offset+(3+5*i)*p.A.LD+1] = float32(x)
	}
	return j
}

// blockJobs are plans like those of epilogueJobs, with scales of blocks, without split tiles.
func blockJobs(rows, cols []int, place func(b planner.Batch, o planner.Options, wide bool,
	rng *rand.Rand) *emulatorJob) (jobs []*emulatorJob) {
	depths := []int{513, 0, 128, 3, 300, 255, 129}
	schedules := []planner.Schedule{planner.ScheduleDataParallel, planner.ScheduleBatched,
		planner.ScheduleDynamic}
	for i, e := range append(reference.Epilogues(slices.Max(rows)), planner.Epilogue{}) {
		e.ScaleA, e.ScaleB = planner.PerBlock, planner.PerBlock
		for transposition := range 4 {
			e := e
			if transposition/2 == 1 {
				e.GatherRows = 0
			}
			rng := rand.New(rand.NewPCG(uint64(100+i), uint64(transposition)))
			var b planner.Batch
			for _, m := range rows {
				for _, n := range cols {
					b = append(b, planner.Problem{M: m, N: n, K: depths[len(b)%len(depths)],
						TransA: transposition/2 == 1, TransB: transposition%2 == 1,
						Alpha: planner.Scale([...]float64{1, -0.5, 0}[rng.IntN(3)])})
				}
			}
			b[0].Alpha = planner.Scale(2)
			o := planner.Options{TypeA: element.E4M3, Schedule: schedules[(i+transposition)%3], Epilogue: e}
			o.TypeC = elemtype.TypesC(o.TypeA)[(i+transposition)%len(elemtype.TypesC(o.TypeA))]
			jobs = append(jobs, place(b, o, (i+transposition/2)%3 != 0, rng))
		}
	}
	return jobs
}

// TestWarpgroupEpiloguesEmulated runs kernels of warpgroups with an epilogue like TestWarpgroupsEmulated.
func TestWarpgroupEpiloguesEmulated(t *testing.T) {
	compiled(t)
	for _, s := range warpgroupTiles() {
		if s.Epilogues {
			t.Run(s.Name, func(t *testing.T) {
				sample.Kernels.Part(t, 4)
				t.Parallel()
				runWarpgroups(t, wgmmaEpilogues(t, s))
			})
		}
	}
}

// epilogueMutants are mistakes in the epilogues of kernels.
var epilogueMutants = []inSanitizer{
	{mutant{"rows are not gathered", "epilogue/epilogue.cuh", "if (!has(kGather)) return r;", "return r;"},
		plain},
	{mutant{"rows that are none are loaded", "epilogue/epilogue.cuh",
		"return row < more.gatherRows ? row : 0;", "return row;"}, address},
	{mutant{"the first row stands for one that is none", "epilogue/epilogue.cuh",
		"if (e.has(kGather) && e.rows[words.gatherAt + r] >= words.gatherRows) value[i] = 0.0f;", ""}, plain},
	{mutant{"rows are listed of the tile before", "kernels/gemm.cuh",
		"more.template findRows<T>(items, number, rows, list);\n      barrier();",
		"more.template findRows<T>(items, number, rows, list);"}, thread},
	{mutant{"more rows than there are", "epilogue/epilogue.cuh", "r < count ? rowOf(words, r) : 0",
		"rowOf(words, r)"}, address},
	{mutant{"rows are not scattered", "epilogue/epilogue.cuh", "to[i] = e.rows[words.scatterAt + r];",
		"to[i] = r;"}, plain},
	{mutant{"rows that are none are stored", "epilogue/epilogue.cuh",
		"stored[i] = to[i] < words.scatterRows;", ""}, address},
	{mutant{"no bound of rows", "epilogue/epilogue.cuh", "stored[i] = r < rows;", "stored[i] = true;"},
		address},
	{mutant{"C is read though beta is 0", "epilogue/epilogue.cuh", "final && beta != 0.0f",
		"final && !second"}, plain},
	{mutant{"the second product is with B", "epilogue/epilogue.cuh",
		"second ? static_cast<const Number*>(B2) : B", "B"}, plain},
	{mutant{"partial tiles have a bias", "epilogue/epilogue.cuh", "if (partial) return sum;", ""}, plain},
	{mutant{"both products are activated", "epilogue/epilogue.cuh",
		"return second ? old * v : e.activated(v);",
		"return second ? old * e.activated(v) : e.activated(v);"}, plain},
	{mutant{"fix-ups have no activation", "epilogue/epilogue.cuh", "  v = activated(v);\n", ""}, plain},
	{mutant{"fix-ups store rows that are none", "epilogue/epilogue.cuh",
		"if (to >= words.scatterRows) return;", ""}, address},
	{mutant{"each product of a tile is counted", "kernels/load.cuh",
		"counts() && number % more.products() == 0", "counts()"}, plain},
	{mutant{"tiles in turn are one product", "kernels/load.cuh", "tile * more.products() : kNoTile",
		"tile : kNoTile"}, plain},
	{mutant{"sums keep what zero points are worth", "epilogue/epilogue.cuh",
		"if (kWhole) sum = fmaf(-zeroA, sumB, sum);", ""}, plain},
	{mutant{"fix-ups keep what zero points are worth", "epilogue/epilogue.cuh",
		"if (has(kZeros)) sum = fmaf(", "if (false) sum = fmaf("}, plain},
	{mutant{"a row that is none has a zero point", "epilogue/epilogue.cuh",
		"      if (r >= words.gatherRows) return 0.0f;\n", ""}, address},
	{mutant{"ReLU of NaN is 0", "epilogue/epilogue.cuh", "return v < 0.0f ? 0.0f : v;",
		"return v > 0.0f ? v : 0.0f;"}, plain},
	{mutant{"SiLU is GELU", "epilogue/epilogue.cuh", "kind == kSiLU ? v :", "false ? v :"}, plain},
}

func TestEpilogueMutants(t *testing.T) {
	s, err := tile.ByName("medium-k2")
	require.NoError(t, err)
	jobs := withKernels(fmaEpilogues(t, s, []int{s.TM + 3, 2 * s.TM, 5}, []int{s.TN + 5}, element.F32,
		element.BF16, element.Int8), 2)
	testMutantsOf(t, []*tile.Shape{s}, jobs, epilogueMutants)
}
