package reference

import "math"

// bins is the number of ranges in which errors are counted.
const bins = 25

// Errors are the errors of the elements of C as fractions of their bounds. Element i of Counts counts
// fractions in (2^-(i+1), 2^-i]. The last element counts all smaller fractions, including 0.
type Errors struct {
	Worst  float64
	Counts [bins]int64
}

func (e *Errors) add(fraction float64) {
	e.Worst = max(e.Worst, fraction)
	bin := bins - 1
	if fraction > 0 {
		// fraction = f * 2^exponent with f in [1/2, 1), which is 1/2 at the upper
		// end of a range.
		f, exponent := math.Frexp(fraction)
		if f == 0.5 {
			exponent--
		}
		bin = min(max(-exponent, 0), bin)
	}
	e.Counts[bin]++
}

func (e *Errors) merge(other *Errors) {
	e.Worst = max(e.Worst, other.Worst)
	for i, n := range other.Counts {
		e.Counts[i] += n
	}
}
