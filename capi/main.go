//go:build cgo && linux && (amd64 || arm64)

// Command capi is the library libbatchgemm.so: package dispatch with the functions of batchgemm.h, which
// documents them. make capi builds it.
//
// A call goes from entry.c, which defines these functions, to a function exported here, which finds the
// objects of its handles in a table. Go pointers never reach C. C pointers are not kept, except the
// destinations of reads in progress.
package main

// #include "internal.h"
import "C"

import (
	"context"
	"fmt"
	"math"
	"unsafe"

	"github.com/batchgemm/batchgemm/dispatch"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

func main() {} // a library has none, but go build needs one

// anyDevice is the index that leaves the choice to dispatch.
const anyDevice = -1

//export goOpen
func goOpen(mask *C.sigset_t, backend *C.char, index C.int32_t, out *C.bg_device) C.bg_status {
	return call(mask, func() error {
		return create(out, "device", 0, func() (object, error) {
			options := []dispatch.Option{opening(C.GoString(backend))}
			if index != anyDevice {
				options = append(options, dispatch.WithDevice(int(index)))
			}
			return notNil(dispatch.Open(context.Background(), options...))
		})
	})
}

// opening returns the option for the name of a backend, or of a type of elements.
func opening(name string) dispatch.Option {
	var of element.Type
	if name == "" || of.UnmarshalText([]byte(name)) != nil {
		return dispatch.WithBackend(name)
	}
	return dispatch.WithTypes(of)
}

//export goOpenOnStream
func goOpenOnStream(mask *C.sigset_t, device C.bg_device, stream C.uintptr_t, out *C.bg_device) C.bg_status {
	return call(mask, func() error {
		return create(out, "opened", 0, func() (object, error) {
			d, err := find[*dispatch.Device](device)
			if err != nil {
				return nil, err
			}
			return notNil(d.OnStream(uintptr(stream)))
		})
	})
}

//export goDeviceInfo
func goDeviceInfo(mask *C.sigset_t, device C.bg_device, text *C.char, size C.size_t,
	needed *C.size_t) C.bg_status {
	return call(mask, func() error {
		return giveJSON(text, size, needed, func() (any, error) {
			d, err := find[*dispatch.Device](device)
			if err != nil {
				return nil, err
			}
			return d.Info(), nil
		})
	})
}

// plan is a plan as an object.
type plan struct{ *planner.Plan }

func (plan) Close() error { return nil }

//export goPlanNew
func goPlanNew(mask *C.sigset_t, device C.bg_device, problems *C.bg_problem, count C.int64_t, options *C.char,
	out *C.bg_plan) C.bg_status {
	return call(mask, func() error {
		return create(out, "plan", 0, func() (object, error) {
			d, batch, o, err := toPlan(device, problems, count, options)
			if err != nil {
				return nil, err
			}
			p, err := d.Plan(context.Background(), batch, o)
			return notNil(plan{p}, err)
		})
	})
}

//export goWarm
func goWarm(mask *C.sigset_t, device C.bg_device, options *C.char, flags C.uint32_t,
	timeout C.int64_t) C.bg_status {
	return call(mask, func() error {
		d, err := find[*dispatch.Device](device)
		if err != nil {
			return err
		}
		o, err := optionsOf(d, options)
		switch {
		case err != nil:
			return err
		case flags&^knownFlags != 0:
			return invalid("flags %#x ask for what this version of the library does not know", flags)
		}
		trans := planner.Transposition{A: flags&C.BG_TRANS_A != 0, B: flags&C.BG_TRANS_B != 0}
		return within(timeout, func(ctx context.Context) error {
			return d.Warm(ctx, dispatch.WarmOptions{Plans: []planner.Options{o},
				Transpositions: []planner.Transposition{trans}})
		})
	})
}

//export goPlanExplain
func goPlanExplain(mask *C.sigset_t, handle C.bg_plan, text *C.char, size C.size_t,
	needed *C.size_t) C.bg_status {
	return call(mask, func() error {
		return giveJSON(text, size, needed, func() (any, error) {
			p, err := find[plan](handle)
			if err != nil {
				return nil, err
			}
			return p.Explain(), nil
		})
	})
}

//export goPrepare
func goPrepare(mask *C.sigset_t, device C.bg_device, handle C.bg_plan, out *C.bg_program) C.bg_status {
	return call(mask, func() error {
		return createOn(out, "program", device, func(d *dispatch.Device) (object, error) {
			p, err := find[plan](handle)
			if err != nil {
				return nil, err
			}
			return notNil(d.Prepare(context.Background(), p.Plan))
		})
	})
}

//export goUpdate
func goUpdate(mask *C.sigset_t, program C.bg_program, problems *C.bg_problem, count C.int64_t) C.bg_status {
	return call(mask, func() error {
		p, err := find[*dispatch.Program](program)
		if err != nil {
			return err
		}
		batch, err := batchOf(problems, count)
		if err != nil {
			return err
		}
		return p.Update(context.Background(), batch)
	})
}

//export goPrepareRagged
func goPrepareRagged(mask *C.sigset_t, device C.bg_device, ragged *C.bg_ragged, options *C.char,
	out *C.bg_program) C.bg_status {
	return call(mask, func() error {
		return createOn(out, "program", device, func(d *dispatch.Device) (object, error) {
			r, err := raggedOf(ragged)
			if err != nil {
				return nil, err
			}
			o, err := optionsOf(d, options)
			if err != nil {
				return nil, err
			}
			return notNil(d.PrepareRagged(context.Background(), r, o))
		})
	})
}

//export goBufferNew
func goBufferNew(mask *C.sigset_t, device C.bg_device, name *C.char, count C.int64_t,
	out *C.bg_buffer) C.bg_status {
	return call(mask, func() error {
		return createOn(out, "buffer", device, func(d *dispatch.Device) (object, error) {
			of, err := typeOf(name)
			if err != nil {
				return nil, err
			}
			return notNil(d.NewBuffer(of, int(count)))
		})
	})
}

//export goBufferWrap
func goBufferWrap(mask *C.sigset_t, device C.bg_device, name *C.char, address C.uintptr_t, count C.int64_t,
	out *C.bg_buffer) C.bg_status {
	return call(mask, func() error {
		return createOn(out, "buffer", device, func(d *dispatch.Device) (object, error) {
			of, err := typeOf(name)
			if err != nil {
				return nil, err
			}
			return notNil(d.Wrap(of, uintptr(address), int(count)))
		})
	})
}

//export goBufferAddress
func goBufferAddress(mask *C.sigset_t, buffer C.bg_buffer, address *C.uint64_t) C.bg_status {
	return call(mask, func() error {
		if address == nil {
			return invalid("address is NULL")
		}
		*address = 0
		b, err := find[*dispatch.Buffer](buffer)
		if err != nil {
			return err
		}
		at, err := b.Address()
		*address = C.uint64_t(at)
		return err
	})
}

//export goBufferWrite
func goBufferWrite(mask *C.sigset_t, buffer C.bg_buffer, offset C.int64_t, src unsafe.Pointer, count,
	timeout C.int64_t) C.bg_status {
	return call(mask, func() error {
		return transfer(writing, buffer, offset, src, count, timeout)
	})
}

//export goBufferRead
func goBufferRead(mask *C.sigset_t, buffer C.bg_buffer, offset C.int64_t, dst unsafe.Pointer, count,
	timeout C.int64_t) C.bg_status {
	return call(mask, func() error {
		return transfer(reads, buffer, offset, dst, count, timeout)
	})
}

// direction is write or read, with the name of the caller's array.
type direction string

const (
	writing direction = "src"
	reads   direction = "dst"
)

// transfer is bg_buffer_write or bg_buffer_read.
func transfer(to direction, buffer C.bg_buffer, offset C.int64_t, data unsafe.Pointer, count,
	timeout C.int64_t) error {
	b, err := find[*dispatch.Buffer](buffer)
	if err != nil {
		return err
	}
	return within(timeout, func(ctx context.Context) error {
		switch b.Type().PerWord() {
		case 0:
			return move[float64](ctx, to, b, offset, data, count)
		case 8:
			return move[int32](ctx, to, b, offset, data, count)
		case 4:
			return move[uint8](ctx, to, b, offset, data, count)
		case 2:
			return move[uint16](ctx, to, b, offset, data, count)
		}
		return move[float32](ctx, to, b, offset, data, count)
	})
}

// move copies elements; int32 is for words of eight elements of 4 bits.
func move[T float32 | float64 | uint16 | uint8 | int32](ctx context.Context, to direction, b *dispatch.Buffer,
	offset C.int64_t, data unsafe.Pointer, count C.int64_t) error {
	host, err := elements[T](b, string(to), data, count)
	if err != nil {
		return err
	}
	if to == writing {
		return dispatch.Write(ctx, b, int(offset), host)
	}
	return dispatch.Read(ctx, b, int(offset), host)
}

// elements returns an array of C with that many elements of a buffer's type.
func elements[T float32 | float64 | uint16 | uint8 | int32](b *dispatch.Buffer, name string,
	data unsafe.Pointer,
	count C.int64_t) ([]T, error) {
	if b.Type().Bytes() > 0 {
		return numbers[T](name, data, count)
	}
	if err := multiple("count", count, element.Int4.PerWord(), "the elements of a word"); err != nil {
		return nil, err
	}
	return numbers[T](name, data, count/C.int64_t(element.Int4.PerWord()))
}

//export goBufferSlice
func goBufferSlice(mask *C.sigset_t, buffer C.bg_buffer, offset, count C.int64_t,
	out *C.bg_buffer) C.bg_status {
	return call(mask, func() error {
		return create(out, "slice", handles.owner(buffer), func() (object, error) {
			b, err := find[*dispatch.Buffer](buffer)
			if err != nil {
				return nil, err
			}
			return notNil(b.Slice(int(offset), int(count)))
		})
	})
}

//export goCopy
func goCopy(mask *C.sigset_t, device C.bg_device, dst, src C.bg_buffer) C.bg_status {
	return call(mask, func() error {
		d, err := find[*dispatch.Device](device)
		if err != nil {
			return err
		}
		to, err := find[*dispatch.Buffer](dst)
		if err != nil {
			return fmt.Errorf("dst: %w", err)
		}
		from, err := find[*dispatch.Buffer](src)
		if err != nil {
			return fmt.Errorf("src: %w", err)
		}
		return d.Copy(context.Background(), to, from)
	})
}

//export goRun
func goRun(mask *C.sigset_t, program C.bg_program, a, b, c C.bg_buffer) C.bg_status {
	return call(mask, func() error { return queue(program, &C.bg_operands{a: a, b: b, c: c}, false) })
}

//export goRunRagged
func goRunRagged(mask *C.sigset_t, program C.bg_program, sizes, a, b, c C.bg_buffer) C.bg_status {
	return call(mask, func() error {
		return queue(program, &C.bg_operands{a: a, b: b, c: c, sizes: sizes}, true)
	})
}

//export goRunOperands
func goRunOperands(mask *C.sigset_t, program C.bg_program, o *C.bg_operands) C.bg_status {
	return call(mask, func() error {
		own, err := structOf("operands", o, unsafe.Sizeof(*o))
		if err != nil {
			return err
		}
		return queue(program, &own, false)
	})
}

// queue queues a run. A, B and C are required unless they are by pointers, and sizes if the run is ragged; 0
// means that another operand is missing.
func queue(program C.bg_program, o *C.bg_operands, ragged bool) error {
	p, err := find[*dispatch.Program](program)
	if err != nil {
		return err
	}
	var r dispatch.Operands
	plan := p.Plan()
	by := plan.Options.Epilogue.Pointers
	for _, arg := range [...]struct {
		name   string
		handle C.bg_buffer
		buffer **dispatch.Buffer
		needed bool
	}{
		{"a", o.a, &r.A, !by.A}, {"b", o.b, &r.B, plan.Takes().B && !by.B}, {"c", o.c, &r.C, !by.C},
		{"sizes", o.sizes, &r.Sizes, ragged},
		{"b2", o.b2, &r.B2, false}, {"bias", o.bias, &r.Bias, false}, {"rows", o.rows, &r.Rows, false},
	} {
		switch {
		case arg.handle != 0:
			if *arg.buffer, err = find[*dispatch.Buffer](arg.handle); err != nil {
				return fmt.Errorf("%s: %w", arg.name, err)
			}
		case arg.needed:
			return marked{fmt.Errorf("%s is missing: its handle is 0", arg.name), errHandle}
		}
	}
	return p.Run(context.Background(), r)
}

//export goRunAt
func goRunAt(mask *C.sigset_t, program C.bg_program, stream C.uintptr_t, at *C.bg_addresses) C.bg_status {
	return call(mask, func() error {
		run, err := runOnOf(program, at)
		if err != nil {
			return err
		}
		return run.Program.Device().RunAt(context.Background(), uintptr(stream), run)
	})
}

// runOnOf finds the program of a run and copies the addresses.
func runOnOf(program C.bg_program, at *C.bg_addresses) (run dispatch.RunOn, err error) {
	own, err := structOf("addresses", at, firstAddresses)
	if err != nil {
		return run, err
	}
	run = dispatch.RunOn{A: uintptr(own.a), B: uintptr(own.b), C: uintptr(own.c), Sizes: uintptr(own.sizes),
		B2: uintptr(own.b2), Bias: uintptr(own.bias), Rows: uintptr(own.rows), Extent: int(own.extent)}
	run.Program, err = find[*dispatch.Program](program)
	return run, err
}

//export goRunAllAt
func goRunAllAt(mask *C.sigset_t, stream C.uintptr_t, programs *C.bg_program, at *C.bg_addresses,
	count C.size_t) C.bg_status {
	return call(mask, func() error {
		runs, err := runsOnOf(programs, at, count)
		if err != nil || len(runs) == 0 {
			return err
		}
		p := runs[0].Program
		return p.Device().RunAt(context.Background(), uintptr(stream), runs...)
	})
}

// runsOnOf is runOnOf for arrays.
func runsOnOf(programs *C.bg_program, at *C.bg_addresses, count C.size_t) ([]dispatch.RunOn, error) {
	switch {
	case count > math.MaxInt32:
		return nil, invalid("count %d is above the limit %d", count, math.MaxInt32)
	case count == 0:
		return nil, nil
	case programs == nil:
		return nil, invalid("programs is NULL")
	case at == nil:
		return nil, invalid("addresses is NULL")
	}
	if _, err := elementOf("addresses", at, 0, firstAddresses); err != nil {
		return nil, err // before there is memory for them
	}
	runs := make([]dispatch.RunOn, count)
	for i, program := range unsafe.Slice(programs, int(count)) {
		own, err := elementOf("addresses", at, i, firstAddresses)
		if err != nil {
			return nil, err
		}
		if runs[i], err = runOnOf(program, own); err != nil {
			return nil, fmt.Errorf("run %d: %w", i, err)
		}
	}
	return runs, nil
}

//export goProgramStatus
func goProgramStatus(mask *C.sigset_t, program C.bg_program, timeout C.int64_t) C.bg_status {
	return call(mask, func() error {
		p, err := find[*dispatch.Program](program)
		if err != nil {
			return err
		}
		return within(timeout, p.Status)
	})
}

//export goWait
func goWait(mask *C.sigset_t, device C.bg_device, timeout C.int64_t) C.bg_status {
	return call(mask, func() error {
		d, err := find[*dispatch.Device](device)
		if err != nil {
			return err
		}
		return within(timeout, d.Wait)
	})
}

//export goClose
func goClose(mask *C.sigset_t, handle C.uint64_t) C.bg_status {
	return call(mask, func() error { return handles.close(uint64(handle)) })
}
