package dispatch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/invalid"
	"github.com/batchgemm/batchgemm/planner"
)

const (
	// copyRate is how many elements a microsecond the host moves to or from a
	// device, for predictions: 22 GB/s, staging included, as measured for batches of
	// 130 MB to 1.76 GB on an H200 with 16 cores.
	copyRate = 5500
	// splitGain is how many microseconds a split must save by prediction. Two H200
	// share the host's memory, and operands that were side by side are collected
	// from places apart: batches of 2 to 16 MB (370 us by this measure) were up to a
	// quarter slower when split, those of 130 MB (3000 us) and more 1.4 times faster.
	splitGain = 1000
)

// Group is all devices of a backend, used as one.
type Group struct {
	devices []*Device
	passed  []Skip

	turn   chan struct{} // guards split, and orders those who wait for all devices
	split  session       // its programs run with the turns of all devices
	waited atomic.Uint64 // calls that found no device idle
}

// OpenAll opens all devices of the best backend, which it finds as Open does:
// its real GPUs, or, of a fixed backend and of the fallback, software too if
// there is nothing else. Devices that are unavailable are left out, which
// Group.Passed reports, as long as there is one that works.
func OpenAll(ctx context.Context, options ...Option) (*Group, error) {
	return openAll(ctx, backends, options)
}

func openAll(ctx context.Context, drivers []driver.Driver, options []Option) (*Group, error) {
	s, err := selected(drivers, options)
	if err != nil {
		return nil, err
	}
	if s.device != nil {
		return nil, invalid.Errorf("device %d: OpenAll opens all devices; Open opens one", *s.device)
	}
	return choose(ctx, s, func(d driver.Driver, indices []int, passed []Skip) (*Group, error) {
		g := &Group{turn: make(chan struct{}, 1)}
		for _, i := range indices {
			device, err := d.Open(ctx, i)
			if err == nil {
				g.devices = append(g.devices, newDevice(device, passed))
				continue
			}
			err = fmt.Errorf("device %d: %w", i, err)
			if !errors.Is(err, ErrUnavailable) {
				return nil, errors.Join(err, g.Close())
			}
			g.passed = append(g.passed, Skip{d.Name(), err})
		}
		if len(g.devices) == 0 {
			return nil, g.passed[0].Err
		}
		g.passed = slices.Concat(passed, g.passed)
		for _, device := range g.devices {
			g.split.hosts = append(g.split.hosts, device.host)
		}
		return g, nil
	})
}

// Devices lists the devices, best first. Operands that stay on the devices are
// dealt by the caller, with planner.Costs and planner.Share.
func (g *Group) Devices() []*Device { return slices.Clone(g.devices) }

// Passed lists the backends and devices that OpenAll passed over, and why.
func (g *Group) Passed() []Skip { return slices.Clone(g.passed) }

// Close closes all devices.
func (g *Group) Close() error {
	var errs []error
	for _, d := range g.devices {
		errs = append(errs, d.Close())
	}
	return errors.Join(errs...)
}

// GEMM computes the batch on slices of host memory, as Device.GEMM does. It
// splits the batch by predicted time, the longest problem first, and sends each
// device the operands of its own problems. A batch for which that would save less
// than 1 ms by prediction runs on one device, so that calls with small batches run
// side by side. The first failure of a device is returned, with its name.
func (g *Group) GEMM(ctx context.Context, batch planner.Batch, a, b, c []float32) error {
	for i, d := range g.devices {
		if err := d.acquire(); err != nil {
			release(g.devices[:i])
			return err
		}
	}
	defer release(g.devices)
	if err := take(ctx, g.turn); err != nil {
		return err
	}
	e, err := g.entry(ctx, batch, len(a), len(b), len(c))
	if err != nil || len(e.parts) == 0 {
		give(g.turn)
		if err == nil {
			err = g.one(ctx, batch, a, b, c)
		}
		return err
	}
	defer give(g.turn)
	for _, d := range g.devices {
		if err := take(ctx, d.host.turn); err != nil {
			return err
		}
		defer give(d.host.turn)
	}
	return g.split.execute(ctx, e, a, b, c)
}

func release(devices []*Device) {
	for _, d := range devices {
		d.release()
	}
}

// entry finds the batch among those remembered, or decides how to split it. An
// entry without parts is for one device.
func (g *Group) entry(ctx context.Context, batch planner.Batch, lenA, lenB, lenC int) (*entry, error) {
	e, err := g.split.find(ctx, batch, lenA, lenB, lenC)
	if e != nil || err != nil {
		return e, err
	}
	parts, err := g.deal(ctx, batch)
	if err != nil {
		return nil, err
	}
	return g.split.remember(ctx, batch, parts)
}

// deal returns the parts of each device, or nil when one device is to do all. It
// fails only when ctx ends.
func (g *Group) deal(ctx context.Context, batch planner.Batch) ([][]*part, error) {
	compute := make([][]float64, len(g.devices)) // predicted microseconds
	total := make([][]float64, len(g.devices))   // with copies
	for d := range g.devices {
		compute[d] = planner.Costs(&g.devices[d].info.Planner, batch, nil)
		total[d] = make([]float64, len(batch))
		for i := range batch {
			if err := look(ctx, i); err != nil {
				return nil, err
			}
			total[d][i] = compute[d][i] + float64(elements(&batch[i]))/copyRate
		}
	}
	if sum(total[0]) < splitGain {
		return nil, nil
	}
	all := everything(batch)
	whole, err := cut(ctx, batch, all)
	if err != nil {
		return nil, err
	}
	parts := make([][]*part, len(g.devices))
	longest := 0.0
	for d, share := range planner.Share(total) {
		if parts[d], err = cut(ctx, batch, share); err != nil {
			return nil, err
		}
		longest = max(longest, predict(compute[d], share, parts[d]))
	}
	if predict(compute[0], all, whole)-longest < splitGain {
		return nil, nil
	}
	return parts, nil
}

func sum(values []float64) (total float64) {
	for _, v := range values {
		total += v
	}
	return total
}

// predict is the time of a share with its copies. An operand that several
// problems read counts once for each part.
func predict(compute []float64, share []int, parts []*part) (micros float64) {
	for _, i := range share {
		micros += compute[i]
	}
	for _, p := range parts {
		micros += float64(p.moved()) / copyRate
	}
	return micros
}

// one computes the batch on the first device that is idle.
func (g *Group) one(ctx context.Context, batch planner.Batch, a, b, c []float32) error {
	i, err := g.idle(ctx)
	if err != nil {
		return err
	}
	d := g.devices[i]
	defer give(d.host.turn)
	return g.split.name(i, d.gemm.run(ctx, batch, a, b, c))
}

// idle takes the turn of the first device that is idle. Where none is, callers
// wait for one device each, in rotation.
func (g *Group) idle(ctx context.Context) (int, error) {
	for i, d := range g.devices {
		select {
		case d.host.turn <- struct{}{}:
			return i, nil
		default:
		}
	}
	i := int(g.waited.Add(1) % uint64(len(g.devices)))
	return i, take(ctx, g.devices[i].host.turn)
}
