package dispatch_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"sync/atomic"
	"testing"

	"github.com/batchgemm/batchgemm/dispatch"
	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/drivertest"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

// unplugged is a driver whose devices are lost after some submissions. The inner driver does everything
// else.
type unplugged struct {
	driver.Driver
	after int
}

func (u unplugged) Open(ctx context.Context, index int) (driver.Device, error) {
	inner, err := u.Driver.Open(ctx, index)
	if err != nil {
		return nil, err
	}
	d := &unpluggedDevice{Device: inner}
	d.left.Store(int64(u.after))
	return d, nil
}

type unpluggedDevice struct {
	driver.Device
	left atomic.Int64
}

var errUnplugged = fmt.Errorf("%w: unplugged", dispatch.ErrDeviceLost)

func (d *unpluggedDevice) Submit(ctx context.Context, runs []driver.Run) error {
	if d.left.Add(-1) < 0 {
		return errUnplugged
	}
	return d.Device.Submit(ctx, runs)
}

func (d *unpluggedDevice) Wait(ctx context.Context) error {
	if d.left.Load() < 0 {
		return errUnplugged
	}
	return d.Device.Wait(ctx)
}

// A driver that wraps another one can test how a program behaves when its device is lost.
func ExampleWithDriver() {
	ctx := context.Background()
	backends := dispatch.Backends()
	cpu := backends[len(backends)-1]
	device, err := dispatch.Open(ctx, dispatch.WithDriver(unplugged{cpu, 2}))
	if err != nil {
		log.Fatal(err)
	}
	defer device.Close()

	batch, err := planner.Pack(planner.GEMM(1, 1, 2))
	if err != nil {
		log.Fatal(err)
	}
	for range 3 {
		c := make([]float32, 1)
		err := dispatch.GEMM(ctx, device, batch, planner.Options{},
			dispatch.Slices[float32, float32]{A: []float32{1, 2}, B: []float32{3, 4}, C: c})
		fmt.Println(c, err, errors.Is(err, dispatch.ErrDeviceLost))
	}
	// Output:
	// [11] <nil> false
	// [11] <nil> false
	// [0] device lost: unplugged true
}

// full is a driver whose devices have no memory.
type full struct{ driver.Driver }

func (f full) Open(ctx context.Context, index int) (driver.Device, error) {
	inner, err := f.Driver.Open(ctx, index)
	return fullDevice{inner}, err
}

type fullDevice struct{ driver.Device }

func (fullDevice) Alloc(n int) (driver.Buffer, error) {
	return nil, fmt.Errorf("%d elements: %w", n, dispatch.ErrOutOfMemory)
}

// A device that refuses memory stays usable.
func ExampleWithDriver_outOfMemory() {
	backends := dispatch.Backends()
	device, err := dispatch.Open(context.Background(), dispatch.WithDriver(full{backends[len(backends)-1]}))
	if err != nil {
		log.Fatal(err)
	}
	defer device.Close()
	_, err = device.NewBuffer(element.F32, 1000)
	fmt.Println(errors.Is(err, dispatch.ErrOutOfMemory), errors.Is(err, dispatch.ErrDeviceLost))
	// Output: true false
}

// The test suite of backends accepts a caller's own driver.
func TestOwnDriver(t *testing.T) {
	const reason = "the driver inside has a test of its own"
	backends := dispatch.Backends()
	drivertest.Run(t, unplugged{backends[len(backends)-1], 1 << 30}, drivertest.OneTile(reason),
		drivertest.OneType(reason))
}
