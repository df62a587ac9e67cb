package cpu

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/internal/reference"
	"github.com/batchgemm/batchgemm/planner"
)

// long returns a submission that takes 20 s on a small machine, and 1 s on a large one.
func long(t *testing.T, d *device) []driver.Run {
	t.Helper()
	return slices.Repeat([]driver.Run{ready(t, d, planner.Options{}, planner.GEMM(256, 256, 256))}, 10000)
}

// queued returns how many runs and calls wait.
func queued(d *device) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.waiting) - d.first
}

// goroutines waits until there are no more than n goroutines, or until the test times out.
func goroutines(n int) {
	for runtime.NumGoroutine() > n {
		time.Sleep(time.Millisecond)
	}
}

func TestQueueKeepsTheOrder(t *testing.T) {
	d := openDevice(t)
	p := planner.GEMM(60, 60, 300) // too much work to do at once
	p.Beta = 1
	run := ready(t, d, planner.Options{}, p)
	b := run.C.(*buffer)
	one := make([]float32, b.Len())
	require.NoError(t, b.Write(t.Context(), 0, one))
	require.NoError(t, d.Submit(t.Context(), []driver.Run{run}))
	require.NoError(t, b.Read(t.Context(), 0, one))
	zero, got := make([]float32, b.Len()), make([]float32, b.Len())
	for round := range 20 {
		require.NoError(t, b.Write(t.Context(), 0, zero))
		require.NoError(t, d.Submit(t.Context(), []driver.Run{run, run}))
		require.NoError(t, d.Submit(t.Context(), nil))
		require.NoError(t, d.Submit(t.Context(), []driver.Run{run}))
		require.NoError(t, b.Read(t.Context(), 0, got))
		for i := range got {
			require.InEpsilon(t, 3*one[i], got[i], 1e-5, "round %d", round)
		}
	}
}

// A waiting call ends with its context, and queued work continues.
func TestCancelledWaits(t *testing.T) {
	before := runtime.NumGoroutine()
	opened, err := Driver().Open(t.Context(), 0)
	require.NoError(t, err)
	d := opened.(*device)
	runs := long(t, d)
	require.NoError(t, d.Submit(t.Context(), runs))
	most := queued(d)
	for range 100 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Microsecond)
		require.ErrorIs(t, d.Wait(ctx), context.DeadlineExceeded)
		require.ErrorIs(t, runs[0].C.Write(ctx, 0, make([]float32, 1)), context.DeadlineExceeded)
		cancel()
		require.LessOrEqual(t, queued(d), most, "nothing is left in the queue")
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() { // cancels once the runs of Time are queued
		for len(d.room) < 2 {
			time.Sleep(time.Millisecond)
		}
		cancel()
	}()
	_, err = d.Time(ctx, runs)
	require.ErrorIs(t, err, context.Canceled)
	require.Greater(t, queued(d), len(runs), "the runs of Time stay")
	require.NoError(t, d.Close(), "what is queued is abandoned")
	goroutines(before)
}

