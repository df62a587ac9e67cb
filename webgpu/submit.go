//go:build !nowebgpu && (js || (cgo && ((linux && amd64) || darwin || (windows && amd64))))

package webgpu

import (
	"context"
	"fmt"
	"time"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/backend"
)

// work is the submission being recorded. Its memory is reused.
type work struct {
	clears []*buffer
	list   []dispatch
	over   []*program // whose sets grew beyond their limit
	making []*image   // whose items are made
}

func (w *work) reset() {
	clear(w.clears)
	clear(w.list)
	clear(w.making)
	w.clears, w.list, w.making = w.clears[:0], w.list[:0], w.making[:0]
}

// clear fills the memory of a fresh buffer with zeros before the dispatches.
func (w *work) clear(b *buffer) {
	if b == nil || !b.whole().fresh {
		return
	}
	w.clears = append(w.clears, b.whole())
}

// dispatch is a grid of count x pieces workgroups of a pipeline.
type dispatch struct {
	pipeline, group object
	count, pieces   uint32
}

// move is a copy of size bytes after the dispatches, from an offset of one buffer to another. Nothing is
// copied if size is 0.
type move struct {
	source, destination memory
	offset, to, size    uint64
	read                bool   // the destination is read next
	clock               *clock // source of the copy, which takes times around the dispatches; nil: none
}

// submit queues the recorded work, then the copy.
func (d *device) submit(then move) error {
	w := &d.work
	if err := d.enqueue(w, then); err != nil {
		return err
	}
	d.submitted++
	d.unsent = 0
	for _, b := range w.clears {
		b.fresh = false
	}
	return nil
}

// record adds a run to the work. Dispatches of one pass run in order; each sees what earlier ones wrote.
func (d *device) record(r *driver.Run) error {
	p, abc, err := backend.Operands[*program, *buffer](d, r)
	if err != nil {
		return err
	}
	beside, err := backend.Beside[*buffer](d, r)
	if err != nil {
		return err
	}
	var sizes *buffer
	if p.sizes > 0 {
		if sizes, err = backend.Sizes[*buffer](d, r); err != nil {
			return err
		}
	}
	var o buffers
	for i, b := range [...]*buffer{abc[0], abc[1], abc[2], sizes, beside[0], beside[1], beside[2]} {
		o[i] = b.part()
	}
	s, err := p.bind(o)
	if err != nil {
		return err
	}
	if m := &p.images[p.now]; !m.made {
		m.made = true
		d.work.making = append(d.work.making, m)
		d.work.list = append(d.work.list, m.making.list...)
	}
	for i := range o {
		d.work.clear(o[i].buffer)
	}
	d.work.clear(p.workspace)
	d.work.list = append(d.work.list, s.list...)
	return nil
}

func (d *device) Submit(ctx context.Context, runs []driver.Run) error {
	_, err := d.submitRuns(ctx, runs, false)
	return err
}

// submitRuns queues the runs and returns the number of submissions so far. Timed runs need the token of
// d.timing.
func (d *device) submitRuns(ctx context.Context, runs []driver.Run, timed bool) (number uint64, err error) {
	if err := d.lockQueue(ctx); err != nil {
		return 0, err
	}
	defer d.mu.Unlock()
	d.work.reset()
	d.recording++
	defer d.trim()
	defer func() {
		for _, m := range d.work.making {
			m.made = err == nil
		}
	}()
	for i := range runs {
		if err := d.record(&runs[i]); err != nil {
			return 0, fmt.Errorf("run %d: %w", i, err)
		}
	}
	if len(d.work.list) == 0 && !timed {
		return d.submitted, nil
	}
	var then move
	if timed && d.period > 0 {
		c, err := d.takeClock()
		if err != nil {
			return 0, err
		}
		then = c.move()
	}
	err = d.submit(then)
	return d.submitted, err
}

// Copy is a submission of its own.
func (d *device) Copy(ctx context.Context, dst, src driver.Buffer, bytes int) error {
	to, from, err := backend.Pair[*buffer](d, dst, src)
	if err != nil {
		return err
	}
	if err := d.lockQueue(ctx); err != nil {
		return err
	}
	defer d.mu.Unlock()
	d.work.reset()
	d.work.clear(from)
	d.work.clear(to)
	return d.submit(move{source: from.memory, destination: to.memory, offset: from.at, to: to.at,
		size: roundUp(uint64(bytes), 4)})
}

// trim drops what programs keep beyond their limit, once the work is queued or given up. A lost device frees
// nothing.
func (d *device) trim() {
	for _, p := range d.work.over {
		if d.state.Err() == nil {
			p.sets.Trim(d.recording)
		}
	}
	clear(d.work.over)
	d.work.over = d.work.over[:0]
}

// Time uses the device's timestamps if the binding supports them, otherwise the wall clock.
func (d *device) Time(ctx context.Context, runs []driver.Run) (driver.Timing, error) {
	select {
	case d.timing <- struct{}{}:
		defer func() { <-d.timing }()
	case <-ctx.Done():
		return driver.Timing{}, ctx.Err()
	}
	start := time.Now()
	last, err := d.submitRuns(ctx, runs, true)
	if err == nil {
		err = d.await(ctx, last)
	}
	wall := time.Since(start)
	if err != nil {
		return driver.Timing{}, err
	}
	t := driver.Timing{Device: wall, Wall: wall, Clock: "wall"}
	ticks, err := d.ticks()
	if err != nil {
		return driver.Timing{}, err
	}
	if ticks > 0 {
		t.Device, t.Clock = time.Duration(float64(ticks)*d.period), "timestamp"
	}
	return t, nil
}
