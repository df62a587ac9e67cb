package native

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/internal/sample"
	"github.com/batchgemm/batchgemm/internal/tile"
	builds "github.com/batchgemm/batchgemm/native/internal/kernels"
	"github.com/batchgemm/batchgemm/planner/element"
)

// mutant is a mistake in the text of the kernels: a replacement in one place of a file.
type mutant struct{ name, file, old, new string }

// mutate writes the device text with a mistake to a new directory, with some files replaced.
func mutate(t *testing.T, m mutant, made map[string]string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	require.NoError(t, copySources(dir, made))
	if m.file == "" {
		return dir
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, filepath.FromSlash(m.file)), m.text(t, dir), 0o600))
	return dir
}

// text returns the file below a directory, with the mistake in its one place.
func (m mutant) text(t *testing.T, dir string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(m.file)))
	require.NoError(t, err)
	require.Equal(t, 1, strings.Count(string(text), m.old), "%s must have this once: %s", m.file, m.old)
	return []byte(strings.Replace(string(text), m.old, m.new, 1))
}

// inSanitizer is a mistake, and the sanitizer that finds it.
type inSanitizer struct {
	mutant
	in sanitizer
}

// buildMutant compiles the device text, with a mistake or unchanged, in a new directory.
func buildMutant(t *testing.T, m mutant, in sanitizer, made map[string]string) (e emulator, source string) {
	t.Helper()
	source = mutate(t, m, made)
	e, err := buildEmulator(filepath.Join(source, "runner"), source, in, runtimeOf(t, in))
	require.NoError(t, err)
	return e, source
}

// testMutants runs the unchanged text in some sanitizers, and each mistake in the one that finds it.
func testMutants(t *testing.T, mutants []inSanitizer, run func(t *testing.T, m mutant, in sanitizer) error,
	unharmed ...sanitizer) {
	t.Helper()
	for _, in := range unharmed {
		t.Run("none, "+in.name, func(t *testing.T) {
			sample.Kernels.Part(t, 1)
			require.NoError(t, run(t, mutant{}, in))
		})
	}
	for _, m := range mutants {
		requireFound(t, m.mutant, func(t *testing.T) error { return run(t, m.mutant, m.in) })
	}
}

