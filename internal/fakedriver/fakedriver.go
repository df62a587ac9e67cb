// Package fakedriver is a backend for tests. Its devices are real ones of another backend, so results are
// right. They have counters and failures on demand, and check that callers keep the rules of package driver.
package fakedriver

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/backend"
	"github.com/batchgemm/batchgemm/internal/cpu"
	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/internal/hardware"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

// Driver is the backend.
type Driver struct {
	TB       testing.TB      // fails if a rule is broken
	Backend  string          // its name
	Kinds    []hardware.Kind // of each device; "" is a GPU
	Inner    driver.Driver   // all devices are its first device; nil: the CPU
	TFLOPS   float64         // of all devices; 0: the real ones
	Pointers bool            // devices claim to have kernels for pointers; OnSubmit must fail runs with any

	DevicesErr error         // fails Devices
	OpenErr    error         // fails Open
	OpenErrs   map[int]error // fails Open of one device

	Opened []*Device // in order
}

// New returns a driver with one device, a GPU.
func New(tb testing.TB) *Driver {
	return &Driver{TB: tb, Backend: "fake", Kinds: []hardware.Kind{hardware.KindDiscrete}}
}

// Last returns the device that was opened last.
func (f *Driver) Last() *Device { return f.Opened[len(f.Opened)-1] }

func (f *Driver) Name() string { return f.Backend }

func (f *Driver) Devices(context.Context) ([]driver.Info, error) {
	var infos []driver.Info
	for i := range f.Kinds {
		infos = append(infos, f.identify(driver.Info{}, i))
	}
	return infos, f.DevicesErr
}

// identify makes info one of this driver; tests may open devices that it does not list.
func (f *Driver) identify(info driver.Info, index int) driver.Info {
	info.Backend, info.Index, info.ID, info.Name = f.Backend, index, fmt.Sprint(f.Backend, ":", index),
		fmt.Sprint(f.Backend, index)
	if info.Kind = hardware.KindDiscrete; index < len(f.Kinds) {
		info.Kind = f.Kinds[index]
	}
	return info
}

func (f *Driver) Open(ctx context.Context, index int) (driver.Device, error) {
	if f.OpenErr != nil {
		return nil, f.OpenErr
	}
	if err := f.OpenErrs[index]; err != nil {
		return nil, err
	}
	inner := f.Inner
	if inner == nil {
		inner = cpu.Driver()
	}
	opened, err := inner.Open(ctx, 0)
	if err != nil {
		return nil, err
	}
	info := opened.Info()
	info = f.identify(info, index)
	if f.TFLOPS > 0 {
		info.Planner.TFLOPS = f.TFLOPS
	}
	info.Planner.Pointers = info.Planner.Pointers || f.Pointers
	d := &Device{inner: opened, info: info, tb: f.TB}
	d.use = use{device: d, name: "device"}
	f.Opened = append(f.Opened, d)
	return d, nil
}

// Device counts open objects. Its functions are called first in the methods of the same names, OnRead last;
// an error ends the method.
type Device struct {
	OnAlloc, OnPrepare, OnUpdate, OnSubmit, OnStatus, OnWrite, OnRead func() error
	OnCopy, OnStartRead                                               func() error
	OnCompile                                                         func() error // for each kernel
	// for reads of StartRead; last
	OnFinish func() error
	OnClose  func()

	Prepared, Updated atomic.Int32                 // calls of Prepare and Update
	Compiled          atomic.Int32                 // kernels
	Plan              atomic.Pointer[planner.Plan] // of the last one
	Writes            atomic.Int32                 // calls of Buffer.Write
	Written           atomic.Int64                 // elements
	Allocated, Most   atomic.Int64                 // elements of open buffers, now and at most
	Programs, Buffers atomic.Int32                 // open
	Closes            atomic.Int32

	inner  driver.Device
	info   driver.Info
	use    use
	tb     testing.TB
	misuse atomic.Bool // afterwards nothing reaches the inner device
}

func (d *Device) Info() driver.Info { return d.info }

func (d *Device) Alloc(n int) (driver.Buffer, error) {
	defer d.use.begin()()
	if n < 1 || n > backend.MaxLen {
		d.use.broken("Alloc of %d elements", n)
	}
	if err := d.call(d.OnAlloc); err != nil {
		return nil, err
	}
	b, err := d.inner.Alloc(n)
	if err != nil {
		return nil, err
	}
	d.Buffers.Add(1)
	d.Most.Store(max(d.Most.Load(), d.Allocated.Add(int64(n))))
	return &buffer{inner: b, device: d, use: &use{device: d, name: "buffer"}}, nil
}

