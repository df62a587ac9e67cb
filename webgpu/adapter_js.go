//go:build !nowebgpu

package webgpu

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"syscall/js"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/hardware"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/wgsl"
)

// limits are the fields of GPUSupportedLimits that matter here.
type limits struct {
	MaxBufferSize                     uint64 // bytes
	MaxStorageBufferBindingSize       uint64 // bytes
	MaxComputeWorkgroupStorageSize    uint32 // bytes
	MaxComputeInvocationsPerWorkgroup uint32
	MaxComputeWorkgroupSizeX          uint32
	MaxComputeWorkgroupsPerDimension  uint32
	MinStorageBufferOffsetAlignment   uint32 // bytes
}

// raised lists the limits that must be requested to exceed what every device grants.
var raised = []string{
	"maxBufferSize", "maxStorageBufferBindingSize", "maxComputeWorkgroupStorageSize",
	"maxComputeInvocationsPerWorkgroup", "maxComputeWorkgroupSizeX", "maxComputeWorkgroupsPerDimension",
}

func limitsOf(v js.Value) limits {
	word := func(name string) uint32 { return uint32(v.Get(name).Int()) }
	return limits{
		MaxBufferSize:                     uint64(v.Get("maxBufferSize").Float()),
		MaxStorageBufferBindingSize:       uint64(v.Get("maxStorageBufferBindingSize").Float()),
		MaxComputeWorkgroupStorageSize:    word("maxComputeWorkgroupStorageSize"),
		MaxComputeInvocationsPerWorkgroup: word("maxComputeInvocationsPerWorkgroup"),
		MaxComputeWorkgroupSizeX:          word("maxComputeWorkgroupSizeX"),
		MaxComputeWorkgroupsPerDimension:  word("maxComputeWorkgroupsPerDimension"),
		MinStorageBufferOffsetAlignment:   word("minStorageBufferOffsetAlignment"),
	}
}

// adapter is a GPU as the browser shows it. Browsers hide most, so that pages cannot tell visitors apart.
type adapter struct {
	handle                       js.Value
	vendor, architecture, device string // "": hidden
	description                  string
	minLanes, maxLanes           int // of a subgroup; 0: hidden
	kind                         hardware.Kind
	limits                       limits
}

// requestAdapters asks for the one or two adapters that the browser offers: the high-performance one, and
// the low-power one if it differs.
func requestAdapters(ctx context.Context) ([]adapter, error) {
	navigator := js.Global().Get("navigator")
	if navigator.IsUndefined() || navigator.Get("gpu").IsUndefined() {
		reason := "it has no navigator.gpu"
		if js.Global().Get("isSecureContext").Equal(js.ValueOf(false)) {
			reason = "it offers it to pages of https and of localhost alone"
		}
		return nil, fmt.Errorf("%w: no WebGPU of the browser: %s", hardware.ErrUnavailable, reason)
	}
	var list []adapter
	for _, power := range []string{"high-performance", "low-power"} {
		handle, err := await(ctx, navigator.Get("gpu").Call("requestAdapter",
			map[string]any{"powerPreference": power}))
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil {
			return nil, fmt.Errorf("%w: the browser refuses an adapter: %w", hardware.ErrUnavailable, err)
		}
		if handle.IsNull() {
			continue
		}
		a := newAdapter(handle)
		if !slices.ContainsFunc(list, func(b adapter) bool { return a.id() == b.id() }) {
			list = append(list, a)
		}
	}
	if len(list) == 2 && list[0].kind == list[1].kind { // a browser has two different ones
		list[0].kind, list[1].kind = hardware.KindDiscrete, hardware.KindIntegrated
	}
	return list, nil
}

