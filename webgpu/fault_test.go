//go:build cgo && !nowebgpu && ((linux && amd64) || darwin || (windows && amd64))

package webgpu

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/hardware"
	"github.com/batchgemm/batchgemm/planner"
)

// Whichever allocation of an operation is refused, it is an error. Nothing of the operation stays, and the
// device continues to work.
func TestAllocationsFail(t *testing.T) {
	d := open(t, webgpuDriver{})
	k := newTask(t, gemm(40, 50, 400))
	want := reference(k.batch, k.a, k.b, k.c)
	facts := d.info.Planner
	facts.ComputeUnits = 1024 // so that tiles are split
	plan, err := planner.New(&facts).Plan(t.Context(), k.batch,
		planner.Options{Tile: "small", Schedule: planner.ScheduleSplitK})
	require.NoError(t, err)
	p, err := d.Prepare(t.Context(), plan)
	require.NoError(t, err)
	require.Greater(t, plan.Workspace, plan.Words, "the workspace is the larger buffer")
	a, b, c := upload(t, d, k.a), upload(t, d, k.b), alloc(t, d, len(k.c))
	runs := []driver.Run{{Program: p, A: a, B: b, C: c}}
	for _, x := range []struct {
		name  string
		limit uint64 // bytes of the largest buffer
		do    func() error
	}{
		{"Alloc", 64, func() error { _, err := d.Alloc(17); return err }},
		{"plan of Prepare", 64, func() error { _, err := d.Prepare(t.Context(), plan); return err }},
		{"workspace of Prepare", 4 * uint64(plan.Words), func() error {
			_, err := d.Prepare(t.Context(), plan)
			return err
		}},
		{"staging of Read", 64, func() error { return c.Read(t.Context(), 0, make([]float32, 1)) }},
	} {
		t.Run(x.name, func(t *testing.T) {
			buffers, programs, staging, limit := len(d.buffers), len(d.programs), len(d.staging),
				d.limits.MaxBufferSize
			d.limits.MaxBufferSize = x.limit
			err := x.do()
			d.limits.MaxBufferSize = limit
			require.ErrorIs(t, err, hardware.ErrOutOfMemory)
			require.ErrorContains(t, err, "webgpu: ")
			require.Equal(t, [3]int{buffers, programs, staging},
				[3]int{len(d.buffers), len(d.programs), len(d.staging)})
			require.NoError(t, d.Submit(t.Context(), runs))
		})
	}
	requireEqual(t, want, download(t, c, len(k.c)))
}

// If the device refuses a kernel, Prepare fails, and tries again the next time.
func TestKernelRefused(t *testing.T) {
	d := open(t, webgpuDriver{})
	k := newTask(t, gemm(40, 50, 60))
	plan, err := planner.New(&d.info.Planner).Plan(t.Context(), k.batch, planner.Options{Tile: "large"})
	require.NoError(t, err)
	pipelines, shared := len(d.pipelines), d.shader.SharedBytes
	d.shader.SharedBytes = 16
	_, err = d.Prepare(t.Context(), plan)
	d.shader.SharedBytes = shared
	require.ErrorContains(t, err, "launch 0: ")
	require.ErrorContains(t, err, "workgroup memory")
	require.Len(t, d.pipelines, pipelines)
	require.Empty(t, d.programs)
	got, _ := k.run(t, d, planner.Options{Tile: "large"})
	requireEqual(t, reference(k.batch, k.a, k.b, k.c), got)
}

// The library reports a lost device by a text. Every later call says so too, also Close.
func TestLost(t *testing.T) {
	first := open(t, webgpuDriver{})
	d, err := openDevice(t.Context(), first.info, 0)
	require.NoError(t, err)
	l := load(t, d)
	require.ErrorIs(t, d.check("submit", errors.New("Parent device is lost")), hardware.ErrDeviceLost)
	l.requireLost(t, "submit: Parent device is lost")
}
