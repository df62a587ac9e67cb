package workload

import (
	"fmt"
	"unsafe"

	"github.com/batchgemm/batchgemm/internal/elemtype"
	"github.com/batchgemm/batchgemm/internal/hostmem"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

// Operands are the three buffers of a batch, and those of epilogues: numbers of C's type, and words. B2 is
// in B. Numbers of element.F64 are words of 32 bits too, two for each: see Doubles.
type Operands struct {
	A, B, C, Bias []float32
	Rows          []int32
	// Packed is the words of B of 4 bits; B is for their numbers. Groups is the group words of the
	// problems that have elements, one after the other; nil if no file has them.
	Packed, Groups []uint32
}

// Doubles returns the numbers of element.F64 that words hold.
func Doubles(words []float32) []float64 {
	return unsafe.Slice((*float64)(unsafe.Pointer(unsafe.SliceData(words))), len(words)/2)
}

// NewOperands allocates zeroed buffers for a batch, with elements of A of a type. If they do not fit in the
// memory that this process may take, the error wraps hardware.ErrOutOfMemory.
func NewOperands(batch planner.Batch, of element.Type) (*Operands, error) {
	need := batch.Lengths(planner.Epilogue{})
	for _, n := range [...]*int{&need.A, &need.B, &need.C} {
		*n = elemtype.Words(elemtype.Sums(of), *n)
	}
	if err := hostmem.Check(hostmem.Size(need.A, need.B, need.C)); err != nil {
		return nil, fmt.Errorf("the matrices: %w", err)
	}
	return &Operands{A: make([]float32, need.A), B: make([]float32, need.B), C: make([]float32, need.C)}, nil
}

// Round rounds the numbers to the types of A, B and C. Those of 4 bits stay: words and scales
// determine them.
func (o *Operands) Round(a, b, c element.Type) {
	round(a, o.A)
	round(b, o.B)
	round(c, o.C)
	round(c, o.Bias)
}

func round(to element.Type, numbers []float32) {
	if to == elemtype.Sums(to) || elemtype.Bits4(to) {
		return
	}
	for i, x := range numbers {
		numbers[i] = elemtype.Float(to, elemtype.Bits(to, x))
	}
}
