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

// Operands are those of a product on host memory, as slices of numbers: T those of A and B, U those
// of C, one of element.Type.TypesC.
type Operands[T, U element.Number] struct {
	A, B []T
	C    []U

	// What the epilogue of the options asks for, with places in the problems as for buffers of a Run, and
	// empty where it does not: Rows has lists of rows, and weights and scales as bits of fp32.
	B2   []T
	Bias []U
	Rows []int32
}

// Host computes on host memory: a *Device, or a *Group, which shares the work among its devices.
type Host interface {
	GEMM(ctx context.Context, batch planner.Batch, o planner.Options, a, b, c []float32) error
	gemm32(ctx context.Context, batch planner.Batch, o planner.Options, x hostgemm.Operands) error
	single() *Device // for what is not shared
}

// GEMMOf is Device.GEMM for slices of numbers of any type, which the options may leave out:
// GEMMOperands with no more than A, B and C.
func GEMMOf[T, U element.Number](ctx context.Context, d *Device, batch planner.Batch, o planner.Options, a,
	b []T, c []U) error {
	return GEMMOperands(ctx, d, batch, o, Operands[T, U]{A: a, B: b, C: c})
}

// GEMMOperands is GEMM, of a Device or a Group, for slices of numbers of any type, and with what an
// epilogue has beside A, B and C. The options may leave the types out. Elements of x.C that no problem
// has stay as they are, and so do rows that none is scattered to; on an error all do. Pointers are an
// error: slices have no address on the device.
//
// Of float32, rows are gathered and scattered by the host, so that no others travel: GatherRows and
// ScatterRows may be many more than problems have. For other types it is simpler as yet: each call
// plans, and allocates on the device, and copies operands, and C where a beta is not 0, as they
// lie, up to the last element of the batch. It keeps nothing, cuts no batch into parts, and takes the
// first device of a group. Operands of batches that come again are better off in buffers, by Plan,
// Prepare and Run.
func GEMMOperands[T, U element.Number](ctx context.Context, h Host, batch planner.Batch, o planner.Options,
	x Operands[T, U]) error {
	if d, ok := h.(*Device); h == nil || ok && d == nil {
		return invalid.Errorf("the device is nil")
	}
	ab, c := element.TypeOf[T](), element.TypeOf[U]()
	err := cmp.Or(setType(&o.TypeA, ab, "A"), setType(&o.TypeB, ab, "B"), setType(&o.TypeC, c, "C"))
	if err != nil {
		return err
	}
	if all, ok := any(x).(Operands[float32, float32]); ok {
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
func (x *Operands[T, U]) store(batch planner.Batch, e *planner.Epilogue, results []U) {
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
	x *Operands[T, U]) (err error) {
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
	run := Run{Program: program, A: place(&on, true, x.A, plan.ExtentA),
		B:  place(&on, true, x.B, plan.ExtentB),
		B2: place(&on, e.Gated, x.B2, plan.ExtentB2), Bias: place(&on, e.Bias, x.Bias, plan.ExtentBias),
		Rows: place(&on, e.UsesRows(), backend.Words(x.Rows), plan.ExtentRows)}
	if readsC(plan.Batch, e) {
		run.C = place(&on, true, x.C, plan.ExtentC)
	} else if on.err == nil {
		run.C = on.keep(d.NewBufferOf(element.TypeOf[U](), plan.ExtentC))
	}
	if on.err != nil {
		return on.err
	}
	if err := d.Run(ctx, run); err != nil {
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
		if err := readAll(ctx, run.C, results); err != nil {
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
func (x *Operands[T, U]) room(d *Device, plan *planner.Plan) error {
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
	return u.keep(upload(u.ctx, u.device, src[:n]))
}

// closing closes what a call has made, whose error is returned if there is no other.
func closing(c io.Closer, err *error) {
	if failed := c.Close(); *err == nil {
		*err = failed
	}
}

// upload makes a buffer of elements.
func upload[T element.Number](ctx context.Context, d *Device, src []T) (*Buffer, error) {
	b, err := d.NewBufferOf(element.TypeOf[T](), len(src))
	if err != nil {
		return nil, err
	}
	switch numbers := any(src).(type) {
	case []float32:
		err = b.Write(ctx, 0, numbers)
	case []element.Float8E4M3:
		err = b.WriteBytes(ctx, 0, bitsOf[uint8](numbers))
	case []int8:
		err = b.WriteBytes(ctx, 0, bitsOf[uint8](numbers))
	default:
		err = b.WriteBits(ctx, 0, bitsOf[uint16](src))
	}
	if err != nil {
		closing(b, &err)
		return nil, err
	}
	return b, nil
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

// readAll copies numbers from a buffer of their type, which C may have.
func readAll[T element.Number](ctx context.Context, from *Buffer, dst []T) error {
	if numbers, ok := any(dst).([]float32); ok {
		return from.Read(ctx, 0, numbers)
	}
	return from.ReadBits(ctx, 0, bitsOf[uint16](dst))
}

// bitsOf shows numbers of a type as what they are, of its size.
func bitsOf[B bits, T element.Number](numbers []T) []B {
	return unsafe.Slice((*B)(unsafe.Pointer(unsafe.SliceData(numbers))), len(numbers))
}
