//go:build nowebgpu && nocuda && nohip

package dispatch

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/hardware"
)

// TestTags: a build without the GPU backends says so, and computes.
func TestTags(t *testing.T) {
	for _, backend := range backends[:len(backends)-1] {
		_, err := backend.Devices(t.Context())
		require.ErrorIs(t, err, hardware.ErrUnavailable)
		require.EqualError(t, err, "unavailable: not in this build: built with the tag no"+backend.Name())
		_, err = backend.Open(t.Context(), 0)
		require.ErrorIs(t, err, hardware.ErrUnavailable)
	}
	t.Setenv(backendEnv, "")
	d, err := Open(t.Context())
	require.NoError(t, err)
	defer d.Close()
	require.Equal(t, "cpu", d.Info().Backend)
}
