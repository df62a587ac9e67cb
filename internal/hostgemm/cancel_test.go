package hostgemm

import (
	"context"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/fakedriver"
	"github.com/batchgemm/batchgemm/internal/sample"
	"github.com/batchgemm/batchgemm/planner"
)

// cutoff is a context that ends at the n-th look at it.
type cutoff struct {
	context.Context
	cancel context.CancelFunc
	left   atomic.Int64
}

func newCutoff(n int) *cutoff {
	c := new(cutoff)
	c.Context, c.cancel = context.WithCancel(context.Background())
	c.left.Store(int64(n))
	return c
}

func (c *cutoff) look() {
	if c.left.Add(-1) < 0 {
		c.cancel()
	}
}

func (c *cutoff) Err() error {
	c.look()
	return c.Context.Err()
}

func (c *cutoff) Done() <-chan struct{} {
	c.look()
	return c.Context.Done()
}

// looks counts how often a call looks at its context.
func looks(t *testing.T, call func(context.Context) error) int {
	t.Helper()
	const many = 1 << 30
	ctx := newCutoff(many)
	defer ctx.cancel()
	require.NoError(t, call(ctx))
	return many - int(ctx.left.Load())
}

// The context ends at the first look at it, then at the second and so on. GEMM always returns the context's
// error or the whole result, and leaves nothing open.
func TestGEMMCancelledAtEveryLook(t *testing.T) {
	for _, c := range []struct {
		name    string
		devices int
		job     job
	}{
		{"small", 1, random(t, 1, 10, 40)},
		{"in parts", 1, parts(t)},
		{"two devices", 2, random(t, 1, 60, 90)},
	} {
		t.Run(c.name, func(t *testing.T) {
			sample.Calls.Whole(t)
			g, fakes := openGroup(t, c.devices)
			require.NoError(t, c.job.gemm(t.Context(), g))
			programs, buffers := fakedriver.Held(fakes)
			if int(programs) > c.devices { // parts go to whichever lane is free
				lanes := min(maxLanes, max(1, runtime.GOMAXPROCS(0)/c.devices))
				buffers = int32(3 * lanes * c.devices)
			}
			cancelled := 0
			for n := 0; ; n++ {
				require.Less(t, n, 1000, "it never ends")
				g, fakes := openGroup(t, c.devices)
				ctx := newCutoff(n)
				err := c.job.gemm(ctx, g)
				ctx.cancel()
				if err == nil && ctx.left.Load() >= 0 {
					break // it was never cancelled
				}
				if err != nil {
					require.ErrorIs(t, err, context.Canceled, n)
					require.NotContains(t, err.Error(), "C changed", n)
					cancelled++
				}
				require.NoError(t, c.job.gemm(t.Context(), g), "%d: the devices work on", n)
				p, b := fakedriver.Held(fakes)
				require.Equal(t, programs, p, n)
				require.LessOrEqual(t, b, buffers, n)
			}
			require.Greater(t, cancelled, 5)
		})
	}
}

// A batch of many problems looks at the context many times before anything is computed.
func TestGEMMLooksWhilePacking(t *testing.T) {
	sample.Calls.Whole(t)
	const n = 20 * lookEvery
	batch, err := planner.Pack(slices.Repeat([]planner.Problem{planner.GEMM(1, 1, 1)}, n)...)
	require.NoError(t, err)
	for name, call := range map[string]func(context.Context) error{
		"cut": func(ctx context.Context) error {
			_, err := cut(ctx, batch, &bare, everything(batch))
			return err
		},
		"deal": func(ctx context.Context) error {
			g, _ := openGroup(t, 2)
			_, err := g.deal(ctx, batch, &bare)
			return err
		},
	} {
		at := looks(t, call)
		require.Greater(t, at, 20, name)
		ctx := newCutoff(at - 1)
		require.ErrorIs(t, call(ctx), context.Canceled, "%s: the last look counts", name)
	}
}

