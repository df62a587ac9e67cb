package drivertest

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/backend"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

// chooser draws an expert's number.
type chooser func(rng *rand.Rand, experts int) int64

func anyExpert(rng *rand.Rand, experts int) int64 { return rng.Int64N(int64(experts)) }

// oneExpert leaves all others empty.
func oneExpert(_ *rand.Rand, experts int) int64 { return int64(experts / 2) }

// hostile draws numbers of experts, and others, about half of each.
func hostile(rng *rand.Rand, experts int) int64 {
	n := int64(experts)
	switch rng.IntN(8) {
	case 0:
		return -1
	case 1:
		return n
	case 2:
		return [...]int64{math.MinInt64, math.MaxInt64, math.MinInt32, math.MaxInt32}[rng.IntN(4)]
	case 3:
		return rng.Int64N(n) + 1<<32*[...]int64{1, -1, 1 << 20}[rng.IntN(3)]
	}
	return rng.Int64N(n)
}

func noExpert(*rand.Rand, int) int64 { return -1 }

// layerCase is a router's choices.
type layerCase struct {
	name string
	planner.Choices
	choose chooser
	extent int // tokens of a run in memory of the caller; 0: all
}

var layerCases = []layerCase{
	{"one token", planner.Choices{Tokens: 1, TopK: 8, Experts: 128}, anyExpert, 0},
	{"one choice", planner.Choices{Tokens: 1, TopK: 1, Experts: 1, Index64: true}, anyExpert, 0},
	{"no tokens", planner.Choices{Tokens: 0, TopK: 2, Experts: 70}, anyExpert, 0},
	{"all to one", planner.Choices{Tokens: 301, TopK: 1, Experts: 9}, oneExpert, 0},
	{"none counts", planner.Choices{Tokens: 50, TopK: 3, Experts: 5, Index64: true}, noExpert, 0},
	{"hostile", planner.Choices{Tokens: 333, TopK: 4, Experts: 37}, hostile, 0},
	{"hostile int64", planner.Choices{Tokens: 333, TopK: 5, Experts: 37, Index64: true}, hostile, 0},
	{"rounds of fewer sections", planner.Choices{Tokens: 700, TopK: 3, Experts: 300}, hostile, 0},
	{"4096 experts", planner.Choices{Tokens: 40, TopK: 16, Experts: 4096, Index64: true}, anyExpert, 0},
	{"many rounds", planner.Choices{Tokens: 1500, TopK: 2, Experts: 4000}, anyExpert, 0},
	{"many", planner.Choices{Tokens: 4700, TopK: 8, Experts: 128}, anyExpert, 0},
	{"few there", planner.Choices{Tokens: 900, TopK: 3, Experts: 20}, hostile, 7},
	{"one there", planner.Choices{Tokens: 100, TopK: 2, Experts: 20, Index64: true}, hostile, 1},
}

// draw is index, of all tokens that there may be, and what is behind those of the run are experts too.
func (c *layerCase) draw(seed uint64) []int64 {
	rng, index := newRand(seed), make([]int64, c.Tokens*c.TopK)
	for i := range index {
		index[i] = c.choose(rng, c.Experts)
		if !c.Index64 {
			index[i] = int64(int32(index[i]))
		}
	}
	return index
}

// choices is how many there are in a run.
func (c *layerCase) choices() int {
	if c.extent > 0 {
		return c.extent * c.TopK
	}
	return c.Tokens * c.TopK
}

func (c *layerCase) counts(expert int64) bool { return 0 <= expert && expert < int64(c.Experts) }

// indexWords are numbers of experts as memory has them.
func indexWords(index []int64, long bool) (words []int32) {
	for _, e := range index {
		words = append(words, int32(e))
		if long {
			words = append(words, int32(e>>32))
		}
	}
	return words
}

// layerTypes are those of weights and rows.
func (s *suite) layerTypes() []element.Type {
	if s.oneType != "" {
		return []element.Type{element.F32}
	}
	types := []element.Type{element.F32}
	for _, of := range s.device.Info().Planner.Types {
		if of == element.BF16 || of == element.F16 {
			types = append(types, of)
		}
	}
	return types
}

// eachLayer runs a test with each case, and with types in turn.
func (s *suite) eachLayer(t *testing.T, test func(*testing.T, *suite, layerCase, element.Type)) {
	types := s.layerTypes()
	for i, c := range layerCases {
		t.Run(c.name, func(t *testing.T) {
			on := s
			if c.extent > 0 {
				on = s.onStream(t)
			}
			test(t, on, c, types[i%len(types)])
		})
	}
}

// prepareLayer prepares the plan of a step and checks what planning says of its operands.
func (s *suite) prepareLayer(t *testing.T, plan *planner.Plan, err error) driver.Program {
	t.Helper()
	require.NoError(t, err)
	p, err := s.device.Prepare(context.Background(), plan)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	group, err := p.Status(context.Background())
	require.NoError(t, err)
	require.Equal(t, -1, group)
	return p
}

// written is a buffer with these words, and a few more that nobody reads for what they are.
func (s *suite) written(t *testing.T, words []float32) driver.Buffer {
	t.Helper()
	b := s.alloc(t, len(words)+guard)
	if len(words) == 0 {
		return b
	}
	require.NoError(t, b.Write(context.Background(), 0, words))
	return b
}

