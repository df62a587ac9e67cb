//go:build cgo && !nowebgpu && ((linux && amd64) || darwin || (windows && amd64))

package webgpu

import (
	"errors"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/planner"
)

// A submission with several runs sees what the earlier ones wrote.
func TestRunsOfOneSubmissionAreOrdered(t *testing.T) {
	d := open(t, webgpuDriver{})
	k := newTask(t, planner.Problem{M: 40, N: 40, K: 40, Beta: 1})
	_, p := prepare(t, d, k.batch, planner.Options{Schedule: planner.ScheduleSplitK})
	a, b, c := upload(t, d, k.a), upload(t, d, k.b), upload(t, d, k.c)
	run := driver.Run{Program: p, A: a, B: b, C: c}
	require.NoError(t, d.Submit(t.Context(), []driver.Run{run, run, run}))
	want := k.c
	for range 3 {
		want = reference(k.batch, k.a, k.b, want)
	}
	requireEqual(t, want, download(t, c, len(k.c)))
}

func TestTime(t *testing.T) {
	d := open(t, webgpuDriver{})
	k := newTask(t, gemm(40, 40, 40))
	_, p := prepare(t, d, k.batch, planner.Options{})
	a, b, c := upload(t, d, k.a), upload(t, d, k.b), alloc(t, d, len(k.c))
	runs := []driver.Run{{Program: p, A: a, B: b, C: c}}
	for _, clock := range []string{"timestamp", "wall"} {
		if clock == "wall" {
			d.period = 0 // as on devices without timestamps
			d.clock.free()
			d.clock = nil
		}
		for range 3 {
			got, err := d.Time(t.Context(), runs)
			require.NoError(t, err)
			require.Equal(t, clock, got.Clock)
			require.Positive(t, got.Device)
			require.Positive(t, got.Wall)
		}
	}
	requireEqual(t, reference(k.batch, k.a, k.b, k.c), download(t, c, len(k.c)))
}

// Once its bind groups are made, a submission allocates nothing in Go.
func TestSubmitDoesNotAllocate(t *testing.T) {
	d := open(t, webgpuDriver{})
	k := newTask(t, gemm(8, 8, 8))
	_, p := prepare(t, d, k.batch, planner.Options{})
	a, b, c := upload(t, d, k.a), upload(t, d, k.b), alloc(t, d, len(k.c))
	runs := []driver.Run{{Program: p, A: a, B: b, C: c}, {Program: p, A: a, B: b, C: c}}
	require.Zero(t, testing.AllocsPerRun(20, func() {
		if err := errors.Join(d.Submit(t.Context(), runs), d.Wait(t.Context())); err != nil {
			t.Error(err)
		}
	}))
}

// Errors of the library outside its scopes, and invalid submitted commands, abort the process if nothing
// catches them.
func TestLibraryErrorsAreCaught(t *testing.T) {
	d := open(t, webgpuDriver{})
	b := upload(t, d, integers(8, 1))
	lying := &buffer{dev: d, n: 100, size: 400, memory: b.memory}
	err := lying.Read(t.Context(), 4, make([]float32, 90))
	require.ErrorContains(t, err, "submit")
	err = lying.Write(t.Context(), 4, make([]float32, 90))
	require.ErrorContains(t, err, "write")
	requireEqual(t, integers(8, 1), download(t, b, 8))
}

// The binding's error scopes are one stack per device. Without the mutex, valid calls fail with the errors
// of others, and invalid ones pass.
func TestErrorsStayWithTheirCalls(t *testing.T) {
	d := open(t, webgpuDriver{})
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for range 40 {
				s := tinyShader(16)
				if g%2 == 1 {
					s.Source += "nonsense"
				}
				d.mu.Lock()
				p, err := d.compile(s)
				if err == nil {
					p.free()
				}
				d.mu.Unlock()
				if (err == nil) != (g%2 == 0) {
					t.Errorf("goroutine %d: %v", g, err)
				}
			}
		})
	}
	// Others use the device meanwhile.
	b := upload(t, d, integers(50, 1))
	for range 50 {
		requireEqual(t, integers(50, 1), download(t, b, 50))
	}
	wg.Wait()
}

// Commands that the library refuses are an error of the call. They are not submitted, which would end the
// process.
func TestInvalidCommands(t *testing.T) {
	d := open(t, webgpuDriver{})
	k := newTask(t, gemm(4, 4, 4))
	_, p := prepare(t, d, k.batch, planner.Options{})
	run := driver.Run{Program: p, A: upload(t, d, k.a), B: upload(t, d, k.b), C: upload(t, d, k.c)}
	// Prepare refuses that
	p.images[p.now].launches[0].Count = int(d.limits.MaxComputeWorkgroupsPerDimension) + 1
	submitted := d.submitted
	require.ErrorContains(t, d.Submit(t.Context(), []driver.Run{run}), "webgpu: submit: ")
	require.Equal(t, submitted, d.submitted)
	p.sets.Clear()
	p.images[p.now].launches[0].Count = 1
	require.NoError(t, d.Submit(t.Context(), []driver.Run{run}))
	require.NoError(t, d.Wait(t.Context()))
	require.Equal(t, d.submitted, uint64(d.gpu.done), "what was not submitted is not done")
	requireEqual(t, reference(k.batch, k.a, k.b, k.c), download(t, run.C.(*buffer), len(k.c)))
}
