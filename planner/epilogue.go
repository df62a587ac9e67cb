package planner

import (
	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/internal/invalid"
)

// Activation is a function of each element of C; "" is none.
type Activation = encoding.Activation

const (
	ReLU = encoding.ReLU // v, or 0 where v < 0
	GELU = encoding.GELU // 0.5*v*(1 + tanh(sqrt(2/pi)*(v + 0.044715*v^3)))
	SiLU = encoding.SiLU // v / (1 + exp(-v))
)

// Epilogue is what a plan does with the problems of a batch beside alpha and beta: to elements
// of C before they are rounded, in fp32, and by which rows it finds A and C. The zero value is
// none of it. Of a problem, op(A) is M x K still, and C M x N:
//
//	v = alpha*op(A)*op(B) + beta*C + bias[j]
//	C = weight[i] * act(v)
//
//	g = alpha*op(A)*op(B) + bias[j]         with Gated
//	u = alpha*op(A)*op(B2) + bias[N+j]
//	C = weight[i] * act(g) * u
//
// With scales alpha*op(A)*op(B) is multiplied by the one of row i of A, and then by the one of column j of
// op(B), or of B2. What leaves the range of fp32 on the way does not come back. With zero points op(A)*op(B)
// is op(A)*op(B) - zero[i]*sum[j] before that.
//
// Where kernels are native (CUDA, HIP), those for epilogues are of fewer tile shapes
// (KernelFacts.Epilogues), none of which takes clusters or, with ComputeTF32, tf32 products.
//
// All indices are in Rows, one buffer of 32-bit words, and so are weights and scales, as bits of fp32, and
// addresses. Where K or alpha is 0 the products are 0, whatever the scales are, and what follows is done all
// the same. NaN stays NaN; GELU and SiLU of -Inf are 0.
type Epilogue struct {
	Activation Activation `json:"activation,omitempty"`
	// Bias: Problem.Bias is the first of N elements of the buffer Bias, of C's type, which are
	// added to every row; with Gated of 2*N.
	Bias bool `json:"bias,omitempty"`
	// Gated: a second product, with B2 in place of B, multiplies the first after its
	// activation. Beta must be 0. Its tiles are never cut along K: of schedules that cut them
	// data-parallel takes the place.
	Gated bool `json:"gated,omitempty"`
	// GatherRows is the number of rows that A has, as stored, which is not transposed: row i
	// of op(A) is row Rows[Problem.RowsA+i] of A. Where that is not in [0, GatherRows), as -1,
	// the row is of zeros. 0: the rows of A are those of op(A).
	GatherRows int `json:"gather_rows,omitempty"`
	// ScatterRows is the number of rows that C has, as stored: row i of the result is row
	// Rows[Problem.RowsC+i] of C. Where that is not in [0, ScatterRows) it is not stored, and
	// no C read. No two rows of a run are stored to the same elements, which nobody checks.
	// 0: the rows of C are those of the result.
	ScatterRows int `json:"scatter_rows,omitempty"`
	// Weights: row i is multiplied by the number whose bits are Rows[Problem.Weights+i].
	Weights bool `json:"weights,omitempty"`
	// ScaleA and ScaleB are the scales of A and of B, of elements of 8 bits alone, but for those of groups
	// (PerGroup128). Those of A are the numbers whose bits are in Rows from Problem.ScaleA on: one; or M of
	// them, by row of op(A); or where rows are gathered GatherRows, by row of A, and a row of zeros has 1.
	// Those of B are from Problem.ScaleB on: one, or N; or of groups B.LD for each; with Gated those of B2
	// after them. Of blocks (PerBlock) both have more.
	ScaleA Scaling `json:"scale_a,omitempty"`
	ScaleB Scaling `json:"scale_b,omitempty"`
	// ZeroA: elements of A, of Int8, stand for their distance from a zero point, an int32 from -128 to 127,
	// which is the word of Rows after each scale of A, by tensor or row. B has a scale for each column, and
	// after each the sum of the column's elements, an int32 (element.SumColumns). Scales are thus two words
	// apart, and each operand has twice as many words. A row of zeros, as where none is gathered, is one of
	// products 0, and its zero point has no part.
	ZeroA bool `json:"zero_a,omitempty"`
	// Pointers are the operands that each problem has at an address of its own.
	Pointers Pointers `json:"pointers,omitzero"`
}

// none reports whether there is no epilogue.
func (e *Epilogue) none() bool { return *e == Epilogue{} }

// kernel is what kernels know of it: items have the rest.
func (e *Epilogue) kernel() encoding.Epilogue {
	return encoding.Epilogue{Activation: e.Activation, Bias: e.Bias, Gated: e.Gated, Gather: e.GatherRows > 0,
		Scatter: e.ScatterRows > 0, Weights: e.Weights,
		Pointers: e.Pointers, ScaleA: e.ScaleA, ScaleB: e.ScaleB, Pairs: e.ZeroA, Zeros: e.ZeroA}
}

// UsesRows reports whether runs have the buffer Rows.
func (e *Epilogue) UsesRows() bool {
	return e.GatherRows > 0 || e.ScatterRows > 0 || e.Weights || e.kernel().Scaled() || e.Pointers.Any()
}

// Writes is Problem.Writes with an epilogue, which changes C = 1*C too.
func (e *Epilogue) Writes(p *Problem) bool {
	return p.Writes() || p.M > 0 && p.N > 0 && !e.none()
}

