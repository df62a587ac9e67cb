package main

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/batchgemm/batchgemm/dispatch"
	"github.com/batchgemm/batchgemm/internal/bench"
	"github.com/batchgemm/batchgemm/internal/cublas"
	"github.com/batchgemm/batchgemm/internal/workload"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

// cudaBench is what the benchmark of a CUDA device needs beside the device.
type cudaBench struct {
	stream *cublas.Stream   // for graphs and cuBLAS
	device *dispatch.Device // the same GPU, on the stream
	handle *cublas.Handle   // nil: none
	vs     []string
}

// openCUDA prepares cudaBench, and the rivals in vs that belong to cuBLAS. notes says which of them are not
// available.
func (b *bencher) openCUDA(vs []string) (notes []string, err error) {
	vs = slices.DeleteFunc(slices.Clone(vs), func(name string) bool {
		return !strings.HasPrefix(name, "cublas")
	})
	info := b.device.Info()
	if info.Backend != "cuda" {
		if len(vs) > 0 {
			notes = append(notes, "no comparison with cuBLAS: unavailable: it needs the backend cuda, this "+
				"is "+info.Backend)
		}
		return notes, nil
	}
	b.cuda = &cudaBench{vs: vs}
	if b.cuda.stream, err = cublas.Open(info.Index); err != nil {
		return nil, err
	}
	if b.cuda.device, err = b.device.OnStream(b.cuda.stream.Native()); err != nil {
		return nil, err
	}
	if len(vs) == 0 {
		return notes, nil
	}
	b.cuda.handle, err = b.cuda.stream.CuBLAS()
	switch {
	case errors.Is(err, dispatch.ErrUnavailable):
		return append(notes, "no comparison with "+err.Error()), nil
	case err != nil:
		return nil, err
	}
	if b.cuda.handle.HasGrouped() {
		return notes, nil
	}
	b.cuda.vs = slices.DeleteFunc(vs, func(name string) bool {
		grouped := name == cublasGrouped || name == cublasPadded
		if grouped {
			notes = append(notes, "no comparison with "+name+": it needs cuBLAS 12.5, this is "+
				b.cuda.handle.String())
		}
		return grouped
	})
	return notes, nil
}

// close frees what openCUDA made.
func (g *cudaBench) close() error {
	var errs []error
	if g.handle != nil {
		errs = append(errs, g.handle.Close())
	}
	if g.device != nil {
		errs = append(errs, g.device.Close())
	}
	if g.stream != nil {
		errs = append(errs, g.stream.Close())
	}
	return errors.Join(errs...)
}

// sharedBuffer is memory for both devices and cuBLAS.
type sharedBuffer struct {
	ptr      uintptr
	onStream *dispatch.Buffer
}

// buffer allocates n elements for a case.
func (g *cudaBench) buffer(c *benchCase, of element.Type, n int) (own *dispatch.Buffer,
	shared sharedBuffer, err error) {
	n = max(n, 1)
	ptr, err := g.stream.Alloc(roundUp(of.Size(n), 4)) // whole words, which the device moves
	if err != nil {
		return nil, shared, err
	}
	c.closers = append(c.closers, func() error { return g.stream.Free(ptr) })
	onStream, err := g.device.Wrap(of, ptr, n)
	if err != nil {
		return nil, shared, err
	}
	c.closers = append(c.closers, onStream.Close)
	own, err = c.device.Wrap(of, ptr, n)
	return own, sharedBuffer{ptr, onStream}, err
}

// ownGraph times a plan as a node of a graph. sizes are those of a ragged plan, or nil.
func (g *cudaBench) ownGraph(ctx context.Context, c *benchCase, plan *planner.Plan,
	sizes *dispatch.Buffer) (bench.Method, error) {
	program, err := g.device.Prepare(ctx, plan)
	if err != nil {
		return bench.Method{}, err
	}
	c.closers = append(c.closers, program.Close)
	return g.inGraph(c, ownName, len(plan.Launches), func(set int) error {
		run := runOf(program, c.sets[set].onStream[:])
		run.Sizes = sizes
		return g.device.Run(ctx, run)
	})
}

