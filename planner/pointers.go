package planner

import (
	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/internal/invalid"
)

// Pointers are the operands that a problem has at an address of its own, for matrices that are in
// no buffer together, such as the LoRA weights of experts: CUDA and HIP alone. Such a matrix begins
// Matrix.Offset elements after an address in the device's memory (dispatch.Buffer.Address, or that
// of another library) that Rows holds when the run's turn comes, and B2 has one where B has. The
// addresses of a problem are in encoding.PointerWords words from Problem.Pointers on, as
// Rows.Pointers writes them. A run needs no buffer of such an operand, and nobody checks what
// is at its addresses, or whether the C of problems overlap.
//
// With 32-bit elements addresses are multiples of 4 bytes, with elements of 16 bits of 2. Aligned promises
// that all of them are multiples of 16 bytes, so that offsets and leading dimensions tell, as without
// pointers, where kernels for aligned matrices may be taken, which are faster. Kernels may read the line of
// 16 bytes that holds the last element of a matrix whole.
type Pointers = encoding.Pointers

// checkPointers fails for what no device takes, or not this one; nil: any.
func checkPointers(by Pointers, d *Device) error {
	switch {
	case by.Aligned && !by.Any():
		return invalid.Errorf("pointers are aligned, but none of A, B and C is by pointers")
	case d != nil && by.Any() && !d.Pointers:
		return invalid.Errorf("%s has no kernels for pointers", d)
	}
	return nil
}

// checkReach fails where a matrix ends further after its address than items can say. It has
// passed checkMatrix.
func (e *Epilogue) checkReach(i int, p *Problem) error {
	if !e.Pointers.Any() || p.M == 0 || p.N == 0 {
		return nil
	}
	rowsA, colsA := p.ShapeA()
	rowsB, colsB := p.ShapeB()
	for _, m := range [...]struct {
		arg        string
		at         Matrix
		rows, cols int
		used       bool
	}{
		{"A", p.A, e.storedA(rowsA), colsA, e.Pointers.A && p.Reads()},
		{"B", p.B, rowsB, colsB, e.Pointers.B && p.Reads()},
		{"B2", p.B2, rowsB, colsB, e.Pointers.B && e.Gated && p.Reads()},
		{"C", p.C, e.storedC(p.M), p.N, e.Pointers.C},
	} {
		if m.used && m.at.end(m.rows, m.cols) > mostRagged {
			return problemError(i, m.arg,
				"does not fit: its last offset from its address needs more than 32 bits")
		}
	}
	return nil
}
