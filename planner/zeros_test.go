package planner

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/planner/element"
)

func zeroOptions(e Epilogue) Options {
	e.ZeroA = true
	return Options{TypeA: element.Int8, TypeC: element.F32, Epilogue: e}
}

// Items count scales in pairs of words: the scale and the word after it.
func TestZeroItems(t *testing.T) {
	p := Problem{M: 70, N: 100, K: 20, A: Matrix{0, 20}, B: Matrix{0, 100}, C: Matrix{0, 100},
		B2: Matrix{0, 100}, RowsA: 9000, ScaleA: 200, ScaleB: 5000}
	for _, c := range []struct {
		name string
		e    Epilogue
		rows int       // ExtentRows
		last [2]uint32 // words of the scales of the tile's row 64 and column 64
	}{
		{"rows", Epilogue{ScaleA: PerRow, ScaleB: PerRow}, 5200, [2]uint32{328, 5128}},
		{"one", Epilogue{ScaleA: PerTensor, ScaleB: PerRow}, 5200, [2]uint32{200, 5128}},
		{"gathered", Epilogue{ScaleA: PerRow, ScaleB: PerRow, GatherRows: 4000}, 9070, [2]uint32{200, 5128}},
		{"gated", Epilogue{ScaleA: PerRow, ScaleB: PerRow, Gated: true}, 5400, [2]uint32{328, 5128}},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := zeroOptions(c.e)
			o.Tile, o.Schedule = "large", ScheduleDataParallel
			plan, err := New(device(t, "lavapipe")).Plan(t.Context(), Batch{p}, o)
			require.NoError(t, err)
			checkAll(t, plan)
			require.Equal(t, c.rows, plan.ExtentRows)
			l := &plan.Launches[0]
			words, n := plan.Encode(nil), l.ItemWords()
			last := words[l.Items+3*n*l.Epilogue.Products():]
			require.Equal(t, c.last, [2]uint32{last[encoding.ScaleAAt], last[encoding.ScaleBAt]})
			if c.e.Gated {
				require.Equal(t, c.last[1]+200, last[n+int(encoding.ScaleBAt)])
			}
			require.Equal(t, uint32(encoding.EpilogueZeros|encoding.EpiloguePairs),
				l.Epilogue.Word()&(encoding.EpilogueZeros|encoding.EpiloguePairs))
			data, err := json.Marshal(plan)
			require.NoError(t, err)
			again := new(Plan)
			require.NoError(t, json.Unmarshal(data, again))
			require.Equal(t, words, again.Encode(nil))
		})
	}
}

// Fix-ups find missing rows, also if A has one zero point. Among launches that add to C, only the last
// subtracts the zero points.
func TestZerosOfParts(t *testing.T) {
	b := mustPack(t, GEMM(64, 64, 8192))
	b[0].RowsA, b[0].ScaleA, b[0].ScaleB = 10, 100, 200
	o := zeroOptions(Epilogue{GatherRows: 70, ScaleA: PerTensor, ScaleB: PerRow})
	o.Schedule, o.Tile = ScheduleSplitK, "medium"
	split, err := New(device(t, "h200-webgpu")).Plan(t.Context(), b, o)
	require.NoError(t, err)
	checkAll(t, split)
	l := split.Launches[len(split.Launches)-1]
	require.Equal(t, encoding.Epilogue{Gather: true, ScaleA: PerTensor, ScaleB: PerRow, Pairs: true,
		Zeros: true}, l.Epilogue)
	require.True(t, l.Fixup)

	d := clone(device(t, "webgpu-default"))
	d.MaxTrips = 100
	o.Schedule = ""
	cut, err := New(d).Plan(t.Context(), b, o)
	require.NoError(t, err)
	checkAll(t, cut)
	part := l.Epilogue
	part.Zeros = false
	require.Equal(t, part, cut.Launches[0].Epilogue)
	require.Equal(t, l.Epilogue, cut.Launches[len(cut.Launches)-1].Epilogue)
}

