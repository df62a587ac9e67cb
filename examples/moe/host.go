package main

import (
	"context"
	"math"
	"slices"
)

// The host's part, which stands in for kernels of the caller's. None of it passes a size to
// batchgemm but by what it writes to ends.

// routing is where the rows of a step belong.
type routing struct {
	chosen [][topK]int     // experts of each token
	share  [][topK]float32 // and their weights
	place  [][topK]int     // and its rows
	ends   []int32         // of each expert's rows
}

// counts is the number of tokens of each expert.
func (r *routing) counts() []int32 {
	counts := slices.Clone(r.ends)
	for e := range experts - 1 {
		counts[e+1] -= r.ends[e]
	}
	return counts
}

// route chooses the experts of each token, and writes ends and rows: the tokens of the
// first expert, then those of the second, and so on.
func (l *layer) route(ctx context.Context, x []float32) (*routing, error) {
	tokens := len(x) / width
	logits := make([]float32, tokens*experts)
	if err := l.logits.Read(ctx, 0, logits); err != nil {
		return nil, err
	}
	r := &routing{
		chosen: make([][topK]int, tokens), share: make([][topK]float32, tokens), place: make([][topK]int, tokens),
		ends: make([]int32, experts),
	}
	for t := range tokens {
		r.chosen[t], r.share[t] = top(logits[t*experts:][:experts])
	}
	rows := make([]float32, 0, tokens*topK*width)
	for e := range experts {
		for t, chosen := range r.chosen {
			if i := slices.Index(chosen[:], e); i >= 0 {
				r.place[t][i] = len(rows) / width
				rows = append(rows, x[t*width:][:width]...)
			}
		}
		r.ends[e] = int32(len(rows) / width)
	}
	if err := l.rows.Write(ctx, 0, rows); err != nil {
		return nil, err
	}
	return r, l.ends.WriteInt32(ctx, 0, r.ends)
}

// top is the experts of the largest logits, and the softmax of these.
func top(logits []float32) (chosen [topK]int, share [topK]float32) {
	left := slices.Clone(logits)
	var sum float32
	for i := range chosen {
		e := slices.Index(left, slices.Max(left))
		chosen[i], left[e] = e, float32(math.Inf(-1))
		share[i] = float32(math.Exp(float64(logits[e] - logits[chosen[0]])))
		sum += share[i]
	}
	for i := range share {
		share[i] /= sum
	}
	return chosen, share
}

// mix computes mixed = silu(xGate) .* xUp. It takes all rows that there may be: what is in
// those behind the last nobody reads.
func (l *layer) mix(ctx context.Context) error {
	gate, up := make([]float32, maxRows*hidden), make([]float32, maxRows*hidden)
	if err := l.xGate.Read(ctx, 0, gate); err != nil {
		return err
	}
	if err := l.xUp.Read(ctx, 0, up); err != nil {
		return err
	}
	for i, g := range gate {
		gate[i] = g / (1 + float32(math.Exp(-float64(g)))) * up[i]
	}
	return l.mixed.Write(ctx, 0, gate)
}

// combine sums the rows of each token, by their weights.
func (l *layer) combine(ctx context.Context, r *routing) (y []float32, err error) {
	out := make([]float32, r.ends[experts-1]*width)
	if err := l.out.Read(ctx, 0, out); err != nil {
		return nil, err
	}
	y = make([]float32, len(r.place)*width)
	for t, place := range r.place {
		for i, row := range place {
			for d := range width {
				y[t*width+d] += r.share[t][i] * out[row*width+d]
			}
		}
	}
	return y, nil
}
