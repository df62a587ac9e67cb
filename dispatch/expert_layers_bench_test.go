package dispatch

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/cublas"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

// BenchmarkExpertLayers measures all of Qwen3-30B's layer of experts on CUDA, from the router's choices on,
// with x of bf16 and weights of each type: the median of nodes in a CUDA graph, and how many times as long
// as with weights of bf16. Both alternate.
func BenchmarkExpertLayers(b *testing.B) {
	d, stream := openTimed(b)
	alloc := allocRandom(b, d, stream)
	const most, hidden, inner = 16384, 2048, 768
	at := ExpertAddresses{X: alloc(element.BF16, most*hidden), Y: alloc(element.BF16, most*hidden),
		Index: alloc(element.F32, most*expertTop), Weights: alloc(element.F32, most*expertTop),
		GateUp: alloc(element.BF16, expertGroups*2*inner*hidden),
		Down:   alloc(element.BF16, expertGroups*inner*hidden),
		Scales: alloc(element.F32, 20*most*expertTop+2*expertGroups*inner*hidden/32)}
	index, err := d.Wrap(element.F32, at.Index, most*expertTop)
	require.NoError(b, err)
	defer index.Close()
	chosen, rng := make([]int32, 0, most*expertTop), rand.New(rand.NewPCG(1, 0))
	for range most {
		for _, e := range rng.Perm(expertGroups)[:expertTop] {
			chosen = append(chosen, int32(e))
		}
	}
	require.NoError(b, Write(b.Context(), index, 0, chosen))

	scaled := func(of element.Type, s planner.Scaling) planner.Options {
		return planner.Options{TypeA: of, TypeC: element.BF16,
			Epilogue: planner.Epilogue{ScaleA: s, ScaleB: s}}
	}
	capture := func(b *testing.B, tokens int, order planner.GateUp, o planner.Options) *cublas.Graph {
		layer, err := d.PrepareExperts(b.Context(), planner.Experts{Choices: planner.Choices{Tokens: tokens,
			TopK: expertTop, Experts: expertGroups}, Hidden: hidden, Intermediate: inner, Gated: true,
			TransB: o.TypeB != element.Int4, GateUp: order, Activation: planner.SiLU}, o)
		require.NoError(b, err)
		b.Cleanup(func() { require.NoError(b, layer.Close()) })
		at := at
		if _, _, words := layer.Scales(); words == 0 {
			at.Scales = 0
		}
		require.NoError(b, d.Wait(b.Context()))
		graph, err := stream.Capture(20, func(int) error {
			return layer.RunAt(b.Context(), stream.Native(), at)
		})
		require.NoError(b, err)
		b.Cleanup(func() { require.NoError(b, graph.Close()) })
		return graph
	}
	bf16 := planner.Options{TypeA: element.BF16}
	for _, c := range []struct {
		name  string
		order planner.GateUp
		o     planner.Options
	}{
		{"e4m3 by row", planner.GateUpJoined, scaled(element.E4M3, planner.PerRow)},
		{"e4m3 by block", planner.GateUpJoined, scaled(element.E4M3, planner.PerBlock)},
		{"e4m3 by block, in turn", planner.GateUpInterleaved, scaled(element.E4M3, planner.PerBlock)},
		{"int8", planner.GateUpJoined, scaled(element.Int8, planner.PerRow)},
		{"int4", planner.GateUpJoined, planner.Options{TypeA: element.BF16, TypeB: element.Int4,
			Epilogue: planner.Epilogue{ScaleB: planner.PerGroup128}}},
	} {
		for _, tokens := range []int{1, 4, 16, 64, 256, 1024, 4096, 16384} {
			b.Run(fmt.Sprintf("%s/tokens=%d", c.name, tokens), func(b *testing.B) {
				micros := nodeMicros(b, capture(b, tokens, planner.GateUpJoined, bf16),
					capture(b, tokens, c.order, c.o))
				b.ReportMetric(micros[0], "bf16-us")
				b.ReportMetric(micros[1], "device-us")
				b.ReportMetric(micros[1]/micros[0], "of-bf16")
			})
		}
	}
}
