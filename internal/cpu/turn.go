package cpu

import (
	"runtime"
	"time"
)

const (
	// turnTime is for how long a thread computes before others have their turn. Go would
	// leave it the processor for 10 ms, and within assembly for longer: so late would
	// calls return whose context ends. Where eight devices compete for two processors,
	// turns of 0.5, 1 and 2 ms cost 4, 3 and 1 % of the throughput, alone nothing.
	turnTime = time.Millisecond
	// glance is the work between two looks at the clock, in multiply-adds: 3 to 50 us.
	glance = 1 << 18
)

// turn is the time that a goroutine of a crew has had on its processor.
type turn struct {
	work  int // since the last look at the clock
	start time.Time
}

// take gives way, if it is time, before work of so many multiply-adds is done. While a
// processor is idle there is nobody to give way to.
func (t *turn) take(work int) {
	if t.work += work; t.work < glance {
		return
	}
	t.work = 0
	if time.Since(t.start) < turnTime {
		return
	}
	if int(working.Load()) >= runtime.GOMAXPROCS(0) {
		runtime.Gosched()
	}
	t.start = time.Now()
}
