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
	runs := []driver.Run{ready(t, d, planner.Options{Tile: "small", Schedule: planner.ScheduleStreamK}, random(8, 60, 200)...)}
	require.Zero(t, testing.AllocsPerRun(20, func() {
		if err := d.Submit(context.Background(), runs); err != nil {
			t.Error(err)
		}
	}))
}
