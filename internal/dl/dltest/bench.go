package dltest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/backend"
	"github.com/batchgemm/batchgemm/planner"
)

func openBenchmark(b *testing.B, on driver.Driver) backend.Wrapper {
	b.Helper()
	opened, err := on.Open(b.Context(), 0)
	if err != nil {
		b.Skip(err)
	}
	b.Cleanup(func() { require.NoError(b, opened.Close()) })
	return opened.(backend.Wrapper)
}

var plans = []struct {
	name     string
	problems []planner.Problem
}{
	{"one-launch", []planner.Problem{gemm(16, 16, 16)}},
	{"two-launches", twoGEMMs(16, 16, 16)},
}

// onBoth runs a benchmark of each plan on the device's own stream and, without
// graphs, on a caller's.
func onBoth(b *testing.B, on driver.Driver, bench func(b *testing.B, d driver.Device, runs []driver.Run)) {
	own := openBenchmark(b, on)
	opened, err := own.OnStream(uintptr(0))
	require.NoError(b, err)
	defer opened.Close()
	for name, d := range map[string]driver.Device{"own": own, "on-stream": opened} {
		for _, p := range plans {
			b.Run(name+"/"+p.name, func(b *testing.B) {
				bench(b, d,
					[]driver.Run{newTask(b, d, planner.Options{Tile: "small",
						Schedule: planner.ScheduleDataParallel}, p.problems...).run()})
			})
		}
	}
}

// BenchmarkSubmit measures the host's cost of a run without a wait.
func BenchmarkSubmit(b *testing.B, on driver.Driver) {
	onBoth(b, on, func(b *testing.B, d driver.Device, runs []driver.Run) {
		var host time.Duration
		const burst = 100 // less than the driver's queue holds
		for b.Loop() {
			start := time.Now()
			for range burst {
				if err := d.Submit(b.Context(), runs); err != nil {
					b.Fatal(err)
				}
			}
			host += time.Since(start)
			require.NoError(b, d.Wait(b.Context()))
		}
		b.ReportMetric(float64(host.Nanoseconds())/float64(b.N*burst)/1e3, "host-us/run")
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*burst)/1e3, "us/run")
	})
}

// BenchmarkSubmitWait measures the time from a submission to its known end.
func BenchmarkSubmitWait(b *testing.B, on driver.Driver) {
	onBoth(b, on, func(b *testing.B, d driver.Device, runs []driver.Run) {
		b.ReportAllocs()
		for b.Loop() {
			if d.Submit(b.Context(), runs) != nil || d.Wait(b.Context()) != nil {
				b.Fatal("failed")
			}
		}
	})
}

// BenchmarkPrepare measures making a program from loaded kernels.
func BenchmarkPrepare(b *testing.B, on driver.Driver) {
	d := openBenchmark(b, on)
	info := d.Info()
	batch, err := planner.Pack(slices.Repeat([]planner.Problem{gemm(100, 100, 100)}, 256)...)
	require.NoError(b, err)
	plan, err := planner.New(&info.Planner).Plan(b.Context(), batch, planner.Options{})
	require.NoError(b, err)
	for b.Loop() {
		p, err := d.Prepare(b.Context(), plan)
		require.NoError(b, err)
		require.NoError(b, p.Close())
	}
}

func BenchmarkTransfer(b *testing.B, on driver.Driver) {
	d := openBenchmark(b, on)
	for _, size := range []int{8 << 10, 1 << 20, 64 << 20} {
		data := make([]float32, size/4)
		buf := alloc(b, d, len(data))
		for name, move := range map[string]func() error{
			"write": func() error { return buf.Write(b.Context(), 0, data) },
			"read":  func() error { return buf.Read(b.Context(), 0, data) },
		} {
			b.Run(fmt.Sprintf("%s/%dKiB", name, size>>10), func(b *testing.B) {
				b.SetBytes(int64(size))
				b.ReportAllocs()
				for b.Loop() {
					if err := move(); err != nil {
						b.Fatal(err)
					}
				}
				require.NoError(b, d.Wait(b.Context()))
			})
		}
	}
}
