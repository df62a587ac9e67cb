package cpu

import (
	"context"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/invalid"
)

// Compute implements backend.InHost. The caller does the run, with helpers, while it has the device: once it
// returns, nothing touches the memory.
func (d *device) Compute(ctx context.Context, p driver.Program, memory [6][]float32) error {
	own, ok := p.(*program)
	if !ok || own.On() != d {
		return invalid.Errorf("%s: the program is of another device", name)
	}
	if err := d.take(ctx); err != nil {
		return err
	}
	defer d.release()
	for i := range memory {
		d.given[i].data = memory[i]
	}
	defer clear(d.given[:])
	g := &d.given
	e := entry{image: own.now, a: &g[0], b: &g[1], c: &g[2], b2: &g[3], bias: &g[4], rows: &g[5]}
	helpers, ended := 0, func() error { return nil }
	if e.image.work > atOnce {
		helpers, ended = cap(d.crew.job.absent), d.stopWith(ctx)
	}
	working.Add(1)
	d.crew.run(&e, helpers)
	working.Add(-1)
	return ended()
}

// stopWith stops the run that has the device when ctx ends. The caller calls ended after the run: it returns
// ctx's error if the run was stopped.
func (d *device) stopWith(ctx context.Context) (ended func() error) {
	stopped := make(chan struct{})
	forget := context.AfterFunc(ctx, func() {
		d.stop.Store(true)
		close(stopped)
	})
	return func() error {
		if forget() {
			return nil
		}
		<-stopped
		d.mu.Lock()
		defer d.mu.Unlock()
		d.stop.Store(d.closing)
		return ctx.Err()
	}
}

// forget drops pointers to operands, so that Go can free them.
func (t *scratch) forget() {
	t.micro.a, t.micro.b, t.micro.c, t.micro.sum = nil, nil, nil, nil
	clear(t.along.a[:])
	clear(t.packed.parts[:])
	if t.run != nil {
		clear(t.run.tiles[:])
	}
	if t.few != nil {
		t.few.words, t.few.groups, t.few.columns = nil, nil, nil
	}
	if t.along.b = nil; t.half != nil {
		t.half.part = product{}
		t.half.tail.scatter, t.half.tail.weights, t.half.tail.scales = nil, nil, scales{}
	}
}
