package workload

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/batchgemm/batchgemm/planner"
)

// moe is a layer of a mixture of experts: each token goes to `top` experts, and an expert multiplies its
// tokens, of length k, with its own k x n weights.
type moe struct {
	experts, top, tokens, n, k int
	skew                       float64
	seed                       uint64
}

const (
	maxRouted = 1 << 22 // rows of all experts, which take 0.3 to 2 s to draw
	maxSkew   = 10      // with more, a few experts have nearly all tokens
	defTop    = 8
)

// parseMoE parses experts=128,top=8,tokens=1024,n=1536,k=2048,skew=0.3,seed=1. These are also the defaults,
// except for top if there are fewer experts.
func parseMoE(text string) ([]planner.Problem, error) {
	l := moe{experts: 128, tokens: 1024, n: 1536, k: 2048, skew: 0.3, seed: 1}
	if err := parseParams("moe", text, []param{
		{"experts", whole(&l.experts, 1, maxBatch)},
		{"top", whole(&l.top, 1, maxBatch)},
		{"tokens", whole(&l.tokens, 1, maxRouted)},
		{"n", whole(&l.n, 1, planner.MaxDim)},
		{"k", whole(&l.k, 1, planner.MaxDim)},
		{"skew", decimal(&l.skew, maxSkew)},
		{"seed", whole(&l.seed, 0, math.MaxUint64)},
	}); err != nil {
		return nil, err
	}
	if l.top == 0 {
		l.top = min(defTop, l.experts)
	}
	if l.top > l.experts {
		return nil, fmt.Errorf("%w \"moe:%s\": top %d is more than the %d experts", ErrUnknown, text,
			l.top, l.experts)
	}
	if l.tokens > maxRouted/l.top {
		return nil, fmt.Errorf("%w \"moe:%s\": tokens %d with top %d give more than %d rows", ErrUnknown,
			text, l.tokens, l.top, maxRouted)
	}
	if err := room(l.experts); err != nil {
		return nil, err
	}
	return l.problems(), nil
}

// problems returns one for each expert. Experts without tokens have M 0.
func (l *moe) problems() []planner.Problem {
	problems := make([]planner.Problem, l.experts)
	for e, rows := range l.route() {
		problems[e] = planner.GEMM(rows, l.n, l.k)
	}
	return problems
}

// Choices returns what a router chooses that Load's moe describes: the experts of each token, [tokens, top].
// top is from 1 to the number of experts, skew from 0 to 10.
func Choices(experts, top, tokens int, skew float64, seed uint64) []int64 {
	l, index := moe{experts: experts, top: top, tokens: tokens, skew: skew, seed: seed}, []int64(nil)
	l.draw(func(chosen []int) {
		for _, e := range chosen {
			index = append(index, int64(e))
		}
	})
	return index
}

// route draws the number of tokens of each expert.
func (l *moe) route() []int {
	counts := make([]int, l.experts)
	l.draw(func(chosen []int) {
		for _, e := range chosen {
			counts[e]++
		}
	})
	return counts
}

// draw draws the experts of each token. The order of the draws is fixed, so that results can be compared over
// time: first a normal number for each expert, whatever the skew is; then for each token one expert after the
// other, among those that it does not have yet.
func (l *moe) draw(token func(chosen []int)) {
	rng := rand.New(rand.NewPCG(l.seed, 0))
	left := newUrn(l.popularity(rng))
	chosen := make([]int, l.top)
	for range l.tokens {
		for i := range chosen {
			chosen[i] = left.take(rng.Uint64N(left.total))
		}
		token(chosen)
		for _, e := range chosen {
			left.put(e)
		}
	}
}

// popularity returns exp(skew * normal) of each expert, as integers, whose sums are exact: 2^40 for the most
// popular, at least 1.
func (l *moe) popularity(rng *rand.Rand) []uint64 {
	normal := make([]float64, l.experts)
	for e := range normal {
		normal[e] = rng.NormFloat64()
	}
	most := slices.Max(normal)
	weights := make([]uint64, l.experts)
	for e, x := range normal {
		weights[e] = uint64(max(math.Round(math.Exp(l.skew*(x-most))*(1<<40)), 1))
	}
	return weights
}

// urn holds experts with weights, to draw without replacement. Its sums are a Fenwick tree: sums[i], from 1
// on, is for the i&-i experts before expert i.
type urn struct {
	weights, sums []uint64
	total         uint64
	top           int // the largest power of two up to the number of experts
}

func newUrn(weights []uint64) *urn {
	u := &urn{weights: weights, sums: make([]uint64, len(weights)+1), top: 1}
	for 2*u.top <= len(weights) {
		u.top *= 2
	}
	for e := range weights {
		u.put(e)
	}
	return u
}

func (u *urn) put(e int) { u.add(e, u.weights[e]) }

// take removes the expert at a place in [0, total), with all weights side by side.
func (u *urn) take(place uint64) (e int) {
	for step := u.top; step > 0; step /= 2 {
		if next := e + step; next < len(u.sums) && u.sums[next] <= place {
			e = next
			place -= u.sums[next]
		}
	}
	u.add(e, -u.weights[e])
	return e
}

// add changes an expert's weight by a difference modulo 2^64.
func (u *urn) add(e int, by uint64) {
	u.total += by
	for i := e + 1; i < len(u.sums); i += i & -i {
		u.sums[i] += by
	}
}
