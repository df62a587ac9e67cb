//go:build cgo && !nocuda && linux && (amd64 || arm64)

package cuda

import (
	"bytes"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/backend"
	"github.com/batchgemm/batchgemm/internal/dl"
	"github.com/batchgemm/batchgemm/internal/dl/dltest"
	"github.com/batchgemm/batchgemm/internal/drivertest"
	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/internal/hardware"
	"github.com/batchgemm/batchgemm/internal/hostmem/memtest"
	"github.com/batchgemm/batchgemm/internal/sample"
	"github.com/batchgemm/batchgemm/native"
	"github.com/batchgemm/batchgemm/planner"
)

// buildFake compiles testdata/fakecuda.c, which says what it does.
func buildFake(t testing.TB, flags ...string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "libfakecuda.so")
	dltest.CompileCUDA(t, "testdata/fakecuda.c", path, flags...)
	return path
}

// The fake computes what the plan says, so the suites test everything except the kernels of tiles.
func TestFake(t *testing.T) {
	optimize := "-O0" // few cases run on kernels
	if sample.Drivers.Drawn("cuda", 1) {
		optimize = "-O1"
	}
	path := buildFake(t, dltest.CompileKernels(t, "..", func(string) bool { return false }, optimize)...)
	small := vendor
	// products would be unpacked for each of hundreds of devices
	small.Describe = builds(func(native.Arch) backend.Build {
		return backend.Build{Image: func(encoding.Kernel) string { return "code" },
			Read: func(string) ([]byte, error) { return []byte("code"), nil }}
	}).describe
	f := dltest.New(t, small, path)
	t.Run("conformance", func(t *testing.T) {
		drivertest.Run(t, f.Driver,
			drivertest.OneTile("the fake computes what the plan says, whatever the tile"))
	})
	dltest.Run(t, f)
	t.Run("random problems", func(t *testing.T) {
		dltest.RandomProblems(t, dltest.New(t, vendor, path).Driver,
			2)
	})
	t.Run("large offsets", func(t *testing.T) { // the system allows more memory than is ever touched
		d := drivertest.Open(t, f.Driver)
		drivertest.LargeOffsets(t, d, d.Alloc)
	})
	t.Run("reserved", func(t *testing.T) { // lets dispatch try the next backend
		f.Fail(t, "contextRetain", 46, 0)
		_, err := f.Driver.Open(t.Context(), 0)
		require.ErrorIs(t, err, hardware.ErrUnavailable)
		require.ErrorContains(t, err, "cuda: NVIDIA H200: unavailable: ")
	})
	t.Run("variables", func(t *testing.T) {
		d := drivertest.Open(t, f.Driver).(dl.Globals)
		count := make([]byte, 4)
		require.NoError(t, d.ReadGlobal(t.Context(), "code", "bg_clocks", count))
		require.ErrorContains(t, d.ReadGlobal(t.Context(), "code", "none", count), "cuda: variable none: ")
		require.ErrorContains(t, d.ReadGlobal(t.Context(), "code", "bg_clocks", make([]byte, 3<<20)),
			"variable bg_clocks: 3145728 bytes asked for, it has 2097160")
		f.Fail(t, "moduleGlobal", 1, 0)
		require.ErrorContains(t, d.ReadGlobal(t.Context(), "code", "bg_clocks", count),
			"CUDA_ERROR_INVALID_VALUE")
	})
	t.Run("images", func(t *testing.T) { // are freed with the device
		const devices, size = 16, 16 << 20 // bytes
		code, large := bytes.Repeat([]byte{1}, size), vendor
		large.Describe = builds(func(native.Arch) backend.Build {
			return backend.Build{Image: func(encoding.Kernel) string { return "code" },
				Read: func(string) ([]byte, error) { return code, nil }}
		}).describe
		on := dltest.New(t, large, path).Driver
		before := memtest.Resident(t)
		for range devices {
			d, err := on.Open(t.Context(), 0)
			require.NoError(t, err)
			require.NoError(t, d.(dl.Globals).ReadGlobal(t.Context(), "code", "bg_clocks", make([]byte, 4)))
			require.NoError(t, d.Close())
		}
		require.Less(t, memtest.Resident(t)-before, devices*size/4, "bytes more")
	})
	t.Run("several", func(t *testing.T) {
		t.Setenv("FAKE_COUNT", "3")
		infos, err := f.Driver.Devices(t.Context())
		require.NoError(t, err)
		require.Len(t, infos, 3)
		for i, info := range infos {
			require.Equal(t, i, info.Index)
			require.Equal(t, "NVIDIA H200", info.Name)
			require.Contains(t, info.Driver, "CUDA 13.0")
			require.Equal(t, "32 (warp)", info.Subgroup)
		}
	})
	t.Run("after one that is too old", func(t *testing.T) {
		t.Setenv("FAKE_COUNT", "3")
		t.Setenv("FAKECUDA_OLD", "1")
		infos, err := f.Driver.Devices(t.Context())
		require.NoError(t, err)
		require.Len(t, infos, 2)
		require.Equal(t, 1, infos[1].Index)
	})
}

