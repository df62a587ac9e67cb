//go:build cgo && linux && (amd64 || arm64)

package cuda

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/planner"
)

// Everything that a device took is given back when it is closed, also what its
// owner left open, and when opening fails half way.
func TestNothingLeaks(t *testing.T) {
	d := fake(t)
	l := fakeOnce.library
	objects := []counter{allocations, pinned, contexts, modules, streams, events, graphs}
	var before [copies + 1]int
	for _, c := range objects {
		before[c] = l.counted(t, c)
	}
	unchanged := func(t *testing.T) {
		t.Helper()
		for _, c := range objects {
			require.Equal(t, before[c], l.counted(t, c), "counter %d", c)
		}
	}
	t.Run("close", func(t *testing.T) {
		opened, err := d.Open(t.Context(), 0)
		require.NoError(t, err)
		device := opened.(*device)
		k := newTask(t, device, split, gemm(40, 40, 400))
		for range 3 {
			require.NoError(t, device.Submit(t.Context(), []driver.Run{k.run()}))
		}
		_, err = device.Time(t.Context(), []driver.Run{k.run()})
		require.NoError(t, err)
		large := make([]float32, 5<<20)
		b := alloc(t, device, len(large))
		require.NoError(t, b.Write(t.Context(), 0, large))
		require.NoError(t, b.Read(t.Context(), 0, large))
		for _, c := range objects {
			require.Greater(t, l.counted(t, c), before[c], "the test uses no object %d", c)
		}
		require.NoError(t, device.Close())
		unchanged(t)
	})
	for _, call := range []string{"cuDevicePrimaryCtxRetain", "cuCtxSetCurrent", "cuStreamCreate"} {
		t.Run("open fails in "+call, func(t *testing.T) {
			fail(t, call, 2)
			_, err := d.Open(t.Context(), 0)
			require.ErrorIs(t, err, driver.ErrOutOfMemory)
			require.NotErrorIs(t, err, driver.ErrUnavailable)
			succeed(t)
			unchanged(t)
		})
	}
}

// A GPU that is reserved for others lets dispatch try the next backend.
func TestReserved(t *testing.T) {
	fail(t, "cuDevicePrimaryCtxRetain", 46)
	_, err := fake(t).Open(t.Context(), 0)
	require.ErrorIs(t, err, driver.ErrUnavailable)
	require.ErrorContains(t, err, "NVIDIA H200: unavailable: ")
}

// A Prepare that fails gives back what it took, and the device works on.
func TestPrepareFails(t *testing.T) {
	for _, call := range []string{"cuMemAlloc_v2", "cuModuleLoadDataEx", "cuModuleGetFunction", "cuFuncSetAttribute", "cuMemcpyHtoDAsync_v2"} {
		t.Run(call, func(t *testing.T) {
			d := openFake(t)
			batch, err := planner.Pack(gemm(40, 40, 400))
			require.NoError(t, err)
			plan, err := planner.New(&d.gpu.info.Planner, batch, split)
			require.NoError(t, err)
			before := d.library.counted(t, allocations)
			fail(t, call, 2)
			_, err = d.Prepare(t.Context(), plan)
			require.ErrorIs(t, err, driver.ErrOutOfMemory)
			require.Equal(t, before, d.library.counted(t, allocations))
			succeed(t)
			k := newTask(t, d, split, gemm(40, 40, 400))
			require.NoError(t, d.Submit(t.Context(), []driver.Run{k.run()}))
			k.check(t)
		})
	}
	t.Run("registers", func(t *testing.T) {
		d := openFake(t)
		batch, err := planner.Pack(gemm(40, 40, 400))
		require.NoError(t, err)
		plan, err := planner.New(&d.gpu.info.Planner, batch, split)
		require.NoError(t, err)
		t.Setenv("FAKECUDA_THREADS", "16")
		_, err = d.Prepare(t.Context(), plan)
		require.ErrorContains(t, err, "its registers allow 16")
	})
}

