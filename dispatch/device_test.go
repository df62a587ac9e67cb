package dispatch

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/fakedriver"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/devices"
	"github.com/batchgemm/batchgemm/planner/element"
)

var errBroken = errors.New("broken")

// openFake opens a device of the fake backend.
func openFake(t *testing.T) (*Device, *fakedriver.Device) {
	t.Helper()
	f := fakedriver.New(t)
	d, err := Open(context.Background(), WithDriver(f))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return d, f.Last()
}

// small returns C = A*B of sizes 2x2x2 with A = 1 2 3 4.
func small(t *testing.T) planner.Batch {
	t.Helper()
	b, err := planner.Pack(planner.GEMM(2, 2, 2))
	require.NoError(t, err)
	return b
}

func buffer(t *testing.T, d *Device, n int, values ...float32) *Buffer {
	t.Helper()
	b, err := d.NewBuffer(element.F32, n)
	require.NoError(t, err)
	require.NoError(t, Write(context.Background(), b, 0, values))
	return b
}

func program(t *testing.T, d *Device, b planner.Batch) *Program {
	t.Helper()
	plan, err := d.Plan(t.Context(), b, planner.Options{})
	require.NoError(t, err)
	p, err := d.Prepare(context.Background(), plan)
	require.NoError(t, err)
	require.Same(t, plan, p.Plan())
	return p
}

func TestRun(t *testing.T) {
	ctx := context.Background()
	d, _ := openFake(t)
	p := program(t, d, small(t))
	a, b, c := buffer(t, d, 4, 1, 2, 3, 4), buffer(t, d, 4, 1, 0, 1, 1), buffer(t, d, 5, 9, 9, 9, 9, 9)
	require.NoError(t, p.Run(ctx, Operands{A: a, B: b, C: c}))
	require.NoError(t, d.Wait(ctx))
	got := make([]float32, 5)
	require.NoError(t, Read(ctx, c, 0, got))
	require.Equal(t, []float32{3, 2, 7, 4, 9}, got)

	timing, err := d.Time(ctx, runOf(p, a, b, c), runOf(p, c, b, a))
	require.NoError(t, err)
	require.Positive(t, timing.Device)
	require.NoError(t, Read(ctx, a, 0, got[:4]))
	require.Equal(t, []float32{5, 2, 11, 4}, got[:4], "the second run sees what the first wrote")
}

func runOf(p *Program, a, b, c *Buffer) Run {
	return Run{Program: p, Operands: Operands{A: a, B: b, C: c}}
}

func TestRunRefuses(t *testing.T) {
	ctx := context.Background()
	d, _ := openFake(t)
	other, _ := openFake(t)
	p, foreign := program(t, d, small(t)), program(t, other, small(t))
	a, b, c := buffer(t, d, 4), buffer(t, d, 4), buffer(t, d, 4)
	short, gone := buffer(t, d, 3), buffer(t, d, 4)
	require.NoError(t, gone.Close())
	require.NoError(t, gone.Close())
	closed := program(t, d, small(t))
	require.NoError(t, closed.Close())
	for name, c := range map[string]struct {
		run     Run
		failure string
	}{
		"nil program":     {runOf(nil, a, b, c), "run 1: the program is nil"},
		"closed program":  {runOf(closed, a, b, c), "run 1: program: closed"},
		"foreign program": {runOf(foreign, a, b, c), "run 1: program: belongs to another device"},
		"nil buffer":      {runOf(p, a, nil, c), "run 1: B is nil"},
		"closed buffer":   {runOf(p, a, gone, c), "run 1: B: closed"},
		"foreign buffer":  {runOf(p, buffer(t, other, 4), b, c), "run 1: A: belongs to another device"},
		"short A":         {runOf(p, short, b, c), "run 1: A has 3 elements, the plan needs 4"},
		"short B":         {runOf(p, a, short, c), "run 1: B has 3 elements, the plan needs 4"},
		"short C":         {runOf(p, a, b, short), "run 1: C has 3 elements, the plan needs 4"},
		"C is A":          {runOf(p, c, b, c), "run 1: buffer C is also A"},
		"C is B":          {runOf(p, a, c, c), "run 1: buffer C is also B"},
	} {
		t.Run(name, func(t *testing.T) {
			good := runOf(p, a, b, buffer(t, d, 4, 7, 7, 7, 7))
			require.EqualError(t, d.Run(ctx, good, c.run), c.failure)
			_, err := d.Time(ctx, good, c.run)
			require.EqualError(t, err, c.failure)
			got := make([]float32, 4)
			require.NoError(t, Read(ctx, good.C, 0, got))
			require.Equal(t, []float32{7, 7, 7, 7}, got, "the good run before was not executed")
		})
	}
}

