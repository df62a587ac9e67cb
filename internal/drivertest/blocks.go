package drivertest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/elemtype"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

// testBlocks multiplies elements of E4M3 with scales of blocks.
func (s *suite) testBlocks(t *testing.T) {
	if s.oneType != "" || !s.device.Info().Planner.Blocks {
		t.Skip("one type, or no kernels for scales of blocks")
	}
	for j, ofC := range elemtype.TypesC(element.E4M3) {
		typed := *s
		typed.of, typed.ofC = element.E4M3, ofC
		t.Run(ofC.String(), func(t *testing.T) {
			for k, c := range blockCases() {
				if typed.turn(k) {
					typed.part(t, c.name, func(t *testing.T) { typed.runBlocks(t, c) })
				}
			}
			if j == 0 {
				typed.runTilesWithEpilogue(t, blocksOf, (*suite).runBlocks)
				typed.part(t, "Update", func(t *testing.T) {
					typed.runUpdateWithEpilogue(t,
						blocksOf(planner.Epilogue{Activation: planner.ReLU, Gated: true}))
				})
			}
			typed.part(t, "Random", typed.testBlocksRandom)
			if j == 0 || !s.slow() {
				typed.part(t, "Ragged", typed.testBlocksRagged)
				typed.part(t, "Records", typed.testBlockRecords)
			}
		})
	}
}

// blocksOf returns an epilogue with scales of blocks.
func blocksOf(e planner.Epilogue) planner.Epilogue {
	e.ScaleA, e.ScaleB = planner.PerBlock, planner.PerBlock
	return e
}

// blockCases are epilogues with scales of blocks.
func blockCases() []epilogueCase {
	everything := blocksOf(all)
	everything.Activation = planner.ReLU
	split := planner.Options{Schedule: planner.ScheduleSplitK}
	return []epilogueCase{
		{name: "blocks", e: blocksOf(planner.Epilogue{})},
		{name: "all", e: everything},
		{name: "gathered", e: blocksOf(planner.Epilogue{GatherRows: 37})},
		{name: "gated", e: blocksOf(planner.Epilogue{Gated: true, Bias: true})},
		{name: "scattered", e: blocksOf(planner.Epilogue{ScatterRows: 150, Weights: true})},
		{name: "bias", e: blocksOf(planner.Epilogue{Bias: true, Activation: planner.ReLU})},
		{name: "all, SiLU", e: blocksOf(all)},
		{name: "several tiles a worker", e: everything, o: planner.Options{Schedule: planner.ScheduleBatched},
			edit: oneUnit},
		{name: "dynamic", e: blocksOf(planner.Epilogue{}),
			o: planner.Options{Schedule: planner.ScheduleDynamic}, edit: oneUnit},
		{name: "a schedule that cuts others", e: blocksOf(planner.Epilogue{}), o: split, edit: manyUnits},
	}
}

// blockBatch has K and N around multiples of 128, all transpositions that an epilogue allows, and rows of
// less and more than a tile.
func blockBatch(e planner.Epilogue) planner.Batch {
	var b planner.Batch
	for i, k := range []int{0, 1, 16, 100, 127, 128, 129, 256, 300, 513} {
		for j, n := range []int{1, 60, 127, 128, 129, 260} {
			p := planner.Problem{M: []int{1, 7, 16, 33, 70}[(i+j)%5], N: n, K: k, TransA: (i+j)%2 == 1 &&
				e.GatherRows == 0, TransB: (i+j)/2%2 == 1,
				Alpha: planner.Scale([]float64{1, -0.5, 0}[min(i*j%5, 2)])}
			if !e.Gated {
				p.Beta = []float64{0, 1, -0.5}[(i+j)%3]
			}
			b = append(b, p)
		}
	}
	return b
}

// runBlocks checks a case with numbers whose results are exact, and with others, with scales of many
// magnitudes.
func (s *suite) runBlocks(t *testing.T, c epilogueCase) {
	t.Helper()
	s.runScaled(t, c, blockBatch(c.e), func(d *epilogueData, i int, p *planner.Problem, rng *rand.Rand) {
		d.drawBlocks(p, &c.e, rng)
		if s.finiteOnly == "" && i%5 == 0 && c.e.ScalesB(p) > 0 {
			// rows that do not exist must not use it
			d.rows[p.ScaleB] = int32(math.Float32bits(float32(math.NaN())))
		}
	})
}

// drawBlocks draws scales whose products are normal fp32 numbers. Scales of rows of A that are not gathered
// are NaN.
func (d *epilogueData) drawBlocks(p *planner.Problem, e *planner.Epilogue, rng *rand.Rand) {
	draw := func(at, n int) {
		for i := range n {
			x := math.Ldexp(float64(rng.Float32()-0.5), rng.IntN(12)-6)
			if rng.IntN(16) == 0 {
				x = []float64{0, math.Copysign(0, -1), 0x1p-60, -0x1p-63, 0x1p40}[rng.IntN(5)]
			}
			d.rows[at+i] = int32(math.Float32bits(float32(x)))
		}
	}
	each := (p.K + 127) / 128
	draw(p.ScaleA, e.ScalesA(p))
	draw(p.ScaleB, e.ScalesB(p))
	for row := range e.GatherRows {
		if !slices.Contains(d.rows[p.RowsA:][:p.M], int32(row)) {
			for k := range each {
				d.rows[p.ScaleA+row*each+k] = int32(math.Float32bits(float32(math.NaN())))
			}
		}
	}
}

