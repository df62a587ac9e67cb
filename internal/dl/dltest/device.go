package dltest

import (
	"context"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/backend"
	"github.com/batchgemm/batchgemm/internal/dl"
	"github.com/batchgemm/batchgemm/internal/drivertest"
	"github.com/batchgemm/batchgemm/internal/hardware"
	"github.com/batchgemm/batchgemm/internal/invalid"
	"github.com/batchgemm/batchgemm/planner"
)

// objects lists the counters of objects that are made and freed.
func (f *Fake) objects() []counter {
	all := []counter{allocations, pinned, modules, streams, events}
	if f.has("contextRetain") {
		all = append(all, contexts)
	}
	if f.has("graphLaunch") {
		all = append(all, graphs)
	}
	return all
}

// keeps counts all objects, and returns a check that their numbers are unchanged.
func (f *Fake) keeps(t *testing.T) (unchanged func()) {
	t.Helper()
	before := map[counter]int{}
	for _, c := range f.objects() {
		before[c] = f.count(t, c)
	}
	return func() {
		t.Helper()
		for c, n := range before {
			require.Equal(t, n, f.count(t, c), "counter %d", c)
		}
	}
}

// Closing a device releases everything that it took, including objects that its owner left open.
func (f *Fake) testNothingLeaks(t *testing.T) {
	unchanged := f.keeps(t)
	before := map[counter]int{}
	for _, c := range f.objects() {
		before[c] = f.count(t, c)
	}
	d, err := f.Driver.Open(t.Context(), 0)
	require.NoError(t, err)
	k := newTask(t, d, split, gemm(40, 40, 400))
	for range 3 {
		require.NoError(t, d.Submit(t.Context(), []driver.Run{k.run()}))
	}
	_, err = d.Time(t.Context(), []driver.Run{k.run()})
	require.NoError(t, err)
	large := make([]float32, 5<<20)
	b := alloc(t, d, len(large))
	require.NoError(t, b.Write(t.Context(), 0, large))
	require.NoError(t, b.Read(t.Context(), 0, large))
	for c, n := range before {
		require.Greater(t, f.count(t, c), n, "the test uses no object %d", c)
	}
	require.NoError(t, d.Close())
	unchanged()
}

func (f *Fake) testKernelTooLarge(t *testing.T) {
	d := f.open(t)
	plan := newPlan(t, d, split, gemm(40, 40, 400))
	t.Setenv("FAKE_THREADS", "16")
	_, err := d.Prepare(t.Context(), plan)
	require.ErrorContains(t, err, "its registers allow 16")
}

// Launches have valid grids, also for an edited plan, and for a plan for another device.
func (f *Fake) testGrids(t *testing.T) {
	small := f.vendor
	small.Describe = func(facts dl.Facts) (*dl.GPU, error) {
		gpu, err := f.vendor.Describe(facts)
		if err == nil {
			gpu.Planner.MaxWorkers = 3
		}
		return gpu, err
	}
	d := drivertest.Open(t, dl.Driver(&small))
	facts := d.Info().Planner
	facts.MaxWorkers = 0
	batch, err := planner.Pack(gemm(16, 64, 8))
	require.NoError(t, err)
	plan, err := planner.New(&facts).Plan(t.Context(), batch,
		planner.Options{Tile: "small", Schedule: planner.ScheduleDataParallel})
	require.NoError(t, err)
	for _, groups := range []int{0, 4} {
		plan.Launches[0].Count = groups
		_, err := d.Prepare(t.Context(), plan)
		require.ErrorIs(t, err, invalid.Err)
		require.ErrorContains(t, err, fmt.Sprintf("%s: launch 0: %d workgroups, the device allows 3",
			f.Driver.Name(), groups))
	}
}

