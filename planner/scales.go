package planner

import (
	"slices"

	"github.com/batchgemm/batchgemm/internal/elemtype"
	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/internal/invalid"
	"github.com/batchgemm/batchgemm/internal/tile"
	"github.com/batchgemm/batchgemm/planner/element"
)

// Scaling says what has a scale of an operand, by which products are multiplied; "" is nothing.
type Scaling = encoding.Scaling

const (
	PerTensor = encoding.PerTensor // one for A, one for B and one for B2, of each problem
	PerRow    = encoding.PerRow    // each row of A, as stored where rows are gathered; each column of op(B)

	// Of B alone, which then is of element.Int4 while A is of bf16 or fp16, and the words of Rows are those
	// of element.GroupWord: a scale and a zero point for so many k's of each column, one row of as many as B
	// has after the other: word Problem.ScaleB + k/group*B.LD + j is of column j. Neither operand is
	// transposed; B is K x N as element.PackInt4 lays it out, its leading dimension a multiple of 8, its
	// offset one of 32, both in elements as ever, and its addresses, if any, Aligned. K is a multiple of the
	// group. Of tiles whose K steps are no whole groups, none is cut along K: schedules that cut others deal
	// them whole.
	PerGroup64  = encoding.PerGroup64
	PerGroup128 = encoding.PerGroup128

	// Of A and B both, of element.E4M3: A has a scale for each row, as stored where rows are gathered, and
	// each 128 k's, B one for each 128 k's x 128 columns of op(B). With n = ceil(K/128), word Problem.ScaleA
	// + i*n + k/128 is of A[i, k], and word Problem.ScaleB + j/128*n + k/128 of B[k, j]; those of B2 are
	// after all of B. The products of each 128 k's are multiplied by the product of both scales, which is
	// rounded to fp32, and must be a number of it, 0 or no less than 2^-126. Tiles are never cut along K.
	PerBlock = encoding.PerBlock
)

// group is the k's of B that share a scale; 0: B has none by groups.
func (e *Epilogue) group() int { return e.ScaleB.Group() }

// alongK names what shares scales where K has several; "": nothing.
func (e *Epilogue) alongK() string {
	switch {
	case e.group() > 0:
		return "groups"
	case e.kernel().Blocks():
		return "blocks"
	}
	return ""
}

// cutsAt: tiles are cut along K at multiples of so many k's alone, those of a group; 0: nowhere.
func (e *Epilogue) cutsAt() int {
	if e.Gated || e.kernel().Blocks() {
		return 0
	}
	return max(e.group(), 1)
}

// cuttable reports whether tiles of a shape are cut along K where they are at multiples of so many k's.
func cuttable(t *tile.Shape, at int) bool { return at > 0 && t.TK%at == 0 }

// ScalesA is how many words the scales of the A of a problem have.
func (e *Epilogue) ScalesA(p *Problem) int {
	switch e.ScaleA {
	case "":
		return 0
	case PerTensor:
		return e.kernel().ScaleWords()
	}
	return e.storedA(p.M) * e.scalesOfRow(p)
}

// scalesOfRow is how many words those of a row of A have, where rows have any.
func (e *Epilogue) scalesOfRow(p *Problem) int {
	if e.ScaleA == PerBlock {
		return encoding.Blocks(p.K)
	}
	return e.kernel().ScaleWords()
}

// ScalesB is how many words the scales of the B of a problem have, with Gated those of B and after them
// those of B2.
func (e *Epilogue) ScalesB(p *Problem) int {
	if e.Gated {
		return e.scalesOf(p, p.B.LD) + e.scalesOf(p, p.B2.LD)
	}
	return e.scalesOf(p, p.B.LD)
}

// scalesOf is how many words those of a B of a problem with a leading dimension have.
func (e *Epilogue) scalesOf(p *Problem, ld int) int {
	switch group := e.group(); {
	case e.ScaleB == "":
		return 0
	case e.ScaleB == PerRow:
		return p.N * e.kernel().ScaleWords()
	case e.ScaleB == PerBlock:
		return encoding.Blocks(p.N) * encoding.Blocks(p.K)
	case group > 0:
		return p.K / group * ld
	}
	return 1
}

// scaleA and scaleB are the words of Rows with the scales of a tile's first row and column, where those of
// groups begin with that of k.
func (e *Epilogue) scaleA(p *Problem, row int) uint32 {
	if e.kernel().EachRow() {
		return uint32(p.ScaleA + row*e.scalesOfRow(p))
	}
	return uint32(p.ScaleA)
}

func (e *Epilogue) scaleB(p *Problem, k, col int) uint32 {
	switch {
	case e.ScaleB == PerRow:
		return uint32(p.ScaleB + col*e.kernel().ScaleWords())
	case e.group() > 0:
		return uint32(p.ScaleB + k/e.group()*p.B.LD + col)
	case e.ScaleB == PerBlock:
		return uint32(p.ScaleB + col/encoding.Block*encoding.Blocks(p.K))
	}
	return uint32(p.ScaleB)
}

