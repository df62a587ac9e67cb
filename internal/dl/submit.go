//go:build cgo && linux && (amd64 || arm64)

package dl

// #cgo nocallback dl_submit
// #include "dl.h"
import "C"

import (
	"context"
	"fmt"
	"time"
	"unsafe"

	"github.com/batchgemm/batchgemm/dispatch/driver"
)

// Submit makes one call of C however many runs there are. After an error of the
// driver some of the runs may have been queued.
func (d *device) Submit(ctx context.Context, runs []driver.Run) error {
	if err := d.enter(ctx); err != nil {
		return err
	}
	defer d.leave()
	return d.submit(runs, clock{})
}

func (d *device) submit(runs []driver.Run, t clock) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.work = d.work[:0]
	d.number++
	for i := range runs {
		if err := d.add(&runs[i]); err != nil {
			return fmt.Errorf("run %d: %w", i, err)
		}
	}
	return d.queue(d.work, t)
}

// queue hands runs to the driver. The caller holds mu.
func (d *device) queue(work []C.dl_run, t clock) error {
	return d.check("submit", C.dl_submit(d.handle, unsafe.SliceData(work), C.size_t(len(work)), t.start, t.end))
}

// add puts a run into the work.
func (d *device) add(r *driver.Run) error {
	p, ok := r.Program.(*program)
	switch {
	case !ok || p.dev != d:
		return d.errorf("the program is of another device")
	case p.closed:
		return d.errorf("program: %w", driver.ErrClosed)
	case len(p.launches) == 0:
		return nil
	}
	o, err := d.operands(r)
	if err != nil {
		return err
	}
	d.work = append(d.work, p.bind(o))
	return nil
}

// operands finds the buffers of a run. One that has no elements may be nil.
func (d *device) operands(r *driver.Run) (o operands, err error) {
	for i, arg := range [...]driver.Buffer{r.A, r.B, r.C} {
		if arg == nil {
			continue
		}
		b, ok := arg.(*buffer)
		if !ok || b.dev != d {
			return o, d.errorf("%c is of another device", 'A'+i)
		}
		if b.memory == 0 {
			return o, d.errorf("%c: buffer: %w", 'A'+i, driver.ErrClosed)
		}
		switch i {
		case 0:
			o.a = b.memory
		case 1:
			o.b = b.memory
		case 2:
			o.c = b.memory
		}
	}
	return o, nil
}

// clock is two events with times around queued work, or none.
type clock struct{ start, end C.dl_event }

func (d *device) newClock() (t clock, err error) {
	if t.start, err = d.newEvent(1); err != nil {
		return t, err
	}
	if t.end, err = d.newEvent(1); err != nil {
		d.freeClock(t)
	}
	return t, err
}

func (d *device) freeClock(t clock) {
	for _, event := range [...]C.dl_event{t.start, t.end} {
		if event != nil {
			C.dl_event_free(d.handle, event)
		}
	}
}

// elapsed waits for the end and returns the time between the events.
func (d *device) elapsed(ctx context.Context, t clock) (time.Duration, error) {
	if err := d.await(ctx, t.end); err != nil {
		return 0, err
	}
	var milliseconds C.float
	err := d.check("time", C.dl_elapsed(d.handle, t.start, t.end, &milliseconds))
	return time.Duration(float64(milliseconds) * 1e6), err
}

// Time uses events of the GPU, which tell 0.5 us apart.
func (d *device) Time(ctx context.Context, runs []driver.Run) (driver.Timing, error) {
	if err := d.enter(ctx); err != nil {
		return driver.Timing{}, err
	}
	defer d.leave()
	t, err := d.newClock()
	if err != nil {
		return driver.Timing{}, err
	}
	defer d.freeClock(t)
	begin := time.Now()
	if err := d.submit(runs, t); err != nil {
		return driver.Timing{}, err
	}
	elapsed, err := d.elapsed(ctx, t)
	if err != nil {
		return driver.Timing{}, err
	}
	return driver.Timing{Device: elapsed, Wall: time.Since(begin), Clock: "event"}, nil
}
