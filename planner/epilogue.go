package planner

import (
	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/internal/invalid"
)

// Activation is a function that is applied to each element of C; "" is none.
type Activation = encoding.Activation

const (
	ReLU = encoding.ReLU // v, or 0 if v < 0
	GELU = encoding.GELU // 0.5*v*(1 + tanh(sqrt(2/pi)*(v + 0.044715*v^3)))
	SiLU = encoding.SiLU // v / (1 + exp(-v))
)

// Epilogue describes what a plan does beside alpha and beta: what happens to elements of C before they are
// rounded, in fp32, and by which indices rows of A and C are found. The zero value is no epilogue. op(A) is
// M x K and C is M x N, as in every Problem:
//
//	v = alpha*op(A)*op(B) + beta*C + bias[j]
//	C = weight[i] * act(v)
//
//	g = alpha*op(A)*op(B) + bias[j]         with Gated
//	u = alpha*op(A)*op(B2) + bias[N+j]
//	C = weight[i] * act(g) * u
//
// With scales, alpha*op(A)*op(B) is multiplied by the scale of row i of A, then by the scale of column j of
// op(B) or op(B2). Products that overflow fp32 on the way stay infinite. With zero points, op(A)*op(B) -
// zero[i]*sum[j] takes the place of op(A)*op(B).
//
// Native kernels (CUDA, HIP) with an epilogue exist for fewer tile shapes (KernelFacts.Epilogues). They use
// no clusters, and no tf32 products with ComputeTF32.
//
// Row indices, weights, scales and addresses are all in the buffer Rows of 32-bit words; weights and scales
// are stored as the bits of an fp32. If K or alpha is 0, products are 0 whatever the scales are, and the
// rest of the epilogue still applies. NaN stays NaN; GELU and SiLU of -Inf are 0.
type Epilogue struct {
	Activation Activation `json:"activation,omitempty"`
	// Bias adds a vector to every row of C. Problem.Bias is its first element in the buffer Bias, whose type
	// is that of C. It has N elements, or 2*N with Gated.
	Bias bool `json:"bias,omitempty"`
	// Gated adds a second product, with B2 in place of B. It multiplies the first product after the
	// activation. Beta must be 0. Gated tiles are not split along K; data-parallel replaces schedules that
	// would split them.
	Gated bool `json:"gated,omitempty"`
	// GatherRows is the number of rows of A as stored. A must not be transposed. Row i of op(A) is row
	// Rows[Problem.RowsA+i] of A. If that index is outside [0, GatherRows), for example -1, the row is zero.
	// 0: no gather; op(A) is A.
	GatherRows int `json:"gather_rows,omitempty"`
	// ScatterRows is the number of rows of C as stored. Row i of the result becomes row
	// Rows[Problem.RowsC+i] of C. If that index is outside [0, ScatterRows), the row is not stored, and its
	// C is not read. Two rows of a run must not be stored to the same elements; this is not checked. 0: no
	// scatter.
	ScatterRows int `json:"scatter_rows,omitempty"`
	// Weights multiplies row i by the fp32 whose bits are in Rows[Problem.Weights+i].
	Weights bool `json:"weights,omitempty"`
	// ScaleA and ScaleB say which scales A and B have. Only 8-bit elements have scales, except those of
	// groups (PerGroup64, PerGroup128). The scales are the bits of fp32 numbers in Rows.
	//
	// Scales of A start at Problem.ScaleA. There is one, or M of them, by row of op(A). With GatherRows
	// there are GatherRows, by row of A, and zero rows have scale 1. Scales of B start at Problem.ScaleB.
	// There is one, or N; with groups there are B.LD for each group. With Gated, those of B2 follow. With
	// blocks (PerBlock) both have more.
	ScaleA Scaling `json:"scale_a,omitempty"`
	ScaleB Scaling `json:"scale_b,omitempty"`
	// ZeroA gives Int8 elements of A a zero point, an int32 from -128 to 127 that is subtracted from them.
	// It follows each scale of A in Rows, by tensor or by row. B then has a scale for each column, and each
	// is followed by the sum of its column, an int32 (element.SumColumns). Scales are therefore two words
	// apart, and each operand has twice as many words. The products of a zero row, as of a row that is not
	// gathered, are 0; its zero point is not used.
	ZeroA bool `json:"zero_a,omitempty"`
	// Pointers says which operands of each problem have an address of their own.
	Pointers Pointers `json:"pointers,omitzero"`
}

