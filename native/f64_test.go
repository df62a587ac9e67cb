package native

import (
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/internal/reference"
	"github.com/batchgemm/batchgemm/internal/sample"
	"github.com/batchgemm/batchgemm/internal/tile"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

// doubleJob is a plan of one tile of fp64. Numbers have all bits, or are integers.
func doubleJob(t *testing.T, d *planner.Device, b planner.Batch, o planner.Options, unit int,
	how [2]uint32) *emulatorJob {
	t.Helper()
	rng := rand.New(rand.NewPCG(uint64(how[1]), 5))
	o.TypeA, o.TypeC = element.F64, element.F64
	j := newJob(t, d, b, o, unit, rng)
	j.how = how
	widen := func(from []float32, gapTo float64) []float64 {
		to := make([]float64, len(from))
		for i, x := range from {
			switch to[i] = float64(x); {
			case isGap(x):
				to[i] = gapTo
			case !j.exact:
				to[i] *= 1 + 0x1p-30*rng.Float64()
			}
		}
		return to
	}
	words := encoding.Scalar64(math.Float32bits(gap), math.Float32bits(gap)) // which the emulator knows
	j.doubles = &reference.Doubles{A: widen(j.a, words), B: widen(j.b, words), C: widen(j.c, math.NaN()),
		B2: widen(j.e.B2, words), Bias: widen(j.e.Biases, words), Rows: j.e.Rows}
	return j
}

// doubleJobs are plans of a tile for a device with all schedules, transpositions and epilogues. Sizes,
// alignment and the completion of copies, or the order of threads, vary in between.
func doubleJobs(t *testing.T, device string, shape *tile.Shape) (jobs []*emulatorJob) {
	t.Helper()
	rows := []int{shape.TM, 1, shape.TM - 1, shape.TM + 17, 7}
	cols := []int{shape.TN, shape.TN + 9, 3, shape.TN - 7}
	units := []int{1, 2, 4}
	if shape.Boxes { // rows are aligned
		units[0] = 2
	}
	schedules := []planner.Schedule{planner.ScheduleDataParallel, planner.ScheduleLPT,
		planner.ScheduleBatched, planner.ScheduleDynamic, planner.ScheduleSplitK, planner.ScheduleStreamK}
	epilogues := append(make([]planner.Epilogue, 4), reference.Epilogues(slices.Max(rows))...)
	for i, e := range epilogues {
		for turn, schedule := range schedules {
			seed := uint32(6*i + turn)
			if shape.TM*shape.TN > 32*32 && seed%5 > 1 { // take long
				continue
			}
			if shape.Boxes && (e.Gated || e.GatherRows > 0) {
				continue
			}
			transposed := i + turn
			depths := []int{33, 0, 1, 16, 15, 50}
			if schedule == planner.ScheduleSplitK || schedule == planner.ScheduleStreamK {
				if e.Gated || shape.Boxes {
					continue
				}
				depths = []int{20*shape.TK + 3, 1, 12 * shape.TK}
			}
			var b planner.Batch
			for at := range 4 {
				p := planner.Problem{M: rows[(at+i)%len(rows)], N: cols[(at+turn)%len(cols)],
					K: depths[(at+i)%len(depths)], TransA: transposed&1 != 0 && e.GatherRows == 0,
					TransB: transposed&2 != 0, Alpha: planner.Scale([]float64{1, -1. / 3, 0}[(at+i)%3])}
				if !e.Gated {
					p.Beta = []float64{0, 1, 0.7}[(at+turn)%3]
				}
				b = append(b, p)
			}
			b[0].Alpha, b[0].K = planner.Scale(0.1), slices.Max(depths)
			j := doubleJob(t, deviceFor(t, device, schedule), b, planner.Options{Tile: shape.Name,
				Schedule: schedule, Epilogue: e}, units[seed%3], [2]uint32{seed % 3, seed})
			if j.dynamic() {
				j.workers = 3 * (i % 2) // with turns of one tile; 0: as in the plan
			}
			jobs = append(jobs, j)
		}
	}
	return jobs
}

// TestDoublesEmulated runs the kernels of fp64.
func TestDoublesEmulated(t *testing.T) {
	compiled(t)
	for _, shape := range tile.Of(tile.F64) {
		t.Run(shape.Name, func(t *testing.T) {
			t.Parallel()
			e, err := doublesAsAre()
			require.NoError(t, err)
			jobs := doubleJobs(t, "h200", shape)
			require.NoError(t, e.run(t.TempDir(), sample.Jobs(t, sample.Kernels, jobs)))
		})
	}
}

// doubleMutants are mistakes in f64.cuh and what it shares.
var doubleMutants = []mutant{
	{"no barrier before a step is multiplied", "kernels/f64.cuh",
		"waitCopies<T::kAhead - 1>();\n          barrier();", "waitCopies<T::kAhead - 1>();"},
	{"a step is multiplied before its copies are there", "kernels/f64.cuh", "waitCopies<T::kAhead - 1>",
		"waitCopies<T::kAhead>"},
	{"no barrier before a stage is copied to again", "kernels/f64.cuh",
		"if (left <= T::TK) break;\n            barrier();", "if (left <= T::TK) break;"},
	{"no barrier after the last step", "kernels/f64.cuh", "    barrier();\n    block.store",
		"    block.store"},
	{"no barrier before sums are read", "kernels/f64.cuh", "block.store(shared);\n    barrier();",
		"block.store(shared);"},
	{"no barrier between items", "kernels/f64.cuh", "    if (work.any()) barrier();\n", ""},
	{"k's that do not exist are not zero", "kernels/tensor_f64.cuh", "end = alongK ? steps : length",
		"end = alongK ? T::TK : length"},
	{"rows of k's that do not exist are not zero", "kernels/tensor_f64.cuh",
		"written && steps < multiplied", "false"},
	{"a column after the last is copied", "kernels/tensor_f64.cuh", "8 * min(more, 2u)", "16"},
	{"lines where rows begin anywhere", "kernels/tensor_f64.cuh",
		"(placeInLine(start) | ld % 2) == 0", "true"},
	{"a line after the last double is copied", "kernels/tensor_f64.cuh",
		"wide && (alongK || place + 1 < length)", "wide"},
	{"copies of a step that is not whole go between products", "kernels/f64.cuh",
		"ahead >= T::TK && left", "left"},
	{"copies of rows that do not exist go between products", "kernels/tensor_f64.cuh",
		"alongK ? copiesOf(length) :", "alongK ? kCount :"},
	{"copies between products are left out", "kernels/f64.cuh", "(product + 1) * n / products>();",
		"product * n / products + 1>();"},
	{"a set is left out", "kernels/tensor_f64.cuh", "for (int i = 1; i < kSets; ++i)",
		"for (int i = 2; i < kSets; ++i)"},
	{"an item is that of before", "kernels/f64.cuh", "items[kVectors * number + threadId()]",
		"items[threadId()]"},
	{"rows are not gathered", "kernels/tensor_f64.cuh", "list[row + (i << logRows)]",
		"row + (i << logRows)"},
	{"a column of products too few", "kernels/f64.cuh", "col + 8 * j < cols", "col + 8 * j + 8 < cols"},
	{"a row of products too few", "kernels/f64.cuh", "row + 16 * i < rows)) ::",
		"row + 16 * i + 16 < rows)) ::"},
	{"alpha has its upper word alone", "kernels/f64_store.cuh", ": doubleOf(item.alpha, words.scaleAAt);",
		": doubleOf(item.alpha, 0);"},
	{"beta has its upper word alone", "kernels/f64_store.cuh", "= doubleOf(item.beta, words.scaleBAt);",
		"= doubleOf(item.beta, 0);"},
	{"beta of a fix-up has its upper word alone", "kernels/f64_store.cuh",
		"doubleOf(item.beta, words.scaleBAt), bias, false", "doubleOf(item.beta, 0), bias, false"},
	{"C is read where beta is 0", "kernels/f64_store.cuh", "else if (beta == 0) storeDoubles",
		"else if (false) storeDoubles"},
	{"rows after the last are stored", "kernels/f64_store.cuh",
		"if (r + i * kApart < rows) *rowsOn(at, i * kApart, ld) = value[i];",
		"*rowsOn(at, i * kApart, ld) = value[i];"},
	{"rows that are none have sums", "kernels/f64_store.cuh", ">= words.gatherRows) sum = 0;",
		">= words.gatherRows) sum = 1;"},
	{"a slot is left out", "kernels/f64_store.cuh", "for (uint32_t s = 1; s < sets; ++s) sum.add",
		"for (uint32_t s = 2; s < sets; ++s) sum.add"},
	{"no barrier in the fix-up", "kernels/f64_store.cuh", "sums[t] = sum;\n  barrier();", "sums[t] = sum;"},
	{"weights are not applied", "kernels/f64_store.cuh", "*at = final && e.has(kWeights) ?",
		"*at = false ?"},
}

// doubleBoxMutants are mistakes in f64_boxes.cuh.
var doubleBoxMutants = []mutant{
	{"a stage is multiplied before it is full", "kernels/f64_boxes.cuh",
		"      waitPhase(shared + T::kFull + 8 * stage.at, stage.parity);\n      const char",
		"      const char"},
	{"a stage is copied to before it is free", "kernels/f64_boxes.cuh",
		"waitPhase(shared + T::kFree + 8 * stage.at, stage.parity ^ 1);", ""},
	{"steps of no block are not passed", "kernels/f64_boxes.cuh", "      c.pass(steps);\n", ""},
	{"maps are used before they are made", "kernels/f64_boxes.cuh",
		"waitPhase(shared + T::kMapped + 8 * (number % kItemPlaces), number / kItemPlaces & 1);", ""},
	{"an A across K is copied as one along K", "kernels/f64_boxes.cuh", "mapA, acrossA, k",
		"mapA, acrossA && !acrossB, k"},
	{"boxes of B lie on those of A", "kernels/f64_boxes.cuh", "(to + T::kB, mapB", "(to, mapB"},
	{"a map of B ends with the rows", "kernels/f64_boxes.cuh", "acrossB ? cols : depth, ",
		"acrossB ? rows : depth, "},
	{"where nothing may be read, something is", "kernels/f64_boxes.cuh",
		"item.depth == 0 ? T::TK : 0", "0"},
	{"lanes take k's of their own order across K", "kernels/f64_boxes.cuh",
		"128 * k + 16 * (group / 2 ^ k % 8)", "128 * (k ^ 1) + 16 * (group / 2 ^ (k ^ 1) % 8)"},
	{"rows 8 further are the same", "kernels/f64_boxes.cuh", "at[e] + 1024", "at[e]"},
	{"columns 8 further are the same", "kernels/f64_boxes.cuh", "at[e] ^ 64", "at[e]"},
	{"the last block of rows is left out", "kernels/f64_boxes.cuh",
		"if (i >= rows) break;", "if (i + 1 >= rows) break;"},
	{"no barrier before sums are read", "kernels/f64_boxes.cuh", "c.store(i, out);\n      warpBarrier();",
		"c.store(i, out);"},
	{"no barrier before sums are stored again", "kernels/f64_boxes.cuh",
		"      warpBarrier();\n      c.store", "      c.store"},
	{"a warp's second block lies beside its first", "kernels/f64_boxes.cuh", "place() / 16 * T::kAcross",
		"place() / 16"},
	{"all rows are stored from the first on", "kernels/f64_boxes.cuh", "16 * (c.down + i * T::kDown), Warp",
		"16 * c.down, Warp"},
}

func TestDoubleMutants(t *testing.T) {
	compiled(t)
	var jobs []*emulatorJob
	// sets of warps; small; copies between products
	for _, name := range []string{"f64-16x16", "f64-32x32", "f64-64x128"} {
		shape, err := tile.ByName(name)
		require.NoError(t, err)
		jobs = append(jobs, doubleJobs(t, "h200", shape)...)
	}
	testDoubleMutants(t, doubleMutants, jobs)
}

func TestDoubleBoxMutants(t *testing.T) {
	compiled(t)
	shape, err := tile.ByName("f64-128x128")
	require.NoError(t, err)
	testDoubleMutants(t, doubleBoxMutants, doubleJobs(t, "h200", shape))
}

func testDoubleMutants(t *testing.T, mutants []mutant, jobs []*emulatorJob) {
	t.Helper()
	objects, err := warpgroupRuntime()
	require.NoError(t, err)
	for _, m := range mutants {
		requireFound(t, m, func(t *testing.T) error {
			source := mutate(t, m, nil)
			e, err := buildWarpgroups(filepath.Join(source, "doubles"), source, "warpgroup_f64.cpp", objects)
			require.NoError(t, err)
			return e.run(t.TempDir(), jobs)
		})
	}
}
