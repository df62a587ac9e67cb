package cpu

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/internal/invalid"
	"github.com/batchgemm/batchgemm/planner"
)

// device executes runs on all its threads, one run at a time.
type device struct {
	info    driver.Info
	stop    atomic.Bool          // abandon runs
	closing bool                 // for good; guarded by queue.mu
	crew    *crew                // for the run that has the device
	current entry                // the run with which the next call of work starts
	worker  func()               // work, made once so that a go statement allocates nothing
	live    map[*buffer]struct{} // not freed; guarded by queue.mu
	given   [6]buffer            // of Compute, which has the device
	queue
}

func newDevice(info driver.Info, with *instructions) *device {
	d := &device{info: info, live: map[*buffer]struct{}{}, queue: queue{room: make(chan struct{}, maxQueued)}}
	d.crew = newCrew(info.Planner.ComputeUnits, with, &d.stop)
	d.worker = d.work
	return d
}

func (d *device) Info() driver.Info { return d.info }

func (d *device) Alloc(n int) (driver.Buffer, error) {
	b, err := d.allocate(n)
	if err != nil {
		return nil, fmt.Errorf("cpu: %d float32: %w", n, err)
	}
	return b, nil
}

func (d *device) Prepare(ctx context.Context, p *planner.Plan) (driver.Program, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	workspace, err := d.workspace(p.Workspace)
	if err != nil {
		return nil, err
	}
	made := &program{workspace: workspace}
	made.begin(p)
	return made, nil
}

// Compile does nothing: kernels are part of the program.
func (d *device) Compile(ctx context.Context, kernels []encoding.Kernel, done func(i int)) error {
	for i := range kernels {
		if err := ctx.Err(); err != nil {
			return err
		}
		done(i)
	}
	return nil
}

func (d *device) Submit(ctx context.Context, runs []driver.Run) error {
	return d.submit(ctx, runs, nil)
}

// SubmitOn implements driver.Borrower.
func (d *device) SubmitOn(ctx context.Context, stream uintptr, runs []driver.Run) error {
	if stream != 0 {
		return invalid.Errorf("%s: stream %#x: there is stream 0 alone", name, stream)
	}
	return d.submit(ctx, runs, nil)
}

func (d *device) Wait(ctx context.Context) error {
	if err := d.take(ctx); err != nil {
		return err
	}
	d.release()
	return nil
}

func (d *device) Time(ctx context.Context, runs []driver.Run) (driver.Timing, error) {
	start, c := time.Now(), new(clock)
	if err := d.submit(ctx, runs, c); err != nil {
		return driver.Timing{}, err
	}
	if err := d.Wait(ctx); err != nil {
		return driver.Timing{}, err
	}
	return driver.Timing{Device: c.end.Sub(c.start), Wall: time.Since(start), Clock: "wall"}, nil
}

// Close abandons queued work, because its results can no longer be read.
func (d *device) Close() error {
	d.mu.Lock()
	d.closing = true
	d.stop.Store(true)
	d.mu.Unlock()
	_ = d.take(context.Background()) // it fails only if its context ends
	defer d.release()
	d.freeAll()
	return nil
}
