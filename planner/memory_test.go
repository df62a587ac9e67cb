package planner

import (
	"errors"
	"math"
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// asking returns a planner that may take at most that many bytes at a time, and the list of what it asked
// for.
func asking(d *Device, most int64) (p *Planner, asked *[]int64) {
	asked = new([]int64)
	return New(d).Within(func(bytes int64) error {
		*asked = append(*asked, bytes)
		if bytes > most {
			return errFull
		}
		return nil
	}), asked
}

var errFull = errors.New("full")

// A planner asks before it takes memory, with every schedule.
func TestPlansAskForMemory(t *testing.T) {
	large := mustPack(t, GEMM(1<<20, 300, 64)) // 327,680 medium tiles
	many := mustPack(t, slices.Repeat([]Problem{GEMM(3, 4, 5)}, 100_000)...)
	narrow := *device(t, "h200-webgpu") // this device has windows
	narrow.MaxBinding = 64 << 20
	for _, c := range []struct {
		name  string
		on    *Device
		batch Batch
		o     Options
		text  string
	}{
		{"problems", device(t, "h200"), many, Options{}, "plan of 100000 problems: full"},
		{"data-parallel", device(t, "h200"), large, Options{Schedule: ScheduleDataParallel},
			"plan of 327680 tiles: full"},
		{"batched", device(t, "h200"), large, Options{Schedule: ScheduleBatched},
			"plan of 327680 tiles: full"},
		{"split-k", device(t, "h200"), large, Options{Schedule: ScheduleSplitK},
			"plan of 327680 tiles: full"},
		{"stream-k", device(t, "h200"), large, Options{Schedule: ScheduleStreamK},
			"plan of 327680 tiles: full"},
		{"lpt", device(t, "h200"), large, Options{Schedule: ScheduleLPT}, "plan of 327680 tiles: full"},
		{"dynamic", device(t, "h200"), large, Options{Schedule: ScheduleDynamic},
			"plan of 327680 tiles: full"},
		{"custom", device(t, "h200"), large, Options{Custom: oneTileAWorker}, "plan of 327680 tiles: full"},
		{"windows", &narrow, large, Options{}, "plan of 327680 tiles: full"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if len(c.batch) == 1 {
				c.o.Tile = "medium"
			}
			p, _ := asking(c.on, 0)
			_, err := p.Plan(t.Context(), c.batch, c.o)
			require.EqualError(t, err, c.text)
			require.ErrorIs(t, err, errFull)

			p, asked := asking(c.on, math.MaxInt64)
			plan := new(Plan)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			require.NoError(t, p.Replan(t.Context(), plan, c.batch, c.o))
			runtime.ReadMemStats(&after)
			sum := int64(0)
			for _, bytes := range *asked {
				sum += bytes
			}
			took := int64(after.TotalAlloc - before.TotalAlloc)
			require.Less(t, took, 2*sum, "of which most is not at once")
			require.Less(t, sum, 4*took)

			n := len(*asked)
			require.NoError(t, p.Replan(t.Context(), plan, c.batch, c.o))
			if c.o.Custom == nil {
				require.Len(t, *asked, n, "what there is need not be asked for")
			}
		})
	}
	p, asked := asking(device(t, "h200"), math.MaxInt64)
	for range 2 { // new plans, of a planner that has seen as many problems
		*asked = nil
		_, err := p.Plan(t.Context(), many, Options{})
		require.NoError(t, err)
		require.Greater(t, len(*asked), 1)
	}
	p, asked = asking(device(t, "h200"), 0)
	_, err := p.Plan(t.Context(), mustPack(t, GEMM(500, 500, 500), GEMM(8, 8, 8)), Options{})
	require.NoError(t, err)
	require.Empty(t, *asked, "nor little")
}
