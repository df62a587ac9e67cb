package cpu

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/planner/element"
)

// working counts the working members of all crews in the process, so that concurrent devices together have
// no more threads than one device would have.
var working atomic.Int64

// linger is how long members of a crew wait in a loop for each other, and helpers for the next launch: about
// the time to wake a thread, 30 to 100 us.
const linger = 50 * time.Microsecond

// crew executes runs on the goroutine that calls run, and on helpers that start for a launch and end soon
// after the last one.
type crew struct {
	own    *scratch
	job    job   // the launch being run
	joined int64 // total number of times that helpers took part in a launch
}

// newCrew makes a crew of that many members, which stop working when stop is set.
func newCrew(size int, with *instructions, stop *atomic.Bool) *crew {
	c := &crew{own: newScratch(with, stop)}
	c.job.absent = make(chan func(), size-1)
	for range size - 1 {
		t := newScratch(with, stop)
		var help func()
		help = func() {
			c.job.help(t)
			c.job.absent <- help
		}
		c.job.absent <- help
	}
	return c
}

// run executes the launches in order, each after the previous one is complete, until stop is set.
func (c *crew) run(e *entry, helpers int) {
	j := &c.job
	j.words, j.workspace = e.image.words, e.image.workspace.data
	for i := range e.image.launches {
		if c.own.stop.Load() {
			break
		}
		l := &e.image.launches[i]
		j.launch, j.plain = l, plain(l)
		if !l.Fixup {
			j.a, j.bitsA = window(e.a, l.TypeA, l.BaseA, l.SpanA)
		}
		switch {
		case l.Layer > 0:
			j.sizes, j.extent = wordsOf(e.sizes.data), e.extent
			if l.Layer == encoding.LayerGateBackward {
				j.b, j.bitsB = window(e.b, l.TypeA, l.BaseB, l.SpanB)
			}
		case !l.Fixup:
			j.b, j.bitsB = window(e.b, l.TypeB(), l.BaseB, l.SpanB)
			if l.Epilogue.Gated {
				j.b2, j.bitsB2 = window(e.b2, l.TypeB(), l.BaseB2, l.SpanB2)
			}
		}
		if l.Epilogue.Bias {
			j.bias, j.bitsBias = window(e.bias, l.TypeC, 0, l.SpanBias)
		}
		if e.rows != nil {
			j.rows = wordsOf(e.rows.data)[:l.SpanRows]
		}
		j.c, j.bitsC = window(e.c, l.TypeC, l.BaseC, l.SpanC)
		j.next.Store(0)
		helpers := min(helpers, l.Count-1)
		j.grain = int64(grain(l.Count, helpers+1, e.image.work))
		c.launch(helpers)
	}
	// Forget the buffers.
	j.launch, j.words, j.a, j.b, j.c, j.workspace = nil, nil, nil, nil, nil, nil
	j.bitsA, j.bitsB, j.bitsC, j.bitsB2, j.bitsBias = narrow{}, narrow{}, narrow{}, narrow{}, narrow{}
	j.b2, j.bias, j.rows, j.sizes = nil, nil, nil, nil
}

// launch does the job with at most that many helpers.
func (c *crew) launch(helpers int) {
	j := &c.job
	j.done.Add(helpers)
	j.places.Store(int64(helpers))
	if j.recruit() {
		for j.recruit() {
		}
		go last()
	}
	j.work(c.own)
	left := int(j.places.Swap(0))
	j.done.Add(-left)
	c.joined += int64(helpers - left)
	for start := time.Now(); j.finished.Load() < c.joined; {
		if time.Since(start) > linger {
			j.parked.Store(true)
			break
		}
	}
	j.done.Wait()
	j.parked.Store(false)
}

// window returns elements [base, base+span) of a buffer, as numbers or as bits.
func window(b *buffer, of element.Type, base, span int) (numbers []float32, bits narrow) {
	if of == element.F32 {
		return b.data[base : base+span : base+span], narrow{}
	}
	// The last word of a caller's memory may be there in part.
	end := of.Size(base + span)
	_ = b.data[:(end+3)/4]
	return nil, narrow{of, unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(b.data))), end)}.from(base)
}