func (d *Device) Prepare(ctx context.Context, p *planner.Plan) (driver.Program, error) {
	defer d.use.begin()()
	d.check("Prepare", p)
	if err := d.call(d.OnPrepare); err != nil {
		return nil, err
	}
	made, err := d.inner.Prepare(ctx, p)
	if err != nil {
		return nil, err
	}
	d.Prepared.Add(1)
	d.Plan.Store(p)
	d.Programs.Add(1)
	return &program{inner: made, need: extents(p), sizes: p.ExtentSizes, device: d,
		use: use{device: d, name: "program"}}, nil
}

func (d *Device) check(what string, p *planner.Plan) {
	const endless = math.MaxInt
	err := p.Batch.Check(context.Background(), p.Options.Epilogue, planner.Lengths{A: endless, B: endless,
		C: endless, B2: endless, Bias: endless, Rows: endless})
	if p.Ragged != nil {
		_, err = planner.New(p.Device).PlanRagged(*p.Ragged, p.Options)
	}
	if err != nil || p.Device.Name != d.info.Planner.Name {
		d.use.broken("%s of a plan for %s: %v", what, p.Device.Name, err)
	}
}

func (d *Device) Compile(ctx context.Context, kernels []encoding.Kernel, done func(i int)) error {
	defer d.use.begin()()
	for i := range kernels {
		if slices.Contains(kernels[:i], kernels[i]) {
			d.use.broken("Compile of %s twice", kernels[i])
		}
		if err := d.call(d.OnCompile); err != nil {
			return err
		}
		if err := d.inner.Compile(ctx, kernels[i:i+1], func(int) { done(i) }); err != nil {
			return err
		}
		d.Compiled.Add(1)
	}
	return ctx.Err()
}

func (d *Device) Submit(ctx context.Context, runs []driver.Run) error {
	defer d.use.begin()()
	inner, end := d.unwrap(runs)
	defer end()
	if err := d.call(d.OnSubmit); err != nil {
		return err
	}
	return d.inner.Submit(ctx, inner)
}

func (d *Device) Copy(ctx context.Context, dst, src driver.Buffer, bytes int) error {
	defer d.use.begin()()
	to, from := dst.(*buffer), src.(*buffer)
	defer to.use.begin()()
	defer from.use.begin()()
	if words := (bytes + 3) / 4; bytes < 1 || words > to.Len() || words > from.Len() ||
		sameMemory(dst, src) || to.device != d || from.device != d {
		d.use.broken("Copy of %d bytes between buffers of %d and %d words", bytes, to.Len(), from.Len())
	}
	if err := d.call(d.OnCopy); err != nil {
		return err
	}
	return d.inner.Copy(ctx, to.inner, from.inner, bytes)
}

func (d *Device) Wait(ctx context.Context) error {
	defer d.use.begin()()
	if err := d.call(nil); err != nil {
		return err
	}
	return d.inner.Wait(ctx)
}

func (d *Device) Time(ctx context.Context, runs []driver.Run) (driver.Timing, error) {
	defer d.use.begin()()
	inner, end := d.unwrap(runs)
	defer end()
	if err := d.call(nil); err != nil {
		return driver.Timing{}, err
	}
	return d.inner.Time(ctx, inner)
}

func (d *Device) Close() error {
	d.Closes.Add(1)
	if d.OnClose != nil {
		d.OnClose()
	}
	d.use.close()
	return d.inner.Close()
}

// unwrap returns the runs for the inner device. All their objects are in use until end.
func (d *Device) unwrap(runs []driver.Run) (inner []driver.Run, end func()) {
	var ends []func()
	buffer := func(b driver.Buffer, need int) driver.Buffer {
		if b == nil && need < 0 {
			return nil
		}
		own := b.(*buffer)
		ends = append(ends, own.use.begin())
		if own.device != d || own.Len() < need || need < 0 {
			d.use.broken("a run with a buffer of %s and %d words, where %d are needed", own.device.info.Name,
				own.Len(), need)
		}
		return own.inner
	}
	for _, r := range runs {
		p := r.Program.(*program)
		ends = append(ends, p.use.begin())
		if p.device != d || slices.ContainsFunc([]driver.Buffer{r.A, r.B, r.B2, r.Bias, r.Rows},
			func(b driver.Buffer) bool { return sameMemory(b, r.C) }) {
			d.use.broken("a run of a program of %s, with A %p, B %p, C %p", p.device.info.Name, r.A, r.B, r.C)
		}
		run := driver.Run{Program: p.inner,
			A: buffer(r.A, p.need[0]), B: buffer(r.B, p.need[1]), C: buffer(r.C, p.need[2]),
			B2: buffer(r.B2, p.need[3]), Bias: buffer(r.Bias, p.need[4]), Rows: buffer(r.Rows, p.need[5])}
		if (r.Sizes != nil) != (p.sizes > 0) || sameMemory(r.Sizes, r.C) {
			d.use.broken("a run of a program that needs %d sizes, with C %p, sizes %p", p.sizes, r.C, r.Sizes)
		} else if r.Sizes != nil {
			run.Sizes = buffer(r.Sizes, p.sizes)
		}
		inner = append(inner, run)
	}
	return inner, func() {
		for _, end := range ends {
			end()
		}
	}
}

