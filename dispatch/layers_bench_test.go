package dispatch

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

// BenchmarkLayers is dense layers of an 8B model (Llama 3) that decodes so many rows at once: of bf16, and with weights of 4 bits in groups of 128,
// by the planner's choice and by schedules, as nodes of a CUDA graph. Each node has weights of its own, so that
// they come from memory as they do where layers follow each other.
func BenchmarkLayers(b *testing.B) {
	const nodes, most = 20, 14336 * 4096
	d, stream := openTimed(b)
	alloc := allocRandom(b, d, stream)
	a, c, rows := alloc(element.BF16, 128*14336), alloc(element.BF16, 128*14336), alloc(element.F32, most/64)
	for _, of := range []struct {
		b         element.Type
		schedules []planner.Schedule
	}{
		{element.BF16, []planner.Schedule{""}},
		{element.Int4, []planner.Schedule{"", planner.ScheduleDataParallel, planner.ScheduleLPT, planner.ScheduleSplitK, planner.ScheduleStreamK}},
	} {
		weights := alloc(of.b, nodes*most)
		for _, size := range [][2]int{{1024, 4096}, {4096, 4096}, {14336, 4096}, {4096, 14336}} {
			for _, m := range []int{1, 16, 64} {
				n, k := size[0], size[1]
				for _, schedule := range of.schedules {
					b.Run(fmt.Sprintf("%s/%dx%dx%d/%s", of.b, m, n, k, schedule), func(b *testing.B) {
						q := planner.Problem{M: m, N: n, K: k, TransB: true, Alpha: planner.Scale(1),
							A: planner.Matrix{LD: k}, B: planner.Matrix{LD: k}, C: planner.Matrix{LD: n}}
						o := planner.Options{Type: element.BF16, TypeC: element.BF16, Schedule: schedule}
						at := Addresses{A: a, C: c}
						if of.b == element.Int4 {
							q.TransB, q.B.LD, o.Epilogue.ScaleB, at.Rows = false, n, planner.PerGroup128, rows
						}
						plan, err := d.Plan(planner.Batch{q}, o)
						require.NoError(b, err)
						p, err := d.Prepare(b.Context(), plan)
						require.NoError(b, err)
						defer func() { require.NoError(b, p.Close()) }()
						require.NoError(b, d.Wait(b.Context()))
						graph, err := stream.Capture(nodes, func(i int) error {
							at.B = weights + uintptr(i*of.b.Size(n*k))
							return p.RunAt(b.Context(), stream.Native(), at)
						})
						require.NoError(b, err)
						defer graph.Close()
						var micros []float64
						for range 20 { // to its full clock
							_, err := graph.Time()
							require.NoError(b, err)
						}
						for b.Loop() {
							t, err := graph.Time()
							require.NoError(b, err)
							micros = append(micros, float64(t.Nanoseconds())/1e3)
						}
						slices.Sort(micros)
						b.ReportMetric(micros[len(micros)/2], "device-us")
						b.ReportMetric(plan.Cost, "predicted-us")
					})
				}
			}
		}
	}
}
