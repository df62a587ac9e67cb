package cpu

import (
	"math"

	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/planner/element"
)

// gates are the rows of a worker of a gate, and its memory: pieces of a row.
type gates struct {
	*job
	encoding.Layer
	first, end int // rows

	gate, up, dh, h, slope, by, both [2 * gatePiece]float32
}

const gatePiece = 256

// gates are those of a worker's share of the rows that there are.
func (j *job) gates(c *choices, w int) *gates {
	rows := c.tokens * c.topK
	g := &gates{job: j, Layer: encoding.Layer{Tokens: c.bound, TopK: c.topK, Experts: c.experts,
		Hidden: int(j.words[encoding.LayerHidden]), Gate: encoding.GateOf(j.words)}}
	if c.experts > 0 {
		rows = int(min(uint32(j.sizes[c.experts-1]), uint32(rows)))
	}
	g.first, g.end = rows*w/j.launch.Count, rows*(w+1)/j.launch.Count
	return g
}

// load takes n columns of pre of a row.
func (g *gates) load(row, col, n int) (gate, up []float32) {
	gate, up = g.gate[:n], g.up[:n]
	switch at := row * g.Width(); {
	case !g.Gate.Gated:
		numbersOf(g.a, g.bitsA, gate, at+col)
		for i := range up {
			up[i] = 1
		}
	case g.Gate.Interleaved:
		both := g.both[:2*n]
		numbersOf(g.a, g.bitsA, both, at+2*col)
		for i := range gate {
			gate[i], up[i] = both[2*i], both[2*i+1]
		}
	default:
		numbersOf(g.a, g.bitsA, gate, at+col)
		numbersOf(g.a, g.bitsA, up, at+g.Hidden+col)
	}
	return gate, up
}

// gate activates a worker's rows.
func (j *job) gate(c *choices, w int) {
	g := j.gates(c, w)
	for row := g.first; row < g.end; row++ {
		if j.launch.TypeC.Bytes() == 1 {
			g.quantize(row)
			continue
		}
		for col := 0; col < g.Hidden; col += gatePiece {
			storeNumbers(j.c, j.bitsC, g.activated(row, col, min(gatePiece, g.Hidden-col)), row*g.Hidden+col)
		}
	}
}

// activated returns n columns of h of a row.
func (g *gates) activated(row, col, n int) []float32 {
	h, up := g.load(row, col, n)
	g.apply(h)
	if g.Gate.Gated {
		g.factors(up, nil)
		multiply(h, up)
	}
	return h
}

// gateBackward writes the gradients of a worker's rows. The first worker also writes those of the weights of
// choices that do not count.
func (j *job) gateBackward(c *choices, w int) {
	g, index := j.gates(c, w), *c
	weighted, weights, _ := g.Block(j.launch.TypeA)
	slots := j.c[weights:]
	if index.words = j.rows; w == 0 {
		for i := range c.tokens * c.topK {
			if index.expert(i) < 0 {
				slots[i] = 0
			}
		}
	}
	all := g.Choices()
	lists := j.sizes[g.First():]
	for row := g.first; row < g.end; row++ {
		weight := math.Float32frombits(uint32(lists[2*all+row]))
		sum := g.rowBackward(row, weight, weighted)
		if slot := lists[all+row]; uint(slot) < uint(all) {
			slots[slot] = sum
		}
	}
}

// rowBackward writes what a row has of dpre and hw, and returns its part of dweights.
func (g *gates) rowBackward(row int, weight float32, weighted int) (sum float32) {
	of := g.launch.TypeA
	dpre, hw := partOf(of, g.c), partOf(of, g.c[weighted:])
	for col := 0; col < g.Hidden; col += gatePiece {
		n := min(gatePiece, g.Hidden-col)
		gate, up := g.load(row, col, n)
		h, slope, by, dh := g.h[:n], g.slope[:n], g.by[:n], g.dh[:n]
		numbersOf(g.b, g.bitsB, dh, row*g.Hidden+col)
		copy(h, gate)
		g.apply(h)
		g.slopes(slope, gate)
		g.factors(up, by)
		for i, x := range h {
			y, d := x*up[i], weight*dh[i]
			sum += y * dh[i]
			gate[i], up[i], h[i] = d*up[i]*slope[i], d*x*by[i], weight*y
		}
		hw.store(h, row*g.Hidden+col)
		at := row*g.Width() + col
		switch {
		case !g.Gate.Gated:
			dpre.store(gate, at)
		case g.Gate.Interleaved:
			for i, x := range gate {
				g.both[2*i], g.both[2*i+1] = x, up[i]
			}
			dpre.store(g.both[:2*n], at+col)
		default:
			dpre.store(gate, at)
			dpre.store(up, at+g.Hidden)
		}
	}
	return sum
}

// part is a part of a result of several.
type part struct {
	numbers []float32
	bits    narrow
}

func partOf(of element.Type, words []float32) part {
	if of == element.F32 {
		return part{numbers: words}
	}
	return part{bits: narrowOf(of, words)}
}

func (p part) store(from []float32, at int) { storeNumbers(p.numbers, p.bits, from, at) }

func multiply(to, by []float32) {
	for i, x := range by {
		to[i] *= x
	}
}
