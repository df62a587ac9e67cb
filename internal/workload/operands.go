package workload

import (
	"fmt"

	"github.com/batchgemm/batchgemm/internal/hostmem"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

// Operands are the three buffers of a batch, and those that epilogues have beside: numbers of
// C's type and words. B2 is in B.
type Operands struct {
	A, B, C, Bias []float32
	Rows          []int32
}

// NewOperands allocates zeroed buffers for a batch. It fails with an error that
// wraps driver.ErrOutOfMemory when they do not fit in the memory that this process
// may take.
func NewOperands(batch planner.Batch) (*Operands, error) {
	lenA, lenB, lenC := batch.Extent()
	if err := hostmem.Check(hostmem.Size(lenA, lenB, lenC)); err != nil {
		return nil, fmt.Errorf("the matrices: %w", err)
	}
	return &Operands{A: make([]float32, lenA), B: make([]float32, lenB), C: make([]float32, lenC)}, nil
}

// Round makes the numbers those of the types of A and B, and of C.
func (o *Operands) Round(ab, c element.Type) {
	round(ab, o.A)
	round(ab, o.B)
	round(c, o.C)
	round(c, o.Bias)
}

func round(to element.Type, numbers []float32) {
	if to == element.F32 {
		return
	}
	for i, x := range numbers {
		numbers[i] = to.Float(to.Bits(x))
	}
}
