//go:build cgo && !nowebgpu && ((linux && amd64) || darwin || (windows && amd64))

package webgpu

import (
	"cmp"
	"fmt"
	"math"
	"runtime"
	"strings"

	"github.com/rajveermalviya/go-webgpu/wgpu"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/devices"
	"github.com/batchgemm/batchgemm/wgsl"
)

// PCI vendor ids; Mesa's is the one Khronos gave it.
const (
	vendorAMD      = 0x1002
	vendorMesa     = 0x10005
	vendorApple    = 0x106b
	vendorNVIDIA   = 0x10de
	vendorARM      = 0x13b5
	vendorWARP     = 0x1414
	vendorGoogle   = 0x1ae0 // SwiftShader
	vendorQualcomm = 0x5143
	vendorIntel    = 0x8086
)

// adapter is a GPU or a software rasterizer as the binding and Vulkan see it.
type adapter struct {
	handle    *wgpu.Adapter // nil once released
	props     wgpu.AdapterProperties
	limits    wgpu.Limits
	timestamp bool // has timestamp queries
	kind      driver.Kind
	id        string
	vulkan    *vulkanGPU // nil: unknown
}

// vulkanGPU is what Vulkan tells about a GPU; zeros are unknown.
type vulkanGPU struct {
	vendor, device uint32
	name           string
	kind           driver.Kind
	uuid           [16]byte
	memory         int64   // bytes
	subgroup       int     // lanes
	units          int     // SMs or CUs
	warps          int     // subgroups that are resident on a unit
	period         float64 // nanoseconds of a timestamp tick
}

func newAdapter(h *wgpu.Adapter) adapter {
	return adapter{
		handle:    h,
		props:     h.GetProperties(),
		limits:    h.GetLimits().Limits,
		timestamp: h.HasFeature(wgpu.FeatureName_TimestampQuery),
	}
}

// kinds are those of the binding's types of adapters. It calls virtual GPUs software, which
// Vulkan does not.
var kinds = map[wgpu.AdapterType]driver.Kind{
	wgpu.AdapterType_DiscreteGPU:   driver.KindDiscrete,
	wgpu.AdapterType_IntegratedGPU: driver.KindIntegrated,
	wgpu.AdapterType_CPU:           driver.KindSoftware,
}

// identify says what adapters are, by what Vulkan knows of them. Both list GPUs in the order of
// the drivers, which is how those of one model are told apart.
func identify(list []adapter, gpus []vulkanGPU) {
	taken := make([]bool, len(gpus))
	seen := map[string]int{}
	for i := range list {
		a := &list[i]
		a.kind = cmp.Or(kinds[a.props.AdapterType], driver.KindOther)
		id := fmt.Sprintf("webgpu:%s:%04x:%04x", a.api(), a.props.VendorId, a.props.DeviceId)
		for j := range gpus {
			g := &gpus[j]
			if taken[j] || g.vendor != a.props.VendorId || g.device != a.props.DeviceId || g.name != a.props.Name {
				continue
			}
			a.vulkan, a.kind, taken[j] = g, cmp.Or(g.kind, driver.KindOther), true
			if g.uuid != [16]byte{} && !a.software() { // lavapipe's is its version
				id = "webgpu:vulkan:" + driver.FormatUUID(g.uuid)
			}
			break
		}
		if seen[id]++; seen[id] > 1 { // several of one model, or a GPU with several drivers
			id = fmt.Sprintf("%s:%d", id, seen[id])
		}
		a.id = id
	}
}

// api is what the adapter is reached through.
func (a *adapter) api() string {
	switch a.props.BackendType {
	case wgpu.BackendType_Vulkan:
		return "vulkan"
	case wgpu.BackendType_Metal:
		return "metal"
	case wgpu.BackendType_D3D12:
		return "d3d12"
	}
	return "other"
}

func (a *adapter) software() bool { return a.kind == driver.KindSoftware }

// vendors are the makers by the numbers that adapters give, which are those of PCI.
var vendors = map[uint32]string{
	vendorAMD: "AMD", vendorMesa: "Mesa", vendorApple: "Apple", vendorNVIDIA: "NVIDIA", vendorARM: "ARM",
	vendorWARP: "Microsoft", vendorGoogle: "Google", vendorQualcomm: "Qualcomm", vendorIntel: "Intel",
}

