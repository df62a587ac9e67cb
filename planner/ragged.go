package planner

import (
	"math"

	"github.com/batchgemm/batchgemm/internal/invalid"
	"github.com/batchgemm/batchgemm/planner/encoding"
)

// RaggedForm says what the buffer of sizes holds.
type RaggedForm = encoding.RaggedForm

const (
	// EndsOfRows: an int32 for each group, where its rows of op(A) and C end, as torch's
	// offs: group g has the rows from ends[g-1] on, the first from 0 on. B is its own. A
	// layer of experts and the gradient of its input are so.
	EndsOfRows = encoding.EndsOfRows
	// EndsOfDepth: an int32 for each group, where its columns of op(A) and rows of op(B)
	// end. C is its own. The gradient of the experts' weights is so.
	EndsOfDepth = encoding.EndsOfDepth
	// Records: encoding.RecordWords words for each group, which is any problem. AppendRecords
	// writes them.
	Records = encoding.Records
)

// MaxGroups is the most groups of a ragged batch.
const MaxGroups = encoding.MaxGroups

// Sizes are those of a problem.
type Sizes struct{ M, N, K int }

// Ragged describes a batch whose sizes are on the device when it runs: what bounds them, and
// all that is the same for its groups, of which each is a problem.
//
// The sizes are in a buffer that comes with each run. Those that go down, are negative, or
// do not fit the bounds name a group that is refused: neither it nor any group behind it is
// computed, and the program's Status tells which it was. Nothing beyond what is described
// here is read or written whatever the sizes are.
type Ragged struct {
	Form   RaggedForm
	Groups int // that the sizes have, up to MaxGroups; unused ones have no rows
	// Sizes of each group, but for M with EndsOfRows and K with EndsOfDepth: what all groups
	// have together, at most. With Records M is what all have together, at most, too, and N
	// and K the most of each.
	M, N, K int
	// Mean is the size of a group as it is expected, for which the plan is made then. Where
	// nothing is known, the plan is for groups of the bounds that share what all have together,
	// and has a second tile shape for when they have much less; where a part is, the bounds
	// and shares stand for the others.
	Mean Sizes

	TransA, TransB bool
	Alpha          Factor // not with Records, which have their own, as the next
	Beta           float32
	// A, B and C place the operands, those of the first group where each has its own, which
	// are StrideB, or StrideC, elements apart.
	A, B, C          Matrix
	StrideB, StrideC int
	// What Options.Epilogue asks for, EndsOfRows alone, as in a Problem. B2 of groups are StrideB
	// apart as B is, and biases StrideBias. Row i of all groups together has word i of the lists: rows
	// that are gathered or scattered are any of A or C, wherever the rows of the group begin. Group g
	// has encoding.PointerWords words from Pointers on, behind those of the groups before; its address
	// of A, and of C, is still that of row 0 of all groups together, and its address of B that of the first
	// one's (StrideB is 0 where each has its own).
	B2                                    Matrix
	Bias, RowsA, RowsC, Weights, Pointers int
	StrideBias                            int
	// Zero sets the rows of C behind the last group to 0, up to M; EndsOfRows alone. Where a
	// group is refused it does not.
	Zero bool
	// LenA, LenB and LenC are the elements of the buffers that records may reach; Records alone.
	LenA, LenB, LenC int
}

// SizesLen is the number of 32-bit words of the sizes.
func (r *Ragged) SizesLen() int {
	if r.Form == Records {
		return r.Groups * encoding.RecordWords
	}
	return r.Groups
}

// Check names the first thing about the description that no sizes can make right. It is
// an error that wraps ErrInvalid.
func (r *Ragged) Check() error { return r.check(&Epilogue{}) }

// check is Check for plans with an epilogue.
func (r *Ragged) check(e *Epilogue) error {
	switch r.Form {
	case EndsOfRows, EndsOfDepth, Records:
	default:
		return r.wrong("unknown form %d of the sizes", r.Form)
	}
	if r.Groups < 1 || r.Groups > MaxGroups {
		return r.wrong("%d groups are not in [1, %d]", r.Groups, MaxGroups)
	}
	for _, f := range [...]struct {
		name  string
		value int
		limit int
	}{
		{"M", r.M, MaxDim}, {"N", r.N, MaxDim}, {"K", r.K, MaxDim},
		{"mean M", r.Mean.M, MaxDim}, {"mean N", r.Mean.N, MaxDim}, {"mean K", r.Mean.K, MaxDim},
		{"length of A", r.LenA, mostRagged}, {"length of B", r.LenB, mostRagged}, {"length of C", r.LenC, mostRagged},
		{"stride of B", r.StrideB, mostRagged}, {"stride of C", r.StrideC, mostRagged}, {"stride of biases", r.StrideBias, mostRagged},
	} {
		if f.value < 0 || f.value > f.limit {
			return r.wrong("%s %d is not in [0, %d]", f.name, f.value, f.limit)
		}
	}
	if r.Zero && r.Form != EndsOfRows {
		return r.wrong("rows behind the last group are set to 0 with ends of rows alone")
	}
	if !e.none() && (r.Form != EndsOfRows || r.Zero) {
		return r.wrong("there are epilogues with ends of rows alone, and none of rows that are set to 0")
	}
	if r.Form == Records {
		return nil
	}
	return r.checkOperands(e)
}

