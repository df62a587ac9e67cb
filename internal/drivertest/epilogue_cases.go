package drivertest

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/elemtype"
	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/internal/reference"
	"github.com/batchgemm/batchgemm/internal/tile"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

// all has all parts of an epilogue at once.
var all = planner.Epilogue{Activation: planner.SiLU, Bias: true, Gated: true, GatherRows: 50,
	ScatterRows: 150, Weights: true}

// few returns integers so small that products of two products are exact.
func few(rng *rand.Rand) func([]float32) {
	return func(s []float32) { reference.Integers(rng, s, 2) }
}

// testEpilogues runs all parts of epilogues, separately and together, with elements of all types.
func (s *suite) testEpilogues(t *testing.T) {
	if !s.device.Info().Planner.Epilogues {
		t.Skip("has no kernels with an epilogue")
	}
	types := append([]element.Type{element.F32}, s.otherTypes()...)
	for _, of := range types {
		for _, ofC := range elemtype.TypesC(of) {
			t.Run(of.String()+"/"+ofC.String(), func(t *testing.T) {
				if ofC != element.F32 { // other types only differ in stores
					s.sampled(t, 2)
				}
				typed := *s
				typed.of, typed.ofC = of, ofC
				typed.testParts(t)
				typed.part(t, "Activations", typed.testActivations)
				typed.part(t, "Random", typed.testEpilogueRandom)
				typed.part(t, "NonFinite", typed.testEpilogueNonFinite)
				typed.part(t, "SmallAlpha", typed.testSmallAlpha)
				typed.part(t, "Scales", typed.testScales)
				typed.part(t, "Update", typed.testEpilogueUpdate)
				typed.part(t, "Ragged", typed.testEpilogueRagged)
				typed.part(t, "Records", typed.testEpilogueRecords)
				typed.part(t, "Pointers", typed.testPointers)
			})
		}
	}
}

// mixed returns problems of several tiles and of less than one, with all transpositions that an epilogue
// allows, some without products, and some that read C.
func mixed(e planner.Epilogue) planner.Batch {
	b := planner.Batch{
		{M: 70, N: 45, K: 33, Beta: 1}, {M: 5, N: 7, K: 130}, {M: 33, N: 64, Beta: 1},
		{M: 1, N: 1, K: 1, Beta: -0.5},
		{M: 40, N: 21, K: 8, Alpha: planner.Scale(0)}, {M: 17, N: 90, K: 20, Alpha: planner.Scale(-0.5)},
		{N: 3, K: 4}, {M: 3, K: 4},
		{M: 31, N: 33, K: 17, TransB: true, Beta: 1}, {M: 100, N: 40, K: 64, TransA: e.GatherRows == 0,
			TransB: true},
		{M: 20, N: 50, K: 40, TransA: e.GatherRows == 0},
	}
	for i := range b {
		if e.Gated {
			b[i].Beta = 0
		}
	}
	return b
}

// epilogueCase is a batch with an epilogue, and what its plan must have.
type epilogueCase struct {
	name    string
	e       planner.Epilogue
	aligned bool // by pointers: see suite.aligned
	batch   func(planner.Epilogue) planner.Batch
	o       planner.Options
	edit    func(*planner.Device)
	has     func(encoding.Launch) bool
	more    bool // only if kernels are made quickly, or elements are F32
}

func (s *suite) eachEpilogue(t *testing.T, cases []epilogueCase, run func(*testing.T, epilogueCase)) {
	for i, c := range cases {
		if !s.turn(i) || c.more && s.slow() && s.of != element.F32 {
			continue
		}
		s.part(t, c.name, func(t *testing.T) { run(t, c) })
	}
}

func (c *epilogueCase) requireLaunch(t *testing.T, j *epilogueJob) {
	t.Helper()
	require.True(t, c.has == nil || slices.ContainsFunc(j.plan.Launches, c.has), "%s", j.plan.Launches)
}

