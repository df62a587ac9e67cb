package dispatch

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/cublas"
	"github.com/batchgemm/batchgemm/internal/elemtype"
	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/internal/reference"
	"github.com/batchgemm/batchgemm/internal/workload"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

// BenchmarkExperts measures a layer of Qwen3-30B's experts on CUDA, for each type, with the sizes of its
// groups on the device. It reports the median of nodes in a CUDA graph. For epilogues it reports the time
// relative to the first of their type, and alternates between the two, because the clocks of a GPU at its
// power limit change. The first tile is the planner's choice; the others are forced. Types of 4 bits are
// those of the weights, with A of bf16.
func BenchmarkExperts(b *testing.B) {
	d, stream := openTimed(b)
	byRow := planner.Epilogue{ScaleA: planner.PerRow, ScaleB: planner.PerRow}
	byRowSiLU := byRow
	byRowSiLU.Activation = planner.SiLU
	any := []benchmarkedEpilogue{
		{"plain", planner.Epilogue{}},
		{"silu", planner.Epilogue{Activation: planner.SiLU}},
		{"gated", planner.Epilogue{Activation: planner.SiLU, Gated: true}},
	}
	scaled := append(any[:3:3], benchmarkedEpilogue{"scales", byRow},
		benchmarkedEpilogue{"scales,silu", byRowSiLU})
	blocks := append(scaled[:len(scaled):len(scaled)],
		benchmarkedEpilogue{"blocks", planner.Epilogue{ScaleA: planner.PerBlock, ScaleB: planner.PerBlock}})
	zeros := append(scaled[:len(scaled):len(scaled)], benchmarkedEpilogue{"zeros",
		planner.Epilogue{ScaleA: planner.PerRow, ScaleB: planner.PerRow, ZeroA: true}})
	groups := []benchmarkedEpilogue{
		{"groups", planner.Epilogue{ScaleB: planner.PerGroup128}},
		{"groups,silu", planner.Epilogue{ScaleB: planner.PerGroup128, Activation: planner.SiLU}},
		{"groups,gated", planner.Epilogue{ScaleB: planner.PerGroup128, Activation: planner.SiLU,
			Gated: true}},
		{"groups of 64", planner.Epilogue{ScaleB: planner.PerGroup64}},
	}
	e2m1 := func(s planner.Scaling) []benchmarkedEpilogue {
		return []benchmarkedEpilogue{{"groups", planner.Epilogue{ScaleB: s}}}
	}
	panels := []string{"", "int4-stream-16x128", "int4-wgmma-32x128", "int4-wgmma-64x128",
		"int4-wgmma-128x128"}
	wide := []string{"", "aligned-64x64", "aligned-64x128", "aligned-128x128"}
	for _, c := range []struct {
		of, ofB   element.Type
		epilogues []benchmarkedEpilogue
		tiles     []string
	}{
		{element.BF16, element.BF16, any, wide},
		{element.E4M3, element.E4M3, blocks, wide},
		{element.Int8, element.Int8, zeros, wide},
		{element.BF16, element.Int4, groups, panels},
		{element.BF16, element.MXFP4, e2m1(planner.PerGroup32), panels},
		{element.BF16, element.NVFP4, e2m1(planner.PerGroup16), panels},
	} {
		b.Run(c.ofB.String(), func(b *testing.B) {
			x := newExpertLayer(b, d, stream, c.of, c.ofB)
			for i, e := range c.epilogues {
				for _, tile := range c.tiles {
					for _, tokens := range []int{1, 16, 64, 256, 1024, 4096} {
						b.Run(fmt.Sprintf("%s/tile=%s/tokens=%d", e.name, tile, tokens), func(b *testing.B) {
							o := planner.Options{TypeA: c.of, TypeB: c.ofB, TypeC: element.BF16,
								Tile: tile, Epilogue: c.epilogues[0].what}
							graphs := []*cublas.Graph{x.capture(b, tokens, o)}
							if o.Epilogue = e.what; i > 0 {
								graphs = append(graphs, x.capture(b, tokens, o))
							}
							micros := nodeMicros(b, graphs...)
							b.ReportMetric(micros[len(micros)-1], "device-us")
							if i > 0 {
								b.ReportMetric(micros[1]/micros[0], "of-"+c.epilogues[0].name)
							}
						})
					}
				}
			}
		})
	}
}

// openTimed opens a GPU and one of its streams, whose graphs can be timed, or skips.
func openTimed(b *testing.B) (*Device, *cublas.Stream) {
	d, err := Open(b.Context(), WithBackend("cuda"))
	if err != nil {
		b.Skip(err)
	}
	b.Cleanup(func() { require.NoError(b, d.Close()) })
	stream, err := cublas.Open(d.Info().Index)
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, stream.Close()) })
	return d, stream
}

// benchmarkedEpilogue is one of a layer.
type benchmarkedEpilogue struct {
	name string
	what planner.Epilogue
}

// expertLayer has the operands for all numbers of tokens.
type expertLayer struct {
	device *Device
	stream *cublas.Stream
	at     RunOn
}

const (
	expertGroups, expertTop, expertTokens = 128, 8, 4096
	expertN, expertK                      = 1536, 2048
)

func newExpertLayer(b *testing.B, d *Device, stream *cublas.Stream, of, ofB element.Type) *expertLayer {
	const rows, weights = expertTop * expertTokens, expertGroups * expertN * expertK
	alloc, words := allocRandom(b, d, stream), rows+expertGroups*expertN*2*expertK/64
	x := &expertLayer{d, stream, RunOn{A: alloc(of, rows*expertK), B: alloc(ofB, weights),
		B2: alloc(ofB, weights), C: alloc(element.BF16, rows*expertN),
		Sizes: alloc(element.F32, expertGroups),
		Rows:  alloc(element.F32, words)}}
	if ofB != element.Int4 && elemtype.Bits4(ofB) {
		scalesE2M1(b, d, x.at.Rows, words)
	}
	return x
}

