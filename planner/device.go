package planner

import (
	"fmt"
	"strings"
)

// Model selects the occupancy formulas of a device.
type Model string

const (
	ModelCDNA   Model = "cdna"   // Zhang et al. Eq 5-9, corrected
	ModelNVIDIA Model = "nvidia" // threads, registers, shared memory and blocks per SM
	ModelWebGPU Model = "webgpu" // limits and subgroup size only
)

// Device holds the facts about a GPU that planning needs. A compute unit is an
// SM on NVIDIA, a CU on AMD, a core in software.
type Device struct {
	Name         string  `json:"name"`
	Model        Model   `json:"model"`
	ComputeUnits int     `json:"compute_units"`
	WaveSize     int     `json:"wave_size"`     // lanes of a wavefront, warp or subgroup
	TFLOPS       float64 `json:"tflops"`        // peak of plain fp32 FMA
	LaunchMicros float64 `json:"launch_micros"` // device time of an empty launch

	// Per compute unit.
	SIMDs           int `json:"simds,omitempty"`
	MaxWaves        int `json:"max_waves"`                  // resident waves
	MaxGroups       int `json:"max_groups"`                 // resident workgroups
	Registers       int `json:"registers,omitempty"`        // 32-bit vector registers, all lanes
	RegisterGranule int `json:"register_granule,omitempty"` // CDNA: per thread; NVIDIA: per warp
	MaxRegisters    int `json:"max_registers,omitempty"`    // per thread
	Shared          int `json:"shared"`                     // bytes of workgroup memory
	SharedGranule   int `json:"shared_granule,omitempty"`   // bytes
	SharedReserved  int `json:"shared_reserved,omitempty"`  // bytes that the system takes of each workgroup

	// Tensor cores that our kernels use: MMA of every NVIDIA GPU from compute
	// capability 8.0 on, WGMMA of 9.0 alone.
	MMA   bool `json:"mma,omitempty"`
	WGMMA bool `json:"wgmma,omitempty"`

	// Rates of our kernels on this very device, in place of those that came with
	// the package; nil: none were measured. They must not change while plans use them.
	Rates *Rates `json:"-"`

	// Kernels is what each tile's kernel takes as its compiler reports it, or zero
	// where only the estimate of Tile.Resources is known.
	Kernels [NumTiles]Resources `json:"-"`

	// Limits of one workgroup and one launch.
	MaxThreads  int `json:"max_threads"`           // threads of a workgroup
	GroupShared int `json:"group_shared"`          // bytes of workgroup memory of a workgroup
	MaxWorkers  int `json:"max_workers,omitempty"` // workgroups of a launch; 0: unlimited
	MaxBinding  int `json:"max_binding,omitempty"` // bytes of a buffer that a launch reaches; 0: what 32-bit element offsets reach
	MaxTrips    int `json:"max_trips,omitempty"`   // loop iterations of one thread; 0: unlimited
}

// Computes lists the compute modes that make a difference on the device.
func (d *Device) Computes() []Compute {
	if d.MMA || d.WGMMA {
		return []Compute{ComputeF32Emulated, ComputeF32, ComputeTF32}
	}
	return []Compute{ComputeF32}
}

