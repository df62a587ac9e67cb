package dltest

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/backend"
	"github.com/batchgemm/batchgemm/planner"
)

// Runs of several programs on a stream of the caller become a graph the second time, and none while the
// stream is captured. Others, and one run, do not. Closing a program frees its graphs.
func (f *Fake) testRepeatedRuns(t *testing.T) {
	f.needCapturing(t)
	d := f.open(t)
	k, other := newTask(t, d, split, twoGEMMs(20, 20, 300)...), newTask(t, d, split, gemm(7, 9, 300))
	both := []driver.Run{k.run(), other.run()}
	submit := func(runs ...driver.Run) {
		require.NoError(t, d.(backend.Borrower).SubmitOn(t.Context(), 0, runs))
	}
	check := func() {
		k.check(t)
		other.check(t)
	}
	recorded, launched := f.count(t, graphs), f.count(t, graphLaunches)
	for range 3 {
		submit(both[0])
		submit(both[1], both[0], both[1], both[0], both[1], both[0], both[1], both[0], both[1])
	}
	submit(both...)
	check()
	require.Equal(t, launched, f.count(t, graphLaunches))
	t.Setenv("FAKE_CAPTURING", "1")
	submit(both...)
	check()
	t.Setenv("FAKE_CAPTURING", "")
	f.Fail(t, "streamCapturing", 1, 0)
	submit(both...)
	f.succeed(t)
	require.Equal(t, launched, f.count(t, graphLaunches))
	for i := range 3 {
		submit(both...)
		check()
		require.Equal(t, launched+i+1, f.count(t, graphLaunches))
	}
	require.Equal(t, recorded+1, f.count(t, graphs))
	submit(both...)
	require.NoError(t, other.program.Close())
	require.Equal(t, recorded, f.count(t, graphs))
	submit(both[0])
	k.check(t)
}

// There are as many graphs of such runs as are remembered, whatever is in flight.
func (f *Fake) testRepeatedRunsAreBounded(t *testing.T) {
	f.needCapturing(t)
	d := f.open(t)
	s := newTargets(t, d, backend.Remembered+10)
	before := f.count(t, graphs)
	for i := range s.cs { // without a wait
		for range 3 {
			runs := []driver.Run{s.run(i), s.run(0)}
			require.NoError(t, d.(backend.Borrower).SubmitOn(t.Context(), 0, runs))
		}
		require.LessOrEqual(t, f.count(t, graphs), before+backend.Remembered)
	}
	s.check(t)
}

// One launch makes the items of two programs with the same sizes and extent.
func (f *Fake) testItemsOfTwo(t *testing.T) {
	d := f.open(t)
	info := d.Info()
	sizes, other := alloc(t, d, 4), alloc(t, d, 4)
	for _, b := range []driver.Buffer{sizes, other} {
		ends := []float32{math.Float32frombits(3), math.Float32frombits(8)}
		require.NoError(t, b.Write(t.Context(), 0, ends))
	}
	var launched int
	run := func(n int) driver.Run {
		plan, err := planner.New(&info.Planner).PlanRagged(planner.Ragged{Form: planner.EndsOfRows, Groups: 2,
			M: 8, N: n, K: 4, A: planner.Matrix{LD: 4}, B: planner.Matrix{LD: n}, C: planner.Matrix{LD: n},
			StrideB: 4 * n}, planner.Options{})
		require.NoError(t, err)
		p, err := d.Prepare(t.Context(), plan)
		require.NoError(t, err)
		launched = len(plan.Launches)
		r := driver.Run{Program: p, A: alloc(t, d, 32), B: alloc(t, d, 8*n), C: alloc(t, d, 8*n),
			Sizes: sizes}
		for b, n := range map[driver.Buffer]int{r.A: 32, r.B: 8 * n, r.C: 8 * n} {
			require.NoError(t, b.Write(t.Context(), 0, make([]float32, n)))
		}
		return r
	}
	first, second := run(5), run(7)
	apart, within := second, second
	apart.Sizes, within.Extent = other, 8
	for _, c := range []struct {
		runs []driver.Run
		less int // than launches of each
	}{
		{[]driver.Run{first, second}, 1}, {[]driver.Run{second, first, second}, 1},
		{[]driver.Run{first, second, first, second}, 2}, {[]driver.Run{first, first}, 0},
		{[]driver.Run{first, apart}, 0}, {[]driver.Run{first, within}, 0},
	} {
		before := f.count(t, launches)
		require.NoError(t, d.(backend.Borrower).SubmitOn(t.Context(), 0, c.runs))
		require.NoError(t, d.Wait(t.Context()))
		require.Equal(t, len(c.runs)*launched-c.less, f.count(t, launches)-before)
	}
}

func (f *Fake) needCapturing(t *testing.T) {
	t.Helper()
	if !f.has("streamCapturing") {
		t.Skip("the backend makes no graphs of them")
	}
}
