//go:build cgo && linux && (amd64 || arm64)

package main

// #include "internal.h"
import "C"

import (
	"math"
	"sync"
	"time"
)

// handlePeriod is how long signals to the process wait during a call if no thread of the host takes them:
// too short for people to notice, too long to cost anything.
const handlePeriod = 10 * time.Millisecond

// visit is a call of the host, whose thread blocks signals meanwhile (entry.c). If the call takes long, a
// thread of Go handles them, in C and so on a large stack.
type visit struct {
	mu     sync.Mutex
	inside bool
	mask   C.sigset_t // of the host's thread: signals that it blocks are not handled here
	timer  *time.Timer
}

var visits = sync.Pool{New: func() any {
	v := new(visit)
	v.timer = time.AfterFunc(math.MaxInt64, v.handle)
	return v
}}

func begin(mask *C.sigset_t) *visit {
	v := visits.Get().(*visit)
	v.mu.Lock()
	defer v.mu.Unlock()
	v.inside, v.mask = true, *mask
	v.timer.Reset(handlePeriod)
	return v
}

func (v *visit) handle() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.inside {
		return
	}
	C.capi_handle_signals(&v.mask)
	v.timer.Reset(handlePeriod)
}

// end waits for running handlers, because the host may change its mask after the call.
func (v *visit) end() {
	v.mu.Lock()
	v.inside = false
	v.timer.Stop()
	v.mu.Unlock()
	visits.Put(v)
}