// Once the first result is in c, all follow: a context that ends then has no effect.
func TestResultsAreWrittenWhole(t *testing.T) {
	if testing.Short() {
		t.Skip("200 MB of results")
	}
	const side, n = 1024, 24
	batch, err := planner.Pack(slices.Repeat([]planner.Problem{planner.GEMM(side, side, 1)}, n)...)
	require.NoError(t, err)
	a := slices.Repeat([]float32{1}, side*n)
	d, f := openHost(t)
	for try := range 3 {
		c := make([]float32, side*side*n)
		ctx, cancel := context.WithCancel(t.Context())
		var over atomic.Bool
		go func() {
			waitForChange(c, &over)
			cancel()
		}()
		err := d.GEMM(ctx, batch, planner.Options{}, Operands{A: a, B: a, C: c})
		over.Store(true)
		wrong := 0
		for _, v := range c {
			if v != 1 {
				wrong++
			}
		}
		require.Zero(t, wrong, "try %d: %v", try, err)
		require.NoError(t, err)
	}
	require.Greater(t, int(f.Prepared.Load()), 10, "in parts, which lanes write")
}

// waitForChange returns when an element of any part of c is no longer 0. It races with the writers of c, and
// only reads.
//
//go:norace
func waitForChange(c []float32, over *atomic.Bool) {
	for !over.Load() {
		for i := 0; i < len(c); i += 1 << 18 {
			if c[i] != 0 {
				return
			}
		}
	}
}

// However a call ends, the hosts of a group are free after it.
func TestGroupGEMMLetsGo(t *testing.T) {
	fail := func() error { return errBroken }
	for name, prepare := range map[string]func(t *testing.T, g *Group, fakes []*fakedriver.Device,
		k *job) context.Context{
		"success": func(t *testing.T, _ *Group, _ []*fakedriver.Device, _ *job) context.Context {
			return t.Context()
		},
		"one device": func(t *testing.T, _ *Group, _ []*fakedriver.Device, k *job) context.Context {
			*k = random(t, 1, 3, 20)
			return t.Context()
		},
		"bad batch": func(t *testing.T, _ *Group, _ []*fakedriver.Device, k *job) context.Context {
			k.batch[7].M = -1
			return t.Context()
		},
		"cancelled": func(*testing.T, *Group, []*fakedriver.Device, *job) context.Context {
			return newCutoff(0)
		},
		"later": func(*testing.T, *Group, []*fakedriver.Device, *job) context.Context {
			return newCutoff(8)
		},
		"prepare": func(t *testing.T, _ *Group, fakes []*fakedriver.Device, _ *job) context.Context {
			fakes[1].OnPrepare = fail
			return t.Context()
		},
		"submit": func(t *testing.T, _ *Group, fakes []*fakedriver.Device, _ *job) context.Context {
			fakes[1].OnSubmit = fail
			return t.Context()
		},
	} {
		t.Run(name, func(t *testing.T) {
			g, fakes := openGroup(t, 2)
			k := random(t, 1, 60, 90)
			err := k.gemm(prepare(t, g, fakes, &k), g)
			require.Equal(t, name == "success" || name == "one device", err == nil, "%v", err)
			require.Empty(t, g.turn)
			for i, h := range g.hosts {
				require.Empty(t, h.turn, i)
			}
		})
	}
}

// A GEMM that waits for the device, to upload or for its results, ends with its context, and the device's
// work continues.
func TestGEMMCancelledAtWork(t *testing.T) {
	for _, name := range []string{"upload", "read"} {
		t.Run(name, func(t *testing.T) {
			d, f := openHost(t)
			const side = 512
			batch, err := planner.Pack(planner.GEMM(side, side, side))
			require.NoError(t, err)
			plan, err := d.planner.Plan(t.Context(), batch, planner.Options{})
			require.NoError(t, err)
			var long driver.Run
			long.Program, err = f.Prepare(t.Context(), plan)
			require.NoError(t, err)
			for _, b := range []*driver.Buffer{&long.A, &long.B, &long.C} {
				*b, err = f.Alloc(side * side)
				require.NoError(t, err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			occupy := func() error { // for seconds, for which Close does not wait
				f.OnSubmit = nil
				time.AfterFunc(10*time.Millisecond, cancel)
				return f.Submit(t.Context(), slices.Repeat([]driver.Run{long}, 1000))
			}
			if name == "upload" {
				require.NoError(t, occupy())
			} else {
				f.OnSubmit = occupy
			}
			a, c := []float32{1, 2, 3, 4}, []float32{5, 6, 7, 8}
			require.ErrorIs(t, d.GEMM(ctx, small(t), planner.Options{}, Operands{A: a, B: a, C: c}),
				context.Canceled)
			require.Equal(t, []float32{5, 6, 7, 8}, c)
			short, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			defer cancel()
			require.ErrorIs(t, f.Wait(short), context.DeadlineExceeded, "the device is still at work")
		})
	}
}
