package native

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

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
