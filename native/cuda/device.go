//go:build cgo && linux && (amd64 || arm64)

package cuda

// #cgo nocallback gcu_poll
// #include <stdlib.h>
// #include "gcu.h"
import "C"

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/planner"
)

// device is an open device.
//
// Calls hold life for reading, Close for writing, so that nothing is freed under
// a call. A device that is closed or lost says why in state, which ends waits.
type device struct {
	library *library
	gpu     gpu
	handle  *C.gcu
	foreign bool // the stream is the caller's

	life  sync.RWMutex
	state atomic.Pointer[error]
	slots chan *slot // of transfers; a transfer owns what it took

	// mu keeps the launches of a submission together and guards what follows.
	mu       sync.Mutex
	work     []C.gcu_run // of the submission being made
	module   C.CUmodule
	kernels  map[planner.Kernel]*kernel
	buffers  map[*buffer]struct{}
	programs map[*program]struct{}
	events   []C.CUevent // for waits, not in use
}

var _ driver.Wrapper = (*device)(nil)

func openDevice(l *library, g gpu) (*device, error) {
	return newDevice(l, g, false, func(handle *C.gcu) C.CUresult {
		return C.gcu_open(handle, l.api, C.int(g.ordinal))
	})
}

func newDevice(l *library, g gpu, foreign bool, open func(*C.gcu) C.CUresult) (*device, error) {
	d := &device{
		library:  l,
		gpu:      g,
		handle:   (*C.gcu)(C.calloc(1, C.sizeof_gcu)),
		foreign:  foreign,
		slots:    make(chan *slot, slotCount),
		kernels:  map[planner.Kernel]*kernel{},
		buffers:  map[*buffer]struct{}{},
		programs: map[*program]struct{}{},
	}
	if d.handle == nil {
		return nil, driver.ErrOutOfMemory
	}
	if result := open(d.handle); result != 0 {
		C.free(unsafe.Pointer(d.handle))
		if result == C.GCU_DEVICE_UNAVAILABLE { // reserved for another process, or for none
			return nil, fmt.Errorf("cuda: %s: %w: %w", g.info.Name, driver.ErrUnavailable, l.errorOf(result))
		}
		return nil, d.check("open", result)
	}
	for range slotCount {
		d.slots <- new(slot)
	}
	return d, nil
}

func (d *device) Info() driver.Info { return d.gpu.info }

// enter begins a call; leave ends it. Calls do not nest.
func (d *device) enter(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	d.life.RLock()
	if state := d.state.Load(); state != nil {
		d.life.RUnlock()
		return *state
	}
	return nil
}

func (d *device) leave() { d.life.RUnlock() }

// check makes an error of a result.
func (d *device) check(op string, result C.CUresult) error {
	if result == 0 {
		return nil
	}
	err := d.library.errorOf(result)
	switch {
	case result == C.GCU_OUT_OF_MEMORY:
		return fmt.Errorf("cuda: %s: %w: %w", op, driver.ErrOutOfMemory, err)
	case sticky(result):
		return d.lose(fmt.Errorf("%s: %w", op, err))
	}
	return fmt.Errorf("cuda: %s: %w", op, err)
}

// sticky reports whether every later call in the process fails as well ("The
// context cannot be used" and "the process must be terminated and relaunched"
// in the description of CUresult).
func sticky(result C.CUresult) bool {
	switch result {
	case 4, // deinitialized
		201,           // invalid context
		214, 220, 226, // uncorrectable ECC error; NVLink error; contained error
		700, 702, // illegal address; launch timeout
		709, 710, // context is destroyed; device-side assert
		714, 715, 716, 717, 718, 719, // hardware stack, instruction, misaligned, address space, PC, launch failed
		999: // unknown
		return true
	}
	return false
}

// lose declares the device dead, and returns what is said from now on.
func (d *device) lose(reason error) error {
	err := fmt.Errorf("cuda: %s: %w: %w", d.gpu.info.Name, driver.ErrDeviceLost, reason)
	d.state.CompareAndSwap(nil, &err)
	return *d.state.Load()
}

func (d *device) Alloc(n int) (driver.Buffer, error) {
	if n < 1 {
		return nil, fmt.Errorf("cuda: alloc %d elements: there must be one", n)
	}
	if err := d.enter(context.Background()); err != nil {
		return nil, err
	}
	defer d.leave()
	if n > math.MaxInt/4 {
		return nil, fmt.Errorf("cuda: alloc %d elements: %w", n, driver.ErrOutOfMemory)
	}
	memory, err := d.alloc(4 * n)
	if err != nil {
		return nil, err
	}
	return d.addBuffer(memory, n, true), nil
}

