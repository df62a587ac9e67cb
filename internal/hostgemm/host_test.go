package hostgemm

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/reference"
	"github.com/batchgemm/batchgemm/planner"
)

// spaced returns random problems with gaps after the rows and matrices of C,
// and their operands.
func spaced(t *testing.T, seed uint64) (batch planner.Batch, a, b, c []float32) {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 0))
	problems := make([]planner.Problem, 12)
	for i := range problems {
		p := planner.GEMM(rng.IntN(40), rng.IntN(40), rng.IntN(40))
		p.TransA, p.TransB = rng.IntN(2) == 1, rng.IntN(2) == 1
		p.Beta = [...]float64{0, 1, -0.5}[i%3]
		problems[i] = p
	}
	batch, err := planner.Pack(problems...)
	require.NoError(t, err)
	need := batch.Lengths(planner.Epilogue{})
	end := 3
	for i := range batch {
		p := &batch[i]
		p.C = planner.Matrix{Offset: end, LD: p.N + 2}
		end += p.M*p.C.LD + 5
	}
	a, b, c = make([]float32, need.A), make([]float32, need.B), make([]float32, end)
	for _, s := range [][]float32{a, b, c} {
		reference.Uniform(rng, s)
	}
	return batch, a, b, c
}

func TestGEMM(t *testing.T) {
	ctx := context.Background()
	d, f := openHost(t)
	for range 2 { // the second round finds the plans
		for seed := range uint64(5) {
			batch, a, b, c := spaced(t, seed)
			before := slices.Clone(c)
			require.NoError(t, d.GEMM(ctx, batch, planner.Options{}, Operands{A: a, B: b, C: c}))
			_, err := reference.Check(batch, a, b, before, c)
			require.NoError(t, err)
		}
	}
	require.EqualValues(t, 5, f.Prepared.Load())
	require.EqualValues(t, 3, f.Buffers.Load())
}

func TestGEMMEmpty(t *testing.T) {
	nan := float32(math.NaN())
	d, _ := openHost(t)
	for name, batch := range map[string]planner.Batch{
		"no batch":      nil,
		"no elements":   {planner.GEMM(0, 0, 0), {M: 3, K: 3, A: planner.Matrix{LD: 3}}},
		"C stays as is": {{M: 1, N: 2, B: planner.Matrix{LD: 2}, C: planner.Matrix{LD: 2}, Beta: 1}},
	} {
		c := []float32{nan, 5}
		require.NoError(t, d.GEMM(context.Background(), batch, planner.Options{}, Operands{C: c}), name)
		require.True(t, math.IsNaN(float64(c[0])), name)
		require.EqualValues(t, 5, c[1], name)
	}
	c := []float32{nan, 5}
	clear := planner.Batch{{M: 1, N: 2, B: planner.Matrix{LD: 2}, C: planner.Matrix{LD: 2}}}
	require.NoError(t, d.GEMM(context.Background(), clear, planner.Options{}, Operands{C: c}))
	require.Equal(t, []float32{0, 0}, c, "beta = 0 clears C without reading it")
}

func TestGEMMRefuses(t *testing.T) {
	ctx := context.Background()
	d, _ := openHost(t)
	good := small(t)
	full := []float32{1, 2, 3, 4}
	require.NoError(t, d.GEMM(ctx, good, planner.Options{},
		Operands{A: full, B: full, C: make([]float32, 4)}))
	badLD := slices.Clone(good)
	badLD[0].A.LD = 1
	overlap := append(slices.Clone(good), good[0])
	for name, call := range map[string]struct {
		batch   planner.Batch
		a, b, c []float32
		failure string
	}{
		"ld":      {badLD, full, full, full, "problem 0: lda 1 < row length 2"},
		"overlap": {overlap, full, full, full, "problem 1: C overlaps C of problem 0"},
		"short A": {good, full[:3], full, full, "problem 0: A needs elements [0, 4) of a buffer of 3"},
		"short B": {good, full, nil, full, "problem 0: B needs elements [0, 4) of a buffer of 0"},
		"short C": {good, full, full, full[:2], "problem 0: C needs elements [0, 4) of a buffer of 2"},
	} {
		c := slices.Clone(call.c)
		err := d.GEMM(ctx, call.batch, planner.Options{}, Operands{A: call.a, B: call.b, C: c})
		require.EqualError(t, err, call.failure, name)
		var problem *planner.ProblemError
		require.ErrorAs(t, err, &problem, name)
		require.Equal(t, call.c, c, name)
	}
}