func newAdapter(handle js.Value) adapter {
	a := adapter{handle: handle, kind: hardware.KindOther, limits: limitsOf(handle.Get("limits"))}
	info := handle.Get("info")
	if info.IsUndefined() { // browsers of before 2025
		info = js.ValueOf(map[string]any{})
	}
	text := func(name string) string {
		if v := info.Get(name); v.Type() == js.TypeString {
			return v.String()
		}
		return ""
	}
	lanes := func(name string) int {
		if v := info.Get(name); v.Type() == js.TypeNumber {
			return v.Int()
		}
		return 0
	}
	a.vendor, a.architecture, a.device, a.description = text("vendor"), text("architecture"), text("device"),
		text("description")
	a.minLanes, a.maxLanes = lanes("subgroupMinSize"), lanes("subgroupMaxSize")
	if info.Get("isFallbackAdapter").Truthy() || handle.Get("isFallbackAdapter").Truthy() ||
		a.architecture == "swiftshader" || a.vendorID() == vendorMesa {
		a.kind = hardware.KindSoftware
	}
	return a
}

// vendorID is the maker's number; 0: unknown.
func (a *adapter) vendorID() uint32 {
	for id, name := range vendors {
		if strings.EqualFold(name, a.vendor) {
			return id
		}
	}
	return 0
}

func (a *adapter) id() string {
	id := "webgpu:browser"
	for _, part := range []string{a.vendor, a.architecture, a.device} {
		if part != "" {
			id += ":" + part
		}
	}
	return id
}

func (a *adapter) name() string {
	return cmp.Or(a.description, strings.TrimSpace(a.vendor+" "+cmp.Or(a.device, a.architecture)),
		"a GPU of the browser")
}

// subgroup returns the size that the maker's drivers use most, within the range that the browser gives.
func (a *adapter) subgroup() (lanes int, source string) {
	lanes, source = lanesOf(a.vendorID())
	if a.minLanes > 0 && a.maxLanes >= a.minLanes {
		return min(max(lanes, a.minLanes), a.maxLanes), "browser"
	}
	return lanes, source
}

func (a *adapter) info(index int, maxBinding uint64) driver.Info {
	lanes, source := a.subgroup()
	return driver.Info{
		Backend:           "webgpu",
		Index:             index,
		ID:                a.id(),
		Name:              a.name(),
		Vendor:            vendors[a.vendorID()],
		Kind:              a.kind,
		Driver:            "WebGPU of the browser",
		Subgroup:          fmt.Sprintf("%d (%s)", lanes, source),
		Planner:           a.facts(maxBinding),
		FlushesSubnormals: true, // WGSL leaves it to the device
	}
}

// facts returns what the planner needs. Browsers hide the size and model of real GPUs, unlike Dawn in other
// programs.
func (a *adapter) facts(maxBinding uint64) planner.Device {
	d := factsOf(nearest(a.device, a.vendorID()), a.limits, maxBinding)
	d.Name = a.name()
	d.WaveSize, _ = a.subgroup()
	if cores := js.Global().Get("navigator").Get("hardwareConcurrency"); a.kind == hardware.KindSoftware &&
		cores.Truthy() {
		d.ComputeUnits = cores.Int()
	}
	wgsl.Describe(&d) // for these limits
	return d
}

// Devices lists the adapters that the browser offers.
func (d webgpuDriver) Devices(ctx context.Context) ([]driver.Info, error) {
	list, err := requestAdapters(ctx)
	if err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("%w: the browser has no adapter: hardware acceleration may be switched off, "+
			"or this GPU is blocked", hardware.ErrUnavailable)
	}
	infos := make([]driver.Info, len(list))
	for i := range list {
		infos[i] = list[i].info(i, d.maxBinding)
	}
	return infos, nil
}

// knows reports whether the browser's WGSL has a language feature. Browsers of before 2024 have no list.
func knows(feature string) bool {
	list := js.Global().Get("navigator").Get("gpu").Get("wgslLanguageFeatures")
	return !list.IsUndefined() && list.Call("has", feature).Bool()
}

// timestamps is the name of the feature. Time works without it.
const timestamps = "timestamp-query"

// request opens the adapter as a GPUDevice with all of its limits.
func (a *adapter) request(ctx context.Context) (js.Value, error) {
	required, has := map[string]any{}, a.handle.Get("limits")
	for _, name := range raised {
		required[name] = has.Get(name)
	}
	var features []any
	if a.handle.Get("features").Call("has", timestamps).Bool() {
		features = append(features, timestamps)
	}
	return await(ctx, a.handle.Call("requestDevice", map[string]any{"requiredLimits": required,
		"requiredFeatures": features}))
}
