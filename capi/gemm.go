//go:build cgo && linux && (amd64 || arm64)

package main

// #include "internal.h"
import "C"

import (
	"context"
	"unsafe"

	"github.com/batchgemm/batchgemm/dispatch"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

//export goGEMM
func goGEMM(mask *C.sigset_t, device C.bg_device, problems *C.bg_problem, count C.int64_t, options *C.char,
	a unsafe.Pointer, lenA C.int64_t, b unsafe.Pointer, lenB C.int64_t, c unsafe.Pointer, lenC,
	timeout C.int64_t,
) C.bg_status {
	return call(mask, func() error {
		return gemmNow(device, problems, count, options, &hostArrays{{a, lenA}, {b, lenB}, {c, lenC}},
			timeout)
	})
}

//export goGEMMOperands
func goGEMMOperands(mask *C.sigset_t, device C.bg_device, problems *C.bg_problem, count C.int64_t,
	options *C.char,
	o *C.bg_host_operands, timeout C.int64_t,
) C.bg_status {
	return call(mask, func() error {
		host, err := arraysOf(o)
		if err != nil {
			return err
		}
		return gemmNow(device, problems, count, options, host, timeout)
	})
}

func gemmNow(device C.bg_device, problems *C.bg_problem, count C.int64_t, options *C.char, host *hostArrays,
	timeout C.int64_t) error {
	d, batch, o, err := toPlan(device, problems, count, options)
	if err != nil {
		return err
	}
	return within(timeout, func(ctx context.Context) error { return gemmOf(o)(ctx, d, batch, o, host) })
}

//export goGEMMAsync
func goGEMMAsync(mask *C.sigset_t, device C.bg_device, problems *C.bg_problem, count C.int64_t,
	options *C.char,
	a unsafe.Pointer, lenA C.int64_t, b unsafe.Pointer, lenB C.int64_t, c unsafe.Pointer, lenC C.int64_t,
	out *C.bg_read,
) C.bg_status {
	return call(mask, func() error {
		return gemmLater(device, problems, count, options, func() (*hostArrays, error) {
			return &hostArrays{{a, lenA}, {b, lenB}, {c, lenC}}, nil
		}, out)
	})
}

//export goGEMMOperandsAsync
func goGEMMOperandsAsync(mask *C.sigset_t, device C.bg_device, problems *C.bg_problem, count C.int64_t,
	options *C.char,
	o *C.bg_host_operands, out *C.bg_read,
) C.bg_status {
	return call(mask, func() error {
		return gemmLater(device, problems, count, options, func() (*hostArrays, error) {
			return arraysOf(o)
		}, out)
	})
}

// gemmLater starts a product. The read is not an object of the device: the caller may use c when the call
// has ended, not when the device is closed.
func gemmLater(device C.bg_device, problems *C.bg_problem, count C.int64_t, options *C.char,
	arrays func() (*hostArrays, error), out *C.bg_read) error {
	return create(out, "read", 0, func() (object, error) {
		host, err := arrays()
		if err != nil {
			return nil, err
		}
		d, batch, o, err := toPlan(device, problems, count, options)
		if err != nil {
			return nil, err
		}
		ctx, cancel := context.WithCancel(context.Background())
		p := &product{done: make(chan struct{})}
		go func() {
			defer close(p.done)
			p.err = guard(func() error { return gemmOf(o)(ctx, d, batch, o, host) })
		}()
		return reading{p, cancel}, nil
	})
}

// product is a product on host memory in progress.
type product struct {
	done chan struct{}
	err  error // set before done is closed
}

func (p *product) Done() <-chan struct{} { return p.done }

func (p *product) Err() error { return p.err }

// hostArrays are A, B, C, B2, bias and rows.
type hostArrays [6]struct {
	data   unsafe.Pointer
	length C.int64_t
}

// hostOperands is bg_host_operands with numbers instead of pointers, because pointers to nothing may have
// any value.
type hostOperands struct {
	_, _   uint32
	arrays [6]struct {
		data   uintptr
		length C.int64_t
	}
}

var _ [unsafe.Sizeof(hostOperands{})]byte = [C.sizeof_bg_host_operands]byte{}

// arraysOf returns the arrays of a caller's struct.
func arraysOf(o *C.bg_host_operands) (*hostArrays, error) {
	own, err := structOf("host_operands", (*hostOperands)(unsafe.Pointer(o)), unsafe.Sizeof(hostOperands{}))
	if err != nil {
		return nil, err
	}
	host := new(hostArrays)
	for i := range own.arrays {
		from, to := &own.arrays[i], &host[i]
		if to.length = from.length; to.length > 0 {
			to.data = *(*unsafe.Pointer)(unsafe.Pointer(&from.data))
		}
	}
	return host, nil
}

// gemmOf returns the product for the types of the options. For types that do not match, it returns any
// product, which dispatch refuses.
func gemmOf(o planner.Options) func(context.Context, *dispatch.Device, planner.Batch, planner.Options,
	*hostArrays) error {
	switch types := [2]element.Type{o.TypeA, o.TypeC}; types {
	case [2]element.Type{element.BF16, element.F32}:
		return gemm[element.BFloat16, float32]
	case [2]element.Type{element.BF16, element.BF16}:
		return gemm[element.BFloat16, element.BFloat16]
	case [2]element.Type{element.F16, element.F32}:
		return gemm[element.Float16, float32]
	case [2]element.Type{element.F16, element.F16}:
		return gemm[element.Float16, element.Float16]
	case [2]element.Type{element.E4M3, element.F32}:
		return gemm[element.Float8E4M3, float32]
	case [2]element.Type{element.E4M3, element.BF16}:
		return gemm[element.Float8E4M3, element.BFloat16]
	case [2]element.Type{element.E4M3, element.F16}:
		return gemm[element.Float8E4M3, element.Float16]
	case [2]element.Type{element.Int8, element.F32}:
		return gemm[int8, float32]
	case [2]element.Type{element.Int8, element.BF16}:
		return gemm[int8, element.BFloat16]
	case [2]element.Type{element.Int8, element.F16}:
		return gemm[int8, element.Float16]
	case [2]element.Type{element.F64, element.F64}:
		return gemm[float64, float64]
	case [2]element.Type{element.F64, element.F32}:
		return gemm[float64, float32]
	}
	return gemm[float32, float32]
}

func gemm[T, U element.Number](ctx context.Context, d *dispatch.Device, batch planner.Batch,
	o planner.Options, host *hostArrays) (err error) {
	x := dispatch.Slices[T, U]{A: array[T](host, 0, &err), C: array[U](host, 2, &err),
		Bias: array[U](host, 4, &err), Rows: array[int32](host, 5, &err)}
	if o.TypeB.Bytes() == 0 {
		x.Packed, x.Packed2 = packedArray(host, 1, &err), packedArray(host, 3, &err)
	} else {
		x.B, x.B2 = array[T](host, 1, &err), array[T](host, 3, &err)
	}
	if err != nil {
		return err
	}
	return dispatch.GEMM(ctx, d, batch, o, x)
}

// hostNames are the names of the arrays.
var hostNames = [...]string{"a", "b", "c", "b2", "bias", "rows"}

// array returns one of the arrays, or sets err unless it is set.
func array[T element.Number | int32](host *hostArrays, i int, err *error) (s []T) {
	if *err == nil {
		s, *err = numbers[T](hostNames[i], host[i].data, host[i].length)
	}
	return s
}

// packedArray does that for words of eight elements.
func packedArray(host *hostArrays, i int, err *error) (s []uint32) {
	const each = 8
	if *err == nil {
		*err = multiple("len_"+hostNames[i], host[i].length, each, "the elements of a word")
	}
	if *err == nil {
		s, *err = numbers[uint32](hostNames[i], host[i].data, host[i].length/each)
	}
	return s
}
