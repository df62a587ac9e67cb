package dispatch

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/fakedriver"
	"github.com/batchgemm/batchgemm/planner"
)

// failNth makes one of all calls of some devices fail, after n that succeed, and
// returns what tells whether there was such a call.
func failNth(fakes []*fakedriver.Device, n int) (hit func() bool) {
	left := new(atomic.Int64)
	left.Store(int64(n))
	call := func() error {
		if left.Add(-1) == -1 {
			return errBroken
		}
		return nil
	}
	for _, f := range fakes {
		f.OnSubmit, f.OnRead, f.OnWrite, f.OnPrepare, f.OnAlloc = call, call, call, call, call
	}
	return func() bool { return left.Load() < 0 }
}

// The first call of a backend fails, then the second and so on, until an operation
// needs no more. The error is returned, C stays as it was, the devices work on, and
// nothing more than without the failure stays allocated.
func TestEveryCallFails(t *testing.T) {
	gemm := func(k task) func(*testing.T, *Group) error {
		return func(t *testing.T, g *Group) error { return k.gemm(t.Context(), g) }
	}
	for _, c := range []struct {
		name    string
		devices int
		do      func(*testing.T, *Group) error
	}{
		{"GEMM", 1, gemm(random(t, 1, 10, 40))},
		{"GEMM of a large batch", 1, gemm(parts(t))},
		{"GEMM on two devices", 2, gemm(random(t, 1, 60, 90))},
		{"program", 1, runProgram},
	} {
		t.Run(c.name, func(t *testing.T) {
			g, fakes := openFakes(t, c.devices)
			require.NoError(t, c.do(t, g))
			programs, buffers := held(fakes)
			for n := 0; ; n++ {
				require.Less(t, n, 1000, "it never ends")
				at := fmt.Sprintf("call %d", n+1)
				g, fakes := openFakes(t, c.devices)
				hit := failNth(fakes, n)
				err := c.do(t, g)
				if !hit() {
					require.NoError(t, err)
					require.Greater(t, n, 4, "calls are counted")
					return
				}
				require.ErrorIs(t, err, errBroken, at)
				require.NotContains(t, err.Error(), "C changed", at)
				require.NoError(t, c.do(t, g), "%s: the devices work on", at)
				p, b := held(fakes)
				require.Equal(t, programs, p, at)
				require.LessOrEqual(t, b, buffers, at)
			}
		})
	}
}

// held counts the programs and buffers that are open.
func held(fakes []*fakedriver.Device) (programs, buffers int32) {
	for _, f := range fakes {
		programs += f.Programs.Load()
		buffers += f.Buffers.Load()
	}
	return programs, buffers
}

// parts is a batch of three parts. Its results are exact.
func parts(t *testing.T) task {
	t.Helper()
	k := 700 << 10
	batch, err := planner.Pack(planner.GEMM(1, 1, k), planner.GEMM(1, 1, k), planner.GEMM(1, 1, k))
	require.NoError(t, err)
	a, b, c := batch.Extent()
	return task{batch, slices.Repeat([]float32{1}, a), slices.Repeat([]float32{1}, b), make([]float32, c)}
}

// runProgram does all that callers do with a program and buffers.
func runProgram(t *testing.T, g *Group) error {
	ctx, d := context.Background(), g.devices[0]
	plan, err := d.Plan(small(t), planner.Options{})
	require.NoError(t, err)
	p, err := d.Prepare(ctx, plan)
	if err != nil {
		return err
	}
	defer p.Close()
	var buffers [3]*Buffer
	for i := range buffers {
		if buffers[i], err = d.NewBuffer(4); err != nil {
			return err
		}
		defer buffers[i].Close()
		if err := buffers[i].Write(ctx, 0, []float32{1, 2, 3, 4}); err != nil {
			return err
		}
	}
	if err := p.Run(ctx, buffers[0], buffers[1], buffers[2]); err != nil {
		return err
	}
	got := make([]float32, 4)
	if err := buffers[2].Read(ctx, 0, got); err != nil {
		return err
	}
	require.Equal(t, []float32{7, 10, 15, 22}, got)
	return nil
}
