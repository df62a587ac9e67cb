package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/ratefile"
	"github.com/batchgemm/batchgemm/internal/tile"
	"github.com/batchgemm/batchgemm/planner/devices"
)

// TestWritten: the package's file of rates is what this program writes.
func TestWritten(t *testing.T) {
	want, err := os.ReadFile("../../../internal/tile/rates.go")
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "rates.go")
	require.NoError(t, ship(path, nil))
	got, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), string(got), "run go generate ./internal/tile")
}

// TestNewShape: a shape without rates gets those of the shape above it of its kind.
func TestNewShape(t *testing.T) {
	thin, err := tile.ByName("thin-8x64")
	require.NoError(t, err)
	added := &tile.Shape{Name: "new", TM: 8, TN: 32, TK: 16, Threads: 32, RM: 8, RN: 4}
	rows := rowsOf([]*tile.Shape{thin, tile.Of(tile.MMA)[0], added})
	require.Equal(t, thin.Rates.Native, rows[2].Native)
	require.Zero(t, rows[2].Direct, "measured of few")
	require.Zero(t, rowsOf([]*tile.Shape{added, thin})[0].Rates, "none above")
	text, err := source(rows[:1])
	require.NoError(t, err)
	require.Contains(t, string(text), "\tDirect: 1.94,\n")
}

// file returns tune's file of a device with one measured tile.
func file(t *testing.T, backend, name string, rate, tf32 tile.Rate) []byte {
	t.Helper()
	t.Setenv(ratefile.DirEnv, t.TempDir())
	d, err := devices.Lookup(name)
	require.NoError(t, err)
	info := &driver.Info{Backend: backend, Name: name, Planner: *d}
	f, err := ratefile.Create(info)
	require.NoError(t, err)
	for i := range d.Kernels {
		if k := &d.Kernels[i]; k.Tile.Name == "large-8x4" {
			k.Rate = rate
		} else if k.Tile.Name == "tensor-64x64" {
			k.TF32 = tf32
		}
	}
	require.NoError(t, f.Save(d, time.Now()))
	data, err := os.ReadFile(f.Path)
	require.NoError(t, err)
	return data
}

func TestMerge(t *testing.T) {
	rate := tile.Rate{Efficiency: 0.5, Step: 0.25, Worker: 0.125}
	tf32 := tile.Rate{Efficiency: 1.5, Fixed: 3}
	streamed, rounds := rate, rate // what tune does not measure stays
	streamed.Stream, rounds.Rounds = 13500, 0.98
	for _, c := range []struct {
		backend, device string
		changed         map[string]tile.Rate // by tile and kind of kernels
	}{
		{"cuda", "h200", map[string]tile.Rate{"large-8x4 Native": streamed, "tensor-64x64 TF32": tf32}},
		{"webgpu", "h200-webgpu", map[string]tile.Rate{"large-8x4 WGSL": rounds}},
	} {
		t.Run(c.backend, func(t *testing.T) {
			rows := rowsOf(tile.Table())
			require.NoError(t, merge(rows, file(t, c.backend, c.device, rate, tf32)))
			for _, r := range rows {
				want := r.Shape.Rates
				rates := map[string]*tile.Rate{"Native": &want.Native, "TF32": &want.TF32, "WGSL": &want.WGSL}
				for kind, of := range rates {
					if changed, ok := c.changed[r.Name+" "+kind]; ok {
						*of = changed
					}
				}
				require.Equal(t, want, r.Rates, r.Name)
			}
		})
	}
	other := file(t, "hip", "mi210", rate, tf32)
	require.ErrorContains(t, merge(nil, other), "of mi210, whose compute units are not those")
	require.ErrorContains(t, merge(nil, []byte("{}")), "version 0, this program reads 1")
	require.ErrorContains(t, ship(filepath.Join(t.TempDir(), "x"), []string{"nowhere"}), "nowhere")
}
