package dispatch

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"unsafe"

	"github.com/batchgemm/batchgemm/internal/backend"
	"github.com/batchgemm/batchgemm/internal/elemtype"
	"github.com/batchgemm/batchgemm/internal/hostgemm"
	"github.com/batchgemm/batchgemm/internal/hostmem"
	"github.com/batchgemm/batchgemm/internal/invalid"
	"github.com/batchgemm/batchgemm/internal/matrices"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

// Slices are the operands of a product in host memory. T is the number type of A and B, U that of C, as
// TypeC of planner.Options says.
type Slices[T, U element.Number] struct {
	A, B []T
	C    []U
	// Packed and Packed2 are B and B2 in place of these, if TypeB of the options has 4 bits: words of eight
	// elements (element.PackInt4, element.PackFP4).
	Packed, Packed2 []uint32

	// Operands of the options' epilogue, at the places that the problems name; nil without it. planner.Rows
	// builds Rows: row indices, weights and scales.
	B2   []T
	Bias []U
	Rows []int32
}

// Host computes on host memory. It is a *Device, or a *Group, which shares the work among its devices.
type Host interface {
	gemm32(ctx context.Context, batch planner.Batch, o planner.Options, x hostgemm.Operands) error
	single() *Device // for work that is not shared
}

// GEMM computes a batch on slices of host memory. The options may leave the types out. The result is in x.C
// when GEMM returns. Elements of x.C that belong to no problem keep their values, and so do rows without
// scattered results. On an error all of x.C is unchanged, and on a GPU also when ctx ends; the GPU may still
// finish its work. GEMM fails with a *planner.ProblemError if the batch is wrong or a slice too short, and as
// Device.Plan does for wrong options. Pointers are an error: slices have no device address. Missing host
// memory, also for pages of C, is detected before anything is computed: ErrOutOfMemory. Calls on one device
// run one after the other.
//
// The CPU computes on the slices themselves, which may be read-only memory, except C. It copies no operand,
// unless one shares memory with C. If ctx ends while it computes, GEMM returns when the CPU has stopped, and
// C is incomplete: its elements have old values or new ones, or those of a part of the sum. It keeps plans
// and programs of the last 32 batches: a batch with the same sizes, scalars, offsets and options needs no
// planning. What follows is about GPUs, and about the CPU if an operand shares memory with C.
//
// For float32, GEMM cuts a large batch into pieces with a plan each, so that copies of one piece overlap the
// work on another. It keeps plans and programs as with the CPU. The host gathers and scatters rows, so only
// these rows are copied. Results need memory like C a second time until the call ends. The memory is
// released when the call ends, or 2 s later if others may use it again. The device keeps buffers of up to 32
// MiB for each operand of a piece.
//
// A Group splits a batch of float32 by predicted time, longest problem first, and sends each device the
// operands of its own problems. If that would save less than 1 ms by prediction, the batch runs on one
// device, so small batches can run side by side. GEMM returns the first failure of a device, with its name.
//
// For other types GEMM is simpler as yet. Each call plans, allocates on the device and copies whole
// operands, up to the last element of the batch; it copies C if a beta is not 0. It keeps nothing, does not
// cut batches, and uses the first device of a group. For repeated batches, use buffers with Plan, Prepare
// and Run.
func GEMM[T, U element.Number](ctx context.Context, h Host, batch planner.Batch, o planner.Options,
	x Slices[T, U]) error {
	if d, ok := h.(*Device); h == nil || ok && d == nil {
		return invalid.Errorf("the device is nil")
	}
	ab, c := typeOf[T](), typeOf[U]()
	err := cmp.Or(setType(&o.TypeA, ab, "A"), x.setTypeB(&o), setType(&o.TypeC, c, "C"))
	if err != nil {
		return err
	}
	if all, ok := any(x).(Slices[float32, float32]); ok {
		return h.gemm32(ctx, batch, o, hostgemm.Operands{A: all.A, B: all.B, C: all.C, B2: all.B2,
			Bias: all.Bias, Rows: all.Rows})
	}
	have := planner.Lengths{A: len(x.A), B: len(x.B), C: len(x.C), B2: len(x.B2), Bias: len(x.Bias),
		Rows: len(x.Rows)}
	if elemtype.Bits4(o.TypeB) {
		have.B, have.B2 = o.TypeB.PerWord()*len(x.Packed), o.TypeB.PerWord()*len(x.Packed2)
	}
	if could, err := h.single().inPlace(ctx, batch, o, x.words(), have); could || err != nil {
		return err
	}
	if err := hostgemm.CheckEpilogue(&o, have); err != nil {
		return err
	}
	if err := batch.Check(ctx, o.Epilogue, have); err != nil {
		return err
	}
	plan, err := h.single().Plan(ctx, batch, o)
	if err != nil {
		return err
	}
	return compute(ctx, h.single(), plan, &x)
}

// store copies the elements that the problems wrote; between them may be others.
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

