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
	for name, problems := range map[string][]planner.Problem{"queued": random(8, 60, 200), "at once": {planner.GEMM(4, 4, 4)}} {
		run := ready(t, d, planner.Options{Tile: "small", Schedule: planner.ScheduleStreamK}, problems...)
		runs := []driver.Run{run, run, run}
		require.Equal(t, name == "at once", amount(t, runs...) <= atOnce)
		require.Zero(t, testing.AllocsPerRun(20, func() {
			for range 2 { // the second finds the device busy
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
