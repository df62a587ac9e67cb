package dispatch

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

// BenchmarkLarge measures large products and batches of equal ones, whose tiles share rows of A and columns
// of B, as nodes of a CUDA graph: by the planner's choice, in shares and with dynamic tiles.
func BenchmarkLarge(b *testing.B) {
	d, stream := openTimed(b)
	alloc := allocRandom(b, d, stream)
	const most, largeNodes = 100 << 20, 10
	for _, of := range []element.Type{element.BF16, element.E4M3, element.F32} {
		o := planner.Options{TypeA: of, TypeC: of}
		if of == element.E4M3 {
			o.TypeC = element.BF16
		}
		at := RunOn{A: alloc(of, most), B: alloc(of, most), C: alloc(o.TypeC, most)}
		for _, c := range []struct{ m, n, k, count int }{
			{4096, 4096, 4096, 1}, {2048, 2048, 2048, 1}, {2048, 2048, 2048, 4}, {3000, 3000, 3000, 1},
			{640, 4096, 1024, 1}, {4096, 640, 1024, 1},
			{128, 4096, 4096, 1}, {200, 2048, 512, 8}, {512, 1536, 512, 16}, {512, 512, 1024, 64},
			{256, 768, 2048, 32}, {256, 256, 256, 128},
		} {
			q := make([]planner.Problem, c.count)
			for i := range q {
				q[i] = planner.GEMM(c.m, c.n, c.k)
				q[i].TransB = of == element.E4M3 // as tensor cores take it
			}
			batch, err := planner.Pack(q...)
			require.NoError(b, err)
			for _, o.Schedule = range []planner.Schedule{"", planner.ScheduleLPT, planner.ScheduleDynamic} {
				b.Run(fmt.Sprintf("%s/%dx%dx%dx%d/%s", of, c.m, c.n, c.k, c.count, o.Schedule),
					func(b *testing.B) {
						timeNodes(b, d, stream, batch, o, largeNodes, func(int) RunOn { return at })
					})
			}
		}
	}
}
