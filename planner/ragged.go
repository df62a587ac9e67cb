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
	// EndsOfRows: one int32 for each group, the end of its rows of op(A) and C, like torch's offs. Group g
	// has the rows from ends[g-1] on, group 0 those from 0 on. Each group has its own B. A layer of experts
	// has this form, and so has the gradient of its input.
	EndsOfRows = encoding.EndsOfRows
	// EndsOfDepth: one int32 for each group, the end of its columns of op(A) and rows of op(B). Each group
	// has its own C. The gradient of the experts' weights has this form.
	EndsOfDepth = encoding.EndsOfDepth
	// Records: as many words for each group as AppendRecords writes them. A group is any
	// problem.
	Records = encoding.Records
)

// Rest says what happens to elements of C that belong to no computed group.
type Rest uint8

const (
	RestKept Rest = iota // they keep their values
	RestZero             // they become 0
	// they become NaN, so that they are not taken for results; WGSL itself promises nothing about NaN
	RestNaN
)

// beta is their factor.
func (r Rest) beta() float64 {
	return [...]float64{RestKept: 1, RestZero: 0, RestNaN: math.NaN()}[r]
}

// MaxGroups is the largest number of groups of a ragged batch.
const MaxGroups = encoding.MaxGroups

// Sizes are the M, N and K of a problem.
type Sizes struct{ M, N, K int }

// Ragged describes a batch whose sizes are on the device when it runs. It holds their bounds, and what all
// groups have in common. Each group is a problem.
//
// The sizes come in a buffer with each run. A group is refused if its sizes decrease, are negative, or
// exceed the bounds. Neither that group nor any group after it is computed, and the program's Status says
// which one it was. Rest says what happens to their C. Whatever the sizes are, nothing outside the described
// operands is read or written, nor beyond the extent of a run with a smaller one (Within).
type Ragged struct {
	Form   RaggedForm
	Groups int // number of groups in the sizes, up to MaxGroups; unused groups have no rows
	// M, N and K are the sizes of each group, with exceptions. M with EndsOfRows, and K with EndsOfDepth, is
	// the most that all groups have together. With Records, M is the most that all groups have together, and
	// N and K are the most of a group.
	M, N, K int
	// Mean is the expected size of a group; the plan is made for it. If it is zero, the plan assumes groups
	// at the bounds that share the total evenly, and has a second tile shape for much smaller totals. If
	// only some sizes are set, bounds and shares replace the others.
	Mean Sizes

	TransA, TransB bool
	Alpha          Factor // not with Records, which have their own; nor are the next two fields
	Beta           float64
	// A, B and C place the operands. If each group has its own B or C, they place the first one, and StrideB
	// or StrideC is the distance to the next, in elements.
	A, B, C          Matrix
	StrideB, StrideC int
	// These fields are for Options.Epilogue, as in a Problem, and describe the first group. Records have
	// their own; with Gated, a record whose beta is not 0 is refused.
	//
	// With EndsOfRows, the B2 of a group starts StrideB after the one before; with EndsOfDepth, it is at the
	// group's rows of op(B2). Biases are StrideBias apart, addresses encoding.PointerWords words. Lists have
	// one word for each row of all groups: M with EndsOfRows, M for each group with EndsOfDepth. They may
	// name any rows of A and C; with EndsOfDepth rows of the group's own C, or of one C for all if StrideC
	// is 0. Lists of scales of the rows of op(A) are laid out alike, with two words for each row if
	// Epilogue.ZeroA is set. Otherwise A has one scale, or one for each of GatherRows rows, for all groups.
	// Scales of B follow those of the group before. Offsets after a group's address are those of one buffer
	// for all groups: StrideB or StrideC is 0 if each group has a matrix of its own.
	B2                                    Matrix
	Bias, RowsA, RowsC, Weights, Pointers int
	ScaleA, ScaleB                        int
	StrideBias                            int
	// Rest says what happens to the rows of C after the last computed group, up to M. With EndsOfDepth it
	// applies to all of C of refused groups. Not with Records, nor with an epilogue.
	Rest Rest
	// LenA, LenB and LenC bound what records may reach, in elements of the buffers. With an epilogue, LenB2,
	// LenBias and LenRows (in words) do the same. Records only. They do not count for operands with
	// addresses.
	LenA, LenB, LenC        int
	LenB2, LenBias, LenRows int
}

// sizesLen returns the number of 32-bit words of the sizes.
func (r *Ragged) sizesLen(o *Options) int {
	if r.Form == Records {
		return r.Groups * o.recordWords()
	}
	return r.Groups
}

// check returns the first mistake in the description that no sizes can make right.
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
		return r.wrong("Rest needs the form EndsOfRows or EndsOfDepth")
	case r.Rest != RestKept && !e.none():
		return r.wrong("Rest cannot be combined with an epilogue")
	case r.Form == EndsOfDepth && e.alongK() != "":
		return r.wrong("scales of %s need records, or a K that the host knows", e.alongK())
	case r.Form != Records:
		return r.checkOperands(e)
	case e.group() > 0 && (r.TransA || r.TransB):
		return r.wrong("with B of %s, neither A nor B may be transposed", e.ScaleB.TypeB(element.BF16))
	case r.TransA && e.GatherRows > 0:
		return r.wrong("transA is set, but GatherRows needs an A that is not transposed")
	}
	return nil
}

