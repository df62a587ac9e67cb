package main

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"syscall/js"
	"time"
	"unsafe"

	"github.com/batchgemm/batchgemm/planner"
)

// view describes how to walk through a matrix, transposed or not.
type view struct{ offset, row, col int }

func viewOf(m planner.Matrix, transposed bool) view {
	if transposed {
		return view{m.Offset, 1, m.LD}
	}
	return view{m.Offset, m.LD, 1}
}

func (b *batch) naive(ctx context.Context) (method, error) {
	if b.device.Info().Backend == "cpu" {
		return naiveLoops{b}, nil
	}
	return newNaiveShader(ctx, b)
}

// naiveLoops is three loops, in Go.
type naiveLoops struct{ *batch }

func (n naiveLoops) compute(c []float32) {
	for i := range n.plan.Batch {
		p := &n.plan.Batch[i]
		va, vb := viewOf(p.A, p.TransA), viewOf(p.B, p.TransB)
		for row := range p.M {
			for col := range p.N {
				sum := float32(0)
				for k := range p.K {
					sum += n.A[va.offset+row*va.row+k*va.col] * n.B[vb.offset+k*vb.row+col*vb.col]
				}
				at := &c[p.C.Offset+row*p.C.LD+col]
				sum *= float32(p.Alpha.Value())
				if p.Beta != 0 {
					sum += float32(p.Beta) * *at
				}
				*at = sum
			}
		}
	}
}

func (n naiveLoops) once(context.Context) ([]float32, error) {
	c := slices.Clone(n.C)
	n.compute(c)
	return c, nil
}

func (n naiveLoops) time(_ context.Context, runs int) (time.Duration, error) {
	c := slices.Clone(n.C)
	start := time.Now()
	for range runs {
		n.compute(c)
	}
	return time.Since(start), nil
}

func (naiveLoops) dispatches() int { return 1 }
func (naiveLoops) Close() error    { return nil }

// naiveShader has a thread for each element of C (page/naive.js), on its own GPUDevice of the same adapter.
type naiveShader struct{ made js.Value }

func newNaiveShader(ctx context.Context, of *batch) (*naiveShader, error) {
	var words []uint32
	rows, cols := 0, 0 // of the largest C
	for i := range of.plan.Batch {
		p := &of.plan.Batch[i]
		rows, cols = max(rows, p.M), max(cols, p.N)
		a, b := viewOf(p.A, p.TransA), viewOf(p.B, p.TransB)
		for _, word := range []int{p.M, p.N, p.K, a.offset, a.row, a.col, b.offset, b.row, b.col,
			p.C.Offset, p.C.LD} {
			words = append(words, uint32(word))
		}
		words = append(words, math.Float32bits(float32(p.Alpha.Value())),
			math.Float32bits(float32(p.Beta)))
	}
	made, err := call(ctx, js.Global(), "makeNaive", toJS(words), rows, cols, toJS(of.A), toJS(of.B),
		toJS(of.C))
	return &naiveShader{made}, err
}

func (n *naiveShader) once(ctx context.Context) ([]float32, error) {
	bytes, err := call(ctx, n.made, "once")
	if err != nil {
		return nil, err
	}
	raw := make([]byte, bytes.Length())
	js.CopyBytesToGo(raw, bytes)
	c := make([]float32, len(raw)/4)
	for i := range c {
		c[i] = math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:]))
	}
	return c, nil
}

func (n *naiveShader) time(ctx context.Context, runs int) (time.Duration, error) {
	start := time.Now()
	_, err := call(ctx, n.made, "run", runs)
	return time.Since(start), err
}

func (*naiveShader) dispatches() int { return 1 }

func (n *naiveShader) Close() error {
	n.made.Call("close")
	return nil
}

// toJS copies 32-bit numbers to a Uint8Array.
func toJS[T uint32 | float32](numbers []T) js.Value {
	array := js.Global().Get("Uint8Array").New(4 * len(numbers))
	js.CopyBytesToJS(array, unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(numbers))), 4*len(numbers)))
	return array
}

// call calls an asynchronous function, and waits. The function fails only by its promise.
func call(ctx context.Context, object js.Value, name string, args ...any) (js.Value, error) {
	type result struct {
		value js.Value
		err   error
	}
	settled := make(chan result, 1)
	fulfilled := js.FuncOf(func(_ js.Value, args []js.Value) any {
		settled <- result{value: args[0]}
		return nil
	})
	defer fulfilled.Release()
	rejected := js.FuncOf(func(_ js.Value, args []js.Value) any {
		settled <- result{err: errors.New(args[0].Get("message").String())}
		return nil
	})
	defer rejected.Release()
	object.Call(name, args...).Call("then", fulfilled, rejected)
	select {
	case r := <-settled:
		return r.value, r.err
	case <-ctx.Done():
		return js.Undefined(), ctx.Err()
	}
}
