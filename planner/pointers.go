package planner

import (
	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/internal/invalid"
)

// Pointers says which operands of each problem have an address of their own, for matrices in separate
// buffers, such as the LoRA weights of experts. CUDA and HIP only. Such a matrix begins Matrix.Offset
// elements after an address in device memory (dispatch.Buffer.Address, or that of another library). B2 has
// an address if B has one. The kernel reads the addresses from Rows when it runs. A problem's addresses are
// encoding.PointerWords words from Problem.Pointers on, as Rows.Pointers writes them. A run needs no buffer
// for such an operand. What is at the addresses, and overlap of C, are not checked.
//
// Addresses must be multiples of 4 bytes for 32-bit elements, and of 2 bytes for 16-bit elements. Aligned
// promises multiples of 16 bytes: then the faster kernels for aligned matrices can be chosen, by offsets and
// leading dimensions. Kernels may read all of the 16-byte line that holds the last element of a matrix.
type Pointers = encoding.Pointers

// checkPointers fails for pointers that no device supports, or not this one; nil: any.
func checkPointers(by Pointers, d *Device) error {
	switch {
	case by.Aligned && !by.Any():
		return invalid.Errorf("pointers are aligned, but none of A, B and C has addresses")
	case d != nil && by.Any() && !d.Pointers:
		return invalid.Errorf("%s has no kernels for pointers", d)
	}
	return nil
}

// checkReach fails if a matrix ends further after its address than items can express. The matrix passed
// checkMatrix.
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
