// Package hostmem says how much host memory this process may still take.
//
// Go ends the process if the system refuses memory, and a container is killed if it touches more than it may
// have. So code that allocates by a caller's sizes asks here first, and gets an error instead.
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
	// grant is how much may be allocated between two looks at the limits. A look reads a dozen small files,
	// 0.2 ms, and touching 64 MiB takes 10 ms or more. Small allocations therefore cost next to nothing.
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

// demand is what a caller is about to take.
type demand struct {
	bytes   int64 // new memory
	touched int64 // existing memory of the process that was not touched yet and will be
	share   int64 // how much of the rest it may take: all (1), or half (2)
}

// need returns what the demand takes of what a limit counts.
func (d demand) need(l limit) int64 {
	if l.space {
		return d.bytes
	}
	return d.all()
}

func (d demand) all() int64 { return d.bytes + min(d.touched, math.MaxInt64-d.bytes) }

// fits reports whether a limit leaves enough.
func (d demand) fits(l limit) bool { return d.need(l) <= l.left/d.share }

// ledger bounds allocations between two looks.
type ledger struct {
	granted  atomic.Int64 // bytes that need no look
	look     func(from home) []limit
	patience time.Duration // how long a refusal waits for cleanups that a collection started
	mu       sync.Mutex    // held from a look until the memory is touched
}

// home is where memory comes from.
type home int

const (
	heap   home = iota // Go's heap, whose idle memory is reused
	mapped             // straight from the system
)

var process = ledger{look: limits, patience: 20 * time.Millisecond}

// Check fails if Go's heap has no room for that many more bytes. The error wraps hardware.ErrOutOfMemory and
// names the limit. The caller allocates and fills the bytes at once.
func Check(bytes int64) error {
	return CheckTouched(bytes, 0)
}

// CheckTouched is Check for a caller that also touches existing memory at once: that many bytes, as counted
// by Untouched.
func CheckTouched(bytes, touched int64) error {
	return process.take(heap, demand{bytes, touched, 1}, func() error { return nil })
}

// CheckHalf is Check for memory that soon needs the same amount again, as plans do when they are encoded, or
// that is made among garbage, which Go lets grow until the heap has doubled. It also fails if it would take
// more than half of the room.
func CheckHalf(bytes int64) error {
	return process.take(heap, demand{bytes, 0, 2}, func() error { return nil })
}

// Size returns how many bytes slices of that many float32 take together, or the largest number if that
// overflows.
func Size(lens ...int) (bytes int64) {
	for _, n := range lens {
		if int64(n) > (math.MaxInt64-bytes)/4 {
			return math.MaxInt64
		}
		bytes += 4 * int64(n)
	}
	return bytes
}

// Floats allocates n float32, all 0, or fails like Check. Free frees them. The memory is touched, so later
// looks see it in use. Large pieces are outside of Go's heap, so freed memory can be allocated again.
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

// Free frees memory from Floats, which must not be used any more.
func Free(s []float32) {
	if Size(len(s)) >= leastMapped {
		free(s)
	}
}

// take lets the caller allocate. Large allocations happen one at a time, so that no two count on the same
// memory.
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
	l.granted.Store(min(grant, (tight.left-d.need(tight))/4)) // a quarter: other processes take memory too
	return allocate()
}

func refusal(l limit, d demand) error {
	need := d.need(l)
	err := fmt.Errorf("%w: %s more are needed, %s leaves %s", hardware.ErrOutOfMemory, show(need),
		l.name, show(l.left))
	if need <= l.left {
		err = fmt.Errorf("%w; half of it may be taken", err)
	}
	return err
}

// collect frees memory that was released but still counts as in use, and looks again.
func (l *ledger) collect(from home, d demand) limit {
	debug.FreeOSMemory()
	for end := time.Now().Add(l.patience); ; time.Sleep(time.Millisecond) {
		tight := tightest(l.look(from), d)
		if d.fits(tight) || time.Now().After(end) {
			return tight
		}
	}
}

// tightest returns the limit of which a demand leaves least.
func tightest(limits []limit, d demand) limit {
	tight := limit{name: "the address space", left: addressSpace, space: true}
	for _, l := range limits {
		if l.left = max(l.left, 0); l.left-d.need(l) < tight.left-d.need(tight) {
			tight = l
		}
	}
	return tight
}

// addressSpace is that of a process on 64-bit processors, 47 bits, or Go's on others.
const addressSpace = min(1<<47, int64(math.MaxInt))

func show(bytes int64) string {
	if bytes < gib {
		return fmt.Sprintf("%.1f MiB", float64(bytes)/mib)
	}
	return fmt.Sprintf("%.1f GiB", float64(bytes)/gib)
}
