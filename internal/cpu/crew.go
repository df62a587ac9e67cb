package cpu

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/planner"
)

// crew is a set of goroutines that share the workers of a launch. The goroutine
// that calls run is one of them, so a crew of one starts none.
type crew struct {
	own     tile
	helpers int
	jobs    chan *job
	job     job // the launch being run
}

func (c *crew) start(size int) {
	c.helpers = size - 1
	c.jobs = make(chan *job, c.helpers)
	for range c.helpers {
		go func() {
			var t tile
			for j := range c.jobs {
				j.work(&t)
				j.done.Done()
			}
		}()
	}
}

func (c *crew) stop() { close(c.jobs) }

// run executes the launches in order, each after the one before is complete. It
// fails only when ctx ends before every worker has begun.
func (c *crew) run(ctx context.Context, r *driver.Run) error {
	p := r.Program.(*program)
	j := &c.job
	j.ctx, j.words, j.workspace = ctx, p.words, p.workspace
	defer j.forget()
	for i := range p.launches {
		l := &p.launches[i]
		j.launch = l
		j.a = window(r.A, l.BaseA, l.SpanA)
		j.b = window(r.B, l.BaseB, l.SpanB)
		j.c = window(r.C, l.BaseC, l.SpanC)
		j.next.Store(0)
		helpers := min(c.helpers, l.Count-1)
		j.done.Add(helpers)
		for range helpers {
			c.jobs <- j
		}
		j.work(&c.own)
		j.done.Wait()
		if int(j.next.Load()) < l.Count {
			return ctx.Err()
		}
	}
	return nil
}

func window(b driver.Buffer, base, span int) []float32 {
	return b.(*buffer).data[base : base+span : base+span]
}

// job is one launch on its buffers.
type job struct {
	ctx       context.Context
	launch    *planner.Launch
	words     []uint32
	a, b, c   []float32 // the windows of the launch
	workspace []float32
	next      atomic.Int64 // first worker that nobody has taken
	done      sync.WaitGroup
}

// forget drops the references of a finished job.
func (j *job) forget() {
	j.ctx, j.launch, j.words, j.a, j.b, j.c, j.workspace = nil, nil, nil, nil, nil, nil, nil
}

// work takes workers until none is left or the context ends.
func (j *job) work(t *tile) {
	for j.ctx.Err() == nil {
		w := int(j.next.Add(1)) - 1
		if w >= j.launch.Count {
			return
		}
		j.worker(t, w)
	}
}

// worker processes the items of one worker.
func (j *job) worker(t *tile, w int) {
	l := j.launch
	if l.Fixup {
		j.fixup(j.words[l.Items+w*planner.FixupWords:])
		return
	}
	first, end := w, w+1
	if l.Loop {
		first, end = int(j.words[l.Table+w]), int(j.words[l.Table+w+1])
	}
	for i := first; i < end; i++ {
		j.segment(t, j.words[l.Items+i*planner.ItemWords:])
	}
}
