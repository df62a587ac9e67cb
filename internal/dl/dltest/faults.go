package dltest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/backend"
	"github.com/batchgemm/batchgemm/internal/hardware"
	"github.com/batchgemm/batchgemm/internal/sample"
	"github.com/batchgemm/batchgemm/planner"
)

type operation struct {
	name string
	do   func(f *Fake, d backend.Wrapper, k *task) error
}

// operations are what callers do with a device and a task on it. They close what they make.
var operations = []operation{
	{"Open", func(f *Fake, _ backend.Wrapper, _ *task) error {
		return opened(f.Driver.Open(context.Background(), 0))
	}},
	{"OnStream", func(_ *Fake, d backend.Wrapper, _ *task) error { return opened(d.OnStream(0)) }},
	{"Alloc", func(_ *Fake, d backend.Wrapper, _ *task) error { return opened(d.Alloc(100)) }},
	{"Wrap", func(_ *Fake, d backend.Wrapper, k *task) error {
		return opened(d.Wrap(k.atC, 1))
	}},
	{"Prepare", func(_ *Fake, d backend.Wrapper, k *task) error {
		return opened(d.Prepare(context.Background(), k.plan))
	}},
	{"Prepare another kernel", func(_ *Fake, d backend.Wrapper, k *task) error {
		return opened(d.Prepare(context.Background(), k.other))
	}},
	{"Update", func(_ *Fake, _ backend.Wrapper, k *task) error {
		return k.program.Update(context.Background(), k.again)
	}},
	{"Update by records", func(_ *Fake, _ backend.Wrapper, k *task) error {
		return k.program.Update(context.Background(), &k.renewed)
	}},
	{"Update, and back", func(_ *Fake, _ backend.Wrapper, k *task) error {
		err := k.program.Update(context.Background(), k.again)
		if err == nil {
			err = k.program.Update(context.Background(), k.plan)
		}
		return err
	}},
	{"Update to a larger plan", func(_ *Fake, d backend.Wrapper, k *task) error {
		p, err := d.Prepare(context.Background(), k.again)
		if err == nil {
			err = errors.Join(p.Update(context.Background(), k.plan), p.Close())
		}
		return err
	}},
	{"Write", func(_ *Fake, _ backend.Wrapper, k *task) error {
		return k.buffers[2].Write(context.Background(), 0, k.host[2])
	}},
	{"Read", func(_ *Fake, _ backend.Wrapper, k *task) error {
		return k.buffers[2].Read(context.Background(), 0, make([]float32, len(k.host[2])))
	}},
	{"StartRead", func(_ *Fake, _ backend.Wrapper, k *task) error {
		r, err := k.buffers[2].StartRead(context.Background(), 0, make([]float32, len(k.host[2])))
		if err == nil {
			err = r.Finish(context.Background())
		}
		return err
	}},
	{"Copy", func(_ *Fake, d backend.Wrapper, k *task) error {
		b, err := d.Alloc(len(k.host[2]))
		if err == nil {
			err = errors.Join(d.Copy(context.Background(), b, k.buffers[2], 4*len(k.host[2])), b.Close())
		}
		return err
	}},
	{"Write and Read in pieces", func(_ *Fake, d backend.Wrapper, _ *task) error {
		data := make([]float32, 600<<10) // of 1 MiB
		b, err := d.Alloc(len(data))
		if err == nil {
			defer b.Close()
			err = b.Write(context.Background(), 0, data)
		}
		if err == nil {
			err = b.Read(context.Background(), 0, data)
		}
		return err
	}},
	{"Submit", func(_ *Fake, d backend.Wrapper, k *task) error {
		return d.Submit(context.Background(), []driver.Run{k.run()})
	}},
	{"Submit, graph recorded, graph launched", func(_ *Fake, d backend.Wrapper, k *task) error {
		return d.Submit(context.Background(), []driver.Run{k.run(), k.run(), k.run()})
	}},
	{"SubmitOn", func(_ *Fake, d backend.Wrapper, k *task) error {
		r := k.run()
		return d.(backend.Borrower).SubmitOn(context.Background(), 0, []driver.Run{r})
	}},
	{"Wait", func(_ *Fake, d backend.Wrapper, _ *task) error { return d.Wait(context.Background()) }},
	{"Time", func(_ *Fake, d backend.Wrapper, k *task) error {
		_, err := d.Time(context.Background(), []driver.Run{k.run()})
		return err
	}},
	{"Close", func(_ *Fake, d backend.Wrapper, _ *task) error { return d.Close() }},
}

// opened closes what was made.
func opened[T interface{ Close() error }](made T, err error) error {
	if err != nil {
		return err
	}
	return made.Close()
}

// Every call of the library fails once in every operation: the first, the second and so on, until the
// operation needs no more. The error names the failed call, nothing leaks, the device continues to work, and
// the thread's current context is restored.
func (f *Fake) testEveryCallFails(t *testing.T) {
	for _, o := range operations {
		t.Run(o.name, func(t *testing.T) {
			sample.Drivers.Skip(t, 1)
			runtime.LockOSThread() // the current context belongs to the thread
			defer runtime.UnlockOSThread()
			failures := 0
			for _, entry := range f.fallible() {
				for n := 0; ; n++ {
					require.Less(t, n, 1000, "%s never ends", entry)
					if !f.failNth(t, o, entry, n) {
						break
					}
					failures++
				}
			}
			require.Positive(t, failures)
		})
	}
}

