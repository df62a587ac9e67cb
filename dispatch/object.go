package dispatch

import (
	"runtime"
	"sync"

	"github.com/batchgemm/batchgemm/internal/invalid"
)

// object is the life of a buffer or a program. Calls hold it while they use it,
// so that Close during a call takes effect after the call. It outlives its Buffer
// or Program.
type object struct {
	life *life // of the device
	free func() error

	// When it was dropped:
	dropped runtime.Cleanup // calls drop then
	kind    string
	size    int  // elements, or problems
	keep    bool // it must stay

	mu     sync.Mutex
	users  int
	closed bool
}

// hold fails when the object is closed or not of device d.
func (o *object) hold(d *Device) error {
	if o.life != d.life {
		return invalid.Errorf("belongs to another device")
	}
	return o.use()
}

// use is hold of an object of the device at hand.
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
		// Nobody is left to tell: Close has returned. A device that failed says
		// so on its next call.
		_ = o.free()
	}
}

// enter holds device and object, until leave.
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

// close frees the object, or leaves that to the last call that holds it. A
// closed device has freed it already.
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
