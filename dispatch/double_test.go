package dispatch

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/fakedriver"
	"github.com/batchgemm/batchgemm/internal/hardware"
	"github.com/batchgemm/batchgemm/internal/reference"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

// doubles returns n random numbers.
func doubles(rng *rand.Rand, n int) []float64 {
	numbers := make([]float64, n)
	for i := range numbers {
		numbers[i] = 2*rng.Float64() - 1
	}
	return numbers
}

// TestDoubles: fp64 in host memory, in place and where C shares memory with A, and in buffers.
func TestDoubles(t *testing.T) {
	ctx := t.Context()
	d, err := Open(ctx, WithBackend("cpu"))
	require.NoError(t, err)
	defer d.Close()
	rng := rand.New(rand.NewPCG(1, 0))
	batch, err := planner.Pack(
		planner.Problem{M: 30, N: 41, K: 500, Alpha: planner.Scale(0.1), Beta: 1. / 3},
		planner.Problem{M: 7, N: 3, K: 23, TransA: true, TransB: true})
	require.NoError(t, err)
	e := planner.Epilogue{Bias: true, Activation: planner.GELU}
	batch[1].Bias = 41
	need := batch.Lengths(e)
	x := reference.Doubles{A: doubles(rng, need.A), B: doubles(rng, need.B), C: doubles(rng, need.C),
		Bias: doubles(rng, need.Bias)}
	check := func(c []float64) {
		t.Helper()
		_, err := reference.CheckF64(batch, e, x, c)
		require.NoError(t, err)
	}
	o := planner.Options{Epilogue: e}
	c := append([]float64(nil), x.C...)
	require.NoError(t, GEMM(ctx, d, batch, o, Slices[float64, float64]{A: x.A, B: x.B, C: c, Bias: x.Bias}))
	check(c)
	both := append(append([]float64(nil), x.A...), x.C...)
	c = both[len(x.A):]
	require.NoError(t, GEMM(ctx, d, batch, o, Slices[float64, float64]{A: both, B: x.B, C: c, Bias: x.Bias}))
	check(c)

	o.TypeA, o.TypeC = element.F64, element.F64
	plan, err := d.Plan(ctx, batch, o)
	require.NoError(t, err)
	p, err := d.Prepare(ctx, plan)
	require.NoError(t, err)
	var on [4]*Buffer
	for i, numbers := range [][]float64{x.A, x.B, x.C, x.Bias} {
		on[i], err = Upload(ctx, d, numbers)
		require.NoError(t, err)
		require.Equal(t, element.F64, on[i].Type())
		require.Equal(t, len(numbers), on[i].Len())
	}
	require.NoError(t, p.Run(ctx, Operands{A: on[0], B: on[1], C: on[2], Bias: on[3]}))
	got := make([]float64, len(x.C)-3)
	require.NoError(t, Read(ctx, on[2], 3, got))
	check(append(append([]float64(nil), x.C[:0]...), append(first(t, on[2], 3), got...)...))
	part, err := on[0].Slice(32, 5)
	require.NoError(t, err)
	require.Equal(t, x.A[32:37], first(t, part, 5))
	_, err = on[0].Slice(16, 5)
	require.ErrorContains(t, err, "is not a multiple of 32 elements (256 bytes)")
	require.ErrorContains(t, Write(ctx, on[0], 0, []float32{1}), "the buffer has elements of f64, not f32")
	require.ErrorContains(t, Write(ctx, part, 4, []float64{1, 2}), "2 elements from 4 on")
}

func first(t *testing.T, b *Buffer, n int) []float64 {
	t.Helper()
	numbers := make([]float64, n)
	require.NoError(t, Read(t.Context(), b, 0, numbers))
	return numbers
}

// TestMultiplyDoubles: sums that float32 does not hold.
func TestMultiplyDoubles(t *testing.T) {
	d, err := Open(t.Context(), WithBackend("cpu"))
	require.NoError(t, err)
	defer d.Close()
	one := []Dense[float64]{{Rows: 1, Cols: 2, Data: []float64{1 << 30, 1}}}
	two := []Dense[float64]{{Rows: 2, Cols: 1, Data: []float64{1, 1}}}
	c, err := Multiply(t.Context(), d, one, two)
	require.NoError(t, err)
	require.Equal(t, []float64{1<<30 + 1}, c[0].Data)
}

// TestMixedDoubles: fp64 with other types is an error that says so.
func TestMixedDoubles(t *testing.T) {
	ctx := t.Context()
	d, err := Open(ctx, WithBackend("cpu"))
	require.NoError(t, err)
	defer d.Close()
	for want, o := range map[string]planner.Options{
		"elements of C cannot be f32 if those of A and B are f64 (but f64)": {TypeA: element.F64},
		"elements of C cannot be f64 if those of A and B are f32 (but f32)": {TypeC: element.F64},
		"elements of B cannot be f64 if those of A are f32":                 {TypeB: element.F64},
		"elements of B cannot be bf16 if those of A are f64": {TypeA: element.F64, TypeB: element.BF16,
			TypeC: element.F64},
		"compute mode tf32 is for operands of f32, not f64": {TypeA: element.F64, TypeC: element.F64,
			Compute: planner.ComputeTF32},
	} {
		_, err := d.Plan(ctx, nil, o)
		require.ErrorContains(t, err, want)
		require.ErrorIs(t, err, ErrInvalid)
	}
	_, err = d.PrepareStep(ctx, planner.Combine{Choices: planner.Choices{Tokens: 1, Experts: 1, TopK: 1},
		Hidden: 1, Type: element.F64})
	require.ErrorContains(t, err, "rows cannot be of f64 (but f32, bf16 or f16)")
}

// TestWithTypes: a device without kernels for a type is passed over, unless it is the only one.
func TestWithTypes(t *testing.T) {
	gpu := &fakedriver.Driver{TB: t, Backend: "webgpu", Kinds: []hardware.Kind{hardware.KindDiscrete}}
	cpu := backends[len(backends)-1]
	d, err := open(t.Context(), []driver.Driver{gpu, cpu}, []Option{WithTypes(element.F64)})
	require.NoError(t, err)
	defer d.Close()
	require.Equal(t, "cpu", d.Info().Backend)
	require.Equal(t, "webgpu: device 0 (webgpu0): unavailable: webgpu0 has no kernels for elements of f64",
		d.Skipped()[0].String())
	_, err = open(t.Context(), []driver.Driver{gpu, cpu},
		[]Option{WithTypes(element.F64), WithBackend("webgpu")})
	require.ErrorIs(t, err, ErrUnavailable)
	require.ErrorContains(t, err, "has no kernels for elements of f64")
}
