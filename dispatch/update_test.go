package dispatch

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/planner"
)

// twice returns small with alpha 2, and one more problem.
func twice(t *testing.T) planner.Batch {
	t.Helper()
	b, err := planner.Pack(planner.GEMM(2, 2, 2), planner.GEMM(1, 2, 2))
	require.NoError(t, err)
	b[0].Alpha = planner.Scale(2)
	return b
}

func read(t *testing.T, b *Buffer) []float32 {
	t.Helper()
	got := make([]float32, b.Len())
	require.NoError(t, Read(t.Context(), b, 0, got))
	return got
}

func TestUpdate(t *testing.T) {
	ctx := t.Context()
	d, _ := openFake(t)
	p := program(t, d, small(t))
	first := p.Plan()
	a, b := buffer(t, d, 8, 1, 2, 3, 4, 5, 6, 7, 8), buffer(t, d, 8, 1, 2, 3, 4, 1, 0, 0, 1)
	before, after := buffer(t, d, 4, 0, 0, 0, 0), buffer(t, d, 6, 0, 0, 0, 0, 0, 0)
	require.NoError(t, p.Run(ctx, Operands{A: a, B: b, C: before}))
	require.NoError(t, p.Update(ctx, twice(t)))
	require.Equal(t, twice(t), p.Plan().Batch)
	require.NotSame(t, first, p.Plan())
	require.Equal(t, small(t), first.Batch, "the caller's plan is as it was")
	require.NoError(t, p.Run(ctx, Operands{A: a, B: b, C: after}))
	require.Equal(t, []float32{7, 10, 15, 22}, read(t, before))
	require.Equal(t, []float32{14, 20, 30, 44, 5, 6}, read(t, after))
	require.ErrorContains(t, p.Run(ctx, Operands{A: a, B: b, C: before}),
		"C has 4 elements, the plan needs 6")
}

func TestUpdateKeepsOptions(t *testing.T) {
	d, _ := openFake(t)
	plan, err := d.Plan(t.Context(), small(t), planner.Options{Tile: "medium", Schedule: planner.ScheduleLPT})
	require.NoError(t, err)
	p, err := d.Prepare(t.Context(), plan)
	require.NoError(t, err)
	for range 3 {
		require.NoError(t, p.Update(t.Context(), twice(t)))
		require.Equal(t, plan.Options, p.Plan().Options)
		require.Equal(t, "medium", p.Plan().Tiles[1].Name)
	}
}

// A failed update leaves the program unchanged.
func TestUpdateFails(t *testing.T) {
	overlapping := twice(t)
	overlapping[1].C = overlapping[0].C
	for name, c := range map[string]struct {
		update func(ctx context.Context, p *Program) error
		want   error
	}{
		"bad batch": {func(ctx context.Context, p *Program) error {
			return p.Update(ctx, overlapping)
		}, ErrInvalid},
		"refused": {func(ctx context.Context, p *Program) error {
			return p.Update(ctx, twice(t))
		}, errBroken},
		"cancelled": {func(ctx context.Context, p *Program) error {
			ctx, cancel := context.WithCancel(ctx)
			cancel()
			return p.Update(ctx, twice(t))
		}, context.Canceled},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			d, f := openFake(t)
			p := program(t, d, small(t))
			require.NoError(t, p.Update(ctx, small(t)))
			plan := p.Plan()
			if name == "refused" {
				f.OnUpdate = func() error { return errBroken }
			}
			require.ErrorIs(t, c.update(ctx, p), c.want)
			require.Same(t, plan, p.Plan())
			require.Equal(t, small(t), plan.Batch)
			x, y := buffer(t, d, 4, 1, 2, 3, 4), buffer(t, d, 4, 0, 0, 0, 0)
			require.NoError(t, p.Run(ctx, Operands{A: x, B: x, C: y}))
			require.Equal(t, []float32{7, 10, 15, 22}, read(t, y))
		})
	}
	d, _ := openFake(t)
	p := program(t, d, small(t))
	require.NoError(t, p.Close())
	require.ErrorIs(t, p.Update(t.Context(), small(t)), ErrClosed)
}

// Concurrent runs and updates of one program: each run is of one batch, and its buffers were checked for
// that batch.
func TestUpdateConcurrently(t *testing.T) {
	ctx := t.Context()
	d, _ := openFake(t)
	p := program(t, d, small(t))
	var group sync.WaitGroup
	for g := range 4 {
		group.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(g), 0))
			for range 100 {
				if err := p.Update(ctx, [...]planner.Batch{small(t), twice(t)}[rng.IntN(2)]); err != nil {
					t.Error(err)
				}
			}
		})
		a, b, c := buffer(t, d, 8, 1, 2, 3, 4, 5, 6, 7, 8), buffer(t, d, 8, 1, 2, 3, 4, 1, 0, 0, 1),
			buffer(t, d, 4)
		group.Go(func() {
			for range 100 {
				_ = p.Run(ctx, Operands{A: a, B: b, C: c}) // too short for the larger batch
				_ = p.Plan()                               // not read, because updates continue
			}
		})
	}
	group.Wait()
	require.NoError(t, d.Wait(ctx))
}
