package dispatch

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/hostgemm"
	"github.com/batchgemm/batchgemm/internal/invalid"
	"github.com/batchgemm/batchgemm/planner"
)

// Group is all devices of a backend, used as one.
type Group struct {
	devices []*Device
	skipped []Skip
	gemm    *hostgemm.Group
}

// OpenAll opens all devices of the best backend, which it finds like Open: its real GPUs, or software
// devices of a fixed backend or of the fallback if there are only those. It leaves out unavailable devices,
// which Group.Skipped reports, as long as one device works.
func OpenAll(ctx context.Context, options ...Option) (*Group, error) {
	return openAll(ctx, backends, options)
}

func openAll(ctx context.Context, drivers []driver.Driver, options []Option) (*Group, error) {
	s, err := selected(drivers, options)
	if err != nil {
		return nil, err
	}
	switch {
	case s.device != nil:
		return nil, invalid.Errorf("device %d: OpenAll opens all devices; Open opens one", *s.device)
	case s.adapter != nil:
		return nil, invalid.Errorf("WithAdapter: OpenAll opens all devices; Open opens one")
	case s.power != "":
		return nil, invalid.Errorf("WithPower: OpenAll opens all devices; Open opens one")
	}
	return choose(ctx, s, func(f *found, skipped []Skip) (*Group, []Skip, error) {
		g := &Group{skipped: append(skipped, f.left...)}
		for i := range f.take {
			c := &f.take[i]
			device, err := c.driver.Open(ctx, c.info.Index)
			switch {
			case err == nil:
				g.devices = append(g.devices, newDevice(device, skipped))
			case errors.Is(err, ErrUnavailable):
				g.skipped = append(g.skipped, Skip{c.driver.Name(), &c.info, err})
			default:
				return nil, nil, errors.Join(fmt.Errorf("device %d: %w", c.info.Index, err), g.Close())
			}
		}
		if len(g.devices) == 0 {
			return nil, g.skipped, nil
		}
		hosts := make([]*hostgemm.Host, len(g.devices))
		for i, device := range g.devices {
			hosts[i] = device.gemm
		}
		g.gemm = hostgemm.NewGroup(hosts)
		return g, nil, nil
	})
}

// Devices lists the devices, best first. Use it to place operands that stay on devices.
func (g *Group) Devices() []*Device { return slices.Clone(g.devices) }

// Skipped lists the backends and devices that OpenAll skipped, with the reasons.
func (g *Group) Skipped() []Skip { return slices.Clone(g.skipped) }

// Close closes all devices.
func (g *Group) Close() error {
	var errs []error
	for _, d := range g.devices {
		errs = append(errs, d.Close())
	}
	return errors.Join(errs...)
}

func (g *Group) gemm32(ctx context.Context, batch planner.Batch, o planner.Options,
	x hostgemm.Operands) error {
	for i, d := range g.devices {
		if err := d.acquire(); err != nil {
			release(g.devices[:i])
			return err
		}
	}
	defer release(g.devices)
	return g.gemm.GEMM(ctx, batch, o, x)
}

func (g *Group) single() *Device { return g.devices[0] }

func release(devices []*Device) {
	for _, d := range devices {
		d.release()
	}
}