// alloc takes device memory, aligned to 256 bytes.
func (d *device) alloc(size int) (C.CUdeviceptr, error) {
	var memory C.CUdeviceptr
	if err := d.check("alloc", C.gcu_alloc(d.handle, C.size_t(size), &memory)); err != nil {
		return 0, fmt.Errorf("%w (%d bytes)", err, size)
	}
	return memory, nil
}

const (
	// spinTime is how long a wait asks without a pause: runs of small batches end
	// within it, and a pause costs 50 us or more.
	spinTime = 100 * time.Microsecond
	maxPause = 500 * time.Microsecond // then: an eighth of the time waited so far
	// pollTurns questions of 0.1 us are asked in one call of C.
	pollTurns = 16
	// closeLimit bounds how long Close waits for queued work.
	closeLimit = 10 * time.Minute
)

// Wait returns when everything that was queued before the call is done.
func (d *device) Wait(ctx context.Context) error {
	if err := d.enter(ctx); err != nil {
		return err
	}
	defer d.leave()
	event, err := d.mark()
	if err != nil {
		return err
	}
	defer d.giveEvent(event)
	return d.await(ctx, event)
}

// mark returns an event behind all queued work.
func (d *device) mark() (C.CUevent, error) {
	event, err := d.takeEvent()
	if err != nil {
		return nil, err
	}
	if err := d.check("wait", C.gcu_mark(d.handle, event)); err != nil {
		d.giveEvent(event)
		return nil, err
	}
	return event, nil
}

// await returns when an event was reached, the context ended, or the device is
// closed or lost.
func (d *device) await(ctx context.Context, event C.CUevent) error {
	return d.poll(event, func() error {
		if state := d.state.Load(); state != nil {
			return *state
		}
		return ctx.Err()
	})
}

// poll returns when an event was reached, or with the error of stop.
func (d *device) poll(event C.CUevent, stop func() error) error {
	for start := time.Now(); ; {
		if err := stop(); err != nil {
			return err
		}
		result := C.gcu_poll(d.handle, event, pollTurns)
		if result != C.GCU_NOT_READY {
			return d.check("wait", result)
		}
		if waited := time.Since(start); waited > spinTime {
			C.gcu_pause(C.uint(min(waited/8, maxPause).Microseconds()))
		}
	}
}

// takeEvent returns an event without timing.
func (d *device) takeEvent() (C.CUevent, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if n := len(d.events); n > 0 {
		event := d.events[n-1]
		d.events = d.events[:n-1]
		return event, nil
	}
	return d.newEvent(0)
}

func (d *device) giveEvent(event C.CUevent) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.events = append(d.events, event)
}

func (d *device) newEvent(timing C.int) (event C.CUevent, err error) {
	err = d.check("event", C.gcu_event(d.handle, timing, &event))
	return event, err
}

// Close ends calls that wait, waits for queued work and frees everything. A
// device that is lost frees nothing and says so again.
func (d *device) Close() error {
	closed := fmt.Errorf("cuda: %s: %w", d.gpu.info.Name, driver.ErrClosed)
	if !d.state.CompareAndSwap(nil, &closed) {
		if state := *d.state.Load(); !errors.Is(state, driver.ErrClosed) {
			return state
		}
		return nil
	}
	d.life.Lock()
	defer d.life.Unlock()
	if err := d.drain(); err != nil {
		lost := fmt.Errorf("cuda: %s: %w: close: %w", d.gpu.info.Name, driver.ErrDeviceLost, err)
		d.state.Store(&lost)
		return lost
	}
	d.free()
	return nil
}

// drain waits for queued work.
func (d *device) drain() error {
	event, err := d.mark()
	if err != nil {
		return err
	}
	defer d.giveEvent(event)
	limit := time.Now().Add(closeLimit)
	return d.poll(event, func() error {
		if time.Now().After(limit) {
			return fmt.Errorf("queued work did not end within %v", closeLimit)
		}
		return nil
	})
}

// free releases everything of an idle device. Errors have no consequence: what
// could fail is freed with the context.
func (d *device) free() {
	for p := range d.programs {
		p.free()
	}
	for b := range d.buffers {
		b.free()
	}
	for range slotCount {
		(<-d.slots).free(d)
	}
	for _, event := range d.events {
		C.gcu_event_free(d.handle, event)
	}
	if d.module != nil {
		C.gcu_module_free(d.handle, d.module)
	}
	C.gcu_close(d.handle)
	C.free(unsafe.Pointer(d.handle))
	d.programs, d.buffers, d.kernels, d.events, d.module, d.handle = nil, nil, nil, nil, nil, nil
}