// scalesE2M1 fills memory with words that are scales of MXFP4 or NVFP4, and of columns.
func scalesE2M1(b *testing.B, d *Device, at uintptr, n int) {
	buffer, err := d.Wrap(element.F32, at, n)
	require.NoError(b, err)
	defer buffer.Close()
	words := slices.Repeat([]int32{0x38383838, 0x38373839}, 1<<19)
	for i := 0; i < n; i += len(words) {
		require.NoError(b, Write(b.Context(), buffer, i, words[:min(len(words), n-i)]))
	}
}

// allocRandom returns a function that allocates GPU memory for elements of a type, with random values.
func allocRandom(b *testing.B, d *Device, stream *cublas.Stream) func(to element.Type, n int) uintptr {
	rng := rand.New(rand.NewPCG(1, 0))
	block, bits, bytes := make([]float32, 1<<20), make([]uint16, 1<<20), make([]uint8, 1<<20)
	words := make([]int32, 1<<20)
	return func(to element.Type, n int) uintptr {
		at, err := stream.Alloc(to.Size(n))
		require.NoError(b, err)
		b.Cleanup(func() { require.NoError(b, stream.Free(at)) })
		buffer, err := d.Wrap(to, at, n)
		require.NoError(b, err)
		defer buffer.Close()
		if !elemtype.Bits4(to) {
			reference.UniformOf(to, rng, block)
		}
		for i := 0; i < n; i += len(block) {
			numbers := block[:min(len(block), n-i)]
			switch to.Bytes() {
			case 0:
				for j := range words[:len(numbers)/8] {
					words[j] = int32(rng.Uint32())
				}
				err = Write(b.Context(), buffer, i, words[:len(numbers)/8])
			case 4:
				err = Write(b.Context(), buffer, i, numbers)
			case 2:
				element.Narrow(to, bits[:len(numbers)], numbers)
				err = Write(b.Context(), buffer, i, bits[:len(numbers)])
			default:
				element.Narrow(to, bytes[:len(numbers)], numbers)
				err = Write(b.Context(), buffer, i, bytes[:len(numbers)])
			}
			require.NoError(b, err)
		}
		return at
	}
}

// capture returns a graph of runs, as nodes. The benchmark closes what it needs.
func (x *expertLayer) capture(b *testing.B, tokens int, o planner.Options) *cublas.Graph {
	load, err := workload.Load(fmt.Sprintf("moe:tokens=%d", tokens), nil)
	require.NoError(b, err)
	ends := make([]int32, expertGroups)
	for i, p := range load.Batch {
		ends[i] = int32(p.M)
		if i > 0 {
			ends[i] += ends[i-1]
		}
	}
	sizes, err := x.device.Wrap(element.F32, x.at.Sizes, len(ends))
	require.NoError(b, err)
	defer sizes.Close()
	require.NoError(b, Write(b.Context(), sizes, 0, ends))

	r := planner.Ragged{Form: planner.EndsOfRows, Groups: expertGroups, M: expertTop * tokens, N: expertN,
		K: expertK, TransB: true,
		A: planner.Matrix{LD: expertK}, B: planner.Matrix{LD: expertK}, B2: planner.Matrix{LD: expertK},
		C:       planner.Matrix{LD: expertN},
		StrideB: expertN * expertK, ScaleB: expertTop * tokens * encoding.Blocks(expertK)}
	if elemtype.Bits4(o.TypeB) {
		r.TransB, r.B.LD, r.B2.LD = false, expertN, expertN
	}
	p, err := x.device.PrepareRagged(b.Context(), r, o)
	require.NoError(b, err)
	b.Cleanup(func() {
		require.NoError(b, p.Status(context.Background())) // the context of the benchmark has ended
		require.NoError(b, p.Close())
	})
	at := x.at
	if !o.Epilogue.Gated {
		at.B2 = 0
	}
	if !o.Epilogue.UsesRows() {
		at.Rows = 0
	}
	at.Program = p
	return captureRuns(b, x.device, x.stream, at, 20)
}

// captureRuns returns a graph of copies of a run, of a program that is ready. The benchmark closes it.
func captureRuns(b *testing.B, d *Device, stream *cublas.Stream, at RunOn, copies int) *cublas.Graph {
	require.NoError(b, d.Wait(b.Context()))
	graph, err := stream.Capture(copies, func(int) error { return d.RunAt(b.Context(), stream.Native(), at) })
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, graph.Close()) })
	return graph
}

// nodeMicros returns the median time of a node of each graph, in µs, on a GPU that is always busy. The
// graphs alternate.
func nodeMicros(b *testing.B, graphs ...*cublas.Graph) []float64 {
	times := make([][]float64, len(graphs))
	turn := func() {
		for i, g := range graphs {
			t, err := g.Time()
			require.NoError(b, err)
			times[i] = append(times[i], float64(t.Nanoseconds())/1e3)
		}
	}
	for start := time.Now(); time.Since(start) < 100*time.Millisecond; { // to reach its full clock
		turn()
	}
	for i := range times {
		times[i] = times[i][:0]
	}
	for b.Loop() {
		turn()
	}
	medians := make([]float64, len(graphs))
	for i, t := range times {
		slices.Sort(t)
		medians[i] = t[len(t)/2]
	}
	return medians
}
