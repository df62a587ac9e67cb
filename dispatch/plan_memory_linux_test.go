//go:build linux && !race

// The race detector needs address space of its own.

package dispatch

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/hostmem/memtest"
	"github.com/batchgemm/batchgemm/planner"
)

// If there is no memory for a plan, planning fails before it takes the memory, and says how much that would
// be.
func TestPlanMemoryIsLimited(t *testing.T) {
	memtest.AddressSpace(t, 1<<30, func() {
		d, _ := openFake(t)
		tall, err := planner.Pack(planner.GEMM(math.MaxInt32, 1, 0))
		require.NoError(t, err)
		many := slices.Repeat(small(t), 2_000_000)
		before := memtest.Resident(t)
		_, err = d.Plan(t.Context(), tall, planner.Options{})
		require.ErrorIs(t, err, ErrOutOfMemory)
		require.Regexp(t,
			`^plan of \d{8} tiles: out of memory: \d+\.\d MiB more are needed, RLIMIT_AS leaves `, err)
		_, err = d.Plan(t.Context(), many, planner.Options{})
		require.ErrorIs(t, err, ErrOutOfMemory)
		require.Regexp(t,
			`^plan of 2000000 problems: out of memory: \d+\.\d MiB more are needed, RLIMIT_AS leaves `, err)
		require.Less(t, memtest.Resident(t), before+32<<20)

		p := program(t, d, small(t))
		require.ErrorIs(t, p.Update(t.Context(), many), ErrOutOfMemory)
		require.Equal(t, small(t), p.Plan().Batch, "it is as before")

		plan, err := d.Plan(t.Context(), small(t), planner.Options{})
		require.NoError(t, err)
		plan.Words = 1 << 28
		_, err = d.Prepare(t.Context(), plan)
		require.ErrorIs(t, err, ErrOutOfMemory)
		require.Regexp(t, `^prepare: items of the plan: out of memory: 1.0 GiB more are needed, `, err)
		require.NoError(t, p.Close())
	})
}
