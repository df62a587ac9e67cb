//go:build !race

// The race detector needs address space of its own.

package hostgemm

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/hardware"
	"github.com/batchgemm/batchgemm/internal/hostmem/memtest"
	"github.com/batchgemm/batchgemm/planner"
)

// If there is no memory for results, GEMM fails before anything is computed.
func TestGEMMMemoryIsLimited(t *testing.T) {
	memtest.AddressSpace(t, 1280<<20, func() {
		d, f := openHost(t)
		const side = 14000
		batch, err := planner.Pack(planner.GEMM(side, side, 1))
		require.NoError(t, err)
		a, c := make([]float32, side), make([]float32, side*side) // 784 MB
		err = d.GEMM(t.Context(), batch, planner.Options{}, Operands{A: a, B: a, C: c})
		require.ErrorIs(t, err, hardware.ErrOutOfMemory)
		require.Regexp(t, "^memory for the results: out of memory: 747.7 MiB more are needed, RLIMIT_AS "+
			"leaves ", err)
		require.Zero(t, f.Buffers.Load())
		require.NoError(t, d.GEMM(t.Context(), small(t), planner.Options{}, Operands{A: a, B: a, C: c}),
			"the device works on")
	})
}
