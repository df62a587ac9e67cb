package main

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/dispatch"
	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/bench"
	"github.com/batchgemm/batchgemm/internal/npz"
	"github.com/batchgemm/batchgemm/internal/sample"
	"github.com/batchgemm/batchgemm/internal/workload"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

// typeCases are flags of types, with their meaning.
var typeCases = []struct {
	name  string
	flags []string
	ab, c element.Type
	shown string // what text shows of them
}{
	{"default", nil, element.F32, element.F32, ""},
	{"f32", []string{"--type", "f32", "--type-c", "f32"}, element.F32, element.F32, ""},
	{"bf16", []string{"--type", "bf16"}, element.BF16, element.BF16, "bf16, C of bf16"},
	{"f16", []string{"--type", "f16"}, element.F16, element.F16, "f16, C of f16"},
	{"bf16 to f32", []string{"--type", "bf16", "--type-c", "f32"}, element.BF16, element.F32,
		"bf16, C of f32"},
	{"e4m3", []string{"--type", "e4m3"}, element.E4M3, element.BF16, "e4m3, C of bf16"},
	{"e4m3 to f16", []string{"--type", "e4m3", "--type-c", "f16"}, element.E4M3, element.F16,
		"e4m3, C of f16"},
	{"e4m3 to f32", []string{"--type", "e4m3", "--type-c", "f32"}, element.E4M3, element.F32,
		"e4m3, C of f32"},
	{"int8", []string{"--type", "int8"}, element.Int8, element.BF16, "int8, C of bf16"},
	{"int8 to f32", []string{"--type", "int8", "--type-c", "f32"}, element.Int8, element.F32,
		"int8, C of f32"},
	{"f16 to f32", []string{"--type", "f16", "--type-c", "f32"}, element.F16, element.F32, "f16, C of f32"},
}

// TestTypes: every command with types computes in them, and names them in all output unless they are
// float32.
func TestTypes(t *testing.T) {
	for _, tc := range typeCases {
		for _, command := range []string{"plan -", "run - --verify", "verify - --backend cpu",
			"bench - --repeat 1"} {
			t.Run(command+"/"+tc.name, func(t *testing.T) {
				sample.Command.Whole(t)
				args := append(strings.Fields(command), tc.flags...)
				text := succeed(t, tiny, args...)
				if tc.shown == "" {
					require.NotContains(t, text, ", C of ")
				} else {
					require.Contains(t, text, tc.shown)
				}
				var found []struct {
					Type  element.Type `json:"type"`
					TypeC element.Type `json:"type_c"`
				}
				raw := bytes.TrimSpace([]byte(succeed(t, tiny, append(args, "--json")...)))
				if raw[0] != '[' {
					raw = append(append([]byte{'['}, raw...), ']')
				}
				require.NoError(t, json.Unmarshal(raw, &found))
				require.Equal(t, tc.ab != element.F32, bytes.Contains(raw, []byte(`"type":`)))
				require.NotEmpty(t, found)
				for _, f := range found {
					require.Equal(t, [2]element.Type{tc.ab, tc.c}, [2]element.Type{f.Type, f.TypeC})
				}
			})
		}
	}
}

// TestVerifyTypes: the bound depends on the types: results rounded to bf16 pass, and errors of that size
// fail for float32.
func TestVerifyTypes(t *testing.T) {
	for _, tc := range typeCases {
		t.Run(tc.name, func(t *testing.T) {
			for _, c := range decode[[]check](t, "70 60 1\n",
				append([]string{"verify", "-", "--backend", "cpu"}, tc.flags...)...) {
				require.Empty(t, c.Failure)
				switch {
				case tc.ab == element.E4M3, tc.ab == element.Int8 && tc.c == element.F32:
					require.Zero(t, c.Error, "products are numbers of the type")
				case tc.c != element.F32:
					require.Greater(t, c.Error, 0.5, "one rounding, by half a unit")
				}
			}
		})
	}
}

// plainDriver has devices only for float32.
type plainDriver struct{ driver.Driver }

func (d plainDriver) Open(ctx context.Context, index int) (driver.Device, error) {
	device, err := d.Driver.Open(ctx, index)
	return plainDevice{device}, err
}

type plainDevice struct{ driver.Device }

func (d plainDevice) Info() driver.Info {
	info := d.Device.Info()
	info.Planner.Types = nil
	return info
}

// TestVerifyWithoutKernels: a device without kernels for a type is reported, and is no failure.
func TestVerifyWithoutKernels(t *testing.T) {
	all := dispatch.Backends()
	cpu := slices.IndexFunc(all, func(d driver.Driver) bool { return d.Name() == "cpu" })
	device, err := dispatch.Open(t.Context(), dispatch.WithDriver(plainDriver{all[cpu]}))
	require.NoError(t, err)
	w, err := workload.Load("-", strings.NewReader(tiny))
	require.NoError(t, err)
	ops, err := operands(w, new(planner.Options))
	require.NoError(t, err)
	c := check{Backend: "cpu", Type: element.BF16}
	checks := c.schedules(t.Context(), device, w, ops, &progress{})
	require.Len(t, checks, 1)
	require.Contains(t, checks[0].Skipped, "has no kernels for elements of bf16")
	require.Empty(t, checks[0].Failure)
}