// known is the table of GPUs that plans can be made for anywhere.
//
// NVIDIA: CUDA C++ Programming Guide, "Technical Specifications per Compute
// Capability" (8.0 and 9.0): 64 warps, 32 blocks, 65536 registers in units of
// 256 a warp, 164 and 228 KB of shared memory of which the system takes 1 KB a
// block; SM counts and peak rates from the data sheets of the SXM parts.
// AMD: LLVM's GCNSubtarget and AMDGPUUsage for register files, granules, waves
// and LDS; CU counts and peak fp32 vector rates from the data sheets; kernels as
// our builds are (kernels_cdna.go).
// Launch times: 0.6 us measured for a CUDA graph node on an H200, 1.5 us for a
// dispatch with its barrier through Vulkan there; AMD's are not measured and
// taken to be the same.
var known = []Device{
	cdna(Device{Name: "mi210", ComputeUnits: 104, TFLOPS: 22.6, MaxWaves: 32, Registers: 4 * 512 * 64, RegisterGranule: 8, MaxRegisters: 512, Kernels: gfx90aKernels}),
	cdna(Device{Name: "mi100", ComputeUnits: 120, TFLOPS: 23.1, MaxWaves: 40, Registers: 4 * 256 * 64, RegisterGranule: 4, MaxRegisters: 256, Kernels: gfx908Kernels}),
	cdna(Device{Name: "mi300x", ComputeUnits: 304, TFLOPS: 81.7, MaxWaves: 32, Registers: 4 * 512 * 64, RegisterGranule: 8, MaxRegisters: 512, Kernels: gfx942Kernels}),
	nvidia(Device{Name: "a100", ComputeUnits: 108, TFLOPS: 19.5, Shared: 164 << 10, GroupShared: 163 << 10}),
	nvidia(Device{Name: "a800", ComputeUnits: 108, TFLOPS: 19.5, Shared: 164 << 10, GroupShared: 163 << 10}),
	nvidia(Device{Name: "h100", ComputeUnits: 132, TFLOPS: 67, Shared: 228 << 10, GroupShared: 227 << 10, WGMMA: true}),
	nvidia(Device{Name: "h200", ComputeUnits: 132, TFLOPS: 67, Shared: 228 << 10, GroupShared: 227 << 10, WGMMA: true}),
	// An H200 through Vulkan: all workgroups of an SM together get about 48 KB of
	// workgroup memory (resident groups counted on the device).
	webgpu(Device{Name: "h200-webgpu", ComputeUnits: 132, WaveSize: 32, TFLOPS: 67, LaunchMicros: 1.5, MaxWaves: 64, MaxGroups: 32,
		Shared: 48 << 10, MaxThreads: 1024, GroupShared: 48 << 10, MaxBinding: 1<<31 - 1}),
	// Mesa's software rasterizer on AVX2: limits as its adapter reports them, two
	// cores; its rate is about 0.6 GFLOP/s on two cores of a small machine. It ends
	// all loops of a thread after 65535 turns, without an error, and counts each
	// turn of our shaders twice (measured).
	webgpu(Device{Name: "lavapipe", ComputeUnits: 2, WaveSize: 8, TFLOPS: 0.0006, LaunchMicros: 100, MaxWaves: 32, MaxGroups: 1,
		Shared: 32 << 10, MaxThreads: 1024, GroupShared: 32 << 10, MaxBinding: 128 << 20, MaxTrips: 32767}),
	// The limits that every WebGPU device grants (specification, section 3.6.2),
	// with the size of a mid-range GPU.
	webgpu(Device{Name: "webgpu-default", ComputeUnits: 32, WaveSize: 32, TFLOPS: 10, LaunchMicros: 5, MaxWaves: 32, MaxGroups: 16,
		Shared: 32 << 10, MaxThreads: 256, GroupShared: 16 << 10, MaxBinding: 128 << 20}),
}

func cdna(d Device) Device {
	d.Model, d.WaveSize, d.SIMDs, d.MaxGroups = ModelCDNA, 64, 4, 16
	d.Shared, d.GroupShared, d.SharedGranule = 64<<10, 64<<10, 512
	d.MaxThreads, d.LaunchMicros = 1024, 0.6
	return d
}

func nvidia(d Device) Device {
	d.Model, d.WaveSize, d.SIMDs, d.MaxWaves, d.MaxGroups = ModelNVIDIA, 32, 4, 64, 32
	d.Registers, d.RegisterGranule, d.MaxRegisters = 65536, 256, 255
	d.SharedGranule, d.SharedReserved = 128, 1024
	d.MaxThreads, d.LaunchMicros = 1024, 0.6
	d.MMA = true
	return d
}

func webgpu(d Device) Device {
	d.Model, d.MaxWorkers = ModelWebGPU, 65535
	return d
}

// KnownDevices returns the table of devices that LookupDevice finds.
func KnownDevices() []Device { return append([]Device(nil), known...) }

// aliases are other names of devices in the table.
var aliases = map[string]string{"gfx90a": "mi210", "gfx908": "mi100", "gfx942": "mi300x"}

// LookupDevice finds a known device by name, in upper or lower case.
func LookupDevice(name string) (*Device, error) {
	key := strings.ToLower(name)
	if a, ok := aliases[key]; ok {
		key = a
	}
	names := make([]string, len(known))
	for i, d := range known {
		if d.Name == key {
			return &d, nil
		}
		names[i] = d.Name
	}
	return nil, fmt.Errorf("unknown device %q (known: %s)", name, strings.Join(names, ", "))
}
