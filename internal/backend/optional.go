package backend

import (
	"context"
	"math"
	"unsafe"

	"github.com/batchgemm/batchgemm/dispatch/driver"
)

// Wrapper is a Device that shares a GPU with other libraries of the process.
type Wrapper interface {
	driver.Device
	// OnStream opens the GPU again, with all work on a stream of the caller, given
	// by its native handle. Submit only queues launches there. A stream that is not one
	// of this GPU is an error that wraps ErrInvalid.
	OnStream(stream uintptr) (driver.Device, error)
	// Wrap makes a buffer of n float32 in memory that the caller allocated and frees.
	// Memory that the device cannot use so is an error that wraps ErrInvalid.
	Wrap(ptr uintptr, n int) (driver.Buffer, error)
}

// Borrower is a Device that runs programs on memory, and on streams, that stay the caller's.
type Borrower interface {
	driver.Device
	// At is n float32 at an address that the device can use, a multiple of BorrowAlign or, of nothing, 0.
	// Nobody checks that they are there, which a run needs of those alone that it reaches. It is not closed.
	At(address uintptr, n int) driver.Buffer
	// SubmitOn is Submit of one run to a stream of the caller, where it does nothing but queue
	// launches. It is not ordered with what Submit queued. The CPU has one stream, 0, that of Submit.
	SubmitOn(ctx context.Context, stream uintptr, run *driver.Run) error
}

// BorrowAlign is what the addresses of At are multiples of, in bytes.
const BorrowAlign = 16

// SliceBytes is what the offset of a slice is a multiple of, in bytes: no device wants more of what
// it binds (WebGPU's limit of minStorageBufferOffsetAlignment), and vector loads want 16.
const SliceBytes = 256

// MaxLen is the most elements that a buffer may have: its bytes, rounded up to a
// multiple of 16 as kernels read them, are an int.
const MaxLen = math.MaxInt/4 - 4

// InHost is a Device whose buffers are memory of the host, as the CPU's are. Reads of what it has computed do
// not fail.
type InHost interface {
	driver.Device
	// Memory is what a buffer holds, once all work that was queued is done and while no other is: until it is
	// closed.
	Memory(b driver.Buffer) []float32
}

// Addressed is a Buffer of a device whose plans may have pointers (planner.Epilogue).
type Addressed interface {
	driver.Buffer
	// Address is where the buffer begins in the device's memory.
	Address() (uint64, error)
}

// Words shows 32-bit words that are no numbers as what buffers move.
func Words[T int32 | uint32](words []T) []float32 {
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(words))), len(words))
}
