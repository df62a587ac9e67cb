package drivertest

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/backend"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

// gatedCase is a layer whose gate is a step of its own: how its router chooses, and the types and scales of
// weights, if they have scales.
type gatedCase struct {
	name string
	planner.Experts
	choose  chooser
	options planner.Options
}

var unscaled planner.Options

var gatedCases = []gatedCase{
	{"clamped, columns in turn, biases", planner.Experts{Choices: planner.Choices{Tokens: 19, TopK: 4,
		Experts: 6}, Hidden: 40, Intermediate: 24, Gated: true, GateUp: planner.GateUpInterleaved,
		Activation: planner.SwiGLUClamped, Alpha: alpha, Limit: 0.25, Bias: true}, anyExpert, unscaled},
	{"exact GELU, apart", planner.Experts{Choices: planner.Choices{Tokens: 23, TopK: 2, Experts: 5},
		Hidden: 24, Intermediate: 33, TransB: true, Gated: true, GateUp: planner.GateUpApart,
		Activation: planner.GELUExact, Bias: true}, hostile, unscaled},
	{"squared ReLU, ungated", planner.Experts{Choices: planner.Choices{Tokens: 30, TopK: 3, Experts: 4},
		Hidden: 32, Intermediate: 40, TransB: true, Activation: planner.ReLU2}, anyExpert, unscaled},
	{"e4m3 by row", planner.Experts{Choices: planner.Choices{Tokens: 21, TopK: 3, Experts: 6}, Hidden: 64,
		Intermediate: 48, TransB: true, Gated: true, Activation: planner.SiLU, Bias: true}, hostile,
		scaledWeights(element.E4M3, planner.PerRow)},
	{"e4m3 by block", planner.Experts{Choices: planner.Choices{Tokens: 26, TopK: 2, Experts: 3}, Hidden: 200,
		Intermediate: 128, TransB: true, Gated: true, Activation: planner.SiLU}, anyExpert,
		scaledWeights(element.E4M3, planner.PerBlock)},
	{"e4m3 by block, odd", planner.Experts{Choices: planner.Choices{Tokens: 9, TopK: 4, Experts: 3,
		Index64: true}, Hidden: 131, Intermediate: 70, TransB: true, Gated: true, Activation: planner.SiLU,
		Bias: true}, hostile, scaledWeights(element.E4M3, planner.PerBlock)},
	{"e4m3 by block, clamped, in turn", planner.Experts{Choices: planner.Choices{Tokens: 12, TopK: 3,
		Experts: 4}, Hidden: 136, Intermediate: 72, TransB: true, Gated: true,
		GateUp: planner.GateUpInterleaved, Activation: planner.SwiGLUClamped, Bias: true}, anyExpert,
		scaledWeights(element.E4M3, planner.PerBlock)},
	{"int8, apart", planner.Experts{Choices: planner.Choices{Tokens: 40, TopK: 2, Experts: 5}, Hidden: 80,
		Intermediate: 32, TransB: true, Gated: true, GateUp: planner.GateUpApart, Activation: planner.GELU},
		hostile, scaledWeights(element.Int8, planner.PerRow)},
	{"int8, squared ReLU", planner.Experts{Choices: planner.Choices{Tokens: 1, TopK: 8, Experts: 16},
		Hidden: 48, Intermediate: 64, TransB: true, Activation: planner.ReLU2}, anyExpert,
		scaledWeights(element.Int8, planner.PerRow)},
	{"int4, joined", planner.Experts{Choices: planner.Choices{Tokens: 14, TopK: 3, Experts: 4}, Hidden: 128,
		Intermediate: 64, Gated: true, Activation: planner.SiLU}, hostile,
		scaledWeights(element.Int4, planner.PerGroup64)},
	{"int4, apart", planner.Experts{Choices: planner.Choices{Tokens: 11, TopK: 2, Experts: 3}, Hidden: 128,
		Intermediate: 128, Gated: true, GateUp: planner.GateUpApart, Activation: planner.SiLU, Bias: true},
		anyExpert, scaledWeights(element.Int4, planner.PerGroup128)},
	{"mxfp4, clamped, in turn", planner.Experts{Choices: planner.Choices{Tokens: 13, TopK: 4, Experts: 5},
		Hidden: 192, Intermediate: 64, Gated: true, GateUp: planner.GateUpInterleaved,
		Activation: planner.SwiGLUClamped, Bias: true}, hostile, scaledWeights(element.MXFP4,
		planner.PerGroup32)},
	{"nvfp4, joined", planner.Experts{Choices: planner.Choices{Tokens: 12, TopK: 2, Experts: 4}, Hidden: 128,
		Intermediate: 64, Gated: true, Activation: planner.SiLU}, anyExpert, scaledWeights(element.NVFP4,
		planner.PerGroup16)},
}

// gatedJob is a layer with its operands, as numbers that its types have.
type gatedJob struct {
	*gatedCase
	suite                      *suite
	of                         element.Type
	index                      []int64
	x, weights, bias, downBias []float32
	gateUp, up, down           matrices // gateUp has both but where they are apart
	programs                   map[*planner.Plan]driver.Program
	plan                       *planner.ExpertsPlan
}

// testGatedExperts runs such layers, and compares them with float64 by a bound that follows from the
// roundings. Tokens in another order have the same bits in that order.
func (s *suite) testGatedExperts(t *testing.T) {
	types := s.layerTypes()
	for i := range gatedCases {
		c := &gatedCases[i]
		for j, of := range types {
			if !s.takesGated(c, of) {
				continue
			}
			test := func(t *testing.T) {
				k := s.prepareGated(t, c, of)
				y := k.run(t)
				require.NoError(t, k.check(y))
				k.permute()
				k.checkPermuted(t, y, k.run(t))
			}
			if j == i%len(types) {
				t.Run(fmt.Sprintf("%s/%s", c.name, of), test)
			} else {
				s.part(t, fmt.Sprintf("%s/%s", c.name, of), test)
			}
		}
	}
}

