package planner

import (
	"math"

	"github.com/batchgemm/batchgemm/internal/encoding"
)

// lengths bounds what records may reach: of operands by pointers no buffer has elements.
func (r *Ragged) lengths(e *Epilogue) (x Lengths) {
	if !e.Pointers.A {
		x.A = r.LenA
	}
	if !e.Pointers.B {
		x.B = r.LenB
	}
	if !e.Pointers.C {
		x.C = r.LenC
	}
	if e.Gated && !e.Pointers.B {
		x.B2 = r.LenB2
	}
	if e.Bias {
		x.Bias = r.LenBias
	}
	if e.UsesRows() {
		x.Rows = r.LenRows
	}
	return x
}

// bounds are lengths with what items can say of how far behind its address a matrix ends.
func (r *Ragged) bounds(e *Epilogue) Lengths {
	x, by := r.lengths(e), e.Pointers
	for _, m := range [...]struct {
		length  *int
		pointer bool
	}{{&x.A, by.A}, {&x.B, by.B}, {&x.C, by.C}, {&x.B2, by.B}} {
		if m.pointer {
			*m.length = mostRagged
		}
	}
	return x
}

// record is the problem of a record, if it fits.
func (r *Ragged) record(words []int32, e *Epilogue) (q Problem, ok bool) {
	word := func(w encoding.RecordWord) int { return int(uint32(words[w])) }
	q = Problem{
		M: word(encoding.RecordM), N: word(encoding.RecordN), K: word(encoding.RecordK), TransA: r.TransA, TransB: r.TransB,
		Alpha: Scale(math.Float32frombits(uint32(words[encoding.RecordAlpha]))), Beta: math.Float32frombits(uint32(words[encoding.RecordBeta])),
		A: Matrix{word(encoding.RecordOffA), word(encoding.RecordLDA)},
		B: Matrix{word(encoding.RecordOffB), word(encoding.RecordLDB)},
		C: Matrix{word(encoding.RecordOffC), word(encoding.RecordLDC)},
	}
	if !e.none() {
		q.B2 = Matrix{word(encoding.RecordOffB2), word(encoding.RecordLDB2)}
		q.Bias, q.RowsA, q.RowsC = word(encoding.RecordBias), word(encoding.RecordRowsA), word(encoding.RecordRowsC)
		q.Weights, q.Pointers = word(encoding.RecordWeights), word(encoding.RecordPointers)
	}
	if e.kernel().Scaled() {
		q.ScaleA, q.ScaleB = word(encoding.RecordScaleA), word(encoding.RecordScaleB)
	}
	ok = uint(q.M) <= uint(r.M) && uint(q.N) <= uint(r.N) && uint(q.K) <= uint(r.K)
	if !ok || q.M == 0 || q.N == 0 {
		return q, ok
	}
	return q, r.reaches(&q, e)
}

// reaches reports whether a problem keeps to what records may reach.
func (r *Ragged) reaches(q *Problem, e *Epilogue) bool {
	x := r.bounds(e)
	if q.depth() > 0 {
		rowsA, colsA := q.ShapeA()
		rowsB, colsB := q.ShapeB()
		if !q.A.within(e.storedA(rowsA), colsA, x.A) || !q.B.within(rowsB, colsB, x.B) || e.Gated && !q.B2.within(rowsB, colsB, x.B2) {
			return false
		}
	}
	if !q.C.within(e.storedC(q.M), q.N, x.C) || e.Gated && q.Beta != 0 || e.checkGroups(0, q) != nil {
		return false
	}
	for _, l := range e.lists(q) {
		if l.used && (l.first < 0 || l.first > *x.of(&l)-l.length) {
			return false
		}
	}
	return true
}

// within reports whether a matrix lies in so many elements.
func (m Matrix) within(rows, cols, length int) bool {
	if m.LD < cols || m.LD > MaxDim || m.Offset < 0 {
		return false
	}
	end, ok := addMul(m.Offset, rows-1, m.LD)
	return ok && end <= length-cols
}

