//go:build cgo && linux && (amd64 || arm64)

package cuda

import (
	"context"
	"slices"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/dispatch/drivertest"
	"github.com/batchgemm/batchgemm/planner"
)

// The first run on some operands launches kernels, the later ones a graph, and
// closing the program frees it.
func TestGraphs(t *testing.T) {
	d := openFake(t)
	k := newTask(t, d, split, gemm(20, 20, 300))
	require.Len(t, k.plan.Launches, 2)
	kernels, launched := d.library.counted(t, launches), d.library.counted(t, graphLaunches)
	for i := range 4 {
		require.NoError(t, d.Submit(t.Context(), []driver.Run{k.run()}))
		k.check(t)
		require.Equal(t, kernels+2*(i+1), d.library.counted(t, launches))
		require.Equal(t, launched+i, d.library.counted(t, graphLaunches))
	}
	recorded := d.library.counted(t, graphs)
	require.NoError(t, k.program.Close())
	require.Equal(t, recorded-1, d.library.counted(t, graphs))
}

// Without graphs, launches go one by one.
func TestNoGraph(t *testing.T) {
	d := openFake(t)
	k := newTask(t, d, split, gemm(20, 20, 300))
	fail(t, "cuGraphInstantiateWithFlags", 2)
	before := d.library.counted(t, graphs)
	for range 3 {
		require.NoError(t, d.Submit(t.Context(), []driver.Run{k.run()}))
		k.check(t)
	}
	require.Equal(t, before, d.library.counted(t, graphs))
}

func TestGraphsAreBounded(t *testing.T) {
	d := openFake(t)
	k := newTask(t, d, planner.Options{}, gemm(4, 4, 4))
	before := d.library.counted(t, graphs)
	for range maxGraphs + 10 {
		run := k.run()
		run.C = alloc(t, d, len(k.host[2]))
		require.NoError(t, d.Submit(t.Context(), []driver.Run{run, run}))
		require.LessOrEqual(t, d.library.counted(t, graphs), before+maxGraphs)
	}
}

// Submissions, waits and short transfers allocate nothing in Go.
func TestSteadyStateAllocatesNothing(t *testing.T) {
	d := openFake(t)
	k := newTask(t, d, split, gemm(20, 20, 300))
	runs := []driver.Run{k.run(), k.run()}
	ctx, c := context.Background(), k.buffers[2]
	for name, call := range map[string]func() error{
		"Submit": func() error { return d.Submit(ctx, runs) },
		"Wait":   func() error { return d.Wait(ctx) },
		"Write":  func() error { return c.Write(ctx, 0, k.host[2]) },
		"Read":   func() error { return c.Read(ctx, 0, k.host[2]) },
	} {
		for range 2 * slotCount { // slots are made on first use
			require.NoError(t, call())
		}
		require.Zero(t, testing.AllocsPerRun(20, func() {
			if err := call(); err != nil {
				t.Error(err)
			}
		}), name)
	}
}

func TestSubmitMistakes(t *testing.T) {
	d, other := openFake(t), openFake(t)
	k, foreign := newTask(t, d, planner.Options{}, gemm(8, 8, 8)), newTask(t, other, planner.Options{}, gemm(8, 8, 8))
	closed, closedProgram := alloc(t, d, 64), newTask(t, d, planner.Options{}, gemm(8, 8, 8)).program
	require.NoError(t, closed.Close())
	require.NoError(t, closedProgram.Close())
	for name, c := range map[string]struct {
		change  func(*driver.Run)
		message string
	}{
		"no program":      {func(r *driver.Run) { r.Program = nil }, "program is of another device"},
		"foreign program": {func(r *driver.Run) { r.Program = foreign.program }, "program is of another device"},
		"closed program":  {func(r *driver.Run) { r.Program = closedProgram }, "program: closed"},
		"foreign buffer":  {func(r *driver.Run) { r.B = foreign.buffers[1] }, "B is of another device"},
		"closed buffer":   {func(r *driver.Run) { r.C = closed }, "buffer: closed"},
	} {
		t.Run(name, func(t *testing.T) {
			before := d.library.counted(t, launches)
			run := k.run()
			c.change(&run)
			err := d.Submit(t.Context(), []driver.Run{k.run(), run})
			require.ErrorContains(t, err, "run 1: ")
			require.ErrorContains(t, err, c.message)
			require.Equal(t, before, d.library.counted(t, launches), "nothing was queued")
		})
	}
}