// A kernel that fails makes the device lost. Every later call says so.
func (f *Fake) testLost(t *testing.T) {
	opened, err := f.Driver.Open(t.Context(), 0)
	require.NoError(t, err)
	d := opened.(backend.Wrapper)
	k := newTask(t, d, planner.Options{}, gemm(8, 8, 8))
	f.Fail(t, "eventQuery", 700, 0)
	require.NoError(t, d.Submit(t.Context(), []driver.Run{k.run()}))
	require.ErrorIs(t, d.Wait(t.Context()), hardware.ErrDeviceLost)
	f.succeed(t)
	for name, call := range map[string]func() error{
		"Submit":  func() error { return d.Submit(t.Context(), []driver.Run{k.run()}) },
		"Wait":    func() error { return d.Wait(t.Context()) },
		"Time":    func() error { _, err := d.Time(t.Context(), []driver.Run{k.run()}); return err },
		"Alloc":   func() error { _, err := d.Alloc(1); return err },
		"Prepare": func() error { _, err := d.Prepare(t.Context(), k.plan); return err },
		"Read":    func() error { return k.buffers[2].Read(t.Context(), 0, make([]float32, 1)) },
		"StartRead": func() error {
			_, err := k.buffers[2].StartRead(t.Context(), 0, make([]float32, 1))
			return err
		},
		"Copy":  func() error { return d.Copy(t.Context(), k.buffers[2], k.buffers[0], 4) },
		"Write": func() error { return k.buffers[2].Write(t.Context(), 0, make([]float32, 1)) },
		"SubmitOn": func() error {
			r := k.run()
			return d.(backend.Borrower).SubmitOn(t.Context(), 0, []driver.Run{r})
		},
		"Wrap":     func() error { _, err := d.Wrap(16, 1); return err },
		"OnStream": func() error { _, err := d.OnStream(0); return err },
		"Close":    d.Close,
	} {
		err := call()
		require.ErrorIs(t, err, hardware.ErrDeviceLost, name)
		require.ErrorContains(t, err, f.Driver.Name()+": "+d.Info().Name+": device lost: wait: ", name)
		require.ErrorContains(t, err, "(700): a description", name)
	}
	require.NoError(t, k.buffers[0].Close())
}

// Harmless errors of calls are returned, and the device continues to work.
func (f *Fake) testPlainError(t *testing.T) {
	d := f.open(t)
	k := newTask(t, d, planner.Options{}, gemm(8, 8, 8))
	entry := "launch"
	if f.has("launchEx") {
		entry = "launchEx"
	}
	f.Fail(t, entry, 1, 0)
	err := d.Submit(t.Context(), []driver.Run{k.run()})
	require.ErrorContains(t, err, f.Driver.Name()+": submit: ")
	require.ErrorContains(t, err, "(1): a description")
	require.NotErrorIs(t, err, hardware.ErrDeviceLost)
	f.succeed(t)
	require.NoError(t, d.Submit(t.Context(), []driver.Run{k.run()}))
	k.check(t)
}

func (f *Fake) testAlloc(t *testing.T) {
	d := f.open(t)
	alloc(t, d, 5)
	_, err := d.Wrap(f.newest(t), 8)
	require.NoError(t, err, "memory is rounded up to lines of 16 bytes, which kernels read whole")
	_, err = d.Wrap(f.newest(t), 9)
	require.ErrorContains(t, err, "the allocation has 8 from there on")
	for _, n := range []int{min(1<<40, math.MaxInt/5), backend.MaxLen} {
		_, err = d.Alloc(n)
		require.ErrorIs(t, err, hardware.ErrOutOfMemory)
	}
}

// If a device is lost during a read, the read ends, and its memory is left to the device.
func (f *Fake) testLostWhileReading(t *testing.T) {
	opened, err := f.Driver.Open(t.Context(), 0)
	require.NoError(t, err)
	k := newTask(t, opened, planner.Options{}, gemm(8, 8, 8))
	before := f.count(t, pinned)
	r, err := k.buffers[2].StartRead(t.Context(), 0, make([]float32, len(k.host[2])))
	require.NoError(t, err)
	require.Equal(t, before+1, f.count(t, pinned))
	f.Fail(t, "eventQuery", 700, 0)
	require.ErrorIs(t, r.Finish(t.Context()), hardware.ErrDeviceLost)
	f.succeed(t)
	require.ErrorIs(t, opened.Close(), hardware.ErrDeviceLost)
	require.Equal(t, before+1, f.count(t, pinned))
}