// AppendRecords appends a record for each problem of a batch, for a ragged batch of form
// Records whose transpositions are those of all its problems. The batch has passed
// Check. It fails where a number needs more than 32 bits.
func AppendRecords(dst []int32, b Batch) ([]int32, error) {
	return appendRecords(dst, b, encoding.RecordWords)
}

// AppendEpilogueRecords is AppendRecords for programs with an epilogue, whose records have more words.
func AppendEpilogueRecords(dst []int32, b Batch) ([]int32, error) {
	return appendRecords(dst, b, encoding.EpilogueRecordWords)
}

// AppendScaledRecords is AppendRecords for programs whose epilogue has scales.
func AppendScaledRecords(dst []int32, b Batch) ([]int32, error) {
	return appendRecords(dst, b, encoding.ScaledRecordWords)
}

// appendRecords appends so many words of each record.
func appendRecords(dst []int32, b Batch, words int) ([]int32, error) {
	for i := range b {
		q := &b[i]
		for _, m := range [...]struct {
			arg, what string
			at        int
			word      encoding.RecordWord
		}{
			{"A", "offset ", q.A.Offset, encoding.RecordOffA}, {"B", "offset ", q.B.Offset, encoding.RecordOffB}, {"C", "offset ", q.C.Offset, encoding.RecordOffC},
			{"B2", "offset ", q.B2.Offset, encoding.RecordOffB2}, {"ldb2", "", q.B2.LD, encoding.RecordLDB2}, {"bias", "offset ", q.Bias, encoding.RecordBias},
			{"rows of A", "offset ", q.RowsA, encoding.RecordRowsA}, {"rows of C", "offset ", q.RowsC, encoding.RecordRowsC},
			{"weights", "offset ", q.Weights, encoding.RecordWeights}, {"pointers", "offset ", q.Pointers, encoding.RecordPointers},
			{"scales of A", "offset ", q.ScaleA, encoding.RecordScaleA}, {"scales of B", "offset ", q.ScaleB, encoding.RecordScaleB},
		} {
			if int(m.word) < words && uint64(m.at) > math.MaxUint32 {
				return dst, problemError(i, m.arg, "%s%d needs more than 32 bits", m.what, m.at)
			}
		}
		var w [encoding.ScaledRecordWords]uint32
		q.record((*[encoding.RecordWords]uint32)(w[:]))
		q.recordEpilogue(&w)
		for _, x := range w[:words] {
			dst = append(dst, int32(x))
		}
	}
	return dst, nil
}

// record writes the words of the problem's record.
func (p *Problem) record(w *[encoding.RecordWords]uint32) {
	w[encoding.RecordM], w[encoding.RecordN], w[encoding.RecordK] = uint32(p.M), uint32(p.N), uint32(p.K)
	w[encoding.RecordLDA], w[encoding.RecordLDB], w[encoding.RecordLDC] = uint32(p.A.LD), uint32(p.B.LD), uint32(p.C.LD)
	w[encoding.RecordOffA], w[encoding.RecordOffB], w[encoding.RecordOffC] = uint32(p.A.Offset), uint32(p.B.Offset), uint32(p.C.Offset)
	w[encoding.RecordAlpha], w[encoding.RecordBeta] = math.Float32bits(p.Alpha.Value()), math.Float32bits(p.Beta)
	w[encoding.RecordZero] = 0
}

// recordEpilogue writes those that it has more for an epilogue.
func (p *Problem) recordEpilogue(w *[encoding.ScaledRecordWords]uint32) {
	w[encoding.RecordOffB2], w[encoding.RecordLDB2], w[encoding.RecordBias] = uint32(p.B2.Offset), uint32(p.B2.LD), uint32(p.Bias)
	w[encoding.RecordRowsA], w[encoding.RecordRowsC] = uint32(p.RowsA), uint32(p.RowsC)
	w[encoding.RecordWeights], w[encoding.RecordPointers] = uint32(p.Weights), uint32(p.Pointers)
	w[encoding.RecordScaleA], w[encoding.RecordScaleB] = uint32(p.ScaleA), uint32(p.ScaleB)
}
