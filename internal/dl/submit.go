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
	"github.com/batchgemm/batchgemm/internal/backend"
)

// Submit makes one call of C for any number of runs. After an error of the driver, some of the runs may have
// been queued.
func (d *device) Submit(ctx context.Context, runs []driver.Run) error {
	if err := d.state.Ready(ctx); err != nil {
		return err
	}
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

// queue passes runs to the driver. The caller holds mu.
func (d *device) queue(work []C.dl_run, t clock) error {
	return d.check("submit", C.dl_submit(d.handle, unsafe.SliceData(work), C.size_t(len(work)),
		t.start, t.end))
}

// add appends a run to the work.
func (d *device) add(r *driver.Run) error {
	p, all, err := d.operandsOf(r)
	if err != nil || len(p.images[p.now].runs()) == 0 {
		return err
	}
	d.work = append(d.work, p.bind(all))
	return nil
}

// operandsOf returns the program of a run and the addresses of its operands.
func (d *device) operandsOf(r *driver.Run) (p *program, all operands, err error) {
	p, o, err := backend.Operands[*program, *buffer](d, r)
	if err != nil {
		return p, all, err
	}
	all.plan = p.plans
	beside, err := backend.Beside[*buffer](d, r)
	if err != nil {
		return p, all, err
	}
	given := [...]*buffer{o[0], o[1], o[2], beside[0], beside[1], beside[2]}
	for i, to := range [...]*C.dl_pointer{&all.a, &all.b, &all.c, &all.b2, &all.bias, &all.rows} {
		if given[i] != nil {
			*to = given[i].memory
		}
	}
	if p.ragged {
		sizes, err := backend.Sizes[*buffer](d, r)
		if err != nil {
			return p, all, err
		}
		all.sizes = sizes.memory
	}
	return p, all, nil
}

// clock is two events that time queued work, or none.
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
	if err := d.await(ctx, backend.Forever, t.end); err != nil {
		return 0, err
	}
	var milliseconds C.float
	err := d.check("time", C.dl_elapsed(d.handle, t.start, t.end, &milliseconds))
	return time.Duration(float64(milliseconds) * 1e6), err
}

// Time uses events of the GPU, with a resolution of 0.5 us.
func (d *device) Time(ctx context.Context, runs []driver.Run) (driver.Timing, error) {
	if err := d.state.Ready(ctx); err != nil {
		return driver.Timing{}, err
	}
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
