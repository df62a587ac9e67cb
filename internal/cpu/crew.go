package cpu

import (
	"sync"
	"sync/atomic"

	"github.com/batchgemm/batchgemm/planner/encoding"
)

// working counts the members of all crews of the process that are at work, so that
// devices which are used at the same time do not have more threads than one would have.
var working atomic.Int64

// crew executes runs: the goroutine that calls run, and helpers that are started for a
// launch and end with it.
type crew struct {
	own *scratch
	job job // the launch being run
}

// newCrew makes a crew of so many members, which leave their work when stop is set.
func newCrew(size int, with *instructions, stop *atomic.Bool) *crew {
	c := &crew{own: newScratch(with, stop)}
	for range size - 1 {
		t := newScratch(with, stop)
		c.job.helpers = append(c.job.helpers, func() {
			c.job.work(t)
			working.Add(-1)
			c.job.done.Done()
		})
	}
	return c
}

// run executes the launches in order, each after the one before is complete, until
// stop is set.
func (c *crew) run(e *entry, helpers int) {
	j := &c.job
	j.words, j.workspace = e.program.words, e.program.workspace.data
	for i := range e.program.launches {
		if c.own.stop.Load() {
			break
		}
		l := &e.program.launches[i]
		j.launch = l
		j.a = window(e.a.data, l.BaseA, l.SpanA)
		j.b = window(e.b.data, l.BaseB, l.SpanB)
		j.c = window(e.c.data, l.BaseC, l.SpanC)
		j.next.Store(0)
		n := min(helpers, l.Count-1)
		j.grain = int64(max(l.Count/((n+1)*shares), 1))
		j.absent.Store(int64(n))
		for j.recruit() {
		}
		j.work(c.own)
		j.done.Wait()
	}
	// Forget the buffers.
	j.launch, j.words, j.a, j.b, j.c, j.workspace = nil, nil, nil, nil, nil, nil
}

func window(data []float32, base, span int) []float32 { return data[base : base+span : base+span] }

// job is one launch on its buffers.
type job struct {
	launch    *encoding.Launch
	words     []uint32
	a, b, c   []float32 // the windows of the launch
	workspace []float32
	next      atomic.Int64 // first worker that nobody has taken
	grain     int64        // how many are taken at once: neighbours, whose memory is one cache's then
	helpers   []func()
	absent    atomic.Int64 // helpers that may yet be started, the first ones
	done      sync.WaitGroup
}

// recruit starts a helper, if one is absent and the process has a thread for it.
func (j *job) recruit() bool {
	if j.absent.Load() <= 0 {
		return false
	}
	for n := working.Load(); ; n = working.Load() {
		if n > int64(len(j.helpers)) {
			return false
		}
		if working.CompareAndSwap(n, n+1) {
			break
		}
	}
	n := j.absent.Add(-1)
	if n < 0 { // another member was faster
		j.absent.Add(1)
		working.Add(-1)
		return false
	}
	j.done.Add(1)
	go j.helpers[n]()
	return true
}

// shares are how often a member takes workers, if there are so many: what the last one
// takes is little then.
const shares = 64

// work takes workers until none is left or the device stops. A thread that another
// device has done with is taken on at once.
func (j *job) work(t *scratch) {
	for !t.stop.Load() {
		end := int(j.next.Add(j.grain))
		w := end - int(j.grain)
		if w >= j.launch.Count {
			return
		}
		if end < j.launch.Count {
			j.recruit()
		}
		for ; w < min(end, j.launch.Count) && !t.stop.Load(); w++ {
			j.worker(t, w)
		}
	}
}

// worker processes the items of one worker.
func (j *job) worker(t *scratch, w int) {
	l := j.launch
	area := l.Tile.TM * l.Tile.TN
	if l.Fixup {
		t.turn.take(area)
		j.fixup(j.words[l.Items+w*encoding.FixupWords:])
		return
	}
	first, end := w, w+1
	if l.Loop {
		first, end = int(j.words[l.Table+w]), int(j.words[l.Table+w+1])
	}
	for i := first; i < end; i++ {
		t.turn.take(area)
		j.segment(t, j.words[l.Items+i*encoding.ItemWords:])
	}
}
