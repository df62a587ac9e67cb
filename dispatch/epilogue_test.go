package dispatch

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/invalid"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

// withEpilogue returns a problem of two rows and columns with all that an epilogue may have: rows 2 and 0 of
// A, and 1 and 3 of C, as rowsOf says.
func withEpilogue() (planner.Batch, planner.Options) {
	m := planner.Matrix{LD: 2}
	return planner.Batch{{M: 2, N: 2, K: 2, A: m, B: m, C: m, B2: m, RowsC: 2, Weights: 4}},
		planner.Options{Epilogue: planner.Epilogue{Activation: planner.ReLU, Bias: true, Gated: true,
			GatherRows: 3, ScatterRows: 4, Weights: true}}
}

func rowsOf(t *testing.T, d *Device) *Buffer {
	b := buffer(t, d, 6)
	half, two := int32(math.Float32bits(0.5)), int32(math.Float32bits(2))
	require.NoError(t, Write(t.Context(), b, 0, []int32{2, 0, 1, 3, two, half}))
	return b
}

func TestEpilogue(t *testing.T) {
	ctx := t.Context()
	d, _ := openFake(t)
	batch, o := withEpilogue()
	plan, err := d.Plan(ctx, batch, o)
	require.NoError(t, err)
	p, err := d.Prepare(ctx, plan)
	require.NoError(t, err)
	run := Run{Program: p, Operands: Operands{A: buffer(t, d, 6, 1, 2, 9, 9, 3, 4),
		B:    buffer(t, d, 4, 1, 0, 0, -1),
		B2:   buffer(t, d, 4, 2, 0, 0, 2),
		Bias: buffer(t, d, 4, 0, 5, 0, -10), Rows: rowsOf(t, d), C: buffer(t, d, 8, 9, 9, 9, 9, 9, 9, 9, 9)}}
	want := []float32{9, 9, 2 * 3 * 6, 2 * 1 * -2, 9, 9, 0.5 * 1 * 2, 0.5 * 3 * -6}
	require.NoError(t, d.Run(ctx, run))
	require.Equal(t, want, read(t, run.C))
	require.NoError(t, p.Update(ctx, batch))
	run.C = buffer(t, d, 8, 9, 9, 9, 9, 9, 9, 9, 9)
	_, err = d.Time(ctx, run)
	require.NoError(t, err)
	require.Equal(t, want, read(t, run.C), "an update keeps the epilogue")

	plain := program(t, d, small(t))
	narrow, err := d.NewBuffer(element.BF16, 8)
	require.NoError(t, err)
	other, _ := openFake(t)
	for name, c := range map[string]struct {
		edit func(r *Run)
		want string
	}{
		"no B2":   {func(r *Run) { r.B2 = nil }, "run 1: B2 is nil"},
		"no bias": {func(r *Run) { r.Bias = nil }, "run 1: Bias is nil"},
		"no rows": {func(r *Run) { r.Rows = nil }, "run 1: Rows is nil"},
		"short B2": {func(r *Run) {
			r.B2 = buffer(t, d, 3)
		}, "run 1: B2 has 3 elements, the plan needs 4"},
		"short bias": {func(r *Run) {
			r.Bias = buffer(t, d, 3)
		}, "run 1: Bias has 3 elements, the plan needs 4"},
		"short rows": {func(r *Run) {
			r.Rows = buffer(t, d, 5)
		}, "run 1: Rows has 5 elements, the plan needs 6"},
		"short A": {func(r *Run) { r.A = buffer(t, d, 5) }, "run 1: A has 5 elements, the plan needs 6"},
		"type of bias": {func(r *Run) {
			r.Bias = narrow
		}, "run 1: Bias has elements of bf16, the plan is for f32"},
		"type of rows": {func(r *Run) {
			r.Rows = narrow
		}, "run 1: Rows has elements of bf16, the plan is for f32"},
		"foreign bias": {func(r *Run) {
			r.Bias = buffer(t, other, 4)
		}, "run 1: Bias: belongs to another device"},
		"C is B2":   {func(r *Run) { r.B2 = r.C }, "run 1: buffer C is also B2"},
		"C is bias": {func(r *Run) { r.Bias = r.C }, "run 1: buffer C is also Bias"},
		"C is rows": {func(r *Run) { r.Rows = r.C }, "run 1: buffer C is also Rows"},
		"not asked for": {func(r *Run) {
			*r = Run{Program: plain,
				Operands: Operands{A: r.A, B: r.B, C: r.C, Rows: r.Rows}}
		},
			"run 1: Rows is not nil, but the plan's epilogue does not use it"},
	} {
		t.Run(name, func(t *testing.T) {
			wrong := run
			c.edit(&wrong)
			err := d.Run(ctx, run, wrong)
			require.EqualError(t, err, c.want)
			require.ErrorIs(t, err, invalid.Err)
		})
	}
}

