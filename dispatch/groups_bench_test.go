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

// groupKinds are what tiles of boxes take: elements and scales.
var groupKinds = []struct {
	name string
	of   element.Type
	e    planner.Epilogue
}{
	{"bf16", element.BF16, planner.Epilogue{}},
	{"e4m3 by block", element.E4M3, planner.Epilogue{ScaleA: planner.PerBlock, ScaleB: planner.PerBlock}},
	{"e4m3 by row", element.E4M3, planner.Epilogue{ScaleA: planner.PerRow, ScaleB: planner.PerRow}},
	{"int8 by row", element.Int8, planner.Epilogue{ScaleA: planner.PerRow, ScaleB: planner.PerRow}},
}

// groupShape is a batch of equal groups of rows.
type groupShape struct{ groups, rows, n, k int }

// ragged describes the groups, with scales one after the other.
func (c groupShape) ragged(e planner.Epilogue) planner.Ragged {
	all := c.groups * c.rows
	r := planner.Ragged{Form: planner.EndsOfRows, Groups: c.groups, M: all, N: c.n, K: c.k, TransB: true,
		A: planner.Matrix{LD: c.k}, B: planner.Matrix{LD: c.k}, C: planner.Matrix{LD: c.n},
		StrideB: c.n * c.k}
	r.ScaleB = e.ScalesA(&planner.Problem{M: all, K: c.k})
	return r
}

// BenchmarkGroups times products of groups of many rows, whose sizes are on the GPU, as nodes of graphs: by
// tiles for rows of any number, by those of boxes, and by the planner's choice, in turn.
func BenchmarkGroups(b *testing.B) {
	const mostA, mostB, mostC, mostRows = 1 << 28, 1 << 30, 1 << 28, 1 << 23
	d, stream := openTimed(b)
	for _, kind := range groupKinds {
		b.Run(kind.name, func(b *testing.B) {
			alloc := allocRandom(b, d, stream)
			at := RunOn{A: alloc(kind.of, mostA), B: alloc(kind.of, mostB), C: alloc(element.BF16, mostC),
				Sizes: alloc(element.F32, expertGroups)}
			if kind.e.UsesRows() {
				at.Rows = alloc(element.F32, mostRows)
			}
			for _, c := range []groupShape{
				{4, 8192, 6144, 7168}, {4, 8192, 7168, 3072}, {4, 8192, 4096, 4096}, {4, 8192, 4096, 2048},
				{8, 4096, 4096, 4096}, {4, 8191, 4096, 4096}, {6, 1024, 6144, 7168}, {32, 192, 4096, 4096},
				{32, 127, 4096, 4096}, {32, 20, 7168, 3072}, {128, 64, 1536, 2048}, {128, 256, 1536, 2048},
				{128, 1024, 1536, 2048}, {128, 256, 2048, 768},
			} {
				b.Run(fmt.Sprintf("%dx%d/N=%d/K=%d", c.groups, c.rows, c.n, c.k), func(b *testing.B) {
					o := planner.Options{TypeA: kind.of, TypeC: element.BF16, Epilogue: kind.e}
					timeGroups(b, d, stream, at, c, c.ragged(kind.e), o)
				})
			}
		})
	}
}

// timeGroups times a batch of groups.
func timeGroups(b *testing.B, d *Device, stream *cublas.Stream, at RunOn, c groupShape, r planner.Ragged,
	o planner.Options) {
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
	for _, o.Tile = range tiles {
		graphs = append(graphs, captureGroups(b, d, stream, at, r, o))
	}
	for i, micros := range nodeMicros(b, graphs...) {
		flops := 2 * float64(c.groups) * float64(c.rows) * float64(c.n) * float64(c.k)
		b.ReportMetric(flops/micros/1e6, "TFLOPS-"+[]string{tiles[0], tiles[1], "planned"}[i])
	}
}

// captureGroups returns a graph of runs, as nodes. The benchmark closes what it needs.
func captureGroups(b *testing.B, d *Device, stream *cublas.Stream, at RunOn, r planner.Ragged,
	o planner.Options) *cublas.Graph {
	p, err := d.PrepareRagged(b.Context(), r, o)
	require.NoError(b, err)
	b.Cleanup(func() {
		require.NoError(b, p.Status(context.Background())) // the context of the benchmark has ended
		require.NoError(b, p.Close())
	})
	at.Program = p
	return captureRuns(b, d, stream, at, 4)
}
