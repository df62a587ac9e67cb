package drivertest

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/backend"
	"github.com/batchgemm/batchgemm/internal/reference"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

// expertsCase is a layer, and how its router chooses.
type expertsCase struct {
	name string
	planner.Experts
	choose chooser
}

var expertsCases = []expertsCase{
	{"hostile, interleaved", planner.Experts{Choices: planner.Choices{Tokens: 17, TopK: 16, Experts: 40,
		Index64: true}, Hidden: 32, Intermediate: 24, TransB: true, Gated: true,
		GateUp: planner.GateUpInterleaved, Activation: planner.SiLU}, hostile},
	{"joined", planner.Experts{Choices: planner.Choices{Tokens: 37, TopK: 2, Experts: 5}, Hidden: 40,
		Intermediate: 24, TransB: true, Gated: true, Activation: planner.SiLU}, anyExpert},
	{"apart, biases", planner.Experts{Choices: planner.Choices{Tokens: 33, TopK: 4, Experts: 8}, Hidden: 64,
		Intermediate: 48, Gated: true, GateUp: planner.GateUpApart, Activation: planner.GELU,
		Bias: true}, hostile},
	{"ungated, one choice", planner.Experts{Choices: planner.Choices{Tokens: 50, TopK: 1, Experts: 4},
		Hidden: 24, Intermediate: 40, TransB: true, Activation: planner.ReLU, Bias: true}, anyExpert},
	{"one token, joined columns", planner.Experts{Choices: planner.Choices{Tokens: 1, TopK: 8, Experts: 128},
		Hidden: 16, Intermediate: 8, Gated: true}, anyExpert},
	{"all to one, odd sizes", planner.Experts{Choices: planner.Choices{Tokens: 70, TopK: 1, Experts: 3,
		Index64: true}, Hidden: 33, Intermediate: 7, TransB: true, Gated: true, Bias: true,
		Activation: planner.SiLU}, oneExpert},
	{"none counts", planner.Experts{Choices: planner.Choices{Tokens: 6, TopK: 2, Experts: 3}, Hidden: 24,
		Intermediate: 16, TransB: true, Gated: true, Activation: planner.SiLU}, noExpert},
}

// expertsJob is a layer with its operands, as numbers that its types have.
type expertsJob struct {
	reference.Experts
	suite    *suite
	programs [4]driver.Program
	plans    []*planner.Plan // routing, first, second, combine
}

// testExperts runs layers, and compares them with float64 by a bound that follows from the roundings. Tokens
// in another order have the same bits in that order. Every other layer runs by SubmitOn, where there is one.
func (s *suite) testExperts(t *testing.T) {
	types, on := s.layerTypes(), s.borrowing(t)
	for i := range expertsCases {
		s := s
		if i%2 == 1 && on != nil {
			s = on
		}
		c := &expertsCases[i]
		for j, of := range types {
			test := func(t *testing.T) {
				k := s.prepareExperts(t, c, of)
				y := k.run(t)
				_, err := k.Check(y)
				require.NoError(t, err)
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

func (s *suite) prepareExperts(t *testing.T, c *expertsCase, of element.Type) *expertsJob {
	t.Helper()
	facts := s.device.Info().Planner
	k := &expertsJob{suite: s, Experts: reference.Experts{Layer: c.Experts, Type: of,
		FlushesSubnormals: s.device.Info().FlushesSubnormals}}
	k.Layer.Weights = of
	plan, err := planner.New(&facts).PlanExperts(k.Layer, planner.Options{TypeA: of})
	require.NoError(t, err)
	k.plans = plan.Steps
	for i, plan := range k.plans {
		k.programs[i] = s.prepareLayer(t, plan, nil)
	}
	choices := layerCase{Choices: c.Choices, choose: c.choose}
	k.Index = choices.draw(7)
	next := uint64(0)
	draw := func(n int) []float32 {
		values := make([]float32, n)
		next++
		uniform(next)(values)
		return backend.FromWords(of, backend.ToWords(of, values), n)
	}
	k.X, k.Weights = draw(c.Tokens*c.Hidden), draw(c.Tokens*c.TopK)
	k.GateUp, k.Down = draw(k.plans[1].ExtentB), draw(k.plans[2].ExtentB)
	switch {
	case c.Gated && c.GateUp == planner.GateUpApart:
		k.Up = draw(k.plans[1].ExtentB2)
	case c.Gated:
		k.GateUp = draw(max(k.plans[1].ExtentB, k.plans[1].ExtentB2))
	}
	k.GateUpBias, k.DownBias = draw(k.plans[1].ExtentBias), draw(k.plans[2].ExtentBias)
	return k
}

// run is y.
func (k *expertsJob) run(t *testing.T) []float32 {
	t.Helper()
	s, ctx := k.suite, context.Background()
	operand := func(values []float32) driver.Buffer { return s.written(t, backend.ToWords(k.Type, values)) }
	index := s.written(t, backend.Words(indexWords(k.Index, k.Layer.Index64)))
	routed := s.canaries(t, k.plans[0].ExtentC)
	between := s.canaries(t, wordsOf(k.Type, k.plans[1].ExtentC))
	results := s.canaries(t, wordsOf(k.Type, k.plans[2].ExtentC))
	words := wordsOf(k.Type, k.plans[3].ExtentC)
	y, gate := s.canaries(t, words), operand(k.GateUp)
	first := driver.Run{Program: k.programs[1], A: operand(k.X), B: gate, C: between, Sizes: routed,
		Rows: routed}
	second := driver.Run{Program: k.programs[2], A: between, B: operand(k.Down), C: results, Sizes: routed,
		Rows: routed}
	if k.Layer.Gated {
		if first.B2 = gate; k.Layer.GateUp == planner.GateUpApart {
			first.B2 = operand(k.Up)
		}
	}
	if k.Layer.Bias {
		first.Bias, second.Bias = operand(k.GateUpBias), operand(k.DownBias)
	}
	require.NoError(t, s.submit(
		driver.Run{Program: k.programs[0], A: operand(k.Weights), C: routed, Sizes: index}, first, second,
		driver.Run{Program: k.programs[3], A: results, C: y, Sizes: index}))
	got := make([]float32, words)
	require.NoError(t, y.Read(ctx, 0, got))
	for _, p := range k.programs[1:3] {
		group, err := p.Status(ctx)
		require.NoError(t, err)
		require.Equal(t, -1, group)
	}
	return backend.FromWords(k.Type, got, k.plans[3].ExtentC)
}

// permute reverses the order of tokens.
func (k *expertsJob) permute() {
	reverseRows(k.X, k.Layer.Hidden)
	reverseRows(k.Weights, k.Layer.TopK)
	reverseRows(k.Index, k.Layer.TopK)
}

func reverseRows[T any](rows []T, columns int) {
	slices.Reverse(rows)
	for row := range slices.Chunk(rows, columns) {
		slices.Reverse(row)
	}
}

func (k *expertsJob) checkPermuted(t *testing.T, before, after []float32) {
	t.Helper()
	columns, last := k.Layer.Hidden, k.Layer.Tokens-1
	for token := range k.Layer.Tokens {
		same := sameBits(before[token*columns:][:columns], after[(last-token)*columns:][:columns])
		require.True(t, same, "token %d", token)
	}
}
