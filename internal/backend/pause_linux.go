package backend

import (
	"syscall"
	"time"
)

// pause sleeps. Go's timers round up to 1 ms when the process is idle, where this
// takes 0.1 ms longer than asked for at most, as nanosleep called from C does. It may
// end early, by a signal.
func pause(t time.Duration) {
	left := syscall.NsecToTimespec(int64(t))
	_ = syscall.Nanosleep(&left, nil)
}
