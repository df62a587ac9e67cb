package npz

import (
	"archive/zip"
	"bytes"
	"cmp"
	"compress/flate"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/sbinet/npyio/npy"
	npyionpz "github.com/sbinet/npyio/npz"
	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/npz/npztest"
	"github.com/batchgemm/batchgemm/planner/element"
)

// numpyFile was written by NumPy.
const numpyFile = "../workload/testdata/numpy.npz"

// entry is one file of a test archive.
type entry struct {
	name string
	data []byte
}

func writeZip(t testing.TB, entries ...entry) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "in.npz")
	f, err := os.Create(path)
	require.NoError(t, err)
	defer f.Close()
	z := zip.NewWriter(f)
	for _, e := range entries {
		w, err := z.Create(e.name)
		require.NoError(t, err)
		_, err = w.Write(e.data)
		require.NoError(t, err)
	}
	require.NoError(t, z.Close())
	return path
}

// array returns a version 1 .npy file with this header and n zero elements.
func array(dict string, n int) []byte {
	b := append([]byte("\x93NUMPY\x01\x00"), byte(len(dict)), byte(len(dict)>>8))
	return append(append(b, dict...), make([]byte, 4*n)...)
}

// open lists the arrays of a file.
func open(path string) ([]Array, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return List(bytes.NewReader(raw), int64(len(raw)))
}

func TestListErrors(t *testing.T) {
	const good = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }\n"
	for _, tc := range []struct {
		name string
		file entry
		want string
	}{
		{"big-endian", entry{"A0.npy", array("{'descr': '>f4', 'fortran_order': False, 'shape': (2, 3), }\n",
			6)}, "A0: is big-endian; convert it with .astype('<f4')"},
		{"big-endian float16", entry{"A0.npy",
			array("{'descr': '>f2', 'fortran_order': False, 'shape': (2, 3), }\n", 3)},
			"A0: is big-endian; convert it with .astype('<f2')"},
		{"float16 as large as float32",
			entry{"A0.npy", array("{'descr': '<f2', 'fortran_order': False, 'shape': (2, 3), }\n", 6)},
			"A0: 94 bytes, but shape (2, 3) needs 82"},
		{"int32", entry{"B7.npy", array("{'descr': '<i4', 'fortran_order': False, 'shape': (2, 3), }\n", 6)},
			`B7: has dtype "<i4", want float64, float32, float16, int8, uint8 or uint32`},
		{"structured", entry{"A0.npy",
			array("{'descr': [('x', '<f4')], 'fortran_order': False, 'shape': (2, 3), }\n", 6)},
			"A0: is a structured array, want float64, float32, float16, int8, uint8 or uint32"},
		{"scalar", entry{"A0.npy", array("{'descr': '<f4', 'fortran_order': False, 'shape': (), }\n", 1)},
			"A0: has 0 dimensions, want 2"},
		{"1-D", entry{"A0.npy", array("{'descr': '<f4', 'fortran_order': False, 'shape': (6,), }\n", 6)},
			"A0: has 1 dimensions, want 2"},
		{"3-D", entry{"A0.npy", array("{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2, 3), }\n", 6)},
			"A0: has 3 dimensions, want 2"},
		{"words of 4 dimensions", entry{"B0.npy",
			array("{'descr': '<u4', 'fortran_order': False, 'shape': (1, 1, 2, 3), }\n", 6)},
			"B0: has 4 dimensions, want 2"},
		{"too few words", entry{"B0.npy",
			array("{'descr': '<u4', 'fortran_order': False, 'shape': (1, 2, 4), }\n", 7)},
			"B0: 101 bytes, but shape (1, 2, 4) needs 105"},
		{"more words than there are bytes",
			entry{"B0.npy", array("{'descr': '<u4', 'fortran_order': False, 'shape': (2147483647, "+
				"2147483647, 4), }\n", 0)}, "B0: 91 bytes, but shape (2147483647, 2147483647, 4) needs " +
				"18446744073709551615"},
		{"big-endian words", entry{"B0.npy",
			array("{'descr': '>u4', 'fortran_order': False, 'shape': (2, 3), }\n", 6)},
			"B0: is big-endian; convert it with .astype('<u4')"},
		{"size above int32", entry{"A0.npy",
			array("{'descr': '<f4', 'fortran_order': False, 'shape': (2147483648, 0), }\n", 0)},
			"A0: size 2147483648 is above the limit 2147483647"},
		{"negative size", entry{"A0.npy",
			array("{'descr': '<f4', 'fortran_order': False, 'shape': (-2, 3), }\n", 6)},
			`A0: malformed header "{'descr': '<f4', 'fortran_order': False, 'shape': (-2, 3), }"`},
		{"no shape", entry{"A0.npy", array("{'descr': '<f4', 'fortran_order': False, }\n", 6)},
			`A0: malformed header "{'descr': '<f4', 'fortran_order': False, }"`},
		{"empty header", entry{"A0.npy", array("", 0)}, `A0: malformed header ""`},
		{"header cut off", entry{"A0.npy", array(good, 0)[:20]}, "A0: truncated"},
		{"magic cut off", entry{"A0.npy", []byte("\x93NUM")}, "A0: truncated"},
		{"not an array", entry{"A0.npy", []byte("something else")}, "A0: not a .npy array"},
		{"version 4", entry{"A0.npy", []byte("\x93NUMPY\x04\x00\x00\x00\x00\x00")},
			"A0: unknown .npy version 4"},
		{"header too long", entry{"A0.npy", []byte("\x93NUMPY\x02\x00\xff\xff\xff\xff")},
			"A0: header of 4294967295 bytes is too long"},
		{"elements missing", entry{"A0.npy", array(good, 5)}, "A0: 90 bytes, but shape (2, 3) needs 94"},
		{"elements left over", entry{"A0.npy", array(good, 7)}, "A0: 98 bytes, but shape (2, 3) needs 94"},
		{"other file", entry{"readme.txt", []byte("hello")},
			`"readme.txt" is not an array: its name does not end in .npy`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := open(writeZip(t, tc.file))
			require.EqualError(t, err, tc.want)
		})
	}
}

