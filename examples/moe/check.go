package main

import (
	"fmt"
	"math"
	"slices"
)

// tolerance: sums of 128 and 192 products of numbers about 1 have errors of about 1e-6 in fp32. A row that
// is lost, or goes to a wrong expert, has an error of about 1.
const tolerance = 1e-5

// check computes the layer token by token in float64. It returns the largest difference, and an error if
// that is too large or a token has wrong experts.
func check(w *weights, x, y []float32, chosen [][topK]int32) (worst float64, err error) {
	for t, own := range chosen {
		token := widen(x[t*width:][:width])
		logits := product(token, w.router)
		if err := checkChosen(logits, own[:]); err != nil {
			return 0, fmt.Errorf("token %d: %w", t, err)
		}
		for d, want := range expect(w, token, logits, own[:]) {
			got := float64(y[t*width+d])
			diff := math.Abs(got - want)
			if !(diff <= tolerance) {
				return 0, fmt.Errorf("token %d, element %d: %g, want %g", t, d, got, want)
			}
			worst = max(worst, diff)
		}
	}
	return worst, nil
}

// checkChosen checks that no other expert has a larger logit, within rounding.
func checkChosen(logits []float64, chosen []int32) error {
	least := math.Inf(1)
	for _, e := range chosen {
		least = min(least, logits[e])
	}
	for e, logit := range logits {
		if logit > least+tolerance && !slices.Contains(chosen, int32(e)) {
			return fmt.Errorf("expert %d is not chosen, with logit %g, and one with %g is", e, logit, least)
		}
	}
	return nil
}

// expect computes the layer for one token.
func expect(w *weights, token, logits []float64, chosen []int32) []float64 {
	y, sum := make([]float64, width), 0.
	for _, e := range chosen {
		gate := product(token, w.gate[int(e)*width*hidden:][:width*hidden])
		up := product(token, w.up[int(e)*width*hidden:][:width*hidden])
		for i, g := range gate {
			up[i] *= g / (1 + math.Exp(-g))
		}
		share := math.Exp(logits[e])
		sum += share
		for d, v := range product(up, w.down[int(e)*hidden*width:][:hidden*width]) {
			y[d] += share * v
		}
	}
	for d := range y {
		y[d] /= sum
	}
	return y
}

// product returns a row times a matrix.
func product(row []float64, matrix []float32) []float64 {
	sums := make([]float64, len(matrix)/len(row))
	for k, v := range row {
		for j := range sums {
			sums[j] += v * float64(matrix[k*len(sums)+j])
		}
	}
	return sums
}

func widen(s []float32) []float64 {
	wide := make([]float64, len(s))
	for i, v := range s {
		wide[i] = float64(v)
	}
	return wide
}