// vendor is who made the adapter. Metal gives no number, but names that begin with the maker's.
func (a *adapter) vendor() string {
	if name, found := vendors[a.props.VendorId]; found {
		return name
	}
	for _, name := range vendors {
		if strings.HasPrefix(a.props.Name, name+" ") {
			return name
		}
	}
	return ""
}

func (a *adapter) info(index int, maxBinding uint64) driver.Info {
	lanes, source := a.subgroup()
	info := driver.Info{
		Backend:  "webgpu",
		Index:    index,
		ID:       a.id,
		Name:     a.props.Name,
		Vendor:   a.vendor(),
		Kind:     a.kind,
		Driver:   strings.TrimSpace(a.props.VendorName + " " + a.props.DriverDescription),
		Subgroup: fmt.Sprintf("%d (%s)", lanes, source),
		Planner:  a.facts(maxBinding),
		// WGSL leaves it to the device: an H200 through Vulkan does, lavapipe does not.
		FlushesSubnormals: true,
	}
	if a.vulkan != nil {
		info.Memory = a.vulkan.memory
	}
	return info
}

// subgroup returns the lanes of a subgroup and where the number is from. It
// guides tuning only: Intel's compiler may pick another per shader.
func (a *adapter) subgroup() (lanes int, source string) {
	if a.vulkan != nil && a.vulkan.subgroup > 0 {
		return a.vulkan.subgroup, "Vulkan"
	}
	const table = "vendor table"
	switch a.props.VendorId {
	case vendorNVIDIA, vendorApple, vendorIntel:
		return 32, table
	case vendorAMD, vendorQualcomm:
		return 64, table // what RADV and the older drivers use for compute
	case vendorARM:
		return 16, table
	case vendorMesa:
		return 8, table // 256-bit vectors
	case vendorWARP, vendorGoogle:
		return 4, table
	}
	return 32, "guess"
}

// facts are what the planner needs: the entry of its table of known GPUs that
// comes nearest, corrected by what this adapter reports.
func (a *adapter) facts(maxBinding uint64) planner.Device {
	known := "webgpu-default"
	switch {
	case strings.Contains(a.props.Name, "H200"):
		known = "h200-webgpu"
	case a.props.VendorId == vendorMesa:
		known = "lavapipe" // and with it the limit of loop turns
	}
	facts, err := devices.Lookup(known)
	if err != nil {
		panic(err) // the names above are in the table
	}
	d := *facts
	d.Name = a.props.Name
	d.WaveSize, _ = a.subgroup()
	switch {
	case a.vulkan != nil && a.vulkan.units > 0:
		d.ComputeUnits, d.MaxWaves = a.vulkan.units, a.vulkan.warps
	case a.software():
		d.ComputeUnits = runtime.NumCPU()
	}
	d.GroupShared = int(a.limits.MaxComputeWorkgroupStorageSize)
	d.Shared = max(d.Shared, d.GroupShared)
	d.MaxThreads = int(min(a.limits.MaxComputeInvocationsPerWorkgroup, a.limits.MaxComputeWorkgroupSizeX))
	d.MaxWorkers = int(a.limits.MaxComputeWorkgroupsPerDimension)
	d.MaxBinding = int(bindingLimit(a.limits, maxBinding))
	wgsl.Describe(&d) // once more, for these limits
	return d
}

// bindingLimit is the largest storage binding in bytes, a multiple of 16.
func bindingLimit(l wgpu.Limits, lower uint64) uint64 {
	limit := min(l.MaxStorageBufferBindingSize, math.MaxInt)
	if lower > 0 {
		limit = min(limit, lower)
	}
	return limit / 16 * 16
}

// required are the limits to ask for: all that the adapter has.
func (a *adapter) required() *wgpu.RequiredLimits {
	l := a.limits
	// NVIDIA reports the largest integer, which the binding takes for "default",
	// 256 MiB.
	l.MaxBufferSize = min(l.MaxBufferSize, wgpu.LimitU64Undefined-1)
	return &wgpu.RequiredLimits{Limits: l}
}