// TestListBomb: an array is refused, before memory is allocated for it, if deflate cannot have packed its
// elements into the existing bytes.
func TestListBomb(t *testing.T) {
	const dict = "{'descr': '<f4', 'fortran_order': False, 'shape': (1048576, 1048576), }\n" // 4 TiB
	for _, tc := range []struct {
		name     string
		declared uint64 // compressed bytes, 0: as many as there are
	}{
		{"small entry", 0},
		{"entry that claims to be large", 1 << 42},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var packed, archive bytes.Buffer
			f, err := flate.NewWriter(&packed, flate.BestCompression)
			require.NoError(t, err)
			_, err = f.Write(array(dict, 1<<20))
			require.NoError(t, err)
			require.NoError(t, f.Close())
			z := zip.NewWriter(&archive)
			w, err := z.CreateRaw(&zip.FileHeader{
				Name: "A0.npy", Method: zip.Deflate,
				CompressedSize64:   cmp.Or(tc.declared, uint64(packed.Len())),
				UncompressedSize64: uint64(len(array(dict, 0))) + 1<<42,
			})
			require.NoError(t, err)
			_, err = w.Write(packed.Bytes())
			require.NoError(t, err)
			require.NoError(t, z.Close())
			_, err = List(bytes.NewReader(archive.Bytes()), int64(archive.Len()))
			require.ErrorContains(t, err, "A0: shape (1048576, 1048576) needs 4398046511186 bytes, more "+
				"than ")
		})
	}
}

// TestListZeros: zeros, which deflate packs best, are accepted.
func TestListZeros(t *testing.T) {
	const rows, cols = 1 << 10, 1 << 12
	path := writeZip(t, entry{"A0.npy",
		array(fmt.Sprintf("{'descr': '<f4', 'fortran_order': False, 'shape': (%d, %d), }\n", rows, cols),
			rows*cols)})
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Less(t, info.Size(), int64(4*rows*cols/1000))
	arrays, err := open(path)
	require.NoError(t, err)
	require.NoError(t, arrays[0].Read(make([]float32, rows*cols)))
}

func TestListVersions(t *testing.T) {
	dict := "{'shape': (1, 1), 'fortran_order': True, 'descr': '<f4'}\n" // keys in another order
	v3 := append([]byte("\x93NUMPY\x03\x00"), byte(len(dict)), 0, 0, 0)
	arrays, err := open(writeZip(t, entry{"v1.npy", array(dict, 1)},
		entry{"v3.npy", append(append(v3, dict...), 0, 0, 0x80, 0x3f)}))
	require.NoError(t, err)
	require.Len(t, arrays, 2)
	for i, want := range []float32{0, 1} {
		var got [1]float32
		require.NoError(t, arrays[i].Read(got[:]))
		require.Equal(t, want, got[0])
		require.True(t, arrays[i].Fortran)
	}
}

func TestListDamaged(t *testing.T) {
	whole, err := os.ReadFile(numpyFile)
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "in.npz")

	require.NoError(t, os.WriteFile(path, whole[:len(whole)/2], 0o600))
	_, err = open(path)
	require.EqualError(t, err, "not an .npz file: zip: not a valid zip file")
}

