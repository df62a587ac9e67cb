//go:build linux && !race

// The race detector needs address space of its own.

package dispatch

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/hostmem/memtest"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

// On the CPU there is no second C.
func TestOneCopyOfC(t *testing.T) {
	memtest.AddressSpace(t, 500<<20, func() {
		d, err := Open(t.Context(), WithBackend("cpu"))
		require.NoError(t, err)
		const side = 8192
		batch, err := planner.Pack(planner.GEMM(side, side, 1))
		require.NoError(t, err)
		a := make([]float32, side)
		a[side-1] = 2
		c := make([]float32, side*side) // 256 MiB
		before := memtest.Resident(t)
		require.NoError(t, gemmOf(t.Context(), d, batch, planner.Options{}, a, a, c))
		require.EqualValues(t, 4, c[side*side-1])
		require.Less(t, memtest.Resident(t), before+4*side*side+64<<20, "the copy is given back")
		require.NoError(t, d.Close())
	})
}

// The same with 16-bit elements.
func TestOneCopyOfHalves(t *testing.T) {
	memtest.AddressSpace(t, 500<<20, func() {
		d, err := Open(t.Context(), WithBackend("cpu"))
		require.NoError(t, err)
		const m, n = 16384, 8192
		batch, err := planner.Pack(planner.GEMM(m, n, 1))
		require.NoError(t, err)
		a, b := make([]element.BFloat16, m), make([]element.BFloat16, n)
		a[m-1], b[n-1] = element.Nearest[element.BFloat16](2), element.Nearest[element.BFloat16](3)
		c := make([]element.BFloat16, m*n) // 256 MiB
		before := memtest.Resident(t)
		require.NoError(t, gemmOf(t.Context(), d, batch, planner.Options{}, a, b, c))
		require.Equal(t, element.Nearest[element.BFloat16](6), c[m*n-1])
		require.Less(t, memtest.Resident(t), before+2*m*n+64<<20, "the copy is given back")
		require.NoError(t, d.Close())
	})
}
