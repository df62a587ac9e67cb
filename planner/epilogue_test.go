package planner

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/internal/sample"
	"github.com/batchgemm/batchgemm/planner/element"
)

// epilogues cover all features together.
var epilogues = []Epilogue{
	{Activation: ReLU},
	{Bias: true, Activation: GELU, Weights: true},
	{GatherRows: 900, ScatterRows: 700},
	{Gated: true, Activation: SiLU, Bias: true},
	{Gated: true, GatherRows: 40, ScatterRows: 400, Weights: true},
}

// withEpilogue returns the device with kernels for epilogues.
func withEpilogue(d *Device) *Device {
	d = clone(d)
	d.Epilogues, d.Pointers = true, true
	for i := range d.Kernels {
		d.Kernels[i].Epilogues = true
	}
	return d
}

// operandsOf returns the problems with operands for any epilogue.
func operandsOf(b Batch, e Epilogue) Batch {
	rows := 0
	for i := range b {
		p := &b[i]
		p.B2 = p.B
		p.B2.Offset += 3 * (i % 2)
		p.Bias, p.RowsA, p.RowsC, p.Weights = 5*i, rows, rows+p.M, rows+2*p.M
		rows += 3 * p.M
		if e.Gated {
			p.Beta = 0
		}
		p.TransA = p.TransA && e.GatherRows == 0
		_, p.A.LD = p.ShapeA()
	}
	return b
}

func TestEpiloguePlans(t *testing.T) {
	batches := map[string]func() Batch{
		"none":  func() Batch { return nil },
		"tiny":  func() Batch { return randomBatch(t, rand.New(rand.NewPCG(4, 1)), 100, 0, 9) },
		"mixed": func() Batch { return randomBatch(t, rand.New(rand.NewPCG(4, 2)), 30, 0, 300) },
		"long K": func() Batch {
			return mustPack(t, GEMM(64, 64, 8192), GEMM(1, 1, 10000),
				GEMM(33, 17, 4097))
		},
		"no product": func() Batch {
			return mustPack(t, Problem{M: 9, N: 70, Beta: 1}, Problem{M: 80, N: 7, K: 5, Alpha: Scale(0),
				Beta: 1}, Problem{N: 3, K: 3})
		},
	}
	tight := *withEpilogue(device(t, "webgpu-default"))
	tight.MaxTrips, tight.MaxWorkers = 2400, 5
	for name, batch := range batches {
		for _, d := range []*Device{device(t, "h200-webgpu"), device(t, "h200"), device(t, "mi210"), &tight} {
			for i, e := range epilogues {
				for _, s := range append(Schedules(), "") {
					t.Run(fmt.Sprintf("%s/%s/%d/%s", name, d.Name, i, s), func(t *testing.T) {
						sample.Planner.Skip(t, 2)
						b := operandsOf(batch(), e)
						p, err := New(withEpilogue(d)).Plan(t.Context(), b, Options{Epilogue: e, Schedule: s})
						if name == "long K" && d == &tight && e.Gated { // a worker's loops do not reach that
							require.ErrorContains(t, err,
								": K is too large for gated units: one launch of webgpu-default takes ")
							return
						}
						require.NoError(t, err)
						checkAll(t, p)
						if name == "no product" && len(p.Launches) == 0 {
							t.Error("C = 1*C is stored with an epilogue")
						}
						var again Plan
						text, err := json.Marshal(p)
						require.NoError(t, err)
						require.NoError(t, json.Unmarshal(text, &again))
						require.Equal(t, p.Encode(nil), again.Encode(nil))
						require.Equal(t, e, again.Options.Epilogue)
						require.NoError(t, New(withEpilogue(d)).Renew(t.Context(), &again, b,
							Options{Epilogue: e, Schedule: s}))
						require.Equal(t, p.Encode(nil), again.Encode(nil), "the host makes the items")
					})
				}
			}
		}
	}
}