// job is one launch on its buffers.
type job struct {
	launch    *encoding.Launch
	plain     bool
	words     []uint32
	a, b, c   []float32 // the windows of the launch
	bitsA     narrow    // used instead if elements are not F32
	bitsB     narrow
	bitsC     narrow
	b2, bias  []float32 // the same for an epilogue
	bitsB2    narrow
	bitsBias  narrow
	rows      []int32
	sizes     []int32 // experts' numbers, and how many tokens there are; 0: all
	extent    int
	workspace []float32
	next      atomic.Int64 // first worker that is not taken
	grain     int64        // how many to take at once: neighbours share the data of one cache

	places    atomic.Int64 // free places for helpers
	absent    chan func()  // helpers to start
	lingering atomic.Int64 // helpers that will take a place when there is one
	finished  atomic.Int64 // how often helpers have finished a launch
	done      sync.WaitGroup
	parked    atomic.Bool // the caller sleeps until the launch is done
}

// recruit starts a helper if there is a place that no lingering helper will take, and if the process has a
// thread for it.
func (j *job) recruit() bool {
	if j.places.Load() <= j.lingering.Load() {
		return false
	}
	for n := working.Load(); ; n = working.Load() {
		if n > int64(cap(j.absent)) {
			return false
		}
		if working.CompareAndSwap(n, n+1) {
			break
		}
	}
	select {
	case help := <-j.absent:
		j.lingering.Add(1)
		go help()
		return true
	default: // it is about to end
		working.Add(-1)
		return false
	}
}

// last is a goroutine to start after others. Go keeps the newest goroutine of a processor for that
// processor, as it may soon be idle, and others wait 50 to 100 us before they steal it (runqgrab in Go's
// runtime).
func last() {}

// help takes part in launches as long as they follow soon.
func (j *job) help(t *scratch) {
	for j.join() {
		j.work(t)
		j.lingering.Add(1)
		j.done.Done()
		j.finished.Add(1)
	}
	working.Add(-1)
}

// join waits for a place, as long as one may come and the processor has nothing else to do.
func (j *job) join() bool {
	for start, processors := time.Now(), runtime.GOMAXPROCS(0); ; {
		if j.take() {
			j.lingering.Add(-1)
			return true
		}
		if j.parked.Load() || int(working.Load()) > processors || time.Since(start) > linger {
			j.lingering.Add(-1)
			return j.take() // a launch may have counted on this helper
		}
	}
}

// take takes a place.
func (j *job) take() bool {
	for n := j.places.Load(); n > 0; n = j.places.Load() {
		if j.places.CompareAndSwap(n, n-1) {
			return true
		}
	}
	return false
}

// shares is how often a member takes workers, if there are enough. The last share is then small. But with
// less work than takeWork, in multiply-adds, a member takes more, up to 1/fewShares: it takes 0.1 us to get
// the counter from another processor, as long as a 16x16x16.
const shares, fewShares, takeWork = 64, 8, 1 << 16

// grain returns how many of the workers, which have that much work together, a member takes at once.
func grain(workers, members, work int) int {
	least := int(int64(takeWork) * int64(workers) / int64(max(work, 1)))
	return max(workers/(members*shares), min(least, workers/(members*fewShares)), 1)
}

// work takes workers until none is left or the device stops. It also starts helpers as other devices release
// threads.
func (j *job) work(t *scratch) {
	if j.launch.TypeC == element.F64 {
		t = t.forF64()
	}
	defer t.forget()
	for !t.stop.Load() {
		end := int(j.next.Add(j.grain))
		w := end - int(j.grain)
		if w >= j.launch.Count {
			return
		}
		if end < j.launch.Count {
			j.recruit()
		}
		if end = min(end, j.launch.Count); j.plain {
			j.plainWorkers(t, w, end)
			continue
		}
		for ; w < end && !t.stop.Load(); w++ {
			j.worker(t, w)
		}
	}
}

// worker processes the items of one worker.
func (j *job) worker(t *scratch, w int) {
	l := j.launch
	if l.Layer > 0 {
		j.step(w)
		return
	}
	area := l.Tile.TM * l.Tile.TN
	if l.Fixup {
		t.turn.take(area)
		j.fixup(t, j.words[l.Items+w*l.ItemWords():])
		return
	}
	first, end := w, w+1
	if l.Loop {
		first, end = int(j.words[l.Table+w]), int(j.words[l.Table+w+1])
	}
	words := l.ItemWords()
	for i := first; i < end; i++ {
		t.turn.take(area)
		j.segment(t, j.words[l.Items+i*words:])
	}
}
