package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/batchgemm/batchgemm/dispatch"
	"github.com/batchgemm/batchgemm/internal/bench"
	"github.com/batchgemm/batchgemm/internal/clocks"
	"github.com/batchgemm/batchgemm/internal/report"
	"github.com/batchgemm/batchgemm/internal/timeline"
	"github.com/batchgemm/batchgemm/internal/version"
	"github.com/batchgemm/batchgemm/internal/workload"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

// writePage writes a report as a page, with the timeline of a workload's plan.
func (b *bencher) writePage(ctx context.Context, dir *report.Dir, found *bench.Report,
	w *workload.Workload) error {
	data := &report.Data{Bench: found, Device: b.device.Info().Planner, Compute: b.options.Compute,
		Version: version.Version, Date: time.Now(), Command: commandLine(ctx)}
	var err error
	if data.Planning, err = b.planning(ctx); err != nil {
		return fmt.Errorf("cost of planning: %w", err)
	}
	if data.Chosen, err = b.chosen(ctx, w); err != nil {
		return fmt.Errorf("timeline of %s: %w", w.Name, err)
	}
	return dir.Write(data)
}

// planning times the planner on batches of 8 to 1024 problems.
func (b *bencher) planning(ctx context.Context) (all []report.Planning, err error) {
	for n := 8; n <= 1024; n *= 2 {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		w, err := workload.LoadOf(fmt.Sprintf("random:mn=256,k=256,batch=%d,seed=1", n), nil, &b.options)
		if err != nil {
			return nil, err
		}
		w, options := placeEpilogue(w, b.options)
		var plan *planner.Plan
		p := report.Planning{Problems: n}
		p.New, err = medianMicros(b.repeat, func() error {
			plan, err = b.device.Plan(ctx, w.Batch, options)
			if err == nil {
				plan.Encode(nil)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
		if p.Again, err = planMicros(ctx, plan, b.repeat, (*planner.Planner).Replan); err != nil {
			return nil, err
		}
		if p.Renewed, err = planMicros(ctx, plan, b.repeat, (*planner.Planner).Renew); err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}

// chosen returns the plan of a workload over time, as predicted and, if possible, as measured.
func (b *bencher) chosen(ctx context.Context, w *workload.Workload) (*report.Timeline, error) {
	w, options := placeEpilogue(w, b.options)
	plan, err := b.device.Plan(ctx, w.Batch, options)
	if err != nil {
		return nil, err
	}
	t := &report.Timeline{Workload: w.Name, Predicted: timeline.New(plan)}
	info := b.device.Info()
	if info.Backend != "cuda" {
		t.Missing = "workgroups are measured on the backend cuda alone, this is " + info.Backend
		return t, nil
	}
	if of := options.TypeA; of != element.F32 {
		t.Missing = fmt.Sprintf("workgroups are measured for matrices of %s alone, these are of %s",
			element.F32, of)
		return t, nil
	}
	if options.Epilogue != (planner.Epilogue{}) {
		t.Missing = "workgroups are measured without an epilogue alone"
		return t, nil
	}
	ops, err := b.operands(w, &options)
	if err != nil {
		return nil, err
	}
	groups, err := clocks.Measure(ctx, info.Index, plan, ops.A, ops.B, ops.C)
	switch {
	case errors.Is(err, dispatch.ErrUnavailable):
		t.Missing = err.Error()
	case err != nil:
		return nil, err
	default:
		t.Measured = timeline.Measured(plan, groups)
	}
	return t, nil
}

// planMicros returns the median time to make a plan again in the memory of an earlier one, with its
// encoding.
func planMicros(ctx context.Context, like *planner.Plan, repeat int,
	again func(*planner.Planner, context.Context, *planner.Plan, planner.Batch, planner.Options) error) (
	float64, error) {
	maker := planner.New(like.Device)
	var p planner.Plan
	var words []uint32
	return medianMicros(repeat, func() error {
		err := again(maker, ctx, &p, like.Batch, like.Options)
		if err == nil {
			words = p.Encode(words)
		}
		return err
	})
}

// medianMicros returns the median time of repeated calls. It does not count a first call, which may allocate
// memory that later calls reuse.
func medianMicros(repeat int, call func() error) (float64, error) {
	took := make([]float64, repeat+1)
	for i := range took {
		start := time.Now()
		if err := call(); err != nil {
			return 0, err
		}
		took[i] = micros(time.Since(start))
	}
	took = took[1:]
	slices.Sort(took)
	return took[repeat/2], nil
}
