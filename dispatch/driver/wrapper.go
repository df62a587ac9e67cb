package driver

// Wrapper is a Device that shares a GPU with other libraries of the process.
type Wrapper interface {
	Device
	// OnStream opens the GPU again, with all work on a stream of the caller, given
	// by its native handle. Submit only queues launches there. A stream that is not one
	// of this GPU is an error that wraps ErrInvalid.
	OnStream(stream uintptr) (Device, error)
	// Wrap makes a buffer of n float32 in memory that the caller allocated and frees.
	// Memory that the device cannot use so is an error that wraps ErrInvalid.
	Wrap(ptr uintptr, n int) (Buffer, error)
}
