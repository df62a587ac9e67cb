package codeobject

import (
	"bytes"
	"encoding/binary"
	"math"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/kernelfile"
)

// product returns a code object of this repository.
func product(t testing.TB) []byte {
	t.Helper()
	code, err := kernelfile.New(os.DirFS("../../native/products")).Read("gfx90a.co")
	require.NoError(t, err)
	return code
}

// Numbers that do not depend on the compiler; package native compares the rest with the compiler's remarks.
func TestRead(t *testing.T) {
	o, err := Read(product(t))
	require.NoError(t, err)
	require.Equal(t, "gfx90a", o.Arch)
	k, ok := o.Kernel("bg_large_fixup")
	require.True(t, ok)
	require.Equal(t, 64, k.WaveSize)
	require.Equal(t, 2048, k.LDS) // sums[8 * 16] of float4
	require.Equal(t, 128, k.MaxThreads)
	require.Positive(t, k.VGPRs)
	require.Positive(t, k.SGPRs)
	require.Zero(t, k.Scratch+k.Spills+k.AGPRs)
	require.Equal(t, 48, k.KernargBytes)
	require.Len(t, k.Args, 6)
	require.Equal(t, Arg{Offset: 40, Size: 8, Kind: "global_buffer"}, k.Args[5])
	_, ok = o.Kernel("bg_large")
	require.False(t, ok)
}

func TestReadErrors(t *testing.T) {
	code := product(t)
	edit := func(at int, b byte) []byte {
		c := bytes.Clone(code)
		c[at] = b
		return c
	}
	name := bytes.Index(code, []byte(".wavefront_size"))
	require.Positive(t, name)
	for _, test := range []struct {
		name string
		code []byte
		want string
	}{
		{"nothing", nil, "code object"},
		{"text", []byte("not an ELF file, though long enough for a header of one.............."),
			"bad magic number"},
		{"another machine", edit(18, 62), "machine 62"},
		{"no note", bytes.ReplaceAll(code, []byte("AMDGPU\x00"), []byte("NVIDIA\x00")), "no metadata"},
		{"a key is missing", edit(name+1, 'W'), "no valid .wavefront_size"},
		{"a key is damaged", edit(name-1, 0xc1), "unknown type 0xc1"},
		{"a number is text", bytes.Replace(code, []byte(".wavefront_size\x40"), []byte(".wavefront_size\xa0"),
			1), "no valid .wavefront_size"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := Read(test.code)
			require.ErrorContains(t, err, test.want)
		})
	}
}

func TestUnpack(t *testing.T) {
	for _, test := range []struct {
		name string
		text string
		want any
	}{
		{"small number", "\x07", 7},
		{"small negative", "\xff", -1},
		{"bytes", "\xcc\xff", 255},
		{"16 bits", "\xcd\x01\x00", 256},
		{"32 bits", "\xce\x00\x01\x00\x00", 65536},
		{"64 bits", string(binary.BigEndian.AppendUint64([]byte{0xcf}, math.MaxInt)), math.MaxInt},
		{"signed byte", "\xd0\x80", -128},
		{"signed 64 bits", "\xd3\xff\xff\xff\xff\xff\xff\xff\xfe", -2},
		{"true", "\xc3", true},
		{"nil", "\xc0", nil},
		{"text", "\xa2ab", "ab"},
		{"text of 8-bit length", "\xd9\x02ab", "ab"},
		{"text of 32-bit length", "\xdb\x00\x00\x00\x01a", "a"},
		{"list", "\x92\x01\xa1a", []any{1, "a"}},
		{"long list", "\xdc\x00\x01\x05", []any{5}},
		{"map", "\x81\xa1k\x02", map[string]any{"k": 2}},
		{"long map", "\xdf\x00\x00\x00\x01\xa1k\xc2", map[string]any{"k": false}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := unpack([]byte(test.text))
			require.NoError(t, err)
			require.Equal(t, test.want, got)
		})
	}
	for name, text := range map[string]string{
		"empty":               "",
		"short number":        "\xce\x00",
		"short text":          "\xdb\xff\xff\xff\xffa",
		"short list":          "\xdd\xff\xff\xff\xff\x01",
		"a key of 1":          "\x81\x01\x02",
		"type of no metadata": "\xca\x00\x00\x00\x00",
		"number above int":    "\xcf\xff\xff\xff\xff\xff\xff\xff\xff",
		"nested":              string(bytes.Repeat([]byte{0x91}, 1000)),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := unpack([]byte(text))
			require.Error(t, err)
		})
	}
}

// FuzzUnpack: damaged metadata is an error and nothing worse.
func FuzzUnpack(f *testing.F) {
	f.Add([]byte("\x81\xa1k\x92\x01\xcf\x00\x00\x00\x01\x00\x00\x00\x00"))
	f.Fuzz(func(_ *testing.T, text []byte) { _, _ = unpack(text) })
}
