// Moe runs a layer of a mixture of experts. Only the device knows how many tokens each expert has: batchgemm
// reads that number from a buffer of the device, ends, and not from the host. Programs are prepared once,
// from bounds. Each step has new tokens, and they go to other experts. It plans nothing, prepares nothing
// and passes no sizes.
//
// A router chooses two of the experts for a token x, and weights p for them:
//
//	y = sum over both of p[e] * (silu(x*Gate[e]) .* (x*Up[e])) * Down[e]
//
// Two programs of batchgemm do all of that except the choice and the last sum. The first gathers the rows of
// each expert from the tokens by a list of indices, and multiplies its two products. The second multiplies
// its rows by p, and scatters them to the places of another list. So no other kernel has to sort rows, or to
// put them back.
//
// A real program does the rest with its own kernels on the device, so a step never waits for the host. Here
// the host takes the place of these kernels (host.go). check.go computes every step again, in float64.
package main

import (
	"context"
	"fmt"
	"log"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/batchgemm/batchgemm/dispatch"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

const (
	experts   = 16
	topK      = 2   // experts of a token
	width     = 128 // of a token
	hidden    = 192 // of an expert
	maxTokens = 256 // of a step
	maxRows   = maxTokens * topK
)

// Words of rows, maxRows of each: the token of a row, its place among the results, and the bits of its
// weight.
const (
	tokenOf  = 0
	placeOf  = maxRows
	weightOf = 2 * maxRows
)

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	dev, err := dispatch.Open(ctx) // BATCHGEMM_BACKEND selects one
	if err != nil {
		return err
	}
	defer dev.Close() // also closes programs and buffers
	fmt.Printf("%d experts, %d of a token, on %s\n", experts, topK, dev.Info().Name)

	rng := rand.New(rand.NewPCG(1, 1))
	w := newWeights(rng)
	l, err := newLayer(ctx, dev, w)
	if err != nil {
		return err
	}
	for step, tokens := range []int{maxTokens, 100, 3, maxTokens - 1, 31} {
		x := random(rng, tokens*width, 1)
		y, r, err := l.step(ctx, x)
		if err != nil {
			return err
		}
		worst, err := check(w, x, y, r.chosen)
		if err != nil {
			return fmt.Errorf("step %d: %w", step, err)
		}
		fmt.Printf("step %d: %3d tokens, %2d to %3d for an expert, products %v, largest difference from "+
			"float64 %.2g\n",
			step, tokens, slices.Min(r.counts()), slices.Max(r.counts()), l.products.Round(time.Microsecond),
			worst)
	}
	return nil
}

// layer is what stays on the device from step to step.
type layer struct {
	dev                   *dispatch.Device
	router, first, second *dispatch.Program

	// Weights.
	wr, gate, up, down *dispatch.Buffer
	// For a step.
	x, logits *dispatch.Buffer // of the tokens, one after the other
	// ends has the ends of each expert's rows, and rows says which rows they are: all that batchgemm learns
	// of the routing.
	ends, rows *dispatch.Buffer
	mixed      *dispatch.Buffer // a row for each expert of each token, expert by expert
	out        *dispatch.Buffer // the same, token by token

	products time.Duration // of the last step
}

func newLayer(ctx context.Context, dev *dispatch.Device, w *weights) (*layer, error) {
	l := &layer{dev: dev}
	for _, b := range []struct {
		buffer **dispatch.Buffer
		len    int
		data   []float32
	}{
		{&l.wr, len(w.router), w.router}, {&l.gate, len(w.gate), w.gate}, {&l.up, len(w.up), w.up},
		{&l.down, len(w.down), w.down},
		{&l.x, maxTokens * width, nil}, {&l.logits, maxTokens * experts, nil}, {&l.ends, experts, nil},
		{&l.rows, 3 * maxRows, nil}, {&l.mixed, maxRows * hidden, nil}, {&l.out, maxRows * width, nil},
	} {
		var err error
		if *b.buffer, err = dev.NewBuffer(element.F32, b.len); err != nil {
			return nil, err
		}
		if err := dispatch.Write(ctx, (*b.buffer), 0, b.data); err != nil {
			return nil, err
		}
	}
	return l, l.prepare(ctx)
}

