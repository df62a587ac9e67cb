package dispatch

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/reference"
	"github.com/batchgemm/batchgemm/planner"
)

// BenchmarkLatency is a call and the wait for its end on the CPU, for batches from
// one where the call is all the cost to one where it is none.
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
		plan, err := d.Plan(batch, planner.Options{})
		require.NoError(b, err)
		p, err := d.Prepare(b.Context(), plan)
		require.NoError(b, err)
		var host [3][]float32
		var on [3]*Buffer
		for i := range host {
			host[i] = make([]float32, size.count*size.side*size.side)
			reference.Uniform(rand.New(rand.NewPCG(1, 0)), host[i])
			on[i], err = d.NewBuffer(len(host[i]))
			require.NoError(b, err)
			require.NoError(b, on[i].Write(b.Context(), 0, host[i]))
		}
		for name, call := range map[string]func() error{
			"GEMM": func() error { return d.GEMM(b.Context(), batch, planner.Options{}, host[0], host[1], host[2]) },
			"RunAndWait": func() error {
				if err := p.Run(b.Context(), on[0], on[1], on[2]); err != nil {
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
