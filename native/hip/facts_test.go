//go:build cgo && !nohip && linux && (amd64 || arm64)

package hip

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/occupancy"
	"github.com/batchgemm/batchgemm/native"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/devices"
)

func TestArchitecture(t *testing.T) {
	// properties has the name first, as in all releases, and gcnArchName at the end.
	properties := func(name string, at int, arch string) []byte {
		p := make([]byte, 16<<10)
		copy(p, name)
		copy(p[at:], arch)
		return p
	}
	for _, c := range []struct {
		name       string
		properties []byte
		want       string // "": an error
	}{
		{"since ROCm 6", properties("AMD Instinct MI210", 1160, "gfx90a:sramecc+:xnack-"), "gfx90a"},
		{"before", properties("AMD Instinct MI100", 396, "gfx908:sramecc+:xnack-"), "gfx908"},
		{"four digits", properties("AMD Radeon RX 7900 XTX", 1160, "gfx1100"), "gfx1100"},
		{"the name is the architecture's", properties("gfx1030", 1160, "gfx1030"), "gfx1030"},
		{"the name begins like one", properties("gfx card", 1160, "gfx942:xnack-"), "gfx942"},
		{"the name is too short for one", properties("gfx90:", 1160, "gfx942:xnack-"), "gfx942"},
		{"a generic one", properties("", 1160, "gfx11-generic"), ""},
		{"none", properties("AMD Instinct MI210", 1160, ""), ""},
		{"empty", nil, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := architecture(c.properties)
			require.Equal(t, c.want, got)
			require.Equal(t, c.want == "", err != nil)
		})
	}
}

func TestPlannerFacts(t *testing.T) {
	mi210 := facts{name: "AMD Instinct MI210", arch: "gfx90a", units: 104, clock: 1700000, wave: 64,
		threads: 1024, groupShared: 65536}
	changed := func(change func(*facts)) facts {
		f := mi210
		change(&f)
		return f
	}
	for _, c := range []struct {
		name   string
		facts  facts
		want   string // Name
		units  int
		wave   int
		tflops float64
	}{
		{"in the table", mi210, "mi210", 104, 64, 22.6},
		{"another name", changed(func(f *facts) { f.name = "AMD GPU" }), "mi210", 104, 64, 22.6},
		{"more units than the table", changed(func(f *facts) {
			f.name, f.units = "AMD Instinct MI250X",
				110
		}), "AMD Instinct MI250X", 110, 64, 23.9},
		{"partition", changed(func(f *facts) {
			f.name, f.arch, f.units, f.clock = "AMD Instinct MI300X",
				"gfx942", 38, 2100000
		}),
			"AMD Instinct MI300X", 38, 64, 10.2},
		{"RDNA", changed(func(f *facts) {
			f.name, f.arch, f.units, f.clock, f.wave = "AMD Radeon RX 6900 XT", "gfx1030", 40, 2250000, 32
		}), "AMD Radeon RX 6900 XT", 40, 32, 23.0},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := described(t, &c.facts)
			require.Equal(t, c.want, got.Name)
			require.Equal(t, c.units, got.ComputeUnits)
			require.Equal(t, c.wave, got.WaveSize)
			require.InDelta(t, c.tflops, got.TFLOPS, 0.05)
			require.Equal(t, c.name == "RDNA", got.Occupancy == occupancy.RDNA)
			require.Equal(t, 65536, got.GroupShared)
			require.Less(t, uint64(got.MaxWorkers)*uint64(got.MaxThreads), uint64(1)<<32)
			for _, k := range got.Kernels {
				require.Positive(t, got.Resident(k.Tile.Threads, k.Resources).Groups, k.Tile.Name)
			}
		})
	}
	known, err := devices.Lookup("mi210")
	require.NoError(t, err)
	got := described(t, &mi210)
	got.MaxWorkers = known.MaxWorkers
	require.Equal(t, *known, got, "plans for it can be made anywhere")
}

func TestVersion(t *testing.T) {
	require.NoError(t, refuse(50221153))
	require.NoError(t, refuse(70226015))
	require.EqualError(t, refuse(40421431), "has version 4.4.21431, 5.0 or newer is needed: update ROCm")
}

// described returns the facts with the kernels for the GPU.
func described(t *testing.T, f *facts) planner.Device {
	t.Helper()
	arch, err := native.HIP(f.arch)
	require.NoError(t, err)
	d, err := f.planner(arch)
	require.NoError(t, err)
	require.NoError(t, d.Check())
	return d
}
