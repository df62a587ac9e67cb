package dispatch

import (
	"context"
	"fmt"
	"io"
	"unsafe"

	"github.com/batchgemm/batchgemm/internal/hostgemm"
	"github.com/batchgemm/batchgemm/internal/hostmem"
	"github.com/batchgemm/batchgemm/internal/invalid"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

// GEMMOf is Device.GEMM for slices of numbers of any type: T those of A and B, U those of C,
// which is T or float32. The options may leave the types out, and have no epilogue.
//
// For types of 16 bits it is simpler as yet: each call plans, and allocates on the device, and
// copies a, b and, where a beta is not 0, c as they lie, up to the last element of the batch.
// It keeps nothing and cuts no batch into parts. Operands of batches that come again are better
// off in buffers, by Plan, Prepare and Run.
func GEMMOf[T, U element.Number](ctx context.Context, d *Device, batch planner.Batch, o planner.Options, a, b []T, c []U) error {
	if err := setType(&o.Type, element.TypeOf[T](), "A and B"); err != nil {
		return err
	}
	if err := setType(&o.TypeC, element.TypeOf[U](), "C"); err != nil {
		return err
	}
	if err := hostgemm.CheckEpilogue(&o); err != nil {
		return err
	}
	if o.Type == element.F32 && o.TypeC == element.F32 {
		return d.GEMM(ctx, batch, o, any(a).([]float32), any(b).([]float32), any(c).([]float32))
	}
	if err := batch.CheckContext(ctx, len(a), len(b), len(c)); err != nil {
		return err
	}
	plan, err := d.Plan(batch, o)
	if err != nil {
		return err
	}
	results, err := compute(ctx, d, plan, a[:plan.ExtentA], b[:plan.ExtentB], c[:plan.ExtentC])
	if err != nil {
		return err
	}
	for i := range batch {
		p := &batch[i]
		if !p.Writes() {
			continue
		}
		for row := range p.M {
			at := p.C.Offset + row*p.C.LD
			copy(c[at:at+p.N], results[at:])
		}
	}
	return nil
}

// setType lets an option be what slices have, unless it is something else.
func setType(option *element.Type, is element.Type, of string) error {
	if *option != element.F32 && *option != is {
		return invalid.Errorf("options for elements of %s, but %s are of %s", *option, of, is)
	}
	*option = is
	return nil
}

// compute runs a plan once, on buffers of its own, and returns C.
func compute[T, U element.Number](ctx context.Context, d *Device, plan *planner.Plan, a, b []T, c []U) (results []U, err error) {
	program, err := d.Prepare(ctx, plan)
	if err != nil {
		return nil, err
	}
	defer closing(program, &err)
	onA, err := upload(ctx, d, a, len(a))
	if err != nil {
		return nil, err
	}
	defer closing(onA, &err)
	onB, err := upload(ctx, d, b, len(b))
	if err != nil {
		return nil, err
	}
	defer closing(onB, &err)
	n := len(c)
	if !readsC(plan.Batch) {
		c = nil
	}
	onC, err := upload(ctx, d, c, n)
	if err != nil {
		return nil, err
	}
	defer closing(onC, &err)
	if err := program.Run(ctx, onA, onB, onC); err != nil {
		return nil, err
	}
	if err := hostmem.Check(hostmem.Size(wordsOf(onC.Type(), n))); err != nil {
		return nil, fmt.Errorf("memory for the results: %w", err)
	}
	results = make([]U, n)
	return results, readAll(ctx, onC, results)
}

// closing closes what a call has made, whose error is returned if there is no other.
func closing(c io.Closer, err *error) {
	if failed := c.Close(); *err == nil {
		*err = failed
	}
}

// upload makes a buffer of n elements, which begins with those of src.
func upload[T element.Number](ctx context.Context, d *Device, src []T, n int) (*Buffer, error) {
	b, err := d.NewBufferOf(element.TypeOf[T](), n)
	if err != nil {
		return nil, err
	}
	if numbers, ok := any(src).([]float32); ok {
		err = b.Write(ctx, 0, numbers)
	} else {
		err = b.WriteBits(ctx, 0, bitsOf(src))
	}
	if err != nil {
		closing(b, &err)
		return nil, err
	}
	return b, nil
}

func readsC(batch planner.Batch) bool {
	for i := range batch {
		if batch[i].Writes() && batch[i].Beta != 0 {
			return true
		}
	}
	return false
}

// readAll copies numbers from a buffer of their type.
func readAll[T element.Number](ctx context.Context, from *Buffer, dst []T) error {
	if numbers, ok := any(dst).([]float32); ok {
		return from.Read(ctx, 0, numbers)
	}
	return from.ReadBits(ctx, 0, bitsOf(dst))
}

// bitsOf shows numbers of a type of 16 bits as what they are.
func bitsOf[T element.Number](numbers []T) []uint16 {
	return unsafe.Slice((*uint16)(unsafe.Pointer(unsafe.SliceData(numbers))), len(numbers))
}
