//go:build cgo && !nohip && linux && (amd64 || arm64)

package hip

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/backend"
	"github.com/batchgemm/batchgemm/internal/dl/dltest"
	"github.com/batchgemm/batchgemm/internal/drivertest"
	"github.com/batchgemm/batchgemm/internal/hardware"
	"github.com/batchgemm/batchgemm/internal/objects"
	"github.com/batchgemm/batchgemm/internal/sample"
	"github.com/batchgemm/batchgemm/planner"
)

// library builds a fake of HIP from testdata/fakehip.c, which describes itself, with or without the real
// kernels.
func library(t testing.TB, kernels bool, flags ...string) (path string) {
	t.Helper()
	if _, err := exec.LookPath("g++"); err != nil {
		t.Skip(err)
	}
	dir := t.TempDir()
	object, path := filepath.Join(dir, "fakehip.o"), filepath.Join(dir, "libfakehip.so")
	require.NoError(t, objects.Compile("cc",
		append([]string{"-O1", "-fPIC", "-c", "testdata/fakehip.c", "-o", object}, flags...)...))
	args := []string{"-shared", "-o", path, object, "-lpthread"}
	if kernels {
		wanted, optimize := fp32, "-O0" // few kernels run
		if wholeSuite() {
			wanted, optimize = every, "-O1" // a minute to compile
		}
		args = append(args, dltest.CompileKernels(t, "..", wanted, optimize)...)
	}
	require.NoError(t, objects.Compile("g++", args...))
	return path
}

// fp32 and every say which lines of the list of kernels are compiled.
func fp32(line string) bool { return !narrow.MatchString(line) }
func every(string) bool     { return true }

var narrow = regexp.MustCompile(`^BG_.*GEMM\(bg_\w*_(bf16|f16|e4m3|int8|int4)\w*,`)

// wholeSuite reports whether kernels run the whole suite of backends. CUDA's fake runs it without kernels,
// on the same driver.
func wholeSuite() bool { return !testing.Short() && sample.Drivers.Drawn("hip", 1) }

// largeOffsets reports whether kernels of tiles run on large operands.
func largeOffsets() bool { return wholeSuite() || sample.Kernels.Drawn("hip, large offsets", 1) }

// The fake runs the kernels, those for matrix cores on gfx90a and the others on gfx1030, so the suites test
// everything except the hardware and its compiler. The whole suite on gfx90a takes 25 s of a core.
func TestFake(t *testing.T) {
	f := dltest.New(t, vendor, library(t, true))
	dltest.Run(t, f)
	for _, c := range []struct {
		arch, name, subgroup string
		whole                bool
	}{
		{"gfx1030", "AMD Radeon PRO W6800", "32 (wavefront)", false},
		{"gfx90a:sramecc+:xnack-", "AMD Instinct MI210", "64 (wavefront)", true},
	} {
		t.Run(c.arch, func(t *testing.T) {
			t.Setenv("FAKEHIP_ARCH", c.arch)
			t.Setenv("FAKEHIP_NAME", c.name)
			infos, err := f.Driver.Devices(t.Context())
			require.NoError(t, err)
			require.Len(t, infos, 1)
			require.Contains(t, infos[0].Name, c.name+" (gfx")
			require.Contains(t, infos[0].Driver, "HIP 6.3.43483")
			require.Equal(t, c.subgroup, infos[0].Subgroup)
			t.Run("large offsets", func(t *testing.T) { // the system allows more memory than is ever touched
				if !largeOffsets() {
					t.Skip("the kernels are those of the last green run")
				}
				d := drivertest.Open(t, f.Driver)
				drivertest.LargeOffsets(t, d, d.Alloc)
			})
			if !wholeSuite() {
				return
			}
			dltest.RandomProblems(t, f.Driver, 5)
			if c.whole {
				drivertest.Run(t, f.Driver,
					drivertest.OneTile("the fake computes what the plan says, whatever the tile"),
					drivertest.OneType("the fake and all after it are those of CUDA, which run the others"))
			}
		})
	}
	t.Run("launch failure", func(t *testing.T) {
		opened, err := f.Driver.Open(t.Context(), 0)
		require.NoError(t, err)
		f.Fail(t, "eventQuery", 719, 0)
		require.ErrorIs(t, opened.Wait(t.Context()), hardware.ErrDeviceLost)
		require.ErrorContains(t, opened.Close(),
			"hip: AMD Instinct MI210 (gfx90a): device lost: wait: hipErrorLaunchFailure (719)")
	})
	t.Run("code for another GPU", func(t *testing.T) {
		d := drivertest.Open(t, f.Driver)
		info := d.Info()
		batch, err := planner.Pack(planner.GEMM(1, 1, 1))
		require.NoError(t, err)
		plan, err := planner.New(&info.Planner).Plan(t.Context(), batch, planner.Options{})
		require.NoError(t, err)
		t.Setenv("FAKEHIP_ARCH", "gfx908")
		_, err = d.Prepare(t.Context(), plan)
		require.EqualError(t, err,
			"launch 0: hip: load gfx90a.co: hipErrorNoBinaryForGpu (209): a description")
		require.NotErrorIs(t, err, hardware.ErrUnavailable)
	})
}

