package cpu

import (
	"os"
	"strings"
	"unsafe"

	"github.com/batchgemm/batchgemm/internal/invalid"
)

// micro is the work of a kernel: C = alpha*op(A)*op(B) + beta*C for a block of C whose sums fit in
// registers. The assembly reads its fields by these offsets; distances are in bytes.
type micro struct {
	a, b, c    unsafe.Pointer
	sum        unsafe.Pointer // initial sums, rows of maxSide; nil: 0
	rowA, kA   int            // from a row of op(A), or a k, to the next
	rowB, rowC int
	depth      int
	lanes      int // columns in the last vector
	wide       int // first steps along K that may read that vector whole
	alpha      float32
	beta       float32 // 0: C is not read
	fetch
	ahead           int     // from a row of B to the row that is prefetched with it
	alpha64, beta64 float64 // of kernels for F64
}

// scale sets alpha and beta.
func (m *micro) scale(alpha, beta float64) {
	m.alpha, m.beta, m.alpha64, m.beta64 = float32(alpha), float32(beta), alpha, beta
}

// rowsOfB sets where op(B) is, 16 rows of which are prefetched into the L1 cache. It has 12 lines for
// addresses that differ by multiples of 4096.
func (m *micro) rowsOfB(at unsafe.Pointer, row int) {
	m.b, m.rowB, m.ahead = at, row, 16*row
	if row%4096 == 0 {
		m.ahead = 8 * row
	}
}

// fetch is memory that a kernel for amd64 prefetches while it runs, 4 lines every 4 steps along K, because
// the next kernel will read it: a row up to end, then the next row.
type fetch struct {
	at, end  uintptr
	gap, row int // bytes from the end of a row to the next, and from a row to the next
}

const fetchBytes = 256 // 4 lines

// only prefetches n bytes, which are a multiple of fetchBytes, and the same again. Those that are being read
// anyway are as good as none.
func (f *fetch) only(at uintptr, n int) { *f = fetch{at: at, end: at + uintptr(n), gap: -n} }

// rows prefetches rows of n bytes.
func (f *fetch) rows(at uintptr, n, row int) {
	bytes := (n + fetchBytes - 1) &^ (fetchBytes - 1)
	*f = fetch{at: at, end: at + uintptr(bytes), gap: row - bytes, row: row}
}

// kernel computes a block of C with the rows and vectors that it is made for.
type kernel func(*micro)

// instructions are the kernels for one instruction set of a processor.
type instructions struct {
	name   string
	size   int              // bytes of an element, 4 or 8
	lanes  int              // elements in a vector
	whole  [][]kernel       // by rows and vectors of the block
	edge   [][]kernel       // the same with a partial last vector
	gflops float64          // of a core at 3 GHz, all units busy
	alongs [][]func(*along) // by rows and columns; nil: a transposed B is packed
	bf16   *units           // or nil: elements become fp32
	int8   *units           // the same
	double *instructions    // those for F64
	fews   *fewUnits        // or nil: elements of 4 bits become fp32
	// transpose writes rows of src, at most lanes of them, each of depth elements, as columns of dst. It
	// writes all lanes. Distances of rows are in bytes.
	transpose func(dst, src unsafe.Pointer, rowDst, rowSrc, rows, depth int)
	// far: rows a multiple of so many bytes apart share too few sets of the caches, and are packed. 0: none.
	far int
	// runs: tiles of few rows, one beside the other, are computed together.
	runs bool
	// copyRows copies rows of cols words of 32 bits, with zeros to the end of a vector. nil: nothing gains by
	// it.
	copyRows func(dst, src unsafe.Pointer, rowDst, rowSrc, cols, rows int)
}

// variable is the environment variable that selects the instructions.
const variable = "BATCHGEMM_CPU"

// choose returns the instructions that the environment selects, or the best that processor and system
// support.
func choose() (*instructions, error) {
	have := available()
	name := os.Getenv(variable)
	if name == "" {
		return have[0], nil
	}
	names := make([]string, len(have))
	for i, s := range have {
		if s.name == name {
			return s, nil
		}
		names[i] = s.name
	}
	return nil, invalid.Errorf("%s=%s: no such instructions here (there are: %s)", variable, name,
		strings.Join(names, ", "))
}
