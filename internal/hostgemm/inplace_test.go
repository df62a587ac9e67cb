package hostgemm

import (
	"context"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/cpu"
	"github.com/batchgemm/batchgemm/internal/reference"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

func openCPU(t testing.TB) *Host {
	t.Helper()
	d, err := cpu.Driver().Open(context.Background(), 0)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	info := d.Info()
	return New(d, planner.New(&info.Planner))
}

// held reports whether the host has buffers of its own.
func (h *Host) held() bool {
	for l := range h.lanes {
		for _, b := range h.lanes[l].buffers {
			if b != nil {
				return true
			}
		}
	}
	return false
}

func TestInPlace(t *testing.T) {
	h := openCPU(t)
	for range 2 { // the second round finds the plans
		for seed := range uint64(5) {
			batch, a, b, c := spaced(t, seed)
			before := slices.Clone(c)
			require.NoError(t, h.GEMM(t.Context(), batch, planner.Options{}, Operands{A: a, B: b, C: c}))
			_, err := reference.Check(batch, a, b, before, c)
			require.NoError(t, err)
		}
	}
	require.Len(t, h.session.entries, 5)
	require.False(t, h.held())
}

// Operands in one array are used where they are if no problem reads what another one writes. Others are
// copied, as if all were read before.
func TestInPlaceInOneArray(t *testing.T) {
	const n = 24
	for _, c := range []struct {
		name    string
		c       [2]int // first elements; A of both is at 0 and at n*n, B at 2*n*n
		inPlace bool
	}{
		{"apart", [2]int{3 * n * n, 4 * n * n}, true},
		{"over A", [2]int{0, 4 * n * n}, false},
		{"over the end of A", [2]int{2*n*n - 1 - n*n, 4 * n * n}, false},
		{"over B", [2]int{4 * n * n, 2 * n * n}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := openCPU(t)
			var batch planner.Batch
			for i := range 2 {
				batch = append(batch, planner.Problem{M: n, N: n, K: n, Beta: 1, A: operand(i*n*n, n),
					B: operand(2*n*n, n), C: operand(c.c[i], n)})
			}
			array := make([]float32, 5*n*n)
			reference.Uniform(rand.New(rand.NewPCG(1, 1)), array)
			for range 2 {
				before := slices.Clone(array)
				require.NoError(t, h.GEMM(t.Context(), batch, planner.Options{},
					Operands{A: array, B: array, C: array}))
				_, err := reference.Check(batch, before, before, before, array)
				require.NoError(t, err)
				require.Equal(t, c.inPlace, h.session.entries[0].inPlace)
				require.Equal(t, !c.inPlace, h.held())
			}
			n, half := 2*len(array), element.BF16
			o := planner.Options{TypeA: half, TypeB: half, TypeC: half}
			could, err := h.InPlace(t.Context(), batch, o, Operands{A: array, B: array, C: array},
				planner.Lengths{A: n, B: n, C: n})
			require.NoError(t, err)
			require.Equal(t, c.inPlace, could)
			// The same batch in other memory shares nothing.
			apart := slices.Clone(array)
			require.NoError(t, h.GEMM(t.Context(), batch, planner.Options{},
				Operands{A: array, B: array, C: apart}))
			require.True(t, h.session.entries[0].inPlace)
		})
	}
}

func TestInPlaceAllocatesNothing(t *testing.T) {
	h := openCPU(t)
	const side = 512
	batch, err := planner.Pack(planner.GEMM(side, side, side), planner.GEMM(side, side, side))
	require.NoError(t, err)
	need := batch.Lengths(bare)
	x := Operands{A: make([]float32, need.A), B: make([]float32, need.B), C: make([]float32, need.C)}
	run := func() {
		if err := h.GEMM(context.Background(), batch, planner.Options{}, x); err != nil {
			t.Error(err)
		}
	}
	run()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	require.LessOrEqual(t, testing.AllocsPerRun(10, run), 10.0)
	runtime.ReadMemStats(&after)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(64<<10))
	require.False(t, h.held())
}

// When a call that computes in place ends with its context, nothing touches the memory any more, and the
// device works on.
func TestInPlaceCancelled(t *testing.T) {
	h := openCPU(t)
	const side, n = 256, 60
	batch, err := planner.Pack(slices.Repeat([]planner.Problem{planner.GEMM(side, side, side)}, n)...)
	require.NoError(t, err)
	need := batch.Lengths(bare)
	a, b := slices.Repeat([]float32{1}, need.A), slices.Repeat([]float32{1}, need.B)
	c := make([]float32, need.C)
	for _, wait := range []time.Duration{0, time.Millisecond, 5 * time.Millisecond} {
		ctx, cancel := context.WithTimeout(t.Context(), wait)
		start := time.Now()
		err = h.GEMM(ctx, batch, planner.Options{}, Operands{A: a, B: b, C: c})
		took := time.Since(start)
		cancel()
		left := slices.Clone(c)
		if wait == 0 || err != nil { // many cores may be done before
			require.ErrorIs(t, err, context.DeadlineExceeded)
		}
		time.Sleep(5 * time.Millisecond)
		require.Equal(t, left, c, "after %v", took)
	}
	require.NoError(t, h.GEMM(t.Context(), batch, planner.Options{}, Operands{A: a, B: b, C: c}))
	require.Equal(t, slices.Repeat([]float32{side}, need.C), c)
}