type program struct {
	inner  driver.Program
	need   [6]int // words of A, B, C, B2, Bias and Rows; -1: nil
	sizes  int    // words; 0: not ragged
	device *Device
	use    use
	asked  atomic.Bool // a call of Status runs
}

func extents(p *planner.Plan) [6]int {
	o, by := &p.Options, p.Options.Epilogue.Pointers
	words := func(used bool, n int, of element.Type) int {
		if !used {
			return -1
		}
		return (of.Size(n) + 3) / 4
	}
	return [...]int{words(!by.A, p.ExtentA, o.TypeA), words(!by.B && p.Takes().B, p.ExtentB, o.TypeB),
		words(!by.C, p.ExtentC, o.TypeC),
		words(o.Epilogue.Gated && !by.B, p.ExtentB2, o.TypeB),
		words(o.Epilogue.Bias, p.ExtentBias, o.TypeC),
		words(p.Takes().Rows, p.ExtentRows, element.F32)}
}

func (p *program) Update(ctx context.Context, plan *planner.Plan) error {
	d := p.device
	defer d.use.begin()()
	defer p.use.alone()()
	d.check("Update", plan)
	if p.sizes+plan.ExtentSizes > 0 {
		p.use.broken("Update of a ragged program, or to a ragged plan")
	}
	if err := d.call(d.OnUpdate); err != nil {
		return err
	}
	if err := p.inner.Update(ctx, plan); err != nil {
		return err
	}
	d.Updated.Add(1)
	p.need = extents(plan)
	return nil
}

func (p *program) Status(ctx context.Context) (group int, err error) {
	defer p.device.use.begin()()
	defer p.use.begin()()
	if p.asked.Swap(true) {
		p.use.broken("Status during Status")
	}
	defer p.asked.Store(false)
	if err := p.device.call(p.device.OnStatus); err != nil {
		return -1, err
	}
	return p.inner.Status(ctx)
}

func (p *program) Close() error {
	defer p.device.use.begin()()
	p.use.close()
	p.device.Programs.Add(-1)
	return p.inner.Close()
}

var errMisuse = errors.New("a promise to backends was broken")

// call calls a function of a test, if it is set.
func (d *Device) call(f func() error) (err error) {
	if f != nil {
		err = f()
	}
	if d.misuse.Load() {
		return errMisuse
	}
	return err
}

// use is the life of a device, buffer or program: no call overlaps Close or follows it.
type use struct {
	device *Device
	name   string
	calls  atomic.Int64
	single atomic.Bool // no other call may begin
	closed atomic.Bool
}

func (u *use) begin() (end func()) {
	u.calls.Add(1)
	if u.closed.Load() {
		u.broken("a call of what is closed")
	}
	if u.single.Load() {
		u.broken("a call during Update")
	}
	return func() { u.calls.Add(-1) }
}

// alone is begin for a call that must not overlap others.
func (u *use) alone() (end func()) {
	begun := u.begin()
	if u.calls.Load() > 1 {
		u.broken("Update during a call")
	}
	u.single.Store(true)
	return func() { u.single.Store(false); begun() }
}

func (u *use) close() {
	if u.closed.Swap(true) {
		u.broken("closed twice")
	}
	if u.calls.Load() > 0 {
		u.broken("closed during a call")
	}
}

func (u *use) broken(format string, args ...any) {
	u.device.misuse.Store(true)
	u.device.tb.Errorf("promise to backends broken: %s: %s", u.name, fmt.Sprintf(format, args...))
}

// FailNth makes one call fail among all calls of some devices, after n that succeed. hit reports whether
// there was such a call.
func FailNth(devices []*Device, n int, err error) (hit func() bool) {
	left := new(atomic.Int64)
	left.Store(int64(n))
	call := func() error {
		if left.Add(-1) == -1 {
			return err
		}
		return nil
	}
	for _, d := range devices {
		d.OnSubmit, d.OnRead, d.OnWrite, d.OnPrepare, d.OnUpdate, d.OnStatus, d.OnAlloc = call, call, call,
			call, call, call, call
		d.OnCopy, d.OnStartRead, d.OnFinish, d.OnCompile = call, call, call, call
	}
	return func() bool { return left.Load() < 0 }
}

// Held returns the number of open programs and buffers on some devices.
func Held(devices []*Device) (programs, buffers int32) {
	for _, d := range devices {
		programs += d.Programs.Load()
		buffers += d.Buffers.Load()
	}
	return programs, buffers
}
