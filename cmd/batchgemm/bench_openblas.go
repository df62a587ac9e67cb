package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/batchgemm/batchgemm/dispatch"
	"github.com/batchgemm/batchgemm/internal/bench"
	"github.com/batchgemm/batchgemm/internal/hostmem"
	"github.com/batchgemm/batchgemm/internal/openblas"
)

// blasBench is a library of BLAS with as many threads as the CPU backend has. For each case it is used in the
// faster of two ways.
type blasBench struct {
	name    string // of the rival
	library *openblas.Library
	threads int
	before  int // its earlier number of threads
}

// openBLAS sets the threads of a library, if there is one.
func (b *bencher) openBLAS(ctx context.Context, name string) (notes []string, err error) {
	library, err := openblas.Open(name)
	switch {
	case errors.Is(err, dispatch.ErrUnavailable):
		return []string{"no comparison with " + err.Error()}, nil
	case err != nil:
		return nil, err
	}
	threads, err := cpuThreads(ctx)
	if err != nil {
		return nil, err
	}
	b.blas = append(b.blas, &blasBench{name, library, threads, library.Threads()})
	library.SetThreads(threads)
	if got := library.Threads(); got != threads {
		notes = append(notes, fmt.Sprintf("%s takes %d threads, not %d", name, got, threads))
	}
	return notes, nil
}

// cpuThreads returns the number of threads of the CPU backend.
func cpuThreads(ctx context.Context) (int, error) {
	device, err := dispatch.Open(ctx, dispatch.WithBackend("cpu"))
	if err != nil {
		return 0, err
	}
	return device.Info().Planner.ComputeUnits, device.Close()
}

func (o *blasBench) close() { o.library.SetThreads(o.before) }

// contender prepares a loop of cblas_sgemm for a case, on matrices of the host.
func (o *blasBench) contender(c *benchCase) (*contender, error) {
	sets := make([][3][]float32, len(c.sets))
	for i := range sets {
		for j, from := range [3][]float32{c.ops.A, c.ops.B, c.ops.C} {
			to, err := hostmem.Floats(max(len(from), 1))
			if err != nil {
				return nil, err
			}
			c.closers = append(c.closers, func() error { hostmem.Free(to); return nil })
			copy(to, from)
			sets[i][j] = to
		}
	}
	batch, dealt := o.library.Batch(c.batch, c.options.TypeA), false
	loop := func(ctx context.Context, set int) error {
		s := &sets[set]
		if !dealt {
			return batch.Loop(ctx, s[0], s[1], s[2])
		}
		o.library.SetThreads(1)
		defer o.library.SetThreads(o.threads)
		return batch.Deal(ctx, o.threads, s[0], s[1], s[2])
	}
	n := 0 // executions of a sample
	sample := func(ctx context.Context) (bench.Sample, error) {
		start := time.Now()
		for range n {
			if err := loop(ctx, c.turn()); err != nil {
				return bench.Sample{}, err
			}
		}
		return bench.Sample{Device: time.Since(start) / time.Duration(n)}, nil
	}
	result := func(ctx context.Context) ([]float32, error) {
		took, err := o.faster(&dealt, func() error { return loop(ctx, 0) })
		if err != nil {
			return nil, err
		}
		n = enough(took)
		to := sets[0][2]
		copy(to, c.ops.C)
		err = loop(ctx, 0)
		return slices.Clone(to[:len(c.ops.C)]), err
	}
	return &contender{on: c, name: o.name,
		timed:  []bench.Method{{Name: o.name, Timed: bench.Calls, Sample: sample}},
		result: result, largest: sampleFLOPs}, nil
}

// faster sets dealt to the faster of two ways: each product on all threads, or products dealt to threads. It
// returns the time of an execution.
func (o *blasBench) faster(dealt *bool, loop func() error) (least time.Duration, err error) {
	const turns = 4 // the first allocates, and starts threads
	best := false
	for _, way := range [...]bool{false, true} {
		if *dealt = way; way && o.threads == 1 {
			break
		}
		time.Sleep(openblas.Spin) // until threads of the other way wait no more
		for turn := range turns {
			start := time.Now()
			if err := loop(); err != nil {
				return 0, err
			}
			if took := time.Since(start); turn > 0 && (least == 0 || took < least) {
				least, best = took, way
			}
		}
	}
	*dealt = best
	return least, nil
}