// mutants are mistakes that must be found, which shows that the tests of kernels find such mistakes.
var mutants = []inSanitizer{
	{mutant{"no barrier before a step is multiplied", "kernels/gemm.cuh", "barrier();\n        copy(in);",
		"copy(in);"}, plain},
	{mutant{"no barrier after the last step", "kernels/gemm.cuh", "barrier();\n    sum.store(shared);",
		"sum.store(shared);"}, plain},
	{mutant{"no barrier before outputs are read", "kernels/gemm.cuh", "sum.store(shared);\n    barrier();",
		"sum.store(shared);"}, plain},
	{mutant{"no barrier between items", "kernels/gemm.cuh", "if (work.any()) barrier();", ""}, thread},
	{mutant{"no barrier in the fix-up", "kernels/store.cuh", "sums[t] = sum;\n  barrier();",
		"sums[t] = sum;"}, thread},
	{mutant{"a barrier for half the threads", "kernels/gemm.cuh", "sum.store(shared);\n    barrier();",
		"sum.store(shared);\n    if (threadId() < T::kThreads / 2) barrier();"}, plain},
	{mutant{"copy to the stage that is read", "kernels/gemm.cuh", "copy(in);", "copy(out);"}, plain},
	{mutant{"stages do not alternate", "kernels/gemm.cuh",
		"out = out == kLastStage ? 0 : out + kStageFloats;", ""}, plain},
	{mutant{"copies of B never land", "kernels/gemm.cuh", "        b.land();\n", ""}, plain},
	{mutant{"copies land in the first stage", "kernels/load.cuh", "pending = stage;", "pending = 0;"},
		plain},
	{mutant{"no bound of rows", "kernels/load.cuh", "(row + j % kRows * kStride < length ? 1u : 0u) << j",
		"1u << j"}, address},
	{mutant{"no bound of columns", "kernels/load.cuh", "valid = column >= length ? 0 : vector",
		"valid = vector"}, address},
	{mutant{"one of three last columns is left out", "kernels/load.cuh", "i < 3; ++i", "i < 2; ++i"},
		plain},
	{mutant{"no bound of K in copies", "kernels/load.cuh",
		"left < T::TK ? valid & lowBits(below(left, kStep) * kRows) : valid", "valid"}, address},
	{mutant{"no bound of K in wide copies", "kernels/load.cuh", "lowBits(rows), [&]", "0xffffffff, [&]"},
		address},
	{mutant{"no bound of K in products", "kernels/gemm.cuh", "if (left >= T::TK) {", "if (true) {"}, plain},
	{mutant{"no bound of K in matrix products", "amd/mfma.cuh", "k + lane / kBlock < left", "true"}, plain},
	{mutant{"copies that are not to be made are", "amd/dialect_hip.h", "exists >> j & 1 ? from(j) : any",
		"from(j)"}, address},
	{mutant{"a place in shared memory off by one", "kernels/load.cuh",
		"to = sharedAddress(shared + k * kPitch + row)", "to = sharedAddress(shared + k * kPitch + row + 1)"},
		plain},
	{mutant{"a K group is not added", "kernels/store.cuh", "for (int g = 1; g < kGroups; ++g) value",
		"for (int g = 2; g < kGroups; ++g) value"}, plain},
	{mutant{"a block of the matrix cores lies wrong", "amd/mfma.cuh", "lane / kBlock * 4) * T::TN",
		"lane / kBlock * 2) * T::TN"}, plain},
	{mutant{"no bound of columns in the store", "kernels/store.cuh", "if (col >= cols) return;", ""}, plain},
	{mutant{"no bound of rows in the store", "kernels/store.cuh", "if (r + i * kApart < rows) *rowsOn(to",
		"*rowsOn(to"}, plain},
	{mutant{"C is read though beta is 0", "kernels/store.cuh", "if (beta == 0.0f) storeTile",
		"if (false) storeTile"}, plain},
	{mutant{"alpha in partial sums", "kernels/store.cuh", "T::TN, T::TM, T::TN, 1.0f, 0.0f",
		"T::TN, T::TM, T::TN, __uint_as_float(item.alpha), 0.0f"}, plain},
	{mutant{"a set of slots is not added", "kernels/store.cuh", "for (uint32_t s = 1; s < kSlotSets",
		"for (uint32_t s = 2; s < kSlotSets"}, plain},
	{mutant{"slots out of order", "kernels/store.cuh", "part += sets * kVectors)", "part += kVectors)"},
		plain},
	{mutant{"rows in 32 bits", "kernels/load.cuh", "static_cast<uint64_t>(n) * ld", "n * ld"}, plain},
	{mutant{"slots in 32 bits", "kernels/store.cuh", "static_cast<uint64_t>(item.slot) * (T::TM * T::TN)",
		"item.slot * (T::TM * T::TN)"}, plain},
	{mutant{"slots of the fix-up in 32 bits", "kernels/store.cuh",
		"static_cast<size_t>(item.slot + set) * kVectors", "(item.slot + set) * kVectors"}, plain},
	{mutant{"C of fp32 is stored with 16 bits", "kernels/store.cuh",
		"item.slot == kFinal && (item.flags & kItemFloatC) == 0", "item.slot == kFinal"}, plain},
	{mutant{"no bound of K in copies of pairs", "amd/bits16_hip.cuh",
		"loads < kLoads ? valid & lowBits(countBelow(k, loads, kStep) * kRows) : valid", "valid"}, address},
	{mutant{"half a word is left out", "amd/bits16_hip.cuh", "left % kPer != 0) {", "false) {"}, plain},
	{mutant{"half a word is read whole", "amd/bits16_hip.cuh", "value[j] = firstOf(from(j), left % kPer)",
		"loadElements<4>(value + j, from(j))"}, address},
	{mutant{"a last column is read as two", "amd/bits16_hip.cuh", "columns == 1", "false"}, address},
	{mutant{"a last column is left out", "amd/bits16_hip.cuh", "i < n - 1; ++i", "i < n - 2; ++i"}, plain},
	{mutant{"no bound of columns of pairs", "amd/bits16_hip.cuh", "static_cast<uint32_t>(i) < columns",
		"true"}, address},
	{mutant{"no bound of K in pairs of rows", "amd/bits16_hip.cuh", "if (left < kDeep * T::TK) {",
		"if (false) {"}, address},
	{mutant{"rows of a pair change places", "amd/bits16_hip.cuh", "(row[0] & 0xffff) | row[1] << 16",
		"(row[1] & 0xffff) | row[0] << 16"}, plain},
	{mutant{"a half after the last k counts", "amd/steps_hip.cuh", "step(a, b, 2 * k + 1 < left, are)",
		"step(a, b, true, are)"}, plain},
	{mutant{"a half after the last k counts in matrix products", "amd/mfma.cuh", "first + e < left",
		"first + e / 2 * 2 < left"}, plain},
	{mutant{"a word after the last k counts in matrix products", "amd/mfma.cuh", "uint32_t mask = 0;",
		"uint32_t mask = ~0u;"}, plain},
	{mutant{"words of a lane are the same", "amd/mfma.cuh", "[i * kBlockK * kPitch]",
		"[i * 0 * kPitch]"}, plain},
	{mutant{"parts are counted before all are stored", "kernels/store.cuh",
		"  barrier();  // all threads have stored\n", ""}, asCUDA},
	{mutant{"parts are counted before they are released", "amd/dialect_hip.h", "  releaseStores();\n", ""},
		thread},
	{mutant{"parts of others are not acquired", "amd/dialect_hip.h", "  acquireStores();\n", ""}, thread},
	{mutant{"parts stay counted", "amd/dialect_hip.h",
		"  if (counts) addAt(arrived, 0u - (count << shift));\n", ""}, plain},
	{mutant{"waves of all numbers are counted together", "amd/dialect_hip.h", "waveSize() * kBits",
		"waveSize() * 0"}, plain},
	{mutant{"a count runs over", "amd/dialect_hip.h", "kBits = 4,", "kBits = 3,"}, plain},
	{mutant{"all lanes count", "amd/dialect_hip.h", "threadId() % waveSize() == 0", "true"}, plain},
	{mutant{"the first group sums", "kernels/store.cuh", "tile.count)) return;", "1)) return;"}, plain},
	{mutant{"a part is not added", "kernels/store.cuh", "slot + s < item.count", "slot + s + 1 < item.count"},
		plain},
	{mutant{"parts in another order", "kernels/store.cuh", "sum[i][0] += part[s]",
		"sum[i][0] += part[kSlots - 1 - s]"}, plain},
	{mutant{"parts in 32 bits", "kernels/store.cuh", "static_cast<uint64_t>(item.slot) * kSlot",
		"item.slot * kSlot"}, plain},
	{mutant{"no bound of columns in sums of parts", "kernels/store.cuh", " && col + j < item.cols()", ""},
		plain},
	{mutant{"C is read beyond its end for sums of parts", "kernels/store.cuh",
		"beta != 0.0f && has(n / 4, n % 4) ?", "beta != 0.0f ?"}, address},
	{mutant{"the counter does not wrap", "kernels/load.cuh", "words()[kDynamicLast]", "kNoTile"}, plain},
	{mutant{"two workers have a tile", "kernels/load.cuh",
		"words()[kDynamicFirst] + next.get(taken, shared)",
		"words()[kDynamicFirst] + (next.get(taken, shared) | 1)"}, plain},
	{mutant{"a tile is left out", "kernels/load.cuh", "tile < words()[kDynamicEnd]",
		"tile + 1 < words()[kDynamicEnd]"}, plain},
	{mutant{"the next tile is read before it is there", "amd/dialect_hip.h",
		"if (threadId() == 0) *word = told;\n    barrier();", "if (threadId() == 0) *word = told;"}, plain},
	{mutant{"the next tile takes the place of others' sums", "amd/dialect_hip.h",
		"reinterpret_cast<uint32_t*>(shared);", "reinterpret_cast<uint32_t*>(shared) + 1;"}, thread},
	{mutant{"no bound in the fix-up", "kernels/store.cuh", "if (row < rows && col + i < cols) {",
		"if (row < rows && col < cols) {"}, plain},
}