// contenders prepares the methods of cuBLAS for a case.
func (g *cudaBench) contenders(ctx context.Context, c *benchCase) ([]*contender, error) {
	if g.handle == nil {
		return nil, nil
	}
	var all []*contender
	for _, name := range rivals {
		if !slices.Contains(g.vs, name) {
			continue
		}
		on := c
		if name == cublasPadded {
			var err error
			if on, err = c.padded(ctx); err != nil {
				return nil, err
			}
		}
		m, err := g.contender(on, name)
		if err != nil {
			return nil, err
		}
		all = append(all, m)
	}
	return all, nil
}

// contender prepares one of them, on the operands of a case.
func (g *cudaBench) contender(c *benchCase, name string) (*contender, error) {
	batches := make([]*cublas.Batch, len(c.sets))
	for i := range c.sets {
		ptrs := &c.sets[i].ptrs
		batch, err := g.handle.Batch(c.batch, c.options.TypeA, ptrs[0], ptrs[1], ptrs[2])
		if err != nil {
			return nil, err
		}
		c.closers = append(c.closers, batch.Close)
		batches[i] = batch
	}
	run := func(set int) error { return batches[set].Loop() }
	var timed bench.Method
	var err error
	switch name {
	case cublasLoop:
		timed = g.inStream(c, name, len(c.batch), run)
	case cublasGraph:
		timed, err = g.inGraph(c, name, len(c.batch), run)
	default:
		run = func(set int) error { return batches[set].Grouped() }
		timed = g.inStream(c, name, 1, run)
	}
	return &contender{on: c, name: name, timed: []bench.Method{timed},
		result: c.onDevice(func() error { return run(0) }), largest: sampleFLOPs}, err
}

// padding is the multiple to which cublas-padded rounds sizes up: 16 bytes of 16-bit elements, with which
// libraries are fast.
const padding = 8

// padded returns the case with all sizes rounded up, and operands of its own.
func (c *benchCase) padded(ctx context.Context) (*benchCase, error) {
	problems := slices.Clone(c.batch)
	for i := range problems {
		p := &problems[i]
		for _, size := range []*int{&p.M, &p.N, &p.K} {
			*size = roundUp(*size, padding)
		}
	}
	batch, err := planner.Pack(problems...)
	if err != nil {
		return nil, err
	}
	there := &benchCase{bencher: c.bencher, options: c.options, batch: batch}
	if there.ops, err = c.operands(&workload.Workload{Name: cublasPadded, Batch: batch},
		&c.options); err != nil {
		return nil, err
	}
	c.closers = append(c.closers, there.close)
	return there, there.upload(ctx)
}

// copies returns how many executions of that many kernels make a graph or a series.
func copies(kernelsOfOne int) int { return max(1, kernels/max(kernelsOfOne, 1)) }

// inStream times back-to-back executions, which run queues.
func (g *cudaBench) inStream(c *benchCase, name string, kernelsOfOne int,
	run func(set int) error) bench.Method {
	return bench.Method{Name: name, Timed: bench.Stream, Sample: func(context.Context) (bench.Sample, error) {
		device, host, err := g.stream.Time(copies(kernelsOfOne), func(int) error { return run(c.turn()) })
		return bench.Sample{Device: device, Host: host}, err
	}}
}

// inGraph times executions that were captured in a graph, each set of operands
// equally often.
func (g *cudaBench) inGraph(c *benchCase, name string, kernelsOfOne int,
	run func(set int) error) (bench.Method, error) {
	if err := run(0); err != nil { // loads kernels, which is not possible in a capture
		return bench.Method{}, err
	}
	n := (copies(kernelsOfOne) + len(c.sets) - 1) / len(c.sets) * len(c.sets)
	graph, err := g.stream.Capture(n, func(i int) error { return run(i % len(c.sets)) })
	if err != nil {
		return bench.Method{}, err
	}
	c.closers = append(c.closers, graph.Close)
	return bench.Method{Name: name, Timed: bench.Graph, Sample: func(context.Context) (bench.Sample, error) {
		device, err := graph.Time()
		return bench.Sample{Device: device}, err
	}}, nil
}
