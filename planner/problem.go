package planner

import (
	"fmt"
	"math"
	"math/bits"
	"strconv"

	"github.com/batchgemm/batchgemm/internal/invalid"
)

// Matrix places one row-major operand in its buffer. Element (i, j) of the
// stored matrix is buffer[Offset + i*LD + j].
type Matrix struct {
	Offset int // first element, in elements
	LD     int // leading dimension: elements from one row to the next
}

// Problem is one GEMM of a batch. It is computed in place in C:
//
//	C = Alpha*op(A)*op(B) + Beta*C
//
// op(A) is M x K and op(B) is K x N. A is stored as M x K, or as K x M with TransA. B is stored as K x N, or
// as N x K with TransB. C is stored as M x N. All are row-major.
//
// As in BLAS: M = 0 or N = 0 writes nothing; K = 0 or Alpha = 0 gives Beta*C without reading A and B; Beta =
// 0 never reads C, so NaN there does not survive. Alpha and Beta are rounded to float32 unless the elements
// are of element.F64.
type Problem struct {
	M, N, K        int
	TransA, TransB bool
	Alpha          Factor // zero value: 1, so that a Problem without Alpha computes A*B
	Beta           float64
	A, B, C        Matrix

	// These fields are for Options.Epilogue. B2 is the matrix of the second product, stored like B. Bias is
	// the first element of the bias. The others are words of the buffer Rows: where the row indices of A,
	// those of C and the weights begin (M of each), where the problem's addresses begin (see Pointers), and
	// where the scales of A and of B begin.
	B2                                    Matrix
	Bias, RowsA, RowsC, Weights, Pointers int
	ScaleA, ScaleB                        int
}

// Factor is a number whose zero value is 1. Scale makes other factors.
type Factor struct{ fromOne uint64 } // its bits, xor the bits of 1

// one is the bits of 1.
const one = 0x3ff0000000000000

// Scale returns a factor of any value, also 0, Inf and NaN.
func Scale(by float64) Factor { return Factor{math.Float64bits(by) ^ one} }

// Value returns the number.
func (f Factor) Value() float64 { return math.Float64frombits(f.fromOne ^ one) }

func (f Factor) String() string { return strconv.FormatFloat(f.Value(), 'g', -1, 64) }

// isZero: 0 of either sign.
func (f Factor) isZero() bool { return f.Value() == 0 }

// Batch is a list of problems that are computed together. Their order has no meaning; their C must not
// overlap.
type Batch []Problem

// MaxDim is the largest M, N, K or leading dimension: kernels index rows and
// columns with 32-bit signed integers.
const MaxDim = math.MaxInt32

// MaxWholeK is the largest K of integer elements (element.Int8). Tensor cores of compute capability
// 9.0 and AMD's matrix cores sum in int32, which holds that many products of -128 and -128.
const MaxWholeK = math.MaxInt32 / (128 * 128)

// maxElements bounds the elements of a buffer. On 32-bit targets it is 2^29, as much as memory can hold, so
// that planning can add to offsets.
const maxElements = math.MaxInt >> ((64 - bits.UintSize) / 16)

// packAlign is the alignment of the matrices that Pack places, in elements. 4 elements of 32 bits are 16
// bytes, the widest load of every backend. 16-bit elements are aligned if all sizes are multiples of 8, and
// 8-bit elements if all sizes are multiples of 16.
const packAlign = 4

