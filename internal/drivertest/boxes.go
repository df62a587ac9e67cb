package drivertest

import (
	"cmp"
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/elemtype"
	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/internal/tile"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

// testBoxes forces the tiles of boxes.
func (s *suite) testBoxes(t *testing.T) {
	facts := s.device.Info().Planner
	for i := range facts.Kernels {
		shape := facts.Kernels[i].Tile
		if own := *s.alongK(shape); shape.Boxes && own.fits(&facts, shape) {
			t.Run(shape.Name, func(t *testing.T) {
				own.forced, own.step = shape.Name, wide.of(s.of).step()
				own.testBoxedRows(t, shape)
				own.testBoxedProblems(t, shape)
				own.testBoxedEpilogues(t)
				t.Run("Invariant", own.testRaggedInvariant)
			})
		}
	}
}

// testBoxedRows has groups of no rows, of a few, and of more than a tile, of all of A or a part of it. Their
// sizes may be wrong, and K may end anywhere.
func (s *suite) testBoxedRows(t *testing.T, shape *tile.Shape) {
	tm := int32(shape.TM)
	for i, k := range []int{1, 8, 2*shape.TK - 1, 2 * shape.TK, 9*shape.TK + 3, 700} {
		l := wide.of(s.of).ends(planner.Ragged{Form: planner.EndsOfRows, Groups: 6, M: 4*shape.TM + 5,
			N: []int{shape.TN + 3, 8, 3*shape.TN + 64}[i%3], K: k, TransB: true,
			Alpha: planner.Scale([]float64{1, -0.5, 1, 2, 1, 0}[i]), Beta: []float64{0, -0.5, 0, 1}[i%4],
			Rest: s.rests()[i%2]})
		l.sets = append(l.sets, []int32{tm - 1, 2 * tm, 2 * tm, 3*tm + 1, 3*tm + 65, 4*tm + 4},
			[]int32{1, 64, 65, tm, 2*tm - 63, 2*tm + 129}, []int32{tm, 3, 3, 3, 3, 3},
			[]int32{0, 1, tm * 5, 1, 1, 1})
		t.Run(fmt.Sprint("K ", k), func(t *testing.T) {
			s.prepareRagged(t, l, planner.Options{Tile: s.forced}).checkAll(t)
			on := s.onStream(t).prepareRagged(t, l, planner.Options{Tile: s.forced})
			on.extent = shape.TM + 70
			on.checkAll(t)
		})
	}
}

// testBoxedProblems has problems of any sizes whose tiles are dealt in all ways, by the host and by the
// device.
func (s *suite) testBoxedProblems(t *testing.T, shape *tile.Shape) {
	for i, c := range []struct {
		name     string
		schedule planner.Schedule
		edit     func(*planner.Device)
		has      func(encoding.Launch) bool
	}{
		{"one tile each", planner.ScheduleDataParallel, nil,
			func(l encoding.Launch) bool { return !l.Loop }},
		{"shares", planner.ScheduleLPT, oneUnit, isLoop},
		{"dynamic", planner.ScheduleDynamic, fewPlaces, s.isDynamic},
		{"windows", "", func(d *planner.Device) { d.MaxBinding = 1 << 20 },
			func(l encoding.Launch) bool { return l.BaseA > 0 && l.BaseB > 0 && l.BaseC > 0 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			rng := newRand(uint64(i))
			transA, transB := false, true
			if s.of == element.F64 { // boxes may run across K
				transA, transB = i&1 != 0, i&2 != 0
			}
			b := covering(rng, around(shape.TM), around(shape.TN), around(4*shape.TK), transA, transB)
			b = append(b, irregular(rng, 4, 600, 300)...)
			j := s.prepare(t, b, wide, planner.Options{Tile: s.forced, Schedule: c.schedule}, c.edit)
			require.True(t, j.some(c.has), j)
			j.check(t, uint64(i))
			if c.schedule != "" || s.of == element.F64 { // whose plans are made anew
				return
			}
			plan := new(planner.Plan)
			facts := s.device.Info().Planner
			require.NoError(t, planner.New(&facts).Renew(t.Context(), plan, b, j.plan.Options))
			require.NotEmpty(t, plan.Records)
			require.NoError(t, j.program.Update(context.Background(), plan))
			j.plan = plan
			j.check(t, uint64(i))
		})
	}
}

// testBoxedEpilogues has all that kernels of boxes do to sums.
func (s *suite) testBoxedEpilogues(t *testing.T) {
	epilogues := []planner.Epilogue{
		{Bias: true, Activation: planner.ReLU},
		{Weights: true, ScatterRows: 170},
		{Bias: true, Weights: true, Activation: planner.SiLU},
	}
	if row := planner.PerRow; s.of.Bytes() == 1 {
		epilogues = append(epilogues, planner.Epilogue{ScaleA: row, ScaleB: row, Bias: true,
			ZeroA: elemtype.Whole(s.of)})
	}
	if s.of == element.E4M3 {
		epilogues = append(epilogues, blocksOf(planner.Epilogue{}), blocksOf(planner.Epilogue{Bias: true}))
	}
	for i, e := range epilogues {
		t.Run(fmt.Sprintf("%+v", e), func(t *testing.T) {
			s.runRaggedWithEpilogue(t, planner.Ragged{Form: planner.EndsOfRows, Groups: 5, M: 150,
				N: []int{50, 200, 129, 300}[i%4], K: 200, TransB: true, Beta: []float64{0, 1, -0.5}[i%3]}, e)
			s.runBoxedProblems(t, e)
			e.Pointers = every
			e.Pointers.Aligned = true
			s.runBoxedProblems(t, e)
		})
	}
}

// runBoxedProblems has problems with an epilogue, of which some have addresses.
func (s *suite) runBoxedProblems(t *testing.T, e planner.Epilogue) {
	t.Helper()
	rng := newRand(3)
	b := append(mixed(e), irregular(rng, 6, cmp.Or(e.ScatterRows, 400), 400)...)
	d := s.placeEpilogue(b, e, rng, few(rng))
	j := s.preparePointed(t, b, &d, planner.Options{Epilogue: e, Tile: s.forced}, nil)
	j.check(t, &d, e.Activation != planner.SiLU)
}
