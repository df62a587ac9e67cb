package cpu

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/planner"
)

// device executes runs on all its threads, one run at a time.
type device struct {
	info    driver.Info
	closed  atomic.Bool
	crew    *crew                // of the run that has the device
	current entry                // the run that the next call of work begins with
	worker  func()               // work, made once so that a go statement allocates nothing
	live    map[*memory]struct{} // not freed; guarded by queue.mu
	queue
}

func newDevice(info driver.Info) *device {
	d := &device{info: info, live: map[*memory]struct{}{}, queue: queue{room: make(chan struct{}, maxQueued)}}
	d.crew = newCrew(info.Planner.ComputeUnits, &d.closed)
	d.worker = d.work
	return d
}

// open fails when the device is closed.
func (d *device) open() error {
	if d.closed.Load() {
		return fmt.Errorf("cpu: device: %w", driver.ErrClosed)
	}
	return nil
}

// acquire takes the device behind all work queued before.
func (d *device) acquire(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := d.take(ctx); err != nil {
		return err
	}
	if err := d.open(); err != nil {
		d.release()
		return err
	}
	return nil
}

func (d *device) Info() driver.Info { return d.info }

func (d *device) Alloc(n int) (driver.Buffer, error) {
	m, err := d.allocate(n)
	if err != nil {
		return nil, fmt.Errorf("cpu: %d float32: %w", n, err)
	}
	return &buffer{device: d, memory: m}, nil
}

func (d *device) Prepare(ctx context.Context, p *planner.Plan) (driver.Program, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	workspace, err := d.allocate(p.Workspace)
	if err != nil {
		return nil, fmt.Errorf("cpu: workspace: %d float32: %w", p.Workspace, err)
	}
	const overhead = 256 // of a segment, as multiply-adds
	c := &code{launches: p.Launches, words: p.Encode(nil), workspace: workspace, work: overhead * len(p.Segments)}
	for i := range p.Batch {
		q := &p.Batch[i]
		c.work += q.M * q.N * (q.K + 1)
	}
	return &program{code: c}, nil
}

func (d *device) Submit(ctx context.Context, runs []driver.Run) error {
	return d.submit(ctx, runs, nil)
}

func (d *device) Wait(ctx context.Context) error {
	if err := d.acquire(ctx); err != nil {
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

// Close abandons what is queued: nobody can read its results any more. Calls that
// wait end with ErrClosed.
func (d *device) Close() error {
	d.closed.Store(true)
	_ = d.take(context.Background()) // fails only when its context ends
	defer d.release()
	d.freeAll()
	return nil
}

type buffer struct {
	device *device
	*memory
}

func (b *buffer) Len() int { return b.n }

func (b *buffer) Write(ctx context.Context, offset int, src []float32) error {
	if err := b.device.acquire(ctx); err != nil {
		return err
	}
	defer b.device.release()
	return move(ctx, b.data[offset:][:len(src)], src)
}

func (b *buffer) Read(ctx context.Context, offset int, dst []float32) error {
	if err := b.device.acquire(ctx); err != nil {
		return err
	}
	defer b.device.release()
	return move(ctx, dst, b.data[offset:][:len(dst)])
}

// move copies until ctx ends.
func move(ctx context.Context, dst, src []float32) error {
	const piece = 1 << 20 // elements: about a millisecond
	for ; len(src) > piece; dst, src = dst[piece:], src[piece:] {
		copy(dst, src[:piece])
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	copy(dst, src)
	return nil
}

type program struct{ code *code }

// code is a plan as the kernels read it.
type code struct {
	launches  []planner.Launch
	words     []uint32
	workspace *memory
	work      int // about how many multiply-adds take as long
}

func (p *program) Close() error { return p.code.workspace.Close() }