// TestEpilogueOnHost: a device and a group take operands of all types and of epilogues.
func TestEpilogueOnHost(t *testing.T) {
	d, _ := openFake(t)
	g, _ := openFakes(t, 2)
	for _, on := range []Host{d, g} {
		hostEpilogue[float32, float32](t, on)
		hostEpilogue[element.BFloat16, float32](t, on)
		hostEpilogue[element.BFloat16, element.BFloat16](t, on)
		hostEpilogue[element.Float16, element.Float16](t, on)
	}
	relu := planner.Options{Epilogue: planner.Epilogue{Activation: planner.ReLU}}
	c := make([]float32, 4)
	require.NoError(t, gemmOf(t.Context(), d, small(t), relu, []float32{1, 2, 3, 4}, []float32{-1, 0, 0, 1},
		c),
		"nothing beside A, B and C")
	require.Equal(t, []float32{0, 2, 0, 4}, c)

	type half = element.BFloat16
	kept := small(t) // C = 1*C, which an epilogue changes
	kept[0].Alpha, kept[0].Beta = planner.Scale(0), 1
	x := Slices[half, half]{A: make([]half, 4), B: make([]half, 4), C: as[half]([]float32{-1, 2, -3, 4})}
	require.NoError(t, GEMM(t.Context(), d, kept, relu, x))
	require.Equal(t, []float32{0, 2, 0, 4}, floats(x.C))
	c = []float32{-1, 2, -3, 4}
	require.NoError(t, gemmOf(t.Context(), g, kept, relu, make([]float32, 4), make([]float32, 4), c))
	require.Equal(t, []float32{0, 2, 0, 4}, c)
}

