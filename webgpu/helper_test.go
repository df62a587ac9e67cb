//go:build !nowebgpu && (js || (cgo && ((linux && amd64) || darwin || (windows && amd64))))

package webgpu

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/drivertest"
	"github.com/batchgemm/batchgemm/internal/hardware"
	"github.com/batchgemm/batchgemm/planner"
)

func open(t *testing.T, d webgpuDriver) *device {
	t.Helper()
	return drivertest.Open(t, d).(*device)
}

func alloc(t testing.TB, d *device, n int) *buffer {
	t.Helper()
	b, err := d.Alloc(max(n, 1))
	require.NoError(t, err)
	return b.(*buffer)
}

// upload returns a buffer with these elements.
func upload(t testing.TB, d *device, data []float32) *buffer {
	t.Helper()
	b := alloc(t, d, len(data))
	require.NoError(t, b.Write(t.Context(), 0, data))
	return b
}

func download(t testing.TB, b *buffer, n int) []float32 {
	t.Helper()
	data := make([]float32, n)
	require.NoError(t, b.Read(t.Context(), 0, data))
	return data
}

// integers returns small integers. Their products and sums are exact in float32, so results compare exactly.
func integers(n int, seed uint64) []float32 {
	r := rand.New(rand.NewPCG(seed, 0))
	data := make([]float32, n)
	for i := range data {
		data[i] = float32(r.IntN(9) - 4)
	}
	return data
}

// reference computes a batch in float64.
func reference(batch planner.Batch, a, b, c []float32) []float32 {
	out := append([]float32(nil), c...)
	for _, p := range batch {
		for i := range p.M {
			for j := range p.N {
				var sum float64
				for k := range p.K {
					ia, ib := p.A.Offset+i*p.A.LD+k, p.B.Offset+k*p.B.LD+j
					if p.TransA {
						ia = p.A.Offset + k*p.A.LD + i
					}
					if p.TransB {
						ib = p.B.Offset + j*p.B.LD + k
					}
					sum += float64(a[ia]) * float64(b[ib])
				}
				sum *= float64(p.Alpha.Value())
				ic := p.C.Offset + i*p.C.LD + j
				if p.Beta != 0 {
					sum += float64(p.Beta) * float64(c[ic])
				}
				out[ic] = float32(sum)
			}
		}
	}
	return out
}

// task is a batch with its data.
type task struct {
	batch   planner.Batch
	a, b, c []float32
}

func newTask(t testing.TB, problems ...planner.Problem) task {
	t.Helper()
	batch, err := planner.Pack(problems...)
	require.NoError(t, err)
	need := batch.Lengths(planner.Epilogue{})
	return task{batch, integers(need.A, 1), integers(need.B, 2), integers(need.C, 3)}
}

func prepare(t testing.TB, d *device, batch planner.Batch, o planner.Options) (*planner.Plan, *program) {
	t.Helper()
	plan, err := planner.New(&d.info.Planner).Plan(t.Context(), batch, o)
	require.NoError(t, err)
	p, err := d.Prepare(t.Context(), plan)
	require.NoError(t, err)
	return plan, p.(*program)
}

// loaded is a device with a small task that is ready to run.
type loaded struct {
	*device
	task
	plan    *planner.Plan
	program *program
	a, b, c *buffer
}

func load(t testing.TB, d *device) *loaded {
	t.Helper()
	k := newTask(t, gemm(8, 8, 8))
	plan, p := prepare(t, d, k.batch, planner.Options{})
	return &loaded{d, k, plan, p, upload(t, d, k.a), upload(t, d, k.b), alloc(t, d, len(k.c))}
}

func (l *loaded) runs() []driver.Run {
	return []driver.Run{{Program: l.program, A: l.a, B: l.b, C: l.c}}
}

// calls lists the calls that take a context.
func (l *loaded) calls(ctx context.Context) map[string]func() error {
	return map[string]func() error{
		"Prepare": func() error { _, err := l.Prepare(ctx, l.plan); return err },
		"Submit":  func() error { return l.Submit(ctx, l.runs()) },
		"Wait":    func() error { return l.Wait(ctx) },
		"Time":    func() error { _, err := l.Time(ctx, l.runs()); return err },
		"Write":   func() error { return l.a.Write(ctx, 0, l.task.a) },
		"Read":    func() error { return l.c.Read(ctx, 0, make([]float32, len(l.task.c))) },
		"Copy":    func() error { return l.Copy(ctx, l.c, l.a, 4) },
		"StartRead": func() error {
			r, err := l.c.StartRead(ctx, 0, make([]float32, len(l.task.c)))
			if err != nil {
				return err
			}
			return r.Finish(ctx)
		},
	}
}

// requireLost checks that every call says that the device is lost, and why. Its objects can still be closed.
func (l *loaded) requireLost(t *testing.T, why string) {
	t.Helper()
	calls := l.calls(t.Context())
	calls["Alloc"] = func() error { _, err := l.Alloc(1); return err }
	calls["Close"], calls["again"] = l.Close, l.Close
	for name, call := range calls {
		err := call()
		require.ErrorIs(t, err, hardware.ErrDeviceLost, name)
		require.ErrorContains(t, err, why, name)
	}
	require.NoError(t, l.a.Close())
	require.NoError(t, l.program.Close())
}

// run uploads the task, runs it and returns C.
func (k task) run(t testing.TB, d *device, o planner.Options) ([]float32, *planner.Plan) {
	t.Helper()
	plan, p := prepare(t, d, k.batch, o)
	a, b, c := upload(t, d, k.a), upload(t, d, k.b), upload(t, d, k.c)
	require.NoError(t, d.Submit(t.Context(), []driver.Run{{Program: p, A: a, B: b, C: c}}))
	got := download(t, c, len(k.c))
	for _, o := range []interface{ Close() error }{a, b, c, p} {
		require.NoError(t, o.Close())
	}
	return got, plan
}

func gemm(m, n, k int) planner.Problem { return planner.GEMM(m, n, k) }

// requireEqual compares elements exactly. It names the first difference only.
func requireEqual(t testing.TB, want, got []float32) {
	t.Helper()
	require.Len(t, got, len(want))
	for i := range want {
		if want[i] != got[i] && !(math.IsNaN(float64(want[i])) && math.IsNaN(float64(got[i]))) {
			require.Failf(t, "differs", "element %d of %d: want %g, got %g", i, len(want), want[i], got[i])
		}
	}
}

// cancelled returns a context that has ended.
func cancelled(t testing.TB) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}
