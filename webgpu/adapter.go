//go:build cgo && !nowebgpu && ((linux && amd64) || darwin || (windows && amd64))

package webgpu

import (
	"cmp"
	"fmt"
	"runtime"
	"strings"

	"github.com/rajveermalviya/go-webgpu/wgpu"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/backend"
	"github.com/batchgemm/batchgemm/internal/hardware"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/wgsl"
)

// adapter is a GPU or a software rasterizer, with what the binding and Vulkan know of it.
type adapter struct {
	handle    *wgpu.Adapter // nil once released
	props     wgpu.AdapterProperties
	limits    wgpu.Limits
	timestamp bool // has timestamp queries
	kind      hardware.Kind
	id        string
	vulkan    *vulkanGPU // nil: unknown
}

// vulkanGPU is what Vulkan knows of a GPU; zeros are unknown.
type vulkanGPU struct {
	vendor, device uint32
	name           string
	kind           hardware.Kind
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

// kinds maps the binding's types of adapters. The binding calls virtual GPUs software; Vulkan does not.
var kinds = map[wgpu.AdapterType]hardware.Kind{
	wgpu.AdapterType_DiscreteGPU:   hardware.KindDiscrete,
	wgpu.AdapterType_IntegratedGPU: hardware.KindIntegrated,
	wgpu.AdapterType_CPU:           hardware.KindSoftware,
}

// identify adds what Vulkan knows to adapters. Both list GPUs in the order of the drivers, which tells GPUs
// of one model apart.
func identify(list []adapter, gpus []vulkanGPU) {
	taken := make([]bool, len(gpus))
	seen := map[string]int{}
	for i := range list {
		a := &list[i]
		a.kind = cmp.Or(kinds[a.props.AdapterType], hardware.KindOther)
		id := fmt.Sprintf("webgpu:%s:%04x:%04x", a.api(), a.props.VendorId, a.props.DeviceId)
		for j := range gpus {
			g := &gpus[j]
			if taken[j] || g.vendor != a.props.VendorId || g.device != a.props.DeviceId ||
				g.name != a.props.Name {
				continue
			}
			a.vulkan, a.kind, taken[j] = g, cmp.Or(g.kind, hardware.KindOther), true
			if g.uuid != [16]byte{} && !a.software() { // lavapipe's is its version
				id = "webgpu:vulkan:" + backend.FormatUUID(g.uuid)
			}
			break
		}
		if seen[id]++; seen[id] > 1 { // several of one model, or a GPU with several drivers
			id = fmt.Sprintf("%s:%d", id, seen[id])
		}
		a.id = id
	}
}

// api returns the API through which the adapter is reached.
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

func (a *adapter) software() bool { return a.kind == hardware.KindSoftware }

// vendor returns the maker of the adapter. Metal gives no number, but its names start with the maker.
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
		// WGSL leaves this to the device: an H200 through Vulkan flushes, lavapipe does not.
		FlushesSubnormals: true,
	}
	if a.vulkan != nil {
		info.Memory = a.vulkan.memory
	}
	return info
}

// subgroup returns the lanes of a subgroup, and the source of the number. It only guides tuning: Intel's
// compiler may pick another size per shader.
func (a *adapter) subgroup() (lanes int, source string) {
	if a.vulkan != nil && a.vulkan.subgroup > 0 {
		return a.vulkan.subgroup, "Vulkan"
	}
	return lanesOf(a.props.VendorId)
}

// facts returns what the planner needs.
func (a *adapter) facts(maxBinding uint64) planner.Device {
	d := factsOf(nearest(a.props.Name, a.props.VendorId), a.limits, maxBinding)
	d.Name = a.props.Name
	d.WaveSize, _ = a.subgroup()
	switch {
	case a.vulkan != nil && a.vulkan.units > 0:
		d.ComputeUnits, d.MaxWaves = a.vulkan.units, a.vulkan.warps
	case a.software():
		d.ComputeUnits = runtime.NumCPU()
	}
	wgsl.Describe(&d) // for these limits
	return d
}

// required returns the limits to request: all that the adapter has.
func (a *adapter) required() *wgpu.RequiredLimits {
	l := a.limits
	// NVIDIA reports the largest integer, which the binding takes for "default",
	// 256 MiB.
	l.MaxBufferSize = min(l.MaxBufferSize, wgpu.LimitU64Undefined-1)
	return &wgpu.RequiredLimits{Limits: l}
}