// check fails for an epilogue that no problem can have, or the device; nil: any device.
func (e *Epilogue) check(d *Device) error {
	switch {
	case e.none():
		return nil
	case e.Activation != "" && e.Activation != ReLU && e.Activation != GELU && e.Activation != SiLU:
		return invalid.Errorf("unknown activation %q (known: %s, %s, %s)", e.Activation, ReLU, GELU, SiLU)
	case e.GatherRows < 0 || e.GatherRows > MaxDim:
		return invalid.Errorf("%d rows of A to gather from are not in [0, %d]", e.GatherRows, MaxDim)
	case e.ScatterRows < 0 || e.ScatterRows > MaxDim:
		return invalid.Errorf("%d rows of C to scatter to are not in [0, %d]", e.ScatterRows, MaxDim)
	case d != nil && !d.Epilogues:
		return invalid.Errorf("%s has no kernels for epilogues", d)
	}
	return checkPointers(e.Pointers, d)
}

// storedA and storedC are how many rows matrices have that a problem of so many rows reaches.
func (e *Epilogue) storedA(rows int) int {
	if e.GatherRows > 0 {
		return e.GatherRows
	}
	return rows
}

func (e *Epilogue) storedC(rows int) int {
	if e.ScatterRows > 0 {
		return e.ScatterRows
	}
	return rows
}

// checkProblem checks what a problem has for an epilogue beside A, B and C, in operands of so many elements.
func (e *Epilogue) checkProblem(i int, p *Problem, have *Lengths) error {
	switch {
	case e.Gated && p.Beta != 0:
		return problemError(i, "beta", "%g is not 0, and gated units read no C", p.Beta)
	case e.GatherRows > 0 && p.TransA:
		return problemError(i, "transA", "is set, but rows are gathered of an A that is not transposed")
	}
	if e.Gated {
		rows, cols := p.ShapeB()
		if err := checkMatrix(i, "B2", "ldb2", p.B2, rows, cols, have.B2, p.Reads()); err != nil {
			return err
		}
	}
	if err := e.checkReach(i, p); err != nil {
		return err
	}
	if err := e.checkGroups(i, p); err != nil {
		return err
	}
	for _, l := range e.lists(p) {
		switch length := *have.of(&l); {
		case !l.used:
		case l.first < 0:
			return problemError(i, l.arg, "offset %d is negative", l.first)
		case l.first > mostRagged-l.length:
			return problemError(i, l.arg, "do not fit: their last offset needs more than 32 bits")
		case p.M > 0 && p.N > 0 && l.first > length-l.length:
			need := "need words"
			if l.bias {
				need = "needs elements"
			}
			return problemError(i, l.arg, "%s [%d, %d) of a buffer of %d", need, l.first, l.first+l.length,
				length)
		}
	}
	return nil
}

// list is what a problem has for an epilogue beside matrices.
type list struct {
	arg           string
	first, length int
	used          bool
	bias          bool // elements of Bias, else words of Rows
}

// lists are those of a problem.
func (e *Epilogue) lists(p *Problem) [7]list {
	return [...]list{
		{"bias", p.Bias, e.Biases(p.N), e.Bias, true},
		{"rows of A", p.RowsA, p.M, e.GatherRows > 0, false},
		{"rows of C", p.RowsC, p.M, e.ScatterRows > 0, false},
		{"weights", p.Weights, p.M, e.Weights, false},
		{"pointers", p.Pointers, encoding.PointerWords, e.Pointers.Any(), false},
		{"scales of A", p.ScaleA, e.ScalesA(p), e.ScaleA != "", false},
		{"scales of B", p.ScaleB, e.ScalesB(p), e.ScaleB != "", false},
	}
}

// Biases is how many elements the bias of n columns has.
func (e *Epilogue) Biases(n int) int { return n * e.kernel().Products() }

// Lengths are the elements of operands, as buffers or slices have them or need them: of A, B and C, and
// of what epilogues have beside, of which Rows has words.
type Lengths struct{ A, B, C, B2, Bias, Rows int }

// of is the length of the operand that has a list.
func (x *Lengths) of(l *list) *int {
	if l.bias {
		return &x.Bias
	}
	return &x.Rows
}

// Lengths returns what operands need at least for a plan with an epilogue. The batch must have passed its
// check.
func (b Batch) Lengths(e Epilogue) (x Lengths) {
	withEpilogue := !e.none()
	for i := range b {
		p := &b[i]
		if p.M == 0 || p.N == 0 {
			continue
		}
		if p.depth() > 0 && !e.Pointers.A {
			rows, cols := p.ShapeA()
			x.A = max(x.A, p.A.end(e.storedA(rows), cols))
		}
		if p.depth() > 0 && !e.Pointers.B {
			x.B = max(x.B, p.B.end(p.ShapeB()))
		}
		if !e.Pointers.C {
			x.C = max(x.C, p.C.end(e.storedC(p.M), p.N))
		}
		if withEpilogue {
			x.addLists(p, &e)
		}
	}
	return x
}

// addLists adds what a problem reaches for an epilogue beside A, B and C: B2, and lists.
func (x *Lengths) addLists(p *Problem, e *Epilogue) {
	if p.depth() > 0 && e.Gated && !e.Pointers.B {
		x.B2 = max(x.B2, p.B2.end(p.ShapeB()))
	}
	for _, l := range e.lists(p) { // rows of A too whatever K is: kernels look for those that are none
		if l.used {
			length := x.of(&l)
			*length = max(*length, l.first+l.length)
		}
	}
}