func TestBufferRefuses(t *testing.T) {
	ctx := context.Background()
	d, _ := openFake(t)
	b := buffer(t, d, 4)
	require.Equal(t, 4, b.Len())
	for name, call := range map[string]func() error{
		"write: 2 elements from 3 on, in a buffer of 4": func() error {
			return Write(ctx, b, 3, make([]float32, 2))
		},
		"read: 5 elements from 0 on, in a buffer of 4": func() error {
			return Read(ctx, b, 0, make([]float32, 5))
		},
		"read: 0 elements from -1 on, in a buffer of 4": func() error {
			return Read(ctx, b, -1, []float32(nil))
		},
		fmt.Sprintf("write: 1 elements from %d on, in a buffer of 4", math.MaxInt): func() error {
			return Write(ctx, b, math.MaxInt, make([]float32, 1))
		},
		"buffer of -1 elements: negative size": func() error {
			_, err := d.NewBuffer(element.F32, -1)
			return err
		},
		"prepare: the plan is nil": func() error {
			_, err := d.Prepare(ctx, nil)
			return err
		},
	} {
		require.EqualError(t, call(), name)
	}
	require.NoError(t, Write(ctx, b, 4, []float32(nil)))
	empty := buffer(t, d, 0)
	require.Zero(t, empty.Len())
	_, err := d.NewBuffer(element.F32, min(1<<40, math.MaxInt/4))
	require.ErrorIs(t, err, ErrOutOfMemory)
}

func TestPrepareRefusesOtherDevice(t *testing.T) {
	d, _ := openFake(t)
	h200, err := devices.Lookup("h200")
	require.NoError(t, err)
	plan, err := planner.New(h200).Plan(t.Context(), small(t), planner.Options{})
	require.NoError(t, err)
	_, err = d.Prepare(context.Background(), plan)
	require.EqualError(t, err, "prepare: the plan is for device h200, not for cpu")
}

func TestClosedDevice(t *testing.T) {
	ctx := context.Background()
	d, f := openFake(t)
	batch := small(t)
	p, b := program(t, d, batch), buffer(t, d, 4)
	require.NoError(t, d.Close())
	require.NoError(t, d.Close())
	require.EqualValues(t, 1, f.Closes.Load())
	for name, call := range map[string]func() error{
		"NewBuffer": func() error { _, err := d.NewBuffer(element.F32, 1); return err },
		"Prepare":   func() error { _, err := d.Prepare(ctx, p.Plan()); return err },
		"Run":       func() error { return p.Run(ctx, Operands{A: b, B: b, C: b}) },
		"Time":      func() error { _, err := d.Time(ctx); return err },
		"Wait":      func() error { return d.Wait(ctx) },
		"GEMM": func() error {
			return gemmOf(ctx, d, batch, planner.Options{}, make([]float32, 4), make([]float32, 4),
				make([]float32, 4))
		},
		"Write": func() error { return Write(ctx, b, 0, make([]float32, 1)) },
		"Read":  func() error { return Read(ctx, b, 0, make([]float32, 1)) },
	} {
		require.ErrorIs(t, call(), ErrClosed, name)
	}
	require.NoError(t, b.Close())
	require.NoError(t, p.Close())
}

