package cpu

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/reference"
	"github.com/batchgemm/batchgemm/planner"
)

func openDevice(t testing.TB) *device {
	t.Helper()
	d, err := Driver().Open(context.Background(), 0)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return d.(*device)
}

// ready prepares a batch with random operands.
func ready(t testing.TB, d *device, o planner.Options, problems ...planner.Problem) driver.Run {
	t.Helper()
	batch, err := planner.Pack(problems...)
	require.NoError(t, err)
	plan, err := planner.New(&d.info.Planner).Plan(t.Context(), batch, o)
	require.NoError(t, err)
	program, err := d.Prepare(context.Background(), plan)
	require.NoError(t, err)
	rng := rand.New(rand.NewPCG(1, 0))
	run := driver.Run{Program: program}
	for _, arg := range []struct {
		to *driver.Buffer
		n  int
	}{{&run.A, plan.ExtentA}, {&run.B, plan.ExtentB}, {&run.C, plan.ExtentC}} {
		b, err := d.Alloc(max(arg.n, 1))
		require.NoError(t, err)
		reference.Uniform(rng, b.(*buffer).data)
		*arg.to = b
	}
	return run
}

// amount returns how much work the runs are.
func amount(t testing.TB, runs ...driver.Run) int {
	t.Helper()
	n, err := runs[0].Program.(*program).On().check(runs)
	require.NoError(t, err)
	return n
}

// random returns problems with sizes uniform in [16, mn] and [16, k].
func random(n, mn, k int) []planner.Problem {
	rng := rand.New(rand.NewPCG(1, 0))
	size := func(limit int) int { return 16 + rng.IntN(limit-15) }
	problems := make([]planner.Problem, n)
	for i := range problems {
		problems[i] = planner.GEMM(size(mn), size(mn), size(k))
	}
	return problems
}

// TestDeepK crosses several parts of K.
func TestDeepK(t *testing.T) {
	d := openDevice(t)
	problems := []planner.Problem{planner.GEMM(3, 5, 4*panelDepth+1), planner.GEMM(5, 3, panelDepth)}
	problems[0].TransA, problems[0].Beta = true, 1
	run := ready(t, d, planner.Options{}, problems...)
	batch, err := planner.Pack(problems...)
	require.NoError(t, err)
	before := append([]float32(nil), run.C.(*buffer).data...)
	require.NoError(t, d.Submit(t.Context(), []driver.Run{run}))
	require.NoError(t, d.Wait(t.Context()))
	worst, err := reference.Check(batch, run.A.(*buffer).data, run.B.(*buffer).data, before,
		run.C.(*buffer).data)
	require.NoError(t, err)
	require.Less(t, worst, 1.0, "of the bound")
}

func TestCloseEndsTheGoroutines(t *testing.T) {
	before := runtime.NumGoroutine()
	for range 50 {
		d, err := Driver().Open(context.Background(), 0)
		require.NoError(t, err)
		require.NoError(t, d.Close())
	}
	// Goroutines end after Close, at the latest when the test times out.
	for runtime.NumGoroutine() > before {
		time.Sleep(time.Millisecond)
	}
}

func BenchmarkBatch(b *testing.B) {
	d := openDevice(b)
	for _, c := range []struct{ n, mn, k int }{{64, 16, 16}, {64, 32, 32}, {64, 128, 128}, {64, 512, 128},
		{8, 128, 1024}} {
		b.Run(fmt.Sprintf("%dx%dx%d", c.n, c.mn, c.k), func(b *testing.B) {
			problems := random(c.n, c.mn, c.k)
			runs := []driver.Run{ready(b, d, planner.Options{}, problems...)}
			b.ReportAllocs()
			for b.Loop() {
				if err := errors.Join(d.Submit(b.Context(), runs), d.Wait(b.Context())); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(planner.Batch(problems).FLOPs()*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
		})
	}
}

// TestUpdateKeepsTheWorkspace: a plan that needs as much memory as the plan before, or less, uses the same.
func TestUpdateKeepsTheWorkspace(t *testing.T) {
	d, o := openDevice(t), planner.Options{Tile: "small", Schedule: planner.ScheduleStreamK}
	run := ready(t, d, o, planner.GEMM(20, 30, 9000), planner.GEMM(70, 70, 500))
	p := run.Program.(*program)
	before := p.workspace
	require.Positive(t, before.Len())
	for _, k := range []int{9000, 8000} {
		batch, err := planner.Pack(planner.GEMM(20, 30, k), planner.GEMM(70, 70, 500))
		require.NoError(t, err)
		plan, err := planner.New(&d.info.Planner).Plan(t.Context(), batch, o)
		require.NoError(t, err)
		require.LessOrEqual(t, plan.Workspace, before.Len())
		require.NoError(t, p.Update(t.Context(), plan))
		require.Same(t, before, p.workspace)
	}
}