// Pieces of long transfers go through all slots.
func TestLongTransfer(t *testing.T) {
	d := openFake(t)
	b := alloc(t, d, 3*slotCount*slotBytes/4+77)
	want := make([]float32, b.n)
	for i := range want {
		want[i] = float32(i % 65537)
	}
	require.NoError(t, b.Write(t.Context(), 0, want))
	got := make([]float32, b.n-5)
	require.NoError(t, b.Read(t.Context(), 5, got))
	require.True(t, slices.Equal(want[5:], got))

	fail(t, "cuMemcpyDtoHAsync_v2", 1)
	require.ErrorContains(t, b.Read(t.Context(), 5, got), "cuda: read")
	succeed(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, b.Read(ctx, 5, got), context.Canceled)
	require.ErrorContains(t, b.Read(t.Context(), 6, got), "elements [6, ")
}

// A device on a caller's stream uses memory of others and launches kernels only.
func TestForeignStreamAndMemory(t *testing.T) {
	d := openFake(t)
	before := d.library.counted(t, contexts)
	opened, err := d.OnStream(0)
	require.NoError(t, err)
	shared := opened.(*device)
	k := newTask(t, shared, split, gemm(20, 20, 300))
	theirs := alloc(t, d, len(k.host[2])+8)
	c, err := shared.Wrap(uintptr(theirs.memory)+16, len(k.host[2]))
	require.NoError(t, err)
	require.NoError(t, c.Write(t.Context(), 0, k.host[2]))
	k.buffers[2] = c.(*buffer)
	recorded, queued := d.library.counted(t, graphs), d.library.counted(t, copies)
	for range 3 {
		require.NoError(t, shared.Submit(t.Context(), []driver.Run{k.run()}))
	}
	require.Equal(t, recorded, d.library.counted(t, graphs))
	require.Equal(t, queued, d.library.counted(t, copies))
	k.check(t)
	require.NoError(t, c.Close())
	require.NoError(t, shared.Close())
	require.Equal(t, before, d.library.counted(t, contexts))
	require.NoError(t, theirs.Write(t.Context(), 0, k.host[2]), "the memory is its owner's")

	for name, call := range map[string]func() error{
		"multiple of 16": func() error { _, err := d.Wrap(uintptr(theirs.memory)+4, 1); return err },
		"does not know":  func() error { _, err := d.Wrap(1<<12, 1); return err },
		"elements, the":  func() error { _, err := d.Wrap(uintptr(theirs.memory), theirs.n+1); return err },
		"wrap 0":         func() error { _, err := d.Wrap(uintptr(theirs.memory), 0); return err },
	} {
		require.ErrorContains(t, call(), name)
	}
}

// On a GPU: two devices on one stream see each other's work in order.
func TestOnStream(t *testing.T) {
	d := drivertest.Open(t, Driver()).(*device)
	opened, err := d.OnStream(uintptr(unsafe.Pointer(d.handle.stream)))
	require.NoError(t, err)
	defer opened.Close()
	shared := opened.(*device)
	k := newTask(t, shared, split, gemm(20, 20, 300))
	theirs := alloc(t, d, len(k.host[2]))
	require.NoError(t, theirs.Write(t.Context(), 0, k.host[2]))
	c, err := shared.Wrap(uintptr(theirs.memory), theirs.n)
	require.NoError(t, err)
	k.buffers[2] = c.(*buffer)
	require.NoError(t, shared.Submit(t.Context(), []driver.Run{k.run()}))
	k.buffers[2] = theirs
	k.check(t)
	require.NoError(t, c.Close())
	_, err = d.Wrap(1<<20, 1)
	require.ErrorContains(t, err, "does not know")
}
