package workload

import (
	"archive/zip"
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/npz"
	"github.com/batchgemm/batchgemm/internal/npz/npztest"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

// shape is an array of a test file; its elements count up from 1.
type shape struct {
	name       string
	rows, cols int
}

func writeArrays(t *testing.T, shapes ...shape) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "in.npz")
	w, err := npz.Create(path)
	require.NoError(t, err)
	defer w.Close()
	for _, s := range shapes {
		require.NoError(t, w.Write(s.name, element.F32, s.rows, s.cols, ramp(s.rows*s.cols, 1)))
	}
	require.NoError(t, w.Commit())
	return path
}

func ramp(n int, start float32) []float32 {
	data := make([]float32, n)
	for i := range data {
		data[i] = start + float32(i)
	}
	return data
}

// TestReadNumPy reads a file that NumPy wrote (testdata/make.py).
func TestReadNumPy(t *testing.T) {
	w, err := Load("testdata/numpy.npz", nil)
	require.NoError(t, err)
	want, err := planner.Pack(
		planner.Problem{M: 2, N: 4, K: 3},
		planner.Problem{M: 3, N: 2, K: 2, TransA: true, TransB: true, Beta: 1},
		planner.Problem{M: 0, N: 3, K: 5},
		planner.Problem{M: 2, N: 2, K: 0, Beta: 1},
	)
	require.NoError(t, err)
	require.Equal(t, want, w.Batch)
	require.Equal(t, ramp(6, 1), w.Operands.A[:6])
	require.Equal(t, ramp(12, 1), w.Operands.B[:12])
	// Fortran order: columns of the array are rows of the stored matrix.
	require.Equal(t, []float32{5, 7, 9, 6, 8, 10}, w.Operands.A[want[1].A.Offset:][:6])
	require.Equal(t, []float32{9, 11, 10, 12}, w.Operands.B[want[1].B.Offset:][:4])
	require.Equal(t, make([]float32, 8), w.Operands.C[:8])
	require.Equal(t, ramp(6, -3), w.Operands.C[want[1].C.Offset:][:6])
	require.Equal(t, ramp(4, 7), w.Operands.C[want[3].C.Offset:][:4])
}

// TestRead reads files in memory, like those of a page.
func TestRead(t *testing.T) {
	for _, tc := range []struct {
		name, content, want string
	}{
		{"sizes", "2 3 4\n5 6 7\n", ""},
		{"sizes.npz", "2 3 4\n", "sizes.npz: not an .npz file: zip: not a valid zip file"},
		{"zip", "PK and no more", "zip: not an .npz file: zip: not a valid zip file"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w, err := Read(tc.name, []byte(tc.content))
			if tc.want != "" {
				require.EqualError(t, err, tc.want)
				return
			}
			require.NoError(t, err)
			require.Len(t, w.Batch, 2)
			require.Nil(t, w.Operands)
		})
	}
	content, err := os.ReadFile("testdata/numpy.npz")
	require.NoError(t, err)
	got, err := Read("numpy", content)
	require.NoError(t, err)
	want, err := Load("testdata/numpy.npz", nil)
	require.NoError(t, err)
	require.Equal(t, want.Batch, got.Batch)
	require.Equal(t, want.Operands, got.Operands)
}

func TestReadNPZErrors(t *testing.T) {
	for _, tc := range []struct {
		name   string
		arrays []shape
		want   string
	}{
		{"empty", nil, "no arrays, want A0, B0[, C0], A1 and so on"},
		{"inner sizes", []shape{{"A0", 2, 3}, {"B0", 4, 5}}, "B0 has shape (4, 5), but A0 has 3 columns"},
		{"C", []shape{{"A0", 2, 3}, {"B0", 3, 5}, {"C0", 2, 4}}, "C0 has shape (2, 4), but A0*B0 has (2, 5)"},
		{"C transposed", []shape{{"A0", 2, 3}, {"B0", 3, 5}, {"C0", 5, 2}},
			"C0 has shape (5, 2), but A0*B0 has (2, 5)"},
		{"B missing", []shape{{"A0", 1, 1}, {"B0", 1, 1}, {"A1", 1, 1}}, "array B1 is missing"},
		{"A missing", []shape{{"B0", 1, 1}}, "array A0 is missing"},
		{"C alone", []shape{{"A0", 1, 1}, {"B0", 1, 1}, {"C1", 1, 1}}, "array A1 is missing"},
		{"gap", []shape{{"A0", 1, 1}, {"B0", 1, 1}, {"A2", 1, 1}, {"B2", 1, 1}}, "array A1 is missing"},
		{"gap at 0", []shape{{"A1", 1, 1}, {"B1", 1, 1}}, "array A0 is missing"},
		{"twice", []shape{{"A0", 1, 1}, {"A0", 1, 1}}, "array A0 is there twice"},
		{"other name", []shape{{"A0", 1, 1}, {"B0", 1, 1}, {"weights", 1, 1}},
			`unknown array "weights": the arrays are A0, B0 and, where something is added to A0*B0, C0; ` +
				`then A1, B1 and so on`},
		{"lower case", []shape{{"a0", 1, 1}, {"b0", 1, 1}},
			`unknown array "a0": the arrays are A0, B0 and, where something is added to A0*B0, C0; then ` +
				`A1, B1 and so on`},
		{"leading zero", []shape{{"A00", 1, 1}, {"B00", 1, 1}},
			`unknown array "A00": the arrays are A0, B0 and, where something is added to A0*B0, C0; then ` +
				`A1, B1 and so on`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			path := writeArrays(t, tc.arrays...)
			_, err := Load(path, nil)
			require.EqualError(t, err, path+": "+tc.want)
		})
	}
}

