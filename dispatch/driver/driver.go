// Package driver defines what a backend implements, as database/sql/driver does
// for databases. Users import package dispatch instead.
//
// # What a driver may count on
//
// Package dispatch checks the arguments of callers and orders calls. A driver may therefore rely on these
// rules:
//
//   - Buffers and programs are open, were made by the device of the call, and are long enough for the plan.
//     C shares no memory with another buffer of the call.
//   - Buffers have 1 element or more, and their size in bytes fits an int. The ranges of Write, Read,
//     StartRead and Copy lie in the buffer and are not empty.
//   - Every Reading is finished before its buffer or device is closed.
//   - The batch of a plan passed Check, and the plan was made for the device.
//   - Update of a program is called while no other call uses it; queued work may.
//     Status is called once at a time.
//   - Close is called once, of a buffer or program before its device's or not at all,
//     and while no other call uses it; queued work still may. No call follows it.
//     Close of a device is called when no other call of the device or of any of its
//     objects is in progress.
//
// Drivers need not check this. Code that calls a driver without dispatch must keep these rules.
//
// # What is left to a driver
//
// Otherwise calls must be safe for concurrent use. A call fails with the error of its context if that has
// ended before the call, or ends while the call waits. The driver reports what only it can know: memory that
// the device refuses (ErrOutOfMemory), limits of the device and mistakes with memory and streams of other
// libraries (ErrInvalid), and a device that fails (ErrDeviceLost). Buffers and programs of a failed device
// can still be closed. If a run names a buffer or program of another device, which a driver that wraps this
// one may do by mistake, Submit fails with an error that wraps ErrInvalid and queues no run.
//
// Errors are those of package dispatch. The test suite of all backends checks these rules.
package driver

import (
	"context"
	"time"

	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/internal/hardware"
	"github.com/batchgemm/batchgemm/planner"
)

// Driver is one backend.
type Driver interface {
	// Name returns the backend's name in BATCHGEMM_BACKEND and WithBackend.
	Name() string
	// Devices lists what Open accepts, best first. If there is none, it fails with an error that says why
	// and wraps ErrUnavailable. If ctx ends, the search may end. dispatch never passes a ctx that has ended.
	Devices(ctx context.Context) ([]Info, error)
	// Open opens the device with that index in the list. If there is none, the error wraps ErrInvalid.
	Open(ctx context.Context, index int) (Device, error)
}

// Info describes a device.
type Info struct {
	Backend string `json:"backend"`
	Index   int    `json:"index"` // in the backend's list; it may change with the machine
	// ID is unique and the same in every process, so programs may store it in their settings. It starts with
	// the backend: a GPU that two backends reach has two.
	ID       string        `json:"id"`
	Name     string        `json:"name"`     // as the driver gives it
	Vendor   string        `json:"vendor"`   // maker, such as "NVIDIA"; "": unknown
	Kind     hardware.Kind `json:"kind"`     // "" is "other"
	Memory   int64         `json:"memory"`   // bytes of the device, or of the host if it has none; 0: unknown
	Driver   string        `json:"driver"`   // driver name and version
	Subgroup string        `json:"subgroup"` // subgroup size and where it was read
	// FlushesSubnormals reports whether the device may replace numbers below 2^-126 by 0.
	FlushesSubnormals bool           `json:"flushes_subnormals"`
	Planner           planner.Device `json:"planner"` // facts for planning
}

// Device is an open device.
type Device interface {
	Info() Info
	// Alloc returns a buffer of n float32, with undefined contents.
	Alloc(n int) (Buffer, error)
	// Prepare compiles or loads the plan's kernels, uploads its arrays and allocates its workspace. It does
	// not keep the plan.
	Prepare(ctx context.Context, p *planner.Plan) (Program, error)
	// Compile makes kernels ready, so that the first use of a kernel delays no Prepare, Update or run. It
	// compiles in any order, and as many at once as the device can. It calls done with the index of each
	// kernel that is ready, on any goroutine. Other calls may run meanwhile.
	Compile(ctx context.Context, kernels []encoding.Kernel, done func(i int)) error
	// Submit queues the runs, in order, as one submission, and returns without waiting for them. If the
	// backend bounds its queue, Submit waits for room. Each run sees what earlier runs wrote. Runs of one
	// program share its workspace; the device keeps them apart. Submit does not keep the slice. ctx has no
	// effect after Submit returns.
	Submit(ctx context.Context, runs []Run) error
	// Copy queues a copy of the first bytes of src to the start of dst, and returns like Submit. dst has at
	// least as many bytes, in other memory. Devices that move words copy the last word whole.
	Copy(ctx context.Context, dst, src Buffer, bytes int) error
	// Wait returns when all queued work is done, or with ctx's error.
	Wait(ctx context.Context) error
	// Time submits the runs and waits. It returns the time that the device took, by its own clock if it has
	// one, otherwise wall time.
	Time(ctx context.Context, runs []Run) (Timing, error)
	// Close waits for queued work, up to a deadline of the backend, or abandons it if its results can no
	// longer be seen. It frees everything, including open buffers and programs.
	Close() error
}

// Timing is the result of Device.Time.
type Timing struct {
	Device time.Duration // from the first to the last kernel
	Wall   time.Duration // submission and wait included
	Clock  string        // the clock of Device: "timestamp", "event", "wall"
}

// Run is one execution of a program.
type Run struct {
	Program Program
	A, B, C Buffer // nil if the plan's epilogue has pointers to it
	// Sizes has the sizes of a ragged plan: planner.Plan.ExtentSizes 32-bit words or more. It is nil if the
	// host knows the sizes, and is not C. The device reads it when it executes the run.
	Sizes Buffer
	// Extent is how much of a ragged plan's bound exists (planner.Ragged.Within); 0: all of it. Only runs in
	// the caller's memory have an extent.
	Extent int
	// B2, Bias and Rows are operands of the plan's epilogue (planner.Epilogue), nil if it has none. None is
	// C. Rows has 32-bit words.
	B2, Bias, Rows Buffer
}

// Buffer is device memory. Write and Read are ordered with submissions. They preserve all bits, also of data
// that are not numbers.
type Buffer interface {
	Len() int // elements
	// Write copies src to [offset, offset+len(src)); src may change on return.
	Write(ctx context.Context, offset int, src []float32) error
	// Read waits for queued work and copies [offset, offset+len(dst)).
	Read(ctx context.Context, offset int, dst []float32) error
	// StartRead queues a Read after the work queued before, and returns at once. Work that is queued later
	// does not change what dst gets.
	StartRead(ctx context.Context, offset int, dst []float32) (Reading, error)
	// Slice returns elements [offset, offset+n) as a buffer in the same memory. Its first byte is at a
	// multiple of 256. It is valid while the buffer is open, and is not closed. n may be 0; then it is not
	// read or written.
	Slice(offset, n int) Buffer
	Close() error
}

// Reading is a read that was started.
type Reading interface {
	// Finish waits for the read and fills dst, or fails like Read. It is called once, on any goroutine.
	// After it returns, the driver does not touch dst.
	Finish(ctx context.Context) error
}

// Program is a plan made ready on one device.
type Program interface {
	// Status waits for queued work. It returns the first group of sizes that a run refused since the last
	// call of Status. -1: none was refused, or the plan is not ragged.
	Status(ctx context.Context) (group int, err error)
	// Update replaces the program's plan, after the runs queued before. It waits for these runs only if
	// memory must grow. If it fails, the program is unchanged. It does not keep the plan. Once the program
	// has had two plans as large, Update allocates no device memory. Neither plan is ragged.
	Update(ctx context.Context, p *planner.Plan) error
	Close() error
}
