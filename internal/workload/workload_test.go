package workload

import (
	"bytes"
	"math"
	"math/bits"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/hardware"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

func TestLoad(t *testing.T) {
	file := filepath.Join(t.TempDir(), "sizes.txt")
	require.NoError(t, os.WriteFile(file, []byte("2 3 4\n5 6 7\n"), 0o600))
	for _, tc := range []struct {
		name     string
		problems int
		first    [3]int // M, N, K
	}{
		{"inception-1", 4, [3]int{784, 96, 192}},
		{"inception-9", 5, [3]int{49, 192, 192}},
		{"zhang-128-128-8", 8, [3]int{68, 67, 33}},
		{"zhang-512-1024-256", 256, [3]int{361, 242, 791}},
		{"random:", 64, [3]int{313, 60, 96}},
		{"random:mn=512,k=128,batch=64,seed=1", 64, [3]int{313, 60, 96}},
		{"random:batch=2,mn=16,k=16", 2, [3]int{16, 16, 16}},
		{"moe:", 128, [3]int{41, 1536, 2048}},
		{"moe:experts=128,top=8,tokens=1024,n=1536,k=2048,skew=0.3,seed=1", 128, [3]int{41, 1536, 2048}},
		{"moe:k=5,n=6,experts=1,tokens=7", 1, [3]int{7, 6, 5}},
		{file, 2, [3]int{2, 3, 4}},
		{"-", 1, [3]int{8, 9, 10}},
	} {
		t.Run(filepath.Base(tc.name), func(t *testing.T) {
			w, err := Load(tc.name, strings.NewReader("8 9 10"))
			require.NoError(t, err)
			require.Equal(t, tc.name, w.Name)
			require.Nil(t, w.Operands)
			require.Len(t, w.Batch, tc.problems)
			require.Equal(t, tc.first, [3]int{w.Batch[0].M, w.Batch[0].N, w.Batch[0].K})
			require.NoError(t, w.Batch.Check(t.Context(), planner.Epilogue{},
				w.Batch.Lengths(planner.Epilogue{})))
		})
	}
}

func TestLoadUnknown(t *testing.T) {
	const known = ": not a file, nor inception-1 .. inception-9, zhang-MN-K-BATCH, " +
		"random:mn=N,k=N,batch=N,seed=N or moe:experts=N,top=N,tokens=N,n=N,k=N,skew=X,seed=N"
	for _, tc := range []struct{ name, want string }{
		{"inception-10", `unknown workload "inception-10"` + known},
		{"zhang-1-2-3", `unknown workload "zhang-1-2-3"` + known},
		{"no/such/file", `unknown workload "no/such/file"` + known},
		{"missing.npz", `unknown workload "missing.npz"` + known},
		{"", `unknown workload ""` + known},
		{"random", `unknown workload "random"` + known},
		{"other:k=1", `unknown workload "other:k=1"` + known},
		{"random:mn=15", `unknown workload "random:mn=15": mn "15" is not in [16, 2147483647]`},
		{"random:k=x", `unknown workload "random:k=x": k "x" is not in [16, 2147483647]`},
		{"random:batch=0", `unknown workload "random:batch=0": batch "0" is not in [1, 1048576]`},
		{"random:batch", `unknown workload "random:batch": batch "" is not in [1, 1048576]`},
		{"random:seed=-1",
			`unknown workload "random:seed=-1": seed "-1" is not in [0, 18446744073709551615]`},
		{"random:n=3",
			`unknown workload "random:n=3": "n=3" is not one of mn=, k=, batch=, seed=, once each`},
		{"random:k=16,k=17",
			`unknown workload "random:k=16,k=17": "k=17" is not one of mn=, k=, batch=, seed=, once each`},
		{"moe:m=3",
			`unknown workload "moe:m=3": "m=3" is not one of experts=, top=, tokens=, n=, k=, skew=, ` +
				`seed=, once each`},
		{"moe:top=1,top=1",
			`unknown workload "moe:top=1,top=1": "top=1" is not one of experts=, top=, tokens=, n=, k=, ` +
				`skew=, seed=, once each`},
		{"moe:experts=0", `unknown workload "moe:experts=0": experts "0" is not in [1, 1048576]`},
		{"moe:experts=9999999",
			`unknown workload "moe:experts=9999999": experts "9999999" is not in [1, 1048576]`},
		{"moe:top=0", `unknown workload "moe:top=0": top "0" is not in [1, 1048576]`},
		{"moe:top=9,experts=8", `unknown workload "moe:top=9,experts=8": top 9 is more than the 8 experts`},
		{"moe:tokens=-1", `unknown workload "moe:tokens=-1": tokens "-1" is not in [1, 4194304]`},
		{"moe:tokens=524289",
			`unknown workload "moe:tokens=524289": tokens 524289 with top 8 give more than 4194304 rows`},
		{"moe:n=2147483648", `unknown workload "moe:n=2147483648": n "2147483648" is not in [1, 2147483647]`},
		{"moe:k=99999999999999999999",
			`unknown workload "moe:k=99999999999999999999": k "99999999999999999999" is not in [1, ` +
				`2147483647]`},
		{"moe:skew=-0.1", `unknown workload "moe:skew=-0.1": skew "-0.1" is not in [0, 10]`},
		{"moe:skew=nan", `unknown workload "moe:skew=nan": skew "nan" is not in [0, 10]`},
		{"moe:skew=1e9", `unknown workload "moe:skew=1e9": skew "1e9" is not in [0, 10]`},
		{"moe:seed=x", `unknown workload "moe:seed=x": seed "x" is not in [0, 18446744073709551615]`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := Load(tc.name, nil)
			require.ErrorIs(t, err, ErrUnknown)
			require.EqualError(t, err, tc.want)
		})
	}
}

