package cpu

import (
	"runtime"
	"time"
)

const (
	// turnTime is how long a thread computes before it yields. Go would let it run for 10 ms, and longer
	// within assembly, and delay calls whose context ends by that time. If eight devices compete for two
	// processors, turns of 0.5, 1 and 2 ms cost 4, 3 and 1 % of the throughput; alone they cost nothing.
	turnTime = time.Millisecond
	// glance is the work between two looks at the clock, in multiply-adds: 3 to 50 us.
	glance = 1 << 18
)

// turn is the time that a goroutine of a crew has had its processor.
type turn struct {
	work  int // since the last look at the clock
	start time.Time
}

// take yields, if it is time, before that many multiply-adds are done. It does not yield while a processor
// is idle.
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
