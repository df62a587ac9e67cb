//go:build cgo && linux && (amd64 || arm64)

package cuda

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/planner"
)

// Without a usable GPU the error says which of the many reasons it is.
func TestUnavailable(t *testing.T) {
	whole := buildFake(t)
	for _, c := range []struct {
		name    string
		paths   []string
		env     map[string]string
		message string
	}{
		{name: "no library", paths: []string{"libnone.so.1", "/nowhere/libnone.so"},
			message: "no NVIDIA driver: tried libnone.so.1: cannot open shared object file: No such file or directory; " +
				"/nowhere/libnone.so: cannot open shared object file: No such file or directory"},
		{name: "symbol missing", paths: []string{buildFake(t, "-DWITHOUT_GRAPHS")}, message: "no symbol cuGraphLaunch"},
		{name: "symbol missing, old driver", paths: []string{buildFake(t, "-DWITHOUT_GRAPHS")}, env: map[string]string{"FAKECUDA_VERSION": "10020"},
			message: "supports CUDA 10.2, 12.0 is needed"},
		{name: "old driver", paths: []string{whole}, env: map[string]string{"FAKECUDA_VERSION": "11080"},
			message: "supports CUDA 11.8, 12.0 is needed"},
		{name: "no device", paths: []string{whole}, env: map[string]string{"FAKECUDA_FAIL": "cuInit=100"}, message: "shows no GPU"},
		{name: "no visible device", paths: []string{whole}, env: map[string]string{"FAKECUDA_COUNT": "0"}, message: "CUDA_VISIBLE_DEVICES"},
		{name: "broken installation", paths: []string{whole}, env: map[string]string{"FAKECUDA_FAIL": "cuInit=803"},
			message: "does not start: CUDA_ERROR_SYSTEM_DRIVER_MISMATCH (803): a description"},
		{name: "error without a name", paths: []string{whole}, env: map[string]string{"FAKECUDA_FAIL": "cuInit=12345"},
			message: "unknown CUDA error (12345)"},
		{name: "GPU too old", paths: []string{whole}, env: map[string]string{"FAKECUDA_MAJOR": "7", "FAKECUDA_NAME": "Tesla V100"},
			message: "GPU 0: Tesla V100 has compute capability 7.0, 8.0 or newer is needed"},
		{name: "attribute fails", paths: []string{whole}, env: map[string]string{"FAKECUDA_FAIL": "cuDeviceGetAttribute=1"},
			message: "GPU 0: NVIDIA H200: attribute 75: CUDA_ERROR_INVALID_VALUE"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for key, value := range c.env {
				t.Setenv(key, value)
			}
			d := cudaDriver{func() (*library, error) { return load(c.paths) }}
			_, err := d.Devices()
			require.ErrorIs(t, err, driver.ErrUnavailable)
			require.ErrorContains(t, err, c.message)
			_, err = d.Open(t.Context(), 0)
			require.ErrorIs(t, err, driver.ErrUnavailable)
		})
	}
}

// The first library that works is taken.
func TestLoadTriesPaths(t *testing.T) {
	l, err := load([]string{"libnone.so.1", buildFake(t, "-DWITHOUT_GRAPHS"), buildFake(t)})
	require.NoError(t, err)
	require.Equal(t, 12000, l.version)
}

func TestPlannerFacts(t *testing.T) {
	h200 := facts{name: "NVIDIA H200", major: 9, units: 132, clock: 1980000, warp: 32, threads: 1024, groupShared: 232448,
		reservedShared: 1024, unitThreads: 2048, unitGroups: 32, unitRegisters: 65536, unitSharedMemory: 233472}
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
			f.name, f.major, f.units, f.clock, f.groupShared, f.unitSharedMemory = "NVIDIA A100-SXM4-80GB", 8, 108, 1410000, 166912, 167936
		}), "a100", 108, 19.5},
		{"fewer units than the table", changed(func(f *facts) { f.name, f.units, f.clock = "NVIDIA H100 PCIe", 114, 1755000 }),
			"NVIDIA H100 PCIe", 114, 51.2},
		{"instance in MIG mode", changed(func(f *facts) { f.name, f.units = "NVIDIA H200 MIG 1g.18gb", 16 }), "NVIDIA H200 MIG 1g.18gb", 16, 8.1},
		{"half the lanes in 8.0", changed(func(f *facts) { f.name, f.major, f.units, f.clock = "NVIDIA A30", 8, 56, 1440000 }), "NVIDIA A30", 56, 10.3},
		{"name of an AMD GPU", changed(func(f *facts) { f.name = "mi210" }), "mi210", 132, 66.9},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := c.facts.planner()
			require.Equal(t, c.want, got.Name)
			require.Equal(t, c.units, got.ComputeUnits)
			require.InDelta(t, c.tflops, got.TFLOPS, 0.05)
			require.Equal(t, planner.ModelNVIDIA, got.Model)
		})
	}
	// What is derived agrees with the table.
	known, err := planner.LookupDevice("h200")
	require.NoError(t, err)
	derived := changed(func(f *facts) { f.name = "unheard of" })
	got := derived.planner()
	got.Name, got.TFLOPS = known.Name, known.TFLOPS
	require.Equal(t, *known, got)
}

func TestDevices(t *testing.T) {
	t.Setenv("FAKECUDA_COUNT", "3")
	infos, err := fake(t).Devices()
	require.NoError(t, err)
	require.Len(t, infos, 3)
	for i, info := range infos {
		require.Equal(t, i, info.Index)
		require.Equal(t, "NVIDIA H200", info.Name)
		require.Contains(t, info.Driver, "CUDA 12.0")
		require.Equal(t, "32 (warp)", info.Subgroup)
	}
}
