package driver

// Wrapper is a Device that shares a GPU with other libraries of the process.
type Wrapper interface {
	Device
	// OnStream opens the GPU again, with all work on a stream of the caller, given
	// by its native handle. Submit only queues launches there.
	OnStream(stream uintptr) (Device, error)
	// Wrap makes a buffer of memory that the caller allocated and frees.
	Wrap(ptr uintptr, n int) (Buffer, error)
}