// Launches begin while the previous one ends if kernels wait for it (PDL). PTX kernels do not, and each is
// loaded alone.
func TestEarlyLaunches(t *testing.T) {
	const cubin, ptx = ".cubin", ".ptx/bg_tiny_k4_nn"
	path := buildFake(t)
	for _, c := range []struct {
		name, version, major string
		early                bool
		image                string
	}{
		{"9.0", "13000", "9", true, cubin},
		{"9.0, older driver, from PTX of 8.0", "12090", "9", false, ptx},
		{"8.0", "13000", "8", false, cubin},
		{"10.0, from PTX of 8.0", "13000", "10", false, ptx},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv("FAKECUDA_VERSION", c.version)
			t.Setenv("FAKECUDA_MAJOR", c.major)
			var gpu *dl.GPU
			v := vendor
			v.Describe = func(f dl.Facts) (_ *dl.GPU, err error) {
				gpu, err = vendor.Describe(f)
				return gpu, err
			}
			dltest.New(t, v, path)
			require.Equal(t, c.early, gpu.Waits)
			i := slices.IndexFunc(gpu.Planner.Kernels,
				func(k planner.KernelFacts) bool { return k.Tile.Name == "tiny-k4" })
			image := gpu.Kernel(encoding.Kernel{Tile: gpu.Planner.Kernels[i].Tile}).Image
			require.Equal(t, "plain"+c.image, image[strings.Index(image, "plain"):])
		})
	}
}

// Without a usable GPU the error names the reason.
func TestUnavailable(t *testing.T) {
	whole, without := buildFake(t, "-O0"), buildFake(t, "-DWITHOUT_GRAPHS", "-O0")
	dltest.Unavailable(t, vendor, []dltest.Reason{
		{Name: "no library", Paths: []string{"libnone.so.1", "/nowhere/libnone.so"},
			Message: "no NVIDIA driver: tried libnone.so.1, /nowhere/libnone.so: cannot open shared " +
				"object file: No such file or directory"},
		{Name: "symbol missing", Paths: []string{without},
			Message: "no symbol cuGraphLaunch"},
		{Name: "several reasons", Paths: []string{"libnone.so.1", without},
			Message: "tried libnone.so.1: cannot open shared object file: No such file or directory; /"},
		{Name: "symbol missing, old driver", Paths: []string{without},
			Env:     map[string]string{"FAKECUDA_VERSION": "10020"},
			Message: "supports CUDA 10.2, 12.0 is needed"},
		{Name: "old driver", Paths: []string{whole}, Env: map[string]string{"FAKECUDA_VERSION": "11080"},
			Message: "supports CUDA 11.8, 12.0 is needed"},
		{Name: "no device", Paths: []string{whole}, Env: map[string]string{"FAKE_FAIL": "cuInit=100:0"},
			Message: "shows no GPU"},
		{Name: "no visible device", Paths: []string{whole}, Env: map[string]string{"FAKE_COUNT": "0"},
			Message: "CUDA_VISIBLE_DEVICES"},
		{Name: "broken installation", Paths: []string{whole},
			Env:     map[string]string{"FAKE_FAIL": "cuInit=803:0"},
			Message: "does not start: CUDA_ERROR_SYSTEM_DRIVER_MISMATCH (803): a description"},
		{Name: "error without a name", Paths: []string{whole},
			Env:     map[string]string{"FAKE_FAIL": "cuInit=12345:0"},
			Message: "unknown CUDA error (12345)"},
		{Name: "GPU too old", Paths: []string{whole}, Env: map[string]string{"FAKECUDA_MAJOR": "7",
			"FAKECUDA_NAME": "Tesla V100"},
			Message: "GPU 0: Tesla V100: compute capability 7.0, 8.0 or newer is needed"},
		{Name: "attribute fails", Paths: []string{whole},
			Env:     map[string]string{"FAKE_FAIL": "cuDeviceGetAttribute=1:0"},
			Message: "GPU 0: NVIDIA H200: attribute 75: CUDA_ERROR_INVALID_VALUE"},
	})
}

// The first library that works is used.
func TestLoadTriesPaths(t *testing.T) {
	infos, err := dltest.At(vendor, "libnone.so.1", buildFake(t, "-DWITHOUT_GRAPHS", "-O0"),
		buildFake(t, "-O0")).Devices(t.Context())
	require.NoError(t, err)
	require.Len(t, infos, 1)
}
