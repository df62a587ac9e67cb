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
	a unsafe.Pointer, lenA C.int64_t, b unsafe.Pointer, lenB C.int64_t, c unsafe.Pointer, lenC, timeout C.int64_t,
) C.bg_status {
	return call(mask, func() error {
		d, batch, o, err := toPlan(device, problems, count, options)
		if err != nil {
			return err
		}
		return within(timeout, func(ctx context.Context) error {
			return gemmOf(o)(ctx, d, batch, o, hostArrays{{"a", a, lenA}, {"b", b, lenB}, {"c", c, lenC}})
		})
	})
}

//export goGEMMAsync
func goGEMMAsync(mask *C.sigset_t, device C.bg_device, problems *C.bg_problem, count C.int64_t, options *C.char,
	a unsafe.Pointer, lenA C.int64_t, b unsafe.Pointer, lenB C.int64_t, c unsafe.Pointer, lenC C.int64_t, out *C.bg_read,
) C.bg_status {
	return call(mask, func() error {
		// No object of the device: c is the caller's again when the call has ended, not when the device is closed.
		return create(out, "read", 0, func() (object, error) {
			d, batch, o, err := toPlan(device, problems, count, options)
			if err != nil {
				return nil, err
			}
			ctx, cancel := context.WithCancel(context.Background())
			p := &product{done: make(chan struct{})}
			go func() {
				defer close(p.done)
				p.err = guard(func() error {
					return gemmOf(o)(ctx, d, batch, o, hostArrays{{"a", a, lenA}, {"b", b, lenB}, {"c", c, lenC}})
				})
			}()
			return reading{p, cancel}, nil
		})
	})
}

// product is a product on host memory under way.
type product struct {
	done chan struct{}
	err  error // set before done is closed
}

func (p *product) Done() <-chan struct{} { return p.done }

func (p *product) Err() error { return p.err }

// hostArrays are A, B and C.
type hostArrays [3]struct {
	name   string
	data   unsafe.Pointer
	length C.int64_t
}

// gemmOf is the product for types of elements. Where no such types go together it is any that
// dispatch refuses.
func gemmOf(o planner.Options) func(context.Context, *dispatch.Device, planner.Batch, planner.Options, hostArrays) error {
	switch types := [2]element.Type{o.Type, o.TypeC}; types {
	case [2]element.Type{element.BF16, element.F32}:
		return gemm[element.BFloat16, float32]
	case [2]element.Type{element.BF16, element.BF16}:
		return gemm[element.BFloat16, element.BFloat16]
	case [2]element.Type{element.F16, element.F32}:
		return gemm[element.Float16, float32]
	case [2]element.Type{element.F16, element.F16}:
		return gemm[element.Float16, element.Float16]
	}
	return gemm[float32, float32]
}

func gemm[T, U element.Number](ctx context.Context, d *dispatch.Device, batch planner.Batch, o planner.Options, host hostArrays) error {
	a, err := numbers[T](host[0].name, host[0].data, host[0].length)
	if err != nil {
		return err
	}
	b, err := numbers[T](host[1].name, host[1].data, host[1].length)
	if err != nil {
		return err
	}
	c, err := numbers[U](host[2].name, host[2].data, host[2].length)
	if err != nil {
		return err
	}
	return dispatch.GEMMOf(ctx, d, batch, o, a, b, c)
}
