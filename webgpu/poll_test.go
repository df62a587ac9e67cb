//go:build cgo && !nowebgpu && ((linux && amd64) || darwin || (windows && amd64))

package webgpu

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/internal/hardware"
	"github.com/batchgemm/batchgemm/internal/sample"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/wgsl"
)

// The binding's MapAsync and OnSubmittedWorkDone keep a pointer to a variable that the collector may free
// before the callback.
func TestReadUnderGarbageCollection(t *testing.T) {
	d := open(t, webgpuDriver{})
	b := upload(t, d, integers(100, 1))
	var stop atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		for !stop.Load() {
			runtime.GC()
			for range 100 {
				_ = new([3]int)
			}
		}
	}()
	for range 300 {
		requireEqual(t, integers(100, 1), download(t, b, 100))
		require.NoError(t, d.Wait(t.Context()))
	}
	stop.Store(true)
	<-done
}

func TestCancelled(t *testing.T) {
	d := open(t, webgpuDriver{})
	l := load(t, d)
	ctx := cancelled(t)
	calls := l.calls(ctx)
	calls["Open"] = func() error { _, err := Driver().Open(ctx, 0); return err }
	for name, call := range calls {
		require.ErrorIs(t, call(), context.Canceled, name)
	}
	require.NoError(t, d.Submit(t.Context(), l.runs()))
	k := l.task
	requireEqual(t, reference(k.batch, k.a, k.b, k.c), download(t, l.c, len(k.c)))
}

// If a context ends during a wait, the wait ends, and the device continues to work.
func TestCancelledWhileWaiting(t *testing.T) {
	d := open(t, webgpuDriver{})
	b := upload(t, d, integers(10, 1))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, d.await(ctx, never(d)), context.DeadlineExceeded)

	// A reader that gives up leaves a usable staging buffer for the next one.
	r, err := b.StartRead(t.Context(), 0, make([]float32, 10))
	require.NoError(t, err)
	require.ErrorIs(t, r.Finish(cancelled(t)), context.Canceled)
	requireEqual(t, integers(10, 1), download(t, b, 10))
	require.Len(t, d.staging, 1)
}

// never returns a number of submissions that is not reached.
func never(d *device) uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.submitted + 1
}

func TestDeadlineMakesDeviceLost(t *testing.T) {
	d := open(t, webgpuDriver{}) // skips without an adapter
	lost, err := openDevice(t.Context(), d.info, 0)
	require.NoError(t, err)
	l := load(t, lost)
	lost.waitLimit = time.Millisecond
	require.ErrorIs(t, lost.await(t.Context(), never(lost)), hardware.ErrDeviceLost)
	l.requireLost(t, "did not end within 1ms")
	_, err = d.Alloc(1)
	require.NoError(t, err, "other devices are not touched")
}

// Close does not wait forever either.
func TestCloseWithWorkThatNeverEnds(t *testing.T) {
	d := open(t, webgpuDriver{})
	stuck, err := openDevice(t.Context(), d.info, 0)
	require.NoError(t, err)
	stuck.waitLimit = time.Millisecond
	stuck.submitted = never(stuck)
	require.ErrorIs(t, stuck.Close(), hardware.ErrDeviceLost)
	require.ErrorIs(t, stuck.Wait(t.Context()), hardware.ErrDeviceLost)
}

func TestSubmissionsInFlightAreBounded(t *testing.T) {
	d := open(t, webgpuDriver{})
	k := newTask(t, gemm(16, 16, 16))
	_, p := prepare(t, d, k.batch, planner.Options{})
	a, b, c := upload(t, d, k.a), upload(t, d, k.b), alloc(t, d, len(k.c))
	runs := []driver.Run{{Program: p, A: a, B: b, C: c}}
	for range 4 * maxInFlight {
		require.NoError(t, d.Submit(t.Context(), runs))
		require.LessOrEqual(t, d.submitted-uint64(d.gpu.done), d.inFlight)
	}
	require.NoError(t, d.Wait(t.Context()))
	requireEqual(t, reference(k.batch, k.a, k.b, k.c), download(t, c, len(k.c)))

	// With a full queue, Submit waits until its context ends.
	d.submitted += d.inFlight
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, d.Submit(ctx, runs), context.DeadlineExceeded)
	d.submitted -= d.inFlight
	require.NoError(t, d.Submit(t.Context(), runs))
}