// fallible lists the entries whose calls may fail, except those that report failures.
func (f *Fake) fallible() (entries []string) {
	for _, s := range f.vendor.Symbols {
		if !slices.Contains([]string{"errorName", "errorText", "errorNameOf", "errorTextOf", "version"},
			s.Entry) &&
			f.symbol(s.Entry) == s.Name {
			entries = append(entries, s.Entry)
		}
	}
	return entries
}

// releasing are the entries that release objects. Real libraries fail them only if the device is lost, and
// then release everything.
var releasing = []string{"contextGet", "contextSet", "deviceGet", "deviceSet", "contextRelease",
	"moduleUnload", "free", "hostFree",
	"streamDestroy", "eventDestroy", "graphDestroy", "graphExecDestroy"}

// failNth does an operation on a new device, in which the call of the entry after n others fails. It reports
// whether there was such a call.
func (f *Fake) failNth(t *testing.T, o operation, entry string, n int) (hit bool) {
	t.Helper()
	at := fmt.Sprintf("call %d of %s", n+1, f.symbol(entry))
	unchanged := f.keeps(t)
	d, k := f.busy(t)
	before := f.count(t, injected)
	f.attribute(t, takeAnother)
	f.failOnce(t, entry, 2, n)
	err := o.do(f, d, k)
	f.succeed(t)
	if !slices.Contains(releasing, entry) {
		require.Equal(t, another, f.attribute(t, isCurrent),
			"%s: the caller's device is not current any more", at)
	}
	f.attribute(t, takeNothing)
	hit = f.count(t, injected) > before
	if !hit {
		require.NoError(t, err, at)
	}
	if err != nil {
		require.ErrorContains(t, err, "(2): a description", at)
	}
	left := errors.Is(err, hardware.ErrDeviceLost)
	switch {
	case left: // a device that was being closed is left: its work may still run
		require.Contains(t, []string{"Close", "Open", "OnStream"}, o.name, at)
	case err != nil && !errors.Is(err, hardware.ErrOutOfMemory):
		require.Equal(t, "Open", o.name, at)
		require.ErrorIs(t, err, hardware.ErrUnavailable, at)
	case err != nil:
		require.ErrorContains(t, err, f.Driver.Name()+": ", at)
	}
	if o.name != "Close" {
		require.NoError(t, d.Submit(t.Context(), []driver.Run{k.run()}), at)
		k.check(t)
		require.Equal(t, nothing, f.attribute(t, isCurrent), at)
		require.NoError(t, d.Close(), at)
	}
	if !left && !slices.Contains(releasing, entry) {
		unchanged()
	}
	return hit
}

// If every call fails from one on, the device is lost. Operations and all later calls say so, and nothing
// crashes.
func (f *Fake) testEveryCallIsLost(t *testing.T) {
	for _, o := range operations {
		t.Run(o.name, func(t *testing.T) {
			sample.Drivers.Skip(t, 1)
			for n := 0; f.loseNth(t, o, n); n++ {
				require.Less(t, n, 1000, "it never ends")
			}
		})
	}
}

// loseNth does an operation on a new device that is lost after n calls. It reports whether the operation
// needed more calls.
func (f *Fake) loseNth(t *testing.T, o operation, n int) (hit bool) {
	t.Helper()
	d, k := f.busy(t)
	before := f.count(t, injected)
	f.failAll(t, 700, n)
	err := o.do(f, d, k)
	f.succeed(t)
	hit = f.count(t, injected) > before
	if !hit {
		require.NoError(t, err)
	}
	if o.name == "Close" && err == nil { // at most, it could not free everything
		return hit
	}
	if !hit {
		require.NoError(t, d.Close())
		return false
	}
	if err != nil && !errors.Is(err, hardware.ErrDeviceLost) {
		require.Equal(t, "Open", o.name, "call %d: %v", n+1, err)
		require.ErrorIs(t, err, hardware.ErrUnavailable)
	}
	f.failAll(t, 700, 0)
	require.ErrorIs(t, d.Wait(t.Context()), hardware.ErrDeviceLost, "call %d", n+1)
	f.succeed(t)
	require.ErrorIs(t, d.Submit(t.Context(), []driver.Run{k.run()}), hardware.ErrDeviceLost, "call %d", n+1)
	require.NoError(t, k.program.Close())
	require.NoError(t, k.buffers[0].Close())
	require.ErrorIs(t, d.Close(), hardware.ErrDeviceLost)
	return true
}

// busy opens a device with a task that has run. The caller closes it.
func (f *Fake) busy(t *testing.T) (backend.Wrapper, *task) {
	t.Helper()
	made, err := f.Driver.Open(t.Context(), 0)
	require.NoError(t, err)
	d := made.(backend.Wrapper)
	k := newTask(t, d, split, gemm(9, 10, 130)) // small, because fakes are slow
	k.other = newPlan(t, d, planner.Options{Tile: "medium"}, gemm(20, 20, 30))
	k.again = newPlan(t, d, planner.Options{Tile: "medium"}, gemm(9, 10, 130))
	info := d.Info()
	require.NoError(t, planner.New(&info.Planner).Renew(t.Context(), &k.renewed, k.plan.Batch,
		planner.Options{}))
	require.NotEmpty(t, k.renewed.Records)
	k.atC = f.newest(t)
	return d, k
}
