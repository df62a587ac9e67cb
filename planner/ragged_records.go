package planner

import (
	"math"

	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/planner/element"
)

// lengths returns the bounds of what records may reach. No buffer has the elements of operands with
// addresses.
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

// bounds is lengths, with the furthest end after an address that items can express.
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

// record returns the problem of a record, if it fits. It inverts Problem.record.
func (r *Ragged) record(words []int32, o *Options) (q Problem, ok bool) {
	e := &o.Epilogue
	word := func(w encoding.RecordWord) int { return int(uint32(words[w])) }
	matrix := func(offset, ld encoding.RecordWord) Matrix { return Matrix{word(offset), word(ld)} }
	q = Problem{
		M: word(encoding.RecordM), N: word(encoding.RecordN), K: word(encoding.RecordK),
		TransA: r.TransA, TransB: r.TransB,
		Alpha: Scale(float64(math.Float32frombits(uint32(words[encoding.RecordAlpha])))),
		Beta:  float64(math.Float32frombits(uint32(words[encoding.RecordBeta]))),
		A:     matrix(encoding.RecordOffA, encoding.RecordLDA),
		B:     matrix(encoding.RecordOffB, encoding.RecordLDB),
		C:     matrix(encoding.RecordOffC, encoding.RecordLDC),
	}
	if len(words) >= encoding.EpilogueRecordWords {
		q.B2 = matrix(encoding.RecordOffB2, encoding.RecordLDB2)
		q.Bias, q.Weights = word(encoding.RecordBias), word(encoding.RecordWeights)
		q.RowsA, q.RowsC = word(encoding.RecordRowsA), word(encoding.RecordRowsC)
		q.Pointers = word(encoding.RecordPointers)
	}
	switch {
	case o.TypeC == element.F64:
		low := words[encoding.RecordLow:]
		q.Alpha = Scale(encoding.Scalar64(uint32(words[encoding.RecordAlpha]), uint32(low[0])))
		q.Beta = encoding.Scalar64(uint32(words[encoding.RecordBeta]), uint32(low[1]))
	case len(words) >= encoding.ScaledRecordWords:
		q.ScaleA, q.ScaleB = word(encoding.RecordScaleA), word(encoding.RecordScaleB)
	}
	ok = uint(q.M) <= uint(r.M) && uint(q.N) <= uint(r.N) && uint(q.K) <= uint(r.K)
	if !ok || q.M == 0 || q.N == 0 {
		return q, ok
	}
	return q, r.reaches(&q, e)
}

// reaches reports whether a problem stays within what records may reach.
func (r *Ragged) reaches(q *Problem, e *Epilogue) bool {
	x := r.bounds(e)
	if q.depth() > 0 {
		rowsA, colsA := q.ShapeA()
		rowsB, colsB := q.ShapeB()
		if !q.A.within(e.storedA(rowsA), colsA, x.A) || !q.B.within(rowsB, colsB, x.B) ||
			e.Gated && !q.B2.within(rowsB, colsB, x.B2) {
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

// within reports whether a matrix ends within that many elements.
func (m Matrix) within(rows, cols, length int) bool {
	if m.LD < cols || m.LD > MaxDim || m.Offset < 0 {
		return false
	}
	end, ok := addMul(m.Offset, rows-1, m.LD)
	return ok && end <= length-cols
}

// AppendRecords appends a record for each problem of the batch, all of one length, for a ragged batch of form
// Records. Its transpositions must be those of all problems, and its plan must have these types and this
// epilogue. The batch must have passed Check. AppendRecords fails if a number needs more than 32 bits.
func AppendRecords(dst []int32, b Batch, o Options) ([]int32, error) {
	var w [encoding.ScaledRecordWords]uint32
	words := w[:o.recordWords()]
	for i := range b {
		if err := b[i].checkRecord(i, len(words)); err != nil {
			return dst, err
		}
		b[i].record(words, o.TypeC)
		for _, x := range words {
			dst = append(dst, int32(x))
		}
	}
	return dst, nil
}

// recordWords returns the words of a record.
func (o *Options) recordWords() int { return o.Epilogue.kernel().RecordWords(o.TypeA) }

// checkRecord fails if a record of that many words has no room for a number of the problem.
func (p *Problem) checkRecord(i, words int) error {
	for _, m := range [...]struct {
		arg, what string
		value     int
		word      encoding.RecordWord
	}{
		{"A", "offset ", p.A.Offset, encoding.RecordOffA},
		{"B", "offset ", p.B.Offset, encoding.RecordOffB},
		{"C", "offset ", p.C.Offset, encoding.RecordOffC},
		{"B2", "offset ", p.B2.Offset, encoding.RecordOffB2},
		{"ldb2", "", p.B2.LD, encoding.RecordLDB2},
		{"bias", "offset ", p.Bias, encoding.RecordBias},
		{"rows of A", "offset ", p.RowsA, encoding.RecordRowsA},
		{"rows of C", "offset ", p.RowsC, encoding.RecordRowsC},
		{"weights", "offset ", p.Weights, encoding.RecordWeights},
		{"pointers", "offset ", p.Pointers, encoding.RecordPointers},
		{"scales of A", "offset ", p.ScaleA, encoding.RecordScaleA},
		{"scales of B", "offset ", p.ScaleB, encoding.RecordScaleB},
	} {
		if int(m.word) < words && uint64(m.value) > math.MaxUint32 {
			return problemError(i, m.arg, "%s%d needs more than 32 bits", m.what, m.value)
		}
	}
	return nil
}

// record writes the problem's record to w: the head, and as much of the tail as w has room for.
func (p *Problem) record(w []uint32, typeC element.Type) {
	_ = w[encoding.RecordWords-1]
	w[encoding.RecordM], w[encoding.RecordN], w[encoding.RecordK] = uint32(p.M), uint32(p.N), uint32(p.K)
	w[encoding.RecordLDA], w[encoding.RecordOffA] = uint32(p.A.LD), uint32(p.A.Offset)
	w[encoding.RecordLDB], w[encoding.RecordOffB] = uint32(p.B.LD), uint32(p.B.Offset)
	w[encoding.RecordLDC], w[encoding.RecordOffC] = uint32(p.C.LD), uint32(p.C.Offset)
	alpha, alphaLow := encoding.PutScalar(typeC, p.Alpha.Value())
	beta, betaLow := encoding.PutScalar(typeC, p.Beta)
	w[encoding.RecordAlpha], w[encoding.RecordBeta], w[encoding.RecordZero] = alpha, beta, 0
	if len(w) >= encoding.EpilogueRecordWords {
		w[encoding.RecordOffB2], w[encoding.RecordLDB2] = uint32(p.B2.Offset), uint32(p.B2.LD)
		w[encoding.RecordBias], w[encoding.RecordWeights] = uint32(p.Bias), uint32(p.Weights)
		w[encoding.RecordRowsA], w[encoding.RecordRowsC] = uint32(p.RowsA), uint32(p.RowsC)
		w[encoding.RecordPointers] = uint32(p.Pointers)
	}
	switch {
	case typeC == element.F64:
		w[encoding.RecordLow], w[encoding.RecordLow+1] = alphaLow, betaLow
	case len(w) >= encoding.ScaledRecordWords:
		w[encoding.RecordScaleA], w[encoding.RecordScaleB] = uint32(p.ScaleA), uint32(p.ScaleB)
	}
}
