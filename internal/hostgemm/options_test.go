package hostgemm

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/fakedriver"
	"github.com/batchgemm/batchgemm/internal/invalid"
	"github.com/batchgemm/batchgemm/internal/reference"
	"github.com/batchgemm/batchgemm/internal/tile"
	"github.com/batchgemm/batchgemm/planner"
)

// computer is a Host or a Group.
type computer interface {
	GEMM(context.Context, planner.Batch, planner.Options, Operands) error
}

// whole is a caller's own schedule: a worker for each tile.
func whole(w planner.Work) (workers [][]planner.Part) {
	for _, t := range w.Tiles {
		workers = append(workers, []planner.Part{{Tile: t.Index, From: 0, To: t.Steps}})
	}
	return workers
}

// Plans have the options of the call. The same batch is planned again only with other options.
func TestGEMMTakesOptions(t *testing.T) {
	one, two := &planner.CustomSchedule{Name: "one", Deal: whole}, &planner.CustomSchedule{
		Name: "two", Deal: whole}
	options := []planner.Options{
		{},
		{Compute: planner.ComputeF32},
		{Tile: "small"},
		{Tile: "large"},
		{Rule: planner.RuleZhang2025, Threshold: 3},
		{Schedule: planner.ScheduleSplitK},
		{Custom: one},
		{Custom: two},
	}
	k := random(t, 1, 60, 90)
	group, fakes := openGroup(t, 2)
	host, fake := openHost(t)
	for _, c := range []struct {
		name  string
		on    computer
		fakes []*fakedriver.Device
	}{{"host", host, []*fakedriver.Device{fake}}, {"group", group, fakes}} {
		t.Run(c.name, func(t *testing.T) {
			for round := range 2 {
				for i, o := range options {
					got := slices.Clone(k.c)
					require.NoError(t, c.on.GEMM(t.Context(), k.batch, o, Operands{A: k.a, B: k.b, C: got}),
						i)
					require.NoError(t, reference.CheckExact(k.batch, k.a, k.b, k.c, got))
					for _, f := range c.fakes {
						if round == 1 {
							require.EqualValues(t, len(options), f.Prepared.Load(), "remembered")
							continue
						}
						require.EqualValues(t, i+1, f.Prepared.Load())
						plan := f.Plan.Load()
						require.Same(t, o.Custom, plan.Options.Custom)
						require.Equal(t, o.Tile, plan.Options.Tile)
						require.Equal(t, o.Threshold, plan.Options.Threshold)
						if o.Compute != "" {
							require.Equal(t, o.Compute, plan.Options.Compute)
						}
						if o.Schedule != "" {
							require.EqualValues(t, o.Schedule, plan.Launches[0].Schedule)
						}
						if o.Tile != "" {
							shape, err := tile.ByName(o.Tile)
							require.NoError(t, err)
							require.Same(t, shape, plan.Tiles[0])
						}
					}
				}
			}
		})
	}
}

// Wrong options are an error for every batch, and change nothing.
func TestGEMMRefusesOptions(t *testing.T) {
	host, _ := openHost(t)
	group, _ := openGroup(t, 2)
	for name, k := range map[string]job{"large": random(t, 1, 60, 90), "small": random(t, 2, 3, 20),
		"nothing to do": {}} {
		for failure, o := range map[string]planner.Options{
			`unknown tile "vast"`:          {Tile: "vast"},
			`unknown rule "luck"`:          {Rule: "luck"},
			`unknown compute mode "f64"`:   {Compute: "f64"},
			`custom schedule: the name ""`: {Custom: new(planner.CustomSchedule)},
			`unknown schedule "in a row"`:  {Schedule: "in a row"},
		} {
			for _, on := range []computer{host, group} {
				c := slices.Clone(k.c)
				err := on.GEMM(t.Context(), k.batch, o, Operands{A: k.a, B: k.b, C: c})
				require.ErrorContains(t, err, failure, name)
				require.ErrorIs(t, err, invalid.Err, name)
				require.Equal(t, k.c, c)
			}
		}
	}
}
