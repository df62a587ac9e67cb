// Package driver defines what a backend implements, as database/sql/driver does
// for databases. Users import package dispatch instead.
//
// # What a driver may count on
//
// Package dispatch checks what callers pass, and orders calls, before it calls a
// driver:
//
//   - Buffers and programs are open, made by the device of the call, and long enough
//     for the plan; C is none of the others, nor a slice of the memory of one.
//   - Buffers have 1 element or more, and their bytes are an int. Ranges of Write, Read and
//     StartRead lie in the buffer and are not empty, and so is what Copy moves.
//   - Every Reading is finished, and before its buffer or device is closed.
//   - The batch of a plan passed Check, and the plan was made for the device.
//   - Update of a program is called while no other call uses it; queued work may.
//     Status is called once at a time.
//   - Close is called once, of a buffer or program before its device's or not at all,
//     and while no other call uses it; queued work still may. No call follows it.
//     Close of a device is called when no other call of the device or of anything
//     that is its is under way.
//
// Drivers need not repeat this. Whoever calls one without dispatch keeps to it.
//
// # What is left to a driver
//
// Calls are safe for concurrent use otherwise. A call with a context fails with its
// error where it has ended before, and where it ends during a wait. What only the
// driver can know is its own: memory that the device refuses (ErrOutOfMemory), memory and
// streams of other libraries, limits of the device (ErrInvalid), and a device that
// fails (ErrDeviceLost), whose buffers and programs can still be closed. A run that
// names a buffer or program of another device, as a driver around this one may by
// mistake, is an error that wraps ErrInvalid, and queues nothing of its submission.
//
// Errors are those of package dispatch. The suite that every backend runs tests all that.
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
	// Name is the word of BATCHGEMM_BACKEND and of option WithBackend.
	Name() string
	// Devices lists what Open accepts, best first. It fails with an error that
	// wraps ErrUnavailable and says why when there is none. A ctx that ends may end
	// the search; dispatch passes none that has ended.
	Devices(ctx context.Context) ([]Info, error)
	// Open opens the device of that index in the list. Where there is none the error
	// wraps ErrInvalid.
	Open(ctx context.Context, index int) (Device, error)
}

// Info describes a device.
type Info struct {
	Backend string `json:"backend"`
	Index   int    `json:"index"` // in the backend's list, which changes with the machine
	// ID is the same in every process, and no other device has it, so that programs may keep it
	// among their settings. It begins with the backend: a GPU that two backends reach has two.
	ID       string        `json:"id"`
	Name     string        `json:"name"`     // as the driver gives it
	Vendor   string        `json:"vendor"`   // who made it, "NVIDIA"; "": unknown
	Kind     hardware.Kind `json:"kind"`     // "" is "other"
	Memory   int64         `json:"memory"`   // bytes, else those of the host; 0: unknown
	Driver   string        `json:"driver"`   // driver name and version
	Subgroup string        `json:"subgroup"` // subgroup size and where it was read
	// FlushesSubnormals: the device may take numbers below 2^-126 for 0.
	FlushesSubnormals bool           `json:"flushes_subnormals"`
	Planner           planner.Device `json:"planner"` // facts the planner uses
}

// Device is an open device.
type Device interface {
	Info() Info
	// Alloc returns a buffer of n float32, contents undefined.
	Alloc(n int) (Buffer, error)
	// Prepare compiles or loads the plan's kernels, uploads its arrays once and
	// allocates its workspace. It does not keep the plan.
	Prepare(ctx context.Context, p *planner.Plan) (Program, error)
	// Compile makes kernels ready, so that no Prepare, Update or run is longer for the first use
	// of one. It takes them in any order, as many at once as the device can, and calls done with
	// the index of each that is ready, on any goroutine. Other calls go on meanwhile.
	Compile(ctx context.Context, kernels []encoding.Kernel, done func(i int)) error
	// Submit queues the runs, in order, as one submission, and returns without
	// waiting for them; where the backend bounds how much is queued, it waits for
	// room. Each run sees what the earlier ones wrote. Runs of one program share its
	// workspace; the device keeps them apart. Submit does not keep the slice. A ctx
	// that ends after it changes nothing.
	Submit(ctx context.Context, runs []Run) error
	// Copy queues a copy of the first bytes of src to the start of dst, which has as many and is
	// of other memory, and returns as Submit does. Devices that move words copy the last one whole.
	Copy(ctx context.Context, dst, src Buffer, bytes int) error
	// Wait returns when all queued work is done, or with ctx's error.
	Wait(ctx context.Context) error
	// Time submits the runs and waits. It returns the time that the device
	// took, from its own clock where it has one, else wall time.
	Time(ctx context.Context, runs []Run) (Timing, error)
	// Close waits for queued work, bounded by a deadline of the backend, or abandons
	// it where nobody could see its results, and frees everything, including open
	// buffers and programs.
	Close() error
}

// Timing is the result of Device.Time.
type Timing struct {
	Device time.Duration // between the first and the last kernel
	Wall   time.Duration // submission and wait included
	Clock  string        // what measured Device: "timestamp", "event", "wall"
}

// Run is one execution of a program.
type Run struct {
	Program Program
	A, B, C Buffer // nil where the plan's epilogue has them by pointers
	// Sizes has the words of a ragged plan's sizes, planner.Plan.SizesLen or more; nil
	// where the plan is for sizes of the host. It is not C. The run reads it when its turn
	// comes.
	Sizes Buffer
	// Extent is how much of a ragged plan's bound is there (planner.Ragged.Within), 0: all of it. Only runs
	// in memory of the caller have one.
	Extent int
	// B2, Bias and Rows are what the plan's epilogue asks for (planner.Epilogue), nil where it
	// does not. None is C. Words of Rows are 32-bit.
	B2, Bias, Rows Buffer
}

// Buffer is device memory. Write and Read are ordered with submissions. They keep all bits
// of what need not be a number.
type Buffer interface {
	Len() int // elements
	// Write copies src to [offset, offset+len(src)); src may change on return.
	Write(ctx context.Context, offset int, src []float32) error
	// Read waits for queued work and copies [offset, offset+len(dst)).
	Read(ctx context.Context, offset int, dst []float32) error
	// StartRead queues what Read does after the work queued before, and waits for nothing. What
	// is queued later does not show in dst.
	StartRead(ctx context.Context, offset int, dst []float32) (Reading, error)
	// Slice returns elements [offset, offset+n) as a buffer in the same memory. Its bytes begin at a multiple
	// of 256. It is good while the buffer is open, and is not closed. Where n is 0 nothing is read or
	// written of it.
	Slice(offset, n int) Buffer
	Close() error
}

// Reading is a read that was started.
type Reading interface {
	// Finish waits for the read and fills dst, or fails as Read does. It is called once, and may
	// be called on another goroutine; dst is left alone when it has returned.
	Finish(ctx context.Context) error
}

// Program is a plan made ready on one device.
type Program interface {
	// Status waits for queued work and returns the first group of sizes that a run since the
	// last call of Status refused; -1: none did, or the plan is not ragged.
	Status(ctx context.Context) (group int, err error)
	// Update puts another plan in the place of the program's, after the runs queued
	// before, for which it does not wait unless memory must grow; where it fails the
	// program stays as it was. It does not keep the plan. No memory of the device is
	// allocated once the program has had two plans as large. Neither plan is ragged.
	Update(ctx context.Context, p *planner.Plan) error
	Close() error
}