// Without a usable GPU the error says which of the many reasons it is.
func TestUnavailable(t *testing.T) {
	whole := library(t, false)
	dltest.Unavailable(t, vendor, []dltest.Reason{
		{Name: "no library", Paths: []string{"libnone.so.6", "/nowhere/libnone.so"},
			Message: "no HIP runtime: tried libnone.so.6, /nowhere/libnone.so: cannot open shared object " +
				"file: No such file or directory"},
		{Name: "symbol missing", Paths: []string{library(t, false, "-DhipHostMalloc=other")},
			Message: "no symbol hipHostMalloc"},
		{Name: "old runtime", Paths: []string{whole}, Env: map[string]string{"FAKEHIP_VERSION": "40321331"},
			Message: "the HIP runtime (" + whole + ") has version 4.3.21331, 5.0 or newer is needed"},
		{Name: "no device", Paths: []string{whole},
			Env:     map[string]string{"FAKE_FAIL": "hipGetDeviceCount=100:0"},
			Message: "shows no GPU: is there an AMD GPU"},
		{Name: "no visible device", Paths: []string{whole}, Env: map[string]string{"FAKE_COUNT": "0"},
			Message: "HIP_VISIBLE_DEVICES"},
		{Name: "broken installation", Paths: []string{whole},
			Env:     map[string]string{"FAKE_FAIL": "hipGetDeviceCount=3:0"},
			Message: "does not start: hipErrorUnknown (3): a description"},
		{Name: "no code for it", Paths: []string{whole},
			Env: map[string]string{"FAKEHIP_ARCH": "gfx906:sramecc+:xnack-",
				"FAKEHIP_NAME": "AMD Radeon VII"},
			Message: `GPU 0: AMD Radeon VII: no code for this GPU: "gfx906"`},
		{Name: "no architecture", Paths: []string{whole}, Env: map[string]string{"FAKEHIP_ARCH": "something"},
			Message: "GPU 0: AMD Instinct MI210: the properties name no architecture"},
		{Name: "no properties", Paths: []string{library(t, false, "-DWITHOUT_PROPERTIES")},
			Message: "GPU 0: AMD Instinct MI210: properties: hipErrorUnknown (801)"},
		{Name: "properties fail", Paths: []string{whole},
			Env:     map[string]string{"FAKE_FAIL": "hipGetDevicePropertiesR0600=101:0"},
			Message: "GPU 0: AMD Instinct MI210: properties: hipErrorUnknown (101)"},
		{Name: "attribute fails", Paths: []string{whole},
			Env:     map[string]string{"FAKE_FAIL": "hipDeviceGetAttribute=1:0"},
			Message: "GPU 0: AMD Instinct MI210: attribute 63: hipErrorInvalidValue (1)"},
	})
}

// ROCm 5 has other properties, and does not return a stream's device.
func TestROCm5(t *testing.T) {
	d := dltest.At(vendor, "libnone.so.6", library(t, false, "-DHIP_5"))
	infos, err := d.Devices(t.Context())
	require.NoError(t, err)
	require.Equal(t, "AMD Instinct MI210 (gfx90a)", infos[0].Name)
	opened := drivertest.Open(t, d).(backend.Wrapper)
	_, err = opened.OnStream(16)
	require.ErrorContains(t, err, "hip: the stream must be one of this GPU: hip: open: hipErrorUnknown (801)")
	onDefault, err := opened.OnStream(0)
	require.NoError(t, err)
	require.NoError(t, onDefault.Close())
}

// Devices without a name, for example because the runtime lacks a file, are named by their architecture.
func TestDevices(t *testing.T) {
	t.Setenv("FAKEHIP_NAME", "")
	t.Setenv("FAKE_COUNT", "2")
	infos, err := dltest.At(vendor, library(t, false)).Devices(t.Context())
	require.NoError(t, err)
	require.Len(t, infos, 2)
	require.Equal(t, "AMD GPU (gfx90a)", infos[1].Name)
	require.Equal(t, 1, infos[1].Index)
	require.Equal(t, "hip", infos[1].Backend)
}

// With AMD's own library but without a GPU, the error says so and nothing breaks.
func TestRealLibraryWithoutGPU(t *testing.T) {
	_, err := Driver().Devices(t.Context())
	if err == nil {
		t.Skip("there is a GPU")
	}
	require.ErrorIs(t, err, hardware.ErrUnavailable)
	if strings.Contains(err.Error(), "no HIP runtime") {
		t.Skip(err)
	}
	require.ErrorContains(t, err, "the HIP runtime shows no GPU: ")
	_, err = Driver().Open(t.Context(), 0)
	require.ErrorIs(t, err, hardware.ErrUnavailable)
}
