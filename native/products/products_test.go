package products

import (
	"bytes"
	"compress/gzip"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestReadKernel: what stands beside entries stays, and of entries one.
func TestReadKernel(t *testing.T) {
	const (
		front  = ".version 7.0\n.shared .b8 word[4];\n"
		first  = ".visible .entry a(\n\t.param .u64 p\n)\n.maxntid 32\n{\n\tmov {%r1, %r2};\n{\n.reg .pred p;\n}\n\tret;\n}\n"
		beside = "\n.extern .shared .b8 memory[];\n"
		second = ".visible .entry ab(\n)\n{\n\tret;\n\n}\n"
	)
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, err := w.Write([]byte(front + first + beside + second))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	for kernel, want := range map[string]string{"a": front + first, "ab": front + beside + second} {
		got, err := readKernel(packed.Bytes(), kernel)
		require.NoError(t, err)
		require.Equal(t, want, string(got), kernel)
	}
	_, err = readKernel(packed.Bytes(), "b")
	require.EqualError(t, err, "no kernel b")
	_, err = readKernel(packed.Bytes()[:packed.Len()-20], "b")
	require.Error(t, err)
}