// A kernel that fails takes the device with it. Every later call says so.
func TestLost(t *testing.T) {
	opened, err := fake(t).Open(t.Context(), 0)
	require.NoError(t, err)
	d := opened.(*device)
	k := newTask(t, d, planner.Options{}, gemm(8, 8, 8))
	fail(t, "cuEventQuery", 700)
	require.NoError(t, d.Submit(t.Context(), []driver.Run{k.run()}))
	require.ErrorIs(t, d.Wait(t.Context()), driver.ErrDeviceLost)
	succeed(t)
	for name, call := range map[string]func() error{
		"Submit":   func() error { return d.Submit(t.Context(), []driver.Run{k.run()}) },
		"Wait":     func() error { return d.Wait(t.Context()) },
		"Time":     func() error { _, err := d.Time(t.Context(), []driver.Run{k.run()}); return err },
		"Alloc":    func() error { _, err := d.Alloc(1); return err },
		"Prepare":  func() error { _, err := d.Prepare(t.Context(), k.plan); return err },
		"Read":     func() error { return k.buffers[2].Read(t.Context(), 0, make([]float32, 1)) },
		"Write":    func() error { return k.buffers[2].Write(t.Context(), 0, make([]float32, 1)) },
		"Wrap":     func() error { _, err := d.Wrap(16, 1); return err },
		"OnStream": func() error { _, err := d.OnStream(0); return err },
		"Close":    d.Close,
	} {
		err := call()
		require.ErrorIs(t, err, driver.ErrDeviceLost, name)
		require.ErrorContains(t, err, "CUDA_ERROR_ILLEGAL_ADDRESS (700)", name)
	}
	require.NoError(t, k.buffers[0].Close())
}

// Errors of calls that do no harm are returned, and the device works on.
func TestPlainError(t *testing.T) {
	d := openFake(t)
	k := newTask(t, d, planner.Options{}, gemm(8, 8, 8))
	fail(t, "cuLaunchKernel", 1)
	err := d.Submit(t.Context(), []driver.Run{k.run()})
	require.ErrorContains(t, err, "cuda: submit: CUDA_ERROR_INVALID_VALUE (1)")
	require.NotErrorIs(t, err, driver.ErrDeviceLost)
	succeed(t)
	require.NoError(t, d.Submit(t.Context(), []driver.Run{k.run()}))
	k.check(t)
}

func TestAllocMistakes(t *testing.T) {
	d := openFake(t)
	_, err := d.Alloc(0)
	require.ErrorContains(t, err, "alloc 0 elements")
	for _, n := range []int{1 << 40, math.MaxInt / 4, math.MaxInt} {
		_, err = d.Alloc(n)
		require.ErrorIs(t, err, driver.ErrOutOfMemory)
	}
}

// Waits end with their context, and when the device is closed elsewhere.
func TestWaitEnds(t *testing.T) {
	d := openFake(t)
	t.Setenv("FAKECUDA_BUSY", "1")
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, d.Wait(ctx), context.DeadlineExceeded)
	waited := make(chan error)
	go func() { waited <- d.Wait(context.Background()) }()
	closed := make(chan error)
	go func() {
		time.Sleep(10 * time.Millisecond)
		closed <- d.Close()
	}()
	require.ErrorIs(t, <-waited, driver.ErrClosed)
	t.Setenv("FAKECUDA_BUSY", "")
	require.NoError(t, <-closed)
	require.ErrorIs(t, d.Wait(t.Context()), driver.ErrClosed)
	require.NoError(t, d.Close())
}

// Calls of many goroutines, one of which closes the device, end well or with
// ErrClosed.
func TestConcurrentClose(t *testing.T) {
	opened, err := fake(t).Open(t.Context(), 0)
	require.NoError(t, err)
	d := opened.(*device)
	k := newTask(t, d, split, gemm(20, 20, 300))
	const goroutines = 4
	failed := make(chan error, goroutines)
	for range goroutines {
		go func() {
			data := make([]float32, len(k.host[0]))
			for {
				if err := errors.Join(d.Submit(context.Background(), []driver.Run{k.run()}), d.Wait(context.Background()),
					k.buffers[0].Read(context.Background(), 0, data)); err != nil {
					failed <- err
					return
				}
			}
		}()
	}
	time.Sleep(10 * time.Millisecond)
	require.NoError(t, d.Close())
	for range goroutines {
		require.ErrorIs(t, <-failed, driver.ErrClosed)
	}
}
