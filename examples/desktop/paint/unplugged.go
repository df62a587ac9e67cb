package paint

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/batchgemm/batchgemm/dispatch"
	"github.com/batchgemm/batchgemm/dispatch/driver"
)

// Unplugged is a driver whose devices are lost after some submissions, to test what happens then. The inner
// driver does everything else.
type Unplugged struct {
	driver.Driver
	After int
}

func (u Unplugged) Open(ctx context.Context, index int) (driver.Device, error) {
	inner, err := u.Driver.Open(ctx, index)
	if err != nil {
		return nil, err
	}
	d := &unplugged{Device: inner}
	d.left.Store(int64(u.After))
	return d, nil
}

type unplugged struct {
	driver.Device
	left atomic.Int64
}

func (d *unplugged) Submit(ctx context.Context, runs []driver.Run) error {
	if d.left.Add(-1) < 0 {
		return fmt.Errorf("%w: unplugged", dispatch.ErrDeviceLost)
	}
	return d.Device.Submit(ctx, runs)
}
