// Package devices describes GPUs, so that plans for them can be made on any machine.
package devices

import (
	"slices"
	"strings"

	"github.com/batchgemm/batchgemm/internal/invalid"
	"github.com/batchgemm/batchgemm/internal/occupancy"
	"github.com/batchgemm/batchgemm/native"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
	"github.com/batchgemm/batchgemm/wgsl"
)

// entry is a GPU and the source of its kernels' facts.
type entry struct {
	facts  planner.Device
	native func() (native.Arch, error) // nil: the kernels are WGSL
}

// table has the hardware facts and their sources.
//
// NVIDIA: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability" (8.0 and 9.0): 64
// warps, 32 blocks, 65536 registers in units of 256 a warp, 164 and 228 KB of shared memory; the system
// takes 1 KB of each block. SM counts, peak rates, memory (A100: 80 GB) and L2 are from data sheets of the
// SXM parts.
//
// AMD: LLVM's GCNSubtarget and AMDGPUUsage for register files, granules, waves and LDS. CU counts, peak fp32
// vector rates, memory and its caches (MI300X: Infinity Cache) are from data sheets.
//
// Launch times: 0.6 us measured for a CUDA graph node on an H200, 1.5 us for a dispatch with its barrier
// through Vulkan there. AMD's are assumed to be the same; they are not measured.
var table = []entry{
	cdna("gfx90a", planner.Device{Name: "mi210", ComputeUnits: 104, TFLOPS: 22.6, MemoryRate: 1.638e6,
		Cache: 8 << 20, MaxWaves: 32, Registers: 4 * 512 * 64, RegisterGranule: 8, MaxRegisters: 512}),
	cdna("gfx908", planner.Device{Name: "mi100", ComputeUnits: 120, TFLOPS: 23.1, MemoryRate: 1.229e6,
		Cache: 8 << 20, MaxWaves: 40, Registers: 4 * 256 * 64, RegisterGranule: 4, MaxRegisters: 256}),
	cdna("gfx942", planner.Device{Name: "mi300x", ComputeUnits: 304, TFLOPS: 81.7, MemoryRate: 5.3e6,
		Cache: 256 << 20, MaxWaves: 32, Registers: 4 * 512 * 64, RegisterGranule: 8, MaxRegisters: 512}),
	nvidia(8, planner.Device{Name: "a100", ComputeUnits: 108, TFLOPS: 19.5, MemoryRate: 2.039e6,
		Cache: 40 << 20, Shared: 164 << 10, GroupShared: 163 << 10}),
	nvidia(8, planner.Device{Name: "a800", ComputeUnits: 108, TFLOPS: 19.5, MemoryRate: 2.039e6,
		Cache: 40 << 20, Shared: 164 << 10, GroupShared: 163 << 10}),
	nvidia(9, planner.Device{Name: "h100", ComputeUnits: 132, TFLOPS: 67, MemoryRate: 3.35e6, Cache: 50 << 20,
		Shared: 228 << 10, GroupShared: 227 << 10}),
	nvidia(9, planner.Device{Name: "h200", ComputeUnits: 132, TFLOPS: 67, MemoryRate: 4.8e6, Cache: 60 << 20,
		Shared: 228 << 10, GroupShared: 227 << 10}),
	// An H200 through Vulkan. All workgroups of an SM together get about 48 KB of workgroup memory (resident
	// groups counted on the device).
	webgpu(planner.Device{Name: "h200-webgpu", ComputeUnits: 132, WaveSize: 32, TFLOPS: 67, LaunchMicros: 1.5,
		MaxWaves: 64, MaxGroups: 32,
		Shared: 48 << 10, MaxThreads: 1024, GroupShared: 48 << 10, MaxBinding: 1<<31 - 1}),
	// Mesa's software rasterizer on AVX2, with two cores. Its adapter reports the limits. Its rate is about
	// 0.6 GFLOP/s on two cores of a small machine. It ends all loops of a thread after 65535 iterations
	// (measured; planner/trips.go).
	webgpu(planner.Device{Name: "lavapipe", ComputeUnits: 2, WaveSize: 8, TFLOPS: 0.0006, LaunchMicros: 100,
		MaxWaves: 32, MaxGroups: 1,
		Shared: 32 << 10, MaxThreads: 1024, GroupShared: 32 << 10, MaxBinding: 128 << 20, MaxTrips: 65535}),
	// The limits that every WebGPU device grants (specification, section 3.6.2), and the size of a mid-range
	// GPU.
	webgpu(planner.Device{Name: "webgpu-default", ComputeUnits: 32, WaveSize: 32, TFLOPS: 10, LaunchMicros: 5,
		MaxWaves: 32, MaxGroups: 16,
		Shared: 32 << 10, MaxThreads: 256, GroupShared: 16 << 10, MaxBinding: 128 << 20}),
}

func cdna(arch string, d planner.Device) entry {
	d.Occupancy, d.WaveSize, d.SIMDs, d.MaxGroups = occupancy.CDNA, 64, 4, 16
	d.Shared, d.GroupShared, d.SharedGranule = 64<<10, 64<<10, 512
	d.MaxThreads, d.LaunchMicros = 1024, 0.6
	return entry{d, func() (native.Arch, error) { return native.HIP(arch) }}
}

func nvidia(major int, d planner.Device) entry {
	d.Occupancy, d.WaveSize, d.SIMDs, d.MaxWaves, d.MaxGroups = occupancy.NVIDIA, 32, 4, 64, 32
	d.Registers, d.RegisterGranule, d.MaxRegisters = 65536, 256, 255
	d.SharedGranule, d.SharedReserved = 128, 1024
	d.MaxThreads, d.LaunchMicros = 1024, 0.6
	return entry{d, func() (native.Arch, error) { return native.CUDA(major, 0, native.Release) }}
}

func webgpu(d planner.Device) entry {
	d.Occupancy, d.PeakGuessed, d.MaxWorkers = occupancy.Limits, true, 65535
	d.Types, d.Epilogues, d.Blocks = []element.Type{element.BF16, element.F16, element.E4M3, element.Int8,
		element.Int4, element.MXFP4, element.NVFP4}, true, true
	return entry{facts: d}
}

// describe returns the device with its kernels, which describe themselves.
func (e *entry) describe() (*planner.Device, error) {
	d := e.facts
	if e.native == nil {
		wgsl.Describe(&d)
		return &d, nil
	}
	arch, err := e.native()
	if err == nil {
		err = arch.Describe(&d)
	}
	return &d, err
}

// Names lists the devices that Lookup finds, without aliases.
func Names() []string {
	names := make([]string, len(table))
	for i := range table {
		names[i] = table[i].facts.Name
	}
	return names
}

// aliases are other names of devices in the table.
var aliases = map[string]string{"gfx90a": "mi210", "gfx908": "mi100", "gfx942": "mi300x"}

// Lookup finds a device by name or alias, in upper or lower case. It fails with an error that lists the
// names.
func Lookup(name string) (*planner.Device, error) {
	key := strings.ToLower(name)
	if a, ok := aliases[key]; ok {
		key = a
	}
	i := slices.IndexFunc(table, func(e entry) bool { return e.facts.Name == key })
	if i < 0 {
		return nil, invalid.Errorf("unknown device %q (known: %s)", name, strings.Join(Names(), ", "))
	}
	return table[i].describe()
}
