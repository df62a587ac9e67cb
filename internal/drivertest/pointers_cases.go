package drivertest

import (
	"slices"
	"testing"

	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/planner"
)

// every has pointers to all operands.
var every = planner.Pointers{A: true, B: true, C: true}

// testPointers runs plans whose matrices are all in separate buffers.
func (s *suite) testPointers(t *testing.T) {
	if !s.device.Info().Planner.Pointers {
		t.Skip("has no kernels for pointers")
	}
	t.Run("Parts", s.testPointerParts)
	t.Run("Tiles", s.testPointerTiles)
	t.Run("Update", func(t *testing.T) {
		s.runUpdateWithEpilogue(t, planner.Epilogue{Activation: planner.ReLU, Pointers: every})
	})
	t.Run("Ragged", s.testPointerRagged)
	t.Run("Records", s.testPointerRecords)
}

// aligned returns a suite with aligned matrices by pointers, and aligned rows.
func (s *suite) aligned(by *planner.Pointers) *suite {
	own := *s
	own.step, by.Aligned = 8, true
	return &own
}

func (s *suite) testPointerParts(t *testing.T) {
	a, b, c := planner.Pointers{A: true}, planner.Pointers{B: true}, planner.Pointers{C: true}
	cut := func(planner.Epilogue) planner.Batch { return splitBatch() }
	many := func(planner.Epilogue) planner.Batch {
		return slices.Repeat(planner.Batch{{M: 60, N: 50, K: 30}}, 20)
	}
	windows := func(d *planner.Device) { d.MaxBinding = 16 << 10 }
	s.eachEpilogue(t, []epilogueCase{
		{name: "A", e: planner.Epilogue{Pointers: a}, batch: mixed},
		{name: "B", e: planner.Epilogue{Pointers: b}, batch: mixed},
		{name: "C", e: planner.Epilogue{Pointers: c}, batch: mixed},
		{name: "all", e: planner.Epilogue{Pointers: every}, batch: mixed},
		{name: "A aligned", e: planner.Epilogue{Pointers: a}, aligned: true, batch: mixed, more: true},
		{name: "B aligned", e: planner.Epilogue{Pointers: b}, aligned: true, batch: mixed, more: true},
		{name: "C aligned", e: planner.Epilogue{Pointers: c}, aligned: true, batch: mixed, more: true},
		{name: "all aligned", e: planner.Epilogue{Pointers: every}, aligned: true, batch: mixed},
		{name: "gated", e: planner.Epilogue{Gated: true, Pointers: b}, batch: mixed},
		{name: "gated, aligned", e: planner.Epilogue{Gated: true, Activation: planner.ReLU, Pointers: every},
			aligned: true, batch: mixed},
		{name: "gated with B in a buffer", e: planner.Epilogue{Gated: true,
			Pointers: planner.Pointers{A: true, C: true}}, batch: mixed, more: true},
		{name: "gathered", e: planner.Epilogue{GatherRows: 37, Pointers: a}, batch: mixed},
		{name: "scattered", e: planner.Epilogue{ScatterRows: 120, Pointers: c}, batch: mixed},
		{name: "with all", e: planner.Epilogue{Activation: planner.ReLU, Bias: true, Gated: true,
			GatherRows: 50, ScatterRows: 150, Weights: true, Pointers: every}, batch: mixed},
		{name: "with all, aligned", e: planner.Epilogue{Bias: true, GatherRows: 50, ScatterRows: 150,
			Weights: true, Pointers: every}, aligned: true, batch: mixed, more: true},
		{name: "A and B cut along K", e: planner.Epilogue{Pointers: planner.Pointers{A: true, B: true}},
			batch: cut, o: split, edit: manyUnits, has: sumsPartials},
		{name: "C cut along K", e: planner.Epilogue{Pointers: c}, batch: cut, o: split, edit: manyUnits,
			has: sumsPartials},
		{name: "all cut along K", e: planner.Epilogue{ScatterRows: 60, Pointers: every}, batch: cut,
			o: planner.Options{Tile: "small", Schedule: planner.ScheduleStreamK}, edit: manyUnits,
			has: sumsPartials},
		{name: "several tiles a worker", e: planner.Epilogue{Bias: true, Pointers: every}, batch: mixed,
			o: planner.Options{Schedule: planner.ScheduleBatched}, edit: oneUnit, has: isLoop},
		{name: "windows", e: planner.Epilogue{Gated: true, Pointers: b}, batch: many, edit: windows,
			has: func(l encoding.Launch) bool { return l.BaseA > 0 && l.BaseC > 0 }},
	}, func(t *testing.T, c epilogueCase) {
		own := s
		if c.aligned {
			own = s.aligned(&c.e.Pointers)
		}
		c.o.Epilogue = c.e
		rng := newRand(uint64(len(c.name)))
		batch := c.batch(c.e)
		d := own.placeEpilogue(batch, c.e, rng, few(rng))
		j := own.preparePointed(t, batch, &d, c.o, c.edit)
		c.requireLaunch(t, j)
		j.check(t, &d, true)
	})
}

