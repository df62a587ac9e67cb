//go:build !race

// The race detector needs address space of its own.

package workload

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/hardware"
	"github.com/batchgemm/batchgemm/internal/hostmem/memtest"
	"github.com/batchgemm/batchgemm/planner"
)

// If there is no memory for sizes, the error names the line.
func TestManyLines(t *testing.T) {
	memtest.AddressSpace(t, 640<<20, func() {
		_, err := Read("sizes.txt", bytes.Repeat([]byte("1 1 1\n"), 2_500_000))
		require.ErrorIs(t, err, hardware.ErrOutOfMemory)
		require.Regexp(t,
			`^sizes\.txt:\d+: memory for \d+ problems: out of memory: \d+\.\d MiB more are needed, `+
				`RLIMIT_AS leaves `, err)
		w, err := Read("sizes.txt", bytes.Repeat([]byte("1 1 1\n"), 100_000))
		require.NoError(t, err)
		require.Len(t, w.Batch, 100_000)
	})
}

// The same for random sizes.
func TestManyDrawn(t *testing.T) {
	memtest.AddressSpace(t, 256<<20, func() {
		for _, name := range []string{"random:batch=1048576", "moe:experts=1048576"} {
			_, err := Load(name, nil)
			require.ErrorIs(t, err, hardware.ErrOutOfMemory, name)
		}
	})
}

func TestAddressSpaceIsLimited(t *testing.T) {
	memtest.AddressSpace(t, 1<<30, func() {
		batch, err := planner.Pack(planner.GEMM(11000, 11000, 1000)) // 572 MB
		require.NoError(t, err)
		first, err := NewOperands(batch, 0)
		require.NoError(t, err)
		_, err = NewOperands(batch, 0)
		require.ErrorIs(t, err, hardware.ErrOutOfMemory)
		require.ErrorContains(t, err, "RLIMIT_AS leaves")
		require.Zero(t, first.C[0])
	})
}
