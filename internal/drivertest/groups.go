package drivertest

import (
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

// testGroups multiplies by B of 4 bits with scales of groups.
func (s *suite) testGroups(t *testing.T) {
	have := slices.DeleteFunc(elemtype.Types4(), func(of element.Type) bool {
		return !slices.Contains(s.device.Info().Planner.Types, of)
	})
	if s.oneType != "" || len(have) == 0 {
		t.Skip("one type, or no kernels for B of 4 bits")
	}
	for i, of := range []element.Type{element.BF16, element.F16} {
		for j, ofC := range elemtype.TypesC(of) {
			typed := *s
			typed.of, typed.ofC = of, ofC
			t.Run(of.String()+"/"+ofC.String(), func(t *testing.T) {
				for k, c := range groupCases() {
					if typed.turn(k) && slices.Contains(have, c.e.ScaleB.TypeB(of)) {
						typed.part(t, c.name, func(t *testing.T) { typed.runGroups(t, c) })
					}
				}
				if i == j {
					typed.testGroupTiles(t, have)
				}
				if !s.slow() || i == j {
					typed.part(t, "Ragged", func(t *testing.T) { typed.testGroupsRagged(t, have) })
				}
				if ofC == element.F32 && len(have) > 1 {
					typed.part(t, "AllNumbers", typed.testAllFP4)
				}
			})
		}
	}
}

// groupCases are epilogues with scales of groups.
func groupCases() []epilogueCase {
	one := planner.PerGroup128
	everything := all
	everything.ScaleB = planner.PerGroup64
	everything.Activation = planner.ReLU
	mx, nv, everythingMX := planner.PerGroup32, planner.PerGroup16, everything
	everythingMX.ScaleB = mx
	silu := everything
	silu.Activation = planner.SiLU
	return []epilogueCase{
		{name: "groups of 128", e: planner.Epilogue{ScaleB: one}},
		{name: "groups of 64", e: planner.Epilogue{ScaleB: planner.PerGroup64}},
		{name: "bias", e: planner.Epilogue{ScaleB: one, Bias: true, Activation: planner.ReLU}},
		{name: "mxfp4", e: planner.Epilogue{ScaleB: mx}},
		{name: "nvfp4", e: planner.Epilogue{ScaleB: nv}},
		{name: "mxfp4, all", e: everythingMX},
		{name: "nvfp4, gated", e: planner.Epilogue{ScaleB: nv, Gated: true, Bias: true, GatherRows: 37}},
		{name: "gathered", e: planner.Epilogue{ScaleB: one, GatherRows: 37}},
		{name: "scattered", e: planner.Epilogue{ScaleB: planner.PerGroup64, ScatterRows: 140, Weights: true}},
		{name: "gated", e: planner.Epilogue{ScaleB: one, Gated: true, Bias: true}},
		{name: "all", e: everything},
		{name: "all, SiLU", e: silu},
		{name: "several tiles a worker", e: everything, o: planner.Options{Schedule: planner.ScheduleBatched},
			edit: oneUnit},
		{name: "dynamic", e: planner.Epilogue{ScaleB: one},
			o: planner.Options{Schedule: planner.ScheduleDynamic}, edit: oneUnit},
		{name: "a schedule that cuts others", e: planner.Epilogue{ScaleB: one},
			o: planner.Options{Schedule: planner.ScheduleSplitK}},
	}
}

// groupBatch returns problems of all kinds of sizes with K of multiples of a unit.
func groupBatch(unit int, e planner.Epilogue) planner.Batch {
	var b planner.Batch
	for i, m := range []int{1, 3, 8, 9, 16, 33, 64, 65, 130} {
		for j, n := range []int{1, 63, 64, 130} {
			k := unit * []int{0, 1, 2, 3, 5}[(i+2*j)%5]
			p := planner.Problem{M: m, N: n, K: k, Alpha: planner.Scale([]float64{1, -0.5}[i%2])}
			if !e.Gated {
				p.Beta = []float64{0, 1, -0.5}[(i+j)%3]
			}
			if e.ScatterRows == 0 || m <= e.ScatterRows {
				b = append(b, p)
			}
		}
	}
	return b
}

// runGroups checks a case with numbers whose results are exact, and with others.
func (s *suite) runGroups(t *testing.T, c epilogueCase) {
	t.Helper()
	s.runGroupsOf(t, c, groupBatch(c.e.ScaleB.UnitK(), c.e))
}

func (s *suite) runGroupsOf(t *testing.T, c epilogueCase, b planner.Batch) {
	t.Helper()
	s.runScaled(t, c, b, func(d *epilogueData, _ int, p *planner.Problem, rng *rand.Rand) { // of all sizes
		at := p.ScaleB
		for g := range c.e.ScalesB(p) {
			if c.e.ScaleB.TypeB(s.of) != element.Int4 {
				d.rows[at+g] = reference.GroupWord(rng, c.e.ScaleB, 0)
				continue
			}
			_, zero := element.GroupOf(uint32(d.rows[at+g]))
			x := rng.Float32() - 0.5
			if rng.IntN(8) == 0 {
				x = []float32{0, 0x1p-140, -0x1p-126, 300}[rng.IntN(4)]
			}
			d.rows[at+g] = int32(element.GroupWord(x, zero))
		}
		d.number(p, &c.e)
	})
}

// runScaled checks a case with numbers whose results are exact, and with others. draw draws the scales of
// problem i. On slow devices it leaves out large problems.
func (s *suite) runScaled(t *testing.T, c epilogueCase, b planner.Batch,
	draw func(d *epilogueData, i int, p *planner.Problem, rng *rand.Rand)) {
	t.Helper()
	if s.slow() {
		b = slices.DeleteFunc(b, func(p planner.Problem) bool { return p.M*p.N > 3000 })
	}
	c.o.Epilogue = c.e
	d := s.placeEpilogue(b, c.e, newRand(5), few(newRand(6)))
	j := s.prepareEpilogue(t, b, &d, c.o, c.edit)
	c.requireLaunch(t, j)
	j.check(t, &d, c.e.Activation != planner.SiLU)
	rng := newRand(7)
	for of := range []int{bufferA, bufferB} {
		if d.packed[of] == nil {
			for i, x := range d.numbers[of] {
				if x == x {
					d.numbers[of][i] = elemtype.Float(s.of, elemtype.Bits(s.of, 2*rng.Float32()-1))
				}
			}
		}
	}
	for i := range b {
		draw(&d, i, &b[i], rng)
	}
	j.check(t, &d, false)
}

// testGroupTiles forces each tile shape.
func (s *suite) testGroupTiles(t *testing.T, have []element.Type) {
	facts := s.device.Info().Planner
	for i := range facts.Kernels {
		shape := facts.Kernels[i].Tile
		scaling := []planner.Scaling{planner.PerGroup64, planner.PerGroup32, planner.PerGroup128,
			planner.PerGroup16}[i%4]
		if !slices.Contains(have, scaling.TypeB(s.of)) {
			scaling = []planner.Scaling{planner.PerGroup64, planner.PerGroup128}[i%2]
		}
		o := planner.Options{TypeA: s.of, TypeB: scaling.TypeB(s.of), TypeC: s.ofC, Tile: shape.Name,
			Epilogue: planner.Epilogue{ScaleB: scaling}}
		cut := shape.TK%planner.PerGroup64.Group() == 0
		if !facts.Fits(shape, o) {
			continue
		}
		sampled := func(t *testing.T) {
			if !cut { // few of these
				s.sampled(t, 8)
			}
		}
		t.Run(shape.Name, func(t *testing.T) {
			sampled(t)
			s.runGroups(t, epilogueCase{e: o.Epilogue, o: planner.Options{Tile: shape.Name}})
		})
		// A worker has more tiles without depth than a loader may be ahead.
		t.Run(shape.Name+"/no depth", func(t *testing.T) {
			sampled(t)
			var b planner.Batch
			for i := range 80 {
				b = append(b, planner.Problem{M: 5, N: 130, K: o.Epilogue.ScaleB.UnitK() * (i % 40 / 39),
					Alpha: planner.Scale(1), Beta: []float64{0, 1, -0.5}[i%3]})
			}
			s.runGroupsOf(t, epilogueCase{e: o.Epilogue,
				o: planner.Options{Tile: shape.Name, Schedule: planner.ScheduleBatched}, edit: oneUnit}, b)
		})
		for _, of := range []planner.Scaling{planner.PerGroup64, planner.PerGroup128, planner.PerGroup32} {
			if slices.Contains(have, of.TypeB(s.of)) && shape.TK%of.Group() == 0 {
				s.part(t, fmt.Sprintf("%s/cut along K/%s", shape.Name, of), func(t *testing.T) {
					s.testGroupsCut(t, shape, of)
				})
			}
		}
	}
}

// testGroupsCut splits tiles along K, at the ends of groups.
func (s *suite) testGroupsCut(t *testing.T, shape *tile.Shape, of planner.Scaling) {
	for schedule, e := range map[planner.Schedule]planner.Epilogue{
		planner.ScheduleSplitK: {ScaleB: of},
		planner.ScheduleStreamK: {ScaleB: of, Bias: true, Activation: planner.ReLU, GatherRows: 70,
			ScatterRows: 140, Weights: true},
	} {
		t.Run(string(schedule), func(t *testing.T) {
			var b planner.Batch
			for i, m := range []int{1, 8, 33, 70} {
				for j, n := range []int{1, 64, 130} {
					b = append(b, planner.Problem{M: m, N: n, K: shape.TK*(4*i+5*j) + of.UnitK(),
						Alpha: planner.Scale([]float64{1, -0.5}[i%2]), Beta: []float64{0, 1, -0.5}[(i+j)%3]})
				}
			}
			s.runGroupsOf(t, epilogueCase{e: e, o: planner.Options{Tile: shape.Name, Schedule: schedule},
				edit: manyUnits, has: sumsPartials}, b)
		})
	}
}

// testGroupsRagged runs experts whose sizes are on the device.
func (s *suite) testGroupsRagged(t *testing.T, have []element.Type) {
	everything := all
	everything.ScaleB, everything.Activation = planner.PerGroup64, planner.ReLU
	for _, e := range []planner.Epilogue{{ScaleB: planner.PerGroup128}, everything,
		{ScaleB: planner.PerGroup32, Bias: true}, {ScaleB: planner.PerGroup16, Gated: true}} {
		if !slices.Contains(have, e.ScaleB.TypeB(s.of)) {
			continue
		}
		t.Run(string(e.ScaleB), func(t *testing.T) {
			s.runRaggedWithEpilogue(t, planner.Ragged{Form: planner.EndsOfRows, Groups: 5, M: 150, N: 70,
				K: 3 * e.ScaleB.UnitK()}, e)
		})
	}
}

// groupMatrix places a B of 4 bits after the earlier ones.
func (d *epilogueData) groupMatrix(of int, p *planner.Problem, rng *rand.Rand) planner.Matrix {
	line := elemtype.Line(element.Int4)
	m := planner.Matrix{Offset: roundUp(len(d.numbers[of])+line*rng.IntN(2), line), LD: element.Int4LD(p.N) +
		8*rng.IntN(3)}
	d.growGroups(of, m.Offset+p.K*m.LD, rng)
	return m
}

// growGroups makes B larger, with random weights whose numbers are NaN.
func (d *epilogueData) growGroups(of, n int, rng *rand.Rand) {
	d.numbers[of] = append(d.numbers[of], slices.Repeat([]float32{float32(math.NaN())},
		n-len(d.numbers[of]))...)
	for len(d.packed[of]) < (n+guard)/element.Int4.PerWord()+1 {
		d.packed[of] = append(d.packed[of], rng.Uint32())
	}
}

// group draws the words of a problem's groups, and computes the numbers of its weights.
func (d *epilogueData) group(p *planner.Problem, e *planner.Epilogue, rng *rand.Rand) {
	for at := range e.ScalesB(p) {
		d.rows[p.ScaleB+at] = groupWord(rng, e.ScaleB)
	}
	if e.ScaleB.ColumnRow() && p.K > 0 {
		one := *e
		one.Gated = false
		d.columns(p.ScaleB, p.B.LD, rng)
		if e.Gated {
			d.columns(p.ScaleB+one.ScalesB(p), p.B2.LD, rng)
		}
	}
	d.number(p, e)
}

// columns draws scales of columns of NVFP4.
func (d *epilogueData) columns(at, n int, rng *rand.Rand) {
	for j := range n {
		d.rows[at+j] = int32(math.Float32bits([]float32{1, -1, 2, 0.5}[rng.IntN(4)]))
	}
}

// groupWord returns a word with which small numbers have exact results: of four scales from 1/2 to 2, or one
// with a zero point.
func groupWord(rng *rand.Rand, of planner.Scaling) int32 {
	word := int32(0)
	for i := range 4 {
		switch of {
		case planner.PerGroup32:
			word |= int32(126+rng.IntN(3)) << (8 * i)
		case planner.PerGroup16:
			word |= []int32{0x30, 0x38, 0x40}[rng.IntN(3)] << (8 * i)
		}
	}
	if word != 0 {
		return word
	}
	return int32(element.GroupWord([]float32{1, -1, 2, 0.5, 0}[rng.IntN(5)],
		[]int{8, rng.IntN(16)}[rng.IntN(2)]))
}

// number computes the numbers that the weights of a problem represent.
func (d *epilogueData) number(p *planner.Problem, e *planner.Epilogue) {
	d.numberMatrix(bufferB, p.B, p, p.ScaleB, e.ScaleB)
	if e.Gated {
		one := *e
		one.Gated = false
		d.numberMatrix(bufferB2, p.B2, p, p.ScaleB+one.ScalesB(p), e.ScaleB)
	}
}

// numberMatrix decodes weights independently of package element. The reference has B as rows of a K x N
// matrix.
func (d *epilogueData) numberMatrix(of int, m planner.Matrix, p *planner.Problem, at int,
	by planner.Scaling) {
	order := [8]int{0, 4, 1, 5, 2, 6, 3, 7} // place of the eight nibbles
	for k := range p.K {
		for j := range p.N {
			weight := d.packed[of][m.Offset/8+k/64*8*m.LD+8*j+k%64/8] >> (4 * order[k%8]) & 15
			d.numbers[of][m.Offset+k*m.LD+j] = numberOf(by, weight,
				func(word int) uint32 { return uint32(d.rows[at+word]) }, j, k, m.LD)
		}
	}
}

// numberOf is the number that weight k of column j represents. words has the words of its matrix.
func numberOf(by planner.Scaling, weight uint32, words func(at int) uint32, j, k, ld int) float32 {
	e2m1 := []float32{0, 0.5, 1, 1.5, 2, 3, 4, 6}[weight%8]
	if weight > 7 {
		e2m1 = -e2m1
	}
	switch by {
	case planner.PerGroup32:
		scale := words(k/128*ld+j) >> (k % 128 / 32 * 8) & 255
		if scale == 255 {
			return float32(math.NaN())
		}
		return float32(math.Ldexp(float64(e2m1), int(scale)-127))
	case planner.PerGroup16:
		scale := elemtype.Float(element.E4M3, uint16(words((1+k/64)*ld+j)>>(k%64/16*8)&255))
		return e2m1 * (scale * math.Float32frombits(words(j)))
	}
	word := words(k/by.Group()*ld + j)
	return math.Float32frombits(word>>4<<4) * (float32(weight) - float32(word%16))
}

// withGroups places the B of a ragged batch of 4 bits, group after group.
func (d *epilogueData) withGroups(r *planner.Ragged, rng *rand.Rand) {
	r.B.LD, r.B2.LD = element.Int4LD(r.N), element.Int4LD(r.N)+8
	r.B.Offset, r.B2.Offset, r.StrideB = 32, 64, roundUp(r.K*r.B2.LD+1, 32)
	d.growGroups(bufferB, r.B.Offset+r.Groups*r.StrideB, rng)
	d.growGroups(bufferB2, r.B2.Offset+r.Groups*r.StrideB, rng)
}

// groupsOf draws the words of the groups of all experts.
func (d *epilogueData) groupsOf(r *planner.Ragged, e *planner.Epilogue, rng *rand.Rand) {
	p := planner.Problem{N: r.N, K: r.K, B: r.B, B2: r.B2, ScaleB: r.ScaleB}
	for range r.Groups {
		d.group(&p, e, rng)
		p.ScaleB += e.ScalesB(&p)
		p.B.Offset += r.StrideB
		p.B2.Offset += r.StrideB
	}
}

// RaggedOfGroups returns a ragged batch of 5 groups with up to 150 rows together and scales of groups, and
// one of records with 6 that fit.
func RaggedOfGroups(t *testing.T, e planner.Epilogue) (rows, records planner.Ragged, good []int32) {
	t.Helper()
	group := e.ScaleB.UnitK()
	rows = planner.Ragged{Form: planner.EndsOfRows, Groups: 5, M: 150, N: 70, K: 3 * group,
		A: planner.Matrix{LD: 3 * group}, C: planner.Matrix{LD: 70},
		B: planner.Matrix{Offset: 32, LD: 72}, B2: planner.Matrix{LD: 88}, StrideB: 3 * group * 88, ScaleB: 9}
	var b planner.Batch
	for g := range 6 {
		b = append(b, planner.Problem{M: 1 + 20*g, N: 3 + 30*(g%3), K: group * (g % 4), ScaleB: 7 * g,
			A: planner.Matrix{Offset: g, LD: 4 * group}, B: planner.Matrix{Offset: 32 * g, LD: 64},
			B2: planner.Matrix{Offset: 64 * g, LD: 72}, C: planner.Matrix{LD: 100}})
	}
	b[5].Alpha = planner.Scale(0) // the end of its B does not matter
	good, err := planner.AppendRecords(nil, b, planner.Options{Epilogue: e})
	require.NoError(t, err)
	records = planner.Ragged{Form: planner.Records, Groups: 6, M: 400, N: 70, K: 4 * group,
		LenA: 1 << 17, LenB: 1 << 17, LenC: 1 << 15, LenB2: 1 << 17, LenBias: 1 << 10, LenRows: 1 << 10}
	return rows, records, good
}

// ChangedRecords returns records in which one word of a problem is larger, for each word.
func ChangedRecords(rng *rand.Rand, good []int32) (all [][]int32) {
	for word := range encoding.ScaledRecordWords {
		for _, by := range []int32{1, 8, 32, 64, 128, 1 << 26, 1 << 30} {
			sizes := slices.Clone(good)
			sizes[rng.IntN(len(good)/encoding.ScaledRecordWords)*encoding.ScaledRecordWords+word] += by
			all = append(all, sizes)
		}
	}
	return all
}
