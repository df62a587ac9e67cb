package backend

import (
	"context"
	"math"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/encoding"
)

// Wrapper is a Device that shares a GPU with other libraries of the process.
type Wrapper interface {
	driver.Device
	// OnStream opens the GPU again, with all work on the caller's stream, given by its native handle. Submit
	// only queues launches there. If the stream does not belong to this GPU, the error wraps ErrInvalid.
	OnStream(stream uintptr) (driver.Device, error)
	// Wrap makes a buffer of n float32 in memory that the caller allocated and frees. If the device cannot
	// use that memory, the error wraps ErrInvalid.
	Wrap(ptr uintptr, n int) (driver.Buffer, error)
}

// Borrower is a Device that runs programs on the caller's memory and streams.
type Borrower interface {
	driver.Device
	// At returns n float32 at an address that the device can use, a multiple of BorrowAlign, or 0 if n is 0.
	// It does not check the address. A run needs only the elements that it reaches. The buffer is not
	// closed.
	At(address uintptr, n int) driver.Buffer
	// SubmitOn is Submit to the caller's stream, where it only queues launches. It is not ordered with the
	// work of Submit. The CPU has one stream, 0, that of Submit.
	SubmitOn(ctx context.Context, stream uintptr, runs []driver.Run) error
}

// BorrowAlign is the alignment of the addresses of At, in bytes.
const BorrowAlign = 16

// SliceBytes is the alignment of the offset of a slice, in bytes. No device needs more for bindings
// (WebGPU's limit of minStorageBufferOffsetAlignment), and vector loads need 16.
const SliceBytes = 256

// MaxLen is the largest length of a buffer: its bytes, rounded up to a multiple of 16 as kernels read them,
// fit in an int.
const MaxLen = math.MaxInt/4 - 4

// InHost is a Device that computes in the host's memory, like the CPU.
type InHost interface {
	driver.Device
	// Compute runs a program of a batch once on the caller's A, B, C, B2, Bias and Rows, after work queued
	// before. Elements may begin at any address, also those of 16 and 8 bits: a slice is as long as the words
	// that hold them, and the last one may be there in part. When Compute returns, nothing touches the memory
	// any more. It fails only if ctx ends: C is then incomplete.
	Compute(ctx context.Context, p driver.Program, memory [6][]float32) error
}

// Addressed is a Buffer of a device that supports pointers (planner.Epilogue).
type Addressed interface {
	driver.Buffer
	// Address returns where the buffer starts in device memory.
	Address() (uint64, error)
}

// Compiler is a Device whose driver compiles kernels from text, and may do so wrongly.
type Compiler interface {
	driver.Device
	// Text returns the text of a kernel on this device.
	Text(k encoding.Kernel) (string, error)
}
