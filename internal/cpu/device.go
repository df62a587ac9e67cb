package cpu

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/planner"
)

// maxMemory bounds allocations where the size of the memory is unknown: the
// address space of the processors in use.
const maxMemory = 1 << 47

// device runs one call at a time on all its threads. Submit returns when the
// runs are done: a caller of a processor's own cores has nothing to overlap
// with, and errors reach the call that they belong to.
type device struct {
	info   driver.Info
	lock   chan struct{} // holds one token while a call has the device
	closed bool          // guarded by lock
	crew   crew          // guarded by lock
	free   atomic.Int64  // bytes that Alloc and Prepare may still take
}

func newDevice(info driver.Info) *device {
	d := &device{info: info, lock: make(chan struct{}, 1)}
	d.crew.start(info.Planner.ComputeUnits)
	d.free.Store(memory())
	return d
}

// acquire waits for the device. Waiters are served in order.
func (d *device) acquire(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case d.lock <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	if d.closed {
		d.release()
		return fmt.Errorf("cpu: device: %w", driver.ErrClosed)
	}
	return nil
}

func (d *device) release() { <-d.lock }

func (d *device) Info() driver.Info { return d.info }

func (d *device) Alloc(n int) (driver.Buffer, error) {
	data, err := d.floats(n)
	if err != nil {
		return nil, err
	}
	return &buffer{device: d, data: data}, nil
}

// floats allocates, or fails where Go would end the process.
func (d *device) floats(n int) ([]float32, error) {
	const size = 4
	if n > maxMemory/size || d.free.Add(-size*int64(n)) < 0 {
		if n <= maxMemory/size {
			d.free.Add(size * int64(n))
		}
		return nil, fmt.Errorf("cpu: %d float32: %w", n, driver.ErrOutOfMemory)
	}
	return make([]float32, n), nil
}

func (d *device) Prepare(ctx context.Context, p *planner.Plan) (driver.Program, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	workspace, err := d.floats(p.Workspace)
	if err != nil {
		return nil, fmt.Errorf("workspace: %w", err)
	}
	return &program{device: d, launches: p.Launches, words: p.Encode(nil), workspace: workspace}, nil
}

func (d *device) Submit(ctx context.Context, runs []driver.Run) error {
	if err := d.acquire(ctx); err != nil {
		return err
	}
	defer d.release()
	return d.submit(ctx, runs)
}

func (d *device) submit(ctx context.Context, runs []driver.Run) error {
	for i := range runs {
		if err := d.crew.run(ctx, &runs[i]); err != nil {
			return fmt.Errorf("cpu: stopped in run %d of %d, its C is incomplete: %w", i, len(runs), err)
		}
	}
	return nil
}

func (d *device) Wait(ctx context.Context) error {
	if err := d.acquire(ctx); err != nil {
		return err
	}
	d.release()
	return nil
}

func (d *device) Time(ctx context.Context, runs []driver.Run) (driver.Timing, error) {
	start := time.Now()
	if err := d.acquire(ctx); err != nil {
		return driver.Timing{}, err
	}
	defer d.release()
	kernels := time.Now()
	err := d.submit(ctx, runs)
	return driver.Timing{Device: time.Since(kernels), Wall: time.Since(start), Clock: "wall"}, err
}

// Close waits for the call that has the device. Runs are finite, so it needs no
// deadline.
func (d *device) Close() error {
	d.lock <- struct{}{}
	defer d.release()
	if !d.closed {
		d.closed = true
		d.crew.stop()
	}
	return nil
}

type buffer struct {
	device *device
	data   []float32 // nil when closed
}

func (b *buffer) Len() int { return len(b.data) }

func (b *buffer) Write(ctx context.Context, offset int, src []float32) error {
	if err := b.device.acquire(ctx); err != nil {
		return err
	}
	defer b.device.release()
	copy(b.data[offset:], src)
	return nil
}

func (b *buffer) Read(ctx context.Context, offset int, dst []float32) error {
	if err := b.device.acquire(ctx); err != nil {
		return err
	}
	defer b.device.release()
	copy(dst, b.data[offset:])
	return nil
}

func (b *buffer) Close() error {
	b.device.free.Add(4 * int64(len(b.data)))
	b.data = nil
	return nil
}

// program is a plan as the kernels read it.
type program struct {
	device    *device
	launches  []planner.Launch
	words     []uint32
	workspace []float32
}

func (p *program) Close() error {
	p.device.free.Add(4 * int64(len(p.workspace)))
	p.workspace = nil
	return nil
}