// canaries is a buffer of canaries, n words and a few more.
func (s *suite) canaries(t *testing.T, n int) driver.Buffer {
	t.Helper()
	words := make([]float32, n)
	for i := range words {
		words[i] = canary
	}
	b := s.written(t, words)
	require.NoError(t, b.Write(context.Background(), n, []float32{canary}))
	return b
}

// runLayer does a run and returns n words of C and one behind them.
func (s *suite) runLayer(t *testing.T, run driver.Run, extent, n int) []float32 {
	t.Helper()
	run.Extent = extent
	require.NoError(t, s.submit(run))
	c := make([]float32, n+1)
	require.NoError(t, run.C.Read(context.Background(), 0, c))
	return c
}

// testRouting compares the ends and the lists of choices with those that a host makes, and what else is in C
// with what was there.
func (s *suite) testRouting(t *testing.T) {
	facts := s.device.Info().Planner
	s.eachLayer(t, func(t *testing.T, s *suite, c layerCase, of element.Type) {
		plan, err := planner.New(&facts).PlanRouting(planner.Routing{Choices: c.Choices, Weights: of})
		p := s.prepareLayer(t, plan, err)
		for seed := range uint64(2) {
			index, weights := c.draw(seed), make([]float32, c.Tokens*c.TopK)
			uniform(seed)(weights)
			words := ToWords(of, weights)
			weights = FromWords(of, words, len(weights))
			run := driver.Run{Program: p, A: s.written(t, words), C: s.canaries(t, c.Len()),
				Sizes: s.written(t, backend.Words(indexWords(index, c.Index64)))}
			got := s.runLayer(t, run, c.extent, c.Len())
			for i, want := range c.routed(index, weights) {
				require.Equal(t, math.Float32bits(want), math.Float32bits(got[i]), "word %d of %d", i,
					c.Len())
			}
		}
	})
}

// routed is C of a routing, and a word more.
func (c *layerCase) routed(index []int64, weights []float32) []float32 {
	words := make([]float32, c.Len()+1)
	for i := range words {
		words[i] = canary
	}
	rows := make([][]int, c.Experts)
	for i, e := range index[:c.choices()] {
		if c.counts(e) {
			rows[e] = append(rows[e], i)
		}
	}
	at, n := c.Rows(), c.Tokens*c.TopK
	for e, own := range rows {
		for _, i := range own {
			words[at] = math.Float32frombits(uint32(i / c.TopK))
			words[at+n] = math.Float32frombits(uint32(i))
			words[at+2*n] = weights[i]
			at++
		}
		words[e] = math.Float32frombits(uint32(at - c.Rows()))
	}
	return words
}

// testCombine compares sums of rows with those of a host, bit by bit. Rows that do not count are NaN.
func (s *suite) testCombine(t *testing.T) {
	facts := s.device.Info().Planner
	s.eachLayer(t, func(t *testing.T, s *suite, c layerCase, of element.Type) {
		for _, hidden := range []int{1, 37, 64} {
			if c.Tokens > 1000 && hidden != 37 {
				continue
			}
			plan, err := planner.New(&facts).PlanCombine(planner.Combine{Choices: c.Choices, Hidden: hidden,
				Type: of})
			p := s.prepareLayer(t, plan, err)
			index, rows := c.draw(3), make([]float32, c.Tokens*c.TopK*hidden)
			uniform(4)(rows)
			for i, e := range index {
				if i >= c.choices() || !c.counts(e) {
					for k := range hidden {
						rows[i*hidden+k] = float32(math.NaN())
					}
				}
			}
			words, n := ToWords(of, rows), wordsOf(of, c.Tokens*hidden)
			run := driver.Run{Program: p, A: s.written(t, words), C: s.canaries(t, n),
				Sizes: s.written(t, backend.Words(indexWords(index, c.Index64)))}
			got := s.runLayer(t, run, c.extent, n)
			require.NoError(t, c.checkSums(of, hidden, index, FromWords(of, words, len(rows)), got))
		}
	})
}

// checkSums checks C of a sum of rows, and a word more.
func (c *layerCase) checkSums(of element.Type, hidden int, index []int64, rows, got []float32) error {
	there := c.choices() / c.TopK * hidden
	sums := make([]float32, c.Tokens*hidden)
	for i := range there {
		token, col := i/hidden, i%hidden
		for j := token * c.TopK; j < (token+1)*c.TopK; j++ {
			if c.counts(index[j]) {
				sums[i] += rows[j*hidden+col]
			}
		}
	}
	n := wordsOf(of, there)
	want := ToWords(of, sums[:there])
	for i, x := range got {
		switch {
		case i < n-1 || i == n-1 && there%of.PerWord() == 0:
			if math.Float32bits(x) != math.Float32bits(want[i]) {
				return fmt.Errorf("word %d of %d is %x, not %x", i, n, math.Float32bits(x),
					math.Float32bits(want[i]))
			}
		case i == n-1:
			if uint16(math.Float32bits(x)) != uint16(math.Float32bits(want[i])) {
				return fmt.Errorf("the last element is %x, not %x", math.Float32bits(x),
					math.Float32bits(want[i]))
			}
		case math.Float32bits(x) != math.Float32bits(canary):
			return fmt.Errorf("word %d, behind the sums, is %x", i, math.Float32bits(x))
		}
	}
	return nil
}
