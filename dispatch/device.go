package dispatch

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/hostgemm"
	"github.com/batchgemm/batchgemm/internal/hostmem"
	"github.com/batchgemm/batchgemm/internal/invalid"
	"github.com/batchgemm/batchgemm/internal/ratefile"
	"github.com/batchgemm/batchgemm/planner"
)

// Device is an open device.
type Device struct {
	*life
	skipped []Skip
	gemm    *hostgemm.Host

	planner     *planner.Planner
	fingerprint string // fingerprint of planner.Device
	warmed      atomic.Pointer[planner.KernelSet]
	checks      *checks
}

// life is the part of a Device that outlives it if it is dropped without Close.
type life struct {
	driver  driver.Device
	info    Info
	foreign bool // works on the caller's stream

	objects
	reaper      reaper          // of dropped objects
	dropped     runtime.Cleanup // calls drop if the Device is dropped
	unreachable bool            // the Device was dropped; used by the reaper

	mu     sync.RWMutex // calls hold it for reading, Close holds it for writing
	closed bool

	open context.Context // ends when Close begins; this also ends pending reads
	shut context.CancelFunc

	// updates protects what begin has checked. Queueing runs holds it for reading, giving programs another
	// plan for writing.
	updates sync.RWMutex
}

// newDevice uses rates that were measured on the device, if there are any. It ignores a file of rates that
// cannot be used; batchgemm devices reports it.
func newDevice(d driver.Device, skipped []Skip) *Device {
	info := d.Info()
	facts, err := ratefile.Load(&info)
	if err != nil {
		facts = info.Planner
	}
	refusing := facts
	refusing.Refused = new(atomic.Pointer[planner.KernelSet])
	p := planner.New(&refusing).Within(hostmem.CheckHalf)
	device := deviceFor(d, &facts, p, skipped)
	device.checks = newChecks(d, p, refusing.Refused)
	return device
}

func deviceFor(d driver.Device, facts *planner.Device, p *planner.Planner, skipped []Skip) *Device {
	device := &Device{life: &life{driver: d, info: d.Info()}, skipped: skipped, planner: p,
		gemm: hostgemm.New(d, p)}
	device.warmed.Store(new(planner.KernelSet))
	device.open, device.shut = context.WithCancel(context.Background())
	device.life.dropped = runtime.AddCleanup(device, (*life).drop, device.life)
	device.info.Planner, device.fingerprint = *facts, facts.Fingerprint()
	return device
}

// acquire keeps the device open until release. Calls must not nest.
func (l *life) acquire() error {
	l.mu.RLock()
	if l.closed {
		l.mu.RUnlock()
		return l.errClosed()
	}
	return nil
}

// until runs what with a context that ends with ctx or with the device. Close does not wait for what.
func (l *life) until(ctx context.Context, what func(context.Context) error) error {
	until, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(l.open, cancel)()
	err := what(until)
	if err != nil && ctx.Err() == nil && l.open.Err() != nil {
		return l.errClosed()
	}
	return err
}

func (l *life) errClosed() error { return fmt.Errorf("device %s: %w", l.info.Name, ErrClosed) }

func (l *life) release() { l.mu.RUnlock() }

func (l *life) isClosed() bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.closed
}

// Info describes the device, also after Close. Info.Planner has the rates that batchgemm tune measured on
// it, if there are any.
func (d *Device) Info() Info { return d.info }

// Skipped lists the backends and devices that Open passed over, with the reasons. It lacks backends after
// the opened one if Open did not ask them.
func (d *Device) Skipped() []Skip { return slices.Clone(d.skipped) }

// Plan plans a batch for this device. The plan outlives the device and can be prepared any number of times.
// Plan returns ctx's error soon after ctx ends. It fails with ErrOutOfMemory if the plan would take more
// than half of the host memory that limits leave. All other errors wrap ErrInvalid: a *planner.ProblemError
// for a wrong batch, others for wrong options.
func (d *Device) Plan(ctx context.Context, batch planner.Batch, o planner.Options) (*planner.Plan, error) {
	return d.planner.Plan(ctx, batch, o)
}

func (d *Device) gemm32(ctx context.Context, batch planner.Batch, o planner.Options,
	x hostgemm.Operands) error {
	if err := d.acquire(); err != nil {
		return err
	}
	defer d.release()
	return d.gemm.GEMM(ctx, batch, o, x)
}

func (d *Device) single() *Device { return d }

// inPlace computes a batch of elements of other types, if the device can where they lie.
func (d *Device) inPlace(ctx context.Context, batch planner.Batch, o planner.Options, x hostgemm.Operands,
	have planner.Lengths) (could bool, err error) {
	if err := d.acquire(); err != nil {
		return false, err
	}
	defer d.release()
	return d.gemm.InPlace(ctx, batch, o, x, have)
}

// Prepare makes a plan of this device ready to run: it compiles or loads kernels, uploads arrays and
// allocates the workspace. The plan must not change afterwards.
func (d *Device) Prepare(ctx context.Context, p *planner.Plan) (*Program, error) {
	if p == nil {
		return nil, invalid.Errorf("prepare: the plan is nil")
	}
	if p.Device == nil || p.Device.Fingerprint() != d.fingerprint {
		return nil, invalid.Errorf("prepare: the plan is for %s, not for %s", p.Device, d.info.Planner.Name)
	}
	if err := d.acquire(); err != nil {
		return nil, err
	}
	defer d.release()
	if err := roomForItems(p, 0); err != nil {
		return nil, fmt.Errorf("prepare: %w", err)
	}
	made, err := d.driver.Prepare(ctx, p)
	if err != nil {
		return nil, err
	}
	return newProgram(d, made, p), nil
}

// roomForItems fails if the host has no memory to encode a plan of more than that many words.
func roomForItems(p *planner.Plan, words int) error {
	const few = 1 << 18
	if p.Ragged != nil || p.Words < max(words, few) {
		return nil
	}
	if err := hostmem.Check(hostmem.Size(p.Words)); err != nil {
		return fmt.Errorf("items of the plan: %w", err)
	}
	return nil
}

// Wait returns when all queued work is done, or with ctx's error.
func (d *Device) Wait(ctx context.Context) error {
	if err := d.acquire(); err != nil {
		return err
	}
	defer d.release()
	return d.driver.Wait(ctx)
}

// Close waits for queued work and frees everything, including open buffers and programs. The CPU abandons
// queued work, because its results can no longer be read. Reads of ReadAsync end. Later calls fail with
// ErrClosed.
func (d *Device) Close() error { return d.close() }

func (l *life) close() error {
	l.shut()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	l.closed = true
	l.dropped.Stop()
	l.forgetAll()
	return l.driver.Close()
}
