package dispatch

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/elemtype"
	"github.com/batchgemm/batchgemm/internal/fakedriver"
	"github.com/batchgemm/batchgemm/internal/reference"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

// as converts numbers, which T can represent, to slices of T.
func as[T element.Number](numbers []float32) []T {
	out := make([]T, len(numbers))
	if same, ok := any(out).([]float32); ok {
		copy(same, numbers)
		return out
	}
	for i, x := range numbers {
		out[i] = T(elemtype.Bits(typeOf[T](), x))
	}
	return out
}

// floats is the reverse of as.
func floats[T element.Number](numbers []T) []float32 {
	if same, ok := any(numbers).([]float32); ok {
		return slices.Clone(same)
	}
	out := make([]float32, len(numbers))
	for i, x := range numbers {
		out[i] = elemtype.Float(typeOf[T](), uint16(x))
	}
	return out
}

// gemmOf is GEMM without an epilogue.
func gemmOf[T, U element.Number](ctx context.Context, h Host, batch planner.Batch, o planner.Options, a,
	b []T, c []U) error {
	return GEMM(ctx, h, batch, o, Slices[T, U]{A: a, B: b, C: c})
}

// typedGEMM checks GEMM for a batch whose C has gaps, with and without accumulation, in slices longer than
// the batch needs.
func typedGEMM[T, U element.Number](t *testing.T) {
	t.Run(typeOf[T]().String()+"/"+typeOf[U]().String(), func(t *testing.T) {
		d, err := Open(t.Context(), WithBackend("cpu"))
		require.NoError(t, err)
		defer d.Close()
		for _, tc := range []struct {
			name string
			beta float32
			k    int
		}{{"product", 0, 30}, {"sum", 1, 30}, {"no products", 2, 0}} {
			t.Run(tc.name, func(t *testing.T) {
				batch, err := planner.Pack(planner.Problem{M: 7, N: 5, K: tc.k, Beta: float64(tc.beta)},
					planner.Problem{M: 0, N: 3, K: 2},
					planner.Problem{M: 33, N: 41, K: 3 * tc.k, TransA: true})
				require.NoError(t, err)
				batch[2].C.LD += 3
				need := batch.Lengths(planner.Epilogue{})
				a, _ := drawn(typeOf[T](), need.A+3)
				b, _ := drawn(typeOf[T](), need.B+1)
				c, _ := drawn(element.BF16, need.C+2)
				before := floats(as[U](c)) // F16 has fewer small numbers
				got := as[U](before)
				require.NoError(t, gemmOf(t.Context(), d, batch, planner.Options{}, as[T](a), as[T](b), got))
				_, err = reference.CheckIn(reference.Arithmetic{TypeC: typeOf[U]()}, batch, a, b,
					before, floats(got))
				require.NoError(t, err)
			})
		}
	})
}

func TestGEMM(t *testing.T) {
	typedGEMM[float32, float32](t)
	typedGEMM[element.BFloat16, element.BFloat16](t)
	typedGEMM[element.BFloat16, float32](t)
	typedGEMM[element.Float16, element.Float16](t)
	typedGEMM[element.Float16, float32](t)
	typedGEMM[element.Float8E4M3, element.BFloat16](t)
	typedGEMM[element.Float8E4M3, element.Float16](t)
	typedGEMM[element.Float8E4M3, float32](t)
	typedGEMM[int8, element.BFloat16](t)
	typedGEMM[int8, element.Float16](t)
	typedGEMM[int8, float32](t)
}

