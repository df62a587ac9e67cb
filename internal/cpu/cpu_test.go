package cpu

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/gonum"

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
	plan, err := planner.New(&d.info.Planner, batch, o)
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

func TestTilesFitTheScratch(t *testing.T) {
	for _, tile := range planner.Tiles()[:planner.NumFMATiles] {
		require.LessOrEqual(t, max(tile.TM, tile.TN), maxSide, tile.Name)
	}
}

// TestDeepK crosses several panels of K.
func TestDeepK(t *testing.T) {
	d := openDevice(t)
	problems := []planner.Problem{planner.GEMM(3, 5, 4*panelDepth+1), planner.GEMM(5, 3, panelDepth)}
	problems[0].TransA, problems[0].Beta = true, 1
	run := ready(t, d, planner.Options{}, problems...)
	batch, err := planner.Pack(problems...)
	require.NoError(t, err)
	before := append([]float32(nil), run.C.(*buffer).data...)
	require.NoError(t, d.Submit(context.Background(), []driver.Run{run}))
	worst, err := reference.Check(batch, run.A.(*buffer).data, run.B.(*buffer).data, before, run.C.(*buffer).data)
	require.NoError(t, err)
	// Accumulated in float64 and rounded once: half a unit of the last place,
	// where the bound allows 2*(K+2).
	require.Less(t, worst, 0.01)
}

// countdown is a context that ends after a number of looks at it.
type countdown struct {
	context.Context
	left atomic.Int64
}

func (c *countdown) Err() error {
	if c.left.Add(-1) < 0 {
		return context.Canceled
	}
	return nil
}

func TestCancelBetweenWorkers(t *testing.T) {
	d := openDevice(t)
	run := ready(t, d, planner.Options{Tile: "small", Schedule: planner.ScheduleDataParallel}, random(4, 100, 20)...)
	ctx := &countdown{Context: context.Background()}
	ctx.left.Store(10)
	err := d.Submit(ctx, []driver.Run{run, run})
	require.ErrorIs(t, err, context.Canceled)
	require.EqualError(t, err, "cpu: stopped in run 0 of 2, its C is incomplete: context canceled")
	require.NoError(t, d.Submit(context.Background(), []driver.Run{run}), "the device works on")
}

// TestCancelWaiting cancels a call that waits for the device.
func TestCancelWaiting(t *testing.T) {
	d := openDevice(t)
	d.lock <- struct{}{}
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	require.ErrorIs(t, d.Wait(ctx), context.DeadlineExceeded)
	d.release()
	require.NoError(t, d.Wait(context.Background()))
}

func TestMemoryIsAccounted(t *testing.T) {
	d := openDevice(t)
	free := d.free.Load()
	require.Positive(t, free)
	b, err := d.Alloc(1000)
	require.NoError(t, err)
	require.Equal(t, free-4000, d.free.Load())
	_, err = d.Alloc(int(free / 4))
	require.ErrorIs(t, err, driver.ErrOutOfMemory)
	require.Equal(t, free-4000, d.free.Load())
	require.NoError(t, b.Close())
	require.NoError(t, b.Close())
	require.Equal(t, free, d.free.Load())
}

// A workspace that memory has no room for fails Prepare and takes nothing.
func TestWorkspaceIsRefused(t *testing.T) {
	d := openDevice(t)
	facts := d.info.Planner
	facts.ComputeUnits = 100 // so that tiles are split
	batch, err := planner.Pack(planner.GEMM(40, 40, 2000))
	require.NoError(t, err)
	plan, err := planner.New(&facts, batch, planner.Options{Tile: "small", Schedule: planner.ScheduleSplitK})
	require.NoError(t, err)
	require.Greater(t, plan.Workspace, 1000)
	d.free.Store(4*int64(plan.Workspace) - 1)
	_, err = d.Prepare(t.Context(), plan)
	require.ErrorIs(t, err, driver.ErrOutOfMemory)
	require.ErrorContains(t, err, "workspace: cpu: ")
	require.Equal(t, 4*int64(plan.Workspace)-1, d.free.Load())
	d.free.Add(1)
	p, err := d.Prepare(t.Context(), plan)
	require.NoError(t, err)
	require.Zero(t, d.free.Load())
	require.NoError(t, p.Close())
	require.Equal(t, 4*int64(plan.Workspace), d.free.Load())
}

func TestCloseEndsTheGoroutines(t *testing.T) {
	before := runtime.NumGoroutine()
	for range 50 {
		d, err := Driver().Open(context.Background(), 0)
		require.NoError(t, err)
		require.NoError(t, d.Close())
	}
	// Goroutines end behind Close, at the latest when the test times out.
	for runtime.NumGoroutine() > before {
		time.Sleep(time.Millisecond)
	}
}

func BenchmarkBatch(b *testing.B) {
	d := openDevice(b)
	for _, c := range []struct{ n, mn, k int }{{64, 16, 16}, {64, 32, 32}, {64, 128, 128}, {64, 512, 128}, {8, 128, 1024}} {
		b.Run(fmt.Sprintf("%dx%dx%d", c.n, c.mn, c.k), func(b *testing.B) {
			problems := random(c.n, c.mn, c.k)
			runs := []driver.Run{ready(b, d, planner.Options{}, problems...)}
			b.ReportAllocs()
			for b.Loop() {
				if err := d.Submit(context.Background(), runs); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(planner.Batch(problems).FLOPs()*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
		})
	}
}

// BenchmarkInnerProduct compares the candidates for the loop of multiply, on
// one core and packed operands.
func BenchmarkInnerProduct(b *testing.B) {
	type kernel func(m, n, k int, x, y, sum []float64)
	kernels := map[string]kernel{
		"go": func(m, n, k int, x, y, sum []float64) {
			for i := range m {
				row := x[i*k : (i+1)*k]
				for j := range n {
					col := y[j*k:][:len(row)]
					s := 0.0
					for p, v := range row {
						s += v * col[p]
					}
					sum[i*n+j] += s
				}
			}
		},
		"dgemv": func(m, n, k int, x, y, sum []float64) {
			for i := range m {
				gonum.Implementation{}.Dgemv(blas.NoTrans, n, k, 1, y, k, x[i*k:(i+1)*k], 1, 1, sum[i*n:(i+1)*n], 1)
			}
		},
	}
	for _, s := range [][3]int{{8, 8, 8}, {16, 16, 16}, {32, 32, 32}, {64, 64, 256}} {
		m, n, k := s[0], s[1], s[2]
		x, y, sum := make([]float64, m*k), make([]float64, n*k), make([]float64, m*n)
		for name, f := range kernels {
			b.Run(fmt.Sprintf("%dx%dx%d/%s", m, n, k, name), func(b *testing.B) {
				for b.Loop() {
					f(m, n, k, x, y, sum)
				}
				b.ReportMetric(2*float64(m*n*k)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
			})
		}
	}
}