func TestRunNPZTypes(t *testing.T) {
	dir := t.TempDir()
	in, out := filepath.Join(dir, "in.npz"), filepath.Join(dir, "out.npz")
	w, err := npz.Create(in)
	require.NoError(t, err)
	const between = 1 + 0x1p-9 + 0x1p-12 // f16 rounds it to 1 + 2^-9, bf16 to 1
	require.NoError(t, w.Write("A0", element.F32, 1, 2, []float32{between, 70000}))
	require.NoError(t, w.Write("B0", element.F16, 2, 2, []float32{1, 0, 0, 1}))
	require.NoError(t, w.Write("C0", element.F32, 1, 2, []float32{between, 0}))
	require.NoError(t, w.Commit())
	for _, tc := range []struct {
		name string
		args []string
		of   npz.DType
		want []float32
	}{
		{"as they are", nil, npz.Float32, []float32{2 * between, 70000}},
		{"bf16", []string{"--type", "bf16"}, npz.Float32, []float32{2, 70144}},
		{"bf16 to f32", []string{"--type", "bf16", "--type-c", "f32"}, npz.Float32,
			[]float32{1 + between, 70144}},
		{"e4m3", []string{"--type", "e4m3"}, npz.Float32, []float32{2, 448}},
		{"e4m3 to f32", []string{"--type", "e4m3", "--type-c", "f32"}, npz.Float32,
			[]float32{1 + between, 448}},
		{"int8 to f32", []string{"--type", "int8", "--type-c", "f32"}, npz.Float32,
			[]float32{1 + between, 127}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			succeed(t, "", append([]string{"run", in, "-o", out, "--verify"}, tc.args...)...)
			require.Equal(t, tc.of, resultOf(t, out).DType)
			require.Equal(t, tc.want, products(t, contents(t, out))[0].data)
		})
	}
}

func TestRunHalfOutput(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out.npz")
	succeed(t, "", "run", numpyFile, "-o", path, "--verify", "--type", "f16")
	require.Equal(t, npz.Float16, resultOf(t, path).DType)
	require.Equal(t, numpyProducts, products(t, contents(t, path)))
}

func contents(t *testing.T, path string) string {
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(raw)
}

// resultOf returns the first array of an archive.
func resultOf(t *testing.T, path string) npz.Array {
	raw := contents(t, path)
	arrays, err := npz.List(strings.NewReader(raw), int64(len(raw)))
	require.NoError(t, err)
	return arrays[0]
}

// TestBenchTypes: forced plans, steps and pages also have the types.
func TestBenchTypes(t *testing.T) {
	sample.Command.Whole(t)
	dir := filepath.Join(t.TempDir(), "page")
	text := succeed(t, "64 64 64\n", "bench", "-", "--repeat", "1", "--type", "bf16", "--type-c", "f32",
		"--cold", "--live", "--regret", "--data", "mixed", "--csv", "--report", dir)
	records, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	require.NoError(t, err)
	for _, record := range records[1:] {
		require.Equal(t, []string{"bf16", "f32", "bf16"}, record[len(record)-3:])
	}
	page := contents(t, filepath.Join(dir, "index.html"))
	require.Contains(t, page, "bf16, C of f32")
	require.Contains(t, page, "the peak rates of cpu for bf16, C of f32 are not known")
	r := decode[bench.Report](t, "64 64 64\n", "bench", "-", "--repeat", "1", "--type", "f16", "--cold")
	require.Equal(t, 2.0*3*64*64, r.Cases[0].Bytes)
}

// 8-bit elements move like 16-bit ones.
func TestPiecesOfBytes(t *testing.T) {
	device, err := dispatch.Open(t.Context(), dispatch.WithBackend("cpu"))
	require.NoError(t, err)
	defer device.Close()
	b, err := device.NewBuffer(element.E4M3, piece+3)
	require.NoError(t, err)
	numbers, bits := make([]float32, piece+3), make([]uint8, piece+3)
	for i := range numbers {
		numbers[i] = float32(i%33 - 16)
	}
	require.NoError(t, write(t.Context(), b, numbers))
	require.NoError(t, dispatch.Read(t.Context(), b, 0, bits))
	for i, x := range bits {
		require.Equal(t, numbers[i], element.Float8E4M3(x).Float32())
	}
}

// TestRandomInt8: random matrices have all numbers of the type, also B2, but C has those of its type.
func TestRandomInt8(t *testing.T) {
	w, err := workload.Load("-", strings.NewReader("40 50 60\n"))
	require.NoError(t, err)
	decorated, o := placeEpilogue(w,
		planner.Options{TypeA: element.Int8, Epilogue: planner.Epilogue{Gated: true}})
	ops, err := operands(decorated, &o)
	require.NoError(t, err)
	b2 := decorated.Batch[0].B2.Offset
	for name, s := range map[string][]float32{"A": ops.A, "B": ops.B[:b2], "B2": ops.B[b2:]} {
		require.EqualValues(t, -128, slices.Min(s), name)
		require.EqualValues(t, 127, slices.Max(s), name)
	}
	require.InDelta(t, 1, slices.Max(ops.C), 0.01)
}

// TestPieces: data of several conversions are moved completely, and come back.
func TestPieces(t *testing.T) {
	device, err := dispatch.Open(t.Context(), dispatch.WithBackend("cpu"))
	require.NoError(t, err)
	defer device.Close()
	for _, n := range []int{0, 1, piece, 2*piece + 3} {
		b, err := device.NewBuffer(element.F16, n)
		require.NoError(t, err)
		want, got := make([]float32, n), make([]float32, n)
		for i := range want {
			want[i] = float32(i % 1021)
		}
		require.NoError(t, write(t.Context(), b, want))
		require.NoError(t, read(t.Context(), b, got))
		require.Equal(t, want, got, n)
	}
}
