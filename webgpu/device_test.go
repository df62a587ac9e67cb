//go:build cgo && !nowebgpu && ((linux && amd64) || darwin || (windows && amd64))

package webgpu

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/rajveermalviya/go-webgpu/wgpu"
	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/hardware"
	"github.com/batchgemm/batchgemm/internal/occupancy"
	"github.com/batchgemm/batchgemm/internal/sample"
	"github.com/batchgemm/batchgemm/planner"
)

func TestDevices(t *testing.T) {
	d := open(t, webgpuDriver{})
	infos, err := Driver().Devices(t.Context())
	require.NoError(t, err)
	for i, info := range infos {
		t.Logf("%+v", info)
		require.Equal(t, i, info.Index)
		require.NotEmpty(t, info.Name)
		require.Equal(t, occupancy.Limits, info.Planner.Occupancy)
		for _, n := range []int{
			info.Planner.ComputeUnits, info.Planner.WaveSize, info.Planner.MaxWaves, info.Planner.MaxGroups,
			info.Planner.Shared,
			info.Planner.MaxThreads, info.Planner.GroupShared, info.Planner.MaxWorkers,
			info.Planner.MaxBinding,
		} {
			require.Positive(t, n, "%+v", info.Planner)
		}
		if i > 0 && infos[i-1].Kind == hardware.KindSoftware {
			require.True(t, info.Kind == hardware.KindSoftware, "GPUs come first")
		}
		if len(vulkanGPUs()) > 0 {
			require.Contains(t, info.Subgroup, "(Vulkan)")
		}
	}
	require.Equal(t, infos[0], d.Info())
	for _, index := range []int{-1, len(infos)} {
		_, err := Driver().Open(t.Context(), index)
		require.Error(t, err)
	}
}

// TestIdentify: adapters of one model are distinguished, by Vulkan's UUIDs if there are any.
func TestIdentify(t *testing.T) {
	of := func(vendor, device uint32, name string, api wgpu.BackendType, kind wgpu.AdapterType) adapter {
		return adapter{props: wgpu.AdapterProperties{VendorId: vendor, DeviceId: device, Name: name,
			BackendType: api, AdapterType: kind}}
	}
	const vulkan, metal, d3d12 = wgpu.BackendType_Vulkan, wgpu.BackendType_Metal, wgpu.BackendType_D3D12
	const discrete, cpu, unknown = wgpu.AdapterType_DiscreteGPU, wgpu.AdapterType_CPU,
		wgpu.AdapterType_Unknown
	h200 := of(vendorNVIDIA, 0x2335, "NVIDIA H200", vulkan, discrete)
	type want struct {
		id, vendor string
		kind       hardware.Kind
		memory     int64
	}
	for _, c := range []struct {
		name string
		list []adapter
		gpus []vulkanGPU
		want []want
	}{
		{"two of a model", []adapter{h200, h200},
			[]vulkanGPU{{vendor: vendorNVIDIA, device: 0x2335, name: "NVIDIA H200",
				kind: hardware.KindDiscrete,
				uuid: [16]byte{1}, memory: 5},
				{vendor: vendorNVIDIA, device: 0x2335, name: "NVIDIA H200", kind: hardware.KindDiscrete,
					uuid: [16]byte{2}, memory: 6}},
			[]want{{"webgpu:vulkan:01000000-0000-0000-0000-000000000000", "NVIDIA", hardware.KindDiscrete, 5},
				{"webgpu:vulkan:02000000-0000-0000-0000-000000000000", "NVIDIA", hardware.KindDiscrete, 6}}},
		{"no Vulkan to ask", []adapter{h200, h200, of(vendorNVIDIA, 0x2335, "NVIDIA H200", d3d12, discrete)},
			nil,
			[]want{{"webgpu:vulkan:10de:2335", "NVIDIA", hardware.KindDiscrete, 0},
				{"webgpu:vulkan:10de:2335:2", "NVIDIA", hardware.KindDiscrete, 0},
				{"webgpu:d3d12:10de:2335", "NVIDIA", hardware.KindDiscrete, 0}}},
		{"a virtual GPU", []adapter{of(7, 8, "virtual", vulkan, cpu)},
			[]vulkanGPU{{vendor: 7, device: 8, name: "virtual", uuid: [16]byte{15: 1}}},
			[]want{{"webgpu:vulkan:00000000-0000-0000-0000-000000000001", "", hardware.KindOther, 0}}},
		{"software", []adapter{of(vendorMesa, 0, "llvmpipe", vulkan, cpu)},
			[]vulkanGPU{{vendor: vendorMesa, name: "llvmpipe", kind: hardware.KindSoftware,
				uuid: [16]byte{1}, memory: 9}},
			[]want{{"webgpu:vulkan:10005:0000", "Mesa", hardware.KindSoftware, 9}}},
		{"Metal gives no numbers", []adapter{of(0, 0, "Apple M2", metal, unknown),
			of(0, 0, "Radeon", metal, unknown)}, nil,
			[]want{{"webgpu:metal:0000:0000", "Apple", hardware.KindOther, 0},
				{"webgpu:metal:0000:0000:2", "", hardware.KindOther, 0}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			identify(c.list, c.gpus)
			for i, a := range c.list {
				info := a.info(i, 0)
				require.Equal(t, c.want[i], want{info.ID, info.Vendor, info.Kind, info.Memory})
			}
		})
	}
}