// testParts runs epilogues with all ways in which plans cut tiles.
func (s *suite) testParts(t *testing.T) {
	relu := all
	relu.Activation = planner.ReLU
	one := func(planner.Epilogue) planner.Batch {
		b := splitBatch()
		for i := range b {
			b[i].Alpha = planner.Scale(2)
		}
		return b
	}
	whole := func(e planner.Epilogue) planner.Batch {
		b := one(e)
		for i := range b {
			b[i].Beta = 0
		}
		return b
	}
	windows := func(d *planner.Device) { d.MaxBinding = s.ofC.Bytes() << 14 }
	cases := []epilogueCase{
		{name: "bias", e: planner.Epilogue{Bias: true}, batch: mixed},
		{name: "relu", e: planner.Epilogue{Activation: planner.ReLU}, batch: mixed, more: true},
		{name: "gelu", e: planner.Epilogue{Activation: planner.GELU}, batch: mixed, more: true},
		{name: "silu", e: planner.Epilogue{Activation: planner.SiLU}, batch: mixed, more: true},
		{name: "weights", e: planner.Epilogue{Weights: true}, batch: mixed, more: true},
		{name: "gather", e: planner.Epilogue{GatherRows: 37}, batch: mixed},
		{name: "gather from one row", e: planner.Epilogue{GatherRows: 1}, batch: mixed, more: true},
		{name: "scatter", e: planner.Epilogue{ScatterRows: 120}, batch: mixed},
		{name: "gated", e: planner.Epilogue{Gated: true}, batch: mixed},
		{name: "gated with bias", e: planner.Epilogue{Gated: true, Bias: true, Activation: planner.GELU},
			batch: mixed, more: true},
		{name: "all but a gate", e: planner.Epilogue{Activation: planner.ReLU, Bias: true, GatherRows: 200,
			ScatterRows: 100, Weights: true}, batch: mixed},
		{name: "all", e: all, batch: mixed},
		{name: "all exactly", e: relu, batch: mixed},
		{name: "cut along K", e: planner.Epilogue{Activation: planner.ReLU, Bias: true, ScatterRows: 60,
			Weights: true}, batch: one,
			o: split, edit: manyUnits, has: sumsPartials},
		{name: "cut along K, gathered", e: planner.Epilogue{Activation: planner.GELU, GatherRows: 60},
			batch: one,
			o:     planner.Options{Tile: "small", Schedule: planner.ScheduleStreamK}, edit: manyUnits,
			has: sumsPartials},
		{name: "not cut along K", e: relu, batch: whole, o: split, edit: manyUnits, has: isLoop},
		{name: "several tiles a worker", e: all, batch: mixed,
			o: planner.Options{Schedule: planner.ScheduleBatched}, edit: oneUnit, has: isLoop},
		{name: "dynamic tiles", e: all, batch: mixed, o: planner.Options{Schedule: planner.ScheduleDynamic},
			edit: fewPlaces, has: s.isDynamic},
		{name: "loop", e: planner.Epilogue{Activation: planner.ReLU, GatherRows: 9, Weights: true},
			batch: mixed,
			o:     planner.Options{Schedule: planner.ScheduleBatched}, edit: oneUnit,
			has: isLoop, more: true},
		{name: "windows", e: planner.Epilogue{Activation: planner.ReLU, Gated: true, Bias: true,
			ScatterRows: 130}, batch: mixed, edit: windows,
			has: func(l encoding.Launch) bool { return l.BaseA > 0 && l.BaseB2 > 0 && l.BaseC > 0 }},
		{name: "large tile", e: all, batch: mixed, o: planner.Options{Tile: "large"}, more: true},
		{name: "groups of K", e: relu, batch: mixed, o: planner.Options{Tile: "medium-k4"}, more: true},
	}
	if s.sumsInC() { // otherwise C would be rounded in between
		cases = append(cases, s.longCases()...)
	}
	if elemtype.Scaled(s.of) {
		cases = append(cases, s.scaledCases(one, windows)...)
	}
	s.eachEpilogue(t, cases, func(t *testing.T, c epilogueCase) {
		c.o.Epilogue = c.e
		rng := newRand(uint64(len(c.name)))
		b := c.batch(c.e)
		d := s.placeEpilogue(b, c.e, rng, uniform(5))
		j := s.prepareEpilogue(t, b, &d, c.o, c.edit)
		c.requireLaunch(t, j)
		j.check(t, &d, false)
		if c.e.Activation == "" || c.e.Activation == planner.ReLU {
			d = s.placeEpilogue(b, c.e, rng, few(rng))
			j = s.prepareEpilogue(t, b, &d, c.o, c.edit)
			j.check(t, &d, true)
		}
	})
}