// TestReadNPZOther: for an unknown array the error is about its name, not its shape.
func TestReadNPZOther(t *testing.T) {
	var raw bytes.Buffer
	z := zip.NewWriter(&raw)
	w, err := z.Create("bias.npy")
	require.NoError(t, err)
	const dict = "{'descr': '<f4', 'fortran_order': False, 'shape': (0,), }\n"
	_, err = io.WriteString(w, "\x93NUMPY\x01\x00"+string(rune(len(dict)))+"\x00"+dict)
	require.NoError(t, err)
	require.NoError(t, z.Close())
	_, err = Load("-", &raw)
	require.EqualError(t, err,
		`stdin: unknown array "bias": the arrays are A0, B0 and, where something is added to A0*B0, C0; `+
			`then A1, B1 and so on`)
}

func TestReadNPZFortranC(t *testing.T) {
	_, err := Load("testdata/fortran-c.npz", nil)
	require.EqualError(t, err, "testdata/fortran-c.npz: C0 is in Fortran order; convert it with "+
		"numpy.ascontiguousarray")
}

func TestReadNPZNotZip(t *testing.T) {
	path := filepath.Join(t.TempDir(), "in.npz")
	require.NoError(t, os.WriteFile(path, []byte("not a zip"), 0o600))
	_, err := Load(path, nil)
	require.EqualError(t, err, path+": not an .npz file: zip: not a valid zip file")
}

// TestReadHalf: float16 arrays are read, beside those of float32.
func TestReadHalf(t *testing.T) {
	path := filepath.Join(t.TempDir(), "in.npz")
	out, err := npz.Create(path)
	require.NoError(t, err)
	defer out.Close()
	require.NoError(t, out.Write("A0", element.F16, 2, 3, ramp(6, 0.5)))
	require.NoError(t, out.Write("B0", element.F32, 3, 1, ramp(3, 1+0x1p-20)))
	require.NoError(t, out.Commit())
	w, err := Load(path, nil)
	require.NoError(t, err)
	require.Equal(t, ramp(6, 0.5), w.Operands.A)
	require.Equal(t, ramp(3, 1+0x1p-20), w.Operands.B)
}

func TestWriteNPZ(t *testing.T) {
	w, err := Load("testdata/numpy.npz", nil)
	require.NoError(t, err)
	for _, tc := range []struct{ of, written element.Type }{
		{element.F32, element.F32}, {element.F16, element.F16}, {element.BF16, element.F32},
	} {
		t.Run(tc.of.String(), func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "out.npz")
			out, err := npz.Create(path)
			require.NoError(t, err)
			c := ramp(len(w.Operands.C), 1) // all types have these numbers
			require.NoError(t, WriteNPZ(out, w.Batch, tc.of, c))

			raw, err := os.ReadFile(path)
			require.NoError(t, err)
			arrays, err := npz.List(bytes.NewReader(raw), int64(len(raw)))
			require.NoError(t, err)
			require.Len(t, arrays, 4)
			for i, a := range arrays {
				p := w.Batch[i]
				require.Equal(t, map[element.Type]npz.DType{element.F32: npz.Float32,
					element.F16: npz.Float16}[tc.written], a.DType)
				require.Equal(t, [2]int{p.M, p.N}, [2]int(a.Shape), a.Name)
				got := make([]float32, p.M*p.N)
				require.NoError(t, a.Read(got))
				require.Equal(t, ramp(p.M*p.N, float32(p.C.Offset+1)), got, a.Name)
			}
		})
	}
}

// FuzzReadNPZ: any file gives a batch with operands that hold it, or a one-line error.
func FuzzReadNPZ(f *testing.F) {
	for _, name := range []string{"testdata/numpy.npz", "testdata/fortran-c.npz"} {
		raw, err := os.ReadFile(name)
		require.NoError(f, err)
		f.Add(raw)
		f.Add(raw[:len(raw)/2])
	}
	for _, arrays := range [][]npztest.Array{
		{array("A0", make([]float32, 64), 1, 64), array("B0", make([]uint32, 64), 1, 8, 8),
			array("S0", make([]uint32, 8), 1, 8)},
		{array("A0", make([]float32, 64), 1, 64), array("B0", make([]uint8, 64), 64, 1),
			array("S0", make([]float32, 1), 1, 1), array("Z0", make([]uint8, 1), 1, 1)},
		{array("A0", make([]uint16, 64), 1, 64), array("B0", make([]float32, 64), 64, 1)},
	} {
		raw, err := os.ReadFile(npztest.Write(f, arrays...))
		require.NoError(f, err)
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		for _, o := range []*planner.Options{{}, int4Options(planner.PerGroup64)} {
			batch, ops, err := readNPZ(bytes.NewReader(raw), int64(len(raw)), o)
			if err != nil {
				require.NotContains(t, err.Error(), "\n")
				continue
			}
			require.NoError(t, batch.Check(t.Context(), planner.Epilogue{},
				planner.Lengths{A: len(ops.A), B: len(ops.B), C: len(ops.C)}))
		}
	})
}