// runTilesWithEpilogue forces each tile shape for a case whose epilogue has scales.
func (s *suite) runTilesWithEpilogue(t *testing.T, scaled func(planner.Epilogue) planner.Epilogue,
	run func(*suite, *testing.T, epilogueCase)) {
	facts := s.device.Info().Planner
	for i := range facts.Kernels {
		shape := facts.Kernels[i].Tile
		e := scaled(planner.Epilogue{Gated: i%2 == 1})
		if own := s.alongK(shape); own.fitsWith(&facts, shape, e) {
			t.Run(shape.Name, func(t *testing.T) {
				s.sampled(t, 8)
				run(own, t, epilogueCase{name: shape.Name, e: e, batch: mixed,
					o: planner.Options{Tile: shape.Name}})
			})
		}
	}
}

// testBlocksRandom takes random epilogues and batches of several blocks.
func (s *suite) testBlocksRandom(t *testing.T) {
	n := 30
	if s.slow() {
		n = 2
	}
	for seed := range uint64(n) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			rng := newRand(200 + seed)
			s.runRandom(t, blocksOf(randomEpilogue(rng, 200)), irregular(rng, 8, 200, 500), rng)
		})
	}
}

// testBlocksRagged runs experts whose sizes are on the device.
func (s *suite) testBlocksRagged(t *testing.T) {
	everything := blocksOf(all)
	everything.Activation = planner.ReLU
	for i, c := range []struct {
		e planner.Epilogue
		r planner.Ragged
	}{
		{everything, planner.Ragged{TransB: true}},
		{blocksOf(planner.Epilogue{}), planner.Ragged{Beta: 1}},
		{blocksOf(planner.Epilogue{}), planner.Ragged{TransA: true, TransB: true}},
		{blocksOf(planner.Epilogue{Bias: true}), planner.Ragged{Alpha: planner.Scale(0)}},
	} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			c.r.Form, c.r.Groups, c.r.M, c.r.N, c.r.K = planner.EndsOfRows, 5, 150, 140, 300
			s.runRaggedWithEpilogue(t, c.r, c.e)
		})
	}
}

// testBlockRecords runs various problems whose records are on the device.
func (s *suite) testBlockRecords(t *testing.T) {
	rows := planner.Epilogue{Activation: planner.ReLU, Bias: true, GatherRows: 80, ScatterRows: 100,
		Weights: true}
	for i, e := range []planner.Epilogue{blocksOf(planner.Epilogue{Gated: true}), blocksOf(rows)} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			b := recordProblems(e.GatherRows == 0, true, e.Gated)
			b[0].K, b[5].K, b[5].N = 300, 260, 140
			j := s.prepareRecords(t, b, e)
			j.checkSets(t)
			j.checkHostile(t)
		})
	}
}

// RaggedOfBlocks returns a ragged batch of 5 groups with up to 150 rows together and scales of blocks, and
// one of records with 6 that fit.
func RaggedOfBlocks(t *testing.T, e planner.Epilogue) (rows, records planner.Ragged, good []int32) {
	t.Helper()
	rows = planner.Ragged{Form: planner.EndsOfRows, Groups: 5, M: 150, N: 300, K: 200,
		A: planner.Matrix{LD: 200}, C: planner.Matrix{LD: 300},
		B: planner.Matrix{Offset: 3, LD: 301}, B2: planner.Matrix{LD: 302}, StrideB: 200 * 302,
		ScaleA: 5, ScaleB: 9000}
	var b planner.Batch
	for g := range 6 {
		b = append(b, planner.Problem{M: 1 + 20*g, N: 3 + 70*(g%3), K: 90 * (g % 4), ScaleA: 7 * g,
			ScaleB: 5 * g,
			A:      planner.Matrix{Offset: g, LD: 301}, B: planner.Matrix{Offset: 3 * g, LD: 144},
			B2: planner.Matrix{Offset: g, LD: 145}, C: planner.Matrix{LD: 150}})
	}
	b[5].Alpha = planner.Scale(0) // its scales must still fit
	good, err := planner.AppendRecords(nil, b, planner.Options{Epilogue: e})
	require.NoError(t, err)
	records = planner.Ragged{Form: planner.Records, Groups: 6, M: 400, N: 144, K: 290,
		LenA: 1 << 17, LenB: 1 << 17, LenC: 1 << 15, LenB2: 1 << 17, LenBias: 1 << 10, LenRows: 1 << 10}
	_, refused := records.Batch(nil, good, planner.Options{Epilogue: e})
	require.Equal(t, -1, refused)
	return rows, records, good
}