// madeOf lists the kernels of tiles, without those of ragged plans. A single tile compiles quickly.
func madeOf(shapes ...*tile.Shape) map[string]string {
	return map[string]string{"lists/hip.inc": builds.HIP(shapes, builds.All), "lists/ragged.inc": "",
		"lists/routing.inc": ""}
}

func TestMutants(t *testing.T) {
	compiled(t)
	// One tile with K groups in the kernels with and without matrix cores.
	shape, err := tile.ByName("small-k8")
	require.NoError(t, err)
	rows, cols := []int{3 * shape.TM, 5, shape.TM - 1, shape.TM + 3},
		[]int{shape.TN - 2, 2 * shape.TN, shape.TN + 5}
	jobs := withKernels(tileJobs(t, shape, element.F32, rows, cols), 2)
	// Each operand K-major and MN-major.
	far := withKernels(farJobs(t, shape), 2)
	jobs = slices.DeleteFunc(jobs,
		func(j *emulatorJob) bool { return j.plan.Batch[0].TransA != j.plan.Batch[0].TransB })
	halves := withKernels(tileJobs(t, shape, element.F16, rows[1:], cols), 2)

	parts := partJobs(t, shape)

	// No job has bf16, whose kernels take a third of the compile time.
	made := madeOf()
	made["lists/hip.inc"] = builds.HIP([]*tile.Shape{shape},
		func(k encoding.Kernel) bool { return k.TypeA != element.BF16 })

	run := func(t *testing.T, m mutant, in sanitizer) error {
		t.Helper()
		e, source := buildMutant(t, m, in, made)
		first, second := jobs, halves
		if strings.Contains(m.file, "half") { // what finds the mistake ends the run
			first, second = second, first
		}
		if in.name == plain.name { // sanitizers use addresses differently
			second = slices.Concat(second, far)
		}
		if err := e.run(source, first); err != nil {
			return err
		}
		if err := e.run(source, second); err != nil {
			return err
		}
		return e.sameBits(source, parts)
	}
	testMutants(t, mutants, run, plain)
}

