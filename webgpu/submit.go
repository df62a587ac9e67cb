//go:build cgo && !nowebgpu && ((linux && amd64) || darwin || (windows && amd64))

package webgpu

// #include "shim.h"
import "C"

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"
	"unsafe"

	"github.com/rajveermalviya/go-webgpu/wgpu"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/backend"
)

// work is the submission that is being recorded. Its memory is reused.
type work struct {
	clears  []C.handle
	cleared []*buffer // of clears
	list    []C.gpu_dispatch
	over    []*program // whose sets grew beyond their limit
	making  []*image   // whose items are made
}

func (w *work) reset() {
	clear(w.cleared)
	clear(w.making)
	w.clears, w.cleared, w.list, w.making = w.clears[:0], w.cleared[:0], w.list[:0], w.making[:0]
}

// clear fills the memory of a buffer, if there is one and it is fresh, with zeros before the
// dispatches.
func (w *work) clear(b *buffer) {
	if b == nil || !b.whole().fresh {
		return
	}
	b = b.whole()
	w.clears = append(w.clears, b.ref)
	w.cleared = append(w.cleared, b)
}

// submit queues the recorded work, then the copy. It is one call of C however
// many runs there are.
func (d *device) submit(copy C.gpu_copy) error {
	w := &d.work
	status := C.gpu_submit(d.gpu,
		unsafe.SliceData(w.clears), C.size_t(len(w.clears)),
		unsafe.SliceData(w.list), C.size_t(len(w.list)), copy)
	if status != 0 {
		return d.check("submit", nil)
	}
	d.submitted++
	d.unsent = 0
	for _, b := range w.cleared {
		b.fresh = false
	}
	return nil
}

// record adds a run to the work. Dispatches of one pass run in order, each sees
// what the earlier ones wrote.
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

// submitRuns queues the runs and returns the number of submissions so far. Timed
// runs need the token of d.timing.
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
	var copy C.gpu_copy
	if timed && d.period > 0 {
		c, err := d.takeClock()
		if err != nil {
			return 0, err
		}
		copy = c.copy()
	}
	err = d.submit(copy)
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
	return d.submit(C.gpu_copy{
		source: from.ref, destination: to.ref,
		offset: C.uint64_t(from.at), to: C.uint64_t(to.at), size: C.uint64_t(roundUp(uint64(bytes), 4)),
	})
}

// trim drops what programs keep beyond their limit, once the work is queued or given
// up. A lost device frees nothing.
func (d *device) trim() {
	for _, p := range d.work.over {
		if d.state.Err() == nil {
			p.sets.Trim(d.recording)
		}
	}
	clear(d.work.over)
	d.work.over = d.work.over[:0]
}

// clock holds the two timestamps of Time.
type clock struct {
	queries  *wgpu.QuerySet
	resolved *wgpu.Buffer
	staging  *staging
}

const timestampBytes = 2 * wgpu.QuerySize

func (d *device) takeClock() (*clock, error) {
	if d.clock != nil {
		return d.clock, nil
	}
	c := new(clock)
	var err error
	c.queries, err = d.handle.CreateQuerySet(&wgpu.QuerySetDescriptor{Type: wgpu.QueryType_Timestamp, Count: 2})
	err = d.check("timestamps", err)
	if err == nil {
		c.resolved, err = d.newBuffer("timestamps", timestampBytes, wgpu.BufferUsage_QueryResolve|wgpu.BufferUsage_CopySrc)
	}
	if err == nil {
		c.staging, err = d.newStaging(timestampBytes)
	}
	if err != nil {
		c.free()
		return nil, err
	}
	d.clock = c
	return c, nil
}

func (c *clock) copy() C.gpu_copy {
	return C.gpu_copy{
		queries: ref(c.queries), resolved: ref(c.resolved),
		source: ref(c.resolved), destination: c.staging.ref, size: timestampBytes,
	}
}

func (c *clock) free() {
	if c == nil {
		return
	}
	if c.queries != nil {
		c.queries.Release()
	}
	if c.resolved != nil {
		c.resolved.Release()
	}
	if c.staging != nil {
		c.staging.handle.Release()
	}
}

// Time uses the device's timestamps, which the binding has on Vulkan only, and
// else the wall clock.
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

// ticks returns the difference of the timestamps of the last Time, 0 when there
// are none that make sense.
func (d *device) ticks() (uint64, error) {
	if err := d.lock(); err != nil {
		return 0, err
	}
	defer d.mu.Unlock()
	if d.clock == nil {
		return 0, nil
	}
	var first, last uint64
	err := d.readMapped(d.clock.staging, timestampBytes, func(data []byte) {
		first, last = binary.NativeEndian.Uint64(data), binary.NativeEndian.Uint64(data[8:])
	})
	if err != nil || last <= first {
		return 0, err
	}
	return last - first, nil
}
