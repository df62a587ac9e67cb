package planner

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/internal/invalid"
	"github.com/batchgemm/batchgemm/planner/element"
)

func TestLayerPlans(t *testing.T) {
	for name, want := range map[string]struct{ few, many, experts, sums int }{
		"h200":     {1, 32, 64, 4 * 2048 / 8 / 256},
		"mi210":    {1, 32, 64, 4 * 2048 / 8 / 256},
		"lavapipe": {16, 16, 512, 4 * 2048 / 2 / 64},
	} {
		p := New(device(t, name))
		groups := func(r Routing) int {
			plan, err := p.PlanStep(r)
			require.NoError(t, err)
			require.Len(t, plan.Launches, 1)
			require.Equal(t, r.Rows()+3*r.Tokens*r.TopK, plan.ExtentC)
			require.Len(t, plan.Encode(nil), plan.Words)
			return plan.Launches[0].Count
		}
		require.Equal(t, want.few, groups(Routing{Choices: Choices{Tokens: 1, TopK: 8, Experts: 128}}))
		require.Equal(t, want.many, groups(Routing{Choices: Choices{Tokens: 1024, TopK: 8, Experts: 128}}))
		require.Equal(t, want.experts, groups(Routing{Choices: Choices{Tokens: 512, TopK: 8, Experts: 4096}}))
		plan, err := p.PlanStep(Combine{Choices: Choices{Tokens: 4, TopK: 8, Experts: 2}, Hidden: 2048,
			Type: element.BF16})
		require.NoError(t, err)
		require.Equal(t, want.sums, plan.Launches[0].Count)
	}
}

// TestLayerPlan: what is asked of any plan.
func TestLayerPlan(t *testing.T) {
	p := New(device(t, "h200"))
	c := Choices{Tokens: 10, TopK: 3, Experts: 65, Index64: true}
	require.Equal(t, 128, c.Rows())
	plan, err := p.PlanStep(Routing{Choices: c, Weights: element.F16})
	require.NoError(t, err)
	require.True(t, plan.Takes().Sizes)
	require.Equal(t, [3]int{60, 30, 218}, [3]int{plan.ExtentSizes, plan.ExtentA, plan.ExtentC})
	require.Zero(t, plan.Encode(nil)[encoding.StatusWord])
	require.Equal(t, "route/int64/f16", plan.Explain().Launches[0].Kernel)
	_, err = json.Marshal(plan)
	require.ErrorContains(t, err, "cannot be written")

	none, err := p.PlanStep(Combine{Choices: Choices{TopK: 3, Experts: 65}, Hidden: 9})
	require.NoError(t, err)
	require.Empty(t, none.Launches)
}

func TestLayerLimits(t *testing.T) {
	p, good := New(device(t, "lavapipe")), Choices{Tokens: 5, TopK: 2, Experts: 3}
	for _, test := range []struct {
		change func(*Combine)
		want   string
	}{
		{func(c *Combine) { c.Experts = 0 }, "0 experts are not in [1, 4096]"},
		{func(c *Combine) { c.TopK = 0 }, "0 choices of a token are not in [1, 16]"},
		{func(c *Combine) { c.Tokens = MaxDim }, "tokens, with 2 choices each, are not in [0, "},
		{func(c *Combine) { c.Hidden = -1 }, "-1 columns of rows are not in"},
		{func(c *Combine) { c.Type = element.Int8 }, "rows cannot be of int8"},
		{func(c *Combine) { c.Tokens, c.Hidden = 1<<14, 1<<14 }, "can bind"},
	} {
		c := Combine{Choices: good, Hidden: 8}
		test.change(&c)
		_, err := p.PlanStep(c)
		require.ErrorIs(t, err, invalid.Err)
		require.ErrorContains(t, err, test.want)
	}
	_, err := p.PlanStep(Routing{Choices: good, Weights: element.Int4})
	require.ErrorContains(t, err, "weights cannot be of int4")
}
