package dispatch

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/cublas"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

// BenchmarkLayers measures dense layers of an 8B model (Llama 3) that decodes that many rows at once, as
// nodes of a CUDA graph: in bf16, and with 4-bit weights in groups of 128, by the planner's choice and by
// schedules. Each node has its own weights, so they come from memory, as in consecutive layers.
func BenchmarkLayers(b *testing.B) {
	const most = 14336 * 4096
	d, stream := openTimed(b)
	alloc := allocRandom(b, d, stream)
	at := RunOn{A: alloc(element.BF16, 128*14336), C: alloc(element.BF16, 128*14336)}
	rows := alloc(element.F32, most/64)
	for _, ofB := range []element.Type{element.BF16, element.Int4} {
		at.B = alloc(ofB, layerNodes*most)
		schedules := []planner.Schedule{""}
		if ofB == element.Int4 {
			at.Rows = rows
			schedules = append(schedules, planner.ScheduleDataParallel, planner.ScheduleLPT,
				planner.ScheduleSplitK, planner.ScheduleStreamK)
		}
		for _, size := range [][2]int{{1024, 4096}, {4096, 4096}, {14336, 4096}, {4096, 14336}} {
			for _, m := range []int{1, 16, 64} {
				for _, schedule := range schedules {
					b.Run(fmt.Sprintf("%s/%dx%dx%d/%s", ofB, m, size[0], size[1], schedule),
						func(b *testing.B) {
							timeLayer(b, d, stream, at, ofB, m, size[0], size[1], schedule)
						})
				}
			}
		}
	}
}

const layerNodes = 20

// timeLayer is timeNodes for a layer. at.B has the weights of all nodes.
func timeLayer(b *testing.B, d *Device, stream *cublas.Stream, at RunOn, ofB element.Type, m, n, k int,
	schedule planner.Schedule) {
	q := planner.Problem{M: m, N: n, K: k, TransB: true, Alpha: planner.Scale(1), A: planner.Matrix{LD: k},
		B: planner.Matrix{LD: k}, C: planner.Matrix{LD: n}}
	o := planner.Options{TypeA: element.BF16, TypeC: element.BF16, Schedule: schedule}
	if ofB == element.Int4 {
		q.TransB, q.B.LD = false, n
		o.TypeB, o.Epilogue.ScaleB = ofB, planner.PerGroup128
	}
	weights := at.B
	timeNodes(b, d, stream, planner.Batch{q}, o, layerNodes, func(i int) RunOn {
		at.B = weights + uintptr(i*ofB.Size(n*k))
		return at
	})
}

// timeNodes reports the measured and the predicted time of a node, in a graph of runs of a plan with
// separate operands.
func timeNodes(b *testing.B, d *Device, stream *cublas.Stream, batch planner.Batch, o planner.Options,
	nodes int, operands func(i int) RunOn) {
	plan, err := d.Plan(b.Context(), batch, o)
	require.NoError(b, err)
	p, err := d.Prepare(b.Context(), plan)
	require.NoError(b, err)
	defer func() { require.NoError(b, p.Close()) }()
	require.NoError(b, d.Wait(b.Context()))
	graph, err := stream.Capture(nodes, func(i int) error {
		at := operands(i)
		at.Program = p
		return d.RunAt(b.Context(), stream.Native(), at)
	})
	require.NoError(b, err)
	defer graph.Close()
	b.ReportMetric(nodeMicros(b, graph)[0], "device-us")
	b.ReportMetric(plan.Cost, "predicted-us")
}
