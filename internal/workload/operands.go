package workload

import (
	"fmt"

	"github.com/batchgemm/batchgemm/internal/hostmem"
	"github.com/batchgemm/batchgemm/planner"
)

// Operands are the three buffers of a batch.
type Operands struct {
	A, B, C []float32
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