// scaled are the types whose elements may have scales.
var scaled = slices.DeleteFunc(element.Types(), func(t element.Type) bool { return !elemtype.Scaled(t) })

// checkScales fails for scales that are none, or for elements of another type.
func (o *Options) checkScales(d *Device) error {
	e := &o.Epilogue
	if err := o.checkZeros(); err != nil {
		return err
	}
	if e.ScaleA == PerBlock || e.ScaleB == PerBlock {
		return o.checkBlocks(d)
	}
	if e.group() > 0 {
		switch {
		case e.ScaleA != "":
			return invalid.Errorf("A has no scales where those of B are of groups")
		case o.TypeA.Bytes() != 2:
			return invalid.Errorf("scales of groups are for A of %s, not %s",
				elemtype.List([]element.Type{element.BF16, element.F16}, " or "), o.TypeA)
		case o.TypeB != element.Int4:
			return invalid.Errorf("scales of groups are for B of %s, not %s", element.Int4, o.typeB())
		case e.Pointers.B && !e.Pointers.Aligned:
			return invalid.Errorf("addresses of B are not said to be multiples of 16 bytes, which those "+
				"of %s are", element.Int4)
		}
		return nil
	}
	for _, s := range []Scaling{e.ScaleA, e.ScaleB} {
		switch {
		case s == "":
		case s != PerTensor && s != PerRow:
			return invalid.Errorf("unknown scaling %q (known: %s, %s, of both %s, and of B %s, %s)", s,
				PerTensor, PerRow, PerBlock, PerGroup64, PerGroup128)
		case !elemtype.Scaled(o.TypeA):
			return invalid.Errorf("scales are for elements of %s, not %s", elemtype.List(scaled, " or "),
				o.TypeA)
		}
	}
	if o.TypeB == element.Int4 {
		return invalid.Errorf("B of %s needs scales of groups: %s or %s", element.Int4, PerGroup64,
			PerGroup128)
	}
	return nil
}

// checkZeros fails for zero points of what has none, or that nothing would say where they are.
func (o *Options) checkZeros() error {
	switch e := &o.Epilogue; {
	case !e.ZeroA:
	case o.TypeA != element.Int8:
		return invalid.Errorf("zero points of A are for elements of %s, not %s", element.Int8, o.TypeA)
	case e.ScaleA != PerTensor && e.ScaleA != PerRow:
		return invalid.Errorf("zero points of A follow its scales, which are to be %q or %q, not %q",
			PerTensor,
			PerRow, e.ScaleA)
	case e.ScaleB != PerRow:
		return invalid.Errorf("zero points of A multiply sums of columns of B, which follow scales of %q, "+
			"not %q",
			PerRow, e.ScaleB)
	}
	return nil
}

// checkBlocks checks options with scales of blocks, of A or of B.
func (o *Options) checkBlocks(d *Device) error {
	switch e := &o.Epilogue; {
	case e.ScaleA != e.ScaleB:
		return invalid.Errorf("scales of blocks are of A and B both, not %q of A and %q of B", e.ScaleA,
			e.ScaleB)
	case o.TypeA.Whole():
		return invalid.Errorf("scales of blocks are for elements of %s, not %s, whose sums over all of K "+
			"are whole", element.E4M3, o.TypeA)
	case o.TypeA != element.E4M3:
		return invalid.Errorf("scales of blocks are for elements of %s, not %s", element.E4M3, o.TypeA)
	case d != nil && !d.Blocks:
		return invalid.Errorf("%s has no kernels for scales of blocks", d)
	}
	return nil
}

// checkGroups checks what scales of groups ask of a problem.
func (e *Epilogue) checkGroups(i int, p *Problem) error {
	group := e.group()
	switch {
	case group == 0 || p.M == 0 || p.N == 0:
		return nil
	case p.TransA:
		return problemError(i, "transA", "is set, but where B is of %s A is not transposed", element.Int4)
	case p.TransB:
		return problemError(i, "transB", "is set, but B of %s is not transposed", element.Int4)
	case p.K%group != 0:
		return problemError(i, "K", "%d is no multiple of the group of %d that share a scale of B", p.K,
			group)
	}
	for _, m := range [...]struct {
		arg, ld string
		Matrix
		used bool
	}{{"B", "ldb", p.B, true}, {"B2", "ldb2", p.B2, e.Gated}} {
		switch {
		case !m.used:
		case m.LD%element.Int4.PerWord() != 0:
			return problemError(i, m.ld, "%d is no multiple of %d, as that of %s is", m.LD,
				element.Int4.PerWord(), element.Int4)
		case m.Offset%elemtype.Line(element.Int4) != 0:
			return problemError(i, m.arg, "offset %d is no multiple of %d, 16 bytes of %s", m.Offset,
				elemtype.Line(element.Int4), element.Int4)
		}
	}
	return nil
}