// The binding's own wait reports success after 5 s, whatever the work does, and frees what the work uses.
// This work takes longer on a software adapter.
func TestWorkLongerThanTheBindingWaits(t *testing.T) {
	sample.WebGPU.Skip(t, 1)
	s := newSlow(t, open(t, webgpuDriver{}))
	workers := s.workers(t, 7500*time.Millisecond)
	took, got := s.run(t, workers)
	t.Logf("%d workgroups took %v", workers, took)
	for i, v := range got {
		require.Equal(t, float32(7), v, "element %d", i)
	}
}

// Nothing can stop running work, but a context that ends still ends all calls, and so does Close. Its memory
// is freed when the work is done.
func TestCancelledInLongWork(t *testing.T) {
	sample.WebGPU.Skip(t, 1)
	first := open(t, webgpuDriver{})
	d, err := openDevice(t.Context(), first.info, 0)
	require.NoError(t, err)
	s := newSlow(t, d)
	d.closeWait = 20 * time.Millisecond
	p := s.program(s.workers(t, 3*time.Second))
	l := load(t, d)
	require.NoError(t, d.Wait(t.Context()))
	c := alloc(t, d, p.images[p.now].launches[0].Count)
	require.NoError(t, d.Submit(t.Context(), []driver.Run{{Program: p, A: s.zero, B: s.zero, C: c}}))
	done := func() bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		return d.gpu == nil || uint64(d.gpu.done) >= d.submitted
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	for name, call := range l.calls(ctx) {
		if err := call(); name != "Prepare" { // it has its kernel, and does not wait
			require.ErrorIs(t, err, context.DeadlineExceeded, name)
		}
		require.False(t, done(), "%s waited for the work", name)
	}
	require.NoError(t, l.a.Close())
	require.NoError(t, l.program.Close())
	require.NoError(t, d.Close())
	require.False(t, done(), "Close waited for the work")
	require.Eventually(t, func() bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		return d.gpu == nil
	}, waitLimit, time.Millisecond, "the closed device is never freed")
}

// slow makes work of any duration, for software adapters.
type slow struct {
	*device
	pipeline *pipeline
	zero     *buffer
}

func newSlow(t *testing.T, d *device) *slow {
	t.Helper()
	if testing.Short() || d.info.Kind != hardware.KindSoftware {
		t.Skip("needs seconds on a slow device")
	}
	d.mu.Lock()
	bindings := []encoding.Binding{{Number: 0}, {Number: 1}, {Number: 2}, {Number: 3, Written: true}}
	pipeline, err := d.compile(wgsl.Shader{Threads: 64, Bindings: bindings, Source: `
		@group(0) @binding(0) var<storage, read> items: array<u32>;
		@group(0) @binding(1) var<storage, read> A: array<f32>;
		@group(0) @binding(2) var<storage, read> B: array<f32>;
		@group(0) @binding(3) var<storage, read_write> C: array<f32>;
		@compute @workgroup_size(64)
		fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) t: u32) {
			var sum = f32(items[0]);
			for (var i = 0u; i < 60000u; i = i + 1u) { sum = fract(sum * A[0] + B[0]); }
			if (t == 0u) { C[group.x] = 7.0 + floor(sum); }
		}`})
	d.mu.Unlock()
	require.NoError(t, err)
	d.pipelines[encoding.Kernel{Fixup: true, Loop: true}] = pipeline // Close frees it
	return &slow{d, pipeline, upload(t, d, make([]float32, 4))}
}

func (s *slow) program(workers int) *program {
	l := launch{Launch: encoding.Launch{Count: workers, SpanA: 4, SpanB: 4, SpanC: workers},
		pipeline: s.pipeline, items: span{0, 16}}
	return &program{dev: s.device, images: [2]image{{launches: []launch{l}, words: s.zero}}, plans: 1,
		sets: newSets()}
}

// run returns the time of that many workgroups, and their C.
func (s *slow) run(t *testing.T, workers int) (time.Duration, []float32) {
	t.Helper()
	p, c := s.program(workers), alloc(t, s.device, workers)
	defer p.sets.Clear()
	start := time.Now()
	require.NoError(t, s.Submit(t.Context(), []driver.Run{{Program: p, A: s.zero, B: s.zero, C: c}}))
	require.NoError(t, s.Wait(t.Context()))
	got := download(t, c, workers)
	return time.Since(start), got
}

// workers returns how many workgroups take that time.
func (s *slow) workers(t *testing.T, wanted time.Duration) int {
	t.Helper()
	s.run(t, 1)
	sample, _ := s.run(t, 50)
	return min(int(50*wanted/sample), 65535)
}