func TestSubgroupTable(t *testing.T) {
	for vendor, want := range map[uint32]int{
		vendorNVIDIA: 32, vendorAMD: 64, vendorIntel: 32, vendorApple: 32, vendorARM: 16, vendorMesa: 8,
		vendorWARP: 4, 0: 32,
	} {
		a := adapter{}
		a.props.VendorId = vendor
		lanes, source := a.subgroup()
		require.Equal(t, want, lanes)
		require.NotEqual(t, "Vulkan", source)
	}
}

// TestFacts: limits come from the adapter, not from what is known of such GPUs.
func TestFacts(t *testing.T) {
	a := adapter{kind: hardware.KindSoftware}
	a.limits.MaxComputeInvocationsPerWorkgroup, a.limits.MaxComputeWorkgroupSizeX = 1024, 512
	a.limits.MaxComputeWorkgroupsPerDimension, a.limits.MaxComputeWorkgroupStorageSize = 4321, 17000
	a.limits.MaxStorageBufferBindingSize = 1<<20 + 17
	d := a.facts(0)
	require.Equal(t, [5]int{512, 4321, 17000, 1<<20 + 16, runtime.NumCPU()},
		[5]int{d.MaxThreads, d.MaxWorkers, d.GroupShared, d.MaxBinding, d.ComputeUnits})
	a.limits.MaxComputeWorkgroupSizeX = 2048
	require.Equal(t, 1024, a.facts(0).MaxThreads)
	require.Equal(t, 4096, a.facts(4100).MaxBinding)
	a.vulkan = &vulkanGPU{subgroup: 16, units: 7, warps: 48}
	d = a.facts(0)
	require.Equal(t, [3]int{16, 7, 48}, [3]int{d.WaveSize, d.ComputeUnits, d.MaxWaves})
	require.NoError(t, d.Check())
}

// Only software adapters have short shaders.
func TestShortShaders(t *testing.T) {
	for kind, short := range map[hardware.Kind]bool{hardware.KindSoftware: true, hardware.KindDiscrete: false,
		hardware.KindIntegrated: false} {
		require.Equal(t, short, newDevice(driver.Info{Kind: kind}, limits{}, 0).shader.Short, kind)
	}
}

func TestCloseInAnyOrder(t *testing.T) {
	first := open(t, webgpuDriver{})
	k := newTask(t, gemm(30, 30, 30))
	for order := range 5 {
		d, err := openDevice(t.Context(), first.info, 0)
		require.NoError(t, err)
		_, p := prepare(t, d, k.batch, planner.Options{})
		a, b, c := upload(t, d, k.a), upload(t, d, k.b), alloc(t, d, len(k.c))
		require.NoError(t, d.Submit(t.Context(), []driver.Run{{Program: p, A: a, B: b, C: c}}))
		parts := []func() error{p.Close, a.Close, c.Close, b.Close}
		for i := range order { // the rest is freed with the device
			require.NoError(t, parts[(i+order)%len(parts)](), "order %d", order)
		}
		require.NoError(t, d.Close())
	}
}

// Buffers and programs may be closed while queued work uses them.
func TestCloseWhileQueued(t *testing.T) {
	d := open(t, webgpuDriver{})
	k := newTask(t, gemm(100, 100, 100))
	want := reference(k.batch, k.a, k.b, k.c)
	for range 5 {
		_, p := prepare(t, d, k.batch, planner.Options{})
		a, b, c := upload(t, d, k.a), upload(t, d, k.b), alloc(t, d, len(k.c))
		run := driver.Run{Program: p, A: a, B: b, C: c}
		require.NoError(t, d.Submit(t.Context(), []driver.Run{run, run, run}))
		require.NoError(t, errors.Join(p.Close(), a.Close(), b.Close()))
		// This would reuse memory that was freed too early.
		alloc(t, d, len(k.a))
		requireEqual(t, want, download(t, c, len(k.c)))
		require.NoError(t, c.Close())
	}
}

func TestOpenRunClose(t *testing.T) {
	sample.WebGPU.Skip(t, 1)
	first := open(t, webgpuDriver{})
	k := newTask(t, gemm(8, 8, 8))
	want := reference(k.batch, k.a, k.b, k.c)
	cycle := func() {
		d, err := openDevice(t.Context(), first.info, 0)
		require.NoError(t, err)
		plan, err := planner.New(&d.info.Planner).Plan(t.Context(), k.batch, planner.Options{})
		require.NoError(t, err)
		p, err := d.Prepare(t.Context(), plan)
		require.NoError(t, err)
		a, b, c := upload(t, d, k.a), upload(t, d, k.b), alloc(t, d, len(k.c))
		_, err = d.Time(t.Context(), []driver.Run{{Program: p, A: a, B: b, C: c}})
		require.NoError(t, err)
		requireEqual(t, want, download(t, c, len(k.c)))
		require.NoError(t, d.Close())
	}
	for range 20 { // caches of the driver and the allocator fill
		cycle()
	}
	before := resident(t)
	for range 180 {
		cycle()
	}
	grown := resident(t) - before
	t.Logf("grown by %d KiB", grown>>10)
	// A leaked buffer of 8 MiB a cycle, or an instance, would be far more.
	require.Less(t, grown, 32<<20)
}

// resident returns the memory of the process in bytes, or 0 if unknown.
func resident(t *testing.T) int {
	text, err := os.ReadFile("/proc/self/statm")
	if errors.Is(err, os.ErrNotExist) {
		return 0
	}
	require.NoError(t, err)
	var total, pages int
	_, err = fmt.Fscan(strings.NewReader(string(text)), &total, &pages)
	require.NoError(t, err)
	return pages * os.Getpagesize()
}
