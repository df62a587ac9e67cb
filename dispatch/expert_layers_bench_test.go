package dispatch

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/cublas"
	"github.com/batchgemm/batchgemm/internal/elemtype"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

// BenchmarkExpertLayers measures all of a model's layer of experts on CUDA, from the router's choices on,
// with x of bf16 and weights of each type: the median of nodes in a CUDA graph, and how many times as long as
// with weights of bf16. Both alternate. qwen is Qwen3-30B, oss GPT-OSS-20B.
func BenchmarkExpertLayers(b *testing.B) {
	d, stream := openTimed(b)
	scaled := func(of element.Type, s planner.Scaling) planner.Options {
		return planner.Options{TypeA: of, TypeC: element.BF16,
			Epilogue: planner.Epilogue{ScaleA: s, ScaleB: s}}
	}
	four := func(s planner.Scaling) planner.Options {
		return planner.Options{TypeA: element.BF16, TypeB: s.TypeB(element.BF16),
			Epilogue: planner.Epilogue{ScaleB: s}}
	}
	qwen := planner.Experts{Choices: planner.Choices{Tokens: 16384, TopK: expertTop, Experts: expertGroups},
		Hidden: 2048, Intermediate: 768, Gated: true, Activation: planner.SiLU}
	oss := planner.Experts{Choices: planner.Choices{Tokens: 4096, TopK: 4, Experts: 32},
		Hidden: 2880, Intermediate: 2880, Gated: true, Activation: planner.SwiGLUClamped, Bias: true}
	for _, model := range []struct {
		name  string
		x     planner.Experts
		cases []weightsCase
	}{
		{"qwen", qwen, []weightsCase{
			{"e4m3 by row", planner.GateUpJoined, scaled(element.E4M3, planner.PerRow)},
			{"e4m3 by block", planner.GateUpJoined, scaled(element.E4M3, planner.PerBlock)},
			{"e4m3 by block, in turn", planner.GateUpInterleaved, scaled(element.E4M3, planner.PerBlock)},
			{"int8", planner.GateUpJoined, scaled(element.Int8, planner.PerRow)},
			{"int4", planner.GateUpJoined, four(planner.PerGroup128)},
			{"mxfp4", planner.GateUpJoined, four(planner.PerGroup32)},
			{"nvfp4", planner.GateUpJoined, four(planner.PerGroup16)},
		}},
		{"oss", oss, []weightsCase{{"mxfp4", planner.GateUpInterleaved, four(planner.PerGroup32)}}},
	} {
		b.Run(model.name, func(b *testing.B) {
			l := newWholeLayer(b, d, stream, model.x)
			for _, c := range model.cases {
				for _, tokens := range []int{1, 4, 16, 64, 256, 1024, 4096, 16384} {
					if tokens <= model.x.Tokens {
						b.Run(fmt.Sprintf("%s/tokens=%d", c.name, tokens), func(b *testing.B) {
							l.compare(b, tokens, c)
						})
					}
				}
			}
		})
	}
}

// weightsCase are weights of a layer.
type weightsCase struct {
	name  string
	order planner.GateUp
	o     planner.Options
}

// wholeLayer is a layer with operands for x.Tokens tokens and weights of any type.
type wholeLayer struct {
	device *Device
	stream *cublas.Stream
	x      planner.Experts
	at     ExpertAddresses
	scales int  // length of Scales
	four   bool // it has scales of e2m1
}

func newWholeLayer(b *testing.B, d *Device, stream *cublas.Stream, x planner.Experts) *wholeLayer {
	alloc := allocRandom(b, d, stream)
	choices, weights := x.Tokens*x.TopK, x.Experts*x.Intermediate*x.Hidden
	l := &wholeLayer{device: d, stream: stream, x: x, scales: 20*choices + weights/8}
	l.at = ExpertAddresses{X: alloc(element.BF16, x.Tokens*x.Hidden),
		Y: alloc(element.BF16, x.Tokens*x.Hidden), Index: alloc(element.F32, choices),
		Weights: alloc(element.F32, choices), GateUp: alloc(element.BF16, 2*weights),
		Down: alloc(element.BF16, weights), Scales: alloc(element.F32, l.scales)}
	if x.Bias {
		l.at.GateUpBias = alloc(element.BF16, 2*x.Experts*x.Intermediate)
		l.at.DownBias = alloc(element.BF16, x.Experts*x.Hidden)
	}
	chosen, rng := make([]int32, 0, choices), rand.New(rand.NewPCG(1, 0))
	for range x.Tokens {
		for _, e := range rng.Perm(x.Experts)[:x.TopK] {
			chosen = append(chosen, int32(e))
		}
	}
	index, err := d.Wrap(element.F32, l.at.Index, choices)
	require.NoError(b, err)
	defer index.Close()
	require.NoError(b, Write(b.Context(), index, 0, chosen))
	return l
}

// compare reports times with weights of bf16 and with those of a case.
func (l *wholeLayer) compare(b *testing.B, tokens int, c weightsCase) {
	if !l.four && c.o.TypeB != element.Int4 && elemtype.Bits4(c.o.TypeB) {
		scalesE2M1(b, l.device, l.at.Scales, l.scales)
		l.four = true // cases after this have such scales too
	}
	bf16 := weightsCase{order: c.order, o: planner.Options{TypeA: element.BF16}}
	if c.o.TypeB == element.F32 {
		bf16.order = planner.GateUpJoined
	}
	micros := nodeMicros(b, l.capture(b, tokens, bf16), l.capture(b, tokens, c))
	b.ReportMetric(micros[0], "bf16-us")
	b.ReportMetric(micros[1], "device-us")
	b.ReportMetric(micros[1]/micros[0], "of-bf16")
}

func (l *wholeLayer) capture(b *testing.B, tokens int, c weightsCase) *cublas.Graph {
	x := l.x
	x.Tokens, x.GateUp, x.TransB = tokens, c.order, !elemtype.Bits4(c.o.TypeB)
	layer, err := l.device.PrepareExperts(b.Context(), x, c.o)
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, layer.Close()) })
	at := l.at
	if _, _, words := layer.Scales(); words == 0 {
		at.Scales = 0
	} else {
		require.LessOrEqual(b, words, l.scales)
	}
	require.NoError(b, l.device.Wait(b.Context()))
	graph, err := l.stream.Capture(20, func(int) error {
		return layer.RunAt(b.Context(), l.stream.Native(), at)
	})
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, graph.Close()) })
	return graph
}