// linesMutants are mistakes in how thin tiles copy B in kernels for CUDA.
var linesMutants = []inSanitizer{
	{mutant{"rows begin with a sector", "kernels/gemm.cuh", "    return first;", "    return 0;"}, asCUDA},
	{mutant{"rows begin where the first one does", "kernels/gemm.cuh",
		"first = Of::placeInSector(rowsOn(start, sum.group, ld))", "first = Of::placeInSector(start)"},
		asCUDA},
	{mutant{"each other row begins where the first one does", "kernels/gemm.cuh",
		"static_cast<int32_t>(next - first)", "static_cast<int32_t>(next - next)"}, asCUDA},
	{mutant{"each other row is copied to where the first one is", "kernels/load.cuh",
		"other = target(row + kApart, before);", "other = to;"}, asCUDA},
	{mutant{"all rows are read in the last step as the first one is", "kernels/gemm.cuh",
		"step<T::RM>(a, b + (k / T::kGroups % 2 == 0 ? 0 : further));", "step<T::RM>(a, b);"}, asCUDA},
	{mutant{"the last line of a row is missing", "kernels/load.cuh", "if (threadId() < T::TK) copySector",
		"if (false) copySector"}, asCUDA},
	{mutant{"the last line of a row is empty", "kernels/load.cuh", "threadId() < left ? sizeEnd : 0", "0"},
		asCUDA},
	{mutant{"a step's rows are copied from the first", "kernels/load.cuh",
		"    at = rowsOn(at, T::TK, ld);\n", ""}, asCUDA},
	{mutant{"elements after a row are read", "kernels/load.cuh", "min(elements, kLine)",
		"(elements > 0 ? kLine : 0)"}, asCUDAInBounds},
	{mutant{"rows that do not exist are read", "kernels/load.cuh", "row + p * kApart < left;", "true;"},
		asCUDAInBounds},
	{mutant{"five rows are few", "kernels/gemm.cuh", "rows <= T::VA;", "rows <= T::VA + 1;"}, asCUDA},
}

// TestLines runs a thin tile that copies B by lines. Its rows start anywhere.
func TestLines(t *testing.T) {
	compiled(t)
	tile, err := tile.ByName("thin-8x64")
	require.NoError(t, err)
	near := tileJobs(t, tile, element.F32, []int{tile.TM, 1, 5}, []int{tile.TN + 5, 1, tile.TN})
	jobs := map[string][]*emulatorJob{asCUDA.name: slices.Concat(near, farJobs(t, tile)),
		asCUDAInBounds.name: near}
	testMutants(t, linesMutants, func(t *testing.T, m mutant, in sanitizer) error {
		t.Helper()
		e, source := buildMutant(t, m, in, madeOf(tile))
		return e.run(source, jobs[in.name])
	}, asCUDA, asCUDAInBounds)
}

// partsMutants need a tile in which a thread sums several rows, and not all partials at once.
var partsMutants = []mutant{
	{"parts are added again", "kernels/store.cuh", "from += kSlots * kSlot", "from += kSlot"},
	{"no bound of rows in sums of parts", "kernels/store.cuh", "row + i * kApart < rows && ", ""},
}

func TestPartsMutants(t *testing.T) {
	compiled(t)
	tile, err := tile.ByName("large")
	require.NoError(t, err)
	jobs, made := partJobs(t, tile), madeOf(tile)
	for _, m := range partsMutants {
		requireFound(t, m, func(t *testing.T) error {
			e, source := buildMutant(t, m, plain, made)
			return e.sameBits(source, jobs)
		})
	}
}

// requireFound runs jobs with a mistake, which must fail. It tries a sample of the mistakes; all must have
// their place in the text.
func requireFound(t *testing.T, m mutant, run func(*testing.T) error) {
	t.Run(m.name, func(t *testing.T) {
		m.text(t, ".")
		sample.Kernels.Part(t, 8)
		t.Parallel()
		err := run(t)
		require.Error(t, err, "the mistake is not found")
		t.Log(firstLines(err, 3))
	})
}

// firstLines returns the first lines of a message, which may be long.
func firstLines(err error, n int) string {
	lines := strings.SplitN(fmt.Sprint(err), "\n", n+1)
	return strings.Join(lines[:min(n, len(lines))], "\n")
}
