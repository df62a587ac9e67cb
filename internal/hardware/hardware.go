// Package hardware has the kinds and the errors of devices, for all layers. Users find them under the same
// names in package dispatch.
package hardware

import "errors"

var (
	// ErrUnavailable: the backend cannot run here: no driver, no device, or not part of this build. Only
	// this error lets dispatch try the next backend. Backends wrap it with the reason.
	ErrUnavailable = errors.New("unavailable")
	// ErrOutOfMemory: the device or the host refused memory. Earlier results and buffers are intact, and
	// the device stays usable.
	ErrOutOfMemory = errors.New("out of memory")
	// ErrDeviceLost: the device failed. Every later call on it returns an error that wraps this one.
	ErrDeviceLost = errors.New("device lost")
	// ErrClosed: the object was closed. Package dispatch returns it and does not call drivers for closed
	// objects.
	ErrClosed = errors.New("closed")
)

// Kind is the kind of a device.
type Kind string

const (
	KindDiscrete   Kind = "discrete"   // a GPU with memory of its own
	KindIntegrated Kind = "integrated" // a GPU that shares the host's memory
	KindSoftware   Kind = "software"   // runs on the CPU
	// KindOther: an unknown kind of GPU, or a part of one in a virtual machine.
	KindOther Kind = "other"
)
