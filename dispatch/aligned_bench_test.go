package dispatch

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/cublas"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

// BenchmarkAligned times problems of aligned rows, A and B along K, as nodes of graphs: by the tiles of
// aligned rows that are predicted to take up to 1.3 times as long as the planner's choice, and by that, in
// turn; those in bf16 by cuBLAS grouped too, in a stream. It reports how many times as long as the best of
// these tiles the choice takes.
func BenchmarkAligned(b *testing.B) {
	const most = 1 << 27 // elements of an operand
	x := &shapes{}
	x.device, x.stream = openTimed(b)
	var err error
	x.rival, err = x.stream.CuBLAS()
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, x.rival.Close()) })
	for _, of := range []element.Type{element.BF16, element.E4M3, element.Int8} {
		b.Run(of.String(), func(b *testing.B) {
			alloc := allocRandom(b, x.device, x.stream)
			x.at = RunOn{A: alloc(of, most), B: alloc(of, most), C: alloc(element.BF16, most)}
			for _, c := range alignedBatches(16 / of.Bytes()) {
				b.Run(c.name, func(b *testing.B) {
					batch, err := planner.Pack(c.problems...)
					require.NoError(b, err)
					x.timeAligned(b, batch, planner.Options{TypeA: of, TypeC: element.BF16})
				})
			}
		})
	}
}

// namedBatch is a batch before it is packed.
type namedBatch struct {
	name     string
	problems []planner.Problem
}

// alignedBatches are equal problems and drawn ones, with K of multiples of that many elements.
func alignedBatches(line int) (all []namedBatch) {
	add := func(name string, problems []planner.Problem) {
		for i := range problems {
			problems[i].TransB = true
		}
		all = append(all, namedBatch{name, problems})
	}
	for _, c := range []struct{ count, m, n, k int }{
		{1, 4096, 4096, 4096}, {1, 8192, 8192, 8192}, {4, 4096, 4096, 7168}, {16, 1024, 1024, 1024},
		{64, 512, 512, 512}, {256, 256, 256, 256}, {1, 2048, 6144, 2048}, {1, 100, 4096, 4096},
		{1, 2048, 2048, 2048}, {1, 1024, 1024, 1024}, {8, 2048, 2048, 2048}, {1, 4096, 4096, 1024},
		{1, 8192, 8192, 512}, {1, 8192, 8192, 256}, {1, 4096, 4096, 4096 - line}, {32, 512, 512, 2048},
		{128, 256, 256, 1024}, {64, 256, 256, 512}, {1, 640, 4096, 1024}, {1, 1536, 1536, 1536},
		{1, 2560, 2560, 2560}, {256, 128, 256, 512}, {64, 384, 384, 384}, {16, 1024, 640, 1024},
		{16, 320, 4096, 2048}, {32, 1000, 200, 2000},
	} {
		q := slices.Repeat([]planner.Problem{planner.GEMM(c.m, c.n, c.k)}, c.count)
		add(fmt.Sprintf("%dx%dx%dx%d", c.count, c.m, c.n, c.k), q)
	}
	for _, c := range []struct {
		count       int
		least, most float64
	}{{8, 200, 3000}, {32, 200, 1000}, {128, 64, 512}, {64, 128, 1024}, {16, 256, 2048}} {
		rng := rand.New(rand.NewPCG(uint64(c.count), 1))
		q := make([]planner.Problem, c.count)
		for i := range q {
			side := func() int { return drawSide(rng, c.least, c.most) }
			q[i] = planner.GEMM(side(), side()/8*8, side()/line*line)
		}
		add(fmt.Sprintf("%d of %g to %g", c.count, c.least, c.most), q)
	}
	return all
}

// timeAligned measures a batch.
func (x *shapes) timeAligned(b *testing.B, batch planner.Batch, o planner.Options) {
	auto, err := x.device.Plan(b.Context(), batch, o)
	require.NoError(b, err)
	copies := int(min(max(2000/auto.Cost, 2), 50))
	names, graphs := []string{"planned"}, []*cublas.Graph{x.captured(b, auto, copies)}
	for i := range auto.Device.Kernels {
		if k := auto.Device.Kernels[i].Tile; k.Aligned {
			o.Tile = k.Name
			p, err := x.device.Plan(b.Context(), batch, o)
			if err == nil && p.Cost <= 1.3*auto.Cost {
				names, graphs = append(names, k.Name), append(graphs, x.captured(b, p, copies))
			}
			if err == nil {
				b.Logf("%s %s: predicted %.1f, chosen %v", k.Name, p.Launches[0].Schedule, p.Cost,
					k == auto.Launches[0].Tile)
			}
		}
	}
	if o.TypeA == element.BF16 {
		rival, err := x.rival.Batch(batch, o.TypeA, x.at.A, x.at.B, x.at.C)
		require.NoError(b, err)
		defer func() { require.NoError(b, rival.Close()) }()
		t, _, err := x.stream.Time(copies, func(int) error { return rival.Grouped() })
		require.NoError(b, err)
		b.ReportMetric(float64(t.Nanoseconds())/1e3, "grouped-us")
	}
	micros, best := nodeMicros(b, graphs...), 0.0
	for i, t := range micros {
		b.ReportMetric(t, names[i]+"-us")
		if i > 0 {
			best = max(best, 1/t)
		}
	}
	b.ReportMetric(micros[0]*best, "of-best")
}

// captured returns a graph of copies of a plan. The benchmark closes what it needs.
func (x *shapes) captured(b *testing.B, plan *planner.Plan, copies int) *cublas.Graph {
	p, err := x.device.Prepare(b.Context(), plan)
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, p.Close()) })
	at := x.at
	at.Program = p
	return captureRuns(b, x.device, x.stream, at, copies)
}
