package dispatch

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/cublas"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

// BenchmarkGroups times products of groups of many rows in bf16, whose sizes are on the GPU, as nodes of
// graphs: by tiles for rows of any number, and by those of boxes, in turn.
func BenchmarkGroups(b *testing.B) {
	const mostA, mostB, mostC = 1 << 28, 1 << 30, 1 << 28
	d, stream := openTimed(b)
	alloc := allocRandom(b, d, stream)
	at := RunOn{A: alloc(element.BF16, mostA), B: alloc(element.BF16, mostB),
		C: alloc(element.BF16, mostC), Sizes: alloc(element.F32, expertGroups)}
	for _, c := range []struct{ groups, rows, n, k int }{
		{4, 8192, 6144, 7168}, {4, 8192, 7168, 3072}, {4, 8192, 4096, 4096}, {4, 8192, 4096, 2048},
		{8, 4096, 4096, 4096}, {4, 8191, 4096, 4096}, {6, 1024, 6144, 7168}, {32, 192, 4096, 4096},
		{32, 127, 4096, 4096}, {32, 20, 7168, 3072}, {128, 64, 1536, 2048}, {128, 256, 1536, 2048},
		{128, 1024, 1536, 2048}, {128, 256, 2048, 768},
	} {
		b.Run(fmt.Sprintf("%dx%d/N=%d/K=%d", c.groups, c.rows, c.n, c.k), func(b *testing.B) {
			r := planner.Ragged{Form: planner.EndsOfRows, Groups: c.groups, M: c.groups * c.rows, N: c.n,
				K: c.k, TransB: true, A: planner.Matrix{LD: c.k}, B: planner.Matrix{LD: c.k},
				C: planner.Matrix{LD: c.n}, StrideB: c.n * c.k}
			sizes, err := d.Wrap(element.F32, at.Sizes, c.groups)
			require.NoError(b, err)
			defer sizes.Close()
			ends := make([]int32, c.groups)
			for g := range ends {
				ends[g] = int32((g + 1) * c.rows)
			}
			require.NoError(b, Write(b.Context(), sizes, 0, ends))
			tiles := []string{"aligned-128x128", "aligned-128x256", ""}
			var graphs []*cublas.Graph
			for _, tile := range tiles {
				graphs = append(graphs, captureGroups(b, d, stream, at, r, tile))
			}
			for i, micros := range nodeMicros(b, graphs...) {
				flops := 2 * float64(r.M) * float64(r.N) * float64(r.K)
				b.ReportMetric(flops/micros/1e6, "TFLOPS-"+[]string{tiles[0], tiles[1], "planned"}[i])
			}
		})
	}
}

// captureGroups returns a graph of runs, as nodes. The benchmark closes what it needs.
func captureGroups(b *testing.B, d *Device, stream *cublas.Stream, at RunOn, r planner.Ragged,
	tile string) *cublas.Graph {
	o := planner.Options{TypeA: element.BF16, TypeC: element.BF16, Tile: tile}
	p, err := d.PrepareRagged(b.Context(), r, o)
	require.NoError(b, err)
	b.Cleanup(func() {
		require.NoError(b, p.Status(context.Background())) // the context of the benchmark has ended
		require.NoError(b, p.Close())
	})
	require.NoError(b, d.Wait(b.Context()))
	at.Program = p
	graph, err := stream.Capture(4, func(int) error { return d.RunAt(b.Context(), stream.Native(), at) })
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, graph.Close()) })
	return graph
}
