package main

import (
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/dispatch"
	"github.com/batchgemm/batchgemm/internal/bench"
	"github.com/batchgemm/batchgemm/internal/elemtype"
	"github.com/batchgemm/batchgemm/internal/npz/npztest"
	"github.com/batchgemm/batchgemm/internal/sample"
	"github.com/batchgemm/batchgemm/internal/workload"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

// wholeGroups has problems without elements or products; the K of the others is a multiple of 64 and 128.
const wholeGroups = "40 20 128\n0 5 5\n3 50 256 n n 0.5\n6 9 0\n7 5 128 n n 0\n7 0 3\n"

// TestInt4: every command computes 4-bit B, with all epilogues, and names the types.
func TestInt4(t *testing.T) {
	for _, tc := range []struct{ name, flags, elements, epilogue, kernel string }{
		{"bf16", "--type bf16", "bf16, B of int4, C of bf16", "group-128", "/scale-b-group-128 "},
		{"f16 to f32, groups of 64", "--type f16 --type-c f32 --epilogue group-64",
			"f16, B of int4, C of f32", "group-64", "/scale-b-group-64 "},
		{"all", "--type bf16 --epilogue bias,silu,gated,gather,scatter,weights,group-128",
			"bf16, B of int4, C of bf16",
			"bias, silu, gated, gather, scatter, weights, group-128",
			"/gather/scale-b-group-128/bias/silu/gated/weights/scatter "},
	} {
		t.Run(tc.name, func(t *testing.T) {
			with := append([]string{"-", "--backend", "cpu", "--type-b", "int4"}, strings.Fields(tc.flags)...)
			text := func(command string, args ...string) string {
				return succeed(t, wholeGroups, append(append([]string{command}, with...), args...)...)
			}
			planned := text("plan")
			require.Contains(t, planned, tc.kernel)
			require.Regexp(t, `(?m)^elements +`+tc.elements+`$`, planned)
			ran := text("run", "--verify")
			require.Contains(t, ran, " of "+tc.elements+", ")
			require.Regexp(t, `(?m)^epilogue +`+tc.epilogue+`$`, ran)
			verified := text("verify")
			require.Contains(t, verified, "\nelements: "+tc.elements+"\nepilogue: "+tc.epilogue+"\n")
			require.Equal(t, len(planner.Schedules()), strings.Count(verified, " ok"))
			timed := text("bench", "--repeat", "1")
			require.Regexp(t, `(?m)^elements +`+tc.elements+`$`, timed)
			require.Regexp(t, `(?m)^epilogue +`+tc.epilogue+`; plain is without$`, timed)
		})
	}
}

func TestInt4JSON(t *testing.T) {
	with := []string{"-", "--backend", "cpu", "--type", "f16", "--type-b", "int4"}
	type types struct {
		Type  element.Type `json:"type"`
		TypeB element.Type `json:"type_b"`
		TypeC element.Type `json:"type_c"`
	}
	want := types{element.F16, element.Int4, element.F16}
	require.Equal(t, want, decode[types](t, wholeGroups, append([]string{"plan"}, with...)...))
	require.Equal(t, want, decode[types](t, wholeGroups, append([]string{"run"}, with...)...))
	for _, c := range decode[[]types](t, wholeGroups, append([]string{"verify"}, with...)...) {
		require.Equal(t, want, c)
	}
	require.Equal(t, want, decode[types](t, wholeGroups,
		append([]string{"bench", "--repeat", "1"}, with...)...))
	require.NotContains(t, succeed(t, wholeGroups, "run", "-", "--type", "f16", "--json"), "type_b")
}

// TestInt4Bench: every way to time works with 4-bit B, whose traffic is a quarter of that of plain.
func TestInt4Bench(t *testing.T) {
	sample.Command.Whole(t)
	dir := filepath.Join(t.TempDir(), "page")
	r := decode[bench.Report](t, "64 48 128\n", "bench", "-", "random:mn=20,k=200,batch=3", "--repeat", "1",
		"--type", "bf16", "--type-b", "int4",
		"--cold", "--live", "--regret", "--report", dir)
	require.Equal(t, 2*64*128+128*48/2+2*64*48+4*48.0, r.Cases[0].Bytes)
	for _, c := range r.Cases {
		var methods []string
		for _, row := range c.Rows {
			require.Empty(t, row.Wrong)
			require.Positive(t, row.Error)
			methods = append(methods, row.Method+"/"+row.Timed)
		}
		require.Equal(t, []string{"batchgemm/wall", "batchgemm/live", "plain/wall", "batchgemm-ragged/wall"},
			methods)
		require.NotEmpty(t, c.Regret.Forced)
	}
	require.FileExists(t, filepath.Join(dir, "index.html"))
}

// TestLiveScales: records of programs with scales have words for them.
func TestLiveScales(t *testing.T) {
	r := decode[bench.Report](t, "8 9 16\n", "bench", "-", "--repeat", "1", "--type", "int8", "--epilogue",
		"row-scales,zeros", "--live")
	require.Len(t, r.Cases[0].Rows, 4)
}

// int4File writes A and 4-bit B, in one of the forms of files, and returns the numbers of B, k x n.
func int4File(t *testing.T, form string, a []float32, m, n, k, group int) (path string, b []float32) {
	rng := rand.New(rand.NewPCG(3, 0))
	rows, columns, b := make([]uint8, k*n), make([]uint8, k*n), make([]float32, k*n)
	scales, zeros := make([]float32, k/group*n), make([]uint8, k/group*n)
	for i := range scales {
		scales[i], zeros[i] = float32(int(1)<<rng.IntN(3)), uint8(rng.IntN(16))
	}
	if form == "floats" {
		scales, zeros = slices.Repeat([]float32{0.5}, len(scales)), slices.Repeat([]uint8{8}, len(zeros))
	}
	for j := range n {
		for i := range k {
			x := uint8(rng.IntN(16))
			if i%group == 0 {
				x = 0 // so that the scale of the quantised matrix is known
			}
			rows[i*n+j], columns[j*k+i] = x, x
			b[i*n+j] = scales[i/group*n+j] * float32(int(x)-int(zeros[i/group*n+j]))
		}
	}
	arrays := []npztest.Array{{Name: "A0", Data: a, Shape: []int{m, k}}}
	switch form {
	case "floats":
		arrays = append(arrays, npztest.Array{Name: "B0", Data: b, Shape: []int{k, n}})
	case "integers":
		arrays = append(arrays, npztest.Array{Name: "B0", Data: rows, Shape: []int{k, n}},
			npztest.Array{Name: "S0", Data: scales, Shape: []int{k / group, n}},
			npztest.Array{Name: "Z0", Data: zeros, Shape: []int{k / group, n}})
	case "words":
		ld := element.Int4LD(n)
		words, groups := make([]uint32, k*ld/8), make([]uint32, k/group*ld)
		element.PackInt4(words, columns, n, k)
		for i := range scales {
			groups[i/n*ld+i%n] = element.GroupWord(scales[i], int(zeros[i]))
		}
		arrays = append(arrays, npztest.Array{Name: "B0", Data: words, Shape: []int{k / 64, ld, 8}},
			npztest.Array{Name: "S0", Data: groups, Shape: []int{k / group, ld}},
			npztest.Array{Name: "C0", Data: make([]float32, m*n), Shape: []int{m, n}})
	}
	return npztest.Write(t, arrays...), b
}

// TestInt4Results: results are the product with the numbers that a file's B represents, exactly if they are
// small.
func TestInt4Results(t *testing.T) {
	const m, n, k, group = 5, 11, 128, 64
	a := make([]float32, m*k)
	for i := range a {
		a[i] = float32(i%7 - 3)
	}
	for _, form := range []string{"floats", "integers", "words"} {
		t.Run(form, func(t *testing.T) {
			in, b := int4File(t, form, a, m, n, k, group)
			out := filepath.Join(t.TempDir(), "out.npz")
			succeed(t, "", "run", in, "-o", out, "--verify", "--type", "bf16", "--type-b", "int4", "--type-c",
				"f32", "--epilogue", "group-64")
			want := make([]float32, m*n)
			for i := range want {
				for l := range k {
					want[i] += a[i/n*k+l] * b[l*n+i%n]
				}
			}
			require.Equal(t, []product{{m, n, want}}, products(t, contents(t, out)))
			succeed(t, "", "verify", in, "--backend", "cpu", "--type", "bf16", "--type-b", "int4",
				"--epilogue", "group-64,silu,gather")
			succeed(t, "", "bench", in, "--repeat", "1", "--type", "f16", "--type-b", "int4", "--epilogue",
				"group-64,relu")
		})
	}
}

// TestInt4Operands: B2 has its own words and groups after those of B, and all numbers are those of words.
func TestInt4Operands(t *testing.T) {
	o := planner.Options{TypeA: element.BF16, TypeB: element.Int4, TypeC: element.BF16,
		Epilogue: planner.Epilogue{ScaleB: planner.PerGroup64, Gated: true}}
	in, numbers := int4File(t, "integers", make([]float32, 2*128), 2, 9, 128, 64)
	w, err := workload.LoadOf(in, nil, &o)
	require.NoError(t, err)
	decorated, o := placeEpilogue(w, o)
	ops, err := operands(decorated, &o)
	require.NoError(t, err)
	p := &decorated.Batch[0]
	require.Zero(t, p.B2.Offset%elemtype.Line(element.Int4))
	elements := make([]uint8, 9*128)
	for _, m := range []struct {
		planner.Matrix
		scales int
	}{{p.B, p.ScaleB}, {p.B2, p.ScaleB + 2*16}} {
		words := make([]uint32, 128*16/8)
		copy(words, ops.Packed[m.Offset/8:]) // there may be none after the last column
		element.UnpackInt4(elements, words, 9, 128)
		for j := range 9 {
			for k := range 128 {
				scale, zero := element.GroupOf(uint32(ops.Rows[m.scales+k/64*16+j]))
				x := scale * float32(int(elements[j*128+k])-zero)
				require.Equal(t, x, ops.B[m.Offset+k*16+j])
				if m.Matrix == p.B {
					require.Equal(t, numbers[k*9+j], x)
				}
			}
		}
	}
	again, err := operands(decorated, &o)
	require.NoError(t, err)
	require.Equal(t, ops, again)
}

// TestPiecesOfWords: words are moved completely if there are more than are converted at a time.
func TestPiecesOfWords(t *testing.T) {
	device, err := dispatch.Open(t.Context(), dispatch.WithBackend("cpu"))
	require.NoError(t, err)
	defer device.Close()
	c := content{of: element.Int4, packed: make([]uint32, piece+3)}
	for i := range c.packed {
		c.packed[i] = uint32(i) * 0x9e3779b9
	}
	require.Equal(t, 8*(piece+3), c.len())
	b, err := device.NewBuffer(c.of, c.len())
	require.NoError(t, err)
	require.NoError(t, c.write(t.Context(), b))
	got := make([]int32, piece+3)
	require.NoError(t, dispatch.Read(t.Context(), b, 0, got))
	for i, word := range c.packed {
		require.Equal(t, word, uint32(got[i]))
	}
}
