//go:build cgo && linux && (amd64 || arm64)

package dl

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/hardware"
	"github.com/batchgemm/batchgemm/internal/invalid"
)

// Driver returns the backend of a vendor. It opens the library once, on first use.
func Driver(v *Vendor) driver.Driver {
	return &vendorDriver{v, sync.OnceValues(func() (*library, error) { return load(v) })}
}

// vendorDriver opens the devices of a library.
type vendorDriver struct {
	vendor *Vendor
	load   func() (*library, error)
}

func (b *vendorDriver) Name() string { return b.vendor.Backend }

// gpu is a device that Open accepts.
type gpu struct {
	*GPU
	info    driver.Info
	ordinal int // in the library's own list
}

// Devices lists the GPUs in the library's order.
func (b *vendorDriver) Devices(context.Context) ([]driver.Info, error) {
	_, gpus, err := b.list()
	infos := make([]driver.Info, len(gpus))
	for i := range gpus {
		infos[i] = gpus[i].info
	}
	return infos, err
}

func (b *vendorDriver) Open(ctx context.Context, index int) (driver.Device, error) {
	l, gpus, err := b.list()
	if err != nil {
		return nil, err
	}
	if index < 0 || index >= len(gpus) {
		return nil, invalid.Errorf("%s: device %d: there are %d", b.Name(), index, len(gpus))
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return openDevice(l, gpus[index])
}

// list returns the GPUs that the backend can use, at least one, or an error.
func (b *vendorDriver) list() (*library, []gpu, error) {
	l, err := b.load()
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
		described, err := b.vendor.Describe(facts{l, ordinal})
		if err != nil {
			passed = append(passed, fmt.Errorf("GPU %d: %w", ordinal, err))
			continue
		}
		info := driver.Info{
			Backend:  b.Name(),
			Index:    len(gpus),
			Name:     described.Name,
			Driver:   described.Driver,
			Subgroup: described.Subgroup,
			Planner:  described.Planner,
		}
		if err := (facts{l, ordinal}).identify(&info); err != nil {
			passed = append(passed, fmt.Errorf("GPU %d: %s: %w", ordinal, described.Name, err))
			continue
		}
		gpus = append(gpus, gpu{described, info, ordinal})
	}
	if len(gpus) == 0 {
		return nil, nil, fmt.Errorf("%w: %w", hardware.ErrUnavailable, errors.Join(passed...))
	}
	return l, gpus, nil
}
