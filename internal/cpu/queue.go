package cpu

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/backend"
)

const (
	// maxQueued is how many submissions wait at most. A caller of Submit then waits
	// too, so that what is queued stays bounded: 64 bytes a run.
	maxQueued = 256
	// atOnce is the work that an idle device does within Submit, in multiply-adds: 12
	// us on one core of a Xeon. To wake other threads for it takes 4 us more (8
	// products 16x16x16: 11.2 us here, 15 to 17 us by two threads).
	atOnce = 40 << 10
)

// queue orders what uses a device: runs, and calls that need it for themselves.
// First come, first served. Nothing waits in an idle device, no goroutine either.
type queue struct {
	room    chan struct{} // holds a token for each submission that is not done
	mu      sync.Mutex
	busy    bool    // a run or a call has the device
	waiting []entry // from first on
	first   int
}

// entry is a run, or a copy, or a read, or the turn of a call.
type entry struct {
	image   *image   // nil: no run
	copied  int      // elements of a, to c; 0: no copy
	read    *reading // of a; nil: no read
	a, b, c *buffer
	sizes   *buffer // of a ragged plan
	extent  int     // of these sizes: see driver.Run
	b2      *buffer // what an epilogue has, as the next two
	bias    *buffer
	rows    *buffer
	last    bool          // of its submission
	clock   *clock        // nil: not timed
	turn    chan struct{} // gets a token when the device is the call's
}

// clock has the times of a submission.
type clock struct{ start, end time.Time }

// turns are channels for calls that wait.
var turns = sync.Pool{New: func() any { return make(chan struct{}, 1) }}

// take waits until the device is the caller's, who releases it, after all work
// queued before.
func (d *device) take(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	d.mu.Lock()
	if !d.busy {
		d.busy = true
		d.mu.Unlock()
		return nil
	}
	turn := turns.Get().(chan struct{})
	defer turns.Put(turn)
	d.push(entry{turn: turn})
	d.mu.Unlock()
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
	}
	if !d.withdraw(turn) {
		<-turn // it came at the same moment
		d.release()
	}
	return ctx.Err()
}

// withdraw takes a turn out of the queue, if it has not come.
func (d *device) withdraw(turn chan struct{}) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := d.first; i < len(d.waiting); i++ {
		if d.waiting[i].turn == turn {
			d.waiting = slices.Delete(d.waiting, i, i+1)
			return true
		}
	}
	return false
}

// release gives the device to what waits first.
func (d *device) release() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.proceed()
}

// proceed is release under the lock.
func (d *device) proceed() {
	if d.current = d.next(); d.current.works() {
		go d.worker()
	}
}

// works reports whether there is something to execute.
func (e *entry) works() bool { return e.image != nil || e.copied > 0 || e.read != nil }

// next takes the first run, copy or read out of the queue. If a call comes before it, the
// device is the call's; if nothing does, it is idle.
func (q *queue) next() entry {
	if q.first < len(q.waiting) {
		e := q.waiting[q.first]
		q.waiting[q.first] = entry{}
		q.first++
		if e.works() {
			return e
		}
		e.turn <- struct{}{}
		return entry{}
	}
	q.busy, q.waiting, q.first = false, q.waiting[:0], 0
	return entry{}
}

// push appends to the queue, in place when half of it or more is free.
func (q *queue) push(e entry) {
	if len(q.waiting) == cap(q.waiting) && 2*q.first >= len(q.waiting) {
		n := copy(q.waiting, q.waiting[q.first:])
		clear(q.waiting[n:])
		q.waiting, q.first = q.waiting[:n], 0
	}
	q.waiting = append(q.waiting, e)
}

// submit queues the runs.
func (d *device) submit(ctx context.Context, runs []driver.Run, c *clock) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	amount, err := d.check(runs)
	if err != nil || len(runs) == 0 {
		return err
	}
	return d.add(ctx, amount, len(runs), func(i int) entry { return newEntry(runs, i, c) })
}