func (s *suite) prepareGated(t *testing.T, c *gatedCase, of element.Type) *gatedJob {
	t.Helper()
	k := &gatedJob{gatedCase: c, suite: s, of: of, programs: map[*planner.Plan]driver.Program{}}
	x, o := c.Experts, c.options
	x.Weights = of
	if o.TypeC = of; o.Epilogue.ScaleA == "" {
		o.TypeA = of
	}
	facts := s.device.Info().Planner
	var err error
	k.plan, err = planner.New(&facts).PlanExperts(x, o)
	require.NoError(t, err)
	for _, plan := range k.plan.Steps {
		k.programs[plan] = s.prepareLayer(t, plan, nil)
	}
	choices := layerCase{Choices: c.Choices, choose: c.choose}
	k.index = choices.draw(7)
	next := uint64(0)
	draw := func(n int) []float32 {
		values := make([]float32, n)
		next++
		uniform(next)(values)
		return backend.FromWords(of, backend.ToWords(of, values), n)
	}
	k.x, k.weights = draw(c.Tokens*c.Hidden), draw(c.Tokens*c.TopK)
	rows := c.Intermediate
	if joined := c.Gated && c.GateUp != planner.GateUpApart; joined {
		rows *= 2
	}
	k.gateUp = k.matrices(11, rows, c.Hidden)
	k.up, k.down = k.matrices(12, rows, c.Hidden), k.matrices(13, c.Hidden, c.Intermediate)
	k.bias, k.downBias = draw(c.Experts.Experts*2*c.Intermediate), draw(c.Experts.Experts*c.Hidden)
	return k
}

// run is y.
func (k *gatedJob) run(t *testing.T) []float32 {
	t.Helper()
	s, ctx, p := k.suite, context.Background(), k.plan
	operand := func(values []float32) driver.Buffer { return s.written(t, backend.ToWords(k.of, values)) }
	result := func(plan *planner.Plan, more int) driver.Buffer {
		return s.canaries(t, wordsOf(plan.Options.TypeC, plan.ExtentC+more))
	}
	index, x := s.written(t, backend.Words(indexWords(k.index, k.Index64))), operand(k.x)
	words := s.written(t, k.words())
	y, first, results := result(p.Combine, 0), result(p.First, k.Intermediate), result(p.Second, 0)
	runs := []driver.Run{{A: operand(k.weights), C: words, Sizes: index, Program: k.programs[p.Route]}}
	if p.Quantize != nil {
		q := result(p.Quantize, 0)
		runs = append(runs, driver.Run{A: x, C: q, Sizes: words, Program: k.programs[p.Quantize]})
		x = q
	}
	gate := driver.Run{A: x, B: s.written(t, k.gateUp.words), C: first, Sizes: words, Rows: words}
	up := gate.B
	if k.Gated && k.GateUp == planner.GateUpApart {
		up = s.written(t, k.up.words)
	}
	if p.First.Options.Epilogue.Gated {
		gate.B2 = up
	}
	if k.Bias {
		gate.Bias = operand(k.bias)
	}
	gate.Program = k.programs[p.First]
	if runs = append(runs, gate); p.Up != nil {
		gate.Program, gate.B = k.programs[p.Up], up
		runs = append(runs, gate)
	}
	if p.Gate != nil {
		h := result(p.Gate, 0)
		runs = append(runs, driver.Run{A: first, C: h, Sizes: words, Program: k.programs[p.Gate]})
		first = h
	}
	second := driver.Run{A: first, B: s.written(t, k.down.words), C: results, Sizes: words, Rows: words}
	if k.Bias {
		second.Bias = operand(k.downBias)
	}
	second.Program = k.programs[p.Second]
	runs = append(runs, second, driver.Run{A: results, C: y, Sizes: index, Program: k.programs[p.Combine]})
	require.NoError(t, s.device.Submit(ctx, runs))
	got := make([]float32, wordsOf(k.of, p.Combine.ExtentC))
	require.NoError(t, y.Read(ctx, 0, got))
	for _, plan := range []*planner.Plan{p.First, p.Second} {
		group, err := k.programs[plan].Status(ctx)
		require.NoError(t, err)
		require.Equal(t, -1, group)
	}
	return backend.FromWords(k.of, got, p.Combine.ExtentC)
}

// permute turns the order of tokens about.
func (k *gatedJob) permute() {
	turn := func(n int, swap func(i, j int)) {
		for i := range n / 2 {
			swap(i, n-1-i)
		}
	}
	swap := func(values []float32, each int) {
		turn(k.Tokens, func(i, j int) {
			for c := range each {
				values[i*each+c], values[j*each+c] = values[j*each+c], values[i*each+c]
			}
		})
	}
	swap(k.x, k.Hidden)
	swap(k.weights, k.TopK)
	k.index = slices.Clone(k.index)
	turn(k.Tokens, func(i, j int) {
		for c := range k.TopK {
			k.index[i*k.TopK+c], k.index[j*k.TopK+c] = k.index[j*k.TopK+c], k.index[i*k.TopK+c]
		}
	})
}

func (k *gatedJob) checkPermuted(t *testing.T, before, after []float32) {
	t.Helper()
	h := k.Hidden
	for token := range k.Tokens {
		require.True(t, sameBits(before[token*h:][:h], after[(k.Tokens-1-token)*h:][:h]), "token %d", token)
	}
}
