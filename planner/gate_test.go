package planner

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/internal/invalid"
	"github.com/batchgemm/batchgemm/planner/element"
)

// TestGatePlans: the thread groups follow from the columns, 32 threads a row up to 128 vectors, then more.
func TestGatePlans(t *testing.T) {
	p := New(device(t, "h200"))
	for inner, rows := range map[int]int{1: 8, 768: 8, 1024: 8, 1032: 4, 4096: 2, 14336: 1, 1 << 20: 1} {
		plan, err := p.PlanStep(Gate{Choices: Choices{Tokens: 12, TopK: 2, Experts: 70}, Intermediate: inner,
			Gated: true, Type: element.BF16})
		require.NoError(t, err)
		require.Equal(t, 24/rows, plan.Launches[0].Count, inner)
	}
	plan, err := New(device(t, "lavapipe")).PlanStep(Gate{Choices: Choices{Tokens: 40000, Experts: 1,
		TopK: 2}, Intermediate: 3})
	require.NoError(t, err)
	require.Equal(t, 1<<16-1, plan.Launches[0].Count) // a workgroup for a row
	plan, err = p.PlanStep(Gate{Choices: Choices{Tokens: 4, Experts: 1, TopK: 2}})
	require.NoError(t, err)
	require.Empty(t, plan.Launches) // no columns
}

// TestGatePlan: what runs have, and where the parts of a result begin.
func TestGatePlan(t *testing.T) {
	p := New(device(t, "h200"))
	g := Gate{Choices: Choices{Tokens: 3, TopK: 3, Experts: 65, Index64: true}, Intermediate: 5, Gated: true,
		Interleaved: true, Activation: GELU, Type: element.F16}
	plan, err := p.PlanStep(g)
	require.NoError(t, err)
	require.Equal(t, "gate/f16", plan.Explain().Launches[0].Kernel)
	require.Equal(t, encoding.Operands{Sizes: true}, plan.Takes())
	require.Equal(t, [3]int{65, 90, 45}, [3]int{plan.ExtentSizes, plan.ExtentA, plan.ExtentC})

	back := GateBackward{Gate: g}
	plan, err = p.PlanStep(back)
	require.NoError(t, err)
	require.Equal(t, "gate_backward/int64/f16", plan.Explain().Launches[0].Kernel)
	require.Equal(t, encoding.Operands{B: true, Sizes: true, Rows: true}, plan.Takes())
	require.Equal(t, [3]int{128 + 27, 90, 45}, [3]int{plan.ExtentSizes, plan.ExtentA, plan.ExtentB})
	hw, dweights, all := back.Words()
	require.Equal(t, [3]int{48, 48 + 24, 72 + 9}, [3]int{hw, dweights, all})
	require.Equal(t, [2]int{18, 81}, [2]int{plan.ExtentRows, plan.ExtentC})
}

func TestGateLimits(t *testing.T) {
	p := New(device(t, "h200"))
	for _, test := range []struct {
		change func(*Gate)
		want   string
	}{
		{func(g *Gate) { g.Intermediate = -1 }, "-1 columns of a gate are not in [0, 16777215]"},
		{func(g *Gate) { g.Intermediate = encoding.MaxGate + 1 }, "16777216 columns of a gate are not in"},
		{func(g *Gate) { g.Interleaved = true }, "there is no up"},
		{func(g *Gate) { g.Activation = "tanh" }, `unknown activation "tanh"`},
		{func(g *Gate) { g.Type = element.E4M3 }, "gates cannot be of e4m3"},
		{func(g *Gate) { g.Activation = SwiGLUClamped }, "needs an up"},
		{func(g *Gate) { g.Limit = -1 }, "the limit is negative"},
		{func(g *Gate) { g.Alpha = float32(math.NaN()) }, "alpha NaN or limit 0 is not finite"},
		{func(g *Gate) { g.TypeC = element.E4M3 }, "TypeC or Scales is set"},
		{func(g *Gate) { g.Scale = PerTensor }, `scale "tensor" of a result is not row or block`},
		{func(g *Gate) { g.Scale, g.TypeC = PerBlock, element.Int8 }, "cannot be of int8"},
		{func(g *Gate) { g.Scale, g.TypeC, g.Scales = PerRow, element.Int8, 93 }, "word 93 are not in [94, "},
		{func(g *Gate) { g.Experts = 4097 }, "4097 experts are not in"},
	} {
		g := Gate{Choices: Choices{Tokens: 5, TopK: 2, Experts: 3}, Intermediate: 8}
		test.change(&g)
		_, err := p.PlanStep(g)
		require.ErrorIs(t, err, invalid.Err)
		require.ErrorContains(t, err, test.want)
		_, err = p.PlanStep(GateBackward{Gate: g})
		require.ErrorContains(t, err, test.want)
	}
}

// TestQuantizePlan: words of sizes hold scales too.
func TestQuantizePlan(t *testing.T) {
	p := New(device(t, "h200"))
	g := Gate{Choices: Choices{Tokens: 3, TopK: 3, Experts: 65}, Intermediate: 300, Type: element.BF16,
		Scale: PerBlock, TypeC: element.E4M3, Scales: 200}
	plan, err := p.PlanStep(g)
	require.NoError(t, err)
	require.Equal(t, "gate/bf16/e4m3", plan.Explain().Launches[0].Kernel)
	require.Equal(t, [3]int{200 + 9*3, 2700, 2700}, [3]int{plan.ExtentSizes, plan.ExtentA, plan.ExtentC})
	_, err = p.PlanStep(GateBackward{Gate: g})
	require.ErrorContains(t, err, "neither Scale nor All")
	g.All, g.Scales = true, 0
	plan, err = p.PlanStep(g)
	require.NoError(t, err)
	require.Equal(t, 27, plan.ExtentSizes)
	require.Zero(t, plan.Layer.Experts)
}
