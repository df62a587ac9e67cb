//go:build !race

package cpu

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/planner"
)

func TestSubmitAllocatesNothing(t *testing.T) {
	d := openDevice(t)
	small := planner.Options{Tile: "small", Schedule: planner.ScheduleStreamK}
	ragged := readyRagged(t, d, rows(50, 400, 30, 20))
	for g := range sizesOf(ragged) {
		sizesOf(ragged)[g] = int32(7 * g)
	}
	for name, run := range map[string]driver.Run{
		"queued":  ready(t, d, small, random(8, 60, 200)...),
		"at once": ready(t, d, small, planner.GEMM(4, 4, 4)), "ragged": ragged,
	} {
		runs := []driver.Run{run, run, run}
		require.Equal(t, name == "at once", amount(t, runs...) <= atOnce)
		require.Zero(t, testing.AllocsPerRun(20, func() {
			for range 2 { // the second run finds the device busy
				if err := d.Submit(context.Background(), runs); err != nil {
					t.Error(err)
				}
			}
			if err := d.Wait(context.Background()); err != nil {
				t.Error(err)
			}
		}), name)
	}
}
