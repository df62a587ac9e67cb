// Moe runs a layer of a mixture of experts. A router chooses two of the experts for a token x, and weights p
// for them:
//
//	y = sum over both of p[e] * (silu(x*Gate[e]) .* (x*Up[e])) * Down[e]
//
// Only the device knows which tokens go to which experts: the router's choices are in a buffer, and the host
// passes no sizes. The layer is prepared once, for as many tokens as a step may have. Each step has new
// tokens, and they go to other experts. It plans nothing and prepares nothing.
//
// A real program chooses with its own kernel on the device, so a step never waits for the host. Here the host
// chooses, from logits that the device computed. check.go computes every step again, in float64.
package main

import (
	"context"
	"errors"
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
		y, chosen, err := l.step(ctx, x)
		if err != nil {
			return err
		}
		worst, err := check(w, x, y, chosen)
		if err != nil {
			return fmt.Errorf("step %d: %w", step, err)
		}
		fmt.Printf("step %d: %3d tokens, layer %v, largest difference from float64 %.2g\n", step, tokens,
			l.took.Round(time.Microsecond), worst)
	}
	return nil
}

// layer is what stays on the device from step to step.
type layer struct {
	dev     *dispatch.Device
	router  *dispatch.Program // x times a matrix
	experts *dispatch.Experts
	wr      *dispatch.Buffer // the router's matrix
	logits  *dispatch.Buffer
	with    dispatch.ExpertOperands

	took time.Duration // the experts of the last step
}

func newLayer(ctx context.Context, dev *dispatch.Device, w *weights) (*layer, error) {
	l := &layer{dev: dev}
	for _, b := range []struct {
		buffer **dispatch.Buffer
		len    int
		data   []float32
	}{
		{&l.wr, len(w.router), w.router}, {&l.logits, maxTokens * experts, nil},
		{&l.with.GateUp, len(w.gate), w.gate}, {&l.with.Up, len(w.up), w.up},
		{&l.with.Down, len(w.down), w.down},
		{&l.with.X, maxTokens * width, nil}, {&l.with.Y, maxTokens * width, nil},
		{&l.with.Index, maxTokens * topK, nil}, {&l.with.Weights, maxTokens * topK, nil},
	} {
		var err error
		if *b.buffer, err = dev.NewBuffer(element.F32, b.len); err != nil {
			return nil, err
		}
		if err := dispatch.Write(ctx, *b.buffer, 0, b.data); err != nil {
			return nil, err
		}
	}
	batch, err := planner.Pack(planner.GEMM(maxTokens, experts, width))
	if err != nil {
		return nil, err
	}
	plan, err := dev.Plan(ctx, batch, planner.Options{})
	if err != nil {
		return nil, err
	}
	if l.router, err = dev.Prepare(ctx, plan); err != nil {
		return nil, err
	}
	l.experts, err = dev.PrepareExperts(ctx, planner.Experts{
		Choices: planner.Choices{Tokens: maxTokens, TopK: topK, Experts: experts},
		Hidden:  width, Intermediate: hidden,
		Gated: true, GateUp: planner.GateUpApart, Activation: planner.SiLU,
	}, planner.Options{})
	return l, err
}

// step computes the layer for the tokens x.
func (l *layer) step(ctx context.Context, x []float32) (y []float32, chosen [][topK]int32, err error) {
	if err := dispatch.Write(ctx, l.with.X, 0, x); err != nil {
		return nil, nil, err
	}
	if err := l.router.Run(ctx, dispatch.Operands{A: l.with.X, B: l.wr, C: l.logits}); err != nil {
		return nil, nil, err
	}
	if chosen, err = l.choose(ctx, len(x)/width); err != nil { // in place of a kernel
		return nil, nil, err
	}
	start := time.Now()
	if err := l.experts.Run(ctx, l.with); err != nil {
		return nil, nil, err
	}
	y = make([]float32, len(x))
	err = dispatch.Read(ctx, l.with.Y, 0, y) // waits; WebGPU compiles kernels on first use
	l.took = time.Since(start)
	return y, chosen, err
}

// choose writes the experts of each token, and their shares. Tokens beyond those of the step have none.
func (l *layer) choose(ctx context.Context, tokens int) (chosen [][topK]int32, err error) {
	logits := make([]float32, tokens*experts)
	if err := dispatch.Read(ctx, l.logits, 0, logits); err != nil {
		return nil, err
	}
	index, shares := slices.Repeat([]int32{-1}, maxTokens*topK), make([]float32, maxTokens*topK)
	chosen = make([][topK]int32, tokens)
	for t := range tokens {
		var share [topK]float32
		chosen[t], share = top(logits[t*experts:][:experts])
		copy(index[t*topK:], chosen[t][:])
		copy(shares[t*topK:], share[:])
	}
	return chosen, errors.Join(dispatch.Write(ctx, l.with.Index, 0, index),
		dispatch.Write(ctx, l.with.Weights, 0, shares))
}

// top is the experts of the largest logits, and the softmax of these.
func top(logits []float32) (chosen [topK]int32, share [topK]float32) {
	left := slices.Clone(logits)
	var sum float32
	for i := range chosen {
		e := slices.Index(left, slices.Max(left))
		chosen[i], left[e] = int32(e), float32(math.Inf(-1))
		share[i] = float32(math.Exp(float64(logits[e] - logits[chosen[0]])))
		sum += share[i]
	}
	for i := range share {
		share[i] /= sum
	}
	return chosen, share
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
