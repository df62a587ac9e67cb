package dltest

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/backend"
	"github.com/batchgemm/batchgemm/internal/dl"
	"github.com/batchgemm/batchgemm/internal/invalid"
	"github.com/batchgemm/batchgemm/internal/reference"
	"github.com/batchgemm/batchgemm/planner"
)

func (f *Fake) needGraphs(t *testing.T) {
	t.Helper()
	if !f.has("graphLaunch") {
		t.Skip("the backend uses no graphs")
	}
}

// If a vendor has PDL launches, all launches of a run may begin while the previous one ends.
func (f *Fake) testEarlyLaunches(t *testing.T) {
	if !f.has("launchEx") {
		t.Skip("the backend has no such launches")
	}
	d := f.open(t)
	k := newTask(t, d, split, twoGEMMs(20, 20, 300)...)
	require.Len(t, k.plan.Launches, 2)
	before := f.count(t, earlyLaunches)
	require.NoError(t, d.Submit(t.Context(), []driver.Run{k.run()}))
	k.check(t)
	require.Equal(t, before+2, f.count(t, earlyLaunches))
}

// The first run on some operands launches kernels, later runs launch a graph, and closing the program frees
// it.
func (f *Fake) testGraphs(t *testing.T) {
	f.needGraphs(t)
	d := f.open(t)
	k := newTask(t, d, split, twoGEMMs(20, 20, 300)...)
	n := len(k.plan.Launches)
	require.Greater(t, n, 1)
	kernels, launched := f.count(t, launches), f.count(t, graphLaunches)
	for i := range 4 {
		require.NoError(t, d.Submit(t.Context(), []driver.Run{k.run()}))
		k.check(t)
		require.Equal(t, kernels+n*(i+1), f.count(t, launches))
		require.Equal(t, launched+i, f.count(t, graphLaunches))
	}
	recorded := f.count(t, graphs)
	require.NoError(t, k.program.Close())
	require.Equal(t, recorded-1, f.count(t, graphs))
}

// A plan has its own graphs, and the first run after an update makes none. Graphs of the previous plan are
// kept while they may be queued.
func (f *Fake) testGraphsOfUpdates(t *testing.T) {
	f.needGraphs(t)
	d := f.open(t)
	k := newTask(t, d, split, gemm(20, 20, 300))
	plans := []*planner.Plan{k.plan} // three, with two alternating images
	for i, o := range []planner.Options{{Tile: "medium"}, split} {
		p := gemm(20, 20, 300)
		p.Alpha = planner.Scale(float64(2 + i))
		plans = append(plans, newPlan(t, d, o, p))
	}
	before, launched := f.count(t, graphs), f.count(t, graphLaunches)
	for i := range 3 * backend.Remembered {
		k.plan = plans[i%3]
		require.NoError(t, k.program.Update(t.Context(), k.plan))
		for range 1 + i%4 {
			require.NoError(t, d.Submit(t.Context(), []driver.Run{k.run()}))
		}
		k.check(t)
		require.LessOrEqual(t, f.count(t, graphs), before+backend.Remembered)
	}
	require.Greater(t, f.count(t, graphLaunches), launched+backend.Remembered)
	require.NoError(t, k.program.Close())
	require.Equal(t, before, f.count(t, graphs))
}

// If no graph can be made, launches go one by one.
func (f *Fake) testGraphFails(t *testing.T) {
	f.needGraphs(t)
	d := f.open(t)
	k := newTask(t, d, split, gemm(20, 20, 300))
	f.Fail(t, "graphInstantiate", 2, 0)
	before := f.count(t, graphs)
	for range 3 {
		require.NoError(t, d.Submit(t.Context(), []driver.Run{k.run()}))
		k.check(t)
	}
	require.Equal(t, before, f.count(t, graphs))
}

// A vendor whose library has no graphs launches one by one.
func (f *Fake) testNoGraphs(t *testing.T) {
	v := f.vendor
	v.Symbols = slices.DeleteFunc(slices.Clone(v.Symbols), func(s dl.Symbol) bool {
		return s.Entry == "graphLaunch"
	})
	without := New(t, v, v.Libraries[0])
	d := without.open(t)
	k := newTask(t, d, split, twoGEMMs(20, 20, 300)...)
	n := len(k.plan.Launches)
	kernels, recorded := without.count(t, launches), without.count(t, graphs)
	for i := range 3 {
		require.NoError(t, d.Submit(t.Context(), []driver.Run{k.run()}))
		k.check(t)
		require.Equal(t, kernels+n*(i+1), without.count(t, launches))
	}
	require.Equal(t, recorded, without.count(t, graphs))
}

// targets is a task that adds a product of integers to any of many C.
type targets struct {
	*task
	cs   []driver.Buffer
	runs []int // of each
}

