//go:build cgo && linux && (amd64 || arm64)

package dl

// #cgo nocallback dl_poll
// #include <stdlib.h>
// #include "dl.h"
import "C"

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
	"unsafe"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/backend"
	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/internal/hardware"
	"github.com/batchgemm/batchgemm/internal/invalid"
)

// device is an open device.
type device struct {
	library *library
	gpu     gpu
	handle  *C.dl_device
	graphs  bool // runs may become graphs

	state backend.State
	slots chan *slot // for transfers, which own the slots that they took

	// mu keeps the launches of a submission together and protects the next fields.
	mu       sync.Mutex
	work     []C.dl_run // of the submission being made
	number   uint64     // number of that submission; failed ones count
	fence    fence
	modules  map[string]*module // by the name of their image
	kernels  map[encoding.Kernel]*kernel
	buffers  map[*buffer]struct{}
	programs map[*program]struct{}
	// of runs of several programs on streams of callers; nil for those that ran once
	sequences *backend.Cache[sequence, C.dl_graph_exec]
	events    []C.dl_event // free events for waits; one is reserved for Close
	landings  []*landing   // not in use
}

var (
	_ backend.Wrapper  = (*device)(nil)
	_ backend.Borrower = (*device)(nil)
	_ Globals          = (*device)(nil)
)

func openDevice(l *library, g gpu) (*device, error) {
	return newDevice(l, g, l.graphs, func(handle *C.dl_device) C.dl_result {
		return C.dl_open(handle, l.api, C.int(g.ordinal))
	})
}

func newDevice(l *library, g gpu, graphs bool, open func(*C.dl_device) C.dl_result) (*device, error) {
	d := &device{
		library:  l,
		gpu:      g,
		handle:   (*C.dl_device)(C.calloc(1, C.sizeof_dl_device)),
		graphs:   graphs,
		slots:    make(chan *slot, slotCount),
		modules:  map[string]*module{},
		kernels:  map[encoding.Kernel]*kernel{},
		buffers:  map[*buffer]struct{}{},
		programs: map[*program]struct{}{},
	}
	d.sequences = newGraphs[sequence](d)
	if d.handle == nil {
		return nil, hardware.ErrOutOfMemory
	}
	if result := open(d.handle); result != 0 {
		C.free(unsafe.Pointer(d.handle))
		if slices.Contains(l.vendor.Reserved, int(result)) {
			return nil, d.errorf("%s: %w: %w", g.info.Name, hardware.ErrUnavailable, l.errorOf(result))
		}
		return nil, d.check("open", result)
	}
	last, err := d.newEvent(0)
	if err != nil {
		d.release()
		return nil, err
	}
	d.events = append(d.events, last)
	for range slotCount {
		d.slots <- new(slot)
	}
	return d, nil
}

func (d *device) Info() driver.Info { return d.gpu.info }

// errorf returns an error that starts with the name of the backend.
func (d *device) errorf(format string, args ...any) error {
	return fmt.Errorf(d.library.vendor.Backend+": "+format, args...)
}

// invalid returns the error of a mistake that the caller can correct.
func (d *device) invalid(format string, args ...any) error {
	return invalid.Errorf(d.library.vendor.Backend+": "+format, args...)
}

// check converts a result to an error.
func (d *device) check(op string, result C.dl_result) error {
	if result == 0 {
		return nil
	}
	err := d.library.errorOf(result)
	switch {
	case result == C.DL_OUT_OF_MEMORY:
		return d.errorf("%s: %w: %w", op, hardware.ErrOutOfMemory, err)
	case slices.Contains(d.library.vendor.Lost, int(result)):
		return d.state.Lose(&d.gpu.info, fmt.Errorf("%s: %w", op, err))
	}
	return d.errorf("%s: %w", op, err)
}

func (d *device) Alloc(n int) (driver.Buffer, error) {
	if err := d.state.Err(); err != nil {
		return nil, err
	}
	memory, err := d.alloc(4 * n)
	if err != nil {
		return nil, err
	}
	return d.addBuffer(memory, n, true), nil
}

// line is the unit of memory sizes in bytes: kernels read whole lines of 16 bytes.
const line = 16

// alloc takes device memory, aligned to 256 bytes.
func (d *device) alloc(size int) (C.dl_pointer, error) {
	var memory C.dl_pointer
	size = (size + line - 1) &^ (line - 1)
	if err := d.check("alloc", C.dl_alloc(d.handle, C.size_t(size), &memory)); err != nil {
		return 0, fmt.Errorf("%w (%d bytes)", err, size)
	}
	return memory, nil
}

// closeLimit bounds how long Close waits for queued work.
const closeLimit = 10 * time.Minute

// Wait returns when all work queued before the call is done.
func (d *device) Wait(ctx context.Context) error {
	return d.wait(ctx, backend.Forever)
}

// wait is Wait with a time limit.
func (d *device) wait(ctx context.Context, limit time.Duration) error {
	if err := d.state.Ready(ctx); err != nil {
		return err
	}
	event, err := d.takeEvent()
	if err != nil {
		return err
	}
	defer d.giveEvent(event)
	if err := d.check("wait", C.dl_mark(d.handle, event)); err != nil {
		return err
	}
	return d.await(ctx, limit, event)
}

// await returns when an event is reached.
func (d *device) await(ctx context.Context, limit time.Duration, event C.dl_event) error {
	return d.state.Await(ctx, limit, func() (bool, error) {
		result := C.dl_poll(d.handle, event, backend.PollTurns)
		if result == C.DL_NOT_READY {
			return false, nil
		}
		return true, d.check("wait", result)
	})
}

// takeEvent returns an event without timing.
func (d *device) takeEvent() (C.dl_event, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if n := len(d.events); n > 0 {
		event := d.events[n-1]
		d.events = d.events[:n-1]
		return event, nil
	}
	return d.newEvent(0)
}

func (d *device) giveEvent(event C.dl_event) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.events = append(d.events, event)
}

func (d *device) newEvent(timing C.int) (event C.dl_event, err error) {
	err = d.check("event", C.dl_event_make(d.handle, timing, &event))
	return event, err
}

// Close waits for queued work and frees everything. If the device is lost, or its work cannot be waited for,
// Close frees nothing and returns an error.
func (d *device) Close() error {
	if err := d.wait(context.Background(), closeLimit); err != nil {
		return d.state.Lose(&d.gpu.info, fmt.Errorf("close: %w", err))
	}
	d.free()
	return nil
}

// free releases everything of an idle device. It ignores errors: what could fail is freed with the context.
func (d *device) free() {
	d.sequences.Clear()
	for p := range d.programs {
		p.free()
	}
	for b := range d.buffers {
		b.free()
	}
	for range slotCount {
		(<-d.slots).free(d)
	}
	for _, l := range d.landings {
		l.free(d)
	}
	for _, event := range append(d.events, d.fence.event) {
		if event != nil {
			C.dl_event_free(d.handle, event)
		}
	}
	for _, m := range d.modules {
		C.dl_module_free(d.handle, m.code)
		C.free(m.memory)
	}
	d.release()
	d.programs, d.buffers, d.kernels, d.events, d.landings, d.modules = nil, nil, nil, nil, nil, nil
}

// release undoes opening.
func (d *device) release() {
	C.dl_close(d.handle)
	C.free(unsafe.Pointer(d.handle))
	d.handle = nil
}
