//go:build cgo && !nowebgpu && ((linux && amd64) || darwin || (windows && amd64))

package webgpu

// #include <stdlib.h>
// #include "shim.h"
import "C"

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"time"
	"unsafe"

	"github.com/rajveermalviya/go-webgpu/wgpu"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/backend"
	"github.com/batchgemm/batchgemm/planner/encoding"
	"github.com/batchgemm/batchgemm/wgsl"
)

// device is an open device. Its fields from handle on belong to mu.
type device struct {
	info      driver.Info
	limits    wgpu.Limits
	shader    wgsl.Limits
	binding   uint64        // largest storage binding in bytes
	period    float64       // nanoseconds of a timestamp tick; 0: no timestamps
	waitLimit time.Duration // after it a wait gives up and the device is lost
	closeWait time.Duration // after it Close leaves the rest to freeLater
	inFlight  uint64        // the most submissions that are queued at once
	timing    chan struct{} // holds the token of the one Time that runs
	state     backend.State

	// mu is held around every call of the binding: its error scopes are one stack
	// a device.
	mu       sync.Mutex
	instance *wgpu.Instance
	adapters []adapter
	handle   *wgpu.Device
	queue    *wgpu.Queue
	gpu      *C.gpu

	submitted uint64 // submissions; gpu.done counts the finished ones
	recording uint64 // number of the submission of runs being recorded; those that failed count
	unsent    int    // bytes written since the last submission
	work      work   // of the submission being recorded
	clock     *clock // of Time; made on first use
	dummy     *buffer
	scratch   [wgsl.Bindings]*buffer // of Compile
	staging   []*staging
	waiting   []*readback // copies that are submitted when there is room, before anything else
	buffers   map[*buffer]struct{}
	programs  map[*program]struct{}
	pipelines map[encoding.Kernel]*pipeline
}

// waitLimit is far above what a submission should take: lavapipe on two cores
// does some 400 GFLOP in it.
const waitLimit = 10 * time.Minute

// closeWait is how long Close waits: longer than a GPU has queued, and short for a
// person who interrupts a program on lavapipe, whose work cannot be stopped.
const closeWait = time.Second

// openDevice opens the adapter with these facts in an instance of its own.
func openDevice(info driver.Info, maxBinding uint64) (*device, error) {
	instance, adapters := enumerate()
	if info.Index >= len(adapters) || adapters[info.Index].id != info.ID {
		release(instance, adapters)
		return nil, fmt.Errorf("webgpu: device %d (%s) is gone: %w", info.Index, info.Name, driver.ErrUnavailable)
	}
	a := &adapters[info.Index]
	// The descriptor also silences the handler of lost devices, which aborts.
	descriptor := wgpu.DeviceDescriptor{RequiredLimits: a.required()}
	if a.timestamp {
		descriptor.RequiredFeatures = []wgpu.FeatureName{wgpu.FeatureName_TimestampQuery}
	}
	handle, err := a.handle.RequestDevice(&descriptor)
	if err != nil {
		release(instance, adapters)
		return nil, fmt.Errorf("webgpu: open %s: %w: %w", info.Name, driver.ErrUnavailable, err)
	}
	d := &device{
		info:      info,
		limits:    handle.GetLimits().Limits,
		waitLimit: waitLimit,
		closeWait: closeWait,
		inFlight:  maxInFlight,
		timing:    make(chan struct{}, 1),
		instance:  instance,
		adapters:  adapters,
		handle:    handle,
		queue:     handle.GetQueue(),
		buffers:   map[*buffer]struct{}{},
		programs:  map[*program]struct{}{},
		pipelines: map[encoding.Kernel]*pipeline{},
	}
	if a.props.VendorId == vendorMesa {
		d.inFlight = 1
	}
	d.binding = bindingLimit(d.limits, maxBinding)
	d.shader = wgsl.LimitsOf(&info.Planner)
	if a.timestamp && a.vulkan != nil {
		d.period = a.vulkan.period
	}
	d.gpu = C.gpu_new(ref(handle), ref(d.queue))
	if d.gpu == nil {
		d.queue.Release()
		d.handle.Release()
		release(instance, adapters)
		return nil, driver.ErrOutOfMemory
	}
	if err := d.selfTest(); err != nil {
		d.free()
		return nil, err
	}
	return d, nil
}

// selfTest makes the buffer that stands in for operands without elements, and
// checks with it that ref finds the library's handles.
func (d *device) selfTest() error {
	dummy, err := d.Alloc(4)
	if err != nil {
		return err
	}
	d.dummy = dummy.(*buffer)
	if got := C.gpu_buffer_size(d.dummy.ref); got != 16 {
		return fmt.Errorf("webgpu: %w: the library's handles are not where expected", driver.ErrUnavailable)
	}
	return nil
}

// ref returns the library's handle of an object of package wgpu, which does not
// export it.
func ref[T any](object *T) C.handle {
	return C.handle(reflect.ValueOf(object).Elem().FieldByName("ref").Pointer())
}

