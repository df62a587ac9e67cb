package cpu

import (
	"context"
	"fmt"
	"runtime"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/invalid"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/tile"
)

const name = "cpu"

// Driver returns the backend. It has one device, which is always available.
func Driver() driver.Driver { return cpuDriver{} }

type cpuDriver struct{}

func (cpuDriver) Name() string { return name }

func (cpuDriver) Devices(context.Context) ([]driver.Info, error) { return []driver.Info{info()}, nil }

func (cpuDriver) Open(ctx context.Context, index int) (driver.Device, error) {
	if index != 0 {
		return nil, invalid.Errorf("no device %d (there is only device 0)", index)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return newDevice(info()), nil
}

func info() driver.Info {
	threads := runtime.GOMAXPROCS(0)
	return driver.Info{
		Backend:  name,
		Name:     fmt.Sprintf("%s, %d threads", processor(), threads),
		Driver:   runtime.Version(),
		Software: true,
		Subgroup: "1 (no subgroups)",
		Planner:  facts(threads),
	}
}

// facts describes the processor as a GPU whose compute units are threads that
// run one workgroup of any size at a time. Workgroup memory stands for the
// cache of a core; no tile comes near it.
func facts(threads int) planner.Device {
	const (
		cache      = 256 << 10
		maxThreads = 1024
		gflops     = 10 // of one thread, measured (see multiply)
		wake       = 5  // microseconds to hand a launch to the other threads
	)
	d := planner.Device{
		Name:         name,
		Occupancy:    planner.OccupancyLimits,
		ComputeUnits: threads,
		WaveSize:     1,
		TFLOPS:       gflops * 1e-3 * float64(threads),
		PeakGuessed:  true,
		LaunchMicros: wake,
		MaxWaves:     maxThreads,
		MaxGroups:    1,
		Shared:       cache,
		MaxThreads:   maxThreads,
		GroupShared:  cache,
		KernelKind:   planner.KernelsWGSL, // whose rates are taken: none were measured here
	}
	for _, s := range tile.Table() {
		if s.Unit == tile.FMA {
			d.Kernels = append(d.Kernels, planner.KernelFacts{Tile: s, Resources: planner.Resources{Shared: s.StepBytes()}})
		}
	}
	return d
}
