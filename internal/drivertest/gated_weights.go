package drivertest

import (
	"math"
	"slices"

	"github.com/batchgemm/batchgemm/internal/backend"
	"github.com/batchgemm/batchgemm/internal/elemtype"
	"github.com/batchgemm/batchgemm/internal/reference"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

// scaledWeights are options for weights of a type with scales.
func scaledWeights(of element.Type, s planner.Scaling) planner.Options {
	if elemtype.Bits4(of) {
		return planner.Options{TypeB: of, Epilogue: planner.Epilogue{ScaleB: s}}
	}
	return planner.Options{TypeA: of, Epilogue: planner.Epilogue{ScaleA: s, ScaleB: s}}
}

// takesGated reports whether the device has what a layer needs with an x of a type.
func (s *suite) takesGated(c *gatedCase, of element.Type) bool {
	facts, o := s.device.Info().Planner, &c.options
	switch {
	case elemtype.Bits4(o.TypeB):
		return of != element.F32 && slices.Contains(facts.Types, o.TypeB)
	case o.Epilogue.ScaleA == planner.PerBlock && !facts.Blocks:
		return false
	}
	return o.Epilogue.ScaleA == "" || slices.Contains(facts.Types, o.TypeA)
}

// matrices are weights of experts, [experts, rows, depth], with scales, as memory has them.
type matrices struct {
	words         []float32
	numbers       []float32 // [experts, rows, depth]
	scales        []float32 // as bits, of an expert after the other
	rows, depth   int
	scaling       planner.Scaling
	scalesOf      int // of an expert
	groups, apart int // k's of a group or block, and how far apart scales of the next are
}

// matrices draws weights.
func (k *gatedJob) matrices(seed uint64, rows, depth int) matrices {
	of, experts := k.options.TypeA, k.Experts.Experts
	m := matrices{rows: rows, depth: depth, scaling: k.options.Epilogue.ScaleB,
		numbers: make([]float32, experts*rows*depth)}
	if m.scaling == "" {
		of = k.of
	}
	rng := newRand(seed)
	switch {
	case elemtype.Bits4(k.options.TypeB):
		for i := range m.numbers {
			m.numbers[i] = float32(rng.IntN(16))
		}
	case of == element.Int8:
		reference.Integers(rng, m.numbers, 127)
	default:
		reference.Uniform(rng, m.numbers)
		m.numbers = backend.FromWords(of, backend.ToWords(of, m.numbers), len(m.numbers))
	}
	switch m.scaling {
	case planner.PerRow:
		m.scalesOf = rows
	case planner.PerBlock:
		m.groups, m.apart = 128, 1
		m.scalesOf = (rows + 127) / 128 * ((depth + 127) / 128)
	case planner.PerGroup64, planner.PerGroup128, planner.PerGroup32, planner.PerGroup16:
		m.groups, m.apart = m.scaling.Group(), element.Int4LD(rows)
		m.scalesOf = m.scaling.GroupWords(depth, m.apart)
	}
	for range experts * m.scalesOf {
		scale := float32(1+rng.IntN(3)) / 64
		if m.apart > 1 {
			scale = math.Float32frombits(uint32(reference.GroupWord(rng, m.scaling, scale)))
		}
		m.scales = append(m.scales, scale)
	}
	all := m.numbers
	if !k.TransB {
		all = nil
	}
	for e := range experts {
		switch {
		case m.apart > 1:
			m.words = append(m.words, m.pack(e)...)
		case !k.TransB:
			all = append(all, turned(m.numbers[e*rows*depth:][:rows*depth], rows, depth)...)
		}
	}
	if m.apart <= 1 { // experts follow each other within words
		m.words = backend.ToWords(of, all)
	}
	return m
}

// pack is an expert's matrix of 4 bits.
func (m *matrices) pack(e int) []float32 {
	numbers := make([]uint8, m.rows*m.depth)
	for i := range numbers {
		numbers[i] = uint8(m.numbers[e*len(numbers)+i])
	}
	words := make([]uint32, m.depth/8*element.Int4LD(m.rows))
	element.PackInt4(words, numbers, m.rows, m.depth)
	floats := make([]float32, len(words))
	for i, w := range words {
		floats[i] = math.Float32frombits(w)
	}
	return floats
}

// turned is a matrix of so many rows and columns, transposed.
func turned(numbers []float32, rows, columns int) []float32 {
	all := make([]float32, len(numbers))
	for i, x := range numbers {
		all[i%columns*rows+i/columns] = x
	}
	return all
}

// at is a weight of an expert.
func (m *matrices) at(e, row, k int) float64 {
	x := float64(m.numbers[(e*m.rows+row)*m.depth+k])
	scales := m.scales[e*m.scalesOf:]
	switch m.scaling {
	case "":
		return x
	case planner.PerRow:
		return x * float64(scales[row])
	case planner.PerBlock:
		return x * float64(scales[row/128*((m.depth+127)/128)+k/128])
	}
	return float64(numberOf(m.scaling, uint32(x), func(at int) uint32 { return math.Float32bits(scales[at]) },
		row, k, m.apart))
}

// words are what a layer has as the result of its routing, with scales.
func (k *gatedJob) words() []float32 {
	p := k.plan
	words := slices.Repeat([]float32{canary}, max(p.ScalesLen, p.Route.ExtentC))
	if p.ScalesLen == 0 {
		return words
	}
	to := words[p.ScaleGateUp:p.ScaleDown:p.ScaleDown]
	to = to[copy(to, k.gateUp.scales):]
	if k.Gated && k.GateUp == planner.GateUpApart {
		copy(to, k.up.scales)
	}
	copy(words[p.ScaleDown:], k.down.scales)
	return words
}
