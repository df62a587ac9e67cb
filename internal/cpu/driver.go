package cpu

import (
	"context"
	"fmt"
	"runtime"
	"strings"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/internal/hardware"
	"github.com/batchgemm/batchgemm/internal/invalid"
	"github.com/batchgemm/batchgemm/internal/occupancy"
	"github.com/batchgemm/batchgemm/internal/tile"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

const name = "cpu"

// Driver returns the backend. It has one device, which is always available.
func Driver() driver.Driver { return cpuDriver{} }

type cpuDriver struct{}

func (cpuDriver) Name() string { return name }

func (cpuDriver) Devices(context.Context) ([]driver.Info, error) {
	with, threads, err := configured()
	if err != nil {
		return nil, err
	}
	return []driver.Info{info(with, threads)}, nil
}

func (cpuDriver) Open(ctx context.Context, index int) (driver.Device, error) {
	if index != 0 {
		return nil, invalid.Errorf("no device %d (there is only device 0)", index)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	with, threads, err := configured()
	if err != nil {
		return nil, err
	}
	return newDevice(info(with, threads), with), nil
}

// configured returns instructions and threads, as the environment asks for, or else the best.
func configured() (with *instructions, n int, err error) {
	if with, err = choose(); err == nil {
		n, err = threads()
	}
	return with, n, err
}

func info(with *instructions, threads int) driver.Info {
	return driver.Info{
		Backend:  name,
		ID:       name,
		Name:     fmt.Sprintf("%s, %d threads", processor(), threads),
		Vendor:   vendor(processor()),
		Kind:     hardware.KindSoftware,
		Memory:   memory(),
		Driver:   fmt.Sprintf("%s, %s", runtime.Version(), with.name),
		Subgroup: "1 (no subgroups)",
		Planner:  facts(threads, with),
		// Units for BF16 do, in operands, products and sums.
		FlushesSubnormals: with.bf16 != nil,
	}
}

// vendor returns the maker of a processor by its name.
func vendor(processor string) string {
	for _, v := range []string{"Intel", "AMD", "Apple"} {
		if strings.Contains(processor, v) {
			return v
		}
	}
	return ""
}

// facts describes the processor as a GPU. Its compute units are threads, which run one workgroup of any size
// at a time. Workgroup memory stands for the cache of a core; all tiles are far smaller.
func facts(threads int, with *instructions) planner.Device {
	const (
		cache      = 256 << 10
		maxThreads = 1024
		wake       = 5 // microseconds to hand a launch to the other threads
	)
	d := planner.Device{
		Name:         name,
		Occupancy:    occupancy.Limits,
		ComputeUnits: threads,
		WaveSize:     1,
		TFLOPS:       with.gflops * 1e-3 * float64(threads),
		PeakGuessed:  true,
		LaunchMicros: wake,
		MaxWaves:     maxThreads,
		MaxGroups:    1,
		Shared:       cache,
		MaxThreads:   maxThreads,
		GroupShared:  cache,
		KernelKind:   encoding.KernelsCPU,
		Types: []element.Type{element.BF16, element.F16, element.E4M3, element.Int8, element.Int4,
			element.MXFP4, element.NVFP4, element.F64},
		Native:    []element.Type{element.F64},
		Epilogues: true,
		Blocks:    true,
	}
	for _, s := range tile.Table() {
		if s.Unit == tile.SIMD || s.Zhang {
			d.Kernels = append(d.Kernels,
				planner.KernelFacts{Tile: s, Resources: occupancy.Resources{Shared: s.StepBytes()}})
		}
	}
	return d
}