func hostEpilogue[T, U element.Number](t *testing.T, on Host) {
	t.Helper()
	ctx := t.Context()
	batch, o := withEpilogue()
	half, two := int32(math.Float32bits(0.5)), int32(math.Float32bits(2))
	x := Slices[T, U]{A: as[T]([]float32{1, 2, 9, 9, 3, 4}), B: as[T]([]float32{1, 0, 0, -1}),
		B2: as[T]([]float32{2, 0, 0, 2}), C: as[U]([]float32{9, 9, 9, 9, 9, 9, 9, 9}),
		Bias: as[U]([]float32{0, 5, 0, -10}), Rows: []int32{2, 0, 1, 3, two, half}}
	require.NoError(t, GEMM(ctx, on, batch, o, x))
	want := []float32{9, 9, 2 * 3 * 6, 2 * 1 * -2, 9, 9, 0.5 * 1 * 2, 0.5 * 3 * -6}
	require.Equal(t, want, floats(x.C))
	x.Rows[2], x.Rows[0] = -1, 0 // one more row, which is not stored, and the same row twice
	require.NoError(t, GEMM(ctx, on, batch, o, x))
	require.Equal(t, want, floats(x.C))

	for failure, edit := range map[string]func(b *planner.Problem, o *planner.Options, x *Slices[T, U]){
		"problem 0: A needs elements [0, 6) of a buffer of 4": func(_ *planner.Problem,
			_ *planner.Options, x *Slices[T, U]) {
			x.A = x.A[:4]
		},
		"problem 0: C needs elements [0, 8) of a buffer of 6": func(_ *planner.Problem,
			_ *planner.Options, x *Slices[T, U]) {
			x.C = x.C[:6]
		},
		"problem 0: B2 needs elements [0, 4) of a buffer of 0": func(_ *planner.Problem,
			_ *planner.Options, x *Slices[T, U]) {
			x.B2 = nil
		},
		"problem 0: bias needs elements [0, 4) of a buffer of 3": func(_ *planner.Problem,
			_ *planner.Options, x *Slices[T, U]) {
			x.Bias = x.Bias[:3]
		},
		"problem 0: weights need words [4, 6) of a buffer of 5": func(_ *planner.Problem,
			_ *planner.Options, x *Slices[T, U]) {
			x.Rows = x.Rows[:5]
		},
		"problem 0: beta 1 is not 0, but gated units do not read C": func(b *planner.Problem,
			_ *planner.Options, _ *Slices[T, U]) {
			b.Beta = 1
		},
		"Bias has 4 elements, but the epilogue does not use it": func(_ *planner.Problem,
			o *planner.Options, _ *Slices[T, U]) {
			o.Epilogue.Bias = false
		},
		"unknown activation \"id\" (known: relu, gelu, silu)": func(_ *planner.Problem,
			o *planner.Options, _ *Slices[T, U]) {
			o.Epilogue.Activation = "id"
		},
		"operands on the host cannot have addresses: use Plan, Prepare and Run": func(_ *planner.Problem,
			o *planner.Options, _ *Slices[T, U]) {
			o.Epilogue.Pointers.A = true
		},
	} {
		b, o, x := planner.Batch{batch[0]}, o, x
		edit(&b[0], &o, &x)
		err := GEMM(ctx, on, b, o, x)
		require.EqualError(t, err, failure)
		require.ErrorIs(t, err, ErrInvalid)
		require.Equal(t, want[:len(x.C)], floats(x.C))
	}
}

// TestEpilogueRagged: rows of experts come from where a router says, and go there.
func TestEpilogueRagged(t *testing.T) {
	ctx := t.Context()
	d, _ := openFake(t)
	r := experts()
	r.RowsC, r.Weights, r.StrideBias = 4, 8, 2
	o := planner.Options{Epilogue: planner.Epilogue{Bias: true, GatherRows: 2, ScatterRows: 4, Weights: true}}
	p, err := d.PrepareRagged(ctx, r, o)
	require.NoError(t, err)
	bits := func(x float32) int32 { return int32(math.Float32bits(x)) }
	rows, ends := buffer(t, d, 12), buffer(t, d, 3)
	require.NoError(t, Write(ctx, rows, 0, []int32{1, 0, 1, 7, 3, 0, 2, 1, bits(1), bits(1),
		bits(-1), bits(2)}))
	require.NoError(t, Write(ctx, ends, 0, []int32{1, 1, 4}))
	run := Run{Program: p, Operands: Operands{Sizes: ends, Rows: rows, A: buffer(t, d, 4, 1, 2, 3, 4),
		B:    buffer(t, d, 12, 1, 0, 0, 1, 10, 0, 0, 10, 100, 0, 0, 100),
		Bias: buffer(t, d, 6, 5, 6, 0, 0, 7, 8), C: buffer(t, d, 8, 0, 0, 0, 0, 0, 0, 0, 0)}}
	require.NoError(t, d.Run(ctx, run))
	require.Equal(t, []float32{107, 208, 14, 16, -307, -408, 8, 10}, read(t, run.C))
	require.NoError(t, p.Status(ctx))
	run.Bias = nil
	require.EqualError(t, d.Run(ctx, run), "run 0: Bias is nil")
}