func TestGEMMMistakes(t *testing.T) {
	d, err := Open(t.Context(), WithBackend("cpu"))
	require.NoError(t, err)
	defer d.Close()
	batch := small(t)
	half, other, full := make([]element.Float16, 4), make([]element.BFloat16, 4), make([]float32, 4)
	eighth := make([]element.Float8E4M3, 4)
	call := func(o planner.Options, a []element.Float16) error {
		return gemmOf(t.Context(), d, batch, o, a, half, full)
	}
	require.NoError(t, call(planner.Options{TypeA: element.F16}, half), "said again")
	for _, tc := range []struct {
		name, want string
		err        error
	}{
		{"another type", "the options have TypeA bf16, but A is of f16",
			call(planner.Options{TypeA: element.BF16}, half)},
		{"another type of C", "the options have TypeC f16, but C is of f32",
			call(planner.Options{TypeC: element.F16}, half)},
		{"C of neither", "elements of C cannot be bf16 if those of A and B are f16",
			gemmOf(t.Context(), d, batch, planner.Options{}, half, half, other)},
		{"C smaller than float32", "elements of C cannot be bf16 if those of A and B are f32",
			gemmOf(t.Context(), d, batch, planner.Options{}, full, full, other)},
		{"C of 8 bits", "elements of C cannot be e4m3 if those of A and B are e4m3",
			gemmOf(t.Context(), d, batch, planner.Options{}, eighth, eighth, eighth)},
		{"short A", "problem 0", call(planner.Options{}, half[:3])},
		{"unknown tile", "unknown tile", call(planner.Options{Tile: "x"}, half)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			require.ErrorIs(t, tc.err, ErrInvalid)
			require.ErrorContains(t, tc.err, tc.want)
		})
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, gemmOf(ended, d, batch, planner.Options{}, half, half, full), context.Canceled)
}

// TestGEMMFaults: whichever call of the driver fails, c is unchanged and nothing is held, also with an
// epilogue.
func TestGEMMFaults(t *testing.T) {
	type half = element.BFloat16
	batch := small(t)
	batch[0].Beta = 1
	x := Slices[half, half]{A: as[half]([]float32{1, 2, 3, 4}), B: as[half]([]float32{1, 2, 3, 4})}
	more, withEpilogue := x, planner.Options{Epilogue: planner.Epilogue{Bias: true, GatherRows: 2}}
	more.Bias, more.Rows = as[half]([]float32{1, 2}), []int32{1, 0}
	for _, c := range []struct {
		o    planner.Options
		x    Slices[half, half]
		want []float32
		more int // calls
	}{
		{planner.Options{}, x, []float32{12, 16, 22, 30}, 8},
		{withEpilogue, more, []float32{21, 30, 15, 20}, 12},
	} {
		want := as[half]([]float32{5, 6, 7, 8})
		for n := 0; ; n++ {
			d, f := openFake(t)
			fakes := []*fakedriver.Device{f}
			hit := fakedriver.FailNth(fakes, n, errBroken)
			c.x.C = slices.Clone(want)
			err := GEMM(t.Context(), d, batch, c.o, c.x)
			programs, buffers := fakedriver.Held(fakes)
			require.Zero(t, programs+buffers)
			if !hit() {
				require.NoError(t, err)
				require.Equal(t, as[half](c.want), c.x.C)
				require.Greater(t, n, c.more)
				break
			}
			require.ErrorIs(t, err, errBroken)
			require.Equal(t, want, c.x.C, "call %d", n)
		}
	}
}

// On the CPU too, c is unchanged if ctx has ended before anything is computed.
func TestGEMMEndedOnTheCPU(t *testing.T) {
	d, err := Open(t.Context(), WithBackend("cpu"))
	require.NoError(t, err)
	defer func() { require.NoError(t, d.Close()) }()
	batch := planner.Batch{{M: 2, N: 2, K: 2, Beta: 1,
		A: planner.Matrix{LD: 2}, B: planner.Matrix{LD: 2}, C: planner.Matrix{Offset: 1, LD: 3}}}
	a, c := []float32{1, 2, 3, 4}, []float32{9, 1, 1, 9, 1, 1, 9}
	halfA, halfC := as[element.BFloat16](a), as[element.BFloat16](c)
	both := func(ctx context.Context) (error, error) {
		return gemmOf(ctx, d, batch, planner.Options{}, a, a, c), gemmOf(ctx, d, batch, planner.Options{},
			halfA, halfA, halfC)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	one, other := both(ended)
	require.ErrorIs(t, one, context.Canceled)
	require.ErrorIs(t, other, context.Canceled)
	require.Equal(t, []float32{9, 1, 1, 9, 1, 1, 9}, c)
	require.Equal(t, as[element.BFloat16](c), halfC)
	one, other = both(t.Context())
	require.NoError(t, one)
	require.NoError(t, other)
	require.Equal(t, []float32{9, 8, 11, 9, 16, 23, 9}, c)
	require.Equal(t, as[element.BFloat16](c), halfC)
}
