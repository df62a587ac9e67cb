//go:build !cgo || !((linux && amd64) || darwin || (windows && amd64))

package webgpu

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/dispatch/driver"
)

func TestStubSaysWhy(t *testing.T) {
	_, err := Driver().Devices()
	require.ErrorIs(t, err, driver.ErrUnavailable)
	require.ErrorContains(t, err, "not in this build")
	_, err = Driver().Open(t.Context(), 0)
	require.ErrorIs(t, err, driver.ErrUnavailable)
}
