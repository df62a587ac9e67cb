package hostgemm

import (
	"fmt"
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/fakedriver"
	"github.com/batchgemm/batchgemm/internal/sample"
	"github.com/batchgemm/batchgemm/planner"
)

// The first call of a backend fails, then the second and so on, until an operation needs no more calls. The
// error is returned, C is unchanged, the devices continue to work, and no more stays allocated than without
// the failure.
func TestEveryCallFails(t *testing.T) {
	gemm := func(k job) func(*testing.T, *Group) error {
		return func(t *testing.T, g *Group) error { return k.gemm(t.Context(), g) }
	}
	withEpilogue := randomWithEpilogue(planner.Epilogue{Bias: true, Gated: true, GatherRows: 20,
		ScatterRows: 50, Weights: true}, 1, 10, 40)
	for _, c := range []struct {
		name    string
		devices int
		buffers int // of a lane
		do      func(*testing.T, *Group) error
	}{
		{"GEMM", 1, 3, gemm(random(t, 1, 10, 40))},
		{"GEMM of a large batch", 1, 3, gemm(parts(t))},
		{"GEMM on two devices", 2, 3, gemm(random(t, 1, 60, 90))},
		{"an epilogue", 1, 6, func(t *testing.T, g *Group) error { return withEpilogue.run(t.Context(), g) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			sample.Calls.Whole(t)
			g, fakes := openGroup(t, c.devices)
			require.NoError(t, c.do(t, g))
			programs, _ := fakedriver.Held(fakes)
			// of the lanes that may have worked
			buffers := c.buffers * c.devices * max(1, min(maxLanes, runtime.GOMAXPROCS(0)/c.devices))
			for n := 0; ; n++ {
				require.Less(t, n, 1000, "it never ends")
				at := fmt.Sprintf("call %d", n+1)
				g, fakes := openGroup(t, c.devices)
				hit := fakedriver.FailNth(fakes, n, errBroken)
				err := c.do(t, g)
				if !hit() {
					require.NoError(t, err)
					require.Greater(t, n, 4, "calls are counted")
					return
				}
				require.ErrorIs(t, err, errBroken, at)
				require.NotContains(t, err.Error(), "C changed", at)
				require.NoError(t, c.do(t, g), "%s: the devices work on", at)
				p, b := fakedriver.Held(fakes)
				require.Equal(t, programs, p, at)
				require.LessOrEqual(t, int(b), buffers, at)
			}
		})
	}
}

// parts returns a batch of three parts with exact results.
func parts(t *testing.T) job {
	t.Helper()
	k := 700 << 10
	batch, err := planner.Pack(planner.GEMM(1, 1, k), planner.GEMM(1, 1, k), planner.GEMM(1, 1, k))
	require.NoError(t, err)
	need := batch.Lengths(planner.Epilogue{})
	return job{batch, slices.Repeat([]float32{1}, need.A), slices.Repeat([]float32{1}, need.B),
		make([]float32, need.C)}
}
