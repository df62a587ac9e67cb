//go:build cgo && !nocuda && linux && (amd64 || arm64)

package cuda

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/occupancy"
	"github.com/batchgemm/batchgemm/internal/tile"
	"github.com/batchgemm/batchgemm/native"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/devices"
)

func TestPlannerFacts(t *testing.T) {
	h200 := facts{name: "NVIDIA H200", major: 9, units: 132, clock: 1980000, warp: 32, threads: 1024,
		groupShared:    232448,
		reservedShared: 1024, unitThreads: 2048, unitGroups: 32, unitRegisters: 65536,
		unitSharedMemory: 233472,
		memoryClock:      3201000, memoryBus: 6144, cache: 60 << 20}
	changed := func(change func(*facts)) facts {
		f := h200
		change(&f)
		return f
	}
	for _, c := range []struct {
		name   string
		facts  facts
		want   string // Name
		units  int
		tflops float64
	}{
		{"in the table", h200, "h200", 132, 67},
		{"name with dashes", changed(func(f *facts) {
			f.name, f.major, f.units, f.clock, f.groupShared, f.unitSharedMemory = "NVIDIA A100-SXM4-80GB", 8,
				108, 1410000, 166912, 167936
		}), "a100", 108, 19.5},
		{"fewer units than the table", changed(func(f *facts) {
			f.name, f.units, f.clock = "NVIDIA H100 PCIe",
				114, 1755000
		}),
			"NVIDIA H100 PCIe", 114, 51.2},
		{"less shared memory than the table", changed(func(f *facts) { f.unitSharedMemory = 102400 }),
			"NVIDIA H200", 132, 66.9},
		{"less for a group than the table", changed(func(f *facts) { f.groupShared = 101376 }), "NVIDIA H200",
			132, 66.9},
		{"instance in MIG mode", changed(func(f *facts) { f.name, f.units = "NVIDIA H200 MIG 1g.18gb", 16 }),
			"NVIDIA H200 MIG 1g.18gb", 16, 8.1},
		{"half the lanes in 8.0", changed(func(f *facts) {
			f.name, f.major, f.units, f.clock = "NVIDIA A30",
				8, 56, 1440000
		}), "NVIDIA A30", 56, 10.3},
		{"name of an AMD GPU", changed(func(f *facts) { f.name = "mi210" }), "mi210", 132, 66.9},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := described(t, &c.facts)
			require.Equal(t, c.want, got.Name)
			require.Equal(t, c.units, got.ComputeUnits)
			require.InDelta(t, c.tflops, got.TFLOPS, 0.05)
			require.Equal(t, occupancy.NVIDIA, got.Occupancy)
		})
	}
	// Kernels of warpgroups only run on 9.0, and with drivers that load its cubins.
	for _, c := range []struct {
		name          string
		major, driver int
		newest        bool
	}{
		{"unheard of", 8, native.Release, false},
		{"unheard of", 9, native.Release, true},
		{"unheard of", 9, 12090, false},
		{h200.name, 9, native.Release, true},
		{h200.name, 9, 12090, false},
		{"unheard of", 10, native.Release, false},
		{"unheard of", 12, native.Release, false},
	} {
		f := changed(func(f *facts) { f.name, f.major = c.name, c.major })
		units := map[tile.Unit]bool{}
		for _, k := range describedBy(t, &f, c.driver).Kernels {
			units[k.Tile.Unit] = true
			require.Equal(t, c.newest && k.Tile.Clusters, k.Clusters, c)
		}
		newer := tile.Int4 // warpgroups have tiles of their own for it
		if c.newest {
			newer = tile.WGMMA
		}
		want := map[tile.Unit]bool{tile.FMA: true, tile.MMA: true, tile.F64: true, newer: true}
		require.Equal(t, want, units, c)
	}
	// Derived facts agree with the table.
	known, err := devices.Lookup("h200")
	require.NoError(t, err)
	derived := changed(func(f *facts) { f.name = "unheard of" })
	got := described(t, &derived)
	require.InEpsilon(t, known.MemoryRate, got.MemoryRate, 0.03)
	got.Name, got.TFLOPS, got.MemoryRate = known.Name, known.TFLOPS, known.MemoryRate
	require.Equal(t, *known, got)
}

// described returns the facts with the kernels for the GPU.
func described(t *testing.T, f *facts) planner.Device { return describedBy(t, f, native.Release) }

// describedBy returns the facts with a driver of that CUDA version.
func describedBy(t *testing.T, f *facts, driver int) planner.Device {
	t.Helper()
	arch, err := native.CUDA(f.major, f.minor, driver)
	require.NoError(t, err)
	d, err := f.planner(arch)
	require.NoError(t, err)
	require.NoError(t, d.Check())
	return d
}
