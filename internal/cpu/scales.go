package cpu

import (
	"math"

	"github.com/batchgemm/batchgemm/internal/encoding"
)

// scales are those of the rows and columns of a tile; zero points of its rows and sums of its columns, whose
// products are subtracted first; and alpha and beta. alpha multiplies sums after that and before the scales,
// beta multiplies C after them.
type scales struct {
	used        bool
	row, column [maxSide]float32
	zero, sum   [maxSide]float32
	alpha, beta float32
}

// take loads the scales of a tile. gather has its word of Rows with the index in A of its first row, and the
// number of rows of A. at has the words of the first scales.
func (s *scales) take(e *tail, j *job, gather, at []uint32, rows, cols int) {
	number := func(word int) float32 { return math.Float32frombits(uint32(j.rows[word])) }
	each := e.ScaleWords()
	for i := range rows {
		row := i
		if e.Gather {
			row = int(j.rows[int(gather[0])+i])
		}
		word, none := int(at[0]), e.Gather && uint(row) >= uint(gather[1]) // a zero row
		switch s.row[i], s.zero[i] = 1, 0; {
		case e.ScaleA == encoding.PerTensor:
			s.row[i] = number(word)
		case e.ScaleA == encoding.PerRow && !none:
			word += row * each
			s.row[i] = number(word)
		}
		if e.Zeros && !none {
			s.zero[i] = float32(j.rows[word+1])
		}
	}
	for i := range cols {
		word := int(at[1]) + i*each
		switch s.column[i] = 1; e.ScaleB {
		case encoding.PerTensor:
			s.column[i] = number(int(at[1]))
		case encoding.PerRow:
			s.column[i] = number(word)
		}
		if e.Zeros {
			s.sum[i] = float32(j.rows[word+1])
		}
	}
}

// scaleRow multiplies a row of sums by alpha and its scales, and adds beta*C of row `to`. It first subtracts
// the zero points, with one rounding.
func (p *product) scaleRow(row, to int, v []float32) {
	s := &p.tail.scales
	if zero := float64(s.zero[row]); zero != 0 {
		for i, sum := range s.sum[:len(v)] {
			v[i] = float32(float64(v[i]) - zero*float64(sum))
		}
	}
	for i, column := range s.column[:len(v)] {
		v[i] = s.alpha * v[i] * s.row[row] * column
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
