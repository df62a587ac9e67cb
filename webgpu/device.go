//go:build !nowebgpu && (js || (cgo && ((linux && amd64) || darwin || (windows && amd64))))

package webgpu

// #include <stdlib.h>
import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/backend"
	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/internal/hardware"
	"github.com/batchgemm/batchgemm/wgsl"
)

// device is an open device. mu protects its fields from library on.
type device struct {
	info      driver.Info
	limits    limits
	shader    wgsl.Limits
	binding   uint64                   // largest storage binding in bytes
	period    float64                  // nanoseconds of a timestamp tick; 0: no timestamps
	waitLimit time.Duration            // a longer wait fails, and the device is lost
	closeWait time.Duration            // after this time Close leaves the rest to freeLater
	inFlight  uint64                   // most submissions that are queued at once
	spoil     func(text string) string // of tests: a driver that miscompiles; nil: none
	timing    chan struct{}            // holds the token of the one running Time
	state     backend.State
	helpers   helpers

	// mu is held around every call of the binding, because its error scopes are one stack per device.
	mu sync.Mutex
	library

	submitted uint64 // submissions; finished() of them are done
	recording uint64 // number of the submission being recorded; failed ones count
	unsent    int    // bytes written since the last submission
	work      work   // of the submission being recorded
	clock     *clock // of Time; made on first use
	dummy     *buffer
	scratch   [encoding.Bindings]*buffer // of Compile
	staging   []*staging
	waiting   []*readback // copies to submit first when there is room
	buffers   map[*buffer]struct{}
	programs  map[*program]struct{}
	pipelines map[encoding.Kernel]*pipeline
	texts     map[string]*pipeline // the same ones; kernels of one text share a pipeline
}

// waitLimit is far above the time of a submission: lavapipe on two cores does some 400 GFLOP in it.
const waitLimit = 10 * time.Minute

// closeWait is how long Close waits. It is longer than GPUs have work queued, and short for a user who
// interrupts a program on lavapipe, whose work cannot be stopped.
const closeWait = time.Second

// newDevice returns a device with these limits. The caller has opened it.
func newDevice(info driver.Info, l limits, maxBinding uint64) *device {
	shader := wgsl.LimitsOf(&info.Planner)
	shader.Short = info.Kind == hardware.KindSoftware
	return &device{
		info:      info,
		limits:    l,
		shader:    shader,
		binding:   bindingLimit(l, maxBinding),
		waitLimit: waitLimit,
		closeWait: closeWait,
		inFlight:  maxInFlight,
		timing:    make(chan struct{}, 1),
		helpers:   newHelpers(),
		buffers:   map[*buffer]struct{}{},
		programs:  map[*program]struct{}{},
		pipelines: map[encoding.Kernel]*pipeline{},
		texts:     map[string]*pipeline{},
	}
}

// makeDummy makes the buffer that replaces operands without elements.
func (d *device) makeDummy() (err error) {
	d.dummy, err = d.alloc(4)
	return err
}

func (d *device) Info() driver.Info { return d.info }

// lock locks a working device, or returns why it does not work.
func (d *device) lock() error {
	d.mu.Lock()
	err := d.state.Err()
	if err != nil {
		d.mu.Unlock()
	}
	return err
}

// newBuffer makes a buffer of a multiple of 16 bytes.
func (d *device) newBuffer(op string, size uint64, use usage) (memory, error) {
	if size > d.limits.MaxBufferSize {
		return memory{}, fmt.Errorf("webgpu: %s: %w: %d bytes, the device's largest buffer has %d",
			op, hardware.ErrOutOfMemory, size, d.limits.MaxBufferSize)
	}
	m, err := d.makeMemory(op, size, use)
	if errors.Is(err, hardware.ErrOutOfMemory) {
		err = fmt.Errorf("%w (%d bytes)", err, size)
	}
	return m, err
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

// alloc is Alloc for a caller that holds mu.
func (d *device) alloc(n int) (*buffer, error) {
	size := roundUp(4*uint64(n), 16)
	m, err := d.newBuffer("alloc", size, usageOperand)
	if err != nil {
		return nil, err
	}
	b := &buffer{memory: m, dev: d, n: n, size: size, fresh: clearFirst}
	d.buffers[b] = struct{}{}
	return b, nil
}

// Close waits for queued work, for at most a second, and frees everything. Work that is still queued then
// has results that can no longer be read. It is freed when it ends, or abandoned if it does not. For a lost
// device, Close frees nothing and returns an error.
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
			_ = d.free() // the error cannot be returned any more
		}
	}()
	return nil
}

// drain waits for queued work, up to a limit.
func (d *device) drain(limit time.Duration) error {
	return d.watch(context.Background(), limit, func() (bool, error) { return d.poll(d.submitted) })
}

// free releases everything of an idle device. It fails if the GPU is lost meanwhile.
func (d *device) free() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for p := range d.programs {
		p.unbind()
	}
	for b := range d.buffers {
		b.release()
	}
	for _, p := range d.texts {
		p.free()
	}
	for _, s := range d.staging {
		s.release()
	}
	d.clock.free()
	d.programs, d.buffers, d.pipelines, d.texts, d.staging = nil, nil, nil, nil, nil
	return d.closeLibrary()
}

func roundUp(n, unit uint64) uint64 { return (n + unit - 1) / unit * unit }
