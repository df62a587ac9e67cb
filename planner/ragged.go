package planner

import (
	"math"

	"github.com/batchgemm/batchgemm/internal/elemtype"
	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/internal/invalid"
	"github.com/batchgemm/batchgemm/planner/element"
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
	// Records: Epilogue.RecordWords words for each group, which is any problem, as AppendRecords writes them.
	Records = encoding.Records
)

// Rest says what becomes of elements of C of which no group is computed.
type Rest uint8

const (
	RestKept Rest = iota // they stay as they are
	RestZero             // they are 0
	// they are NaN, so that nobody takes them for results; WGSL itself promises nothing about NaN
	RestNaN
)

// beta is what they are multiplied by.
func (r Rest) beta() float32 {
	return [...]float32{RestKept: 1, RestZero: 0, RestNaN: float32(math.NaN())}[r]
}

// MaxGroups is the most groups of a ragged batch.
const MaxGroups = encoding.MaxGroups

// Sizes are those of a problem.
type Sizes struct{ M, N, K int }

// Ragged describes a batch whose sizes are on the device when it runs: what bounds them, and
// all that is the same for its groups, of which each is a problem.
//
// The sizes are in a buffer that comes with each run. Those that go down, are negative, or
// do not fit the bounds name a group that is refused: neither it nor any group after it is
// computed, and the program's Status tells which it was. Rest says what their C is then. Nothing
// beyond what is described here is read or written whatever the sizes are, nor beyond the extent of a
// run that has less (Within).
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
	// What Options.Epilogue asks for, as in a Problem, of the first group. Records have their own; with
	// Gated one whose beta is not 0 is refused.
	//
	// B2 of a group is where its B is: StrideB after the one before, or with EndsOfDepth at its rows of
	// op(B2). Biases are StrideBias apart, addresses encoding.PointerWords words. Lists have a word for each
	// row of all groups together: with EndsOfRows there are M, with EndsOfDepth M for each group. They name
	// any rows of A and of C, with EndsOfDepth of the group's own C, or of one for all where StrideC is 0. So
	// do lists of scales of the rows of op(A), with Epilogue.ZeroA two for each; A has one scale, or one for
	// each of GatherRows rows, for all groups. Scales of B are after those of the group before. After a
	// group's addresses offsets are those of a buffer for all groups: StrideB, or StrideC, is 0 where each
	// has a matrix of its own.
	B2                                    Matrix
	Bias, RowsA, RowsC, Weights, Pointers int
	ScaleA, ScaleB                        int
	StrideBias                            int
	// Rest is what becomes of the rows of C after the last group that is not refused, up to M, and with
	// EndsOfDepth of the whole C of groups that are refused. Not with Records, nor with an epilogue.
	Rest Rest
	// LenA, LenB and LenC are the elements of the buffers that records may reach, and with an epilogue
	// LenB2, LenBias and, in words, LenRows; Records alone. Of operands by pointers they do not count.
	LenA, LenB, LenC        int
	LenB2, LenBias, LenRows int
}

// SizesLen is the number of 32-bit words of the sizes without an epilogue: Plan.SizesLen has those
// of any plan.
func (r *Ragged) SizesLen() int { return r.sizesLen(&Epilogue{}) }

func (r *Ragged) sizesLen(e *Epilogue) int {
	if r.Form == Records {
		return r.Groups * e.RecordWords()
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
		{"length of A", r.LenA, mostRagged}, {"length of B", r.LenB, mostRagged},
		{"length of C", r.LenC, mostRagged},
		{"length of B2", r.LenB2, mostRagged}, {"length of biases", r.LenBias, mostRagged},
		{"length of rows", r.LenRows, mostRagged},
		{"stride of B", r.StrideB, mostRagged}, {"stride of C", r.StrideC, mostRagged},
		{"stride of biases", r.StrideBias, mostRagged},
	} {
		if f.value < 0 || f.value > f.limit {
			return r.wrong("%s %d is not in [0, %d]", f.name, f.value, f.limit)
		}
	}
	switch {
	case r.Rest > RestNaN:
		return r.wrong("unknown rest %d", r.Rest)
	case r.Rest != RestKept && r.Form == Records:
		return r.wrong("C of no group is filled with ends of rows or of depth alone")
	case r.Rest != RestKept && !e.none():
		return r.wrong("C of no group is filled without an epilogue alone")
	case r.Form == EndsOfDepth && e.alongK() != "":
		return r.wrong("scales of %s need a K that the host knows, or records", e.alongK())
	case r.Form != Records:
		return r.checkOperands(e)
	case e.group() > 0 && (r.TransA || r.TransB):
		return r.wrong("where B is of %s neither A nor B is transposed", element.Int4)
	case r.TransA && e.GatherRows > 0:
		return r.wrong("transA is set, but rows are gathered of an A that is not transposed")
	}
	return nil
}