func (d *device) Info() driver.Info { return d.info }

// lock takes the mutex of a device that works, or says why it does not.
func (d *device) lock() error {
	d.mu.Lock()
	err := d.state.Err()
	if err != nil {
		d.mu.Unlock()
	}
	return err
}

// lose declares the device dead, for the reason that the library gave. What is
// queued may still run and use memory, so nothing of it is ever freed.
func (d *device) lose(op string) error {
	return d.state.Lose(&d.info, fmt.Errorf("%s: %s", op, C.GoString(&d.gpu.message[0])))
}

// check returns the error of a call of the binding: what the call returned, or
// what arrived at the error callback meanwhile.
func (d *device) check(op string, err error) error {
	if d.gpu.lost != 0 {
		return d.lose(op)
	}
	if err == nil && d.gpu.errors > 0 {
		err = errors.New(C.GoString(&d.gpu.message[0]))
	}
	C.gpu_forget(d.gpu)
	if err == nil {
		return nil
	}
	// The binding has no error codes; these are the texts of wgpu-core's
	// DeviceError.
	text := err.Error()
	switch {
	case strings.Contains(text, "Parent device is lost"):
		return d.state.Lose(&d.info, fmt.Errorf("%s: %w", op, err))
	case strings.Contains(text, "Not enough memory left"), strings.Contains(text, "Out of Memory"):
		return fmt.Errorf("webgpu: %s: %w", op, driver.ErrOutOfMemory)
	}
	return fmt.Errorf("webgpu: %s: %s", op, text)
}

// newBuffer makes a buffer of a multiple of 16 bytes.
func (d *device) newBuffer(op string, size uint64, usage wgpu.BufferUsage) (*wgpu.Buffer, error) {
	if size > d.limits.MaxBufferSize {
		return nil, fmt.Errorf("webgpu: %s: %w: %d bytes, the device's largest buffer has %d",
			op, driver.ErrOutOfMemory, size, d.limits.MaxBufferSize)
	}
	b, err := d.handle.CreateBuffer(&wgpu.BufferDescriptor{Size: size, Usage: usage})
	if err = d.check(op, err); err != nil {
		if b != nil {
			b.Release()
		}
		if errors.Is(err, driver.ErrOutOfMemory) {
			err = fmt.Errorf("%w (%d bytes)", err, size)
		}
		return nil, err
	}
	return b, nil
}

func (d *device) Alloc(n int) (driver.Buffer, error) {
	if err := d.lock(); err != nil {
		return nil, err
	}
	defer d.mu.Unlock()
	b, err := d.alloc(n)
	if err != nil {
		return nil, err
	}
	return b, nil
}

// alloc is Alloc of a caller that holds mu.
func (d *device) alloc(n int) (*buffer, error) {
	size := roundUp(4*uint64(n), 16)
	b, err := d.newBuffer("alloc", size, wgpu.BufferUsage_Storage|wgpu.BufferUsage_CopySrc|wgpu.BufferUsage_CopyDst)
	if err != nil {
		return nil, err
	}
	buf := &buffer{dev: d, n: n, size: size, fresh: true, handle: b, ref: ref(b)}
	d.buffers[buf] = struct{}{}
	return buf, nil
}

// Close waits for queued work, for a second at most, and frees everything; what is
// still queued then, whose results nobody can read any more, is freed when it is
// done, or abandoned if it does not end. A device that is lost frees nothing and says
// so.
func (d *device) Close() error {
	err := d.drain(min(d.closeWait, d.waitLimit))
	switch {
	case err == nil:
		return d.free()
	case !errors.Is(err, backend.ErrUnfinished):
		return err
	case d.waitLimit <= d.closeWait:
		return d.state.Lose(&d.info, fmt.Errorf("close: %w", err))
	}
	go func() {
		if d.drain(d.waitLimit) == nil {
			_ = d.free() // nobody is left to tell
		}
	}()
	return nil
}

// drain waits for queued work, for a time.
func (d *device) drain(limit time.Duration) error {
	return d.state.Await(context.Background(), limit, func() (bool, error) { return d.poll(d.submitted) })
}

// free releases everything of an idle device. It fails when the GPU is lost
// meanwhile.
func (d *device) free() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for p := range d.programs {
		p.unbind()
	}
	for b := range d.buffers {
		b.handle.Release()
	}
	for _, p := range d.pipelines {
		p.free()
	}
	for _, s := range d.staging {
		s.handle.Release()
	}
	d.clock.free()
	d.programs, d.buffers, d.pipelines, d.staging = nil, nil, nil, nil
	C.gpu_release(d.gpu)
	if d.gpu.lost != 0 {
		return d.lose("close")
	}
	release(d.instance, d.adapters)
	C.free(unsafe.Pointer(d.gpu))
	d.gpu = nil
	return nil
}

func roundUp(n, unit uint64) uint64 { return (n + unit - 1) / unit * unit }
