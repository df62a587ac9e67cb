package ratefile

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/ownrates"
	"github.com/batchgemm/batchgemm/internal/tile"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/devices"
)

func h200(t *testing.T) *driver.Info {
	t.Helper()
	d, err := devices.Lookup("h200")
	require.NoError(t, err)
	return &driver.Info{Backend: "cuda", Name: "NVIDIA H200 (1)", Driver: "580", Planner: *d}
}

// some returns rates with one row that was not measured.
func some(t *testing.T) *planner.Device {
	d := h200(t).Planner
	for i := range d.Kernels[1:] {
		if t := d.Kernels[i+1].Tile; t.Int4Only || t.Unit == tile.F64 { // not measured, and first in the file
			continue
		}
		d.Kernels[i+1].Rate = tile.Rate{Efficiency: 0.1 + float64(i)/20, Step: 0.3, Worker: 1e-3 / 3}
	}
	d.Kernel(tile.Of(tile.MMA)[0]).TF32 = tile.Rate{Efficiency: 2.5}
	return &d
}

func save(t *testing.T, info *driver.Info, d *planner.Device) (path string) {
	t.Helper()
	f, err := Create(info)
	require.NoError(t, err)
	require.NoError(t, f.Save(d, time.Now()))
	require.NoError(t, f.Close())
	return f.Path
}

func TestRoundTrip(t *testing.T) {
	t.Setenv(DirEnv, filepath.Join(t.TempDir(), "new", "folder"))
	info := h200(t)
	got, err := Load(info)
	require.NoError(t, err)
	require.Equal(t, info.Planner, got, "no file yet")

	path := save(t, info, some(t))
	require.Equal(t, "rates-cuda-NVIDIA-H200-1.json", filepath.Base(path))
	got, err = Load(info)
	require.NoError(t, err)
	require.Equal(t, *some(t), got)
	require.Equal(t, h200(t).Planner, info.Planner, "facts in use do not change")
	again, err := Load(info)
	require.NoError(t, err)
	require.Equal(t, got.Fingerprint(), again.Fingerprint(), "the same device")

	changed := some(t)
	changed.Kernels[3].Rate.Step = 7
	save(t, info, changed)
	got, err = Load(info)
	require.NoError(t, err)
	require.Equal(t, *changed, got)
	require.NotEqual(t, got.Fingerprint(), again.Fingerprint())
	require.Equal(t, *some(t), again, "rates in use do not change")
}

func TestLoad(t *testing.T) {
	for _, tc := range []struct {
		name     string
		old, new string // replaced in the file
		err      string // "": the file can be used
		lost     []int  // rows that then count as not measured
	}{
		{name: "as written"},
		{name: "empty", old: "*", err: "damaged: unexpected end of JSON input"},
		{name: "cut", old: `"tiles"`, new: "\x00", err: "damaged: invalid character"},
		{name: "no rates", old: "*", new: `{"version": 1}`, err: "of another device, : "},
		{name: "older version", old: `"version": 1`, new: `"version": 0`,
			err: "version 0, this program reads 1"},
		{name: "newer version", old: `"version": 1`, new: `"version": 2`,
			err: "version 2, this program reads 1"},
		{name: "other device", old: "NVIDIA H200 (1)", new: "NVIDIA H200 [1]",
			err: "of another device, cuda: NVIDIA H200 [1]"},
		{name: "other backend", old: `"backend": "cuda"`, new: `"backend": "webgpu"`,
			err: "of another device, webgpu: NVIDIA H200 (1)"},
		{name: "other driver", old: `"driver": "580"`, new: `"driver": "590"`},
		{name: "other peak", old: `"tflops": 67`, new: `"tflops": 60`,
			err: "relative to 132 compute units, 60 TFLOPS and 0.6 us a launch, the device now has 132, "},
		{name: "unknown tile", old: `"medium":`, new: `"huge":`, lost: []int{2}},
		{name: "other shape of a tile", old: `"64x64x16/256"`, new: `"64x64x32/256"`, lost: []int{4}},
		{name: "negative time", old: `"step": 0.3`, new: `"step": -0.3`,
			err: "damaged: tile aligned-128x128 cannot have the rate {Efficiency:1.3 Step:-0.3 "},
		{name: "negative fixed time", old: `"fixed": 0`, new: `"fixed": -1e-9`,
			err: "damaged: tile aligned-128x128 cannot have the rate {Efficiency:1.3 Step:0.3 Fixed:-1e-09 "},
		{name: "negative time of a worker", old: `"worker": 0.00033`, new: `"worker": -0.00033`,
			err: "damaged: tile aligned-128x128 cannot have the rate {Efficiency:1.3 Step:0.3 Fixed:0 " +
				"Worker:-0"},
		{name: "absurd time", old: `"fixed": 0`, new: `"fixed": 1e308`,
			err: "damaged: tile aligned-128x128 cannot have the rate {Efficiency:1.3 Step:0.3 Fixed:1e+308 "},
		{name: "negative efficiency", old: `"efficiency": 0.1,`, new: `"efficiency": -0.1,`,
			err: "damaged: tile small-medium cannot have the rate {Efficiency:-0.1 "},
		{name: "absurd efficiency", old: `"efficiency": 0.1,`, new: `"efficiency": 1e-300,`,
			err: "damaged: tile small-medium cannot have the rate {Efficiency:1e-300 "},
		{name: "no efficiency", old: `"efficiency": 0.1,`, new: ``,
			err: "damaged: tile small-medium cannot have the rate {Efficiency:0 "},
		{name: "faster than the peak", old: `"efficiency": 0.1,`, new: `"efficiency": 1.3,`,
			err: "damaged: tile small-medium cannot have the rate {Efficiency:1.3 "},
		{name: "long", old: `"tiles"`, new: strings.Repeat(" ", maxSize) + `"tiles"`,
			err: "larger than 65536 bytes"},
		{name: "not a number", old: `"efficiency": 0.1,`, new: `"efficiency": 1e999,`,
			err: "damaged: json: cannot unmarshal number 1e999"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Setenv(DirEnv, t.TempDir())
			info := h200(t)
			path := save(t, info, some(t))
			data, err := os.ReadFile(path)
			require.NoError(t, err)
			text := tc.new
			if tc.old != "*" {
				require.Contains(t, string(data), tc.old, "the case changes nothing")
				text = strings.Replace(string(data), tc.old, tc.new, 1)
			}
			require.NoError(t, os.WriteFile(path, []byte(text), 0o600))

			got, err := Load(info)
			if tc.err != "" {
				require.ErrorContains(t, err, path+": "+tc.err)
				require.Equal(t, info.Planner, got)
				return
			}
			require.NoError(t, err)
			want := some(t)
			for _, i := range tc.lost {
				want.Kernels[i].Rate = tile.Rate{}
			}
			require.Equal(t, *want, got)
		})
	}
}