// TestEpilogueWindows: matrices whose rows are found by indices are bound whole.
func TestEpilogueWindows(t *testing.T) {
	d := withEpilogue(device(t, "webgpu-default"))
	d.MaxBinding = 64 << 10
	for i, e := range []Epilogue{{Bias: true}, {GatherRows: 80, ScatterRows: 90, Weights: true},
		{Gated: true}} {
		b := operandsOf(randomBatch(t, rand.New(rand.NewPCG(4, 7)), 40, 1, 80), e)
		p, err := New(d).Plan(t.Context(), b, Options{Epilogue: e})
		require.NoError(t, err, i)
		require.Greater(t, len(p.Launches), 1)
		checkAll(t, p)
	}
	e := Epilogue{GatherRows: 1000, ScatterRows: 1000}
	_, err := New(d).Plan(t.Context(), Batch{{M: 1, N: 1, K: 20, A: Matrix{LD: 20}, B: Matrix{LD: 1},
		C: Matrix{LD: 1}}}, Options{Epilogue: e})
	require.ErrorContains(t, err, "problem 0: lda or ldb is too large: one tile tiny-k4 reaches more than "+
		"the 16384 elements")
	_, err = New(d).Plan(t.Context(), Batch{{M: 1, N: 20, K: 1, A: Matrix{LD: 1}, B: Matrix{LD: 20},
		C: Matrix{LD: 20}}}, Options{Epilogue: e})
	require.ErrorContains(t, err, "problem 0: ldc 20 is too large: one tile tiny-k4 reaches more than the "+
		"16384 elements")
}

// TestWindowsOfB2: a launch binds what its tiles read of B2, wherever that lies, and no more except
// alignment.
func TestWindowsOfB2(t *testing.T) {
	d := withEpilogue(device(t, "webgpu-default"))
	d.MaxBinding = 64 << 10
	var b Batch
	for i := range 4 { // there is room for each alone
		at := i * 12_000
		b = append(b, Problem{M: 20, N: 40, K: 70, Alpha: Scale(1), TransB: i%2 == 1, A: Matrix{at, 70},
			B: Matrix{at, 150}, B2: Matrix{3*at + 1000, 130}, C: Matrix{at, 40}})
	}
	p, err := New(d).Plan(t.Context(), b, Options{Epilogue: Epilogue{Gated: true}, Tile: "large"})
	require.NoError(t, err)
	require.Len(t, p.Launches, len(b), "one of each")
	for _, l := range p.Launches {
		q := &b[p.Segments[p.Workers[l.First]].Problem]
		rows, cols := q.ShapeB()
		require.Equal(t, q.B2.Offset/64*64, l.BaseB2)
		require.Equal(t, q.B2.end(rows, cols), l.BaseB2+l.SpanB2)
		require.Equal(t, q.B.Offset/64*64, l.BaseB)
		require.Equal(t, q.B.end(rows, cols), l.BaseB+l.SpanB)
	}
}

// TestEpilogueLongK: launches that add to C over windows of K find rows like the last launch. Only the last
// applies the rest.
func TestEpilogueLongK(t *testing.T) {
	d := withEpilogue(device(t, "webgpu-default"))
	d.MaxTrips = 150
	e := Epilogue{Bias: true, Activation: ReLU, Weights: true}
	rows := e
	rows.GatherRows, rows.ScatterRows = 900, 700
	pointers := e
	pointers.Pointers = Pointers{B: true}
	for _, e := range []Epilogue{e, rows, pointers} {
		p, err := New(d).Plan(t.Context(),
			operandsOf(mustPack(t, GEMM(64, 64, 4000), GEMM(20, 20, 20), GEMM(33, 17, 4097)), e),
			Options{Epilogue: e, Tile: "medium"})
		require.NoError(t, err)
		checkAll(t, p)
		var does []encoding.Epilogue
		for _, l := range p.Launches {
			does = append(does, l.Epilogue)
		}
		whole := e.kernel()
		part := encoding.Epilogue{Gather: whole.Gather, Scatter: whole.Scatter, Pointers: whole.Pointers}
		require.Equal(t, []encoding.Epilogue{part, whole, part, whole}, slices.Compact(does))
		require.Equal(t, part == encoding.Epilogue{}, p.Launches[0].ItemWords() == encoding.ItemWords)
	}
	_, err := New(d).Plan(t.Context(), mustPack(t, GEMM(64, 64, 8192)),
		Options{Epilogue: e, TypeA: element.BF16, TypeC: element.BF16})
	require.ErrorContains(t, err, "problem 0: K is too large for C of bf16")
}