func TestReadChecksum(t *testing.T) {
	path := filepath.Join(t.TempDir(), "in.npz")
	w, err := Create(path)
	require.NoError(t, err)
	require.NoError(t, w.Write("A0", element.F32, 1, 2, []float32{1.25, 2.5}))
	require.NoError(t, w.Commit())
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	at := bytes.Index(raw, []byte{0, 0, 0xa0, 0x3f}) // 1.25
	require.Positive(t, at)
	raw[at]++
	require.NoError(t, os.WriteFile(path, raw, 0o600))
	arrays, err := open(path)
	require.NoError(t, err)
	require.EqualError(t, arrays[0].Read(make([]float32, 2)), "A0: zip: checksum error")
}

// TestRoundTrip crosses the internal chunk size and keeps every bit.
func TestRoundTrip(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out.npz")
	data := make([]float32, 3*(chunk/2+1))
	for i := range data {
		data[i] = float32(i)
	}
	data[0], data[1], data[2] = float32(math.NaN()), float32(math.Inf(-1)), float32(math.Copysign(0, -1))
	w, err := Create(path)
	require.NoError(t, err)
	require.NoError(t, w.Write("C0", element.F32, 3, chunk/2+1, data))
	require.NoError(t, w.Write("C1", element.F32, 0, 7, nil))
	require.EqualError(t, w.Write("C2", element.F32, 2, 2, data),
		fmt.Sprintf("C2: %d elements for shape (2, 2)", len(data)))
	require.NoError(t, w.Commit())
	require.NoError(t, w.Close())

	arrays, err := open(path)
	require.NoError(t, err)
	require.Len(t, arrays, 2)
	got := make([]float32, len(data))
	require.NoError(t, arrays[0].Read(got))
	for i := range data {
		require.Equal(t, math.Float32bits(data[i]), math.Float32bits(got[i]))
	}
	require.Equal(t, [2]int{0, 7}, [2]int(arrays[1].Shape))
}

// TestNumPyLayout: written files equal NumPy's own bytes, entry by entry.
func TestNumPyLayout(t *testing.T) {
	z, err := zip.OpenReader(numpyFile)
	require.NoError(t, err)
	defer z.Close()
	want, err := z.Open("A0.npy")
	require.NoError(t, err)
	wantBytes, err := io.ReadAll(want)
	require.NoError(t, err)

	path := filepath.Join(t.TempDir(), "out.npz")
	w, err := Create(path)
	require.NoError(t, err)
	require.NoError(t, w.Write("A0", element.F32, 2, 3, []float32{1, 2, 3, 4, 5, 6}))
	require.NoError(t, w.Commit())
	ours, err := zip.OpenReader(path)
	require.NoError(t, err)
	defer ours.Close()
	got, err := ours.Open("A0.npy")
	require.NoError(t, err)
	gotBytes, err := io.ReadAll(got)
	require.NoError(t, err)
	require.Equal(t, wantBytes, gotBytes)
}

// TestHalf: a float16 array keeps all its bits, and equals the file that NumPy writes.
func TestHalf(t *testing.T) {
	const cols = 1 << 15 // some chunks, of all bits
	bits, numbers := make([]uint16, 2*cols), make([]float32, 2*cols)
	for i := range bits {
		bits[i] = uint16(i)
	}
	element.Widen(element.F16, numbers, bits)
	path := filepath.Join(t.TempDir(), "out.npz")
	w, err := Create(path)
	require.NoError(t, err)
	require.NoError(t, w.Write("C0", element.F16, 2, cols, numbers))
	require.NoError(t, w.Write("C1", element.F16, 1, 2, []float32{1 + 0x1p-12, -70000}))
	require.NoError(t, w.Commit())

	z, err := zip.OpenReader(path)
	require.NoError(t, err)
	defer z.Close()
	f, err := z.Open("C1.npy")
	require.NoError(t, err)
	raw, err := io.ReadAll(f)
	require.NoError(t, err)
	dict := "{'descr': '<f2', 'fortran_order': False, 'shape': (1, 2), }"
	want := fmt.Sprintf("\x93NUMPY\x01\x00\x76\x00%-117s\n\x00\x3c\x00\xfc", dict)
	require.Equal(t, want, string(raw), "rounded to 1 and -Inf")

	arrays, err := open(path)
	require.NoError(t, err)
	require.Equal(t, Float16, arrays[0].DType)
	got, back := make([]float32, 2*cols), make([]uint16, 2*cols)
	require.NoError(t, arrays[0].Read(got))
	element.Narrow(element.F16, back, got)
	for i, x := range numbers {
		if x == x {
			require.Equal(t, bits[i], back[i])
		} else {
			require.NotEqual(t, got[i], got[i])
		}
	}
}