func TestLoadBadContent(t *testing.T) {
	dir := t.TempDir()
	_, err := Load(dir, nil)
	require.NotErrorIs(t, err, ErrUnknown)
	require.ErrorContains(t, err, "is a directory")

	_, err = Load("-", strings.NewReader("1 2"))
	require.EqualError(t, err, "stdin:1: K is missing, want M N K [transA transB alpha beta]")

	huge := filepath.Join(dir, "huge")
	require.NoError(t, os.WriteFile(huge, []byte(strings.Repeat("2147483647 2147483647 1\n", 3)), 0o600))
	_, err = Load(huge, nil)
	require.ErrorContains(t, err, huge+": problem ")
	require.ErrorContains(t, err, " does not fit: its last offset overflows")
}

// TestLoadStream: matrices from a pipe equal those of the file.
func TestLoadStream(t *testing.T) {
	const file = "testdata/numpy.npz"
	want, err := Load(file, nil)
	require.NoError(t, err)
	raw, err := os.ReadFile(file)
	require.NoError(t, err)
	t.Setenv("TMPDIR", t.TempDir())
	got, err := Load("-", bytes.NewReader(raw))
	require.NoError(t, err)
	require.Equal(t, "-", got.Name)
	require.Equal(t, want.Batch, got.Batch)
	require.Equal(t, want.Operands, got.Operands)
	left, err := os.ReadDir(os.Getenv("TMPDIR"))
	require.NoError(t, err)
	require.Empty(t, left)

	_, err = Load("-", bytes.NewReader(raw[:len(raw)/2]))
	require.EqualError(t, err, "stdin: not an .npz file: zip: not a valid zip file")
	_, err = Load("-", strings.NewReader("\x93NUMPY\x01\x00"))
	require.EqualError(t, err, "stdin is a .npy file with one array, want .npz with A0, B0[, C0], A1 and "+
		"so on, as numpy.savez writes it")
}

func TestRandomIsDeterministic(t *testing.T) {
	require.Equal(t, random(512, 128, 64, 1), random(512, 128, 64, 1))
	require.NotEqual(t, random(512, 128, 64, 1), random(512, 128, 64, 2))
}

func TestRandomRange(t *testing.T) {
	var low, high [3]bool
	for _, p := range random(20, 18, 2000, 7) {
		for i, size := range [3]int{p.M, p.N, p.K} {
			limit := [3]int{20, 20, 18}[i]
			require.GreaterOrEqual(t, size, 16)
			require.LessOrEqual(t, size, limit)
			low[i] = low[i] || size == 16
			high[i] = high[i] || size == limit
		}
	}
	require.Equal(t, [3]bool{true, true, true}, low)
	require.Equal(t, [3]bool{true, true, true}, high)
}

func TestZhang(t *testing.T) {
	cases := Zhang()
	require.Len(t, cases, 72)
	names := map[string]bool{}
	for _, c := range cases {
		names[c.Name] = true
		require.Len(t, c.Problems, c.Batch, c.Name)
		for _, p := range c.Problems {
			require.GreaterOrEqual(t, min(p.M, p.N, p.K), 16, c.Name)
			require.LessOrEqual(t, max(p.M, p.N), c.MaxMN, c.Name)
			require.LessOrEqual(t, p.K, c.MaxK, c.Name)
		}
	}
	require.Len(t, names, 72)
}

// TestNames: every listed name loads.
func TestNames(t *testing.T) {
	names := Names()
	require.Len(t, names, 9+72)
	for _, name := range names {
		w, err := Load(name, nil)
		require.NoError(t, err)
		require.NotEmpty(t, w.Batch)
	}
}

func TestNewOperandsTooLarge(t *testing.T) {
	if bits.UintSize < 64 {
		t.Skip("no batch is so large with addresses of 32 bits")
	}
	batch, err := planner.Pack(planner.GEMM(planner.MaxDim, planner.MaxDim, 1))
	require.NoError(t, err)
	_, err = NewOperands(batch, 0)
	require.ErrorIs(t, err, hardware.ErrOutOfMemory)
	require.ErrorContains(t, err, "the matrices: out of memory: 8589934592.0 GiB more are needed, ")
}

// TestRound: each number is rounded to the nearest of its matrix's type.
func TestRound(t *testing.T) {
	numbers := []float32{1 + 0x1p-9, 1 + 0x1p-20, -70000}
	infinite := float32(math.Inf(-1))
	want := map[element.Type][]float32{
		element.F32:  numbers,
		element.BF16: {1, 1, -70144},
		element.F16:  {1 + 0x1p-9, 1, infinite},
		element.E4M3: {1, 1, -448},
		element.Int8: {1, 1, -128},
	}
	for _, tc := range []struct{ ab, c element.Type }{
		{element.F32, element.F32}, {element.BF16, element.BF16}, {element.F16, element.F16},
		{element.F16, element.F32}, {element.E4M3, element.BF16}, {element.Int8, element.BF16},
	} {
		t.Run(tc.ab.String()+"/"+tc.c.String(), func(t *testing.T) {
			o := Operands{A: slices.Clone(numbers), B: slices.Clone(numbers), C: slices.Clone(numbers),
				Bias: slices.Clone(numbers)}
			o.Round(tc.ab, tc.ab, tc.c)
			require.Equal(t, Operands{A: want[tc.ab], B: want[tc.ab], C: want[tc.c], Bias: want[tc.c]}, o)
		})
	}
}
