package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/batchgemm/batchgemm/internal/bench"
	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/planner"
)

// finalists is how many forced plans are timed as often as the planner's own. The minimum of many short
// measurements would be too low by chance.
const finalists = 3

// forced is a plan that the user could force, or the planner's own.
type forced struct {
	bench.Forced
	own    bool
	method bench.Method
}

// judge times the tiles under every schedule, and then the best of them together with the planner's own
// plan.
func (c *benchCase) judge(ctx context.Context, own *contender) (*bench.Regret, error) {
	all, err := c.force(ctx)
	if err != nil || len(all) == 0 {
		return nil, err
	}
	if err := remeasure(ctx, all, 1); err != nil {
		return nil, err
	}
	facts := c.device.Info().Planner
	out := &bench.Regret{Guess: !facts.Measured()}
	for _, f := range all {
		out.Forced = append(out.Forced, f.Forced)
	}
	race := append([]*forced{{own: true, method: own.timed[0]}}, all[:min(finalists, len(all))]...)
	if err := remeasure(ctx, race, c.repeat); err != nil {
		return nil, err
	}
	out.Planner = race[slices.IndexFunc(race, func(f *forced) bool { return f.own })].Micros
	best := race[slices.IndexFunc(race, func(f *forced) bool { return !f.own })]
	out.Best, out.Tile, out.Schedule = best.Micros, best.Tile, best.Schedule
	return out, nil
}

// force prepares every tile, or the requested one, under every schedule.
func (c *benchCase) force(ctx context.Context) ([]*forced, error) {
	var all []*forced
	facts := c.device.Info().Planner
	for i := range facts.Kernels {
		shape := facts.Kernels[i].Tile
		if only := c.options.Tile; only != "" && only != shape.Name {
			continue
		}
		for _, schedule := range planner.Schedules() {
			if schedule == planner.ScheduleCluster && !facts.Kernels[i].Clusters ||
				schedule == planner.ScheduleDynamic && facts.KernelKind == encoding.KernelsCPU {
				continue // the same as data-parallel
			}
			plan, err := c.device.Plan(ctx, c.batch, planner.Options{
				TypeA: c.options.TypeA, TypeB: c.options.TypeB, TypeC: c.options.TypeC,
				Compute: c.options.Compute, Tile: shape.Name, Schedule: schedule,
				Epilogue: c.options.Epilogue})
			if err != nil {
				continue // the device cannot run this tile
			}
			f := &forced{Forced: bench.Forced{Tile: shape.Name, Schedule: string(schedule),
				Predicted: plan.Cost}}
			if f.method, err = c.ownMethod(ctx, plan); err != nil {
				return nil, fmt.Errorf("tile %s, %s: %w", shape.Name, schedule, err)
			}
			all = append(all, f)
		}
	}
	return all, nil
}

// ownMethod prepares a plan, timed in the first of our ways, only on the device.
func (c *benchCase) ownMethod(ctx context.Context, plan *planner.Plan) (bench.Method, error) {
	if c.cuda != nil {
		return c.cuda.ownGraph(ctx, c, plan, nil)
	}
	s, err := c.series(ctx, plan, nil)
	if err != nil {
		return bench.Method{}, err
	}
	return s.method(s.device), nil
}

// remeasure times the plans and sorts them.
func remeasure(ctx context.Context, plans []*forced, repeat int) error {
	methods := make([]bench.Method, len(plans))
	for i, f := range plans {
		methods[i] = f.method
	}
	found, err := bench.Measure(ctx, methods, repeat, 0)
	if err != nil {
		return err
	}
	for i, f := range plans {
		f.Micros = found[i].Device.Median
	}
	slices.SortStableFunc(plans, func(a, b *forced) int { return cmp.Compare(a.Micros, b.Micros) })
	return nil
}
