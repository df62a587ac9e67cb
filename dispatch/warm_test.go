package dispatch

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

func TestWarm(t *testing.T) {
	d, f := openFake(t)
	require.Zero(t, d.Warmed().Len())
	_, err := d.Plan(t.Context(), small(t), planner.Options{Kernels: d.Warmed()})
	require.ErrorIs(t, err, ErrInvalid)
	require.ErrorContains(t, err, "no tile: kernels for these options")
	_, err = d.PrepareRagged(t.Context(), experts(), planner.Options{Kernels: d.Warmed()})
	require.ErrorIs(t, err, ErrInvalid)

	var seen []int
	all := 0
	o := WarmOptions{Progress: func(ready, of int) { seen, all = append(seen, ready), of }}
	require.NoError(t, d.Warm(t.Context(), o))
	require.Positive(t, all)
	require.EqualValues(t, all, f.Compiled.Load())
	require.Len(t, seen, all+1, "from none to all")
	for i, ready := range seen {
		require.Equal(t, i, ready)
	}
	warmed := d.Warmed()
	require.Positive(t, warmed.Len())
	plan, err := d.Plan(t.Context(), small(t), planner.Options{Kernels: warmed})
	require.NoError(t, err)
	p, err := d.Prepare(t.Context(), plan)
	require.NoError(t, err)
	larger, err := planner.Pack(planner.GEMM(200, 100, 300))
	require.NoError(t, err)
	require.NoError(t, p.Update(t.Context(), larger))
	_, err = d.PrepareRagged(t.Context(), experts(), planner.Options{Kernels: warmed})
	require.NoError(t, err)
	transposed, err := planner.Pack(planner.Problem{M: 2, N: 2, K: 2, TransA: true})
	require.NoError(t, err)
	require.ErrorContains(t, p.Update(t.Context(), transposed), "no tile: kernels for these options")

	require.NoError(t, d.Warm(t.Context(), WarmOptions{}))
	require.Same(t, warmed, d.Warmed(), "there is no more")
	o = WarmOptions{Plans: []planner.Options{{}, {TypeA: element.BF16}},
		Transpositions: []planner.Transposition{{}, {A: true}}}
	require.NoError(t, d.Warm(t.Context(), o))
	require.Equal(t, 4*warmed.Len(), d.Warmed().Len())
	plan, err = d.Plan(t.Context(), transposed, planner.Options{Kernels: d.Warmed(), TypeA: element.BF16})
	require.NoError(t, err)
	require.NotEmpty(t, plan.Launches)
	require.ErrorIs(t, d.Warm(t.Context(), WarmOptions{Plans: []planner.Options{{Tile: "none"}}}), ErrInvalid)
}

// Warm ends with its context, the device, or a failure, and keeps what is ready.
func TestWarmEnds(t *testing.T) {
	for _, c := range []struct {
		name string
		end  func(d *Device, cancel func()) error // called for the tenth kernel
		want error
	}{
		{"context", func(_ *Device, cancel func()) error { cancel(); return nil }, context.Canceled},
		{"no memory", func(*Device, func()) error { return ErrOutOfMemory }, ErrOutOfMemory},
		{"lost", func(*Device, func()) error { return ErrDeviceLost }, ErrDeviceLost},
		{"closed", func(d *Device, _ func()) error {
			go d.Close()
			for d.open.Err() == nil {
				time.Sleep(time.Millisecond)
			}
			return nil
		}, ErrClosed},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, f := openFake(t)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			f.OnCompile = func() error {
				if f.Compiled.Load() == 10 {
					return c.end(d, cancel)
				}
				return nil
			}
			require.ErrorIs(t, d.Warm(ctx, WarmOptions{}), c.want)
			require.GreaterOrEqual(t, f.Compiled.Load(), int32(10))
			require.Positive(t, d.Warmed().Len(), "tile shapes that were complete")
			if c.want != ErrClosed {
				f.OnCompile = nil
				require.NoError(t, d.Warm(t.Context(), WarmOptions{}))
				return
			}
			require.ErrorIs(t, d.Warm(t.Context(), WarmOptions{}), ErrClosed)
		})
	}
}

// Concurrent calls add to one set, and plans can be made meanwhile.
func TestWarmTogether(t *testing.T) {
	d, _ := openFake(t)
	var group sync.WaitGroup
	errs := make([]error, 4)
	for i := range errs {
		group.Go(func() {
			errs[i] = d.Warm(t.Context(),
				WarmOptions{Transpositions: []planner.Transposition{{A: i&1 != 0, B: i&2 != 0}}})
		})
	}
	for range 20 {
		_, err := d.Plan(t.Context(), small(t), planner.Options{Kernels: d.Warmed()})
		require.True(t, err == nil || errors.Is(err, ErrInvalid))
	}
	group.Wait()
	require.NoError(t, errors.Join(errs...))
	one, _ := openFake(t)
	require.NoError(t, one.Warm(t.Context(), WarmOptions{}))
	require.Equal(t, 4*one.Warmed().Len(), d.Warmed().Len())
}