// mostRagged bounds the elements that a launch reaches: offsets in items have 32 bits.
const mostRagged = min(math.MaxUint32, maxElements)

func (r *Ragged) wrong(format string, args ...any) error {
	return invalid.Errorf("ragged batch: "+format, args...)
}

// checkOperands checks where matrices lie that sizes place by ends.
func (r *Ragged) checkOperands(e *Epilogue) error {
	whole := r.problem()
	if err := e.checkProblem(0, &whole, &endless); err != nil {
		return r.wrong("%w", err)
	}
	if line := elemtype.Line(element.Int4); e.group() > 0 && r.StrideB%line != 0 {
		return r.wrong("stride of B %d is no multiple of %d, 16 bytes of %s", r.StrideB, line, element.Int4)
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
		if err := checkMatrix(0, m.arg, m.ld, m.at, m.rows, m.cols, mostRagged, m.rows > 0 &&
			m.cols > 0); err != nil {
			return r.wrong("%w", err)
		}
		size := m.at.end(m.rows, m.cols) - m.at.Offset
		if last, ok := addMul(m.at.Offset, m.copies-1, m.stride); !ok || last > mostRagged-max(size, 0) {
			return r.wrong("%s of the last group does not fit in %d elements", m.arg, mostRagged)
		}
		apart := e.ScatterRows == 0 && !e.Pointers.C // else only those who write lists or addresses know
		if m.arg == "C" && apart && m.copies > 1 && m.stride < size {
			return r.wrong("the C of groups overlap: stride %d, each has %d elements", m.stride, size)
		}
	}
	return r.checkLists(e)
}

// checkLists checks where what epilogues have of the last group ends.
func (r *Ragged) checkLists(e *Epilogue) error {
	whole := r.problem()
	for i, l := range e.lists(&whole) {
		last, ok := addMul(l.first, r.Groups-1, r.listsApart(e)[i])
		if !l.used || ok && last <= mostRagged-l.length {
			continue
		}
		if l.bias {
			return r.wrong("the bias of the last group does not fit in %d elements", mostRagged)
		}
		return r.wrong("the %s of the last group do not fit in %d words", l.arg, mostRagged)
	}
	return nil
}

// listsApart is how far after each of Epilogue.lists that of the next group begins. With ends of rows groups
// share the rows.
func (r *Ragged) listsApart(e *Epilogue) [7]int {
	rows, scales := 0, 0
	if r.Form == EndsOfDepth {
		rows = r.M
	}
	whole := r.problem()
	if e.kernel().EachRow() {
		scales = rows * e.scalesOfRow(&whole)
	}
	return [...]int{r.StrideBias, rows, rows, rows, encoding.PointerWords, scales, e.ScalesB(&whole)}
}

// problem is the batch as one problem, of the first group's B and C.
func (r *Ragged) problem() Problem {
	return Problem{M: r.M, N: r.N, K: r.K, TransA: r.TransA, TransB: r.TransB, Alpha: r.Alpha, Beta: r.Beta,
		A: r.A, B: r.B, C: r.C,
		B2: r.B2, Bias: r.Bias, RowsA: r.RowsA, RowsC: r.RowsC, Weights: r.Weights, Pointers: r.Pointers,
		ScaleA: r.ScaleA, ScaleB: r.ScaleB}
}

// bound is the most that ends may be, which is not that of Records.
func (r *Ragged) bound() *int {
	if r.Form == EndsOfDepth {
		return &r.K
	}
	return &r.M
}

// stride is how far after each other groups have what is their own.
func (r *Ragged) stride() int {
	if r.Form == EndsOfDepth {
		return r.StrideC
	}
	return r.StrideB
}

// CheckExtent names what is wrong with an extent for Within. The description passed Check.
func (r *Ragged) CheckExtent(extent int) error {
	switch {
	case extent == 0:
	case r.Form == Records:
		return r.wrong("extent %d is not 0: records have sizes of their own", extent)
	case extent < 0 || extent > *r.bound():
		return r.wrong("extent %d is not in [0, %d]", extent, *r.bound())
	}
	return nil
}

// Within is the batch of a run that has an extent: so many of the M rows, or with EndsOfDepth so much of K,
// are there, and nothing after them is read or written. 0: all of them.
func (r Ragged) Within(extent int) Ragged {
	if extent > 0 {
		*r.bound() = extent
	}
	return r
}

