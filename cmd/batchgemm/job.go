package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/batchgemm/batchgemm/dispatch"
	"github.com/batchgemm/batchgemm/internal/elemtype"
	"github.com/batchgemm/batchgemm/internal/hostmem"
	"github.com/batchgemm/batchgemm/internal/reference"
	"github.com/batchgemm/batchgemm/internal/workload"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

// operands returns a workload's own matrices, or the same random ones every time, with the operands of the
// epilogue (see placeEpilogue), rounded to the types of the options.
func operands(w *workload.Workload, o *planner.Options) (*workload.Operands, error) {
	ops, err := unrounded(w, o)
	if err == nil {
		ops, err = withEpilogue(ops, w.Batch, o)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", w.Name, err)
	}
	ops.Round(o.TypeA, o.TypeB, o.TypeC)
	return ops, nil
}

// unrounded returns those of the workload, or random A and B of the options' types.
func unrounded(w *workload.Workload, o *planner.Options) (*workload.Operands, error) {
	if w.Operands != nil {
		return w.Operands, nil
	}
	ops, err := workload.NewOperands(w.Batch, o.TypeA)
	if err != nil {
		return nil, err
	}
	rng := rand.New(rand.NewPCG(1, 0))
	fill(o.TypeA, rng, ops.A)
	if elemtype.Bits4(o.TypeB) {
		if err := ops.MakePacked(w.Batch); err != nil {
			return nil, err
		}
		randomPacked(rng, ops.Packed, 0)
	} else {
		fill(o.TypeA, rng, ops.B)
	}
	fill(elemtype.Sums(o.TypeA), rng, ops.C)
	return ops, nil
}

// fill fills a buffer with random numbers of a type.
func fill(of element.Type, rng *rand.Rand, numbers []float32) {
	if of != element.F64 {
		reference.UniformOf(of, rng, numbers)
		return
	}
	doubles := workload.Doubles(numbers)
	for i := range doubles {
		doubles[i] = 2*rng.Float64() - 1
	}
}

// checked compares C after a run with a reference.
func checked(d *dispatch.Device, o *planner.Options, b planner.Batch, ops *workload.Operands,
	c []float32) (reference.Errors, error) {
	if o.TypeA != element.F64 {
		return reference.CheckIn(arithmetic(d, o, ops), b, ops.A, ops.B, ops.C, c)
	}
	of := workload.Doubles
	worst, err := reference.CheckF64(b, o.Epilogue, reference.Doubles{A: of(ops.A), B: of(ops.B),
		C:  of(ops.C),
		B2: of(ops.B), Bias: of(ops.Bias), Rows: ops.Rows}, of(c))
	return reference.Errors{Worst: worst}, err
}

// arithmetic returns how a device computes with options and these operands.
func arithmetic(d *dispatch.Device, o *planner.Options, ops *workload.Operands) reference.Arithmetic {
	info := d.Info()
	return reference.Arithmetic{Compute: o.Compute, TypeC: o.TypeC, FlushesSubnormals: info.FlushesSubnormals,
		NarrowSums: reference.MayNarrowSums(&info.Planner, o.TypeA),
		Epilogue:   reference.Epilogue{Epilogue: o.Epilogue, B2: ops.B, Biases: ops.Bias, Rows: ops.Rows}}
}

// job is a batch on a device, ready to run.
type job struct {
	device  *dispatch.Device
	plan    *planner.Plan
	program *dispatch.Program
	buffers []*dispatch.Buffer // see inBuffers

	planTime, prepareTime time.Duration
}

// newJob plans and prepares a batch and uploads its operands. The caller closes
// the job, also after an error.
func newJob(ctx context.Context, device *dispatch.Device, batch planner.Batch, ops *workload.Operands,
	options planner.Options) (*job, error) {
	j := &job{device: device}
	start := time.Now()
	plan, err := device.Plan(ctx, batch, options)
	if err != nil {
		return j, err
	}
	j.plan, j.planTime = plan, time.Since(start)

	start = time.Now()
	if j.program, err = device.Prepare(ctx, plan); err != nil {
		return j, err
	}
	j.prepareTime = time.Since(start)

	for _, data := range inBuffers(ops, &options) {
		buffer, err := device.NewBuffer(data.of, data.len())
		if err != nil {
			return j, err
		}
		j.buffers = append(j.buffers, buffer)
		if err := data.write(ctx, buffer); err != nil {
			return j, err
		}
	}
	return j, nil
}

// time runs the batch once and waits.
func (j *job) time(ctx context.Context) (dispatch.Timing, error) {
	return j.device.Time(ctx, runOf(j.program, j.buffers))
}

// result reads C.
func (j *job) result(ctx context.Context) ([]float32, error) {
	n := elemtype.Words(elemtype.Sums(j.buffers[2].Type()), j.buffers[2].Len())
	if err := hostmem.Check(hostmem.Size(n)); err != nil {
		return nil, err
	}
	c := make([]float32, n)
	return c, read(ctx, j.buffers[2], c)
}

func (j *job) close() error {
	var errs []error
	for _, b := range slices.Backward(j.buffers) {
		errs = append(errs, b.Close())
	}
	if j.program != nil {
		errs = append(errs, j.program.Close())
	}
	return errors.Join(errs...)
}