func newTargets(t *testing.T, d driver.Device, n int) *targets {
	p := twoGEMMs(4, 5, 300)
	p[0].Beta, p[1].Beta = 1, 1
	s := &targets{task: newTask(t, d, split, p...), runs: make([]int, n)}
	require.Greater(t, len(s.plan.Launches), 1)
	for range n {
		c := alloc(t, d, len(s.host[2]))
		require.NoError(t, c.Write(t.Context(), 0, s.host[2]))
		s.cs = append(s.cs, c)
	}
	return s
}

func (s *targets) run(i int) driver.Run {
	s.runs[i]++
	run := s.task.run()
	run.C = s.cs[i]
	return run
}

// submit queues runs on the C with these numbers as one submission.
func (s *targets) submit(t *testing.T, numbers ...int) {
	t.Helper()
	var runs []driver.Run
	for _, i := range numbers {
		runs = append(runs, s.run(i))
	}
	require.NoError(t, s.device.Submit(t.Context(), runs))
}

func (s *targets) check(t *testing.T) {
	t.Helper()
	batch := slices.Clone(s.plan.Batch)
	got := make([]float32, len(s.host[2]))
	for i, c := range s.cs {
		require.NoError(t, c.Read(t.Context(), 0, got))
		for p := range batch {
			batch[p].Alpha = planner.Scale(float64(s.runs[i])) // that many runs in one
		}
		require.NoError(t, reference.CheckExact(batch, s.host[0], s.host[1], s.host[2], got), "C %d", i)
	}
}

func numbers(n int) (all []int) {
	for i := range n {
		all = append(all, i)
	}
	return all
}

// A submission launches graphs and has more operands than a program keeps graphs for.
func (f *Fake) testGraphsOfLargeSubmission(t *testing.T) {
	f.needGraphs(t)
	s := newTargets(t, f.open(t), 2*backend.Remembered)
	recorded, launched := f.count(t, graphs), f.count(t, graphLaunches)
	s.submit(t, 0, 0, 0)
	require.Equal(t, launched+2, f.count(t, graphLaunches))
	all := numbers(len(s.cs))
	s.submit(t, slices.Concat([]int{0}, all, all, []int{0})...)
	require.Equal(t, recorded+backend.Remembered, f.count(t, graphs), "the first operands have theirs")
	require.Equal(t, launched+2+4+backend.Remembered-1, f.count(t, graphLaunches))
	s.check(t)
}

// A submission that fails while it is made queues nothing and leaves all others intact.
func (f *Fake) testGraphsOfFailedSubmission(t *testing.T) {
	f.needGraphs(t)
	d := f.open(t)
	s := newTargets(t, d, backend.Remembered+10)
	foreign := alloc(t, f.open(t), len(s.host[2]))
	for range 3 {
		var bad []driver.Run
		for i := range s.cs {
			run := s.task.run()
			run.C = s.cs[i]
			bad = append(bad, run, run)
		}
		bad[len(bad)-1].C = foreign
		require.ErrorIs(t, d.Submit(t.Context(), bad), invalid.Err)
	}
	s.check(t)
	s.submit(t, slices.Concat(numbers(len(s.cs)), numbers(len(s.cs)))...)
	s.check(t)
}

// Graphs are destroyed one by one, and only after the device has run them.
func (f *Fake) testGraphsAreBounded(t *testing.T) {
	f.needGraphs(t)
	d := f.open(t)
	s := newTargets(t, d, backend.Remembered+10)
	before := f.count(t, graphs)
	for i := range s.cs { // without a wait
		s.submit(t, i, i, 0)
		require.LessOrEqual(t, f.count(t, graphs), before+backend.Remembered)
	}
	require.NoError(t, d.Wait(t.Context()))
	last := len(s.cs) - 1
	launched := f.count(t, graphLaunches)
	for range 4 { // at most two to learn what is done, one more to record
		s.submit(t, last)
	}
	require.Greater(t, f.count(t, graphLaunches), launched, "there is room again")
	require.Equal(t, before+backend.Remembered, f.count(t, graphs))
	launched = f.count(t, graphLaunches)
	s.submit(t, 0)
	require.Equal(t, launched+1, f.count(t, graphLaunches), "those used last are kept")
	s.check(t)
}

// Programs and buffers may be closed while queued work uses them.
func (f *Fake) testCloseAfterGraphs(t *testing.T) {
	f.needGraphs(t)
	d := f.open(t)
	s := newTargets(t, d, 3)
	before := f.count(t, graphs)
	s.submit(t, 0, 0, 0, 1, 1, 1)
	require.NoError(t, s.cs[1].Close())
	s.submit(t, 0, 2, 2, 2)
	require.NoError(t, s.program.Close())
	require.Equal(t, before, f.count(t, graphs))
	s.cs, s.runs = []driver.Buffer{s.cs[0], s.cs[2]}, []int{s.runs[0], s.runs[2]}
	s.check(t)
}
