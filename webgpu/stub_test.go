//go:build !nowebgpu && !js && (!cgo || !((linux && amd64) || darwin || (windows && amd64)))

package webgpu

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/hardware"
)

// A build without the backend says what it lacks.
func TestMissing(t *testing.T) {
	_, err := Driver().Devices(t.Context())
	require.ErrorIs(t, err, hardware.ErrUnavailable)
	require.ErrorContains(t, err, "not in this build: ")
	for _, c := range []struct{ name, system, arch, want string }{
		{"no cgo", "linux", "amd64", "built without cgo, which takes CGO_ENABLED=1 and a C compiler"},
		{"no cgo on a Mac", "darwin", "arm64",
			"built without cgo, which takes CGO_ENABLED=1 and a C compiler"},
		{"no library", "linux", "arm64", "there is no WebGPU library for linux/arm64, but for linux/amd64, " +
			"windows/amd64 and darwin"},
	} {
		t.Run(c.name, func(t *testing.T) { require.Equal(t, c.want, missing(c.system, c.arch)) })
	}
}
