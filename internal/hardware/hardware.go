// Package hardware has what is said of devices in every layer: their kinds, and how they fail. Users know all
// of it by the same names in package dispatch.
package hardware

import "errors"

var (
	// ErrUnavailable: the backend cannot run here (no driver, no device, not in this build). It is the only
	// error that lets dispatch try the next backend. Backends wrap it with the reason.
	ErrUnavailable = errors.New("unavailable")
	// ErrOutOfMemory: the device or the host refused memory. Earlier results and buffers are intact, and
	// the device stays usable.
	ErrOutOfMemory = errors.New("out of memory")
	// ErrDeviceLost: the device failed. Every later call on it returns an error that wraps this one.
	ErrDeviceLost = errors.New("device lost")
	// ErrClosed: the object was closed. Package dispatch returns it; drivers see no call of what was closed.
	ErrClosed = errors.New("closed")
)

// Kind is what sort of device it is.
type Kind string

const (
	KindDiscrete   Kind = "discrete"   // a GPU with memory of its own
	KindIntegrated Kind = "integrated" // a GPU that shares the host's
	KindSoftware   Kind = "software"   // runs on the CPU
	// KindOther: a GPU of which no more is known, or a part of one in a virtual machine.
	KindOther Kind = "other"
)