// TestEpilogueDepth: each group has its own bias, weights and C.
func TestEpilogueDepth(t *testing.T) {
	ctx := t.Context()
	d, _ := openFake(t)
	r := planner.Ragged{Form: planner.EndsOfDepth, Groups: 2, M: 1, N: 2, K: 3, A: planner.Matrix{LD: 3},
		B: planner.Matrix{LD: 2}, C: planner.Matrix{LD: 2}, StrideC: 2, StrideBias: 2}
	p, err := d.PrepareRagged(ctx, r,
		planner.Options{Epilogue: planner.Epilogue{Bias: true, Activation: planner.ReLU, Weights: true}})
	require.NoError(t, err)
	rows, ends := buffer(t, d, 2), buffer(t, d, 2)
	require.NoError(t, Write(ctx, rows, 0, []int32{int32(math.Float32bits(2)), int32(math.Float32bits(0.5))}))
	require.NoError(t, Write(ctx, ends, 0, []int32{1, 3}))
	run := Run{Program: p, Operands: Operands{Sizes: ends, Rows: rows, A: buffer(t, d, 3, 1, 2, 3),
		B: buffer(t, d, 6, 1, 0, 0,
			1, 10, 10), Bias: buffer(t, d, 4, 5, 6, -100, 0), C: buffer(t, d, 4, 9, 9, 9, 9)}}
	require.NoError(t, d.Run(ctx, run))
	require.Equal(t, []float32{12, 12, 0, 16}, read(t, run.C))
	run.Rows = buffer(t, d, 1)
	require.EqualError(t, d.Run(ctx, run), "run 0: Rows has 1 elements, the plan needs 2")
}

// TestEpilogueRecords: records say where each problem has the operands of its epilogue, within the lengths.
func TestEpilogueRecords(t *testing.T) {
	ctx := t.Context()
	d, _ := openFake(t)
	batch, o := withEpilogue()
	r := planner.Ragged{Form: planner.Records, Groups: 2, M: 4, N: 2, K: 2, LenA: 6, LenB: 4, LenC: 8,
		LenB2: 4, LenBias: 4, LenRows: 6}
	p, err := d.PrepareRagged(ctx, r, o)
	require.NoError(t, err)
	require.Equal(t, 40, p.Plan().ExtentSizes)
	run := Run{Program: p, Operands: Operands{A: buffer(t, d, 6, 1, 2, 9, 9, 3, 4),
		B:    buffer(t, d, 4, 1, 0, 0, -1),
		B2:   buffer(t, d, 4, 2, 0, 0, 2),
		Bias: buffer(t, d, 4, 0, 5, 0, -10), Rows: rowsOf(t, d), C: buffer(t, d, 8, 9, 9, 9, 9, 9, 9, 9, 9),
		Sizes: buffer(t, d, 40)}}
	records := func(b ...planner.Problem) {
		words, err := planner.AppendRecords(nil, b, planner.Options{Epilogue: o.Epilogue})
		require.NoError(t, err)
		require.NoError(t, Write(ctx, run.Sizes, 0, words))
		require.NoError(t, d.Run(ctx, run))
	}
	records(planner.Problem{}, batch[0])
	want := []float32{9, 9, 2 * 3 * 6, 2 * 1 * -2, 9, 9, 0.5 * 1 * 2, 0.5 * 3 * -6}
	require.Equal(t, want, read(t, run.C))
	require.NoError(t, p.Status(ctx))
	far := batch[0]
	far.Weights++
	records(planner.Problem{}, far)
	require.ErrorContains(t, p.Status(ctx), "problem 1: sizes do not fit")
	require.Equal(t, want, read(t, run.C), "it was not computed")

	run.Sizes = buffer(t, d, 24)
	require.EqualError(t, d.Run(ctx, run), "run 0: Sizes has 24 elements, the plan needs 40")
}
