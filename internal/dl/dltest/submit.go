package dltest

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/backend"
	"github.com/batchgemm/batchgemm/internal/invalid"
	"github.com/batchgemm/batchgemm/planner"
)

// Submissions, waits and short transfers allocate nothing in Go.
func (f *Fake) testSteadyState(t *testing.T) {
	d := f.open(t)
	k := newTask(t, d, split, gemm(20, 20, 300))
	runs := []driver.Run{k.run(), k.run()}
	ctx, c := context.Background(), k.buffers[2]
	u := newTask(t, d, split, gemm(20, 20, 300))
	one := []driver.Run{u.run()}
	for name, call := range map[string]func() error{
		"Submit": func() error { return d.Submit(ctx, runs) },
		"Update": func() error {
			err := u.program.Update(ctx, u.plan)
			return errors.Join(err, d.Submit(ctx, one))
		},
		"Wait":  func() error { return d.Wait(ctx) },
		"Write": func() error { return c.Write(ctx, 0, k.host[2]) },
		"Read":  func() error { return c.Read(ctx, 0, k.host[2]) },
	} {
		for range 20 { // staging memory is allocated on first use
			require.NoError(t, call())
		}
		require.Zero(t, testing.AllocsPerRun(20, func() {
			if err := call(); err != nil {
				t.Error(err)
			}
		}), name)
	}
}

// If the device makes the items of an update, it does so within the update, and not for each run.
func (f *Fake) testItemsAreMadeOnce(t *testing.T) {
	d := f.open(t)
	k := newTask(t, d, planner.Options{}, gemm(20, 30, 40), gemm(50, 10, 40))
	info := d.Info()
	var plan planner.Plan
	require.NoError(t, planner.New(&info.Planner).Renew(t.Context(), &plan, k.plan.Batch, planner.Options{}))
	require.False(t, plan.Takes().Sizes || plan.Ragged == nil)
	products := len(plan.Launches) - 1
	before := f.count(t, launches)
	for i := range 3 {
		require.NoError(t, k.program.Update(t.Context(), &plan))
		require.NoError(t, d.Submit(t.Context(), []driver.Run{k.run()}))
		require.Equal(t, before+(i+1)*(1+products), f.count(t, launches))
	}
	require.NoError(t, d.Submit(t.Context(), []driver.Run{k.run()}))
	require.Equal(t, before+3+4*products, f.count(t, launches))
	require.NoError(t, d.Wait(t.Context()))
}

// The pieces of long transfers use all staging memory, 8 MiB, several times.
func (f *Fake) testLongTransfer(t *testing.T) {
	d := f.open(t)
	b := alloc(t, d, 3*8<<20/4+77)
	want := make([]float32, b.Len())
	for i := range want {
		want[i] = float32(i % 65537)
	}
	require.NoError(t, b.Write(t.Context(), 0, want))
	got := make([]float32, b.Len()-5)
	require.NoError(t, b.Read(t.Context(), 5, got))
	require.True(t, slices.Equal(want[5:], got))

	f.Fail(t, "copyToHost", 1, 0)
	require.ErrorContains(t, b.Read(t.Context(), 5, got), f.Driver.Name()+": read")
	f.succeed(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, b.Read(ctx, 5, got), context.Canceled)
}

// Staging memory is reused only when the device has read it, or written it for readers that gave up. The
// fake copies late.
func (f *Fake) testStagingMemory(t *testing.T) {
	d := f.open(t)
	const transfers, length = 40, 1000 // through the 8 slots of dl
	b := alloc(t, d, transfers*length)
	got := make([]float32, transfers*length)
	t.Setenv("FAKE_BUSY", "1")
	for range 8 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		require.ErrorIs(t, b.Read(ctx, 0, got), context.DeadlineExceeded)
		cancel()
	}
	t.Setenv("FAKE_BUSY", "")
	var want []float32
	for i := range transfers {
		piece := slices.Repeat([]float32{float32(i)}, length)
		require.NoError(t, b.Write(t.Context(), i*length, piece))
		want = append(want, piece...)
	}
	for i := range transfers {
		require.NoError(t, b.Read(t.Context(), i*length, got[i*length:][:length]))
	}
	require.True(t, slices.Equal(want, got))
}

// A device on a caller's stream uses memory of others, and only launches kernels.
func (f *Fake) testForeign(t *testing.T) {
	d := f.open(t)
	theirs := alloc(t, d, 64)
	address := f.newest(t)
	unchanged := f.keeps(t)
	opened, err := d.OnStream(0)
	require.NoError(t, err)
	shared := opened.(backend.Wrapper)
	k := newTask(t, shared, split, gemm(6, 5, 300))
	c, err := shared.Wrap(address+16, len(k.host[2]))
	require.NoError(t, err)
	require.NoError(t, c.Write(t.Context(), 0, k.host[2]))
	k.buffers[2] = c
	recorded, queued := f.count(t, graphs), f.count(t, copies)
	for range 3 {
		require.NoError(t, shared.Submit(t.Context(), []driver.Run{k.run()}))
	}
	r := k.run()
	r.C = shared.(backend.Borrower).At(address+16, len(k.host[2]))
	for _, runs := range [][]driver.Run{{}, {r}, {r, r, r}} {
		before := f.count(t, launches)
		require.NoError(t, shared.(backend.Borrower).SubmitOn(t.Context(), 0, runs))
		require.Equal(t, len(runs)*len(k.plan.Launches), f.count(t, launches)-before)
	}
	require.Equal(t, recorded, f.count(t, graphs))
	require.Equal(t, queued, f.count(t, copies))
	k.check(t)
	require.NoError(t, c.Close())
	require.NoError(t, shared.Close())
	unchanged()
	require.NoError(t, theirs.Write(t.Context(), 0, k.host[2]), "the memory is its owner's")
}

func (f *Fake) testWrapMistakes(t *testing.T) {
	d := f.open(t)
	theirs := alloc(t, d, 64)
	address := f.newest(t)
	for message, call := range map[string]func() error{
		"multiple of 16": func() error { _, err := d.Wrap(address+4, 1); return err },
		"does not know":  func() error { _, err := d.Wrap(1<<12, 1); return err },
		"elements, the allocation has 64 from there on": func() error {
			_, err := d.Wrap(address, theirs.Len()+1)
			return err
		},
		"elements, the allocation has 60 from there on": func() error {
			_, err := d.Wrap(address+16, 61)
			return err
		},
		"elements, the allocation has 4 from there on": func() error {
			_, err := d.Wrap(address+240, 5)
			return err
		},
	} {
		err := call()
		require.ErrorIs(t, err, invalid.Err)
		require.ErrorContains(t, err, message)
		require.ErrorContains(t, err, f.Driver.Name()+": ")
	}
	b, err := d.Wrap(address+16, 60)
	require.NoError(t, err, "all that is there")
	require.NoError(t, b.Close())
	t.Setenv("FAKE_ALIEN", "1")
	_, err = d.Wrap(address, 1)
	require.ErrorIs(t, err, invalid.Err)
	require.ErrorContains(t, err, "the memory is on GPU 1, the device is GPU 0")
}

func (f *Fake) testForeignStream(t *testing.T) {
	d := f.open(t)
	unchanged := f.keeps(t)
	t.Setenv("FAKE_ALIEN", "1")
	_, err := d.OnStream(16)
	require.ErrorIs(t, err, invalid.Err)
	require.ErrorContains(t, err, f.Driver.Name()+": the stream must be one of this GPU")
	unchanged()
}
