package dispatch

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"unsafe"

	"github.com/batchgemm/batchgemm/internal/backend"
	"github.com/batchgemm/batchgemm/internal/hostgemm"
	"github.com/batchgemm/batchgemm/internal/hostmem"
	"github.com/batchgemm/batchgemm/internal/invalid"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

// Slices are the operands of a product on host memory: T are the numbers of A and B, U those of C, which is
// of one of the types that package element names for T.
type Slices[T, U element.Number] struct {
	A, B []T
	C    []U

	// What the epilogue of the options asks for, at the places that the problems name; nil where it does not.
	// planner.Rows lays Rows out: lists of rows, weights and scales.
	B2   []T
	Bias []U
	Rows []int32
}

// Host computes on host memory: a *Device, or a *Group, which shares the work among its devices.
type Host interface {
	gemm32(ctx context.Context, batch planner.Batch, o planner.Options, x hostgemm.Operands) error
	single() *Device // for what is not shared
}

// GEMM computes a batch on slices of host memory. The options may leave the types out. The result is in x.C
// when GEMM returns. Elements of x.C that no problem has stay as they are, and so do rows that none is
// scattered to. On an error, and when ctx ends, all of x.C is as before; what the device has begun goes on
// without the caller. GEMM fails with a *planner.ProblemError when the batch is wrong or a slice too short,
// and as Device.Plan does when the options are. Pointers are an error: slices have no address on the device.
//
// Of float32, a large batch is cut into parts, each with a plan of its own, so that copies of some parts
// overlap the work on others. Plans and programs are kept for the last 32 batches: a batch of the same
// sizes, scalars and offsets with the same options costs no planning. Rows are gathered and scattered by the
// host, so that no others travel. Results take as much memory as C once more until the call ends, on the CPU
// in the device's memory. Memory of the host that is missing for this, or for pages of C, is known before
// anything is computed: ErrOutOfMemory. It is given back when the call ends, or where others may use it
// again 2 s later. The device keeps buffers of up to 32 MiB for each operand of a part. Calls on one device
// take turns.
//
// A Group splits a batch of float32 by predicted time, the longest problem first, and sends each device the
// operands of its own problems. A batch for which that would save less than 1 ms by prediction runs on one
// device, so that calls with small batches run side by side. The first failure of a device is returned, with
// its name.
//
// For other types GEMM is simpler as yet: each call plans, allocates on the device, and copies operands, and
// C where a beta is not 0, as they lie, up to the last element of the batch. It keeps nothing, cuts no batch
// into parts, and takes the first device of a group. Operands of batches that come again are better off in
// buffers, by Plan, Prepare and Run.
func GEMM[T, U element.Number](ctx context.Context, h Host, batch planner.Batch, o planner.Options,
	x Slices[T, U]) error {
	if d, ok := h.(*Device); h == nil || ok && d == nil {
		return invalid.Errorf("the device is nil")
	}
	ab, c := element.TypeOf[T](), element.TypeOf[U]()
	err := cmp.Or(setType(&o.TypeA, ab, "A"), setType(&o.TypeB, ab, "B"), setType(&o.TypeC, c, "C"))
	if err != nil {
		return err
	}
	if all, ok := any(x).(Slices[float32, float32]); ok {
		return h.gemm32(ctx, batch, o, hostgemm.Operands(all))
	}
	have := planner.Lengths{A: len(x.A), B: len(x.B), C: len(x.C), B2: len(x.B2), Bias: len(x.Bias),
		Rows: len(x.Rows)}
	if err := hostgemm.CheckEpilogue(&o, have); err != nil {
		return err
	}
	if err := batch.CheckOperands(ctx, o.Epilogue, have); err != nil {
		return err
	}
	plan, err := h.single().Plan(ctx, batch, o)
	if err != nil {
		return err
	}
	return compute(ctx, h.single(), plan, &x)
}

// store copies what the problems wrote, from all that lies between.
func (x *Slices[T, U]) store(batch planner.Batch, e *planner.Epilogue, results []U) {
	for i := range batch {
		p := &batch[i]
		if !e.Writes(p) {
			continue
		}
		for row := range p.M {
			if e.ScatterRows > 0 {
				if row = int(x.Rows[p.RowsC+row]); uint(row) >= uint(e.ScatterRows) {
					continue
				}
			}
			at := p.C.Offset + row*p.C.LD
			copy(x.C[at:at+p.N], results[at:])
		}
	}
}

