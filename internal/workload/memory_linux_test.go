//go:build !race

// The race detector takes address space of its own.

package workload

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/hostmem/memtest"
	"github.com/batchgemm/batchgemm/planner"
)

func TestAddressSpaceIsLimited(t *testing.T) {
	memtest.AddressSpace(t, 1<<30, func() {
		batch, err := planner.Pack(planner.GEMM(11000, 11000, 1000)) // 572 MB
		require.NoError(t, err)
		first, err := NewOperands(batch)
		require.NoError(t, err)
		_, err = NewOperands(batch)
		require.ErrorIs(t, err, driver.ErrOutOfMemory)
		require.ErrorContains(t, err, "RLIMIT_AS leaves")
		require.Zero(t, first.C[0])
	})
}