func TestGEMMUploadsCOnlyForBeta(t *testing.T) {
	ctx := context.Background()
	d, f := openHost(t)
	batch := small(t)
	a, c := []float32{1, 2, 3, 4}, []float32{1, 1, 1, 1}
	require.NoError(t, d.GEMM(ctx, batch, planner.Options{}, Operands{A: a, B: a, C: c}))
	require.EqualValues(t, 2, f.Writes.Load())
	require.Equal(t, []float32{7, 10, 15, 22}, c)
	batch[0].Beta = -1
	require.NoError(t, d.GEMM(ctx, batch, planner.Options{}, Operands{A: a, B: a, C: c}))
	require.EqualValues(t, 5, f.Writes.Load())
	require.Equal(t, []float32{0, 0, 0, 0}, c)
}

func TestGEMMFailureLeavesC(t *testing.T) {
	a, c := []float32{1, 2, 3, 4}, []float32{5, 6, 7, 8}
	for _, name := range []string{"submit", "read", "cancel before", "cancel in submit", "cancel in read"} {
		t.Run(name, func(t *testing.T) {
			d, f := openHost(t)
			batch := small(t)
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			want := errBroken
			fail := func() error { return errBroken }
			switch name {
			case "submit":
				f.OnSubmit = fail
			case "read":
				f.OnRead = fail
			case "cancel before":
				cancel()
				want = context.Canceled
			case "cancel in submit": // the cpu backend stops before its first worker
				f.OnSubmit = func() error { cancel(); return nil }
				want = context.Canceled
			case "cancel in read":
				f.OnRead = func() error { cancel(); return ctx.Err() }
				want = context.Canceled
			}
			got := slices.Clone(c)
			require.ErrorIs(t, d.GEMM(ctx, batch, planner.Options{}, Operands{A: a, B: a, C: got}), want)
			require.Equal(t, c, got)
			f.OnSubmit, f.OnRead = nil, nil
			require.NoError(t, d.GEMM(context.Background(), batch, planner.Options{},
				Operands{A: a, B: a, C: got}))
			require.Equal(t, []float32{7, 10, 15, 22}, got, "the device works on")
		})
	}
}

func TestGEMMRemembersTheLastBatches(t *testing.T) {
	ctx := context.Background()
	d, f := openHost(t)
	batch := small(t)
	a, c := []float32{1, 2, 3, 4}, make([]float32, 4)
	run := func(alpha int) {
		batch[0].Alpha = planner.Scale(float64(alpha))
		require.NoError(t, d.GEMM(ctx, batch, planner.Options{}, Operands{A: a, B: a, C: c}))
		require.Equal(t, float32(7*alpha), c[0])
	}
	for alpha := 1; alpha <= maxPrograms+1; alpha++ {
		run(alpha)
		run(1) // stays the second most recent
	}
	require.EqualValues(t, 1, f.Updated.Load(), "the least recent has become another")
	run(3)
	require.EqualValues(t, 1, f.Updated.Load())
	run(2)
	require.EqualValues(t, 2, f.Updated.Load())
	require.EqualValues(t, maxPrograms, f.Prepared.Load())
	require.EqualValues(t, maxPrograms, f.Programs.Load())
}

