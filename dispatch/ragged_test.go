package dispatch

import (
	"context"
	"math"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

// experts returns a layer of three experts with up to 4 rows together, each 2 x 2.
func experts() planner.Ragged {
	return planner.Ragged{Form: planner.EndsOfRows, Groups: 3, M: 4, N: 2, K: 2,
		A: planner.Matrix{LD: 2}, B: planner.Matrix{LD: 2}, C: planner.Matrix{LD: 2}, StrideB: 4}
}

// layer is a program of experts, with rows 1 2, 3 4, 5 6, 7 8 and the matrices 1, 10 and 100.
type layer struct {
	*Program
	sizes, a, b, c *Buffer
}

func newLayer(t *testing.T, d *Device) *layer {
	t.Helper()
	p, err := d.PrepareRagged(t.Context(), experts(), planner.Options{})
	require.NoError(t, err)
	return &layer{p, buffer(t, d, 3), buffer(t, d, 8, 1, 2, 3, 4, 5, 6, 7, 8),
		buffer(t, d, 12, 1, 0, 0, 1, 10, 0, 0, 10, 100, 0, 0, 100), buffer(t, d, 8, 0, 0, 0, 0, 0, 0, 0, 0)}
}

func (l *layer) run(t *testing.T, ends ...int32) error {
	t.Helper()
	require.NoError(t, Write(t.Context(), l.sizes, 0, ends))
	return l.Run(t.Context(), Operands{A: l.a, B: l.b, C: l.c, Sizes: l.sizes})
}

func TestRagged(t *testing.T) {
	ctx := t.Context()
	d, _ := openFake(t)
	l := newLayer(t, d)
	require.Equal(t, experts(), *l.Plan().Ragged)
	require.NoError(t, l.run(t, 1, 1, 3))
	require.Equal(t, []float32{1, 2, 300, 400, 500, 600, 0, 0}, read(t, l.c))
	require.NoError(t, l.Status(ctx))

	require.NoError(t, l.run(t, 1, 4, 3), "told by Status alone")
	require.NoError(t, l.run(t, 2, 5, 4))
	require.NoError(t, l.run(t, -1, 0, 4))
	err := l.Status(ctx)
	require.EqualError(t, err, "problem 2: sizes do not fit what the program was prepared for; it and the "+
		"groups after it were not computed")
	require.ErrorIs(t, err, ErrInvalid)
	var problem *planner.ProblemError
	require.ErrorAs(t, err, &problem)
	require.Equal(t, 2, problem.Index)
	require.NoError(t, l.Status(ctx), "told once")
	require.Equal(t, []float32{1, 2, 3, 4, 50, 60, 70, 80}, read(t, l.c), "the last run computed nothing")

	timing, err := d.Time(ctx, Run{Program: l.Program,
		Operands: Operands{A: l.a, B: l.b, C: l.c, Sizes: l.sizes}})
	require.NoError(t, err)
	require.Positive(t, timing.Device)
	require.Error(t, l.Status(ctx))
	plain := program(t, d, small(t))
	require.NoError(t, plain.Status(ctx), "not ragged")
}

// A buffer holds words of int32 and of float32.
func TestInt32(t *testing.T) {
	ctx := t.Context()
	d, _ := openFake(t)
	b := buffer(t, d, 5, 1, 1, 1, 1, 1)
	want := []int32{math.MinInt32, -1, 0x7fa00001} // the last two are NaN
	require.NoError(t, Write(ctx, b, 1, want))
	got := make([]int32, 5)
	require.NoError(t, Read(ctx, b, 0, got))
	require.Equal(t, append(append([]int32{0x3f800000}, want...), 0x3f800000), got)
	require.NoError(t, Write(ctx, b, 5, []float32(nil)))
	require.NoError(t, Read(ctx, b, 5, []float32(nil)))
	require.EqualError(t, Write(ctx, b, 3, want), "write: 3 elements from 3 on, in a buffer of 5")
	require.EqualError(t, Read(ctx, b, -1, got), "read: 5 elements from -1 on, in a buffer of 5")
	require.NoError(t, b.Close())
	require.ErrorIs(t, Read(ctx, b, 0, got), ErrClosed)
}

func TestRaggedRefuses(t *testing.T) {
	ctx := t.Context()
	d, f := openFake(t)
	other, _ := openFake(t)
	l, plain := newLayer(t, d), program(t, d, small(t))
	gone := buffer(t, d, 3)
	require.NoError(t, gone.Close())
	one := func(_ any, err error) error { return err }
	closed := newLayer(t, d)
	require.NoError(t, closed.Close())
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	bad := experts()
	bad.C.LD = 1
	for name, c := range map[string]struct {
		err  error
		want string
		is   error
	}{
		"Run": {l.Run(ctx, Operands{A: l.a, B: l.b, C: l.c}),
			"run 0: Sizes is nil: the program is ragged, its sizes are on the device", ErrInvalid},
		"no sizes": {l.Run(ctx, Operands{A: l.a, B: l.b, C: l.c, Sizes: nil}),
			"run 0: Sizes is nil: the program is ragged, its sizes are on the device", ErrInvalid},
		"not ragged": {plain.Run(ctx, Operands{A: l.a, B: l.b, C: l.c, Sizes: l.sizes}),
			"run 0: Sizes is not nil: the program is not ragged, its plan has the sizes", ErrInvalid},
		"short sizes": {l.Run(ctx, Operands{A: l.a, B: l.b, C: l.c, Sizes: buffer(t, d, 2)}),
			"run 0: Sizes has 2 elements, the plan needs 3", ErrInvalid},
		"closed sizes": {l.Run(ctx, Operands{A: l.a, B: l.b, C: l.c, Sizes: gone}), "run 0: Sizes: closed",
			ErrClosed},
		"foreign sizes": {l.Run(ctx, Operands{A: l.a, B: l.b, C: l.c, Sizes: buffer(t, other, 3)}),
			"run 0: Sizes: belongs to another device", ErrInvalid},
		"C is sizes": {l.Run(ctx, Operands{A: l.a, B: l.b, C: l.c, Sizes: l.c}),
			"run 0: buffer C is also Sizes",
			ErrInvalid},
		"short B": {l.Run(ctx, Operands{A: l.a, B: l.a, C: l.c, Sizes: l.sizes}),
			"run 0: B has 8 elements, the plan needs 12", ErrInvalid},
		"no A": {l.Run(ctx, Operands{A: nil, B: l.b, C: l.c, Sizes: l.sizes}), "run 0: A is nil", ErrInvalid},
		"Time": {one(d.Time(ctx, runOf(l.Program, l.a, l.b, l.c))),
			"run 0: Sizes is nil: the program is ragged, its sizes are on the device", ErrInvalid},
		"Update": {l.Update(ctx, small(t)), "update: the program's sizes are on the device",
			ErrInvalid},
		"closed": {closed.Run(ctx, Operands{A: l.a, B: l.b, C: l.c, Sizes: l.sizes}),
			"run 0: program: closed",
			ErrClosed},
		"Status of closed": {closed.Status(ctx), "closed", ErrClosed},
		"Status cancelled": {l.Status(cancelled), "context canceled", context.Canceled},
		"cancelled": {one(d.PrepareRagged(cancelled, experts(), planner.Options{})),
			"context canceled", context.Canceled},
		"description": {one(d.PrepareRagged(ctx, bad, planner.Options{})),
			"ragged batch: problem 0: ldc 1 < row length 2", ErrInvalid},
		"schedule": {
			one(d.PrepareRagged(ctx, experts(), planner.Options{Schedule: planner.ScheduleLPT})),
			"ragged batch: a forced schedule or rule needs sizes that the host knows",
			ErrInvalid},
		"tile": {one(d.PrepareRagged(ctx, experts(), planner.Options{Tile: "huge"})),
			"", ErrInvalid},
		"also A: no mistake": {l.Run(ctx, Operands{A: l.a, B: l.b, C: l.c, Sizes: l.b}), "", nil},
	} {
		require.ErrorIs(t, c.err, c.is, name)
		if c.want != "" {
			require.EqualError(t, c.err, c.want, name)
		}
	}
	require.Error(t, l.Status(ctx), "floats are no sizes")
	f.OnStatus = func() error { return errBroken }
	require.ErrorIs(t, l.Status(ctx), errBroken)
	f.OnStatus = nil
	require.NoError(t, l.run(t, 0, 0, 1), "the program works on")
	require.Equal(t, []float32{100, 200}, read(t, l.c)[:2])
	require.NoError(t, d.Close())
	require.ErrorIs(t, l.Status(ctx), ErrClosed)
}

// A call of Status waits for another one, or for its context.
func TestStatusWaits(t *testing.T) {
	d, f := openFake(t)
	l := newLayer(t, d)
	waiting, cancel := context.WithCancel(t.Context())
	f.OnStatus = func() error {
		f.OnStatus = nil
		cancel()
		return l.Status(waiting)
	}
	require.ErrorIs(t, l.Status(t.Context()), context.Canceled)
	require.NoError(t, l.Status(t.Context()))
}

// Concurrent runs, updates of other programs, and calls of Status.
func TestRaggedConcurrently(t *testing.T) {
	ctx := t.Context()
	d, _ := openFake(t)
	l, other := newLayer(t, d), program(t, d, small(t))
	var group sync.WaitGroup
	for g := range 3 {
		sizes, c := buffer(t, d, 3), buffer(t, d, 8, 0, 0, 0, 0, 0, 0, 0, 0)
		require.NoError(t, Write(ctx, sizes, 0, []int32{int32(g), int32(g), 4}))
		group.Go(func() {
			for range 50 {
				if err := l.Run(ctx, Operands{A: l.a, B: l.b, C: c, Sizes: sizes}); err != nil {
					t.Error(err)
				}
				if err := l.Status(ctx); err != nil {
					t.Error(err)
				}
				if err := other.Update(ctx, twice(t)); err != nil {
					t.Error(err)
				}
			}
			want := []float32{1, 2, 3, 4, 5, 6, 7, 8}
			for i := range want {
				if i >= 2*g {
					want[i] *= 100
				}
			}
			got := make([]float32, 8)
			if err := Read(ctx, c, 0, got); err != nil {
				t.Error(err)
			}
			if !slices.Equal(want, got) {
				t.Error(got)
			}
		})
	}
	group.Wait()
}

// Sizes may be in memory of another library.
func TestRaggedWrapped(t *testing.T) {
	d, _ := openSharing(t)
	stream, err := d.OnStream(7)
	require.NoError(t, err)
	l := newLayer(t, stream)
	l.sizes, err = stream.Wrap(element.F32, 64, 3)
	require.NoError(t, err)
	require.NoError(t, l.run(t, 0, 2, 2))
	require.Equal(t, []float32{10, 20, 30, 40, 0, 0, 0, 0}, read(t, l.c))
	require.NoError(t, stream.Close())
	require.NoError(t, d.Close())
}

//go:noinline
func useLayer(t *testing.T, d *Device) {
	require.NoError(t, newLayer(t, d).run(t, 1, 2, 3))
}

func TestDroppedRagged(t *testing.T) {
	d, f := openFake(t)
	log := captureLog(t)
	useLayer(t, d)
	collect(t, func() bool { return f.Buffers.Load() == 0 && f.Programs.Load() == 0 })
	require.Equal(t, 1, log.count("object=program size=3"), "groups")
	require.Equal(t, 4, log.count("object=buffer"))
}
