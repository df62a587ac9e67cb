package drivertest

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
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
	{"many rounds", planner.Choices{Tokens: 2500, TopK: 2, Experts: 4000}, anyExpert, 0},
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

// canaries is a buffer of canaries.
func (s *suite) canaries(t *testing.T, n int) driver.Buffer {
	t.Helper()
	return s.written(t, slices.Repeat([]float32{canary}, n))
}

// LayerJob is a run of a step of a layer of experts: the words of its operands, and of C before and after it.
// Index is Sizes. If Sizes is not 0, the run writes Sizes too: then C of Before and Want has that many words,
// and Sizes follows.
type LayerJob struct {
	Plan               *planner.Plan
	Extent             int
	Index, Rows        []int32
	A, B, Before, Want []float32
	Sizes              int
	regions            []region // of Want, that are not known bit by bit
}

// Check compares all of C.
func (j *LayerJob) Check(got []float32) error {
	got = slices.Clone(got)
	for i := range j.regions {
		if err := j.regions[i].check(got, j.Before); err != nil {
			return err
		}
	}
	for i, want := range j.Want {
		if math.Float32bits(got[i]) != math.Float32bits(want) {
			return fmt.Errorf("word %d of %d is %x, not %x", i, len(got), math.Float32bits(got[i]),
				math.Float32bits(want))
		}
	}
	return nil
}

// routing is a job whose ends and lists are those that a host makes. What else is in C stays.
func (c *layerCase) routing(d *planner.Device, of element.Type, seed uint64) (j LayerJob, err error) {
	index, weights := c.draw(seed), make([]float32, c.Tokens*c.TopK)
	uniform(seed)(weights)
	j = LayerJob{Extent: c.extent, Index: indexWords(index, c.Index64), A: backend.ToWords(of, weights)}
	j.Plan, err = planner.New(d).PlanStep(planner.Routing{Choices: c.Choices, Weights: of})
	j.Before = slices.Repeat([]float32{canary}, c.words()+1)
	j.Want = slices.Clone(j.Before)
	c.route(j.Want, index, backend.FromWords(of, j.A, len(weights)))
	return j, err
}

// words returns the words of a routing's result.
func (c *layerCase) words() int { return c.Rows() + 3*c.Tokens*c.TopK }

// route writes C of a routing.
func (c *layerCase) route(words []float32, index []int64, weights []float32) {
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
}

// combine is a job whose sums are those of a host, bit by bit. Rows that do not count are NaN.
func (c *layerCase) combine(d *planner.Device, of element.Type, hidden int) (j LayerJob, err error) {
	index, rows := c.draw(3), make([]float32, c.Tokens*c.TopK*hidden)
	uniform(4)(rows)
	for i, e := range index {
		if i < c.choices() && c.counts(e) {
			continue
		}
		for k := range hidden {
			rows[i*hidden+k] = float32(math.NaN())
		}
	}
	j = LayerJob{Extent: c.extent, Index: indexWords(index, c.Index64), A: backend.ToWords(of, rows)}
	j.Plan, err = planner.New(d).PlanStep(planner.Combine{Choices: c.Choices, Hidden: hidden, Type: of})
	j.Before = slices.Repeat([]float32{canary}, wordsOf(of, c.Tokens*hidden)+1)
	sums := backend.FromWords(of, slices.Clone(j.Before), len(j.Before)*of.PerWord())
	c.sum(sums, hidden, index, backend.FromWords(of, j.A, len(rows)))
	j.Want = backend.ToWords(of, sums)
	return j, err
}

// sum writes C of a sum of rows.
func (c *layerCase) sum(sums []float32, hidden int, index []int64, rows []float32) {
	for i := range c.choices() / c.TopK * hidden {
		token, col := i/hidden, i%hidden
		sums[i] = 0
		for j := token * c.TopK; j < (token+1)*c.TopK; j++ {
			if c.counts(index[j]) {
				sums[i] += rows[j*hidden+col]
			}
		}
	}
}

// LayerJobs are jobs of each case on a device, of types in turn.
func LayerJobs(t *testing.T, d *planner.Device, types []element.Type) (jobs []LayerJob) {
	t.Helper()
	for i := range layerCases {
		c, of := &layerCases[i], types[i%len(types)]
		j, err := c.routing(d, of, 0)
		require.NoError(t, err)
		jobs = append(jobs, j)
		for _, hidden := range []int{1, 37, 64} {
			if j, err = c.combine(d, of, hidden); len(j.Plan.Launches) > 0 && c.Tokens < 1000 {
				jobs = append(jobs, j)
			}
			require.NoError(t, err)
		}
	}
	return append(append(jobs, gateJobs(t, d, types)...), quantizeJobs(t, d, types)...)
}

// runLayer does a job and compares all of C.
func (s *suite) runLayer(t *testing.T, p driver.Program, j LayerJob) {
	t.Helper()
	before, index := j.Before, backend.Words(j.Index)
	if j.Sizes > 0 {
		before, index = j.Before[:j.Sizes], j.Before[j.Sizes:]
	}
	run := driver.Run{Program: p, A: s.written(t, j.A), C: s.written(t, before), Sizes: s.written(t, index),
		Extent: j.Extent}
	if j.Plan.Takes().B {
		run.B, run.Rows = s.written(t, j.B), s.written(t, backend.Words(j.Rows))
	}
	require.NoError(t, s.submit(run))
	got := make([]float32, len(j.Want))
	require.NoError(t, run.C.Read(context.Background(), 0, got[:len(before)]))
	if j.Sizes > 0 {
		require.NoError(t, run.Sizes.Read(context.Background(), 0, got[j.Sizes:]))
	}
	require.NoError(t, j.Check(got))
}

// testRouting runs one program with two sets of choices.
func (s *suite) testRouting(t *testing.T) {
	facts := s.device.Info().Planner
	s.eachLayer(t, func(t *testing.T, s *suite, c layerCase, of element.Type) {
		j, err := c.routing(&facts, of, 0)
		p := s.prepareLayer(t, j.Plan, err)
		s.runLayer(t, p, j)
		j, err = c.routing(&facts, of, 1)
		require.NoError(t, err)
		s.runLayer(t, p, j)
	})
}

func (s *suite) testCombine(t *testing.T) {
	facts := s.device.Info().Planner
	s.eachLayer(t, func(t *testing.T, s *suite, c layerCase, of element.Type) {
		for _, hidden := range []int{1, 37, 64} {
			if c.Tokens < 1000 || hidden == 37 {
				j, err := c.combine(&facts, of, hidden)
				s.runLayer(t, s.prepareLayer(t, j.Plan, err), j)
			}
		}
	})
}
