//go:build !nowebgpu && (js || (cgo && ((linux && amd64) || darwin || (windows && amd64))))

package webgpu

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/internal/hardware"
	"github.com/batchgemm/batchgemm/internal/tile"
	"github.com/batchgemm/batchgemm/internal/workload"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
	"github.com/batchgemm/batchgemm/wgsl"
)

// BenchmarkSubmitWait measures the host's cost: runs of a small batch recorded into one submission, and the
// wait. With many runs, us/run falls to the GPU's time.
func BenchmarkSubmitWait(b *testing.B) {
	d := openBenchmark(b)
	runs := slices.Repeat([]driver.Run{benchmarkRun(b, d, smallest())}, 100)
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

// BenchmarkSubmitOnly measures the rate of submissions without waits.
func BenchmarkSubmitOnly(b *testing.B) {
	d := openBenchmark(b)
	runs := []driver.Run{benchmarkRun(b, d, smallest())}
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

// BenchmarkZhang measures the device's time for the batches of the sweep, with the planner's choices: -bench
// 'Zhang/512-1024-256$' runs one of them. Buffers are reused, so small batches stay in the GPU's caches. The
// GPU is kept busy before each measurement, because its clock falls when it is idle.
func BenchmarkZhang(b *testing.B) {
	d := openBenchmark(b)
	for _, c := range workload.Zhang() {
		b.Run(fmt.Sprintf("%d-%d-%d", c.MaxMN, c.MaxK, c.Batch), func(b *testing.B) {
			if d.info.Kind == hardware.KindSoftware && c.Batch > 8 {
				b.Skip("a software adapter takes minutes")
			}
			benchmarkDevice(b, d, c.Problems)
		})
	}
}

// BenchmarkInception is BenchmarkZhang for the modules of GoogLeNet.
func BenchmarkInception(b *testing.B) {
	d := openBenchmark(b)
	for i := range 9 {
		b.Run(fmt.Sprint(i+1), func(b *testing.B) {
			w, err := workload.Load(fmt.Sprintf("inception-%d", i+1), nil)
			require.NoError(b, err)
			benchmarkDevice(b, d, w.Batch)
		})
	}
}

// benchmarkDevice reports the device's time for a batch.
func benchmarkDevice(b *testing.B, d *device, problems []planner.Problem) {
	micros := benchmarkTime(b, d, benchmarkRun(b, d, problems))
	b.ReportMetric(planner.Batch(problems).FLOPs()/micros/1e6, "TFLOPS")
}

// benchmarkTime reports and returns the device's time for a run, in microseconds.
func benchmarkTime(b *testing.B, d *device, run driver.Run) float64 {
	first, err := d.Time(b.Context(), []driver.Run{run})
	require.NoError(b, err)
	// Enough runs in one submission to make its ends negligible.
	runs := slices.Repeat([]driver.Run{run}, int(min(max(2*time.Millisecond/first.Device, 4), 400)))
	if d.info.Kind == hardware.KindSoftware {
		runs = runs[:1]
	}
	for start := time.Now(); time.Since(start) < 250*time.Millisecond; {
		_, err := d.Time(b.Context(), runs)
		require.NoError(b, err)
	}
	var micros []float64
	for b.Loop() {
		t, err := d.Time(b.Context(), runs)
		require.NoError(b, err)
		micros = append(micros, float64(t.Device.Nanoseconds())/1e3/float64(len(runs)))
	}
	slices.Sort(micros)
	b.ReportMetric(micros[len(micros)/2], "device-us")
	return micros[len(micros)/2]
}

// BenchmarkFewRows measures the device's time for products of few rows whose B exceed a GPU's caches, in
// fp32, bf16 and Int4. All numbers are 0.
func BenchmarkFewRows(b *testing.B) {
	d := openBenchmark(b)
	const n, k = 4096, 4096
	count := 16
	if d.info.Kind == hardware.KindSoftware {
		count = 1
	}
	for _, m := range []int{1, 4, 8, 16} {
		for _, c := range []struct {
			name   string
			transB bool
			o      planner.Options
		}{
			{"f32", false, planner.Options{}},
			{"f32,transposed", true, planner.Options{}},
			{"bf16", false, planner.Options{TypeA: element.BF16, TypeC: element.BF16}},
			{"bf16,transposed", true, planner.Options{TypeA: element.BF16, TypeC: element.BF16}},
			{"int4", false, planner.Options{TypeA: element.BF16, TypeB: element.Int4, TypeC: element.BF16,
				Epilogue: planner.Epilogue{ScaleB: planner.PerGroup128}}},
		} {
			o := c.o
			b.Run(fmt.Sprintf("rows=%d/%s", m, c.name), func(b *testing.B) {
				var batch planner.Batch
				for i := range count {
					p := planner.Problem{M: m, N: n, K: k, TransB: c.transB,
						A: planner.Matrix{Offset: i * m * k, LD: k},
						B: planner.Matrix{Offset: i * n * k, LD: k},
						C: planner.Matrix{Offset: i * m * n, LD: n}}
					p.ScaleB = i * o.Epilogue.ScalesB(&p)
					batch = append(batch, p)
				}
				plan, p := prepare(b, d, batch, o)
				words := func(of element.Type, elements int) driver.Buffer {
					x := alloc(b, d, (elements+of.PerWord()-1)/of.PerWord())
					b.Cleanup(func() { x.Close() })
					return x
				}
				run := driver.Run{Program: p, A: words(o.TypeA, plan.ExtentA),
					B: words(o.TypeB, plan.ExtentB), C: words(o.TypeC, plan.ExtentC)}
				if plan.ExtentRows > 0 {
					run.Rows = words(element.F32, plan.ExtentRows)
				}
				b.Logf("%v, %d workgroups", plan.Launches[0].Kernel, plan.Launches[0].Count)
				b.ReportMetric(float64(n*k*count)/benchmarkTime(b, d, run)/1e6, "Tweights/s")
			})
		}
	}
}

// BenchmarkCompile measures how long the kernels with the longest texts take to compile if the driver's
// cache has none of them.
func BenchmarkCompile(b *testing.B) {
	b.Setenv("MESA_SHADER_CACHE_DISABLE", "true")
	d := openBenchmark(b)
	most := encoding.Epilogue{Activation: encoding.SiLU, Bias: true, Gather: true, Scatter: true,
		Weights: true}
	for _, name := range []string{"large-8x8", "thin-8x64"} {
		for _, types := range [][2]element.Type{{}, {element.F16, element.F16}, {element.BF16, element.BF16},
			{element.E4M3, element.BF16}, {element.Int8, element.F16}} {
			shape, err := tile.ByName(name)
			require.NoError(b, err)
			for _, e := range []encoding.Epilogue{{}, most} {
				k := encoding.Kernel{Tile: shape, TypeA: types[0], TypeC: types[1], Loop: true, Split: true,
					Epilogue: e}
				b.Run(k.String(), func(b *testing.B) { benchmarkCompile(b, d, k) })
			}
		}
	}
}

func benchmarkCompile(b *testing.B, d *device, k encoding.Kernel) {
	s, err := wgsl.Render(k, d.shader)
	require.NoError(b, err)
	for b.Loop() {
		if p := d.pipelines[k]; p != nil {
			p.free()
			delete(d.pipelines, k)
		}
		require.NoError(b, d.compileAndRun(b.Context(), k))
	}
	b.ReportMetric(float64(len(s.Source)), "bytes")
}

// BenchmarkRagged measures the device's time to make the items of a layer of experts, without the products.
func BenchmarkRagged(b *testing.B) {
	d := openBenchmark(b)
	for _, groups := range []int{8, 64, 512, planner.MaxGroups} {
		b.Run(fmt.Sprintf("groups=%d", groups), func(b *testing.B) {
			r := planner.Ragged{Form: planner.EndsOfRows, Groups: groups, M: 64 * groups, N: 128, K: 8,
				A: planner.Matrix{LD: 8}, B: planner.Matrix{LD: 128}, C: planner.Matrix{LD: 128}}
			x := prepareRagged(b, d, r, d.info.Planner.ComputeUnits)
			defer x.close(b)
			ends := make([]int32, groups)
			for i := range ends {
				ends[i] = int32(64*i + 64)
			}
			m := &x.program.images[x.program.now]
			m.launches = m.launches[:2]
			run, c := x.run(b, ends)
			defer c.Close()
			var micros []float64
			for b.Loop() {
				t, err := d.Time(b.Context(), slices.Repeat([]driver.Run{run}, 20))
				require.NoError(b, err)
				micros = append(micros, float64(t.Device.Nanoseconds())/1e3/20)
			}
			slices.Sort(micros)
			b.ReportMetric(micros[len(micros)/2], "device-us")
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

// benchmarkRun returns a run of the batch on random data, compiled and warm.
func benchmarkRun(b *testing.B, d *device, problems []planner.Problem) driver.Run {
	batch, err := planner.Pack(problems...)
	require.NoError(b, err)
	plan, p := prepare(b, d, batch, planner.Options{})
	for _, l := range plan.Launches {
		b.Logf("%v, %d workgroups", l.Kernel, l.Count)
	}
	var buffers [3]*buffer
	r := rand.New(rand.NewPCG(1, 0))
	need := batch.Lengths(planner.Epilogue{})
	for i, n := range [...]int{need.A, need.B, need.C} {
		data := make([]float32, n)
		for j := range data {
			data[j] = 2*r.Float32() - 1
		}
		buffers[i] = upload(b, d, data)
		b.Cleanup(func() { buffers[i].Close() })
	}
	run := driver.Run{Program: p, A: buffers[0], B: buffers[1], C: buffers[2]}
	require.NoError(b, d.Submit(b.Context(), []driver.Run{run}))
	require.NoError(b, d.Wait(b.Context()))
	return run
}

// smallest returns the smallest batch of the sweep: 8 problems, M and N up to 128, K up to 128.
func smallest() []planner.Problem { return workload.Zhang()[0].Problems }