// TestIntegers: integers are read as numbers, and words with all their bits.
func TestIntegers(t *testing.T) {
	words := make([]uint32, 2*(chunk+3)) // more than are converted at a time
	for i := range words {
		words[i] = uint32(i) * 0x9e3779b9
	}
	arrays, err := open(npztest.Write(t,
		npztest.Array{Name: "A0", Shape: []int{2, 2}, Data: []int8{-128, -1, 0, 127}},
		npztest.Array{Name: "A1", Shape: []int{2, 2}, Data: []uint8{0, 1, 128, 255}, Fortran: true},
		npztest.Array{Name: "B0", Shape: []int{2, 1, chunk + 3}, Data: words}))
	require.NoError(t, err)
	for i, tc := range []struct {
		dtype   DType
		name    string
		fortran bool
		want    []float32
	}{{Int8, "int8", false, []float32{-128, -1, 0, 127}}, {Uint8, "uint8", true, []float32{0, 1, 128, 255}}} {
		require.Equal(t, tc.dtype, arrays[i].DType)
		require.Equal(t, tc.name, arrays[i].DType.String())
		require.Equal(t, tc.fortran, arrays[i].Fortran)
		got := make([]float32, arrays[i].Len())
		require.NoError(t, arrays[i].Read(got))
		require.Equal(t, tc.want, got)
	}
	require.Equal(t, []int{2, 1, chunk + 3}, arrays[2].Shape)
	got := make([]uint32, arrays[2].Len())
	require.NoError(t, arrays[2].ReadWords(got))
	require.Equal(t, words, got)
}

func TestNoDtype(t *testing.T) {
	w, err := Create(filepath.Join(t.TempDir(), "out.npz"))
	require.NoError(t, err)
	defer w.Close()
	require.EqualError(t, w.Write("C0", element.BF16, 1, 1, []float32{1}), "C0: NumPy has no dtype for bf16")
}

func TestDeterministic(t *testing.T) {
	var files [2][]byte
	for i := range files {
		path := filepath.Join(t.TempDir(), "out.npz")
		w, err := Create(path)
		require.NoError(t, err)
		require.NoError(t, w.Write("C0", element.F32, 1, 2, []float32{1, 2}))
		require.NoError(t, w.Commit())
		files[i], err = os.ReadFile(path)
		require.NoError(t, err)
	}
	require.Equal(t, files[0], files[1])
}

// TestNpyio exchanges arrays with an independent implementation.
func TestNpyio(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out.npz")
	w, err := Create(path)
	require.NoError(t, err)
	require.NoError(t, w.Write("C0", element.F32, 2, 3, []float32{1, 2, 3, 4, 5, 6}))
	require.NoError(t, w.Commit())
	r, err := npyionpz.Open(path)
	require.NoError(t, err)
	defer r.Close()
	require.Equal(t, []int{2, 3}, r.Header("C0.npy").Descr.Shape)
	var got []float32
	require.NoError(t, r.Read("C0.npy", &got))
	require.Equal(t, []float32{1, 2, 3, 4, 5, 6}, got)

	var theirs bytes.Buffer
	require.NoError(t, npy.Write(&theirs, [2][3]float32{{1, 2, 3}, {4, 5, 6}}))
	arrays, err := open(writeZip(t, entry{"A0.npy", theirs.Bytes()}))
	require.NoError(t, err)
	require.Equal(t, [2]int{2, 3}, [2]int(arrays[0].Shape))
	back := make([]float32, 6)
	require.NoError(t, arrays[0].Read(back))
	require.Equal(t, got, back)
}

// FuzzRead: files of any content give arrays or a one-line error.
func FuzzRead(f *testing.F) {
	whole, err := os.ReadFile(numpyFile)
	require.NoError(f, err)
	f.Add(whole)
	f.Add(whole[:100])
	for _, dict := range []string{
		"{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1), }\n",
		"{'descr': '<f2', 'fortran_order': False, 'shape': (1, 2), }\n",
		"{'descr': '|i1', 'fortran_order': False, 'shape': (1, 4), }\n",
		"{'descr': '<u4', 'fortran_order': False, 'shape': (1, 1, 1), }\n",
		"{'descr': '<f4', 'fortran_order': True, 'shape': (2147483647, 2147483647), }\n",
		"{'descr': '<f8', 'fortran_order': False, 'shape': (), }\n",
	} {
		raw, err := os.ReadFile(writeZip(f, entry{"A0.npy", array(dict, 1)}))
		require.NoError(f, err)
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		arrays, err := List(bytes.NewReader(raw), int64(len(raw)))
		if err != nil {
			require.NotContains(t, err.Error(), "\n")
			return
		}
		for _, a := range arrays {
			if a.Read(make([]float32, a.Len())) == nil {
				require.LessOrEqual(t, a.Len(), maxDeflate*len(raw))
			}
		}
	})
}
