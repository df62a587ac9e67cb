// Package npztest writes .npz files for tests, with arrays of any type.
package npztest

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Array is an array of a file. Data is a slice of NumPy numbers, in the order in which they are written.
type Array struct {
	Name    string
	Shape   []int
	Data    any
	Fortran bool
}

// dtypes are NumPy's names; 16-bit numbers are float16.
var dtypes = map[string]string{"[]float32": "<f4", "[]float64": "<f8", "[]uint16": "<f2", "[]int8": "|i1",
	"[]uint8": "|u1",
	"[]int32": "<i4", "[]uint32": "<u4"}

// Write makes a file, which is removed after the test.
func Write(t testing.TB, arrays ...Array) (path string) {
	t.Helper()
	var raw bytes.Buffer
	z := zip.NewWriter(&raw)
	for _, a := range arrays {
		w, err := z.Create(a.Name + ".npy")
		require.NoError(t, err)
		dtype := dtypes[fmt.Sprintf("%T", a.Data)]
		require.NotEmpty(t, dtype)
		order := map[bool]string{false: "False", true: "True"}[a.Fortran]
		shape := strings.ReplaceAll(strings.Trim(fmt.Sprint(a.Shape), "[]"), " ", ", ")
		header := fmt.Sprintf("{'descr': '%s', 'fortran_order': %s, 'shape': (%s,), }\n", dtype, order, shape)
		_, err = w.Write(append([]byte("\x93NUMPY\x01\x00"), byte(len(header)), byte(len(header)>>8)))
		require.NoError(t, err)
		_, err = w.Write([]byte(header))
		require.NoError(t, err)
		require.NoError(t, binary.Write(w, binary.LittleEndian, a.Data))
	}
	require.NoError(t, z.Close())
	path = filepath.Join(t.TempDir(), "in.npz")
	require.NoError(t, os.WriteFile(path, raw.Bytes(), 0o600))
	return path
}
