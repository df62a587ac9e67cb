package planner

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/invalid"
	"github.com/batchgemm/batchgemm/planner/element"
)

func scaledWeights(of element.Type, s Scaling) Options {
	if of == element.Int4 {
		return Options{TypeA: element.BF16, TypeB: of, Epilogue: Epilogue{ScaleB: s}}
	}
	return Options{TypeA: of, TypeC: element.BF16, Epilogue: Epilogue{ScaleA: s, ScaleB: s}}
}

var plannedExperts = Experts{Choices: Choices{Tokens: 10, TopK: 4, Experts: 8}, Hidden: 256,
	Intermediate: 192, TransB: true, Gated: true, Activation: SiLU}

// TestExpertsScales: where scales lie, and which steps there are.
func TestExpertsScales(t *testing.T) {
	p, own := New(device(t, "h200")), 64+3*40
	for _, test := range []struct {
		name                  string
		change                func(*Experts)
		o                     Options
		gateUp, down, words   int
		gate, quantize, fused bool
	}{
		{"none", func(*Experts) {}, Options{TypeA: element.BF16}, 0, 0, 0, false, false, true},
		{"rows", func(*Experts) {}, scaledWeights(element.Int8, PerRow), own + 10 + 40, 8 * 384, 8 * 256,
			true, true, false},
		{"blocks", func(x *Experts) { x.Intermediate = 256 }, scaledWeights(element.E4M3, PerBlock),
			own + 2*10 + 2*40, 8 * 4 * 2, 8 * 2 * 2, true, true, false},
		{"blocks of both", func(*Experts) {}, scaledWeights(element.E4M3, PerBlock), own + 2*10 + 2*40,
			8 * 3 * 2, 8 * 2 * 2, true, true, false},
		{"groups", func(x *Experts) { x.TransB = false }, scaledWeights(element.Int4, PerGroup64), own,
			8 * 4 * 384, 8 * 3 * 256, true, false, false},
		{"groups apart", func(x *Experts) { x.TransB, x.GateUp = false, GateUpApart },
			scaledWeights(element.Int4, PerGroup64), own, 8 * 4 * 384, 8 * 3 * 256, true, false, false},
		{"clamped", func(x *Experts) {
			x.Activation, x.GateUp, x.TransB, x.Bias = SwiGLUClamped, GateUpInterleaved, false, true
		}, Options{}, 0, 0, 0, true, false, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			x := plannedExperts
			test.change(&x)
			plan, err := p.PlanExperts(x, test.o)
			require.NoError(t, err)
			down := test.gateUp + test.down
			require.Equal(t, [3]int{test.gateUp, down, down + test.words},
				[3]int{plan.ScaleGateUp, plan.ScaleDown, plan.ScalesLen})
			require.Equal(t, [3]bool{test.gate, test.quantize, test.fused}, [3]bool{plan.Gate != nil,
				plan.Quantize != nil, plan.First.Options.Epilogue.Gated})
			require.Equal(t, x.GateUp == GateUpApart, plan.Up != nil)
			if plan.ScalesLen > 0 {
				require.LessOrEqual(t, max(plan.First.ExtentRows, plan.Second.ExtentRows), plan.ScalesLen)
				require.Equal(t, plan.ScalesLen, plan.Second.ExtentRows)
			}
		})
	}
}

func TestExpertsMistakes(t *testing.T) {
	p := New(device(t, "h200"))
	for _, test := range []struct {
		change func(*Experts, *Options)
		want   string
	}{
		{func(_ *Experts, o *Options) { o.Epilogue.ScaleB = PerBlock },
			"a layer has both by row or by block"},
		{func(_ *Experts, o *Options) { o.Epilogue = Epilogue{ScaleA: PerTensor, ScaleB: PerTensor} },
			"a layer has both by row or by block"},
		{func(_ *Experts, o *Options) { o.Epilogue.ZeroA = true }, "only scales are theirs"},
		{func(_ *Experts, o *Options) { *o = scaledWeights(element.Int4, PerGroup64) }, "TransB is set"},
		{func(_ *Experts, o *Options) { *o = scaledWeights(element.Int8, PerBlock) }, "cannot be of int8"},
		{func(x *Experts, _ *Options) { x.Activation = "elu" }, `unknown activation "elu"`},
		{func(_ *Experts, o *Options) { o.TypeC = element.Int8 }, "rows cannot be of int8"},
	} {
		x, o := plannedExperts, scaledWeights(element.E4M3, PerRow)
		test.change(&x, &o)
		_, err := p.PlanExperts(x, o)
		require.ErrorIs(t, err, invalid.Err)
		require.ErrorContains(t, err, test.want)
	}
}