// none reports whether there is no epilogue.
func (e *Epilogue) none() bool { return *e == Epilogue{} }

// kernel returns the part of an epilogue that kernels are compiled for. Items have the rest.
func (e *Epilogue) kernel() encoding.Epilogue {
	return encoding.Epilogue{Activation: e.Activation, Bias: e.Bias, Gated: e.Gated, Gather: e.GatherRows > 0,
		Scatter: e.ScatterRows > 0, Weights: e.Weights,
		Pointers: e.Pointers, ScaleA: e.ScaleA, ScaleB: e.ScaleB, Pairs: e.ZeroA, Zeros: e.ZeroA}
}

// UsesRows reports whether runs need the buffer Rows.
func (e *Epilogue) UsesRows() bool {
	return e.GatherRows > 0 || e.ScatterRows > 0 || e.Weights || e.kernel().Scaled() || e.Pointers.Any()
}

// Writes reports whether a problem changes C. C = 1*C does not, but an epilogue may change C then too.
func (e *Epilogue) Writes(p *Problem) bool {
	return p.writes() || p.M > 0 && p.N > 0 && !e.none()
}

// check fails for an epilogue that no problem can have, or that the device does not support; nil: any
// device.
func (e *Epilogue) check(d *Device) error {
	switch {
	case e.none():
		return nil
	case checkActivation(e.Activation) != nil:
		return checkActivation(e.Activation)
	case e.GatherRows < 0 || e.GatherRows > MaxDim:
		return invalid.Errorf("%d rows of A to gather from are not in [0, %d]", e.GatherRows, MaxDim)
	case e.ScatterRows < 0 || e.ScatterRows > MaxDim:
		return invalid.Errorf("%d rows of C to scatter to are not in [0, %d]", e.ScatterRows, MaxDim)
	case d != nil && !d.Epilogues:
		return invalid.Errorf("%s has no kernels with an epilogue", d)
	}
	return checkPointers(e.Pointers, d)
}

// storedA and storedC return how many stored rows a problem with that many rows can reach.
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

// checkProblem checks what a problem has for an epilogue beside A, B and C, in operands of that many
// elements.
func (e *Epilogue) checkProblem(i int, p *Problem, have *Lengths) error {
	switch {
	case e.Gated && p.Beta != 0:
		return problemError(i, "beta", "%g is not 0, but gated units do not read C", p.Beta)
	case e.GatherRows > 0 && p.TransA:
		return problemError(i, "transA", "is set, but GatherRows needs an A that is not transposed")
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

// list is a vector that a problem has for an epilogue.
type list struct {
	arg           string
	first, length int
	used          bool
	bias          bool // elements of Bias, otherwise words of Rows
}

// lists returns the lists of a problem.
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

// Biases returns how many elements the bias of n columns has.
func (e *Epilogue) Biases(n int) int { return n * e.kernel().Products() }

// Lengths are the lengths of operands, in elements; Rows is in 32-bit words. B2, Bias and Rows belong to
// epilogues.
type Lengths struct{ A, B, C, B2, Bias, Rows int }

// of returns the length of the operand that holds a list.
func (x *Lengths) of(l *list) *int {
	if l.bias {
		return &x.Bias
	}
	return &x.Rows
}

// Lengths returns the least lengths of operands for a plan with an epilogue, which may be none. The batch
// must have passed Check.
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

// addLists adds what a problem reaches for an epilogue beside A, B and C: B2 and lists.
func (x *Lengths) addLists(p *Problem, e *Epilogue) {
	if p.depth() > 0 && e.Gated && !e.Pointers.B {
		x.B2 = max(x.B2, p.B2.end(p.ShapeB()))
	}
	for _, l := range e.lists(p) { // RowsA counts even if K is 0: kernels look for rows that do not exist
		if l.used {
			length := x.of(&l)
			*length = max(*length, l.first+l.length)
		}
	}
}

func checkActivation(a Activation) error {
	switch a {
	case "", ReLU, GELU, SiLU:
		return nil
	}
	return invalid.Errorf("unknown activation %q (known: %s, %s, %s)", a, ReLU, GELU, SiLU)
}