func TestEncodeEpilogue(t *testing.T) {
	p := Problem{M: 70, N: 9, K: 20, Alpha: Scale(2), A: Matrix{100, 20}, B: Matrix{8, 12}, C: Matrix{4, 9},
		B2: Matrix{3, 10}, Bias: 7, RowsA: 1000, RowsC: 2000, Weights: 3000}
	e := Epilogue{Activation: SiLU, Bias: true, Gated: true, GatherRows: 50, ScatterRows: 60, Weights: true}
	plan, err := New(withEpilogue(device(t, "h200-webgpu"))).Plan(t.Context(), Batch{p},
		Options{Tile: "large", Schedule: ScheduleStreamK, Epilogue: e})
	require.NoError(t, err)
	require.Equal(t, [6]int{100 + 49*20 + 20, 8 + 19*12 + 9, 4 + 59*9 + 9, 3 + 19*10 + 9, 7 + 18, 3070},
		[6]int{plan.ExtentA, plan.ExtentB, plan.ExtentC, plan.ExtentB2, plan.ExtentBias, plan.ExtentRows})
	l := plan.Launches[0]
	require.Equal(t, "data-parallel", l.Schedule, "gated tiles are not cut")
	require.Equal(t, "large/nn/loop/gather/bias/silu/gated/weights/scatter", l.Kernel.String())
	w := plan.Encode(nil)
	require.Equal(t, []uint32{0, 2, 4}, w[l.Table:][:3])
	f := math.Float32bits
	for i, want := range [][]uint32{
		{100, 8, 4, 20, 20, 12, 9, 64 | 9<<16, f(2), 0, encoding.Final, encoding.ItemVector, 1000, 50, 2000,
			60, 3000, 7, 0, 0, 0, 0, 0, 0},
		{100, 3, 4, 20, 20, 10, 9, 64 | 9<<16, f(2), 0, encoding.Final, encoding.ItemSecond, 1000, 50, 2000,
			60, 3000, 16, 0, 0, 0, 0, 0, 0},
		{100, 8, 4, 20, 20, 12, 9, 6 | 9<<16, f(2), 0, encoding.Final, encoding.ItemVector, 1064, 50, 2064,
			60, 3064, 7, 0, 0, 0, 0, 0, 0},
		{100, 3, 4, 20, 20, 10, 9, 6 | 9<<16, f(2), 0, encoding.Final, encoding.ItemSecond, 1064, 50, 2064,
			60, 3064, 16, 0, 0, 0, 0, 0, 0},
	} {
		require.Equal(t, want, w[l.Items+i*encoding.EpilogueItemWords:][:encoding.EpilogueItemWords],
			"item %d", i)
	}
	native, err := New(withEpilogue(device(t, "h200"))).Plan(t.Context(), Batch{p},
		Options{Tile: "small", Epilogue: e})
	require.NoError(t, err)
	require.Equal(t, native.Launches[0].Count*native.Launches[0].Tile.TM*native.Launches[0].Tile.TN,
		native.Workspace, "a slot for each worker")
}