// Reads reuse memory. Little is kept, and memory that the device may still write is not reused.
func (f *Fake) testLandings(t *testing.T) {
	d := f.open(t)
	b := alloc(t, d, 5000)
	before := f.count(t, pinned)
	read := func(n int) driver.Reading {
		r, err := b.StartRead(t.Context(), 0, make([]float32, n))
		require.NoError(t, err)
		return r
	}
	for _, n := range []int{1, 1000, 1024, 7} {
		require.NoError(t, read(n).Finish(t.Context()))
	}
	require.Equal(t, before+1, f.count(t, pinned))
	require.NoError(t, read(1025).Finish(t.Context()))
	require.Equal(t, before+2, f.count(t, pinned), "a larger one")

	ended, cancel := context.WithCancel(t.Context())
	cancel()
	t.Setenv("FAKE_BUSY", "1")
	require.ErrorIs(t, read(5000).Finish(ended), context.Canceled)
	given := read(5000)
	require.Equal(t, before+4, f.count(t, pinned), "the first may still be written to")
	t.Setenv("FAKE_BUSY", "")
	require.NoError(t, given.Finish(t.Context()))
	require.NoError(t, read(5000).Finish(t.Context()))
	require.Equal(t, before+4, f.count(t, pinned))

	var all []driver.Reading
	for range 9 {
		all = append(all, read(5))
	}
	for _, r := range all {
		require.NoError(t, r.Finish(t.Context()))
	}
	require.LessOrEqual(t, f.count(t, pinned), before+5,
		"four are kept, and one the device was not asked about")
}

// Waits end with their context.
func (f *Fake) testWaitEnds(t *testing.T) {
	d := f.open(t)
	t.Setenv("FAKE_BUSY", "1")
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, d.Wait(ctx), context.DeadlineExceeded)
	t.Setenv("FAKE_BUSY", "")
	require.NoError(t, d.Wait(t.Context()))
}

// GPUs are identified by stable properties: their UUIDs, or their addresses.
func (f *Fake) testIdentity(t *testing.T) {
	backend, maker := f.vendor.Backend, f.vendor.Maker
	for _, c := range []struct {
		name, uuid, integrated string
		ids                    []string
		kind                   hardware.Kind
	}{
		{"UUIDs", "", "", []string{":a0a0a0a0-a0a0-a0a0-a0a0-a0a0a0a0a0a0",
			":a0a0a0a0-a0a0-a0a0-a0a0-a0a0a0a0a0a1"}, hardware.KindDiscrete},
		{"no UUIDs", "0", "1", []string{":0002:1b:01", ":0002:1c:01"}, hardware.KindIntegrated},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv("FAKE_COUNT", "2")
			t.Setenv("FAKE_UUID", c.uuid)
			t.Setenv("FAKE_INTEGRATED", c.integrated)
			infos, err := f.Driver.Devices(t.Context())
			require.NoError(t, err)
			require.Len(t, infos, 2)
			for i, info := range infos {
				require.Equal(t, backend+c.ids[i], info.ID)
				require.Equal(t, maker, info.Vendor)
				require.Equal(t, c.kind, info.Kind)
				require.EqualValues(t, int64(64<<30), info.Memory)
			}
		})
	}
	for _, entry := range []string{"deviceUUID", "deviceMemory"} {
		f.failOnce(t, entry, 2, 0)
		_, err := f.Driver.Devices(t.Context())
		require.ErrorIs(t, err, hardware.ErrUnavailable)
		require.ErrorContains(t, err, "(2): a description")
		f.succeed(t)
	}
}
