package dispatch

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/planner"
)

// Calls of many goroutines end well or with ErrClosed while objects and the device
// are closed, and the fake sees no call of what is closed.
func TestCloseMeetsNoCall(t *testing.T) {
	ctx := context.Background()
	batch := small(t)
	for range 10 {
		d, _ := openFake(t)
		p := program(t, d, batch)
		a, b, c := buffer(t, d, 4), buffer(t, d, 4), buffer(t, d, 4)
		host := make([]float32, 4)
		var group sync.WaitGroup
		for name, call := range map[string]func() error{
			"Run":   func() error { return p.Run(ctx, a, b, c) },
			"Time":  func() error { _, err := d.Time(ctx, Run{p, a, b, c}, Run{p, b, a, c}); return err },
			"Wait":  func() error { return d.Wait(ctx) },
			"Write": func() error { return a.Write(ctx, 1, host[:2]) },
			"Read":  func() error { return c.Read(ctx, 0, make([]float32, 4)) },
			"GEMM":  func() error { return d.GEMM(ctx, batch, planner.Options{}, host, host, make([]float32, 4)) },
			"NewBuffer": func() error {
				b, err := d.NewBuffer(3)
				if err != nil {
					return err
				}
				return b.Close()
			},
			"Prepare": func() error {
				made, err := d.Prepare(ctx, p.Plan())
				if err != nil {
					return err
				}
				return made.Close()
			},
		} {
			group.Go(func() {
				for {
					if err := call(); err != nil {
						if !errors.Is(err, ErrClosed) {
							t.Error(name, err)
						}
						return
					}
				}
			})
		}
		for _, o := range []interface{ Close() error }{a, p, d, c} {
			group.Go(func() {
				time.Sleep(time.Millisecond)
				if err := errors.Join(o.Close(), o.Close()); err != nil {
					t.Error(err)
				}
			})
		}
		group.Wait()
	}
}

// Close of a device waits for a call that is under way, of which the fake would tell.
func TestCloseWaitsForCalls(t *testing.T) {
	d, f := openFake(t)
	p := program(t, d, small(t))
	a, b, c := buffer(t, d, 4), buffer(t, d, 4), buffer(t, d, 4)
	began, end := make(chan struct{}), make(chan struct{})
	f.OnSubmit = func() error {
		close(began)
		<-end
		return nil
	}
	ran, closed := make(chan error), make(chan error)
	go func() { ran <- p.Run(context.Background(), a, b, c) }()
	<-began
	go func() { closed <- d.Close() }()
	time.Sleep(10 * time.Millisecond) // so that Close has begun
	close(end)
	require.NoError(t, <-ran)
	require.NoError(t, <-closed)
	require.ErrorIs(t, d.Wait(t.Context()), ErrClosed)
}