// mostRagged bounds the elements that a launch reaches: offsets in items have 32 bits.
const mostRagged = min(math.MaxUint32, maxElements)

func (r *Ragged) wrong(format string, args ...any) error {
	return invalid.Errorf("ragged batch: "+format, args...)
}

// checkOperands checks where matrices lie that sizes place by ends.
func (r *Ragged) checkOperands(e *Epilogue) error {
	whole := r.problem()
	if err := e.checkProblem(0, &whole); err != nil {
		return r.wrong("%w", err)
	}
	rowsA, colsA := whole.ShapeA()
	rowsB, colsB := whole.ShapeB()
	copiesB, copiesC := 1, 1
	if r.Form == EndsOfRows {
		copiesB = r.Groups
	} else {
		copiesC = r.Groups
	}
	for _, m := range [...]struct {
		arg, ld            string
		at                 Matrix
		rows, cols, copies int
		stride             int
	}{
		{"A", "lda", r.A, e.storedA(rowsA), colsA, 1, 0},
		{"B", "ldb", r.B, rowsB, colsB, copiesB, r.StrideB},
		{"C", "ldc", r.C, e.storedC(r.M), r.N, copiesC, r.StrideC},
		{"B2", "ldb2", r.B2, rowsB, colsB, copiesB, r.StrideB},
	} {
		if m.arg == "B2" && !e.Gated {
			continue
		}
		if err := checkMatrix(0, m.arg, m.ld, m.at, m.rows, m.cols, mostRagged, m.rows > 0 && m.cols > 0); err != nil {
			return r.wrong("%w", err)
		}
		size := m.at.end(m.rows, m.cols) - m.at.Offset
		if last, ok := addMul(m.at.Offset, m.copies-1, m.stride); !ok || last > mostRagged-max(size, 0) {
			return r.wrong("%s of the last group does not fit in %d elements", m.arg, mostRagged)
		}
		if m.arg == "C" && m.copies > 1 && m.stride < size {
			return r.wrong("the C of groups overlap: stride %d, each has %d elements", m.stride, size)
		}
	}
	if last, ok := addMul(r.Pointers, r.Groups, encoding.PointerWords); e.Pointers.Any() && (!ok || last > mostRagged) {
		return r.wrong("the pointers of the last group do not fit in %d words", mostRagged)
	}
	if last, ok := addMul(r.Bias, r.Groups-1, r.StrideBias); e.Bias && (!ok || last > mostRagged-e.biases(r.N)) {
		return r.wrong("the bias of the last group does not fit in %d elements", mostRagged)
	}
	return nil
}

// problem is the batch as one problem, of the first group's B and C.
func (r *Ragged) problem() Problem {
	return Problem{M: r.M, N: r.N, K: r.K, TransA: r.TransA, TransB: r.TransB, Alpha: r.Alpha, Beta: r.Beta, A: r.A, B: r.B, C: r.C,
		B2: r.B2, Bias: r.Bias, RowsA: r.RowsA, RowsC: r.RowsC, Weights: r.Weights, Pointers: r.Pointers}
}

// extents is what buffers need at least. The description passed check.
func (r *Ragged) extents(e *Epilogue) extents {
	if r.Form == Records {
		return extents{a: r.LenA, b: r.LenB, c: r.LenC}
	}
	x := Batch{r.problem()}.extents(e)
	if r.Form == EndsOfDepth && x.c > 0 {
		x.c += (r.Groups - 1) * r.StrideC
	}
	if r.Form == EndsOfDepth {
		return x
	}
	if e.Pointers.Any() && x.rows > 0 {
		x.rows = max(x.rows, r.Pointers+r.Groups*encoding.PointerWords)
	}
	for _, m := range [...]struct {
		end    *int
		stride int
	}{{&x.b, r.StrideB}, {&x.b2, r.StrideB}, {&x.bias, r.StrideBias}} {
		if *m.end > 0 {
			*m.end += (r.Groups - 1) * m.stride
		}
	}
	return x
}

