package main

import (
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/bench"
	"github.com/batchgemm/batchgemm/internal/sample"
	"github.com/batchgemm/batchgemm/internal/workload"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

// withOperands has few rows after many, and problems without elements or products.
const withOperands = "40 20 30\n0 5 5\n3 50 40 n t\n6 0 4\n7 5 0\n"

// epilogueCases are lists, with their kernels.
var epilogueCases = []struct{ name, list, kernel, shown string }{
	{"bias", "bias", "/bias", "bias"},
	{"activation", "relu", "/relu", "relu"},
	{"in any order", "gelu,bias", "/bias/gelu", "bias, gelu"},
	{"gated", "gated,silu", "/silu/gated", "silu, gated"},
	{"rows", "gather,scatter", "/gather/scatter", "gather, scatter"},
	{"weights", "weights", "/weights", "weights"},
	{"all", "weights,scatter,gather,gated,gelu,bias", "/gather/bias/gelu/gated/weights/scatter",
		"bias, gelu, gated, gather, scatter, weights"},
}

// scaledCases are those with 8 bits.
var scaledCases = []struct{ list, kernel, shown string }{
	{"row-scales", "/scale-a-row/scale-b-row", "row-scales"},
	{"tensor-scales,bias", "/scale-a-tensor/scale-b-tensor/bias", "bias, tensor-scales"},
	{"row-scales,gather,scatter,gated,silu,bias,weights",
		"/gather/scale-a-row/scale-b-row/bias/silu/gated/weights/scatter",
		"bias, silu, gated, gather, scatter, weights, row-scales"},
	{"row-scales,zeros,gather,gated", "/gather/scale-a-row/scale-b-row/zeros/gated",
		"gated, gather, row-scales, zeros"},
	{"block-scales,gather,gated,relu", "/gather/scale-a-block/scale-b-block/relu/gated",
		"relu, gated, gather, block-scales"},
}

// TestScales: only 8-bit elements have scales.
func TestScales(t *testing.T) {
	for _, tc := range scaledCases {
		t.Run(tc.list, func(t *testing.T) {
			sample.Command.Whole(t)
			for _, types := range [][2]string{{"e4m3", "bf16"}, {"e4m3", "f16"}, {"e4m3", "f32"},
				{"int8", "bf16"}, {"int8", "f32"}} {
				if types[0] != "e4m3" && strings.HasPrefix(tc.list, "block-scales") || types[0] != "int8" &&
					strings.Contains(tc.list, "zeros") {
					continue
				}
				with := []string{"-", "--backend", "cpu", "--type", types[0], "--type-c", types[1],
					"--epilogue", tc.list}
				require.Contains(t, succeed(t, withOperands, append([]string{"plan"}, with...)...),
					tc.kernel+" ")
				require.Regexp(t, `(?m)^epilogue +`+tc.shown+`$`,
					succeed(t, withOperands, append([]string{"run", "--verify"}, with...)...))
				require.Contains(t, succeed(t, withOperands, append([]string{"verify"}, with...)...),
					"\nepilogue: "+tc.shown+"\n")
				require.Regexp(t, `(?m)^epilogue +`+tc.shown+`; plain is without$`,
					succeed(t, withOperands, append([]string{"bench", "--repeat", "1"}, with...)...))
			}
		})
	}
	_, err := parseEpilogue([]string{"row-scales", "tensor-scales"})
	require.EqualError(t, err, "--epilogue has scales of each row and of each tensor")
}

// TestEpilogue: every command with epilogues plans for them, computes them, and names them.
func TestEpilogue(t *testing.T) {
	for _, tc := range epilogueCases {
		t.Run(tc.name, func(t *testing.T) {
			sample.Command.Whole(t)
			with := []string{"-", "--backend", "cpu", "--epilogue", tc.list}
			require.Contains(t, succeed(t, withOperands, append([]string{"plan"}, with...)...), tc.kernel+" ")
			for _, of := range [][]string{nil, {"--type", "f16"}, {"--type", "bf16", "--type-c", "f32"}} {
				with := append(with, of...)
				require.Regexp(t, `(?m)^epilogue +`+tc.shown+`$`,
					succeed(t, withOperands, append([]string{"run", "--verify"}, with...)...))
				require.Contains(t, succeed(t, withOperands, append([]string{"verify"}, with...)...),
					"\nepilogue: "+tc.shown+"\n")
				require.Regexp(t, `(?m)^epilogue +`+tc.shown+`; plain is without$`,
					succeed(t, withOperands, append([]string{"bench", "--repeat", "1"}, with...)...))
			}
		})
	}
	require.NotContains(t, succeed(t, withOperands, "run", "-"), "epilogue")
}

// TestEpilogueResults: the results have the epilogue, with the A and B of runs without one.
func TestEpilogueResults(t *testing.T) {
	dir := t.TempDir()
	results := func(list string) []product {
		path := filepath.Join(dir, "out.npz")
		succeed(t, withOperands, "run", "-", "-o", path, "--epilogue", list)
		return products(t, contents(t, path))
	}
	plain := results("")
	relu := results("relu")
	scattered := results("scatter")
	for i, p := range plain {
		for j, x := range p.data {
			require.Equal(t, max(x, 0), relu[i].data[j])
		}
		rows := func(p product) (all [][]float32) {
			for row := range slices.Chunk(p.data, max(p.cols, 1)) {
				all = append(all, row)
			}
			return all
		}
		require.ElementsMatch(t, rows(p), rows(scattered[i]))
	}
	require.NotEqual(t, plain, scattered)
}

func TestDress(t *testing.T) {
	w, err := workload.Load("-", strings.NewReader(withOperands))
	require.NoError(t, err)
	none, o := placeEpilogue(w, planner.Options{Tile: "small"})
	require.Same(t, w, none)
	require.Equal(t, planner.Options{Tile: "small"}, o)

	o.TypeA, o.TypeC = element.BF16, element.BF16
	o.Epilogue, err = parseEpilogue([]string{"gated", "bias", "gather", "scatter", "weights"})
	require.NoError(t, err)
	decorated, o := placeEpilogue(w, o)
	require.Equal(t, [2]int{40, 40}, [2]int{o.Epilogue.GatherRows, o.Epilogue.ScatterRows}, "of the tallest")
	ops, err := operands(decorated, &o)
	require.NoError(t, err)
	need := w.Batch.Lengths(planner.Epilogue{})
	last := decorated.Batch[2]
	require.Equal(t, last.A.Offset+40*40, len(ops.A), "room for as many rows as the list may name")
	require.Equal(t, last.C.Offset+40*50, len(ops.C))
	require.Less(t, need.A, len(ops.A))
	require.Less(t, need.C, len(ops.C))
	after := aligned(need.B)
	require.Len(t, ops.B, after+need.B)
	require.NotEqual(t, ops.B[:need.B], ops.B[after:])
	require.Len(t, ops.Bias, 2*(20+50+5))
	require.Len(t, ops.Rows, 3*(40+3+7))
	for _, p := range decorated.Batch {
		require.Equal(t, planner.Matrix{Offset: p.B.Offset + after, LD: p.B.LD}, p.B2)
		if p.N == 0 {
			continue
		}
		for _, at := range []int{p.RowsA, p.RowsC} {
			order := slices.Clone(ops.Rows[at:][:p.M])
			slices.Sort(order)
			for i := range order {
				require.EqualValues(t, i, order[i])
			}
		}
		for _, bits := range ops.Rows[p.Weights:][:p.M] {
			require.InDelta(t, 1, math.Float32frombits(uint32(bits)), 0.5)
		}
	}
}

// TestPlaceEpilogueAgain: operands are always the same, and A, B and C equal those without an epilogue.
func TestPlaceEpilogueAgain(t *testing.T) {
	w, err := workload.Load("-", strings.NewReader(withOperands))
	require.NoError(t, err)
	bare, err := operands(w, new(planner.Options))
	require.NoError(t, err)
	decorated, o := placeEpilogue(w, planner.Options{Epilogue: planner.Epilogue{Bias: true, Gated: true,
		GatherRows: 1, ScatterRows: 1}})
	ops, err := operands(decorated, &o)
	require.NoError(t, err)
	again, err := operands(decorated, &o)
	require.NoError(t, err)
	require.Equal(t, ops, again)
	require.Equal(t, bare.A, ops.A[:len(bare.A)])
	require.Equal(t, bare.B, ops.B[:len(bare.B)])
	require.Equal(t, bare.C, ops.C[:len(bare.C)])
}

// TestBenchEpilogue: plain has the same products, and every way to time works with an epilogue.
func TestBenchEpilogue(t *testing.T) {
	sample.Command.Whole(t)
	dir := filepath.Join(t.TempDir(), "page")
	r := decode[bench.Report](t, withOperands, "bench", "-", "random:mn=20,k=20,batch=3", "--repeat", "1",
		"--epilogue", "gated,gelu,gather,scatter",
		"--vs", "f32", "--cold", "--live", "--regret", "--report", dir)
	require.Equal(t, "gelu, gated, gather, scatter", r.Epilogue)
	require.Equal(t, 2*2*(40*20*30+3*50*40)/1e9, r.Cases[0].GFLOP)
	require.Equal(t, []int{5, 3}, []int{r.Cases[0].Problems, r.Cases[1].Problems})
	for _, c := range r.Cases {
		var methods []string
		for _, row := range c.Rows {
			methods = append(methods, row.Method+"/"+row.Timed)
			require.Positive(t, row.Error)
			require.Equal(t, map[bool]int{false: c.Problems,
				true: 2 * c.Problems}[row.Method == withoutEpilogue], row.Checked)
		}
		want := []string{"batchgemm/wall", "batchgemm/live", "plain/wall",
			"batchgemm-ragged/wall", "f32/wall"}
		if c.Problems == 5 { // its transpositions differ
			want = slices.Delete(want, 3, 4)
		}
		require.Equal(t, want, methods)
		require.NotEmpty(t, c.Regret.Forced)
	}
	require.FileExists(t, filepath.Join(dir, "index.html"))
}

// TestMovedBeside: what an epilogue reads besides A, B and C counts once.
func TestMovedBeside(t *testing.T) {
	for _, tc := range []struct {
		name  string
		e     planner.Epilogue
		bytes float64
	}{
		{"none", planner.Epilogue{}, 0},
		{"activation", planner.Epilogue{Activation: planner.ReLU}, 0},
		{"bias", planner.Epilogue{Bias: true}, 4 * 3},
		{"gated", planner.Epilogue{Gated: true}, 2 * 4 * 3},
		{"gated with bias", planner.Epilogue{Gated: true, Bias: true}, 2*4*3 + 4*2*3},
		{"lists", planner.Epilogue{GatherRows: 2, ScatterRows: 2, Weights: true}, 3 * 4 * 2},
		{"scales of rows", planner.Epilogue{ScaleA: planner.PerRow, ScaleB: planner.PerRow}, 4 * (2 + 3)},
		{"scales of tensors", planner.Epilogue{ScaleA: planner.PerTensor, ScaleB: planner.PerTensor}, 4 * 2},
		{"scales of rows of A", planner.Epilogue{ScaleA: planner.PerRow, GatherRows: 9}, 4*2 + 4*2},
		{"zero points", planner.Epilogue{ScaleA: planner.PerRow, ScaleB: planner.PerRow, ZeroA: true},
			2 * 4 * (2 + 3)},
		{"scales of blocks", planner.Epilogue{ScaleA: planner.PerBlock, ScaleB: planner.PerBlock,
			Gated: true}, 2*4*3 + 4*(2+2)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			o := &planner.Options{TypeA: element.BF16, TypeB: element.BF16, Epilogue: tc.e}
			require.Equal(t, 2.0*(2*4+4*3)+4*2*3+tc.bytes, moved(planner.Batch{planner.GEMM(2, 3, 4)}, o))
		})
	}
	p := planner.GEMM(2, 3, 4)
	p.Alpha, p.Beta = planner.Scale(0), 1
	require.Equal(t, 4.0*(6+6), moved(planner.Batch{p},
		&planner.Options{Epilogue: planner.Epilogue{Activation: planner.ReLU}}), "1*C is changed too")
}

func TestRoundUp(t *testing.T) {
	cases := []struct{ n, unit, want int }{{0, 8, 0}, {1, 8, 8}, {8, 8, 8}, {9, 8, 16}, {17, 4, 20}}
	for _, tc := range cases {
		require.Equal(t, tc.want, roundUp(tc.n, tc.unit), "%d %d", tc.n, tc.unit)
	}
}