// setTypeB sets the type of B to that of the slices, unless it has 4 bits.
func (x *Slices[T, U]) setTypeB(o *planner.Options) error {
	if !elemtype.Known(o.TypeB) || !elemtype.Bits4(o.TypeB) {
		if len(x.Packed)+len(x.Packed2) > 0 {
			return invalid.Errorf("Packed and Packed2 are for a TypeB of 4 bits, not %s", o.TypeB)
		}
		return setType(&o.TypeB, typeOf[T](), "B")
	}
	if len(x.B)+len(x.B2) > 0 {
		return invalid.Errorf("the options have TypeB %s, whose words are Packed and Packed2, not B and B2",
			o.TypeB)
	}
	return nil
}

// setType sets an option to the type of the slices, unless it is set to another type.
func setType(option *element.Type, is element.Type, of string) error {
	if *option != element.F32 && *option != is {
		return invalid.Errorf("the options have Type%s %s, but %s is of %s", of, *option, of, is)
	}
	*option = is
	return nil
}

// compute runs a plan once, on its own buffers, and stores C.
func compute[T, U element.Number](ctx context.Context, d *Device, plan *planner.Plan,
	x *Slices[T, U]) (err error) {
	if err := x.room(plan); err != nil {
		return fmt.Errorf("memory for the results: %w", err)
	}
	program, err := d.Prepare(ctx, plan)
	if err != nil {
		return err
	}
	defer closing(program, &err)
	e, on := &plan.Options.Epilogue, uploads{ctx: ctx, device: d}
	defer on.close(&err)
	run := Operands{A: place(&on, true, x.A, plan.ExtentA), Bias: place(&on, e.Bias, x.Bias, plan.ExtentBias),
		Rows: place(&on, e.UsesRows(), backend.Words(x.Rows), plan.ExtentRows)}
	if of := plan.Options.TypeB; elemtype.Bits4(of) {
		run.B, run.B2 = on.pack(true, of, x.Packed), on.pack(e.Gated, of, x.Packed2)
	} else {
		run.B, run.B2 = place(&on, true, x.B, plan.ExtentB), place(&on, e.Gated, x.B2, plan.ExtentB2)
	}
	if readsC(plan.Batch, e) {
		run.C = place(&on, true, x.C, plan.ExtentC)
	} else if on.err == nil {
		run.C = on.keep(d.NewBuffer(typeOf[U](), plan.ExtentC))
	}
	if on.err != nil {
		return on.err
	}
	if err := program.Run(ctx, run); err != nil {
		return err
	}
	words, err := hostmem.Floats(max(elemtype.Words(run.C.Type(), plan.ExtentC), 1))
	if err != nil {
		return fmt.Errorf("memory for the results: %w", err)
	}
	defer hostmem.Free(words)
	results := unsafe.Slice((*U)(unsafe.Pointer(unsafe.SliceData(words))), plan.ExtentC)
	if err := Read(ctx, run.C, 0, results); err != nil {
		return err
	}
	x.store(plan.Batch, e, results)
	return nil
}

// words returns the operands as words that hold the elements.
func (x *Slices[T, U]) words() hostgemm.Operands {
	all := hostgemm.Operands{A: holding(x.A), B: holding(x.B), C: holding(x.C), B2: holding(x.B2),
		Bias: holding(x.Bias), Rows: x.Rows}
	if len(x.Packed) > 0 {
		all.B, all.B2 = asFloats(x.Packed), asFloats(x.Packed2)
	}
	return all
}

// holding returns the words that hold elements.
func holding[T element.Number](s []T) []float32 {
	return matrices.Span[float32](unsafe.Pointer(unsafe.SliceData(s)), elemtype.Words(typeOf[T](),
		len(s)))
}

// asFloats returns words as those of a buffer.
func asFloats(words []uint32) []float32 {
	return matrices.Span[float32](unsafe.Pointer(unsafe.SliceData(words)), len(words))
}

// room fails if the host has no memory for compute: for its copy of the results, and for pages of C that do
// not exist yet.
func (x *Slices[T, U]) room(plan *planner.Plan) error {
	const few = 1 << 22
	words := elemtype.Words(typeOf[U](), plan.ExtentC)
	if words < few {
		return nil
	}
	return hostmem.CheckTouched(hostmem.Size(words), hostmem.Untouched(x.words().C, hostmem.Size(words)))
}

// uploads are the buffers that a call has made, up to the first error.
type uploads struct {
	ctx    context.Context
	device *Device
	made   []*Buffer
	err    error
}

// keep takes a buffer, or the error of making it.
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

// pack makes a buffer of the words of an operand of 4 bits, if it is used.
func (u *uploads) pack(used bool, of element.Type, words []uint32) *Buffer {
	if !used || u.err != nil {
		return nil
	}
	b := u.keep(u.device.NewBuffer(of, of.PerWord()*len(words)))
	if b != nil {
		u.err = Write(u.ctx, b, 0, words)
	}
	return b
}

// closing closes what a call has made. It sets err if that was nil.
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
