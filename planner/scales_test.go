package planner

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/planner/element"
)

func scaledOptions(e Epilogue) Options {
	return Options{TypeA: element.E4M3, TypeC: element.F32, Epilogue: e}
}

func TestEncodeScales(t *testing.T) {
	p := Problem{M: 70, N: 40, K: 20, A: Matrix{0, 20}, B: Matrix{0, 40}, C: Matrix{0, 40}, B2: Matrix{0, 40},
		RowsA: 1000, ScaleA: 200, ScaleB: 5000}
	for _, c := range []struct {
		name   string
		e      Epilogue
		rows   int         // ExtentRows
		scales [][2]uint32 // of the items of tiles of 64 x 64; the second item of a gated tile has its own
	}{
		{"rows", Epilogue{ScaleA: PerRow, ScaleB: PerRow}, 5040, [][2]uint32{{200, 5000}, {264, 5000}}},
		{"tensors", Epilogue{ScaleA: PerTensor, ScaleB: PerTensor}, 5001,
			[][2]uint32{{200, 5000}, {200, 5000}}},
		{"A alone", Epilogue{ScaleA: PerRow}, 270, [][2]uint32{{200, 5000}, {264, 5000}}},
		{"gathered", Epilogue{ScaleA: PerRow, GatherRows: 7000}, 7200, [][2]uint32{{200, 5000}, {200, 5000}}},
		{"gated", Epilogue{ScaleB: PerRow, Gated: true}, 5080, [][2]uint32{{200, 5000}, {200, 5040},
			{200, 5000}, {200, 5040}}},
		{"gated tensors", Epilogue{ScaleB: PerTensor, Gated: true}, 5002,
			[][2]uint32{{200, 5000}, {200, 5001}, {200, 5000}, {200, 5001}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := scaledOptions(c.e)
			o.Tile = "large"
			plan, err := New(device(t, "h200-webgpu")).Plan(t.Context(), Batch{p}, o)
			require.NoError(t, err)
			checkAll(t, plan)
			require.Equal(t, c.rows, plan.ExtentRows)
			l := plan.Launches[0]
			require.Equal(t, encoding.EpilogueItemWords, l.ItemWords())
			w := plan.Encode(nil)[l.Items:]
			for i, want := range c.scales {
				item := w[i*encoding.EpilogueItemWords:][:encoding.EpilogueItemWords]
				require.Equal(t, want, [2]uint32{item[encoding.ScaleAAt], item[encoding.ScaleBAt]}, "item %d",
					i)
			}
		})
	}
}

// Fix-ups find the scales of gathered rows. Pieces of K that add to C are scaled one by one.
func TestScalesOfParts(t *testing.T) {
	b := mustPack(t, GEMM(64, 64, 8192))
	b[0].RowsA, b[0].ScaleA, b[0].ScaleB = 10, 100, 200
	o := scaledOptions(Epilogue{Activation: ReLU, GatherRows: 70, ScaleA: PerRow, ScaleB: PerTensor})
	o.Schedule, o.Tile = ScheduleSplitK, "medium"
	split, err := New(device(t, "h200-webgpu")).Plan(t.Context(), b, o)
	require.NoError(t, err)
	checkAll(t, split)
	l := split.Launches[len(split.Launches)-1]
	require.Equal(t, encoding.Epilogue{Activation: ReLU, Gather: true, ScaleA: PerRow, ScaleB: PerTensor},
		l.Epilogue)
	require.True(t, l.Fixup)

	d := clone(device(t, "webgpu-default"))
	d.MaxTrips = 100
	o.Schedule = ""
	cut, err := New(d).Plan(t.Context(), b, o)
	require.NoError(t, err)
	checkAll(t, cut)
	require.Equal(t, encoding.Epilogue{Gather: true, ScaleA: PerRow, ScaleB: PerTensor},
		cut.Launches[0].Epilogue)
}

