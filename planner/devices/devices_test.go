package devices

import (
	"encoding/json"
	"flag"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/occupancy"
	"github.com/batchgemm/batchgemm/internal/tile"
	"github.com/batchgemm/batchgemm/planner"
)

var update = flag.Bool("update", false, "rewrite ../testdata/devices.json")

func TestLookup(t *testing.T) {
	for _, name := range Names() {
		t.Run(name, func(t *testing.T) {
			d, err := Lookup(name)
			require.NoError(t, err)
			require.Equal(t, name, d.Name)
			require.NoError(t, d.Check())
			require.Positive(t, d.LaunchMicros)
			for _, s := range tile.Table() {
				// two groups do not fit in shared memory
				tooLarge := s.Name == "thin-8x128" && d.Occupancy == occupancy.CDNA
				require.Equal(t, s.Unit == tile.FMA &&
					!tooLarge, d.Fits(s, planner.Options{Compute: planner.ComputeF32}),
					"every tile of plain fp32: %s", s)
			}
			for i := range d.Kernels {
				require.Positive(t, d.Resident(d.Kernels[i].Tile.Threads, d.Kernels[i].Resources).Groups,
					d.Kernels[i].Tile.Name)
			}
		})
	}
	d, err := Lookup("GFX90A")
	require.NoError(t, err)
	require.Equal(t, "mi210", d.Name)
	_, err = Lookup("voodoo")
	require.ErrorIs(t, err, planner.ErrInvalid)
	require.ErrorContains(t, err, `unknown device "voodoo" (known: mi210, mi100`)
}

// TestFixture checks the file of devices that tests of package planner read. They cannot import this
// package.
func TestFixture(t *testing.T) {
	const path = "../testdata/devices.json"
	var all []*planner.Device
	for _, name := range Names() {
		d, err := Lookup(name)
		require.NoError(t, err)
		all = append(all, d)
	}
	want, err := json.MarshalIndent(all, "", " ")
	require.NoError(t, err)
	if *update {
		require.NoError(t, os.WriteFile(path, append(want, '\n'), 0o644))
	}
	got, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want)+"\n", string(got), "run go test ./planner/devices -update")
}

func TestFingerprint(t *testing.T) {
	seen := map[string]string{}
	for _, name := range Names() {
		d, err := Lookup(name)
		require.NoError(t, err)
		again, err := Lookup(name)
		require.NoError(t, err)
		require.Equal(t, d.Fingerprint(), again.Fingerprint())
		require.Empty(t, seen[d.Fingerprint()], name)
		seen[d.Fingerprint()] = name
		again.Kernels[0].Rate = tile.Rate{Efficiency: 0.5}
		require.NotEqual(t, d.Fingerprint(), again.Fingerprint(), "measured rates count")
		var read planner.Device
		data, err := json.Marshal(d)
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(data, &read))
		require.Equal(t, *d, read)
		require.Equal(t, d.Fingerprint(), read.Fingerprint())
		require.Same(t, d.Kernels[0].Tile, read.Kernels[0].Tile)
	}
}