// A buffer with exactly the needed length is reused.
func TestGEMMKeepsBuffers(t *testing.T) {
	d, f := openHost(t)
	allocated := 0
	f.OnAlloc = func() error { allocated++; return nil }
	for _, side := range []int{64, 64, 16, 64} { // of 4096 elements
		batch, err := planner.Pack(planner.GEMM(side, side, side))
		require.NoError(t, err)
		a, c := make([]float32, side*side), make([]float32, side*side)
		require.NoError(t, d.GEMM(t.Context(), batch, planner.Options{}, Operands{A: a, B: a, C: c}))
		require.Equal(t, 3, allocated)
	}
	require.EqualValues(t, 3*4096, f.Allocated.Load())
}

func TestGEMMFreesLargeBuffers(t *testing.T) {
	ctx := context.Background()
	d, f := openHost(t)
	batch, err := planner.Pack(planner.GEMM(1, 1, maxKept+1))
	require.NoError(t, err)
	a, c := make([]float32, maxKept+1), make([]float32, 1)
	a[maxKept] = 3
	require.NoError(t, d.GEMM(ctx, batch, planner.Options{}, Operands{A: a, B: a, C: c}))
	require.Equal(t, []float32{9}, c)
	require.EqualValues(t, 1, f.Buffers.Load(), "only C is kept")
}

func TestGEMMConcurrent(t *testing.T) {
	ctx := context.Background()
	d, _ := openHost(t)
	var group sync.WaitGroup
	errs := make([]error, 4)
	for g := range errs {
		batch, a, b, c := spaced(t, uint64(g%3)) // two share a batch
		group.Go(func() {
			for range 5 {
				before := slices.Clone(c)
				if errs[g] = d.GEMM(ctx, batch, planner.Options{},
					Operands{A: a, B: b, C: c}); errs[g] != nil {
					return
				}
				if _, errs[g] = reference.Check(batch, a, b, before, c); errs[g] != nil {
					return
				}
			}
		})
	}
	group.Wait()
	for _, err := range errs {
		require.NoError(t, err)
	}
}

// TestGEMMWaitingCanBeCancelled cancels a waiting call.
func TestGEMMWaitingCanBeCancelled(t *testing.T) {
	d, f := openHost(t)
	batch := small(t)
	a := []float32{1, 2, 3, 4}
	entered, leave, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	f.OnSubmit = func() error { close(entered); <-leave; return nil }
	go func() {
		done <- d.GEMM(context.Background(), batch, planner.Options{},
			Operands{A: a, B: a, C: make([]float32, 4)})
	}()
	<-entered
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	c := []float32{5, 6, 7, 8}
	require.ErrorIs(t, d.GEMM(ctx, batch, planner.Options{}, Operands{A: a, B: a, C: c}), context.Canceled)
	require.Equal(t, []float32{5, 6, 7, 8}, c)
	close(leave)
	require.NoError(t, <-done)
}

// endsAfter is a context that ends after a number of looks.
type endsAfter struct {
	context.Context
	asked int
}

func (c *endsAfter) Err() error {
	if c.asked--; c.asked < 0 {
		return context.Canceled
	}
	return nil
}

// Checking a batch of many problems takes long, and can be cancelled.
func TestGEMMCheckCanBeCancelled(t *testing.T) {
	d, f := openHost(t)
	const n = 20_000
	batch := make(planner.Batch, n)
	for i := range batch {
		batch[i] = planner.Problem{M: 1, N: 1, B: planner.Matrix{LD: 1}, C: planner.Matrix{Offset: i, LD: 1}}
	}
	c := []float32{n - 1: 1}
	require.ErrorIs(t, d.GEMM(&endsAfter{t.Context(), 1}, batch, planner.Options{}, Operands{C: c}),
		context.Canceled)
	require.EqualValues(t, 0, f.Prepared.Load())
	require.EqualValues(t, 1, c[n-1])
	require.NoError(t, d.GEMM(t.Context(), batch, planner.Options{}, Operands{C: c}))
	require.Equal(t, make([]float32, n), c)
}
