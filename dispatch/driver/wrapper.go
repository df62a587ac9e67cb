package driver

import "context"

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

// Borrower is a Device that runs programs on memory, and on streams, that stay the caller's.
type Borrower interface {
	Device
	// At is n float32 at an address that the device can use, a multiple of BorrowAlign or, of nothing, 0.
	// Nobody checks that they are there, which a run needs of those alone that it reaches. It is not closed.
	At(address uintptr, n int) Buffer
	// SubmitOn is Submit of one run to a stream of the caller, where it does nothing but queue
	// launches. It is not ordered with what Submit queued. The CPU has one stream, 0, that of Submit.
	SubmitOn(ctx context.Context, stream uintptr, run *Run) error
}

// BorrowAlign is what the addresses of At are multiples of, in bytes.
const BorrowAlign = 16
