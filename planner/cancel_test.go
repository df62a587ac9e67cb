package planner

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/sample"
)

// looked is a context that ends after a number of looks at it, all on one goroutine.
type looked struct {
	context.Context
	looks, ends int
}

func (l *looked) Err() error {
	if l.looks++; l.looks > l.ends {
		return context.Canceled
	}
	return nil
}

// Wherever planning stops, the next plan does not depend on it. Planning looks often enough to stop soon.
func TestPlanEndsWithContext(t *testing.T) {
	const tiles = 5 * pace // of the first problem
	b := mustPack(t, GEMM(64*tiles, 60, 64), GEMM(100, 50, 3000), Problem{M: 70, N: 30, K: 20, TransA: true})
	narrow := *device(t, "h200-webgpu") // this device has windows
	narrow.MaxBinding = 64 << 20
	for _, c := range []struct {
		name  string
		on    *Device
		o     Options
		looks int // while it deals tiles
	}{
		{"data-parallel", device(t, "h200"), Options{Schedule: ScheduleDataParallel}, 5},
		{"batched", device(t, "h200"), Options{Schedule: ScheduleBatched}, 5},
		{"split-k", device(t, "h200"), Options{Schedule: ScheduleSplitK}, 5},
		{"stream-k", device(t, "h200"), Options{Schedule: ScheduleStreamK}, 5},
		{"lpt", device(t, "h200"), Options{Schedule: ScheduleLPT}, 10},
		{"dynamic", device(t, "h200"), Options{Schedule: ScheduleDynamic}, 5},
		{"custom", device(t, "h200"), Options{Custom: oneTileAWorker}, 5},
		{"windows", &narrow, Options{}, 5},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.o.Custom == nil || c.on.MaxBinding == 0 {
				c.o.Tile = "medium"
			}
			want, err := New(c.on).Plan(t.Context(), b, c.o)
			require.NoError(t, err)
			maker, plan := New(c.on), new(Plan)
			all := &looked{t.Context(), 0, 1 << 30}
			require.NoError(t, maker.Replan(all, plan, b, c.o))
			require.GreaterOrEqual(t, all.looks, c.looks)
			for ends := range all.looks {
				if ends > 0 && !sample.Planner.PartDrawn(fmt.Sprint(t.Name(), ends), 3) {
					continue
				}
				require.ErrorIs(t, maker.Replan(&looked{t.Context(), 0, ends}, plan, b, c.o),
					context.Canceled)
				require.Equal(t, Plan{}, *plan)
			}
			require.NoError(t, maker.Replan(t.Context(), plan, b, c.o))
			require.Equal(t, want.Explain(), plan.Explain())
			require.Equal(t, want.Segments, plan.Segments)
		})
	}
}

// With many problems too, each stage stops soon: checks, and the choice of tile shapes.
func TestPlanOfManyProblemsEndsWithContext(t *testing.T) {
	b := make(Batch, 3*pace)
	for i := range b {
		b[i] = GEMM(1+i%7, 1+i%1000, 1+i%17) // addresses of 32 bits reach them
	}
	b = mustPack(t, b...)
	d := device(t, "h200")
	all := &looked{t.Context(), 0, 1 << 30}
	_, err := New(d).Plan(all, b, Options{Schedule: ScheduleDataParallel})
	require.NoError(t, err)
	require.GreaterOrEqual(t, all.looks, 3*3)
	_, err = New(d).Plan(&looked{t.Context(), 0, all.looks - 1}, b, Options{Schedule: ScheduleDataParallel})
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, New(d).Renew(&looked{t.Context(), 0, 0}, new(Plan), b[:8], Options{}),
		context.Canceled)
}