// setType lets an option be what slices have, unless it is something else.
func setType(option *element.Type, is element.Type, of string) error {
	if *option != element.F32 && *option != is {
		return invalid.Errorf("the options have Type%s %s, but %s is of %s", of, *option, of, is)
	}
	*option = is
	return nil
}

// compute runs a plan once, on buffers of its own, and stores C.
func compute[T, U element.Number](ctx context.Context, d *Device, plan *planner.Plan,
	x *Slices[T, U]) (err error) {
	if err := x.room(d, plan); err != nil {
		return fmt.Errorf("memory for the results: %w", err)
	}
	program, err := d.Prepare(ctx, plan)
	if err != nil {
		return err
	}
	defer closing(program, &err)
	e, on := &plan.Options.Epilogue, uploads{ctx: ctx, device: d}
	defer on.close(&err)
	run := Operands{A: place(&on, true, x.A, plan.ExtentA),
		B:  place(&on, true, x.B, plan.ExtentB),
		B2: place(&on, e.Gated, x.B2, plan.ExtentB2), Bias: place(&on, e.Bias, x.Bias, plan.ExtentBias),
		Rows: place(&on, e.UsesRows(), backend.Words(x.Rows), plan.ExtentRows)}
	if readsC(plan.Batch, e) {
		run.C = place(&on, true, x.C, plan.ExtentC)
	} else if on.err == nil {
		run.C = on.keep(d.NewBuffer(element.TypeOf[U](), plan.ExtentC))
	}
	if on.err != nil {
		return on.err
	}
	if err := program.Run(ctx, run); err != nil {
		return err
	}
	words, in := []float32(nil), d.inHost()
	if in != nil {
		if err := d.Wait(ctx); err != nil {
			return err
		}
		words = in.Memory(run.C.driver)
	} else {
		if words, err = hostmem.Floats(max(wordsOf(run.C.Type(), plan.ExtentC), 1)); err != nil {
			return fmt.Errorf("memory for the results: %w", err)
		}
		defer hostmem.Free(words)
	}
	results := unsafe.Slice((*U)(unsafe.Pointer(unsafe.SliceData(words))), plan.ExtentC)
	if in == nil {
		if err := Read(ctx, run.C, 0, results); err != nil {
			return err
		}
	}
	x.store(plan.Batch, e, results)
	return nil
}

// inHost is the device's driver if its buffers are memory of the host; else nil.
func (d *Device) inHost() backend.InHost {
	in, _ := d.driver.(backend.InHost)
	return in
}

// room fails where the host has no memory for what compute will take of it: its copy of the results, or, in
// the host, the device's of all operands; and pages of C that are not there yet.
func (x *Slices[T, U]) room(d *Device, plan *planner.Plan) error {
	const few = 1 << 22
	words := wordsOf(element.TypeOf[U](), plan.ExtentC)
	if words < few {
		return nil
	}
	took := []int{words}
	if d.inHost() != nil {
		took = append(took, wordsOf(plan.Options.TypeA, plan.ExtentA),
			wordsOf(plan.Options.TypeA, plan.ExtentB), wordsOf(plan.Options.TypeA, plan.ExtentB2))
	}
	c := unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(x.C))),
		len(x.C)*int(unsafe.Sizeof(*new(U)))/4)
	return hostmem.CheckTouched(hostmem.Size(took...), hostmem.Untouched(c, hostmem.Size(words)))
}

// uploads are buffers that a call has made, up to the first error.
type uploads struct {
	ctx    context.Context
	device *Device
	made   []*Buffer
	err    error
}

// keep takes a buffer that was made, or why it was not.
func (u *uploads) keep(b *Buffer, err error) *Buffer {
	if err != nil {
		u.err = err
		return nil
	}
	u.made = append(u.made, b)
	return b
}

func (u *uploads) close(err *error) {
	for _, b := range u.made {
		closing(b, err)
	}
}

// place makes a buffer of the first n elements of an operand, if it is used.
func place[T element.Number](u *uploads, used bool, src []T, n int) *Buffer {
	if !used || u.err != nil {
		return nil
	}
	return u.keep(Upload(u.ctx, u.device, src[:n]))
}

// closing closes what a call has made, whose error is returned if there is no other.
func closing(c io.Closer, err *error) {
	if failed := c.Close(); *err == nil {
		*err = failed
	}
}

// readsC reports whether any problem reads C.
func readsC(batch planner.Batch, e *planner.Epilogue) bool {
	for i := range batch {
		if e.Writes(&batch[i]) && batch[i].Beta != 0 {
			return true
		}
	}
	return false
}