// testPointerTiles runs all tile shapes.
func (s *suite) testPointerTiles(t *testing.T) {
	facts := s.device.Info().Planner
	ran := 0
	for i := range facts.Kernels {
		shape := facts.Kernels[i].Tile
		if ran > 0 && s.oneTile != "" {
			t.Log("one tile:", s.oneTile)
			return
		}
		e := planner.Epilogue{Pointers: every}
		fitting := s.alongK(shape)
		if !fitting.fitsWith(&facts, shape, e) {
			continue
		}
		ran++
		for _, aligned := range []bool{false, true} {
			if fitting.lines && !aligned {
				continue
			}
			t.Run(shape.Name+map[bool]string{true: "/aligned"}[aligned], func(t *testing.T) {
				own := fitting
				if aligned {
					own = fitting.aligned(&e.Pointers)
				}
				rng := newRand(uint64(i))
				var b planner.Batch
				for trans := range 4 {
					b = append(b, planner.Problem{M: shape.TM + 5, N: shape.TN + 3, K: 2*shape.TK + 7,
						TransA: trans&1 != 0, TransB: trans&2 != 0, Beta: float64(trans % 3)})
				}
				d := own.placeEpilogue(b, e, rng, few(rng))
				own.preparePointed(t, b, &d, planner.Options{Tile: shape.Name, Epilogue: e},
					nil).check(t, &d, true)
			})
		}
	}
}

// testPointerRagged runs layers of experts with separate weights and sizes on the device.
func (s *suite) testPointerRagged(t *testing.T) {
	for _, c := range []struct {
		name    string
		r       planner.Ragged
		e       planner.Epilogue
		aligned bool
		apart   bool // rows are 16 bytes apart, but addresses are not aligned
	}{
		{name: "B", e: planner.Epilogue{Pointers: planner.Pointers{B: true}}, r: planner.Ragged{Beta: 1}},
		{name: "B aligned", e: planner.Epilogue{Pointers: planner.Pointers{B: true}}, aligned: true},
		{name: "B at any address", e: planner.Epilogue{Pointers: planner.Pointers{B: true}}, apart: true},
		{name: "gated", e: planner.Epilogue{Gated: true, GatherRows: 40, Pointers: planner.Pointers{B: true}},
			r: planner.Ragged{TransB: true}},
		{name: "gated, at any address", e: planner.Epilogue{Gated: true, Pointers: planner.Pointers{B: true}},
			apart: true},
		{name: "gated, aligned", e: planner.Epilogue{Gated: true, Pointers: every}, aligned: true},
		{name: "A and C", e: planner.Epilogue{Bias: true, Pointers: planner.Pointers{A: true, C: true}},
			r: planner.Ragged{TransA: true, Beta: 1}},
		{name: "all", e: planner.Epilogue{Activation: planner.ReLU, GatherRows: 60, ScatterRows: 170,
			Weights: true, Pointers: every}},
		{name: "depth", e: planner.Epilogue{Bias: true, Weights: true, Pointers: every},
			r: planner.Ragged{Form: planner.EndsOfDepth, TransA: true, Beta: 1}},
		{name: "depth, gated and aligned", e: planner.Epilogue{Gated: true, ScatterRows: 60, Pointers: every},
			r: planner.Ragged{Form: planner.EndsOfDepth}, aligned: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			own := s
			if c.aligned || c.apart {
				own = s.aligned(&c.e.Pointers)
				c.e.Pointers.Aligned = c.aligned
			}
			own.runRaggedWithEpilogue(t, layer(c.r), c.e)
		})
	}
}

// testPointerRecords runs various problems with separate operands and records on the device.
func (s *suite) testPointerRecords(t *testing.T) {
	for _, c := range []struct {
		name    string
		e       planner.Epilogue
		transB  bool
		aligned bool
	}{
		{name: "B", e: planner.Epilogue{Bias: true, Pointers: planner.Pointers{B: true}}},
		{name: "A and C", e: planner.Epilogue{GatherRows: 75, Pointers: planner.Pointers{A: true, C: true}},
			transB: true},
		{name: "gated, aligned", e: planner.Epilogue{Gated: true, Activation: planner.ReLU, ScatterRows: 100,
			Weights: true, Pointers: every}, aligned: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			own := s
			if c.aligned {
				own = s.aligned(&c.e.Pointers)
			}
			own.prepareRecords(t, recordProblems(false, c.transB, c.e.Gated), c.e).checkSets(t)
		})
	}
}