func TestEpilogueMistakes(t *testing.T) {
	good := Problem{M: 2, N: 3, K: 4, A: Matrix{0, 4}, B: Matrix{0, 3}, C: Matrix{0, 3}, B2: Matrix{0, 3}}
	all := Epilogue{Bias: true, Gated: true, GatherRows: 5, ScatterRows: 5, Weights: true}
	apart := func(p *Problem) { p.C.Offset = 6 }
	for _, c := range []struct {
		name string
		e    Epilogue
		edit func(*Problem)
		want string // "" when nothing is wrong
	}{
		{"good", all, func(p *Problem) {}, ""},
		{"nothing that is not used", Epilogue{Activation: ReLU}, func(p *Problem) {
			p.C.Offset, p.B2, p.Bias, p.RowsA, p.RowsC, p.Weights = 6, Matrix{-1, 0}, -1, -1, -1, -1
		}, ""},
		{"C of scattered rows are the caller's", Epilogue{ScatterRows: 2}, func(p *Problem) {}, ""},
		{"overlap", Epilogue{Bias: true}, func(p *Problem) {}, "problem 1: C overlaps C of problem 0"},
		{"beta", all, func(p *Problem) { p.Beta = 2 },
			"problem 1: beta 2 is not 0, but gated units do not read C"},
		{"transposed A", all, func(p *Problem) { p.TransA = true },
			"problem 1: transA is set, but GatherRows needs an A that is not transposed"},
		{"ldb2", all, func(p *Problem) { p.B2.LD = 2 }, "problem 1: ldb2 2 < row length 3"},
		{"B2", all, func(p *Problem) { p.B2.Offset = -2 }, "problem 1: B2 offset -2 is negative"},
		{"bias", all, func(p *Problem) { p.Bias = -1 }, "problem 1: bias offset -1 is negative"},
		{"rows of A", all, func(p *Problem) { p.RowsA = math.MinInt },
			fmt.Sprintf("problem 1: rows of A offset %d is negative", math.MinInt)},
		{"rows of C", all, func(p *Problem) { p.RowsC = math.MaxInt },
			"problem 1: rows of C do not fit: their last offset needs more than 32 bits"},
		{"weights", all, func(p *Problem) { p.Weights = mostRagged - 1 },
			"problem 1: weights do not fit: their last offset needs more than 32 bits"},
		{"A of many rows", all, func(p *Problem) { p.A.Offset = math.MaxInt - 16 },
			"problem 1: A does not fit: its last offset overflows"},
		{"unknown activation", Epilogue{Activation: "tanh"}, apart,
			`unknown activation "tanh" (known: relu, gelu, silu)`},
		{"rows to gather from", Epilogue{GatherRows: -1}, apart,
			"-1 rows of A to gather from are not in [0, 2147483647]"},
		{"rows to scatter to", Epilogue{ScatterRows: math.MinInt}, func(p *Problem) {},
			fmt.Sprintf("%d rows of C to scatter to are not in [0, 2147483647]", math.MinInt)},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := good
			c.edit(&p)
			_, err := New(withEpilogue(device(t, "lavapipe"))).Plan(t.Context(), Batch{good, p},
				Options{Epilogue: c.e})
			if c.want == "" {
				require.NoError(t, err)
				return
			}
			require.EqualError(t, err, c.want)
			require.ErrorIs(t, err, ErrInvalid)
		})
	}
	none := clone(device(t, "h200"))
	none.Epilogues = false
	_, err := New(none).Plan(t.Context(), nil, Options{Epilogue: all})
	require.EqualError(t, err, "device h200 has no kernels with an epilogue")
	halved := &CustomSchedule{Name: "halved", Deal: func(w Work) [][]Part {
		return [][]Part{{{w.Tiles[0].Index, 0, w.Tiles[0].Steps / 2}},
			{{w.Tiles[0].Index, w.Tiles[0].Steps / 2, w.Tiles[0].Steps}}}
	}}
	_, err = New(withEpilogue(none)).Plan(t.Context(), Batch{good}, Options{Epilogue: all, Custom: halved})
	require.EqualError(t, err, "schedule halved: problem 0, tile (0, 0): worker 0 has K steps [0, 1) "+
		"alone, but gated tiles are not split, nor tiles with scales of blocks or of groups beyond "+
		"a step")
	p, err := New(withEpilogue(none)).Plan(t.Context(), Batch{good},
		Options{Epilogue: all, Custom: oneTileAWorker})
	require.NoError(t, err)
	checkAll(t, p)
}

// TestEpilogueJSON: the JSON of options has their epilogue, if there is one.
func TestEpilogueJSON(t *testing.T) {
	for _, c := range []struct {
		o    Options
		want string
	}{
		{Options{}, `{}`},
		{Options{TypeA: element.BF16, Epilogue: Epilogue{Activation: GELU, Bias: true, Gated: true,
			GatherRows: 5, ScatterRows: 6, Weights: true}},
			`{"type_a": "bf16", "epilogue": {"activation": "gelu", "bias": true, "gated": true,
				"gather_rows": 5, "scatter_rows": 6, "weights": true}}`},
	} {
		text, err := json.Marshal(c.o)
		require.NoError(t, err)
		require.JSONEq(t, c.want, string(text))
		var read Options
		require.NoError(t, json.Unmarshal(text, &read))
		require.Equal(t, c.o, read)
	}
}