func TestScaleMistakes(t *testing.T) {
	good := Problem{M: 2, N: 3, K: 4, A: Matrix{0, 4}, B: Matrix{0, 3}, C: Matrix{0, 3}}
	both := Epilogue{ScaleA: PerRow, ScaleB: PerRow}
	for _, c := range []struct {
		name string
		o    Options
		edit func(*Problem)
		want string // "" when nothing is wrong
	}{
		{"good", scaledOptions(both), func(p *Problem) {}, ""},
		{"nothing that is not used", scaledOptions(Epilogue{}), func(p *Problem) {
			p.ScaleA, p.ScaleB = -1,
				-1
		}, ""},
		{"scales of A", scaledOptions(both), func(p *Problem) { p.ScaleA = -1 },
			"problem 0: scales of A offset -1 is negative"},
		{"scales of B", scaledOptions(both), func(p *Problem) { p.ScaleB = math.MaxInt },
			"problem 0: scales of B do not fit: their last offset needs more than 32 bits"},
		{"unknown", scaledOptions(Epilogue{ScaleB: "column"}), func(p *Problem) {},
			`unknown scaling "column" (known: tensor, row, of both block, and of B group-64, group-128, ` +
				"group-32, group-16)"},
		{"elements without scales", Options{TypeA: element.BF16, Epilogue: both}, func(p *Problem) {},
			"scales are for elements of e4m3 or int8, not bf16"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := good
			c.edit(&p)
			_, err := New(device(t, "lavapipe")).Plan(t.Context(), Batch{p}, c.o)
			if c.want == "" {
				require.NoError(t, err)
				return
			}
			require.EqualError(t, err, c.want)
			require.ErrorIs(t, err, ErrInvalid)
		})
	}
	require.EqualError(t, Batch{good}.Check(t.Context(), both, Lengths{A: 8, B: 12, C: 6, Rows: 2}),
		"problem 0: scales of B need words [0, 3) of a buffer of 2")
}

// Groups share the scale of A, or have one for each of their rows. Scales of B follow each other, group by
// group.
func TestRaggedScales(t *testing.T) {
	rows := Ragged{Form: EndsOfRows, Groups: 3, M: 10, N: 5, K: 4, A: Matrix{LD: 4}, B: Matrix{LD: 5},
		C: Matrix{LD: 5}, StrideB: 20, ScaleA: 100, ScaleB: 1000}
	depth := Ragged{Form: EndsOfDepth, Groups: 3, M: 10, N: 5, K: 4, A: Matrix{LD: 4}, B: Matrix{LD: 5},
		C: Matrix{LD: 5}, StrideC: 50, ScaleA: 100, ScaleB: 1000}
	for _, c := range []struct {
		name    string
		r       Ragged
		e       Epilogue
		a, b, n int // words of the last group's scales, and the length of Rows
	}{
		{"rows", rows, Epilogue{ScaleA: PerRow, ScaleB: PerRow}, 103, 1010, 1015},
		{"rows of tensors", rows, Epilogue{ScaleA: PerTensor, ScaleB: PerTensor}, 100, 1002, 1003},
		{"rows gathered, gated", rows, Epilogue{ScaleA: PerRow, ScaleB: PerRow, GatherRows: 20, Gated: true},
			100, 1020, 1030},
		{"rows of A alone", rows, Epilogue{ScaleA: PerRow}, 103, 1000, 110},
		{"depth", depth, Epilogue{ScaleA: PerRow, ScaleB: PerRow}, 120, 1010, 1015},
		{"depth of tensors, gated", depth, Epilogue{ScaleA: PerTensor, ScaleB: PerTensor, Gated: true}, 100,
			1004, 1006},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.r.B2 = c.r.B
			b, refused := c.r.Batch(nil, []int32{1, 3, 4}, Options{Epilogue: c.e})
			require.Equal(t, -1, refused)
			require.Equal(t, [2]int{c.a, c.b}, [2]int{b[2].ScaleA, b[2].ScaleB})
			p, err := New(device(t, "lavapipe")).PlanRagged(c.r, scaledOptions(c.e))
			require.NoError(t, err)
			require.Equal(t, c.n, p.ExtentRows)
			bounds := p.Encode(nil)
			require.Equal(t, []uint32{100, 1000}, bounds[encoding.BoundScaleA:][:2])
			require.LessOrEqual(t, encoding.EpilogueBoundWords, encoding.StatusWord,
				"the bounds fit in front of what is refused")
			require.Zero(t, bounds[encoding.StatusWord])
		})
	}
	rows.ScaleB = mostRagged - 14
	_, err := New(device(t, "lavapipe")).PlanRagged(rows, scaledOptions(Epilogue{ScaleB: PerRow}))
	require.ErrorContains(t, err, "the scales of B of the last group do not fit in")
}

