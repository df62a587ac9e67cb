package planner

import (
	"context"
	"fmt"
	"math"
	"math/bits"
	"sync"
	"unsafe"

	"github.com/batchgemm/batchgemm/internal/invalid"
	"github.com/batchgemm/batchgemm/planner/internal/overlap"
	"github.com/batchgemm/batchgemm/planner/internal/radix"
)

// Check returns the first mistake in the batch as a *ProblemError: a size that is negative or above MaxDim,
// a leading dimension below the row length, an offset that overflows (on 32-bit targets from 2^29 on), an
// operand outside its buffer, or two problems whose C overlap or may overlap. The epilogue, which may be
// none, has passed Options.Check. The buffers have the given lengths. Operands that are not read (see
// Problem) may lie anywhere. When ctx ends, Check returns its error.
//
// C of several problems may lie side by side in one matrix. If their leading dimensions are equal, or one
// has a single row, Check is exact: it accepts all C that share no element. If leading dimensions differ,
// the ranges of two C, from first to last element, must be separate. Otherwise Check refuses the batch, even
// if no element is shared. With ScatterRows or addresses of C it does not check overlap.
//
// It takes O(n log n) time for n problems, 0.1 us each on usual layouts.
func (b Batch) Check(ctx context.Context, e Epilogue, have Lengths) error {
	f := checks.Get().(*overlap.Finder)
	defer checks.Put(f)
	return b.check(ctx, &have, f, &e)
}

// check fails as Plan does for mistakes in a batch or in options, or if there is no room for the batch.
func (p *builder) check(b Batch, o Options) error {
	if err := p.roomForBatch(len(b)); err != nil {
		return err
	}
	if err := b.check(p.ctx, &endless, &p.overlaps, &o.Epilogue); err != nil {
		return err
	}
	if err := o.check(p.device); err != nil {
		return err
	}
	if err := o.checkDepths(b); err != nil {
		return err
	}
	if o.Invariant {
		return invalid.Errorf("Invariant is for sizes that are on the device: see PlanRagged")
	}
	return p.ctx.Err()
}

// roomForBatch fails if the plan cannot take n problems.
func (p *builder) roomForBatch(n int) error {
	if n <= min(cap(p.Batch), p.overlaps.Room()) {
		return nil
	}
	return p.ask(int64(n)*bytesOfProblem, "problems", int64(n))
}

// ask fails if the plan may not take that many more bytes.
func (p *builder) ask(bytes int64, of string, n int64) error {
	if p.budget == nil || bytes < leastAsked {
		return nil
	}
	if err := p.budget(bytes); err != nil {
		return fmt.Errorf("plan of %d %s: %w", n, of, err)
	}
	return nil
}

// leastAsked is the least memory that a plan asks for: that of 2000 problems, or of 25,000 tiles.
const leastAsked = 1 << 20

// bytesOfProblem is the memory of a problem without its tiles: its copy, its region in the overlap check,
// and its places in orders.
const bytesOfProblem = overlap.BytesPerRegion + int64(unsafe.Sizeof(Problem{})+2*unsafe.Sizeof(radix.Key{})+
	unsafe.Sizeof(class{})+3*unsafe.Sizeof(uintptr(0)))

// endless are the lengths of operands whose ends are not known.
var endless = Lengths{math.MaxInt, math.MaxInt, math.MaxInt, math.MaxInt, math.MaxInt, math.MaxInt}

// checks keeps memory for Check. Allocating it anew would cost more than the rest of Check.
var checks = sync.Pool{New: func() any { return new(overlap.Finder) }}

// check is Check of a batch with an epilogue, with scratch memory. If C is scattered to or has addresses,
// only the caller knows what overlaps.
func (b Batch) check(ctx context.Context, have *Lengths, f *overlap.Finder, e *Epilogue) error {
	f.Reset(len(b))
	for first := 0; first < len(b); first += pace {
		if first > 0 {
			if err := ctx.Err(); err != nil {
				return err
			}
		}
		if err := b.checkSome(first, min(first+pace, len(b)), have, f, e); err != nil {
			return err
		}
	}
	return checkOverlap(f)
}

// checkOverlap fails for the first C that may overlap another one.
func checkOverlap(f *overlap.Finder) error {
	switch c := f.Find(); {
	case c == nil:
		return nil
	case c.FirstLD != c.SecondLD:
		return problemError(c.Second, "C",
			"may overlap C of problem %d: their ranges interleave, and leading dimensions %d and %d differ",
			c.First, c.SecondLD, c.FirstLD)
	default:
		return problemError(c.Second, "C", "overlaps C of problem %d", c.First)
	}
}

// checkSome checks problems [first, end), without overlap.
func (b Batch) checkSome(first, end int, have *Lengths, f *overlap.Finder, e *Epilogue) error {
	withEpilogue := !e.none()
	for i := first; i < end; i++ {
		p := &b[i]
		if err := checkSizes(i, p); err != nil {
			return err
		}
		written := p.M > 0 && p.N > 0
		read := p.Reads()
		rowsA, colsA := p.ShapeA()
		rowsB, colsB := p.ShapeB()
		if err := checkMatrix(i, "A", "lda", p.A, e.storedA(rowsA), colsA, have.A, read); err != nil {
			return err
		}
		if err := checkMatrix(i, "B", "ldb", p.B, rowsB, colsB, have.B, read); err != nil {
			return err
		}
		if err := checkMatrix(i, "C", "ldc", p.C, e.storedC(p.M), p.N, have.C, written); err != nil {
			return err
		}
		if withEpilogue {
			if err := e.checkProblem(i, p, have); err != nil {
				return err
			}
		}
		if written && e.ScatterRows == 0 && !e.Pointers.C {
			f.Add(i, p.C.Offset, p.M, p.N, p.C.LD)
		}
	}
	return nil
}

func checkSizes(i int, p *Problem) error {
	if m, n, k := uint(p.M), uint(p.N), uint(p.K); max(m, n, k) <= MaxDim {
		return nil
	}
	for _, d := range [...]struct {
		arg  string
		size int
	}{{"M", p.M}, {"N", p.N}, {"K", p.K}} {
		if d.size < 0 {
			return problemError(i, d.arg, "%d is negative", d.size)
		}
		if d.size > MaxDim {
			return problemError(i, d.arg, "%d is above the limit %d", d.size, MaxDim)
		}
	}
	return nil
}

func checkMatrix(i int, arg, ldArg string, m Matrix, rows, cols, length int, used bool) error {
	if m.LD < cols {
		return problemError(i, ldArg, "%d < row length %d", m.LD, cols)
	}
	if m.LD > MaxDim {
		return problemError(i, ldArg, "%d is above the limit %d", m.LD, MaxDim)
	}
	if m.Offset < 0 {
		return problemError(i, arg, "offset %d is negative", m.Offset)
	}
	if !used {
		return nil
	}
	end, ok := addMul(m.Offset, rows-1, m.LD)
	if !ok || end > maxElements-cols {
		return problemError(i, arg, "does not fit: its last offset overflows")
	}
	if end += cols; end > length {
		return problemError(i, arg, "needs elements [%d, %d) of a buffer of %d", m.Offset, end, length)
	}
	return nil
}

// addMul returns off + a*b for arguments >= 0, and whether it fits in an int.
func addMul(off, a, b int) (int, bool) {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	if hi != 0 || lo > math.MaxInt {
		return 0, false
	}
	sum := off + int(lo)
	return sum, sum >= 0
}
