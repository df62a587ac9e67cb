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
	// maxQueued is the most submissions that wait. Further calls of Submit wait, so the queue stays bounded:
	// 64 bytes a run.
	maxQueued = 256
	// atOnce is how much work an idle device does within Submit, in multiply-adds: 12 us on one core of a
	// Xeon. Waking other threads for it takes 4 us more (8 products 16x16x16: 11.2 us here, 15 to 17 us by
	// two threads).
	atOnce = 40 << 10
)

// queue orders the users of a device, first come, first served: runs, and calls that need the device. An
// idle device has no waiting goroutines.
type queue struct {
	room    chan struct{} // holds a token for each unfinished submission
	mu      sync.Mutex
	busy    bool    // a run or a call has the device
	waiting []entry // from first on
	first   int
}

// entry is a run, a copy, a read, or the turn of a call.
type entry struct {
	image   *image   // nil: not a run
	copied  int      // elements from a to c; 0: not a copy
	read    *reading // of a; nil: not a read
	a, b, c *buffer
	sizes   *buffer // of a ragged plan, or experts' numbers
	extent  int     // of the sizes; see driver.Run
	b2      *buffer // operands of an epilogue, as are the next two
	bias    *buffer
	rows    *buffer
	last    bool          // the last of its submission
	clock   *clock        // nil: not timed
	turn    chan struct{} // gets a token when the call has the device
}

// clock has the times of a submission.
type clock struct{ start, end time.Time }

// turns are channels for waiting calls.
var turns = sync.Pool{New: func() any { return make(chan struct{}, 1) }}

// take waits for the device, after all work queued before. The caller releases it.
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

// withdraw removes a turn from the queue, if it has not come.
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

// release gives the device to the first waiting entry.
func (d *device) release() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.proceed()
}

// proceed is release for a caller with the lock.
func (d *device) proceed() {
	if d.current = d.next(); d.current.works() {
		go d.worker()
	}
}

// works reports whether the entry is work to execute.
func (e *entry) works() bool { return e.image != nil || e.copied > 0 || e.read != nil }

// next takes the first run, copy or read out of the queue. If a call comes first, it gets the device. If the
// queue is empty, the device becomes idle.
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

// push appends to the queue. It moves entries to the front if at least half of the memory is free.
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

// Copy is a submission, like a run.
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

// add is put after waiting for room for a submission.
func (d *device) add(ctx context.Context, amount, n int, made func(i int) entry) error {
	select {
	case d.room <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	d.put(amount, n, made)
	return nil
}

// put queues n entries, or does them at once if there is little work and the device is idle.
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
		a:     r.A.(*buffer), c: r.C.(*buffer), extent: r.Extent,
		last: i == len(runs)-1, clock: c,
	}
	e.b, _ = r.B.(*buffer) // nil if the plan has none, as the next four
	e.sizes, _ = r.Sizes.(*buffer)
	e.b2, _ = r.B2.(*buffer)
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

// uses returns the buffers that the entry needs, and nils.
func (e *entry) uses() [8]*buffer {
	all := [...]*buffer{e.a, e.b, e.c, e.sizes, e.b2, e.bias, e.rows, nil}
	if e.image != nil {
		all[len(all)-1] = e.image.workspace
	}
	return all
}

// drop releases what newEntry holds.
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

// check returns the amount of work of the runs, if all their objects belong to this device.
func (d *device) check(runs []driver.Run) (amount int, err error) {
	for i := range runs {
		p, _, err := backend.Operands[*program, *buffer](d, &runs[i])
		if err != nil {
			return 0, fmt.Errorf("run %d: %w", i, err)
		}
		if _, err := backend.Beside[*buffer](d, &runs[i]); err != nil {
			return 0, fmt.Errorf("run %d: %w", i, err)
		}
		if p.now.ragged != nil || p.now.layer {
			if _, err := backend.Sizes[*buffer](d, &runs[i]); err != nil {
				return 0, fmt.Errorf("run %d: %w", i, err)
			}
		}
		amount += p.now.work
	}
	return amount, nil
}

// work executes entries until a call has its turn or nothing waits.
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

// execute does a run with at most that many helpers.
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
