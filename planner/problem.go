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
	LD     int // leading dimension: elements between two rows
}

// Problem is one GEMM of a batch, computed in place in C:
//
//	C = Alpha*op(A)*op(B) + Beta*C
//
// op(A) is M x K and op(B) is K x N. A is stored M x K, or K x M when TransA;
// B is stored K x N, or N x K when TransB. C is stored M x N. All are row-major.
//
// As in BLAS: M = 0 or N = 0 writes nothing; K = 0 or Alpha = 0 gives Beta*C
// without reading A and B; Beta = 0 never reads C, so NaN there does not survive.
type Problem struct {
	M, N, K        int
	TransA, TransB bool
	Alpha          Factor // zero value: 1, so that a Problem written without it computes A*B
	Beta           float32
	A, B, C        Matrix

	// What Options.Epilogue asks for, in buffers of their own: the matrix of the second product,
	// stored as B is; the first element of the bias; the words of Rows where the rows of A,
	// those of C and the weights begin, M of each; where its addresses do, see Pointers; and where the
	// scales of A and of B do.
	B2                                    Matrix
	Bias, RowsA, RowsC, Weights, Pointers int
	ScaleA, ScaleB                        int
}

// Factor is a number whose zero value is 1. Scale makes others.
type Factor struct{ fromOne uint32 } // its bits, xor those of 1

// one is the bits of 1.
const one = 0x3f800000

// Scale returns a factor of any value, 0, Inf and NaN too.
func Scale(by float32) Factor { return Factor{math.Float32bits(by) ^ one} }

// Value is the number.
func (f Factor) Value() float32 { return math.Float32frombits(f.fromOne ^ one) }

func (f Factor) String() string { return strconv.FormatFloat(float64(f.Value()), 'g', -1, 32) }

// isZero: 0 of either sign.
func (f Factor) isZero() bool { return f.Value() == 0 }

// Batch is a list of problems that are computed together. The order of the
// problems carries no meaning; their C regions must not overlap.
type Batch []Problem

// MaxDim is the largest M, N, K or leading dimension: kernels index rows and
// columns with 32-bit signed integers.
const MaxDim = math.MaxInt32

// MaxWholeK is the largest K where elements are whole numbers (element.Type.Whole): tensor cores of compute
// capability 9.0 and AMD's matrix cores sum in int32, and so many products of -128 are the most that it has.
const MaxWholeK = math.MaxInt32 / (128 * 128)

// maxElements bounds the elements of a buffer. On 32-bit targets it is what memory can
// hold, 2^29, which leaves room for planning to add to offsets.
const maxElements = math.MaxInt >> ((64 - bits.UintSize) / 16)

// packAlign is the alignment of the matrices that Pack lays out, in elements. 4 elements of 32 bits
// are 16 bytes, the widest load of every backend. Those of 16 bits are aligned so where all sizes are
// multiples of 8, those of 8 where they are multiples of 16.
const packAlign = 4

// Pack returns the problems as a batch in which the matrices of each buffer
// follow each other densely: leading dimensions equal the row length, and each
// matrix starts at a multiple of 4 elements. Offsets and leading dimensions of
// the arguments are ignored. It fails when a size is negative or too large.
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

// GEMM returns the problem C = A*B of the given sizes, for Pack.
func GEMM(m, n, k int) Problem {
	return Problem{M: m, N: n, K: k}
}

// ColumnMajor returns the problem whose matrices, all column-major, are those that p describes
// as if they were: Matrix.LD is the elements between two columns. A column-major matrix is the
// row-major one of its transpose, so that the problem is that of the transpose of C, with A and
// B swapped: buffers change places too, the one of B is A of the run. A and B in one order and C
// in the other are transposes of A and B: TransA and TransB say that. What epilogues do by rows
// or columns, they do to those of the transpose; addresses of A and B (Pointers) are swapped too.
func ColumnMajor(p Problem) Problem {
	p.M, p.N = p.N, p.M
	p.A, p.B = p.B, p.A
	p.TransA, p.TransB = p.TransB, p.TransA
	return p
}

// ShapeA and ShapeB give rows and columns of the operands as stored.
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

// depth is the K that is really multiplied: 0 when A and B are not read.
func (p *Problem) depth() int {
	if p.Alpha.isZero() {
		return 0
	}
	return p.K
}

// sizes are those of what is computed.
func (p *Problem) sizes() Sizes { return Sizes{p.M, p.N, p.depth()} }

// Reads reports whether the problem reads A and B.
func (p *Problem) Reads() bool { return p.M > 0 && p.N > 0 && p.depth() > 0 }

// Writes reports whether the problem changes C: C = 1*C does not, without an epilogue.
func (p *Problem) Writes() bool { return p.M > 0 && p.N > 0 && (p.depth() > 0 || p.Beta != 1) }

// FLOPs counts multiplications and additions of the products, 2*M*N*K each, one for each problem.
func (b Batch) FLOPs() float64 {
	var sum float64
	for i := range b {
		p := &b[i]
		sum += 2 * float64(p.M) * float64(p.N) * float64(p.depth())
	}
	return sum
}

// Extent returns the number of elements that the buffers of A, B and C need at
// least, without an epilogue. The batch must have passed Check.
func (b Batch) Extent() (a, bb, c int) {
	x := b.Lengths(Epilogue{})
	return x.A, x.B, x.C
}

// end is the offset after the last element of a rows x cols matrix.
func (m Matrix) end(rows, cols int) int {
	if rows == 0 || cols == 0 {
		return 0
	}
	return m.Offset + (rows-1)*m.LD + cols
}

// ErrInvalid: an argument that the caller can correct. ProblemError and all other such
// errors wrap it.
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
