package dispatch

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/reference"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

// BenchmarkLatency measures a call and the wait for its end on the CPU, for batches from one whose cost is
// all in the call to one where the call costs nothing.
func BenchmarkLatency(b *testing.B) {
	d, err := Open(b.Context(), WithBackend("cpu"))
	require.NoError(b, err)
	defer func() { require.NoError(b, d.Close()) }()
	for _, size := range []struct{ count, side int }{{1, 2}, {1, 16}, {8, 16}, {8, 32}, {64, 32}, {64, 128}} {
		problems := make([]planner.Problem, size.count)
		for i := range problems {
			problems[i] = planner.GEMM(size.side, size.side, size.side)
		}
		batch, err := planner.Pack(problems...)
		require.NoError(b, err)
		plan, err := d.Plan(b.Context(), batch, planner.Options{})
		require.NoError(b, err)
		p, err := d.Prepare(b.Context(), plan)
		require.NoError(b, err)
		var host [3][]float32
		var on [3]*Buffer
		for i := range host {
			host[i] = make([]float32, size.count*size.side*size.side)
			reference.Uniform(rand.New(rand.NewPCG(1, 0)), host[i])
			on[i], err = d.NewBuffer(element.F32, len(host[i]))
			require.NoError(b, err)
			require.NoError(b, Write(b.Context(), on[i], 0, host[i]))
		}
		for name, call := range map[string]func() error{
			"GEMM": func() error {
				return gemmOf(b.Context(), d, batch, planner.Options{}, host[0], host[1], host[2])
			},
			"RunAndWait": func() error {
				if err := p.Run(b.Context(), Operands{A: on[0], B: on[1], C: on[2]}); err != nil {
					return err
				}
				return d.Wait(b.Context())
			},
		} {
			b.Run(fmt.Sprintf("%s/%d of %d", name, size.count, size.side), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if err := call(); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// BenchmarkUpdate measures a step with changing sizes on the best device: an Update, a Run, and after every
// 8 steps a Wait. host is the median time of both calls.
func BenchmarkUpdate(b *testing.B) {
	d, err := Open(b.Context())
	require.NoError(b, err)
	defer func() { require.NoError(b, d.Close()) }()
	b.Log(d.Info().Backend, d.Info().Name)
	for _, c := range []struct{ count, least, most int }{{8, 16, 512}, {64, 16, 128}, {256, 16, 128},
		{256, 16, 512}, {1024, 16, 512}, {4096, 8, 32}} {
		rng := rand.New(rand.NewPCG(1, 0))
		size := func() int { return c.least + rng.IntN(c.most-c.least+1) }
		var batches [2]planner.Batch
		var need [3]int
		for i := range batches {
			problems := make([]planner.Problem, c.count)
			for i := range problems {
				problems[i] = planner.GEMM(size(), size(), size())
			}
			batches[i], err = planner.Pack(problems...)
			require.NoError(b, err)
			own := batches[i].Lengths(planner.Epilogue{})
			need = [3]int{max(need[0], own.A), max(need[1], own.B), max(need[2], own.C)}
		}
		plan, err := d.Plan(b.Context(), batches[0], planner.Options{})
		require.NoError(b, err)
		p, err := d.Prepare(b.Context(), plan)
		require.NoError(b, err)
		var on [3]*Buffer
		for i, n := range need {
			on[i], err = d.NewBuffer(element.F32, n)
			require.NoError(b, err)
			require.NoError(b, Write(b.Context(), on[i], 0, make([]float32, n)))
		}
		for _, update := range []bool{false, true} {
			b.Run(fmt.Sprintf("%d of %d to %d/update=%t", c.count, c.least, c.most, update),
				func(b *testing.B) {
					var host []time.Duration
					for step := 0; b.Loop(); step++ {
						start := time.Now()
						if update {
							if err := p.Update(b.Context(), batches[step%2]); err != nil {
								b.Fatal(err)
							}
						}
						if err := p.Run(b.Context(), Operands{A: on[0], B: on[1], C: on[2]}); err != nil {
							b.Fatal(err)
						}
						host = append(host, time.Since(start))
						if step%8 == 7 {
							require.NoError(b, d.Wait(b.Context()))
						}
					}
					require.NoError(b, d.Wait(b.Context()))
					slices.Sort(host)
					b.ReportMetric(float64(host[len(host)/2].Nanoseconds())/1e3, "host-us/step")
				})
		}
		require.NoError(b, p.Close())
		for _, x := range on {
			require.NoError(b, x.Close())
		}
	}
}
