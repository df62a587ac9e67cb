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

// TestPackPTX: numbers become differences within an entry, its name a character, and both can be restored.
// Comments and layout go.
func TestPackPTX(t *testing.T) {
	const (
		source = ".version 7.0\n//\n%r7\n.visible .entry bg_a(\n\t.param .u64 bg_a_param_0\n)\n{\n" +
			".reg .b32 \t%r<90>;\n\n$L__BB3_12:\n" +
			"\tmad %r8, %rd9, [%rd12+16], %r007, %clock64, %r11;  // more\n\tbra $L__BB3_13;\n}\n" +
			".visible .entry bg_b(\n)\n{\n%r5 %SP %r6 %r1234567890 bg_a\n}\n"
		text = ".version 7.0\n%r7\n.visible .entry bg_a(\n.param .u64 bg_a_param_0\n)\n{\n" +
			".reg .b32 %r<90>;\n$L__BB3_12:\n" +
			"mad %r8,%rd9,[%rd12+16],%r007,%clock64,%r11;\nbra $L__BB3_13;\n}\n" +
			".visible .entry bg_b(\n)\n{\n%r5 %SP %r6 %r1234567890 bg_a\n}\n"
		packed = ".version 7.0\n\x02+7\n.visible .entry bg_a(\n.param .u64 \x01_param_0\n)\n{\n" +
			".reg .b32 %r<90>;\n$L__BB+3_+12:\n" +
			"mad \x02+8,\x03+9,[\x03+3+16],%r007,%clock+64,\x02+3;\nbra $L__BB+0_+1;\n}\n" +
			".visible .entry bg_b(\n)\n{\n\x02+5 %SP \x02+1 %r1234567890 bg_a\n}\n"
	)
	got, err := PackPTX([]byte(source))
	require.NoError(t, err)
	require.Equal(t, packed, string(got))
	require.Equal(t, text, string(unpackPTX(got)))
	alone, err := oneKernel(got, "bg_b")
	require.NoError(t, err)
	require.Equal(t, ".version 7.0\n%r7\n"+
		""+text[strings.Index(text, ".visible .entry bg_b"):], string(unpackPTX(alone)))
	for _, other := range []string{"[%sp+4]", ".visible .entry bg_a(\n)\n\x01"} {
		_, err = PackPTX([]byte(other))
		require.EqualError(t, err, "there are numbers or names that would become others")
	}
}

// TestPackCubin: bytes of instructions change places, others do not. What is no ELF file is an error.
func TestPackCubin(t *testing.T) {
	const code, sections = 64, 64 + 2*bytesOf
	cubin := make([]byte, sections+3*header)
	copy(cubin, "\x7fELF\x02\x01")
	cubin[table], cubin[size], cubin[count] = sections, header, 3
	for i := range 2 * bytesOf {
		cubin[code+i] = byte(i)
	}
	second := cubin[sections+header:]
	second[flags], second[offset], second[length] = executable, code, 2*bytesOf
	packed, err := PackCubin(cubin)
	require.NoError(t, err)
	want := slices.Clone(cubin)
	want[mark] = 1
	copy(want[code:], "\x0d\x0e\x0f\x09\x0a\x0b\x0c\x00\x01\x05\x06\x07\x08\x04\x03\x02"+
		"\x1d\x1e\x1f\x19\x1a\x1b\x1c\x10\x11\x15\x16\x17\x18\x14\x13\x12")
	require.Equal(t, want, packed)
	_, err = PackCubin(packed)
	require.ErrorIs(t, err, errNoCubin, "it is packed")
	for name, stored := range map[string][]byte{"new.cubin.zst": packed, "old.cubin.zst": cubin} {
		set := New(fstest.MapFS{name: {Data: pack(t, string(stored))}})
		got, err := set.Read(strings.TrimSuffix(name, ".zst"))
		require.NoError(t, err)
		require.Equal(t, cubin, got)
	}
	for name, damage := range map[string]func([]byte){
		"no ELF":                 func(x []byte) { x[1] = 0 },
		"sections after the end": func(x []byte) { x[table+1] = 1 },
		"an offset of 64 bits":   func(x []byte) { x[table+7] = 255 },
		"short sections":         func(x []byte) { x[size] = header - 1 },
		"more sections":          func(x []byte) { x[count]++ },
		"code after the end":     func(x []byte) { x[sections+header+offset+1] = 1 },
		"half of an instruction": func(x []byte) { x[sections+header+length]-- },
		"a length of 64 bits":    func(x []byte) { x[sections+header+length+7] = 255 },
	} {
		bad := slices.Clone(packed)
		damage(bad)
		set := New(fstest.MapFS{"bad.cubin.zst": {Data: pack(t, string(bad))}})
		_, err := set.Read("bad.cubin")
		require.EqualError(t, err, "bad.cubin: "+errNoCubin.Error(), name)
	}
}
