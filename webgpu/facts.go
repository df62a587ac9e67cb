//go:build !nowebgpu && (js || (cgo && ((linux && amd64) || darwin || (windows && amd64))))

package webgpu

import (
	"math"
	"strings"

	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/devices"
)

// PCI vendor ids. Mesa's is from Khronos.
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

// vendors maps vendor ids of adapters, which are PCI ids, to makers.
var vendors = map[uint32]string{
	vendorAMD: "AMD", vendorMesa: "Mesa", vendorApple: "Apple", vendorNVIDIA: "NVIDIA", vendorARM: "ARM",
	vendorWARP: "Microsoft", vendorGoogle: "Google", vendorQualcomm: "Qualcomm", vendorIntel: "Intel",
}

// lanesOf returns the usual lanes of a maker's subgroups if nothing better is known, and the source of the
// number. It only guides tuning: Intel's compiler may pick another size per shader.
func lanesOf(vendor uint32) (lanes int, source string) {
	const table = "vendor table"
	switch vendor {
	case vendorNVIDIA, vendorApple, vendorIntel:
		return 32, table
	case vendorAMD, vendorQualcomm:
		return 64, table // used by RADV and the older drivers for compute
	case vendorARM:
		return 16, table
	case vendorMesa:
		return 8, table // 256-bit vectors
	case vendorWARP, vendorGoogle:
		return 4, table
	}
	return 32, "guess"
}

// nearest returns the entry of the planner's table of known GPUs that is nearest to this name.
func nearest(name string, vendor uint32) string {
	name = strings.ToUpper(name) // Dawn uses small letters
	switch {
	// H100 SXM has the same units
	case strings.Contains(name, "H200"), strings.Contains(name, "H100") && strings.Contains(name, "HBM3"):
		return "h200-webgpu"
	case vendor == vendorMesa:
		return "lavapipe" // which also has its limit of loop iterations
	}
	return "webgpu-default"
}

// factsOf returns an entry of the table with an adapter's limits. The caller adds the shaders last.
func factsOf(known string, l limits, maxBinding uint64) planner.Device {
	facts, err := devices.Lookup(known)
	if err != nil {
		panic(err) // callers pass names of the table
	}
	d := *facts
	d.GroupShared = int(l.MaxComputeWorkgroupStorageSize)
	d.Shared = max(d.Shared, d.GroupShared)
	d.MaxThreads = int(min(l.MaxComputeInvocationsPerWorkgroup, l.MaxComputeWorkgroupSizeX))
	d.MaxWorkers = int(l.MaxComputeWorkgroupsPerDimension)
	d.MaxBinding = int(bindingLimit(l, maxBinding))
	return d
}

// bindingLimit returns the largest storage binding in bytes, a multiple of 16.
func bindingLimit(l limits, lower uint64) uint64 {
	limit := min(l.MaxStorageBufferBindingSize, math.MaxInt)
	if lower > 0 {
		limit = min(limit, lower)
	}
	return limit / 16 * 16
}
