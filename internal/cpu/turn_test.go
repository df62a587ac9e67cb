package cpu

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/planner"
)

// A run yields to a goroutine that has become ready, long before Go would preempt it, but only if no
// processor is idle.
func TestRunsGiveWay(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	d := openWith(t, 1)
	run := ready(t, d, planner.Options{Tile: "large", Schedule: planner.ScheduleDataParallel},
		planner.GEMM(64, 64, 4*panelDepth))
	working.Add(1)
	defer working.Add(-1)
	var others atomic.Int64
	for range 4 {
		go others.Add(1) // the only processor is ours
	}
	for range 3 { // Go may choose this goroutine once more
		e := newEntry([]driver.Run{run}, 0, nil)
		d.crew.own.turn = turn{}
		d.crew.run(&e, 0)
	}
	require.EqualValues(t, 4, others.Load())
}

func TestTurn(t *testing.T) {
	long, later := time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	for _, tc := range []struct {
		name  string
		turn  turn
		work  int
		taken bool
	}{
		{"long work", turn{start: long}, glance, true},
		{"much work before", turn{work: glance - 1, start: long}, 1, true},
		{"little work", turn{start: long}, glance - 1, false},
		{"short time", turn{start: later}, glance, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := tc.turn
			got.take(tc.work)
			require.Equal(t, tc.taken, got.start != tc.turn.start)
		})
	}
}
