//go:build !race

// The race detector needs address space of its own.

package cpu

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/hardware"
	"github.com/batchgemm/batchgemm/internal/hostmem/memtest"
	"github.com/batchgemm/batchgemm/planner"
)

// If the address space is limited, large and small allocations fail with an error, and closed memory can be
// allocated again.
func TestAddressSpaceIsLimited(t *testing.T) {
	memtest.AddressSpace(t, 1<<30, func() {
		d := openDevice(t)
		for range 2 {
			b, err := d.Alloc(150 << 20) // 600 MiB
			require.NoError(t, err)
			require.NoError(t, b.Close())
		}
		for _, mib := range []int{2000, 300, 50, 3} {
			var taken []driver.Buffer
			for {
				b, err := d.Alloc(mib << 20 / 4)
				if err != nil {
					require.ErrorIs(t, err, hardware.ErrOutOfMemory)
					require.ErrorContains(t, err, "RLIMIT_AS leaves")
					break
				}
				taken = append(taken, b)
				require.LessOrEqual(t, len(taken)*mib, 1024)
			}
			require.GreaterOrEqual(t, (len(taken)+1)*mib, 400, "not much less than there is")
			for _, b := range taken {
				require.NoError(t, b.Close())
			}
		}
	})
}

// If there is no memory for a workspace, Prepare fails.
func TestWorkspaceIsRefused(t *testing.T) {
	memtest.AddressSpace(t, 512<<20, func() {
		d := openDevice(t)
		batch, err := planner.Pack(planner.GEMM(1, 1, 1))
		require.NoError(t, err)
		plan, err := planner.New(&d.info.Planner).Plan(t.Context(), batch, planner.Options{})
		require.NoError(t, err)
		plan.Workspace = 1 << 27
		_, err = d.Prepare(t.Context(), plan)
		require.ErrorIs(t, err, hardware.ErrOutOfMemory)
		require.Regexp(t,
			`^cpu: workspace: 134217728 float32: out of memory: 512.0 MiB more are needed, RLIMIT_AS `+
				`leaves \d+\.\d MiB$`, err)
	})
}