// Kernels that keep the first product of a gated tile in registers need no workspace.
func TestGatedWorkspace(t *testing.T) {
	for _, c := range []struct {
		device, tile string
		of           element.Type
		each         int // elements of each worker
	}{
		{"h200", "aligned-64x64", element.BF16, 0},
		{"h200", "aligned-64x64", element.E4M3, 0},
		{"h200", "aligned-64x128", element.F16, 64 * 128},
		{"h200", "aligned-128x128", element.F16, 0},
		{"h200", "aligned-128x128", element.Int8, 128 * 128},
		{"h200", "wgmma-128x128", element.BF16, 128 * 128},
		{"h200", "tensor-32x32", element.BF16, 32 * 32},
		{"mi210", "large", element.F32, 64 * 64},
		{"h200-webgpu", "large", element.F32, 0},
	} {
		t.Run(fmt.Sprintf("%s, %s, %s", c.device, c.tile, c.of), func(t *testing.T) {
			p := GEMM(256, 256, 64)
			p.TransB = true // the layout in which tensor cores take 8-bit elements
			e := Epilogue{Gated: true}
			plan, err := New(withEpilogue(device(t, c.device))).Plan(t.Context(),
				operandsOf(mustPack(t, p), e), Options{TypeA: c.of, TypeC: element.F32, Tile: c.tile,
					Epilogue: e})
			require.NoError(t, err)
			require.Len(t, plan.Launches, 1)
			require.Equal(t, plan.Launches[0].Count*c.each, plan.Workspace)
		})
	}
}

// TestGatedCost: a gated tile counts as two products.
func TestGatedCost(t *testing.T) {
	d := withEpilogue(device(t, "h200"))
	b := mustPack(t, GEMM(512, 512, 2048))
	cost := func(e Epilogue) float64 {
		p, err := New(d).Plan(t.Context(), operandsOf(b, e),
			Options{Tile: "large", Schedule: ScheduleDataParallel, Epilogue: e})
		require.NoError(t, err)
		return p.Cost
	}
	require.InDelta(t, 2, cost(Epilogue{Gated: true})/cost(Epilogue{}), 0.2)
}

// TestEpilogueKernels: native kernels with an epilogue exist for some tile shapes, and neither for tf32 nor
// for clusters.
func TestEpilogueKernels(t *testing.T) {
	for _, name := range []string{"h200", "mi210"} {
		d := device(t, name)
		batch, err := Pack(GEMM(300, 200, 900), GEMM(20, 30, 2000), GEMM(64, 64, 64))
		require.NoError(t, err)
		bias := Epilogue{Bias: true}
		for _, schedule := range append(Schedules(), "") {
			for _, c := range []Compute{ComputeF32Emulated, ComputeTF32} {
				plan, err := New(d).Plan(t.Context(), batch, Options{Schedule: schedule, Compute: c,
					Epilogue: bias})
				require.NoError(t, err)
				for i := range plan.Launches {
					l := &plan.Launches[i]
					require.True(t, d.Kernel(l.Tile).Epilogues, l.Kernel)
					require.False(t, l.TF32 || l.Cluster > 0, l.Kernel)
				}
			}
		}
		_, err = New(d).Plan(t.Context(), batch, Options{Tile: "small", Epilogue: bias})
		require.ErrorContains(t, err, "device "+name+" has no kernels with an epilogue")
		require.ErrorIs(t, err, ErrInvalid)
		none := *d
		none.Kernels = slices.Clone(d.Kernels)
		for i := range none.Kernels {
			none.Kernels[i].Epilogues = false
		}
		_, err = New(&none).Plan(t.Context(), batch, Options{Epilogue: bias})
		require.ErrorContains(t, err, "device "+name+" has no kernels with an epilogue")
	}
}
