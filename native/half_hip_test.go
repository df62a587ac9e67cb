package native

import (
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/reference"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
	"github.com/batchgemm/batchgemm/planner/tile"
)

// TestHalvesOfGfx908 runs the kernels for bf16 with the matrix instruction that gfx908 has, whose
// lanes give one word in place of two.
func TestHalvesOfGfx908(t *testing.T) {
	compiled(t)
	gfx908 := sanitizer{name: "gfx908", kernels: append([]string{"-D__gfx908__"}, plain.kernels...)}
	for _, name := range []string{"small-k8", "large"} { // with K groups, and with several blocks of a wave
		shape, err := tile.ByName(name)
		require.NoError(t, err)
		source := mutate(t, mutant{}, mutantSources, madeOf(shape))
		e, err := buildEmulator(filepath.Join(source, "runner"), source, gfx908, runtimeOf(t, plain))
		require.NoError(t, err)
		jobs := withKernels(tileJobs(t, shape, element.BF16, []int{3 * shape.TM, 5, shape.TM - 1, shape.TM + 3}, []int{shape.TN - 2, 2 * shape.TN, shape.TN + 5}), 2)
		require.NoError(t, e.run(source, jobs))
	}
}

// bytesJobs multiply all numbers of a type of 8 bits by 1, those of A and those of B.
func bytesJobs(t *testing.T, shape *tile.Shape, of element.Type) (jobs []*emulatorJob) {
	t.Helper()
	for transposition := range 4 {
		b := reference.OfAllNumbers(transposition/2 == 1, transposition%2 == 1)
		j := newFMAJob(t, b, shape, planner.Options{Type: of}, false, false, rand.New(rand.NewPCG(1, 2)))
		j.exact = true
		reference.AllNumbers(of, j.plan.Batch, j.a, j.b)
		jobs = append(jobs, j)
	}
	return jobs
}

// TestBytesEmulated: all numbers of 8 bits become what they are.
func TestBytesEmulated(t *testing.T) {
	testTiles(t, plain, func(t *testing.T, tile *tile.Shape) (jobs []*emulatorJob) {
		for _, of := range narrow[len(halves):] {
			if hasBytes(tile) {
				jobs = append(jobs, withKernels(bytesJobs(t, tile, of), 0)...)
			}
		}
		return jobs
	})
}

// bytesMutants are mistakes in what kernels for elements of 8 bits have of their own.
var bytesMutants = []struct {
	mutant
	in sanitizer
}{
	{mutant{"NaN is a number", "half_hip.cuh", "0x7fff * isNaN", "0 * isNaN"}, plain},
	{mutant{"numbers have no sign", "half_hip.cuh", "(apart & 0x00800080) << 8 | ", ""}, plain},
	{mutant{"the exponent stays too small", "half_hip.cuh", "times256 = {256, 256}", "times256 = {128, 128}"}, plain},
	{mutant{"negative numbers are positive", "half_hip.cuh", "(apart ^ 0x00800080)", "apart"}, plain},
	{mutant{"two numbers of a word are the same", "half_hip.cuh", "(loaded >> (16 * i + 8) & 0xff)", "(loaded >> (16 * i) & 0xff)"}, plain},
	{mutant{"both words of a load are the same", "half_hip.cuh", "(loaded >> (16 * i) & 0xff)", "(loaded & 0xff)"}, plain},
	{mutant{"columns of a row are the same", "half_hip.cuh", "(high >> (8 * i) & 0xff)", "(high & 0xff)"}, plain},
	{mutant{"bytes behind the last word are left out", "half_hip.cuh", "left % kPer != 0) {", "false) {"}, plain},
	{mutant{"the last of three bytes is left out", "half_hip.cuh", "i < kPer - 1; ++i", "i < kPer - 2; ++i"}, plain},
	{mutant{"more bytes than there are", "half_hip.cuh", "if (i < few) word", "word"}, address},
}

func TestBytesMutants(t *testing.T) {
	compiled(t)
	shape, err := tile.ByName("tiny-k4")
	require.NoError(t, err)
	var jobs []*emulatorJob
	for _, of := range narrow[len(halves):] {
		jobs = append(jobs, withKernels(bytesJobs(t, shape, of), 2)...)
		jobs = append(jobs, withKernels(tileJobs(t, shape, of, []int{3 * shape.TM, 5, shape.TM + 3}, []int{shape.TN - 2, 2*shape.TN + 1}), 2)...)
	}
	run := func(t *testing.T, m mutant, in sanitizer) error {
		t.Helper()
		source := mutate(t, m, mutantSources, madeOf(shape))
		e, err := buildEmulator(filepath.Join(source, "runner"), source, in, runtimeOf(t, in))
		require.NoError(t, err)
		return e.run(source, jobs)
	}
	t.Run("none", func(t *testing.T) { require.NoError(t, run(t, mutant{}, plain)) })
	for _, m := range bytesMutants {
		requireFound(t, m.mutant, func(t *testing.T) error { return run(t, m.mutant, m.in) })
	}
}
