package backend

import (
	"syscall"
	"time"
)

// pause sleeps. Go's timers round up to 1 ms when the process is idle. This takes at most 0.1 ms longer than
// asked for, like nanosleep in C. A signal may end it early.
func pause(t time.Duration) {
	left := syscall.NsecToTimespec(int64(t))
	_ = syscall.Nanosleep(&left, nil)
}
