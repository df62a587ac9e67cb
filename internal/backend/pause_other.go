//go:build !linux

package backend

import "time"

// pause sleeps. On other systems Go's timers suffice: kqueue takes nanoseconds, and on Windows they have
// half a millisecond since Go 1.23 (not measured here).
func pause(t time.Duration) { time.Sleep(t) }