func TestScaledRecords(t *testing.T) {
	e := Epilogue{ScaleA: PerRow, ScaleB: PerRow}
	q := Problem{M: 4, N: 5, K: 6, A: Matrix{1, 7}, B: Matrix{2, 8}, C: Matrix{3, 9}, ScaleA: 20, ScaleB: 25}
	words, err := AppendRecords([]int32{77}, Batch{q}, Options{Epilogue: e})
	require.NoError(t, err)
	require.Equal(t, []int32{77, 4, 5, 6, 7, 8, 9, 1, 2, 3, int32(math.Float32bits(1)), 0, 0, 0, 0, 0, 0, 0,
		0, 0, 0, 20, 25, 0, 0}, words)
	tight := Ragged{Form: Records, Groups: 1, M: 4, N: 5, K: 6, LenA: 100, LenB: 100, LenC: 100, LenRows: 30}
	b, refused := tight.Batch(nil, words[1:], Options{Epilogue: e})
	require.Equal(t, -1, refused)
	require.Equal(t, Batch{q}, b)
	p, err := New(device(t, "lavapipe")).PlanRagged(tight, scaledOptions(e))
	require.NoError(t, err)
	require.Equal(t, encoding.ScaledRecordWords, p.ExtentSizes)
	tight.LenRows--
	_, refused = tight.Batch(nil, words[1:], Options{Epilogue: e})
	require.Equal(t, 0, refused)
	q.ScaleB = -1
	_, err = AppendRecords(nil, Batch{q}, Options{Epilogue: e})
	require.EqualError(t, err, "problem 0: scales of B offset -1 needs more than 32 bits")
}

func TestScalesJSON(t *testing.T) {
	o := scaledOptions(Epilogue{ScaleA: PerRow, ScaleB: PerTensor})
	text, err := json.Marshal(o)
	require.NoError(t, err)
	require.JSONEq(t, `{"type_a": "e4m3", "epilogue": {"scale_a": "row", "scale_b": "tensor"}}`, string(text))
	b := mustPack(t, GEMM(3, 4, 5))
	b[0].ScaleA, b[0].ScaleB = 7, 9
	p, err := New(device(t, "lavapipe")).Plan(t.Context(), b, o)
	require.NoError(t, err)
	text, err = json.Marshal(p)
	require.NoError(t, err)
	var again Plan
	require.NoError(t, json.Unmarshal(text, &again))
	require.Equal(t, p.Encode(nil), again.Encode(nil))
}

// TestTilesOfAlignedBytes: tiles of aligned operands take bytes that are K-major, without conversion.
func TestTilesOfAlignedBytes(t *testing.T) {
	aligned := mustPack(t, GEMM(2048, 2048, 2048))
	quick := Batch{aligned[0]}
	quick[0].TransB = true
	o := Options{TypeA: element.E4M3, TypeC: element.BF16}
	for _, c := range []struct {
		batch Batch
		wide  bool
	}{{quick, true}, {aligned, false}} {
		plan, err := New(device(t, "h200")).Plan(t.Context(), c.batch, o)
		require.NoError(t, err)
		require.Equal(t, c.wide, plan.Tiles[0].Aligned, plan.Tiles[0])
	}
}

// Items tell native kernels the type of C if it differs from that of A and B.
func TestItemsTellC(t *testing.T) {
	for _, c := range []struct {
		of, ofC element.Type
		want    uint32
	}{
		{element.BF16, element.BF16, 0},
		{element.BF16, element.F32, encoding.ItemFloatC},
		{element.E4M3, element.BF16, 0},
		{element.E4M3, element.F16, encoding.ItemF16C},
		{element.E4M3, element.F32, encoding.ItemFloatC},
	} {
		plan, err := New(device(t, "h200")).Plan(t.Context(), mustPack(t, GEMM(5, 5, 5)),
			Options{TypeA: c.of, TypeC: c.ofC})
		require.NoError(t, err)
		flags := plan.Encode(nil)[plan.Launches[0].Items:][encoding.Flags]
		require.Equal(t, c.want, flags&^encoding.ItemVector, "%s, C of %s", c.of, c.ofC)
	}
}
