package drivertest

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/backend"
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
	*expertsCase
	suite                            *suite
	of                               element.Type
	index                            []int64
	x, weights, gate, up, down, bias []float32 // gate has both but where they are apart
	downBias                         []float32
	programs                         [4]driver.Program
	plans                            []*planner.Plan // routing, first, second, combine
}

// testExperts runs layers, and compares them with float64 by a bound that follows from the roundings. Tokens
// in another order have the same bits in that order.
func (s *suite) testExperts(t *testing.T) {
	types := s.layerTypes()
	for i := range expertsCases {
		c := &expertsCases[i]
		for j, of := range types {
			test := func(t *testing.T) {
				k := s.prepareExperts(t, c, of)
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

func (s *suite) prepareExperts(t *testing.T, c *expertsCase, of element.Type) *expertsJob {
	t.Helper()
	k := &expertsJob{expertsCase: c, suite: s, of: of}
	x := c.Experts
	x.Weights = of
	facts := s.device.Info().Planner
	var err error
	k.plans, err = planner.New(&facts).PlanExperts(x, planner.Options{TypeA: of})
	require.NoError(t, err)
	for i, plan := range k.plans {
		k.programs[i] = s.prepareLayer(t, plan, nil)
	}
	choices := layerCase{Choices: c.Choices, choose: c.choose}
	k.index = choices.draw(7)
	next := uint64(0)
	draw := func(n int) []float32 {
		values := make([]float32, n)
		next++
		uniform(next)(values)
		return FromWords(of, ToWords(of, values), n)
	}
	k.x, k.weights = draw(c.Tokens*c.Hidden), draw(c.Tokens*c.TopK)
	k.gate, k.down = draw(k.plans[1].ExtentB), draw(k.plans[2].ExtentB)
	if c.Gated {
		k.gate = draw(max(k.plans[1].ExtentB, k.plans[1].ExtentB2))
		if k.up = k.gate; c.GateUp == planner.GateUpApart {
			k.up = draw(k.plans[1].ExtentB2)
		}
	}
	k.bias, k.downBias = draw(k.plans[1].ExtentBias), draw(k.plans[2].ExtentBias)
	return k
}

// run is y.
func (k *expertsJob) run(t *testing.T) []float32 {
	t.Helper()
	s, ctx := k.suite, context.Background()
	operand := func(values []float32) driver.Buffer { return s.written(t, ToWords(k.of, values)) }
	index := s.written(t, backend.Words(indexWords(k.index, k.Index64)))
	routed := s.canaries(t, k.plans[0].ExtentC)
	between := s.canaries(t, wordsOf(k.of, k.plans[1].ExtentC))
	results := s.canaries(t, wordsOf(k.of, k.plans[2].ExtentC))
	words := wordsOf(k.of, k.plans[3].ExtentC)
	y, gate := s.canaries(t, words), operand(k.gate)
	first := driver.Run{Program: k.programs[1], A: operand(k.x), B: gate, C: between, Sizes: routed,
		Rows: routed}
	second := driver.Run{Program: k.programs[2], A: between, B: operand(k.down), C: results, Sizes: routed,
		Rows: routed}
	if k.Gated {
		if first.B2 = gate; k.GateUp == planner.GateUpApart {
			first.B2 = operand(k.up)
		}
	}
	if k.Bias {
		first.Bias, second.Bias = operand(k.bias), operand(k.downBias)
	}
	require.NoError(t, s.device.Submit(ctx, []driver.Run{
		{Program: k.programs[0], A: operand(k.weights), C: routed, Sizes: index}, first, second,
		{Program: k.programs[3], A: results, C: y, Sizes: index}}))
	got := make([]float32, words)
	require.NoError(t, y.Read(ctx, 0, got))
	for _, p := range k.programs[1:3] {
		group, err := p.Status(ctx)
		require.NoError(t, err)
		require.Equal(t, -1, group)
	}
	return FromWords(k.of, got, k.plans[3].ExtentC)
}

// permute turns the order of tokens about.
func (k *expertsJob) permute() {
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

func (k *expertsJob) checkPermuted(t *testing.T, before, after []float32) {
	t.Helper()
	h := k.Hidden
	for token := range k.Tokens {
		require.True(t, sameBits(before[token*h:][:h], after[(k.Tokens-1-token)*h:][:h]), "token %d", token)
	}
}

// inexact is a number with a bound of its error, and the sum of the sizes of what it is a sum of.
type inexact struct{ is, err, size float64 }

// unit is half of what the last bit of a type stands for, of numbers from 1 to 2; tiny that of the smallest.
func unitOf(of element.Type) (unit, tiny float64) {
	switch of {
	case element.BF16:
		return 0x1p-8, 0x1p-133
	case element.F16:
		return 0x1p-11, 0x1p-25
	}
	return 0x1p-24, 0x1p-140
}

// rounded is a number of a type.
func (n inexact) rounded(of element.Type) inexact {
	unit, tiny := unitOf(of)
	n.err += unit*(math.Abs(n.is)+n.err) + tiny
	return n
}

// sumOf is a sum of products in fp32, and a bias.
func sumOf(n int, bias float64, factors func(i int) (a inexact, b float64)) (sum inexact) {
	sum.is, sum.size = bias, math.Abs(bias)
	for i := range n {
		a, b := factors(i)
		sum.is += a.is * b
		sum.err += a.err * math.Abs(b)
		sum.size += (math.Abs(a.is) + a.err) * math.Abs(b)
	}
	sum.err += 2 * float64(n+4) * 0x1p-24 * sum.size
	return sum
}

// check compares y with float64.
func (k *expertsJob) check(y []float32) error {
	sums := make([]inexact, k.Hidden)
	for t := range k.Tokens {
		clear(sums)
		for j := range k.TopK {
			i := t*k.TopK + j
			if e := k.index[i]; 0 <= e && e < int64(k.Experts.Experts) {
				k.add(sums, k.x[t*k.Hidden:][:k.Hidden], int(e), float64(k.weights[i]))
			}
		}
		for c, sum := range sums {
			sum.err += 2 * float64(k.TopK) * 0x1p-24 * sum.size
			want, got := sum.rounded(k.of), float64(y[t*k.Hidden+c])
			if !(math.Abs(got-want.is) <= want.err) {
				return fmt.Errorf("token %d, element %d: %g, want %g, which may err by %g", t, c, got,
					want.is, want.err)
			}
		}
	}
	return nil
}

// add adds what an expert makes of a token.
func (k *expertsJob) add(sums []inexact, x []float32, e int, weight float64) {
	between := make([]inexact, k.Intermediate)
	for c := range between {
		between[c] = k.unit(x, e, c).rounded(k.of)
	}
	for c := range sums {
		bias := 0.
		if k.Bias {
			bias = float64(k.downBias[e*k.Hidden+c])
		}
		z := sumOf(k.Intermediate, bias, func(i int) (inexact, float64) {
			at := (e*k.Intermediate+i)*k.Hidden + c
			if k.TransB {
				at = (e*k.Hidden+c)*k.Intermediate + i
			}
			return between[i], float64(k.down[at])
		})
		z.is, z.err = z.is*weight, z.err*math.Abs(weight)
		z.err += 0x1p-23 * math.Abs(z.is)
		z = z.rounded(k.of)
		sums[c].is += z.is
		sums[c].err += z.err
		sums[c].size += math.Abs(z.is) + z.err
	}
}

// unit is an element between the products.
func (k *expertsJob) unit(x []float32, e, c int) inexact {
	first := func(weights []float32, part int) inexact {
		bias := 0.
		if k.Bias {
			parts := 1
			if k.Gated {
				parts = 2
			}
			bias = float64(k.bias[(e*parts+part)*k.Intermediate+c])
		}
		return sumOf(k.Hidden, bias, func(i int) (inexact, float64) {
			return inexact{is: float64(x[i])}, float64(weights[k.at(e, c, i, part)])
		})
	}
	g := activated(first(k.gate, 0), k.Activation)
	if !k.Gated {
		return g
	}
	u := first(k.up, 1)
	both := inexact{is: g.is * u.is, err: math.Abs(g.is)*u.err + math.Abs(u.is)*g.err + g.err*u.err}
	both.err += 0x1p-23 * (math.Abs(both.is) + both.err)
	return both
}

// at is where a weight of gate, part 0, or of up lies: of an expert, from an element of x to one between.
func (k *expertsJob) at(e, c, i, part int) int {
	n, h := k.Intermediate, k.Hidden
	switch {
	case (!k.Gated || k.GateUp == planner.GateUpApart) && k.TransB:
		return (e*n+c)*h + i
	case !k.Gated || k.GateUp == planner.GateUpApart:
		return (e*h+i)*n + c
	case k.GateUp == planner.GateUpInterleaved:
		return (e*2*n+2*c+part)*h + i
	case k.TransB:
		return (e*2*n+part*n+c)*h + i
	}
	return (e*h+i)*2*n + part*n + c
}

// activated is the activation of a number; none is steeper than 1.2, nor errs by more than 2^-20 of a number.
func activated(n inexact, by planner.Activation) inexact {
	v := n.is
	switch by {
	case planner.ReLU:
		v = max(v, 0)
	case planner.SiLU:
		v /= 1 + math.Exp(-v)
	case planner.GELU:
		v *= (1 + math.Tanh(math.Sqrt(2/math.Pi)*(v+0.044715*v*v*v))) / 2
	default:
		return n
	}
	return inexact{is: v, err: 1.2*n.err + 0x1p-20*(math.Abs(n.is)+n.err)}
}
