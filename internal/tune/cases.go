// Package tune fits the rates of a device's kernels to measured times.
package tune

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/batchgemm/batchgemm/planner"
)

// Case is a batch to measure.
type Case struct {
	Name  string
	Batch planner.Batch
}

// sizes describes a random batch: M and N uniform in [16, mn], K in [16, k], as in the sweep of Zhang et al.
// 2025.
type sizes struct{ mn, k, count int }

// least is the smallest size drawn.
const least = 16

// cases range from a few tiny problems to a device that is full for long, with short and long K. That
// separates the terms of the cost model.
var cases = []sizes{
	{64, 64, 8}, {128, 128, 8}, {128, 1024, 8}, {512, 256, 8}, {512, 1024, 8},
	{128, 256, 32}, {256, 512, 32}, {512, 128, 32},
	{64, 512, 64}, {256, 256, 64}, {512, 512, 64},
	{64, 64, 256}, {128, 128, 256}, {256, 1024, 128}, {512, 128, 256}, {512, 1024, 256},
}

// longestCase bounds the time of a case, in microseconds at the device's peak rate. With it, all cases take
// a minute on lavapipe with two busy cores, and every GPU of 0.4 TFLOPS or more gets the whole set.
const longestCase = 60e3

// Cases returns the batches for a device, always the same. While a batch has too many FLOPs, or matrices
// that do not fit in a binding, Cases halves the number of its problems, then K, then M and N, and so on, so
// the set stays varied. Equal batches appear once. It fails if the device is too slow for the smallest
// batch.
func Cases(d *planner.Device) ([]Case, error) {
	var all []Case
	var seen []sizes
	for _, s := range cases {
		batch, err := s.draw()
		for turn := 0; err == nil && !fits(d, batch); turn++ {
			if s == (sizes{least, least, 1}) {
				return nil, fmt.Errorf("device %s is too slow, or too small, for a product of %d x %d x %d",
					d.Name, least, least, least)
			}
			switch turn % 3 {
			case 0:
				s.count = max(s.count/2, 1)
			case 1:
				s.k = max(s.k/2, least)
			case 2:
				s.mn = max(s.mn/2, least)
			}
			batch, err = s.draw()
		}
		if err != nil {
			return nil, err
		}
		if slices.Contains(seen, s) {
			continue
		}
		seen = append(seen, s)
		all = append(all, Case{fmt.Sprintf("mn=%d,k=%d,batch=%d", s.mn, s.k, s.count), batch})
	}
	return all, nil
}

func (s sizes) draw() (planner.Batch, error) {
	rng := rand.New(rand.NewPCG(1, 0))
	size := func(limit int) int { return least + rng.IntN(limit-least+1) }
	problems := make([]planner.Problem, s.count)
	for i := range problems {
		problems[i] = planner.GEMM(size(s.mn), size(s.mn), size(s.k))
	}
	// Otherwise every prediction would sort them.
	slices.SortFunc(problems, func(x, y planner.Problem) int { return cmp.Compare(y.K, x.K) })
	return planner.Pack(problems...)
}

func fits(d *planner.Device, b planner.Batch) bool {
	need := b.Lengths(planner.Epilogue{})
	bound := d.MaxBinding == 0 || 4*max(need.A, need.B, need.C) <= d.MaxBinding
	return bound && b.FLOPs() <= d.TFLOPS*1e6*longestCase
}
