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
	skipped Skips
	gemm    *hostgemm.Host

	planner     *planner.Planner
	fingerprint string // of its device
	warmed      atomic.Pointer[planner.KernelSet]
}

// life is what outlives a Device that is dropped without Close.
type life struct {
	driver  driver.Device
	info    Info
	foreign bool // works on a caller's stream

	objects
	reaper      reaper          // of what was dropped
	dropped     runtime.Cleanup // calls drop then
	unreachable bool            // it was; of the reaper's tasks

	mu     sync.RWMutex // calls hold it for reading, Close for writing
	closed bool

	open context.Context // ends when Close begins, and with it reads that go on
	shut context.CancelFunc

	// updates keeps what begin has checked: runs are queued with it held for reading,
	// programs get other plans with it held for writing.
	updates sync.RWMutex
}

// newDevice takes rates that were measured on the device, if there are any. A file
// of them that does not serve is no reason to fail: batchgemm devices tells of it.
func newDevice(d driver.Device, skipped Skips) *Device {
	info := d.Info()
	facts, err := ratefile.Load(&info)
	if err != nil {
		facts = info.Planner
	}
	return deviceFor(d, planner.New(&facts).Within(hostmem.CheckHalf), skipped)
}

func deviceFor(d driver.Device, p *planner.Planner, skipped Skips) *Device {
	device := &Device{life: &life{driver: d, info: d.Info()}, skipped: skipped, planner: p,
		gemm: hostgemm.New(d, p)}
	device.warmed.Store(new(planner.KernelSet))
	device.open, device.shut = context.WithCancel(context.Background())
	device.life.dropped = runtime.AddCleanup(device, (*life).drop, device.life)
	device.info.Planner, device.fingerprint = *p.Device(), p.Device().Fingerprint()
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

// until does what ends with ctx, or with the device, whose Close does not wait for it then.
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

// Info describes the device, also when it is closed. Info.Planner has the
// rates that batchgemm tune measured on it, if there are any.
func (d *Device) Info() Info { return d.info }

// Skipped lists the backends and devices that Open passed over, and why. Printed, it is one line.
func (d *Device) Skipped() Skips { return slices.Clone(d.skipped) }

// Plan plans a batch for this device. The plan may be kept, prepared any number of
// times, and outlives the device. It fails with ctx's error soon after ctx ends, and with ErrOutOfMemory
// where it would take more than half of what limits leave of the host's memory; all other failures wrap
// ErrInvalid: a *planner.ProblemError when the batch is wrong, others when the options are.
func (d *Device) Plan(ctx context.Context, batch planner.Batch, o planner.Options) (*planner.Plan, error) {
	return d.planner.Plan(ctx, batch, o)
}

// GEMM computes the batch on slices of host memory, by plans with the options. The
// result is in c when it returns; elements of c between the problems' regions are not
// written. On an error, and when ctx ends, c is as before; what the device has begun
// goes on without the caller. It fails with a *planner.ProblemError when the batch is
// wrong or a slice too short, and as Plan does when the options are.
//
// A large batch is cut into parts, each with a plan of its own, so that copies of some
// overlap the work on others. Plans and programs are kept for the last 32 batches, so
// that a batch of the same sizes, scalars and offsets with the same options costs no
// planning. Results are as large as C once more until the call ends, on the CPU in the device's memory, and
// memory of the host that this takes, with pages of C that are not there yet, is known before anything is
// computed: ErrOutOfMemory. It is given back when the call ends, or where others may use it again 2 s later;
// the device keeps buffers of up to 32 MiB for each operand of a part. Calls on one device take turns. For
// what else an epilogue has, and elements of other types, use GEMMOperands, and for operands that stay on the
// device Plan, Prepare and Run.
func (d *Device) GEMM(ctx context.Context, batch planner.Batch, o planner.Options, a, b, c []float32) error {
	return d.gemm32(ctx, batch, o, hostgemm.Operands{A: a, B: b, C: c})
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

// Prepare makes a plan of this device ready to run: kernels compiled or loaded,
// arrays uploaded, workspace allocated. The plan must not change afterwards.
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

// roomForItems fails where there is no memory for what a plan becomes on its way to the device, more than so
// many words.
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

// Close frees everything, including open buffers and programs, after queued work;
// the CPU abandons such work, which nobody could read any more. Reads of ReadAsync end. Later
// calls fail with ErrClosed.
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
