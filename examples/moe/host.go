package main

import (
	"context"
	"errors"
	"github.com/batchgemm/batchgemm/dispatch"
	"math"
	"slices"
)

// The host's part, which stands for the caller's kernels. It passes sizes to batchgemm only by what it
// writes to ends.

// routing is where the rows of a step belong.
type routing struct {
	chosen [][topK]int // experts of each token
	ends   []int32     // of each expert's rows
}

// counts returns the number of tokens of each expert.
func (r *routing) counts() []int32 {
	counts := slices.Clone(r.ends)
	for e := range experts - 1 {
		counts[e+1] -= r.ends[e]
	}
	return counts
}

// route chooses the experts of each token, and writes ends and rows: the tokens of the first expert, then
// those of the second, and so on; the places of their results, topK rows for each token; and their weights.
func (l *layer) route(ctx context.Context, tokens int) (*routing, error) {
	logits := make([]float32, tokens*experts)
	if err := dispatch.Read(ctx, l.logits, 0, logits); err != nil {
		return nil, err
	}
	r := &routing{chosen: make([][topK]int, tokens), ends: make([]int32, experts)}
	shares := make([][topK]float32, tokens)
	for t := range tokens {
		r.chosen[t], shares[t] = top(logits[t*experts:][:experts])
	}
	var tokenOfRow, placeOfRow []int32
	var weightOfRow []float32
	for e := range experts {
		for t, chosen := range r.chosen {
			if i := slices.Index(chosen[:], e); i >= 0 {
				tokenOfRow, placeOfRow = append(tokenOfRow, int32(t)), append(placeOfRow, int32(t*topK+i))
				weightOfRow = append(weightOfRow, shares[t][i])
			}
		}
		r.ends[e] = int32(len(tokenOfRow))
	}
	return r, errors.Join(
		dispatch.Write(ctx, l.rows, tokenOf, tokenOfRow),
		dispatch.Write(ctx, l.rows, placeOf, placeOfRow),
		dispatch.Write(ctx, l.rows, weightOf, weightOfRow),
		dispatch.Write(ctx, l.ends, 0, r.ends))
}

// top returns the experts with the largest logits, and the softmax of these logits.
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

// combine sums the rows of each token.
func (l *layer) combine(ctx context.Context, tokens int) (y []float32, err error) {
	out := make([]float32, tokens*topK*width)
	if err := dispatch.Read(ctx, l.out, 0, out); err != nil {
		return nil, err
	}
	y = make([]float32, tokens*width)
	for row := range tokens * topK {
		for d, v := range out[row*width:][:width] {
			y[row/topK*width+d] += v
		}
	}
	return y, nil
}
