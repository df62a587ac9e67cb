//go:build cgo && ((linux && amd64) || darwin || (windows && amd64))

package webgpu

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/planner"
)

// BenchmarkSubmitWait is the host's cost: runs of a small batch recorded into
// one submission, and the wait. us/run falls to the GPU's time with many runs.
func BenchmarkSubmitWait(b *testing.B) {
	d := openBenchmark(b)
	runs := benchmarkRuns(b, d, 128, 128, 8, 100)
	for _, n := range []int{1, 20, 100} {
		b.Run(fmt.Sprintf("runs=%d", n), func(b *testing.B) {
			for b.Loop() {
				require.NoError(b, d.Submit(b.Context(), runs[:n]))
				require.NoError(b, d.Wait(b.Context()))
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n)/1e3, "us/run")
		})
	}
}

// BenchmarkSubmitOnly is the rate of submissions that nobody waits for.
func BenchmarkSubmitOnly(b *testing.B) {
	d := openBenchmark(b)
	runs := benchmarkRuns(b, d, 128, 128, 8, 1)
	for b.Loop() {
		require.NoError(b, d.Submit(b.Context(), runs))
	}
	require.NoError(b, d.Wait(b.Context()))
}

// BenchmarkTransfer moves 64 MiB.
func BenchmarkTransfer(b *testing.B) {
	d := openBenchmark(b)
	const n = 16 << 20
	buf, data := alloc(b, d, n), make([]float32, n)
	for name, move := range map[string]func() error{
		"write": func() error { return buf.Write(b.Context(), 0, data) },
		"read":  func() error { return buf.Read(b.Context(), 0, data) },
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(4 * n)
			for b.Loop() {
				require.NoError(b, move())
			}
			require.NoError(b, d.Wait(b.Context()))
		})
	}
}

// BenchmarkBatch is the device's time for random batches: M and N from 16 to mn,
// K from 16 to k.
func BenchmarkBatch(b *testing.B) {
	d := openBenchmark(b)
	for _, c := range []struct{ mn, k, batch int }{
		{128, 128, 8}, {128, 1024, 8}, {256, 256, 64}, {512, 512, 64}, {512, 512, 256}, {512, 1024, 8}, {512, 1024, 256},
	} {
		b.Run(fmt.Sprintf("mn=%d,k=%d,batch=%d", c.mn, c.k, c.batch), func(b *testing.B) {
			if d.info.Software && c.batch > 8 {
				b.Skip("a software adapter takes minutes")
			}
			runs := benchmarkRuns(b, d, c.mn, c.k, c.batch, 20)
			best := time.Duration(1 << 62)
			for b.Loop() {
				t, err := d.Time(b.Context(), runs)
				require.NoError(b, err)
				best = min(best, t.Device/time.Duration(len(runs)))
			}
			b.ReportMetric(float64(best.Nanoseconds())/1e3, "device-us")
		})
	}
}

func openBenchmark(b *testing.B) *device {
	d, err := Driver().Open(b.Context(), 0)
	if err != nil {
		b.Skip(err)
	}
	b.Cleanup(func() { d.Close() })
	return d.(*device)
}

// benchmarkRuns are n runs of one random batch.
func benchmarkRuns(b *testing.B, d *device, mn, k, batch, n int) []driver.Run {
	r := rand.New(rand.NewPCG(1, 0))
	problems := make([]planner.Problem, batch)
	for i := range problems {
		problems[i] = gemm(16+r.IntN(mn-15), 16+r.IntN(mn-15), 16+r.IntN(k-15))
	}
	t := newTask(b, problems...)
	_, p := prepare(b, d, t.batch, planner.Options{})
	run := driver.Run{Program: p, A: upload(b, d, t.a), B: upload(b, d, t.b), C: alloc(b, d, len(t.c))}
	runs := make([]driver.Run, n)
	for i := range runs {
		runs[i] = run
	}
	require.NoError(b, d.Submit(b.Context(), runs[:1])) // compiled and warm
	require.NoError(b, d.Wait(b.Context()))
	return runs
}