// longCases have a K that exceeds a launch: several launches add to C, and the last one does the rest.
func (s *suite) longCases() []epilogueCase {
	long := func(e planner.Epilogue) planner.Batch {
		trans := e.GatherRows == 0
		return planner.Batch{{M: 9, N: 20, K: 400, Beta: -0.5}, {M: 5, N: 6, K: 7, Beta: 1},
			{M: 20, N: 9, K: 1600, TransA: trans, TransB: true}, {M: 20, N: 9, Beta: 1}}
	}
	parts := func(l encoding.Launch) bool { return l.Epilogue.Activation == "" }
	rows := planner.Epilogue{Activation: planner.ReLU, GatherRows: 30, ScatterRows: 50, Weights: true}
	return []epilogueCase{
		{name: "long K", e: planner.Epilogue{Activation: planner.ReLU, Bias: true, Weights: true},
			batch: long, edit: leastTrips, has: parts},
		{name: "long K of rows", e: rows, batch: long, edit: leastTrips, has: parts, more: true},
	}
}

// testActivations takes numbers from far below 0 to far above, and some that are all close. It also runs
// tiles for warpgroups, whose kernels have activations of their own (native/epilogue/wgmma_epilogue.cuh).
func (s *suite) testActivations(t *testing.T) {
	tiles := []string{"small"}
	facts := s.device.Info().Planner
	for i := range facts.Kernels {
		if k := facts.Kernels[i].Tile; k.Unit == tile.WGMMA && s.oneTile == "" &&
			s.fitsWith(&facts, k, planner.Epilogue{Activation: planner.SiLU}) {
			tiles = append(tiles, k.Name)
		}
	}
	for _, of := range []planner.Activation{planner.ReLU, planner.GELU, planner.SiLU} {
		for _, name := range tiles {
			t.Run(string(of)+"/"+name, func(t *testing.T) {
				s.testActivation(t, of, name, func(j int) float64 { return math.Exp(float64(j-30) / 6) })
				s.testActivation(t, of, name, func(j int) float64 { return float64(j) / 320 })
			})
		}
	}
}

// testActivation takes numbers from -25 to 24 times those of columns. Every other column is negative.
func (s *suite) testActivation(t *testing.T, of planner.Activation, name string, column func(j int) float64) {
	e := planner.Epilogue{Activation: of}
	b := planner.Batch{{M: 50, N: 60, K: 1}}
	d := s.placeEpilogue(b, e, newRand(3), func(v []float32) {
		for i := range v {
			v[i] = 1
		}
	})
	a := d.numbers[bufferA][b[0].A.Offset:]
	for r := range b[0].M {
		a[r*b[0].A.LD] = float32(r - 25)
	}
	for j := range b[0].N {
		d.numbers[bufferB][b[0].B.Offset+j] = float32(column(j)) * (1 - 2*float32(j%2))
	}
	round(s.of, d.numbers[bufferA])
	round(s.of, d.numbers[bufferB])
	s.prepareEpilogue(t, b, &d, planner.Options{Epilogue: e, Tile: name}, nil).check(t, &d, false)
}

// testEpilogueNonFinite: NaN and infinities pass through activations.
func (s *suite) testEpilogueNonFinite(t *testing.T) {
	if s.finiteOnly != "" {
		t.Skip(s.finiteOnly)
	}
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	for _, e := range []planner.Epilogue{{Activation: planner.ReLU, Bias: true}, {Activation: planner.GELU},
		{Activation: planner.SiLU, Gated: true}} {
		for _, x := range []float32{inf, -inf, nan} {
			t.Run(fmt.Sprintf("%s/%v", e.Activation, x), func(t *testing.T) {
				b := planner.Batch{{M: 20, N: 30, K: 5}, {M: 9, N: 17, K: 2}}
				values, count := uniform(3), 0
				d := s.placeEpilogue(b, e, newRand(4), func(row []float32) {
					values(row)
					for i := range row {
						if count++; count%61 == 0 {
							row[i] = x
						}
					}
				})
				s.prepareEpilogue(t, b, &d, planner.Options{Epilogue: e, Tile: "small"},
					nil).check(t, &d, false)
			})
		}
	}
}

// SmallAlphas returns problems with alphas of up to 12 bits, down to the least normal fp32.
func SmallAlphas() (b planner.Batch) {
	for _, alpha := range []float32{0x1p-99, 0x1.ffep-101, -0x1.554p-123, 0x1.ffep-122, -0x1p-126} {
		b = append(b, planner.Problem{M: 21, N: 37, K: 40, Alpha: planner.Scale(float64(alpha))})
	}
	return b
}