// TestCloseDuringCalls closes objects while other goroutines use them: a call succeeds, or says that
// something is closed.
func TestCloseDuringCalls(t *testing.T) {
	ctx := context.Background()
	d, f := openFake(t)
	batch := small(t)
	var group sync.WaitGroup
	for range 20 {
		p := program(t, d, batch)
		a, b, c := buffer(t, d, 4), buffer(t, d, 4), buffer(t, d, 4)
		errs := make(chan error, 2*20+4)
		for range 2 {
			group.Go(func() {
				for range 20 {
					errs <- p.Run(ctx, Operands{A: a, B: b, C: c})
				}
			})
		}
		for _, closer := range []interface{ Close() error }{a, p, c, b} {
			group.Go(func() { errs <- closer.Close() })
		}
		group.Wait()
		close(errs)
		for err := range errs {
			if err != nil {
				require.ErrorIs(t, err, ErrClosed)
			}
		}
	}
	require.Zero(t, f.Buffers.Load(), "every buffer was freed once")
	require.Zero(t, f.Programs.Load(), "every program was freed once")
}

// TestDeviceClosesDuringCalls closes a device while other goroutines use it in every way. The fake device
// reports calls that overlap Close or follow it.
func TestDeviceClosesDuringCalls(t *testing.T) {
	ctx := context.Background()
	batch := small(t)
	for range 20 {
		d, _ := openFake(t)
		p := program(t, d, batch)
		a, b, c := buffer(t, d, 4), buffer(t, d, 4), buffer(t, d, 4)
		host := make([]float32, 4)
		var group sync.WaitGroup
		var started sync.WaitGroup
		for name, call := range map[string]func() error{
			"Run":     func() error { return p.Run(ctx, Operands{A: a, B: b, C: c}) },
			"Time":    func() error { _, err := d.Time(ctx, runOf(p, a, b, c)); return err },
			"Wait":    func() error { return d.Wait(ctx) },
			"Write":   func() error { return Write(ctx, a, 0, host) },
			"Read":    func() error { return Read(ctx, b, 0, make([]float32, 4)) },
			"Prepare": func() error { made, err := d.Prepare(ctx, p.Plan()); return closed(made, err) },
			"buffer":  func() error { made, err := d.NewBuffer(element.F32, 1); return closed(made, err) },
			"GEMM": func() error {
				return gemmOf(ctx, d, batch, planner.Options{}, host, host, make([]float32, 4))
			},
		} {
			started.Add(1)
			group.Go(func() {
				err := call()
				started.Done()
				for err == nil {
					err = call()
				}
				if !errors.Is(err, ErrClosed) {
					t.Errorf("%s: %v", name, err)
				}
			})
		}
		started.Wait()
		require.NoError(t, d.Close())
		group.Wait()
	}
}

func closed(made interface{ Close() error }, err error) error {
	if err != nil {
		return err
	}
	return made.Close()
}

// An object that is closed during a call is freed after the call. Close waits for calls of the device, but
// not for those of a buffer or a program.
func TestCloseIsAfterTheCall(t *testing.T) {
	ctx := context.Background()
	for _, name := range []string{"buffer", "program", "device"} {
		t.Run(name, func(t *testing.T) {
			d, f := openFake(t)
			p := program(t, d, small(t))
			a, b, c := buffer(t, d, 4), buffer(t, d, 4), buffer(t, d, 4)
			inside, left, done := make(chan struct{}), make(chan struct{}), make(chan error, 2)
			leave := sync.OnceFunc(func() { close(left) })
			defer leave() // also when the test fails
			f.OnSubmit = func() error { close(inside); <-left; return nil }
			go func() { done <- p.Run(ctx, Operands{A: a, B: b, C: c}) }()
			<-inside
			switch name {
			case "buffer":
				require.NoError(t, a.Close())
				require.EqualValues(t, 3, f.Buffers.Load())
				require.ErrorIs(t, Write(ctx, a, 0, []float32{1}), ErrClosed)
				done <- nil
			case "program":
				require.NoError(t, p.Close())
				require.EqualValues(t, 1, f.Programs.Load())
				require.ErrorIs(t, p.Run(ctx, Operands{A: a, B: b, C: c}), ErrClosed)
				done <- nil
			case "device":
				go func() { done <- d.Close() }()
				time.Sleep(10 * time.Millisecond) // so that Close usually waits
			}
			leave()
			require.NoError(t, <-done)
			require.NoError(t, <-done)
			require.Equal(t, map[string]int32{"buffer": 2, "program": 3, "device": 3}[name], f.Buffers.Load())
			require.Equal(t, map[string]int32{"buffer": 1, "program": 0, "device": 1}[name],
				f.Programs.Load())
		})
	}
}