// Copy is a submission, as one run is.
func (d *device) Copy(ctx context.Context, dst, src driver.Buffer, bytes int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	to, from, err := backend.Pair[*buffer](d, dst, src)
	if err != nil {
		return err
	}
	words := (bytes + 3) / 4
	return d.add(ctx, words, 1, func(int) entry {
		from.hold()
		to.hold()
		return entry{copied: words, a: from, c: to, last: true}
	})
}

// add is put when there is room for a submission.
func (d *device) add(ctx context.Context, amount, n int, made func(i int) entry) error {
	select {
	case d.room <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	d.put(amount, n, made)
	return nil
}

// put queues n entries, or, when the amount of work is little and the device is idle, does them.
func (d *device) put(amount, n int, made func(i int) entry) {
	d.mu.Lock()
	defer d.mu.Unlock()
	idle := !d.busy
	d.busy = true
	if idle && amount <= atOnce {
		d.mu.Unlock()
		for i := range n {
			d.execute(made(i), 0)
		}
		d.mu.Lock()
	} else {
		for i := range n {
			d.push(made(i))
		}
	}
	if idle {
		d.proceed()
	}
}

func newEntry(runs []driver.Run, i int, c *clock) entry {
	r := &runs[i]
	e := entry{
		image: r.Program.(*program).now,
		a:     r.A.(*buffer), b: r.B.(*buffer), c: r.C.(*buffer),
		last: i == len(runs)-1, clock: c,
	}
	if e.image.ragged != nil {
		e.sizes, e.extent = r.Sizes.(*buffer), r.Extent
	}
	e.b2, _ = r.B2.(*buffer) // nil where the plan has none
	e.bias, _ = r.Bias.(*buffer)
	e.rows, _ = r.Rows.(*buffer)
	e.image.users.Add(1)
	for _, b := range e.uses() {
		if b != nil {
			b.hold()
		}
	}
	return e
}

// uses are the buffers that the run or copy needs, and nil.
func (e *entry) uses() [8]*buffer {
	all := [...]*buffer{e.a, e.b, e.c, e.sizes, e.b2, e.bias, e.rows, nil}
	if e.image != nil {
		all[len(all)-1] = e.image.workspace
	}
	return all
}

// drop lets go of what newEntry holds.
func (e *entry) drop() {
	for _, b := range e.uses() {
		if b != nil {
			b.drop()
		}
	}
	if e.image != nil {
		e.image.users.Add(-1)
	}
}

// check returns how much work the runs are, if all that they name is of this device.
func (d *device) check(runs []driver.Run) (amount int, err error) {
	for i := range runs {
		p, _, err := backend.Operands[*program, *buffer](d, &runs[i])
		if err != nil {
			return 0, fmt.Errorf("run %d: %w", i, err)
		}
		if _, err := backend.Beside[*buffer](d, &runs[i]); err != nil {
			return 0, fmt.Errorf("run %d: %w", i, err)
		}
		if p.now.ragged != nil {
			if _, err := backend.Sizes[*buffer](d, &runs[i]); err != nil {
				return 0, fmt.Errorf("run %d: %w", i, err)
			}
		}
		amount += p.now.work
	}
	return amount, nil
}

// work executes runs until the turn of a call comes, or nothing waits.
func (d *device) work() {
	working.Add(1)
	defer working.Add(-1)
	e := d.current
	for d.current = (entry{}); e.works(); {
		d.execute(e, cap(d.crew.job.absent))
		d.mu.Lock()
		e = d.next()
		d.mu.Unlock()
	}
}

// execute does a run with so many helpers at most.
func (d *device) execute(e entry, helpers int) {
	if e.clock != nil && e.clock.start.IsZero() {
		e.clock.start = time.Now()
	}
	switch {
	case e.read != nil:
		e.read.fill()
	case e.image == nil:
		copy(e.c.data[:e.copied], e.a.data)
	case e.image.ragged != nil:
		d.crew.runRagged(&e, helpers)
	default:
		d.crew.run(&e, helpers)
	}
	if e.clock != nil {
		e.clock.end = time.Now()
	}
	e.drop()
	if e.last {
		<-d.room
	}
}
