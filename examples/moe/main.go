// Moe runs the first layer of a mixture of experts: a router sends every token
// to one expert, so that each expert multiplies its own number of tokens with
// its own weights. The ragged batch is planned once and run for several steps.
package main

import (
	"context"
	"fmt"
	"log"
	"math"
	"math/rand/v2"
	"os"

	"github.com/batchgemm/batchgemm/dispatch"
	"github.com/batchgemm/batchgemm/planner"
)

const (
	tokens  = 256
	experts = 12
	width   = 96  // of a token
	hidden  = 160 // of the expert's layer
	steps   = 5
)

func main() {
	ctx := context.Background()
	dev, err := dispatch.Open(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()

	rng := rand.New(rand.NewPCG(1, 1))
	batch := route(rng)
	plan, err := dev.Plan(batch, planner.Options{})
	if err != nil {
		log.Fatal(err)
	}
	program, err := dev.Prepare(ctx, plan)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%d tokens to %d experts on %s\n", tokens, experts, dev.Info().Name)
	if err := plan.WriteText(os.Stdout); err != nil {
		log.Fatal(err)
	}

	x, w, y := buffer(dev, tokens*width), buffer(dev, experts*width*hidden), buffer(dev, tokens*hidden)
	weights := random(rng, experts*width*hidden)
	if err := w.Write(ctx, 0, weights); err != nil {
		log.Fatal(err)
	}
	out := make([]float32, tokens*hidden)
	for step := range steps {
		in := random(rng, tokens*width)
		if err := x.Write(ctx, 0, in); err != nil {
			log.Fatal(err)
		}
		if err := program.Run(ctx, x, w, y); err != nil { // nothing is planned or allocated here
			log.Fatal(err)
		}
		if err := y.Read(ctx, 0, out); err != nil {
			log.Fatal(err)
		}
		worst := check(batch, in, weights, out)
		fmt.Printf("step %d: largest difference from float64 %.2g\n", step, worst)
		if !(worst < 1e-4) {
			log.Fatal("wrong result")
		}
	}
}

// route draws an expert for every token, with some experts far more popular than
// others, and lays the tokens of each expert side by side: expert e computes
// Y[first:last] = X[first:last] * W[e].
func route(rng *rand.Rand) planner.Batch {
	var load [experts]int
	for range tokens {
		load[int(experts*math.Pow(rng.Float64(), 3))]++
	}
	batch := make(planner.Batch, experts)
	first := 0
	for e, n := range load {
		batch[e] = planner.Problem{
			M: n, N: hidden, K: width,
			A: planner.Matrix{Offset: first * width, LD: width},
			B: planner.Matrix{Offset: e * width * hidden, LD: hidden},
			C: planner.Matrix{Offset: first * hidden, LD: hidden},
		}
		first += n
	}
	return batch
}

func buffer(dev *dispatch.Device, n int) *dispatch.Buffer {
	b, err := dev.NewBuffer(n)
	if err != nil {
		log.Fatal(err)
	}
	return b
}

func random(rng *rand.Rand, n int) []float32 {
	s := make([]float32, n)
	for i := range s {
		s[i] = rng.Float32()*2 - 1
	}
	return s
}

// check returns the largest difference from float64.
func check(batch planner.Batch, x, w, y []float32) (worst float64) {
	for _, p := range batch {
		for i := range p.M {
			for j := range p.N {
				var sum float64
				for k := range p.K {
					sum += float64(x[p.A.Offset+i*p.A.LD+k]) * float64(w[p.B.Offset+k*p.B.LD+j])
				}
				worst = math.Max(worst, math.Abs(sum-float64(y[p.C.Offset+i*p.C.LD+j])))
			}
		}
	}
	return worst
}
