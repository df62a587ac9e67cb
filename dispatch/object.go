package dispatch

import (
	"runtime"
	"sync"

	"github.com/batchgemm/batchgemm/internal/invalid"
)

// object is the state of a buffer or a program. Calls hold it while they use it, so Close during a call
// takes effect after the call. It outlives its Buffer or Program.
type object struct {
	life *life // of the device
	free func() error

	// For objects that are dropped:
	dropped runtime.Cleanup // calls drop
	kind    string
	size    int  // elements, or problems, for the log
	keep    bool // do not close it

	mu     sync.Mutex
	users  int
	closed bool
}

// hold fails if the object is closed or does not belong to device d.
func (o *object) hold(d *Device) error {
	if o.life != d.life {
		return invalid.Errorf("belongs to another device")
	}
	return o.use()
}

// use is hold for an object of its own device.
func (o *object) use() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return ErrClosed
	}
	o.users++
	return nil
}

func (o *object) release() {
	o.mu.Lock()
	o.users--
	last := o.closed && o.users == 0
	o.mu.Unlock()
	if last {
		// The error cannot be returned: Close has returned. A failed device reports itself on its next call.
		_ = o.free()
	}
}

// enter holds device and object until leave.
func (o *object) enter() error {
	if err := o.life.acquire(); err != nil {
		return err
	}
	if err := o.use(); err != nil {
		o.life.release()
		return err
	}
	return nil
}

func (o *object) leave() {
	o.release()
	o.life.release()
}

// close frees the object, or leaves that to the last call that holds it. If the device is closed, the object
// is already free.
func (o *object) close() error {
	if o.life.acquire() != nil {
		return nil
	}
	defer o.life.release()
	o.life.forget(o)
	o.mu.Lock()
	now := !o.closed && o.users == 0
	o.closed = true
	o.mu.Unlock()
	if now {
		return o.free()
	}
	return nil
}

func (o *object) isClosed() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.closed
}
