package kernelfile

import (
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"
)

func pack(t *testing.T, data string) []byte {
	t.Helper()
	w, err := zstd.NewWriter(nil)
	require.NoError(t, err)
	defer w.Close()
	return w.EncodeAll([]byte(data), nil)
}

// TestRead: an error names the file that is damaged, no product, or not there.
func TestRead(t *testing.T) {
	whole := pack(t, "code of kernels")
	damaged := slices.Clone(whole)
	damaged[len(damaged)-1]++ // of its checksum
	set := New(fstest.MapFS{"sound.co.zst": {Data: whole}, "damaged.co.zst": {Data: damaged},
		"text.co.zst": {Data: []byte("no frame")}})
	for range 2 {
		code, err := set.Read("sound.co")
		require.NoError(t, err)
		require.Equal(t, "code of kernels", string(code))
		_, err = set.Read("damaged.co")
		require.ErrorIs(t, err, zstd.ErrCRCMismatch)
		require.ErrorContains(t, err, "damaged.co: ")
	}
	_, err := set.Read("text.co")
	require.ErrorContains(t, err, "text.co: ")
	_, err = set.Read("none.co")
	require.ErrorIs(t, err, fs.ErrNotExist)
	_, err = New(nil).Read("sound.co")
	require.EqualError(t, err, "sound.co.zst: this build has no kernels for its kind")
}

// TestOneKernel: text between entries stays, and one entry.
func TestOneKernel(t *testing.T) {
	const (
		front = ".version 7.0\n.shared .b8 word[4];\n"
		first = ".visible .entry a(\n\t.param .u64 p\n)\n.maxntid 32\n{\n\tmov {%r1, %r2};\n{\n" +
			".reg .pred p;\n}\n\tret;\n}\n"
		beside = "\n.extern .shared .b8 memory[];\n"
		second = ".visible .entry ab(\n)\n{\n\tret;\n\n}\n"
		text   = front + first + beside + second
	)
	for kernel, want := range map[string]string{"a": front + first, "ab": front + beside + second} {
		got, err := oneKernel([]byte(text), kernel)
		require.NoError(t, err)
		require.Equal(t, want, string(got), kernel)
	}
	_, err := oneKernel([]byte(text), "b")
	require.EqualError(t, err, "no kernel b")
	_, err = oneKernel([]byte(text)[:len(text)-4], "ab")
	require.EqualError(t, err, "no kernel ab", "its end is missing")
}

// TestPackPTX: numbers become differences within an entry, and can be restored.
func TestPackPTX(t *testing.T) {
	const (
		text = ".version 7.0\n%r7\n.visible .entry a(\n)\n{\n.reg .b32 %r<90>;\n$L__BB3_12:\n" +
			"\tmad %r8, %rd9, [%rd12+16], %r007, %clock64, %r11;\n\tbra $L__BB3_13;\n}\n" +
			".visible .entry b(\n)\n{\n%r5 %SP %r6 %r1234567890\n}\n"
		packed = ".version 7.0\n%r+7\n.visible .entry a(\n)\n{\n.reg .b32 %r<90>;\n$L__BB+3_+12:\n" +
			"\tmad %r+8, %rd+9, [%rd+3+16], %r007, %clock+64, %r+3;\n\tbra $L__BB+0_+1;\n}\n" +
			".visible .entry b(\n)\n{\n%r+5 %SP %r+1 %r1234567890\n}\n"
	)
	got, err := PackPTX([]byte(text))
	require.NoError(t, err)
	require.Equal(t, packed, string(got))
	require.Equal(t, text, string(unpackPTX(got)))
	alone, err := oneKernel(got, "b")
	require.NoError(t, err)
	require.Equal(t, ".version 7.0\n%r7\n"+
		""+text[strings.Index(text, ".visible .entry b"):], string(unpackPTX(alone)))
	_, err = PackPTX([]byte("[%sp+4]"))
	require.EqualError(t, err, "there are numbers that would become others")
}