// Batch is what a run with these sizes and an epilogue computes: a problem for each group, and one more
// that sets rows to 0 where that is asked for. refused is the first group that is refused,
// -1 if none is; it and those behind it have no rows. The description passed Check, and
// there are SizesLen sizes. The batch is in dst[:0], if that is large enough.
func (r *Ragged) Batch(dst Batch, sizes []int32, e Epilogue) (b Batch, refused int) {
	refused = -1
	b = dst[:0]
	left := r.M // rows that groups may still have; Records
	for g := range r.Groups {
		q, ok := r.group(sizes, g, &e)
		if r.Form == Records && ok {
			left -= q.M
			ok = left >= 0
		}
		if !ok && refused < 0 {
			refused = g
		}
		if refused >= 0 {
			q = Problem{TransA: r.TransA, TransB: r.TransB}
		}
		b = append(b, q)
	}
	if r.Zero {
		q := r.problem()
		q.K, q.Alpha, q.Beta, q.M = 0, Scale(0), 0, 0
		if refused < 0 {
			end := int(sizes[r.Groups-1])
			q.M = r.M - end
			q.C.Offset += end * q.C.LD
		}
		b = append(b, q)
	}
	return b, refused
}

// group is a problem, if its sizes fit.
func (r *Ragged) group(sizes []int32, g int, e *Epilogue) (q Problem, ok bool) {
	if r.Form == Records {
		return r.record(sizes[g*encoding.RecordWords:][:encoding.RecordWords])
	}
	q = r.problem()
	first, end := 0, int(sizes[g])
	if g > 0 {
		first = int(sizes[g-1])
	}
	bound := r.M
	if r.Form == EndsOfDepth {
		bound = r.K
	}
	if first < 0 || end < first || end > bound {
		return q, false
	}
	inA := first * q.A.LD
	if q.TransA == (r.Form == EndsOfRows) {
		inA = first
	}
	if e.GatherRows == 0 {
		q.A.Offset += inA
	}
	if r.Form == EndsOfRows {
		q.M = end - first
		q.B.Offset += g * r.StrideB
		if e.ScatterRows == 0 {
			q.C.Offset += first * q.C.LD
		}
		if !e.none() {
			q.B2.Offset += g * r.StrideB
			q.Bias += g * r.StrideBias
			q.RowsA, q.RowsC, q.Weights = q.RowsA+first, q.RowsC+first, q.Weights+first
		}
		if e.Pointers.Any() {
			q.Pointers += g * encoding.PointerWords
		}
		return q, true
	}
	q.K = end - first
	q.C.Offset += g * r.StrideC
	if q.TransB {
		q.B.Offset += first
	} else {
		q.B.Offset += first * q.B.LD
	}
	return q, true
}

// record is the problem of a record.
func (r *Ragged) record(words []int32) (q Problem, ok bool) {
	word := func(w encoding.RecordWord) int { return int(uint32(words[w])) }
	q = Problem{
		M: word(encoding.RecordM), N: word(encoding.RecordN), K: word(encoding.RecordK), TransA: r.TransA, TransB: r.TransB,
		Alpha: Scale(math.Float32frombits(uint32(words[encoding.RecordAlpha]))), Beta: math.Float32frombits(uint32(words[encoding.RecordBeta])),
		A: Matrix{word(encoding.RecordOffA), word(encoding.RecordLDA)},
		B: Matrix{word(encoding.RecordOffB), word(encoding.RecordLDB)},
		C: Matrix{word(encoding.RecordOffC), word(encoding.RecordLDC)},
	}
	ok = uint(q.M) <= uint(r.M) && uint(q.N) <= uint(r.N) && uint(q.K) <= uint(r.K)
	if !ok || q.M == 0 || q.N == 0 {
		return q, ok
	}
	if q.depth() > 0 {
		rows, cols := q.ShapeA()
		ok = q.A.within(rows, cols, r.LenA)
		rows, cols = q.ShapeB()
		ok = ok && q.B.within(rows, cols, r.LenB)
	}
	return q, ok && q.C.within(q.M, q.N, r.LenC)
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
	for i := range b {
		q := &b[i]
		for _, m := range [...]struct {
			arg string
			off int
		}{{"A", q.A.Offset}, {"B", q.B.Offset}, {"C", q.C.Offset}} {
			if uint64(m.off) > math.MaxUint32 {
				return dst, problemError(i, m.arg, "offset %d needs more than 32 bits", m.off)
			}
		}
		var w [encoding.RecordWords]uint32
		q.record(&w)
		for _, x := range w {
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
