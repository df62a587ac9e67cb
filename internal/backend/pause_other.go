//go:build !linux

package backend

import "time"

// pause sleeps. Elsewhere Go's timers do: kqueue takes nanoseconds, and those of
// Windows have half a millisecond since Go 1.23 (not measured here).
func pause(t time.Duration) { time.Sleep(t) }
