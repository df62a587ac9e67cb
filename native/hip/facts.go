//go:build cgo && !nohip && linux && (amd64 || arm64)

package hip

import (
	"bytes"
	"errors"
	"fmt"
	"math"

	"github.com/batchgemm/batchgemm/internal/dl"
	"github.com/batchgemm/batchgemm/internal/occupancy"
	"github.com/batchgemm/batchgemm/native"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/devices"
)

// facts are the runtime's facts of a GPU, or of a partition of one, which looks like a GPU with fewer units.
type facts struct {
	name, arch   string // "gfx90a", without its settings
	units, clock int    // compute units, on RDNA pairs of them (work-group processors); kHz
	wave         int
	threads      int // of a workgroup
	groupShared  int // bytes of a workgroup
}

// read reads the facts of a GPU. The numbers are those of hipDeviceAttribute_t, equal in ROCm 5 and 6.
func read(from dl.Facts) (f facts, err error) {
	if f.name, err = from.Name(); err != nil {
		return f, err
	}
	if f.name == "" { // the runtime may lack its file of names
		f.name = "AMD GPU"
	}
	err = dl.ReadAttributes(from, []dl.Attribute{
		{Value: &f.units, Number: 63},
		{Value: &f.clock, Number: 5},
		{Value: &f.wave, Number: 87},
		{Value: &f.threads, Number: 56},
		{Value: &f.groupShared, Number: 74},
	})
	var properties []byte
	if err == nil {
		properties, err = from.Properties()
	}
	if err == nil {
		f.arch, err = architecture(properties)
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", f.name, err)
	}
	return f, err
}

// architecture finds the name of the architecture in the properties, whose layout depends on the release. The
// name ends before settings, such as ":sramecc+:xnack-", or the zero byte.
func architecture(properties []byte) (string, error) {
	for rest := properties; ; {
		_, after, found := bytes.Cut(rest, []byte("gfx"))
		if !found {
			return "", errors.New("the properties name no architecture")
		}
		end := bytes.TrimLeft(after, "0123456789abcdef")
		digits := len(after) - len(end)
		if digits >= 3 && len(end) > 0 && (end[0] == ':' || end[0] == 0) {
			return "gfx" + string(after[:digits]), nil
		}
		rest = after
	}
}

// planner describes the GPU for planning. A CDNA GPU with as many units as the one in the planner's table
// gets the facts of the table, so that plans for it can be made anywhere.
func (f *facts) planner(arch native.Arch) (planner.Device, error) {
	d := f.rdna()
	if known, err := devices.Lookup(f.arch); err == nil {
		d = *known
		if d.ComputeUnits != f.units { // another product, or a partition
			d.Name, d.ComputeUnits, d.TFLOPS = f.name, f.units, f.tflops(64)
		}
	}
	// A launch has less than 2^32 threads (description of hipModuleLaunchKernel).
	d.MaxWorkers = int(min(math.MaxUint32, math.MaxInt)) / max(d.MaxThreads, 1)
	err := arch.Describe(&d)
	return d, err
}

// tflops returns the peak rate of units with that many lanes, each with a multiplication and an addition per
// clock.
func (f *facts) tflops(lanes int) float64 {
	return float64(f.units*lanes*2) * float64(f.clock) * 1e-9
}

// rdna describes an RDNA GPU, which the planner's table does not have. A unit is a work-group processor of
// four SIMDs with waves of 32. The second instruction that gfx1100 can issue at once does not count.
//
// Registers, granules, waves and workgroups are those of LLVM's AMDGPUBaseInfo for gfx1030, which has fewer
// than gfx1100. Shared memory is that of the RDNA 2 ISA (128 KB for a work-group processor, 64 KB for a
// workgroup).
func (f *facts) rdna() planner.Device {
	return planner.Device{
		Name:            f.name,
		Occupancy:       occupancy.RDNA,
		ComputeUnits:    f.units,
		WaveSize:        f.wave,
		TFLOPS:          f.tflops(4 * 32),
		LaunchMicros:    0.6, // not measured: assumed to be CUDA's on an H200
		SIMDs:           4,
		MaxWaves:        64,
		MaxGroups:       32,
		Registers:       4 * 1024 * 32,
		RegisterGranule: 16,
		MaxRegisters:    256,
		Shared:          128 << 10,
		SharedGranule:   1024,
		MaxThreads:      f.threads,
		GroupShared:     f.groupShared,
	}
}
