package workload

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/batchgemm/batchgemm/planner"
)

const (
	minRandom = 16      // smallest size that random draws, as Zhang et al. 2025
	maxBatch  = 1 << 20 // of random: 100 MB of problems
)

// random returns batch problems with M and N uniform in [16, maxMN] and K
// uniform in [16, maxK]. The same arguments give the same sizes.
func random(maxMN, maxK, batch int, seed uint64) []planner.Problem {
	rng := rand.New(rand.NewPCG(seed, 0))
	size := func(limit int) int { return minRandom + rng.IntN(limit-minRandom+1) }
	problems := make([]planner.Problem, batch)
	for i := range problems {
		problems[i] = planner.GEMM(size(maxMN), size(maxMN), size(maxK))
	}
	return problems
}

// parseRandom reads mn=512,k=128,batch=64,seed=1. These are also the defaults.
func parseRandom(params string) ([]planner.Problem, error) {
	values := map[string]uint64{"mn": 512, "k": 128, "batch": 64, "seed": 1}
	limits := map[string][2]uint64{"mn": {minRandom, planner.MaxDim}, "k": {minRandom, planner.MaxDim}, "batch": {1, maxBatch}, "seed": {0, 1<<64 - 1}}
	seen := map[string]bool{}
	for _, param := range strings.Split(params, ",") {
		if params == "" {
			break
		}
		key, text, _ := strings.Cut(param, "=")
		limit, known := limits[key]
		if !known || seen[key] {
			return nil, fmt.Errorf("%w \"random:%s\": %.40q is not one of mn=, k=, batch=, seed=, once each", ErrUnknown, params, param)
		}
		seen[key] = true
		v, err := strconv.ParseUint(text, 10, 64)
		if err != nil || v < limit[0] || v > limit[1] {
			return nil, fmt.Errorf("%w \"random:%s\": %s %.40q is not in [%d, %d]", ErrUnknown, params, key, text, limit[0], limit[1])
		}
		values[key] = v
	}
	return random(int(values["mn"]), int(values["k"]), int(values["batch"]), values["seed"]), nil
}