func TestZeroMistakes(t *testing.T) {
	good := Problem{M: 2, N: 3, K: 4, A: Matrix{0, 4}, B: Matrix{0, 3}, C: Matrix{0, 3}}
	rows := Epilogue{ScaleA: PerRow, ScaleB: PerRow}
	e4m3, blocks := zeroOptions(rows), zeroOptions(byBlocks)
	e4m3.TypeA, blocks.TypeA = element.E4M3, element.E4M3
	for _, c := range []struct {
		name string
		o    Options
		want string // "" when nothing is wrong
	}{
		{"rows", zeroOptions(rows), ""},
		{"one", zeroOptions(Epilogue{ScaleA: PerTensor, ScaleB: PerRow}), ""},
		{"e4m3", e4m3, "zero points of A are for elements of int8, not e4m3"},
		{"blocks", blocks, "zero points of A are for elements of int8, not e4m3"},
		{"fp32", Options{Epilogue: Epilogue{ZeroA: true}},
			"zero points of A are for elements of int8, not f32"},
		{"no scales of A", zeroOptions(Epilogue{ScaleB: PerRow}),
			`zero points of A need scales "tensor" or "row" of A, not ""`},
		{"no scales of B", zeroOptions(Epilogue{ScaleA: PerRow}),
			`zero points of A need sums of columns of B after scales "row", not ""`},
		{"one scale of B", zeroOptions(Epilogue{ScaleA: PerRow, ScaleB: PerTensor}),
			`zero points of A need sums of columns of B after scales "row", not "tensor"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := New(device(t, "lavapipe")).Plan(t.Context(), Batch{good}, c.o)
			if c.want == "" {
				require.NoError(t, err)
				return
			}
			require.EqualError(t, err, c.want)
			require.ErrorIs(t, err, ErrInvalid)
		})
	}
	rows.ZeroA = true
	for words, want := range map[int]string{3: "problem 0: scales of A need words [0, 4) of a buffer of 3",
		5: "problem 0: scales of B need words [0, 6) of a buffer of 5"} {
		require.EqualError(t, Batch{good}.Check(t.Context(), rows,
			Lengths{A: 8, B: 12, C: 6, Rows: words}), want)
	}
}

// Words of groups are twice as far apart as scales without zero points.
func TestRaggedZeros(t *testing.T) {
	r := Ragged{Form: EndsOfRows, Groups: 3, M: 10, N: 5, K: 4, A: Matrix{LD: 4}, B: Matrix{LD: 5},
		C: Matrix{LD: 5}, B2: Matrix{LD: 5}, StrideB: 20, StrideC: 50, ScaleA: 100, ScaleB: 1000}
	for _, c := range []struct {
		name    string
		form    RaggedForm
		e       Epilogue
		a, b, n int // words of the last group's scales, and the length of Rows
	}{
		{"rows", EndsOfRows, Epilogue{ScaleA: PerRow, ScaleB: PerRow}, 106, 1020, 1030},
		{"one of A, gated", EndsOfRows, Epilogue{ScaleA: PerTensor, ScaleB: PerRow, Gated: true}, 100, 1040,
			1060},
		{"gathered", EndsOfRows, Epilogue{ScaleA: PerRow, ScaleB: PerRow, GatherRows: 20}, 100, 1020, 1030},
		{"depth", EndsOfDepth, Epilogue{ScaleA: PerRow, ScaleB: PerRow}, 140, 1020, 1030},
		{"depth, A last", EndsOfDepth, Epilogue{ScaleA: PerRow, ScaleB: PerRow}, 2040, 1020, 2060},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, o := r, zeroOptions(c.e)
			r.Form = c.form
			if c.a > r.ScaleB {
				r.ScaleA = 2000
			}
			b, refused := r.Batch(nil, []int32{1, 3, 4}, Options{Epilogue: o.Epilogue})
			require.Equal(t, -1, refused)
			require.Equal(t, [2]int{c.a, c.b}, [2]int{b[2].ScaleA, b[2].ScaleB})
			p, err := New(device(t, "lavapipe")).PlanRagged(r, o)
			require.NoError(t, err)
			require.Equal(t, c.n, p.ExtentRows)
		})
	}
	records := Ragged{Form: Records, Groups: 1, M: 10, N: 5, K: 4, LenA: 100, LenB: 100, LenC: 100,
		LenRows: 50}
	e := Epilogue{ScaleA: PerRow, ScaleB: PerRow, ZeroA: true}
	for _, c := range []struct {
		a, b int
		fits bool
	}{{30, 40, true}, {31, 40, false}, {30, 41, false}} {
		q := Batch{{M: 10, N: 5, K: 4, A: Matrix{LD: 4}, B: Matrix{LD: 5}, C: Matrix{LD: 5}, ScaleA: c.a,
			ScaleB: c.b}}
		words, err := AppendRecords(nil, q, Options{Epilogue: e})
		require.NoError(t, err)
		_, refused := records.Batch(nil, words, Options{Epilogue: e})
		require.Equal(t, c.fits, refused < 0, c)
	}
}
