package drivertest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/batchgemm/batchgemm/internal/elemtype"
	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/internal/reference"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

// testZeros multiplies elements of Int8 with zero points of A.
func (s *suite) testZeros(t *testing.T) {
	if facts := s.device.Info().Planner; s.oneType != "" || !facts.Epilogues ||
		!slices.Contains(facts.Types, element.Int8) {
		t.Skip("one type, or no kernels for int8 with an epilogue")
	}
	for i, ofC := range elemtype.TypesC(element.Int8) {
		typed := *s
		typed.of, typed.ofC = element.Int8, ofC
		t.Run(ofC.String(), func(t *testing.T) {
			for k, c := range typed.zeroCases() {
				if typed.turn(k) {
					typed.part(t, c.name, func(t *testing.T) { typed.runZeros(t, c) })
				}
			}
			if i == 0 {
				typed.runTilesWithEpilogue(t, zerosOf, (*suite).runZeros)
				typed.part(t, "Update", func(t *testing.T) {
					typed.runUpdateWithEpilogue(t,
						zerosOf(planner.Epilogue{Activation: planner.ReLU, Gated: true}))
				})
			}
			if i == 0 || !s.slow() {
				typed.part(t, "Ragged", typed.testZerosRagged)
				typed.part(t, "Records", typed.testZeroRecords)
			}
		})
	}
}

// zerosOf returns an epilogue with a zero point for each row of A, zeroOf one with one zero point.
func zerosOf(e planner.Epilogue) planner.Epilogue {
	e.ScaleA, e.ScaleB, e.ZeroA = planner.PerRow, planner.PerRow, true
	return e
}

func zeroOf(e planner.Epilogue) planner.Epilogue {
	e = zerosOf(e)
	e.ScaleA = planner.PerTensor
	return e
}

// zeroCases returns epilogues with zero points, with all ways in which plans cut tiles.
func (s *suite) zeroCases() []epilogueCase {
	everything := zerosOf(all)
	everything.Activation = planner.ReLU
	parts := func(planner.Epilogue) planner.Batch { return splitBatch() }
	cut := planner.Options{Tile: "small", Schedule: planner.ScheduleSplitK}
	windows := func(d *planner.Device) { d.MaxBinding = s.ofC.Bytes() << 14 }
	cases := []epilogueCase{
		{name: "rows", e: zerosOf(planner.Epilogue{}), batch: mixed},
		{name: "one", e: zeroOf(planner.Epilogue{Bias: true}), batch: mixed},
		{name: "gathered", e: zerosOf(planner.Epilogue{GatherRows: 37}), batch: mixed},
		{name: "one, gathered", e: zeroOf(planner.Epilogue{GatherRows: 37}), batch: mixed},
		{name: "gated", e: zerosOf(planner.Epilogue{Gated: true, Bias: true}), batch: mixed},
		{name: "all", e: everything, batch: mixed},
		{name: "all, SiLU", e: zerosOf(all), batch: mixed},
		{name: "cut along K", e: zerosOf(planner.Epilogue{Activation: planner.ReLU, Bias: true,
			ScatterRows: 60, Weights: true}), batch: parts, o: cut, edit: manyUnits, has: sumsPartials},
		{name: "gathered and cut along K", e: zerosOf(planner.Epilogue{GatherRows: 60}), batch: parts, o: cut,
			edit: manyUnits, has: sumsPartials},
		{name: "one, gathered and cut along K", e: zeroOf(planner.Epilogue{GatherRows: 60}), batch: parts,
			o: cut, edit: manyUnits, has: sumsPartials},
		{name: "several tiles a worker", e: everything, batch: mixed,
			o: planner.Options{Schedule: planner.ScheduleBatched}, edit: oneUnit, has: isLoop},
		{name: "dynamic", e: zeroOf(planner.Epilogue{}), batch: mixed,
			o: planner.Options{Schedule: planner.ScheduleDynamic}, edit: fewPlaces, has: s.isDynamic},
		{name: "windows", e: zerosOf(planner.Epilogue{Gated: true, ScatterRows: 130}), batch: mixed,
			edit: windows,
			has:  func(l encoding.Launch) bool { return l.BaseC > 0 }},
	}
	if s.ofC == element.F32 { // see longCases: only the last piece subtracts zero points
		for _, c := range s.longCases() {
			c.name, c.e = c.name+" with zero points", zerosOf(c.e)
			cases = append(cases, c)
		}
	}
	return cases
}

// runZeros checks a case with numbers whose results are exact, and with all numbers, zero points and sums of
// any size.
func (s *suite) runZeros(t *testing.T, c epilogueCase) {
	t.Helper()
	c.o.Epilogue = c.e
	rng, b := newRand(uint64(len(c.name))), c.batch(c.e)
	d := s.placeEpilogue(b, c.e, rng, few(rng))
	j := s.prepareEpilogue(t, b, &d, c.o, c.edit)
	c.requireLaunch(t, j)
	j.check(t, &d, c.e.Activation != planner.SiLU)
	d = s.placeEpilogue(b, c.e, rng, func(v []float32) { reference.UniformOf(element.Int8, rng, v) })
	for i := range b {
		p := &b[i]
		d.zeros(p.ScaleA, c.e.ScalesA(p), func() int32 { return int32(rng.IntN(256) - 128) })
		d.zeros(p.ScaleB, c.e.ScalesB(p), func() int32 {
			return int32(rng.IntN(1<<25)-1<<24) >> rng.IntN(20)
		})
	}
	s.prepareEpilogue(t, b, &d, c.o, c.edit).check(t, &d, false)
}

// zeros draws zero points, or sums, after each of n scales.
func (d *epilogueData) zeros(at, n int, draw func() int32) {
	for i := at + 1; i < at+n; i += 2 {
		d.rows[i] = draw()
	}
}

// fewZeros draws zero points with which results stay exact.
func fewZeros(rng *rand.Rand) func() int32 {
	return func() int32 { return int32(rng.IntN(41) - 20) }
}

// testZerosRagged runs experts whose sizes are on the device.
func (s *suite) testZerosRagged(t *testing.T) {
	everything := zerosOf(all)
	everything.Activation = planner.ReLU
	for i, c := range []struct {
		e planner.Epilogue
		r planner.Ragged
	}{
		{everything, planner.Ragged{TransB: true}},
		{zerosOf(planner.Epilogue{}), planner.Ragged{TransA: true, Beta: 1}},
		{zeroOf(planner.Epilogue{Gated: true}), planner.Ragged{}},
		{zerosOf(planner.Epilogue{Bias: true}), planner.Ragged{Form: planner.EndsOfDepth, TransA: true}},
		{zeroOf(planner.Epilogue{GatherRows: 30}), planner.Ragged{Form: planner.EndsOfDepth,
			TransB: true, Beta: -0.5}},
	} {
		t.Run(fmt.Sprint(i), func(t *testing.T) { s.runRaggedWithEpilogue(t, layer(c.r), c.e) })
	}
}

// testZeroRecords runs various problems whose records are on the device.
func (s *suite) testZeroRecords(t *testing.T) {
	rows := planner.Epilogue{Activation: planner.ReLU, Bias: true, GatherRows: 80, ScatterRows: 100,
		Weights: true}
	for i, e := range []planner.Epilogue{zeroOf(planner.Epilogue{Gated: true}), zerosOf(rows),
		zerosOf(planner.Epilogue{})} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			j := s.prepareRecords(t, recordProblems(e.GatherRows == 0, true, e.Gated), e)
			j.checkSets(t)
			j.checkHostile(t)
		})
	}
}
