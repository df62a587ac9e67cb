package dispatch

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/cpu"
	"github.com/batchgemm/batchgemm/planner"
)

var errBroken = errors.New("broken")

// fake is a backend whose devices are real ones of the cpu backend, so that
// results are right, with counters and failures.
type fake struct {
	name      string
	software  []bool        // per device
	devices   error         // fails Devices
	open      error         // fails Open
	openIndex map[int]error // fails Open of one device
	device    *fakeDevice   // opened last
	opened    []*fakeDevice // all
}

func (f *fake) Name() string { return f.name }

func (f *fake) Devices(context.Context) ([]driver.Info, error) {
	var infos []driver.Info
	for i, software := range f.software {
		infos = append(infos, driver.Info{Backend: f.name, Index: i, Name: fmt.Sprint(f.name, i), Software: software})
	}
	return infos, f.devices
}

func (f *fake) Open(ctx context.Context, index int) (driver.Device, error) {
	if f.open != nil {
		return nil, f.open
	}
	if err := f.openIndex[index]; err != nil {
		return nil, err
	}
	d, err := cpu.Driver().Open(ctx, 0)
	if err != nil {
		return nil, err
	}
	info := d.Info()
	info.Backend, info.Index, info.Name = f.name, index, fmt.Sprint(f.name, index)
	f.device = &fakeDevice{Device: d, info: info}
	f.opened = append(f.opened, f.device)
	return f.device, nil
}

// fakeDevice counts what is open and fails calls on demand.
type fakeDevice struct {
	driver.Device
	info              driver.Info
	prepared          atomic.Int32                 // calls of Prepare
	plan              atomic.Pointer[planner.Plan] // of the last one
	writes            atomic.Int32                 // calls of Buffer.Write
	written           atomic.Int64                 // elements
	allocated, most   atomic.Int64                 // elements of open buffers, now and at most
	programs, buffers atomic.Int32                 // open
	closes            atomic.Int32
	submit, read      func() error // nil: go on
	prepare, alloc    func() error
	write             func() error
	closing           func()
}

func (d *fakeDevice) Info() driver.Info { return d.info }

func (d *fakeDevice) Close() error {
	d.closes.Add(1)
	if d.closing != nil {
		d.closing()
	}
	return d.Device.Close()
}

func (d *fakeDevice) Alloc(n int) (driver.Buffer, error) {
	if d.alloc != nil {
		if err := d.alloc(); err != nil {
			return nil, err
		}
	}
	b, err := d.Device.Alloc(n)
	if err != nil {
		return nil, err
	}
	d.buffers.Add(1)
	d.most.Store(max(d.most.Load(), d.allocated.Add(int64(n))))
	return &fakeBuffer{b, d}, nil
}

func (d *fakeDevice) Prepare(ctx context.Context, p *planner.Plan) (driver.Program, error) {
	if d.prepare != nil {
		if err := d.prepare(); err != nil {
			return nil, err
		}
	}
	made, err := d.Device.Prepare(ctx, p)
	if err != nil {
		return nil, err
	}
	d.prepared.Add(1)
	d.plan.Store(p)
	d.programs.Add(1)
	return &fakeProgram{made, d}, nil
}

func (d *fakeDevice) Submit(ctx context.Context, runs []driver.Run) error {
	if d.submit != nil {
		if err := d.submit(); err != nil {
			return err
		}
	}
	return d.Device.Submit(ctx, unwrap(runs))
}

func (d *fakeDevice) Time(ctx context.Context, runs []driver.Run) (driver.Timing, error) {
	return d.Device.Time(ctx, unwrap(runs))
}

func unwrap(runs []driver.Run) []driver.Run {
	inner := make([]driver.Run, len(runs))
	for i, r := range runs {
		inner[i] = driver.Run{
			Program: r.Program.(*fakeProgram).Program,
			A:       r.A.(*fakeBuffer).Buffer, B: r.B.(*fakeBuffer).Buffer, C: r.C.(*fakeBuffer).Buffer,
		}
	}
	return inner
}

type fakeProgram struct {
	driver.Program
	device *fakeDevice
}

func (p *fakeProgram) Close() error {
	p.device.programs.Add(-1)
	return p.Program.Close()
}

type fakeBuffer struct {
	driver.Buffer
	device *fakeDevice
}

func (b *fakeBuffer) Write(ctx context.Context, offset int, src []float32) error {
	if b.device.write != nil {
		if err := b.device.write(); err != nil {
			return err
		}
	}
	b.device.writes.Add(1)
	b.device.written.Add(int64(len(src)))
	return b.Buffer.Write(ctx, offset, src)
}

func (b *fakeBuffer) Read(ctx context.Context, offset int, dst []float32) error {
	if err := b.Buffer.Read(ctx, offset, dst); err != nil {
		return err
	}
	if b.device.read != nil {
		return b.device.read()
	}
	return nil
}

func (b *fakeBuffer) Close() error {
	b.device.buffers.Add(-1)
	b.device.allocated.Add(-int64(b.Len()))
	return b.Buffer.Close()
}
