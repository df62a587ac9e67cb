// Package clocks measures when and where each thread group of a plan runs, with a build of the CUDA kernels
// that notes it (BG_CLOCKS in native/kernels.cu). It is for benchmarks: nothing that computes products
// imports it.
package clocks

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/backend"
	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/internal/hardware"
	"github.com/batchgemm/batchgemm/internal/kernelfile"
	"github.com/batchgemm/batchgemm/internal/timeline"
	"github.com/batchgemm/batchgemm/native"
	"github.com/batchgemm/batchgemm/native/cuda"
	"github.com/batchgemm/batchgemm/planner"
)

// images are the files of embed.go, in builds that can use them.
var images = kernelfile.New(nil)

// build is for sm_90a only. Its images have the names of the products with the same kernels. Each has its
// own variable for the clocks.
func build(of native.Arch) backend.Build {
	return backend.Build{
		Image: arch.Product,
		Read: func(image string) ([]byte, error) {
			if of.Name() != arch.Name() {
				return nil, fmt.Errorf("%w: the kernels with clocks are for %s (compute capability 9.0, "+
					"drivers from CUDA 13.0 on), this GPU takes those for %s",
					hardware.ErrUnavailable, arch.Name(), of.Name())
			}
			return images.Read(image)
		},
	}
}

// arch has the images: code for compute capability 9.0.
var arch, _ = native.CUDA(9, 0, native.Release)

const (
	// runs are made in a row. The middle one is returned; all of them serve to compare the clocks.
	runs = 257
	// warmUp is how long the GPU works first, so that its clock rate rises.
	warmUp = 250 * time.Millisecond
)

// Measure runs a plan for the CUDA device with this index on operands of the host, which do not change, and
// returns its thread groups, launch by launch. The error wraps hardware.ErrUnavailable if that cannot be
// measured: on GPUs other than compute capability 9.0, with a driver older than CUDA 13.0, or with too many
// groups.
func Measure(ctx context.Context, index int, plan *planner.Plan, a, b, c []float32) (groups []timeline.Group,
	err error) {
	device, err := cuda.Driver(build).Open(ctx, index)
	if err != nil {
		return nil, err
	}
	defer func() { err = cmp.Or(err, device.Close()) }()
	return measure(ctx, device, plan, [3][]float32{a, b, c})
}

func measure(ctx context.Context, device driver.Device, plan *planner.Plan,
	operands [3][]float32) ([]timeline.Group, error) {
	n := groupsOf(plan)
	switch {
	case n == 0:
		return nil, nil
	case n > ringSize:
		return nil, fmt.Errorf("%w: the plan has %d thread groups, the clocks hold %d",
			hardware.ErrUnavailable, n, ringSize)
	}
	run, err := prepare(ctx, device, plan, operands)
	if err != nil {
		return nil, err
	}
	for start := time.Now(); time.Since(start) < warmUp; {
		if err := repeat(ctx, device, run, runs); err != nil {
			return nil, err
		}
	}
	before, err := readClocks(ctx, device, plan)
	if err != nil {
		return nil, err
	}
	times := min(runs, ringSize/n)
	if err := repeat(ctx, device, run, times); err != nil {
		return nil, err
	}
	after, err := readClocks(ctx, device, plan)
	if err != nil {
		return nil, err
	}
	records, err := after.since(before, plan, times)
	if err != nil {
		return nil, err
	}
	common, err := compare(records)
	if err != nil {
		return nil, err
	}
	return place(plan, records[times/2*n:][:n], common), nil
}

// groupsOf counts the thread groups of a run.
func groupsOf(plan *planner.Plan) (n int) {
	for i := range plan.Launches {
		n += groupsOfLaunch(&plan.Launches[i])
	}
	return n
}

func groupsOfLaunch(l *encoding.Launch) int {
	return l.Count * clusterSize(l) * native.Pieces(l)
}

// clusterSize returns the number of groups that share a worker's tiles.
func clusterSize(l *encoding.Launch) int { return max(int(l.Cluster), 1) }

// prepare makes a run, whose memory is freed with the device.
func prepare(ctx context.Context, device driver.Device, plan *planner.Plan,
	operands [3][]float32) (run driver.Run, err error) {
	for i, to := range []*driver.Buffer{&run.A, &run.B, &run.C} {
		data := operands[i]
		if *to, err = device.Alloc(max(len(data), 1)); err != nil {
			return run, err
		}
		if len(data) == 0 {
			continue
		}
		if err := (*to).Write(ctx, 0, data); err != nil {
			return run, err
		}
	}
	run.Program, err = device.Prepare(ctx, plan)
	return run, err
}

// repeat runs and waits.
func repeat(ctx context.Context, device driver.Device, run driver.Run, times int) error {
	all := make([]driver.Run, times)
	for i := range all {
		all[i] = run
	}
	if err := device.Submit(ctx, all); err != nil {
		return err
	}
	return device.Wait(ctx)
}

// place assigns the groups of one run to their launches, which end one after the other.
func place(plan *planner.Plan, records []record, common *clock) []timeline.Group {
	groups := make([]timeline.Group, 0, len(records))
	first := common.micros(&records[0], records[0].start)
	for i := range plan.Launches {
		l := &plan.Launches[i]
		n := groupsOfLaunch(l)
		for j := range records[:n] {
			r := &records[j]
			g := timeline.Group{Launch: i, Worker: l.First + int(r.group)/clusterSize(l), Unit: int(r.unit),
				Start: common.micros(r, r.start), End: common.micros(r, r.end)}
			first = min(first, g.Start)
			groups = append(groups, g)
		}
		records = records[n:]
	}
	for i := range groups {
		groups[i].Start -= first
		groups[i].End -= first
	}
	return groups
}