// Pack places the problems densely, one after the other in each buffer, and returns them as a batch. Leading
// dimensions become the row length, and each matrix starts at a multiple of 4 elements. Pack ignores the
// offsets and leading dimensions of its arguments. It fails if a size is negative or too large.
func Pack(problems ...Problem) (Batch, error) {
	b := make(Batch, len(problems))
	var offA, offB, offC int
	for i, p := range problems {
		if err := checkSizes(i, &p); err != nil {
			return nil, err
		}
		rowsA, colsA := p.ShapeA()
		rowsB, colsB := p.ShapeB()
		p.A = Matrix{Offset: offA, LD: colsA}
		p.B = Matrix{Offset: offB, LD: colsB}
		p.C = Matrix{Offset: offC, LD: p.N}
		for _, next := range []struct {
			off        *int
			rows, cols int
			arg        string
		}{{&offA, rowsA, colsA, "A"}, {&offB, rowsB, colsB, "B"}, {&offC, p.M, p.N, "C"}} {
			end, ok := addMul(*next.off, next.rows, next.cols)
			if !ok || end > maxElements-packAlign {
				return nil, problemError(i, next.arg, "does not fit: its last offset overflows")
			}
			*next.off = (end + packAlign - 1) / packAlign * packAlign
		}
		b[i] = p
	}
	return b, nil
}

// GEMM returns the problem C = A*B with the given sizes, for Pack.
func GEMM(m, n, k int) Problem {
	return Problem{M: m, N: n, K: k}
}

// ColumnMajor converts a problem with column-major matrices to the equal row-major one. In p, Matrix.LD is
// the number of elements from one column to the next. A column-major matrix is the row-major matrix of its
// transpose, so the result computes the transpose of C, with A and B swapped. Swap the buffers too: pass B
// as the A of the run. If A and B have one order and C the other, set TransA and TransB, because A and B are
// then transposes. Epilogues apply to rows and columns of the transpose; addresses of A and B (Pointers) are
// swapped too.
func ColumnMajor(p Problem) Problem {
	p.M, p.N = p.N, p.M
	p.A, p.B = p.B, p.A
	p.TransA, p.TransB = p.TransB, p.TransA
	return p
}

// ShapeA and ShapeB return rows and columns of the operands as stored.
func (p *Problem) ShapeA() (rows, cols int) {
	if p.TransA {
		return p.K, p.M
	}
	return p.M, p.K
}

func (p *Problem) ShapeB() (rows, cols int) {
	if p.TransB {
		return p.N, p.K
	}
	return p.K, p.N
}

// depth returns the K that is multiplied: 0 if A and B are not read.
func (p *Problem) depth() int {
	if p.Alpha.isZero() {
		return 0
	}
	return p.K
}

// sizes returns the sizes of the computation.
func (p *Problem) sizes() Sizes { return Sizes{p.M, p.N, p.depth()} }

// Reads reports whether the problem reads A and B.
func (p *Problem) Reads() bool { return p.M > 0 && p.N > 0 && p.depth() > 0 }

// writes is Epilogue.Writes without an epilogue.
func (p *Problem) writes() bool { return p.M > 0 && p.N > 0 && (p.depth() > 0 || p.Beta != 1) }

// FLOPs returns the number of multiplications and additions, 2*M*N*K for each problem.
func (b Batch) FLOPs() float64 {
	var sum float64
	for i := range b {
		p := &b[i]
		sum += 2 * float64(p.M) * float64(p.N) * float64(p.depth())
	}
	return sum
}

// end returns the offset after the last element of a rows x cols matrix.
func (m Matrix) end(rows, cols int) int {
	if rows == 0 || cols == 0 {
		return 0
	}
	return m.Offset + (rows-1)*m.LD + cols
}

// ErrInvalid marks arguments that the caller can correct. ProblemError and all other such errors wrap it.
var ErrInvalid = invalid.Err

// ProblemError says which argument of which problem is wrong.
type ProblemError struct {
	Index  int    // of the problem in its batch
	Arg    string // "M", "lda", "C", ...
	Reason string
}

func (e *ProblemError) Error() string {
	return fmt.Sprintf("problem %d: %s %s", e.Index, e.Arg, e.Reason)
}

// Unwrap returns ErrInvalid.
func (e *ProblemError) Unwrap() error { return ErrInvalid }

func problemError(i int, arg, format string, args ...any) error {
	return &ProblemError{Index: i, Arg: arg, Reason: fmt.Sprintf(format, args...)}
}
