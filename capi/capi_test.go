//go:build cgo && linux && (amd64 || arm64)

package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"weak"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/dispatch"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

func TestStatus(t *testing.T) {
	panics := func(v any) error { return guard(func() error { panic(v) }) }
	for name, c := range map[string]struct {
		err  error
		want int32
		text string
	}{
		"panic": {panics("boom"), 9, "internal error: boom"},
		"runtime panic": {guard(func() error { var p *planner.Plan; p.Cost = 1; return nil }), 9,
			"internal error: runtime error: invalid memory address or nil pointer dereference"},
		"panicked with": {panics(dispatch.ErrClosed), 9, "internal error: closed"},
		"argument":      {invalid("count %d", 3), 1, "count 3"},
		"problem": {fmt.Errorf("plan: %w", &planner.ProblemError{Index: 3, Arg: "M", Reason: "is odd"}),
			1, "plan: problem 3: M is odd"},
		"handle":      {unknown(7), 2, "handle 7 is unknown, or was closed"},
		"closed":      {fmt.Errorf("A: %w", dispatch.ErrClosed), 2, "A: closed"},
		"unavailable": {dispatch.ErrUnavailable, 3, "unavailable"},
		"memory":      {dispatch.ErrOutOfMemory, 4, "out of memory"},
		"lost": {fmt.Errorf("%w: %w", dispatch.ErrDeviceLost, dispatch.ErrOutOfMemory), 5,
			"device lost: out of memory"},
		"time":  {context.DeadlineExceeded, 6, "context deadline exceeded"},
		"other": {errors.New("other"), 8, "other"},
	} {
		t.Run(name, func(t *testing.T) {
			require.EqualError(t, c.err, c.text)
			require.Equal(t, c.want, int32(statusOf(c.err)))
		})
	}
	require.NoError(t, guard(func() error { return nil }))
}

// counter counts how often it is closed.
type counter struct{ closed atomic.Int32 }

func (c *counter) Close() error { c.closed.Add(1); return nil }

// TestTable closes handles from many goroutines: each object is closed once, and no number is used twice.
func TestTable(t *testing.T) {
	table := table{entries: map[uint64]entry{}}
	const objects, closers = 200, 4
	var all [objects]counter
	var group sync.WaitGroup
	var closed atomic.Int32
	var seen sync.Map
	for i := range all {
		h, err := table.add(&all[i], 0)
		require.NoError(t, err)
		_, twice := seen.LoadOrStore(h, true)
		require.False(t, twice)
		for range closers {
			group.Go(func() {
				if o, err := table.get(h); err == nil && o != &all[i] {
					t.Error("another object")
				}
				if err := table.close(h); err == nil {
					closed.Add(1)
				}
			})
		}
	}
	group.Wait()
	require.EqualValues(t, objects, closed.Load())
	for i := range all {
		require.EqualValues(t, 1, all[i].closed.Load())
	}
	require.Empty(t, table.entries)
}

// If a device is closed while one of its objects is made, no handle remains.
func TestTableOfClosedDevice(t *testing.T) {
	table := table{entries: map[uint64]entry{}}
	d, err := dispatch.Open(t.Context(), dispatch.WithBackend("cpu"))
	require.NoError(t, err)
	device, err := table.add(d, 0)
	require.NoError(t, err)
	_, err = table.add(new(counter), device)
	require.NoError(t, err)
	require.NoError(t, table.close(device))
	require.Empty(t, table.entries)
	_, err = table.add(new(counter), device)
	require.ErrorIs(t, err, errHandle)
	require.Empty(t, table.entries)
}

// The next collection frees a closed device and its open objects.
func TestTableKeepsNoClosedDevice(t *testing.T) {
	table := table{entries: map[uint64]entry{}}
	closed := func() (weak.Pointer[dispatch.Device], weak.Pointer[dispatch.Buffer]) {
		d, err := dispatch.Open(t.Context(), dispatch.WithBackend("cpu"))
		require.NoError(t, err)
		device, err := table.add(d, 0)
		require.NoError(t, err)
		b, err := d.NewBuffer(element.F32, 1000)
		require.NoError(t, err)
		_, err = table.add(b, device)
		require.NoError(t, err)
		require.NoError(t, table.close(device))
		return weak.Make(d), weak.Make(b)
	}
	d, b := closed()
	runtime.GC()
	require.Nil(t, d.Value())
	require.Nil(t, b.Value())
}
