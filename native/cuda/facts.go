//go:build cgo && !nocuda && linux && (amd64 || arm64)

package cuda

import (
	"fmt"
	"strings"

	"github.com/batchgemm/batchgemm/internal/dl"
	"github.com/batchgemm/batchgemm/internal/occupancy"
	"github.com/batchgemm/batchgemm/native"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/devices"
)

// facts are the driver's facts of a GPU, or of a MIG instance, which looks like a GPU with fewer units.
type facts struct {
	name                                                     string
	major, minor                                             int // compute capability
	units, clock                                             int // SMs; kHz
	memoryClock, memoryBus, cache                            int // kHz, bits, bytes of L2
	warp, threads, groupShared, reservedShared               int // of a workgroup
	unitThreads, unitGroups, unitRegisters, unitSharedMemory int
}

// read reads the facts of a GPU. The numbers are those of CUdevice_attribute.
func read(from dl.Facts) (f facts, err error) {
	if f.name, err = from.Name(); err != nil {
		return f, err
	}
	err = dl.ReadAttributes(from, []dl.Attribute{
		{Value: &f.major, Number: 75},
		{Value: &f.minor, Number: 76},
		{Value: &f.units, Number: 16},
		{Value: &f.clock, Number: 13},
		{Value: &f.memoryClock, Number: 36},
		{Value: &f.memoryBus, Number: 37},
		{Value: &f.cache, Number: 38},
		{Value: &f.warp, Number: 10},
		{Value: &f.threads, Number: 1},
		{Value: &f.groupShared, Number: 97}, // with opt-in
		{Value: &f.reservedShared, Number: 111},
		{Value: &f.unitThreads, Number: 39},
		{Value: &f.unitGroups, Number: 106},
		{Value: &f.unitRegisters, Number: 82},
		{Value: &f.unitSharedMemory, Number: 81},
	})
	if err != nil {
		err = fmt.Errorf("%s: %w", f.name, err)
	}
	return f, err
}

// planner describes the GPU for planning. A GPU in the planner's table gets the facts of the table, so that
// plans for it can be made anywhere. Only its kernels may differ, with an older driver. The name alone does
// not identify it: an H100 for PCIe, or a MIG instance of an H100, has fewer units.
func (f *facts) planner(arch native.Arch) (planner.Device, error) {
	words := strings.FieldsFunc(f.name, func(r rune) bool { return r == ' ' || r == '-' })
	for _, word := range words {
		d, err := devices.Lookup(word)
		if err == nil && d.Occupancy == occupancy.NVIDIA && d.ComputeUnits == f.units &&
			d.Shared == f.unitSharedMemory && d.GroupShared == f.groupShared {
			err = arch.Describe(d)
			return *d, err
		}
	}
	// CUDA C++ Programming Guide, "Technical Specifications per Compute
	// Capability" and "Arithmetic Instructions".
	lanes := 128
	if f.major == 8 && f.minor == 0 {
		lanes = 64
	}
	d := planner.Device{
		Name:            f.name,
		Occupancy:       occupancy.NVIDIA,
		ComputeUnits:    f.units,
		WaveSize:        f.warp,
		TFLOPS:          float64(f.units*lanes*2) * float64(f.clock) * 1e-9,
		LaunchMicros:    0.6,                                                     // measured on an H200
		MemoryRate:      2 * float64(f.memoryClock) * float64(f.memoryBus) / 8e3, // two bits a clock and line
		Cache:           f.cache,
		SIMDs:           4,
		MaxWaves:        f.unitThreads / max(f.warp, 1),
		MaxGroups:       f.unitGroups,
		Registers:       f.unitRegisters,
		RegisterGranule: 256,
		MaxRegisters:    255,
		Shared:          f.unitSharedMemory,
		SharedGranule:   128,
		SharedReserved:  f.reservedShared,
		MaxThreads:      f.threads,
		GroupShared:     f.groupShared,
	}
	err := arch.Describe(&d)
	return d, err
}
