package workload

import (
	"math"
	"math/rand/v2"

	"github.com/batchgemm/batchgemm/planner"
)

const (
	minRandom = 16      // smallest random size, as in Zhang et al. 2025
	maxBatch  = 1 << 20 // problems of a random workload: 200 MB
)

// random returns batch problems with M and N uniform in [16, maxMN] and K uniform in [16, maxK]. Equal
// arguments give equal sizes.
func random(maxMN, maxK, batch int, seed uint64) []planner.Problem {
	rng := rand.New(rand.NewPCG(seed, 0))
	size := func(limit int) int { return minRandom + rng.IntN(limit-minRandom+1) }
	problems := make([]planner.Problem, batch)
	for i := range problems {
		problems[i] = planner.GEMM(size(maxMN), size(maxMN), size(maxK))
	}
	return problems
}

// parseRandom parses mn=512,k=128,batch=64,seed=1. These are also the defaults.
func parseRandom(text string) ([]planner.Problem, error) {
	maxMN, maxK, batch, seed := 512, 128, 64, uint64(1)
	if err := parseParams("random", text, []param{
		{"mn", whole(&maxMN, minRandom, planner.MaxDim)},
		{"k", whole(&maxK, minRandom, planner.MaxDim)},
		{"batch", whole(&batch, 1, maxBatch)},
		{"seed", whole(&seed, 0, math.MaxUint64)},
	}); err != nil {
		return nil, err
	}
	if err := room(batch); err != nil {
		return nil, err
	}
	return random(maxMN, maxK, batch, seed), nil
}
