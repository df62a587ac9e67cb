//go:build cgo && linux && (amd64 || arm64)

package cuda

// #include "gcu.h"
import "C"

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/planner"
)

const backend = "cuda"

// Driver returns the CUDA backend.
func Driver() driver.Driver { return cudaDriver{system} }

// cudaDriver opens the devices of a library. Tests load others.
type cudaDriver struct {
	load func() (*library, error)
}

// system is the installed driver, loaded once per process.
var system = sync.OnceValues(func() (*library, error) { return load(libraries) })

func (cudaDriver) Name() string { return backend }

// gpu is a device that Open accepts.
type gpu struct {
	info    driver.Info
	ordinal int // of the driver's own list
	facts   facts
}

// Devices lists the GPUs in the driver's order, which is fastest first.
func (c cudaDriver) Devices() ([]driver.Info, error) {
	_, gpus, err := c.list()
	infos := make([]driver.Info, len(gpus))
	for i := range gpus {
		infos[i] = gpus[i].info
	}
	return infos, err
}

func (c cudaDriver) Open(ctx context.Context, index int) (driver.Device, error) {
	l, gpus, err := c.list()
	if err != nil {
		return nil, err
	}
	if index < 0 || index >= len(gpus) {
		return nil, fmt.Errorf("cuda: device %d: there are %d", index, len(gpus))
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return openDevice(l, gpus[index])
}

// list finds the GPUs that are new enough; there is one, or an error.
func (c cudaDriver) list() (*library, []gpu, error) {
	l, err := c.load()
	if err != nil {
		return nil, nil, err
	}
	n, err := l.count()
	if err != nil {
		return nil, nil, err
	}
	var gpus []gpu
	var passed []error
	for ordinal := range n {
		f, err := l.facts(ordinal)
		if err == nil {
			err = f.supported()
		}
		if err != nil {
			passed = append(passed, fmt.Errorf("GPU %d: %w", ordinal, err))
			continue
		}
		gpus = append(gpus, gpu{info: l.info(len(gpus), f), ordinal: ordinal, facts: f})
	}
	if len(gpus) == 0 {
		return nil, nil, fmt.Errorf("%w: %w", driver.ErrUnavailable, errors.Join(passed...))
	}
	return l, gpus, nil
}

func (l *library) info(index int, f facts) driver.Info {
	version := "CUDA " + cudaVersion(l.version)
	if release, err := os.ReadFile("/sys/module/nvidia/version"); err == nil {
		version = "NVIDIA " + strings.TrimSpace(string(release)) + ", " + version
	}
	return driver.Info{
		Backend:  backend,
		Index:    index,
		Name:     f.name,
		Driver:   version,
		Subgroup: fmt.Sprintf("%d (warp)", f.warp),
		Planner:  f.planner(),
	}
}

// facts are what the driver says about a GPU, or about an instance of one in
// MIG mode, which it presents as a GPU with fewer units.
type facts struct {
	name                                                     string
	major, minor                                             int // compute capability
	units, clock                                             int // SMs; kHz
	warp, threads, groupShared, reservedShared               int // of a workgroup
	unitThreads, unitGroups, unitRegisters, unitSharedMemory int
}

func (l *library) facts(ordinal int) (f facts, err error) {
	if f.name, err = l.name(ordinal); err != nil {
		return f, err
	}
	for _, a := range [...]struct {
		value     *int
		attribute int
	}{
		{&f.major, C.GCU_MAJOR},
		{&f.minor, C.GCU_MINOR},
		{&f.units, C.GCU_UNITS},
		{&f.clock, C.GCU_CLOCK},
		{&f.warp, C.GCU_WARP},
		{&f.threads, C.GCU_MAX_THREADS},
		{&f.groupShared, C.GCU_GROUP_SHARED},
		{&f.reservedShared, C.GCU_RESERVED_SHARED},
		{&f.unitThreads, C.GCU_UNIT_THREADS},
		{&f.unitGroups, C.GCU_UNIT_GROUPS},
		{&f.unitRegisters, C.GCU_UNIT_REGISTERS},
		{&f.unitSharedMemory, C.GCU_UNIT_SHARED},
	} {
		if *a.value, err = l.attribute(ordinal, a.attribute); err != nil {
			return f, fmt.Errorf("%s: %w", f.name, err)
		}
	}
	return f, nil
}

// supported: the kernels use asynchronous copies, which 8.0 (Ampere) brought.
func (f *facts) supported() error {
	if f.major < 8 {
		return fmt.Errorf("%s has compute capability %d.%d, 8.0 or newer is needed", f.name, f.major, f.minor)
	}
	return nil
}

// planner describes the GPU for planning. One that is in the planner's table
// gets exactly the facts of the table, so that plans for it can be made
// anywhere. The name alone does not tell: an H100 for PCIe, or an instance of an
// H100 in MIG mode, has fewer units.
func (f *facts) planner() planner.Device {
	words := strings.FieldsFunc(f.name, func(r rune) bool { return r == ' ' || r == '-' })
	for _, word := range words {
		d, err := planner.LookupDevice(word)
		if err == nil && d.Model == planner.ModelNVIDIA && d.ComputeUnits == f.units &&
			d.Shared == f.unitSharedMemory && d.GroupShared == f.groupShared {
			return *d
		}
	}
	// CUDA C++ Programming Guide, "Technical Specifications per Compute
	// Capability" and "Arithmetic Instructions".
	lanes := 128
	if f.major == 8 && f.minor == 0 {
		lanes = 64
	}
	return planner.Device{
		Name:            f.name,
		Model:           planner.ModelNVIDIA,
		ComputeUnits:    f.units,
		WaveSize:        f.warp,
		TFLOPS:          float64(f.units*lanes*2) * float64(f.clock) * 1e-9,
		LaunchMicros:    0.6, // measured on an H200
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
		MMA:             true, // from compute capability 8.0 on
		WGMMA:           f.major == 9,
	}
}