// prepare makes the programs: an ordinary program for the router, for the largest number of tokens, and
// ragged programs for the experts. The ends of a step say which rows an expert has.
func (l *layer) prepare(ctx context.Context) error {
	batch, err := planner.Pack(planner.GEMM(maxTokens, experts, width))
	if err != nil {
		return err
	}
	plan, err := l.dev.Plan(ctx, batch, planner.Options{})
	if err != nil {
		return err
	}
	if l.router, err = l.dev.Prepare(ctx, plan); err != nil {
		return err
	}
	gated := planner.Epilogue{Activation: planner.SiLU, Gated: true, GatherRows: maxTokens}
	if l.first, err = l.dev.PrepareRagged(ctx, perExpert(hidden, width),
		planner.Options{Epilogue: gated}); err != nil {
		return err
	}
	back := planner.Epilogue{ScatterRows: maxRows, Weights: true}
	l.second, err = l.dev.PrepareRagged(ctx, perExpert(width, hidden), planner.Options{Epilogue: back})
	return err
}

// perExpert describes rows of length k, at most maxRows together, times the n columns of their expert.
func perExpert(n, k int) planner.Ragged {
	return planner.Ragged{
		Form: planner.EndsOfRows, Groups: experts,
		M: maxRows, N: n, K: k,
		A: planner.Matrix{LD: k}, B: planner.Matrix{LD: n}, C: planner.Matrix{LD: n},
		B2:      planner.Matrix{LD: n},
		StrideB: k * n,
		RowsA:   tokenOf, RowsC: placeOf, Weights: weightOf,
	}
}

// step computes the layer for the tokens x.
func (l *layer) step(ctx context.Context, x []float32) (y []float32, r *routing, err error) {
	l.products = 0
	if err := dispatch.Write(ctx, l.x, 0, x); err != nil {
		return nil, nil, err
	}
	if err := l.run(ctx, l.router.With(dispatch.Operands{A: l.x, B: l.wr, C: l.logits})); err != nil {
		return nil, nil, err
	}
	tokens := len(x) / width
	if r, err = l.route(ctx, tokens); err != nil { // in place of a kernel: logits to ends and rows
		return nil, nil, err
	}
	if err := l.run(ctx,
		l.first.With(dispatch.Operands{A: l.x, B: l.gate, B2: l.up, C: l.mixed, Rows: l.rows, Sizes: l.ends}),
		l.second.With(dispatch.Operands{A: l.mixed, B: l.down, C: l.out, Rows: l.rows, Sizes: l.ends}),
	); err != nil {
		return nil, nil, err
	}
	if y, err = l.combine(ctx, tokens); err != nil { // in place of a kernel: out to y
		return nil, nil, err
	}
	// The device refuses ends that exceed the bounds, and only Status reports that. Both programs refuse the
	// same groups.
	return y, r, l.first.Status(ctx)
}

// run queues the runs as one submission. It waits only to measure; later work runs after them anyway. WebGPU
// compiles kernels on first use, in step 0.
func (l *layer) run(ctx context.Context, runs ...dispatch.Run) error {
	start := time.Now()
	if err := l.dev.Run(ctx, runs...); err != nil {
		return err
	}
	err := l.dev.Wait(ctx)
	l.products += time.Since(start)
	return err
}

// weights of the layer, row by row.
type weights struct {
	router []float32 // width x experts
	gate   []float32 // width x hidden for each expert, like up
	up     []float32
	down   []float32 // hidden x width for each expert
}

func newWeights(rng *rand.Rand) *weights {
	toWidth, toHidden := math.Sqrt(3./hidden), math.Sqrt(3./width) // so that results are about 1
	w := &weights{
		router: random(rng, width*experts, toHidden),
		gate:   random(rng, experts*width*hidden, toHidden),
		up:     random(rng, experts*width*hidden, toHidden),
		down:   random(rng, experts*hidden*width, toWidth),
	}
	for i := range w.router { // the first experts are chosen more often than the last
		w.router[i] /= 1 + float32(i%experts)/4
	}
	return w
}

func random(rng *rand.Rand, n int, limit float64) []float32 {
	s := make([]float32, n)
	for i := range s {
		s[i] = float32((rng.Float64()*2 - 1) * limit)
	}
	return s
}
