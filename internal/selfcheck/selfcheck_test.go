package selfcheck_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/cpu"
	"github.com/batchgemm/batchgemm/internal/selfcheck"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

// TestRight: the CPU passes with all kinds of options.
func TestRight(t *testing.T) {
	d, err := cpu.Driver().Open(t.Context(), 0)
	require.NoError(t, err)
	defer d.Close()
	facts := d.Info().Planner
	p := planner.New(&facts)
	for name, o := range map[string]planner.Options{
		"default": {}, "stream-k": {Schedule: planner.ScheduleStreamK},
		"zhang": {Rule: planner.RuleZhang2025},
		"bf16":  {TypeA: element.BF16, TypeC: element.BF16},
		"f16":   {TypeA: element.F16, TypeC: element.F32},
		"e4m3":  {TypeA: element.E4M3, TypeC: element.BF16},
		"int8":  {TypeA: element.Int8, TypeC: element.F16},
		"scales": {TypeA: element.Int8, TypeC: element.BF16,
			Epilogue: planner.Epilogue{ScaleA: planner.PerRow, ScaleB: planner.PerRow, ZeroA: true}},
		"int4": {TypeA: element.BF16, TypeB: element.Int4, TypeC: element.BF16,
			Epilogue: planner.Epilogue{ScaleB: planner.PerGroup64}},
		"all": {Epilogue: planner.Epilogue{Bias: true, Activation: planner.SiLU, Gated: true,
			GatherRows: 1000, ScatterRows: 2000, Weights: true}},
		"gelu": {TypeA: element.F16, TypeC: element.F16,
			Epilogue: planner.Epilogue{Activation: planner.GELU}},
	} {
		trans := []planner.Transposition{{}}
		if name == "default" {
			trans = append(trans, planner.Transposition{A: true}, planner.Transposition{B: true})
		}
		for _, trans := range trans {
			groups, err := p.Kernels(o, trans, true)
			require.NoError(t, err)
			for _, g := range groups[:2] {
				c := selfcheck.Case{Options: o, Transposition: trans, Group: g}
				require.NoError(t, selfcheck.Run(t.Context(), d, p, &c), "%s %v %s", name, trans, c.Tile())
			}
		}
	}
}