// extents is what buffers need at least. The description passed check.
func (r *Ragged) extents(e *Epilogue) Lengths {
	if r.Form == Records {
		return r.lengths(e)
	}
	whole := r.problem()
	x := Batch{whole}.Lengths(*e)
	if r.M == 0 || r.N == 0 {
		return x
	}
	for _, m := range [...]struct {
		end  *int
		each int
		own  bool // of each group
	}{
		{&x.B, r.StrideB, r.Form == EndsOfRows}, {&x.B2, r.StrideB, r.Form == EndsOfRows},
		{&x.C, r.StrideC, r.Form == EndsOfDepth},
	} {
		if m.own && *m.end > 0 {
			*m.end += (r.Groups - 1) * m.each
		}
	}
	for i, l := range e.lists(&whole) {
		if l.used {
			length := x.of(&l)
			*length = max(*length, l.first+(r.Groups-1)*r.listsApart(e)[i]+l.length)
		}
	}
	return x
}

// Batch is what a run with these sizes and an epilogue computes: a problem for each group, and one more
// that fills the rows after them where that is asked for. refused is the first group that is refused,
// -1 if none is; it and those after it have no rows, or fill their C. The description passed Check, and
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
			q = r.refused(g)
		}
		b = append(b, q)
	}
	if r.entries() > r.Groups {
		last := r.Groups
		if refused >= 0 {
			last = refused
		}
		q := r.rest()
		if last > 0 {
			end := int(sizes[last-1])
			q.M -= end
			q.C.Offset += end * q.C.LD
		}
		b = append(b, q)
	}
	return b, refused
}

// rest fills all rows, or the C of the first group.
func (r *Ragged) rest() Problem {
	q := r.problem()
	q.K, q.Alpha, q.Beta = 0, Scale(0), r.Rest.beta()
	return q
}

// refused is what is done for a group that is refused: nothing, but where its C is to be filled.
func (r *Ragged) refused(g int) Problem {
	if r.Form != EndsOfDepth || r.Rest == RestKept {
		return Problem{TransA: r.TransA, TransB: r.TransB}
	}
	q := r.rest()
	q.C.Offset += g * r.StrideC
	return q
}

// group is a problem, if its sizes fit.
func (r *Ragged) group(sizes []int32, g int, e *Epilogue) (q Problem, ok bool) {
	if r.Form == Records {
		n := e.RecordWords()
		return r.record(sizes[g*n:][:n], e)
	}
	q = r.problem()
	first, end := 0, int(sizes[g])
	if g > 0 {
		first = int(sizes[g-1])
	}
	if first < 0 || end < first || end > *r.bound() {
		return q, false
	}
	if r.Form == EndsOfRows {
		r.rowsOf(&q, g, first, end, e)
	} else {
		r.depthOf(&q, g, first, end, e)
	}
	return q, true
}

// rowsOf makes a problem that of a group of rows.
func (r *Ragged) rowsOf(q *Problem, g, first, end int, e *Epilogue) {
	q.M = end - first
	switch {
	case e.GatherRows > 0: // any of A
	case q.TransA:
		q.A.Offset += first
	default:
		q.A.Offset += first * q.A.LD
	}
	if e.ScatterRows == 0 {
		q.C.Offset += first * q.C.LD
	}
	q.B.Offset += g * r.StrideB
	if !e.none() {
		q.B2.Offset += g * r.StrideB
		r.placeLists(q, g, first, e)
	}
}

// depthOf makes a problem that of a group of K.
func (r *Ragged) depthOf(q *Problem, g, first, end int, e *Epilogue) {
	q.K = end - first
	along := func(m *Matrix, rows bool) { // K runs down the rows, or along them
		if rows {
			m.Offset += first * m.LD
		} else {
			m.Offset += first
		}
	}
	along(&q.A, q.TransA)
	along(&q.B, !q.TransB)
	q.C.Offset += g * r.StrideC
	if !e.none() {
		along(&q.B2, !q.TransB)
		r.placeLists(q, g, g*r.M, e)
	}
}

// placeLists sets where the lists of a group begin, whose first row is a row of all groups.
func (r *Ragged) placeLists(q *Problem, g, row int, e *Epilogue) {
	q.Bias += g * r.StrideBias
	q.RowsA, q.RowsC, q.Weights = q.RowsA+row, q.RowsC+row, q.Weights+row
	if e.Pointers.Any() {
		q.Pointers += g * encoding.PointerWords
	}
	if e.kernel().EachRow() {
		q.ScaleA += row * e.scalesOfRow(q)
	}
	q.ScaleB += g * e.ScalesB(q)
}
