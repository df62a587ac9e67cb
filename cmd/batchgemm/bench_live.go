package main

import (
	"context"
	"slices"
	"time"

	"github.com/batchgemm/batchgemm/dispatch"
	"github.com/batchgemm/batchgemm/internal/bench"
	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

// Methods of --live: the device plans, from records of all problems, and computes; only the planning.
const (
	raggedName  = "batchgemm-ragged"
	raggedPlans = "ragged-plan"
)

// alternating returns a batch in reverse, which no program has at first, and the batch itself.
func alternating(b planner.Batch) [2]planner.Batch {
	reverse := slices.Clone(b)
	slices.Reverse(reverse)
	return [2]planner.Batch{reverse, b}
}

// liveSteps times steps that update a program and run it, alternating between the batch and the same batch
// in reverse.
func (c *benchCase) liveSteps(ctx context.Context, plan *planner.Plan) (func(context.Context) (bench.Sample,
	error), error) {
	program, err := c.device.Prepare(ctx, plan)
	if err != nil {
		return nil, err
	}
	c.closers = append(c.closers, program.Close)
	batches := alternating(c.batch)
	return func(ctx context.Context) (sample bench.Sample, err error) {
		start := time.Now()
		for i := range kernels {
			begin, run := time.Now(), runOf(program, c.sets[c.turn()].buffers[:])
			if err = program.Update(ctx, batches[i%2]); err == nil {
				err = c.device.Run(ctx, run)
			}
			if err != nil {
				return sample, err
			}
			sample.Host += time.Since(begin) / kernels
		}
		err = c.device.Wait(ctx)
		sample.Device = time.Since(start) / kernels
		return sample, err
	}, nil
}

// onDevicePlanned prepares the methods with sizes on the device, or none if the batch does not allow them. A
// plan of the batch gives the lengths of buffers.
func (c *benchCase) onDevicePlanned(ctx context.Context, of *planner.Plan) ([]*contender, error) {
	description, ok := raggedOf(c.batch, of)
	if !ok {
		return nil, nil
	}
	records, err := planner.AppendRecords(nil, c.batch, planner.Options{Epilogue: c.options.Epilogue})
	if err != nil {
		return nil, err
	}
	info := c.device.Info()
	p := planner.New(&info.Planner)
	whole, err := p.PlanRagged(description, c.options)
	if err != nil {
		return nil, err
	}
	planning := *whole
	planning.Launches = slices.DeleteFunc(slices.Clone(whole.Launches), func(l encoding.Launch) bool {
		return l.Ragged == 0
	})
	var all []*contender
	for _, m := range []struct {
		name string
		plan *planner.Plan
	}{{raggedName, whole}, {raggedPlans, &planning}} {
		if len(m.plan.Launches) == 0 && m.plan == &planning { // the CPU plans within a run
			break
		}
		made, err := c.ragged(ctx, m.name, m.plan, records)
		if err != nil {
			return nil, err
		}
		all = append(all, made)
	}
	for _, m := range all {
		m.result = all[0].result // planning alone has no result
	}
	return all, nil
}

// ragged prepares a ragged plan as a contender.
func (c *benchCase) ragged(ctx context.Context, name string, plan *planner.Plan, records []int32) (*contender,
	error) {
	sizes, onStream, err := c.sizes(ctx, records)
	if err != nil {
		return nil, err
	}
	m := &contender{on: c, name: name}
	own, err := c.series(ctx, plan, sizes)
	if err != nil {
		return nil, err
	}
	m.result = c.onDevice(func() error { return c.device.Run(ctx, own.run(0)) })
	timed := own.method(own.device)
	if c.cuda != nil {
		if timed, err = c.cuda.ownGraph(ctx, c, plan, onStream); err != nil {
			return nil, err
		}
	}
	timed.Name = name
	m.timed = []bench.Method{timed}
	return m, nil
}

// sizes copies the sizes to the device. onStream is the same memory for CUDA's graphs.
func (c *benchCase) sizes(ctx context.Context, words []int32) (own, onStream *dispatch.Buffer, err error) {
	if c.cuda != nil {
		var shared sharedBuffer
		own, shared, err = c.cuda.buffer(c, element.F32, len(words))
		onStream = shared.onStream
	} else {
		own, err = c.device.NewBuffer(element.F32, len(words))
	}
	if err != nil {
		return nil, nil, err
	}
	c.closers = append(c.closers, own.Close)
	return own, onStream, dispatch.Write(ctx, own, 0, words)
}

// raggedOf describes a batch by its bounds, as for a program with such sizes. ok is false if transpositions
// differ or there are too many problems.
func raggedOf(b planner.Batch, of *planner.Plan) (r planner.Ragged, ok bool) {
	if len(b) == 0 || len(b) > planner.MaxGroups {
		return r, false
	}
	r = planner.Ragged{Form: planner.Records, Groups: len(b), TransA: b[0].TransA, TransB: b[0].TransB}
	var sum planner.Sizes
	for i := range b {
		q := &b[i]
		if q.TransA != r.TransA || q.TransB != r.TransB {
			return r, false
		}
		r.M, r.N, r.K = r.M+q.M, max(r.N, q.N), max(r.K, q.K)
		sum.M, sum.N, sum.K = sum.M+q.M, sum.N+q.N, sum.K+q.K
	}
	r.Mean = planner.Sizes{M: sum.M / len(b), N: sum.N / len(b), K: sum.K / len(b)}
	r.LenA, r.LenB, r.LenC = of.ExtentA, of.ExtentB, of.ExtentC
	r.LenB2, r.LenBias, r.LenRows = of.ExtentB2, of.ExtentBias, of.ExtentRows
	return r, true
}
