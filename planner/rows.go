package planner

import (
	"math"

	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/internal/invalid"
)

// Rows builds the buffer Rows of epilogues: lists of 32-bit words, in any order. Each method appends a list
// and returns its first word, for Problem.RowsA, RowsC, Weights, ScaleA, ScaleB or Pointers, or the same
// fields of Ragged.
type Rows []int32

// Indices appends row indices, for RowsA or RowsC.
func (r *Rows) Indices(rows []int32) (at int) {
	at = len(*r)
	*r = append(*r, rows...)
	return at
}

// Numbers appends weights or scales.
func (r *Rows) Numbers(numbers []float32) (at int) {
	at = len(*r)
	for _, x := range numbers {
		*r = append(*r, int32(math.Float32bits(x)))
	}
	return at
}

// Pairs appends scales for Epilogue.ZeroA, each followed by a word: its zero point for ScaleA, or the sum of
// its column (element.SumColumns) for ScaleB. It fails if the lists differ in length.
func (r *Rows) Pairs(scales []float32, beside []int32) (at int, err error) {
	if len(scales) != len(beside) {
		return 0, invalid.Errorf("%d scales, but %d words beside them", len(scales), len(beside))
	}
	at = len(*r)
	for i, x := range scales {
		*r = append(*r, int32(math.Float32bits(x)), beside[i])
	}
	return at, nil
}

// Groups appends the words of groups (element.QuantizeInt4, element.GroupWord, element.PackFP4), for
// ScaleB.
func (r *Rows) Groups(words []uint32) (at int) {
	at = len(*r)
	for _, w := range words {
		*r = append(*r, int32(w))
	}
	return at
}

// Pointers appends the device addresses of a problem's matrices (dispatch.Buffer.Address). Addresses of
// operands without pointers, and of B2 without Gated, are not used.
func (r *Rows) Pointers(a, b, c, b2 uint64) (at int) {
	at = len(*r)
	for _, address := range [...]uint64{encoding.PointerA / 2: a, encoding.PointerB / 2: b,
		encoding.PointerC / 2: c, encoding.PointerB2 / 2: b2} {
		*r = append(*r, int32(uint32(address)), int32(address>>32))
	}
	return at
}