// LargeIntegers returns integers times 2^44. Sums of 40 of their products are below 2^100, with 12 bits.
func LargeIntegers(rng *rand.Rand) func([]float32) {
	return func(s []float32) {
		reference.Integers(rng, s, 8)
		for i := range s {
			s[i] *= 0x1p44
		}
	}
}

// testSmallAlpha has exact results although alpha is small. Kernels that scale parts of fp32 multiply by
// that scale too.
func (s *suite) testSmallAlpha(t *testing.T) {
	if s.of != element.F32 || s.ofC != element.F32 {
		t.Skip("numbers are of fp32")
	}
	e := planner.Epilogue{Activation: planner.ReLU}
	for _, name := range append(s.tensorTilesWith(e), "small") {
		t.Run(name, func(t *testing.T) {
			b, rng := SmallAlphas(), newRand(6)
			d := s.placeEpilogue(b, e, rng, LargeIntegers(rng))
			s.prepareEpilogue(t, b, &d, planner.Options{Epilogue: e, Tile: name}, nil).check(t, &d, true)
		})
	}
}

// testEpilogueUpdate gives a program with an epilogue other batches.
func (s *suite) testEpilogueUpdate(t *testing.T) {
	relu := all
	relu.Activation = planner.ReLU
	s.runUpdateWithEpilogue(t, s.scaled(relu, 0))
}

// runUpdateWithEpilogue does that for one epilogue. Matrices by pointers are elsewhere in each batch.
func (s *suite) runUpdateWithEpilogue(t *testing.T, e planner.Epilogue) {
	t.Helper()
	o := planner.Options{Epilogue: e, Tile: "small"}
	rng := newRand(8)
	var program *epilogueJob
	for i, b := range []planner.Batch{{{M: 3, N: 4, K: 5}}, mixed(e), nil, mixed(e)[:3]} {
		d := s.placeEpilogue(b, e, rng, few(rng))
		if program == nil {
			program = s.preparePointed(t, b, &d, o, nil)
		} else {
			program.apart = nil
			moved := program.move(t, b, &d, e)
			program.batch, program.plan = b, s.planEpilogue(t, moved, o, nil)
			require.NoError(t, program.program.Update(context.Background(), program.plan), i)
			program.allocate(t, &d)
		}
		program.check(t, &d, true)
	}
}

// testEpilogueRandom takes random epilogues and batches, as many as the time to make kernels allows.
func (s *suite) testEpilogueRandom(t *testing.T) {
	n := 60
	if s.slow() {
		n = 3
	}
	for seed := range uint64(n) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			rng := newRand(100 + seed)
			s.runRandom(t, s.scaled(randomEpilogue(rng, 90), int(seed)), irregular(rng, 12, 90, 70), rng)
		})
	}
}

// randomEpilogue returns an epilogue with up to that many rows, without scales.
func randomEpilogue(rng *rand.Rand, rows int) planner.Epilogue {
	flip := func() bool { return rng.IntN(2) == 0 }
	return planner.Epilogue{Activation: []planner.Activation{"", planner.ReLU, planner.GELU,
		planner.SiLU}[rng.IntN(4)],
		Bias: flip(), Gated: flip(), Weights: flip(), GatherRows: rng.IntN(2) * (1 + rng.IntN(rows)),
		ScatterRows: rng.IntN(2) * (rows + rng.IntN(rows))}
}

// runRandom runs a batch with an epilogue, adapted to it, with a random schedule.
func (s *suite) runRandom(t *testing.T, e planner.Epilogue, b planner.Batch, rng *rand.Rand) {
	t.Helper()
	for i := range b {
		b[i].TransA = b[i].TransA && e.GatherRows == 0
		if e.Gated {
			b[i].Beta = 0
		}
	}
	o := planner.Options{Epilogue: e, Schedule: append(planner.Schedules(), "")[rng.IntN(7)]}
	d := s.placeEpilogue(b, e, rng, uniform(rng.Uint64()))
	s.prepareEpilogue(t, b, &d, o, []func(*planner.Device){nil, manyUnits, oneUnit}[rng.IntN(3)]).check(t, &d,
		false)
}
