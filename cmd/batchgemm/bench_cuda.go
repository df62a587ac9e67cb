package main

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/batchgemm/batchgemm/dispatch"
	"github.com/batchgemm/batchgemm/internal/bench"
	"github.com/batchgemm/batchgemm/internal/cublas"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

// cudaBench is what the benchmark of a CUDA device has beside the device.
type cudaBench struct {
	stream *cublas.Stream   // of graphs and of cuBLAS
	device *dispatch.Device // the same GPU, on the stream
	handle *cublas.Handle   // nil: none
	vs     []string
}

// openCUDA prepares what CUDA has beside the device, and those of vs that are
// cuBLAS's. What cannot be compared with is told in notes.
func (b *bencher) openCUDA(vs []string) (notes []string, err error) {
	vs = slices.DeleteFunc(slices.Clone(vs), func(name string) bool { return !strings.HasPrefix(name, "cublas") })
	info := b.device.Info()
	if info.Backend != "cuda" || b.options.Type != element.F32 { // what is shared is float32
		if len(vs) > 0 {
			notes = append(notes, "no comparison with cuBLAS: unavailable: it needs the backend cuda, this is "+info.Backend)
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
	if i := slices.Index(vs, cublasGrouped); i >= 0 && !b.cuda.handle.HasGrouped() {
		b.cuda.vs = slices.Delete(slices.Clone(vs), i, i+1)
		notes = append(notes, "no comparison with "+cublasGrouped+": it needs cuBLAS 12.5, this is "+b.cuda.handle.String())
	}
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

// sharedBuffer is memory that both devices and cuBLAS use.
type sharedBuffer struct {
	ptr      uintptr
	onStream *dispatch.Buffer
}

// buffer allocates n float32 for a case.
func (g *cudaBench) buffer(c *benchCase, n int) (own *dispatch.Buffer, shared sharedBuffer, err error) {
	n = max(n, 1)
	ptr, err := g.stream.Alloc(4 * n)
	if err != nil {
		return nil, shared, err
	}
	c.closers = append(c.closers, func() error { return g.stream.Free(ptr) })
	onStream, err := g.device.Wrap(ptr, n)
	if err != nil {
		return nil, shared, err
	}
	c.closers = append(c.closers, onStream.Close)
	own, err = c.device.Wrap(ptr, n)
	return own, sharedBuffer{ptr, onStream}, err
}

// ownGraph times a plan as a node of a graph. sizes are of a ragged plan, or nil.
func (g *cudaBench) ownGraph(ctx context.Context, c *benchCase, plan *planner.Plan, sizes *dispatch.Buffer) (bench.Method, error) {
	program, err := g.device.Prepare(ctx, plan)
	if err != nil {
		return bench.Method{}, err
	}
	c.closers = append(c.closers, program.Close)
	return g.inGraph(c, ownName, len(plan.Launches), func(set int) error {
		s := &c.sets[set].shared
		return g.device.Run(ctx, dispatch.Run{Program: program, A: s[0].onStream, B: s[1].onStream, C: s[2].onStream, Sizes: sizes})
	})
}

// contenders prepares the methods of cuBLAS for a case.
func (g *cudaBench) contenders(c *benchCase) ([]*contender, error) {
	if g.handle == nil {
		return nil, nil
	}
	batches := make([]*cublas.Batch, len(c.sets))
	for i := range c.sets {
		s := &c.sets[i].shared
		batch, err := g.handle.Batch(c.batch, s[0].ptr, s[1].ptr, s[2].ptr)
		if err != nil {
			return nil, err
		}
		c.closers = append(c.closers, batch.Close)
		batches[i] = batch
	}
	loop := func(set int) error { return batches[set].Loop() }
	grouped := func(set int) error { return batches[set].Grouped() }
	var all []*contender
	for _, name := range rivals {
		if !slices.Contains(g.vs, name) {
			continue
		}
		run := loop
		var timed bench.Method
		var err error
		switch name {
		case cublasLoop:
			timed = g.inStream(c, name, len(c.batch), run)
		case cublasGraph:
			timed, err = g.inGraph(c, name, len(c.batch), run)
		case cublasGrouped:
			run = grouped
			timed = g.inStream(c, name, 1, run)
		}
		if err != nil {
			return nil, err
		}
		all = append(all, &contender{on: c, name: name, timed: []bench.Method{timed},
			result: c.onDevice(func() error { return run(0) }), largest: sampleFLOPs})
	}
	return all, nil
}

// copies is how many executions of that many kernels make a graph or a series.
func copies(kernelsOfOne int) int { return max(1, kernels/max(kernelsOfOne, 1)) }

// inStream times back-to-back executions, which run queues.
func (g *cudaBench) inStream(c *benchCase, name string, kernelsOfOne int, run func(set int) error) bench.Method {
	return bench.Method{Name: name, Timed: bench.Stream, Sample: func(context.Context) (bench.Sample, error) {
		device, host, err := g.stream.Time(copies(kernelsOfOne), func(int) error { return run(c.turn()) })
		return bench.Sample{Device: device, Host: host}, err
	}}
}

// inGraph times executions that were captured in a graph, each set of operands
// equally often.
func (g *cudaBench) inGraph(c *benchCase, name string, kernelsOfOne int, run func(set int) error) (bench.Method, error) {
	if err := run(0); err != nil { // loads kernels, which a capture cannot
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