// Submit waits if too much is queued, and ends with its context.
func TestQueueIsBounded(t *testing.T) {
	d := openDevice(t)
	require.NoError(t, d.Submit(t.Context(), long(t, d)))
	more := []driver.Run{ready(t, d, planner.Options{}, planner.GEMM(1, 1, 1))}
	for range maxQueued - 1 {
		require.NoError(t, d.Submit(t.Context(), more))
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	require.ErrorIs(t, d.Submit(ctx, more), context.DeadlineExceeded)
}

// A device that is never idle reuses the memory of its queue.
func TestQueueMemory(t *testing.T) {
	d := openDevice(t)
	run := ready(t, d, planner.Options{}, planner.GEMM(60, 60, 60))
	require.Greater(t, amount(t, run), atOnce)
	for range 20 * maxQueued {
		require.NoError(t, d.Submit(t.Context(), []driver.Run{run}))
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	require.LessOrEqual(t, cap(d.waiting), 4*maxQueued)
}

// Closed buffers and programs stay for the runs queued before.
func TestCloseAfterQueuedRuns(t *testing.T) {
	d := openDevice(t)
	first := ready(t, d, planner.Options{Tile: "small", Schedule: planner.ScheduleStreamK},
		random(8, 100, 400)...)
	second := ready(t, d, planner.Options{}, planner.GEMM(1, 1, 1))
	require.NoError(t, second.A.Close())
	second.A = first.C
	runs := []driver.Run{first, first, first, second}
	require.NoError(t, d.Submit(t.Context(), runs))
	for _, o := range []interface{ Close() error }{first.A, first.B, first.C, first.Program, second.B,
		second.Program} {
		require.NoError(t, o.Close())
	}
	runtime.GC()
	var got [1]float32
	require.NoError(t, second.C.Read(t.Context(), 0, got[:]))
	require.NotZero(t, got[0])
	require.Len(t, d.live, 1, "the memory of what was closed is freed")
}

// Queued runs compute the plan that the program had when they were queued, even if it is updated several
// times. Images are reused once no queued run needs them.
func TestUpdateAfterQueuedRuns(t *testing.T) {
	d := openDevice(t)
	p := planner.GEMM(40, 40, 600)
	run := ready(t, d, planner.Options{Tile: "small"}, p)
	for _, b := range []driver.Buffer{run.A, run.B} {
		reference.Integers(rand.New(rand.NewPCG(1, 0)), b.(*buffer).data, 8)
	}
	program := run.Program.(*program)
	var plan planner.Plan
	var results [8]driver.Buffer
	for round := range 3 {
		require.NoError(t, d.take(t.Context()))
		for i := range results {
			p.Alpha = planner.Scale(float64(1 + i))
			batch, err := planner.Pack(p)
			require.NoError(t, err)
			o := planner.Options{Tile: "small", Schedule: []planner.Schedule{planner.ScheduleDataParallel,
				planner.ScheduleStreamK}[i%2]}
			require.NoError(t, planner.New(&d.info.Planner).Replan(t.Context(), &plan, batch, o))
			require.NoError(t, program.Update(t.Context(), &plan))
			if round == 0 {
				results[i], err = d.Alloc(plan.ExtentC)
				require.NoError(t, err)
			}
			run.C = results[i]
			require.NoError(t, d.Submit(t.Context(), []driver.Run{run}))
		}
		d.release()
		require.NoError(t, d.Wait(t.Context()))
		require.LessOrEqual(t, len(program.images), len(results)+1)
		for i := range results {
			one, got := results[0].(*buffer).data, results[i].(*buffer).data
			for j := range got {
				require.Equal(t, float32(1+i)*one[j], got[j], "round %d, run %d", round, i)
			}
		}
	}
}

// Close abandons queued work, even in the middle of a run.
func TestCloseDuringWork(t *testing.T) {
	before := runtime.NumGoroutine()
	opened, err := Driver().Open(t.Context(), 0)
	require.NoError(t, err)
	d := opened.(*device)
	runs := long(t, d)
	one, err := d.Time(t.Context(), runs[:1])
	require.NoError(t, err)
	require.NoError(t, d.Submit(t.Context(), runs))
	for range maxQueued - 1 {
		require.NoError(t, d.Submit(t.Context(), runs[:1]))
	}
	start := time.Now()
	require.NoError(t, d.Close())
	require.Less(t, time.Since(start), one.Device*time.Duration(len(runs))/4, "the work was not done")
	require.Empty(t, d.live, "all memory is freed")
	goroutines(before)
}

// A launch can stop between two workers, and a product between two parts of K.
func TestStopWithinALaunch(t *testing.T) {
	own := newScratch(&generic, new(atomic.Bool))
	a := make([]float32, 2*panelDepth)
	for i := range a {
		a[i] = 1
	}
	c := []float32{0}
	p := &product{rows: 1, cols: 1, depth: len(a), a: operand{data: a, ld: len(a)},
		b: operand{data: a, ld: 1}, c: c, ldc: 1, alpha: 1, beta: 1}
	own.multiply(p)
	require.Equal(t, []float32{2 * panelDepth}, c)
	own.stop.Store(true)
	own.multiply(p)
	require.Equal(t, []float32{2 * panelDepth}, c, "nothing more")
	j := job{launch: &encoding.Launch{Count: 1}}
	j.work(own)
	require.Zero(t, j.next.Load())
}

// An idle device has no goroutines, open or dropped.
func TestIdleDeviceHasNoGoroutines(t *testing.T) {
	before := runtime.NumGoroutine()
	for range 20 {
		opened, err := Driver().Open(t.Context(), 0)
		require.NoError(t, err)
		d := opened.(*device)
		run := ready(t, d, planner.Options{}, random(4, 60, 60)...)
		require.NoError(t, d.Submit(t.Context(), []driver.Run{run, run}))
		for idle := false; !idle; time.Sleep(time.Millisecond) {
			d.mu.Lock()
			idle = !d.busy
			d.mu.Unlock()
		}
		require.Nil(t, d.current.image, "nor operands")
	}
	goroutines(before)
}

// Calls of all kinds from many goroutines. Some end early.
func TestQueueConcurrent(t *testing.T) {
	d := openDevice(t)
	var group sync.WaitGroup
	errs := make([]error, 8)
	for g := range errs {
		p := planner.GEMM(20+g, 30, 10*g+1)
		run := ready(t, d, planner.Options{}, p)
		want := make([]float32, run.C.Len())
		require.NoError(t, d.Submit(t.Context(), []driver.Run{run}))
		require.NoError(t, run.C.Read(t.Context(), 0, want))
		group.Go(func() {
			for i := range 100 {
				ctx, cancel := context.WithTimeout(context.Background(), time.Duration(i)*time.Microsecond)
				_ = d.Wait(ctx)
				_, _ = d.Time(ctx, []driver.Run{run})
				_ = run.C.Read(ctx, 0, make([]float32, len(want)))
				cancel()
				got := make([]float32, len(want))
				_, err := d.Time(context.Background(), []driver.Run{run, run})
				errs[g] = errors.Join(errs[g], err, run.C.Write(context.Background(), 0, got),
					d.Submit(context.Background(), []driver.Run{run}),
					run.C.Read(context.Background(), 0, got))
				for k := range got {
					if got[k] != want[k] {
						errs[g] = errors.Join(errs[g], errors.New("wrong result"))
						return
					}
				}
			}
		})
	}
	group.Wait()
	require.NoError(t, errors.Join(errs...))
}
