package drivertest

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/elemtype"
	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/planner"
)

// scaled adds scales of some kind to an epilogue, if the type of elements has any.
func (s *suite) scaled(e planner.Epilogue, which int) planner.Epilogue {
	if elemtype.Scaled(s.of) {
		row, tensor := planner.PerRow, planner.PerTensor
		e.ScaleA, e.ScaleB = [...]planner.Scaling{row, row, tensor, "", tensor}[which%5],
			[...]planner.Scaling{row, tensor, row, row, ""}[which%5]
	}
	return e
}

// scaledCases returns epilogues with scales, with all ways in which plans cut tiles.
func (s *suite) scaledCases(one func(planner.Epilogue) planner.Batch,
	windows func(*planner.Device)) []epilogueCase {
	rows := planner.Epilogue{ScaleA: planner.PerRow, ScaleB: planner.PerRow}
	with := func(e planner.Epilogue) planner.Epilogue {
		e.ScaleA, e.ScaleB = rows.ScaleA, rows.ScaleB
		return e
	}
	everything := with(all)
	cut := planner.Options{Tile: "small", Schedule: planner.ScheduleSplitK}
	return []epilogueCase{
		{name: "scales of tensors", e: planner.Epilogue{ScaleA: planner.PerTensor, ScaleB: planner.PerTensor},
			batch: mixed},
		{name: "scales of rows", e: rows, batch: mixed},
		{name: "scales of A", e: planner.Epilogue{ScaleA: planner.PerRow}, batch: mixed, more: true},
		{name: "scales of B", e: planner.Epilogue{ScaleB: planner.PerRow}, batch: mixed, more: true},
		{name: "scales of rows that are gathered", e: planner.Epilogue{ScaleA: planner.PerRow,
			ScaleB: planner.PerTensor, GatherRows: 37}, batch: mixed},
		{name: "a scale of A that is gathered", e: planner.Epilogue{ScaleA: planner.PerTensor,
			GatherRows: 37}, batch: mixed, more: true},
		{name: "scales of both of a gate", e: with(planner.Epilogue{Gated: true, Bias: true}), batch: mixed},
		{name: "a scale of each of a gate", e: planner.Epilogue{Gated: true, ScaleB: planner.PerTensor},
			batch: mixed, more: true},
		{name: "all with scales", e: everything, batch: mixed},
		{name: "scales, cut along K", e: with(planner.Epilogue{Activation: planner.ReLU, Bias: true,
			ScatterRows: 60, Weights: true}), batch: one,
			o: cut, edit: manyUnits, has: sumsPartials},
		{name: "scales, gathered and cut along K", e: with(planner.Epilogue{GatherRows: 60}), batch: one,
			o: cut, edit: manyUnits, has: sumsPartials},
		{name: "scales of tensors, cut along K", e: planner.Epilogue{ScaleA: planner.PerTensor,
			ScaleB: planner.PerTensor, GatherRows: 60}, batch: one,
			o: cut, edit: manyUnits, has: sumsPartials, more: true},
		{name: "scales, several tiles a worker", e: everything, batch: mixed,
			o: planner.Options{Schedule: planner.ScheduleBatched}, edit: oneUnit, has: isLoop, more: true},
		{name: "scales, windows", e: with(planner.Epilogue{Gated: true, Bias: true, ScatterRows: 130}),
			batch: mixed, edit: windows,
			has: func(l encoding.Launch) bool { return l.BaseC > 0 }},
	}
}

// testScales takes scales that are not finite, signed zeros, and the ends of fp32's range. Without products
// they have no effect.
func (s *suite) testScales(t *testing.T) {
	if !elemtype.Scaled(s.of) {
		t.Skip("elements have no scales")
	}
	inf, nan, minus := float32(math.Inf(1)), float32(math.NaN()), float32(math.Copysign(0, -1))
	special := []float32{0, minus, 1, -0.5, 0x1p-149, -0x1p-130, 0x1p-126, 0x1p100, -0x1p120, math.MaxFloat32}
	if s.finiteOnly == "" {
		special = append(special, inf, -inf, nan)
	}
	for _, c := range []struct {
		name string
		k    []int
		o    planner.Options
		edit func(*planner.Device)
	}{
		{"whole tiles", []int{0, 9}, planner.Options{Tile: "small"}, nil},
		{"split tiles", []int{400}, planner.Options{Tile: "small", Schedule: planner.ScheduleSplitK},
			manyUnits},
	} {
		for _, e := range []planner.Epilogue{{ScaleA: planner.PerRow, ScaleB: planner.PerRow},
			{ScaleA: planner.PerTensor, ScaleB: planner.PerRow}} {
			t.Run(fmt.Sprintf("%s/%s", c.name, e.ScaleA), func(t *testing.T) {
				var b planner.Batch
				for i, beta := range []float32{0, 1} {
					for _, k := range c.k {
						b = append(b, planner.Problem{M: len(special), N: len(special), K: k,
							Alpha: planner.Scale([]float64{1, -0.5}[i]), Beta: float64(beta)})
					}
				}
				d := s.placeEpilogue(b, e, newRand(6), uniform(6))
				for i := range b {
					for at, x := range special {
						d.rows[b[i].ScaleB+at] = int32(math.Float32bits(x))
						if e.ScaleA == planner.PerRow {
							d.rows[b[i].ScaleA+at] = int32(math.Float32bits(x))
						}
					}
				}
				c.o.Epilogue = e
				j := s.prepareEpilogue(t, b, &d, c.o, c.edit)
				require.Equal(t, c.edit != nil, j.plan.Workspace > 0)
				j.check(t, &d, false)
			})
		}
	}
}
