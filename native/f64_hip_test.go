package native

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/sample"
	"github.com/batchgemm/batchgemm/internal/tile"
	builds "github.com/batchgemm/batchgemm/native/internal/kernels"
)

// hipDoubles are the tiles of fp64 that HIP has.
func hipDoubles() (shapes []*tile.Shape) {
	for _, s := range tile.Of(tile.F64) {
		if builds.DoubleOnHIP(s) {
			shapes = append(shapes, s)
		}
	}
	return shapes
}

// hipDoubleJobs are doubleJobs of them.
func hipDoubleJobs(t *testing.T) (jobs []*emulatorJob) {
	t.Helper()
	for _, shape := range hipDoubles() {
		jobs = append(jobs, doubleJobs(t, "mi210", shape)...)
	}
	for _, j := range jobs {
		j.how[1] = 64 // lanes of a wave
	}
	return jobs
}

// TestDoublesOfHIP runs the kernels of fp64 of HIP: with matrix cores, and on gfx908 by FMAs.
func TestDoublesOfHIP(t *testing.T) {
	compiled(t)
	for _, test := range []struct {
		arch string
		in   sanitizer
	}{{"", plain}, {"gfx908", plain}, {"", address}, {"", thread}} {
		t.Run(test.in.name+test.arch, func(t *testing.T) {
			t.Parallel()
			e, source := buildMutant(t, mutant{}, test.in.of(test.arch), madeOf(hipDoubles()...))
			require.NoError(t, e.run(source, sample.Jobs(t, sample.Kernels, hipDoubleJobs(t))))
		})
	}
}

// hipDoubleMutants are mistakes in f64_hip.cuh, and in what it alone uses.
var hipDoubleMutants = []inSanitizer{
	{mutant{"no barrier before a step is multiplied", "amd/f64_hip.cuh",
		"b.land(stage + T::kDoublesA);\n        barrier();", "b.land(stage + T::kDoublesA);"}, thread},
	{mutant{"stages do not alternate", "amd/f64_hip.cuh",
		"stage = stage == shared ? shared + T::kStage : shared;", ""}, thread},
	{mutant{"no barrier after the last step", "amd/f64_hip.cuh", "barrier();\n      sums.store",
		"sums.store"}, thread},
	{mutant{"no barrier before sums are read", "amd/f64_hip.cuh",
		"sums.store(shared, first);\n      barrier();", "sums.store(shared, first);"}, thread},
	{mutant{"no barrier between items", "amd/f64_hip.cuh", "    if (work.any()) barrier();\n", ""}, thread},
	{mutant{"what does not exist is not zero", "amd/f64_hip.cuh", "j < exist ? value[j] : 0.0", "value[j]"},
		plain},
	{mutant{"what does not exist is read", "amd/f64_hip.cuh", "*(j < exist ? from : any)", "*from"},
		address},
	{mutant{"places after the last are read", "amd/f64_hip.cuh", "place < (alongK ? left : length) && ",
		""}, address},
	{mutant{"rows are not gathered", "amd/f64_hip.cuh", "list[row + (j << logApart)]",
		"row + (j << logApart)"}, plain},
	{mutant{"rows of a lane follow each other", "amd/f64_hip.cuh", "+ 4 * r) * T::kPitch",
		"+ r) * T::kPitch"}, plain},
	{mutant{"all lanes have the same k", "amd/f64_hip.cuh", "line * kPitchB : 0", "0 : 0"}, plain},
	{mutant{"a part has the rows of the first", "amd/f64_hip.cuh", "part != first", "part != 0"},
		plain},
	{mutant{"a part goes where the first one does", "kernels/f64_store.cuh",
		"c = rowsOn(c, first, item.ldc)", "c = rowsOn(c, 0, item.ldc)"}, plain},
	{mutant{"a part of partials goes where the first one does", "kernels/f64_store.cuh",
		"kept += first * T::TN", "kept += 0 * T::TN"}, plain},
	{mutant{"a part scatters as the first one does", "kernels/f64_store.cuh", "words.scatterAt += first",
		"words.scatterAt += 0"}, plain},
	{mutant{"a part has the weights of the first", "kernels/f64_store.cuh", "words.weightsAt += first",
		"words.weightsAt += 0"}, plain},
	{mutant{"a part has the rows of A of the first", "kernels/f64_store.cuh", "words.gatherAt += first",
		"words.gatherAt += 0"}, plain},
	{mutant{"an item is that of before", "amd/f64_hip.cuh", "items[kVectors * number + threadId()]",
		"items[threadId()]"}, plain},
	{mutant{"a wave's columns are left out", "amd/f64_hip.cuh", "if (sums.col < cols)",
		"if (sums.col + 16 < cols)"}, plain},
	{mutant{"a reciprocal has half of the bits", "amd/dialect_hip.h", "i < 2; ++i) inverse",
		"i < 1; ++i) inverse"}, plain},
	{mutant{"an exponential lacks terms", "amd/dialect_hip.h", "for (int i = 12;", "for (int i = 9;"}, plain},
}

func TestDoubleMutantsOfHIP(t *testing.T) {
	compiled(t)
	jobs, made := hipDoubleJobs(t), madeOf(hipDoubles()...)
	testMutants(t, hipDoubleMutants, func(t *testing.T, m mutant, in sanitizer) error {
		t.Helper()
		e, source := buildMutant(t, m, in, made)
		return e.run(source, jobs)
	})
}
