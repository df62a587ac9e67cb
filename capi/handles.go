//go:build cgo && linux && (amd64 || arm64)

package main

// #include "internal.h"
import "C"

import (
	"fmt"
	"sync"

	"github.com/batchgemm/batchgemm/dispatch"
)

// object is what a handle stands for.
type object interface{ Close() error }

// table maps objects to the numbers that C holds. Numbers are not reused, so a stale handle never finds
// another object.
type table struct {
	mu      sync.RWMutex
	last    uint64
	entries map[uint64]entry
}

type entry struct {
	object object
	device uint64 // the device that closes the object; 0: none
}

// handles are those of the process.
var handles = table{entries: map[uint64]entry{}}

func (t *table) add(o object, device uint64) (uint64, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, open := t.entries[device]; device != 0 && !open {
		return 0, unknown(device) // closed since the object was made, and with it the object
	}
	t.last++
	t.entries[t.last] = entry{o, device}
	return t.last, nil
}

func (t *table) get(handle uint64) (object, error) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	e, ok := t.entries[handle]
	if !ok {
		return nil, unknown(handle)
	}
	return e.object, nil
}

// close removes a handle, and those of a device's objects, and closes the object.
func (t *table) close(handle uint64) error {
	o, err := t.remove(handle)
	if err != nil {
		return err
	}
	return o.Close()
}

func (t *table) remove(handle uint64) (object, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e, ok := t.entries[handle]
	if !ok {
		return nil, unknown(handle)
	}
	delete(t.entries, handle)
	if _, ok := e.object.(*dispatch.Device); ok {
		for h, other := range t.entries {
			if other.device == handle {
				delete(t.entries, h)
			}
		}
	}
	return e.object, nil
}

// owner returns the device that closes the object of a handle.
func (t *table) owner(handle C.uint64_t) C.uint64_t {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return C.uint64_t(t.entries[uint64(handle)].device)
}

func unknown(handle uint64) error {
	if handle == 0 {
		return marked{fmt.Errorf("the handle is 0"), errHandle}
	}
	return marked{fmt.Errorf("handle %d is unknown, or was closed", handle), errHandle}
}

// find returns the object of a handle.
func find[T object](handle C.uint64_t) (T, error) {
	var none T
	o, err := handles.get(uint64(handle))
	if err != nil {
		return none, fmt.Errorf("%s: %w", kind(none), err)
	}
	t, ok := o.(T)
	if !ok {
		return none, marked{fmt.Errorf("%s: handle %d is a %s", kind(none), handle, kind(o)), errHandle}
	}
	return t, nil
}

func kind(o object) string {
	switch o.(type) {
	case *dispatch.Device:
		return "device"
	case *dispatch.Program:
		return "program"
	case *dispatch.Experts:
		return "layer of experts"
	case *dispatch.Buffer:
		return "buffer"
	case reading:
		return "read"
	}
	return "plan"
}

// createOn is create for an object that construct makes of the device.
func createOn(out *C.uint64_t, name string, device C.uint64_t,
	construct func(*dispatch.Device) (object, error)) error {
	return create(out, name, device, func() (object, error) {
		d, err := find[*dispatch.Device](device)
		if err != nil {
			return nil, err
		}
		return construct(d)
	})
}

// create makes an object of a device (0: of none) and stores its handle, or 0.
func create(out *C.uint64_t, name string, device C.uint64_t, construct func() (object, error)) error {
	if out == nil {
		return invalid("%s is NULL", name)
	}
	*out = 0
	o, err := construct()
	if err != nil {
		return err
	}
	handle, err := handles.add(o, uint64(device))
	if err != nil {
		o.Close() // already closed with its device; a read may still be in progress
		return err
	}
	*out = C.uint64_t(handle)
	return nil
}

// notNil prevents a nil pointer beside an error from becoming an object.
func notNil[T object](o T, err error) (object, error) {
	if err != nil {
		return nil, err
	}
	return o, nil
}
