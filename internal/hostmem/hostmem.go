// Package hostmem says how much memory of the host this process may still take.
//
// Go ends the process when the system refuses memory, and a container is killed
// when it touches more than it may have. So whoever allocates what a caller's
// sizes ask for asks here before, and gets an error instead.
package hostmem

import (
	"fmt"
	"math"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/batchgemm/batchgemm/internal/hardware"
)

const (
	mib = 1 << 20
	gib = 1 << 30
	// grant is how much may be allocated between two looks at the limits. A look
	// reads a dozen small files, 0.2 ms, and to touch 64 MiB takes 10 ms or more;
	// small allocations thus cost next to nothing.
	grant = 64 * mib
	// leastMapped is the size in bytes from which memory is mapped. A mapping costs
	// some microseconds, and a process of Linux may have 65530 of them.
	leastMapped = mib
)

// limit is what one rule leaves to the process.
type limit struct {
	name  string
	left  int64 // bytes
	space bool  // of the address space, touched or not
}

// demand is what somebody is about to take.
type demand struct {
	bytes   int64 // new memory
	touched int64 // memory that the process has and has not touched, which will be
	share   int64 // how much it may be of what is left: all (1), or half (2)
}

// need is what the demand takes of what a limit counts.
func (d demand) need(l limit) int64 {
	if l.space {
		return d.bytes
	}
	return d.all()
}

func (d demand) all() int64 { return d.bytes + min(d.touched, math.MaxInt64-d.bytes) }

// fits reports whether a limit leaves as much.
func (d demand) fits(l limit) bool { return d.need(l) <= l.left/d.share }

// ledger bounds what is allocated between two looks.
type ledger struct {
	granted  atomic.Int64 // bytes that need no look
	look     func(from home) []limit
	patience time.Duration // that a refusal has for cleanups which a collection set off
	mu       sync.Mutex    // held from a look until the memory is touched
}

// home is where memory comes from.
type home int

const (
	heap   home = iota // Go's, of which what is idle serves again
	mapped             // straight from the system
)

var process = ledger{look: limits, patience: 20 * time.Millisecond}

// Check fails with an error that wraps hardware.ErrOutOfMemory and names the limit
// when Go's heap has no room for so many bytes more. The caller allocates and
// fills them at once.
func Check(bytes int64) error {
	return CheckTouched(bytes, 0)
}

// CheckTouched is Check where memory besides is touched at once that the process has already: so many bytes,
// as Untouched counts them.
func CheckTouched(bytes, touched int64) error {
	return process.take(heap, demand{bytes, touched, 1}, func() error { return nil })
}

// CheckHalf is Check for what asks for as much again when it is there, as plans do that are encoded, and for
// what is made among garbage, which Go lets grow until the heap has doubled: it fails too where more than
// half of the room would be taken.
func CheckHalf(bytes int64) error {
	return process.take(heap, demand{bytes, 0, 2}, func() error { return nil })
}

// Size is how many bytes slices of so many float32 take together, or the largest
// number if that is too small.
func Size(lens ...int) (bytes int64) {
	for _, n := range lens {
		if int64(n) > (math.MaxInt64-bytes)/4 {
			return math.MaxInt64
		}
		bytes += 4 * int64(n)
	}
	return bytes
}

// Floats allocates n float32, all 0, or fails as Check does; Free frees them. The
// memory is touched, so that later looks see it in use, and large pieces are none
// of Go's heap, so that what was freed can be had again.
func Floats(n int) (s []float32, err error) {
	bytes, from := Size(n), heap
	if bytes >= leastMapped {
		from = mapped
	}
	err = process.take(from, demand{bytes, 0, 1}, func() (err error) {
		if from == heap {
			s = make([]float32, n)
			clear(s) // pages that are new to Go were not touched
			return nil
		}
		s, err = allocate(n)
		return err
	})
	return s, err
}

// Free frees what Floats allocated. It must not be used any more.
func Free(s []float32) {
	if Size(len(s)) >= leastMapped {
		free(s)
	}
}

// take lets the caller allocate. Much is allocated one at a time, so that no two count on the same memory.
func (l *ledger) take(from home, d demand, allocate func() error) error {
	all := d.all()
	for g := l.granted.Load(); all <= g; g = l.granted.Load() {
		if l.granted.CompareAndSwap(g, g-all) {
			return allocate()
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	tight := tightest(l.look(from), d)
	if !d.fits(tight) {
		tight = l.collect(from, d)
	}
	if !d.fits(tight) {
		return refusal(tight, d)
	}
	l.granted.Store(min(grant, (tight.left-d.need(tight))/4)) // a quarter: others take memory too
	return allocate()
}

func refusal(l limit, d demand) error {
	need := d.need(l)
	err := fmt.Errorf("%w: %s more are needed, %s leaves %s", hardware.ErrOutOfMemory, show(need),
		l.name, show(l.left))
	if need <= l.left {
		err = fmt.Errorf("%w, of which half may be taken", err)
	}
	return err
}

// collect frees what was let go but still counts as in use, and looks again.
func (l *ledger) collect(from home, d demand) limit {
	debug.FreeOSMemory()
	for end := time.Now().Add(l.patience); ; time.Sleep(time.Millisecond) {
		tight := tightest(l.look(from), d)
		if d.fits(tight) || time.Now().After(end) {
			return tight
		}
	}
}

// tightest is the limit of which a demand leaves least.
func tightest(limits []limit, d demand) limit {
	tight := limit{name: "the address space", left: addressSpace, space: true}
	for _, l := range limits {
		if l.left = max(l.left, 0); l.left-d.need(l) < tight.left-d.need(tight) {
			tight = l
		}
	}
	return tight
}

// addressSpace is that of a process on 64-bit processors, 47 bits, or of Go on
// others.
const addressSpace = min(1<<47, int64(math.MaxInt))

func show(bytes int64) string {
	if bytes < gib {
		return fmt.Sprintf("%.1f MiB", float64(bytes)/mib)
	}
	return fmt.Sprintf("%.1f GiB", float64(bytes)/gib)
}
