package dispatch

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/drivertest"
	"github.com/batchgemm/batchgemm/planner"
)

// TestOpenInBrowser: in a browser, Open finds WebGPU, which multiplies host memory.
func TestOpenInBrowser(t *testing.T) {
	info := drivertest.Open(t, backends[2]).Info() // skips without an adapter
	d, err := Open(t.Context(), WithBackend("webgpu"))
	require.NoError(t, err)
	defer d.Close()
	require.Equal(t, info.ID, d.Info().ID)

	batch, err := planner.Pack(planner.GEMM(2, 3, 4), planner.GEMM(100, 50, 30))
	require.NoError(t, err)
	need := batch.Lengths(planner.Epilogue{})
	a, b, c := make([]float32, need.A), make([]float32, need.B), make([]float32, need.C)
	a[batch[1].A.Offset], b[batch[1].B.Offset] = 6, 7
	require.NoError(t, gemmOf(t.Context(), d, batch, planner.Options{}, a, b, c))
	require.Equal(t, float32(42), c[batch[1].C.Offset])

	best, err := Open(t.Context())
	require.NoError(t, err)
	defer best.Close()
	if info.Kind == KindSoftware {
		require.Equal(t, "cpu", best.Info().Backend)
		require.ErrorContains(t, &allSkipped{best.Skipped()}, "software")
	} else {
		require.Equal(t, "webgpu", best.Info().Backend)
	}
}