// mostRagged bounds the elements that a launch reaches: offsets in items have 32 bits.
const mostRagged = min(math.MaxUint32, maxElements)

func (r *Ragged) wrong(format string, args ...any) error {
	return invalid.Errorf("ragged batch: "+format, args...)
}

// checkOperands checks the places of matrices if sizes are ends.
func (r *Ragged) checkOperands(e *Epilogue) error {
	whole := r.problem()
	if err := e.checkProblem(0, &whole, &endless); err != nil {
		return r.wrong("%w", err)
	}
	if line := elemtype.Line(element.Int4); e.group() > 0 && r.StrideB%line != 0 {
		return r.wrong("stride of B %d is no multiple of %d, 16 bytes of %s", r.StrideB, line,
			e.ScaleB.TypeB(element.BF16))
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
		apart := e.ScatterRows == 0 && !e.Pointers.C // otherwise only the writer of lists or addresses knows
		if m.arg == "C" && apart && m.copies > 1 && m.stride < size {
			return r.wrong("the C of groups overlap: stride %d, each has %d elements", m.stride, size)
		}
	}
	return r.checkLists(e)
}

// checkLists checks the end of the last group's lists.
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

// listsApart returns the distance from each list of Epilogue.lists to that of the next group. With
// EndsOfRows, groups share the rows.
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

// problem returns the batch as one problem, with the first group's B and C.
func (r *Ragged) problem() Problem {
	return Problem{M: r.M, N: r.N, K: r.K, TransA: r.TransA, TransB: r.TransB, Alpha: r.Alpha, Beta: r.Beta,
		A: r.A, B: r.B, C: r.C,
		B2: r.B2, Bias: r.Bias, RowsA: r.RowsA, RowsC: r.RowsC, Weights: r.Weights, Pointers: r.Pointers,
		ScaleA: r.ScaleA, ScaleB: r.ScaleB}
}

// bound returns the bound of ends. Records have none.
func (r *Ragged) bound() *int {
	if r.Form == EndsOfDepth {
		return &r.K
	}
	return &r.M
}

// stride returns the distance from the operand of one group to that of the next, for the operand that each
// group has for its own.
func (r *Ragged) stride() int {
	if r.Form == EndsOfDepth {
		return r.StrideC
	}
	return r.StrideB
}

// Within returns the batch of a run with an extent. Only that many of the M rows exist, or with EndsOfDepth
// only that much of K. Nothing after them is read or written. 0: all of them.
func (r Ragged) Within(extent int) Ragged {
	if extent > 0 {
		*r.bound() = extent
	}
	return r
}

// extents returns the least lengths of the buffers. The description passed check.
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
		own  bool // each group has its own
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

// Batch returns what a run of a plan with the options computes with these sizes: a problem for each group,
// and one more that fills the rows after them if Rest asks for it. refused is the first refused group, or -1.
// It and the groups after it have no rows, or fill their C. The description has a plan, and there are
// ExtentSizes sizes. The result uses the memory of dst if it is large enough.
func (r *Ragged) Batch(dst Batch, sizes []int32, o Options) (b Batch, refused int) {
	refused = -1
	b = dst[:0]
	left := r.M // rows that groups may still have; Records only
	for g := range r.Groups {
		q, ok := r.group(sizes, g, &o)
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

// rest returns the problem that fills all rows, or the C of the first group.
func (r *Ragged) rest() Problem {
	q := r.problem()
	q.K, q.Alpha, q.Beta = 0, Scale(0), r.Rest.beta()
	return q
}

// refused returns the problem of a refused group: an empty one, or one that fills its C.
func (r *Ragged) refused(g int) Problem {
	if r.Form != EndsOfDepth || r.Rest == RestKept {
		return Problem{TransA: r.TransA, TransB: r.TransB}
	}
	q := r.rest()
	q.C.Offset += g * r.StrideC
	return q
}

// group returns the problem of a group, if its sizes fit.
func (r *Ragged) group(sizes []int32, g int, o *Options) (q Problem, ok bool) {
	if r.Form == Records {
		n := o.recordWords()
		return r.record(sizes[g*n:][:n], o)
	}
	e := &o.Epilogue
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

// rowsOf makes q the problem of a group of rows.
func (r *Ragged) rowsOf(q *Problem, g, first, end int, e *Epilogue) {
	q.M = end - first
	switch {
	case e.GatherRows > 0: // any rows of A
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

// depthOf makes q the problem of a group of K.
func (r *Ragged) depthOf(q *Problem, g, first, end int, e *Epilogue) {
	q.K = end - first
	along := func(m *Matrix, rows bool) { // K runs down the rows, or within a row
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

// placeLists sets the beginnings of a group's lists. row is the group's first row, counted over all groups.
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
