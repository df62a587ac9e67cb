//go:build !race

// The race detector needs address space of its own.

package reference

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/hardware"
	"github.com/batchgemm/batchgemm/internal/hostmem/memtest"
)

func TestAddressSpaceIsLimited(t *testing.T) {
	memtest.AddressSpace(t, 1<<30, func() {
		c := make([]float32, 200<<20) // 800 MiB, never touched
		_, err := Check(nil, nil, nil, c, c)
		require.ErrorIs(t, err, hardware.ErrOutOfMemory)
		require.Regexp(t, "^not checked: out of memory: 200.0 MiB more are needed, RLIMIT_AS leaves ", err)
	})
}