func TestKnowsNoTile(t *testing.T) {
	t.Setenv(DirEnv, t.TempDir())
	save(t, h200(t), &h200(t).Planner)
	_, err := Load(h200(t))
	require.ErrorContains(t, err, "knows none of the tiles")
}

func TestLongestFile(t *testing.T) {
	t.Setenv(DirEnv, t.TempDir())
	path := save(t, h200(t), some(t))
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	data = append(data, strings.Repeat(" ", maxSize-len(data))...)
	require.NoError(t, os.WriteFile(path, data, 0o600))
	_, err = Load(h200(t))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, append(data, ' '), 0o600))
	_, err = Load(h200(t))
	require.ErrorContains(t, err, "larger than 65536 bytes")
}

func TestUnreadable(t *testing.T) {
	t.Setenv(DirEnv, t.TempDir())
	path := save(t, h200(t), some(t))
	require.NoError(t, os.Remove(path))
	require.NoError(t, os.Mkdir(path, 0o700))
	_, err := Load(h200(t))
	require.ErrorContains(t, err, path)
	_, err = Create(h200(t))
	require.EqualError(t, err, path+": is a directory")
}

func TestDirectory(t *testing.T) {
	cache := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", cache)
	t.Setenv("HOME", cache) // macOS
	t.Setenv("LocalAppData", cache)
	t.Setenv(DirEnv, "")
	require.NoError(t, os.Unsetenv(DirEnv))
	path := save(t, h200(t), some(t))
	require.Equal(t, "batchgemm", filepath.Base(filepath.Dir(path)))
	require.True(t, strings.HasPrefix(path, cache))

	for _, off := range []string{"", "off"} {
		t.Setenv(DirEnv, off)
		got, err := Load(h200(t))
		require.NoError(t, err)
		require.False(t, ownrates.Has(&got))
		_, err = Create(h200(t))
		require.EqualError(t, err, "BATCHGEMM_CACHE turns files of measured rates off")
	}
}

func TestNames(t *testing.T) {
	t.Setenv(DirEnv, "dir")
	for name, want := range map[string]string{
		"llvmpipe (LLVM 15.0.6, 256 bits)": "rates-cuda-llvmpipe-LLVM-15.0.6-256-bits.json",
		"../../etc/passwd":                 "rates-cuda-..-..-etc-passwd.json",
		"Grafik™ ß":                        "rates-cuda-Grafik.json",
		"":                                 "rates-cuda.json",
		strings.Repeat("x", 300):           "rates-cuda-" + strings.Repeat("x", longestName-5) + ".json",
	} {
		info := &driver.Info{Backend: "cuda", Name: name}
		path, err := Locate("rates", info)
		require.NoError(t, err)
		require.Equal(t, filepath.Join("dir", want), path)
	}
}

// TestCloseKeepsTheOld: what was not saved leaves no file.
func TestCloseKeepsTheOld(t *testing.T) {
	dir := t.TempDir()
	t.Setenv(DirEnv, dir)
	save(t, h200(t), some(t))
	f, err := Create(h200(t))
	require.NoError(t, err)
	require.NoError(t, f.Close())
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 1)
	got, err := Load(h200(t))
	require.NoError(t, err)
	require.Equal(t, *some(t), got)
}
