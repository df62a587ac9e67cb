package backend

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/hardware"
)

func TestMissingSaysWhy(t *testing.T) {
	d := Missing("cuda", "needs cgo")
	require.Equal(t, "cuda", d.Name())
	require.Equal(t, "needs cgo", WhyMissing(d))
	require.Empty(t, WhyMissing(struct{ driver.Driver }{d}), "another driver")
	_, err := d.Devices(t.Context())
	require.ErrorIs(t, err, hardware.ErrUnavailable)
	require.ErrorContains(t, err, "not in this build")
	require.ErrorContains(t, err, "needs cgo")
	_, err = d.Open(t.Context(), 0)
	require.ErrorIs(t, err, hardware.ErrUnavailable)
}
