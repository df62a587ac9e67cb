package cpu

import (
	"math"

	"github.com/batchgemm/batchgemm/planner/encoding"
)

// scales are those of the rows and columns of a tile, and beta, which multiplies C behind them.
type scales struct {
	used        bool
	row, column [maxSide]float32
	beta        float32
}

// take takes the scales of a tile: gather is its word of Rows with the row of A of its first row, and the rows that
// A has; at is the words with the first scales.
func (s *scales) take(e *tail, j *job, gather, at []uint32, rows, cols int) {
	number := func(word int) float32 { return math.Float32frombits(uint32(j.rows[word])) }
	for i := range rows {
		switch s.row[i] = 1; {
		case e.ScaleA == encoding.PerTensor:
			s.row[i] = number(int(at[0]))
		case e.ScaleA == encoding.PerRow && e.Gather:
			if row := j.rows[int(gather[0])+i]; uint(row) < uint(gather[1]) {
				s.row[i] = number(int(at[0]) + int(row))
			}
		case e.ScaleA == encoding.PerRow:
			s.row[i] = number(int(at[0]) + i)
		}
	}
	for i := range cols {
		switch s.column[i] = 1; e.ScaleB {
		case encoding.PerTensor:
			s.column[i] = number(int(at[1]))
		case encoding.PerRow:
			s.column[i] = number(int(at[1]) + i)
		}
	}
}

// scaleRow multiplies a row of products by its scales, and adds beta*C, of which row to is its own.
func (p *product) scaleRow(row, to int, v []float32) {
	s := &p.tail.scales
	for i, column := range s.column[:len(v)] {
		v[i] = v[i] * s.row[row] * column
	}
	if s.beta == 0 {
		return
	}
	var c [maxSide]float32
	p.readC(to, c[:len(v)])
	for i, x := range c[:len(v)] {
		v[i] += s.beta * x
	}
}
